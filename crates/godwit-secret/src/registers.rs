//! Clears what a computation leaves behind in registers.
//!
//! A key can stay in a register for long, and get from there into memory that nobody wipes: where a value
//! has bytes that mean nothing, such as those of an enum's other variants, the compiler copies whatever is in
//! the register at hand. Half of a key of an encrypted connection came onto the stack that way, after the
//! stack had been wiped.
//!
//! `unsafe` is here for the assembly.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::asm;

/// Clears the registers that a function need not preserve, on x86_64; elsewhere it does nothing. The others
/// have the caller's values again when the function with the secrets has returned. Inlined, since a call may
/// put one onto the stack.
#[inline(always)]
pub fn clear_registers() {
    #[cfg(target_arch = "x86_64")]
    {
        clear_general_and_sse();
        clear_wide();
        clear_mmx();
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn clear_general_and_sse() {
    // SAFETY: every x86_64 has them, and the clobbers name all of them.
    unsafe {
        asm!(
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
            clobber_abi("sysv64"),
            options(nomem, nostack)
        )
    }
}

/// Clears the registers of MMX and with them those of the x87, which are the same ones.
#[cfg(target_arch = "x86_64")]
fn clear_mmx() {
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
#[cfg(target_arch = "x86_64")]
fn clear_wide() {
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
