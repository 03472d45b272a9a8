//! `core-settings`: which options make bitcoind fastest on the benchmark's chain.

use std::process::ExitCode;

fn main() -> ExitCode {
    godwit_bench::settings::main()
}
