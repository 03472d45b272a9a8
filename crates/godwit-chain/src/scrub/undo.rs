//! Searches for the coins of undo records that have rotted, and writes the records again.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use godwit_primitives::BlockHash;
use godwit_store::error::{Damage, Remedy};
use godwit_store::inspect::Found;
use godwit_store::{StoreError, UndoPosition, UndoRecord, refuse_misplaced_undo, undo_remedy};

use crate::environment::Environment;
use crate::index::BlockIndex;
use crate::limits::{SCRUB_UNDO, SCRUB_UNDO_BYTES};
use crate::lost_undo::{Creator, LostUndo};
use crate::own_block::ReadError;
use crate::tree::NodeId;

/// Undo records that a pass has found to be damaged.
#[derive(Default)]
pub(super) struct LostRecords {
    /// Blocks whose undo records are to be made again, those of the search included.
    pub(super) rotten: BTreeSet<NodeId>,
    /// Damaged undo records that are too many for that.
    pub(super) dropped: u64,
    pub(super) search: Option<Box<Search>>,
    /// A damaged block that a search has met.
    pub(super) waits_for: Option<NodeId>,
    /// When the searches of this pass began.
    pub(super) since: Option<i64>,
}

/// Undo records that are made again.
pub(crate) struct Search {
    pub(super) lost: LostUndo,
    pub(super) records: Vec<RottenUndo>,
    /// There are no blocks left that could be looked through.
    pub(super) ends: bool,
}

/// An undo record that is not what was written.
#[derive(Clone, Copy)]
pub(super) struct RottenUndo {
    pub(super) id: NodeId,
    at: UndoPosition,
    prev: BlockHash,
}

/// What a search has done.
pub(crate) struct Searched {
    pub(super) bytes: u64,
    /// What has become of each record, or what helps; `None` before the search has ended.
    pub(super) restored: Option<Vec<Remedy>>,
}

impl Search {
    /// For some of the records, the highest first, as far as they are of the active chain.
    pub(super) fn begin(index: &BlockIndex, rotten: &mut BTreeSet<NodeId>) -> Option<Self> {
        let known = rotten.iter().filter_map(|id| RottenUndo::of(index, *id));
        let mut records: Vec<RottenUndo> = known.collect();
        records.sort_unstable_by_key(|rotten| Reverse(index.height(rotten.id)));
        records.truncate(in_one_search(records.iter().map(|rotten| rotten.at.len.into())));
        let Some(first) = records.first() else {
            rotten.clear();
            return None;
        };
        let ids: BTreeSet<NodeId> = records.iter().map(|rotten| rotten.id).collect();
        Some(Self { lost: LostUndo::new(first.id, ids), records, ends: false })
    }

    /// Looks through the next blocks, and writes the records when all coins are found, or those that are
    /// complete at its end.
    pub(super) fn go_on(
        &mut self,
        env: &Environment,
        blocks: &[Creator],
    ) -> Result<Searched, ReadError> {
        let bytes = blocks.iter().map(Creator::bytes).sum();
        self.lost.look_through(&env.store, &env.hasher, blocks)?;
        let restored = match self.lost.is_done() || self.ends {
            true => Some(self.restore(env)?),
            false => None,
        };
        Ok(Searched { bytes, restored })
    }

    /// What has become of each record, or what helps.
    fn restore(&self, env: &Environment) -> Result<Vec<Remedy>, StoreError> {
        let remedy = undo_remedy(&env.store);
        let wrong: Vec<_> = self.records.iter().map(|rotten| (rotten.at, rotten.prev)).collect();
        if let Err(error) = refuse_misplaced_undo(&env.store, &wrong) {
            log::error!("Undo records are not made again: {error}");
            return Ok(vec![remedy; self.records.len()]);
        }
        let otherwise = match remedy {
            // A repair would find no more of them.
            Remedy::RepairWhereStored => Remedy::LacksCoins,
            remedy => remedy,
        };
        // Both are from the highest block down.
        let made = self.lost.records().iter().zip(&self.records);
        let restored = made.map(|(record, RottenUndo { id, at, prev })| {
            assert_eq!(record.id, *id, "the records of one chain");
            let Some((spent, counts)) = record.spent() else { return Ok(otherwise) };
            let (magic, buffers) = (env.store.magic(), env.store.block_buffers());
            let counts = counts.iter().copied();
            let made = UndoRecord::encode(magic, prev, spent.compressed(), counts, buffers)?;
            let is_made = env.store.restore_undo(*at, &made)?;
            let is_right = is_made && env.store.scrub_undo(*at, prev).is_ok();
            Ok(if is_right { Remedy::Done } else { otherwise })
        });
        let mut restored: Vec<Remedy> = restored.collect::<Result<_, _>>()?;
        // It has not come to the others.
        restored.resize(self.records.len(), otherwise);
        Ok(restored)
    }
}

/// How many undo records of these lengths are made again in one search: one at least.
pub(super) fn in_one_search(lengths: impl Iterator<Item = u64>) -> usize {
    let ends = lengths.scan(0, |sum, len| {
        *sum += len;
        Some(*sum)
    });
    ends.take(SCRUB_UNDO).take_while(|end| *end <= SCRUB_UNDO_BYTES).count().max(1)
}

impl RottenUndo {
    /// That of a block, as long as a reorganisation may need it.
    pub(super) fn of(index: &BlockIndex, id: NodeId) -> Option<Self> {
        let node = index.node(id);
        let is_needed = node.position.is_some()
            && !index.damaged.has_rotted_undo(id)
            && index.tree().is_ancestor(id, index.tip());
        let at = node.undo.filter(|_| is_needed)?;
        Some(Self { id, at, prev: node.header.prev_blockhash })
    }

    pub(super) fn is_of_use(&self, index: &BlockIndex) -> bool {
        Self::of(index, self.id).is_some_and(|now| now.at == self.at)
    }

    pub(super) fn found(&self, env: &Environment, remedy: Remedy) -> Found {
        let path = env.store.undo_file(self.at.file);
        let (offset, bytes, damage) = (self.at.offset, self.at.len.into(), Damage::Checksum);
        Found { path, offset, bytes, damage, remedy }
    }
}
