//! `sync-vs-core`: the time of godwit and of bitcoind to download and validate a chain from the same
//! peers, which are bitcoinds.

use std::process::ExitCode;

use godwit_bench::intake::Intake;

fn main() -> ExitCode {
    godwit_bench::main(Intake::Sync)
}
