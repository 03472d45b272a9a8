//! `early-writing`: what writing coins early costs an import.

use std::process::ExitCode;

fn main() -> ExitCode {
    godwit_bench::early_writing::main()
}
