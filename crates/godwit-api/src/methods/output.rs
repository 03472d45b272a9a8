//! One unspent output.

use godwit_chain::{CoinAtTip, Places};
use godwit_primitives::{Coin, OutPoint, Txid};
use godwit_rpc::{Json, RpcError, code};
use godwit_store::ChainPoint;

use super::{Call, parse};
use crate::script::script_json;
use crate::seam::Seam;

/// A coin at the tip, and the tip.
pub(super) fn coin(
    node: &Seam,
    outpoint: OutPoint,
) -> Result<(Option<Coin>, ChainPoint), RpcError> {
    let (place, tip) =
        node.ask(move |node| (Places::of(node.chain()).coin(&outpoint), node.chain().tip_point()))?;
    let coin = match place {
        CoinAtTip::Known(coin) => coin,
        CoinAtTip::Below(below) => below.read().map_err(|error| {
            log::error!("A coin cannot be read: {error}");
            RpcError::new(code::INTERNAL_ERROR, "Unable to read UTXO set")
        })?,
    };
    Ok((coin, tip))
}

pub(super) fn unspent(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let txid: Txid = parse::hash(call.arg(0), "txid")?;
    let vout: u32 = call.arg(1).as_integer()?;
    parse::flag(call.arg(2), true)?;
    let (coin, tip) = coin(&call.node, OutPoint { txid, vout })?;
    let Some(coin) = coin else { return Ok(Json::Null) };
    Ok(Json::object([
        ("bestblock", tip.hash.to_string().into()),
        ("confirmations", (i64::from(tip.height) - i64::from(coin.height) + 1).into()),
        ("value", Json::amount(coin.value)),
        ("scriptPubKey", script_json(&coin.script_pubkey, call.network(), true)),
        ("coinbase", coin.coinbase.into()),
    ]))
}
