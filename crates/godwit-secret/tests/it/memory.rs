//! The kernel's view of the arena.

#![allow(unsafe_code)]

use std::fs;
use std::hint::black_box;
use std::ptr;

use godwit_secret::{
    ARENA_SIZE, Declassified, LockError, RandomError, SECRET_STACK_SIZE, SecretArray, SecretBytes,
    SecretStream, Stats, WorkArea, allow_unlocked_secrets, had_unlocked_work_area, process_pool,
    process_stats, run_on_secret_stack,
};

use crate::child;

/// The flags that `/proc/self/smaps` shows for the mapping at `address`.
fn flags_at(address: usize) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/smaps").expect("smaps");
    let mut inside = false;
    for line in text.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let bound = |text| usize::from_str_radix(text, 16).ok();
        if let Some((start, end)) = range.and_then(|(a, b)| Some((bound(a)?, bound(b)?))) {
            inside = (start..end).contains(&address);
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
            return flags.split_whitespace().map(str::to_owned).collect();
        }
    }
    panic!("no mapping at {address:#x}");
}

fn address_of<const N: usize>(secret: &SecretArray<N>) -> usize {
    secret.expose_secret(|bytes| Declassified(bytes.as_ptr().addr())).0
}

#[test]
fn the_kernel_locks_it_and_keeps_it_from_dumps_and_forks() {
    let secret = SecretArray::<32>::zeroed().expect("memory");
    let stack = run_on_secret_stack(|| {
        let local = black_box(0u8);
        Declassified(ptr::from_ref(black_box(&local)).addr())
    });
    let stack = stack.expect("memory").0;
    let plain = Box::new([0u8; 64]);
    let lowest = process_pool().allocate(ARENA_SIZE).expect("memory").cast::<u8>();
    for guard in [lowest.addr().get() - 60_000, lowest.addr().get() + ARENA_SIZE + 60_000] {
        let flags = flags_at(guard);
        assert!(!flags.iter().any(|flag| flag == "rd" || flag == "wr"), "{flags:?}");
    }
    for address in [address_of(&secret), stack] {
        let flags = flags_at(address);
        for flag in ["lo", "dd", "wf"] {
            assert!(flags.iter().any(|present| present == flag), "{flag} in {flags:?}");
        }
    }
    let flags = flags_at(plain.as_ptr().addr());
    assert!(!flags.iter().any(|flag| ["lo", "dd", "wf"].contains(&flag.as_str())), "{flags:?}");
}

fn read(address: usize) -> u8 {
    // SAFETY: none; the tests read what is mapped, or die of it.
    unsafe { ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

#[test]
fn reading_below_the_arena_ends_the_process() {
    child::run_to_segfault("memory::reading_below_the_arena_ends_the_process", || {
        let start = process_pool().allocate(ARENA_SIZE).expect("memory").cast::<u8>();
        let start = start.as_ptr().expose_provenance();
        assert_eq!((read(start), read(start + ARENA_SIZE - 1)), (0, 0));
        eprintln!("ready");
        read(start - 1);
    });
}

#[test]
fn reading_above_the_arena_ends_the_process() {
    child::run_to_segfault("memory::reading_above_the_arena_ends_the_process", || {
        let start = process_pool().allocate(ARENA_SIZE).expect("memory").cast::<u8>();
        eprintln!("ready");
        read(start.as_ptr().expose_provenance() + ARENA_SIZE);
    });
}

#[inline(never)]
fn overflow(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { overflow(depth + 1).wrapping_add(frame[7]) }
}

#[test]
fn overflowing_a_secret_stack_ends_the_process() {
    child::run_to_segfault("memory::overflowing_a_secret_stack_ends_the_process", || {
        assert_eq!(run_on_secret_stack(|| overflow(u64::MAX - 100) > 0), Ok(true));
        eprintln!("ready");
        let result = run_on_secret_stack(|| Declassified(overflow(0)));
        panic!("{result:?}");
    });
}

#[test]
fn a_forked_child_sees_zeros() {
    child::run("memory::a_forked_child_sees_zeros", || {
        let secret = SecretArray::<64>::from_fn_in_place(|bytes| bytes.fill(0xa5)).expect("memory");
        let plain = Box::new([0xa5u8; 64]);
        let holds = |byte| secret.expose_secret(|bytes| bytes.iter().all(|b| *b == byte));
        assert!(holds(0xa5));
        let code = child::in_fork(|| match (holds(0), plain.iter().all(|b| *b == 0xa5)) {
            (true, true) => 17,
            _ => 1,
        });
        assert_eq!(code, 17, "zeros in the arena, and the plain memory as it was");
        assert!(holds(0xa5));
        // The list of chunks lies outside and is as it was.
        let code = child::in_fork(|| {
            drop(secret);
            i32::from(process_pool().stats().used != 0)
        });
        assert_eq!(code, 0);
    });
}

#[test]
fn refused_locking_is_an_error_until_it_is_accepted() {
    child::run("memory::refused_locking_is_an_error_until_it_is_accepted", || {
        child::set_limit(libc::RLIMIT_MEMLOCK, 0);
        if !child::become_unprivileged() {
            return;
        }
        let error = SecretArray::<32>::zeroed().expect_err("nothing may be locked");
        assert!(
            matches!(error, LockError::Limit { needed, limit: Some(0), .. } if needed >= 4096),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(text.contains("RLIMIT_MEMLOCK is 0 bytes and 4096 are needed"), "{text}");
        assert!(matches!(
            SecretBytes::random(8),
            Err(RandomError::Memory(LockError::Limit { .. }))
        ));
        assert!(matches!(SecretStream::new().write(b"secret"), Err(LockError::Limit { .. })));
        let mut stack_ran = false;
        let refused = run_on_secret_stack(|| stack_ran = true);
        assert!(matches!(refused, Err(LockError::Limit { .. })) && !stack_ran, "{refused:?}");
        let mut plain = *b"secret";
        assert!(SecretBytes::from_plain_and_wipe(&mut plain).is_err());
        assert_eq!(plain, [0; 6], "wiped all the same");
        assert_eq!(process_pool().stats().total, 0);

        allow_unlocked_secrets();
        let secret = SecretArray::<32>::random().expect("accepted");
        let stats = process_pool().stats();
        assert_eq!((stats.used, stats.locked, stats.total), (32, 0, ARENA_SIZE));
        let flags = flags_at(address_of(&secret));
        let has = |flag: &str| flags.iter().any(|present| present == flag);
        assert!(has("dd") && has("wf") && !has("lo"), "{flags:?}");
        assert_eq!(run_on_secret_stack(|| Declassified(7)), Ok(Declassified(7)));
        let stats = process_stats();
        assert_eq!((stats.locked, stats.total), (0, ARENA_SIZE + SECRET_STACK_SIZE));
    });
}

#[test]
fn a_small_limit_is_used_up_before_it_is_an_error() {
    child::run("memory::a_small_limit_is_used_up_before_it_is_an_error", || {
        const LIMIT: usize = 24 * 4096;
        child::set_limit(libc::RLIMIT_MEMLOCK, LIMIT as u64);
        if !child::become_unprivileged() {
            return;
        }
        let mut secrets = Vec::new();
        let error = loop {
            match SecretArray::<4096>::zeroed() {
                Ok(secret) => secrets.push(secret),
                Err(error) => break error,
            }
        };
        assert_eq!(secrets.len(), LIMIT / 4096, "every page that may be locked is used");
        let stats = process_pool().stats();
        assert_eq!((stats.used, stats.locked, stats.total), (LIMIT, LIMIT, LIMIT));
        let expected = (LIMIT + 4096) as u64;
        assert!(
            matches!(error, LockError::Limit { needed, limit, .. }
                if needed == expected && limit == Some(LIMIT as u64)),
            "{error:?}"
        );
        drop(secrets);
        assert!(SecretArray::<8192>::zeroed().is_ok());
    });
}

#[test]
fn what_may_be_locked_is_locked_also_where_the_rest_is_accepted() {
    child::run("memory::what_may_be_locked_is_locked_also_where_the_rest_is_accepted", || {
        const LIMIT: usize = 24 * 4096;
        child::set_limit(libc::RLIMIT_MEMLOCK, LIMIT as u64);
        if !child::become_unprivileged() {
            return;
        }
        allow_unlocked_secrets();
        let secrets = [(); LIMIT / 4096].map(|()| SecretArray::<4096>::zeroed().expect("memory"));
        let stats = process_pool().stats();
        assert_eq!((stats.used, stats.locked, stats.total), (LIMIT, LIMIT, LIMIT));
        let unlocked = SecretArray::<4096>::zeroed().expect("accepted");
        let stats = process_pool().stats();
        assert_eq!((stats.locked, stats.total), (LIMIT, LIMIT + ARENA_SIZE));
        assert!(flags_at(address_of(&secrets[0])).contains(&"lo".to_owned()));
        assert!(!flags_at(address_of(&unlocked)).contains(&"lo".to_owned()));
    });
}

#[test]
fn the_process_counts_its_pool_and_its_stacks() {
    child::run("memory::the_process_counts_its_pool_and_its_stacks", || {
        assert_eq!(process_stats(), Stats::default());
        let during = run_on_secret_stack(|| Declassified(process_stats())).expect("memory").0;
        let stack = Stats {
            used: SECRET_STACK_SIZE,
            free: 0,
            total: SECRET_STACK_SIZE,
            locked: SECRET_STACK_SIZE,
            chunks_used: 1,
            chunks_free: 0,
        };
        assert_eq!(during, stack);
        let idle =
            Stats { used: 0, free: SECRET_STACK_SIZE, chunks_used: 0, chunks_free: 1, ..stack };
        assert_eq!(process_stats(), idle);
        let _secret = SecretArray::<20>::zeroed().expect("memory");
        let total = ARENA_SIZE + SECRET_STACK_SIZE;
        let both = Stats {
            used: 32,
            free: total - 32,
            total,
            locked: total,
            chunks_used: 1,
            chunks_free: 2,
        };
        assert_eq!(process_stats(), both);
    });
}

#[test]
fn a_work_area_that_nothing_of_is_locked_is_told() {
    child::run("memory::a_work_area_that_nothing_of_is_locked_is_told", || {
        // Less than a page for each of its four parts, after the half that others keep.
        const LIMIT: usize = 7 * 4096;
        child::set_limit(libc::RLIMIT_MEMLOCK, 8 * LIMIT as u64);
        if !child::become_unprivileged() {
            return;
        }
        let whole = WorkArea::new([0u8; 4096], 8, 4).expect("memory");
        assert_eq!(whole.locked(), 8 * 4096);
        drop(whole);
        let part = WorkArea::new([0u8; 4096], 1000, 4).expect("memory");
        assert_eq!(part.locked(), 28 * 4096, "half of the limit, in four parts");
        drop(part);
        assert!(!had_unlocked_work_area());
        child::set_limit(libc::RLIMIT_MEMLOCK, LIMIT as u64);
        let unlocked = WorkArea::new([0u8; 4096], 1000, 4).expect("memory");
        assert_eq!(unlocked.locked(), 0);
        assert!(had_unlocked_work_area());
    });
}
