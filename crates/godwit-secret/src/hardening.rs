//! A process that holds keys: leaves no core dump and cannot be traced.
//!
//! `unsafe` is here for the system calls.

#![allow(unsafe_code)]

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

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

/// The outcome of [`harden_process`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "what could not be had belongs into the program's log"]
pub enum Hardened {
    /// No core dumps, and no tracing.
    Fully,
    /// Not all of that, for these reasons, which [`allow_unlocked_secrets`](crate::allow_unlocked_secrets)
    /// accepts. The program has to say so in its log.
    Partly(Vec<HardeningError>),
}

impl fmt::Display for Hardened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fully => f.write_str("core dumps and tracing are turned off"),
            Self::Partly(errors) => {
                f.write_str("others may read the keys of this process: ")?;
                for (index, error) in errors.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { ", " })?;
                    error.write_reason(f)?;
                }
                f.write_str("; accepted with -allowunlockedsecrets")
            }
        }
    }
}

impl fmt::Display for HardeningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this process may not hold keys: ")?;
        self.write_reason(f)?;
        f.write_str("; -allowunlockedsecrets accepts that")
    }
}

impl HardeningError {
    fn write_reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let os = |errno: &i32| io::Error::from_raw_os_error(*errno);
        match self {
            Self::CoreLimit { errno } => {
                write!(f, "core dumps cannot be turned off with RLIMIT_CORE ({})", os(errno))
            }
            Self::Dumpable { errno } => {
                write!(f, "tracing cannot be turned off with PR_SET_DUMPABLE ({})", os(errno))
            }
            Self::Traced { pid } => write!(f, "process {pid} traces it"),
            Self::TracerUnknown => {
                f.write_str("/proc/self/task does not tell whether it is traced")
            }
        }
    }
}

impl Error for HardeningError {}

/// Turns core dumps off (RLIMIT_CORE 0) and makes the process untraceable by other processes of its user
/// (PR_SET_DUMPABLE 0), for good. Called before the first secret.
///
/// All parts are tried in any case. The first failure is returned as an error, unless
/// [`allow_unlocked_secrets`](crate::allow_unlocked_secrets) was called.
///
/// Programs started from this one are not hardened. If this program changes its user id, it may no longer be
/// hardened either: the system decides what becomes of PR_SET_DUMPABLE then.
pub fn harden_process() -> Result<Hardened, HardeningError> {
    let outcome = [forbid_core_dumps(), forbid_tracing(), find_tracer()];
    let errors: Vec<_> = outcome.into_iter().filter_map(Result::err).collect();
    match errors.first() {
        None => Ok(Hardened::Fully),
        Some(_) if unlocked_secrets_allowed() => Ok(Hardened::Partly(errors)),
        Some(first) => Err(*first),
    }
}

/// Has the process's signals handled by its other threads for as long as this thread lives. A handler on this
/// thread would put the registers, and with them parts of a key, on its stack, perhaps behind the part that
/// is wiped after each operation. Threads started from this one take no signals either.
///
/// Signals for faults of the thread itself stay as they are: a process whose thread blocks these would end
/// silently.
pub fn leave_signals_to_other_threads() -> io::Result<()> {
    const OF_FAULTS: [libc::c_int; 7] = [
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGSEGV,
        libc::SIGSYS,
        libc::SIGTRAP,
    ];
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set, and the others take an initialised one; the calls differ
    // in nothing else from ones with integers.
    let error = unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for signal in OF_FAULTS {
            libc::sigdelset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut())
    };
    match error {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
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

/// This also keeps a core dump from being piped to a program: RLIMIT_CORE does not prevent that.
fn forbid_tracing() -> Result<(), HardeningError> {
    // SAFETY: this option takes an integer and touches no memory.
    match unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0 as libc::c_ulong) } {
        0 => Ok(()),
        _ => Err(HardeningError::Dumpable { errno: errno() }),
    }
}

/// Finds a tracer that was there before, which stays. Tracing is per thread, and a tracer of any thread can
/// read the memory.
fn find_tracer() -> Result<(), HardeningError> {
    let mut seen = false;
    for thread in fs::read_dir("/proc/self/task").map_err(|_| HardeningError::TracerUnknown)? {
        let thread = thread.map_err(|_| HardeningError::TracerUnknown)?;
        match fs::read_to_string(thread.path().join("status")) {
            Ok(status) => tracer_in(&status)?,
            Err(error) if has_ended(&error) => continue,
            Err(_) => return Err(HardeningError::TracerUnknown),
        }
        seen = true;
    }
    seen.then_some(()).ok_or(HardeningError::TracerUnknown)
}

/// Whether reading about a thread failed because it has ended.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

fn tracer_in(status: &str) -> Result<(), HardeningError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_without_a_tracer_line_is_not_trusted() {
        assert_eq!(tracer_in("Name:\tx\nTracerPid:\t0\n"), Ok(()));
        assert_eq!(tracer_in("TracerPid:\t71\n"), Err(HardeningError::Traced { pid: 71 }));
        for status in ["", "Pid:\t1\n", "TracerPid:\t\n", "TracerPid:\tx\n"] {
            assert_eq!(tracer_in(status), Err(HardeningError::TracerUnknown));
        }
    }

    /// The signals that this thread blocks, a bit each, from 1.
    fn blocked() -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").expect("of this thread");
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        u64::from_str_radix(line.expect("a line").trim(), 16).expect("hexadecimal digits")
    }

    #[test]
    fn a_thread_leaves_all_signals_but_its_own_faults_to_others() {
        let has = |set: u64, signal: libc::c_int| set >> (signal - 1) & 1 == 1;
        let thread = std::thread::spawn(|| {
            leave_signals_to_other_threads().expect("the system allows it");
            (blocked(), std::thread::spawn(blocked).join().expect("a thread"))
        });
        let (own, below) = thread.join().expect("a thread");
        assert_eq!(own, below);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1] {
            assert!(has(own, signal) && !has(blocked(), signal), "{signal}");
        }
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGFPE] {
            assert!(!has(own, signal), "{signal}");
        }
    }

    #[test]
    fn what_was_accepted_is_named() {
        let errors = vec![
            HardeningError::Dumpable { errno: libc::EPERM },
            HardeningError::Traced { pid: 71 },
        ];
        let text = Hardened::Partly(errors).to_string();
        for part in ["PR_SET_DUMPABLE", "Operation not permitted", ", process 71 traces it;"] {
            assert!(text.contains(part), "{part:?} in {text:?}");
        }
        assert!(!text.contains("may not hold"), "{text:?}");
    }
}
