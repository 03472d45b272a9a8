//! The outputs of given scripts that a block or the outbox creates and spends.

use std::collections::{HashMap, HashSet};

use godwit_primitives::{Amount, InputView, Txid};
use godwit_rpc::{Json, RpcError, code};
use godwit_store::ChainPoint;

use super::broadcast::outbox_with_coins;
use super::search::{Kept, too_large};
use super::stored::{decoded, undo};
use super::{BlockSource, Call, cost};
use crate::script::script_json;

/// Coins that are told at once.
const MAX_EVENTS: usize = 50_000;

/// Memory of one in the answer, beside its script.
const PER_EVENT: usize = 2_500;

/// The transaction whose event it is, and its block.
struct EventSource {
    /// None of what waits for one.
    block: Option<ChainPoint>,
    txid: Txid,
}

/// What is told of every event.
fn event(kind: &'static str, amount: Amount, source: &EventSource) -> Json {
    let mut json = Json::object([("type", kind.into()), ("amount", Json::amount(amount))]);
    if let Some(block) = source.block {
        json.push("blockhash", block.hash.to_string());
        json.push("height", block.height);
    }
    json
}

fn spend(
    source: &EventSource,
    amount: Amount,
    (vin, input): (usize, InputView<'_>),
    script: Json,
) -> Json {
    let mut json = event("spend", amount, source);
    json.push("spend_txid", source.txid.to_string());
    json.push("spend_vin", vin);
    json.push("prevout_txid", input.prevout.txid.to_string());
    json.push("prevout_vout", input.prevout.vout);
    json.push("prevout_spk", script);
    json
}

fn receive(source: &EventSource, amount: Amount, vout: usize, script: Json) -> Json {
    let mut json = event("receive", amount, source);
    json.push("txid", source.txid.to_string());
    json.push("vout", vout);
    json.push("output_spk", script);
    json
}

fn check_count(events: usize) -> Result<(), RpcError> {
    match events > MAX_EVENTS {
        true => Err(too_large("Too much activity: look for less at once")),
        false => Ok(()),
    }
}

/// Adds what a block does (Core `getdescriptoractivity`): of each transaction what it spends, and then what
/// it creates.
pub(super) fn of_block(
    call: &mut Call<'_>,
    (point, source): (ChainPoint, &BlockSource),
    wanted: &HashSet<&[u8]>,
    kept: &mut Kept,
    events: &mut Vec<Json>,
) -> Result<(), RpcError> {
    let misc = |text: &str| RpcError::new(code::MISC_ERROR, text);
    let of_reading = source.size() * cost::DECODED + source.undo_size() * cost::OF_RECORD;
    call.room.grow(of_reading)?;
    let block = decoded(call.read(source)?)?;
    let spent = undo(source).map_err(|_| misc("Can't read undo data from disk"))?;
    let spent = match (spent, source) {
        (Some(spent), _) => spent,
        (None, BlockSource::Genesis) => godwit_store::BlockUndo::default(),
        (None, BlockSource::Stored(..)) => return Err(misc("Undo data not available")),
    };
    let network = call.network();
    let mut of_block = Vec::new();
    let mut spent = spent.transactions();
    for (n, tx) in block.view().txs().enumerate() {
        let event_source = EventSource { block: Some(point), txid: tx.txid() };
        let coins = if n == 0 { &[][..] } else { spent.next().unwrap_or_default() };
        for (input, coin) in tx.inputs().enumerate().zip(coins) {
            if wanted.contains(&coin.script_pubkey[..]) {
                kept.add(call, PER_EVENT + cost::locking(&coin.script_pubkey))?;
                let script = script_json(&coin.script_pubkey, network, true);
                of_block.push(spend(&event_source, coin.value, input, script));
            }
        }
        for (vout, output) in tx.outputs().enumerate() {
            if wanted.contains(output.script_pubkey) {
                kept.add(call, PER_EVENT + cost::locking(output.script_pubkey))?;
                let script = script_json(output.script_pubkey, network, true);
                of_block.push(receive(&event_source, output.value, vout, script));
            }
        }
        check_count(events.len() + of_block.len())?;
    }
    call.room.shrink_to(call.room.bytes() - of_reading);
    events.append(&mut of_block);
    Ok(())
}

/// Adds what the transactions of the outbox do, as Core tells it of its mempool.
pub(super) fn of_outbox(
    call: &mut Call<'_>,
    wanted: &HashSet<&[u8]>,
    kept: &mut Kept,
    events: &mut Vec<Json>,
) -> Result<(), RpcError> {
    let (outbox, coins) = outbox_with_coins(call)?;
    let network = call.network();
    let own: HashMap<Txid, _> = outbox.iter().map(|tx| (tx.txid, tx.view())).collect();
    for tx in &outbox {
        let event_source = EventSource { block: None, txid: tx.txid };
        for (vin, input) in tx.view().inputs().enumerate() {
            let prevout = &input.prevout;
            let of_own = || own.get(&prevout.txid)?.output(prevout.vout as usize);
            let (amount, script) = match coins.get(prevout) {
                Some(coin) => (coin.value, &coin.script_pubkey[..]),
                None => match of_own() {
                    Some(output) => (output.value, output.script_pubkey),
                    // The block that created it was left.
                    None => continue,
                },
            };
            if wanted.contains(script) {
                kept.add(call, PER_EVENT + cost::locking(script))?;
                let json = script_json(script, network, true);
                events.push(spend(&event_source, amount, (vin, input), json));
            }
        }
        for (vout, output) in tx.view().outputs().enumerate() {
            if wanted.contains(output.script_pubkey) {
                kept.add(call, PER_EVENT + cost::locking(output.script_pubkey))?;
                let json = script_json(output.script_pubkey, network, true);
                events.push(receive(&event_source, output.value, vout, json));
            }
        }
        check_count(events.len())?;
    }
    Ok(())
}
