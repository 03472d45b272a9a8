//! Whole syncs of one node built with three memory policies, to see what wiping freed memory costs:
//! the question of Bitcoin Core's pull request 30987.
//!
//! [`subject`] and [`scenario`] say what runs, [`rotation`] in which order, [`rounds`] lets it run,
//! [`results`] keeps and compares what was measured, [`page`] and [`plot`] draw.
//! [`wipes`] tells where the wiping goes, in godwit and in Bitcoin Core, and [`flame`] draws that.

pub mod arguments;
pub mod core_wipes;
pub mod flame;
pub mod page;
pub mod plot;
pub mod results;
pub mod rotation;
pub mod rounds;
pub mod sample;
pub mod scenario;
pub mod subject;
pub mod wipes;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::exit_code;
use crate::failure::Failure;
use arguments::{Arguments, refusal};
use results::Results;
use wipes::Wipes;

/// What the program does.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{}", refusal(&error));
            return ExitCode::from(2);
        }
    };
    let done = match &arguments {
        Arguments::Measure(measure) => rounds::run(measure),
        Arguments::Draw(out) => draw(out),
        Arguments::CoreWipes(count) => core_wipes::run(count),
    };
    exit_code("ibd-policies", done)
}

/// Draws page and pictures from the JSON that lies in `out`.
pub fn draw(out: &Path) -> Result<(), Failure> {
    let results = Results::read(out)?;
    // What follows from the rounds is computed anew.
    results.write(out)?;
    let wipes = Wipes::read_all(out)?;
    page::write(out, &results, &wipes)?;
    plot::write(out, &results)?;
    wipes.iter().try_for_each(|wipes| flame::write(out, wipes))
}
