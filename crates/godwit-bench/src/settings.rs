//! Finds the options that make bitcoind fastest on this machine: a rival is to run with its best ones.

use std::fmt::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

use crate::arguments::Arguments;
use crate::case::Case;
use crate::chain_summary::ChainSummary;
use crate::contest::Contest;
use crate::datadir::{self, WorkDir};
use crate::exit_code;
use crate::failure::Failure;
use crate::interval::Interval;
use crate::machine::Machine;
use crate::measured::Measured;
use crate::node::Node;
use crate::programs::Programs;
use crate::report::write_change;
use crate::report_files::{write_json, write_text};
use crate::rotation::{balanced_rounds, williams};
use crate::spread::Spread;
use crate::targets::times;

/// Cases of `core-settings`: what is read from a file, without probes. Those with scripts take an hour each.
const CASES: [Case; 2] = [Case::IMPORT[2], Case::IMPORT[3]];

/// What is tried in every case, the programs' own settings first: fewer and no threads that read coins ahead
/// (8 by default), fewer and more threads for scripts (2 are what both programs get).
const TRIED: [&str; 5] =
    ["", "-prevoutfetchthreads=0", "-prevoutfetchthreads=2", "-par=1", "-par=4"];

/// Rounds at least: fewer than six give no interval.
const ROUNDS: usize = 6;

const MIB: u64 = 1 << 20;

/// What one setting took.
#[derive(Clone, Debug, Serialize)]
struct Tried {
    /// What bitcoind got besides; empty for nothing.
    option: String,
    runs: Vec<Measured>,
}

/// All settings in one case.
#[derive(Clone, Debug, Serialize)]
struct CaseSettings {
    case: Case,
    dbcache: u64,
    settings: Vec<Tried>,
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: Machine,
    version: String,
    change: String,
    chain: ChainSummary,
    cases: Vec<CaseSettings>,
}

/// What the program does.
pub fn main() -> ExitCode {
    let all = Case::IMPORT.iter().filter(|case| !case.probes).copied().collect::<Vec<_>>();
    let given: Vec<_> = std::env::args_os().skip(1).collect();
    let names_cases = given.iter().any(|word| word.to_string_lossy().contains("-cases="));
    let Some(mut arguments) = Arguments::parse(&all, given.into_iter()) else {
        eprintln!("usage: core-settings {}", crate::arguments::USAGE);
        return ExitCode::from(2);
    };
    if !names_cases {
        arguments.cases = CASES.to_vec();
    }
    exit_code("core-settings", run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (file, chain) = ChainSummary::of_file(&arguments.chain)?;
    if arguments.cases.iter().any(|case| !case.scripts) && !chain.allows_assumevalid() {
        return Err(Failure::TooShort);
    }
    let rival = Programs {
        godwit: arguments.godwit.clone(),
        bitcoind: arguments.rival.clone(),
        godwit_options: vec![],
        bitcoind_options: arguments.bitcoind_options.clone(),
        probes: false,
    };
    let mut report = Report {
        machine: Machine::here(),
        version: rival.version(Node::Bitcoind)?,
        change: rival.change()?,
        chain: chain.clone(),
        cases: vec![],
    };
    datadir::read_through(&file)?;
    let work = WorkDir::beside(&file, "core-settings")?;
    let contest = Contest { rounds: ROUNDS, file, programs: rival, chain: &chain, work: &work };
    for case in &arguments.cases {
        report.cases.push(run_case(&contest, case, arguments.rounds.min(ROUNDS))?);
        report.write(&arguments.out)?;
    }
    work.remove()
}

/// Runs all settings in balanced orders, `rounds` of each at least, behind a run of each program that is not
/// counted.
fn run_case(contest: &Contest<'_>, case: &Case, rounds: usize) -> Result<CaseSettings, Failure> {
    let chain = contest.chain;
    let dbcache = case.dbcache(chain.txouts);
    let terms = contest.terms(case);
    let peak = |node| Ok(contest.run_one(node, terms, false)?.0.measured.peak_memory);
    let (ours, theirs) = (peak(Node::Godwit)?, peak(Node::Bitcoind)?);
    let mut settings: Vec<Tried> = TRIED
        .map(str::to_owned)
        .into_iter()
        .chain(as_much_memory(dbcache, ours, theirs))
        .map(|option| Tried { option, runs: vec![] })
        .collect();
    let contests: Vec<Contest<'_>> =
        settings.iter().map(|setting| with(contest, &setting.option)).collect();
    let rounds = balanced_rounds(settings.len(), rounds);
    let orders = williams(settings.len());
    for (round, order) in orders.iter().cycle().take(rounds).enumerate() {
        for &number in order {
            let (run, _) = contests[number].run_one(Node::Bitcoind, terms, false)?;
            settings[number].runs.push(run.measured);
        }
        println!("{} {}/{rounds}", case.name, round + 1);
    }
    Ok(CaseSettings { case: *case, dbcache, settings })
}

/// The cache that lets bitcoind reach godwit's peak of memory, if that is higher.
fn as_much_memory(dbcache: u64, ours: u64, theirs: u64) -> Option<String> {
    let more = ours.checked_sub(theirs)? / MIB;
    (more > 0).then(|| format!("-dbcache={}", dbcache + more))
}

fn with<'a>(contest: &Contest<'a>, option: &str) -> Contest<'a> {
    let mut programs = contest.programs.clone();
    programs.bitcoind_options.extend((!option.is_empty()).then(|| option.to_owned()));
    let Contest { rounds, ref file, chain, work, .. } = *contest;
    Contest { rounds, file: file.clone(), programs, chain, work }
}

impl Report {
    fn write(&self, dir: &Path) -> Result<(), Failure> {
        write_json(&dir.join("core-settings.json"), self)?;
        let text = self.markdown().expect("a String takes all that is written to it");
        write_text(&dir.join("core-settings.md"), &text)
    }

    fn markdown(&self) -> Result<String, fmt::Error> {
        let mut out = String::from("# Options of bitcoind\n\n");
        writeln!(
            out,
            "{}.\n{}.\n\nImport of the benchmark's chain by bitcoind alone, with each option besides those of \
             `make bench-import`, in balanced orders. Seconds from start to exit and of processor time, \
             medians with their range; time as a multiple of the time without the option in the same round, \
             estimate and 95 % interval. `-dbcache` here is the cache that raises bitcoind's peak of memory to \
             godwit's, where that is higher.\n",
            self.machine, self.version
        )?;
        writeln!(
            out,
            "| case | option | rounds | s | processor s | peak memory MiB | times |\n| --- | --- | --- | --- | \
             --- | --- | --- |"
        )?;
        for CaseSettings { case, settings, .. } in &self.cases {
            for setting in settings {
                let over = |value: fn(&Measured) -> f64| {
                    Spread::text_of(setting.runs.iter().map(value), 1)
                };
                writeln!(
                    out,
                    "| {} | {} | {} | {} | {} | {} | {} |",
                    case.name,
                    if setting.option.is_empty() { "none" } else { &setting.option },
                    setting.runs.len(),
                    over(|run| run.seconds),
                    over(Measured::processor_seconds),
                    over(|run| (run.peak_memory / MIB) as f64),
                    beside(setting, &settings[0]).map_or("too few rounds".to_owned(), times),
                )?;
            }
        }
        write_change(&mut out, &self.change, &[])?;
        Ok(out)
    }
}

/// The time of a setting over that of another, round by round.
fn beside(one: &Tried, other: &Tried) -> Option<Interval> {
    let rounds = one.runs.iter().zip(&other.runs);
    Interval::of_ratios(&rounds.map(|(a, b)| a.seconds / b.seconds).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tried(option: &str, seconds: f64) -> Tried {
        let run = Measured {
            seconds,
            user_seconds: seconds,
            system_seconds: 1.0,
            peak_memory: 300 * MIB,
            written: 0,
            others_seconds: 0.0,
        };
        Tried { option: option.to_owned(), runs: vec![run; 6] }
    }

    #[test]
    fn memory_is_evened_out_only_upwards() {
        assert_eq!(as_much_memory(7, 201 * MIB, 170 * MIB), Some("-dbcache=38".to_owned()));
        assert_eq!(as_much_memory(7, 170 * MIB + 1, 170 * MIB), None);
        assert_eq!(as_much_memory(7, 170 * MIB, 201 * MIB), None);
    }

    #[test]
    fn each_setting_beside_none() {
        let results = crate::ibd::results::tests::results(&[[1.0; 3]]);
        let settings = vec![tried("", 10.0), tried("-par=1", 8.0)];
        let report = Report {
            machine: Machine::here(),
            version: "Core v0".into(),
            change: "-a\n+b\n".into(),
            chain: results.chain,
            cases: vec![CaseSettings { case: CASES[0], dbcache: 450, settings }],
        };
        let text = report.markdown().unwrap();
        for part in [
            "| assumevalid | none | 6 | 10.0 (10.0–10.0) | 11.0 (11.0–11.0) | 300.0 (300.0–300.0) | 1.00 \
             (1.00–1.00) |",
            "| assumevalid | -par=1 | 6 | 8.0 (8.0–8.0) | 9.0 (9.0–9.0) | 300.0 (300.0–300.0) | 0.80 \
             (0.80–0.80) |",
            "```diff\n-a\n+b\n```",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn an_option_comes_behind_those_of_all() {
        let results = crate::ibd::results::tests::results(&[[1.0; 3]]);
        let place = std::env::temp_dir().join(format!("godwit-settings-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let file = place.join("chain.dat");
        fs::write(&file, "").unwrap();
        let work = WorkDir::beside(&file, "core-settings").unwrap();
        let programs = Programs {
            godwit: "g".into(),
            bitcoind: "b".into(),
            godwit_options: vec![],
            bitcoind_options: vec!["-a=b".into()],
            probes: false,
        };
        let contest = Contest { rounds: 1, file, programs, chain: &results.chain, work: &work };
        assert_eq!(with(&contest, "-par=1").programs.bitcoind_options, ["-a=b", "-par=1"]);
        assert_eq!(with(&contest, "").programs.bitcoind_options, ["-a=b"]);
        work.remove().unwrap();
        fs::remove_dir_all(&place).unwrap();
    }
}
