//! `godwit verify`: reads everything that is stored, prints what is damaged, and repairs it if told to.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use godwit_chain::{ChainError, CoinsFound, InspectOptions, Inspected, inspect};
use godwit_program::{OutputError, print_text};
use godwit_store::StoreError;
use godwit_store::disk::{Disk, RealDisk};
use godwit_store::error::Remedy;
use godwit_store::exec::Threads;
use godwit_store::inspect::{Found, Stage, Watch};
use indicatif::MultiProgress;

use crate::descriptors;
use crate::exit::Exit;
use crate::failure::{Failure, Fatal};
use crate::memory::{self, MemoryPlan};
use crate::open::start_options;
use crate::options::{Config, UtxoHash};
use crate::process::StopFlag;
use crate::progress::{self, AtRisk, Position, Progress};

/// Nothing was ever stored there: most likely the name is mistyped, and nothing read is not nothing damaged.
#[derive(Debug)]
struct NothingStored(PathBuf);

impl fmt::Display for NothingStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} holds no chain: there is nothing to verify", self.0.display())
    }
}

impl Fatal for NothingStored {
    fn exit(&self) -> Exit {
        Exit::Configuration
    }
}

pub(crate) fn run(
    config: &Config,
    repair: bool,
    bars: &MultiProgress,
    stop: &StopFlag,
) -> Result<Exit, Failure> {
    let dir = config.network_dir();
    if !["blocks", "utxo", "godwit.redb"].iter().any(|name| dir.join(name).exists()) {
        return Err(NothingStored(dir).into());
    }
    descriptors::raise(descriptors::BESIDE_CONNECTIONS);
    let options = InspectOptions {
        params: Arc::new(config.params.clone()),
        executor: Arc::new(Threads::default()),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        repair,
        memory: MemoryPlan::of(config, memory::available()).coins,
        start: start_options(config, bars, stop, None),
    };
    let mut report = Report::new(bars, stop);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let inspected = inspect(&disk, &dir, options, &mut report);
    report.end_progress();
    let (left, repaired, printed) = (report.left, report.repaired, report.printed);
    printed?;
    let inspected = match inspected {
        Err(ChainError::Store(StoreError::Stopped)) => {
            print_text("Stopped: the rest was not read.")?;
            return Ok(Exit::Interrupted);
        }
        other => other?,
    };
    print_text(&summary(&inspected, left, repaired))?;
    Ok(if left > 0 { Exit::Damaged } else { Exit::Success })
}

/// The last lines.
fn summary(inspected: &Inspected, left: u64, repaired: u64) -> String {
    let Inspected { blocks, undo_records, runs, coins } = inspected;
    let damages = match (left, repaired) {
        (0, 0) => "none".to_owned(),
        _ => format!("{} found, {repaired} repaired, {left} left", left + repaired),
    };
    let coins = match coins {
        Some(CoinsFound { tip, totals, muhash }) => {
            let (txouts, height) = (totals.txouts, tip.map_or(0, |tip| tip.height));
            format!("{txouts} coins at height {height}, MuHash {}.", UtxoHash(*muhash))
        }
        None => "Not all coins can be read: there is no MuHash.".to_owned(),
    };
    format!(
        "Read {blocks} blocks, {undo_records} undo records and {runs} runs of coins. Damage: \
         {damages}.\n{coins}"
    )
}

/// Prints damage as it is found.
struct Report<'a> {
    bars: &'a MultiProgress,
    stop: &'a StopFlag,
    progress: Option<Progress>,
    /// Damages that are left, and those that are repaired.
    left: u64,
    repaired: u64,
    printed: Result<(), OutputError>,
}

impl<'a> Report<'a> {
    fn new(bars: &'a MultiProgress, stop: &'a StopFlag) -> Self {
        Self { bars, stop, progress: None, left: 0, repaired: 0, printed: Ok(()) }
    }

    fn end_progress(&mut self) {
        if let Some(progress) = self.progress.take() {
            progress.finish();
        }
    }
}

fn name(stage: Stage) -> &'static str {
    match stage {
        Stage::Blocks => "blocks and undo records",
        Stage::Undo => "blocks for their coins",
        Stage::LostCoins => "blocks for lost coins",
        Stage::Runs => "runs of coins",
        Stage::Coins => "all coins",
    }
}

impl Watch for Report<'_> {
    fn found(&mut self, found: Found) {
        match found.remedy {
            Remedy::Done => self.repaired += 1,
            _ => self.left += 1,
        }
        log::info!("Damaged: {found}");
        let printed = self.bars.suspend(|| print_text(&found.to_string())).map(drop);
        if self.printed.is_ok() {
            self.printed = printed;
        }
    }

    fn progress(&mut self, stage: Stage, done: u64, total: u64) {
        let bars = self.bars;
        let progress = self.progress.get_or_insert_with(|| Progress::start(bars));
        progress.update(Position {
            stage: progress::Stage::Reading(name(stage)),
            blocks: 0,
            bytes: done,
            done,
            total,
            peers: None,
            at_risk: AtRisk::default(),
        });
        if done == total {
            self.end_progress();
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_set() || self.printed.is_err()
    }
}
