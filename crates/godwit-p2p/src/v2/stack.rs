//! What computations leave behind on the stack.

use std::hint::black_box;
use std::mem::MaybeUninit;

/// Overwrites the `SIZE` bytes of this thread's stack that lie behind the caller's frame, where the
/// functions that it called have left their variables.
#[inline(never)]
pub(super) fn wipe_stack<const SIZE: usize>() {
    let mut dead = [const { MaybeUninit::<u8>::uninit() }; SIZE];
    dead.fill(MaybeUninit::new(0));
    // The zeros are looked at, so they have to be there.
    black_box(&mut dead);
}
