//! The product of two limbs as doubles split it, beside integers.

use rand::Rng;

use super::sample::Samples;
use crate::field::products::{Fused, Products};
use crate::vector::model::Model;
use crate::vector::{MAX_LANES, Vector};

type V = Model<1>;

/// What the product adds to two columns of zeros, without the biases: the low part has a sign.
fn split(a: u64, b: u64) -> (i64, u64) {
    let factor = |limb: u64| <Fused as Products<V>>::factor(V::splat(limb));
    let (low, high) = <Fused as Products<V>>::add(V::splat(0), V::splat(0), factor(a), factor(b));
    let [low_bias, high_bias] = <Fused as Products<V>>::BIAS;
    let [low, high] = [low, high].map(|column| column.store()[0]);
    (low.wrapping_sub(low_bias).cast_signed(), high.wrapping_sub(high_bias))
}

/// To nearest, ties to even.
fn rounded(product: u128) -> (i64, u64) {
    let (floor, rest) = ((product >> 52) as u64, product & ((1 << 52) - 1));
    let up = match rest.cmp(&(1 << 51)) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => floor & 1,
        std::cmp::Ordering::Greater => 1,
    };
    (rest as i64 - ((up as i64) << 52), floor + up)
}

#[track_caller]
fn check(a: u64, b: u64) {
    assert_eq!(split(a, b), rounded(u128::from(a) * u128::from(b)), "{a:#x} {b:#x}");
}

#[test]
fn doubles_split_a_product_to_nearest() {
    const MOST: u64 = (1 << 52) - 1;
    let borders = [0, 1, 2, 3, (1 << 26) - 1, 1 << 26, (1 << 51) - 1, 1 << 51, MOST - 1, MOST];
    for a in borders {
        for b in borders {
            check(a, b);
        }
    }
    let mut samples = Samples::new(46);
    for _ in 0..200_000 {
        let [a, b]: [u64; 2] = std::array::from_fn(|_| {
            samples.rng.random::<u64>() & MOST >> samples.rng.random_range(0..52)
        });
        check(a, b);
    }
}

/// A tie, and a product one above and one below it: 2^51 times an odd number, cut into factors in every way.
#[test]
fn ties_are_rounded_to_even_without_loss() {
    let mut samples = Samples::new(47);
    for twos in 0..52 {
        for _ in 0..200 {
            let odd = |samples: &mut Samples, bits: u32| {
                (samples.rng.random::<u64>() | 1) << (64 - bits) >> (64 - bits)
            };
            let [a, b] =
                [odd(&mut samples, 52 - twos) << twos, odd(&mut samples, twos + 1) << (51 - twos)];
            assert_eq!((u128::from(a) * u128::from(b)) % (1 << 52), 1 << 51);
            check(a, b);
        }
    }
    // 2^51 + 1 and 2^51 - 1, of which the first is 3 x 750599937895083.
    check(3, 750_599_937_895_083);
    check(1, (1 << 51) - 1);
    assert_eq!(split(1, 1 << 51), (1 << 51, 0));
    assert_eq!(split(3, 1 << 51), (-(1 << 51), 2));
}

/// Several lanes at once, and a small product.
#[test]
fn small_products_are_added_whole() {
    type Wide = Model<8>;
    let mut samples = Samples::new(48);
    for _ in 0..20_000 {
        let bits = samples.rng.random_range(1..52);
        let a: [u64; MAX_LANES] =
            std::array::from_fn(|_| samples.rng.random::<u64>() >> (64 - bits));
        let b: [u64; MAX_LANES] =
            std::array::from_fn(|_| samples.rng.random::<u64>() >> (12 + bits));
        let sum: [u64; MAX_LANES] = std::array::from_fn(|_| samples.rng.random::<u64>() >> 2);
        let result = Fused::add_small(Wide::load(&sum), Wide::load(&a), Wide::load(&b));
        for lane in 0..MAX_LANES {
            assert_eq!(result.store()[lane], sum[lane] + a[lane] * b[lane]);
        }
    }
}
