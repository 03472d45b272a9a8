//! Four lanes in two 128-bit registers: NEON.
//!
//! Every function here uses instructions that the processor may not have, though hardly an AArch64 lacks
//! them. A [`Neon`] exists only inside the entry point of `backend.rs` and in tests, which run where they
//! were found.
//!
//! Two registers rather than one, because the multiplication reads the low halves of the lanes side by side:
//! those of four lanes fill one register, and eighteen factors leave room for the sums.

#![allow(unsafe_code)]

use std::arch::aarch64::{
    uint32x4_t, uint64x2_t, vaddq_u32, vaddq_u64, vaddvq_u32, vandq_u32, vandq_u64, vbslq_u64,
    vceqzq_u64, vdupq_n_s64, vdupq_n_u64, vget_low_u32, vld1q_u32, vld1q_u64, vmlal_high_u32,
    vmlal_u32, vmull_high_u32, vmull_u32, vreinterpretq_u32_u64, vshlq_u64, vst1q_u64, vsubq_u64,
    vuzp1q_u32, vzip1q_u64, vzip2q_u64,
};

use crate::field::radix29;
use crate::vector::{Entry, LaneMask, MAX_LANES, Multiply32, Vector};

/// Four lanes: 0 and 1, then 2 and 3.
#[derive(Clone, Copy)]
pub(crate) struct Neon([uint64x2_t; 2]);

impl Vector for Neon {
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: NEON is there (see the module).
        Neon([unsafe { vdupq_n_u64(word) }; 2])
    }

    #[inline(always)]
    fn load(words: &[u64; MAX_LANES]) -> Self {
        // SAFETY: NEON is there (see the module); each quarter of `words` is 16 readable bytes.
        Neon(unsafe { [vld1q_u64(words.as_ptr()), vld1q_u64(words[2..].as_ptr())] })
    }

    #[inline(always)]
    fn store(self) -> [u64; MAX_LANES] {
        let mut words = [0; MAX_LANES];
        // SAFETY: NEON is there (see the module); each quarter of `words` is 16 writable bytes.
        unsafe {
            vst1q_u64(words.as_mut_ptr(), self.0[0]);
            vst1q_u64(words[2..].as_mut_ptr(), self.0[1]);
        }
        words
    }

    #[inline(always)]
    fn gather(entries: &[&Entry; MAX_LANES]) -> [Self; 8] {
        let mut words = [Self::splat(0); 8];
        for at in [0, 2, 4, 6] {
            // SAFETY: NEON is there (see the module); each quarter of an entry is 16 readable bytes.
            unsafe {
                let a = vld1q_u64(entries[0].0[at..].as_ptr());
                let b = vld1q_u64(entries[1].0[at..].as_ptr());
                let c = vld1q_u64(entries[2].0[at..].as_ptr());
                let d = vld1q_u64(entries[3].0[at..].as_ptr());
                words[at] = Neon([vzip1q_u64(a, b), vzip1q_u64(c, d)]);
                words[at + 1] = Neon([vzip2q_u64(a, b), vzip2q_u64(c, d)]);
            }
        }
        words
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: NEON is there (see the module).
        unsafe { Neon([vaddq_u64(self.0[0], other.0[0]), vaddq_u64(self.0[1], other.0[1])]) }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: NEON is there (see the module).
        unsafe { Neon([vsubq_u64(self.0[0], other.0[0]), vsubq_u64(self.0[1], other.0[1])]) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: NEON is there (see the module).
        unsafe { Neon([vandq_u64(self.0[0], other.0[0]), vandq_u64(self.0[1], other.0[1])]) }
    }

    // The shift by a vector takes counts that are not const parameters, and to the right if negative; the
    // compiler makes shifts by an immediate of it.

    #[inline(always)]
    fn shr(self, count: u32) -> Self {
        // SAFETY: NEON is there (see the module).
        unsafe {
            let counts = vdupq_n_s64(-i64::from(count));
            Neon([vshlq_u64(self.0[0], counts), vshlq_u64(self.0[1], counts)])
        }
    }

    #[inline(always)]
    fn shl(self, count: u32) -> Self {
        // SAFETY: NEON is there (see the module).
        unsafe {
            let counts = vdupq_n_s64(i64::from(count));
            Neon([vshlq_u64(self.0[0], counts), vshlq_u64(self.0[1], counts)])
        }
    }

    #[inline(always)]
    fn select(mask: LaneMask, yes: Self, no: Self) -> Self {
        let mask = mask.four_words();
        // SAFETY: NEON is there (see the module); each half of `mask` is 16 readable bytes.
        unsafe {
            let (low, high) = (vld1q_u64(mask.as_ptr()), vld1q_u64(mask[2..].as_ptr()));
            Neon([vbslq_u64(low, yes.0[0], no.0[0]), vbslq_u64(high, yes.0[1], no.0[1])])
        }
    }

    #[inline(always)]
    fn zero_lanes(self) -> LaneMask {
        // SAFETY: NEON is there (see the module); the array is 16 readable bytes.
        let bits = unsafe {
            let equal = Neon([vceqzq_u64(self.0[0]), vceqzq_u64(self.0[1])]);
            vaddvq_u32(vandq_u32(equal.factor(), vld1q_u32([1, 2, 4, 8].as_ptr())))
        };
        LaneMask(bits as u8)
    }
}

impl Multiply32 for Neon {
    type Factor = uint32x4_t;

    #[inline(always)]
    fn factor(self) -> uint32x4_t {
        // SAFETY: NEON is there (see the module).
        unsafe { vuzp1q_u32(vreinterpretq_u32_u64(self.0[0]), vreinterpretq_u32_u64(self.0[1])) }
    }

    #[inline(always)]
    fn twice(factor: uint32x4_t) -> uint32x4_t {
        // SAFETY: NEON is there (see the module).
        unsafe { vaddq_u32(factor, factor) }
    }

    #[inline(always)]
    fn mul32(a: uint32x4_t, b: uint32x4_t) -> Self {
        // SAFETY: NEON is there (see the module).
        unsafe { Neon([vmull_u32(vget_low_u32(a), vget_low_u32(b)), vmull_high_u32(a, b)]) }
    }

    #[inline(always)]
    fn mul_add32(self, a: uint32x4_t, b: uint32x4_t) -> Self {
        // SAFETY: NEON is there (see the module).
        unsafe {
            let low = vmlal_u32(self.0[0], vget_low_u32(a), vget_low_u32(b));
            Neon([low, vmlal_high_u32(self.0[1], a, b)])
        }
    }

    #[inline(always)]
    fn mul9(a: &[Self; 9], b: &[Self; 9]) -> [Self; 9] {
        // SAFETY: NEON is there (see the module).
        unsafe { mul_limbs(a, b) }
    }

    #[inline(always)]
    fn sqr9(a: &[Self; 9]) -> [Self; 9] {
        // SAFETY: NEON is there (see the module).
        unsafe { sqr_limbs(a) }
    }
}

// Calls rather than inlined: some fifteen of them would not fit the instruction cache.

#[target_feature(enable = "neon")]
#[inline(never)]
fn mul_limbs(a: &[Neon; 9], b: &[Neon; 9]) -> [Neon; 9] {
    radix29::mul_limbs(a, b)
}

#[target_feature(enable = "neon")]
#[inline(never)]
fn sqr_limbs(a: &[Neon; 9]) -> [Neon; 9] {
    radix29::sqr_limbs(a)
}
