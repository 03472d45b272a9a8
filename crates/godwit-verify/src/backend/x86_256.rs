//! Four lanes in a 256-bit register, and eight in two: AVX2 with FMA, and the 256-bit form of AVX-512 IFMA.
//!
//! Every function here uses instructions that the processor may not have. A [`V256`] exists only inside the
//! entry points of `backend.rs` and in tests, which run where these features were found.

#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{
    __m256d, __m256i, _mm_cvtsi32_si128, _mm256_add_epi64, _mm256_and_si256, _mm256_blendv_epi8,
    _mm256_castpd_si256, _mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_fmadd_pd,
    _mm256_loadu_si256, _mm256_madd52hi_epu64, _mm256_madd52lo_epu64, _mm256_movemask_pd,
    _mm256_permute2x128_si256, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_sll_epi64,
    _mm256_srl_epi64, _mm256_storeu_si256, _mm256_sub_epi64, _mm256_sub_pd, _mm256_unpackhi_epi64,
    _mm256_unpacklo_epi64,
};

use crate::field::products::{Fused, Ifma};
use crate::field::radix52;
use crate::vector::pair::{Pair, join, split};
use crate::vector::{Doubles, Entry, LaneMask, MAX_LANES, Multiply52, Vector};

/// Four lanes.
#[derive(Clone, Copy)]
pub(crate) struct V256(__m256i);

impl Vector for V256 {
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: AVX2 is there (see the module).
        V256(unsafe { _mm256_set1_epi64x(word.cast_signed()) })
    }

    #[inline(always)]
    fn load(words: &[u64; MAX_LANES]) -> Self {
        // SAFETY: AVX2 is there (see the module); the front half of `words` is 32 readable bytes.
        V256(unsafe { _mm256_loadu_si256(words.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self) -> [u64; MAX_LANES] {
        let mut words = [0; MAX_LANES];
        // SAFETY: AVX2 is there (see the module); the front half of `words` is 32 writable bytes.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), self.0) };
        words
    }

    #[inline(always)]
    fn gather(entries: &[&Entry; MAX_LANES]) -> [Self; 8] {
        let mut words = [Self::splat(0); 8];
        for half in 0..2 {
            let at = 4 * half;
            // SAFETY: AVX2 is there (see the module); each half of an entry is 32 readable bytes.
            unsafe {
                let a = _mm256_loadu_si256(entries[0].0[at..].as_ptr().cast());
                let b = _mm256_loadu_si256(entries[1].0[at..].as_ptr().cast());
                let c = _mm256_loadu_si256(entries[2].0[at..].as_ptr().cast());
                let d = _mm256_loadu_si256(entries[3].0[at..].as_ptr().cast());
                let (ab02, ab13) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
                let (cd02, cd13) = (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
                words[at] = V256(_mm256_permute2x128_si256::<0x20>(ab02, cd02));
                words[at + 1] = V256(_mm256_permute2x128_si256::<0x20>(ab13, cd13));
                words[at + 2] = V256(_mm256_permute2x128_si256::<0x31>(ab02, cd02));
                words[at + 3] = V256(_mm256_permute2x128_si256::<0x31>(ab13, cd13));
            }
        }
        words
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: AVX2 is there (see the module).
        V256(unsafe { _mm256_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: AVX2 is there (see the module).
        V256(unsafe { _mm256_sub_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: AVX2 is there (see the module).
        V256(unsafe { _mm256_and_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn shr(self, count: u32) -> Self {
        // SAFETY: AVX2 is there (see the module).
        V256(unsafe { _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(count.cast_signed())) })
    }

    #[inline(always)]
    fn shl(self, count: u32) -> Self {
        // SAFETY: AVX2 is there (see the module).
        V256(unsafe { _mm256_sll_epi64(self.0, _mm_cvtsi32_si128(count.cast_signed())) })
    }

    #[inline(always)]
    fn select(mask: LaneMask, yes: Self, no: Self) -> Self {
        let mask = mask.four_words();
        // SAFETY: AVX2 is there (see the module); `mask` is 32 readable bytes.
        V256(unsafe { _mm256_blendv_epi8(no.0, yes.0, _mm256_loadu_si256(mask.as_ptr().cast())) })
    }

    #[inline(always)]
    fn zero_lanes(self) -> LaneMask {
        // SAFETY: AVX2 is there (see the module).
        let signs = unsafe {
            let equal = _mm256_cmpeq_epi64(self.0, _mm256_setzero_si256());
            _mm256_movemask_pd(_mm256_castsi256_pd(equal))
        };
        LaneMask(signs as u8)
    }
}

impl Doubles for V256 {
    type Double = __m256d;

    #[inline(always)]
    fn doubles(self) -> __m256d {
        // SAFETY: AVX2 is there (see the module).
        unsafe { _mm256_castsi256_pd(self.0) }
    }

    #[inline(always)]
    fn words(doubles: __m256d) -> Self {
        // SAFETY: AVX2 is there (see the module).
        V256(unsafe { _mm256_castpd_si256(doubles) })
    }

    #[inline(always)]
    fn minus(a: __m256d, b: __m256d) -> __m256d {
        // SAFETY: AVX2 is there (see the module).
        unsafe { _mm256_sub_pd(a, b) }
    }

    #[inline(always)]
    fn fused(a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        // SAFETY: FMA is there (see the module).
        unsafe { _mm256_fmadd_pd(a, b, c) }
    }

    #[inline(always)]
    fn in_order(columns: &mut [Self; 10], first: usize, factor: &mut __m256d) {
        // SAFETY: AVX2 is there (see the module).
        unsafe { in_order(columns, first, factor) }
    }
}

/// The six columns that a row adds to.
#[target_feature(enable = "avx")]
#[inline]
fn in_order(c: &mut [V256; 10], first: usize, factor: &mut __m256d) {
    let [mut x0, mut x1, mut x2] = [c[first].0, c[first + 1].0, c[first + 2].0];
    let [mut x3, mut x4, mut x5] = [c[first + 3].0, c[first + 4].0, c[first + 5].0];
    // SAFETY: the text is a comment: no instruction, nothing read, written or changed.
    unsafe {
        asm!(
            "/* {} {} {} {} {} {} {} */",
            inout(ymm_reg) x0,
            inout(ymm_reg) x1,
            inout(ymm_reg) x2,
            inout(ymm_reg) x3,
            inout(ymm_reg) x4,
            inout(ymm_reg) x5,
            inout(ymm_reg) *factor,
            options(nomem, nostack, preserves_flags),
        );
    }
    c[first] = V256(x0);
    c[first + 1] = V256(x1);
    c[first + 2] = V256(x2);
    c[first + 3] = V256(x3);
    c[first + 4] = V256(x4);
    c[first + 5] = V256(x5);
}

impl Doubles for Pair<V256> {
    type Double = [__m256d; 2];

    #[inline(always)]
    fn doubles(self) -> [__m256d; 2] {
        [self.0.doubles(), self.1.doubles()]
    }

    #[inline(always)]
    fn words(doubles: [__m256d; 2]) -> Self {
        Pair(V256::words(doubles[0]), V256::words(doubles[1]))
    }

    #[inline(always)]
    fn minus(a: [__m256d; 2], b: [__m256d; 2]) -> [__m256d; 2] {
        [V256::minus(a[0], b[0]), V256::minus(a[1], b[1])]
    }

    #[inline(always)]
    fn fused(a: [__m256d; 2], b: [__m256d; 2], c: [__m256d; 2]) -> [__m256d; 2] {
        [V256::fused(a[0], b[0], c[0]), V256::fused(a[1], b[1], c[1])]
    }

    #[inline(always)]
    fn mul5(a: &[Self; 5], b: &[Self; 5]) -> [Self; 5] {
        // SAFETY: AVX2 and FMA are there (see the module).
        unsafe { mul_pairs(a, b) }
    }

    #[inline(always)]
    fn sqr5(a: &[Self; 5]) -> [Self; 5] {
        // SAFETY: AVX2 and FMA are there (see the module).
        unsafe { sqr_pairs(a) }
    }
}

// One product after the other, as the columns of one fill the registers; and calls rather than inlined: a
// dozen of them would not fit the instruction cache.

#[target_feature(enable = "avx2,fma")]
#[inline(never)]
fn mul_pairs(a: &[Pair<V256>; 5], b: &[Pair<V256>; 5]) -> [Pair<V256>; 5] {
    let ([a, c], [b, d]) = (split(a), split(b));
    let first = radix52::mul_limbs::<V256, Fused>(&a, &b);
    join(first, radix52::mul_limbs::<V256, Fused>(&c, &d))
}

#[target_feature(enable = "avx2,fma")]
#[inline(never)]
fn sqr_pairs(a: &[Pair<V256>; 5]) -> [Pair<V256>; 5] {
    let [a, b] = split(a);
    let first = radix52::sqr_limbs::<V256, Fused>(&a);
    join(first, radix52::sqr_limbs::<V256, Fused>(&b))
}

impl Multiply52 for V256 {
    #[inline(always)]
    fn madd_low(self, a: Self, b: Self) -> Self {
        // SAFETY: the entry point that uses this checked for AVX-512 IFMA and VL (see the module).
        V256(unsafe { _mm256_madd52lo_epu64(self.0, a.0, b.0) })
    }

    #[inline(always)]
    fn madd_high(self, a: Self, b: Self) -> Self {
        // SAFETY: the entry point that uses this checked for AVX-512 IFMA and VL (see the module).
        V256(unsafe { _mm256_madd52hi_epu64(self.0, a.0, b.0) })
    }

    #[inline(always)]
    fn mul5(a: &[Self; 5], b: &[Self; 5]) -> [Self; 5] {
        // SAFETY: the entry point that uses this checked for AVX-512 IFMA and VL (see the module).
        unsafe { mul_five(a, b) }
    }

    #[inline(always)]
    fn sqr5(a: &[Self; 5]) -> [Self; 5] {
        // SAFETY: the entry point that uses this checked for AVX-512 IFMA and VL (see the module).
        unsafe { sqr_five(a) }
    }
}

// Calls here too, though inlined they would fit: what nobody uses yet is not worth half a minute of every
// build.

#[target_feature(enable = "avx2,avx512ifma,avx512vl")]
#[inline(never)]
fn mul_five(a: &[V256; 5], b: &[V256; 5]) -> [V256; 5] {
    radix52::mul_limbs::<V256, Ifma>(a, b)
}

#[target_feature(enable = "avx2,avx512ifma,avx512vl")]
#[inline(never)]
fn sqr_five(a: &[V256; 5]) -> [V256; 5] {
    radix52::sqr_limbs::<V256, Ifma>(a)
}
