//! The `godwit-cli` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    godwit_cli::run(std::env::args_os().skip(1)).into()
}
