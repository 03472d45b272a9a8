//! The operating system's file system.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use godwit_stream::DataStream;
use rustix::fs::{Access, Advice, FlockOperation, OFlags, fcntl_lock};
use rustix::io::{Errno, ReadWriteFlags};

use super::{Disk, DiskFile, DiskLock, OpenMode};

/// Files are for their owner only, whatever the umask: chain data is public, but which data a
/// node has, and its lock, are nobody else's to touch.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// [`Disk`] on the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

struct RealFile {
    file: File,
    /// Reads can be asked not to wait, as far as is known.
    tells_what_is_cached: AtomicBool,
}

/// Device and number of a file.
type FilePlace = (u64, u64);

/// The files that this process has locked. One that is here is not opened by [`RealDisk::try_lock`].
static HELD_LOCKS: Mutex<BTreeSet<FilePlace>> = Mutex::new(BTreeSet::new());

/// An open description of the file holds the lock.
struct RealLock {
    file: Option<File>,
    place: FilePlace,
}

impl DiskLock for RealLock {}

impl Drop for RealLock {
    fn drop(&mut self) {
        let mut locked = HELD_LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.file.take());
        locked.remove(&self.place);
    }
}

fn place_of(file: &Metadata) -> FilePlace {
    (file.dev(), file.ino())
}

fn in_the_way<T>(kind: io::ErrorKind, what: &str) -> io::Result<T> {
    Err(io::Error::new(kind, format!("{what} is where a file belongs: move it away")))
}

/// Opens a file of the data directory, and waits for nobody at the other end of what is a pipe. A device
/// passes: `debug.log` may be a link to one.
///
/// # Errors
///
/// A failed system call, or what has the name is no file.
pub fn open_stored(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    // Files are opened, read and written as without it, but for one that a file server has leased.
    let opened = match options.custom_flags(at_once).open(path) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            options.custom_flags(0).open(path)
        }
        opened => opened,
    };
    let kind = match &opened {
        Ok(file) => Some(file.metadata()?.file_type()),
        Err(_) => None,
    };
    match opened {
        Ok(_) if kind.is_some_and(|kind| kind.is_fifo()) => {
            in_the_way(io::ErrorKind::NotSeekable, "a pipe")
        }
        // It opens, as long as nothing is to be written.
        Ok(_) if kind.is_some_and(|kind| kind.is_dir()) => {
            in_the_way(io::ErrorKind::IsADirectory, "a directory")
        }
        // Of a pipe that nobody reads, too.
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            in_the_way(io::ErrorKind::NotSeekable, "a socket or a pipe")
        }
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            in_the_way(io::ErrorKind::IsADirectory, "a directory")
        }
        opened => opened.map_err(without_end),
    }
}

/// Says what a link is that cannot be followed to its end.
fn without_end(error: io::Error) -> io::Error {
    match error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        true => {
            let text = "links here lead back to themselves: move them away";
            io::Error::new(io::ErrorKind::NotSeekable, text)
        }
        false => error,
    }
}

/// Says what has the name of a directory and is none.
fn no_directory(path: &Path) -> io::Error {
    let text = match fs::read_link(path) {
        Ok(to) => leads_nowhere(&to, "directory"),
        Err(_) => "what is there is no directory: move it away".to_owned(),
    };
    io::Error::new(io::ErrorKind::NotADirectory, text)
}

fn leads_nowhere(to: &Path, what: &str) -> String {
    let to = to.display();
    format!("it is a link to {to}, where there is no {what}: is its disk mounted?")
}

/// Makes the name of a directory that was just made durable.
fn sync_name(dir: &Path) -> io::Result<()> {
    let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
    match RealDisk.sync_dir(above.unwrap_or(Path::new("."))) {
        // One that may be written to and not read cannot be opened: its whole file system is synced.
        #[cfg(target_os = "linux")]
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok(rustix::fs::syncfs(File::open(dir)?)?)
        }
        synced => synced,
    }
}

/// Takes the lock that Core takes (`util/fs.cpp`) of a file that is locked by `flock`: the two kinds do not
/// see each other, and Core's does not keep a second lock of this process away. It is gone when the process
/// closes any descriptor of the file, so that [`HELD_LOCKS`] keeps it from being opened again.
fn excludes_core(file: &File) -> io::Result<bool> {
    let lock = || {
        let locked = fcntl_lock(file, FlockOperation::NonBlockingLockExclusive);
        // Other errors come from file systems that know no locks: there Core does not start.
        !matches!(locked, Err(Errno::AGAIN | Errno::ACCESS))
    };
    if lock() {
        return Ok(true);
    }
    // Network file systems make the other kind of `flock`, which then is in its own process's way.
    file.unlock()?;
    Ok(lock())
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let writes = mode != OpenMode::Read;
        let mut options = OpenOptions::new();
        options.read(true).write(writes).create(writes).truncate(mode == OpenMode::Truncate);
        let file = open_stored(options.mode(FILE_MODE), path)?;
        Ok(Arc::new(RealFile { file, tells_what_is_cached: AtomicBool::new(true) }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = path
            .ancestors()
            .take_while(|dir| !dir.as_os_str().is_empty() && !dir.is_dir())
            .collect();
        for dir in missing.iter().rev() {
            match DirBuilder::new().mode(DIR_MODE).create(dir) {
                // Another thread may create the same parent.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(no_directory(dir));
                }
                other => other?,
            }
        }
        // Behind the last one: where a name cannot be made durable, all of them are there.
        missing.iter().rev().try_for_each(|dir| sync_name(dir))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                in_the_way(error.kind(), "a directory")
            }
            removed => removed,
        }
    }

    fn has_name(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn check_link(&self, path: &Path) -> io::Result<()> {
        match (fs::metadata(path), fs::read_link(path)) {
            (Err(error), Ok(to)) if error.kind() == io::ErrorKind::NotFound => {
                // Not as a file that is missing, which is fetched or made again.
                let text = leads_nowhere(&to, "file");
                Err(io::Error::new(io::ErrorKind::NotSeekable, text))
            }
            // Opening it says what else is in the way.
            _ => Ok(()),
        }
    }

    fn place(&self, path: &Path) -> io::Result<Option<FilePlace>> {
        match fs::metadata(path) {
            // Opening it says what else is in the way.
            Ok(found) if found.is_file() => Ok(Some(place_of(&found))),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    fn check_writable(&self, dir: &Path) -> io::Result<()> {
        Ok(rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK)?)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let entries = match fs::read_dir(path) {
            // The caller may take a missing directory for an empty one, but not a missing disk.
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
                return Err(no_directory(path));
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory && path.exists() => {
                return Err(no_directory(path));
            }
            entries => entries.map_err(without_end)?,
        };
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let disk = rustix::fs::statvfs(dir)?;
        // A file system that does not say how large it is does not know what is free either.
        match disk.f_blocks {
            0 => Ok(u64::MAX),
            _ => Ok(disk.f_bavail.saturating_mul(disk.f_frsize)),
        }
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        let mut locked = HELD_LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        if fs::metadata(path).is_ok_and(|found| locked.contains(&place_of(&found))) {
            return Ok(None);
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = open_stored(options.mode(FILE_MODE), path)?;
        match file.try_lock() {
            Ok(()) if excludes_core(&file)? => {
                let place = place_of(&file.metadata()?);
                locked.insert(place);
                Ok(Some(Box::new(RealLock { file: Some(file), place })))
            }
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl DiskFile for RealFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn read_or_fetch_at(&self, offset: u64, out: &mut [u8]) -> io::Result<bool> {
        let len = out.len();
        // An offset of -1 would mean the place behind the last read.
        if self.tells_what_is_cached.load(Ordering::Relaxed) && i64::try_from(offset).is_ok() {
            let mut parts = [IoSliceMut::new(out)];
            match rustix::io::preadv2(&self.file, &mut parts, offset, ReadWriteFlags::NOWAIT) {
                Ok(count) if count == len => return Ok(true),
                // A file system without it, or a filter of system calls.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM) => {
                    self.tells_what_is_cached.store(false, Ordering::Relaxed);
                }
                // Not all of it is in memory. Whatever else is wrong, the read that waits will say.
                Ok(_) | Err(_) => {}
            }
        }
        self.advise(offset..offset.saturating_add(len as u64), Advice::WillNeed);
        Ok(false)
    }

    fn read_stream_at(&self, offset: u64, len: usize, out: &mut DataStream) -> io::Result<()> {
        let start = out.as_slice().len();
        loop {
            let have = out.as_slice().len() - start;
            let mut at = offset + have as u64;
            let filled = out.fill_from(len - have, |spare| {
                let (filled, _) = rustix::io::pread(&self.file, spare, at)?;
                at += filled.len() as u64;
                Ok(filled)
            });
            match filled {
                Ok(count) if have + count == len => return Ok(()),
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                // What came before the signal is in the stream; go on behind it.
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn file_len(&self) -> io::Result<u64> {
        self.file.metadata().map(|metadata| metadata.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn release_cache(&self, bytes: Range<u64>) {
        self.advise(bytes, Advice::DontNeed);
    }
}

impl RealFile {
    /// Nothing is wrong where the system does not take the hint.
    fn advise(&self, bytes: Range<u64>, advice: Advice) {
        let Some(len) = NonZeroU64::new(bytes.end.saturating_sub(bytes.start)) else { return };
        let len = Some(len).filter(|len| i64::try_from(len.get()).is_ok());
        let _is_taken = rustix::fs::fadvise(&self.file, bytes.start, len, advice).is_ok();
    }
}

#[cfg(test)]
mod tests;
