//! Developer commands. `cargo xtask tidy` checks the house rules and `cargo xtask audit` the classes of
//! memory; both checks also run as tests under `cargo test`. `cargo xtask figures` writes what reports
//! say into the pages that quote them.

mod audit;
mod tidy;

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => report("tidy", tidy::check_tree(workspace_root())),
        ["audit"] => report("audit", audit::findings(workspace_root())),
        ["figures"] => match tidy::refresh_figures(workspace_root()) {
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

fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies inside the workspace")
}
