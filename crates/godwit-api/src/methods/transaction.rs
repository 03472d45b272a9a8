//! `getrawtransaction` and `decoderawtransaction`, and a transaction as JSON.

use godwit_primitives::{BlockHash, Coin, Network, TxView, Txid, money_range};
use godwit_rpc::{Json, RpcError, code};

use super::headers::HeaderFacts;
use super::indexes::{self, FoundTransaction};
use super::{Call, Missing, block_source, cost, mempool, parse, stored};
use crate::script::{Op, Ops, asm_of_script_sig, script_json};

/// What is told of the outputs that a transaction spends, where they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// What they leave as a fee.
    Fee,
    /// They themselves as well.
    Prevouts,
}

/// A transaction (Core `TxToUniv`), perhaps with the coins that it spends.
pub(super) fn transaction(
    tx: TxView<'_>,
    network: Network,
    spent: Option<&[Coin]>,
    detail: Detail,
    with_hex: bool,
) -> Json {
    let mut json = Json::object([
        ("txid", tx.txid().to_string().into()),
        ("hash", tx.wtxid().to_string().into()),
        ("version", tx.version().into()),
        ("size", tx.total_size().into()),
        ("vsize", tx.weight().div_ceil(4).into()),
        ("weight", tx.weight().into()),
        ("locktime", tx.lock_time().into()),
    ]);
    json.push("vin", inputs(tx, network, spent.filter(|_| detail == Detail::Prevouts)));
    let outputs = tx.outputs().enumerate().map(|(n, output)| {
        Json::object([
            ("value", Json::amount(output.value)),
            ("n", n.into()),
            ("scriptPubKey", script_json(output.script_pubkey, network, true)),
        ])
    });
    json.push("vout", outputs.collect::<Json>());
    if let Some(spent) = spent {
        let paid: i64 = spent.iter().map(|coin| coin.value).sum();
        let fee = paid - tx.outputs().map(|output| output.value).sum::<i64>();
        if money_range(fee) {
            json.push("fee", Json::amount(fee));
        }
    }
    if with_hex {
        json.push("hex", Json::hex(tx.bytes()));
    }
    json
}

/// One of a block, or of none, as it is told without any coins (Core `TxToUniv` with a hash).
pub(crate) fn in_block(tx: TxView<'_>, block: Option<BlockHash>, network: Network) -> Json {
    let mut json = transaction(tx, network, None, Detail::Fee, false);
    if let Some(block) = block {
        json.push("blockhash", block.to_string());
    }
    json.push("hex", Json::hex(tx.bytes()));
    json
}

fn inputs(tx: TxView<'_>, network: Network, spent: Option<&[Coin]>) -> Json {
    let is_coinbase = tx.is_coinbase();
    let mut witnesses = tx.witnesses();
    let input = |(n, input): (usize, godwit_primitives::InputView<'_>)| {
        let mut json = Json::Object(Vec::new());
        if is_coinbase {
            json.push("coinbase", Json::hex(input.script_sig));
        } else {
            json.push("txid", input.prevout.txid.to_string());
            json.push("vout", input.prevout.vout);
            let script = Json::object([
                ("asm", asm_of_script_sig(input.script_sig).into()),
                ("hex", Json::hex(input.script_sig)),
            ]);
            json.push("scriptSig", script);
        }
        if let Some(witness) = witnesses.next().filter(|witness| !witness.is_empty()) {
            json.push("txinwitness", witness.items().map(Json::hex).collect::<Json>());
        }
        if let Some(coin) = spent.and_then(|spent| spent.get(n)) {
            let prevout = Json::object([
                ("generated", coin.coinbase.into()),
                ("height", coin.height.into()),
                ("value", Json::amount(coin.value)),
                ("scriptPubKey", script_json(&coin.script_pubkey, network, true)),
            ]);
            json.push("prevout", prevout);
        }
        json.push("sequence", input.sequence);
        json
    };
    tx.inputs().enumerate().map(input).collect()
}

/// The last operation that has a meaning, and the longest push and script (Core `MAX_OPCODE`,
/// `MAX_SCRIPT_ELEMENT_SIZE`, `MAX_SCRIPT_SIZE`).
const LAST_OPCODE: u8 = 0xb9;
const MAX_PUSH: usize = 520;
const MAX_SCRIPT: usize = 10_000;

/// Whether a script has only operations that have a meaning (Core `HasValidOps`).
pub(super) fn has_valid_operations(script: &[u8]) -> bool {
    let fits = |op: Op<'_>| op.code <= LAST_OPCODE && op.data.len() <= MAX_PUSH;
    Ops(script).all(|op| op.is_ok_and(fits))
}

/// Whether the scripts look like scripts (Core `CheckTxScriptsSanity`).
fn is_sane(tx: TxView<'_>) -> bool {
    let valid = |script: &[u8]| script.len() <= MAX_SCRIPT && has_valid_operations(script);
    (tx.is_coinbase() || tx.inputs().all(|input| valid(input.script_sig)))
        && tx.outputs().all(|output| valid(output.script_pubkey))
}

/// As what bytes are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TxForm {
    Plain,
    /// With witnesses, or plain where it has none.
    Extended,
    /// One without inputs can look like one with witnesses: the scripts decide.
    Either,
}

/// Reads a transaction that is the whole of `bytes` (Core `DecodeTx`).
pub(super) fn parse_transaction(bytes: &[u8], form: TxForm) -> Option<TxView<'_>> {
    let whole = |tx: &TxView<'_>| tx.total_size() == bytes.len();
    let extended = || TxView::parse(bytes).ok().filter(whole);
    let plain = || TxView::parse_plain(bytes).ok().filter(whole);
    let extended = if form == TxForm::Plain { None } else { extended() };
    if extended.is_some_and(is_sane) {
        return extended;
    }
    let plain = if form == TxForm::Extended { None } else { plain() };
    plain.filter(|tx| extended.is_none() || is_sane(*tx)).or(extended)
}

pub(super) fn decode_raw(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let is_witness = call.arg(1);
    let form = match parse::flag(is_witness, true)? {
        _ if is_witness.is_null() => TxForm::Either,
        true => TxForm::Extended,
        false => TxForm::Plain,
    };
    let failed = || RpcError::new(code::DESERIALIZATION_ERROR, "TX decode failed");
    let bytes = parse::hex(call.arg(0).as_text()?).ok_or_else(failed)?;
    let tx = parse_transaction(&bytes, form).ok_or_else(failed)?;
    call.room.grow(cost::transaction(tx, &[]))?;
    Ok(transaction(tx, call.network(), None, Detail::Fee, false))
}

/// What is said where there is no such transaction.
fn no_transaction(what: &str) -> RpcError {
    let text = format!("{what}. Use gettransaction for wallet transactions.");
    RpcError::new(code::INVALID_ADDRESS_OR_KEY, text)
}

fn in_named_block(
    call: &mut Call<'_>,
    txid: &Txid,
    hash: BlockHash,
) -> Result<FoundTransaction, RpcError> {
    // So also of a block that is damaged, in which nothing is found.
    let missing = || no_transaction("No such transaction found in the provided block");
    let place = call.node.ask(move |node| {
        let chain = node.chain();
        let id = chain
            .tree()
            .find(&hash)
            .ok_or_else(|| RpcError::new(code::INVALID_ADDRESS_OR_KEY, "Block hash not found"))?;
        let source = block_source(chain, id).map_err(|why| match why {
            Missing::Damaged => missing(),
            Missing::NotDownloaded | Missing::Pruned => {
                RpcError::new(code::MISC_ERROR, "Block not available")
            }
        })?;
        Ok((HeaderFacts::of(chain, id), source))
    })??;
    call.room.grow(place.1.size() * cost::DECODED)?;
    let block = stored::readable(call, &place.1)?.ok_or_else(missing)?;
    let view = block.view();
    let n = view.txids().iter().position(|found| found == txid).ok_or_else(missing)?;
    let behind: usize = view.txs().skip(n).map(|tx| tx.total_size()).sum();
    let (start, bytes) = (view.total_size() - behind, view.bytes().to_vec());
    FoundTransaction::at(place, bytes, start, txid).ok_or_else(missing)
}

fn in_any_block(call: &mut Call<'_>, txid: &Txid) -> Result<FoundTransaction, RpcError> {
    let Some(index) = call.node.indexes().transactions.clone() else {
        return Err(no_transaction(
            "No such mempool transaction. Use -txindex or provide a block hash to enable blockchain \
             transaction queries",
        ));
    };
    let is_complete = indexes::catch_up(call, index.status())?;
    indexes::find_transaction(call, txid)?.ok_or_else(|| {
        no_transaction(match is_complete {
            true => "No such mempool or blockchain transaction",
            false => {
                "No such mempool transaction. Blockchain transactions are still in the process of being \
                 indexed"
            }
        })
    })
}

pub(super) fn raw(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let txid: Txid = parse::hash(call.arg(0), "parameter 1")?;
    let params = call.node.params();
    let not_found = |text: String| RpcError::new(code::INVALID_ADDRESS_OR_KEY, text);
    if txid.as_bytes() == params.genesis.merkle_root.as_bytes() {
        return Err(not_found(
            "The genesis block coinbase is not considered an ordinary transaction and cannot be retrieved"
                .to_owned(),
        ));
    }
    let verbosity = parse::verbosity(call.arg(1), 0)?;
    let named = match call.arg(2) {
        Json::Null => None,
        hash => Some(parse::hash(hash, "parameter 3")?),
    };
    if named.is_none()
        && let Some(sent) = mempool::transaction(call, txid)?
    {
        let tx = sent.view();
        call.room.grow(cost::transaction(tx, &[]))?;
        return Ok(match verbosity {
            ..=0 => Json::hex(tx.bytes()),
            _ => transaction(tx, call.network(), None, Detail::Fee, true),
        });
    }
    let found = match named {
        Some(hash) => in_named_block(call, &txid, hash)?,
        None => in_any_block(call, &txid)?,
    };
    let FoundTransaction { facts, source, .. } = &found;
    let tx = found.tx();
    if verbosity <= 0 {
        return Ok(Json::hex(tx.bytes()));
    }
    let n = if verbosity > 1 { found.number } else { 0 };
    if n > 0 {
        call.room.grow(source.undo_size() * cost::OF_RECORD)?;
    }
    // A block that was never connected has no record.
    let undo = if n > 0 { Some(stored::undo(source)?.ok_or_else(stored::no_undo)?) } else { None };
    let spent = undo.as_ref().and_then(|undo| undo.transactions().nth(n - 1));
    call.room.grow(cost::transaction(tx, spent.unwrap_or_default()))?;
    let is_active = facts.confirmations > 0;
    let mut json = Json::Object(Vec::new());
    if named.is_some() {
        json.push("in_active_chain", is_active);
    }
    let Json::Object(members) = transaction(tx, call.network(), spent, Detail::Prevouts, true)
    else {
        unreachable!("a transaction is an object");
    };
    for (name, value) in members {
        json.push(name, value);
    }
    json.push("blockhash", facts.hash.to_string());
    json.push("confirmations", facts.confirmations.max(0));
    if is_active {
        json.push("time", facts.header.time);
        json.push("blocktime", facts.header.time);
    }
    Ok(json)
}
