//! `outbox.dat`: keeps the transactions that users of this node sent, between runs.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use godwit_p2p::TxOutbox;
use godwit_primitives::BlockHash;
use godwit_store::StoreError;
use godwit_store::disk::Disk;
use godwit_store::error::{IoFailure, Operation};
use godwit_store::exec::{Executor, Priority, Workers};

use super::peers_file::{read, replace};

/// Name of the file in the network's data directory.
pub const OUTBOX_FILE: &str = "outbox.dat";

/// Largest file that is read, in bytes: more than that of a full outbox.
const MAX_OUTBOX_FILE: u64 = 8 << 20;

/// Time after which a write that failed is tried again.
const RETRY: Duration = Duration::from_secs(60);

/// The file of the outbox. A worker of its own writes it, so that the node's thread never waits for the
/// disk.
pub struct OutboxFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    magic: [u8; 4],
    writer: Workers,
    /// The writer has not finished the last one that it was given.
    saving: Arc<AtomicBool>,
    /// The file does not have the last one that the writer was given.
    unwritten: Arc<AtomicBool>,
    /// Version of the outbox that the writer was given.
    saved: u64,
    /// When it is given that one again if the write failed, on the monotonic clock.
    again: Duration,
}

/// Fails where [`OutboxFile::load`] would, before a start gives anything up.
pub(super) fn check_outbox(disk: &dyn Disk, network_dir: &Path) -> Result<(), StoreError> {
    let path = network_dir.join(OUTBOX_FILE);
    match read(disk, &path, MAX_OUTBOX_FILE) {
        Ok(_) => Ok(()),
        Err(error) => unless_damaged(&path, error).map(drop),
    }
}

/// What is wrong with a file that is damaged; fails where the system does not let this process read it.
fn unless_damaged(path: &Path, error: io::Error) -> Result<String, StoreError> {
    let failed = StoreError::Io(IoFailure::new(path, Operation::Open, &error));
    match failed.is_unreadable() || error.kind() == ErrorKind::FileTooLarge {
        true => Ok(error.to_string()),
        false => Err(failed),
    }
}

impl OutboxFile {
    /// The file in `network_dir` on `disk`, of the network with this message start.
    ///
    /// # Errors
    ///
    /// The operating system gave no thread.
    pub fn new(
        disk: Arc<dyn Disk>,
        executor: &dyn Executor,
        network_dir: &Path,
        magic: [u8; 4],
    ) -> io::Result<Self> {
        // One, and the last one queued behind it.
        let writer = Workers::start(executor, "godwit-outbox", 1, [2, 0])?;
        let path = network_dir.join(OUTBOX_FILE);
        let (saving, unwritten) = (Arc::default(), Arc::default());
        Ok(Self { disk, path, magic, writer, saving, unwritten, saved: 0, again: Duration::ZERO })
    }

    /// Reads the outbox, of a chain that has the blocks that `is_active` says; an empty one if there is no
    /// file. One that is damaged is put aside. Blocks the calling thread, so it is for the start.
    ///
    /// # Errors
    ///
    /// The system does not let this process read it. It stays where it is: nothing says that it is damaged.
    pub fn load(&mut self, is_active: impl Fn(&BlockHash) -> bool) -> Result<TxOutbox, StoreError> {
        let outbox = match read(&*self.disk, &self.path, MAX_OUTBOX_FILE) {
            Ok(None) => return Ok(TxOutbox::default()),
            Ok(Some(bytes)) => TxOutbox::from_bytes(&bytes, self.magic, is_active)
                .map_err(|error| error.to_string()),
            Err(error) => Err(unless_damaged(&self.path, error)?),
        };
        Ok(match outbox {
            Ok(outbox) => {
                let waiting = outbox.waiting().count();
                log::info!("{waiting} transactions of {OUTBOX_FILE} wait for a block.");
                self.saved = outbox.version();
                outbox
            }
            Err(error) => {
                let aside = self.path.with_extension("dat.bak");
                log::warn!(
                    "{OUTBOX_FILE} is put aside as {}, and what was sent is not announced any more: {error}",
                    aside.display()
                );
                if let Err(error) = self.disk.rename(&self.path, &aside) {
                    log::warn!("{} cannot be renamed: {error}", self.path.display());
                }
                TxOutbox::default()
            }
        })
    }

    /// Starts to replace the file if the outbox is another one than it has, and the last write has ended;
    /// after a crash it is the old one or the new one. A write that failed is logged, and tried again at the
    /// next change or after [`RETRY`].
    pub fn keep(&mut self, now: Duration, outbox: &TxOutbox) {
        if self.saving.load(Ordering::Acquire) {
            return;
        }
        let failed = self.unwritten.load(Ordering::Acquire);
        if outbox.version() != self.saved || failed && now >= self.again {
            self.again = now + RETRY;
            self.start(outbox);
        }
    }

    /// Replaces the file for the last time, if it has to be, and waits until it is written.
    pub fn end(mut self, outbox: &TxOutbox) {
        // Dropping the worker waits for what it has to do.
        if outbox.version() != self.saved || self.unwritten.load(Ordering::Acquire) {
            self.start(outbox);
        }
    }

    fn start(&mut self, outbox: &TxOutbox) {
        self.saved = outbox.version();
        self.saving.store(true, Ordering::Release);
        self.unwritten.store(true, Ordering::Release);
        let (disk, path) = (Arc::clone(&self.disk), self.path.clone());
        let bytes = outbox.to_bytes(self.magic);
        let unwritten = Arc::clone(&self.unwritten);
        let write = move || match replace(&*disk, &path, &bytes) {
            Ok(()) => unwritten.store(false, Ordering::Release),
            Err(error) => log::warn!("{} cannot be written: {error}", path.display()),
        };
        let saving = Arc::clone(&self.saving);
        self.writer.run(Priority::Urgent, "save outbox", write, move |_| {
            saving.store(false, Ordering::Release);
        });
    }
}

#[cfg(test)]
mod tests;
