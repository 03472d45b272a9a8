//! What a panic of any thread does: one line on standard error, and exit code 70.
//!
//! A program with several threads ends at once, as if killed, when any of them panics; only the
//! queued log lines are written first, for a moment. The other threads would wait for work that is
//! never done, and unwinding would wait for those threads. Nothing durable depends on an orderly
//! end (`ARCHITECTURE.md`, "Commit and recovery"). A panic hook does it rather than the threads, so
//! that no thread can be forgotten, including those that libraries start.
//!
//! The program with keys has one thread, which unwinds, so that secrets are wiped and the terminal
//! echoes again. Libraries never end the process: to their callers, a worker's panic is an error.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::panic::{self, PanicHookInfo, UnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::low_level;

use crate::escape::Escaped;
use crate::exit::Exit;

/// Longest wait for the log's last lines.
const LOG_WAIT: Duration = Duration::from_secs(2);

/// Most characters of a panic's message that are shown: it may quote what a peer sent.
const MAX_MESSAGE: usize = 1_000;

/// Runs `main` of the program called `program`; a panic unwinds and ends as [`Exit::Bug`].
pub fn unwinding(program: &'static str, main: impl FnOnce() -> Exit + UnwindSafe) -> Exit {
    panic::set_hook(Box::new(move |info| report(program, info)));
    // The hook has reported it already.
    panic::catch_unwind(main).unwrap_or(Exit::Bug)
}

/// Makes a panic of any thread end the process at once, with one line that begins with the name
/// `program`. `is_expected` runs on the panicking thread: true if the thread catches the panic and
/// treats it as an error.
pub fn end_at_once(program: &'static str, is_expected: fn() -> bool) {
    static ENDING: AtomicBool = AtomicBool::new(false);
    panic::set_hook(Box::new(move |info| {
        if is_expected() {
            return;
        }
        if ENDING.swap(true, Ordering::SeqCst) {
            // Another thread panicked first; this panic may be a consequence of that one.
            loop {
                thread::park();
            }
        }
        report(program, info);
        flush_log();
        low_level::exit(Exit::Bug.code().into());
    }));
}

/// Writes the queued log lines, which may explain the panic, and gives up after [`LOG_WAIT`]. A
/// thread of its own does it, and the wait is counted in pauses, because the panicking thread may
/// hold locks that a flush needs and may be unable even to read the clock.
fn flush_log() {
    let flush = || log::logger().flush();
    let Ok(thread) = thread::Builder::new().name("godwit-flush-log".into()).spawn(flush) else {
        return;
    };
    let pause = Duration::from_millis(10);
    let mut left = LOG_WAIT.as_millis() / pause.as_millis();
    while left > 0 && !thread.is_finished() {
        thread::sleep(pause);
        left -= 1;
    }
}

/// Writes the line, and a backtrace where `RUST_BACKTRACE` asks for one. Not through the log: the
/// panicking thread may hold its locks.
fn report(program: &str, info: &PanicHookInfo<'_>) {
    let mut text = line(program, info);
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        text.push_str(&backtrace.to_string());
    }
    // Where standard error is closed, the exit code still tells what happened.
    drop(io::stderr().write_all(text.as_bytes()));
}

fn line(program: &str, info: &PanicHookInfo<'_>) -> String {
    let current = thread::current();
    let thread = current.name().unwrap_or("without a name");
    let place = info.location().map_or(String::new(), |place| format!(" at {place}"));
    let payload = info.payload();
    let literal = payload.downcast_ref::<&str>().copied();
    let message = literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message: String = message.unwrap_or("no message").chars().take(MAX_MESSAGE).collect();
    let message = message.replace('\n', " ");
    format!("{program}: a bug: thread {thread} panicked{place}: {}\n", Escaped(&message))
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::{Command, exit};

    use super::*;

    const CHILD: &str = "GODWIT_PANICKING_PROGRAM";

    /// Stands for a secret or a changed terminal.
    struct Guard;

    impl Drop for Guard {
        fn drop(&mut self) {
            println!("[undone]");
        }
    }

    fn fail() -> Exit {
        let _guard = Guard;
        panic!("first\nsecond \x1b[31m")
    }

    /// The standard output, the standard error and the exit code of this test as a program.
    fn child(test: &str) -> (String, String, Option<i32>) {
        let mut command = Command::new(env::current_exe().expect("a test binary has a path"));
        command.args(["--exact", test, "--nocapture"]).env(CHILD, "").env_remove("RUST_BACKTRACE");
        let output = command.output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(output.stdout), text(output.stderr), output.status.code())
    }

    #[test]
    fn a_program_with_keys_undoes_what_it_did_and_says_one_line() {
        if env::var_os(CHILD).is_some() {
            exit(unwinding("signer", fail).code().into());
        }
        let (stdout, stderr, code) =
            child("panics::tests::a_program_with_keys_undoes_what_it_did_and_says_one_line");
        assert!(stdout.contains("[undone]"), "{stdout}");
        assert_eq!(code, Some(Exit::Bug.code().into()));
        assert!(stderr.starts_with("signer: a bug: thread "), "{stderr}");
        assert!(stderr.ends_with(": first second \\x1b[31m\n"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }

    #[test]
    fn a_program_with_several_threads_ends_at_once_unless_the_panic_is_expected() {
        if env::var_os(CHILD).is_some() {
            let expecting = || thread::current().name() == Some("expecting");
            end_at_once("node", expecting);
            let expected = thread::Builder::new().name("expecting".to_owned()).spawn(fail);
            assert!(expected.expect("it starts").join().is_err());
            let other = thread::Builder::new().name("other".to_owned()).spawn(fail);
            let (Ok(_) | Err(_)) = other.expect("it starts").join();
            exit(Exit::Success.code().into());
        }
        let (stdout, stderr, code) = child(
            "panics::tests::a_program_with_several_threads_ends_at_once_unless_the_panic_is_expected",
        );
        // The expected panic unwound and printed it; the other panic ended the process.
        assert_eq!(stdout.matches("[undone]").count(), 1, "{stdout}");
        assert_eq!(code, Some(Exit::Bug.code().into()));
        assert!(stderr.starts_with("node: a bug: thread other panicked at "), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}
