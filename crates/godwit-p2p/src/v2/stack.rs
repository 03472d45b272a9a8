//! Wipes what computations leave behind on the stack and in registers.

use std::hint::black_box;
use std::mem::MaybeUninit;

use godwit_secret::clear_registers;

/// Runs `operation` and then overwrites the `SIZE` bytes of this thread's stack in which its frame and
/// those of the functions that it called lay. What it captures by value and what it returns lie
/// outside. Registers are cleared as well: from there a part of a key came onto the stack again.
pub(super) fn on_wiped_stack<const SIZE: usize, R>(operation: impl FnOnce() -> R) -> R {
    let result = in_own_frame(operation);
    // First, since what comes next may put a register onto the stack.
    clear_registers();
    wipe_stack::<SIZE>();
    result
}

/// Inlined, the operation would have its variables in its caller's frame, above what is wiped.
#[inline(never)]
fn in_own_frame<R>(operation: impl FnOnce() -> R) -> R {
    operation()
}

/// Overwrites the `SIZE` bytes of this thread's stack beyond the caller's frame.
#[inline(never)]
fn wipe_stack<const SIZE: usize>() {
    let mut dead = [const { MaybeUninit::<u8>::uninit() }; SIZE];
    dead.fill(MaybeUninit::new(0));
    // The zeros are looked at, so they have to be there.
    black_box(&mut dead);
}

#[cfg(test)]
mod tests;
