//! Eight lanes in 512-bit registers: AVX-512F, with IFMA or without.
//!
//! Every function here uses instructions that the processor may not have. A [`V512`] exists only inside the
//! entry points of `backend.rs` and in tests, which run where these features were found.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512d, __m512i, _mm_cvtsi32_si128, _mm512_add_epi64, _mm512_and_si512, _mm512_castpd_si512,
    _mm512_castsi512_pd, _mm512_fmadd_pd, _mm512_loadu_si512, _mm512_madd52hi_epu64,
    _mm512_madd52lo_epu64, _mm512_mask_blend_epi64, _mm512_set1_epi64, _mm512_shuffle_i64x2,
    _mm512_sll_epi64, _mm512_srl_epi64, _mm512_storeu_si512, _mm512_sub_epi64, _mm512_sub_pd,
    _mm512_testn_epi64_mask, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};

use crate::field::products::Fused;
use crate::field::radix52;
use crate::vector::{Doubles, Entry, LaneMask, MAX_LANES, Multiply52, Vector};

/// Eight lanes.
#[derive(Clone, Copy)]
pub(crate) struct V512(__m512i);

impl Vector for V512 {
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: AVX-512F is there (see the module).
        V512(unsafe { _mm512_set1_epi64(word.cast_signed()) })
    }

    #[inline(always)]
    fn load(words: &[u64; MAX_LANES]) -> Self {
        // SAFETY: AVX-512F is there (see the module); `words` is 64 readable bytes.
        V512(unsafe { _mm512_loadu_si512(words.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self) -> [u64; MAX_LANES] {
        let mut words = [0; MAX_LANES];
        // SAFETY: AVX-512F is there (see the module); `words` is 64 writable bytes.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), self.0) };
        words
    }

    #[inline(always)]
    fn gather(entries: &[&Entry; MAX_LANES]) -> [Self; 8] {
        let mut rows = [Self::splat(0); 8];
        for (row, entry) in rows.iter_mut().zip(entries) {
            *row = Self::load(&entry.0);
        }
        // Transposed by doubling: pairs of words, then of 128 bits, then of 256.
        let mut words = [Self::splat(0); 8];
        // SAFETY: AVX-512F is there (see the module).
        unsafe {
            let mut pairs = [rows[0].0; 8];
            for i in 0..4 {
                pairs[2 * i] = _mm512_unpacklo_epi64(rows[2 * i].0, rows[2 * i + 1].0);
                pairs[2 * i + 1] = _mm512_unpackhi_epi64(rows[2 * i].0, rows[2 * i + 1].0);
            }
            for odd in 0..2 {
                // The 128-bit parts 0, 2 (and 1, 3) of rows 0 to 3, then of rows 4 to 7.
                let (a, b) = (pairs[odd], pairs[2 + odd]);
                let (c, d) = (pairs[4 + odd], pairs[6 + odd]);
                let (ab02, ab13) =
                    (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xdd>(a, b));
                let (cd02, cd13) =
                    (_mm512_shuffle_i64x2::<0x88>(c, d), _mm512_shuffle_i64x2::<0xdd>(c, d));
                words[odd] = V512(_mm512_shuffle_i64x2::<0x88>(ab02, cd02));
                words[4 + odd] = V512(_mm512_shuffle_i64x2::<0xdd>(ab02, cd02));
                words[2 + odd] = V512(_mm512_shuffle_i64x2::<0x88>(ab13, cd13));
                words[6 + odd] = V512(_mm512_shuffle_i64x2::<0xdd>(ab13, cd13));
            }
        }
        words
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: AVX-512F is there (see the module).
        V512(unsafe { _mm512_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: AVX-512F is there (see the module).
        V512(unsafe { _mm512_sub_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: AVX-512F is there (see the module).
        V512(unsafe { _mm512_and_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn shr(self, count: u32) -> Self {
        // SAFETY: AVX-512F is there (see the module).
        V512(unsafe { _mm512_srl_epi64(self.0, _mm_cvtsi32_si128(count.cast_signed())) })
    }

    #[inline(always)]
    fn shl(self, count: u32) -> Self {
        // SAFETY: AVX-512F is there (see the module).
        V512(unsafe { _mm512_sll_epi64(self.0, _mm_cvtsi32_si128(count.cast_signed())) })
    }

    #[inline(always)]
    fn select(mask: LaneMask, yes: Self, no: Self) -> Self {
        // SAFETY: AVX-512F is there (see the module).
        V512(unsafe { _mm512_mask_blend_epi64(mask.0, no.0, yes.0) })
    }

    #[inline(always)]
    fn zero_lanes(self) -> LaneMask {
        // SAFETY: AVX-512F is there (see the module).
        LaneMask(unsafe { _mm512_testn_epi64_mask(self.0, self.0) })
    }
}

impl Doubles for V512 {
    type Double = __m512d;

    #[inline(always)]
    fn doubles(self) -> __m512d {
        // SAFETY: AVX-512F is there (see the module).
        unsafe { _mm512_castsi512_pd(self.0) }
    }

    #[inline(always)]
    fn words(doubles: __m512d) -> Self {
        // SAFETY: AVX-512F is there (see the module).
        V512(unsafe { _mm512_castpd_si512(doubles) })
    }

    #[inline(always)]
    fn minus(a: __m512d, b: __m512d) -> __m512d {
        // SAFETY: AVX-512F is there (see the module).
        unsafe { _mm512_sub_pd(a, b) }
    }

    #[inline(always)]
    fn fused(a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        // SAFETY: AVX-512F is there (see the module).
        unsafe { _mm512_fmadd_pd(a, b, c) }
    }

    #[inline(always)]
    fn mul5(a: &[Self; 5], b: &[Self; 5]) -> [Self; 5] {
        // SAFETY: AVX-512F is there (see the module).
        unsafe { mul_fused(a, b) }
    }

    #[inline(always)]
    fn sqr5(a: &[Self; 5]) -> [Self; 5] {
        // SAFETY: AVX-512F is there (see the module).
        unsafe { sqr_fused(a) }
    }
}

// Calls rather than inlined: a dozen of them would not fit the instruction cache.

#[target_feature(enable = "avx512f")]
#[inline(never)]
fn mul_fused(a: &[V512; 5], b: &[V512; 5]) -> [V512; 5] {
    radix52::mul_limbs::<V512, Fused>(a, b)
}

#[target_feature(enable = "avx512f")]
#[inline(never)]
fn sqr_fused(a: &[V512; 5]) -> [V512; 5] {
    radix52::sqr_limbs::<V512, Fused>(a)
}

impl Multiply52 for V512 {
    #[inline(always)]
    fn madd_low(self, a: Self, b: Self) -> Self {
        // SAFETY: the entry point that uses this checked for AVX-512 IFMA (see the module).
        V512(unsafe { _mm512_madd52lo_epu64(self.0, a.0, b.0) })
    }

    #[inline(always)]
    fn madd_high(self, a: Self, b: Self) -> Self {
        // SAFETY: the entry point that uses this checked for AVX-512 IFMA (see the module).
        V512(unsafe { _mm512_madd52hi_epu64(self.0, a.0, b.0) })
    }
}
