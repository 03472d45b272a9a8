//! An in-memory disk for tests: it forgets at a crash what was not synced, and fails the n-th
//! operation of some kind, once or from then on.
//!
//! File contents and directory entries become durable separately, as POSIX allows: a file's bytes
//! with its `sync`, its name with the `sync_dir` of its directory. What was not synced survives a
//! crash wholly, not at all, or in a pseudo-random part.
//!
//! On an [`InlineExecutor`] the operations of jobs take time ([`FaultDisk::timed`]), and a crash at an
//! instant comes between or in the middle of them.

mod change;
mod fault;
mod inline;
mod journal;
mod panicking;
mod random;
mod timeline;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_disk::{Disk, DiskFile, DiskLock, OpenMode};
use godwit_stream::DataStream;

pub use fault::{Counted, DiskError, Fault, Lasting};
pub use inline::{InlineExecutor, Pace};
pub use journal::{Content, Journal};
pub use panicking::{PANIC, PanickingDisk};

use change::{Change, NameChange};
use fault::Faults;
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
    /// A pseudo-random part of the writes by sector, and a prefix of the name changes.
    Part(u64),
}

/// The disk; clones share the state.
#[derive(Clone, Default)]
pub struct FaultDisk(Arc<Mutex<State>>);

/// How long operations take, drawn from ranges.
#[derive(Clone, Debug)]
pub struct Latency {
    /// A read, also of a length or a directory; opening a file that is there.
    pub read: RangeInclusive<Duration>,
    /// A write, a change of a length or a name.
    pub write: RangeInclusive<Duration>,
    /// Making a file or a directory durable.
    pub sync: RangeInclusive<Duration>,
}

impl Latency {
    /// Everything takes the same time.
    pub fn constant(time: Duration) -> Self {
        let range = time..=time;
        Self { read: range.clone(), write: range.clone(), sync: range }
    }
}

/// What an operation does, which decides what it takes.
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
    detail: Detail<'a>,
}

/// What the journal says of an operation besides its name and path.
#[derive(Clone, Copy)]
enum Detail<'a> {
    Nothing,
    /// Bytes at an offset.
    Bytes(u64, &'a [u8]),
    Length(u64),
    NewName(&'a Path),
    /// It is noted when more is known.
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

/// Whose time operations take.
struct Timing {
    executor: InlineExecutor,
    latency: Latency,
}

impl Timing {
    fn charge(&self, operation: Operation<'_>) -> Span {
        let cost = match operation.kind {
            Kind::Read => &self.latency.read,
            Kind::Write => &self.latency.write,
            Kind::Sync => &self.latency.sync,
        };
        self.executor.charge(cost, || operation.describe())
    }

    fn note(&self, span: Span, operation: Operation<'_>) {
        let journal = self.executor.journal();
        // Hashing what is not noted would be most of the work.
        if journal.is_open() && !matches!(operation.detail, Detail::Later) {
            let (what, detail) = (operation.describe(), operation.detail);
            journal.note(span.from, format_args!("disk #{} {what}{detail}", span.job));
        }
    }
}

impl<'a> Operation<'a> {
    fn new(kind: Kind, name: &'static str, path: &'a Path) -> Self {
        Self { kind, name, path, detail: Detail::Nothing }
    }

    fn with(self, detail: Detail<'a>) -> Self {
        Self { detail, ..self }
    }

    fn describe(&self) -> String {
        format!("{} {}", self.name, self.path.display())
    }
}

#[derive(Clone, Default)]
struct State {
    inodes: Vec<Inode>,
    names: Names,
    dirs: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
    faults: Faults,
    /// Places that cannot be read, by their files.
    bad_sectors: Vec<(usize, Range<u64>)>,
    boot: u64,
    /// `None`: operations take no time, and there is none.
    timing: Option<Arc<Timing>>,
}

impl FaultDisk {
    /// An empty disk whose operations take no time.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty disk. Operations of the jobs of `executor` take time of theirs; operations outside of
    /// jobs panic while the executor is armed, and take none else.
    pub fn timed(executor: &InlineExecutor, latency: Latency) -> Self {
        let timing = Some(Arc::new(Timing { executor: executor.clone(), latency }));
        Self(Arc::new(Mutex::new(State { timing, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A failed assertion is told by its own panic, not by those of what is dropped behind it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an operation, of a handle of that boot if any: when it takes place. `refused` is what the
    /// one does that is planned to fail.
    fn begin(
        &self,
        operation: Operation<'_>,
        boot: Option<u64>,
        refused: impl FnOnce(&mut State, Span),
    ) -> io::Result<(MutexGuard<'_, State>, Span)> {
        let mut state = self.state();
        if boot.is_some_and(|boot| boot != state.boot) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut span = Span::default();
        if let Some(timing) = state.timing.clone() {
            // It may panic, which must not happen under the lock.
            drop(state);
            span = timing.charge(operation);
            timing.note(span, operation);
            state = self.state();
        }
        match state.faults.step(operation) {
            Ok(()) => Ok((state, span)),
            Err(refusal) => {
                if refusal.is_first {
                    refused(&mut state, span);
                }
                Err(refusal.error.into())
            }
        }
    }

    /// Plans a failure, instead of any other.
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

    /// Nothing fails any more that was planned and has not happened.
    pub fn fail_nothing(&self) {
        self.state().faults.cancel();
    }

    /// Whether the planned failure has happened.
    pub fn has_failed(&self) -> bool {
        self.state().faults.have_happened()
    }

    /// Operations so far.
    pub fn count(&self, counted: Counted) -> u64 {
        self.state().faults.count(counted)
    }

    /// The machine or process dies and comes back: handles and locks are gone, no failure is
    /// planned any more. A write that is under way at this instant is torn in half.
    pub fn crash(&self, survival: Survival) {
        let mut state = self.state();
        let now = state.timing.as_ref().map_or(Duration::ZERO, |timing| timing.executor.clock());
        let mut random = SplitMix(if let Survival::Part(seed) = survival { seed } else { 0 });
        for inode in &mut state.inodes {
            inode.crash(now, survival, &mut random);
        }
        state.names.crash(now, survival, &mut random);
        state.locked.clear();
        state.faults.end();
        state.boot += 1;
    }

    /// A disk of its own that is as this one is now, for tests that go on from one point in many
    /// ways. Nobody holds its locks.
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

    /// The device gives these bytes of a file back no more, until they are written: it puts another sector in
    /// the place of a bad one then.
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
        let (mut state, span) = self.begin(operation, None, |_, _| {})?;
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
            let (mut state, _) =
                self.begin(Operation::new(Kind::Write, "create dir", path), None, |_, _| {})?;
            let dirs = path.ancestors().map(Path::to_owned);
            state.dirs.extend(dirs);
        }
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let (mut state, span) =
            self.begin(Operation::new(Kind::Sync, "sync dir", path), None, |_, _| {})?;
        state.names.sync_dir(span, path);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let operation = Operation::new(Kind::Write, "rename", from).with(Detail::NewName(to));
        let (mut state, span) = self.begin(operation, None, |_, _| {})?;
        let Some(inode) = state.names.current.get(from).copied() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if from.parent() == to.parent() {
            state.names.change(span, NameChange::Rename(from.to_owned(), to.to_owned()));
        } else {
            // Each directory is made durable by itself, and a crash may leave both names or none.
            state.names.change(span, NameChange::Link(to.to_owned(), inode));
            state.names.change(span, NameChange::Unlink(from.to_owned()));
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (mut state, span) =
            self.begin(Operation::new(Kind::Write, "remove", path), None, |_, _| {})?;
        if !state.names.current.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.names.change(span, NameChange::Unlink(path.to_owned()));
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let (state, _) = self.begin(Operation::new(Kind::Read, "list", path), None, |_, _| {})?;
        if !state.dirs.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = |entry: &&PathBuf| entry.parent() == Some(path);
        let names = state.names.current.keys().chain(&state.dirs).filter(inside);
        Ok(names.filter_map(|entry| entry.file_name().map(OsString::from)).collect())
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        let (mut state, _) =
            self.begin(Operation::new(Kind::Read, "lock", path), None, |_, _| {})?;
        if !state.locked.insert(path.to_owned()) {
            return Ok(None);
        }
        Ok(Some(Box::new(Lock(self.clone(), path.to_owned()))))
    }
}

struct FaultFile {
    disk: FaultDisk,
    path: PathBuf,
    inode: usize,
    boot: u64,
}

impl FaultFile {
    fn begin(
        &self,
        kind: Kind,
        name: &'static str,
        detail: Detail<'_>,
        refused: impl FnOnce(&mut State, Span),
    ) -> io::Result<(MutexGuard<'_, State>, Span)> {
        let operation = Operation::new(kind, name, &self.path).with(detail);
        self.disk.begin(operation, Some(self.boot), refused)
    }

    fn read(
        &self,
        name: &'static str,
        detail: Detail<'_>,
    ) -> io::Result<(MutexGuard<'_, State>, Span)> {
        self.begin(Kind::Read, name, detail, |_, _| {})
    }

    fn change(&self, name: &'static str, change: Change) -> io::Result<()> {
        let detail = match &change {
            Change::Write(offset, data) => Detail::Bytes(*offset, data),
            Change::SetLen(len) => Detail::Length(*len),
        };
        let tear = |state: &mut State, span| {
            if let Change::Write(offset, data) = &change {
                let torn = Change::Write(*offset, data[..data.len() / 2].to_vec());
                state.inodes[self.inode].change(span, torn);
            }
        };
        let (mut state, span) = self.begin(Kind::Write, name, detail, tear)?;
        self.check_alone(&state, span, change.range(), name);
        let written = change.range();
        state.bad_sectors.retain(|(inode, bad)| {
            *inode != self.inode || bad.start < written.start || written.end < bad.end
        });
        state.inodes[self.inode].change(span, change);
        Ok(())
    }

    fn check_alone(&self, state: &State, span: Span, bytes: Range<u64>, name: &'static str) {
        let what = || Operation::new(Kind::Read, name, &self.path).describe();
        state.inodes[self.inode].check_alone(span, bytes, what);
    }
}

impl DiskFile for FaultFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (state, span) = self.read("read", Detail::Later)?;
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.check_alone(&state, span, offset..end as u64, "read");
        let is_hit = |(inode, bad): &(usize, Range<u64>)| {
            *inode == self.inode && bad.start < end as u64 && offset < bad.end
        };
        if state.bad_sectors.iter().any(is_hit) {
            return Err(DiskError::Device.into());
        }
        let bytes = state.inodes[self.inode].current.get(start..end);
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        if let Some(timing) = &state.timing {
            let read = Operation::new(Kind::Read, "read", &self.path);
            timing.note(span, read.with(Detail::Bytes(offset, out)));
        }
        Ok(())
    }

    fn read_stream_at(&self, offset: u64, len: usize, out: &mut DataStream) -> io::Result<()> {
        let mut bytes = vec![0; len];
        self.read_exact_at(offset, &mut bytes)?;
        out.write(&bytes);
        Ok(())
    }

    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change("write", Change::Write(offset, data.to_vec()))
    }

    fn sync(&self) -> io::Result<()> {
        let forget = |state: &mut State, span| {
            if state.faults.forget() {
                state.inodes[self.inode].forget(span);
            }
        };
        let (mut state, span) = self.begin(Kind::Sync, "sync", Detail::Nothing, forget)?;
        state.inodes[self.inode].sync(span);
        Ok(())
    }

    fn file_len(&self) -> io::Result<u64> {
        let (state, _) = self.read("length", Detail::Nothing)?;
        Ok(state.inodes[self.inode].current.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change("set length", Change::SetLen(len))
    }
}

#[cfg(test)]
mod tests;
