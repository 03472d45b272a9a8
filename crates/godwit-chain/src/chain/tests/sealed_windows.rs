//! Memtables that are sealed while blocks wait for their scripts: taking back across a seal, power cuts,
//! ends.

use std::sync::LazyLock;

use godwit_consensus::RejectReason;
use godwit_sim::rng::Rng;
use godwit_store::utxo::{newest_seal, written_seal};

use super::*;
use crate::durability::writing::MOST_SEALS;
use crate::stats::UtxoStats;

/// A seal between any two blocks, as soon as the last one is committed.
pub(super) const OFTEN: CoinWriting = CoinWriting { interval: Some(0), ..CoinWriting::PRODUCT };

/// Blocks, and the coins after each of them, by a chain that seals nothing in between.
pub(super) static CHAIN: LazyLock<(Vec<Vec<u8>>, Vec<UtxoStats>)> = LazyLock::new(|| {
    let blocks = blocks();
    let coins = coins_by_height(&blocks);
    (blocks, coins)
});

pub(super) fn coins_by_height(blocks: &[Vec<u8>]) -> Vec<UtxoStats> {
    let mut chain = chain(&FaultDisk::new());
    let mut stats = vec![chain.utxo_stats().expect("no fault")];
    for block in blocks {
        give(&mut chain, block, 0);
        let (_, result) = poll_until(&mut chain, |_, poll| poll == Poll::Idle);
        result.expect("a valid chain");
        stats.push(chain.utxo_stats().expect("no fault"));
    }
    stats
}

/// A chain whose jobs take time, so that its window is never empty for long.
pub(super) struct Timed {
    pub(super) executor: InlineExecutor,
    disk: FaultDisk,
    pub(super) chain: Chain,
}

impl Timed {
    pub(super) fn new(seed: u64, cache_minima: CacheMinima, writing: CoinWriting) -> Self {
        Self::on(seed, Latency::constant(Duration::from_millis(1)), cache_minima, writing)
    }

    /// On a disk that is as slow as that.
    fn on(seed: u64, latency: Latency, cache_minima: CacheMinima, writing: CoinWriting) -> Self {
        let millis = |millis| Duration::from_millis(millis);
        let executor = InlineExecutor::new(seed, Pace::Timed(millis(1)..=millis(40)));
        let disk = FaultDisk::timed(&executor, latency);
        let shared = Arc::new(executor.clone());
        let chain = chain_writing(&disk, cache_minima, shared, writing);
        executor.arm();
        Self { executor, disk, chain }
    }

    pub(super) fn give_all(&mut self, blocks: &[Vec<u8>]) {
        for (ticket, block) in (0..).zip(blocks) {
            give(&mut self.chain, block, ticket);
        }
    }

    /// One poll, and when nothing can be done, the end of one job. Whether there may be more to do.
    pub(super) fn go_on(&mut self) -> bool {
        let clock = NOW + self.executor.now().as_secs() as i64;
        match self.chain.poll(clock).expect("no fault") {
            Poll::Progress => true,
            Poll::Waiting => {
                assert!(self.executor.finish_one(), "nothing runs");
                true
            }
            Poll::Idle => false,
        }
    }

    /// The scripts of the first block that is being verified fail: made up.
    pub(super) fn fail_scripts(&mut self) {
        let Some(token) = self.chain.window.first_verifying() else { return };
        let reject = Reject::new(RejectReason::BlockScriptVerifyFlagFailed);
        let answer = window::Answer::Verified(vec![(token, Err(VerifyError::Rejected(reject)))]);
        self.chain.deliver_one(Message::Window(answer)).expect("no fault");
    }

    /// The next process on what is left.
    pub(super) fn cut(self, survival: Survival) -> Chain {
        let Self { executor, disk, chain } = self;
        executor.kill();
        executor.disarm();
        disk.crash(survival);
        drop(chain);
        super::chain(&disk)
    }

    /// The next process after a clean end.
    fn end(self) -> Chain {
        let Self { executor, disk, chain } = self;
        executor.disarm();
        chain.close().expect("no fault");
        super::chain(&disk)
    }
}

pub(super) fn settled(mut chain: Chain) -> UtxoStats {
    let (_, result) = poll_until(&mut chain, |_, poll| poll == Poll::Idle);
    result.expect("a valid chain");
    chain.utxo_stats().expect("no fault")
}

/// Whether blocks were taken back across a seal, and whether an earlier seal waited for its commit then, too.
fn take_back(seed: u64, blocks: &[Vec<u8>], expected: &[UtxoStats]) -> (bool, bool) {
    let mut rng = Rng::new(seed);
    let cache = if rng.chance(500) { SMALL_CACHE } else { CacheMinima::PRODUCT };
    let mut timed = Timed::new(seed, cache, OFTEN);
    timed.give_all(blocks);
    let first = rng.below(blocks.len() as u64 - 20) as u32;
    let (mut failed, mut across, mut behind, mut left) = (false, false, false, None);
    let (mut ran_ahead, fails_again) = (false, rng.chance(500));
    while timed.go_on() {
        let applied = timed.chain.index.height(timed.chain.window.applied());
        let waiting = timed.chain.durability.waiting();
        let runs_ahead = waiting.contains(&false);
        if !failed && applied >= first && runs_ahead && rng.chance(300) {
            timed.fail_scripts();
            failed = true;
        }
        timed.chain.take_events();
        let doubted = timed.chain.goal.doubted().is_some();
        if doubted && fails_again {
            timed.fail_scripts();
        }
        if doubted && left.is_none() {
            across = ran_ahead && !runs_ahead;
            behind = across && !waiting.is_empty();
            left = Some(rng.below(200));
        }
        ran_ahead = runs_ahead;
        // It goes on for a while: what was taken back is written, and perhaps committed.
        left = left.map(|left: u64| left.saturating_sub(1));
        if left == Some(0) && rng.chance(500) {
            break;
        }
    }
    let tip = timed.chain.tip_point();
    let stats = match rng.below(3) {
        0 => {
            timed.executor.disarm();
            let stats = timed.chain.utxo_stats().expect("no fault");
            assert!(stats.tip.height >= tip.height);
            stats
        }
        1 => {
            let mut chain = timed.end();
            assert!(chain.goal.replay().is_none(), "nothing is to be replayed");
            chain.connect_known_only();
            let stats = chain.utxo_stats().expect("no fault");
            assert!(stats.tip.height >= tip.height, "{} below {}", stats.tip.height, tip.height);
            stats
        }
        _ => settled(timed.cut(match rng.below(3) {
            0 => Survival::All,
            1 => Survival::Nothing,
            _ => Survival::Part(rng.next_u64()),
        })),
    };
    assert_eq!(stats, expected[stats.tip.height as usize], "seed {seed}");
    (across, behind)
}

#[test]
fn blocks_that_are_taken_back_across_a_seal_leave_the_coins_of_their_parent() {
    let (blocks, expected) = &*CHAIN;
    let seeds = 40;
    let (mut across, mut behind) = (0, 0);
    for seed in 0..seeds {
        let (of_seed, behind_it) = take_back(seed, blocks, expected);
        (across, behind) = (across + u32::from(of_seed), behind + u32::from(behind_it));
    }
    eprintln!("{across} of {seeds} took blocks back across a seal, {behind} with one before it");
    assert!(across > 10 && behind > 3, "{across} {behind}");
}

/// On a disk with fast reads and writes, and syncs that take so many milliseconds: seals wait for them.
fn on_slow_syncs(seed: u64, millis: u64) -> Timed {
    let [none, sync] = [0, millis].map(Duration::from_millis).map(|took| took..=took);
    let latency = Latency::Drawn { read: none.clone(), write: none, sync };
    Timed::on(seed, latency, CacheMinima::PRODUCT, OFTEN)
}

/// Up to four, and each of them when the last one is written; what is committed is one of them, whatever the
/// power leaves of the others.
#[test]
fn a_power_cut_while_several_seals_wait_for_their_commits_leaves_the_coins_of_a_block() {
    let (blocks, expected) = &*CHAIN;
    let (mut several, mut beside_commits, mut in_syncs) = (0, 0, 0);
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut timed = on_slow_syncs(seed, 200);
        timed.give_all(blocks);
        let (mut most, mut left) = (0, rng.between(1, 300));
        let mut newest = newest_seal(&timed.chain.coins);
        while timed.go_on() {
            timed.chain.take_events();
            let waiting = timed.chain.durability.waiting();
            let coins = &timed.chain.coins;
            if newest != newest_seal(coins) {
                assert!(written_seal(coins) >= newest, "sealed before the last one is in a run");
                newest = newest_seal(coins);
            }
            let first_ahead = waiting.iter().position(|connected| !connected);
            let behind = first_ahead.map_or(&[][..], |first| &waiting[first..]);
            assert!(!behind.contains(&true), "{waiting:?}");
            assert!(waiting.len() <= MOST_SEALS, "{waiting:?}");
            let status = timed.chain.status();
            let durable = status.coins_durable.height;
            assert!(durable <= status.tip.height, "coins of a block that is not connected");
            let at_risk = timed.chain.index.height(timed.chain.window.applied()) - durable;
            assert!(at_risk.abs_diff(status.unwritten_blocks) <= 1, "{at_risk}: {status:?}");
            most = most.max(waiting.len());
            left -= u64::from(waiting.len() > 1);
            if left == 0 {
                break;
            }
        }
        several += usize::from(most > 1);
        beside_commits += usize::from(timed.executor.running("commit").is_some());
        in_syncs += usize::from(timed.executor.running("sync").is_some());
        let durable = timed.chain.status().coins_durable.height;
        let chain = timed.cut(match rng.below(3) {
            0 => Survival::All,
            1 => Survival::Nothing,
            _ => Survival::Part(rng.next_u64()),
        });
        let coins = chain.status().coins_durable.height;
        assert!(coins >= durable, "{coins} after {durable}");
        let stats = settled(chain);
        assert_eq!(stats, expected[stats.tip.height as usize], "seed {seed}");
    }
    eprintln!("{several} with several seals, {beside_commits} beside commits, {in_syncs} in syncs");
    assert!(several > 15 && beside_commits > 3 && in_syncs > 3);
}

/// Nothing but coins is to be committed: where blocks arrive out of order, their headers are.
#[test]
fn coins_that_are_written_rest_until_a_commit_names_several_seals() {
    let (blocks, expected) = &*CHAIN;
    let mut timed = on_slow_syncs(5, 10);
    for (ticket, block) in (0..).zip(blocks) {
        give(&mut timed.chain, block, ticket);
        while timed.go_on() {}
        timed.chain.take_events();
    }
    let [flushes, syncs, commits] =
        ["flush", "sync", "commit"].map(|job| timed.executor.ended(job));
    eprintln!("{flushes} flushes, {syncs} syncs, {commits} commits");
    assert!(flushes > 20 && syncs + 1 >= flushes && commits * 2 < flushes, "{commits} commits");
    let stats = settled(timed.cut(Survival::Nothing));
    assert_eq!(stats, expected[stats.tip.height as usize]);
}

/// The coins of the first seal are committed, while those of the second, whose block is refused, are not: no
/// commit of what was taken back, and nothing of it in what is committed.
#[test]
fn a_seal_is_committed_although_a_later_one_is_given_up() {
    let (blocks, expected) = &*CHAIN;
    let mut committed = 0;
    for seed in 0..20 {
        let mut timed = on_slow_syncs(seed, 200);
        timed.give_all(blocks);
        let is_both = |timed: &Timed| {
            let waiting = timed.chain.durability.waiting();
            waiting.contains(&true) && waiting.contains(&false)
        };
        while !is_both(&timed) && timed.go_on() {}
        assert!(is_both(&timed), "seed {seed}");
        timed.fail_scripts();
        let before = timed.chain.status().coins_durable.height;
        let tip = timed.chain.tip_point().height;
        // Until that seal is committed, which is taken back no more.
        let (mut durable, mut given_up, mut doubted) = (before, false, false);
        let commits = |timed: &Timed| {
            (timed.executor.ended("commit"), timed.executor.running("commit").is_some())
        };
        while durable == before {
            let (waited, committed) = (timed.chain.durability.waiting(), commits(&timed));
            assert!(timed.go_on(), "seed {seed}");
            durable = timed.chain.status().coins_durable.height;
            let waiting = timed.chain.durability.waiting();
            doubted |= timed.chain.goal.doubted().is_some();
            let are_gone = waited.contains(&false) && !waiting.contains(&false);
            if are_gone && commits(&timed) == committed {
                let connected: Vec<bool> =
                    waited.into_iter().filter(|connected| *connected).collect();
                assert!(waiting.starts_with(&connected), "{waiting:?} of {connected:?}");
                given_up |= !connected.is_empty();
            }
        }
        committed += u32::from(given_up && doubted && durable > before && durable <= tip);
        let chain = timed.cut(Survival::Nothing);
        assert_eq!(chain.status().coins_durable.height, durable, "seed {seed}");
        let stats = settled(chain);
        assert_eq!(stats, expected[stats.tip.height as usize], "seed {seed}");
    }
    eprintln!("{committed} committed while a later seal was given up");
    assert!(committed > 3, "{committed}");
}

/// Together as long as the runs are small, block by block above that; either way the coins are the same.
#[test]
fn coins_of_blocks_that_wait_are_fetched_together_while_the_runs_are_small() {
    let (blocks, expected) = &*CHAIN;
    let (mut fetches, mut bytes) = ([0, 0], 0);
    let mut timed = Timed::new(3, CacheMinima::PRODUCT, OFTEN);
    timed.give_all(blocks);
    while timed.go_on() {
        timed.chain.take_events();
        bytes = timed.chain.coins.layers().bytes();
        let is_small = bytes <= crate::lookahead::GATHER_BELOW;
        fetches[usize::from(!is_small)] = timed.executor.ended("prefetch");
    }
    let height = timed.chain.tip_point().height;
    timed.executor.disarm();
    assert_eq!(settled(timed.chain), expected[height as usize]);
    let [small, all] = fetches;
    eprintln!(
        "{small} fetches from small runs, {} from larger ones, of {bytes} bytes",
        all - small
    );
    assert!(height as usize == blocks.len() && small > 2 && all - small > 5, "{fetches:?}");
    assert!(all < u64::from(height) / 2, "{all} fetches for {height} blocks");
}

#[test]
fn a_clean_end_at_any_moment_leaves_nothing_to_replay() {
    let (blocks, expected) = &*CHAIN;
    let mut in_the_window = 0;
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let writing = if rng.chance(500) { OFTEN } else { CoinWriting::PRODUCT };
        let mut timed = Timed::new(seed, CacheMinima::PRODUCT, writing);
        timed.give_all(blocks);
        let end = rng.below(3_000);
        for _ in 0..end {
            timed.go_on();
        }
        in_the_window += u64::from(!timed.chain.window.is_empty());
        let tip = timed.chain.tip_point();
        let chain = timed.end();
        let status = chain.status();
        assert!(status.coins_durable.height >= tip.height, "{status:?}, not {tip:?}");
        assert_eq!(status.coins_durable, status.verified_durable);
        assert_eq!((chain.goal.replay(), chain.tip_point()), (None, status.coins_durable));
        let stats = settled(chain);
        assert_eq!(stats, expected[stats.tip.height as usize], "seed {seed}");
    }
    assert!(in_the_window > 5, "{in_the_window} with blocks in the window");
}

#[test]
fn what_a_power_cut_would_have_applied_again_stays_within_its_bound() {
    let (blocks, expected) = &*CHAIN;
    let replay = Duration::from_millis(4);
    let mut flushes = 0;
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let writing = CoinWriting { replay, ..CoinWriting::PRODUCT };
        let mut timed = Timed::new(seed, CacheMinima::PRODUCT, writing);
        timed.give_all(blocks);
        let cut = rng.between(2_000, 8_000);
        let (mut most, mut last): (Duration, Duration) = Default::default();
        let (mut largest, mut all): (Duration, Duration) = Default::default();
        let mut steps = 0;
        while steps < cut && timed.go_on() {
            steps += 1;
            let status = timed.chain.status();
            let more = status.replay.saturating_sub(last);
            (largest, all) = (more.max(largest), all + more);
            (most, last) = (status.replay.max(most), status.replay);
            let applied = timed.chain.index.height(timed.chain.window.applied());
            assert!(status.coins_durable.height + status.unwritten_blocks + 1 >= applied);
        }
        // The last block of each half may exceed it.
        eprintln!("{most:?} of {all:?} at most, {largest:?} for one block");
        assert!(most <= replay + 2 * largest, "{most:?} with {largest:?} for one block");
        let unwritten = timed.chain.status().unwritten_blocks;
        flushes += timed.executor.ended("flush");
        let chain = timed.cut(Survival::Nothing);
        let again = chain
            .goal
            .replay()
            .map_or(0, |last| chain.index.height(last) - chain.tip_point().height);
        assert!(again <= unwritten, "{again} blocks are replayed, {unwritten} were at risk");
        let stats = settled(chain);
        assert_eq!(stats, expected[stats.tip.height as usize], "seed {seed}");
    }
    assert!(flushes >= 20, "{flushes} flushes");
}
