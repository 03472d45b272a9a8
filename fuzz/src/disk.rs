//! A disk one file of which is what an input says.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use godwit_fault_disk::{FaultDisk, forward_disk};
use godwit_store::disk::{Disk, DiskFile, OpenMode};
use godwit_stream::DataStream;

/// An in-memory disk; the bytes of one path are set from outside, also while the file is open, and
/// nobody else writes to it. Clones share the state.
#[derive(Clone)]
pub(crate) struct OneFileDisk {
    rest: FaultDisk,
    path: PathBuf,
    file: OneFile,
}

#[derive(Clone, Default)]
struct OneFile(Arc<Mutex<Vec<u8>>>);

impl OneFileDisk {
    pub(crate) fn new(path: &Path) -> Self {
        Self { rest: FaultDisk::new(), path: path.to_owned(), file: OneFile::default() }
    }

    pub(crate) fn set(&self, bytes: Vec<u8>) {
        *self.file.bytes() = bytes;
    }
}

impl OneFile {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("nobody panics while holding it")
    }

    fn read(&self, offset: u64, len: usize, read: impl FnOnce(&[u8])) -> io::Result<()> {
        let bytes = self.bytes();
        let start = usize::try_from(offset).map_err(|_| ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(len).ok_or(ErrorKind::UnexpectedEof)?;
        read(bytes.get(start..end).ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Disk for OneFileDisk {
    forward_disk!(rest: create_dir_all, sync_dir, rename, remove, list, free_bytes, try_lock);

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        if path == self.path { Ok(Arc::new(self.file.clone())) } else { self.rest.open(path, mode) }
    }
}

impl DiskFile for OneFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read(offset, out.len(), |bytes| out.copy_from_slice(bytes))
    }

    fn read_stream_at(&self, offset: u64, len: usize, out: &mut DataStream) -> io::Result<()> {
        self.read(offset, len, |bytes| out.write(bytes))
    }

    fn write_all_at(&self, _offset: u64, _data: &[u8]) -> io::Result<()> {
        Err(ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn file_len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(ErrorKind::ReadOnlyFilesystem.into())
    }
}
