//! What other processes may do to one that holds keys.

#![allow(unsafe_code)]

use std::fs::File;
use std::process;
use std::ptr;
use std::sync::mpsc;
use std::thread;

use godwit_secret::residue::{self, Needle};
use godwit_secret::{
    Hardened, HardeningError, SecretArray, allow_unlocked_secrets, harden_process,
};

use crate::child;

/// Whether a process of the same user can read the memory of this one.
fn is_readable_by_others() -> bool {
    let path = format!("/proc/{}/mem", process::id());
    child::in_fork(|| i32::from(File::open(&path).is_ok())) == 1
}

#[test]
fn others_cannot_look_and_no_core_is_dumped() {
    child::run("hardening::others_cannot_look_and_no_core_is_dumped", || {
        if !child::become_unprivileged() {
            return;
        }
        if !is_readable_by_others() {
            godwit_testdata::skip("processes of one user cannot read each other here anyway");
        }
        assert_eq!(harden_process(), Ok(Hardened::Fully));
        assert!(!is_readable_by_others());
        let mut limit = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
        // SAFETY: the kernel writes one `rlimit`.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_CORE, &mut limit) }, 0);
        assert_eq!((limit.rlim_cur, limit.rlim_max), (0, 0));
        // SAFETY: touches no memory.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_DUMPABLE) }, 0);
        assert_eq!(harden_process(), Ok(Hardened::Fully), "a second time changes nothing");

        // The process itself still can.
        let secret = SecretArray::<32>::random().expect("memory");
        let needle = Needle::new("key", &secret).expect("memory");
        let report = residue::scan(&[needle]).expect("a scan of an undumpable process");
        assert!(report.findings.iter().all(|finding| finding.protected), "{report:?}");
        assert_eq!(report.findings.len(), 1);
    });
}

/// Starts a child that traces the thread `id`; `None`, with a line that says so, where none may.
fn tracer_of(id: libc::pid_t) -> Option<libc::pid_t> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let tracer = child::fork(|| {
        let nothing = ptr::null_mut::<libc::c_void>();
        // SAFETY: attaches to the thread without stopping it, tells so with one byte, and stays until
        // it is killed.
        unsafe {
            let seized = libc::ptrace(libc::PTRACE_SEIZE, id, nothing, nothing) == 0;
            libc::write(ends[1], ptr::from_ref(&u8::from(seized)).cast(), 1);
            libc::pause()
        }
    });
    let mut seized = 0u8;
    // SAFETY: the kernel writes one byte.
    assert_eq!(unsafe { libc::read(ends[0], ptr::from_mut(&mut seized).cast(), 1) }, 1);
    if seized == 1 {
        return Some(tracer);
    }
    end(tracer);
    godwit_testdata::skip("a process cannot trace another here");
    None
}

fn end(child: libc::pid_t) {
    // SAFETY: ends a child of this process.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
}

fn own_thread() -> libc::pid_t {
    // SAFETY: touches no memory.
    unsafe { libc::gettid() }
}

#[test]
fn a_process_that_is_traced_is_refused() {
    child::run("hardening::a_process_that_is_traced_is_refused", || {
        let Some(tracer) = tracer_of(process::id() as libc::pid_t) else { return };
        let expected = HardeningError::Traced { pid: tracer as u32 };
        assert_eq!(harden_process(), Err(expected));
        assert!(expected.to_string().contains("traces it"));
        allow_unlocked_secrets();
        assert_eq!(harden_process(), Ok(Hardened::Partly(vec![expected])));
        end(tracer);
    });
}

#[test]
fn a_tracer_of_one_thread_is_found() {
    child::run("hardening::a_tracer_of_one_thread_is_found", || {
        let (id_out, id_in) = mpsc::channel();
        let (end_out, end_in) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                id_out.send(own_thread()).expect("it is waited for");
                end_in.recv().expect_err("nothing is sent");
            });
            let id = id_in.recv().expect("it is sent");
            assert_ne!(id, process::id() as libc::pid_t);
            if let Some(tracer) = tracer_of(id) {
                let expected = HardeningError::Traced { pid: tracer as u32 };
                assert_eq!(harden_process(), Err(expected));
                end(tracer);
            }
            drop(end_out);
        });
    });
}
