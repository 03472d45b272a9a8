//! The command line of `godwit-bench`.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::bench::{Bench, slug};
use crate::options::{HELP, Job, OptionError, Options, Output};
use crate::suite;
use crate::suite_error::SuiteError;
use crate::{merge, page, plot, table};

/// Why there is nothing to show.
#[derive(Debug)]
enum CommandError {
    Options(OptionError),
    Suite(SuiteError),
    File(PathBuf, io::Error),
    Json(PathBuf, serde_json::Error),
    Text(fmt::Error),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(error) => write!(f, "{error}; -help says what there is"),
            Self::Suite(error) => error.fmt(f),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Json(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Text(error) => error.fmt(f),
        }
    }
}

impl From<fmt::Error> for CommandError {
    fn from(error: fmt::Error) -> Self {
        Self::Text(error)
    }
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let done = Job::parse(std::env::args_os().skip(1)).map_err(CommandError::Options);
    match done.and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("godwit-bench: {error}");
            match error {
                CommandError::Options(_) => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run(job: Job) -> Result<(), CommandError> {
    match job {
        Job::Help => print(&format!("godwit-bench {HELP}\n")),
        Job::Run(options) => {
            let bench = suite::run(&options).map_err(CommandError::Suite)?;
            if let Some(out) = &options.out {
                write_report(out, &bench)?;
            }
            print(&printed(&bench, &options)?)
        }
        Job::Count { benchmark, line, iterations, options } => {
            suite::count(&benchmark, &line, iterations, &options).map_err(CommandError::Suite)
        }
        Job::Draw(dir) => write_report(&dir, &load(&dir.join("bench.json"))?.with_figures()),
        Job::Merge { files, out } => {
            let machines = files.iter().map(|file| load(file)).collect::<Result<Vec<_>, _>>()?;
            let mut text = String::new();
            merge::write(&mut text, &machines)?;
            match out {
                Some(path) => save(&path, &text),
                None => print(&text),
            }
        }
    }
}

fn printed(bench: &Bench, options: &Options) -> Result<String, CommandError> {
    let mut text = String::new();
    match options.output {
        Output::Table => table::write(&mut text, bench)?,
        Output::Csv => table::write_csv(&mut text, bench)?,
        Output::Json => text = json(bench)?,
    }
    Ok(text)
}

/// `bench.json`, the page and its plots.
fn write_report(out: &Path, bench: &Bench) -> Result<(), CommandError> {
    fs::create_dir_all(out).map_err(|error| CommandError::File(out.to_owned(), error))?;
    save(&out.join("bench.json"), &json(bench)?)?;
    for group in &bench.groups {
        let mut svg = String::new();
        plot::write(&mut svg, group)?;
        save(&out.join(page::plot_name(&slug(&group.name))), &svg)?;
    }
    let mut text = String::new();
    page::write(&mut text, bench)?;
    save(&out.join("bench.md"), &text)?;
    eprintln!("The report is in {}.", out.display());
    Ok(())
}

fn json(bench: &Bench) -> Result<String, CommandError> {
    let text = serde_json::to_string_pretty(bench);
    text.map(|text| text + "\n").map_err(|error| CommandError::Json("bench.json".into(), error))
}

fn load(path: &Path) -> Result<Bench, CommandError> {
    let text = fs::read(path).map_err(|error| CommandError::File(path.to_owned(), error))?;
    serde_json::from_slice(&text).map_err(|error| CommandError::Json(path.to_owned(), error))
}

fn save(path: &Path, text: &str) -> Result<(), CommandError> {
    fs::write(path, text).map_err(|error| CommandError::File(path.to_owned(), error))
}

fn print(text: &str) -> Result<(), CommandError> {
    let printed = io::stdout().lock().write_all(text.as_bytes());
    printed.map_err(|error| CommandError::File("stdout".into(), error))
}
