//! The pull request's six benchmarks on Core's own headers and objects
//! (`crates/godwit-rivals/cpp/core_streams.cpp`).

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use godwit_testdata::{read, shared_data};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::harness::callgrind;
use crate::machine::Machine;
use crate::rotation::williams;
use crate::spread::Spread;

use super::arguments::{Streams, Subjects};
use super::journal::Journal;
use super::policy::{LINK_ORDERS, Policy, program};
use super::record::Build;

/// Where the block is that the pull request used.
const BLOCK: &str = "blocks/mainnet_413567.blk.zst";

/// One of the benchmarks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Benchmark {
    pub name: &'static str,
    /// What its figures are for one of.
    pub unit: &'static str,
    /// Epochs of a process, and milliseconds of each.
    epochs: [u32; 2],
    /// It runs in one of so many rounds, the last of them, so that a short measurement has the others.
    every: usize,
    /// Iterations that valgrind watches; none where they would take too long.
    counted: Option<u64>,
}

/// All of them. A flush takes seconds, and ends on a disk.
pub const BENCHMARKS: [Benchmark; 6] = [
    Benchmark {
        name: "DataStreamAlloc",
        unit: "byte",
        epochs: [3, 30],
        every: 1,
        counted: Some(1000),
    },
    Benchmark {
        name: "DataStreamSerializeScript",
        unit: "byte",
        epochs: [3, 30],
        every: 1,
        counted: Some(1000),
    },
    Benchmark {
        name: "ProcessMessageBlock",
        unit: "byte",
        epochs: [3, 60],
        every: 1,
        counted: Some(4),
    },
    Benchmark {
        name: "DeserializeBlockTest",
        unit: "block",
        epochs: [3, 40],
        every: 1,
        counted: Some(8),
    },
    Benchmark {
        name: "DeserializeAndCheckBlockTest",
        unit: "block",
        epochs: [3, 40],
        every: 1,
        counted: Some(8),
    },
    Benchmark { name: "CCoinsViewDBFlush", unit: "coin", epochs: [1, 1], every: 4, counted: None },
];

/// What the lines of a journal have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamHead {
    /// Where and when it began.
    pub machine: Machine,
    pub build: Build,
    /// Bytes of the block.
    pub block: usize,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamLine {
    pub benchmark: String,
    pub policy: Policy,
    pub link_order: usize,
    pub figure: Figure,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// Nanoseconds for one unit in a round: the median of a process's epochs.
    Time { round: usize, ns: f64 },
    /// Instructions for one unit, by valgrind.
    Count { instructions: f64 },
}

/// The file of a Core's benchmarks in a directory of journals.
pub fn journal_name(core: &str) -> String {
    format!("{core}-streams.jsonl")
}

impl StreamHead {
    fn continues(before: &Self, now: &Self) -> bool {
        before.build == now.build && before.block == now.block
    }
}

/// Adds what lacks to the journal until it is whole or the time is over.
pub fn run(streams: &Streams) -> Result<(), Failure> {
    let started = Instant::now();
    let Subjects { core, programs, policies, journals, rounds, limit } = &streams.subjects;
    let block = match (&streams.block, shared_data().map(|folder| folder.join(BLOCK))) {
        (Some(path), _) => fs::read(path).map_err(|error| Failure::File(path.clone(), error))?,
        (None, Some(path)) if path.is_file() => read(path),
        (None, _) => godwit_rivals::fallback_block().to_vec(),
    };
    let head = StreamHead {
        machine: Machine::here(),
        build: Build::of(programs, "benchmarks", policies)?,
        block: block.len(),
    };
    let path = journals.join(journal_name(core));
    let mut journal = Journal::open(&path, head, StreamHead::continues)?;
    fs::create_dir_all(&streams.datadir)
        .map_err(|error| Failure::File(streams.datadir.clone(), error))?;
    let setup = Setup { programs, block: streams.datadir.join("block"), datadir: &streams.datadir };
    fs::write(&setup.block, block).map_err(|error| Failure::File(setup.block.clone(), error))?;
    setup.count(policies, &mut journal)?;
    for round in 0..*rounds {
        for (benchmark, subject) in turns(policies, round) {
            if limit.is_some_and(|limit| started.elapsed() > limit) {
                println!("The time is over.");
                return setup.remove();
            }
            let line = StreamLine { benchmark: benchmark.name.to_owned(), ..subject };
            let is_there = |other: &StreamLine| {
                let same = (&other.benchmark, other.policy, other.link_order)
                    == (&line.benchmark, line.policy, line.link_order);
                same && matches!(other.figure, Figure::Time { round: other, .. } if other == round)
            };
            if !journal.lines.iter().any(is_there) {
                let ns = setup.time(benchmark, &line)?;
                journal.add(StreamLine { figure: Figure::Time { round, ns }, ..line })?;
            }
        }
        println!("{core} benchmarks {}/{rounds}", round + 1);
    }
    setup.remove()
}

/// What runs in a round: each benchmark by every program, in an order that balances predecessors over a
/// square's rounds, but for a benchmark that not every round has.
fn turns(policies: &[Policy], round: usize) -> Vec<(&'static Benchmark, StreamLine)> {
    let orders = williams(policies.len() * LINK_ORDERS);
    let order = &orders[round % orders.len()];
    let due = BENCHMARKS.iter().filter(|benchmark| (round + 1).is_multiple_of(benchmark.every));
    let subject = |number: &usize| subject(policies[number / LINK_ORDERS], number % LINK_ORDERS);
    due.flat_map(|benchmark| order.iter().map(move |number| (benchmark, subject(number)))).collect()
}

fn subject(policy: Policy, link_order: usize) -> StreamLine {
    StreamLine {
        benchmark: String::new(),
        policy,
        link_order,
        figure: Figure::Count { instructions: 0.0 },
    }
}

/// What the programs run with.
struct Setup<'a> {
    programs: &'a Path,
    block: PathBuf,
    datadir: &'a Path,
}

impl Setup<'_> {
    fn command(&self, name: &str, policy: Policy, link_order: usize) -> Vec<OsString> {
        vec![
            program(self.programs, policy, link_order, "benchmarks").into(),
            name.into(),
            self.block.clone().into(),
            self.datadir.join("coins").into(),
        ]
    }

    fn output(command: &[OsString]) -> Result<String, Failure> {
        let program = PathBuf::from(&command[0]);
        let output = Command::new(&program).args(&command[1..]).output();
        let output = output.map_err(|error| Failure::Start(program.clone(), error))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Failure::Benchmark(program)),
        }
    }

    fn time(&self, benchmark: &Benchmark, line: &StreamLine) -> Result<f64, Failure> {
        let mut command = self.command(benchmark.name, line.policy, line.link_order);
        command.push("time".into());
        command.extend(benchmark.epochs.map(|number| number.to_string().into()));
        let text = Self::output(&command)?;
        let epochs = text.split_whitespace().map_while(|number| number.parse().ok());
        let spread =
            Spread::of(epochs).ok_or_else(|| Failure::Benchmark(PathBuf::from(&command[0])));
        spread.map(|spread| spread.median)
    }

    /// Counts instructions where that was not done yet.
    fn count(
        &self,
        policies: &[Policy],
        journal: &mut Journal<StreamHead, StreamLine>,
    ) -> Result<(), Failure> {
        if !callgrind::is_installed() {
            return Ok(());
        }
        for benchmark in BENCHMARKS {
            let Some(iterations) = benchmark.counted else { continue };
            for policy in policies.iter().copied() {
                let is_there = |line: &StreamLine| {
                    let same = (line.benchmark.as_str(), line.policy) == (benchmark.name, policy);
                    same && matches!(line.figure, Figure::Count { .. })
                };
                if journal.lines.iter().any(is_there) {
                    continue;
                }
                let command = |iterations: u64| {
                    let mut command = self.command(benchmark.name, policy, 0);
                    command.extend(["count".into(), iterations.to_string().into()]);
                    command
                };
                let units: f64 = match Self::output(&command(0))?.trim().parse() {
                    Ok(units) => units,
                    Err(_) => return Err(Failure::Benchmark(self.programs.to_owned())),
                };
                let counted = callgrind::instructions(iterations, command);
                let instructions = match counted {
                    Ok(instructions) => instructions / units,
                    Err(error) => {
                        println!("{}, {policy}: {error}", benchmark.name);
                        continue;
                    }
                };
                println!("{}, {policy}: {instructions:.3} instructions", benchmark.name);
                let benchmark = benchmark.name.to_owned();
                let figure = Figure::Count { instructions };
                journal.add(StreamLine { benchmark, policy, link_order: 0, figure })?;
            }
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), Failure> {
        crate::datadir::remove(self.datadir)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_program_has_its_turn_in_each_benchmark() {
        let of = |policies, round, name: &str| {
            let turns =
                turns(policies, round).into_iter().filter(|(benchmark, _)| benchmark.name == name);
            turns.map(|(_, line)| (line.policy, line.link_order)).collect::<BTreeSet<_>>().len()
        };
        for round in 0..5 {
            assert_eq!(of(&Policy::ALL, round, "DataStreamAlloc"), 15);
            assert_eq!(of(&Policy::ALL[..2], round, "DataStreamAlloc"), 6);
            let flushes = if round % 4 == 3 { 15 } else { 0 };
            assert_eq!(of(&Policy::ALL, round, "CCoinsViewDBFlush"), flushes);
        }
    }

    #[test]
    fn a_line_of_either_kind_is_read_again() {
        for figure in [Figure::Time { round: 3, ns: 0.5 }, Figure::Count { instructions: 1.25 }] {
            let line = StreamLine { figure, ..subject(Policy::Barrier, 1) };
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<StreamLine>(&text).unwrap(), line, "{text}");
        }
    }
}
