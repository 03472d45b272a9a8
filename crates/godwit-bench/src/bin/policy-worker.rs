//! Runs the workloads with the memory policy that it was built with; `godwit-bench` starts it.

use std::ffi::OsString;
use std::io::{stdin, stdout};
use std::process::ExitCode;

use godwit_bench::harness::callgrind;
use godwit_bench::harness::worker::serve;
use godwit_bench::options::{Job, OptionError, Options};
use godwit_bench::workloads::{Input, Workload, policy};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let done = match Job::parse(arguments) {
        Ok(Job::Run(options)) => answer(&options),
        Ok(Job::Count { benchmark, iterations, options, .. }) => {
            count(&benchmark, iterations, &options)
        }
        Ok(_) => Err(OptionError::Incomplete.into()),
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("policy-worker: {error}");
            ExitCode::FAILURE
        }
    }
}

type Done = Result<(), Box<dyn std::error::Error>>;

/// Answers requests until stdin ends.
fn answer(options: &Options) -> Done {
    let input = input(options)?;
    let prepare = |name: &str| Some(Workload::named(name)?.subject(&input));
    Ok(serve(stdin().lock(), stdout().lock(), policy::allocator(), prepare)?)
}

/// Runs a workload so many times: what valgrind watches.
fn count(benchmark: &str, iterations: u64, options: &Options) -> Done {
    let workload = Workload::named(benchmark).ok_or(OptionError::Unknown(benchmark.into()))?;
    let mut subject = workload.subject(&input(options)?);
    callgrind::repeat(&mut subject, iterations);
    Ok(())
}

fn input(options: &Options) -> Result<Input, std::io::Error> {
    let block = std::fs::read(options.block.clone().unwrap_or_default())?;
    Ok(Input { block, datadir: options.datadir.clone() })
}
