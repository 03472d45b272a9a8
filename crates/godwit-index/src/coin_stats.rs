//! The index of the coins' statistics: of each block how many coins there are then, their sum and their hash
//! as a set, and what became of the money that it moved (Core `index/coinstatsindex.cpp`).
//!
//! Its record of a block has the whole set as one number, where Core keeps the hash alone and the number of
//! the last block only. So to go back in a reorganisation means to read a record, not blocks that the chain
//! has left, and what a crash leaves is sound by itself: nothing has to fit anything else. It costs 384 of
//! 508 bytes a block.

mod block;
mod inspect;
mod record;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_consensus::connect::block_subsidy;
use godwit_consensus::is_bip30_unspendable;
use godwit_primitives::muhash::MuHash3072;
use godwit_primitives::{Block, BlockHash, Params};
use godwit_store::disk::StoreDisk;
use godwit_store::{BlockUndo, ChainPoint};

use crate::error::IndexError;
use crate::follow::Index;
use crate::position::Position;
use crate::records::{Layout, Records};
use crate::shared::{Shared, load_or_begin};
use crate::status::Status;
use block::{BlockContext, Moved};
pub(crate) use inspect::inspect;
pub use record::{BlockAmounts, SetTotals, Unspendables};
use record::{RECORD_SIZE, Record};

/// Its directory in that of the indexes.
pub(crate) const DIR: &str = "coinstats";
const MAGIC: [u8; 8] = *b"gdwtcoin";

/// Blocks whose records are not made and not on disk yet: to make them together takes one inversion of 3,072
/// bits, some milliseconds, instead of one each, which would be an hour over the blocks of the main network.
const PENDING_BLOCKS: usize = 100;

/// What the index takes of memory, with what its thread has under way: a block and the coins that it
/// spends, as a rule, 15 MiB; the sets of pending blocks, and records of those that were left.
pub const COIN_STATS_INDEX_MEMORY: u64 = 16 << 20;

/// Files that the index has open: records, and those of blocks that were left, while they are read or
/// written.
pub const COIN_STATS_INDEX_FILES: u64 = 2;

/// The coins after a block, and what the block changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoinStats {
    /// As it is hashed; Core prints it reversed.
    pub muhash: [u8; 32],
    pub totals: SetTotals,
    pub block: BlockAmounts,
}

/// A block whose record is not made yet.
struct Pending {
    point: ChainPoint,
    set: MuHash3072,
    totals: SetTotals,
    block: BlockAmounts,
}

struct State {
    records: Records,
    /// The blocks after those of the records, at most [`PENDING_BLOCKS`].
    pending: Vec<Pending>,
    position: Position,
    /// The coins after the last block.
    set: MuHash3072,
    totals: SetTotals,
}

/// The index, for readers on any thread.
pub struct CoinStatsIndex {
    state: Shared<State>,
    disk: StoreDisk,
    dir: PathBuf,
}

impl CoinStatsIndex {
    /// How far it is.
    pub fn status(&self) -> &Status {
        self.state.status()
    }

    /// What there is after a block, also one that was left in a reorganisation; `None` where the block has
    /// never been in the active chain, or the index is not there yet.
    ///
    /// # Errors
    ///
    /// The index cannot be read. If it is damaged, it will be built again, if all blocks are there.
    pub fn stats(&self, block: ChainPoint) -> Result<Option<CoinStats>, IndexError> {
        self.state.noted(self.try_stats(block))
    }

    fn try_stats(&self, block: ChainPoint) -> Result<Option<CoinStats>, IndexError> {
        let state = self.state.read();
        if let Some(pending) = state.pending.iter().find(|pending| pending.point == block) {
            let Pending { totals, block, .. } = *pending;
            let set = pending.set.clone();
            drop(state);
            return Ok(Some(CoinStats { muhash: set.finalize(), totals, block }));
        }
        let record = record_of(&state.records, &self.dir, block)?;
        Ok(record.map(|Record { set, totals, amounts, .. }| CoinStats {
            muhash: set.hash(),
            totals,
            block: amounts,
        }))
    }
}

fn record_of(
    records: &Records,
    dir: &Path,
    block: ChainPoint,
) -> Result<Option<Record>, IndexError> {
    let decode = |bytes: Vec<u8>| Record::decode(&bytes);
    records.find(block)?.map(decode).transpose().map_err(|_| IndexError::damaged(dir, 0))
}

/// The index as its thread sees it.
pub struct CoinStatsIndexWriter {
    shared: Arc<CoinStatsIndex>,
    layout: Layout,
    params: Arc<Params>,
}

impl CoinStatsIndexWriter {
    /// Opens the index in the directory of the indexes, or begins a new one, at the chain with these
    /// parameters. Blocks below `lowest` cannot be read again; if that is 0, a damaged one is begun anew.
    ///
    /// # Errors
    ///
    /// Its files cannot be opened or made, or are damaged and cannot be built again: nothing is deleted.
    pub fn open(
        disk: &StoreDisk,
        indexes: &Path,
        params: &Arc<Params>,
        lowest: u32,
    ) -> Result<Self, IndexError> {
        let (dir, disk) = (indexes.join(DIR), disk.apart());
        disk.create_dir_all(&dir)?;
        let layout = layout(params.genesis_hash);
        let load = || load(&disk, &dir, layout, lowest);
        let state = load_or_begin("coinstatsindex", &disk, &dir, lowest, load)?;
        let best = state.position.best();
        let shared = CoinStatsIndex { state: Shared::new(state, best), disk, dir };
        Ok(Self { shared: Arc::new(shared), layout, params: Arc::clone(params) })
    }

    /// The reading half, for other threads.
    pub fn reader(&self) -> Arc<CoinStatsIndex> {
        Arc::clone(&self.shared)
    }
}

fn layout(genesis: BlockHash) -> Layout {
    Layout { magic: MAGIC, genesis, size: RECORD_SIZE }
}

fn load(disk: &StoreDisk, dir: &Path, layout: Layout, lowest: u32) -> Result<State, IndexError> {
    let records = Records::open(disk, dir, layout, lowest)?;
    let position = records.position()?;
    let (set, totals) = at(&records, dir, position.best())?;
    Ok(State { records, pending: Vec::new(), position, set, totals })
}

/// The coins after a block of the index's chain, or before genesis.
fn at(
    records: &Records,
    dir: &Path,
    block: Option<ChainPoint>,
) -> Result<(MuHash3072, SetTotals), IndexError> {
    let Some(block) = block else { return Ok((MuHash3072::new(), SetTotals::default())) };
    let record = record_of(records, dir, block)?.ok_or_else(|| IndexError::damaged(dir, 0))?;
    Ok((MuHash3072::from(&record.set), record.totals))
}

impl Index for CoinStatsIndexWriter {
    const NAME: &'static str = "coinstatsindex";
    const WANTS_SPENT: bool = true;

    fn status(&self) -> &Status {
        self.shared.state.status()
    }

    fn position(&self) -> Position {
        self.shared.state.read().position.clone()
    }

    fn durable_height(&self) -> u32 {
        self.shared.state.read().records.durable().saturating_sub(1)
    }

    fn rewind(&mut self, to: Option<ChainPoint>) -> Result<(), IndexError> {
        self.commit()?;
        let mut state = self.shared.state.write();
        state.records.cut(to.map_or(0, |to| to.height + 1))?;
        state.position = state.records.position()?;
        (state.set, state.totals) = at(&state.records, &self.shared.dir, to)?;
        Ok(())
    }

    fn connect(
        &mut self,
        point: ChainPoint,
        block: &Block,
        spent: &BlockUndo,
    ) -> Result<(), IndexError> {
        if self.shared.state.read().pending.len() >= PENDING_BLOCKS {
            self.commit()?;
        }
        let context = BlockContext {
            height: point.height,
            subsidy: block_subsidy(point.height, &self.params),
            is_overwritten: is_bip30_unspendable(point.height, &point.hash),
        };
        let (set, before) = {
            let state = self.shared.state.read();
            (state.set.clone(), state.totals)
        };
        let moved = Moved::by(context, block.view(), spent, set);
        let totals = moved.totals(before);
        let mut state = self.shared.state.write();
        let pending = Pending { point, set: moved.set.clone(), totals, block: moved.amounts };
        state.pending.push(pending);
        state.position.push(point);
        (state.set, state.totals) = (moved.set, totals);
        Ok(())
    }

    fn maintain(&mut self) -> Result<bool, IndexError> {
        // With -prune the blocks are kept until then.
        if self.shared.state.read().pending.len() >= PENDING_BLOCKS {
            self.commit()?;
        }
        Ok(false)
    }

    fn commit(&mut self) -> Result<(), IndexError> {
        let sets: Vec<MuHash3072> =
            self.shared.state.read().pending.iter().map(|pending| pending.set.clone()).collect();
        let quotients = MuHash3072::quotients(&sets);
        {
            let mut state = self.shared.state.write();
            let State { records, pending, set, .. } = &mut *state;
            for (Pending { point, totals, block, .. }, set) in pending.drain(..).zip(&quotients) {
                let record = Record { block: point.hash, set: *set, totals, amounts: block };
                records.push(record.encode().as_slice());
            }
            if let Some(last) = quotients.last() {
                *set = MuHash3072::from(last);
            }
        }
        // Held across I/O: only this thread changes the state.
        self.shared.state.read().records.write()?;
        self.shared.state.write().records.note_written();
        Ok(())
    }

    fn is_damaged(&self) -> bool {
        self.shared.state.is_damaged()
    }

    fn clear(&mut self) -> Result<(), IndexError> {
        let CoinStatsIndex { disk, dir, .. } = &*self.shared;
        Records::remove_all(disk, dir)?;
        *self.shared.state.write() = load(disk, dir, self.layout, 0)?;
        self.shared.state.note_cleared();
        Ok(())
    }
}
