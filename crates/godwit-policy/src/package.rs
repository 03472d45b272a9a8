//! Transactions that are handed in together (Core `policy/packages.cpp`; `validation.cpp`,
//! `AcceptMultipleTransactionsInternal`).

use std::collections::{BTreeSet, HashMap, HashSet};

use godwit_primitives::{Amount, Coin, OutPoint, TxView, Txid};

use crate::dust::spends_parents_dust;
use crate::fee_rate::FeeRate;
use crate::judge::{Checked, Judged, NextBlock, Pay, Terms, check, pays_for_relay, within_rate};
use crate::pool::Pool;
use crate::refusal::Refusal;
use crate::replace;

/// Transactions of a package, and their weight (Core `MAX_PACKAGE_COUNT`, `MAX_PACKAGE_WEIGHT`).
pub const MAX_PACKAGE: usize = 25;
const MAX_WEIGHT: usize = 404_000;

/// Why a package as such is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageRefusal {
    TooMany,
    TooLarge,
    Duplicates,
    NotSorted,
    Conflict,
    ClusterTooLarge,
}

impl PackageRefusal {
    /// Core's reject reason.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::TooMany => "package-too-many-transactions",
            Self::TooLarge => "package-too-large",
            Self::Duplicates => "package-contains-duplicates",
            Self::NotSorted => "package-not-sorted",
            Self::Conflict => "conflict-in-package",
            Self::ClusterTooLarge => "too-large-cluster",
        }
    }
}

/// What the transactions of a package say of it (Core `IsWellFormedPackage`).
///
/// # Errors
///
/// Why it is refused as a whole.
pub fn check_package(txs: &[TxView<'_>]) -> Result<(), PackageRefusal> {
    if txs.len() > MAX_PACKAGE {
        return Err(PackageRefusal::TooMany);
    }
    if txs.len() > 1 && txs.iter().map(TxView::weight).sum::<usize>() > MAX_WEIGHT {
        return Err(PackageRefusal::TooLarge);
    }
    let mut later: HashSet<Txid> = txs.iter().map(TxView::txid).collect();
    if later.len() != txs.len() {
        return Err(PackageRefusal::Duplicates);
    }
    for tx in txs {
        if tx.inputs().any(|input| later.contains(&input.prevout.txid)) {
            return Err(PackageRefusal::NotSorted);
        }
        later.remove(&tx.txid());
    }
    let mut spent = HashSet::new();
    for tx in txs {
        let inputs: HashSet<OutPoint> = tx.inputs().map(|input| input.prevout).collect();
        if inputs.is_empty() || !spent.is_disjoint(&inputs) {
            return Err(PackageRefusal::Conflict);
        }
        spent.extend(inputs);
    }
    Ok(())
}

/// Whether the last of them spends from each of the others, and none of these from another (Core
/// `IsChildWithParentsTree`).
pub fn is_child_with_parents(txs: &[TxView<'_>]) -> bool {
    let Some((child, parents)) = txs.split_last().filter(|(_, parents)| !parents.is_empty()) else {
        return false;
    };
    let txids: HashSet<Txid> = parents.iter().map(TxView::txid).collect();
    let spent: HashSet<Txid> = child.inputs().map(|input| input.prevout.txid).collect();
    let is_free = |tx: &TxView<'_>| tx.inputs().all(|input| !txids.contains(&input.prevout.txid));
    txids.is_subset(&spent) && parents.iter().all(is_free)
}

/// What comes of a package: of which transaction it is known why it is refused, and which of them are
/// judged; of the others nothing is known.
#[derive(Debug)]
pub struct PackageVerdict<'a> {
    /// Of the package as such.
    pub whole: Option<PackageRefusal>,
    /// By the place in the package.
    pub refused: Option<(usize, Refusal)>,
    /// As many as were judged, from the first on.
    pub judged: Vec<Judged<'a>>,
}

impl PackageVerdict<'_> {
    fn refused(n: usize, refusal: Refusal) -> Self {
        Self { whole: None, refused: Some((n, refusal)), judged: Vec::new() }
    }
}

/// Judges transactions together: each may spend from those before it, and none replaces any of the pool.
/// With [`Pay::Together`], their fees together pay for all of them.
pub fn judge_package<'a>(
    txs: &[TxView<'a>],
    coins: &HashMap<OutPoint, Coin>,
    pool: &Pool<'a>,
    next_block: &NextBlock<'_>,
    terms: Terms,
    pay: Pay,
) -> PackageVerdict<'a> {
    if let Err(whole) = check_package(txs) {
        return PackageVerdict { whole: Some(whole), refused: None, judged: Vec::new() };
    }
    let (mut with, mut all) = (pool.clone(), Vec::<Checked<'a>>::new());
    for (n, tx) in txs.iter().enumerate() {
        let checked = check(*tx, coins, &with, next_block, false, pay)
            .and_then(|checked| within_rate(&checked.tx, terms.max_rate).map(|()| checked));
        match checked {
            Ok(checked) => {
                with.add(checked.tx);
                all.push(checked);
            }
            Err(refusal) => return PackageVerdict::refused(n, refusal),
        }
    }
    let fees: Amount = all.iter().map(|checked| checked.tx.fee).sum();
    let size: u64 = all.iter().map(|checked| checked.tx.vsize).sum();
    if pay == Pay::Together
        && let Err(refusal) = pays_for_relay(fees, size)
    {
        return PackageVerdict::refused(txs.len() - 1, refusal);
    }
    if let Err(verdict) = fits(&all, pool) {
        return verdict;
    }
    for (n, tx) in txs.iter().enumerate() {
        if let Err(refusal) = spends_parents_dust(*tx, &with) {
            return PackageVerdict::refused(n, refusal);
        }
    }
    let mut verdict = PackageVerdict { whole: None, refused: None, judged: Vec::new() };
    for (n, checked) in all.iter().enumerate() {
        if let Err(refusal) = checked.check_scripts() {
            verdict.refused = Some((n, refusal));
            break;
        }
        let rate = match pay {
            Pay::Alone => checked.tx.rate(),
            Pay::Together => FeeRate { fee: fees, size },
        };
        verdict.judged.push(Judged { tx: checked.tx, replaced: BTreeSet::new(), rate });
    }
    verdict
}

/// Few transactions depend on each other once these are there.
fn fits<'a>(all: &[Checked<'a>], pool: &Pool<'a>) -> Result<(), PackageVerdict<'a>> {
    let mut with = pool.clone();
    for checked in all {
        if replace::cluster_within_limits(&checked.tx, &with, &BTreeSet::new()).is_err() {
            let whole = Some(PackageRefusal::ClusterTooLarge);
            return Err(PackageVerdict { whole, refused: None, judged: Vec::new() });
        }
        with.add(checked.tx);
    }
    Ok(())
}
