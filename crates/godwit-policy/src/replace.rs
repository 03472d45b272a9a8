//! Replacing what is in the pool (Core `policy/rbf.cpp`), and how many may depend on each other.

use std::collections::BTreeSet;

use godwit_primitives::{Amount, TxView, Txid};

use crate::fee_rate::{FeeRate, RELAY_FEE};
use crate::pool::{Pool, PoolTx};
use crate::refusal::{Refusal, money};

/// Clusters that a replacement may touch (Core `MAX_REPLACEMENT_CANDIDATES`).
const MAX_REPLACED: usize = 100;

/// Transactions that may be connected, and their adjusted weight (Core `DEFAULT_CLUSTER_LIMIT`,
/// `DEFAULT_CLUSTER_SIZE_LIMIT_KVB`).
const MAX_CLUSTER: usize = 64;
const MAX_CLUSTER_WEIGHT: u64 = 404_000;

/// What leaves the pool for `tx`: its conflicts, and all that depend on them.
///
/// # Errors
///
/// It may not replace that, or would be connected with too many; the first reason in Core's order
/// (`MemPoolAccept::ReplacementChecks`).
pub(crate) fn replaced(
    tx: &PoolTx<'_>,
    pool: &Pool<'_>,
    conflicts: &BTreeSet<Txid>,
) -> Result<BTreeSet<Txid>, Refusal> {
    let replaced = outbid(tx, pool, conflicts)?;
    cluster_within_limits(tx, pool, &replaced)?;
    improves(tx, pool, conflicts, &replaced)?;
    Ok(replaced)
}

/// What would leave the pool for `tx`, if its fee is enough for that.
fn outbid(
    tx: &PoolTx<'_>,
    pool: &Pool<'_>,
    conflicts: &BTreeSet<Txid>,
) -> Result<BTreeSet<Txid>, Refusal> {
    if conflicts.is_empty() {
        return Ok(BTreeSet::new());
    }
    let PoolTx { txid, fee, vsize, .. } = *tx;
    let clusters = clusters(pool, conflicts.clone());
    if clusters > MAX_REPLACED {
        return Err(Refusal::TooManyReplaced(format!(
            "rejecting replacement {txid}; too many conflicting clusters ({clusters} > {MAX_REPLACED})"
        )));
    }
    let all = pool.with_descendants(conflicts.clone());
    let fees: Amount = all.iter().filter_map(|txid| pool.get(txid)).map(|tx| tx.fee).sum();
    if fee < fees {
        return Err(Refusal::InsufficientFee(format!(
            "rejecting replacement {txid}, less fees than conflicting txs; {} < {}",
            money(fee),
            money(fees)
        )));
    }
    let (more, least) = (fee - fees, RELAY_FEE.fee_of(vsize));
    if more < least {
        return Err(Refusal::InsufficientFee(format!(
            "rejecting replacement {txid}, not enough additional fees to relay; {} < {}",
            money(more),
            money(least)
        )));
    }
    Ok(all)
}

/// How many clusters these belong to.
fn clusters(pool: &Pool<'_>, mut txids: BTreeSet<Txid>) -> usize {
    let mut count = 0;
    while let Some(first) = txids.pop_first() {
        let cluster = pool.cluster(BTreeSet::from([first]));
        txids.retain(|txid| !cluster.contains(txid));
        count += 1;
    }
    count
}

/// Blocks earn more with `tx` than with those that it replaces, however much room they have (Core
/// `ImprovesFeerateDiagram`).
///
/// Core compares what a block could earn at each size, before and after. This is never more lenient. A block
/// that takes all that pays some rate loses by the replacement only if that rate is below the highest of
/// `replaced`, and at most their fees. It then wins `tx`, and has to take those ancestors of `tx` that it had
/// not: with one of `replaced` it had those that all conflicts share, and ancestors above that rate cost it
/// nothing. If `tx` pays a higher rate than each of `replaced` together with all other ancestors, then also
/// together with some of these.
///
/// # Errors
///
/// It cannot be told so.
fn improves(
    tx: &PoolTx<'_>,
    pool: &Pool<'_>,
    conflicts: &BTreeSet<Txid>,
    replaced: &BTreeSet<Txid>,
) -> Result<(), Refusal> {
    let rates = replaced.iter().filter_map(|txid| pool.get(txid)).map(rate);
    let Some(highest) = rates.max_by(|one, other| one.compare(*other)) else { return Ok(()) };
    let shared = |ancestor: &Txid| {
        conflicts.iter().all(|txid| pool.with_ancestors(BTreeSet::from([*txid])).contains(ancestor))
    };
    let mut together = rate(tx);
    for txid in pool.with_ancestors(pool.parents(tx.tx)).difference(replaced) {
        let Some(ancestor) = pool.get(txid) else { continue };
        if rate(ancestor).compare(highest).is_lt() && !shared(txid) {
            together.fee += ancestor.fee;
            together.size += ancestor.weight;
        }
    }
    match together.compare(highest).is_gt() {
        true => Ok(()),
        false => Err(Refusal::ReplacementFailed),
    }
}

/// By weight, as Core compares rates of the pool.
fn rate(tx: &PoolTx<'_>) -> FeeRate {
    FeeRate { fee: tx.fee, size: tx.weight }
}

/// A transaction does not depend on one that it would replace.
pub(crate) fn keeps_its_parents(
    tx: TxView<'_>,
    pool: &Pool<'_>,
    conflicts: &BTreeSet<Txid>,
) -> Result<(), Refusal> {
    let ancestors = pool.with_ancestors(pool.parents(tx));
    match ancestors.intersection(conflicts).next() {
        Some(parent) => Err(Refusal::SpendsConflicting(tx.txid(), *parent)),
        None => Ok(()),
    }
}

/// Few transactions are connected with `tx`, which takes the place of `replaced`.
pub(crate) fn cluster_within_limits(
    tx: &PoolTx<'_>,
    pool: &Pool<'_>,
    replaced: &BTreeSet<Txid>,
) -> Result<(), Refusal> {
    let mut left = pool.clone();
    replaced.iter().for_each(|txid| left.remove(txid));
    let mut connected = left.parents(tx.tx);
    connected.append(&mut left.children(tx));
    let cluster = left.cluster(connected);
    let others = cluster.iter().filter_map(|txid| left.get(txid)).map(|tx| tx.weight);
    let total = tx.weight + others.sum::<u64>();
    match cluster.len() < MAX_CLUSTER && total <= MAX_CLUSTER_WEIGHT {
        true => Ok(()),
        false => Err(Refusal::ClusterTooLarge),
    }
}

#[cfg(test)]
mod tests;
