//! Decides when coins are written although memory is not short, so that a power cut costs little time and a
//! clean shutdown is quick.
//!
//! ```text
//!   coins on disk            sealed: being written      unsealed: in the active memtable
//!   ──────────────┤──────────────────────────────┤────────────────────────────────────┤ applied
//!                  at most half of each bound      at most half of each bound
//! ```
//!
//! Coins may be sealed again before the last seal is committed, while everything that is not on disk stays
//! within half of each bound. So a commit, which takes several syncs, delays nothing.
//!
//! Two costs are bounded; half of each bound is for what is being written, half for what accumulates
//! meanwhile:
//!
//! 1. The time in which a restart would apply the blocks again whose coins are not on disk. It is estimated
//!    for each block when it is applied: the time that applying took, a slow processor's time for reading and
//!    hashing the bytes, and one read for each coin that was below the memtable, taking as long as the reads
//!    of this run or those of a cold SSD, whichever is longer. Scripts do not run in a replay.
//! 2. The time in which a clean shutdown would write the remaining coins, at the measured rate of flushes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::apply::CoinReads;

/// How much may be unwritten, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoinWriting {
    /// What applying the blocks again may take that a power cut takes the coins of, as it is estimated.
    pub replay: Duration,
    /// What writing all unwritten coins may take.
    pub ending: Duration,
    /// Seconds after which a block's coins are written, whatever they would cost (`-flushinterval`).
    pub interval: Option<u64>,
}

impl CoinWriting {
    /// The bounds of the product.
    pub const PRODUCT: Self =
        Self { replay: Duration::from_secs(60), ending: Duration::from_secs(4), interval: None };
}

/// Bytes of a block that a worker reads, hashes and indexes in a second, at least.
const BYTES_PER_SECOND: u64 = 50_000_000;

/// What reading a coin takes, at least: that of an SSD, with nothing in the page cache.
const SHORTEST_READ: Duration = Duration::from_micros(80);

/// What is believed of a read at most. A hard disk that other readers keep busy takes this long; more is a
/// disk that stalls, and says nothing of how long the coins of a replay take.
const LONGEST_READ: Duration = Duration::from_millis(25);

/// Reads that are believed wholly; fewer by their share of these. A block of today spends some thousand
/// coins that are not in memory.
const ENOUGH_READS: u32 = 64;

/// Seals that are not committed, at most.
pub(crate) const MOST_SEALS: usize = 4;

/// What applying a block took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Application {
    /// Time of the connector.
    pub(crate) took: Duration,
    /// Bytes of the block.
    pub(crate) bytes: u64,
    /// Coins that it spent and that were below the memtable.
    pub(crate) below: usize,
}

/// Blocks whose coins are not on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) blocks: u32,
    /// What applying them again is estimated to take.
    pub(crate) time: Duration,
}

impl Backlog {
    fn add(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.time += other.time;
    }
}

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct Writing {
    bounds: CoinWriting,
    workers: u32,
    /// What a read of a coin took in this run.
    read: Duration,
    /// Of each seal that is not committed, oldest first.
    sealed: VecDeque<Backlog>,
    unsealed: Backlog,
    /// When the first block was applied since the last seal, in seconds since 1970.
    since: Option<i64>,
}

impl Writing {
    pub(crate) fn new(bounds: CoinWriting, workers: usize) -> Self {
        let (sealed, unsealed) = (VecDeque::new(), Backlog::default());
        let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        Self { bounds, workers, read: SHORTEST_READ, sealed, unsealed, since: None }
    }

    /// Workers have read coins. What is slower than before is believed at once, what is faster by and by,
    /// and each the less the fewer coins they are.
    pub(crate) fn note_read(&mut self, CoinReads { coins, time }: CoinReads) {
        let Some(read) = time.checked_div(coins as u32) else { return };
        let read = read.clamp(SHORTEST_READ, LONGEST_READ);
        let weight = ENOUGH_READS.min(coins as u32);
        if read > self.read {
            self.read += (read - self.read) * weight / ENOUGH_READS;
        } else {
            self.read -= (self.read - read) * weight / ENOUGH_READS / 4;
        }
    }

    /// A block was applied.
    pub(crate) fn note_applied(&mut self, application: Application, now: i64) {
        let Application { took, bytes, below } = application;
        let reads = self.read * below as u32 / self.workers;
        let time = took + Duration::from_micros(bytes * 1_000_000 / BYTES_PER_SECOND) + reads;
        self.unsealed.add(Backlog { blocks: 1, time });
        self.since.get_or_insert(now);
    }

    pub(crate) fn note_sealed(&mut self) {
        self.sealed.push_back(std::mem::take(&mut self.unsealed));
        self.since = None;
    }

    /// What was sealed last will not be committed alone: its blocks were taken back.
    pub(crate) fn note_given_up(&mut self) {
        self.unsealed.add(self.sealed.pop_back().unwrap_or_default());
    }

    /// The first so many seals are on disk.
    pub(crate) fn note_committed(&mut self, seals: usize) {
        self.sealed.drain(..seals);
    }

    /// Whether the coins may be sealed although those of earlier seals are not committed; `unwritten` are the
    /// bytes of all that no durable run has, of which `rate` are written in a second.
    pub(crate) fn may_seal_ahead(&self, unwritten: usize, rate: u64) -> bool {
        self.sealed.len() < MOST_SEALS
            && self.backlog().time < self.bounds.replay / 2
            && !self.is_half_an_ending(unwritten, rate)
    }

    /// Whether writing so many bytes takes half as long as a clean end may.
    fn is_half_an_ending(&self, bytes: usize, rate: u64) -> bool {
        bytes as u128 * 2_000 >= u128::from(rate) * self.bounds.ending.as_millis()
    }

    /// Whether no block may be applied before the coins are sealed; `unsealed` are their bytes, of which
    /// `rate` are written in a second.
    pub(crate) fn must_seal(&self, unsealed: usize, rate: u64) -> bool {
        self.unsealed.time >= self.bounds.replay / 2 || self.is_half_an_ending(unsealed, rate)
    }

    /// Whether the interval is over. A clock that was set back also ends it.
    pub(crate) fn interval_is_over(&self, now: i64) -> bool {
        let over = |interval| self.since.is_some_and(|since| now.abs_diff(since) >= interval);
        self.bounds.interval.is_some_and(over)
    }

    /// All blocks whose coins are not on disk.
    pub(super) fn backlog(&self) -> Backlog {
        let mut all = self.unsealed;
        self.sealed.iter().for_each(|sealed| all.add(*sealed));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn writing(interval: Option<u64>) -> Writing {
        Writing::new(CoinWriting { interval, ..CoinWriting::PRODUCT }, 2)
    }

    fn reads(coins: usize, time: Duration) -> CoinReads {
        CoinReads { coins, time }
    }

    fn block(took: Duration) -> Application {
        Application { took, bytes: 0, below: 0 }
    }

    #[test]
    fn coins_are_sealed_when_half_of_what_a_replay_may_take_has_gathered() {
        let mut writing = writing(None);
        writing.note_applied(block(30 * SECOND - Duration::from_micros(1)), 0);
        assert!(!writing.must_seal(0, 1));
        writing.note_applied(block(Duration::from_micros(1)), 0);
        assert!(writing.must_seal(0, 1));
        writing.note_sealed();
        assert!(!writing.must_seal(0, 1));
        writing.note_applied(block(29 * SECOND), 0);
        assert_eq!(writing.backlog(), Backlog { blocks: 3, time: 59 * SECOND });
        assert!(!writing.must_seal(0, 1));
        let mut given_up = writing.clone();
        given_up.note_given_up();
        assert!(given_up.must_seal(0, 1), "all of it waits for the next seal");
        writing.note_committed(1);
        assert_eq!(writing.backlog(), Backlog { blocks: 1, time: 29 * SECOND });
    }

    #[test]
    fn coins_are_sealed_ahead_of_a_commit_while_all_at_risk_is_half_of_a_replay() {
        let mut writing = writing(None);
        let short = Duration::from_micros(1);
        writing.note_applied(block(15 * SECOND), 0);
        writing.note_sealed();
        writing.note_applied(block(15 * SECOND - short), 0);
        assert!(writing.may_seal_ahead(0, 1));
        writing.note_applied(block(short), 0);
        assert!(!writing.may_seal_ahead(0, 1));
        writing.note_committed(1);
        assert!(writing.may_seal_ahead(0, 1));
        writing.note_sealed();
        assert!(writing.may_seal_ahead(0, 1));
        writing.note_applied(block(15 * SECOND), 0);
        writing.note_sealed();
        writing.note_given_up();
        assert_eq!(
            writing.unsealed,
            Backlog { blocks: 1, time: 15 * SECOND },
            "the last one alone"
        );
        assert!(!writing.may_seal_ahead(0, 1));
    }

    #[test]
    fn few_seals_wait_for_their_commits() {
        let mut writing = writing(None);
        for _ in 0..MOST_SEALS {
            assert!(writing.may_seal_ahead(0, 1));
            writing.note_applied(block(SECOND), 0);
            writing.note_sealed();
        }
        assert!(!writing.may_seal_ahead(0, 1));
        writing.note_committed(2);
        assert!(writing.may_seal_ahead(0, 1));
        assert_eq!(writing.backlog(), Backlog { blocks: 2, time: 2 * SECOND });
    }

    #[test]
    fn coins_are_sealed_when_half_of_what_an_end_can_write_has_gathered() {
        let writing = writing(None);
        for (unsealed, must) in [(0, false), (199_999_999, false), (200_000_000, true)] {
            assert_eq!(writing.must_seal(unsealed, 100_000_000), must, "{unsealed}");
            assert_eq!(writing.may_seal_ahead(unsealed, 100_000_000), !must, "{unsealed}");
        }
    }

    #[test]
    fn a_replay_is_estimated_before_anything_was_measured_and_by_the_slowest_reads() {
        let mut writing = writing(None);
        let full = Application { took: SECOND / 100, bytes: 2_000_000, below: 3_000 };
        let time_of = |writing: &mut Writing| {
            let before = writing.backlog().time;
            writing.note_applied(full, 0);
            (writing.backlog().time - before).as_millis()
        };
        // 10 of the connector, 40 for the bytes, 80 microseconds for each coin and two workers.
        assert_eq!(time_of(&mut writing), 10 + 40 + 120);
        writing.note_read(reads(0, SECOND));
        writing.note_read(reads(1_000, SECOND / 1_000));
        assert_eq!(time_of(&mut writing), 170, "the page cache is not believed");
        writing.note_read(reads(100, SECOND));
        assert_eq!(time_of(&mut writing), 50 + 15_000, "a hard disk is");
        writing.note_read(reads(100, SHORTEST_READ * 100));
        assert_eq!(time_of(&mut writing), 50 + 11_280, "and not forgotten at once");
        writing.note_read(reads(100, 100 * SECOND));
        assert_eq!(time_of(&mut writing), 50 + 37_500, "no disk is slower for long");
    }

    /// A disk that stalls once, while blocks of the tip are applied: their coins are sealed as often as if
    /// it had not, but for the block at which it did.
    #[test]
    fn a_single_read_that_took_30_seconds_has_no_blocks_sealed() {
        let of_a_flush = |first: CoinReads| {
            let mut writing = writing(None);
            writing.note_read(first);
            (1..).find(|_| {
                writing.note_read(reads(3_500, 3_500 * SHORTEST_READ));
                let took = Duration::from_millis(50);
                writing.note_applied(Application { took, bytes: 1_700_000, below: 3_500 }, 0);
                writing.must_seal(0, 1)
            })
        };
        let usual = of_a_flush(reads(0, Duration::ZERO)).expect("some day");
        let stalled = of_a_flush(reads(1, 30 * SECOND)).expect("some day");
        assert!(stalled + 10 >= usual, "{stalled} blocks, not {usual}");
        // The same for all coins of a block is no stall, and forgotten within some blocks.
        let slow = of_a_flush(reads(3_500, 3_500 * LONGEST_READ)).expect("some day");
        assert!(slow <= 2, "{slow}");
    }

    /// Blocks of the main network at its tip until coins are sealed.
    fn blocks_of_a_flush(read: Duration) -> u32 {
        let mut writing = writing(None);
        writing.note_read(reads(3_500, 3_500 * read));
        while !writing.must_seal(0, 1) {
            let took = Duration::from_millis(50);
            writing.note_applied(Application { took, bytes: 1_700_000, below: 3_500 }, 0);
        }
        writing.backlog().blocks
    }

    /// What that costs is counted in `godwit-store/src/utxo/merge_policy.rs`.
    #[test]
    fn a_node_at_the_tip_writes_coins_once_a_day_and_every_few_blocks_on_a_hard_disk() {
        let [ssd, hard] =
            [80, 8_000].map(|micros| blocks_of_a_flush(Duration::from_micros(micros)));
        assert!((100..200).contains(&ssd), "{ssd}");
        assert!((3..6).contains(&hard), "{hard}");
    }

    #[test]
    fn an_interval_begins_with_the_first_block() {
        let mut writing = writing(Some(2));
        assert!(!writing.interval_is_over(1_000), "there is nothing to write");
        writing.note_applied(block(SECOND), 1_000);
        writing.note_applied(block(SECOND), 1_001);
        for (now, over) in [(1_001, false), (1_002, true), (998, true), (999, false)] {
            assert_eq!(writing.interval_is_over(now), over, "{now}");
        }
        writing.note_sealed();
        assert!(!writing.interval_is_over(2_000));
    }
}
