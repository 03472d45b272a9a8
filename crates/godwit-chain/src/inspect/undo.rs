//! Reports damaged undo records and, in a repair, rebuilds them from the blocks that created the coins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use godwit_store::error::{Damage, Remedy};
use godwit_store::inspect::{AddedUndo, Found, NamedFile, Stage, Watch, refuse_misplaced_undo};
use godwit_store::utxo::CompressedCoins;
use godwit_store::{BLOCK_BUFFERS, ChainPoint, UndoRecord};
use godwit_stream::BufferPool;

use super::reading::{Reading, Round};
use super::shortened::{is_short, shortened};
use super::spent::{Wanted, created, lines};
use super::{Blocks, StoredBlock, UNDO_BYTES, UNDO_COINS, look_at};
use crate::error::ChainError;
use crate::index::{BlockIndex, Loading};
use crate::own_block::has_coins_of;
use crate::shares::in_shares;
use crate::structure::Structured;
use crate::tree::NodeId;

/// An undo record that is not right.
pub(super) struct WrongUndo {
    /// That of its block.
    pub(super) place: usize,
    /// `None` where the file ends before it, which is told of the file, and where there is none, which is
    /// told of all these blocks at once.
    pub(super) damage: Option<Damage>,
}

/// What became of an undo record that was to be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restored {
    /// It is not right.
    Failed,
    /// It was right already.
    Unchanged,
    /// It is right now.
    Made,
}

/// Undo records that are made again by one reading of the blocks.
struct Taken {
    /// Which of the damaged ones they are.
    members: BTreeSet<usize>,
    /// Their blocks, but for those that cannot be read.
    blocks: Vec<(usize, Structured)>,
    coins: Wanted,
}

impl Taken {
    /// Takes as many of those that are left as there may be, of those in these places if there are some.
    fn new(
        blocks: &Blocks<'_>,
        damaged: &[usize],
        left: &[usize],
        places: Option<&BTreeSet<usize>>,
        reading: &Reading,
    ) -> Self {
        let mut taken = Self { members: BTreeSet::new(), blocks: Vec::new(), coins: Wanted::new() };
        let mut bytes = 0;
        let is_one = |n: &&usize| places.is_none_or(|places| places.contains(&damaged[**n]));
        for n in left.iter().filter(is_one) {
            if taken.coins.len() >= UNDO_COINS || bytes >= reading.undo_round() {
                break;
            }
            let block = &blocks.stored[damaged[*n]];
            bytes += u64::from(block.position.len);
            taken.members.insert(*n);
            if let Ok(read) = blocks.read(block) {
                let inputs = read.view().txs().skip(1).flat_map(|tx| tx.inputs());
                taken.coins.extend(inputs.map(|input| (input.prevout, None)));
                taken.blocks.push((*n, read));
            }
        }
        taken
    }
}

impl Blocks<'_> {
    /// Makes undo records again, if it is to repair and they are not too many, and tells what is wrong with
    /// each when it is known whether it is right by then. Those that the index lacks are made again too,
    /// unless there would be too many of them.
    pub(super) fn repair_undo(
        &self,
        mut wrong: Vec<WrongUndo>,
        undo_files: &[NamedFile],
        reading: &mut Reading,
        watch: &mut dyn Watch,
    ) -> Result<(), ChainError> {
        let few = self.are_few(wrong.iter().map(|wrong| wrong.place));
        let remedy = self.undo_remedy(few, reading);
        let found = wrong.len();
        let lacking = (0..self.stored.len()).filter(|place| self.stored[*place].lacks_undo);
        let lacks_some = lacking.clone().next().is_some();
        let concerned = wrong.iter().map(|wrong| wrong.place).chain(lacking.clone());
        let all_few = self.are_few(concerned);
        if all_few {
            wrong.extend(lacking.map(|place| WrongUndo { place, damage: None }));
        }
        let mut restored = vec![None; wrong.len()];
        if self.repair && few && !wrong.is_empty() {
            self.refuse_misplaced(&wrong)?;
            let damaged: Vec<usize> = wrong.iter().map(|wrong| wrong.place).collect();
            self.restore_undo(&damaged, reading, watch, &mut |watch, n, made| {
                let is_right = made != Restored::Failed;
                restored[n] = Some(is_right);
                self.tell(&wrong[n], if is_right { Remedy::Done } else { remedy }, watch);
            })?;
        }
        if lacks_some {
            let are_made = all_few && restored[found..].iter().all(|made| *made == Some(true));
            let remedy = match (self.repair, all_few) {
                (true, _) if are_made => Remedy::Done,
                (false, true) => self.undo_remedy(true, reading),
                _ if self.inspection.has_whole_history() => Remedy::WhenDisconnected,
                _ => Remedy::LacksCoins,
            };
            self.tell_lacking(remedy, watch);
        }
        // Of these files a record that was cut off could not be made again.
        let mut incomplete = BTreeSet::new();
        for (wrong, restored) in wrong.iter().zip(restored) {
            if restored.is_none() {
                self.tell(wrong, remedy, watch);
            }
            if wrong.damage.is_none() && restored != Some(true) {
                incomplete.extend(self.stored[wrong.place].undo.map(|undo| undo.file));
            }
        }
        let still_short: BTreeSet<u32> = self
            .inspection
            .undo_files()?
            .iter()
            .filter(|file| is_short(file))
            .map(|f| f.number)
            .collect();
        for file in undo_files {
            let left = incomplete.contains(&file.number) || still_short.contains(&file.number);
            let restored = self.repair && !left;
            watch.found(shortened(file, if restored { Remedy::Done } else { remedy }));
        }
        Ok(())
    }

    /// Fails where undo files have changed their names, and some of their records cannot be made again: those
    /// that can would be written over them.
    fn refuse_misplaced(&self, wrong: &[WrongUndo]) -> Result<(), ChainError> {
        let blocks = wrong.iter().map(|wrong| &self.stored[wrong.place]);
        let records: Vec<_> =
            blocks.filter_map(|block| block.undo.map(|at| (at, block.prev))).collect();
        Ok(refuse_misplaced_undo(self.inspection, &records)?)
    }

    /// Whether the undo records of these blocks can be made again in a time that is worth it.
    fn are_few(&self, places: impl Iterator<Item = usize>) -> bool {
        places.map(|place| u64::from(self.stored[place].position.len)).sum::<u64>() <= UNDO_BYTES
    }

    /// Tells that the index lacks undo records.
    fn tell_lacking(&self, remedy: Remedy, watch: &mut dyn Watch) {
        let damage = Damage::Disagreement("blocks that were connected have no undo record");
        let path = self.inspection.database_path();
        watch.found(Found { path, offset: 0, bytes: 0, damage, remedy });
    }

    fn tell(&self, wrong: &WrongUndo, remedy: Remedy, watch: &mut dyn Watch) {
        let undo = self.stored[wrong.place].undo;
        let Some((damage, at)) = wrong.damage.clone().zip(undo) else { return };
        let (path, offset, bytes) = (self.inspection.undo_path(at.file), at.offset, at.len.into());
        watch.found(Found { path, offset, bytes, damage, remedy });
    }

    /// What repairs undo records that were not made again; `few`: they can be.
    fn undo_remedy(&self, few: bool, reading: &Reading) -> Remedy {
        match (!self.repair && few, self.inspection.has_whole_history()) {
            (true, true) => Remedy::Repair,
            (true, false) => Remedy::RepairWhereStored,
            (false, true) if few && reading.lacks_blocks => Remedy::RepairOnceFetched,
            (false, true) => self.inspection.index_remedy(),
            (false, false) => Remedy::LacksCoins,
        }
    }

    /// Makes the undo records of blocks again, which are named by their places, and says of each that was
    /// tried, by its number among them, what became of it.
    pub(super) fn restore_undo(
        &self,
        damaged: &[usize],
        reading: &mut Reading,
        watch: &mut dyn Watch,
        made: &mut dyn FnMut(&mut dyn Watch, usize, Restored),
    ) -> Result<(), ChainError> {
        let state = self.inspection.state();
        let Some(tip) = state.verified_tip.or(state.utxo_tip) else { return Ok(()) };
        let mut loading = Loading::new(Arc::clone(&self.params));
        self.inspection.for_each_block(|hash, record| {
            loading.add(hash, record);
            Ok(())
        })?;
        let index = loading.finish(Some(&tip), state.assumed)?;
        let tried = (0..damaged.len()).filter(|n| !reading.hopeless.contains(&damaged[*n]));
        let hash = |n: usize| &self.stored[damaged[n]].hash;
        let ids = tried.filter_map(|n| Some((index.tree().find(hash(n))?, n)));
        for (line, mut left) in lines(&index, ids.collect()) {
            while !left.is_empty() {
                let hash = index.node(line).hash;
                let unfinished = reading.unfinished(&hash);
                let goes_on = unfinished
                    .is_some_and(|places| left.iter().any(|n| places.contains(&damaged[*n])));
                let taken =
                    Taken::new(self, damaged, &left, unfinished.filter(|_| goes_on), reading);
                if !goes_on {
                    let places = taken.members.iter().map(|n| damaged[*n]).collect();
                    self.begin_round(Round { line: hash, places }, reading, watch)?;
                }
                self.find_coins(&index, line, taken.coins, reading, watch)?;
                // Blocks that cannot be read have none.
                let failed = taken.members.iter().map(|n| (*n, Restored::Failed));
                let (mut all, mut added) = (failed.collect::<BTreeMap<_, _>>(), Vec::new());
                for (n, read) in taken.blocks {
                    let block = &self.stored[damaged[n]];
                    all.insert(n, self.rewrite_undo(block, &read, &reading.wanted, &mut added)?);
                }
                self.inspection.commit_undo(&added)?;
                let failed = all.iter().filter(|(_, restored)| **restored == Restored::Failed);
                reading.hopeless.extend(failed.map(|(n, _)| damaged[*n]));
                all.iter().for_each(|(n, restored)| made(&mut *watch, *n, *restored));
                left.retain(|n| !taken.members.contains(n));
                reading.rest();
            }
        }
        Ok(())
    }

    /// Begins to read for other undo records than before: what was read for those has gathered lost coins on
    /// its way, which have to come from all blocks.
    fn begin_round(
        &self,
        round: Round,
        reading: &mut Reading,
        watch: &mut dyn Watch,
    ) -> Result<(), ChainError> {
        if reading.serve_coins() {
            self.read_for_coins(reading, watch)?;
        }
        reading.begin_round(round);
        Ok(())
    }

    /// Looks for coins in the blocks that created them, on the way up to `line`.
    fn find_coins(
        &self,
        index: &BlockIndex,
        line: NodeId,
        coins: Wanted,
        reading: &mut Reading,
        watch: &mut dyn Watch,
    ) -> Result<(), ChainError> {
        reading.want(coins);
        self.read_on(Stage::Undo, reading, watch, |_, reading, _, batch| {
            let (known, tree, lost) = (&reading.wanted, index.tree(), reading.coins.as_ref());
            let read = in_shares(batch, self.threads, |block| {
                let is_below = tree.find(&block.hash).is_some_and(|id| tree.is_ancestor(id, line));
                // One that is damaged is told already, and its coins are not found.
                let read = self.read(block).ok();
                let found = read.as_ref().filter(|_| is_below);
                let found = found.map(|read| created(read, block.height, known));
                Ok((found.unwrap_or_default(), look_at(lost, block, read)))
            })?;
            for (coins, gathered) in read {
                coins.into_iter().for_each(|(outpoint, coin)| reading.found(outpoint, coin));
                if let Some(repair) = &mut reading.coins {
                    repair.take(gathered);
                }
            }
            Ok(())
        })
    }

    /// Writes an undo record to its place, or where it has none to the end of the file: then it is one of
    /// those that were `added`. One that is right already is left as it is.
    fn rewrite_undo(
        &self,
        block: &StoredBlock,
        read: &Structured,
        coins: &Wanted,
        added: &mut Vec<AddedUndo>,
    ) -> Result<Restored, ChainError> {
        let mut spent = CompressedCoins::with_capacity(read.input_count());
        for input in read.view().txs().skip(1).flat_map(|tx| tx.inputs()) {
            let Some(Some(coin)) = coins.get(&input.prevout) else {
                return Ok(Restored::Failed);
            };
            if coin.height > block.height {
                // A coinbase was repeated since (BIP30), and the coin that was spent is not the one here.
                return Ok(Restored::Failed);
            }
            spent.extend([coin]);
        }
        if self.has_undo(block, read, &spent) {
            return Ok(Restored::Unchanged);
        }
        let (magic, pool) = (self.inspection.magic(), BufferPool::new(BLOCK_BUFFERS));
        let record = UndoRecord::encode(magic, &block.prev, &spent, read.spent_counts(), &pool)?;
        let at = match block.undo {
            Some(at) if self.inspection.restore_undo(at, &record)? => at,
            Some(_) => return Ok(Restored::Failed),
            None => self.inspection.append_undo(block.position.file, &record)?,
        };
        let is_right = self.inspection.read_undo(at, &block.prev).is_ok();
        if is_right && block.undo.is_none() {
            let block = ChainPoint { hash: block.hash, height: block.height };
            added.push(AddedUndo { block, at });
        }
        Ok(if is_right { Restored::Made } else { Restored::Failed })
    }

    /// Whether the undo record of a block has these coins, in the bytes that godwit writes.
    fn has_undo(&self, block: &StoredBlock, read: &Structured, spent: &CompressedCoins) -> bool {
        let stored = block.undo.map(|at| self.inspection.read_stored_undo(at, &block.prev));
        // One that cannot be read is not right.
        let Some(Ok((undo, Some(coins)))) = stored else { return false };
        has_coins_of(read.view(), &undo) && coins.iter().eq(spent.iter())
    }
}
