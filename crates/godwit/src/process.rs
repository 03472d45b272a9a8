//! What the operating system knows and gives: signals, clock, randomness, memory use.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::rand::{GetRandomFlags, getrandom};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{SigId, flag, low_level};

use crate::exit::Exit;
use crate::failure::Failure;

/// A clean end saves the next start some work, but nothing that is durable depends on it: after this
/// long the process ends as it is. A disk may be slow to sync, and a command may not look at the flag.
const STOP_GRACE: Duration = Duration::from_secs(4);

/// Set by the first SIGINT or SIGTERM. The second, or [`STOP_GRACE`] after the first, ends the process
/// at once.
#[derive(Clone)]
pub(crate) struct StopFlag {
    flag: Arc<AtomicBool>,
}

impl StopFlag {
    pub(crate) fn install() -> Result<Self, Failure> {
        let stop = Self::caught(false, &[SIGINT, SIGTERM])?;
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Failure::Signals)?;
        let end_late = move || {
            if signals.forever().next().is_some() {
                thread::sleep(STOP_GRACE);
                log::warn!("Still not stopped after {} s; ending.", STOP_GRACE.as_secs());
                low_level::exit(Exit::Interrupted.code().into());
            }
        };
        let thread = thread::Builder::new().name("godwit-signals".into()).spawn(end_late);
        thread.map_err(Failure::Signals)?;
        Ok(stop)
    }

    /// For commands that only read, or whose work is lost when it is not complete: the first signal
    /// ends the process.
    pub(crate) fn end_at_once() -> Result<Self, Failure> {
        let stop = Self::caught(true, &ENDING)?;
        let first = ENDS_AT_ONCE.set(Arc::clone(&stop.flag));
        debug_assert!(first.is_ok(), "a process runs one command");
        Ok(stop)
    }

    /// A flag that each signal sets, and that makes the next one end the process.
    fn caught(initially: bool, signals: &[i32]) -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(initially));
        for &signal in signals {
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

/// What ends a program from outside.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
/// The flag of [`StopFlag::end_at_once`].
static ENDS_AT_ONCE: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// While it lives, the first signal does not end a process that otherwise ends at once; it can be read
/// here that one arrived.
pub(crate) struct HeldSignals {
    arrived: UnixStream,
    handlers: Vec<SigId>,
}

impl HeldSignals {
    pub(crate) fn begin() -> io::Result<Self> {
        let (arrived, sender) = UnixStream::pair()?;
        let mut held = Self { arrived, handlers: Vec::new() };
        for signal in ENDING {
            held.handlers.push(low_level::pipe::register(signal, sender.try_clone()?)?);
        }
        end_at_once(false);
        Ok(held)
    }
}

impl AsFd for HeldSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.arrived.as_fd()
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        end_at_once(true);
        for handler in self.handlers.drain(..) {
            low_level::unregister(handler);
        }
    }
}

fn end_at_once(now: bool) {
    if let Some(flag) = ENDS_AT_ONCE.get() {
        flag.store(now, Ordering::SeqCst);
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
