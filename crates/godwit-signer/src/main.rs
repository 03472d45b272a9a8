//! The `godwit-signer` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    godwit_signer::run::main(std::env::args_os().skip(1)).into()
}
