use std::sync::atomic::Ordering;
use std::thread;

use crossbeam_channel::TrySendError;
use godwit_fault_disk::FaultDisk;
use godwit_primitives::Network;
use godwit_store::disk::Disk;

use super::*;
use crate::workers::Urgency;

fn options() -> ChainOptions {
    ChainOptions {
        params: Arc::new(Params::new(Network::Regtest)),
        assume_valid: None,
        workers: 1,
        cache_bytes: 4 << 20,
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
    chain.workers.run(Urgency::Scripts, move || {
        loop {
            match outbox.try_send(Message::Panicked) {
                Err(TrySendError::Disconnected(_)) => return,
                Ok(()) | Err(TrySendError::Full(_)) => thread::yield_now(),
            }
        }
    });
    let (seen, next_part) = bounded(1);
    chain.workers.run(Urgency::Scripts, move || {
        seen.send(cancelled.load(Ordering::Relaxed)).expect("the test waits for it");
    });
    drop(chain);
    assert_eq!(next_part.recv(), Ok(true));
}
