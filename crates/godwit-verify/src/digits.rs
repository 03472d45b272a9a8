//! Factors as odd signed digits: every window of a factor adds one table entry, in every lane at the same
//! time, and no digit is zero.
//!
//! A number v of l bits, read as bits that mean +1 and -1, is 2 v - (2^l - 1); so k comes from
//! v = (k + 2^l - 1) / 2, where the half is taken modulo n. A window w of b bits is then the odd digit
//! 2 w - (2^b - 1). As in libsecp256k1's `ecmult_const`, the constant is added before the factor is split,
//! and so no digit, sign or evenness is a case of its own.

use crate::field::Words;
use crate::scalar::{Factor, HALF, LAMBDA, SHIFT, Scalar, split};

/// Bits of each part of a factor: a multiple of both window lengths.
const PART_BITS: usize = 130;
/// Window for the key: 16 odd multiples, made for each check.
pub(crate) const KEY_WINDOW: usize = 5;
pub(crate) const KEY_DIGITS: usize = PART_BITS / KEY_WINDOW;
pub(crate) const KEY_ENTRIES: usize = 1 << (KEY_WINDOW - 1);
/// Window for the generator: 4,096 odd multiples of G and of 2^128 G, made once, 512 KiB of the L2 cache.
pub(crate) const GENERATOR_WINDOW: usize = 13;
pub(crate) const GENERATOR_DIGITS: usize = PART_BITS / GENERATOR_WINDOW;
pub(crate) const GENERATOR_ENTRIES: usize = 1 << (GENERATOR_WINDOW - 1);

/// Windows of u1 (on G and 2^128 G) and of u2 (on Q and lambda Q), least significant first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digits {
    pub(crate) generator: [[u16; GENERATOR_DIGITS]; 2],
    pub(crate) key: [[u8; KEY_DIGITS]; 2],
}

/// Table index and sign of a window: the entry of index i is 2 i + 1 times the point.
#[inline(always)]
pub(crate) fn entry_of(window: usize, bits: usize) -> (usize, bool) {
    let half = 1 << (bits - 1);
    match window >= half {
        true => (window - half, false),
        false => (half - 1 - window, true),
    }
}

/// A power of two modulo n.
const fn power_of_two(exponent: usize) -> Scalar {
    let mut power = Scalar::ONE;
    let mut i = 0;
    while i < exponent {
        power = power.plus(power);
        i += 1;
    }
    power
}

const LAMBDA_PLUS_ONE: Factor = LAMBDA.plus(Scalar::ONE).factor();
/// Half of (2^130 - 1) (1 + 2^128): what all bits of both parts mean when they are -1.
const GENERATOR_OFFSET: Scalar = power_of_two(PART_BITS)
    .minus(Scalar::ONE)
    .times(&power_of_two(128).plus(Scalar::ONE).factor())
    .times(&HALF);
/// Half of (2^130 - 1 - 2^129) (1 + lambda); 2^129 is twice what [`split`] adds to each half.
const KEY_OFFSET: Scalar = power_of_two(PART_BITS)
    .minus(Scalar::ONE)
    .minus(SHIFT.plus(SHIFT))
    .times(&LAMBDA_PLUS_ONE)
    .times(&HALF);

impl Digits {
    pub(crate) const ZERO: Digits =
        Digits { generator: [[0; GENERATOR_DIGITS]; 2], key: [[0; KEY_DIGITS]; 2] };

    /// The digits of two factors, given as their halves modulo n; `None` as [`split`].
    pub(crate) fn of_halves(half_u1: Scalar, half_u2: Scalar) -> Option<Digits> {
        let [a, b, c, d] = *half_u1.plus(GENERATOR_OFFSET).words();
        let halves = split(half_u2.plus(KEY_OFFSET))?;
        let mut digits = Digits::ZERO;
        for (part, words) in digits.generator.iter_mut().zip([[a, b, 0, 0], [c, d, 0, 0]]) {
            for (i, digit) in part.iter_mut().enumerate() {
                *digit = window(&words, GENERATOR_WINDOW * i, GENERATOR_WINDOW) as u16;
            }
        }
        for (part, words) in digits.key.iter_mut().zip(halves) {
            for (i, digit) in part.iter_mut().enumerate() {
                *digit = window(&words, KEY_WINDOW * i, KEY_WINDOW) as u8;
            }
        }
        Some(digits)
    }
}

/// `bits` bits from bit `at` of a number below 2^192.
fn window(words: &Words, at: usize, bits: usize) -> u64 {
    let pair = u128::from(words[at / 64]) | u128::from(words[at / 64 + 1]) << 64;
    (pair >> (at % 64)) as u64 & ((1 << bits) - 1)
}
