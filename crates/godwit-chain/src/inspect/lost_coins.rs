//! Gathers the coins that parity cannot restore: what the blocks create and spend of them, while all blocks
//! are read.

use std::collections::HashSet;
use std::sync::Arc;

use godwit_consensus::is_bip30_repeat;
use godwit_primitives::BlockHash;
use godwit_store::StoreError;
use godwit_store::checkpoint::{CheckpointReader, CheckpointWriter};
use godwit_store::error::Remedy;
use godwit_store::inspect::{Found, Inspection, Watch};
use godwit_store::utxo::{CoinsInspection, CoinsRepair, RunsInspected, SavedPass, Tally};

use super::{InspectOptions, StoredBlock, note};
use crate::apply::codes;
use crate::error::ChainError;
use crate::index::Loading;
use crate::structure::Structured;

/// What became of a block for the coins that are gathered.
#[derive(Default)]
pub(super) enum Gathered {
    /// They have nothing to do with it.
    #[default]
    Nothing,
    /// They come from it, and it cannot be read.
    Unreadable,
    Read(Box<Touched>),
}

/// A block, and which of its inputs and outputs are of wanted coins.
pub(super) struct Touched {
    block: Structured,
    height: u32,
    spends: Vec<u32>,
    creates: Vec<u32>,
    tally: Tally,
}

/// What an interrupted repair had gathered.
pub(super) struct SavedCoins {
    next: u32,
    pass: SavedPass,
}

/// The repair of coins that were lost.
pub(super) struct LostCoinsRepair {
    coins: CoinsRepair,
    /// The blocks that the coins come from, and the height of the last one.
    chain: HashSet<BlockHash>,
    height: u32,
    /// The last one.
    tip: BlockHash,
    /// Height of the block that is to come next.
    next: u32,
    /// Damage of which nobody was told yet.
    untold: Vec<Found>,
    /// Coins that there are, by the blocks of the last pass.
    counted: Option<u64>,
}

impl LostCoinsRepair {
    /// Begins to repair what is lost, if anything is and it can be done here; else tells of it.
    pub(super) fn begin(
        inspection: &Inspection,
        coins: &CoinsInspection,
        runs: RunsInspected,
        options: &InspectOptions,
        watch: &mut dyn Watch,
    ) -> Result<Option<Self>, ChainError> {
        let RunsInspected { lost, untold } = runs;
        let from_blocks = lost.needs_blocks();
        let has_source = !from_blocks || inspection.has_whole_history() && inspection.has_index();
        if lost.is_empty() {
            untold.into_iter().for_each(|found| watch.found(found));
            return Ok(None);
        }
        if !options.repair || !has_source {
            let remedy = inspection.index_remedy();
            untold.into_iter().for_each(|found| watch.found(Found { remedy, ..found }));
            return Ok(None);
        }
        if from_blocks {
            let line = "Lost coins: parity does not repair all runs of coins; what is missing is gathered from \
                        all blocks.";
            note(watch, line);
        }
        let state = inspection.state();
        let (mut chain, mut height, mut memory) = (HashSet::new(), 0, options.memory.beside(0));
        if from_blocks && let Some(tip) = state.utxo_tip {
            let mut loading = Loading::new(Arc::clone(&options.params));
            inspection.for_each_block(|hash, record| {
                loading.add(hash, record);
                Ok(())
            })?;
            memory = options.memory.beside(loading.memory());
            match loading.finish(Some(&tip), None) {
                Ok(index) => {
                    let mut walk = index.tip();
                    while let Some(parent) = index.node(walk).parent() {
                        chain.insert(index.node(walk).hash);
                        walk = parent;
                    }
                    height = tip.height;
                }
                // It is told, and without a chain no pass is complete.
                Err(ChainError::DamagedIndex(_)) => height = u32::MAX,
                Err(error) => return Err(error),
            }
        }
        let mut coins = CoinsRepair::begin(coins, &lost, memory, &options.start.stop)?;
        coins.copy_intact(&mut |manifest| inspection.commit_coins(manifest))?;
        let tip = state.utxo_tip.map_or(BlockHash::ZERO, |tip| tip.hash);
        let mut repair = Self { coins, chain, height, tip, next: 1, untold, counted: None };
        repair.tell_repaired(watch);
        Ok(Some(repair))
    }

    /// Tells of damage whose repair is committed: a repair that goes on from there does not find it any more.
    fn tell_repaired(&mut self, watch: &mut dyn Watch) {
        let is_left = |found: &Found| self.coins.is_left(&found.path);
        let untold = std::mem::take(&mut self.untold).into_iter();
        let (left, repaired): (Vec<Found>, Vec<Found>) = untold.partition(is_left);
        self.untold = left;
        repaired.into_iter().for_each(|found| watch.found(Found { remedy: Remedy::Done, ..found }));
    }

    /// Whether blocks are to be read, in the order of their heights.
    pub(super) fn wants_blocks(&self) -> bool {
        self.coins.wants_blocks()
    }

    /// Whether a block could not be read, or the blocks are not those of the coins.
    pub(super) fn has_failed(&self) -> bool {
        self.coins.has_failed()
    }

    /// Bytes that are free where there is room for what was gathered beside what is to be written.
    pub(super) fn room(&self) -> u64 {
        self.coins.room().saturating_add(self.coins.saved_bytes())
    }

    /// Writes down what was gathered up to the block that is to come next.
    pub(super) fn save(&self, out: &mut CheckpointWriter) -> Result<(), StoreError> {
        out.write(self.tip.as_bytes())?;
        out.write_u64(self.next.into())?;
        self.coins.save(out)
    }

    /// Reads what [`Self::save`] has written; `None`: it is not that of this repair.
    pub(super) fn load(
        &mut self,
        from: &mut CheckpointReader,
    ) -> Result<Option<SavedCoins>, StoreError> {
        let tip = from.array().map(BlockHash::from_bytes);
        let next = from.u64().and_then(|next| u32::try_from(next).ok());
        let next = next.filter(|next| *next > 0 && *next - 1 <= self.height);
        let Some(next) = next.filter(|_| tip == Some(self.tip)) else { return Ok(None) };
        Ok(self.coins.load(from)?.map(|pass| SavedCoins { next, pass }))
    }

    /// Goes on from what an interrupted repair had gathered.
    pub(super) fn go_on(&mut self, saved: SavedCoins) {
        self.next = saved.next;
        self.coins.go_on(saved.pass);
    }

    /// Whether the block is of the chain whose coins these are.
    pub(super) fn is_on_chain(&self, hash: &BlockHash) -> bool {
        self.chain.contains(hash)
    }

    /// What a block does with wanted coins; on any thread.
    pub(super) fn look_at(&self, stored: &StoredBlock, block: Option<Structured>) -> Gathered {
        if !stored.has_coins || !self.wants_blocks() {
            return Gathered::Nothing;
        }
        let Some(block) = block else { return Gathered::Unreadable };
        let mut tally = self.coins.empty_tally();
        let (mut spends, mut creates) = (Vec::new(), Vec::new());
        for (n, key) in (0..).zip(block.spends()) {
            tally.spend(key);
            if self.coins.wants(key) {
                spends.push(n);
            }
        }
        // Its coinbase takes the place of another one.
        let is_repeat = is_bip30_repeat(stored.height, &stored.hash);
        for n in block.created() {
            let (key, (_, coinbase)) = (&block.creates()[*n as usize], block.output(*n as usize));
            if !(is_repeat && coinbase) {
                tally.create(key);
            }
            if self.coins.wants(key) {
                creates.push(*n);
            }
        }
        let height = stored.height;
        Gathered::Read(Box::new(Touched { block, height, spends, creates, tally }))
    }

    /// Takes the next block.
    pub(super) fn take(&mut self, gathered: Gathered) {
        let touched = match gathered {
            Gathered::Nothing => return,
            Gathered::Unreadable => return self.coins.give_up(),
            Gathered::Read(touched) => touched,
        };
        let Touched { block, height, spends, creates, tally } = *touched;
        if height != self.next {
            return self.coins.give_up();
        }
        self.next += 1;
        self.coins.count(&tally);
        spends.into_iter().for_each(|n| self.coins.spend(&block.spends()[n as usize]));
        let codes = codes(height);
        for n in creates {
            let (output, coinbase) = block.output(n as usize);
            let output = output.expect("what cannot be spent is no coin");
            let code = &codes[usize::from(coinbase)];
            self.coins.create(&block.creates()[n as usize], [code.as_slice(), output]);
        }
    }

    /// All blocks were read once, as far as there are any.
    pub(super) fn end_pass(
        &mut self,
        inspection: &Inspection,
        watch: &mut dyn Watch,
    ) -> Result<(), StoreError> {
        if !self.wants_blocks() {
            return Ok(());
        }
        if self.next - 1 != self.height {
            self.coins.give_up();
            return Ok(());
        }
        (self.next, self.counted) = (1, Some(self.coins.counted()));
        self.coins.end_pass(&mut |manifest| inspection.commit_coins(manifest))?;
        self.tell_repaired(watch);
        if self.wants_blocks()
            && let Some(readings) = self.coins.passes_left()
        {
            let line = format!(
                "Lost coins: about {readings} more readings of all blocks are needed, for want of memory \
                 (-memory); `godwit -reindex-chainstate` takes one."
            );
            note(watch, &line);
        }
        Ok(())
    }

    /// Tells what was not repaired. Returns whether all was, and how many coins there are then, if blocks
    /// have told.
    pub(super) fn end(mut self, watch: &mut dyn Watch) -> (bool, Option<u64>) {
        self.tell_repaired(watch);
        let is_whole = self.untold.is_empty();
        let remedy = Remedy::ReindexChainstate;
        self.untold.into_iter().for_each(|found| watch.found(Found { remedy, ..found }));
        (is_whole, self.counted)
    }
}
