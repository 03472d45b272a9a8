//! A disk that counts the bytes that are read of some files.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use godwit_fault_disk::{FaultDisk, forward_disk, forward_file};
use godwit_store::disk::{Disk, DiskFile, OpenMode};
use godwit_stream::DataStream;

/// Counts the bytes that are read of the files that `counts` says; clones share the count.
#[derive(Clone)]
pub(crate) struct CountingDisk {
    disk: FaultDisk,
    counts: fn(&Path) -> bool,
    read: Arc<AtomicU64>,
    checkpoints: Arc<Mutex<Checkpoints>>,
}

/// The checkpoints of a repair.
#[derive(Clone, Copy, Default)]
pub(crate) struct Checkpoints {
    /// What had been read when the last one got its name, until that is durable.
    named: Option<u64>,
    /// What had been read when the last durable one was written.
    pub(crate) read: u64,
    pub(crate) durable: u32,
}

impl CountingDisk {
    pub(crate) fn new(disk: &FaultDisk, counts: fn(&Path) -> bool) -> Self {
        Self { disk: disk.clone(), counts, read: Arc::default(), checkpoints: Arc::default() }
    }

    pub(crate) fn disk(&self) -> &FaultDisk {
        &self.disk
    }

    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(crate) fn checkpoints(&self) -> Checkpoints {
        *self.checkpoints.lock().expect("nothing panics with it")
    }
}

struct CountingFile {
    file: Arc<dyn DiskFile>,
    read: Arc<AtomicU64>,
}

impl Disk for CountingDisk {
    forward_disk!(disk: create_dir_all, remove, list, free_bytes, try_lock);

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(path, mode)?;
        match (self.counts)(path) {
            true => Ok(Arc::new(CountingFile { file, read: Arc::clone(&self.read) })),
            false => Ok(file),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)?;
        let mut checkpoints = self.checkpoints.lock().expect("nothing panics with it");
        if let Some(read) = checkpoints.named.take() {
            (checkpoints.read, checkpoints.durable) = (read, checkpoints.durable + 1);
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)?;
        if to.ends_with("repair.checkpoint") {
            let mut checkpoints = self.checkpoints.lock().expect("nothing panics with it");
            checkpoints.named = Some(self.read());
        }
        Ok(())
    }
}

impl DiskFile for CountingFile {
    forward_file!(file: write_all_at, sync, file_len, set_len);

    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.file.read_exact_at(offset, out)
    }

    fn read_or_fetch_at(&self, offset: u64, out: &mut [u8]) -> io::Result<bool> {
        self.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.file.read_or_fetch_at(offset, out)
    }

    fn read_stream_at(&self, offset: u64, len: usize, out: &mut DataStream) -> io::Result<()> {
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        self.file.read_stream_at(offset, len, out)
    }
}
