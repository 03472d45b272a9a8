//! Makes fresh data directories, and measures their size.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::Serialize;

use crate::failure::Failure;
use crate::node::Node;

/// Bytes on disk, as allocated: preallocated ends of files count, holes do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskUse {
    /// The whole data directory.
    pub total: u64,
    /// The UTXO set alone.
    pub utxo: u64,
}

impl DiskUse {
    /// Adds up a data directory.
    pub fn of(node: Node, datadir: &Path) -> Result<Self, Failure> {
        let utxo = Node::network_dir(datadir).join(node.utxo_dir());
        Ok(Self { total: allocated(datadir)?, utxo: allocated(&utxo)? })
    }
}

fn allocated(path: &Path) -> Result<u64, Failure> {
    let failed = |error| Failure::File(path.to_owned(), error);
    let metadata = fs::symlink_metadata(path).map_err(failed)?;
    let mut sum = metadata.blocks() * 512;
    if metadata.is_dir() {
        for entry in fs::read_dir(path).map_err(failed)? {
            sum += allocated(&entry.map_err(failed)?.path())?;
        }
    }
    Ok(sum)
}

/// A directory beside the chain, on its file system, for the data directories of both programs.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    /// Locked, and inherited by the servers: as long as one of them runs, the directory is in use.
    _lock: File,
}

/// Its file that is locked.
const LOCK: &str = "in-use";

impl WorkDir {
    /// Makes it. It stays when something fails, with the logs that tell why, until the program runs here
    /// again.
    pub fn beside(chain: &Path, program: &str) -> Result<Self, Failure> {
        let place = chain.parent().filter(|place| !place.as_os_str().is_empty());
        let place = place.unwrap_or(Path::new("."));
        remove_abandoned(place, program)?;
        let path = place.join(format!("{program}-{}", std::process::id()));
        let lock = fs::create_dir(&path).and_then(|()| lock(&path));
        let _lock = lock.map_err(|error| Failure::File(path.clone(), error))?;
        Ok(Self { path, _lock })
    }

    /// A new data directory. Everything that was written before it is on disk.
    pub fn fresh(&self, name: &str) -> Result<PathBuf, Failure> {
        let datadir = self.path.join(name);
        fs::create_dir(&datadir).map_err(|error| Failure::File(datadir.clone(), error))?;
        self.sync()?;
        Ok(datadir)
    }

    /// Where a file beside the data directories lies.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Waits until the file system has everything on disk; returns the seconds that it took.
    pub fn sync(&self) -> Result<f64, Failure> {
        let started = Instant::now();
        let synced =
            File::open(&self.path).and_then(|dir| Ok(rustix::fs::syncfs(dir).map(|()| started)?));
        let started = synced.map_err(|error| Failure::File(self.path.clone(), error))?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// Removes it with all that is in it.
    pub fn remove(self) -> Result<(), Failure> {
        remove(&self.path)
    }
}

/// Marks a directory as used by this process and those that it starts.
fn lock(path: &Path) -> io::Result<File> {
    let file = File::create(path.join(LOCK))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    fcntl_setfd(&file, FdFlags::empty())?;
    Ok(file)
}

/// Removes what earlier processes of the program left in `place`: gigabytes, each time that one was
/// interrupted. What has no lock is somebody else's, and what is locked still in use.
fn remove_abandoned(place: &Path, program: &str) -> Result<(), Failure> {
    let failed = |error| Failure::File(place.to_owned(), error);
    for entry in fs::read_dir(place).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let pid = name.strip_prefix(program).and_then(|rest| rest.strip_prefix('-'));
        let is_ours = pid.is_some_and(|pid| pid.parse::<u32>().is_ok());
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if is_ours && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            println!(
                "Removing {}, which a run left that was interrupted or failed.",
                path.display()
            );
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes a directory with all that is in it.
pub fn remove(path: &Path) -> Result<(), Failure> {
    fs::remove_dir_all(path).map_err(|error| Failure::File(path.to_owned(), error))
}

/// Reads a file to its end, so that no round is the first to read it from the disk.
pub fn read_through(path: &Path) -> Result<u64, Failure> {
    let copied = File::open(path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
    copied.map_err(|error| Failure::File(path.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_processes_left_that_are_gone_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let beside = || WorkDir::beside(&place.path().join("chain.dat"), "sync-vs-core").unwrap();
        let make = |name: &str| {
            let path = place.path().join(name);
            fs::create_dir_all(path.join("data")).unwrap();
            path
        };
        let abandoned = make("sync-vs-core-1");
        drop(lock(&abandoned).unwrap());
        // Of a process that runs, and in that of a server that its program has left alone.
        let (used, served) = (make("sync-vs-core-2"), make("sync-vs-core-3"));
        let _used = lock(&used).unwrap();
        let inherited = lock(&served).unwrap();
        let mut server = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        drop(inherited);
        // Of another program, and the user's own.
        let other = make("vs-core-1");
        drop(lock(&other).unwrap());
        let own = make("sync-vs-core-2026");
        let work = beside();
        assert!(!abandoned.exists());
        assert!([&used, &served, &other, &own].iter().all(|path| path.is_dir()));
        work.remove().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        beside().remove().unwrap();
        assert!(!served.exists(), "its server has ended");
    }
}
