//! The start and end that all programs of godwit share: reading the command line and `godwit.conf`, signals,
//! results on standard output, exit codes.
//!
//! Each [`options::Program`] brings its own tables of commands and options; this crate reads them.

mod clock;
mod escape;
mod exit;
mod manual;
pub mod options;
mod output;
pub mod panics;
mod signals;

use rustix::fs::Mode;

pub use clock::seconds_since_1970;
pub use escape::Escaped;
pub use exit::Exit;
pub use manual::{Line, Manual};
pub use output::{OutputError, check_that_output_is_open, complain, print_json, print_text, show};
pub use signals::{HeldSignals, StopFlag};

/// Sets the umask so that only the owner can read what the program writes, whatever the shell's
/// umask was.
pub fn write_for_owner_only() {
    rustix::process::umask(Mode::from_raw_mode(0o077));
}
