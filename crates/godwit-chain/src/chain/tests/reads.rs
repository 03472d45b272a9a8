//! Blocks that are read for peers.

use super::*;

/// Decoding needs no disk, but a worker.
#[test]
fn a_new_tip_does_not_wait_for_reads_of_30_seconds_for_peers() {
    let blocks = blocks();
    let executor = InlineExecutor::new(1, Pace::Instant);
    let (nothing, slow) = (Duration::ZERO, Duration::from_secs(30));
    let latency =
        Latency::Drawn { read: slow..=slow, write: nothing..=nothing, sync: nothing..=nothing };
    let disk = FaultDisk::timed(&executor, latency);
    let clock = Arc::new(executor.clone());
    let options = options(CacheMinima::PRODUCT, clock, CoinWriting::PRODUCT);
    let mut chain = open(&disk, ChainOptions { workers: 2, ..options });
    executor.arm();
    let (tip, older) = blocks.split_last().expect("a chain");
    for block in older {
        give(&mut chain, block, 0);
        settle_timed(&mut chain, &executor, |_| ());
    }
    chain.take_events();
    for height in 1..=4 {
        let id = chain.tree().ancestor(chain.tip(), height).expect("below the tip");
        chain.read_block(id, height.into());
    }
    let began = executor.now();
    give(&mut chain, tip, 0);
    while chain.tip_point().height as usize != blocks.len() {
        executor.run_until(began);
        let poll = chain.poll(NOW).expect("no fault");
        assert!(poll == Poll::Progress || executor.run_until(began), "the tip waits for a read");
    }
    // The peers get theirs, one after the other.
    settle_timed(&mut chain, &executor, |_| ());
    let served = |event: &Event| matches!(event, Event::Read { bytes: Some(_), .. });
    assert_eq!(chain.take_events().iter().filter(|event| served(event)).count(), 4);
    executor.disarm();
}
