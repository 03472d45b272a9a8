//! Test bodies that run in a process of their own: the test binary calls itself for the one test, and
//! an environment variable tells it which side it is.

#![allow(unsafe_code)]

use std::env;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command, Output};

const NAME: &str = "GODWIT_SECRET_CHILD";
/// `nobody`, who has no privilege to lock memory or to read others' memory.
const NOBODY: libc::uid_t = 65534;

/// Runs `body` in a process of its own and expects it to end well. `test` is the path of the calling
/// test. What the child skips is said here too. Returns what it wrote to its standard error.
pub(crate) fn run(test: &str, body: impl FnOnce()) -> String {
    let output = output(test, body);
    let text = String::from_utf8_lossy(&output.stderr);
    godwit_testdata::skip_as(&text);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{said}\n{text}", output.status);
    text.into_owned()
}

/// Runs `body` in a process of its own and expects a segmentation fault to end it, after it has printed
/// `ready`.
pub(crate) fn run_to_segfault(test: &str, body: impl FnOnce()) {
    let output = output(test, body);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("ready"), "{text}");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{text}");
}

fn output(test: &str, body: impl FnOnce()) -> Output {
    if env::var_os(NAME).is_some_and(|name| name == test) {
        forbid_core_dump();
        body();
        process::exit(0);
    }
    let binary = env::current_exe().expect("a test binary has a path");
    Command::new(binary)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(NAME, test)
        .output()
        .expect("the test binary runs")
}

/// No file is left by children that crash on purpose.
fn forbid_core_dump() {
    set_limit(libc::RLIMIT_CORE, 0);
}

pub(crate) fn set_limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the kernel reads one `rlimit`.
    assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0, "{}", last_error());
}

/// Gives up root's privileges in all threads, and stays dumpable, which that would end; `false`, with a
/// line that says so, when the system forbids it.
pub(crate) fn become_unprivileged() -> bool {
    // SAFETY: none of these touches memory of ours; the group list is empty.
    let outcome = unsafe {
        libc::geteuid() != 0
            || (libc::setgroups(0, std::ptr::null()) == 0
                && libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
                && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0
                && libc::prctl(libc::PR_SET_DUMPABLE, 1 as libc::c_ulong) == 0)
    };
    if !outcome {
        let error = last_error();
        godwit_testdata::skip(&format!("root cannot become an unprivileged user here: {error}"));
    }
    outcome
}

/// Runs `body` in a forked child and returns its exit code. The body must not allocate if another thread
/// may hold the allocator's lock.
pub(crate) fn in_fork(body: impl FnOnce() -> i32) -> i32 {
    let pid = fork(body);
    let mut status = 0;
    // SAFETY: the kernel writes one integer.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid, "{}", last_error());
    assert!(libc::WIFEXITED(status), "the forked child died of status {status:#x}");
    libc::WEXITSTATUS(status)
}

/// Starts `body` in a forked child, which ends with the code that it returns, or with its parent: one
/// that outlived a failed test would hold the pipe that `run` reads to its end.
pub(crate) fn fork(body: impl FnOnce() -> i32) -> libc::pid_t {
    // SAFETY: the child runs on a copy of this thread alone, and leaves with `_exit`.
    match unsafe { libc::fork() } {
        // SAFETY: ends the process without running anything of the parent's.
        0 => unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
            libc::_exit(body())
        },
        -1 => panic!("{}", last_error()),
        pid => pid,
    }
}

pub(crate) fn last_error() -> io::Error {
    io::Error::last_os_error()
}
