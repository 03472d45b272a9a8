//! The `godwit` program.

use std::process::ExitCode;

#[cfg(not(feature = "count-wipes"))]
fn main() -> ExitCode {
    godwit::run::main().into()
}

#[cfg(feature = "count-wipes")]
fn main() -> ExitCode {
    godwit::wipes::count(godwit::run::main).into()
}
