//! Numbers modulo the prime 2^3072 - 1103717, the largest 3072-bit safe prime.

/// 2^3072 is congruent to this.
const EXCESS: u64 = 1_103_717;

const LIMBS: usize = 48;

/// A number below 2^3072, limbs from the lowest. It may be at or above the prime, until
/// [`Num3072::to_bytes`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Num3072([u64; LIMBS]);

impl Num3072 {
    pub(super) const ONE: Num3072 = {
        let mut limbs = [0; LIMBS];
        limbs[0] = 1;
        Num3072(limbs)
    };

    /// Bytes of the little-endian form.
    pub(super) const SIZE: usize = 8 * LIMBS;

    pub(super) fn from_bytes(bytes: &[u8; Num3072::SIZE]) -> Num3072 {
        let mut limbs = [0; LIMBS];
        for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks().0) {
            *limb = u64::from_le_bytes(*bytes);
        }
        Num3072(limbs)
    }

    /// Of the representative below the prime.
    pub(super) fn to_bytes(self) -> [u8; Num3072::SIZE] {
        let mut bytes = [0; Num3072::SIZE];
        for (bytes, limb) in bytes.as_chunks_mut().0.iter_mut().zip(self.below_prime().0) {
            *bytes = limb.to_le_bytes();
        }
        bytes
    }

    fn below_prime(self) -> Num3072 {
        let [lowest, rest @ ..] = self.0;
        let from_prime = rest.iter().all(|&limb| limb == u64::MAX);
        match lowest.checked_add(EXCESS) {
            None if from_prime => {
                let mut limbs = [0; LIMBS];
                limbs[0] = lowest.wrapping_add(EXCESS);
                Num3072(limbs)
            }
            _ => self,
        }
    }

    pub(super) fn multiply(&mut self, other: &Num3072) {
        let mut product = [0; 2 * LIMBS];
        multiply_48(&self.0, &other.0, &mut product);
        *self = reduce(&product);
    }

    fn square_times(mut self, times: u32) -> Num3072 {
        for _ in 0..times {
            let copy = self;
            self.multiply(&copy);
        }
        self
    }

    /// The number by which `self` multiplies to one, by Fermat's little theorem; zero for zero.
    pub(super) fn inverse(&self) -> Num3072 {
        // The exponent, prime - 2, is 3051 one bits and then 21 others.
        const ONE_BITS: u32 = 3051;
        const LAST_BITS: u32 = 21;
        const LAST: u64 = (1 << LAST_BITS) - EXCESS - 2;

        // `power` is self^(2^ones - 1) all along.
        let mut power = *self;
        let mut ones = 1;
        for bit in (0..ONE_BITS.ilog2()).rev() {
            let half = power;
            power = power.square_times(ones);
            power.multiply(&half);
            ones *= 2;
            if ONE_BITS >> bit & 1 == 1 {
                power = power.square_times(1);
                power.multiply(self);
                ones += 1;
            }
        }
        for bit in (0..LAST_BITS).rev() {
            power = power.square_times(1);
            if LAST >> bit & 1 == 1 {
                power.multiply(self);
            }
        }
        power
    }
}

fn reduce(product: &[u64; 2 * LIMBS]) -> Num3072 {
    let (low, high) = product.split_at(LIMBS);
    let mut limbs = [0; LIMBS];
    let mut carry = 0u128;
    for ((limb, low), high) in limbs.iter_mut().zip(low).zip(high) {
        carry += u128::from(*low) + u128::from(*high) * u128::from(EXCESS);
        *limb = carry as u64;
        carry >>= 64;
    }
    // The carry is at most EXCESS, then at most one over limbs too small to carry again.
    while carry > 0 {
        carry *= u128::from(EXCESS);
        for limb in &mut limbs {
            carry += u128::from(*limb);
            *limb = carry as u64;
            carry >>= 64;
        }
    }
    Num3072(limbs)
}

/// `out = a * b` for operands of a fixed length and `out` of twice that.
type Multiply = fn(a: &[u64], b: &[u64], out: &mut [u64]);

fn multiply_48(a: &[u64], b: &[u64], out: &mut [u64]) {
    karatsuba::<24>(a, b, out, multiply_24);
}

fn multiply_24(a: &[u64], b: &[u64], out: &mut [u64]) {
    karatsuba::<12>(a, b, out, multiply_12);
}

fn multiply_12(a: &[u64], b: &[u64], out: &mut [u64]) {
    karatsuba::<6>(a, b, out, schoolbook::<6>);
}

/// Operands of `2 * HALF` limbs by three multiplications of `HALF` limbs instead of four.
#[inline(always)]
fn karatsuba<const HALF: usize>(a: &[u64], b: &[u64], out: &mut [u64], multiply: Multiply) {
    let ((a_low, a_high), (b_low, b_high)) = (a.split_at(HALF), b.split_at(HALF));
    let (low, high) = out.split_at_mut(2 * HALF);
    multiply(a_low, b_low, low);
    multiply(a_high, b_high, high);

    // a_low * b_high + a_high * b_low = low + high - (a_low - a_high) * (b_low - b_high)
    let (mut a_difference, mut b_difference) = ([0; HALF], [0; HALF]);
    let negative = absolute_difference(a_low, a_high, &mut a_difference)
        != absolute_difference(b_low, b_high, &mut b_difference);
    let mut middle = [[0; HALF]; 2];
    let middle = middle.as_flattened_mut();
    multiply(&a_difference, &b_difference, middle);
    let mut carry = 0i128;
    for ((middle, low), high) in middle.iter_mut().zip(low).zip(high) {
        let product = i128::from(*middle);
        carry += i128::from(*low) + i128::from(*high);
        carry += if negative { product } else { -product };
        *middle = carry as u64;
        carry >>= 64;
    }
    let (at_middle, above) = out[HALF..].split_at_mut(2 * HALF);
    let mut sum = 0u128;
    for (limb, middle) in at_middle.iter_mut().zip(middle) {
        sum += u128::from(*limb) + u128::from(*middle);
        *limb = sum as u64;
        sum >>= 64;
    }
    // What `middle` stands for is a sum of products, so its carry is not negative.
    sum += carry as u128;
    for limb in above {
        sum += u128::from(*limb);
        *limb = sum as u64;
        sum >>= 64;
    }
}

/// `out = |a - b|`; returns whether `a < b`.
fn absolute_difference(a: &[u64], b: &[u64], out: &mut [u64]) -> bool {
    let less = a.iter().rev().lt(b.iter().rev());
    let (larger, smaller) = if less { (b, a) } else { (a, b) };
    let mut borrow = false;
    for ((limb, larger), smaller) in out.iter_mut().zip(larger).zip(smaller) {
        let (difference, first) = larger.overflowing_sub(*smaller);
        let (difference, second) = difference.overflowing_sub(u64::from(borrow));
        *limb = difference;
        borrow = first || second;
    }
    less
}

fn schoolbook<const N: usize>(a: &[u64], b: &[u64], out: &mut [u64]) {
    out.fill(0);
    let b: &[u64; N] = b.try_into().expect("operands of the length asked for");
    for (i, a) in a.iter().enumerate() {
        let (row, above) = out[i..].split_first_chunk_mut::<N>().expect("out is twice as long");
        let mut carry = 0;
        for (limb, b) in row.iter_mut().zip(b) {
            let sum = u128::from(*a) * u128::from(*b) + u128::from(*limb) + u128::from(carry);
            *limb = sum as u64;
            carry = (sum >> 64) as u64;
        }
        above[0] = carry;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PRIME: Num3072 = {
        let mut limbs = [u64::MAX; LIMBS];
        limbs[0] = u64::MAX - EXCESS + 1;
        Num3072(limbs)
    };

    fn small(n: u64) -> Num3072 {
        let mut limbs = [0; LIMBS];
        limbs[0] = n;
        Num3072(limbs)
    }

    fn product(a: &Num3072, b: &Num3072) -> Num3072 {
        let mut product = *a;
        product.multiply(b);
        product
    }

    /// By doubling and adding, bit by bit.
    fn naive_product(a: &Num3072, b: &Num3072) -> Num3072 {
        let add = |a: &[u64], b: &[u64]| {
            let mut wide = [0; 2 * LIMBS];
            let mut carry = 0;
            for i in 0..LIMBS {
                let sum = u128::from(a[i]) + u128::from(b[i]) + carry;
                wide[i] = sum as u64;
                carry = sum >> 64;
            }
            wide[LIMBS] = carry as u64;
            reduce(&wide)
        };
        let mut sum = small(0);
        for bit in (0..64 * LIMBS).rev() {
            sum = add(&sum.0, &sum.0);
            if b.0[bit / 64] >> (bit % 64) & 1 == 1 {
                sum = add(&sum.0, &a.0);
            }
        }
        sum
    }

    /// Random limbs, with many at the ends of their range.
    fn number() -> impl Strategy<Value = Num3072> {
        let limb = prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0u64..4];
        proptest::collection::vec(limb, LIMBS)
            .prop_map(|limbs| Num3072(limbs.try_into().expect("as many as were asked for")))
    }

    #[test]
    fn representatives_around_the_prime() {
        let above = |n: u64| {
            let mut limbs = PRIME.0;
            limbs[0] += n;
            Num3072(limbs)
        };
        assert_eq!(PRIME.to_bytes(), small(0).to_bytes());
        assert_eq!(above(EXCESS - 1).to_bytes(), small(EXCESS - 1).to_bytes());
        let mut below = PRIME;
        below.0[0] -= 1;
        assert_eq!(below.to_bytes()[..8], below.0[0].to_le_bytes());
        // (-1) * (-1) = 1
        assert_eq!(product(&below, &below).to_bytes(), Num3072::ONE.to_bytes());
        let largest = Num3072([u64::MAX; LIMBS]);
        let square = (EXCESS - 1) * (EXCESS - 1);
        assert_eq!(product(&largest, &largest).to_bytes(), small(square).to_bytes());
    }

    #[test]
    fn inverse_of_small_numbers_and_zero() {
        for n in [1, 2, 3, EXCESS, u64::MAX] {
            let one = product(&small(n).inverse(), &small(n));
            assert_eq!(one.to_bytes(), Num3072::ONE.to_bytes());
        }
        assert_eq!(small(0).inverse().to_bytes(), small(0).to_bytes());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn product_equals_its_naive_twin(a in number(), b in number()) {
            prop_assert_eq!(product(&a, &b).to_bytes(), naive_product(&a, &b).to_bytes());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10))]

        #[test]
        fn inverse_multiplies_to_one(a in number()) {
            prop_assert_eq!(product(&a.inverse(), &a).to_bytes(), Num3072::ONE.to_bytes());
        }
    }
}
