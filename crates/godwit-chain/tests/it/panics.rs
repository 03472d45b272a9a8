//! A thread that panics is an error of the chain, and nobody waits for what it was to do.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use godwit_chain::{Chain, ChainError, ChainOptions, CoinsMemory, Event, import, plan};
use godwit_fault_disk::PanickingDisk;
use godwit_primitives::network::{Network, Params};
use godwit_store::StoreError;
use godwit_store::disk::RealDisk;
use godwit_store::scan::BlockFileScanner;

use crate::datadir::{Watch, clock, options, small_chain};

/// A file of the small chain.
fn chain_file(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("chain.dat");
    let mut records = Vec::new();
    for block in small_chain() {
        godwit_sim::miner::write_record(&mut records, &block).expect("memory takes it");
    }
    std::fs::write(&path, records).expect("a temporary file");
    path
}

fn small_cache() -> ChainOptions {
    ChainOptions {
        coins_memory: CoinsMemory::Fixed(4 << 20),
        ..options(Params::new(Network::Regtest))
    }
}

fn import_all(chain: &mut Chain, file: &Path) -> Result<(), ChainError> {
    let scanner = BlockFileScanner::open(chain.disk(), file, chain.params().magic)?;
    let mut watch = Watch { bad: Vec::new(), on_event: |_: &Chain, _: Event| {} };
    let stop = Arc::new(AtomicBool::new(false));
    let plan = plan(chain, vec![scanner], &mut watch, &stop)?;
    import(chain, plan, &mut watch, &stop)?;
    chain.flush()
}

/// How an import ends in which a thread panics, and the chain's close behind it.
fn panicking(thread: &'static str) -> (ChainError, Result<(), ChainError>) {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let (file, dir) = (chain_file(temp.path()), temp.path().join("data"));
    let disk = PanickingDisk::new(Arc::new(RealDisk), thread);
    let open = |options| {
        Chain::open(Arc::new(disk.clone()), dir.clone(), options, [7; 16], clock())
            .expect("it opens")
    };
    if thread == "godwit-worker" {
        // Coins on disk, which the workers fetch.
        let mut chain = open(ChainOptions { stop_at_height: Some(130), ..small_cache() });
        import_all(&mut chain, &file).expect("the disk is not armed");
        chain.close().expect("the disk is not armed");
    }
    let mut chain = open(small_cache());
    disk.arm();
    let ended = import_all(&mut chain, &file).expect_err("a thread panics");
    (ended, chain.close())
}

#[test]
fn a_panic_of_the_commit_thread_the_reader_or_a_worker_ends_an_import() {
    for thread in ["godwit-commit", "godwit-reader", "godwit-worker"] {
        let (ended, closed) = panicking(thread);
        assert!(matches!(ended, ChainError::ThreadPanicked), "{thread}: {ended:?}");
        assert!(matches!(closed, Err(ChainError::ThreadPanicked)), "{thread}: {closed:?}");
    }
}

#[test]
fn a_panic_of_a_flush_ends_an_import() {
    let (ended, _) = panicking("utxo-flush");
    assert!(
        matches!(ended, ChainError::Store(StoreError::Panicked { thread: "utxo-flush" })),
        "{ended:?}"
    );
}

#[test]
fn a_panic_in_a_scan_of_the_coins_is_an_error() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let file = chain_file(temp.path());
    let disk = PanickingDisk::new(Arc::new(RealDisk), "godwit-stats");
    let dir = temp.path().join("data");
    let mut chain =
        Chain::open(Arc::new(disk.clone()), dir, small_cache(), [7; 16], clock()).expect("opens");
    import_all(&mut chain, &file).expect("the disk is not armed");
    chain.utxo_stats().expect("the disk is not armed");
    disk.arm();
    assert!(matches!(chain.utxo_stats(), Err(ChainError::ThreadPanicked)));
}
