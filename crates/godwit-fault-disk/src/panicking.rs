//! A disk on which one thread meets a simulated bug: its operations panic.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use godwit_disk::{Disk, DiskFile, OpenMode};

use crate::{forward_disk, forward_file};

/// The message of the disk's panics.
pub const PANIC: &str = "a bug that the test wants";

/// Wraps another disk. Once armed, every operation panics in threads whose name begins with the given one.
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
    /// A disk that works like `disk` until it is armed.
    pub fn new(disk: Arc<dyn Disk>, thread: &'static str) -> Self {
        Self { disk, trap: Trap { thread, armed: Arc::default() } }
    }

    /// From now on the thread panics.
    pub fn arm(&self) {
        self.trap.armed.store(true, Ordering::SeqCst);
    }
}

impl Disk for PanickingDisk {
    forward_disk!(disk after trap: create_dir_all, sync_dir, rename, remove, list, free_bytes, try_lock);

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.trap.pass();
        let file = self.disk.open(path, mode)?;
        Ok(Arc::new(PanickingFile { file, trap: self.trap.clone() }))
    }
}

impl DiskFile for PanickingFile {
    forward_file!(file after trap: read_exact_at, read_or_fetch_at, read_stream_at);
    forward_file!(file after trap: write_all_at, sync, file_len, set_len);
}
