//! The calling thread changes over to the other stack and back.
//!
//! `unsafe` is here for the assembly. Unwinding never crosses it, because the entry catches panics; it
//! tells unwinders how to pass, so that a backtrace shows the callers.

#![allow(unsafe_code)]

use std::arch::naked_asm;
use std::ffi::c_void;

use super::Entry;
use crate::error::LockError;
use crate::pages::LockedPages;
use crate::registers::clear_registers;

/// Calls `entry(argument)` on `stack`.
///
/// # Safety
///
/// `entry` accepts `argument` and does not unwind.
pub(super) unsafe fn call_on(
    stack: &mut LockedPages,
    entry: Entry,
    argument: *mut c_void,
) -> Result<(), LockError> {
    // SAFETY: the end of the pages, where a stack that grows downwards begins; a page's end is aligned
    // more than a stack must be. They are borrowed exclusively until the call has returned. The rest is
    // the caller's promise.
    unsafe {
        let top = stack.start().add(stack.len());
        switch(argument, entry, top.as_ptr());
    }
    clear_registers();
    Ok(())
}

/// Calls `entry(argument)` with the stack pointer at `top`.
///
/// # Safety
///
/// As [`call_on`]; below `top` lies memory for a stack that nobody uses, and `top` is aligned to 16.
#[unsafe(naked)]
unsafe extern "sysv64" fn switch(argument: *mut c_void, entry: Entry, top: *mut u8) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}
