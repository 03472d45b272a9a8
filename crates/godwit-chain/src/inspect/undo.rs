//! Undo records that are made again, from the blocks that created the coins.

use std::collections::btree_map::Entry;
use std::sync::Arc;

use godwit_store::inspect::{Stage, Watch};
use godwit_store::utxo::CompressedCoins;
use godwit_store::{BLOCK_BUFFERS, UndoRecord};
use godwit_stream::BufferPool;

use super::lost_coins::LostCoinsRepair;
use super::spent::{Wanted, created, lines};
use super::{Blocks, StoredBlock, UNDO_COINS, UNDO_ROUND_BYTES, look_at};
use crate::error::ChainError;
use crate::index::{BlockIndex, Loading};
use crate::shares::in_shares;
use crate::structure::Structured;
use crate::tree::NodeId;

impl Blocks<'_> {
    /// Makes undo records again; which of them are right now.
    pub(super) fn restore_undo(
        &self,
        damaged: Vec<&StoredBlock>,
        repair: &mut Option<LostCoinsRepair>,
        watch: &mut dyn Watch,
    ) -> Result<Vec<bool>, ChainError> {
        let mut restored = vec![false; damaged.len()];
        let state = self.inspection.state();
        let Some(tip) = state.verified_tip.or(state.utxo_tip) else { return Ok(restored) };
        if !self.inspection.has_whole_history() {
            return Ok(restored);
        }
        let mut loading = Loading::new(Arc::clone(&self.params));
        self.inspection.for_each_block(|hash, record| {
            loading.add(hash, record);
            Ok(())
        })?;
        let index = loading.finish(Some(&tip), None)?;
        let places = damaged.iter().zip(0..);
        let places = places.filter_map(|(block, n)| Some((index.tree().find(&block.hash)?, n)));
        for (line, members) in lines(&index, places.collect()) {
            let mut next = 0;
            while next < members.len() {
                let (mut round, mut coins, mut bytes) = (Vec::new(), Wanted::new(), 0);
                while next < members.len() && coins.len() < UNDO_COINS && bytes < UNDO_ROUND_BYTES {
                    let place = members[next];
                    bytes += u64::from(damaged[place].position.len);
                    if let Ok(read) = self.read(damaged[place]) {
                        let inputs = read.view().txs().skip(1).flat_map(|tx| tx.inputs());
                        coins.extend(inputs.map(|input| (input.prevout, None)));
                        round.push((place, read));
                    }
                    next += 1;
                }
                self.find_coins(&index, line, &mut coins, repair, watch)?;
                for (place, read) in round {
                    restored[place] = self.rewrite_undo(damaged[place], &read, &coins)?;
                }
            }
        }
        Ok(restored)
    }

    /// Fills in coins from the blocks that created them, on the way up to `line`.
    fn find_coins(
        &self,
        index: &BlockIndex,
        line: NodeId,
        coins: &mut Wanted,
        repair: &mut Option<LostCoinsRepair>,
        watch: &mut dyn Watch,
    ) -> Result<(), ChainError> {
        let threads = self.threads;
        self.for_each_batch(&self.stored, Stage::Undo, watch, |_, batch| {
            let (known, tree, lost) = (&*coins, index.tree(), repair.as_ref());
            let read = in_shares(batch, threads, |block| {
                let is_below = tree.find(&block.hash).is_some_and(|id| tree.is_ancestor(id, line));
                // One that is damaged is told already, and its coins are not found.
                let read = self.read(block).ok();
                let found = read.as_ref().filter(|_| is_below);
                let found = found.map(|read| created(read, block.height, known));
                Ok((found.unwrap_or_default(), look_at(lost, block, read)))
            })?;
            let mut found = Vec::new();
            for (coins, gathered) in read {
                found.extend(coins);
                if let Some(repair) = repair {
                    repair.take(gathered);
                }
            }
            for (outpoint, coin) in found {
                match coins.entry(outpoint) {
                    // Of two coinbases with the same hash the later one counts.
                    Entry::Occupied(mut entry)
                        if entry.get().as_ref().is_none_or(|old| old.height < coin.height) =>
                    {
                        entry.insert(Some(coin));
                    }
                    _ => {}
                }
            }
            Ok(())
        })?;
        self.end_pass(repair)
    }

    fn rewrite_undo(
        &self,
        block: &StoredBlock,
        read: &Structured,
        coins: &Wanted,
    ) -> Result<bool, ChainError> {
        let Some(at) = block.undo else { return Ok(false) };
        let mut spent = CompressedCoins::with_capacity(read.input_count());
        for input in read.view().txs().skip(1).flat_map(|tx| tx.inputs()) {
            let Some(Some(coin)) = coins.get(&input.prevout) else { return Ok(false) };
            spent.extend([coin]);
        }
        let (magic, pool) = (self.inspection.magic(), BufferPool::new(BLOCK_BUFFERS));
        let record = UndoRecord::encode(magic, &block.prev, &spent, read.spent_counts(), &pool)?;
        if !self.inspection.restore_undo(at, &record)? {
            return Ok(false);
        }
        Ok(self.inspection.read_undo(at, &block.prev).is_ok())
    }
}
