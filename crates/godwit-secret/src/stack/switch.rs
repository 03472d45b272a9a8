//! The calling thread changes over to the other stack and back.
//!
//! `unsafe` is here for the assembly. Unwinding never crosses it, because the entry catches panics; it
//! tells unwinders how to pass, so that a backtrace shows the callers.

#![allow(unsafe_code)]

use std::arch::{asm, naked_asm};
use std::ffi::c_void;

use super::Entry;
use crate::error::LockError;
use crate::pages::LockedPages;

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
    clear_wide_registers();
    clear_mmx_registers();
    Ok(())
}

/// Calls `entry(argument)` with the stack pointer at `top`, and clears the registers that a function
/// need not preserve.
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
        "xor eax, eax",
        "xor ecx, ecx",
        "xor edx, edx",
        "xor esi, esi",
        "xor edi, edi",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r10d, r10d",
        "xor r11d, r11d",
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "pxor xmm\\n, xmm\\n",
        ".endr",
        "ret",
        ".cfi_endproc",
    )
}

/// Clears the registers of MMX and with them those of the x87, which are the same ones.
fn clear_mmx_registers() {
    // SAFETY: every x86_64 has them. `emms` leaves the x87's stack empty, as functions expect it.
    unsafe {
        asm!(
            ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
            "pxor mm\\n, mm\\n",
            ".endr",
            "emms",
            clobber_abi("sysv64"),
            options(nomem, nostack, preserves_flags)
        )
    }
}

/// Clears the vector registers beyond SSE, where `memcpy` leaves what it copied, and the masks.
fn clear_wide_registers() {
    if is_x86_feature_detected!("avx") {
        // SAFETY: the processor and the system have AVX; the clobbers name what it changes.
        unsafe { asm!("vzeroall", clobber_abi("sysv64"), options(nomem, nostack, preserves_flags)) }
    }
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: likewise for AVX-512.
        unsafe {
            asm!(
                ".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
                "vpxord zmm\\n, zmm\\n, zmm\\n",
                ".endr",
                // All 64 bits of a mask, where it has as many.
                ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
                "kxorw k\\n, k\\n, k\\n",
                ".endr",
                clobber_abi("sysv64"),
                options(nomem, nostack, preserves_flags)
            )
        }
    }
}
