//! The experiment of Bitcoin Core's pull request 30987 on Bitcoin Core itself: bitcoinds that differ in
//! what the memory of their streams is, each linked in several orders (`tools/build-core-policies`).
//!
//! [`policy`] and [`schedule`] say what runs when, [`sync`] lets whole syncs run, [`streams`] the pull
//! request's six benchmarks, [`journal`] keeps each run as soon as it is done, so that an interrupted
//! measurement goes on; [`record`] says what a run is, [`results`] compares, [`page`] writes.

pub mod arguments;
pub mod journal;
pub mod page;
pub mod policy;
pub mod record;
pub mod results;
pub mod schedule;
pub mod stream_results;
pub mod streams;
pub mod sync;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::exit_code;
use crate::failure::Failure;
use arguments::{Arguments, USAGE};
use results::Report;

/// What the program does.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(arguments) = Arguments::parse(arguments) else {
        eprintln!("usage: core-policies {USAGE}");
        return ExitCode::from(2);
    };
    let done = match &arguments {
        Arguments::Sync(sync) => sync::run(sync),
        Arguments::Streams(streams) => streams::run(streams),
        Arguments::Draw { journals, out } => draw(journals, out),
    };
    exit_code("core-policies", done)
}

/// Writes the report of all journals in a directory.
fn draw(journals: &Path, out: &Path) -> Result<(), Failure> {
    let report = Report::of(journals)?;
    report.write(out)?;
    page::write(out, &report)
}
