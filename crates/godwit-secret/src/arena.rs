//! The pool of locked memory: arenas of 256 KiB that are cut into chunks (Bitcoin Core
//! `support/lockedpool.h`).
//!
//! `unsafe` is here because memory is handed out by address. Two rules make this sound: a free chunk consists
//! of zeros, and a chunk in use belongs to whoever took it.
//!
//! The unsafe parts of this crate run clean under AddressSanitizer: `RUSTC_BOOTSTRAP=1
//! RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/asan cargo test --release -p godwit-secret --lib
//! --target x86_64-unknown-linux-gnu -- --skip residue`. It turns `mlock` into nothing, catches the
//! faults that other tests wait for and maps terabytes that a scan would read, so those run without it;
//! it warns once that a panic unwinds on a stack that it does not know.

#![allow(unsafe_code)]

use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::chunks::{CHUNK_ALIGN, Chunks};
use crate::cleanse::cleanse_raw;
use crate::error::{LockError, unlocked_secrets_allowed};
use crate::pages::{LockedPages, page_size};

/// Bytes of one arena; fewer if RLIMIT_MEMLOCK leaves less.
pub const ARENA_SIZE: usize = 256 * 1024;

/// The pool that all secrets of the process live in.
static PROCESS_POOL: LockedPool = LockedPool::new();

/// The pool that all secrets of the process live in.
pub fn process_pool() -> &'static LockedPool {
    &PROCESS_POOL
}

/// Locked memory for any number of threads. It grows by arenas and keeps them; what does not fit into
/// one gets pages of its own, which go back to the system when it is freed.
///
/// A child of `fork` gets zeros in place of the content, in pages that are no longer locked: it must
/// not keep secrets before it calls `exec`.
#[derive(Debug, Default)]
pub struct LockedPool {
    arenas: Mutex<Vec<Arena>>,
}

#[derive(Debug)]
struct Arena {
    pages: LockedPages,
    chunks: Chunks,
}

/// Memory for secrets, in bytes unless the name says otherwise (as Bitcoin Core's `getmemoryinfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes that are handed out.
    pub used: usize,
    /// Bytes that are ready to be handed out.
    pub free: usize,
    /// Used and free bytes.
    pub total: usize,
    /// The part of the total that cannot be swapped out.
    pub locked: usize,
    /// Number of chunks that are handed out.
    pub chunks_used: usize,
    /// Number of contiguous free ranges.
    pub chunks_free: usize,
}

impl LockedPool {
    /// An empty pool; maps nothing.
    pub const fn new() -> Self {
        Self { arenas: Mutex::new(Vec::new()) }
    }

    /// Returns `size` bytes of zeros, aligned to 16, valid until they are given to [`free`](Self::free) or
    /// the pool is dropped. For `size` 0 the address is dangling.
    pub fn allocate(&self, size: usize) -> Result<NonNull<[u8]>, LockError> {
        if size == 0 {
            let dangling = ptr::without_provenance_mut(CHUNK_ALIGN);
            return Ok(NonNull::slice_from_raw_parts(
                NonNull::new(dangling).expect("the alignment is not 0"),
                0,
            ));
        }
        let mut arenas = self.lock();
        let found = arenas.iter_mut().find_map(|arena| arena.take(size));
        let memory = match found {
            Some(memory) => memory,
            None => {
                arenas.push(Arena::new(map_room_for(size)?));
                let arena = arenas.last_mut().expect("one was just pushed");
                arena.take(size).expect("an arena made for a size has room for it")
            }
        };
        Ok(NonNull::slice_from_raw_parts(memory, size))
    }

    /// Wipes and takes back a chunk.
    ///
    /// # Safety
    ///
    /// [`allocate`](Self::allocate) of this pool returned `memory` for `size`, and nobody uses it any
    /// more.
    ///
    /// # Panics
    ///
    /// When the pool knows no such chunk.
    pub unsafe fn free(&self, memory: NonNull<u8>, size: usize) {
        if size == 0 {
            return;
        }
        // SAFETY: the caller hands back a chunk of `size` bytes that nobody else uses.
        unsafe { cleanse_raw(memory, size) };
        let mut arenas = self.lock();
        let address = memory.addr().get();
        let index = arenas
            .iter()
            .position(|arena| arena.pages.contains(address))
            .expect("locked memory goes back to the pool it came from");
        let arena = &mut arenas[index];
        arena.chunks.give_back(address - arena.pages.start().addr().get(), size);
        if arena.pages.len() > ARENA_SIZE && arena.chunks.used_bytes() == 0 {
            drop(arenas.swap_remove(index));
        }
    }

    /// Counts of the present moment.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        for arena in self.lock().iter() {
            let (chunks_used, chunks_free) = arena.chunks.counts();
            let used = arena.chunks.used_bytes();
            stats.used += used;
            stats.free += arena.pages.len() - used;
            stats.total += arena.pages.len();
            stats.locked += if arena.pages.locked() { arena.pages.len() } else { 0 };
            stats.chunks_used += chunks_used;
            stats.chunks_free += chunks_free;
        }
        stats
    }

    /// Whether the byte at `address` lies in one of the pool's arenas.
    pub fn contains(&self, address: usize) -> bool {
        self.lock().iter().any(|arena| arena.pages.contains(address))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arena>> {
        // Anything that can panic under the lock does so before it changes anything.
        self.arenas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arena {
    fn new(pages: LockedPages) -> Self {
        let chunks = Chunks::new(pages.len());
        Self { pages, chunks }
    }

    fn take(&mut self, size: usize) -> Option<NonNull<u8>> {
        let offset = self.chunks.take(size)?;
        // SAFETY: a chunk lies inside the arena.
        Some(unsafe { self.pages.start().add(offset) })
    }
}

/// Maps pages for an arena that has room for `size` bytes. If no memory of any size can be locked, it takes
/// unlocked memory, provided that this is accepted.
fn map_room_for(size: usize) -> Result<LockedPages, LockError> {
    match map_protected_room_for(size) {
        Err(_) if unlocked_secrets_allowed() => LockedPages::map(ARENA_SIZE.max(size)),
        outcome => outcome,
    }
}

/// A whole arena, or the largest half, quarter, … that the limit still admits.
fn map_protected_room_for(size: usize) -> Result<LockedPages, LockError> {
    let mut arena = ARENA_SIZE.max(size);
    loop {
        match LockedPages::map_protected(arena) {
            Err(LockError::Limit { .. }) if arena / 2 >= size.max(page_size()) => arena /= 2,
            // Tries the smallest size that would do, so that the error tells what is needed rather than what
            // is nice.
            Err(LockError::Limit { .. }) if arena > size.max(page_size()) => {
                arena = size.max(page_size());
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests;
