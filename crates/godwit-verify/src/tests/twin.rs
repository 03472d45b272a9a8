//! The field beside big integers, in both radixes, over limbs of every size that the contract allows.

use num_bigint::BigUint;
use rand::Rng;

use super::sample::Samples;
use crate::field::outlined::Outlined;
use crate::field::products::{Fused, Ifma, Products};
use crate::field::radix29::Radix29;
use crate::field::radix52::Radix52;
use crate::field::{C, Field, P, constant, even_lanes, inverse, square_root, zero_lanes};
use crate::vector::model::Model;
use crate::vector::{LaneMask, MAX_LANES, Vector};

type V = Model<8>;

fn big(words: &[u64]) -> BigUint {
    BigUint::new(words.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect())
}

/// What tells the radixes apart: limbs.
pub(super) trait Limbs: Field<V = V> {
    const BITS: u32;
    /// The most that a settled limb and the topmost settled limb can be; `super::intervals` proves it.
    const LARGEST: [u64; 2];
    fn from_limbs(limbs: &[V]) -> Self;
    fn count() -> usize;
    fn limbs(&self) -> Vec<V>;

    fn values(&self) -> Vec<BigUint> {
        let limbs: Vec<[u64; MAX_LANES]> = self.limbs().into_iter().map(V::store).collect();
        let value = |lane: usize| {
            let place = |(i, limb): (usize, &[u64; 8])| {
                BigUint::from(limb[lane]) << (i * Self::BITS as usize)
            };
            limbs.iter().enumerate().map(place).sum::<BigUint>()
        };
        (0..MAX_LANES).map(value).collect()
    }
}

impl<P: Products<V>> Limbs for Radix52<V, P> {
    const BITS: u32 = 52;
    const LARGEST: [u64; 2] = [(1 << 52) - 1, (1 << 48) + (1 << 7)];
    fn from_limbs(limbs: &[V]) -> Self {
        Radix52::new(limbs.try_into().expect("five"))
    }
    fn count() -> usize {
        5
    }
    fn limbs(&self) -> Vec<V> {
        self.limbs().to_vec()
    }
}

impl Limbs for Radix29<V> {
    const BITS: u32 = 29;
    const LARGEST: [u64; 2] = [(1 << 29) + (1 << 24), (1 << 24) - 1];
    fn from_limbs(limbs: &[V]) -> Self {
        Radix29(limbs.try_into().expect("nine"))
    }
    fn count() -> usize {
        9
    }
    fn limbs(&self) -> Vec<V> {
        self.0.to_vec()
    }
}

/// What is tested: the point code has the same operations inlined, which take long to compile for a model.
impl<F: Limbs> Limbs for Outlined<F> {
    const BITS: u32 = F::BITS;
    const LARGEST: [u64; 2] = F::LARGEST;
    fn from_limbs(limbs: &[V]) -> Self {
        Outlined(F::from_limbs(limbs))
    }
    fn count() -> usize {
        F::count()
    }
    fn limbs(&self) -> Vec<V> {
        self.0.limbs()
    }
}

pub(super) type TwinIfma = Outlined<Radix52<V, Ifma>>;
pub(super) type TwinFused = Outlined<Radix52<V, Fused>>;
pub(super) type Twin29 = Outlined<Radix29<V>>;

/// A settled element with limbs at the borders as often as not.
fn element<F: Limbs>(samples: &mut Samples) -> F {
    let limb = |samples: &mut Samples, most: u64| {
        let mut words = [0; MAX_LANES];
        for word in &mut words {
            *word = match samples.rng.random_range(0..6) {
                0 => 0,
                1 => most,
                2 => most - samples.rng.random_range(0..4),
                3 => samples.rng.random_range(0..4),
                _ => samples.rng.random_range(0..=most),
            };
        }
        V::load(&words)
    };
    let [most, top] = F::LARGEST;
    let last = F::count() - 1;
    let limbs: Vec<V> =
        (0..=last).map(|i| limb(samples, if i == last { top } else { most })).collect();
    F::from_limbs(&limbs)
}

fn packed<F: Field<V = V>>(element: F) -> Vec<BigUint> {
    let words = element.pack().map(V::store);
    (0..MAX_LANES).map(|lane| big(&words.map(|word| word[lane]))).collect()
}

/// Every operation on two elements, against integers modulo p.
fn operations<F: Limbs>(count: usize) {
    let p = big(&P);
    let mut samples = Samples::new(40);
    for _ in 0..count {
        let (a, b): (F, F) = (element(&mut samples), element(&mut samples));
        let (x, y) = (a.values(), b.values());
        let check = |name: &str, result: F, expected: &dyn Fn(&BigUint, &BigUint) -> BigUint| {
            let values = packed(result);
            for lane in 0..MAX_LANES {
                assert_eq!(values[lane], expected(&x[lane], &y[lane]) % &p, "{name}");
            }
        };
        check("pack", a, &|x, _| x.clone());
        check("mul", a.mul(&b), &|x, y| x * y);
        check("sqr", a.sqr(), &|x, _| x * x);
        check("add", a.add(b).settle(), &|x, y| x + y);
        check("sub", a.sub::<1>(b).settle(), &|x, y| x + (&p << 2) - y);
        check("sub 8", a.sub::<8>(b.times_power(3)).settle(), &|x, y| x + (&p << 5) - (y << 3));
        check("sums", a.add(b).fit().mul(&b.sub::<1>(a).fit()), &|x, y| {
            (x + y) * (y + (&p << 2) - x)
        });
        check("square of a sum", a.add(a).fit().sqr(), &|x, _| (x * x) << 2);
        let wide = a.times_power(2).sub::<1>(b).fit().mul(&a);
        check("magnitude 6", wide, &|x, y| ((x << 2) + (&p << 2) - y) * x);
        let even = even_lanes(a);
        for lane in 0..MAX_LANES {
            assert_eq!(even.contains(lane), !(&x[lane] % &p).bit(0));
        }
    }
}

#[test]
fn operations_by_ifma_are_those_modulo_p() {
    operations::<TwinIfma>(4_000);
}

#[test]
fn operations_by_fused_multiply_adds_are_those_modulo_p() {
    operations::<TwinFused>(4_000);
}

#[test]
fn operations_in_radix_29_are_those_modulo_p() {
    operations::<Twin29>(4_000);
}

/// Numbers of 256 bits, also those from p: what is unpacked is the number, what is packed below p.
fn packing<F: Limbs>() {
    let p = big(&P);
    let mut numbers: Vec<[u64; 4]> = vec![[0; 4], [1, 0, 0, 0], P, [u64::MAX; 4]];
    for i in 0..4 {
        numbers.push([P[0].wrapping_sub(i), P[1], P[2], P[3]]);
        numbers.push([P[0] + i, P[1], P[2], P[3]]);
        numbers.push([C, 0, 0, i]);
    }
    let mut samples = Samples::new(41);
    numbers.extend((0..200).map(|_| samples.rng.random::<[u64; 4]>()));
    for number in numbers {
        let element: F = constant(&number);
        assert_eq!(element.values()[0], big(&number));
        assert_eq!(packed(element)[7], big(&number) % &p);
        let zero = if big(&number) % &p == BigUint::ZERO { 0xff } else { 0 };
        assert_eq!(zero_lanes(element), LaneMask(zero));
    }
}

#[test]
fn every_number_of_256_bits_is_unpacked_and_packed() {
    packing::<TwinIfma>();
    packing::<TwinFused>();
    packing::<Twin29>();
}

/// The powers, by what they are for.
fn powers<F: Limbs>() {
    let p = big(&P);
    let mut samples = Samples::new(42);
    for _ in 0..20 {
        let a: F = element(&mut samples);
        let x = a.values();
        let inverses = packed(inverse(a));
        let roots = packed(square_root(a.sqr()));
        for lane in 0..MAX_LANES {
            let product = &inverses[lane] * &x[lane] % &p;
            assert_eq!(product, BigUint::from(u32::from(&x[lane] % &p != BigUint::ZERO)));
            assert_eq!(&roots[lane] * &roots[lane] % &p, &x[lane] * &x[lane] % &p);
        }
    }
}

#[test]
fn powers_are_inverse_and_square_root() {
    powers::<TwinIfma>();
    powers::<TwinFused>();
    powers::<Twin29>();
}
