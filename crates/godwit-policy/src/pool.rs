//! The transactions that wait for a block, as the rules see them.

use std::collections::{BTreeSet, HashMap};

use godwit_primitives::{Amount, OutPoint, TxView, Txid, Wtxid};

use crate::FeeRate;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct PoolTx<'a> {
    pub tx: TxView<'a>,
    pub txid: Txid,
    pub wtxid: Wtxid,
    pub fee: Amount,
    /// Virtual bytes, adjusted for signature operations.
    pub vsize: u64,
    /// Weight, adjusted for signature operations (Core `GetAdjustedWeight`); a quarter of it, rounded up, is
    /// `vsize`.
    pub weight: u64,
}

impl PoolTx<'_> {
    pub(crate) fn rate(&self) -> FeeRate {
        FeeRate { fee: self.fee, size: self.vsize }
    }

    fn parents(&self) -> impl Iterator<Item = Txid> {
        self.tx.inputs().map(|input| input.prevout.txid)
    }
}

/// What is in the outbox, perhaps with others that were judged since.
#[derive(Clone, Debug, Default)]
pub struct Pool<'a> {
    txs: HashMap<Txid, PoolTx<'a>>,
    spenders: HashMap<OutPoint, Txid>,
}

impl<'a> Pool<'a> {
    /// Adds one that conflicts with none.
    pub fn add(&mut self, tx: PoolTx<'a>) {
        self.spenders.extend(tx.tx.inputs().map(|input| (input.prevout, tx.txid)));
        self.txs.insert(tx.txid, tx);
    }

    /// Removes one.
    pub fn remove(&mut self, txid: &Txid) {
        if let Some(tx) = self.txs.remove(txid) {
            for input in tx.tx.inputs() {
                self.spenders.remove(&input.prevout);
            }
        }
    }

    pub fn get(&self, txid: &Txid) -> Option<&PoolTx<'a>> {
        self.txs.get(txid)
    }

    /// Which of them spends an output.
    pub fn spender(&self, outpoint: &OutPoint) -> Option<Txid> {
        self.spenders.get(outpoint).copied()
    }

    /// Those of them whose outputs `tx` spends.
    pub(crate) fn parents(&self, tx: TxView<'_>) -> BTreeSet<Txid> {
        let parents = tx.inputs().map(|input| input.prevout.txid);
        parents.filter(|txid| self.txs.contains_key(txid)).collect()
    }

    /// Those of them that spend an output of `tx`, which need not be one of them: they may have waited before
    /// it, when a reorganisation has left the block that had it.
    pub(crate) fn children(&self, tx: &PoolTx<'_>) -> BTreeSet<Txid> {
        let txid = tx.txid;
        let outputs = (0..tx.tx.output_count() as u32).map(|vout| OutPoint { txid, vout });
        outputs.filter_map(|outpoint| self.spender(&outpoint)).collect()
    }

    fn children_of(&self, txid: &Txid) -> BTreeSet<Txid> {
        self.txs.get(txid).map(|tx| self.children(tx)).unwrap_or_default()
    }

    /// What can be reached from some of them by `next`, with them.
    fn closure(
        &self,
        from: BTreeSet<Txid>,
        next: impl Fn(&Txid) -> BTreeSet<Txid>,
    ) -> BTreeSet<Txid> {
        let (mut found, mut open) = (from.clone(), Vec::from_iter(from));
        while let Some(txid) = open.pop() {
            open.extend(next(&txid).into_iter().filter(|other| found.insert(*other)));
        }
        found
    }

    fn parents_of(&self, txid: &Txid) -> BTreeSet<Txid> {
        let Some(tx) = self.txs.get(txid) else { return BTreeSet::new() };
        tx.parents().filter(|parent| self.txs.contains_key(parent)).collect()
    }

    /// These and all that they depend on.
    pub fn with_ancestors(&self, txids: BTreeSet<Txid>) -> BTreeSet<Txid> {
        self.closure(txids, |txid| self.parents_of(txid))
    }

    /// These and all that depend on them.
    pub fn with_descendants(&self, txids: BTreeSet<Txid>) -> BTreeSet<Txid> {
        self.closure(txids, |txid| self.children_of(txid))
    }

    /// These and all that are connected with them.
    pub(crate) fn cluster(&self, txids: BTreeSet<Txid>) -> BTreeSet<Txid> {
        self.closure(txids, |txid| {
            let mut next = self.parents_of(txid);
            next.append(&mut self.children_of(txid));
            next
        })
    }
}
