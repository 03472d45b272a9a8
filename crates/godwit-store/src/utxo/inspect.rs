//! Inspection of runs: every block, its parity, and whether entries, filters, indexes and footers agree.

pub(super) mod segments;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::clean::WrittenMemtables;
use super::key::UtxoHasher;
use super::layers::{Layers, UtxoContext};
use super::lost_coins::LostCoins;
use super::manifest::{Manifest, ManifestRun};
use super::run::file::RunFile;
use super::run::file::repair::Repairs;
use super::run::format::{BLOCK, BlockKind, Footer, open_block, view_block};
use super::run::parity::{GROUP, STRIPES, parity_damage, parity_of, xor_into};
use super::run::segment::Segment;
use super::runs::open_run;
use super::sealed::Sealed;
use super::segments::Segments;
use crate::disk::{OpenMode, StoreDisk, StoreFile};
use crate::error::{Damage, Remedy, StoreError};
use crate::exec::Executor;
use crate::inspect::found::{Found, Stage, Watch};

use segments::{Filters, SegmentChecks};

/// The runs that a manifest names.
pub struct CoinsInspection {
    pub(super) context: UtxoContext,
    pub(super) manifest: Manifest,
    mode: RepairMode,
}

/// What an inspection does about damage.
#[derive(Clone, Copy)]
pub(crate) struct RepairMode {
    /// Whether it writes what parity brings back, and leaves the rest to a repair that follows.
    pub(crate) writes: bool,
    /// What makes coins again that parity cannot bring back.
    pub(crate) beyond_parity: Remedy,
}

/// What an inspection has found out about the runs.
pub struct RunsInspected {
    /// What parity does not bring back.
    pub lost: LostCoins,
    /// Damage that nobody was told of: it is to be repaired with what is lost.
    pub untold: Vec<Found>,
}

/// Damage of one run; that of neighbours is one.
struct Joined<'a> {
    watch: &'a mut dyn Watch,
    all: Vec<Found>,
}

impl Joined<'_> {
    fn found(&mut self, found: Found) {
        if !self.all.last_mut().is_some_and(|last| last.joins(&found)) {
            self.all.push(found);
        }
    }
}

impl CoinsInspection {
    pub(crate) fn open(
        disk: &StoreDisk,
        dir: &Path,
        hasher: UtxoHasher,
        manifest: Manifest,
        executor: &Arc<dyn Executor>,
        mode: RepairMode,
    ) -> Result<Self, StoreError> {
        let repairs = Repairs::in_memory();
        let context = UtxoContext::for_manifest(disk, dir, hasher, &manifest, executor, repairs)?;
        Ok(Self { context, manifest, mode })
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.manifest.runs.len()
    }

    /// Bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.manifest.runs.iter().map(|run| u64::from(run.blocks) * BLOCK as u64).sum()
    }

    /// Inspects all runs.
    ///
    /// # Errors
    ///
    /// A failed system call; [`StoreError::Stopped`].
    pub fn inspect_runs(&self, watch: &mut dyn Watch) -> Result<RunsInspected, StoreError> {
        let (mut lost, mut untold, mut done) = (LostCoins::default(), Vec::new(), 0);
        for named in &self.manifest.runs {
            let mut joined = Joined { watch: &mut *watch, all: Vec::new() };
            self.inspect_run(named, &mut joined, done, &mut lost)?;
            let needs_blocks = lost.needs_blocks_for(named.id);
            for mut found in joined.all {
                if found.remedy == self.mode.beyond_parity && !needs_blocks {
                    // It is written again from its entries.
                    found.remedy = Remedy::Repair;
                }
                let waits = matches!(
                    found.remedy,
                    Remedy::Repair | Remedy::FromBlocks | Remedy::Validation
                );
                match self.mode.writes && waits {
                    true => untold.push(found),
                    false => watch.found(found),
                }
            }
            done += u64::from(named.blocks) * BLOCK as u64;
        }
        Ok(RunsInspected { lost, untold })
    }

    /// The coins as one; damage that parity makes up for is repaired in memory alone.
    ///
    /// # Errors
    ///
    /// A failed read, or damage beyond that.
    pub fn layers(&self) -> Result<Arc<Layers>, StoreError> {
        let mut segments = Segments::new(self.context.partitions());
        for named in &self.manifest.runs {
            let (run, metas) = open_run(&self.context, named)?;
            for meta in &metas {
                let bits = self.context.partition_bits;
                let segment = Segment::load(&run, meta, named.seals, bits)?;
                segments.install(vec![Arc::new(segment)]);
                // A scan asks neither filters nor indexes.
                segments.limit_filters(0);
                segments.limit_indexes(0);
            }
        }
        Ok(Arc::new(Layers {
            context: self.context.clone(),
            epoch: Sealed::new(self.manifest.seal).current().clone(),
            flushing: Vec::new(),
            written: WrittenMemtables::default(),
            partitions: segments.partitions().to_vec(),
        }))
    }

    fn run(&self, named: &ManifestRun) -> RunFile {
        let (disk, path) = (self.context.disk.clone(), named.id.path(&self.context.dir));
        let repairs = match self.mode.writes {
            true => Arc::default(),
            false => Arc::clone(&self.context.repairs),
        };
        RunFile { id: named.id, disk, path, blocks: named.blocks, repairs }
    }

    fn inspect_run(
        &self,
        named: &ManifestRun,
        out: &mut Joined<'_>,
        before: u64,
        lost: &mut LostCoins,
    ) -> Result<(), StoreError> {
        let run = self.run(named);
        let found = |offset, bytes, damage, remedy| Found {
            path: run.path.clone(),
            offset,
            bytes,
            damage,
            remedy,
        };
        let file = match run.open() {
            Err(error) if error.is_not_found() => {
                out.found(found(0, 0, Damage::MissingFile, self.mode.beyond_parity));
                lost.add_partitions(named, named.partitions);
                return Ok(());
            }
            other => other?,
        };
        let len = file.file_len()?;
        let mut reading = Reading::new(self, &run, &file, len);
        let Some(footer) = reading.footer(self.context.hasher, self.context.partition_bits)? else {
            let last = u64::from(run.blocks.saturating_sub(1)) * BLOCK as u64;
            let damage = if len < run.bytes() { Damage::Short } else { Damage::Format };
            out.found(found(last.min(len), 0, damage, self.mode.beyond_parity));
            lost.add_partitions(named, named.partitions);
            return Ok(());
        };
        // Not of another run that has this one's name: what follows here may be its footer.
        self.check_end(&run, len, out)?;
        let there = footer.segments.iter().fold(0, |bits, segment| bits | 1 << segment.partition);
        if named.partitions & !there != 0 {
            let last = u64::from(run.blocks - 1) * BLOCK as u64;
            out.found(found(last, BLOCK as u64, Damage::Format, self.mode.beyond_parity));
            lost.add_partitions(named, named.partitions & !there);
        }
        let mut parity = ParityCheck::open(self, &run, &footer)?;
        let mut segments = SegmentChecks::new(&footer, &self.context, Filters::Compared);
        let mut block = Box::new([0; BLOCK]);
        for number in 0..run.blocks {
            if number.is_multiple_of(STRIPES) {
                if out.watch.is_stopped() {
                    return Err(StoreError::Stopped);
                }
                let done = before + u64::from(number) * BLOCK as u64;
                out.watch.progress(Stage::Runs, done, self.bytes());
            }
            let state = reading.block(number, &mut block)?;
            if let Some((damage, remedy)) = state.damage(self) {
                out.found(found(u64::from(number) * BLOCK as u64, BLOCK as u64, damage, remedy));
            }
            let bytes = (state != BlockState::Lost).then_some(&*block);
            parity.take(number, bytes)?;
            if let Some((number, what)) = segments.take(number, bytes.and_then(view_block)) {
                let (at, damage) = (u64::from(number) * BLOCK as u64, Damage::Disagreement(what));
                out.found(found(at, BLOCK as u64, damage, self.mode.beyond_parity));
            }
        }
        parity.end_group()?;
        lost.add_segments(named, &segments.damaged, parity.take_doubtful());
        let intact = !lost.has_run(named.id);
        parity.end(intact, &mut reading, out)?;
        file.release_cache(0..u64::MAX);
        Ok(())
    }

    /// Cuts off what follows the run, or tells of it.
    fn check_end(&self, run: &RunFile, len: u64, out: &mut Joined<'_>) -> Result<(), StoreError> {
        let offset = run.bytes();
        if len > offset {
            let mut remedy = Remedy::Repair;
            if self.mode.writes {
                let file = self.context.disk.open(&run.path, OpenMode::ReadWrite)?;
                file.set_len(offset)?;
                file.sync()?;
                remedy = Remedy::Done;
            }
            let (path, damage) = (run.path.clone(), Damage::TrailingBytes);
            out.found(Found { path, offset, bytes: len - offset, damage, remedy });
        }
        Ok(())
    }
}

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockState {
    Intact,
    /// It was not what was written, and is known from parity. Whether the file ends before it.
    Known {
        short: bool,
    },
    Lost,
}

impl BlockState {
    fn damage(self, inspection: &CoinsInspection) -> Option<(Damage, Remedy)> {
        let remedy = if inspection.mode.writes { Remedy::Done } else { Remedy::Repair };
        match self {
            Self::Intact => None,
            Self::Known { short: true } => Some((Damage::Short, remedy)),
            Self::Known { short: false } => Some((Damage::Checksum, remedy)),
            Self::Lost => Some((Damage::Checksum, inspection.mode.beyond_parity)),
        }
    }
}

/// Reads a run in order, [`STRIPES`] blocks at once.
struct Reading<'a> {
    repair: bool,
    run: &'a RunFile,
    file: &'a StoreFile,
    len: u64,
    first: u32,
    bytes: Vec<u8>,
}

impl<'a> Reading<'a> {
    fn new(inspection: &CoinsInspection, run: &'a RunFile, file: &'a StoreFile, len: u64) -> Self {
        Self { repair: inspection.mode.writes, run, file, len, first: 0, bytes: Vec::new() }
    }

    /// The footer, if it can be read and is one of this store.
    fn footer(
        &mut self,
        hasher: UtxoHasher,
        partition_bits: u32,
    ) -> Result<Option<Footer>, StoreError> {
        let Some(last) = self.run.blocks.checked_sub(1) else { return Ok(None) };
        let mut block = Box::new([0; BLOCK]);
        // Repaired when its turn comes, and told then.
        let repair = std::mem::replace(&mut self.repair, false);
        let state = self.block(last, &mut block)?;
        self.repair = repair;
        self.bytes.clear();
        if state == BlockState::Lost {
            return Ok(None);
        }
        let view = view_block(&block).filter(|view| view.kind == BlockKind::Footer);
        Ok(view.and_then(|view| Footer::parse(view.payload)).filter(|footer| {
            footer.run == self.run.id
                && footer.fingerprint == hasher.fingerprint()
                && u32::from(footer.partition_bits) == partition_bits
                && footer.segments.iter().all(|segment| segment.end_block() <= last)
        }))
    }

    fn block(&mut self, number: u32, block: &mut [u8; BLOCK]) -> Result<BlockState, StoreError> {
        let held = self.first..self.first + (self.bytes.len() / BLOCK) as u32;
        if !held.contains(&number) {
            self.fill(number)?;
        }
        let place = (number - self.first) as usize;
        *block = self.bytes.as_chunks::<BLOCK>().0[place];
        if open_block(block, self.run.id, number).is_some() {
            return Ok(BlockState::Intact);
        }
        // A read may fail or go wrong once.
        if self.run.read_again(self.file, number, block)? {
            return Ok(BlockState::Intact);
        }
        let known = match self.repair {
            true => match self.run.repair(number, block) {
                Ok(()) => true,
                Err(StoreError::Damaged { .. }) => false,
                Err(error) => return Err(error),
            },
            false => self.run.rebuild(number, block)?,
        };
        let short = u64::from(number + 1) * BLOCK as u64 > self.len;
        Ok(if known { BlockState::Known { short } } else { BlockState::Lost })
    }

    /// Reads the blocks from `number` on; those that cannot be read are zeros.
    fn fill(&mut self, number: u32) -> Result<(), StoreError> {
        let count = STRIPES.min(self.run.blocks - number);
        self.first = number;
        self.bytes.resize(count as usize * BLOCK, 0);
        match self.file.read_exact_at(u64::from(number) * BLOCK as u64, &mut self.bytes) {
            Err(error) if error.is_unreadable() => {}
            other => return other,
        }
        for (n, block) in (number..).zip(self.bytes.as_chunks_mut::<BLOCK>().0) {
            match self.file.read_exact_at(u64::from(n) * BLOCK as u64, block) {
                Err(error) if error.is_unreadable() => block.fill(0),
                other => other?,
            }
        }
        Ok(())
    }
}

/// Compares the parity of a run with its blocks. It is written again at the end, when the run's sums agree: a
/// block of an earlier time has a checksum that holds, and what is there may be all that remembers the right
/// one.
struct ParityCheck<'a> {
    inspection: &'a CoinsInspection,
    run: &'a RunFile,
    file: ParityFile,
    group: ParityGroup,
    wrong: Vec<Found>,
    /// Blocks of parity that do not vouch for their stripes: one of its blocks is lost, or is of another
    /// time, or the parity itself is.
    doubtful: BTreeSet<u32>,
}

enum ParityFile {
    /// Runs of schema 1 have neither sums nor parity.
    None,
    Missing,
    There(StoreFile),
}

/// The parity of a group of blocks, as it is computed.
struct ParityGroup {
    blocks: Range<u32>,
    computed: Vec<u8>,
    /// A stripe with a lost block has none.
    known: [bool; STRIPES as usize],
}

impl ParityGroup {
    /// Begins the group whose first block this is.
    fn new(first: u32) -> Self {
        Self { blocks: first..first, computed: Vec::new(), known: [true; STRIPES as usize] }
    }

    /// The next block, in order; `None` if it cannot be read.
    fn take(&mut self, number: u32, block: Option<&[u8; BLOCK]>) {
        self.blocks.end = number + 1;
        let stripe = (number % GROUP % STRIPES) as usize;
        if number % GROUP < STRIPES {
            self.computed.extend_from_slice(&[0; BLOCK]);
        }
        match block {
            Some(block) => xor_into(&mut self.computed.as_chunks_mut().0[stripe], block),
            None => self.known[stripe] = false,
        }
    }

    /// Its blocks of parity, where they belong, and whether they are known.
    fn parity(&self) -> impl Iterator<Item = (u64, &[u8; BLOCK], bool)> {
        let first = self.blocks.start;
        let blocks = (first..).zip(self.computed.as_chunks::<BLOCK>().0).zip(self.known);
        blocks.map(|((n, block), known)| (u64::from(parity_of(n)) * BLOCK as u64, block, known))
    }
}

impl<'a> ParityCheck<'a> {
    fn open(
        inspection: &'a CoinsInspection,
        run: &'a RunFile,
        footer: &Footer,
    ) -> Result<Self, StoreError> {
        let mut file = ParityFile::None;
        if footer.segments.iter().all(|segment| segment.sum.is_some()) {
            file = match inspection.context.disk.open(&run.parity_path(), OpenMode::Read) {
                Err(error) if error.is_not_found() => ParityFile::Missing,
                other => ParityFile::There(other?),
            };
        }
        let (group, wrong, doubtful) = (ParityGroup::new(0), Vec::new(), BTreeSet::new());
        Ok(Self { inspection, run, file, group, wrong, doubtful })
    }

    fn take(&mut self, number: u32, block: Option<&[u8; BLOCK]>) -> Result<(), StoreError> {
        if number.is_multiple_of(GROUP) {
            self.end_group()?;
            self.group = ParityGroup::new(number);
        }
        self.group.take(number, block);
        Ok(())
    }

    /// Compares the parity of the group that is open.
    fn end_group(&mut self) -> Result<(), StoreError> {
        let ParityFile::There(file) = &self.file else { return Ok(()) };
        for (offset, block, known) in self.group.parity() {
            let number = (offset / BLOCK as u64) as u32;
            let damage = parity_damage(file, number, known.then_some(block))?;
            if !known || damage.is_some() {
                self.doubtful.insert(number);
            }
            if let Some(damage) = damage {
                let (path, bytes, remedy) = (self.run.parity_path(), BLOCK as u64, Remedy::Repair);
                self.wrong.push(Found { path, offset, bytes, damage, remedy });
            }
        }
        Ok(())
    }

    /// What it does not vouch for; `None` if there is no parity.
    fn take_doubtful(&mut self) -> Option<BTreeSet<u32>> {
        let doubtful = std::mem::take(&mut self.doubtful);
        matches!(self.file, ParityFile::There(_)).then_some(doubtful)
    }

    /// Tells what is wrong, and repairs it where all else of the run `agrees`.
    fn end(
        mut self,
        agrees: bool,
        reading: &mut Reading<'_>,
        out: &mut Joined<'_>,
    ) -> Result<(), StoreError> {
        if matches!(self.file, ParityFile::Missing) {
            let (path, damage, remedy) =
                (self.run.parity_path(), Damage::MissingFile, Remedy::Repair);
            self.wrong.push(Found { path, offset: 0, bytes: 0, damage, remedy });
        }
        if self.wrong.is_empty() {
            return Ok(());
        }
        let remedy = match agrees {
            false => self.inspection.mode.beyond_parity,
            true if self.inspection.mode.writes && self.write(reading)? => Remedy::Done,
            true => Remedy::Repair,
        };
        self.wrong.into_iter().for_each(|found| out.found(Found { remedy, ..found }));
        Ok(())
    }

    /// Writes all parity of the run. Returns whether all of it is known.
    fn write(&self, reading: &mut Reading<'_>) -> Result<bool, StoreError> {
        let context = &self.inspection.context;
        let file = context.disk.open(&self.run.parity_path(), OpenMode::ReadWrite)?;
        let mut block = Box::new([0; BLOCK]);
        for first in (0..self.run.blocks).step_by(GROUP as usize) {
            let mut group = ParityGroup::new(first);
            for number in first..self.run.blocks.min(first + GROUP) {
                let state = reading.block(number, &mut block)?;
                group.take(number, (state != BlockState::Lost).then_some(&*block));
            }
            for (offset, block, known) in group.parity() {
                if !known {
                    return Ok(false);
                }
                file.write_all_at(offset, block)?;
            }
        }
        file.sync()?;
        context.disk.sync_dir(&context.dir)?;
        Ok(true)
    }
}
