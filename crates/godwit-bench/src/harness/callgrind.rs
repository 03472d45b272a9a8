//! Instructions counted by valgrind, where the processor's own counters are out of reach.
//!
//! A program that runs a subject `n` times is run twice, with `n` and with `2 n` iterations, and valgrind
//! counts only inside [`repeat`]. The difference of the two excludes what the first iterations do besides.
//!
//! Valgrind's processor is not the machine's: it knows AVX2 and neither AVX-512 nor the SHA
//! extensions, so programs that choose at run time take other paths there.

use std::fmt;
use std::io;
use std::process::Command;

use super::Subject;

/// Why there is no count.
#[derive(Debug)]
pub enum CallgrindError {
    /// Valgrind is not installed or does not start.
    Start(io::Error),
    /// The program failed under it, or no total was printed.
    NoTotal,
}

impl fmt::Display for CallgrindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => write!(f, "valgrind: {error}"),
            Self::NoTotal => f.write_str("valgrind did not print a count of instructions"),
        }
    }
}

impl std::error::Error for CallgrindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start(error) => Some(error),
            Self::NoTotal => None,
        }
    }
}

/// Runs a subject so many times, in a function that valgrind finds by its name.
#[inline(never)]
pub fn repeat(subject: &mut Subject, iterations: u64) {
    for _ in 0..iterations {
        (subject.body)();
    }
}

/// Whether valgrind can be started.
pub fn is_installed() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Instructions of one iteration. `command` gives the program's path and arguments for a number of
/// iterations.
///
/// # Errors
///
/// See [`CallgrindError`].
pub fn instructions(
    iterations: u64,
    command: impl Fn(u64) -> Vec<std::ffi::OsString>,
) -> Result<f64, CallgrindError> {
    let once = total(&command(iterations))?;
    let twice = total(&command(2 * iterations))?;
    Ok(twice.saturating_sub(once) as f64 / iterations as f64)
}

fn total(program: &[std::ffi::OsString]) -> Result<u64, CallgrindError> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg("--toggle-collect=*callgrind*repeat*").args(program);
    let output = command.output().map_err(CallgrindError::Start)?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => total_in(&said).ok_or(CallgrindError::NoTotal),
        false => Err(CallgrindError::NoTotal),
    }
}

/// The number in valgrind's line `==PID== Collected : N`.
fn total_in(said: &str) -> Option<u64> {
    let after = said.lines().rev().find_map(|line| line.split_once("Collected :"))?.1;
    after.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read() {
        let said = "==1== Callgrind\n==1== Events    : Ir\n==1== Collected : 2470123\n==1== \n";
        assert_eq!(total_in(said), Some(2_470_123));
        assert_eq!(total_in("==1== Collected : \n"), None);
        assert_eq!(total_in(""), None);
    }
}
