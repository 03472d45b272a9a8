//! The key file on the disk: who may read it, one writer at a time, old or new but never half.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{KeyFileError, MAGIC, MAX_KEY_FILE};
use crate::store::error::{FileAction, StoreError};

/// What owner alone may read and write has.
const MODE: u32 = 0o600;
/// What group and others may do.
const OTHERS: u32 = 0o077;
/// Behind the name of a key file: the process that holds this file's lock may write.
const LOCK: &str = ".lock";
/// Behind the name of a key file: what is to take its place, and is not whole yet.
const UNFINISHED: &str = ".unfinished";

/// The whole file, which nobody but its owner may read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    let failed = |error| failure(FileAction::Read, path, error);
    // Of a pipe that nobody writes to, opening would wait for ever.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(StoreError::Content(path.to_owned(), KeyFileError::NotAKeyFile));
    }
    let mut bytes = Vec::new();
    file.take(MAX_KEY_FILE as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    // First of all: who names another file by mistake is not to be told to change its mode.
    if bytes.len() > MAX_KEY_FILE || !bytes.starts_with(MAGIC) {
        return Err(StoreError::Content(path.to_owned(), KeyFileError::NotAKeyFile));
    }
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(StoreError::Owner(path.to_owned(), owner));
    }
    if metadata.mode() & OTHERS != 0 {
        return Err(StoreError::Permissions(path.to_owned(), metadata.mode() & 0o7777));
    }
    Ok(bytes)
}

/// The right to write a key file, as long as it lives.
pub(crate) struct WriteLock {
    _file: File,
}

impl WriteLock {
    /// Waits for other writers. The lock is a file beside the key file, which stays: the key file
    /// itself is replaced.
    ///
    /// A key file may not be called as the files beside another one are: the writer of that one would
    /// remove it, and its keys.
    pub(crate) fn take(path: &Path) -> Result<Self, StoreError> {
        let name = path.as_os_str().as_encoded_bytes();
        if [LOCK, UNFINISHED].iter().any(|ending| name.ends_with(ending.as_bytes())) {
            return Err(StoreError::ReservedName(path.to_owned()));
        }
        let lock = beside(path, LOCK);
        let failed = |error| failure(FileAction::Lock, &lock, error);
        let mut options = OpenOptions::new();
        let options = options.create(true).write(true).truncate(false).mode(MODE);
        // Opening a pipe in its place would wait, and a link could lead to a lock that another user holds.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let file = options.custom_flags(flags.bits() as i32).open(&lock).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        }
        let owner = metadata.uid();
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(StoreError::Owner(lock, owner));
        }
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
    }
}

/// Puts a new version in the place of the file, if what was written `opens` when it is read back. A process
/// that ends at any moment leaves the old one or the new one. An error inside is one after that: the new one
/// is there.
pub(crate) fn replace(
    path: &Path,
    bytes: &[u8],
    _lock: &WriteLock,
    opens: impl FnOnce(&[u8]) -> Result<bool, StoreError>,
) -> Result<Result<(), StoreError>, StoreError> {
    let new = beside(path, UNFINISHED);
    let failed = |error| failure(FileAction::Write, path, error);
    let written = write_new(&new, bytes)
        .and_then(|()| fs::read(&new))
        .map_err(failed)
        .and_then(|written| opens(&written))
        .and_then(|opened| opened.then_some(()).ok_or(StoreError::NotReadBack(path.to_owned())))
        .and_then(|()| fs::rename(&new, path).map_err(failed));
    if let Err(error) = written {
        // What is left is sealed, and the next writer removes it too.
        drop(fs::remove_file(&new));
        return Err(error);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let synced = sync_folder(folder.unwrap_or(Path::new(".")));
    Ok(synced.map_err(|error| StoreError::NotDurable(path.to_owned(), error)))
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(test)]
    if FAILING_SYNC.get() {
        return Err(io::ErrorKind::StorageFull.into());
    }
    File::open(folder)?.sync_all()
}

#[cfg(test)]
thread_local! {
    /// A bit that is another one in what is written.
    pub(crate) static FLIPPED_BIT: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
    /// Whether folders cannot be written to the disk. No file system of a test fails so.
    pub(crate) static FAILING_SYNC: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn write_new(new: &Path, bytes: &[u8]) -> io::Result<()> {
    // Of a writer that was killed: nobody else holds the lock.
    match fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(new)?;
    #[cfg(test)]
    let bytes = &FLIPPED_BIT.get().map_or(bytes.to_vec(), |bit| {
        let mut bytes = bytes.to_vec();
        let byte = (bit / 8).min(bytes.len() - 1);
        bytes[byte] ^= 1 << (bit % 8);
        bytes
    })[..];
    file.write_all(bytes)?;
    file.sync_all()
}

/// A file of the same name with something behind.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

fn failure(action: FileAction, path: &Path, error: io::Error) -> StoreError {
    StoreError::File { action, path: path.to_owned(), error }
}
