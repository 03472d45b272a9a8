//! A disk with a sector that gives an error instead of bytes.

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_fault_disk::FaultDisk;
use godwit_store::disk::{Disk, DiskFile, DiskLock, OpenMode};
use godwit_stream::DataStream;

/// Bytes of a sector.
pub(crate) const SECTOR: u64 = 512;

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct BadSector {
    pub(crate) disk: FaultDisk,
    /// The file that has it.
    pub(crate) path: PathBuf,
    /// Where it begins.
    pub(crate) at: u64,
}

struct BadFile {
    file: Arc<dyn DiskFile>,
    bad: Option<Range<u64>>,
}

impl BadFile {
    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        let end = offset + len as u64;
        match self.bad.as_ref().is_some_and(|bad| bad.start < end && offset < bad.end) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(()),
        }
    }
}

impl Disk for BadSector {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let bad = (path == self.path).then_some(self.at..self.at + SECTOR);
        Ok(Arc::new(BadFile { file: self.disk.open(path, mode)?, bad }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.disk.list(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        self.disk.try_lock(path)
    }
}

impl DiskFile for BadFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check(offset, out.len())?;
        self.file.read_exact_at(offset, out)
    }

    fn read_stream_at(&self, offset: u64, len: usize, out: &mut DataStream) -> io::Result<()> {
        self.check(offset, len)?;
        self.file.read_stream_at(offset, len, out)
    }

    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn file_len(&self) -> io::Result<u64> {
        self.file.file_len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}
