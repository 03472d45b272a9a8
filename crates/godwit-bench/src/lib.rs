//! Benchmarks of godwit beside its rivals.
//!
//! `godwit-bench` runs the six benchmarks of bitcoin/bitcoin#30987 on godwit's own code, in three
//! memory policies, beside a C++ control and other programs: [`harness`] is how a figure comes about,
//! [`workloads`] what runs, [`contenders`] what runs beside it, [`suite`] the run, [`bench`] its result,
//! [`page`], [`plot`] and [`merge`] draw it.
//!
//! The others compare whole programs. They start processes and watch them from outside:
//!
//! `import-vs-core` runs `godwit import` and `bitcoind -loadblock` on the same bytes, `sync-vs-core`
//! lets both download them from the same bitcoinds, in alternating rounds: [`intake`] is where the
//! two differ, [`contest`] their loop, [`programs`] the command lines, [`servers`] the peers, [`measured`]
//! the stopwatch, [`rounds`] what they give, [`report`] what is written.

pub mod arguments;
pub mod bench;
pub mod case;
pub mod chain_summary;
pub mod cold;
pub mod command;
pub mod contenders;
pub mod contest;
pub mod core_policies;
mod daemon;
pub mod datadir;
mod duration;
pub mod early_writing;
pub mod failure;
pub mod harness;
pub mod ibd;
pub mod intake;
pub mod interval;
mod leash;
pub mod load;
pub mod machine;
pub mod measured;
pub mod merge;
pub mod node;
pub mod node_log;
pub mod options;
pub mod page;
pub mod plot;
pub mod policy_workers;
pub mod programs;
mod quiet;
mod real_blocks;
pub mod references;
pub mod report;
mod report_files;
pub mod rotation;
pub mod rounds;
pub mod secrets;
pub mod servers;
pub mod settings;
pub mod spread;
pub mod suite;
pub mod suite_error;
pub mod system;
pub mod table;
pub mod targets;
pub mod words;
pub mod workloads;

use std::process::ExitCode;

use arguments::{Arguments, USAGE};
use failure::Failure;
use intake::Intake;

/// What the programs do.
pub fn main(intake: Intake) -> ExitCode {
    let (program, cases) = (intake.program(), intake.cases());
    let Some(arguments) = Arguments::parse(cases, std::env::args_os().skip(1)) else {
        let names: Vec<_> = cases.iter().map(|case| case.name).collect();
        eprintln!("usage: {program} {USAGE} {}.", names.join(", "));
        return ExitCode::from(2);
    };
    exit_code(program, contest::run(intake, &arguments))
}

/// Says why a program has no result, and the code that it ends with.
fn exit_code(program: &str, done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{program}: {failure}");
            ExitCode::FAILURE
        }
    }
}
