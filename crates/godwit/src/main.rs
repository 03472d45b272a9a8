//! The `godwit` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    godwit::run::main().into()
}
