//! The remaining work of a sync, by kind.

use super::estimate::{Sample, Work};

/// What is known about blocks before they arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// The main network's history.
    Main,
    /// Nothing: the next blocks are taken to be like those that came last.
    LikeTheLast,
    /// The bytes of all blocks: known for files.
    Bytes(u64),
}

/// Where a sync is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// Height of the tip at the start of the run.
    pub first: u32,
    pub tip: u32,
    pub best: u32,
    /// From this height on scripts run.
    pub scripts_from: u32,
}

/// Megabytes of main's blocks up to heights. Rounded: sizes that come are compared with these, and
/// correct the rest. The last two are those of `docs/scale.md`.
const MAIN: [(u32, f64); 18] = [
    (0, 0.0),
    (100_000, 60.0),
    (150_000, 600.0),
    (200_000, 3_000.0),
    (250_000, 9_500.0),
    (300_000, 18_000.0),
    (350_000, 32_000.0),
    (400_000, 60_000.0),
    (450_000, 100_000.0),
    (500_000, 150_000.0),
    (550_000, 192_000.0),
    (600_000, 245_000.0),
    (650_000, 305_000.0),
    (700_000, 362_000.0),
    (750_000, 426_000.0),
    (800_000, 500_000.0),
    (906_937, 672_000.0),
    (960_000, 760_000.0),
];

/// Main's coins spent and created, and inputs alone, for each byte (`docs/scale.md`).
const COINS_A_BYTE: f64 = 8.9e-3;
const INPUTS_A_BYTE: f64 = 4.3e-3;

/// Bytes of main's received blocks that count as much as the table in predicting the next ones.
const AS_TELLING: f64 = 20e9;

/// Bytes of main's blocks from genesis up to a height.
fn main_bytes(height: u32) -> f64 {
    let after = MAIN.partition_point(|(known, _)| *known <= height).clamp(1, MAIN.len() - 1);
    let ((from, low), (to, high)) = (MAIN[after - 1], MAIN[after]);
    let share = (f64::from(height) - f64::from(from)) / f64::from(to - from);
    (low + (high - low) * share) * 1e6
}

/// Averages of received blocks, from which the next ones are predicted.
struct Measured {
    /// Of the last half of the blocks, or of those of the last half of the time if these are larger: a few
    /// large ones behind many small ones are most of the work.
    bytes_a_block: f64,
    /// Of the last half of the blocks.
    coins_a_byte: f64,
}

impl Measured {
    fn of(history: &[Sample]) -> Option<Self> {
        let (first, last) = (history.first()?, history.last()?);
        let half = (first.blocks + last.blocks) / 2.0;
        let half_time = (first.at + last.at) / 2.0;
        let since = |later: usize| last.since(&history[later.saturating_sub(1)]);
        let of_blocks = since(history.partition_point(|sample| sample.blocks < half));
        let of_time = since(history.partition_point(|sample| sample.at < half_time));
        let size = |past: &Sample| match past.blocks > 0.0 {
            true => past.work.bytes / past.blocks,
            false => 0.0,
        };
        let bytes = of_blocks.work.bytes;
        (of_blocks.blocks > 0.0 && bytes > 0.0).then(|| Self {
            bytes_a_block: size(&of_blocks).max(size(&of_time)),
            coins_a_byte: of_blocks.work.coins / bytes,
        })
    }
}

impl Schedule {
    /// Bytes of the blocks above `low`, up to `high`, by what is known and was measured.
    fn bytes(self, at: &Stretch, history: &[Sample], (low, high): (u32, u32)) -> f64 {
        let measured = Measured::of(history);
        let blocks = f64::from(high.saturating_sub(low));
        match self {
            Self::Main => {
                let expected = (main_bytes(at.tip) - main_bytes(at.first)).max(0.0);
                let fetched = history.last().map_or(expected, |last| last.work.bytes);
                let larger = (fetched + AS_TELLING) / (expected + AS_TELLING);
                (main_bytes(high) - main_bytes(low)).max(0.0) * larger
            }
            // As long as nothing is known of their size, they are counted.
            Self::LikeTheLast => {
                measured.map_or(blocks, |measured| measured.bytes_a_block * blocks)
            }
            Self::Bytes(all) => {
                let left =
                    (all as f64 - history.last().map_or(0.0, |last| last.work.bytes)).max(0.0);
                let all_blocks = f64::from(at.best.saturating_sub(at.tip)).max(1.0);
                left * blocks / all_blocks
            }
        }
    }

    /// The work of this many bytes, none of which has arrived, with or without scripts.
    fn work(self, history: &[Sample], bytes: f64, runs: bool) -> Work {
        let coins = match Measured::of(history) {
            Some(measured) if measured.coins_a_byte > 0.0 => measured.coins_a_byte,
            _ => COINS_A_BYTE,
        };
        let inputs = coins * INPUTS_A_BYTE / COINS_A_BYTE;
        let scripts = if runs { bytes * inputs } else { 0.0 };
        Work { fetched: bytes, bytes, coins: bytes * coins, scripts }
    }

    /// The work ahead, without scripts and with them. Blocks that are stored until their turn need not be
    /// fetched: they are assumed to be the next ones.
    pub fn ahead(self, at: &Stretch, history: &[Sample]) -> [Work; 2] {
        let from = at.scripts_from.saturating_sub(1).clamp(at.tip, at.best.max(at.tip));
        let mut stored = history.last().map_or(0.0, |last| last.work.stored_ahead());
        [((at.tip, from), false), ((from, at.best.max(from)), true)].map(|(heights, runs)| {
            let work = self.work(history, self.bytes(at, history, heights), runs);
            let held = stored.min(work.bytes);
            stored -= held;
            Work { fetched: work.bytes - held, ..work }
        })
    }

    /// The work done, including that of earlier runs, which are assumed to have run as many scripts for each
    /// byte as this one.
    pub fn done(self, at: &Stretch, history: &[Sample]) -> Work {
        let of_run = history.last().map_or_else(Work::default, |last| last.work);
        if self == Self::LikeTheLast && Measured::of(history).is_none() {
            // Blocks are counted, as those that are ahead.
            return self.work(history, self.bytes(at, history, (0, at.tip)), false);
        }
        if matches!(self, Self::Bytes(_)) || at.first == 0 {
            return of_run;
        }
        let earlier = self.bytes(at, history, (0, at.first));
        let scripts = if of_run.bytes > 0.0 { of_run.scripts / of_run.bytes } else { 0.0 };
        Work {
            fetched: of_run.fetched + earlier,
            bytes: of_run.bytes + earlier,
            coins: of_run.coins + self.work(history, earlier, false).coins,
            scripts: of_run.scripts + earlier * scripts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_grows_all_along() {
        assert_eq!(main_bytes(0), 0.0);
        assert_eq!(main_bytes(100_000), 60e6);
        assert_eq!(main_bytes(125_000), 330e6);
        assert!(main_bytes(977_000) > 785e9 && main_bytes(977_000) < 791e9);
        let bytes: Vec<f64> = (0..1_000_000).step_by(999).map(main_bytes).collect();
        assert!(bytes.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn scripts_begin_where_assumevalid_ends() {
        let at = Stretch { first: 0, tip: 900_000, best: 977_000, scripts_from: 938_344 };
        let [without, with] = Schedule::Main.ahead(&at, &[]);
        assert_eq!(without.scripts, 0.0);
        assert!(with.scripts > 200e6 && with.scripts < 300e6, "{with:?}");
        let past = Stretch { tip: 960_000, scripts_from: 960_001, ..at };
        let [without, with] = Schedule::Main.ahead(&past, &[]);
        assert!(without.bytes == 0.0 && with.bytes > 27e9);
        let at_the_end = Stretch { tip: 977_000, ..past };
        assert_eq!(Schedule::Main.ahead(&at_the_end, &[]), [Work::default(); 2]);
    }

    #[test]
    fn blocks_that_are_larger_than_expected_correct_the_rest() {
        let at = Stretch { first: 0, tip: 500_000, best: 960_000, scripts_from: 0 };
        let ahead = |bytes| {
            let work = Work { bytes, ..Work::default() };
            Schedule::Main.ahead(&at, &[Sample::default(), Sample { work, ..Sample::default() }])[1]
                .bytes
        };
        assert_eq!(ahead(150e9), 610e9);
        assert!(ahead(165e9) > 660e9 && ahead(165e9) < 671e9);
    }

    #[test]
    fn elsewhere_blocks_are_like_the_last_half() {
        let sample = |blocks, bytes| Sample {
            blocks,
            work: Work { bytes, ..Work::default() },
            ..Sample::default()
        };
        let history = [sample(0.0, 0.0), sample(100.0, 1e3), sample(200.0, 101e3)];
        let at = Stretch { first: 0, tip: 200, best: 1_200, scripts_from: 0 };
        let [_, with] = Schedule::LikeTheLast.ahead(&at, &history);
        assert_eq!(with.bytes, 101e3 / 200.0 * 1_000.0);
        let longer =
            [sample(0.0, 0.0), sample(99.0, 1e3), sample(100.0, 1e3), sample(200.0, 101e3)];
        assert_eq!(Schedule::LikeTheLast.ahead(&at, &longer)[1].bytes, 100e3 / 101.0 * 1_000.0);
        assert_eq!(Schedule::LikeTheLast.ahead(&at, &[])[1].bytes, 1_000.0);
    }

    #[test]
    fn blocks_that_became_larger_count_before_half_of_them_came() {
        let sample = |at, blocks, bytes| Sample {
            at,
            blocks,
            work: Work { bytes, ..Work::default() },
            ..Sample::default()
        };
        // A thousand empty ones in two seconds, then one of 400 kB a second.
        let mut history = vec![sample(0.0, 0.0, 0.0), sample(2.0, 1_000.0, 2e5)];
        history
            .extend((1..=40).map(f64::from).map(|n| sample(2.0 + n, 1_000.0 + n, 2e5 + n * 4e5)));
        let at = Stretch { first: 0, tip: 1_040, best: 1_140, scripts_from: 0 };
        let [_, with] = Schedule::LikeTheLast.ahead(&at, &history);
        assert!((with.bytes - 4e7).abs() < 1.0, "{with:?}");
    }

    #[test]
    fn files_are_known_to_the_byte() {
        let work = Work { bytes: 3e6, ..Work::default() };
        let history = [Sample::default(), Sample { work, blocks: 30.0, ..Sample::default() }];
        let at = Stretch { first: 0, tip: 30, best: 100, scripts_from: 66 };
        let ahead = Schedule::Bytes(10_000_000).ahead(&at, &history);
        assert_eq!(ahead.map(|work| work.bytes), [3.5e6, 3.5e6]);
        assert_eq!(Schedule::Bytes(10_000_000).done(&at, &history).bytes, 3e6);
    }

    #[test]
    fn what_is_stored_is_not_fetched_again() {
        let after = |fetched| {
            let work = Work { fetched, bytes: 1e6, ..Work::default() };
            [Sample::default(), Sample { work, blocks: 10.0, ..Sample::default() }]
        };
        let at = Stretch { first: 0, tip: 10, best: 100, scripts_from: 56 };
        let ahead = |fetched| {
            let ahead = Schedule::Bytes(10_000_000).ahead(&at, &after(fetched));
            assert_eq!(ahead.map(|work| work.bytes), [4.5e6, 4.5e6]);
            ahead.map(|work| work.fetched)
        };
        assert_eq!(ahead(1e6), [4.5e6, 4.5e6]);
        assert_eq!(ahead(3e6), [2.5e6, 4.5e6]);
        assert_eq!(ahead(6.5e6), [0.0, 3.5e6]);
        // Blocks of a branch that is left count for nothing.
        assert_eq!(ahead(20e6), [0.0, 0.0]);
        assert_eq!(ahead(0.0), [4.5e6, 4.5e6]);
    }

    #[test]
    fn what_earlier_runs_did_counts_as_done() {
        let work = Work { fetched: 11e9, bytes: 10e9, coins: 80e6, scripts: 0.0 };
        let history = [Sample::default(), Sample { work, blocks: 6_000.0, ..Sample::default() }];
        let at = Stretch { first: 800_000, tip: 806_000, best: 977_000, scripts_from: 938_344 };
        let done = Schedule::Main.done(&at, &history);
        assert!(done.bytes > 510e9 && done.bytes < 520e9, "{done:?}");
        assert_eq!(done.fetched - done.bytes, 1e9);
    }

    #[test]
    fn what_is_done_is_counted_in_blocks_as_long_as_what_is_ahead_is() {
        let work = Work { bytes: 5e6, ..Work::default() };
        let history = [Sample { work, blocks: 32.0, ..Sample::default() }];
        for first in [0, 500] {
            let at = Stretch { first, tip: 532, best: 2_951, scripts_from: 0 };
            let [without, with] = Schedule::LikeTheLast.ahead(&at, &history);
            assert_eq!(Schedule::LikeTheLast.done(&at, &history).bytes, 532.0);
            assert_eq!([without.bytes, with.bytes], [0.0, 2_419.0]);
        }
    }
}
