//! `import-vs-core`: the time of `godwit import` against `bitcoind -loadblock` on the same blocks.

use std::process::ExitCode;

use godwit_bench::kind::Kind;

fn main() -> ExitCode {
    godwit_bench::main(Kind::Import)
}
