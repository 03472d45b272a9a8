//! A disk whose operations of one kind wait at a gate, as a slow one lets them wait.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use godwit_fault_disk::{FaultDisk, forward_disk};
use godwit_stream::DataStream;

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::Operation;

/// [`FaultDisk`] behind a gate.
#[derive(Clone)]
pub(crate) struct GateDisk {
    disk: FaultDisk,
    gate: Arc<Gate>,
}

#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    closed: Option<Operation>,
    waiting: usize,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// From now on operations of this kind wait.
    pub(crate) fn close(&self, operation: Operation) {
        self.state().closed = Some(operation);
    }

    /// Lets go of what waits, and of all that follows.
    pub(crate) fn open(&self) {
        self.state().closed = None;
        self.changed.notify_all();
    }

    /// Waits until an operation waits at the closed gate.
    pub(crate) fn wait_for_one(&self) {
        let mut state = self.state();
        while state.waiting == 0 {
            state = self.changed.wait(state).unwrap();
        }
    }

    fn pass(&self, operation: Operation) {
        let mut state = self.state();
        if state.closed != Some(operation) {
            return;
        }
        state.waiting += 1;
        self.changed.notify_all();
        while state.closed.is_some() {
            state = self.changed.wait(state).unwrap();
        }
        state.waiting -= 1;
    }
}

impl GateDisk {
    pub(crate) fn new(disk: &FaultDisk) -> (Self, Arc<Gate>) {
        let gate = Arc::new(Gate::default());
        (Self { disk: disk.clone(), gate: Arc::clone(&gate) }, gate)
    }
}

impl Disk for GateDisk {
    forward_disk!(disk: create_dir_all, rename, list, free_bytes, try_lock);

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let operation = if mode == OpenMode::Read { Operation::Open } else { Operation::Create };
        self.gate.pass(operation);
        let file = self.disk.open(path, mode)?;
        Ok(Arc::new(GateFile { file, gate: Arc::clone(&self.gate) }))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.gate.pass(Operation::SyncDir);
        self.disk.sync_dir(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.gate.pass(Operation::Remove);
        self.disk.remove(path)
    }
}

struct GateFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl DiskFile for GateFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.gate.pass(Operation::Read);
        self.file.read_exact_at(offset, out)
    }

    fn read_or_fetch_at(&self, offset: u64, out: &mut [u8]) -> io::Result<bool> {
        self.gate.pass(Operation::Read);
        self.file.read_or_fetch_at(offset, out)
    }

    fn read_stream_at(&self, offset: u64, len: usize, out: &mut DataStream) -> io::Result<()> {
        self.gate.pass(Operation::Read);
        self.file.read_stream_at(offset, len, out)
    }

    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.gate.pass(Operation::Write);
        self.file.write_all_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass(Operation::Sync);
        self.file.sync()
    }

    fn file_len(&self) -> io::Result<u64> {
        self.gate.pass(Operation::Length);
        self.file.file_len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.gate.pass(Operation::SetLength);
        self.file.set_len(len)
    }
}
