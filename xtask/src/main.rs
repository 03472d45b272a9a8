//! Developer commands. `cargo xtask tidy` checks the house rules and `cargo xtask audit` the classes of
//! memory; both checks also run as tests under `cargo test`. `cargo xtask figures` writes what reports
//! say into the pages that quote them.

mod audit;
mod tidy;

use std::env;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
        _ => {
            eprintln!("usage: cargo xtask tidy|audit|figures");
            ExitCode::from(2)
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
