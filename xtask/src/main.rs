//! Developer commands. `cargo xtask tidy` checks the house rules and `cargo xtask audit` the classes of
//! memory; both checks also run as tests under `cargo test`. `cargo xtask figures` writes what reports
//! say into the pages that quote them, `cargo xtask contrib` the files that are made of tables of options.

mod audit;
mod tidy;

use std::env;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => report("tidy", tidy::check_tree(&workspace_root())),
        ["audit"] => report("audit", audit::findings(&workspace_root())),
        ["figures"] => match tidy::refresh_figures(&workspace_root()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("figures: {error}");
                ExitCode::FAILURE
            }
        },
        ["contrib"] => write_contrib(),
        _ => {
            eprintln!("usage: cargo xtask tidy|audit|figures|contrib");
            ExitCode::from(2)
        }
    }
}

/// Manual pages, completions and the example of the configuration file are made of the programs' tables,
/// which this program does not link: the test that compares them writes them.
fn write_contrib() -> ExitCode {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let packages = ["-p", "godwit", "-p", "godwit-cli"];
    let status = Command::new(cargo)
        .args(["test", "--release", "--locked", "--lib"])
        .args(packages)
        .arg("the_files_of_contrib_are_those_of_the_table")
        .env("GODWIT_WRITE_CONTRIB", "1")
        .current_dir(workspace_root())
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("contrib: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(check: &str, findings: io::Result<Vec<impl Display>>) -> ExitCode {
    match findings {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                eprintln!("{finding}");
            }
            eprintln!("{} findings", findings.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{check}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The checkout that cargo was called in: this program may have been compiled in another one with the same
/// target directory.
fn workspace_root() -> PathBuf {
    let xtask = env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this program");
    Path::new(&xtask).parent().expect("xtask lies inside the workspace").to_owned()
}
