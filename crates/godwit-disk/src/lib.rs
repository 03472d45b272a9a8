//! The seam between godwit and the operating system: files here, threads and the clock in [`exec`].
//! It is what the real disk (`godwit_store::disk::RealDisk`), real threads
//! (`godwit_store::exec::Threads`) and the simulated ones of tests implement.
//!
//! The traits are a crate below the store so that the store's own unit tests can use the simulated
//! disk of `godwit-fault-disk`. A crate's unit tests are a second build of it: were the traits part
//! of the store, the simulated disk would implement those of the other build.

pub mod exec;

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use godwit_stream::DataStream;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading only.
    Read,
    /// Reading and writing; created empty when absent (mode 0600).
    ReadWrite,
    /// Reading and writing; created when absent, emptied when present.
    Truncate,
}

/// An exclusive lock, held until dropped.
pub trait DiskLock: Send + Sync {}

/// Files and directories.
pub trait Disk: Send + Sync {
    /// Opens a file. The name of a created file is durable only after [`Disk::sync_dir`].
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a directory (mode 0700) and its parents, durably.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable: creations, renames and removals in it.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Renames a file, atomically replacing `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Whether anything has the name, be it what cannot be opened, or a symbolic link that leads nowhere. By
    /// default what can be opened has it.
    fn has_name(&self, path: &Path) -> io::Result<bool> {
        match self.open(path, OpenMode::Read) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
    /// Fails where the name is that of a symbolic link that leads nowhere: more likely a disk is not mounted
    /// than what was there is lost. By default there are no links.
    fn check_link(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
    /// Where a file lies, whatever its name: two names of one place are one file. `None` where there is none,
    /// or, as by default, where a file has one name.
    fn place(&self, _path: &Path) -> io::Result<Option<(u64, u64)>> {
        Ok(None)
    }
    /// Fails where this process may not add files to a directory, or remove them. By default it may.
    fn check_writable(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
    /// Names of all entries of a directory, in any order.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;
    /// How many bytes the file system of a directory has room for; `u64::MAX` where no bound is known.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// Locks a file, which is created when absent; `None` when another process holds the lock.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>>;
}

/// An open file. All access is positional, so that one handle serves many threads.
pub trait DiskFile: Send + Sync {
    /// Fills `out` from `offset`; `UnexpectedEof` when the file is shorter.
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Fills `out` from `offset` and says `true`, if that needs no wait for the disk. Otherwise has the disk
    /// fetch the bytes and says `false`: `out` then holds anything, and [`DiskFile::read_exact_at`] waits
    /// for them. So a disk that takes long for one read gets many at once. An error may be told here or by
    /// that read. By default it waits.
    fn read_or_fetch_at(&self, offset: u64, out: &mut [u8]) -> io::Result<bool> {
        self.read_exact_at(offset, out).map(|()| true)
    }
    /// Appends `len` bytes from `offset` to `out`, without zeroing its memory first;
    /// `UnexpectedEof` when the file is shorter (then `out` may have grown by a part).
    fn read_stream_at(&self, offset: u64, len: usize, out: &mut DataStream) -> io::Result<()>;
    /// Writes all of `data` at `offset`, extending the file as needed.
    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Makes written bytes and the length durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    fn file_len(&self) -> io::Result<u64>;
    /// Truncates, or extends with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Lets the system use the memory for something else in which it keeps these bytes of the file; they may
    /// end behind the file. A hint: by default nothing.
    fn release_cache(&self, _bytes: Range<u64>) {}
}
