//! `gettxout`, and coins of the tip by their outpoints.

use godwit_chain::{CoinAtTip, StoredData};
use godwit_primitives::{Coin, OutPoint, Txid};
use godwit_rpc::{Json, RpcError, code};
use godwit_store::ChainPoint;

use super::{Call, parse};
use crate::script::script_json;
use crate::seam::Seam;

/// Where these coins are at the tip, and the tip.
fn places(node: &Seam, outpoints: Vec<OutPoint>) -> Result<(Vec<CoinAtTip>, ChainPoint), RpcError> {
    node.ask(move |node| {
        let (stored, tip) = (StoredData::of(node.chain()), node.chain().tip_point());
        (outpoints.iter().map(|outpoint| stored.coin(outpoint)).collect(), tip)
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

/// Each of these coins that exists at the tip, and the tip.
pub(crate) fn coins(
    node: &Seam,
    outpoints: Vec<OutPoint>,
) -> Result<(Vec<Option<Coin>>, ChainPoint), RpcError> {
    let (places, tip) = places(node, outpoints)?;
    let coins = places.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok((coins, tip))
}

/// The first of these coins that exists at the tip, and the tip.
pub(super) fn first_coin(
    node: &Seam,
    outpoints: Vec<OutPoint>,
) -> Result<(Option<Coin>, ChainPoint), RpcError> {
    let (places, tip) = places(node, outpoints)?;
    for place in places {
        let coin = read(place)?;
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
    let outpoint = OutPoint { txid, vout };
    let (place, parent, tip) = call.node.ask(move |node| {
        let outbox = node.peers().outbox();
        let is_spent = with_outbox && outbox.is_spent(&outpoint);
        let place = (!is_spent).then(|| StoredData::of(node.chain()).coin(&outpoint));
        let parent = outbox.get(&outpoint.txid).filter(|_| with_outbox).cloned();
        (place, parent, node.chain().tip_point())
    })?;
    let Some(place) = place else { return Ok(Json::Null) };
    let unconfirmed = parent.as_ref().and_then(|parent| parent.view().output(vout as usize));
    if let Some(output) = unconfirmed {
        return Ok(Json::object([
            ("bestblock", tip.hash.to_string().into()),
            ("confirmations", 0.into()),
            ("value", Json::amount(output.value)),
            ("scriptPubKey", script_json(output.script_pubkey, call.network(), true)),
            ("coinbase", false.into()),
        ]));
    }
    let Some(coin) = read(place)? else { return Ok(Json::Null) };
    Ok(Json::object([
        ("bestblock", tip.hash.to_string().into()),
        ("confirmations", (i64::from(tip.height) - i64::from(coin.height) + 1).into()),
        ("value", Json::amount(coin.value)),
        ("scriptPubKey", script_json(&coin.script_pubkey, call.network(), true)),
        ("coinbase", coin.coinbase.into()),
    ]))
}
