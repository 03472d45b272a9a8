//! Errors of memory that cannot be kept from the disk, and the one way to accept such memory.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static UNLOCKED_ALLOWED: AtomicBool = AtomicBool::new(false);

/// Accepts, for the rest of the process, secrets in memory that may reach a swap file or a core dump,
/// and keys in a process that can be traced (option `-allowunlockedsecrets`).
///
/// Locking and hardening are still tried, but their failure is no longer an error.
pub fn allow_unlocked_secrets() {
    UNLOCKED_ALLOWED.store(true, Ordering::Relaxed);
}

/// Whether [`allow_unlocked_secrets`] was called.
pub(crate) fn unlocked_secrets_allowed() -> bool {
    UNLOCKED_ALLOWED.load(Ordering::Relaxed)
}

/// Why there is no memory for a secret. Numbers with `errno` are the operating system's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockError {
    /// The system refuses to lock more memory.
    Limit {
        /// What the process would have locked in all, in bytes.
        needed: u64,
        /// RLIMIT_MEMLOCK in bytes; `None` when it has no bound or cannot be read.
        limit: Option<u64>,
        /// Of `mlock`.
        errno: i32,
    },
    /// The system refuses to keep memory out of core dumps, or to wipe it in a forked child.
    Exclude {
        /// The advice to `madvise`.
        advice: &'static str,
        /// Of `madvise`.
        errno: i32,
    },
    /// The system gives no memory.
    Map {
        /// What was asked for, in bytes.
        bytes: usize,
        /// Of `mmap` or `mprotect`.
        errno: i32,
    },
}

/// The least value that error messages propose for RLIMIT_MEMLOCK, which is the default of Linux and systemd.
/// If the limit were just what one allocation needs, the next one would fail: each operation on secrets also
/// has a locked stack.
const COMFORTABLE: u64 = 8 << 20;

/// How to go on without locked memory.
const WAY_PAST: &str = "or accept secrets in memory that is not locked with -allowunlockedsecrets";

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let os = |errno: &i32| io::Error::from_raw_os_error(*errno);
        match self {
            Self::Limit { needed, limit: Some(limit), errno } if needed > limit => {
                let proposed = needed.div_ceil(1 << 20).saturating_mul(1 << 20).max(COMFORTABLE);
                write!(
                    f,
                    "cannot lock memory for secrets: the limit RLIMIT_MEMLOCK is {limit} bytes and \
                     {needed} are needed ({}); raise it (`ulimit -l {}`, LimitMEMLOCK={proposed} in a \
                     systemd unit, as root), {WAY_PAST}",
                    os(errno),
                    proposed / 1024,
                )
            }
            Self::Limit { needed, errno, .. } => write!(
                f,
                "cannot lock memory for secrets, {needed} bytes in all ({}): raise the limit of locked \
                 memory (RLIMIT_MEMLOCK, `ulimit -l`) or permit mlock, {WAY_PAST}",
                os(errno),
            ),
            Self::Exclude { advice, errno } => write!(
                f,
                "cannot protect memory for secrets: madvise({advice}) failed ({}); use a kernel that \
                 has it, {WAY_PAST}",
                os(errno),
            ),
            Self::Map { bytes, errno } => {
                write!(f, "no memory for secrets, {bytes} bytes wanted ({})", os(errno))
            }
        }
    }
}

impl Error for LockError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_with_what_it_is_and_what_it_must_be() {
        let error = LockError::Limit { needed: 262_144, limit: Some(65_536), errno: libc::ENOMEM };
        let text = error.to_string();
        for part in ["RLIMIT_MEMLOCK is 65536 bytes", "262144 are needed", "ulimit -l 8192`"] {
            assert!(text.contains(part), "{part:?} in {text:?}");
        }
        assert!(text.ends_with("with -allowunlockedsecrets"));
    }

    #[test]
    fn what_is_proposed_is_enough() {
        for (needed, proposed) in
            [(4096, 8 << 20), (8 << 20, 8 << 20), ((8 << 20) + 1, 9 << 20), (u64::MAX, u64::MAX)]
        {
            let text = LockError::Limit { needed, limit: Some(0), errno: libc::EPERM }.to_string();
            assert!(text.contains(&format!("LimitMEMLOCK={proposed} ")), "{text:?}");
        }
    }

    #[test]
    fn a_refusal_within_the_limit_does_not_blame_its_size() {
        let error = LockError::Limit { needed: 4096, limit: Some(65_536), errno: libc::EPERM };
        let text = error.to_string();
        assert!(text.contains("4096 bytes in all") && text.contains("permit mlock"), "{text:?}");
        assert!(!text.contains("65536"), "{text:?}");
    }
}
