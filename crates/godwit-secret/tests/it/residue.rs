//! The search for secrets finds what was leaked on purpose, as an unprivileged and undumpable process.

use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use godwit_secret::residue::{self, Finding, Needle, Report};
use godwit_secret::{
    Declassified, Hardened, SecretArray, SecretBytes, SecretStream, SecretString, Unprotected,
    harden_process, run_on_secret_stack,
};

use crate::child;

fn at(report: &Report, address: *const u8) -> Vec<&Finding> {
    report.findings.iter().filter(|finding| finding.address == address.addr() as u64).collect()
}

#[test]
fn it_finds_a_secret_in_heap_stack_and_a_librarys_buffer() {
    child::run("residue::it_finds_a_secret_in_heap_stack_and_a_librarys_buffer", || {
        if !child::become_unprivileged() {
            return;
        }
        assert_eq!(harden_process(), Ok(Hardened::Fully));
        let secret = SecretArray::<32>::random().expect("memory");
        let needles = [Needle::new("key", &secret).expect("memory")];
        let plain = |report: &Report| report.findings.iter().filter(|f| !f.protected).count();
        assert_eq!(plain(&residue::scan(&needles).expect("a scan")), 0);

        let heap = secret.expose_secret(|bytes| Declassified(bytes.to_vec())).0;
        let report = residue::scan(&needles).expect("a scan");
        assert_eq!((plain(&report), at(&report, heap.as_ptr()).len()), (1, 1), "{report:?}");
        wipe(heap);

        let mut stack = [0u8; 32];
        let place = Unprotected(&mut stack);
        secret.expose_secret_into(place, |bytes, place| place.0.copy_from_slice(bytes));
        black_box(&mut stack);
        let report = residue::scan(&needles).expect("a scan");
        assert_eq!(at(&report, stack.as_ptr()).len(), 1, "{report:?}");
        godwit_secret::cleanse(&mut stack);

        // The writer's text does not leave its buffer before it is flushed.
        let mut writer = BufWriter::new(Vec::new());
        let text = secret
            .expose_secret(|bytes| Declassified(format!("{bytes:02x?}").replace([',', ' '], "")))
            .0;
        writer.write_all(text.as_bytes()).expect("a buffer takes it");
        wipe(text.into_bytes());
        let report = residue::scan(&needles).expect("a scan");
        let buffer = writer.buffer()[1..].as_ptr();
        let found = at(&report, buffer);
        assert_eq!(found.len(), 1, "{report:?}");
        assert_eq!((found[0].form.as_str(), found[0].protected), ("hex", false));
        let text = found[0].to_string();
        assert!(text.starts_with(&format!("key (hex) in {}", found[0].mapping)), "{text}");
    });
}

#[test]
fn a_secret_is_where_its_owner_is_and_nowhere_else() {
    child::run("residue::a_secret_is_where_its_owner_is_and_nowhere_else", || {
        let mut key = SecretArray::<32>::random().expect("memory");
        // Text; and its last byte is not the zero that stands in its place where the copy is cut below.
        key.expose_secret_mut(|bytes| {
            bytes.iter_mut().for_each(|byte| *byte &= 0x7f);
            bytes[31] |= 1;
        });
        let needles = [Needle::new("key", &key).expect("memory")];
        let copies = || {
            let report = residue::scan(&needles).expect("a scan");
            assert!(report.findings.iter().all(|finding| finding.protected), "{report:?}");
            report.findings.iter().filter(|finding| finding.part.is_none()).count()
        };
        assert_eq!(copies(), 1);
        let mut bytes = SecretBytes::copy_of(&key).expect("memory");
        let mut stream = SecretStream::new();
        stream.write_secret(&key).expect("memory");
        let text = SecretBytes::copy_of(&key).expect("memory");
        let mut text = SecretString::from_utf8(text).expect("text");
        assert_eq!(copies(), 4);
        // Each moves through chunks, arenas and pages of its own.
        for _ in 0..600 {
            bytes.extend_from_slice(&[0; 1000]).expect("memory");
            stream.write(&[0; 1000]).expect("memory");
            text.push_str(&"x".repeat(1000)).expect("memory");
        }
        assert_eq!(copies(), 4, "growing leaves nothing behind");
        bytes.truncate(31);
        stream.clear();
        drop(text);
        assert_eq!(copies(), 1);
        let panicking = || {
            let _copy = SecretBytes::copy_of(&key).expect("memory");
            assert_eq!(copies(), 2);
            resume_unwind(Box::new(7));
        };
        let inside = || run_on_secret_stack(panicking);
        for operation in [&panicking as &dyn Fn(), &|| inside().expect("memory")] {
            let payload = catch_unwind(AssertUnwindSafe(operation)).expect_err("it panics");
            assert_eq!(payload.downcast_ref(), Some(&7));
        }
        assert_eq!(copies(), 1, "a panic leaves nothing behind");
        drop(key);
        assert_eq!(copies(), 0);
    });
}

fn wipe(mut bytes: Vec<u8>) {
    godwit_secret::cleanse(&mut bytes);
}

/// A function that leaves a copy of what it works with.
#[inline(never)]
fn leaky(bytes: &[u8; 32]) -> Declassified<u8> {
    let mut local = [0u8; 8192];
    for (to, from) in local[64..].iter_mut().zip(bytes) {
        *to = black_box(*from);
    }
    Declassified(black_box(&local)[64])
}

#[test]
fn a_secret_stack_leaves_nothing_that_a_scan_finds() {
    child::run("residue::a_secret_stack_leaves_nothing_that_a_scan_finds", || {
        let secret = SecretArray::<32>::random().expect("memory");
        let needles = [Needle::raw("key", &secret).expect("memory")];
        let plain = || {
            let report = residue::scan(&needles).expect("a scan");
            report.findings.iter().filter(|finding| !finding.protected).count()
        };
        run_on_secret_stack(|| secret.expose_secret(leaky)).expect("memory");
        assert_eq!(plain(), 0);
        let during = run_on_secret_stack(|| {
            secret.expose_secret(leaky);
            residue::scan(&needles).expect("a scan").findings.iter().all(|f| f.protected)
        });
        assert_eq!(during, Ok(true));
        deep(60_000, || secret.expose_secret(leaky));
        assert!(plain() > 0, "without it the copy is there");
    });
}

/// Calls `f` far enough down the stack that what comes next does not overwrite what it leaves.
#[inline(never)]
fn deep<R>(bytes: usize, f: impl FnOnce() -> R) -> R {
    let frame = black_box([0u8; 4096]);
    let result = if bytes == 0 { f() } else { deep_dyn(bytes.saturating_sub(4096), Box::new(f)) };
    black_box(&frame);
    result
}

#[inline(never)]
fn deep_dyn<'a, R>(bytes: usize, f: Box<dyn FnOnce() -> R + 'a>) -> R {
    let frame = black_box([0u8; 4096]);
    let result = if bytes == 0 { f() } else { deep_dyn(bytes.saturating_sub(4096), f) };
    black_box(ptr::from_ref(&frame));
    result
}

#[test]
fn from_outside_it_finds_the_plain_copy_and_not_the_arena() {
    child::run("residue::from_outside_it_finds_the_plain_copy_and_not_the_arena", || {
        if !child::become_unprivileged() {
            return;
        }
        let secret = SecretArray::<32>::random().expect("memory");
        let needles = [Needle::new("key", &secret).expect("memory")];
        let leak = secret.expose_secret(|bytes| Declassified(bytes.to_vec())).0;
        #[allow(unsafe_code)]
        // SAFETY: touches no memory.
        let pid = child::fork(|| unsafe { libc::pause() });
        let outcome = residue::scan_other(pid as u32, &needles);
        #[allow(unsafe_code)]
        // SAFETY: ends the child from above.
        let killed = unsafe { libc::kill(pid, libc::SIGKILL) };
        assert_eq!(killed, 0);
        match outcome {
            Ok(report) => {
                // The copy of the arena in a forked child is zeros.
                assert_eq!(report.findings.len(), 1, "{report:?}");
                assert_eq!(at(&report, leak.as_ptr()).len(), 1);
            }
            Err(error) => godwit_testdata::skip(&format!(
                "a process cannot read its child's memory here: {error}"
            )),
        }
    });
}
