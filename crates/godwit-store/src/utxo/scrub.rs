//! Checks runs at rest, beside their readers: a group of blocks at a time, with its parity.
//!
//! It does in steps what an inspection ([`super::inspect`]) does at once, so that the caller sets the pace.
//! It does not compare filters with entries, which would take too much memory.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::inspect::segments::{Filters, SegmentChecks};
use super::layers::Layers;
use super::run::file::{Blocks, RunFile};
use super::run::format::{BLOCK, BlockRef, RunId};
use super::run::parity::{GROUP, STRIPES, parity_damage, parity_of, xor_into};
use crate::disk::{OpenMode, StoreFile};
use crate::error::{Damage, Remedy, StoreError};
use crate::inspect::found::Found;

/// A run that is being checked.
pub struct RunScrub {
    id: RunId,
    /// The next block.
    next: u32,
    /// `None` before the first block, and where the footer cannot be read.
    segments: Option<SegmentChecks>,
    /// The parity was missing, and is written anew from the first group on.
    created: bool,
}

/// What a step has read.
#[derive(Debug, Default)]
pub struct Scrubbed {
    pub bytes: u64,
    pub found: Vec<Found>,
    /// Blocks of coins that were repaired from parity, which the log has told already.
    pub repaired: u64,
    pub is_done: bool,
}

impl Scrubbed {
    /// Neighbouring damage is told as one.
    fn tell(&mut self, found: Found) {
        if !self.found.last_mut().is_some_and(|last| last.joins(&found)) {
            self.found.push(found);
        }
    }
}

impl Layers {
    /// The run with the lowest number that is not below this one.
    pub fn scrub_from(&self, number: u64) -> Option<RunScrub> {
        let ids = self.partitions.iter().flatten().map(|segment| segment.run.id);
        let id = ids.filter(|id| id.0 >= number).min()?;
        Some(RunScrub { id, next: 0, segments: None, created: false })
    }

    fn run(&self, id: RunId) -> Option<&Arc<RunFile>> {
        let mut segments = self.partitions.iter().flatten();
        segments.find(|segment| segment.run.id == id).map(|segment| &segment.run)
    }
}

impl RunScrub {
    /// Number of the run.
    pub fn number(&self) -> u64 {
        self.id.0
    }

    /// Checks the next group, and repairs what parity brings back. `beyond_parity` makes coins again that it
    /// does not. A run that is not in `layers` any more is done.
    ///
    /// # Errors
    ///
    /// A failed system call; [`StoreError::Stopped`].
    pub fn step(
        &mut self,
        layers: &Layers,
        beyond_parity: Remedy,
        stop: &AtomicBool,
    ) -> Result<Scrubbed, StoreError> {
        let mut out = Scrubbed::default();
        let Some(run) = layers.run(self.id) else {
            out.is_done = true;
            return Ok(out);
        };
        let repaired = run.repairs.blocks();
        // One that was removed from outside is still there for who has it open.
        let file = match run.disk.reopen(&run.path) {
            Err(error) if error.is_not_found() => {
                out.tell(found(&run.path, 0..0, Damage::MissingFile, beyond_parity));
                out.is_done = true;
                return Ok(out);
            }
            other => other?,
        };
        if self.next == 0 {
            // One that cannot be read is told in its turn.
            self.segments = run
                .read_footer()
                .ok()
                .map(|footer| SegmentChecks::new(&footer, &layers.context, Filters::Skipped));
        }
        let numbers = self.next..run.blocks.min(self.next + GROUP);
        let mut group = Group::new(numbers.clone());
        // What the system has of it may be what was written, and not what the disk has.
        file.release_cache(bytes_of(numbers.start, numbers.end));
        self.read(run, &file, &mut group, beyond_parity, stop, &mut out)?;
        self.next = numbers.end;
        self.check_parity(run, &group, beyond_parity, &mut out)?;
        file.release_cache(bytes_of(numbers.start, numbers.end));
        out.bytes += numbers.len() as u64 * BLOCK as u64 + group.parity.len() as u64;
        out.repaired = run.repairs.blocks() - repaired;
        out.is_done = self.next == run.blocks;
        Ok(out)
    }

    fn read(
        &mut self,
        run: &RunFile,
        file: &StoreFile,
        group: &mut Group,
        beyond_parity: Remedy,
        stop: &AtomicBool,
        out: &mut Scrubbed,
    ) -> Result<(), StoreError> {
        let mut blocks = Blocks::default();
        for first in group.numbers.clone().step_by(STRIPES as usize) {
            if stop.load(Ordering::Relaxed) {
                return Err(StoreError::Stopped);
            }
            let some = first..group.numbers.end.min(first + STRIPES);
            let together = is_known(run.read(file, some.clone(), &mut blocks))?;
            for number in some {
                let is_there =
                    together || is_known(run.read(file, number..number + 1, &mut blocks))?;
                if !is_there {
                    let place = bytes_of(number, number + 1);
                    out.tell(found(&run.path, place, Damage::Checksum, beyond_parity));
                }
                group.take(number, is_there.then(|| blocks.bytes(number)));
                let block = is_there.then(|| blocks.get(number));
                self.compare(run, number, block, beyond_parity, out);
            }
        }
        Ok(())
    }

    /// Tells of a segment that contradicts itself.
    fn compare(
        &mut self,
        run: &RunFile,
        number: u32,
        block: Option<BlockRef<'_>>,
        beyond_parity: Remedy,
        out: &mut Scrubbed,
    ) {
        let wrong = self.segments.as_mut().and_then(|segments| segments.take(number, block));
        if let Some((at, what)) = wrong {
            let damage = Damage::Disagreement(what);
            out.tell(found(&run.path, bytes_of(at, at + 1), damage, beyond_parity));
        }
    }

    /// Compares the parity of a group with its blocks, and writes again what differs.
    fn check_parity(
        &mut self,
        run: &RunFile,
        group: &Group,
        beyond_parity: Remedy,
        out: &mut Scrubbed,
    ) -> Result<(), StoreError> {
        let path = run.parity_path();
        let has_parity = self.segments.as_ref().is_some_and(SegmentChecks::have_sums);
        // Repairs of blocks read the parity.
        let _alone = run.repairs.begin();
        let stored = match run.disk.open(&path, OpenMode::Read) {
            // A run of schema 1 has none.
            Err(error) if error.is_not_found() && !has_parity => return Ok(()),
            Err(error) if error.is_not_found() => None,
            other => Some(other?),
        };
        let is_missing = stored.is_none();
        if is_missing {
            out.tell(found(&path, 0..0, Damage::MissingFile, Remedy::Done));
            self.created = true;
        }
        let mut wrong = Vec::new();
        for (stripe, computed) in (0..).zip(group.parity.as_chunks::<BLOCK>().0) {
            let at = parity_of(group.numbers.start + stripe);
            let is_known = group.known[stripe as usize];
            let damage = match &stored {
                Some(stored) => parity_damage(stored, at, is_known.then_some(computed))?,
                None => None,
            };
            if is_known && (is_missing || damage.is_some()) {
                wrong.push((at, computed));
            }
            if let Some(damage) = damage.filter(|_| !self.created) {
                let remedy = if is_known { Remedy::Done } else { beyond_parity };
                out.tell(found(&path, bytes_of(at, at + 1), damage, remedy));
            }
        }
        if let Some(stored) = stored {
            let (first, last) = (group.numbers.start, group.numbers.end - 1);
            stored.release_cache(bytes_of(parity_of(first), parity_of(last) + 1));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let file = run.disk.open(&path, OpenMode::ReadWrite)?;
        for (at, block) in wrong {
            file.write_all_at(u64::from(at) * BLOCK as u64, block)?;
        }
        file.sync()?;
        if is_missing && group.numbers.start > 0 {
            // What comes before this group is not in the new file; what follows is written in its turn.
            self.next = 0;
        }
        run.disk.sync_dir(path.parent().expect("in the directory of the runs"))
    }
}

/// Blocks of a run that have parity of their own.
struct Group {
    numbers: Range<u32>,
    /// Parity as the blocks have it.
    parity: Vec<u8>,
    /// Of which stripe every block is known.
    known: [bool; STRIPES as usize],
}

impl Group {
    fn new(numbers: Range<u32>) -> Self {
        let stripes = numbers.len().min(STRIPES as usize);
        Self { numbers, parity: vec![0; stripes * BLOCK], known: [true; STRIPES as usize] }
    }

    fn take(&mut self, number: u32, block: Option<&[u8; BLOCK]>) {
        let stripe = ((number - self.numbers.start) % STRIPES) as usize;
        match block {
            Some(block) => xor_into(&mut self.parity.as_chunks_mut().0[stripe], block),
            None => self.known[stripe] = false,
        }
    }
}

/// Whether blocks were read, of which one may be beyond repair.
fn is_known(read: Result<(), StoreError>) -> Result<bool, StoreError> {
    match read {
        Ok(()) => Ok(true),
        Err(StoreError::Damaged { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn bytes_of(first: u32, end: u32) -> Range<u64> {
    u64::from(first) * BLOCK as u64..u64::from(end) * BLOCK as u64
}

fn found(path: &Path, place: Range<u64>, damage: Damage, remedy: Remedy) -> Found {
    let (offset, bytes) = (place.start, place.end - place.start);
    Found { path: path.to_owned(), offset, bytes, damage, remedy }
}
