//! Integers modulo the group order n, by the proven arithmetic of `fiat-crypto`, and the split of a factor
//! into two halves.

use fiat_crypto::secp256k1_montgomery_scalar_64 as fiat;
use fiat_crypto::secp256k1_montgomery_scalar_64::{
    fiat_secp256k1_montgomery_scalar_montgomery_domain_field_element as Element,
    fiat_secp256k1_montgomery_scalar_non_montgomery_domain_field_element as Plain,
};

use crate::field::Words;

/// n, the order of the group.
pub(crate) const N: Words =
    [0xbfd2_5e8c_d036_4141, 0xbaae_dce6_af48_a03b, 0xffff_ffff_ffff_fffe, u64::MAX];

/// A number below n.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scalar(Words);

/// A number below n in Montgomery form: a plain number times this one is plain again.
#[derive(Clone, Copy)]
pub(crate) struct Factor(Element);

/// A [`Factor`] that is not zero, and may so take part in a shared inversion.
#[derive(Clone, Copy)]
pub(crate) struct NonZero(Factor);

/// Words of 32 big-endian bytes.
pub(crate) fn words(bytes: &[u8; 32]) -> Words {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().rev().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_be_bytes(*bytes);
    }
    words
}

/// Whether `a` is below `b`.
pub(crate) fn is_below(a: &Words, b: &Words) -> bool {
    a.iter().rev().lt(b.iter().rev())
}

/// `a` - `b`, which is not larger.
fn minus(a: &Words, b: &Words) -> Words {
    let mut borrow = false;
    let mut difference = [0; 4];
    for i in 0..4 {
        let (word, first) = a[i].overflowing_sub(b[i]);
        let (word, second) = word.overflowing_sub(u64::from(borrow));
        (difference[i], borrow) = (word, first || second);
    }
    difference
}

/// `a` + `b`, or `None` from 2^256.
pub(crate) fn plus(a: &Words, b: &Words) -> Option<Words> {
    let mut carry = false;
    let mut sum = [0; 4];
    for i in 0..4 {
        let (word, first) = a[i].overflowing_add(b[i]);
        let (word, second) = word.overflowing_add(u64::from(carry));
        (sum[i], carry) = (word, first || second);
    }
    (!carry).then_some(sum)
}

impl Scalar {
    pub(crate) const ONE: Scalar = Scalar([1, 0, 0, 0]);

    /// `None` from n.
    pub(crate) fn new(words: Words) -> Option<Scalar> {
        is_below(&words, &N).then_some(Scalar(words))
    }

    /// A 256-bit number modulo n.
    pub(crate) fn reduced(words: Words) -> Scalar {
        // 2^256 < 2 n.
        Scalar(if is_below(&words, &N) { words } else { minus(&words, &N) })
    }

    pub(crate) fn words(&self) -> &Words {
        &self.0
    }

    /// `None` of zero.
    pub(crate) fn non_zero(self) -> Option<NonZero> {
        (self.0 != [0; 4]).then(|| NonZero(self.factor()))
    }

    pub(crate) const fn factor(self) -> Factor {
        let mut out = Element([0; 4]);
        fiat::fiat_secp256k1_montgomery_scalar_to_montgomery(&mut out, &Plain(self.0));
        Factor(out)
    }

    /// The product with `factor`. The Montgomery product of x and y R is x y, whatever x is.
    pub(crate) const fn times(self, factor: &Factor) -> Scalar {
        let mut out = Element([0; 4]);
        fiat::fiat_secp256k1_montgomery_scalar_mul(&mut out, &Element(self.0), &factor.0);
        Scalar(out.0)
    }

    pub(crate) const fn plus(self, other: Scalar) -> Scalar {
        let mut out = Element([0; 4]);
        fiat::fiat_secp256k1_montgomery_scalar_add(&mut out, &Element(self.0), &Element(other.0));
        Scalar(out.0)
    }

    pub(crate) const fn minus(self, other: Scalar) -> Scalar {
        let mut out = Element([0; 4]);
        fiat::fiat_secp256k1_montgomery_scalar_sub(&mut out, &Element(self.0), &Element(other.0));
        Scalar(out.0)
    }

    pub(crate) const fn negated(self) -> Scalar {
        Scalar([0; 4]).minus(self)
    }
}

impl Factor {
    fn times(&self, other: &Factor) -> Factor {
        Factor(Element(Scalar(self.0.0).times(other).0))
    }

    /// The inverse, by the power n - 2; of zero, zero.
    fn inverse(&self) -> Factor {
        let mut powers = [ONE_FACTOR; 16];
        for i in 1..16 {
            powers[i] = powers[i - 1].times(self);
        }
        let exponent = minus(&N, &[2, 0, 0, 0]);
        let mut result = ONE_FACTOR;
        for at in (0..64).rev() {
            for _ in 0..4 {
                result = result.times(&result);
            }
            result = result.times(&powers[(exponent[at / 16] >> (at % 16 * 4) & 15) as usize]);
        }
        result
    }
}

const ONE_FACTOR: Factor = Scalar::ONE.factor();

/// (n + 1) / 2, the inverse of 2.
pub(crate) const HALF: Factor =
    Scalar([0xdfe9_2f46_681b_20a1, 0x5d57_6e73_57a4_501d, u64::MAX, u64::MAX >> 1]).factor();

/// Half the inverse of each number, at the price of one inversion for all and three products for each.
pub(crate) fn half_inverses(numbers: &[NonZero]) -> Vec<Factor> {
    let mut products = Vec::with_capacity(numbers.len());
    let mut product = ONE_FACTOR;
    for number in numbers {
        products.push(product);
        product = product.times(&number.0);
    }
    let mut inverse = product.inverse().times(&HALF);
    for (number, before) in numbers.iter().zip(&mut products).rev() {
        *before = before.times(&inverse);
        inverse = inverse.times(&number.0);
    }
    products
}

/// The eigenvalue of the endomorphism: (beta x, y) is lambda (x, y). Constants of the split are those of
/// libsecp256k1 (`scalar_impl.h`).
pub(crate) const LAMBDA: Scalar = Scalar([
    0xdf02_967c_1b23_bd72,
    0x122e_22ea_2081_6678,
    0xa526_1c02_8812_645a,
    0x5363_ad4c_c05c_30e0,
]);
const LAMBDA_FACTOR: Factor = LAMBDA.factor();
pub(crate) const G1: Words =
    [0xe893_209a_45db_b031, 0x3daa_8a14_71e8_ca7f, 0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd];
pub(crate) const G2: Words =
    [0x1571_b4ae_8ac4_7f71, 0x2212_08ac_9df5_06c6, 0x6f54_7fa9_0abf_e4c4, 0xe443_7ed6_010e_8828];
const MINUS_B1: Factor = Scalar([0x6f54_7fa9_0abf_e4c3, 0xe443_7ed6_010e_8828, 0, 0]).factor();
const MINUS_B2: Factor = Scalar([
    0xd765_cda8_3db1_562c,
    0x8a28_0ac5_0774_346d,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
])
.factor();

/// 2^128.
pub(crate) const SHIFT: Scalar = Scalar([0, 0, 1, 0]);
/// 2^128 (1 + lambda).
const SHIFT_BOTH: Scalar = SHIFT.plus(SHIFT.times(&LAMBDA_FACTOR));

/// The two halves a, b of k = (a - 2^128) + (b - 2^128) lambda, each positive and below 2^129.
///
/// `None` where the split does not recombine to k or a half is too long. Neither is possible as far as known;
/// that it is checked takes the constants and the rounding out of what is trusted.
pub(crate) fn split(k: Scalar) -> Option<[Words; 2]> {
    let c1 = Scalar(rounded_quotient(&k.0, &G1));
    let c2 = Scalar(rounded_quotient(&k.0, &G2));
    let second = c1.times(&MINUS_B1).plus(c2.times(&MINUS_B2));
    let first = k.minus(second.times(&LAMBDA_FACTOR));
    let (first, second) = (first.plus(SHIFT), second.plus(SHIFT));
    let recombined = first.plus(second.times(&LAMBDA_FACTOR));
    let is_short = |half: Scalar| half.0[3] == 0 && half.0[2] < 2;
    (recombined == k.plus(SHIFT_BOTH) && is_short(first) && is_short(second))
        .then_some([first.0, second.0])
}

/// a b / 2^384, rounded to the nearest.
fn rounded_quotient(a: &Words, b: &Words) -> Words {
    let mut product = [0u64; 8];
    for i in 0..4 {
        let mut carry = 0;
        for j in 0..4 {
            let sum = u128::from(a[i]) * u128::from(b[j]) + u128::from(product[i + j]) + carry;
            product[i + j] = sum as u64;
            carry = sum >> 64;
        }
        product[i + 4] = carry as u64;
    }
    let high = u128::from(product[6]) | u128::from(product[7]) << 64;
    // The quotient is below 2^127.7, as G1 and G2 are below 2^256 and k below n: it cannot overflow.
    let rounded = high + u128::from(product[5] >> 63);
    [rounded as u64, (rounded >> 64) as u64, 0, 0]
}
