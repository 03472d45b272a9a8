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

/// Whether the chain stays where it is does not depend on who reads old blocks of it.
#[test]
fn a_chain_is_at_rest_between_no_two_tips_and_while_blocks_are_read() {
    let chains = [1, 2].map(|seed| generated(&ChainPlan::small(seed))[..12].to_vec());
    let executor = InlineExecutor::new(1, Pace::Instant);
    let millisecond = Duration::from_millis(1);
    let time = millisecond..=millisecond;
    let latency = Latency::Drawn { read: time.clone(), write: time.clone(), sync: time };
    let disk = FaultDisk::timed(&executor, latency);
    let clock = Arc::new(executor.clone());
    let mut chain = open(&disk, options(CacheMinima::PRODUCT, clock, CoinWriting::PRODUCT));
    executor.arm();
    for block in chains.iter().flatten() {
        give(&mut chain, block, 0);
        settle_timed(&mut chain, &executor, |_| ());
    }
    let first = chain.tip();
    assert!(is_at_rest(&chain));
    // The last block that came, as good as the first of its height.
    let tree = chain.tree();
    let other = tree.node(tree.at(tree.len() as u32 - 1)).hash;
    assert!(tree.node(first).hash != other);
    chain.prefer_block(&other).expect("it is as good");
    let mut between = 0;
    settle_timed(&mut chain, &executor, |chain| {
        let is_between = chain.tip() != first && chain.tip_point().hash != other;
        assert!(!is_between || !is_at_rest(chain));
        between += u32::from(is_between);
    });
    assert!(between > 10 && chain.tip_point().hash == other, "{between}");
    for height in 1..=4 {
        let id = chain.tree().ancestor(chain.tip(), height).expect("below the tip");
        chain.read_block(id, height.into());
    }
    assert_eq!(chain.poll(NOW).expect("no fault"), Poll::Waiting);
    assert!(is_at_rest(&chain));
    settle_timed(&mut chain, &executor, |_| ());
    executor.disarm();
}
