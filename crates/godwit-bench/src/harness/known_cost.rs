//! Work whose instructions are known, to hold the counters against.
//!
//! `unsafe` is here because only assembly has a known number of instructions.

#![allow(unsafe_code)]

use std::arch::asm;

use super::Subject;

/// Instructions of one iteration of [`subject`].
pub const INSTRUCTIONS: u64 = 2 * TURNS;

const TURNS: u64 = 1_000_000;

/// A loop of two instructions, a million times. A figure is given per turn.
pub fn subject() -> Subject {
    Subject::new("op", TURNS as f64, || count_down(TURNS))
}

#[cfg(target_arch = "x86_64")]
fn count_down(turns: u64) {
    // SAFETY: changes its own register and the flags only, and ends: `turns` is not zero.
    unsafe { asm!("2: dec {n}", "jnz 2b", n = inout(reg) turns => _, options(nomem, nostack)) }
}

#[cfg(target_arch = "aarch64")]
fn count_down(turns: u64) {
    // SAFETY: changes its own register and the flags only, and ends: `turns` is not zero.
    unsafe {
        asm!("2: subs {n}, {n}, #1", "b.ne 2b", n = inout(reg) turns => _, options(nomem, nostack))
    }
}
