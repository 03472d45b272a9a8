//! `godwit verify`: reads everything stored, prints the damage found, and repairs it on request. With
//! `-audit` it tells whether the coins are those that result from the blocks.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use godwit_chain::{
    AuditOptions, Audited, ChainError, CoinsFound, InspectOptions, Inspected, Proof, RepairPace,
    inspect,
};
use godwit_index::{INDEXES_DIR, IndexDamage, IndexInspection, IndexRemedy, IndexWatch};
use godwit_primitives::ReversedHex;
use godwit_program::{OutputError, print_text};
use godwit_store::StoreError;
use godwit_store::disk::{Disk, RealDisk, StoreDisk};
use godwit_store::error::Remedy;
use godwit_store::exec::Threads;
use godwit_store::inspect::{Found, Stage, Watch, lock};
use indicatif::MultiProgress;

use crate::descriptors;
use crate::exit::Exit;
use crate::failure::{Failure, Fatal};
use crate::memory::{self, MemoryPlan};
use crate::open::{holds_chain, start_options, tell_assumed};
use crate::options::{Config, VerifyOptions};
use crate::process::{self, StopFlag};
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
    VerifyOptions { repair, audit }: VerifyOptions,
    bars: &MultiProgress,
    stop: &StopFlag,
) -> Result<Exit, Failure> {
    let dir = config.network_dir();
    if !holds_chain(&dir) {
        return Err(NothingStored(dir).into());
    }
    descriptors::raise_for_files();
    let goes_on = repair && !audit;
    let audit = match audit {
        true => Some(AuditOptions { key: process::random_bytes()?, scripts: config.scripts }),
        false => None,
    };
    let options = InspectOptions {
        params: Arc::new(config.params.clone()),
        executor: Arc::new(Threads::default()),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        repair,
        memory: MemoryPlan::of(config, memory::available()).coins,
        pace: RepairPace::default(),
        start: start_options(config, bars, stop, None),
        audit,
    };
    let mut report = Report::new(bars, stop);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let inspected = inspect(&disk, &dir, options, &mut report);
    let indexes = match &inspected {
        // What cannot be audited is told at once.
        Ok(Inspected { audit: Some(Audited::Unproven(_)), .. }) | Err(_) => Ok(0),
        Ok(inspected) => inspect_indexes(config, repair, inspected.pruned_below, &mut report),
    };
    report.end_progress();
    let (left, repaired, printed) = (report.left, report.repaired, report.printed);
    printed?;
    let inspected = match inspected {
        Err(ChainError::Store(StoreError::Stopped)) => {
            print_text(match goes_on {
                true => {
                    "Stopped: the rest was not read. `godwit verify -repair` goes on where its readings of \
                     the blocks were, if one was under way."
                }
                false => "Stopped: the rest was not read.",
            })?;
            return Ok(Exit::Interrupted);
        }
        other => other?,
    };
    print_text(&summary(&inspected, *indexes.as_ref().unwrap_or(&0), left, repaired))?;
    match indexes {
        Ok(_) => {}
        Err(StoreError::Stopped) => {
            print_text("Stopped: the optional indexes were not read to their ends.")?;
            return Ok(Exit::Interrupted);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(match inspected.audit {
        _ if left > 0 || inspected.refuted.is_some() => Exit::Damaged,
        None | Some(Audited::Proven(_)) => Exit::Success,
        Some(Audited::Refuted { .. }) => Exit::Damaged,
        Some(Audited::Unproven(_)) => Exit::Failure,
    })
}

/// Reads the optional indexes that there are, whatever the options name, and returns how many.
fn inspect_indexes(
    config: &Config,
    repair: bool,
    pruned_below: Option<u32>,
    report: &mut Report<'_>,
) -> Result<usize, StoreError> {
    let (disk, dir) = (StoreDisk::new(Arc::new(RealDisk)), config.network_dir());
    let indexes = dir.join(INDEXES_DIR);
    let Some(lowest) = pruned_below else {
        if indexes.exists() {
            report
                .note("The optional indexes were not read, because the block index is not whole.");
        }
        return Ok(0);
    };
    let _lock = lock(&disk, &dir)?;
    let genesis = config.params.genesis_hash;
    IndexInspection { disk: &disk, dir: &indexes, genesis, lowest, repair }.run(report)
}

/// The last lines.
fn summary(inspected: &Inspected, indexes: usize, left: u64, repaired: u64) -> String {
    let Inspected { blocks, blocks_before, undo_records, runs, coins, audit, .. } = inspected;
    let indexes = match indexes {
        0 => "",
        1 => ", and an optional index",
        _ => ", and the optional indexes",
    };
    let damage_count = match (left, repaired) {
        (0, 0) => "none".to_owned(),
        _ => format!("{} found, {repaired} repaired, {left} left", left + repaired),
    };
    let (before, told) = match blocks_before {
        0 => (String::new(), ""),
        before => (
            format!(" ({before} of them before it was interrupted)"),
            ", beside what was repaired before",
        ),
    };
    let coins = match (audit, coins) {
        (Some(audited), _) => what_is_proven(audited, *blocks),
        (None, Some(CoinsFound { tip, totals, muhash })) => {
            let (txouts, height) = (totals.txouts, tip.map_or(0, |tip| tip.height));
            format!("{txouts} coins at height {height}, MuHash {}.", ReversedHex(muhash))
        }
        (None, None) => "Not all coins can be read: there is no MuHash.".to_owned(),
    };
    let snapshot = of_snapshot(inspected);
    format!(
        "Read {blocks} blocks{before}, {undo_records} undo records and {runs} runs of coins{indexes}. \
         Damage: {damage_count}{told}.\n{snapshot}{coins}"
    )
}

/// A line, if the coins are those of a snapshot that is not validated: what is read as it was written may
/// still be wrong.
fn of_snapshot(inspected: &Inspected) -> String {
    match (inspected.assumed, inspected.refuted) {
        (None, _) => String::new(),
        (Some(assumed), None) => format!("{}\n", tell_assumed(&assumed)),
        (Some(assumed), Some(refutation)) => {
            let error = ChainError::SnapshotRefuted { assumed, refutation };
            format!("Refuted: {error}.\n")
        }
    }
}

/// What an audit of a directory with so many blocks says.
fn what_is_proven(audited: &Audited, stored: u64) -> String {
    match audited {
        Audited::Proven(Proof { tip, inputs, outputs, coins, without_scripts }) => {
            let height = u64::from(tip.height);
            let scripts = match without_scripts {
                0 => "Their scripts hold.".to_owned(),
                without => format!(
                    "The scripts of {} of them hold, those of {without} were not run (-assumevalid).",
                    height - without
                ),
            };
            let others = match stored.saturating_sub(height) {
                0 => String::new(),
                others => format!("\n{others} other blocks are stored, and were not audited."),
            };
            format!(
                "Proven: the coins at height {height} are those of its {height} blocks. {outputs} outputs - \
                 {inputs} inputs = {coins} coins.\n{scripts}{others}"
            )
        }
        Audited::Refuted { disputes, more, remade, suspects } => {
            let lines: Vec<String> =
                disputes.iter().map(|dispute| format!("{dispute}\n")).collect();
            let found = lines.len() as u64 + more;
            let untold = match more {
                0 => String::new(),
                more => format!("and {more} more\n"),
            };
            let refuted = refuted(found, *remade, *suspects);
            format!("{}{untold}Refuted: {refuted}.", lines.concat())
        }
        Audited::Unproven(why) => format!("Nothing is proven: {why}."),
    }
}

/// What is refuted in so many places, and what helps.
fn refuted(found: u64, remade: usize, suspects: usize) -> String {
    let what = match suspects {
        0 => format!("coins and undo records are not those of the blocks, in {found} places"),
        // Coins and undo records that are made again would be refuted again.
        suspects => format!(
            "in {found} places; of {suspects} blocks the block itself is the suspect, which only `-reindex` \
             judges, with -assumevalid=0 by all scripts (-reindex-chainstate runs none of a block that was \
             connected before)"
        ),
    };
    let remedy = match (remade, suspects) {
        (0, 0) => {
            "; `-reindex-chainstate` makes coins again from the blocks, `verify -audit -repair` undo records"
                .to_owned()
        }
        (0, _) => String::new(),
        (remade, 0) => {
            format!("; undo records made again from the blocks: {remade}; audit once more")
        }
        (remade, _) => format!("; undo records made again from the blocks: {remade}"),
    };
    what + &remedy
}

/// Prints damage as it is found.
struct Report<'a> {
    bars: &'a MultiProgress,
    stop: &'a StopFlag,
    progress: Option<Progress>,
    /// How many damaged items are left, and how many are repaired.
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

    /// Counts damage, and prints its line.
    fn tell(&mut self, line: &str, is_repaired: bool) {
        match is_repaired {
            true => self.repaired += 1,
            false => self.left += 1,
        }
        log::info!("Damaged: {line}");
        self.note(line);
    }

    fn show(&mut self, what: &'static str, done: u64, total: u64) {
        let bars = self.bars;
        let progress = self.progress.get_or_insert_with(|| Progress::start(bars));
        progress.update(Position {
            stage: progress::Stage::Reading(what),
            blocks: 0,
            bytes: done,
            done,
            total,
            at_risk: AtRisk::default(),
        });
        if done == total {
            self.end_progress();
        }
    }

    fn is_over(&self) -> bool {
        self.stop.is_set() || self.printed.is_err()
    }
}

fn name(stage: Stage) -> &'static str {
    match stage {
        Stage::Blocks => "blocks and undo records",
        Stage::Undo => "blocks for their coins",
        Stage::LostCoins => "blocks for lost coins",
        Stage::Runs => "runs of coins",
        Stage::Coins => "all coins",
        Stage::Culprits => "blocks for coins that do not agree",
    }
}

impl Watch for Report<'_> {
    fn found(&mut self, found: Found) {
        self.tell(&found.to_string(), found.remedy == Remedy::Done);
    }

    fn note(&mut self, line: &str) {
        let printed = self.bars.suspend(|| print_text(line)).map(drop);
        if self.printed.is_ok() {
            self.printed = printed;
        }
    }

    fn progress(&mut self, stage: Stage, done: u64, total: u64) {
        self.show(name(stage), done, total);
    }

    fn is_stopped(&self) -> bool {
        self.is_over()
    }
}

impl IndexWatch for Report<'_> {
    fn found(&mut self, damage: IndexDamage) {
        self.tell(&damage.to_string(), damage.remedy == IndexRemedy::Removed);
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.show("optional indexes", done, total);
    }

    fn is_stopped(&self) -> bool {
        self.is_over()
    }
}

#[cfg(test)]
mod tests {
    use godwit_chain::Dispute;

    use super::*;

    fn told(remade: usize, suspects: usize) -> String {
        let disputes = vec![Dispute::Elusive];
        let told = what_is_proven(&Audited::Refuted { disputes, more: 3, remade, suspects }, 9);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!((lines.len(), lines[1]), (3, "and 3 more"), "{told}");
        lines[2].to_owned()
    }

    #[test]
    fn where_a_block_itself_is_the_suspect_nothing_that_keeps_it_is_named_as_the_remedy() {
        let lie = "Refuted: coins and undo records are not those of the blocks, in 4 places; ";
        assert!(told(0, 0).starts_with(&format!("{lie}`-reindex-chainstate` makes coins again")));
        let remade = "undo records made again from the blocks: 2; audit once more.";
        assert_eq!(told(2, 0), format!("{lie}{remade}"));
        let of_block = told(0, 1);
        assert!(of_block.starts_with("Refuted: in 4 places; of 1 blocks the block itself"));
        for word in ["only `-reindex` judges", "-assumevalid=0"] {
            assert!(of_block.contains(word), "{of_block}");
        }
        for word in ["makes coins again", "verify -audit", "audit once more"] {
            assert!(!of_block.contains(word), "{of_block}");
        }
        let both = told(2, 1);
        assert!(both.ends_with("; undo records made again from the blocks: 2."), "{both}");
        assert!(both.contains("only `-reindex` judges"), "{both}");
    }
}
