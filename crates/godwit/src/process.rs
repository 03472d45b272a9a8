//! What the operating system knows and gives: signals, clock, randomness, memory use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::rand::{GetRandomFlags, getrandom};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;
use crate::failure::Failure;

/// Set by the first SIGINT or SIGTERM. The second ends the process at once: nothing that is durable
/// depends on a clean end.
#[derive(Clone)]
pub(crate) struct StopFlag {
    flag: Arc<AtomicBool>,
}

impl StopFlag {
    pub(crate) fn install() -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            let code = i32::from(Exit::Interrupted.code());
            flag::register_conditional_shutdown(signal, code, Arc::clone(&stop))
                .map_err(Failure::Signals)?;
            flag::register(signal, Arc::clone(&stop)).map_err(Failure::Signals)?;
        }
        Ok(Self { flag: stop })
    }

    pub(crate) fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    pub(crate) fn shared(&self) -> &Arc<AtomicBool> {
        &self.flag
    }
}

/// The clock, in seconds since 1970; 0 before that.
pub(crate) fn seconds_since_1970() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// Sixteen bytes from the operating system.
pub(crate) fn random_bytes() -> Result<[u8; 16], Failure> {
    let mut bytes = [0; 16];
    // The kernel never gives fewer than asked for up to 256 bytes, once it is seeded.
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|errno| Failure::Entropy(errno.into()))?;
    Ok(bytes)
}

/// The most memory that the process ever had resident, in bytes, where the system says.
pub(crate) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
