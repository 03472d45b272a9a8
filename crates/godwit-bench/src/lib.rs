//! Benchmarks of godwit beside its rivals, as whole programs: this crate starts processes, watches
//! them from outside and links neither side, so it cannot favour one.
//!
//! `import-vs-core` runs `godwit import` and `bitcoind -loadblock` on the same bytes, `sync-vs-core`
//! lets both download them from the same bitcoinds, in alternating rounds: [`kind`] is where the two
//! differ, [`contest`] their loop, [`node`] the command lines, [`servers`] the peers, [`measured`] the
//! stopwatch, [`report`] what is written.

pub mod arguments;
pub mod case;
pub mod chain_summary;
pub mod contest;
pub mod datadir;
pub mod failure;
pub mod kind;
pub mod machine;
pub mod measured;
pub mod node;
pub mod node_log;
pub mod report;
pub mod servers;
pub mod spread;

use std::process::ExitCode;

use arguments::{Arguments, USAGE};
use kind::Kind;

/// What the programs do.
pub fn main(kind: Kind) -> ExitCode {
    let (program, cases) = (kind.program(), kind.cases());
    let Some(arguments) = Arguments::parse(cases, std::env::args_os().skip(1)) else {
        let names: Vec<_> = cases.iter().map(|case| case.name).collect();
        eprintln!("usage: {program} {USAGE} {}.", names.join(", "));
        return ExitCode::from(2);
    };
    match contest::run(kind, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{program}: {failure}");
            ExitCode::FAILURE
        }
    }
}
