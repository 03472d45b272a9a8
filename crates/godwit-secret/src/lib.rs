//! Locked memory and types for secrets that cannot leak.
//!
//! A secret is kept in a [`SecretArray`], [`SecretBytes`], [`SecretString`] or [`SecretStream`].
//! Their content is in pages that are locked into memory, excluded from core dumps, zero in a
//! forked child, surrounded by inaccessible pages, and wiped when they are freed. The types have no
//! `Clone`, `Copy`, `Display`, `Hash`, `Ord`, `Deref`, `AsRef`, `Encode` or serialisation, compare
//! only with each other and in constant time, and print nothing of their content. `expose_secret`
//! shows it to a closure, which may return what is [`Releasable`]: no vector, string, array or number, but
//! what lies in locked memory, or what is [`Declassified`]. It changes nothing that it captures, and writes
//! into what is `Releasable` or [`Unprotected`] (`expose_secret_into`). What it writes to a file, a static or
//! another thread is no longer protected.
//!
//! Where memory cannot be locked, every constructor returns [`LockError`], until
//! [`allow_unlocked_secrets`] is called.

#![warn(missing_docs)]

mod allocator;
mod arena;
mod array;
mod block;
mod boxed;
mod bytes;
mod chunks;
mod cleanse;
mod error;
mod hardening;
mod pages;
mod random;
mod registers;
mod releasable;
#[cfg(any(test, feature = "residue"))]
pub mod residue;
mod slice;
mod stack;
mod stats;
mod stream;
mod string;
mod work_area;

pub use arena::{ARENA_SIZE, LockedPool, Stats, process_pool};
pub use array::SecretArray;
pub use boxed::SecretBox;
pub use bytes::{ReadError, SecretBytes};
pub use cleanse::cleanse;
pub use error::{LockError, allow_unlocked_secrets};
pub use hardening::{Hardened, HardeningError, harden_process, leave_signals_to_other_threads};
pub use random::RandomError;
pub use registers::clear_registers;
pub use releasable::{Declassified, Releasable, Unprotected};
pub use slice::SecretSlice;
pub use stack::{SECRET_STACK_SIZE, run_on_secret_stack};
pub use stats::process_stats;
pub use stream::SecretStream;
pub use string::{NotUtf8, SecretString};
pub use work_area::{WorkArea, had_unlocked_work_area};

/// Between two steps of an operation with secrets: here a search of memory may look (`residue`, the feature).
/// Without that feature it does nothing.
#[inline]
pub fn between_steps(step: &'static str) {
    #[cfg(any(test, feature = "residue"))]
    residue::tell(step);
    #[cfg(not(any(test, feature = "residue")))]
    let _ = step;
}
