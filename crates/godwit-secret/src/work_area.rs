//! Memory for a computation on a secret that needs more memory than most systems allow to lock.
//!
//! `unsafe` is here because pages become a slice of values.

#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::LockError;
use crate::pages::{LockedPages, page_size};

/// Whether a work area was not locked at all.
static ONE_WAS_UNLOCKED: AtomicBool = AtomicBool::new(false);

/// Whether the process had a [`WorkArea`] of which nothing could be locked.
pub fn had_unlocked_work_area() -> bool {
    ONE_WAS_UNLOCKED.load(Ordering::Relaxed)
}

/// Values in pages that are left out of core dumps, zero in a forked child and wiped when they are freed, and
/// locked as far as the system admits.
pub struct WorkArea<T: Copy> {
    pages: LockedPages,
    count: usize,
    locked: usize,
    of: PhantomData<T>,
}

impl<T: Copy> WorkArea<T> {
    /// `count` times `value`. Where not all can be locked, the beginnings of `parts` equal parts are.
    ///
    /// # Errors
    ///
    /// Where there is no memory, or it cannot be left out of core dumps and forked children.
    pub fn new(value: T, count: usize, parts: usize) -> Result<Self, LockError> {
        assert!(align_of::<T>() <= page_size() && parts > 0, "pages are aligned to pages");
        let bytes = count.saturating_mul(size_of::<T>());
        let (pages, locked) = LockedPages::map_beginnings(bytes, parts)?;
        if locked == 0 && bytes > 0 {
            ONE_WAS_UNLOCKED.store(true, Ordering::Relaxed);
        }
        let first = pages.start().cast::<T>();
        for place in 0..count {
            // SAFETY: `count` values fit into the pages, which are aligned for them.
            unsafe { first.add(place).write(value) };
        }
        Ok(Self { pages, count, locked, of: PhantomData })
    }

    /// Bytes that cannot be swapped out.
    pub fn locked(&self) -> usize {
        self.locked
    }
}

impl<T: Copy> AsMut<[T]> for WorkArea<T> {
    fn as_mut(&mut self) -> &mut [T] {
        // SAFETY: `new` has written `count` values, and the area is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.pages.start().cast().as_ptr(), self.count) }
    }
}

impl<T: Copy> fmt::Debug for WorkArea<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkArea({} values, [redacted])", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residue::{Needle, scan};
    use crate::{SecretArray, Unprotected};

    #[test]
    fn it_is_protected_while_it_lives_and_nowhere_then() {
        let secret = SecretArray::<32>::random().expect("memory");
        let needle = [Needle::new("block", &secret).expect("memory")];
        // More than the eight megabytes that systems give.
        let mut area = WorkArea::new([0u8; 1024], 20_000, 4).expect("memory");
        assert!(area.locked() > 0);
        let values = area.as_mut();
        assert_eq!((values.len(), values[19_999]), (20_000, [0; 1024]));
        let place = Unprotected(&mut values[7]);
        secret.expose_secret_into(place, |bytes, place| place.0[100..132].copy_from_slice(bytes));
        let found = scan(&needle).expect("a scan").findings;
        // With the secret itself.
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|found| found.protected && found.locked), "{found:?}");
        drop(area);
        drop(secret);
        assert_eq!(scan(&needle).expect("a scan").findings, []);
    }
}
