//! A process that holds keys: leaves no core dump and cannot be traced.
//!
//! `unsafe` is here for the system calls.

#![allow(unsafe_code)]

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;

use crate::error::unlocked_secrets_allowed;

/// Why the process may not hold keys. Numbers with `errno` are the operating system's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardeningError {
    /// The size of core dumps cannot be limited to 0.
    CoreLimit {
        /// Of `setrlimit`.
        errno: i32,
    },
    /// The process cannot be made undumpable.
    Dumpable {
        /// Of `prctl`.
        errno: i32,
    },
    /// Another process traces this one.
    Traced {
        /// The tracer.
        pid: u32,
    },
    /// The system does not tell whether another process traces this one.
    TracerUnknown,
}

impl fmt::Display for HardeningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let os = |errno: &i32| io::Error::from_raw_os_error(*errno);
        f.write_str("this process may not hold keys: ")?;
        match self {
            Self::CoreLimit { errno } => {
                write!(f, "core dumps cannot be turned off with RLIMIT_CORE ({})", os(errno))
            }
            Self::Dumpable { errno } => {
                write!(f, "tracing cannot be turned off with PR_SET_DUMPABLE ({})", os(errno))
            }
            Self::Traced { pid } => write!(f, "process {pid} traces it"),
            Self::TracerUnknown => {
                f.write_str("/proc/self/status does not tell whether it is traced")
            }
        }?;
        f.write_str("; -allowunlockedsecrets accepts that")
    }
}

impl Error for HardeningError {}

/// Turns core dumps off (RLIMIT_CORE 0) and makes the process untraceable by other processes of its user
/// (PR_SET_DUMPABLE 0), for good. Called before the first secret.
///
/// After [`allow_unlocked_secrets`](crate::allow_unlocked_secrets) it does what it can and is no error.
/// A program that is started from here is not hardened, and one that changes its user id is not any
/// more either way: what PR_SET_DUMPABLE says then is up to the system.
pub fn harden_process() -> Result<(), HardeningError> {
    let outcome = [forbid_core_dumps(), forbid_tracing(), find_tracer()];
    match outcome.into_iter().collect() {
        Err(_) if unlocked_secrets_allowed() => Ok(()),
        outcome => outcome,
    }
}

fn forbid_core_dumps() -> Result<(), HardeningError> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads one `rlimit`.
    match unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) } {
        0 => Ok(()),
        _ => Err(HardeningError::CoreLimit { errno: errno() }),
    }
}

/// Also keeps a core dump from being piped to a program, for which RLIMIT_CORE does not hold.
fn forbid_tracing() -> Result<(), HardeningError> {
    // SAFETY: this option takes an integer and touches no memory.
    match unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0 as libc::c_ulong) } {
        0 => Ok(()),
        _ => Err(HardeningError::Dumpable { errno: errno() }),
    }
}

/// A tracer that was there before stays.
fn find_tracer() -> Result<(), HardeningError> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    match line.and_then(|pid| pid.trim().parse().ok()) {
        Some(0) => Ok(()),
        Some(pid) => Err(HardeningError::Traced { pid }),
        None => Err(HardeningError::TracerUnknown),
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
