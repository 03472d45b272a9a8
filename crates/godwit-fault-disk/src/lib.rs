//! An in-memory disk for tests: it forgets at a crash what was not synced, and fails the n-th
//! operation.
//!
//! File contents and directory entries become durable separately, as POSIX allows: a file's bytes
//! with its `sync`, its name with the `sync_dir` of its directory. What was not synced survives a
//! crash wholly, not at all, or in a pseudo-random part.

mod change;
mod inline;
mod panicking;
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use godwit_disk::{Disk, DiskFile, DiskLock, OpenMode};
use godwit_stream::DataStream;

pub use inline::{InlineExecutor, Pace};
pub use panicking::{PANIC, PanickingDisk};

use change::{Change, NameChange};
use random::SplitMix;

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

#[derive(Clone, Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    pending_names: Vec<NameChange>,
    dirs: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
    operations: u64,
    changes: u64,
    fail_at: Option<u64>,
    failure: Option<io::ErrorKind>,
    boot: u64,
}

#[derive(Clone, Default)]
struct Inode {
    current: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

impl State {
    /// Counts an operation; a disk that has failed once keeps failing until the crash.
    fn step(&mut self, changes_disk: bool) -> io::Result<()> {
        self.operations += 1;
        self.changes += u64::from(changes_disk);
        if let Some(kind) = self.failure {
            return Err(kind.into());
        }
        if changes_disk && self.fail_at == Some(self.changes) {
            self.failure = Some(io::ErrorKind::StorageFull);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn rename_entry(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }
}

impl FaultDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("a test thread panicked while holding the disk")
    }

    /// The n-th operation from now on that changes the disk (1 = the next) fails, and every
    /// operation after it until [`FaultDisk::crash`]. A failing write is torn in half.
    pub fn fail_change(&self, n: u64) {
        let mut state = self.state();
        state.fail_at = Some(state.changes + n);
    }

    /// Whether the planned failure has happened.
    pub fn has_failed(&self) -> bool {
        self.state().failure.is_some()
    }

    /// The machine or process dies and comes back: handles and locks are gone, no failure is
    /// planned any more.
    pub fn crash(&self, survival: Survival) {
        let mut state = self.state();
        let mut random = SplitMix(if let Survival::Part(seed) = survival { seed } else { 0 });
        for inode in &mut state.inodes {
            for change in std::mem::take(&mut inode.pending) {
                match survival {
                    Survival::All => change.apply(&mut inode.durable),
                    Survival::Nothing => {}
                    Survival::Part(_) => change.apply_part(&mut inode.durable, &mut random),
                }
            }
            inode.current = inode.durable.clone();
        }
        let pending = std::mem::take(&mut state.pending_names);
        let kept = match survival {
            Survival::All => pending.len(),
            Survival::Nothing => 0,
            Survival::Part(_) => (random.next() % (pending.len() as u64 + 1)) as usize,
        };
        for change in &pending[..kept] {
            change.apply(&mut state.durable_names);
        }
        state.names = state.durable_names.clone();
        state.locked.clear();
        state.fail_at = None;
        state.failure = None;
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
        state.names.get(path).map(|inode| state.inodes[*inode].current.clone())
    }

    /// Replaces a file's bytes in place, durably: damage from outside.
    pub fn overwrite(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state();
        let inode = Inode { current: bytes.clone(), durable: bytes, pending: Vec::new() };
        let index = match state.names.get(path) {
            Some(index) => *index,
            None => {
                state.inodes.push(Inode::default());
                state.inodes.len() - 1
            }
        };
        state.inodes[index] = inode;
        state.names.insert(path.to_owned(), index);
        state.durable_names.insert(path.to_owned(), index);
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
        let mut state = self.state();
        let existing = state.names.get(path).copied();
        state.step(mode != OpenMode::Read && existing.is_none())?;
        let inode = match (existing, mode) {
            (Some(inode), _) => inode,
            (None, OpenMode::Read) => return Err(io::ErrorKind::NotFound.into()),
            (None, _) => {
                if !path.parent().is_some_and(|dir| state.dirs.contains(dir)) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.rename_entry(NameChange::Link(path.to_owned(), inode));
                inode
            }
        };
        if mode == OpenMode::Truncate {
            state.inodes[inode].current.clear();
            state.inodes[inode].pending.push(Change::SetLen(0));
        }
        let boot = state.boot;
        Ok(Arc::new(FaultFile { disk: self.clone(), inode, boot }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if !state.dirs.contains(path) {
            state.step(true)?;
            let dirs = path.ancestors().map(Path::to_owned);
            state.dirs.extend(dirs);
        }
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step(true)?;
        let pending = std::mem::take(&mut state.pending_names);
        for change in pending {
            if change.dir() == Some(path) {
                change.apply(&mut state.durable_names);
            } else {
                state.pending_names.push(change);
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step(true)?;
        if !state.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.rename_entry(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step(true)?;
        if !state.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.rename_entry(NameChange::Unlink(path.to_owned()));
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let mut state = self.state();
        state.step(false)?;
        if !state.dirs.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = |entry: &&PathBuf| entry.parent() == Some(path);
        let names = state.names.keys().chain(&state.dirs).filter(inside);
        Ok(names.filter_map(|entry| entry.file_name().map(OsString::from)).collect())
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        let mut state = self.state();
        state.step(false)?;
        if !state.locked.insert(path.to_owned()) {
            return Ok(None);
        }
        Ok(Some(Box::new(Lock(self.clone(), path.to_owned()))))
    }
}

struct FaultFile {
    disk: FaultDisk,
    inode: usize,
    boot: u64,
}

impl FaultFile {
    fn state(&self, changes_disk: bool) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.disk.state();
        if state.boot != self.boot {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state.step(changes_disk)?;
        Ok(state)
    }

    fn change(&self, change: Change) -> io::Result<()> {
        let failed = match self.state(true) {
            Ok(mut state) => {
                let inode = &mut state.inodes[self.inode];
                change.apply(&mut inode.current);
                inode.pending.push(change);
                return Ok(());
            }
            Err(error) => error,
        };
        let mut state = self.disk.state();
        if let Change::Write(offset, data) = change
            && state.boot == self.boot
            && state.fail_at == Some(state.changes)
        {
            let torn = Change::Write(offset, data[..data.len() / 2].to_vec());
            let inode = &mut state.inodes[self.inode];
            torn.apply(&mut inode.current);
            inode.pending.push(torn);
        }
        Err(failed)
    }
}

impl DiskFile for FaultFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state(false)?;
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        let bytes = state.inodes[self.inode].current.get(start..end);
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn read_stream_at(&self, offset: u64, len: usize, out: &mut DataStream) -> io::Result<()> {
        let mut bytes = vec![0; len];
        self.read_exact_at(offset, &mut bytes)?;
        out.write(&bytes);
        Ok(())
    }

    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Change::Write(offset, data.to_vec()))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state(true)?;
        let inode = &mut state.inodes[self.inode];
        for change in std::mem::take(&mut inode.pending) {
            change.apply(&mut inode.durable);
        }
        Ok(())
    }

    fn file_len(&self) -> io::Result<u64> {
        Ok(self.state(false)?.inodes[self.inode].current.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::SetLen(len))
    }
}

#[cfg(test)]
mod tests;
