//! What the operating system provides: clock, random bytes, memory use.

use std::fmt;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

pub(crate) use godwit_program::{StopFlag, seconds_since_1970};

/// The system gave no random bytes.
#[derive(Debug)]
pub(crate) struct EntropyError(io::Error);

impl fmt::Display for EntropyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the system gives no random bytes: {}", self.0)
    }
}

/// Sixteen bytes from the operating system.
pub(crate) fn random_bytes() -> Result<[u8; 16], EntropyError> {
    let mut bytes = [0; 16];
    // Up to 256 bytes, the kernel never returns fewer than asked for once it is seeded.
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|errno| EntropyError(errno.into()))?;
    Ok(bytes)
}

/// Peak resident memory of the process, in bytes; `None` where the system does not tell.
pub(crate) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
