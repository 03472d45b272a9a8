//! Replacing what is in the pool (Core `policy/rbf.cpp`), and how many may depend on each other.

use std::collections::BTreeSet;

use godwit_primitives::{Amount, TxView, Txid};

use crate::fee_rate::{FeeRate, RELAY_FEE};
use crate::pool::Pool;
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
/// It pays too little for that.
pub(crate) fn replaced(
    tx: TxView<'_>,
    fee: Amount,
    vsize: u64,
    pool: &Pool<'_>,
    conflicts: &BTreeSet<Txid>,
) -> Result<BTreeSet<Txid>, Refusal> {
    if conflicts.is_empty() {
        return Ok(BTreeSet::new());
    }
    let txid = tx.txid();
    if conflicts.len() > MAX_REPLACED {
        return Err(Refusal::TooManyReplaced(format!(
            "rejecting replacement {txid}; too many conflicting clusters ({} > {MAX_REPLACED})",
            conflicts.len()
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
    let rate = FeeRate { fee, size: vsize };
    let improves = |txid| pool.get(txid).is_none_or(|old| rate.compare(old.rate()).is_gt());
    if !all.iter().all(improves) {
        return Err(Refusal::ReplacementFailed);
    }
    Ok(all)
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
    tx: TxView<'_>,
    weight: u64,
    pool: &Pool<'_>,
    replaced: &BTreeSet<Txid>,
) -> Result<(), Refusal> {
    let mut left = pool.clone();
    replaced.iter().for_each(|txid| left.remove(txid));
    let cluster = left.cluster(left.parents(tx));
    let others = cluster.iter().filter_map(|txid| left.get(txid)).map(|tx| tx.weight);
    let total = weight + others.sum::<u64>();
    match cluster.len() < MAX_CLUSTER && total <= MAX_CLUSTER_WEIGHT {
        true => Ok(()),
        false => Err(Refusal::ClusterTooLarge),
    }
}

#[cfg(test)]
mod tests;
