//! What every program of godwit begins and ends with: the command line and `godwit.conf`, signals,
//! results on standard output and exit codes.
//!
//! The tables of commands and options belong to each [`options::Program`]; what reads them is here.

mod clock;
mod escape;
mod exit;
pub mod options;
mod output;
pub mod panics;
mod signals;

use rustix::fs::Mode;

pub use clock::seconds_since_1970;
pub use escape::Escaped;
pub use exit::Exit;
pub use output::{OutputError, print_json, print_text};
pub use signals::{HeldSignals, StopFlag};

/// What a program writes from now on is its owner's alone, whatever the shell's umask says.
pub fn write_for_owner_only() {
    rustix::process::umask(Mode::from_raw_mode(0o077));
}
