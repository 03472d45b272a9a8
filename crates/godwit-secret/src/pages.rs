//! Pages of the operating system that hold secrets: between inaccessible guard pages, locked into
//! memory, left out of core dumps, zeros in a forked child, wiped before they go back.
//!
//! `unsafe` is here for the system calls and for the mapping's address.

#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::ptr::{self, NonNull};

use crate::cleanse::cleanse_raw;
use crate::error::{LockError, unlocked_secrets_allowed};

/// Least number of inaccessible bytes on either side. One page would not do below a stack: a function of a C
/// library may have a frame of several pages, and need not touch each of them on its way down.
const GUARD: usize = 64 * 1024;

/// Allocations from this size on ask for huge pages: 64 MiB for Argon2 take sixteen thousand page faults
/// otherwise.
const HUGE_PAGE: usize = 2 << 20;

/// One mapping. Its bytes are zero at first.
#[derive(Debug)]
pub(crate) struct LockedPages {
    /// First byte behind the lower guard pages.
    start: NonNull<u8>,
    /// Without the guard pages.
    len: usize,
    locked: bool,
}

// SAFETY: a mapping belongs to the process; the address stays valid in any thread until it is dropped.
unsafe impl Send for LockedPages {}

impl LockedPages {
    /// Maps `bytes`, rounded up to whole pages. Pages that cannot be protected are an error, unless
    /// [`allow_unlocked_secrets`](crate::allow_unlocked_secrets) was called.
    pub(crate) fn map(bytes: usize) -> Result<Self, LockError> {
        let (pages, outcome) = Self::map_and_protect(bytes)?;
        outcome.or_else(|error| unlocked_secrets_allowed().then_some(()).ok_or(error))?;
        Ok(pages)
    }

    /// Maps `bytes`, rounded up to whole pages. Pages that cannot be protected are always an error.
    pub(crate) fn map_protected(bytes: usize) -> Result<Self, LockError> {
        let (pages, outcome) = Self::map_and_protect(bytes)?;
        outcome.map(|()| pages)
    }

    /// Maps `bytes`, rounded up to whole pages. If they cannot all be locked, locks the beginnings of `parts`
    /// equal parts, in all as many bytes as half of the limit's rest has room for. Returns how many bytes are
    /// locked.
    pub(crate) fn map_beginnings(bytes: usize, parts: usize) -> Result<(Self, usize), LockError> {
        let (pages, outcome) = Self::map_and_protect(bytes)?;
        match outcome {
            Ok(()) => Ok((pages, bytes)),
            Err(LockError::Limit { .. }) => {
                let locked = pages.lock_beginnings(bytes, parts);
                Ok((pages, locked))
            }
            Err(_) if unlocked_secrets_allowed() => Ok((pages, 0)),
            Err(error) => Err(error),
        }
    }

    fn lock_beginnings(&self, bytes: usize, parts: usize) -> usize {
        let page = page_size();
        let part = bytes / parts;
        // If the limit is unknown, locking each whole part is tried.
        let each = match memlock_limit() {
            Some(limit) => {
                let left = limit.saturating_sub(locked_by_process()) / 2;
                part.min(left as usize / parts)
            }
            None => part,
        };
        let each = each / page * page;
        let lock = |index: usize| {
            let offset = index * part / page * page;
            // SAFETY: the range lies inside of this mapping: each part is longer than what is locked.
            let outcome = unsafe { libc::mlock(self.start.as_ptr().add(offset).cast(), each) };
            if outcome == 0 { each } else { 0 }
        };
        (0..parts).map(lock).sum()
    }

    /// Maps pages, and tells whether they are protected in every way.
    fn map_and_protect(bytes: usize) -> Result<(Self, Result<(), LockError>), LockError> {
        let page = page_size();
        let refused = |errno| LockError::Map { bytes, errno };
        let len = bytes.checked_next_multiple_of(page).ok_or(refused(libc::ENOMEM))?;
        let guard = guard_size();
        let mapped = len.checked_add(2 * guard).ok_or(refused(libc::ENOMEM))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping, at an address of the kernel's choice.
        let base = unsafe { libc::mmap(ptr::null_mut(), mapped, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(refused(errno()));
        }
        // SAFETY: the mapping is `len` bytes and two guards long.
        let start = unsafe { base.cast::<u8>().add(guard) };
        let start = NonNull::new(start).expect("what lies inside a mapping is not at address 0");
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: these pages lie inside the mapping, and nothing points into them yet.
        if unsafe { libc::mprotect(start.as_ptr().cast(), len, access) } != 0 {
            let error = refused(errno());
            // SAFETY: the mapping from above, which nobody uses.
            unsafe { libc::munmap(base, mapped) };
            return Err(error);
        }
        let mut pages = Self { start, len, locked: false };
        let outcome = pages.protect();
        Ok((pages, outcome))
    }

    /// Keeps the pages from swap, from core dumps and from forked children. Reports a limit that is too low
    /// only if nothing else is wrong, because only then does it help to lock less.
    fn protect(&mut self) -> Result<(), LockError> {
        let (start, len) = (self.start.as_ptr().cast(), self.len);
        if len >= HUGE_PAGE {
            // SAFETY: the range is this mapping; how large its pages are changes nothing else. A system that
            // has no others gives small ones.
            unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) };
        }
        let mut excluded = Ok(());
        for (advice, name) in
            [(libc::MADV_DONTDUMP, "MADV_DONTDUMP"), (libc::MADV_WIPEONFORK, "MADV_WIPEONFORK")]
        {
            // SAFETY: the range is this mapping; neither advice changes its content here.
            if unsafe { libc::madvise(start, len, advice) } != 0 {
                excluded = Err(LockError::Exclude { advice: name, errno: errno() });
            }
        }
        // SAFETY: the range is this mapping.
        self.locked = unsafe { libc::mlock(start, len) } == 0;
        let errno = errno();
        excluded?;
        if self.locked {
            return Ok(());
        }
        let needed = locked_by_process().saturating_add(len as u64);
        Err(LockError::Limit { needed, limit: memlock_limit(), errno })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the pages cannot be swapped out; they can after
    /// [`allow_unlocked_secrets`](crate::allow_unlocked_secrets) where locking is refused.
    pub(crate) fn locked(&self) -> bool {
        self.locked
    }

    pub(crate) fn contains(&self, address: usize) -> bool {
        address.checked_sub(self.start.addr().get()).is_some_and(|offset| offset < self.len)
    }

    /// Overwrites all of the pages with zeros.
    ///
    /// # Safety
    ///
    /// Nothing else reads or writes the pages meanwhile, nor expects their content afterwards.
    pub(crate) unsafe fn wipe(&mut self) {
        // SAFETY: the pages are mapped for writing; the rest is the caller's promise.
        unsafe { cleanse_raw(self.start, self.len) }
    }
}

impl Drop for LockedPages {
    fn drop(&mut self) {
        let guard = guard_size();
        // SAFETY: the owner hands out no address that outlives the pages, so nobody uses them; the
        // range is the one that `map` mapped, guard pages included. Unmapping unlocks.
        let outcome = unsafe {
            self.wipe();
            libc::munmap(self.start.as_ptr().sub(guard).cast(), self.len + 2 * guard)
        };
        debug_assert_eq!(outcome, 0, "a mapping of ours can be unmapped");
    }
}

pub(crate) fn page_size() -> usize {
    // SAFETY: no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("every Unix system has a page size")
}

/// Bytes of the guard on one side, in whole pages.
fn guard_size() -> usize {
    GUARD.next_multiple_of(page_size())
}

/// RLIMIT_MEMLOCK in bytes; `None` when it has no bound or cannot be read.
fn memlock_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit`.
    let outcome = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    (outcome == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Bytes that the process has locked now; 0 when the system does not tell.
fn locked_by_process() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kibibytes =
        line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0).saturating_mul(1024)
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
