//! The transaction index: txid to block and place in it.
//!
//! Main has 1.3 billion transactions, and a tree with their ids as keys would be written at random. What is
//! kept of a txid is 48 bits of its keyed hash, in sorted runs that are merged when there are four of a size:
//! written in one piece, 12 bytes a transaction. Two transactions may share a key, and blocks are left in
//! reorganisations: so it names candidates, and the reader reads the transaction and compares its txid.
//!
//! What came after the last run is in memory, and is indexed again after a kill.

mod entry;
mod inspect;
mod manifest;
mod merge;
mod run;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_primitives::{Block, BlockHash, Txid};
use godwit_store::disk::StoreDisk;
use godwit_store::{BlockUndo, ChainPoint};

use crate::error::IndexError;
use crate::follow::Index;
use crate::position::Position;
use crate::shared::Shared;
use crate::status::Status;
use entry::{Entry, Key, MAX_FIELD};
pub(crate) use inspect::inspect;
use manifest::Manifest;
use merge::{Merge, Merging};
use run::{Run, RunFacts, RunWriter};

/// Its directory in that of the indexes.
pub(crate) const DIR: &str = "txindex";
/// Entries in memory that make a run.
const RUN_ENTRIES: usize = 1 << 18;
/// What the index takes of memory, with what its thread has under way: entries and their tree, 8 MiB; the
/// buffers of a merge, 3; a block and its txids, 5.
pub const TX_INDEX_MEMORY: u64 = 16 << 20;
/// Runs with which nothing is added before some are merged: three of each size of twelve, of which the last
/// has 4^11 times 262,144 entries. With main's 1.3 billion there are 21 at most, and more while a large merge
/// goes on.
const MAX_RUNS: usize = 3 * 12;
/// Files that the index has open: runs, one more, what is written, and the manifest.
pub const TX_INDEX_FILES: u64 = MAX_RUNS as u64 + 3;
/// Blocks that were left in reorganisations and whose transactions are still found, the latest ones.
const MAX_STALE: usize = 1_000;

/// A place where a transaction may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxPlace {
    pub block: TxBlock,
    /// From the block's first byte.
    pub offset: u32,
}

/// A block that may have a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxBlock {
    /// That of the active chain at this height.
    Active(u32),
    /// This one, which was connected; the chain may have left it.
    Connected(BlockHash),
}

#[derive(Debug)]
struct State {
    secret: [u8; 16],
    next_id: u64,
    position: Position,
    /// The last blocks that were left, the oldest first.
    stale: Vec<ChainPoint>,
    /// Not on disk yet.
    pending: BTreeSet<Entry>,
    /// The oldest first.
    runs: Vec<Arc<Run>>,
}

impl State {
    fn new(secret: [u8; 16]) -> Self {
        Self {
            secret,
            next_id: 0,
            position: Position::default(),
            stale: Vec::new(),
            pending: BTreeSet::new(),
            runs: Vec::new(),
        }
    }

    fn manifest(&self, genesis: BlockHash) -> Manifest {
        Manifest {
            genesis,
            secret: self.secret,
            next_id: self.next_id,
            position: self.position.clone(),
            stale: self.stale.clone(),
            runs: self.runs.iter().map(|run| run.facts).collect(),
        }
    }

    /// Blocks that the index has and that it has left, as far as they are remembered: the one that was
    /// connected last first, because a block is left before the one that takes its place is connected.
    fn connected(&self) -> impl Iterator<Item = &ChainPoint> {
        self.position.points().iter().chain(self.stale.iter().rev())
    }
}

/// The index, for readers on any thread.
pub struct TxIndex {
    state: Shared<State>,
}

impl TxIndex {
    /// How far it is.
    pub fn status(&self) -> &Status {
        self.state.status()
    }

    /// Where a transaction may be: first in blocks of the active chain, the highest first, then in those that
    /// were left, the one connected last first, which is the one that Core names. The caller compares the
    /// txid, and takes the next one where it is another.
    ///
    /// # Errors
    ///
    /// The index cannot be read. If it is damaged, it will be built again.
    pub fn find(&self, txid: &Txid) -> Result<Vec<TxPlace>, IndexError> {
        let (key, runs, mut found) = {
            let state = self.state.read();
            let key = Key::of(txid, &state.secret);
            let (least, most) = (
                Entry { key, height: 0, offset: 0 },
                Entry { key, height: MAX_FIELD, offset: MAX_FIELD },
            );
            let pending: Vec<Entry> = state.pending.range(least..=most).copied().collect();
            (key, state.runs.clone(), pending)
        };
        for run in runs {
            self.state.noted(run.find(key, &mut found))?;
        }
        found.sort_unstable();
        found.dedup();
        found.reverse();
        let place = |entry: &Entry, block| TxPlace { block, offset: entry.offset };
        let active = found.iter().map(|entry| place(entry, TxBlock::Active(entry.height)));
        let mut places: Vec<TxPlace> = active.collect();
        for block in self.state.read().connected() {
            let of_height = found.iter().filter(|entry| entry.height == block.height);
            places.extend(of_height.map(|entry| place(entry, TxBlock::Connected(block.hash))));
        }
        Ok(places)
    }
}

/// The index as its thread sees it.
pub struct TxIndexWriter {
    shared: Arc<TxIndex>,
    disk: StoreDisk,
    dir: PathBuf,
    genesis: BlockHash,
    merge: Option<Box<Merge>>,
    /// A merge has no room, and the log has said so.
    lacks_room: bool,
    /// Entries of a run, and of a part of a merge.
    run_entries: usize,
    /// What the manifest on disk says of where the index is.
    written: Position,
}

impl TxIndexWriter {
    /// Opens the index in the directory of the indexes, or begins a new one, with `secret`, which is
    /// random, and at the chain of `genesis`. One that is damaged is begun anew.
    ///
    /// # Errors
    ///
    /// Its files cannot be opened or made.
    pub fn open(
        disk: &StoreDisk,
        indexes: &Path,
        genesis: BlockHash,
        secret: [u8; 16],
    ) -> Result<Self, IndexError> {
        Self::open_with_run_size(disk, indexes, genesis, secret, RUN_ENTRIES)
    }

    /// The same, with so many entries in a run: for tests, which have few.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with_run_size(
        disk: &StoreDisk,
        indexes: &Path,
        genesis: BlockHash,
        secret: [u8; 16],
        run_entries: usize,
    ) -> Result<Self, IndexError> {
        let dir = indexes.join(DIR);
        let disk = disk.apart();
        disk.create_dir_all(&dir)?;
        let state = match load(&disk, &dir, genesis) {
            Err(error) if error.is_damage() => {
                log::error!("The txindex: {error}. It is built again from the beginning.");
                None
            }
            loaded => loaded?,
        };
        let state = state.unwrap_or_else(|| State::new(secret));
        let written = state.position.clone();
        let shared = TxIndex { state: Shared::new(state, written.best()) };
        let mut writer = Self {
            shared: Arc::new(shared),
            disk,
            dir,
            genesis,
            merge: None,
            lacks_room: false,
            run_entries,
            written,
        };
        if writer.written.best().is_none() {
            writer.clear()?;
        }
        writer.manifest().sweep(&writer.disk, &writer.dir)?;
        Ok(writer)
    }

    /// The reading half, for other threads.
    pub fn reader(&self) -> Arc<TxIndex> {
        Arc::clone(&self.shared)
    }

    fn manifest(&self) -> Manifest {
        self.shared.state.read().manifest(self.genesis)
    }

    fn secret(&self) -> [u8; 16] {
        self.shared.state.read().secret
    }

    fn take_id(&self) -> u64 {
        let mut state = self.shared.state.write();
        state.next_id += 1;
        state.next_id - 1
    }

    /// Writes what is in memory as a run.
    fn write_pending(&mut self) -> Result<Option<Run>, IndexError> {
        if self.shared.state.read().pending.is_empty() {
            return Ok(None);
        }
        let id = self.take_id();
        let secret = self.secret();
        let mut writer = RunWriter::create(&self.disk, &self.dir, secret, id)?;
        // Held across I/O: only this thread changes the state.
        for entry in &self.shared.state.read().pending {
            writer.add(*entry)?;
        }
        let facts = writer.finish()?;
        Run::open(&self.disk, &self.dir, secret, facts).map(Some)
    }

    /// A merge cannot begin or go on. Where the disk has no room for it, it is put off as long as the runs
    /// are not too many: what fills the disk ends the node, which needs no index.
    fn put_off(&mut self, error: IndexError, runs: usize) -> Result<bool, IndexError> {
        if !matches!(error, IndexError::LacksRoom { .. }) || runs >= MAX_RUNS {
            return Err(error);
        }
        if !std::mem::replace(&mut self.lacks_room, true) {
            log::warn!("The txindex: {error}. That is put off.");
        }
        Ok(false)
    }

    /// Puts a merged run in the place of those that it has all entries of.
    fn replace(&mut self, facts: RunFacts, replaces: &[u64]) -> Result<(), IndexError> {
        let run = Arc::new(Run::open(&self.disk, &self.dir, self.secret(), facts)?);
        let mut runs = self.shared.state.read().runs.clone();
        let is_replaced = |run: &Arc<Run>| replaces.contains(&run.facts.id);
        let first = runs.iter().position(is_replaced).expect("nothing else takes runs away");
        let old: Vec<_> = runs.splice(first..first + replaces.len(), [run]).collect();
        // Pending entries are not in it, and so neither is where the index is now.
        let manifest = Manifest {
            position: self.written.clone(),
            runs: runs.iter().map(|run| run.facts).collect(),
            ..self.manifest()
        };
        manifest.write(&self.disk, &self.dir)?;
        self.shared.state.write().runs = runs;
        for run in old {
            self.disk.remove(&run.facts.path(&self.dir))?;
        }
        Ok(())
    }
}

/// The state on disk; `None` where there is none.
fn load(disk: &StoreDisk, dir: &Path, genesis: BlockHash) -> Result<Option<State>, IndexError> {
    let Some(manifest) = Manifest::read(disk, dir)? else { return Ok(None) };
    if manifest.genesis != genesis {
        return Err(IndexError::damaged(dir, 0));
    }
    let secret = manifest.secret;
    let open = |facts: &RunFacts| Run::open(disk, dir, secret, *facts).map(Arc::new);
    let runs = manifest.runs.iter().map(open).collect::<Result<_, _>>()?;
    let Manifest { next_id, position, stale, .. } = manifest;
    Ok(Some(State { secret, next_id, position, stale, pending: BTreeSet::new(), runs }))
}

impl Index for TxIndexWriter {
    const NAME: &'static str = "txindex";
    const WANTS_SPENT: bool = false;

    fn status(&self) -> &Status {
        self.shared.state.status()
    }

    fn position(&self) -> Position {
        self.shared.state.read().position.clone()
    }

    fn durable_height(&self) -> u32 {
        self.written.best().map_or(0, |best| best.height)
    }

    fn rewind(&mut self, to: Option<ChainPoint>) -> Result<(), IndexError> {
        let mut state = self.shared.state.write();
        let mut left = state.position.rewind(to);
        left.reverse();
        state.stale.retain(|block| !left.contains(block));
        state.stale.extend(left);
        let excess = state.stale.len().saturating_sub(MAX_STALE);
        state.stale.drain(..excess);
        Ok(())
    }

    fn connect(
        &mut self,
        point: ChainPoint,
        block: &Block,
        _: &BlockUndo,
    ) -> Result<(), IndexError> {
        let height = point.height;
        if height > MAX_FIELD {
            return Err(IndexError::TooHigh { height });
        }
        if self.shared.state.read().pending.len() >= self.run_entries {
            self.commit()?;
        }
        let mut state = self.shared.state.write();
        // The transaction of genesis is none, as in Core.
        if height > 0 {
            let (view, secret) = (block.view(), state.secret);
            let mut offset = view.total_size();
            for (txid, tx) in view.txids().iter().zip(view.txs()).rev() {
                offset -= tx.total_size();
                let key = Key::of(txid, &secret);
                state.pending.insert(Entry { key, height, offset: offset as u32 });
            }
        }
        state.position.push(point);
        state.stale.retain(|left| *left != point);
        Ok(())
    }

    fn is_behind(&self) -> bool {
        self.shared.state.read().runs.len() >= MAX_RUNS
    }

    fn maintain(&mut self) -> Result<bool, IndexError> {
        let runs = self.shared.state.read().runs.clone();
        if self.merge.is_none() {
            let sizes: Vec<u64> = runs.iter().map(|run| run.facts.entries).collect();
            let Some(range) = merge::due(&sizes, self.run_entries as u64) else { return Ok(false) };
            let (secret, id) = (self.secret(), self.take_id());
            self.merge = match Merge::begin(&self.disk, &self.dir, secret, &runs[range], id) {
                Ok(merge) => Some(Box::new(merge)),
                Err(error) => return self.put_off(error, runs.len()),
            };
            self.lacks_room = false;
        }
        let Some(merge) = self.merge.take() else { return Ok(false) };
        match merge.go_on(&self.disk, &self.dir, self.run_entries) {
            Ok(Merging::GoesOn(merge)) => self.merge = Some(merge),
            Ok(Merging::Done(facts, replaces)) => self.replace(facts, &replaces)?,
            Err(error) => return self.put_off(error, runs.len()),
        }
        Ok(true)
    }

    fn commit(&mut self) -> Result<(), IndexError> {
        let run = self.write_pending()?.map(Arc::new);
        let mut manifest = self.manifest();
        if run.is_none() && manifest.position == self.written {
            return Ok(());
        }
        manifest.runs.extend(run.iter().map(|run| run.facts));
        manifest.write(&self.disk, &self.dir)?;
        self.written = manifest.position;
        let mut state = self.shared.state.write();
        state.pending.clear();
        state.runs.extend(run);
        Ok(())
    }

    fn is_damaged(&self) -> bool {
        self.shared.state.is_damaged()
    }

    fn clear(&mut self) -> Result<(), IndexError> {
        self.merge = None;
        let fresh = {
            let mut state = self.shared.state.write();
            // The key stays, and numbers go on: so no run of before has number and key of a new one.
            let fresh = State { next_id: state.next_id, ..State::new(state.secret) };
            *state = fresh;
            state.manifest(self.genesis)
        };
        fresh.write(&self.disk, &self.dir)?;
        self.written = Position::default();
        self.shared.state.note_cleared();
        Ok(fresh.sweep(&self.disk, &self.dir)?)
    }
}
