//! The whole run: every benchmark with all its lines.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use godwit_primitives::Block;
use godwit_testdata::{read, shared_data};

use crate::bench::{Bench, Fixture, Group, Kind, Line, OURS};
use crate::contenders::{self, Contender, REFERENCES};
use crate::harness::callgrind;
use crate::harness::rounds::{EPOCHS, Here};
use crate::harness::{Counters, Plan, Runner, run_rounds};
use crate::options::Options;
use crate::policy_workers::{NewProcess, PolicyWorker, input_options};
use crate::secrets;
use crate::suite_error::SuiteError;
use crate::system::{self, System};
use crate::workloads::{Input, Workload};

/// Epochs of a line whose iterations take seconds.
const LONG_EPOCHS: usize = 7;

/// Nanoseconds on this machine of what valgrind runs, which takes fifty times as long there.
const CALLGRIND_NANOSECONDS: f64 = 2e6;

/// Block 413,567 of the shared data.
const FIXTURE: &str = "blocks/mainnet_413567.blk.zst";

/// Runs everything that is wanted. Progress goes to stderr.
///
/// # Errors
///
/// See [`SuiteError`].
pub fn run(options: &Options) -> Result<Bench, SuiteError> {
    let started = Instant::now();
    let datadir = DataDir::create(&options.datadir)?;
    let (fixture, block) = fixture(options.block.as_deref())?;
    let block_file = datadir.0.join("block");
    fs::write(&block_file, &block).map_err(|error| SuiteError::File(block_file.clone(), error))?;
    let input = Input { block, datadir: datadir.0.join("here") };
    let system = System::here(Counters::open().is_ok());
    eprintln!("{system}");
    let warnings = system::warnings(&datadir.0);
    warnings.iter().for_each(|warning| eprintln!("Warning: {warning}."));
    let workers = match &options.workers {
        Some(folder) => PolicyWorker::find_all(folder, &block_file, &datadir.0)?,
        None => Vec::new(),
    };
    let mut groups = Vec::new();
    for workload in Workload::ALL.into_iter().filter(|workload| options.wants(workload.name())) {
        groups.push(run_workload(workload, &input, options, &workers)?);
    }
    for group in secrets::GROUPS.iter().filter(|group| options.wants(group.name)) {
        let lines = run_lines(group.name, &[], group.lines()?, &plan(options, false))?;
        groups.push(Group { name: group.name.to_owned(), lines });
    }
    if options.wants(REFERENCES) {
        let lines = run_lines(REFERENCES, &[], contenders::references(), &plan(options, false))?;
        groups.push(Group { name: REFERENCES.to_owned(), lines });
    }
    if options.callgrind && !system.has_counters {
        count_all(&mut groups, &workers, &block_file, &datadir.0);
    }
    let min_time = options.min_time.as_millis() as u64;
    let seconds = Some(started.elapsed().as_secs_f64());
    let figures = Default::default();
    Ok(Bench { system, warnings, fixture, min_time, seconds, groups, figures }.with_figures())
}

/// Runs one line so many times: what valgrind watches.
///
/// # Errors
///
/// See [`SuiteError`].
pub fn count(
    benchmark: &str,
    line: &str,
    iterations: u64,
    options: &Options,
) -> Result<(), SuiteError> {
    let (_, block) = fixture(options.block.as_deref())?;
    let input = Input { block, datadir: options.datadir.join("count") };
    let mut lines = match Workload::named(benchmark) {
        Some(workload) if line == OURS => vec![ours(workload, &input)],
        Some(workload) => contenders::beside(workload, &input),
        None if benchmark == REFERENCES => contenders::references(),
        None => match secrets::GROUPS.iter().find(|group| group.name == benchmark) {
            Some(group) => group.lines()?,
            None => Vec::new(),
        },
    };
    let found = lines.iter_mut().find(|found| found.name == line);
    let Some(found) = found else {
        return Err(SuiteError::NoLine(format!("{benchmark}: {line}")));
    };
    callgrind::repeat(&mut found.subject, iterations);
    Ok(())
}

fn ours(workload: Workload, input: &Input) -> Contender {
    Contender { name: OURS.to_owned(), kind: Kind::Godwit, subject: workload.subject(input) }
}

fn plan(options: &Options, long: bool) -> Plan {
    let epochs = if long { LONG_EPOCHS } else { EPOCHS };
    Plan { epochs, min_time: options.min_time, long }
}

fn run_workload(
    workload: Workload,
    input: &Input,
    options: &Options,
    workers: &[PolicyWorker],
) -> Result<Group, SuiteError> {
    let name = workload.name();
    eprintln!("{name}: preparing");
    let mut here = contenders::beside(workload, input);
    if workers.is_empty() {
        here.insert(0, ours(workload, input));
    }
    let lines = run_lines(name, workers, here, &plan(options, workload.is_long()))?;
    Ok(Group { name: name.to_owned(), lines })
}

/// Lets the workers and those of this process run in balanced rounds.
fn run_lines(
    benchmark: &str,
    workers: &[PolicyWorker],
    mut here: Vec<Contender>,
    plan: &Plan,
) -> Result<Vec<Line>, SuiteError> {
    let mut lines = Vec::new();
    for worker in workers {
        let (_, unit, units_per_iteration) = worker.prepared(benchmark)?;
        lines.push(empty_line(worker.line(), Kind::Godwit, unit, units_per_iteration));
    }
    for Contender { name, kind, subject } in &here {
        let unit = subject.unit.to_owned();
        lines.push(empty_line(name.clone(), *kind, unit, subject.units_per_iteration));
    }
    let mut runners: Vec<Box<dyn Runner + '_>> = Vec::new();
    for worker in workers {
        runners.push(Box::new(NewProcess::each_epoch(worker, benchmark)));
    }
    for contender in &mut here {
        runners.push(Box::new(Here::new(&mut contender.subject)));
    }
    let all = run_rounds(&mut runners, plan, |round, rounds| {
        eprintln!("{benchmark}: {round} of {rounds} rounds of {} lines", lines.len());
    })?;
    drop(runners);
    for (line, epochs) in lines.iter_mut().zip(all) {
        line.epochs = epochs;
    }
    Ok(lines)
}

fn empty_line(name: String, kind: Kind, unit: String, units_per_iteration: f64) -> Line {
    Line { name, kind, unit, units_per_iteration, epochs: Vec::new(), callgrind: None }
}

/// Lets valgrind count every line that is not too long for it. A line that it cannot run stays
/// without a count.
fn count_all(groups: &mut [Group], workers: &[PolicyWorker], block: &Path, datadir: &Path) {
    let is_short = |group: &Group| Workload::named(&group.name).is_none_or(|w| !w.is_long());
    let this = std::env::current_exe().unwrap_or_default();
    for group in groups.iter_mut().filter(|group| is_short(group)) {
        for line in &mut group.lines {
            eprintln!("{}: {}: counting instructions", group.name, line.name);
            let worker = workers.iter().find(|worker| worker.line() == line.name);
            let path = worker.map_or(&this, |worker| &worker.path);
            let program = |iterations: u64| -> Vec<OsString> {
                let words = ["count", &group.name, &line.name, &iterations.to_string()];
                let mut program = vec![path.clone().into_os_string()];
                program.extend(words.map(OsString::from));
                program.extend(input_options(block, datadir));
                program
            };
            let nanoseconds = line.epochs.first().map_or(1.0, |epoch| epoch.per_iteration());
            let iterations = (CALLGRIND_NANOSECONDS / nanoseconds).ceil() as u64;
            match callgrind::instructions(iterations, program) {
                Ok(count) => line.callgrind = Some(count),
                Err(error) => eprintln!("{}: {}: {error}", group.name, line.name),
            }
        }
    }
}

/// The block to work on, and how the reports call it.
fn fixture(file: Option<&Path>) -> Result<(Fixture, Vec<u8>), SuiteError> {
    // A checkout may have some of the shared data and not this block.
    let shared = || shared_data().map(|folder| folder.join(FIXTURE)).filter(|path| path.is_file());
    let (name, bytes) = match (file, shared()) {
        (Some(file), _) => {
            let bytes = fs::read(file).map_err(|e| SuiteError::File(file.to_owned(), e))?;
            (file.display().to_string(), bytes)
        }
        (None, Some(path)) => ("mainnet block 413,567".to_owned(), read(path)),
        (None, None) => {
            ("mainnet block 702,861".to_owned(), godwit_rivals::fallback_block().to_vec())
        }
    };
    let not_one = || SuiteError::Block(file.unwrap_or(Path::new(FIXTURE)).to_owned());
    let block = Block::from_bytes(&bytes).map_err(|_| not_one())?;
    if block.block_len() != bytes.len() {
        return Err(not_one());
    }
    let transactions = block.view().tx_count();
    let inputs = block.view().txs().skip(1).map(|tx| tx.input_count()).sum();
    Ok((Fixture { name, bytes: bytes.len(), transactions, inputs }, bytes))
}

/// A directory that is there as long as the run.
struct DataDir(PathBuf);

impl DataDir {
    /// Makes it. One that exists is somebody's.
    fn create(path: &Path) -> Result<Self, SuiteError> {
        fs::create_dir(path).map_err(|error| SuiteError::File(path.to_owned(), error))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                eprintln!("{}: {error}", self.0.display());
            }
            _ => {}
        }
    }
}
