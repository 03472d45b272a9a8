//! The chain on a disk in memory.

use crossbeam_channel::TrySendError;
use godwit_fault_disk::FaultDisk;
use godwit_primitives::Network;
use godwit_store::exec::{Priority, Threads};

use super::*;

/// After every block of the tests.
const NOW: i64 = 2_000_000_000;

/// An empty regtest chain.
pub(crate) fn chain(disk: &FaultDisk) -> Chain {
    let options = ChainOptions {
        params: Arc::new(Params::new(Network::Regtest)),
        assume_valid: None,
        executor: Arc::new(Threads::default()),
        workers: 1,
        cache_bytes: 4 << 20,
        cache_minima: CacheMinima::PRODUCT,
        stop_at_height: None,
        prune_bytes: None,
        block_memory: BlockMemory::default(),
    };
    let disk = Arc::new(disk.clone());
    Chain::open(disk, "/node".into(), options, [7; 16], NOW).expect("a datadir")
}

/// A header on top of genesis, which has no work.
pub(crate) fn child_of_genesis(chain: &Chain) -> godwit_primitives::BlockHeader {
    let genesis = chain.index.node(chain.index.tree().genesis()).header;
    godwit_primitives::BlockHeader { prev_blockhash: genesis.block_hash(), ..genesis }
}

#[test]
fn a_candidate_that_the_index_knows_no_place_of_is_an_error() {
    let mut chain = chain(&FaultDisk::new());
    let header = child_of_genesis(&chain);
    let hash = header.block_hash();
    // As a damaged index has it: the block was received, and never pruned.
    chain.index.add_candidate_without_block(header);
    let result = chain.settle(NOW);
    assert!(matches!(result, Err(ChainError::DamagedIndex(h)) if h == hash), "{result:?}");
}

/// A fatal error drops the chain; the parts of the window's blocks look at the flag before they start.
#[test]
fn scripts_that_wait_are_cancelled_before_a_dropped_chain_waits_for_them() {
    let chain = chain(&FaultDisk::new());
    let (outbox, desk) = (chain.outbox(), chain.reads.desk());
    // Runs until the chain is being dropped.
    let running = move || {
        loop {
            match outbox.try_send(Message::Panicked) {
                Err(TrySendError::Disconnected(_)) => return None,
                Ok(()) | Err(TrySendError::Full(_)) => std::thread::yield_now(),
            }
        }
    };
    desk.run_part(Priority::Scripts, "running", running);
    let (seen, next_part) = bounded(1);
    desk.run_part(Priority::Scripts, "waiting", move || {
        seen.send(()).expect("the test waits for it");
        None
    });
    drop(desk);
    drop(chain);
    assert!(next_part.recv().is_err(), "it never ran");
}
