//! Rebuilds the coins that blocks spent, after their undo records have rotted, from the blocks that created
//! them: these are read one by one from the highest down.
//!
//! A transaction's id commits to its outputs, and the place of its block gives the rest of each coin, so what
//! is found is what was spent. Of two transactions with the same id (the pairs of BIP30) the first one met is
//! right, since it had overwritten the other. A block on the way that is damaged itself is fetched again, if
//! the driver fetches blocks, and the search begins anew; if a block was pruned, the search is impossible.
//! The progress of the search for one block is saved once a minute ([`saved`]), and resumed from there.

mod saved;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use godwit_primitives::{BlockHash, BlockView, Coin, ScriptBytes, Txid};
use godwit_store::utxo::UtxoHasher;
use godwit_store::{BlockPosition, Store};

use crate::apply::SpentCoins;
use crate::index::BlockIndex;
use crate::own_block::{ReadError, read_own_block};
use crate::structure::Structured;
use crate::tree::NodeId;

/// Blocks that one job looks through.
const BLOCKS_PER_JOB: usize = 8;

/// Time between lines of the log about one search: the whole chain takes hours.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);

/// An output that was spent: by which block, and by which input of its.
struct Wanted {
    vout: u32,
    record: usize,
    input: usize,
}

/// A block that may have created coins.
pub(crate) struct Creator {
    id: NodeId,
    position: BlockPosition,
    hash: BlockHash,
    height: u32,
}

impl Creator {
    pub(crate) fn hash(&self) -> BlockHash {
        self.hash
    }

    /// Bytes of the block.
    pub(crate) fn bytes(&self) -> u64 {
        self.position.len.into()
    }
}

/// What a block spent, as far as it is known.
pub(crate) struct LostRecord {
    pub(crate) id: NodeId,
    coins: Vec<Option<Coin>>,
    /// How many of them each transaction behind the coinbase spent.
    counts: Vec<usize>,
}

impl LostRecord {
    fn new(id: NodeId, block: &Structured) -> Self {
        Self { id, coins: vec![None; block.input_count()], counts: block.spent_counts().collect() }
    }

    /// The coins that the block spent, in the order of its inputs, and how many of them each transaction
    /// behind the coinbase spent; `None` unless all were found.
    pub(crate) fn spent(&self) -> Option<(SpentCoins, &[usize])> {
        let coins: Option<Vec<Coin>> = self.coins.iter().cloned().collect();
        Some((SpentCoins::from_records(&coins?), &self.counts))
    }
}

/// See the module's documentation.
pub(crate) struct LostUndo {
    records: Vec<LostRecord>,
    /// Blocks below whose records are to be made, too.
    rotten: BTreeSet<NodeId>,
    /// What was not found, by the transaction that created it.
    wanted: HashMap<Txid, Vec<Wanted>>,
    /// The next block that is looked through.
    next: Option<NodeId>,
    /// The last one that an earlier search for the same looked through.
    looked_through: Option<BlockHash>,
    /// When the search began, or its progress was reported.
    reported: Option<Duration>,
}

impl LostUndo {
    /// For blocks of one chain, of which `first` is the highest.
    pub(crate) fn new(first: NodeId, rotten: BTreeSet<NodeId>) -> Self {
        let (records, wanted) = (Vec::new(), HashMap::new());
        let (next, looked_through, reported) = (Some(first), None, None);
        Self { records, rotten, wanted, next, looked_through, reported }
    }

    /// For a block that was read already, on top of `below`.
    pub(crate) fn of(id: NodeId, block: &Structured, height: u32, below: NodeId) -> Self {
        let mut lost = Self::new(below, BTreeSet::new());
        lost.add(id, block, height);
        lost
    }

    /// Adds a block, which may spend what it creates.
    fn add(&mut self, id: NodeId, block: &Structured, height: u32) {
        let record = self.records.len();
        let inputs = block.view().txs().skip(1).flat_map(|tx| tx.inputs());
        for (input, spent) in inputs.enumerate() {
            let found = Wanted { vout: spent.prevout.vout, record, input };
            self.wanted.entry(spent.prevout.txid).or_default().push(found);
        }
        self.records.push(LostRecord::new(id, block));
        self.take_outputs(block.view(), height);
    }

    /// Takes the next blocks below; none where one was pruned, or at genesis, whose coin is never spent.
    pub(crate) fn next_blocks(&mut self, index: &BlockIndex) -> Vec<Creator> {
        if let Some(hash) = self.looked_through.take() {
            self.go_on_below(&hash, index);
        }
        let mut blocks = Vec::new();
        while blocks.len() < BLOCKS_PER_JOB
            && let Some(id) = self.next
            && let node = index.node(id)
            && let Some(position) = node.position
        {
            blocks.push(Creator { id, position, hash: node.hash, height: node.height });
            self.next = node.parent();
        }
        blocks
    }

    /// Says now and then how far the search is; whether it did.
    pub(crate) fn report_progress(&mut self, index: &BlockIndex, now: Duration) -> bool {
        let is_due = self.take_due_report(now);
        if is_due {
            log::info!(
                "Looking for what block {} spent: {} coins are not found, down to height {}.",
                self.records.first().map_or(BlockHash::ZERO, |record| index.node(record.id).hash),
                self.wanted.values().map(Vec::len).sum::<usize>(),
                self.next.map_or(0, |next| index.height(next))
            );
        }
        is_due
    }

    /// Whether a report is due; then the next one is an interval later.
    fn take_due_report(&mut self, now: Duration) -> bool {
        let is_due = now.saturating_sub(*self.reported.get_or_insert(now)) >= PROGRESS_INTERVAL;
        if is_due {
            self.reported = Some(now);
        }
        is_due
    }

    /// Looks through these blocks.
    pub(crate) fn look_through(
        &mut self,
        store: &Store,
        hasher: &UtxoHasher,
        blocks: &[Creator],
    ) -> Result<(), ReadError> {
        for Creator { id, position, hash, height } in blocks {
            if self.is_done() {
                break;
            }
            let block = read_own_block(store, hasher, *id, *position, *hash)?;
            match self.rotten.remove(id) {
                true => self.add(*id, &block, *height),
                false => self.take_outputs(block.view(), *height),
            }
        }
        Ok(())
    }

    /// Whether every coin was found.
    pub(crate) fn is_done(&self) -> bool {
        self.wanted.is_empty() && self.rotten.is_empty()
    }

    /// What the blocks spent, from the highest down.
    pub(crate) fn records(&self) -> &[LostRecord] {
        &self.records
    }

    /// What the one block spent.
    ///
    /// # Panics
    ///
    /// Unless it is done, for one block.
    pub(crate) fn into_spent(mut self) -> SpentCoins {
        let coins = self.records.pop().expect("it is for one block").coins;
        let coins = coins.into_iter().map(|coin| coin.expect("all were found"));
        SpentCoins::from_records(&coins.collect::<Vec<Coin>>())
    }

    fn take_outputs(&mut self, block: BlockView<'_>, height: u32) {
        for (n, tx) in block.txs().enumerate() {
            let Some(spent) = self.wanted.remove(&block.txids()[n]) else { continue };
            for Wanted { vout, record, input } in spent {
                let output = tx.outputs().nth(vout as usize);
                self.records[record].coins[input] = output.map(|output| Coin {
                    value: output.value,
                    script_pubkey: ScriptBytes::from_slice(output.script_pubkey),
                    height,
                    coinbase: n == 0,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::tests::chain;

    #[test]
    fn a_search_is_reported_once_a_minute() {
        let chain = chain(&godwit_fault_disk::FaultDisk::new());
        let mut lost = LostUndo::new(chain.tip(), BTreeSet::new());
        let reported: Vec<u64> =
            (7..200).filter(|now| lost.take_due_report(Duration::from_secs(*now))).collect();
        assert_eq!(reported, [67, 127, 187]);
    }
}
