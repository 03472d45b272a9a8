//! The cost of writing coins early: imports with `-flushinterval` and without, in turns.
//!
//! A node writes coins while it syncs, so that little has to be applied again after a power cut. How often it
//! does so follows from measured rates; `-flushinterval` fixes the interval, so that the cost of a write can
//! be measured.

use std::ffi::OsString;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::arguments::Words;
use crate::case::Case;
use crate::chain_summary::ChainSummary;
use crate::contest::{Contest, Terms};
use crate::datadir::{self, WorkDir};
use crate::exit_code;
use crate::failure::Failure;
use crate::interval::Interval;
use crate::machine::Machine;
use crate::node::Node;
use crate::programs::Programs;
use crate::report_files::{write_json, write_text};
use crate::rotation::{balanced_rounds, williams};
use crate::rounds::Run;
use crate::spread::Spread;
use crate::targets::times;

const USAGE: &str = "\
-chain=FILE -godwit=BIN -out=DIR [-rounds=N] [-interval=SECONDS]

FILE is a generated chain with its summary beside it. Rounds: 10. Seconds between two writes: 2.";

/// With every script, and without.
const CASES: [Case; 2] = [Case::IMPORT[0], Case::IMPORT[2]];

/// Times the time without an interval that each may take at most, with this interval in seconds: a shorter
/// one costs more, a longer one less.
const TARGETS: [f64; 2] = [1.03, 1.10];
const TARGET_INTERVAL: u64 = 2;

/// Writes that a run must have had more than one without an interval, so that it tells their cost.
const MIN_WRITES: u64 = 20;

const DEFAULT_ROUNDS: usize = 10;
const DEFAULT_INTERVAL: u64 = TARGET_INTERVAL;

const MIB: f64 = (1 << 20) as f64;

#[derive(Debug, PartialEq)]
struct Arguments {
    chain: PathBuf,
    godwit: PathBuf,
    out: PathBuf,
    rounds: usize,
    interval: u64,
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut words = Words::of(arguments)?;
        let arguments = Self {
            chain: words.path("chain")?,
            godwit: words.path("godwit")?,
            out: words.path("out")?,
            rounds: words.number("rounds", DEFAULT_ROUNDS)?,
            interval: words.number("interval", DEFAULT_INTERVAL)?,
        };
        words.are_used().then_some(arguments)
    }
}

/// The imports of a case, round by round.
#[derive(Clone, Debug, Serialize)]
struct CaseRuns {
    case: Case,
    target: f64,
    interval: u64,
    without: Vec<Run>,
    with: Vec<Run>,
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: Machine,
    version: String,
    interval: u64,
    chain: ChainSummary,
    cases: Vec<CaseRuns>,
}

/// What the program does.
pub fn main() -> ExitCode {
    let Some(arguments) = Arguments::parse(std::env::args_os().skip(1)) else {
        eprintln!("usage: early-writing {USAGE}");
        return ExitCode::from(2);
    };
    exit_code("early-writing", run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (file, chain) = ChainSummary::of_file(&arguments.chain)?;
    if !chain.allows_assumevalid() {
        return Err(Failure::TooShort);
    }
    let godwit = arguments.godwit.clone();
    let programs = Programs {
        bitcoind: godwit.clone(),
        godwit,
        godwit_options: vec![],
        bitcoind_options: vec![],
        probes: false,
    };
    let mut report = Report {
        machine: Machine::here(),
        version: programs.version(Node::Godwit)?,
        interval: arguments.interval,
        chain: chain.clone(),
        cases: vec![],
    };
    datadir::read_through(&file)?;
    let work = WorkDir::beside(&file, "early-writing")?;
    let contest = Contest { rounds: arguments.rounds, file, programs, chain: &chain, work: &work };
    for (case, target) in CASES.into_iter().zip(TARGETS) {
        report.cases.push(run_case(&contest, case, target, arguments.interval)?);
        report.write(&arguments.out)?;
    }
    work.remove()
}

/// Runs both in balanced orders, behind a run of each that is not counted and whose coins are looked at.
fn run_case(
    contest: &Contest<'_>,
    case: Case,
    target: f64,
    interval: u64,
) -> Result<CaseRuns, Failure> {
    let import = |flush_interval, look| {
        let terms = Terms { flush_interval, ..contest.terms(&case) };
        contest.run_one(Node::Godwit, terms, look)
    };
    for flush_interval in [None, Some(interval)] {
        if let (_, Some(set)) = import(flush_interval, true)?
            && !contest.chain.describes(&set)
        {
            return Err(Failure::NotTheChain(Box::new(set)));
        }
    }
    let mut runs = CaseRuns { case, target, interval, without: vec![], with: vec![] };
    let rounds = balanced_rounds(2, contest.rounds);
    for (round, order) in williams(2).iter().cycle().take(rounds).enumerate() {
        for number in order {
            match number {
                0 => runs.without.push(import(None, false)?.0),
                _ => runs.with.push(import(Some(interval), false)?.0),
            }
        }
        println!("{} {}/{rounds}: {} writes more in each run", case.name, round + 1, runs.writes());
    }
    Ok(runs)
}

impl CaseRuns {
    /// Times the time without an interval, round by round.
    fn ratio(&self) -> Option<Interval> {
        let rounds = self.with.iter().zip(&self.without);
        let ratios = rounds.map(|(with, without)| with.measured.seconds / without.measured.seconds);
        Interval::of_ratios(&ratios.collect::<Vec<_>>())
    }

    /// Fewest writes of a run more than most without an interval.
    fn writes(&self) -> u64 {
        let fewest = self.with.iter().map(|run| run.log.flushes).min().unwrap_or(0);
        fewest.saturating_sub(self.without.iter().map(|run| run.log.flushes).max().unwrap_or(0))
    }

    fn verdict(&self) -> &'static str {
        match self.ratio() {
            None => "open: too few rounds",
            Some(ratio) if ratio.low > self.target => match self.interval < TARGET_INTERVAL {
                true => "open: the target is one of a longer interval",
                false => "not met",
            },
            Some(_) if self.writes() < MIN_WRITES => "open: too few writes",
            Some(ratio) if ratio.high > self.target => "open",
            Some(_) if self.interval > TARGET_INTERVAL => {
                "open: the target is one of a shorter interval"
            }
            Some(_) => "met",
        }
    }
}

impl Report {
    fn write(&self, dir: &Path) -> Result<(), Failure> {
        write_json(&dir.join("early-writing.json"), self)?;
        let text = self.markdown().expect("a String takes all that is written to it");
        write_text(&dir.join("early-writing.md"), &text)
    }

    fn markdown(&self) -> Result<String, fmt::Error> {
        let mut out = String::from("# What writing coins early costs\n\n");
        let Self { machine, version, interval, .. } = self;
        let plan = &self.chain.plan;
        writeln!(
            out,
            "{machine}.\n{version}.\n\nImport of the chain of the plan `{plan}` with `-flushinterval={interval}` and \
             without an interval, alternately. Seconds from start to exit, medians with their range; time as a \
             multiple of the time without an interval in the same round, estimate and 95 % interval. A target is \
             one of {TARGET_INTERVAL} s. It is met or not met if all of that lies on its side, and met only if each \
             run had at least {MIN_WRITES} writes more; with fewer, a chain that takes longer is needed, or a shorter \
             interval, which costs more, so that it can show that a target is met, and not that it is not.\n"
        )?;
        writeln!(
            out,
            "| case | interval | rounds | s | writes | MiB written by flushes | merges | peak memory MiB |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |"
        )?;
        for runs in &self.cases {
            for (name, runs_of) in [("none", &runs.without), (&format!("{interval} s"), &runs.with)]
            {
                let over = |digits, value: fn(&Run) -> f64| {
                    Spread::text_of(runs_of.iter().map(value), digits)
                };
                writeln!(
                    out,
                    "| {} | {name} | {} | {} | {} | {} | {} | {} |",
                    runs.case.name,
                    runs_of.len(),
                    over(1, |run| run.measured.seconds),
                    over(0, |run| run.log.flushes as f64),
                    over(0, |run| run.log.flushed_bytes as f64 / MIB),
                    over(0, |run| run.log.merges as f64),
                    over(0, |run| run.measured.peak_memory as f64 / MIB),
                )?;
            }
        }
        writeln!(out, "\n| case | times | target at most | verdict |\n| --- | --- | --- | --- |")?;
        for runs in &self.cases {
            let ratio = runs.ratio().map_or("too few rounds".to_owned(), times);
            let CaseRuns { case, target, .. } = runs;
            writeln!(out, "| {} | {ratio} | {target:.2} | {} |", case.name, runs.verdict())?;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datadir::DiskUse;
    use crate::measured::Measured;
    use crate::node_log::LogFacts;

    fn run(seconds: f64, flushes: u64) -> Run {
        let measured = Measured {
            seconds,
            user_seconds: seconds,
            system_seconds: 1.0,
            peak_memory: 300 << 20,
            written: 0,
            others_seconds: 0.0,
        };
        let log = LogFacts { flushes, flushed_bytes: flushes << 20, ..LogFacts::default() };
        let (sync_seconds, server_seconds, disk) = (0.0, None, DiskUse::default());
        Run { measured, sync_seconds, server_seconds, disk, log }
    }

    fn runs(with: f64, writes: u64, rounds: usize) -> CaseRuns {
        CaseRuns {
            case: CASES[0],
            target: TARGETS[0],
            interval: TARGET_INTERVAL,
            without: vec![run(100.0, 1); rounds],
            with: vec![run(with, 1 + writes); rounds],
        }
    }

    #[test]
    fn a_target_is_met_only_with_enough_writes_and_missed_with_any() {
        for (with, writes, rounds, verdict) in [
            (103.0, 20, 6, "met"),
            (103.0, 19, 6, "open: too few writes"),
            (103.1, 19, 6, "not met"),
            (103.1, 20, 6, "not met"),
            (103.0, 20, 5, "open: too few rounds"),
        ] {
            assert_eq!(runs(with, writes, rounds).verdict(), verdict, "{with} {writes} {rounds}");
        }
        for (interval, with, verdict) in [
            (1, 103.0, "met"),
            (1, 103.1, "open: the target is one of a longer interval"),
            (3, 103.0, "open: the target is one of a shorter interval"),
            (3, 103.1, "not met"),
        ] {
            let runs = CaseRuns { interval, ..runs(with, 20, 6) };
            assert_eq!(runs.verdict(), verdict, "{interval} s, {with}");
        }
        let mut spread = runs(102.0, 20, 6);
        spread.with[5] = run(110.0, 21);
        assert_eq!(spread.verdict(), "open");
    }

    #[test]
    fn both_are_in_the_report() {
        let results = crate::ibd::results::tests::results(&[[1.0; 3]]);
        let report = Report {
            machine: Machine::here(),
            version: "godwit v0".into(),
            interval: 2,
            chain: results.chain,
            cases: vec![runs(105.0, 21, 6)],
        };
        let text = report.markdown().unwrap();
        for part in [
            "| scripts | none | 6 | 100.0 (100.0–100.0) | 1 (1–1) | 1 (1–1) | 0 (0–0) | 300 (300–300) |",
            "| scripts | 2 s | 6 | 105.0 (105.0–105.0) | 22 (22–22) | 22 (22–22) | 0 (0–0) | 300 (300–300) |",
            "| scripts | 1.05 (1.05–1.05) | 1.03 | not met |",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn what_is_needed_and_what_has_a_default() {
        let parse = |words: &[&str]| Arguments::parse(words.iter().map(OsString::from));
        let arguments = parse(&["-chain=a", "-godwit=b", "--out=c"]).unwrap();
        assert_eq!((arguments.rounds, arguments.interval), (10, 2));
        assert_eq!(parse(&["-chain=a", "-godwit=b"]), None);
        assert_eq!(parse(&["-chain=a", "-godwit=b", "-out=c", "-interval=0"]), None);
    }
}
