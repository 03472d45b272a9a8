//! `godwit import`: reads blocks from files and connects them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use godwit_chain::{
    BadRecord, Body, Chain, ChainError, ChainStatus, Event, ImportObserver, ImportSummary,
    StartOptions, body,
};
use godwit_primitives::BlockHash;
use godwit_store::scan::{BlockFileScanner, SkipReason, SkippedBytes};
use godwit_store::{ChainPoint, Rebuild};
use indicatif::MultiProgress;

use crate::chain_log::{cost_lines, log_disconnected, update_tip};
use crate::core_sources::CoreSources;
use crate::exit::Exit;
use crate::failure::{Failure, Fatal};
use crate::open::{open_chain, start_options};
use crate::options::{Config, ImportOptions};
use crate::process::{StopFlag, seconds_since_1970};
use crate::processor_time::ProcessorTime;
use crate::progress::{AtRisk, Position, Progress, Stage};

const MIB: f64 = 1_048_576.0;

/// Stored blocks that one import may find damaged before it takes no more of them again. A block file that
/// ends early lacks some hundred of today's; a disk that loses more is no place to go on at, and each costs
/// another scan of the files.
const MOST_LOST: usize = 128;

/// Most log lines about bad records; the last says that further ones are only counted. A file of
/// garbage must not fill the disk with log lines.
const BAD_RECORD_LINES: u64 = 100;

pub(crate) fn run(
    config: &Config,
    options: &ImportOptions,
    bars: &MultiProgress,
    stop: &StopFlag,
) -> Result<Exit, Failure> {
    let started = Instant::now();
    let sources = CoreSources::open(config, &options.paths)?;
    let (mut chain, reporter, summary) = import_all(config, options, &sources, bars, stop)?;
    let status = *chain.status();
    let tip = chain.tip_point();
    let (flushing, processor) = (Instant::now(), ProcessorTime::now());
    let open = match summary.stopped {
        true => chain.close().map(|()| None)?,
        false => chain.flush().map(|()| Some(chain))?,
    };
    let (closing, processor) = (flushing.elapsed(), processor.zip(ProcessorTime::now()));
    let mut comparisons = Vec::new();
    if let Some(mut chain) = open {
        comparisons = sources.own_coins(&mut chain)?;
        chain.close()?;
    }
    let report = Report {
        summary: &summary,
        blocks: status.connected.blocks,
        height: tip.height,
        status: &status,
        closing,
        processor,
        total: started.elapsed(),
    };
    report.lines().iter().for_each(|line| show(line, bars));
    if summary.stopped {
        return Ok(Exit::Interrupted);
    }
    let mut exit = if reporter.bad == 0 { Exit::Success } else { Exit::InputRefused };
    let threads = options.script_threads.get();
    for comparison in comparisons {
        let Some(compared) = comparison.with_core(threads, bars, stop)? else {
            return Ok(Exit::Interrupted);
        };
        show(&compared.to_string(), bars);
        if !compared.are_equal() {
            exit = Exit::InputRefused;
        }
    }
    Ok(exit)
}

/// A stored block was damaged, and what is imported does not have it.
#[derive(Debug)]
struct LostBlock {
    block: ChainPoint,
    /// File and offset, if they are known: of a block that has ended a chain.
    place: Option<(PathBuf, u32)>,
}

impl fmt::Display for LostBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChainPoint { hash, height } = self.block;
        write!(f, "block {hash} at height {height} was damaged or missing where it was stored")?;
        if let Some((path, offset)) = &self.place {
            write!(f, " ({} at byte {offset})", path.display())?;
        }
        f.write_str(
            ", and is not in what was imported: import it from elsewhere, or let a node fetch it from peers",
        )
    }
}

impl Fatal for LostBlock {
    fn exit(&self) -> Exit {
        Exit::Damaged
    }
}

/// Imports what the sources have. A stored block that turns out to be damaged ends the chain; the sources may
/// have it, so that the import goes on with another chain, which takes it from there, as long as that finds
/// others.
fn import_all(
    config: &Config,
    options: &ImportOptions,
    sources: &CoreSources,
    bars: &MultiProgress,
    stop: &StopFlag,
) -> Result<(Chain, Reporter, ImportSummary), Failure> {
    let threads = options.script_threads.get();
    let mut start = start_options(config, bars, stop, None);
    let mut reporter = Reporter::default();
    // Where each block is that has ended a chain.
    let mut damaged = HashMap::new();
    loop {
        let mut chain = open_chain(config, threads, options.stop_at_height, start)?;
        reporter.bad = 0;
        // Those that were connected before are not forgotten.
        godwit_chain::expect_copies_of(&mut chain, &reporter.lost);
        match import_once(&mut chain, config, sources, &mut reporter, bars, stop)? {
            Ok(summary) => {
                let missing = reporter.missing(&chain, options.stop_at_height);
                let Some(missing) = missing.filter(|_| !summary.stopped) else {
                    return Ok((chain, reporter, summary));
                };
                chain.close()?;
                let place = damaged.remove(&missing.hash);
                return Err(LostBlock { block: missing, place }.into());
            }
            Err(error @ ChainError::DamagedBlock { .. }) => {
                let before = reporter.lost.len();
                reporter.progress(&mut chain);
                if reporter.lost.len() == before || before >= MOST_LOST {
                    return Err(error.into());
                }
                log::warn!("{error}. It is taken from what is imported, if it is there.");
                if let ChainError::DamagedBlock { hash, path, offset, .. } = error {
                    damaged.insert(hash, (path, offset));
                }
            }
            Err(error) => return Err(error.into()),
        }
        drop(chain);
        // A rebuild has begun, and goes on.
        start =
            StartOptions { rebuild: Rebuild::Nothing, ..start_options(config, bars, stop, None) };
    }
}

/// The inner error is that of connecting and storing blocks.
fn import_once(
    chain: &mut Chain,
    config: &Config,
    sources: &CoreSources,
    reporter: &mut Reporter,
    bars: &MultiProgress,
    stop: &StopFlag,
) -> Result<Result<ImportSummary, ChainError>, Failure> {
    let mut scanners = Vec::new();
    for path in sources.paths() {
        scanners.push(BlockFileScanner::open(chain.disk(), path, config.params.magic)?);
    }
    let plan = godwit_chain::plan(chain, scanners, reporter, stop.shared())?;
    let best = chain.tree().node(chain.tree().best_header());
    log::info!(
        "Best header {} at height {}; {} blocks of {:.1} MiB to read.",
        best.hash,
        best.height,
        plan.len(),
        plan.bytes() as f64 / MIB
    );
    reporter.total_bytes = plan.bytes() + chain.stored_ahead(u32::MAX);
    reporter.progress = Some(Progress::start(bars));
    let result = godwit_chain::import(chain, plan, reporter, stop.shared());
    if let Some(progress) = reporter.progress.take() {
        progress.finish();
    }
    Ok(result)
}

/// Logs a result. On a terminal, log lines are not shown beside the progress bar, but the user should see it.
fn show(line: &str, bars: &MultiProgress) {
    log::info!("{line}");
    if !bars.is_hidden() {
        godwit_program::show(line);
    }
}

#[derive(Default)]
struct Reporter {
    total_bytes: u64,
    /// Bad records of the attempt that goes on.
    bad: u64,
    /// Those of all attempts.
    counted: u64,
    /// Stored blocks that were found damaged, in all attempts.
    lost: HashSet<BlockHash>,
    progress: Option<Progress>,
}

impl Reporter {
    /// The lowest block that was found damaged and did not come again. One above `end`, at which the user
    /// wants the import to stop, is not wanted; one that was connected is not forgotten, and one that came
    /// may have been pruned since.
    fn missing(&self, chain: &Chain, end: Option<u32>) -> Option<ChainPoint> {
        let ids = self.lost.iter().filter_map(|hash| chain.tree().find(hash));
        let missing = ids.filter(|id| matches!(body(chain, *id), Body::Absent | Body::Lost(_)));
        let nodes = missing.map(|id| chain.tree().node(id));
        let wanted = nodes.filter(|node| end.is_none_or(|end| node.height <= end));
        let lowest = wanted.min_by_key(|node| node.height);
        lowest.map(|node| ChainPoint { hash: node.hash, height: node.height })
    }

    /// Counts a bad record; returns whether to log it.
    fn count_bad_record(&mut self) -> bool {
        self.bad += 1;
        self.counted += 1;
        if self.counted == BAD_RECORD_LINES {
            log::warn!("More refused records are counted, not listed.");
        }
        self.counted < BAD_RECORD_LINES
    }
}

impl ImportObserver for Reporter {
    fn now(&self) -> i64 {
        seconds_since_1970()
    }

    fn progress(&mut self, chain: &mut Chain) {
        for event in chain.take_events() {
            match event {
                Event::Connected(connected) => {
                    log::info!("{}", update_tip(chain, connected.point.hash, seconds_since_1970()));
                }
                Event::Disconnected(left) => log_disconnected(chain, &left.point),
                // The chain has logged it.
                Event::Invalid { .. } => {}
                Event::Lost { hash } => {
                    log::warn!("Block {hash} is damaged or missing where it was stored.");
                    self.lost.insert(hash);
                }
                Event::Judged { .. } | Event::Read { .. } | Event::Contents(_) => {
                    unreachable!("an import hands in and asks for no block")
                }
            }
        }
        let (height, connected) = (chain.tip_point().height, chain.status().connected);
        let at_risk = AtRisk::of(chain.status());
        if let Some(progress) = &mut self.progress {
            progress.update(Position {
                stage: Stage::Height(height),
                blocks: connected.blocks,
                bytes: connected.bytes,
                done: connected.bytes,
                // More may be found behind blocks that end before their records do.
                total: self.total_bytes.max(connected.bytes),
                at_risk,
            });
        }
    }

    fn bad_record(&mut self, bad: &BadRecord) {
        if !self.count_bad_record() {
            return;
        }
        let height = bad.height.map_or("unknown".to_owned(), |height| height.to_string());
        let reason = bad.reject.map_or("Block decode failed".to_owned(), |r| r.to_string());
        log::warn!(
            "{} at offset {}: block {} at height {height} was refused: {reason}",
            bad.path.display(),
            bad.offset,
            bad.hash
        );
    }

    fn skipped_bytes(&mut self, path: &Path, skipped: &SkippedBytes) {
        if !self.count_bad_record() {
            return;
        }
        let why = match skipped.reason {
            SkipReason::NotARecord => "belong to no block record of this network",
            SkipReason::Truncated => "are a block record that the file cuts off",
        };
        let SkippedBytes { offset, len, .. } = skipped;
        log::warn!("{} at offset {offset}: {len} bytes {why}", path.display());
    }
}

struct Report<'a> {
    summary: &'a ImportSummary,
    blocks: u64,
    height: u32,
    status: &'a ChainStatus,
    closing: Duration,
    /// Before closing, and after it.
    processor: Option<(ProcessorTime, ProcessorTime)>,
    total: Duration,
}

impl Report<'_> {
    fn lines(&self) -> Vec<String> {
        let Self { summary, status, .. } = self;
        let ended = if summary.stopped { "stopped" } else { "done" };
        let mut lines = vec![format!(
            "Import {ended}: height {}, {} blocks connected, {} of {} records stored, {} \
                 refused, in {:.1} s.",
            self.height,
            self.blocks,
            summary.stored,
            summary.records,
            summary.bad,
            self.total.as_secs_f64()
        )];
        lines.extend(cost_lines(status, self.closing));
        let processor = self.processor.as_ref();
        lines.extend(processor.and_then(|(open, ended)| open.line(ended, status.connected.bytes)));
        lines
    }
}
