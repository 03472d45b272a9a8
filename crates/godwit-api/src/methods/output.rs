//! `gettxout`, and coins by outpoint: those of the tip, or those that result when the outbox is applied to
//! them.

use std::sync::Arc;

use godwit_chain::{CoinAtTip, StoredData};
use godwit_p2p::OutboxTx;
use godwit_primitives::{Coin, OutPoint, Txid};
use godwit_rpc::{Json, RpcError, code};
use godwit_store::ChainPoint;

use super::{Call, parse};
use crate::script::script_json;
use crate::seam::{NodeState, Seam};

/// The height of coins that are in no block (Core `MEMPOOL_HEIGHT`).
const OUTBOX_HEIGHT: u32 = 0x7fff_ffff;

/// Where a coin is.
enum Place {
    /// Nowhere: a transaction of the outbox spends it.
    Spent,
    /// An output of a transaction of the outbox, if that has so many.
    Outbox(Arc<OutboxTx>, u32),
    Chain(CoinAtTip),
}

impl Place {
    fn of(node: &dyn NodeState, outpoint: &OutPoint, with_outbox: bool) -> Self {
        let outbox = node.peers().outbox();
        if with_outbox && outbox.is_spent(outpoint) {
            return Self::Spent;
        }
        match outbox.get(&outpoint.txid).filter(|_| with_outbox) {
            Some(tx) => Self::Outbox(Arc::clone(tx), outpoint.vout),
            None => Self::Chain(StoredData::of(node.chain()).coin(outpoint)),
        }
    }

    fn read(self) -> Result<Option<Coin>, RpcError> {
        match self {
            Self::Spent => Ok(None),
            Self::Outbox(tx, vout) => Ok(tx.view().output(vout as usize).map(|output| Coin {
                value: output.value,
                script_pubkey: output.script_pubkey.into(),
                height: OUTBOX_HEIGHT,
                coinbase: false,
            })),
            Self::Chain(place) => read(place),
        }
    }
}

/// Where these coins are, and the tip.
fn places(
    node: &Seam,
    outpoints: Vec<OutPoint>,
    with_outbox: bool,
) -> Result<(Vec<Place>, ChainPoint), RpcError> {
    node.ask(move |node| {
        let place = |outpoint| Place::of(node, outpoint, with_outbox);
        (outpoints.iter().map(place).collect(), node.chain().tip_point())
    })
}

pub(super) fn read(place: CoinAtTip) -> Result<Option<Coin>, RpcError> {
    match place {
        CoinAtTip::Known(coin) => Ok(coin),
        CoinAtTip::Below(below) => below.read().map_err(|error| {
            log::error!("A coin cannot be read: {error}");
            RpcError::new(code::INTERNAL_ERROR, "Unable to read UTXO set")
        }),
    }
}

/// Each of these coins that exists at the tip, and the tip; with the outbox, as it makes them.
pub(crate) fn coins(
    node: &Seam,
    outpoints: Vec<OutPoint>,
    with_outbox: bool,
) -> Result<(Vec<Option<Coin>>, ChainPoint), RpcError> {
    let (places, tip) = places(node, outpoints, with_outbox)?;
    let coins = places.into_iter().map(Place::read).collect::<Result<_, _>>()?;
    Ok((coins, tip))
}

/// The first of these coins that exists at the tip, and the tip.
pub(super) fn first_coin(
    node: &Seam,
    outpoints: Vec<OutPoint>,
) -> Result<(Option<Coin>, ChainPoint), RpcError> {
    let (places, tip) = places(node, outpoints, false)?;
    for place in places {
        let coin = place.read()?;
        if coin.is_some() {
            return Ok((coin, tip));
        }
    }
    Ok((None, tip))
}

pub(super) fn unspent(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let txid: Txid = parse::hash(call.arg(0), "txid")?;
    let vout: u32 = call.arg(1).as_integer()?;
    let with_outbox = parse::flag(call.arg(2), true)?;
    let (coins, tip) = coins(&call.node, vec![OutPoint { txid, vout }], with_outbox)?;
    let Some(coin) = coins.into_iter().flatten().next() else { return Ok(Json::Null) };
    let confirmations = match coin.height {
        OUTBOX_HEIGHT => 0,
        height => i64::from(tip.height) - i64::from(height) + 1,
    };
    Ok(Json::object([
        ("bestblock", tip.hash.to_string().into()),
        ("confirmations", confirmations.into()),
        ("value", Json::amount(coin.value)),
        ("scriptPubKey", script_json(&coin.script_pubkey, call.network(), true)),
        ("coinbase", coin.coinbase.into()),
    ]))
}
