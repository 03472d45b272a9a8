//! The history below a loaded snapshot, whose coins are damaged.

use std::path::Path;

use godwit_primitives::OutPoint;

use super::sealed_windows::OFTEN;
use super::*;

const DUMP: &str = "/node/coins.dat";

/// Below the blocks that spend: coins of the history are read by merges alone.
const BASE: usize = 100;

/// Has the snapshot of the first blocks loaded.
fn load_snapshot(disk: &FaultDisk, blocks: &[Vec<u8>]) {
    let source = FaultDisk::new();
    let mut chain = chain(&source);
    for (ticket, block) in (0..).zip(blocks) {
        give(&mut chain, block, ticket);
    }
    chain.settle(NOW).expect("no fault");
    let hash = chain.dump_snapshot(Path::new(DUMP)).expect("a new file").hash_serialized;
    let mut chain = self::chain(disk);
    for block in blocks {
        let header: BlockHeader = SpanReader::new(block).get().expect("a header");
        chain.accept_header(&header, header.block_hash(), NOW).expect("a good header");
    }
    disk.overwrite(Path::new(DUMP), source.contents(Path::new(DUMP)).expect("the dump"));
    chain.connect_known_only();
    let go_on = |_| std::ops::ControlFlow::Continue(());
    chain.load_snapshot(Path::new(DUMP), Some(hash), &go_on).expect("a good snapshot");
    chain.close().expect("no fault");
}

/// Beyond parity.
fn rot_coins_of_history(disk: &FaultDisk) {
    for path in disk.paths() {
        if path.parent().is_some_and(|dir| dir.ends_with("utxo-history")) {
            let len = disk.contents(&path).expect("a file").len();
            disk.overwrite(&path, vec![7; len]);
        }
    }
}

/// A chain that validates the history of a snapshot behind these blocks. What reads takes long, as merges and
/// hashing do; everything else takes no time.
fn above_snapshot(blocks: &[Vec<u8>], writing: CoinWriting) -> (InlineExecutor, FaultDisk, Chain) {
    let executor = InlineExecutor::new(1, Pace::Instant);
    let [none, long] = [0, 10].map(Duration::from_secs).map(|took| took..=took);
    let latency = Latency::Drawn { read: long, write: none.clone(), sync: none };
    let disk = FaultDisk::timed(&executor, latency);
    load_snapshot(&disk, blocks);
    let mut options = options(CacheMinima::PRODUCT, Arc::new(executor.clone()), writing);
    options.start.validates_history = true;
    let chain = open(&disk, options);
    executor.arm();
    (executor, disk, chain)
}

/// A merge of the history's coins finds damage while a commit of them is under way, and the commit returns
/// before anything else has looked at the merge.
#[test]
fn c19_damage_that_a_commit_of_the_history_finds_is_no_fault_of_the_chain() {
    let blocks = &blocks()[..BASE];
    let (executor, disk, mut chain) = above_snapshot(blocks, OFTEN);
    let is_committing = |chain: &Chain| {
        chain.durability.is_busy()
            && chain.history.as_ref().is_some_and(|history| history.is_committing())
    };
    let mut blocks = blocks.iter();
    while !(is_committing(&chain) && executor.running("merge").is_some()) {
        let is_progress = chain.poll(NOW).expect("no fault") == Poll::Progress;
        assert!(chain.history.is_some(), "damage is noticed too early");
        if is_progress || executor.run_until(executor.now()) {
            continue;
        }
        // At rest, but for the merge.
        if executor.running("merge").is_some() || !executor.finish_one() {
            rot_coins_of_history(&disk);
            give(&mut chain, blocks.next().expect("a merge before the last"), 0);
        }
    }
    // Both end, and nothing looks at them meanwhile.
    while executor.finish_one() {}
    let history = chain.history.as_ref().expect("nothing has looked at the merge");
    assert!(!history.coins.events().is_empty(), "the merge has reported");
    let messages: Vec<Message> = chain.mailbox.inbox.try_iter().collect();
    assert!(messages.iter().any(|message| matches!(message, Message::Durability(_))));
    for message in messages {
        chain.deliver_one(message).expect("no fault of the chain");
    }
    assert!(chain.history.is_none(), "the chain goes on without");
    executor.disarm();
    chain.settle(NOW).expect("no fault");
    chain.close().expect("no fault");
    let left = disk.paths().into_iter().filter(|path| path.to_string_lossy().contains("history"));
    assert_eq!(left.count(), 0, "the next start begins again");
}

/// The connector does not wait for the job, which looks now and then whether it is still wanted.
#[test]
fn c19_damage_that_is_found_while_the_history_is_hashed_holds_up_no_turn() {
    let blocks = &blocks()[..BASE];
    let (executor, disk, mut chain) = above_snapshot(blocks, CoinWriting::PRODUCT);
    let mut blocks = blocks.iter();
    while executor.running("hash").is_none() {
        let is_progress = chain.poll(NOW).expect("no fault") == Poll::Progress;
        if is_progress || executor.run_until(executor.now()) || executor.running("hash").is_some() {
            continue;
        }
        if !executor.finish_one() {
            give(&mut chain, blocks.next().expect("its end"), 0);
        }
    }
    let merge = ChainError::DamagedCoin(OutPoint::NULL);
    history::failed(&mut chain, merge).expect("no fault of the chain");
    assert!(chain.history.is_none(), "the chain goes on without");
    assert!(executor.running("hash").is_some(), "the connector has waited for the job");
    executor.disarm();
    chain.settle(NOW).expect("no fault");
    chain.close().expect("no fault");
    assert!(executor.running("hash").is_none(), "the commit has waited for it");
    let left = disk.paths().into_iter().filter(|path| path.to_string_lossy().contains("history"));
    assert_eq!(left.count(), 0, "the next start begins again");
}
