//! `cold-vs-core`: blocks whose coins are not in memory, on the same coins with the same limit of memory.

use std::process::ExitCode;

fn main() -> ExitCode {
    godwit_bench::cold::main()
}
