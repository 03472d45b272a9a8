//! What is durable when, in virtual time.

use std::path::{Path, PathBuf};

use godwit_consensus::check_proof_of_work;
use godwit_store::utxo::replaced_bytes;

use super::sealed_windows::{CHAIN, OFTEN, settled};
use super::*;
use crate::durability::due::{COMMIT_ENTRIES, REPLACED_BYTES};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Lets the chain run for so long; its clock goes on with that of its disk. `look` sees it after each turn.
fn run_for(
    chain: &mut Chain,
    executor: &InlineExecutor,
    time: Duration,
    mut look: impl FnMut(&Chain, Duration),
) {
    let end = executor.now() + time;
    while executor.now() < end {
        let next = (executor.now() + Duration::from_millis(100)).min(end);
        executor.run_until(next);
        let clock = NOW + executor.now().as_secs() as i64;
        while chain.poll(clock).expect("no fault") == Poll::Progress {
            executor.run_until(next);
        }
        look(chain, executor.now());
    }
}

/// After a power cut that leaves nothing but what was synced.
fn cut(chain: Chain, disk: &FaultDisk, executor: &InlineExecutor) -> Chain {
    executor.kill();
    executor.disarm();
    disk.crash(Survival::Nothing);
    drop(chain);
    let mut chain = self::chain(disk);
    chain.finish_recovery().expect("no fault");
    chain
}

/// On a fast disk a chain that knows the headers of these blocks.
fn chain_of_headers(blocks: &[Vec<u8>]) -> (Chain, FaultDisk, InlineExecutor) {
    let (mut chain, disk, executor) =
        timed_disk_and_chain(CacheMinima::PRODUCT, MILLISECOND, MILLISECOND);
    for block in blocks {
        let header: BlockHeader =
            SpanReader::new(block).get().expect("a block starts with a header");
        chain.accept_header(&header, header.block_hash(), NOW).expect("a good header");
    }
    (chain, disk, executor)
}

#[test]
fn headers_are_durable_within_a_minute_although_no_block_arrives() {
    let blocks = blocks();
    let (mut chain, disk, executor) = chain_of_headers(&blocks);
    run_for(&mut chain, &executor, Duration::from_secs(60), |_, _| ());
    assert_eq!(executor.ended("commit"), 1, "and nothing is committed again");
    let chain = cut(chain, &disk, &executor);
    assert_eq!(chain.tree().len(), blocks.len() + 1);
}

/// A commit holds a record for each changed entry, and headers come by tens of thousands a second.
#[test]
fn headers_are_committed_at_once_when_they_are_many() {
    let (mut chain, _, executor) =
        timed_disk_and_chain(CacheMinima::PRODUCT, MILLISECOND, MILLISECOND);
    let first: BlockHeader = SpanReader::new(&blocks()[0]).get().expect("a header");
    let mut header = first;
    for n in 1..=COMMIT_ENTRIES {
        let hash = header.block_hash();
        chain.accept_header(&header, hash, NOW).expect("a good header");
        while chain.poll(NOW).expect("no fault") == Poll::Progress {}
        assert_eq!(chain.durability.is_busy(), n == COMMIT_ENTRIES, "{n}");
        header = BlockHeader { prev_blockhash: hash, time: header.time + 1, ..first };
        // Every second nonce is good.
        while !check_proof_of_work(&header.block_hash(), header.bits, chain.params()) {
            header.nonce += 1;
        }
    }
    run_for(&mut chain, &executor, Duration::from_secs(60), |_, _| ());
    assert_eq!(executor.ended("commit"), 1);
    executor.disarm();
}

#[test]
fn blocks_are_durable_within_a_minute_although_none_can_be_connected() {
    let blocks = blocks();
    let (mut chain, disk, executor) = chain_of_headers(&blocks);
    run_for(&mut chain, &executor, Duration::from_secs(30), |_, _| ());
    for (ticket, block) in (1..).zip(&blocks[1..]) {
        chain.receive_block(DataStream::from(&block[..]).into(), ticket);
    }
    run_for(&mut chain, &executor, Duration::from_secs(60), |_, _| ());
    assert_eq!(chain.tip_point().height, 0);
    let chain = cut(chain, &disk, &executor);
    assert_eq!(chain.tree().stored(), blocks.len() - 1);
}

#[test]
fn what_arrived_or_was_verified_a_minute_before_a_power_cut_is_there_after_it() {
    let blocks = blocks();
    for (write, sync) in [(1, 10), (10, 1_000), (1, 4_000)] {
        let time = |millis| Duration::from_millis(millis);
        let (mut chain, disk, executor) =
            timed_disk_and_chain(CacheMinima::PRODUCT, time(write), time(sync));
        let mut verified = vec![(Duration::ZERO, 0)];
        for (ticket, block) in (0..).zip(&blocks) {
            give(&mut chain, block, ticket);
            run_for(&mut chain, &executor, Duration::from_secs(2), |chain, now| {
                let height = chain.tip_point().height;
                if verified.last().is_some_and(|(_, last)| *last < height) {
                    verified.push((now, height));
                }
            });
        }
        let cut_at = executor.now();
        let bound = Duration::from_secs(crate::durability::pace::MOST_SECONDS_AT_RISK);
        let old = verified.iter().rfind(|(at, _)| cut_at - *at >= bound).expect("minutes passed");
        let (commits, last) = (executor.ended("commit"), chain.tip_point().height);
        assert!(commits > 3 && old.1 < last, "{commits} commits, {old:?} of {last}");
        let chain = cut(chain, &disk, &executor);
        let durable = chain.status().verified_durable.height;
        eprintln!("sync of {sync} ms: {durable} of {last}, at least {}; {commits} commits", old.1);
        assert!(durable >= old.1, "verified up to {durable} after the cut, {old:?} before");
        assert!(chain.tree().stored() >= old.1 as usize);
    }
}

#[test]
fn no_block_is_accepted_while_a_slow_commit_is_under_way() {
    let blocks = blocks();
    let sync = Duration::from_secs(10);
    let (mut chain, _, executor) = timed_disk_and_chain(CacheMinima::PRODUCT, MILLISECOND, sync);
    let (mut closed, mut open, mut stored) = (0, 0, 0);
    for (ticket, block) in (0..).zip(&blocks) {
        give(&mut chain, block, ticket);
        run_for(&mut chain, &executor, Duration::from_secs(7), |chain, now| {
            let commit = executor.running("commit");
            let slow = commit.is_some_and(|commit| now > commit.start + Duration::from_secs(22));
            assert!(!slow || chain.room() == 0, "{now:?}");
            assert!(chain.room() > 0 || executor.running("commit").is_some(), "{now:?}");
            *(if slow { &mut closed } else { &mut open }) += 1;
            let grown = chain.status().written.appended > stored;
            // What was accepted before is still being written for a while.
            assert!(!(slow && grown && chain.appender.is_idle()) || closed < 3, "{now:?}");
            stored = chain.status().written.appended;
        });
    }
    assert!(closed > 10 && open > 10, "{closed} closed, {open} open");
    settle_timed(&mut chain, &executor, |_| ());
    assert_eq!(chain.tip_point().height as usize, blocks.len());
    executor.disarm();
}

/// Asking for a commit in every turn would take a processor for as long as the fsyncs last.
#[test]
fn a_block_that_waits_for_its_header_waits_while_bytes_are_pushed_out() {
    let blocks = blocks();
    let sync = Duration::from_secs(10);
    let (mut chain, _, executor) = timed_disk_and_chain(CacheMinima::PRODUCT, MILLISECOND, sync);
    let mut rest = blocks.iter();
    while executor.running("push out").is_none() {
        give(&mut chain, rest.next().expect("they are many bytes"), 0);
        run_for(&mut chain, &executor, Duration::from_millis(100), |_, _| ());
    }
    assert_eq!(executor.ended("commit"), 0);
    let given = blocks.len() - rest.len();
    let [missing, next] = [rest.next(), rest.next()].map(|block| block.expect("there are more"));
    let header: BlockHeader = SpanReader::new(missing).get().expect("a header");
    chain.accept_header(&header, header.block_hash(), NOW).expect("a good header");
    give(&mut chain, next, 0);
    let rests = (0..100).any(|_| {
        executor.run_until(executor.now());
        chain.poll(NOW).expect("no fault") != Poll::Progress
    });
    assert!(rests, "it spins");
    assert!(executor.running("push out").is_some());
    settle_timed(&mut chain, &executor, |_| ());
    assert_eq!((chain.tree().stored(), executor.ended("commit")), (given + 1, 1));
    executor.disarm();
}

#[test]
fn bytes_are_pushed_out_between_commits() {
    let blocks = blocks();
    let (mut chain, disk, executor) =
        timed_disk_and_chain(CacheMinima::PRODUCT, MILLISECOND, MILLISECOND);
    give(&mut chain, &blocks[0], 0);
    run_for(&mut chain, &executor, Duration::from_secs(30), |_, _| ());
    let commits = executor.ended("commit");
    for (ticket, block) in (1..).zip(&blocks[1..]) {
        give(&mut chain, block, ticket);
        run_for(&mut chain, &executor, Duration::from_millis(40), |_, _| ());
    }
    assert!(executor.now() < Duration::from_secs(45), "before the next commit");
    let (pushed, written) = (executor.ended("push out"), chain.status().bytes_at_risk);
    assert_eq!((executor.ended("commit"), pushed > 1), (commits, true), "{pushed} of {written}");
    let chain = cut(chain, &disk, &executor);
    // Of bytes that nothing had pushed out none would be left.
    let file =
        disk.contents(std::path::Path::new("/node/blocks/blk00000.dat")).expect("it is named");
    assert!(file.len() as u64 > written / 2, "{} of {written}", file.len());
    assert!(chain.tree().stored() > blocks.len() / 4, "{} blocks", chain.tree().stored());
}

/// As at the tip, where the next coins are committed a day later.
#[test]
fn files_of_merged_runs_go_although_no_newer_coins_are_committed() {
    let (blocks, expected) = &*CHAIN;
    let executor = InlineExecutor::new(1, Pace::Instant);
    let disk = FaultDisk::timed(&executor, Latency::constant(MILLISECOND));
    let shared = Arc::new(executor.clone());
    let mut chain = chain_writing(&disk, CacheMinima::PRODUCT, shared, OFTEN);
    executor.arm();
    let (mut most, minute) = (0, Duration::from_secs(60));
    // Until a block is the last one before runs are replaced.
    for (ticket, block) in (0..).zip(blocks) {
        give(&mut chain, block, ticket);
        run_for(&mut chain, &executor, minute, |chain, _| {
            most = most.max(replaced_bytes(&chain.coins));
        });
        if most > REPLACED_BYTES {
            break;
        }
    }
    let left = replaced_bytes(&chain.coins);
    eprintln!("{most} bytes were replaced, and {left} are left");
    assert!(most > REPLACED_BYTES && left <= REPLACED_BYTES, "{left} of {most} bytes");
    let commits = executor.ended("commit");
    run_for(&mut chain, &executor, minute, |_, _| ());
    assert_eq!(executor.ended("commit"), commits, "it is not worth another commit");
    // Any commit has these go, too.
    chain.durability.want_commit();
    run_for(&mut chain, &executor, minute, |_, _| ());
    assert_eq!(executor.ended("commit"), commits + 1);
    let is_run = |path: &PathBuf| path.parent() == Some(Path::new("/node/utxo"));
    let (files, runs) =
        (disk.paths().iter().filter(|path| is_run(path)).count(), chain.coins.shape().runs);
    assert_eq!((replaced_bytes(&chain.coins), files), (0, 2 * runs), "runs, and their parity");
    let tip = chain.tip_point();
    let chain = cut(chain, &disk, &executor);
    assert_eq!(chain.status().coins_durable, tip);
    assert_eq!(settled(chain), expected[tip.height as usize]);
}
