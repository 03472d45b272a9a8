//! Shows the progress of a command that reads files: a bar on a terminal, otherwise log lines at intervals.
//!
//! The time left is the remaining work divided by the recent speed. Work is counted in bytes, whose total is
//! known in advance. Blocks would not do: their size grew a thousandfold over the years. While no speed is
//! known, no time is shown. The progress of a node is in `screen`.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use godwit_chain::ChainStatus;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// The speed is measured over this time: short enough to follow changing blocks, long enough to
/// average over a flush.
const WINDOW: Duration = Duration::from_secs(60);
/// Time between the samples in the window; bounds their number.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// The bar is redrawn at most this often.
const BAR_INTERVAL: Duration = Duration::from_millis(100);
/// A line is logged this often.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

const BYTES_PER_MB: f64 = 1e6;

/// The cost of a power cut at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtRisk {
    /// Blocks and undo records that are not durable, in bytes: to be fetched and verified again.
    pub bytes: u64,
    /// Estimated time of applying the blocks again whose coins are not durable.
    pub replay: Duration,
}

impl AtRisk {
    /// As the chain's status has it.
    pub fn of(status: &ChainStatus) -> Self {
        Self { bytes: status.bytes_at_risk, replay: status.replay }
    }
}

impl fmt::Display for AtRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bytes as f64 / BYTES_PER_MB;
        write!(f, "{megabytes:.1} MB to fetch, {:.0} s to replay", self.replay.as_secs_f64())
    }
}

/// The stage of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Connecting blocks; the height of the best one.
    Height(u32),
    /// Making the block index from the block files.
    Indexing,
    /// Reading what is stored, to verify it.
    Reading(&'static str),
    /// Making Bitcoin Core's data directory; of work that is no bytes.
    HandingOver(&'static str),
    /// Reading the coins of Bitcoin Core.
    ReadingCore,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Height(height) => write!(f, "height={height}"),
            Self::Indexing => f.write_str("indexing block files"),
            Self::Reading(what) => write!(f, "reading {what}"),
            Self::HandingOver(what) => write!(f, "handing over: {what}"),
            Self::ReadingCore => f.write_str("reading Bitcoin Core's coins"),
        }
    }
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub stage: Stage,
    /// Blocks connected or indexed since the start.
    pub blocks: u64,
    pub bytes: u64,
    /// Work done, in any unit.
    pub done: u64,
    /// All work, as far as it is known by now.
    pub total: u64,
    pub at_risk: AtRisk,
}

/// The display of one job.
pub struct Progress {
    started: Instant,
    next_refresh: Duration,
    speed: Speed,
    /// `None`: progress is logged.
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts the display; `bars` is hidden where there is no terminal.
    pub fn start(bars: &MultiProgress) -> Self {
        let bar = (!bars.is_hidden()).then(|| bars.add(new_bar()));
        let started = Instant::now();
        Progress { started, next_refresh: Duration::ZERO, speed: Speed::default(), bar }
    }

    /// Sets how far the job is. Cheap: meant to be called for every block.
    pub fn update(&mut self, position: Position) {
        let now = self.started.elapsed();
        self.speed.sample(now, position);
        if now < self.next_refresh {
            return;
        }
        let status = Status::new(position, self.speed.rates());
        match &self.bar {
            Some(bar) => {
                bar.set_length(position.total);
                bar.set_position(position.done.min(position.total));
                bar.set_message(status.to_string());
                self.next_refresh = now + BAR_INTERVAL;
            }
            None => {
                // The first call has no progress to report yet.
                if !self.next_refresh.is_zero() {
                    log::info!("Progress: {status}");
                }
                self.next_refresh = now + LOG_INTERVAL;
            }
        }
    }

    /// Removes the bar from the terminal.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar}").expect("the template is valid");
    ProgressBar::new(0).with_style(style)
}

/// Positions of the last [`WINDOW`].
#[derive(Default)]
struct Speed {
    samples: VecDeque<(Duration, Position)>,
}

/// Speed over a time that is not zero.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    blocks_per_second: f64,
    bytes_per_second: f64,
    done_per_second: f64,
}

impl Speed {
    /// `now` is the time since any fixed moment; it never decreases.
    fn sample(&mut self, now: Duration, position: Position) {
        if let Some((last, _)) = self.samples.back()
            && now < *last + SAMPLE_INTERVAL
        {
            return;
        }
        self.samples.push_back((now, position));
        // The oldest sample kept is at or before the window's edge, so that the samples cover the
        // window.
        while let Some((second, _)) = self.samples.get(1)
            && *second + WINDOW <= now
        {
            self.samples.pop_front();
        }
    }

    fn rates(&self) -> Option<Rates> {
        let ((first, from), (last, to)) = (self.samples.front()?, self.samples.back()?);
        let seconds = (*last - *first).as_secs_f64();
        let per_second = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        (seconds > 0.0).then(|| Rates {
            blocks_per_second: per_second(from.blocks, to.blocks),
            bytes_per_second: per_second(from.bytes, to.bytes),
            done_per_second: per_second(from.done, to.done),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Status {
    stage: Stage,
    percent: f64,
    rates: Option<Rates>,
    left: Option<Duration>,
    at_risk: AtRisk,
}

impl Status {
    fn new(position: Position, rates: Option<Rates>) -> Self {
        let Position { stage, done, total, at_risk, .. } = position;
        let left_to_do = total.saturating_sub(done);
        let left = match rates {
            _ if left_to_do == 0 => Some(Duration::ZERO),
            Some(Rates { done_per_second, .. }) if done_per_second > 0.0 => {
                Duration::try_from_secs_f64(left_to_do as f64 / done_per_second).ok()
            }
            _ => None,
        };
        let percent = match left_to_do {
            0 => 100.0,
            // Rounding must not show 100 % before the job is done.
            _ => (done as f64 / total as f64 * 100.0).min(99.99),
        };
        Status { stage, percent, rates, left, at_risk }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.2} %", self.stage, self.percent)?;
        let is_bytes = !matches!(self.stage, Stage::HandingOver(_) | Stage::ReadingCore);
        if let Some(rates) = self.rates.filter(|_| is_bytes) {
            let megabytes = rates.bytes_per_second / BYTES_PER_MB;
            write!(f, " {:.1} blocks/s {megabytes:.2} MB/s", rates.blocks_per_second)?;
        }
        match self.left {
            Some(left) => write!(f, " ETA {}", Left(left.as_secs()))?,
            None => f.write_str(" ETA unknown")?,
        }
        match self.at_risk == AtRisk::default() {
            true => Ok(()),
            false => write!(f, ", a power cut would cost {}", self.at_risk),
        }
    }
}

/// A number of seconds, shown in its two largest units.
struct Left(u64);

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minutes, hours, days) = (self.0 / 60, self.0 / 3600, self.0 / 86_400);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(f, "{} s", self.0),
            (0, 0, _) => write!(f, "{minutes} min {:02} s", self.0 % 60),
            (0, _, _) => write!(f, "{hours} h {:02} min", minutes % 60),
            _ => write!(f, "{days} d {:02} h", hours % 24),
        }
    }
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressDrawTarget;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(blocks: u64) -> Position {
        let bytes = blocks * 2_000_000;
        let (stage, at_risk) = (Stage::Height(7), AtRisk::default());
        Position { stage, blocks, bytes, done: bytes, total: 0, at_risk }
    }

    fn rates_after(samples: &[(Duration, u64)]) -> Option<(f64, f64)> {
        let mut speed = Speed::default();
        for (now, blocks) in samples {
            speed.sample(*now, at(*blocks));
        }
        speed.rates().map(|rates| (rates.blocks_per_second, rates.bytes_per_second))
    }

    #[test]
    fn no_speed_without_time() {
        assert_eq!(rates_after(&[]), None);
        assert_eq!(rates_after(&[(SECOND, 5)]), None);
        assert_eq!(rates_after(&[(SECOND, 5), (SECOND, 9)]), None);
        assert_eq!(rates_after(&[(SECOND, 5), (SECOND * 2, 5)]), Some((0.0, 0.0)));
    }

    #[test]
    fn speed_is_that_of_the_window() {
        assert_eq!(rates_after(&[(SECOND, 0), (SECOND * 3, 10)]), Some((5.0, 10e6)));
        let slow_then_fast: Vec<(Duration, u64)> = (0..=200u32)
            .map(|second| (SECOND * second, u64::from(second.saturating_sub(100)) * 3))
            .collect();
        assert_eq!(rates_after(&slow_then_fast), Some((3.0, 6e6)));
        let edge = rates_after(&slow_then_fast[..=130]).expect("there are many samples");
        assert_eq!(edge.0, 30.0 * 3.0 / 60.0);
    }

    #[test]
    fn samples_are_bounded() {
        let mut speed = Speed::default();
        for tick in 0..100_000u32 {
            speed.sample(Duration::from_millis(10) * tick, at(u64::from(tick)));
        }
        assert!(speed.samples.len() <= 62, "{}", speed.samples.len());
        let gap = Duration::from_secs(5_000);
        speed.sample(gap, at(100_000));
        assert_eq!(speed.samples.len(), 2, "a long silence empties the window");
    }

    #[test]
    fn time_left() {
        let rates = |bytes_per_second| {
            let done_per_second = bytes_per_second;
            Some(Rates { blocks_per_second: 1.5, bytes_per_second, done_per_second })
        };
        let status = |total, rates| Status::new(Position { total, ..at(1) }, rates);
        let shown = |total, rates| status(total, rates).to_string();
        assert_eq!(shown(8_000_000, None), "height=7 25.00 % ETA unknown");
        assert_eq!(
            shown(8_000_000, rates(0.0)),
            "height=7 25.00 % 1.5 blocks/s 0.00 MB/s ETA unknown"
        );
        assert_eq!(shown(8_000_000, rates(1e6)), "height=7 25.00 % 1.5 blocks/s 1.00 MB/s ETA 6 s");
        let indexing = Position { stage: Stage::Indexing, total: 8_000_000, ..at(1) };
        assert_eq!(
            Status::new(indexing, None).to_string(),
            "indexing block files 25.00 % ETA unknown"
        );
        assert_eq!(status(2_000_000, rates(1.0)).left, Some(Duration::ZERO));
        assert_eq!(status(2_000_000, None).left, Some(Duration::ZERO));
        assert_eq!(status(u64::MAX, rates(1e-300)).left, None);
        let at_risk = AtRisk { bytes: 1_250_000, replay: Duration::from_millis(33_600) };
        assert_eq!(
            Status::new(Position { at_risk, ..at(0) }, None).to_string(),
            "height=7 100.00 % ETA 0 s, a power cut would cost 1.2 MB to fetch, 34 s to replay"
        );
    }

    #[test]
    fn percent_is_honest() {
        let percent = |blocks, total| Status::new(Position { total, ..at(blocks) }, None).percent;
        assert_eq!([percent(0, 0), percent(0, 1), percent(1, 2_000_000)], [100.0, 0.0, 100.0]);
        assert_eq!([percent(1, 2_000_001), percent(2, 2_000_000)], [99.99, 100.0]);
    }

    #[test]
    fn durations() {
        let shown = |seconds| Left(seconds).to_string();
        assert_eq!([shown(0), shown(59), shown(60)], ["0 s", "59 s", "1 min 00 s"]);
        assert_eq!([shown(3_599), shown(3_600)], ["59 min 59 s", "1 h 00 min"]);
        assert_eq!([shown(86_399), shown(86_400)], ["23 h 59 min", "1 d 00 h"]);
    }

    #[test]
    fn without_a_terminal_there_is_no_bar() {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
        let mut progress = Progress::start(&bars);
        assert!(progress.bar.is_none());
        progress.update(at(1));
        assert_eq!(progress.next_refresh.as_secs(), LOG_INTERVAL.as_secs());
        progress.finish();
    }
}
