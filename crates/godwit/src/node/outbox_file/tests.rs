use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use godwit_fault_disk::{Counted, DiskError, Fault, FaultDisk, Lasting, Survival};
use godwit_p2p::OutboxTx;
use godwit_primitives::{BlockHash, TxView};
use godwit_store::disk::RealDisk;
use godwit_store::exec::Threads;

use super::*;

const MAGIC: [u8; 4] = [1, 2, 3, 4];

/// No chain: no block is in it.
fn nowhere(_: &BlockHash) -> bool {
    false
}

/// With one transaction.
fn outbox(n: u8) -> TxOutbox {
    let input = [&[n; 32][..], &[0; 4], &[0], &[0xff; 4]].concat();
    let output = [&[5, 0, 0, 0, 0, 0, 0, 0][..], &[1, 0x51]].concat();
    let bytes = [&[2, 0, 0, 0][..], &[1], &input, &[1], &output, &[0; 4]].concat();
    let tx = TxView::parse(&bytes).expect("a transaction");
    let mut outbox = TxOutbox::default();
    outbox.put(vec![OutboxTx::new(tx, 100, 60, 1_000, 3)], &[]).expect("there is room");
    outbox
}

fn file_on(disk: impl Disk + 'static, dir: &Path) -> OutboxFile {
    OutboxFile::new(Arc::new(disk), &Threads::default(), dir, MAGIC).expect("a thread")
}

fn file_in(dir: &Path) -> OutboxFile {
    file_on(RealDisk, dir)
}

/// A disk, and what opens the file on it.
fn simulated() -> (FaultDisk, impl Fn() -> OutboxFile) {
    let (disk, dir) = (FaultDisk::new(), Path::new("/node"));
    disk.create_dir_all(dir).expect("no fault");
    (disk.clone(), move || file_on(disk.clone(), dir))
}

fn loaded(dir: &Path) -> TxOutbox {
    file_in(dir).load(nowhere).expect("it may be read")
}

fn waiting(outbox: &TxOutbox) -> Vec<OutboxTx> {
    outbox.waiting().map(|tx| OutboxTx::clone(tx)).collect()
}

#[test]
fn an_outbox_is_kept() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    assert!(loaded(temp.path()).is_empty());
    file_in(temp.path()).end(&TxOutbox::default());
    assert!(!temp.path().join(OUTBOX_FILE).exists(), "nothing has changed");
    let mut file = file_in(temp.path());
    file.keep(Duration::ZERO, &outbox(1));
    // Dropped: it is written.
    drop(file);
    assert_eq!(waiting(&loaded(temp.path())), waiting(&outbox(1)));
    file_in(temp.path()).end(&outbox(2));
    assert_eq!(waiting(&loaded(temp.path())), waiting(&outbox(2)));
    assert!(!temp.path().join("outbox.dat.new").exists());
}

#[test]
fn c2_what_was_sent_is_there_after_a_power_cut() {
    let (disk, file) = simulated();
    for n in [1, 2] {
        file().end(&outbox(n));
        disk.crash(Survival::Nothing);
        let loaded = file().load(nowhere).expect("it may be read");
        assert_eq!(waiting(&loaded), waiting(&outbox(n)));
    }
}

#[test]
fn c4_a_read_that_fails_once_costs_no_transaction() {
    let (disk, file) = simulated();
    file().end(&outbox(1));
    let error = DiskError::Device;
    let fault = |counted, lasting| Fault { counted, nth: 1, error, lasting, forgets: false };
    for counted in [Counted::Opens, Counted::Reads] {
        disk.plan(fault(counted, Lasting::Once));
        let loaded = file().load(nowhere).expect("it may be read");
        assert_eq!(waiting(&loaded), waiting(&outbox(1)));
        assert!(disk.has_failed());
    }
    disk.plan(fault(Counted::Reads, Lasting::ItsKind));
    assert!(file().load(nowhere).expect("it is damaged").is_empty());
    assert!(disk.contents(Path::new("/node/outbox.dat.bak")).is_some());
}

#[test]
fn a_damaged_outbox_is_put_aside() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let path = temp.path().join(OUTBOX_FILE);
    file_in(temp.path()).end(&outbox(1));
    let mut bytes = fs::read(&path).expect("the file");
    *bytes.last_mut().expect("bytes") ^= 1;
    let long = vec![0; MAX_OUTBOX_FILE as usize + 1];
    for damaged in [&bytes[..], &bytes[..40], &[], &long] {
        fs::write(&path, damaged).expect("the file");
        assert!(loaded(temp.path()).is_empty());
        assert_eq!(fs::read(temp.path().join("outbox.dat.bak")).expect("it is kept"), damaged);
        assert!(!path.exists());
    }
}

/// As root, who may read everything, a directory in its place is what cannot be read.
#[test]
fn an_outbox_that_may_not_be_read_ends_the_start_and_stays() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let path = temp.path().join(OUTBOX_FILE);
    file_in(temp.path()).end(&outbox(1));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("it is ours");
    if fs::read(&path).is_ok() {
        fs::remove_file(&path).expect("it is ours");
        fs::create_dir(&path).expect("a directory");
    }
    let error = file_in(temp.path()).load(nowhere).expect_err("it may not be read");
    assert_eq!(error.unusable_path(), Some(&*path));
    assert!(path.exists() && !temp.path().join("outbox.dat.bak").exists());
}

/// Waits for what the writer has to do.
fn settle(file: &OutboxFile) {
    while file.saving.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

#[test]
fn a_write_that_fails_is_made_again_later_and_at_the_end() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let in_the_way = temp.path().join("outbox.dat.new");
    let path = temp.path().join(OUTBOX_FILE);
    let outbox = outbox(1);
    let failed = || {
        fs::create_dir(&in_the_way).expect("a temporary directory");
        let mut file = file_in(temp.path());
        file.keep(Duration::ZERO, &outbox);
        settle(&file);
        assert!(!path.exists());
        fs::remove_dir(&in_the_way).expect("it is ours");
        file
    };
    let mut file = failed();
    file.keep(RETRY - Duration::from_nanos(1), &outbox);
    settle(&file);
    assert!(!path.exists(), "it is too early");
    file.keep(RETRY, &outbox);
    settle(&file);
    assert_eq!(waiting(&loaded(temp.path())), waiting(&outbox));
    fs::remove_file(&path).expect("it is ours");
    file.keep(RETRY * 10, &outbox);
    file.end(&outbox);
    assert!(!path.exists(), "it was written");
    failed().end(&outbox);
    assert_eq!(waiting(&loaded(temp.path())), waiting(&outbox));
}
