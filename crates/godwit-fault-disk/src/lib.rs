//! An in-memory disk for tests: at a crash it forgets what was not synced, it fails the n-th operation of
//! some kind, once or from then on, and it can silently do an operation wrong ([`Anomaly`]).
//!
//! File contents and directory entries become durable separately, as POSIX allows: a file's bytes
//! with its `sync`, its name with the `sync_dir` of its directory. What was not synced survives a
//! crash wholly, not at all, or in a pseudo-random part.
//!
//! On an [`InlineExecutor`] the operations of jobs take time ([`FaultDisk::timed`]), and a crash at an
//! instant can come between operations or in the middle of one.

mod change;
mod fault;
mod file;
#[doc(hidden)]
pub mod forward;
mod inline;
mod journal;
mod latency;
mod panicking;
mod random;
mod recorder;
mod timeline;
mod virtual_threads;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_disk::{Disk, DiskFile, DiskLock, OpenMode};

pub use fault::{Anomaly, Counted, DiskError, Fault, Lasting, PlannedAnomaly, Seen};
pub use inline::{InlineExecutor, Pace};
pub use journal::{Content, Journal};
pub use latency::{HardDisk, Latency};
pub use panicking::{PANIC, PanickingDisk};
pub use recorder::{Recorder, Recording};
pub use virtual_threads::{JobTimes, PoolTimes, Schedule, VirtualThreads};

use change::{Change, NameChange};
use fault::Faults;
use file::FaultFile;
use inline::Span;
use random::SplitMix;
use timeline::{Inode, Names};

/// What survives of unsynced changes.
#[derive(Clone, Copy, Debug)]
pub enum Survival {
    /// Everything: the process died, the machine did not.
    All,
    /// Nothing: the power went before any write-back.
    Nothing,
    /// A pseudo-random part: of writes by sector, and of changes of names, except those that depend on lost
    /// ones.
    Part(u64),
}

/// The disk; clones share the state.
#[derive(Clone, Default)]
pub struct FaultDisk(Arc<Mutex<State>>);

/// The kind of an operation, which determines its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Sync,
}

/// An operation, for messages and the journal.
#[derive(Clone, Copy)]
struct Operation<'a> {
    kind: Kind,
    name: &'static str,
    path: &'a Path,
    /// Offset in the file, and number of bytes.
    bytes: (u64, u64),
    detail: Detail<'a>,
}

/// What the journal notes of an operation besides its name and path.
#[derive(Clone, Copy)]
enum Detail<'a> {
    Nothing,
    /// Bytes at an offset.
    Bytes(u64, &'a [u8]),
    Length(u64),
    NewName(&'a Path),
    /// The line is noted once more is known.
    Later,
}

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Detail::Nothing | Detail::Later => Ok(()),
            Detail::Bytes(offset, bytes) => write!(f, " at {offset} {}", Content(bytes)),
            Detail::Length(len) => write!(f, " {len}"),
            Detail::NewName(path) => write!(f, " to {}", path.display()),
        }
    }
}

/// Determines whose time operations take.
struct Timing {
    executor: InlineExecutor,
    latency: Latency,
    cache: Mutex<latency::Cache>,
}

impl Timing {
    fn cache(&self) -> MutexGuard<'_, latency::Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges the time of an operation, and `more`.
    fn charge(&self, operation: Operation<'_>, more: Duration) -> Span {
        let cost = |random: &mut SplitMix, span| {
            self.latency.cost(&mut self.cache(), operation, random, span) + more
        };
        self.executor.charge(cost, || operation.describe())
    }

    fn note(&self, span: Span, operation: Operation<'_>) {
        let journal = self.executor.journal();
        // Without an open journal, hashing the bytes would be most of the work.
        if journal.is_open() && !matches!(operation.detail, Detail::Later) {
            let (what, detail) = (operation.describe(), operation.detail);
            journal.note(span.from, format_args!("disk #{} {what}{detail}", span.job));
        }
    }
}

impl<'a> Operation<'a> {
    fn new(kind: Kind, name: &'static str, path: &'a Path) -> Self {
        Self { kind, name, path, bytes: (0, 0), detail: Detail::Nothing }
    }

    fn on(self, offset: u64, len: u64) -> Self {
        Self { bytes: (offset, len), ..self }
    }

    fn with(self, detail: Detail<'a>) -> Self {
        Self { detail, ..self }
    }

    fn describe(&self) -> String {
        format!("{} {}", self.name, self.path.display())
    }
}

/// An operation that takes place.
struct Begun<'a> {
    state: MutexGuard<'a, State>,
    span: Span,
    /// The anomaly of the operation.
    anomaly: Option<PlannedAnomaly>,
}

#[derive(Clone, Default)]
struct State {
    inodes: Vec<Inode>,
    names: Names,
    dirs: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
    faults: Faults,
    /// Unreadable bytes, with their files.
    bad_sectors: Vec<(usize, Range<u64>)>,
    /// Most bytes that all files together may have.
    capacity: Option<u64>,
    boot: u64,
    /// `None`: operations take no time, and there is no clock.
    timing: Option<Arc<Timing>>,
}

impl FaultDisk {
    /// An empty disk whose operations take no time.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty disk. Operations in jobs of `executor` take the job's time; operations outside of jobs panic
    /// while the executor is armed, and take no time otherwise.
    pub fn timed(executor: &InlineExecutor, latency: Latency) -> Self {
        let (executor, cache) = (executor.clone(), Mutex::default());
        let timing = Some(Arc::new(Timing { executor, latency, cache }));
        Self(Arc::new(Mutex::new(State { timing, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A failed assertion reports itself by its own panic; values dropped after it should not panic as
        // well.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an operation, of a handle of that boot if any: when it takes place. `refused` is what the
    /// one does that is planned to fail.
    fn begin(
        &self,
        operation: Operation<'_>,
        boot: Option<u64>,
        refused: impl FnOnce(&mut State, Span),
    ) -> io::Result<Begun<'_>> {
        let mut state = self.state();
        if boot.is_some_and(|boot| boot != state.boot) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let step = state.faults.step(operation);
        let mut span = Span::default();
        if let Some(timing) = state.timing.clone() {
            // It may panic, which must not happen under the lock.
            drop(state);
            let stall = match &step {
                Ok(Some(PlannedAnomaly { anomaly: Anomaly::Stall(time), .. })) => *time,
                _ => Duration::ZERO,
            };
            span = timing.charge(operation, stall);
            timing.note(span, operation);
            state = self.state();
        }
        match step {
            Ok(anomaly) => Ok(Begun { state, span, anomaly }),
            Err(refusal) => {
                if refusal.is_first {
                    refused(&mut state, span);
                }
                Err(refusal.error.of(operation.kind))
            }
        }
    }

    /// Plans an anomaly of an operation, in place of any other.
    pub fn plan_anomaly(&self, planned: PlannedAnomaly) {
        self.state().faults.plan_anomaly(planned);
    }

    /// Whether the planned anomaly is still to come.
    pub fn awaits_anomaly(&self) -> bool {
        self.state().faults.awaits_anomaly()
    }

    /// Plans a failure, in place of any other.
    pub fn plan(&self, fault: Fault) {
        self.state().faults.plan(fault);
    }

    /// The n-th operation from now on that changes the disk (1 = the next) finds it full, and every
    /// operation after it fails until [`FaultDisk::crash`].
    pub fn fail_change(&self, n: u64) {
        self.plan(Fault {
            counted: Counted::Changes,
            nth: n,
            error: DiskError::Full,
            lasting: Lasting::Everything,
            forgets: false,
        });
    }

    /// Cancels a planned failure that has not happened.
    pub fn fail_nothing(&self) {
        self.state().faults.cancel();
    }

    /// Whether the planned failure has happened.
    pub fn has_failed(&self) -> bool {
        self.state().faults.have_happened()
    }

    /// Number of operations so far.
    pub fn count(&self, counted: Counted) -> u64 {
        self.state().faults.count(counted)
    }

    /// The machine or the process dies and comes back: handles and locks are gone, and no failure is planned
    /// any more. A write that is under way at this instant is torn in half.
    pub fn crash(&self, survival: Survival) {
        let mut state = self.state();
        let now = state.timing.as_ref().map_or(Duration::ZERO, |timing| timing.executor.clock());
        if let Some(timing) = &state.timing {
            timing.cache().forget();
        }
        let mut random = SplitMix(if let Survival::Part(seed) = survival { seed } else { 0 });
        for inode in &mut state.inodes {
            inode.crash(now, survival, &mut random);
        }
        state.names.crash(now, survival, &mut random);
        state.locked.clear();
        state.faults.end();
        state.boot += 1;
    }

    /// An independent disk in the present state of this one, for tests that continue from one point in
    /// several ways. Nobody holds its locks.
    pub fn copy(&self) -> Self {
        let mut state = self.state().clone();
        state.locked.clear();
        Self(Arc::new(Mutex::new(state)))
    }

    /// The bytes of a file as a reader sees them now.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.current.get(path).map(|inode| state.inodes[*inode].current.clone())
    }

    /// Makes these bytes of a file unreadable until they are written: then the device replaces the bad sector
    /// with another one.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub fn lose_sectors(&self, path: &Path, bytes: Range<u64>) {
        let mut state = self.state();
        let inode = state.names.current[path];
        state.bad_sectors.push((inode, bytes));
    }

    /// Whether every byte can be read again.
    pub fn is_readable(&self) -> bool {
        self.state().bad_sectors.is_empty()
    }

    /// Limits the bytes of all files together from now on: a write that needs more finds the disk full.
    /// `None` removes the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Bytes of all files together.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// The files that a reader sees now.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.state().names.current.keys().cloned().collect()
    }

    /// Replaces a file's bytes in place, durably: damage from outside.
    pub fn overwrite(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state();
        let index = match state.names.current.get(path).copied() {
            Some(index) => {
                state.bad_sectors.retain(|(inode, _)| *inode != index);
                index
            }
            None => {
                state.inodes.push(Inode::default());
                state.inodes.len() - 1
            }
        };
        state.inodes[index] = Inode::durable(bytes);
        state.names.link(path, index);
    }
}

impl State {
    fn used(&self) -> u64 {
        self.names.current.values().map(|inode| self.inodes[*inode].current.len() as u64).sum()
    }

    /// Whether a file can grow to this length.
    fn has_room(&self, inode: usize, len: u64) -> bool {
        let more = len.saturating_sub(self.inodes[inode].current.len() as u64);
        more == 0 || self.capacity.is_none_or(|capacity| self.used() + more <= capacity)
    }
}

struct Lock(FaultDisk, PathBuf);

impl DiskLock for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.state().locked.remove(&self.1);
    }
}

impl Disk for FaultDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let creates = mode != OpenMode::Read && !self.state().names.current.contains_key(path);
        let operation = match creates {
            true => Operation::new(Kind::Write, "create", path),
            false => Operation::new(Kind::Read, "open", path),
        };
        let Begun { mut state, span, .. } = self.begin(operation, None, |_, _| {})?;
        let inode = match (state.names.current.get(path).copied(), mode) {
            (Some(inode), _) => inode,
            (None, OpenMode::Read) => return Err(io::ErrorKind::NotFound.into()),
            (None, _) => {
                if !path.parent().is_some_and(|dir| state.dirs.contains(dir)) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.names.change(span, NameChange::Link(path.to_owned(), inode));
                inode
            }
        };
        if mode == OpenMode::Truncate {
            state.inodes[inode].change(span, Change::SetLen(0));
        }
        let boot = state.boot;
        Ok(Arc::new(FaultFile { disk: self.clone(), path: path.to_owned(), inode, boot }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if !self.state().dirs.contains(path) {
            let Begun { mut state, .. } =
                self.begin(Operation::new(Kind::Write, "create dir", path), None, |_, _| {})?;
            let dirs = path.ancestors().map(Path::to_owned);
            state.dirs.extend(dirs);
        }
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let Begun { mut state, span, .. } =
            self.begin(Operation::new(Kind::Sync, "sync dir", path), None, |_, _| {})?;
        state.names.sync_dir(span, path);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let operation = Operation::new(Kind::Write, "rename", from).with(Detail::NewName(to));
        let Begun { mut state, span, .. } = self.begin(operation, None, |_, _| {})?;
        let Some(inode) = state.names.current.get(from).copied() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if from.parent() == to.parent() {
            state.names.change(span, NameChange::Rename(from.to_owned(), to.to_owned()));
        } else {
            // Each directory is made durable separately, and a crash may leave both names or neither.
            state.names.change(span, NameChange::Link(to.to_owned(), inode));
            state.names.change(span, NameChange::Unlink(from.to_owned()));
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let Begun { mut state, span, .. } =
            self.begin(Operation::new(Kind::Write, "remove", path), None, |_, _| {})?;
        if !state.names.current.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.names.change(span, NameChange::Unlink(path.to_owned()));
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let Begun { state, .. } =
            self.begin(Operation::new(Kind::Read, "list", path), None, |_, _| {})?;
        if !state.dirs.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = |entry: &&PathBuf| entry.parent() == Some(path);
        let names = state.names.current.keys().chain(&state.dirs).filter(inside);
        Ok(names.filter_map(|entry| entry.file_name().map(OsString::from)).collect())
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        let state = self.state();
        Ok(state.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(state.used())))
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        let Begun { mut state, .. } =
            self.begin(Operation::new(Kind::Read, "lock", path), None, |_, _| {})?;
        if !state.locked.insert(path.to_owned()) {
            return Ok(None);
        }
        Ok(Some(Box::new(Lock(self.clone(), path.to_owned()))))
    }
}

#[cfg(test)]
mod tests;
