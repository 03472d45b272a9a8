//! `core-policies`: what wiping freed memory costs Bitcoin Core over a whole sync and in the pull
//! request's benchmarks.

use std::process::ExitCode;

fn main() -> ExitCode {
    godwit_bench::core_policies::main(std::env::args_os().skip(1))
}
