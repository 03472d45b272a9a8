//! Exit codes of the programs.

use std::io;
use std::process::ExitCode;

/// Exit codes. bitcoind knows only 0 and 1; the others tell a supervisor what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The work is done.
    Success,
    /// The work is not done, for none of the reasons below.
    Failure,
    /// The work is done, but some of the input was refused; the log says what and why.
    InputRefused,
    /// The command line or `godwit.conf` is wrong. Nothing was touched.
    Configuration,
    /// The disk is full. What was stored stays.
    DiskFull,
    /// Stored data is damaged in a way that godwit cannot repair by itself.
    Damaged,
    /// The data directory is missing, another process uses it, or it belongs to another network.
    DatadirUnusable,
    /// A signal stopped the work before its end. What was stored stays; the same command continues
    /// it. A node, whose regular end is a signal, exits with success; with this only after a second
    /// signal, or when it has not stopped within eight seconds of the first (`signals.rs`).
    Interrupted,
    /// An address or port to listen on is taken, or is not this machine's.
    CannotListen,
    /// A bug in godwit.
    Bug,
}

impl Exit {
    /// Of a file or standard output that cannot be written: `otherwise`, where the disk has room and the
    /// user's quota.
    pub fn of_write(error: &io::Error, otherwise: Self) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => otherwise,
        }
    }

    /// By rising code.
    pub const ALL: [Exit; 10] = [
        Exit::Success,
        Exit::Failure,
        Exit::InputRefused,
        Exit::Configuration,
        Exit::DiskFull,
        Exit::Damaged,
        Exit::DatadirUnusable,
        Exit::Interrupted,
        Exit::CannotListen,
        Exit::Bug,
    ];

    /// The code that the shell sees.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::InputRefused => 2,
            Exit::Configuration => 3,
            Exit::DiskFull => 4,
            Exit::Damaged => 5,
            Exit::DatadirUnusable => 6,
            Exit::Interrupted => 7,
            Exit::CannotListen => 8,
            // EX_SOFTWARE of sysexits.h.
            Exit::Bug => 70,
        }
    }

    /// One line for the help.
    pub const fn meaning(self) -> &'static str {
        match self {
            Exit::Success => "done",
            Exit::Failure => "not done: the message says why",
            Exit::InputRefused => "done, but some of the input was refused",
            Exit::Configuration => "the command line or godwit.conf is wrong",
            Exit::DiskFull => "the disk is full; what was stored stays",
            Exit::Damaged => "stored data is damaged beyond what godwit can repair",
            Exit::DatadirUnusable => {
                "the data directory is missing, in use, or not one of this network"
            }
            Exit::Interrupted => "stopped by a signal; the same command continues",
            Exit::CannotListen => "the address or port to listen on is taken or not ours",
            Exit::Bug => "a bug in godwit; what was stored stays",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_rising() {
        let codes = Exit::ALL.map(Exit::code);
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
    }

    #[test]
    fn a_quota_that_is_used_up_is_a_full_disk() {
        let exit = |kind: io::ErrorKind| Exit::of_write(&kind.into(), Exit::DatadirUnusable);
        assert_eq!(exit(io::ErrorKind::StorageFull), Exit::DiskFull);
        assert_eq!(exit(io::ErrorKind::QuotaExceeded), Exit::DiskFull);
        assert_eq!(exit(io::ErrorKind::PermissionDenied), Exit::DatadirUnusable);
    }
}
