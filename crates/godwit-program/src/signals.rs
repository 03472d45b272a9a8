//! Signals that end a program.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::{SigId, flag, low_level};

use crate::exit::Exit;

/// How long a stopping program may take before it is ended. A clean end only saves the next start
/// some work: nothing durable depends on it, while a disk can be slow to sync and a command may not
/// look at the flag. A node writes its coins within 5 seconds, on a disk that is as fast as it was before.
const STOP_GRACE: Duration = Duration::from_secs(8);

/// Set by the first SIGINT or SIGTERM. The second, or [`STOP_GRACE`] after the first, ends the process
/// at once.
#[derive(Clone)]
pub struct StopFlag {
    flag: Arc<AtomicBool>,
}

impl StopFlag {
    /// For work that can be interrupted and continued later.
    ///
    /// # Errors
    ///
    /// When the system refuses to install a handler; likewise in [`StopFlag::end_at_once`].
    pub fn install() -> io::Result<Self> {
        let flag = caught(false, &[SIGINT, SIGTERM])?;
        have_writes_fail()?;
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let end_late = move || {
            if signals.forever().next().is_some() {
                thread::sleep(STOP_GRACE);
                log::warn!("Still not stopped after {} s; ending.", STOP_GRACE.as_secs());
                log::logger().flush();
                low_level::exit(Exit::Interrupted.code().into());
            }
        };
        thread::Builder::new().name("godwit-signals".into()).spawn(end_late)?;
        Ok(Self { flag })
    }

    /// For commands that only read, or whose incomplete work is worth nothing: the first signal
    /// ends the process. The flag is never set.
    pub fn end_at_once() -> io::Result<Self> {
        let first = ENDS_AT_ONCE.set(caught(true, &ENDING)?);
        have_writes_fail()?;
        debug_assert!(first.is_ok(), "a process runs one command");
        Ok(Self { flag: Arc::default() })
    }

    /// Whether a signal has arrived.
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// The flag itself, for code that knows nothing of signals.
    pub fn shared(&self) -> &Arc<AtomicBool> {
        &self.flag
    }
}

/// A flag that a signal sets; while it is set, a signal ends the process.
fn caught(initially: bool, signals: &[i32]) -> io::Result<Arc<AtomicBool>> {
    let caught = Arc::new(AtomicBool::new(initially));
    for &signal in signals {
        let code = i32::from(Exit::Interrupted.code());
        flag::register_conditional_shutdown(signal, code, Arc::clone(&caught))?;
        flag::register(signal, Arc::clone(&caught))?;
    }
    Ok(caught)
}

/// Has a write beyond the limit of a file's size fail like others, with a line that says so. By default it
/// ends the process.
fn have_writes_fail() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Signals that end a program from outside.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
/// Set while the first signal ends a process for which [`StopFlag::end_at_once`] was called.
static ENDS_AT_ONCE: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// While it lives, the first signal does not end a process that otherwise ends at once: its file
/// descriptor becomes readable instead. So a prompt can restore the terminal before it gives up.
pub struct HeldSignals {
    arrived: UnixStream,
    handlers: Vec<SigId>,
}

impl HeldSignals {
    /// # Errors
    ///
    /// When the system refuses a handler or a socket pair.
    pub fn begin() -> io::Result<Self> {
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
