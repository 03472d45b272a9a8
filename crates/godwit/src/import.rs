//! `godwit import`: reads blocks from files and connects them.

use std::path::Path;
use std::time::{Duration, Instant};

use godwit_chain::{BadRecord, Chain, ChainStatus, Event, ImportObserver, ImportSummary};
use godwit_store::scan::{BlockFileScanner, SkipReason, SkippedBytes};
use indicatif::MultiProgress;

use crate::chain_log::{cost_lines, log_disconnected, update_tip};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::open::{open_chain, start_options};
use crate::options::{Config, ImportOptions};
use crate::process::{StopFlag, seconds_since_1970};
use crate::processor_time::ProcessorTime;
use crate::progress::{AtRisk, Position, Progress, Stage};

const MIB: f64 = 1_048_576.0;

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
    let (threads, height) = (options.script_threads.get(), options.stop_at_height);
    let mut chain = open_chain(config, threads, height, start_options(config, bars, stop, None))?;
    let mut sources = Vec::new();
    for path in &options.paths {
        sources.push(BlockFileScanner::open(chain.disk(), path, config.params.magic)?);
    }
    let mut reporter = Reporter { total_bytes: 0, bad: 0, progress: None };
    let plan = godwit_chain::plan(&mut chain, sources, &mut reporter, stop.shared())?;
    let best = chain.tree().node(chain.tree().best_header());
    log::info!(
        "Best header {} at height {}; {} blocks of {:.1} MiB to read.",
        best.hash,
        best.height,
        plan.len(),
        plan.bytes() as f64 / MIB
    );
    reporter.total_bytes = plan.bytes() + chain.stored_ahead();
    reporter.progress = Some(Progress::start(bars));
    let result = godwit_chain::import(&mut chain, plan, &mut reporter, stop.shared());
    if let Some(progress) = reporter.progress.take() {
        progress.finish();
    }
    let summary = result?;
    let status = *chain.status();
    let tip = chain.tip_point();
    let (flushing, processor) = (Instant::now(), ProcessorTime::now());
    if summary.stopped {
        chain.close()?;
    } else {
        chain.flush()?;
        chain.close()?;
    }
    let report = Report {
        summary: &summary,
        blocks: status.connected.blocks,
        height: tip.height,
        status: &status,
        closing: flushing.elapsed(),
        processor: processor.zip(ProcessorTime::now()),
        total: started.elapsed(),
    };
    for line in report.lines() {
        log::info!("{line}");
        // On a terminal, log lines are not shown beside the progress bar, but the user should see
        // the result.
        if !bars.is_hidden() {
            println!("{line}");
        }
    }
    Ok(match (summary.stopped, reporter.bad) {
        (true, _) => Exit::Interrupted,
        (false, 0) => Exit::Success,
        (false, _) => Exit::InputRefused,
    })
}

struct Reporter {
    total_bytes: u64,
    bad: u64,
    progress: Option<Progress>,
}

impl Reporter {
    /// Counts a bad record; returns whether to log it.
    fn count_bad_record(&mut self) -> bool {
        self.bad += 1;
        if self.bad == BAD_RECORD_LINES {
            log::warn!("More refused records are counted, not listed.");
        }
        self.bad < BAD_RECORD_LINES
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
                Event::Disconnected(tip) => log_disconnected(&tip),
                // The chain has logged it.
                Event::Invalid { .. } => {}
                Event::Judged { .. } | Event::Read { .. } | Event::Lost { .. } => {
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
                total: self.total_bytes,
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
