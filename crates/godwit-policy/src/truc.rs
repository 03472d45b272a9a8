//! Version 3: few and small transactions that depend on each other (BIP431; Core `truc_policy.cpp`).

use std::collections::BTreeSet;

use godwit_primitives::{TxView, Txid};

use crate::pool::Pool;
use crate::refusal::Refusal;

const TRUC: u32 = 3;
/// Virtual bytes of one, and of one with an unconfirmed parent.
const MAX_VSIZE: u64 = 10_000;
const MAX_CHILD_VSIZE: u64 = 1_000;

/// The rules for `tx` of so many virtual bytes over the pool; those of `conflicts` would leave it.
pub(crate) fn check(
    tx: TxView<'_>,
    vsize: u64,
    pool: &Pool<'_>,
    conflicts: &BTreeSet<Txid>,
) -> Result<(), Refusal> {
    let name = |txid: Txid, wtxid: String| format!("{txid} (wtxid={wtxid})");
    let own = name(tx.txid(), tx.wtxid().to_string());
    let refused = |text: String| Err(Refusal::Truc(text));
    let is_truc = tx.version() == TRUC;
    let parents = pool.parents(tx);
    for parent in parents.iter().filter_map(|txid| pool.get(txid)) {
        let other = name(parent.txid, parent.wtxid.to_string());
        match (is_truc, parent.tx.version() == TRUC) {
            (false, true) => {
                return refused(format!(
                    "non-version=3 tx {own} cannot spend from version=3 tx {other}"
                ));
            }
            (true, false) => {
                return refused(format!(
                    "version=3 tx {own} cannot spend from non-version=3 tx {other}"
                ));
            }
            _ => {}
        }
    }
    if !is_truc {
        return Ok(());
    }
    if vsize > MAX_VSIZE {
        return refused(format!(
            "version=3 tx {own} is too big: {vsize} > {MAX_VSIZE} virtual bytes"
        ));
    }
    let Some(parent) = parents.first() else { return Ok(()) };
    if parents.len() > 1 || pool.with_ancestors(parents.clone()).len() > 1 {
        return refused(format!("tx {own} would have too many ancestors"));
    }
    if vsize > MAX_CHILD_VSIZE {
        return refused(format!(
            "version=3 child tx {own} is too big: {vsize} > {MAX_CHILD_VSIZE} virtual bytes"
        ));
    }
    let others = pool.with_descendants(parents.clone());
    let leaves = others.iter().any(|other| conflicts.contains(other));
    if others.len() > 1 && !leaves {
        let parent = pool.get(parent).expect("it is a parent in the pool");
        let other = name(parent.txid, parent.wtxid.to_string());
        return refused(format!("tx {other} would exceed descendant count limit"));
    }
    Ok(())
}
