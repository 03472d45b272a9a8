//! What a panic of any thread does: one line on standard error, and exit code 70.
//!
//! A job of several threads ends at once, as by a kill, whichever of them panics: the others wait for
//! what the one was to do, and unwinding would wait for them. Nothing that is durable depends on an
//! orderly end (`ARCHITECTURE.md`, "Commit and recovery"). A hook sees to it, not the threads
//! themselves, so that no thread can be forgotten, whoever starts it.
//!
//! A program with keys has one thread, which unwinds: secrets are wiped and the terminal shows again
//! what is typed. The libraries end nobody's process: there a panic is an error of those that wait.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::panic::{self, PanicHookInfo, UnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::low_level;

use crate::escape::Escaped;
use crate::exit::Exit;

/// Characters of a panic's message that are shown: it may quote what a peer has sent.
const MAX_MESSAGE: usize = 1_000;

/// Runs `main` of the program called `program`; a panic unwinds and ends as [`Exit::Bug`].
pub fn unwinding(program: &'static str, main: impl FnOnce() -> Exit + UnwindSafe) -> Exit {
    panic::set_hook(Box::new(move |info| report(program, info)));
    // The hook has said what there is to say.
    panic::catch_unwind(main).unwrap_or(Exit::Bug)
}

/// From now on a panic of any thread ends the process of the program called `program` at once, unless
/// `is_expected` says that the panicking thread catches it and takes it for an error.
pub fn end_at_once(program: &'static str, is_expected: fn() -> bool) {
    static ENDING: AtomicBool = AtomicBool::new(false);
    panic::set_hook(Box::new(move |info| {
        if is_expected() {
            return;
        }
        if ENDING.swap(true, Ordering::SeqCst) {
            // Another thread was first. What this one met may come of that.
            loop {
                thread::park();
            }
        }
        report(program, info);
        low_level::exit(Exit::Bug.code().into());
    }));
}

/// Writes the line, and the backtrace where `RUST_BACKTRACE` asks for one. Not through the log, whose
/// locks the panicking thread may hold.
fn report(program: &str, info: &PanicHookInfo<'_>) {
    let mut text = line(program, info);
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        text.push_str(&backtrace.to_string());
    }
    // Without standard error there is nobody to tell; the exit code is left.
    drop(io::stderr().write_all(text.as_bytes()));
}

fn line(program: &str, info: &PanicHookInfo<'_>) -> String {
    let current = thread::current();
    let thread = current.name().unwrap_or("without a name");
    let place = info.location().map_or(String::new(), |place| format!(" at {place}"));
    let message: String =
        info.payload_as_str().unwrap_or("no message").chars().take(MAX_MESSAGE).collect();
    let message = message.replace('\n', " ");
    format!("{program}: a bug: thread {thread} panicked{place}: {}\n", Escaped(&message))
}
