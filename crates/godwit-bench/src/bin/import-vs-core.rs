//! `import-vs-core`: the time of `godwit import` against `bitcoind -loadblock` on the same blocks.

use std::process::ExitCode;

use godwit_bench::arguments::{Arguments, USAGE};
use godwit_bench::contest;

fn main() -> ExitCode {
    let Some(arguments) = Arguments::parse(std::env::args_os().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match contest::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("import-vs-core: {failure}");
            ExitCode::FAILURE
        }
    }
}
