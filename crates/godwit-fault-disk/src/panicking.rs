//! A disk on which one thread meets a bug: its operations panic.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use godwit_stream::DataStream;

use godwit_disk::{Disk, DiskFile, DiskLock, OpenMode};

/// What a panic of the disk says.
pub const PANIC: &str = "a bug that the test wants";

/// Another disk, on which every operation panics in threads whose name begins as told, once it is armed.
#[derive(Clone)]
pub struct PanickingDisk {
    disk: Arc<dyn Disk>,
    trap: Trap,
}

#[derive(Clone)]
struct Trap {
    thread: &'static str,
    armed: Arc<AtomicBool>,
}

impl Trap {
    fn pass(&self) {
        let named = thread::current().name().is_some_and(|name| name.starts_with(self.thread));
        assert!(!named || !self.armed.load(Ordering::SeqCst), "{PANIC}");
    }
}

struct PanickingFile {
    file: Arc<dyn DiskFile>,
    trap: Trap,
}

impl PanickingDisk {
    /// `disk` until it is armed.
    pub fn new(disk: Arc<dyn Disk>, thread: &'static str) -> Self {
        Self { disk, trap: Trap { thread, armed: Arc::default() } }
    }

    /// From now on the thread panics.
    pub fn arm(&self) {
        self.trap.armed.store(true, Ordering::SeqCst);
    }
}

impl Disk for PanickingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.trap.pass();
        let file = self.disk.open(path, mode)?;
        Ok(Arc::new(PanickingFile { file, trap: self.trap.clone() }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.trap.pass();
        self.disk.create_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.trap.pass();
        self.disk.sync_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.trap.pass();
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.trap.pass();
        self.disk.remove(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.trap.pass();
        self.disk.list(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.trap.pass();
        self.disk.free_bytes(dir)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        self.trap.pass();
        self.disk.try_lock(path)
    }
}

impl DiskFile for PanickingFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.trap.pass();
        self.file.read_exact_at(offset, out)
    }

    fn read_or_fetch_at(&self, offset: u64, out: &mut [u8]) -> io::Result<bool> {
        self.trap.pass();
        self.file.read_or_fetch_at(offset, out)
    }

    fn read_stream_at(&self, offset: u64, len: usize, out: &mut DataStream) -> io::Result<()> {
        self.trap.pass();
        self.file.read_stream_at(offset, len, out)
    }

    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.trap.pass();
        self.file.write_all_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.trap.pass();
        self.file.sync()
    }

    fn file_len(&self) -> io::Result<u64> {
        self.trap.pass();
        self.file.file_len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.trap.pass();
        self.file.set_len(len)
    }
}
