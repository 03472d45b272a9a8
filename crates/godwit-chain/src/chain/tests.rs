//! The chain on a disk in memory.

mod coins_at_tip;
mod coins_view;
mod damaged_history;
mod durable;
mod overruled;
mod reads;
mod recheck;
mod rewritten;
mod sealed_windows;
mod second_look;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crossbeam_channel::{TrySendError, bounded};
use godwit_fault_disk::{FaultDisk, InlineExecutor, Latency, Pace, Survival};
use godwit_primitives::BlockHeader;
use godwit_primitives::{Network, Params};
use godwit_sim::chain::generated;
use godwit_sim::plan::ChainPlan;
use godwit_store::StoreError;
use godwit_store::exec::{Executor, Priority, Threads};
use godwit_store::utxo::CacheMinima;
use godwit_stream::{DataStream, SpanReader};

use super::*;
use crate::apply::Resolved;
use crate::contradiction::Contradiction;
use crate::durability::writing::CoinWriting;
use crate::options::{ChainOptions, CoinsMemory};
use crate::verify::VerifyError;
use crate::view::scripts_from;
use crate::waiting::LONGEST_WAIT;
use crate::window;

/// After every block of the tests.
const NOW: i64 = 2_000_000_000;

/// An empty regtest chain.
pub(crate) fn chain(disk: &FaultDisk) -> Chain {
    chain_with(disk, CacheMinima::PRODUCT)
}

/// Flushes after a few blocks.
pub(crate) const SMALL_CACHE: CacheMinima =
    CacheMinima { budget: 192 << 10, active: 80 << 10, io_buffer: 4 << 10, arena_step: 4 << 10 };

pub(crate) fn chain_with(disk: &FaultDisk, cache_minima: CacheMinima) -> Chain {
    chain_on(disk, cache_minima, Arc::new(Threads::default()))
}

fn chain_on(disk: &FaultDisk, cache_minima: CacheMinima, executor: Arc<dyn Executor>) -> Chain {
    chain_writing(disk, cache_minima, executor, CoinWriting::PRODUCT)
}

fn chain_writing(
    disk: &FaultDisk,
    cache_minima: CacheMinima,
    executor: Arc<dyn Executor>,
    coin_writing: CoinWriting,
) -> Chain {
    open(disk, options(cache_minima, executor, coin_writing))
}

fn options(
    cache_minima: CacheMinima,
    executor: Arc<dyn Executor>,
    coin_writing: CoinWriting,
) -> ChainOptions {
    ChainOptions {
        cache_minima,
        coin_writing,
        push_bytes: 64 << 10,
        ..ChainOptions::new(
            Arc::new(Params::new(Network::Regtest)),
            executor,
            1,
            CoinsMemory::Fixed(cache_minima.budget),
        )
    }
}

fn open(disk: &FaultDisk, options: ChainOptions) -> Chain {
    let disk = Arc::new(disk.clone());
    Chain::open(disk, "/node".into(), options, [7; 16], NOW).expect("a datadir")
}

/// Of the small plan. Made once: most of that is signing.
pub(crate) fn blocks() -> Vec<Vec<u8>> {
    static BLOCKS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| generated(&ChainPlan::small(1)));
    BLOCKS.clone()
}

fn header_of(block: &[u8]) -> BlockHeader {
    SpanReader::new(block).get().expect("a block starts with a header")
}

pub(crate) fn give(chain: &mut Chain, block: &[u8], ticket: u64) {
    let header = header_of(block);
    chain.accept_header(&header, header.block_hash(), NOW).expect("a good header");
    chain.receive_block(DataStream::from(block).into(), ticket);
}

/// Polls until `end` says so or the chain fails; the verdicts on the way.
pub(crate) fn poll_until(
    chain: &mut Chain,
    end: impl Fn(&Chain, Poll) -> bool,
) -> (Vec<Verdict>, Result<(), ChainError>) {
    let mut verdicts = Vec::new();
    loop {
        let poll = chain.poll(NOW);
        verdicts.extend(chain.take_events().into_iter().filter_map(|event| match event {
            Event::Judged { verdict, .. } => Some(verdict),
            _ => None,
        }));
        match poll {
            Err(error) => return (verdicts, Err(error)),
            Ok(poll) if end(chain, poll) => return (verdicts, Ok(())),
            Ok(Poll::Progress) => {}
            Ok(Poll::Waiting | Poll::Idle) => {
                chain.wait_with(&crossbeam_channel::never::<()>(), LONGEST_WAIT);
            }
        }
    }
}

/// The first block of a chain, as it is applied, of which `of` makes something.
pub(crate) fn first_applied<T>(of: impl Fn(&Arc<Resolved>) -> Option<T>) -> (Arc<Resolved>, T) {
    let mut chain = chain(&FaultDisk::new());
    for (ticket, block) in (0..).zip(&blocks()) {
        give(&mut chain, block, ticket);
    }
    let found = |chain: &Chain| {
        let (_, resolved) = chain.window.newest()?;
        Some((Arc::clone(resolved), of(resolved)?))
    };
    let (_, result) = poll_until(&mut chain, |chain, _| found(chain).is_some());
    result.expect("a valid chain");
    found(&chain).expect("just seen")
}

/// Lanes and engine do not differ: what is said of a block here is made up.
#[test]
fn a_contradiction_is_kept_in_a_file_and_core_judges_alone_until_it_is_removed() {
    let blocks = blocks();
    let sync = |chain: &mut Chain| {
        for (ticket, block) in (0..).zip(&blocks) {
            give(chain, block, ticket);
        }
        let (_, result) = poll_until(chain, |_, poll| poll == Poll::Idle);
        result.expect("a valid chain");
        assert_eq!(chain.tip_point().height as usize, blocks.len());
        let inputs = chain.status().scripts.inputs;
        (inputs.proven > 0, inputs.unclaimed > 0)
    };
    let disk = FaultDisk::new();
    let mut chain = chain(&disk);
    for (ticket, block) in (0..).zip(&blocks) {
        give(&mut chain, block, ticket);
    }
    let has_inputs = |chain: &Chain, _| {
        let (_, resolved) = chain.window.newest()?;
        (resolved.block().view().tx_count() > 1).then_some(())
    };
    let (_, result) = poll_until(&mut chain, |chain, poll| has_inputs(chain, poll).is_some());
    result.expect("a valid chain");
    let (token, resolved) = chain.window.newest().expect("just seen");
    let contradiction = Box::new(Contradiction::new(resolved, 1, 0));
    let (hash, tip) = (contradiction.block, chain.tip_point());
    // As the worker that found it does.
    contradiction.record(chain.env.store.disk(), chain.env.store.dir());
    let outcome = Err(VerifyError::Contradicted(contradiction));
    let answer = window::Answer::Verified(vec![(token, outcome)]);
    let error = chain.deliver_one(Message::Window(answer)).expect_err("it ends the chain");
    assert!(matches!(&error, ChainError::ScriptContradiction(of) if of.block == hash), "{error}");
    assert!(error.to_string().contains(Contradiction::FILE), "{error}");
    assert_eq!(chain.tip_point(), tip);
    drop(chain);
    // Also after a power cut.
    disk.crash(Survival::Nothing);
    assert!(!sync(&mut self::chain(&disk)).0, "lanes are not asked while the file is there");
    let path = std::path::Path::new("/node").join(Contradiction::FILE);
    let report = disk.contents(&path).expect("it is durable");
    let report = String::from_utf8(report).expect("text");
    assert!(report.contains(&format!("block {hash}")), "{report}");
    let disk = FaultDisk::new();
    assert_eq!(sync(&mut self::chain(&disk)), (true, true));
}

/// A header on top of genesis, which has no work.
fn child_of_genesis(chain: &Chain) -> godwit_primitives::BlockHeader {
    let genesis = chain.index.node(chain.index.tree().genesis()).header;
    godwit_primitives::BlockHeader { prev_blockhash: genesis.block_hash(), ..genesis }
}

#[test]
fn a_candidate_that_the_index_knows_no_place_of_is_set_aside_and_one_to_be_applied_again_an_error()
{
    let mut chain = chain(&FaultDisk::new());
    let header = child_of_genesis(&chain);
    let hash = header.block_hash();
    // As a damaged index has it: the block was received, and never pruned.
    let id = chain.index.add_candidate_without_block(header);
    assert_eq!(chain.index.best(), Some(id));
    chain.settle(NOW).expect("it may come again");
    let genesis = chain.index.tree().genesis();
    assert_eq!((chain.index.tip(), chain.index.best()), (genesis, Some(genesis)));
    assert!(!chain.index.has_block(id), "it is asked for");
    // Its coins are known to be on disk, and nothing else is to be applied.
    chain.goal.set_replay(Some(id));
    chain.connect_known_only();
    let result = chain.settle(NOW);
    assert!(matches!(result, Err(ChainError::DamagedIndex(h)) if h == hash), "{result:?}");
}

/// Whoever reads that all scripts run may rely on it, also when the assumed block lies behind.
#[test]
fn what_was_taken_as_valid_is_told_for_good() {
    const ASSUMED: u32 = 5;
    let from = |assumed: Option<u32>, height: usize| {
        let disk = FaultDisk::new();
        let threads = Arc::new(Threads::default());
        let hash = |height: u32| header_of(&blocks()[height as usize - 1]).block_hash();
        let assume_valid = assumed.map(hash);
        let options = options(CacheMinima::PRODUCT, threads, CoinWriting::PRODUCT);
        let mut chain = open(&disk, ChainOptions { assume_valid, ..options });
        for (ticket, block) in (1..).zip(&blocks()[..height]) {
            give(&mut chain, block, ticket);
        }
        chain.settle(NOW).expect("no fault");
        assert_eq!(chain.tip_point().height as usize, height);
        scripts_from(&chain)
    };
    assert_eq!(from(None, 8), 0);
    assert_eq!(from(Some(ASSUMED), 4), 0, "with so little work above it nothing is assumed");
    assert_eq!(from(Some(ASSUMED), 8), ASSUMED + 1);
}

#[test]
fn a_failed_append_is_a_fault_of_this_node_and_no_verdict_on_a_block() {
    let blocks = blocks();
    for change in 1..12 {
        let disk = FaultDisk::new();
        let mut chain = chain(&disk);
        disk.fail_change(change);
        for (ticket, block) in (0..).zip(&blocks) {
            give(&mut chain, block, ticket);
        }
        let (verdicts, result) = poll_until(&mut chain, |_, poll| poll == Poll::Idle);
        assert!(disk.has_failed(), "change {change}");
        assert!(
            matches!(result, Err(ChainError::Store(StoreError::Io(_) | StoreError::Closed(_)))),
            "change {change}: {result:?}"
        );
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Stored), "change {change}");
        assert!(verdicts.len() < blocks.len(), "change {change}");
        drop(chain);
        disk.crash(Survival::All);
        let mut chain = self::chain(&disk);
        let (_, result) = poll_until(&mut chain, |_, poll| poll == Poll::Idle);
        result.expect("what was written is found again");
        assert!(chain.tree().stored() >= verdicts.len(), "change {change}");
    }
}

#[test]
fn a_block_on_its_way_to_the_disk_counts_and_is_not_stored_yet() {
    let blocks = blocks();
    let mut chain = chain(&FaultDisk::new());
    let room = chain.room();
    for ticket in 0..3 {
        give(&mut chain, &blocks[0], ticket);
    }
    // Nothing is delivered, so nothing that is decoded is accepted.
    let charged = room - chain.room();
    assert!(charged >= 3 * blocks[0].len() as u64);
    let on_its_way = |chain: &Chain, _| !chain.appender.is_idle();
    let (verdicts, _) = poll_until(&mut chain, on_its_way);
    assert_eq!((verdicts, chain.room(), chain.tree().stored()), (vec![], room - charged, 0));
    let (verdicts, result) = poll_until(&mut chain, |_, poll| poll == Poll::Idle);
    result.expect("no fault");
    assert_eq!(verdicts, [Verdict::Stored, Verdict::Duplicate, Verdict::Duplicate]);
    assert_eq!((chain.room(), chain.tree().stored(), chain.tip_point().height), (room, 1, 1));
}

#[test]
fn coins_that_a_flush_let_go_of_are_fetched_again_and_the_chain_is_the_same() {
    let blocks = blocks();
    let tips = [CacheMinima::PRODUCT, SMALL_CACHE].map(|minima| {
        let mut chain = chain_with(&FaultDisk::new(), minima);
        for (ticket, block) in (0..).zip(&blocks) {
            give(&mut chain, block, ticket);
        }
        let (_, result) = poll_until(&mut chain, |_, poll| poll == Poll::Idle);
        result.expect("no fault");
        let (flushes, refetched) = (chain.utxo().counters().flushes, chain.status().refetched);
        (chain.utxo_stats().expect("no fault"), flushes, refetched)
    });
    let [(expected, 0, 0), (stats, flushes, _)] = tips else { panic!("{tips:?}") };
    assert_eq!(stats, expected);
    assert!(flushes >= 5, "{flushes} flushes");
    assert_eq!(expected.tip.height as usize, blocks.len());
}

/// In virtual time: a chain, and a disk of which writes and fsyncs take a second and reads nothing.
fn timed_chain(cache_minima: CacheMinima) -> (Chain, InlineExecutor) {
    let second = Duration::from_secs(1);
    let (chain, _, executor) = timed_disk_and_chain(cache_minima, second, second);
    (chain, executor)
}

/// The same with the disk, of which writes and fsyncs take so long.
fn timed_disk_and_chain(
    cache_minima: CacheMinima,
    write: Duration,
    sync: Duration,
) -> (Chain, FaultDisk, InlineExecutor) {
    let executor = InlineExecutor::new(1, Pace::Instant);
    let (read, write, sync) = (Duration::ZERO..=Duration::ZERO, write..=write, sync..=sync);
    let disk = FaultDisk::timed(&executor, Latency::Drawn { read, write, sync });
    let chain = chain_on(&disk, cache_minima, Arc::new(executor.clone()));
    executor.arm();
    (chain, disk, executor)
}

/// Until nothing is under way; `look` sees the chain after each poll.
fn settle_timed(chain: &mut Chain, executor: &InlineExecutor, mut look: impl FnMut(&Chain)) {
    loop {
        executor.run_until(executor.now());
        let poll = chain.poll(NOW).expect("no fault");
        look(chain);
        match poll {
            Poll::Progress => {}
            Poll::Waiting => {
                // A turn while a job is under way asks for nothing once more.
                chain.poll(NOW).expect("no fault");
                assert!(executor.finish_one(), "nothing runs");
            }
            Poll::Idle => return,
        }
    }
}

/// Disconnecting reads undo records and fills the memtable, and nothing but a flush, which is slow
/// here, empties it.
#[test]
fn a_branch_is_left_only_as_fast_as_its_coins_are_flushed() {
    let one = blocks();
    let longer = ChainPlan { empty_tail: 6, ..ChainPlan::small(2) };
    let two = generated(&longer);
    let (mut chain, executor) = timed_chain(SMALL_CACHE);
    let mut most = 0_u64;
    for block in &one {
        give(&mut chain, block, 0);
        settle_timed(&mut chain, &executor, |_| ());
    }
    let (flushes, tip) = (chain.utxo().counters().flushes, chain.tip_point());
    assert_eq!(tip.height as usize, one.len());
    for block in &two {
        give(&mut chain, block, 0);
        settle_timed(&mut chain, &executor, |chain| {
            most = most.max(chain.coins.memory_used().total() as u64);
        });
    }
    assert_eq!(chain.tip_point().height as usize, two.len());
    let events = chain.take_events();
    let left = events.iter().filter(|event| matches!(event, Event::Disconnected(_))).count();
    let flushes = chain.utxo().counters().flushes - flushes;
    assert!(left == one.len() && flushes >= 5, "{left} left, {flushes} flushes");
    // The budget, and what one block may add to it: the largest has 2,000 outputs.
    assert!(most <= 2 * SMALL_CACHE.budget, "{most} bytes");
    executor.disarm();
}

#[test]
fn a_block_that_waits_for_its_header_to_be_durable_causes_one_commit() {
    let blocks = blocks();
    let (mut chain, executor) = timed_chain(CacheMinima::PRODUCT);
    let header: BlockHeader = SpanReader::new(&blocks[0]).get().expect("a header");
    chain.accept_header(&header, header.block_hash(), NOW).expect("a good header");
    // The header of the first block is not durable.
    give(&mut chain, &blocks[1], 0);
    settle_timed(&mut chain, &executor, |_| ());
    let commits = (executor.ended("commit"), executor.running("commit"));
    assert_eq!((chain.tree().stored(), commits), (1, (1, None)));
    executor.disarm();
}

/// A fatal error drops the chain; the parts of the window's blocks look at the flag before they start.
#[test]
fn scripts_that_wait_are_cancelled_before_a_dropped_chain_waits_for_them() {
    let chain = chain(&FaultDisk::new());
    let (outbox, job_sender) = (chain.mailbox.outbox.clone(), chain.reads.job_sender());
    // Runs until the chain is being dropped.
    let running = move || {
        loop {
            match outbox.try_send(Message::Panicked) {
                Err(TrySendError::Disconnected(_)) => return None,
                Ok(()) | Err(TrySendError::Full(_)) => std::thread::yield_now(),
            }
        }
    };
    job_sender.run_part(Priority::Scripts, "running", running);
    let (seen, next_part) = bounded(1);
    job_sender.run_part(Priority::Scripts, "waiting", move || {
        seen.send(()).expect("the test waits for it");
        None
    });
    drop(job_sender);
    drop(chain);
    assert!(next_part.recv().is_err(), "it never ran");
}
