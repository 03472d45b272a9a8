//! Random bytes of the operating system, written to where they are wanted.
//!
//! `unsafe` is here for the system call.

#![allow(unsafe_code)]

use std::error::Error;
use std::fmt;
use std::io;

use crate::error::LockError;

/// Why there is no random secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomError {
    /// There is no memory for it.
    Memory(LockError),
    /// `getrandom` failed, with this `errno`.
    Source(i32),
}

impl fmt::Display for RandomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Source(errno) => {
                let error = io::Error::from_raw_os_error(*errno);
                write!(f, "the operating system gives no random bytes ({error})")
            }
        }
    }
}

impl Error for RandomError {}

impl From<LockError> for RandomError {
    fn from(error: LockError) -> Self {
        Self::Memory(error)
    }
}

/// Fills `target` from `getrandom(2)`, waiting for the system's pool at boot; no copy is made on the
/// way.
pub(crate) fn fill_random(target: &mut [u8]) -> Result<(), RandomError> {
    let mut filled = 0;
    while filled < target.len() {
        let rest = &mut target[filled..];
        // SAFETY: the kernel writes at most `rest.len()` bytes to `rest`.
        let count = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(count) {
            Ok(count) => filled += count,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(RandomError::Source(error.raw_os_error().unwrap_or(0)));
                }
            }
        }
    }
    Ok(())
}
