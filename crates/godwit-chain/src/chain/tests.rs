use std::sync::atomic::Ordering;
use std::thread;

use crossbeam_channel::TrySendError;
use godwit_fault_disk::FaultDisk;
use godwit_primitives::Network;
use godwit_store::disk::Disk;
use godwit_store::exec::Threads;

use super::*;

fn options() -> ChainOptions {
    ChainOptions {
        params: Arc::new(Params::new(Network::Regtest)),
        assume_valid: None,
        executor: Arc::new(Threads::default()),
        workers: 1,
        cache_bytes: 4 << 20,
        cache_minima: CacheMinima::PRODUCT,
        stop_at_height: None,
        prune_bytes: None,
        block_memory: BlockMemory::default(),
        clock: || 2_000_000_000,
    }
}

/// A fatal error drops the chain; the parts of the window's blocks look at the flag before they start.
#[test]
fn scripts_that_wait_are_cancelled_before_a_dropped_chain_waits_for_them() {
    let disk: Arc<dyn Disk> = Arc::new(FaultDisk::new());
    let chain = Chain::open(disk, "/data".into(), options(), [7; 16]).expect("it opens");
    let (outbox, cancelled) = (chain.outbox.clone(), Arc::clone(&chain.cancelled));
    // Runs until the chain is being dropped.
    let running = move || {
        loop {
            match outbox.try_send(Message::Panicked) {
                Err(TrySendError::Disconnected(_)) => return,
                Ok(()) | Err(TrySendError::Full(_)) => thread::yield_now(),
            }
        }
    };
    chain.workers.run(Priority::Scripts, "running", running, |_| {});
    let (seen, next_part) = bounded(1);
    let waiting = move || {
        seen.send(cancelled.load(Ordering::Relaxed)).expect("the test waits for it");
    };
    chain.workers.run(Priority::Scripts, "waiting", waiting, |_| {});
    drop(chain);
    assert_eq!(next_part.recv(), Ok(true));
}
