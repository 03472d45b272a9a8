//! The seam between the store and the operating system.
//!
//! [`Disk`] and [`DiskFile`] are what a real file system ([`RealDisk`]) and the simulated ones of tests
//! implement. The store itself talks to [`StoreDisk`] and [`StoreFile`], which add the path and the
//! operation to every error and hold the latch: after the first failed write or fsync every later
//! call fails, because what is on disk is then unknown ("fsyncgate") and only a restart, which
//! recovers from the last commit, can know it again.

mod open_files;
pub(crate) mod probe;
mod real;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use godwit_stream::DataStream;

pub use godwit_disk::{Disk, DiskFile, DiskLock, OpenMode};
pub(crate) use open_files::MAX_CACHED_FILES;
pub use real::{RealDisk, open_stored};

use crate::error::{IoFailure, Operation, StoreError};
use open_files::OpenFiles;

/// The first failure that left the disk in an unknown state.
#[derive(Debug, Default)]
struct Latch(OnceLock<IoFailure>);

impl Latch {
    fn check(&self) -> Result<(), StoreError> {
        match self.0.get() {
            Some(failure) => Err(StoreError::Closed(failure.clone())),
            None => Ok(()),
        }
    }

    fn close(&self, failure: &IoFailure) {
        // Of two threads that fail at once the first names the cause; either closes the store.
        self.0.get_or_init(|| failure.clone());
    }

    fn run<T>(
        &self,
        path: &Path,
        operation: Operation,
        call: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, StoreError> {
        self.check()?;
        call().map_err(|error| {
            let failure = IoFailure::new(path, operation, &error);
            if operation.changes_disk() {
                self.close(&failure);
            }
            StoreError::Io(failure)
        })
    }
}

/// Of a file that is there, and is not to be used as what it is.
pub(crate) fn refused(path: &Path, text: String) -> StoreError {
    let error = io::Error::new(io::ErrorKind::NotSeekable, text);
    StoreError::Io(IoFailure::new(path, Operation::Open, &error))
}

/// The disk as the store sees it: typed errors, the latch, and a bounded set of files that stay open
/// for reading. Clones share latch and files.
#[derive(Clone)]
pub struct StoreDisk {
    disk: Arc<dyn Disk>,
    latch: Arc<Latch>,
    cached: Arc<OpenFiles>,
}

impl StoreDisk {
    /// A store's view of `disk`, with a latch of its own.
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        StoreDisk { disk, latch: Arc::default(), cached: Arc::default() }
    }

    /// The same disk with a latch of its own, for files that nothing depends on: a write of theirs that fails
    /// says nothing of what is stored.
    pub fn apart(&self) -> Self {
        Self { latch: Arc::default(), ..self.clone() }
    }

    /// Fails once an earlier write or fsync has failed.
    pub fn check(&self) -> Result<(), StoreError> {
        self.latch.check()
    }

    /// See [`Disk::open`].
    pub fn open(&self, path: &Path, mode: OpenMode) -> Result<StoreFile, StoreError> {
        let operation = match mode {
            OpenMode::Read => Operation::Open,
            OpenMode::ReadWrite | OpenMode::Truncate => Operation::Create,
        };
        let file = self.latch.run(path, operation, || self.disk.open(path, mode))?;
        Ok(StoreFile { path: Arc::from(path), file, latch: Arc::clone(&self.latch) })
    }

    /// An existing file, for reading. It stays open while it is among the [`MAX_CACHED_FILES`] most
    /// recently read ones; the handle may be held for a few reads, and is not to be kept.
    pub(crate) fn open_cached(&self, path: &Path) -> Result<StoreFile, StoreError> {
        self.cached.get(path, || self.open(path, OpenMode::Read))
    }

    /// What has the name now, for reading; it is what is kept open from then on. Where nothing has it,
    /// readers of the file that had it go on.
    pub(crate) fn reopen(&self, path: &Path) -> Result<StoreFile, StoreError> {
        let file = self.open(path, OpenMode::Read)?;
        self.cached.replace(path, &file);
        Ok(file)
    }

    /// Whether there is no such file.
    pub(crate) fn is_missing(&self, path: &Path) -> Result<bool, StoreError> {
        match self.open(path, OpenMode::Read) {
            Ok(_) => Ok(false),
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// See [`Disk::has_name`].
    pub fn has_name(&self, path: &Path) -> Result<bool, StoreError> {
        self.latch.run(path, Operation::Length, || self.disk.has_name(path))
    }

    /// See [`Disk::check_link`].
    pub(crate) fn check_link(&self, path: &Path) -> Result<(), StoreError> {
        self.latch.run(path, Operation::Open, || self.disk.check_link(path))
    }

    /// See [`Disk::place`].
    pub(crate) fn place(&self, path: &Path) -> Result<Option<(u64, u64)>, StoreError> {
        self.latch.run(path, Operation::Length, || self.disk.place(path))
    }

    /// See [`Disk::check_writable`].
    pub(crate) fn check_writable(&self, dir: &Path) -> Result<(), StoreError> {
        self.latch.run(dir, Operation::Access, || self.disk.check_writable(dir))
    }

    /// See [`Disk::create_dir_all`].
    pub fn create_dir_all(&self, path: &Path) -> Result<(), StoreError> {
        self.latch.run(path, Operation::CreateDir, || self.disk.create_dir_all(path))
    }

    /// See [`Disk::sync_dir`].
    pub fn sync_dir(&self, path: &Path) -> Result<(), StoreError> {
        self.latch.run(path, Operation::SyncDir, || self.disk.sync_dir(path))
    }

    /// See [`Disk::rename`].
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.latch.run(from, Operation::Rename, || self.disk.rename(from, to))?;
        self.cached.forget(from);
        self.cached.forget(to);
        Ok(())
    }

    /// Removes a file; one that is already gone is no error, since a crash may come between a
    /// removal and whatever recorded it.
    pub fn remove(&self, path: &Path) -> Result<(), StoreError> {
        self.latch.run(path, Operation::Remove, || match self.disk.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        })?;
        self.cached.forget(path);
        Ok(())
    }

    /// Paths of all entries of a directory, sorted.
    pub fn list(&self, path: &Path) -> Result<Vec<PathBuf>, StoreError> {
        let names = self.latch.run(path, Operation::List, || self.disk.list(path))?;
        let mut paths: Vec<PathBuf> = names.iter().map(|name| path.join(name)).collect();
        paths.sort();
        Ok(paths)
    }

    /// The same; nothing where there is no such directory.
    pub(crate) fn list_if_there(&self, path: &Path) -> Result<Vec<PathBuf>, StoreError> {
        match self.list(path) {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// See [`Disk::free_bytes`]. What the system does not tell will be seen when it is written.
    pub fn free_bytes(&self, dir: &Path) -> u64 {
        self.disk.free_bytes(dir).unwrap_or(u64::MAX)
    }

    /// Takes the lock file at `path`, or fails with [`StoreError::Locked`].
    pub fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, StoreError> {
        self.latch
            .run(path, Operation::Lock, || self.disk.try_lock(path))?
            .ok_or_else(|| StoreError::Locked { path: path.to_owned() })
    }
}

/// An open file as the store sees it. Clones share the handle.
#[derive(Clone)]
pub struct StoreFile {
    path: Arc<Path>,
    file: Arc<dyn DiskFile>,
    latch: Arc<Latch>,
}

impl fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreFile({})", self.path.display())
    }
}

impl StoreFile {
    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn run<T>(
        &self,
        operation: Operation,
        call: impl FnOnce(&dyn DiskFile) -> io::Result<T>,
    ) -> Result<T, StoreError> {
        self.latch.run(&self.path, operation, || call(&*self.file))
    }

    /// See [`DiskFile::read_exact_at`].
    pub fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StoreError> {
        self.run(Operation::Read, |file| file.read_exact_at(offset, out))
    }

    /// See [`DiskFile::read_or_fetch_at`].
    pub(crate) fn read_or_fetch_at(&self, offset: u64, out: &mut [u8]) -> Result<bool, StoreError> {
        self.run(Operation::Read, |file| file.read_or_fetch_at(offset, out))
    }

    /// See [`DiskFile::read_stream_at`].
    pub fn read_stream_at(
        &self,
        offset: u64,
        len: usize,
        out: &mut DataStream,
    ) -> Result<(), StoreError> {
        self.run(Operation::Read, |file| file.read_stream_at(offset, len, out))
    }

    /// See [`DiskFile::write_all_at`].
    pub fn write_all_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.run(Operation::Write, |file| file.write_all_at(offset, data))
    }

    /// See [`DiskFile::sync`].
    pub fn sync(&self) -> Result<(), StoreError> {
        self.run(Operation::Sync, |file| file.sync())
    }

    /// Length in bytes.
    pub fn file_len(&self) -> Result<u64, StoreError> {
        self.run(Operation::Length, |file| file.file_len())
    }

    /// See [`DiskFile::release_cache`].
    pub(crate) fn release_cache(&self, bytes: Range<u64>) {
        self.file.release_cache(bytes);
    }

    /// See [`DiskFile::set_len`].
    pub fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.run(Operation::SetLength, |file| file.set_len(len))
    }
}

#[cfg(test)]
mod tests;
