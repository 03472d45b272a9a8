//! Repairs runs that parity cannot: from what is still readable, and from all blocks.
//!
//! An inspection ([`super::inspect`]) says what is lost. The caller has the blocks, and hands over what they
//! create and spend, in order of height, in one pass or in several ([`CoinsRepair`]). What must hold:
//!
//! 1. *A partition's coins are its newest entries.* Merges and runs know no other way for a key of a
//!    partition: its segments, newest first; the first entry decides, and a tombstone says that there is no
//!    coin. So a partition all of whose segments can be read needs no block, whatever has become of its
//!    filters and block indexes: these follow from the entries. Its segments of damaged runs are copied,
//!    tombstones included, under the seals that they had.
//! 2. *What is lost lies in known ranges of keys.* Entries of a segment are in order of key, so that a lost
//!    block can only have had keys between its last readable neighbours' before and behind it, both
//!    included ([`salvage`]). Of a run that is missing, or whose footer is, and of a segment that
//!    contradicts its footer (count, least and greatest key, keyed sum), nothing is believed: then it is
//!    the whole partition. Filters and indexes are asked nowhere.
//! 3. *Outside these ranges every layer is whole,* and so is what 1 says there. Within them no layer is
//!    asked: the answer is what the blocks from genesis to the coins' own block create and do not spend,
//!    applied in order of height as the connector does (`godwit-chain/src/apply.rs`: what a block spends,
//!    then what it creates but for what it spends itself; nothing that cannot be spent; a coinbase
//!    overwrites, which the two pairs of BIP30 are). It is right because each of these blocks was read
//!    whole, has the hash that the index has for its height, and was verified once; one that cannot be read
//!    ends the repair.
//! 4. *A damaged partition becomes one segment*, which has exactly these coins, from both sides of 3, and
//!    no tombstones: nothing older is left that one could hide. It bears the seals of all that it replaces.
//!    Whatever is sealed later is newer, since no seal is above the manifest's.
//! 5. *The blocks confirm what they did not write.* Beside the coins of the ranges, every pass counts for
//!    every partition how many outpoints are created and not spent, and sums up their keyed hashes
//!    ([`Tally`]). A partition is written only if all that is to be written of it, the healthy entries
//!    included, has this count and this sum. So an entry that a healthy block has too much, or lacks, is
//!    found out, though its checksum holds; then the whole partition is gathered. Of amounts and scripts of
//!    healthy entries, the footers' sums say that they are what was written; and of a segment with lost
//!    blocks, for which no sum can be made, its parity: a block whose stripe has a lost one, or is not
//!    what the parity says, counts as lost too, for it may be of another time ([`salvage`]).
//! 6. *Memory is bounded.* Coins of the ranges that do not fit are left to another pass, from the upper end
//!    of the keys ([`gathered`]): what a pass keeps is complete, for it has seen all of its keys from the
//!    first block on. A partition that takes several passes waits in scratch runs. Each pass gathers at
//!    least one key.
//! 7. *The manifest names all of a repair or nothing.* A run is written under a number that was never used,
//!    and is durable with its parity and its name before the one commit that names it in place of what it
//!    replaces. Files that no manifest names any more are removed behind that commit; what a crash leaves
//!    of them, the next start removes, and of unfinished runs the next repair too. So a cut at any operation
//!    leaves the damaged partition named or the repaired one, and in either case the others as they were.
//! 8. *What is committed stays.* Each pass commits the partitions that are complete with it. A repair that
//!    is stopped or cut is begun again with what is still damaged. It goes on from the block at which the
//!    one before was written down last ([`saved`]), if that is of the same ranges, or of all keys.
//!
//! Whole partitions are written, and not ranges of keys alone: so there is no second way in which an entry
//! could hide another one, and no need of tombstones for what older runs show wrongly. All coins are never
//! made again for the sake of some: where every run is lost, every partition is, and the passes are as many
//! as memory asks for.

mod gathered;
mod salvage;
mod saved;

use std::collections::btree_map::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter::Peekable;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::entry::Entry;
use super::inspect::CoinsInspection;
use super::jobs::options;
use super::key::HashedOutPoint;
use super::layers::UtxoContext;
use super::lost_coins::{Loss, LostCoins};
use super::manifest::{Manifest, ManifestRun};
use super::merge::{MergeScan, Source};
use super::room;
use super::run::file::RunFile;
use super::run::format::{RunId, SegmentMeta};
use super::run::reader::SegmentCursor;
use super::run::segment::{BlockIndex, SealRange, Segment};
use super::run::writer::RunWriter;
use super::sort::Scratch;
use super::stop::{Stop, WorkError};
use super::unnamed::unnamed_files;
use crate::error::{Damage, StoreError};

use gathered::{Gathered, entries};
use salvage::{Salvaged, salvage};

pub use gathered::Tally;
pub use saved::SavedPass;

/// Bytes read at once from each input and written at once.
const BUFFER: usize = 256 << 10;

/// Keys from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KeySpan {
    first: u64,
    last: u64,
}

/// Whether one of spans that are in order and do not overlap has a key.
fn contains(spans: &[KeySpan], key: u64) -> bool {
    let behind = spans.partition_point(|span| span.first <= key);
    spans[..behind].last().is_some_and(|span| key <= span.last)
}

/// Puts spans in order, and those that overlap together.
fn joined(mut spans: Vec<KeySpan>) -> Vec<KeySpan> {
    spans.sort_unstable();
    let mut all: Vec<KeySpan> = Vec::new();
    for span in spans {
        match all.last_mut() {
            Some(before) if span.first <= before.last => before.last = before.last.max(span.last),
            _ => all.push(span),
        }
    }
    all
}

/// How many keys spans have that do not overlap.
fn keys_of(spans: &[KeySpan]) -> u128 {
    spans.iter().map(|span| u128::from(span.last - span.first) + 1).sum()
}

fn partition_span(partition: u8, partition_bits: u32) -> KeySpan {
    let first = u64::from(partition).checked_shl(64 - partition_bits).unwrap_or(0);
    let last = first | u64::MAX.checked_shr(partition_bits).unwrap_or(0);
    KeySpan { first, last }
}

/// A partition that is to be written again.
struct Partition {
    seals: SealRange,
    /// What can be read of its segments, newest first.
    inputs: Vec<Arc<Segment>>,
    /// Where the coins are those of the blocks.
    spans: Vec<KeySpan>,
    /// Coins that earlier passes have gathered, in order.
    parts: Vec<Arc<Segment>>,
}

impl Partition {
    /// Nothing that can be read of it is believed any more.
    fn gather_all(&mut self, n: u8, partition_bits: u32) {
        (self.inputs, self.parts) = (Vec::new(), Vec::new());
        self.spans = vec![partition_span(n, partition_bits)];
    }

    /// Calls `each` with what the partition is to have, in order; `coins` are those that were gathered last.
    fn for_each(
        &self,
        context: &UtxoContext,
        coins: Range<'_, u64, Box<[u8]>>,
        stop: &AtomicBool,
        each: &mut Each<'_>,
    ) -> Result<(), WorkError> {
        let cursor = |segment: &Arc<Segment>| {
            SegmentCursor::new(Arc::clone(segment), context.hasher, BUFFER)
        };
        let inputs = self.inputs.iter().map(|input| cursor(input).map(Source::Segment));
        let mut scan = MergeScan::new(inputs.collect::<Result<_, _>>()?, false);
        let parts = self.parts.iter().map(cursor).collect::<Result<_, _>>()?;
        let mut gathered = FromBlocks { parts, coins: coins.peekable() };
        while scan.step()? {
            let keyed = scan.current().expect("step() found an entry");
            check(stop)?;
            if !contains(&self.spans, keyed.key) {
                gathered.for_each_below(Some(keyed.key), each)?;
                each(keyed.key, keyed.entry)?;
            }
        }
        gathered.for_each_below(None, each)
    }
}

/// Takes entries, in order.
type Each<'a> = dyn FnMut(u64, Entry<'_>) -> Result<(), WorkError> + 'a;

/// The coins of a partition that come from the blocks.
struct FromBlocks<'a> {
    parts: VecDeque<SegmentCursor>,
    coins: Peekable<Range<'a, u64, Box<[u8]>>>,
}

impl FromBlocks<'_> {
    fn for_each_below(&mut self, end: Option<u64>, each: &mut Each<'_>) -> Result<(), WorkError> {
        let is_below = |key: u64| end.is_none_or(|end| key < end);
        while let Some(part) = self.parts.front_mut() {
            match part.current() {
                Some(keyed) if is_below(keyed.key) => each(keyed.key, keyed.entry)?,
                Some(_) => return Ok(()),
                None => {
                    self.parts.pop_front();
                    continue;
                }
            }
            part.advance()?;
        }
        while let Some((key, bytes)) = self.coins.next_if(|(key, _)| is_below(**key)) {
            entries(bytes).try_for_each(|entry| each(*key, entry))?;
        }
        Ok(())
    }
}

/// A repair of what is lost; see the module.
pub struct CoinsRepair {
    context: UtxoContext,
    manifest: Manifest,
    /// Runs that are to be replaced.
    runs: BTreeSet<RunId>,
    partitions: BTreeMap<u8, Partition>,
    gathered: Gathered,
    tally: Tally,
    /// Passes that have ended, and the keys that they have gathered.
    passes: (u128, u128),
    /// The blocks of this pass are not those that the coins come from.
    failed: bool,
    /// Bytes that coins may take in memory, and filters of the runs that are written.
    memory: usize,
    /// Bytes that may have to be written.
    room: u64,
    stop: Arc<AtomicBool>,
    scratch: Scratch,
}

/// Makes a manifest the one in force.
type CommitManifest<'a> = dyn FnMut(&Manifest) -> Result<(), StoreError> + 'a;

impl CoinsRepair {
    /// Begins to repair what an inspection has found lost: reads what is left of the damaged segments.
    /// `memory` is how many bytes the coins of a pass may take, and what is kept of the runs that are
    /// written.
    ///
    /// # Errors
    ///
    /// A failed system call; [`StoreError::LacksRoom`], when nothing is written; [`StoreError::Stopped`].
    pub fn begin(
        inspection: &CoinsInspection,
        lost: &LostCoins,
        memory: u64,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, StoreError> {
        let context = UtxoContext {
            repairs: Arc::default(),
            next_scratch: Arc::new(AtomicU64::new(RunId::FIRST_SCRATCH)),
            ..inspection.context.clone()
        };
        // It may have been lost with all that was in it.
        context.disk.create_dir_all(&context.dir)?;
        let mut manifest = inspection.manifest.clone();
        let unnamed = unnamed_files(&context, &manifest)?;
        unnamed.remove_unfinished(&context)?;
        manifest.next_run = manifest.next_run.max(unnamed.next_run);
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        let mut repair = Self {
            manifest,
            runs: lost.runs.clone(),
            partitions: BTreeMap::new(),
            gathered: Gathered::new(Vec::new(), 0),
            tally: Tally::new(context.partition_bits),
            passes: (0, 0),
            failed: false,
            memory,
            room: 0,
            stop: Arc::clone(stop),
            scratch: Scratch::new(context.clone()),
            context,
        };
        let of_repair = room::of_repair(&repair.manifest, lost, |run| repair.segments(run))?;
        of_repair.require(&repair.context)?;
        repair.room = of_repair.needed();
        for (partition, loss) in &lost.partitions {
            let begun = repair.begin_partition(*partition, loss, lost)?;
            repair.partitions.insert(*partition, begun);
        }
        let wanted = repair.partitions.values().flat_map(|partition| partition.spans.clone());
        repair.begin_pass(wanted.collect());
        Ok(repair)
    }

    fn begin_partition(
        &mut self,
        partition: u8,
        loss: &Loss,
        lost: &LostCoins,
    ) -> Result<Partition, StoreError> {
        let is_in = |run: &&ManifestRun| run.partitions >> partition & 1 == 1;
        let mut runs: Vec<ManifestRun> = self.manifest.runs.iter().filter(is_in).cloned().collect();
        runs.sort_by_key(|run| std::cmp::Reverse(run.seals.newest));
        let seals = covered(runs.iter().map(|run| run.seals));
        let all = Partition {
            seals,
            inputs: Vec::new(),
            spans: vec![partition_span(partition, self.context.partition_bits)],
            parts: Vec::new(),
        };
        let Loss::Blocks(damaged) = loss else { return Ok(all) };
        let (mut inputs, mut spans) = (Vec::new(), Vec::new());
        for run in runs {
            let mut segments = self.segments(&run)?;
            segments.retain(|segment| segment.meta.partition == partition);
            let Some(segment) = segments.pop() else { return Ok(all) };
            if !damaged.contains(&run.id) {
                inputs.push(segment);
                continue;
            }
            let salvaged = salvage(&self.context, &segment, lost, &mut self.scratch, &self.stop)?;
            let Some(Salvaged { kept, holes }) = salvaged else { return Ok(all) };
            inputs.extend(kept);
            spans.extend(holes);
        }
        Ok(Partition { inputs, spans: joined(spans), ..all })
    }

    /// The segments of a run that are in use, without filters and indexes; none if its footer is lost.
    fn segments(&self, named: &ManifestRun) -> Result<Vec<Arc<Segment>>, StoreError> {
        let UtxoContext { disk, dir, repairs, .. } = &self.context;
        let (id, blocks, path) = (named.id, named.blocks, named.id.path(dir));
        let run =
            Arc::new(RunFile { id, disk: disk.clone(), path, blocks, repairs: repairs.clone() });
        let footer = match run.read_footer() {
            Err(error) if error.is_rotten() => return Ok(Vec::new()),
            footer => footer?,
        };
        let is_ours = footer.fingerprint == self.context.hasher.fingerprint()
            && u32::from(footer.partition_bits) == self.context.partition_bits;
        let in_use = |meta: &SegmentMeta| is_ours && named.partitions >> meta.partition & 1 == 1;
        let index = Arc::new(BlockIndex::new(Vec::new()));
        let segment = |meta| {
            let (run, seals, index) = (Arc::clone(&run), named.seals, Arc::clone(&index));
            Arc::new(Segment { run, meta, seals, filter: None, index })
        };
        Ok(footer.segments.into_iter().filter(in_use).map(segment).collect())
    }

    /// Bytes that the coins of a pass may take.
    fn limit(&self) -> usize {
        self.memory / 4 * 3
    }

    fn begin_pass(&mut self, wanted: Vec<KeySpan>) {
        self.gathered = Gathered::new(wanted, self.limit());
        self.tally = Tally::new(self.context.partition_bits);
    }

    /// Copies the segments of damaged runs of whose entries nothing is lost.
    ///
    /// # Errors
    ///
    /// Those of `commit`; a failed system call; [`StoreError::Stopped`].
    pub fn copy_intact(&mut self, commit: &mut CommitManifest<'_>) -> Result<(), StoreError> {
        let runs = self.manifest.runs.iter().filter(|run| self.runs.contains(&run.id));
        for named in runs.cloned().collect::<Vec<_>>() {
            let mut segments = self.segments(&named)?;
            segments.retain(|segment| !self.partitions.contains_key(&segment.meta.partition));
            if segments.is_empty() {
                continue;
            }
            let copied =
                segments.iter().fold(0, |bits, segment| bits | 1 << segment.meta.partition);
            let replaced: BTreeMap<RunId, u64> = [(named.id, copied)].into();
            self.write_run(named.seals, replaced, commit, |writer, context, stop| {
                segments.iter().try_for_each(|segment| copy(context, segment, writer, stop))
            })?;
        }
        Ok(())
    }

    /// Whether blocks are to be read, all of them.
    pub fn wants_blocks(&self) -> bool {
        !self.gathered.is_done() && !self.failed
    }

    /// How many passes more are needed, this one included, if each gathers as much as those before: keys are
    /// hashes, so that coins are spread evenly over them. `None` before the first has ended.
    pub fn passes_left(&self) -> Option<u64> {
        let (passes, keys) = self.passes;
        let each = keys.checked_div(passes).filter(|each| *each > 0)?;
        Some(self.gathered.keys().div_ceil(each) as u64)
    }

    /// Whether the coins of a key are wanted.
    #[inline]
    pub fn wants(&self, key: &HashedOutPoint) -> bool {
        self.gathered.wants(key.key)
    }

    /// A tally of no block.
    pub fn empty_tally(&self) -> Tally {
        Tally::new(self.context.partition_bits)
    }

    /// A block of this pass: all that it creates and spends is counted.
    pub fn count(&mut self, tally: &Tally) {
        self.tally += tally;
    }

    /// A block, in order of height, creates a coin, which is compressed, in two parts.
    #[inline]
    pub fn create(&mut self, key: &HashedOutPoint, coin: [&[u8]; 2]) {
        self.gathered.create(key, coin);
    }

    /// A block, in order of height, spends a coin of an earlier one.
    #[inline]
    pub fn spend(&mut self, key: &HashedOutPoint) {
        self.failed |= !self.gathered.spend(key);
    }

    /// Nothing is gathered any more: a block cannot be read.
    pub fn give_up(&mut self) {
        self.failed = true;
    }

    /// Coins that there are in all, by the blocks of this pass.
    pub fn counted(&self) -> u64 {
        self.tally.coins()
    }

    /// All blocks of this pass were handed over: writes the partitions that are complete, and begins the next
    /// pass.
    ///
    /// # Errors
    ///
    /// Those of `commit`; a failed system call; [`StoreError::Stopped`].
    pub fn end_pass(&mut self, commit: &mut CommitManifest<'_>) -> Result<(), StoreError> {
        if self.failed {
            return Ok(());
        }
        let (until, mut wanted) = (self.gathered.until, self.gathered.left());
        self.passes.0 += 1;
        self.passes.1 += self.gathered.keys() - keys_of(&wanted);
        let coins = std::mem::take(&mut self.gathered.coins);
        let mut complete = Vec::new();
        for (n, mut partition) in std::mem::take(&mut self.partitions) {
            check(&self.stop)?;
            let span = partition_span(n, self.context.partition_bits);
            let is_complete = partition.spans.iter().all(|span| span.last <= until);
            if !is_complete {
                let part = self.scratch.write(|writer| {
                    for (key, bytes) in of(&coins, span) {
                        entries(bytes).try_for_each(|entry| writer.push(*key, entry))?;
                    }
                    Ok(())
                })?;
                partition.parts.extend(part);
                self.partitions.insert(n, partition);
            } else if let Some(count) = self.confirmed(n, &partition, of(&coins, span))? {
                complete.push((n, partition, count));
            } else if partition.spans == [span] {
                log::error!("Coins of partition {n} are not those that the blocks count.");
                self.failed = true;
                self.partitions.insert(n, partition);
            } else {
                log::warn!(
                    "Coins of partition {n} are not all those of the blocks: all are gathered."
                );
                partition.gather_all(n, self.context.partition_bits);
                wanted.push(span);
                self.partitions.insert(n, partition);
            }
        }
        if !complete.is_empty() {
            let seals = covered(complete.iter().map(|(_, partition, _)| partition.seals));
            let bits = complete.iter().fold(0, |bits, (n, ..)| bits | 1 << n);
            let replaced = self.manifest.runs.iter().map(|run| (run.id, bits)).collect();
            self.write_run(seals, replaced, commit, |writer, context, stop| {
                for (n, partition, count) in &complete {
                    writer.begin(*n, *count);
                    let coins = of(&coins, partition_span(*n, context.partition_bits));
                    partition.for_each(context, coins, stop, &mut |key, entry| {
                        writer.push(key, entry)
                    })?;
                    writer.end()?;
                }
                Ok(())
            })?;
        }
        self.begin_pass(wanted);
        Ok(())
    }

    /// How many coins a partition is to have, if they are those that the blocks of this pass have counted.
    fn confirmed(
        &self,
        n: u8,
        partition: &Partition,
        coins: Range<'_, u64, Box<[u8]>>,
    ) -> Result<Option<u64>, StoreError> {
        let (mut count, mut keys) = (0, 0_u64);
        let counted = partition.for_each(&self.context, coins, &self.stop, &mut |key, _| {
            (count, keys) = (count + 1, keys.wrapping_add(key));
            Ok(())
        });
        counted.map_err(failure)?;
        Ok((self.tally.of(n) == (count, keys)).then_some(count))
    }

    /// Writes a run, and commits it in place of partitions of others.
    fn write_run(
        &mut self,
        seals: SealRange,
        replaced: BTreeMap<RunId, u64>,
        commit: &mut CommitManifest<'_>,
        fill: impl FnOnce(&mut RunWriter<'_>, &UtxoContext, &AtomicBool) -> Result<(), WorkError>,
    ) -> Result<(), StoreError> {
        let (context, id) = (&self.context, RunId(self.manifest.next_run));
        let remove = |id: RunId| {
            context.disk.remove(&id.path(&context.dir))?;
            context.disk.remove(&id.parity_path(&context.dir))
        };
        let never = Stop::never();
        let write = || {
            let max_filter = self.memory as u64 / 64;
            let mut writer =
                RunWriter::create(options(context, id, seals, BUFFER, max_filter), &never)?;
            fill(&mut writer, context, &self.stop)?;
            writer.finish()
        };
        let segments = match write().map_err(failure) {
            Err(StoreError::Stopped) => {
                remove(id)?;
                return Err(StoreError::Stopped);
            }
            segments => segments?,
        };
        let mut manifest = Manifest { next_run: id.0 + 1, ..self.manifest.clone() };
        for run in &mut manifest.runs {
            run.partitions &= !replaced.get(&run.id).copied().unwrap_or(0);
        }
        manifest.runs.retain(|run| run.partitions != 0);
        let partitions =
            segments.iter().fold(0, |bits, segment| bits | 1 << segment.meta.partition);
        if let Some(segment) = segments.first() {
            manifest.runs.push(ManifestRun { id, blocks: segment.run.blocks, seals, partitions });
        }
        commit(&manifest)?;
        let is_named = |id: RunId| manifest.runs.iter().any(|run| run.id == id);
        let before = self.manifest.runs.iter().map(|run| run.id).chain([id]);
        before.filter(|id| !is_named(*id)).try_for_each(remove)?;
        self.manifest = manifest;
        Ok(())
    }

    /// Whether a file is of a run that the manifest still names although it is damaged.
    pub fn is_left(&self, path: &Path) -> bool {
        let id = RunId::of_path(path);
        self.manifest.runs.iter().any(|run| self.runs.contains(&run.id) && id == Some(run.id))
    }
}

fn of(coins: &BTreeMap<u64, Box<[u8]>>, span: KeySpan) -> Range<'_, u64, Box<[u8]>> {
    coins.range(span.first..=span.last)
}

/// From the oldest to the newest of all.
fn covered(seals: impl Iterator<Item = SealRange>) -> SealRange {
    let all = seals.reduce(|all, seals| SealRange {
        oldest: all.oldest.min(seals.oldest),
        newest: all.newest.max(seals.newest),
    });
    all.expect("a damaged partition is one of a run")
}

fn check(stop: &AtomicBool) -> Result<(), StoreError> {
    match stop.load(Ordering::Relaxed) {
        true => Err(StoreError::Stopped),
        false => Ok(()),
    }
}

fn failure(error: WorkError) -> StoreError {
    match error {
        WorkError::Failed(error) => error,
        WorkError::Stopped => unreachable!("nothing is dropped that would stop it"),
    }
}

/// Writes a segment once more, from its entries.
fn copy(
    context: &UtxoContext,
    segment: &Arc<Segment>,
    writer: &mut RunWriter<'_>,
    stop: &AtomicBool,
) -> Result<(), WorkError> {
    writer.begin(segment.meta.partition, segment.meta.entries);
    let mut cursor = SegmentCursor::new(Arc::clone(segment), context.hasher, BUFFER)?;
    while let Some(keyed) = cursor.current() {
        writer.push(keyed.key, keyed.entry)?;
        cursor.advance()?;
        check(stop)?;
    }
    let written = writer.end()?;
    match segment.meta.sum.is_none() || segment.meta.sum == written {
        true => Ok(()),
        false => Err(segment.run.damaged(segment.meta.first_block, Damage::EntrySum).into()),
    }
}
