//! The pull request's benchmarks, explained, on this machine.

use std::process::ExitCode;

fn main() -> ExitCode {
    godwit_bench::command::main()
}
