//! `import-vs-core`: the time of `godwit import` against `bitcoind -loadblock` on the same blocks.

use std::process::ExitCode;

use godwit_bench::intake::Intake;

fn main() -> ExitCode {
    godwit_bench::main(Intake::Import)
}
