//! Methods about the mempool, answered from the outbox: only transactions that were sent through this node
//! are known to be unconfirmed.

use std::collections::BTreeSet;
use std::sync::Arc;

use godwit_p2p::OutboxTx;
use godwit_policy::{Pool, PoolTx, RELAY_FEE};
use godwit_primitives::{Amount, OutPoint, TxView, Txid};
use godwit_rpc::{Json, JsonKind, RpcError, code};

use super::{Call, cost, parse};
use crate::deprecated::Deprecated;

/// Core `-maxmempool` in bytes; clients divide by it.
const MAX_BYTES: i64 = 300_000_000;

/// Core `MAX_BIP125_RBF_SEQUENCE`.
const MAX_REPLACEABLE_SEQUENCE: u32 = 0xffff_fffd;

/// Memory of what is told of an entry, beside ids of others.
const ENTRY: usize = 3_000;
const ID: usize = 200;

/// The outbox of a moment.
struct Waiting {
    txs: Vec<Arc<OutboxTx>>,
    unfetched: BTreeSet<Txid>,
    next_sequence: u64,
    memory: usize,
}

impl Waiting {
    fn of(call: &Call<'_>) -> Result<Self, RpcError> {
        call.node.ask(|node| {
            let outbox = node.peers().outbox();
            let txs: Vec<_> = outbox.waiting().cloned().collect();
            let unfetched = txs.iter().map(|tx| tx.txid);
            let unfetched = unfetched.filter(|txid| !outbox.was_fetched(txid)).collect();
            Self { txs, unfetched, next_sequence: outbox.next_sequence(), memory: outbox.memory() }
        })
    }

    fn pool(&self) -> Pool<'_> {
        let mut pool = Pool::default();
        for tx in &self.txs {
            let OutboxTx { txid, wtxid, fee, vsize, weight, .. } = **tx;
            pool.add(PoolTx { tx: tx.view(), txid, wtxid, fee, vsize, weight });
        }
        pool
    }

    /// What is told of one of them (Core `entryToJSON`).
    fn entry(&self, tx: &OutboxTx, pool: &Pool<'_>, deprecated: Deprecated) -> Json {
        let itself = || BTreeSet::from([tx.txid]);
        let sums = |txids: &BTreeSet<Txid>| {
            let txs = || txids.iter().filter_map(|txid| pool.get(txid));
            let fees: Amount = txs().map(|tx| tx.fee).sum();
            (txs().count(), txs().map(|tx| tx.vsize).sum::<u64>(), fees)
        };
        let with_ancestors = pool.with_ancestors(itself());
        let (ancestors, ancestor_size, ancestor_fees) = sums(&with_ancestors);
        let (descendants, size, descendant_fees) = sums(&pool.with_descendants(itself()));
        let view = tx.view();
        let fees = Json::object([
            ("base", Json::amount(tx.fee)),
            ("modified", Json::amount(tx.fee)),
            ("ancestor", Json::amount(ancestor_fees)),
            ("descendant", Json::amount(descendant_fees)),
            ("chunk", Json::amount(tx.fee)),
        ]);
        let parents = view.inputs().map(|input| input.prevout.txid);
        let parents = parents.filter(|txid| pool.get(txid).is_some());
        let outputs = (0..view.output_count() as u32).map(|vout| OutPoint { txid: tx.txid, vout });
        let children = outputs.filter_map(|outpoint| pool.spender(&outpoint));
        // Core sorts the former as text, the latter by their bytes.
        let depends: BTreeSet<String> = parents.map(|txid| txid.to_string()).collect();
        let spent_by: BTreeSet<Txid> = children.collect();
        let mut json = Json::object([
            ("vsize", tx.vsize.into()),
            ("weight", view.weight().into()),
            ("time", tx.time.into()),
            ("height", tx.height.into()),
            ("descendantcount", descendants.into()),
            ("descendantsize", size.into()),
            ("ancestorcount", ancestors.into()),
            ("ancestorsize", ancestor_size.into()),
            ("wtxid", tx.wtxid.to_string().into()),
            ("chunkweight", tx.weight.into()),
            ("fees", fees),
            ("depends", depends.into_iter().map(Json::from).collect()),
            ("spentby", spent_by.iter().map(|txid| Json::from(txid.to_string())).collect()),
            ("unbroadcast", self.unfetched.contains(&tx.txid).into()),
        ]);
        if deprecated.bip125 {
            let mut txs = with_ancestors.iter().filter_map(|txid| pool.get(txid));
            json.push("bip125-replaceable", txs.any(|tx| signals_replacement(tx.tx)));
        }
        json
    }
}

/// Whether an input says that the transaction may be replaced (BIP 125, Core `SignalsOptInRBF`).
fn signals_replacement(tx: TxView<'_>) -> bool {
    tx.inputs().any(|input| input.sequence <= MAX_REPLACEABLE_SEQUENCE)
}

pub(super) fn info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let waiting = Waiting::of(call)?;
    let bytes: u64 = waiting.txs.iter().map(|tx| tx.vsize).sum();
    let fees: Amount = waiting.txs.iter().map(|tx| tx.fee).sum();
    let least = RELAY_FEE.rate_per_kvb();
    let mut json = Json::object([
        ("loaded", true.into()),
        ("size", waiting.txs.len().into()),
        ("bytes", bytes.into()),
        ("usage", waiting.memory.into()),
        ("total_fee", Json::amount(fees)),
        ("maxmempool", MAX_BYTES.into()),
        ("mempoolminfee", Json::amount(least)),
        ("minrelaytxfee", Json::amount(least)),
        ("incrementalrelayfee", Json::amount(least)),
        ("unbroadcastcount", waiting.unfetched.len().into()),
        ("permitbaremultisig", true.into()),
        ("maxdatacarriersize", 100_000.into()),
        ("limitclustercount", 64.into()),
        ("limitclustersize", 101_000.into()),
        ("optimal", true.into()),
    ]);
    if call.deprecated().full_rbf {
        json.push("fullrbf", true);
    }
    Ok(json)
}

pub(super) fn raw(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let verbose = parse::flag(call.arg(0), false)?;
    let sequence = parse::flag(call.arg(1), false)?;
    if verbose && sequence {
        let text = "Verbose results cannot contain mempool sequence values.";
        return Err(RpcError::new(code::INVALID_PARAMETER, text));
    }
    let waiting = Waiting::of(call)?;
    call.room.grow(waiting.txs.len() * if verbose { ENTRY } else { ID })?;
    if verbose {
        let (pool, deprecated) = (waiting.pool(), call.deprecated());
        let named =
            |tx: &Arc<OutboxTx>| (tx.txid.to_string().into(), waiting.entry(tx, &pool, deprecated));
        return Ok(Json::Object(waiting.txs.iter().map(named).collect()));
    }
    let txids: Json = waiting.txs.iter().map(|tx| Json::from(tx.txid.to_string())).collect();
    Ok(match sequence {
        false => txids,
        true => {
            let sequence = waiting.next_sequence.into();
            Json::object([("txids", txids), ("mempool_sequence", sequence)])
        }
    })
}

pub(super) fn entry(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let txid: Txid = parse::hash(call.arg(0), "txid")?;
    let waiting = Waiting::of(call)?;
    call.room.grow(ENTRY + waiting.txs.len() * ID)?;
    match waiting.txs.iter().find(|tx| tx.txid == txid) {
        Some(tx) => Ok(waiting.entry(tx, &waiting.pool(), call.deprecated())),
        None => Err(RpcError::new(code::INVALID_ADDRESS_OR_KEY, "Transaction not in mempool")),
    }
}

/// A transaction of the outbox.
pub(crate) fn transaction(call: &Call<'_>, txid: Txid) -> Result<Option<Arc<OutboxTx>>, RpcError> {
    call.node.ask(move |node| node.peers().outbox().get(&txid).cloned())
}

pub(super) fn spending(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let refused = |text: &str| RpcError::new(code::INVALID_PARAMETER, text);
    let outputs = call.arg(0).as_list()?;
    if outputs.is_empty() {
        return Err(refused("Invalid parameter, outputs are missing"));
    }
    let options = call.arg(1);
    let names = [("mempool_only", JsonKind::Bool), ("return_spending_tx", JsonKind::Bool)];
    if !options.is_null() {
        parse::members(options, &names, false)?;
    }
    let option = |name, default| options.get(name).map_or(Ok(default), Json::as_bool);
    let of_outbox_alone = option("mempool_only", true)?;
    let with_bytes = option("return_spending_tx", false)?;
    let mut outpoints = Vec::with_capacity(outputs.len());
    for output in outputs {
        parse::members(output, &[("txid", JsonKind::Text), ("vout", JsonKind::Number)], true)?;
        let member = |name: &str| output.get(name).unwrap_or(&Json::Null);
        let txid: Txid = parse::hash(member("txid"), "txid")?;
        let vout: i32 = member("vout").as_integer()?;
        let vout = u32::try_from(vout)
            .map_err(|_| refused("Invalid parameter, vout cannot be negative"))?;
        outpoints.push(OutPoint { txid, vout });
    }
    let mut results = outputs.to_vec();
    let waiting = Waiting::of(call)?;
    let pool = waiting.pool();
    for (outpoint, result) in outpoints.iter().zip(&mut results) {
        let Some(spender) = pool.spender(outpoint).and_then(|txid| pool.get(&txid)) else {
            if of_outbox_alone {
                continue;
            }
            let text = "Mempool lacks a relevant spend, and txospenderindex is unavailable.";
            return Err(RpcError::new(code::MISC_ERROR, text));
        };
        result.push("spendingtxid", spender.txid.to_string());
        if with_bytes {
            call.room.grow(cost::transaction(spender.tx, &[]))?;
            result.push("spendingtx", Json::hex(spender.tx.bytes()));
        }
    }
    Ok(Json::List(results))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transaction with nine outputs.
    fn waiting(prevout: OutPoint) -> Arc<OutboxTx> {
        let OutPoint { txid, vout } = prevout;
        let input = [&txid.to_bytes()[..], &vout.to_le_bytes(), &[0], &[0xff; 4]].concat();
        let output = [&5u64.to_le_bytes()[..], &[1, 0x51]].concat().repeat(9);
        let bytes = [&[2, 0, 0, 0][..], &[1], &input, &[9], &output, &[0; 4]].concat();
        let tx = TxView::parse(&bytes).expect("a transaction");
        Arc::new(OutboxTx::new(tx, 100, (tx.weight() as u64).div_ceil(4), 1, 1))
    }

    #[test]
    fn children_are_in_order_of_their_bytes() {
        let parent = waiting(OutPoint { txid: Txid::from_bytes([9; 32]), vout: 0 });
        let txid = parent.txid;
        let children = (0..9).map(|vout| waiting(OutPoint { txid, vout }));
        let txs: Vec<Arc<OutboxTx>> = [Arc::clone(&parent)].into_iter().chain(children).collect();
        let waiting = Waiting { txs, unfetched: BTreeSet::new(), next_sequence: 1, memory: 0 };
        let entry = waiting.entry(&parent, &waiting.pool(), Deprecated::default());
        let listed = entry.get("spentby").expect("a member").as_list().expect("a list");
        let mut txids: Vec<Txid> = waiting.txs[1..].iter().map(|tx| tx.txid).collect();
        txids.sort_unstable_by_key(|txid| txid.to_bytes());
        let sorted: Vec<Json> = txids.iter().map(|txid| txid.to_string().into()).collect();
        assert_eq!(listed, sorted);
    }
}
