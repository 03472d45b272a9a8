//! `ibd-policies`: what wiping freed memory costs godwit over a whole sync, and where it happens.

use std::process::ExitCode;

fn main() -> ExitCode {
    godwit_bench::ibd::main(std::env::args_os().skip(1))
}
