//! Each instruction of the real vectors beside the model's, on words of every shape.
//!
//! The tests of the field run on the model alone, where limbs are as large as they can get. With signatures
//! the highest bit of a sum of products is set once in a million products, and other bounds are never
//! reached: an instruction that is right only below them would pass all tests of whole checks.

use rand::Rng;

use super::real;
use super::sample::Samples;
use crate::backend::BackendKind;
#[cfg(target_arch = "aarch64")]
use crate::vector::Multiply32;
use crate::vector::model::Model;
#[cfg(target_arch = "x86_64")]
use crate::vector::{Doubles, Multiply52, pair::Pair};
use crate::vector::{Entry, LaneMask, MAX_LANES, Vector};

type Words = [u64; MAX_LANES];

const ROUNDS: usize = 20_000;

fn words(samples: &mut Samples) -> Words {
    std::array::from_fn(|_| {
        let word: u64 = samples.rng.random();
        match samples.rng.random_range(0..8) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << samples.rng.random_range(0..64),
            3 => u64::MAX >> samples.rng.random_range(0..64),
            4 => word >> samples.rng.random_range(0..64),
            5 => word | 1 << 63,
            _ => word,
        }
    })
}

/// What a vector of so many lanes holds of the model's words.
fn front<V: Vector>(mut words: Words) -> Words {
    words[V::LANES..].fill(0);
    words
}

#[track_caller]
fn same<V: Vector>(name: &str, real: V, model: Model<8>) {
    assert_eq!(real.store(), front::<V>(model.store()), "{name}");
}

fn plain<V: Vector>() {
    let mut samples = Samples::new(43);
    for _ in 0..ROUNDS {
        let (x, y) = (words(&mut samples), words(&mut samples));
        let (a, b) = (V::load(&x), V::load(&y));
        let (m, n) = (Model::<8>::load(&x), Model::<8>::load(&y));
        same("load", a, m);
        same("splat", V::splat(x[0]), Model::splat(x[0]));
        same("add", a.add(b), m.add(n));
        same("sub", a.sub(b), m.sub(n));
        same("and", a.and(b), m.and(n));
        let count = samples.rng.random_range(0..64);
        same("shr", a.shr(count), m.shr(count));
        same("shl", a.shl(count), m.shl(count));
        let mask = LaneMask(samples.rng.random());
        same("select", V::select(mask, a, b), Model::select(mask, m, n));
        let (zeros, expected) = (a.zero_lanes(), m.zero_lanes());
        for lane in 0..V::LANES {
            assert_eq!(zeros.contains(lane), expected.contains(lane), "zero_lanes {x:?}");
        }
        let entries: [Entry; MAX_LANES] = std::array::from_fn(|_| Entry(words(&mut samples)));
        let entries = entries.each_ref();
        for (real, model) in V::gather(&entries).into_iter().zip(Model::<8>::gather(&entries)) {
            same("gather", real, model);
        }
    }
}

#[cfg(target_arch = "aarch64")]
fn multiplies_32<V: Multiply32>() {
    let mut samples = Samples::new(44);
    for _ in 0..ROUNDS {
        let (x, y, z) = (words(&mut samples), words(&mut samples), words(&mut samples));
        let (a, b, c) = (V::load(&x), V::load(&y), V::load(&z));
        let [m, n, o] = [&x, &y, &z].map(Model::<8>::load);
        same("mul32", V::mul32(a.factor(), b.factor()), Model::mul32(m.factor(), n.factor()));
        let sum = c.mul_add32(a.factor(), b.factor());
        same("mul_add32", sum, o.mul_add32(m.factor(), n.factor()));
        let half = x.map(|word| word & 0x7fff_ffff);
        let (a, m) = (V::load(&half).factor(), Model::<8>::load(&half).factor());
        let doubled = V::mul32(V::twice(a), b.factor());
        same("twice", doubled, Model::mul32(Model::<8>::twice(m), n.factor()));
    }
}

/// Words that are neither an infinity nor no number, whose bits processors choose differently.
#[cfg(target_arch = "x86_64")]
fn finite(words: Words) -> Words {
    words.map(|word| if f64::from_bits(word).is_finite() { word } else { word ^ 1 << 62 })
}

/// Limbs as doubles, of which the products are.
#[cfg(target_arch = "x86_64")]
fn limbs(words: Words) -> Words {
    words.map(|word| ((word & ((1 << 52) - 1)) as f64).to_bits())
}

/// Compares all that is done with doubles, and returns a b + c.
#[cfg(target_arch = "x86_64")]
fn arithmetic<V: Doubles>(words: &[Words; 3]) -> Words {
    let [a, b, c] = words.each_ref().map(|words| V::load(words).doubles());
    let [m, n, o] = words.each_ref().map(|words| Model::<8>::load(words).doubles());
    same("doubles", V::words(a), Model::words(m));
    same("minus", V::words(V::minus(a, b)), Model::words(Model::minus(m, n)));
    let sum = Model::words(Model::fused(m, n, o));
    same("fused", V::words(V::fused(a, b, c)), sum);
    sum.store()
}

#[cfg(target_arch = "x86_64")]
fn fuses<V: Doubles>() {
    const TWO_104: f64 = (1_u128 << 104) as f64;
    let mut samples = Samples::new(44);
    for _ in 0..ROUNDS {
        let [x, y, z] = std::array::from_fn(|_| words(&mut samples));
        arithmetic::<V>(&[x, y, z].map(finite));
        let high = arithmetic::<V>(&[limbs(x), limbs(y), [TWO_104.to_bits(); MAX_LANES]]);
        // What is left of the product without its upper part, as `field::products` takes it.
        let rest =
            high.map(|word| (TWO_104 - 1.5 * 2_f64.powi(52) - f64::from_bits(word)).to_bits());
        arithmetic::<V>(&[limbs(x), limbs(y), rest]);
    }
}

#[cfg(target_arch = "x86_64")]
fn multiplies_52<V: Multiply52>() {
    let mut samples = Samples::new(45);
    for _ in 0..ROUNDS {
        let (x, y, z) = (words(&mut samples), words(&mut samples), words(&mut samples));
        let (a, b, c) = (V::load(&x), V::load(&y), V::load(&z));
        let [m, n, o] = [&x, &y, &z].map(Model::<8>::load);
        same("madd_low", c.madd_low(a, b), o.madd_low(m, n));
        same("madd_high", c.madd_high(a, b), o.madd_high(m, n));
    }
}

#[test]
fn each_real_instruction_is_the_model_s_on_every_word() {
    for backend in real() {
        #[cfg(target_arch = "x86_64")]
        match backend.kind() {
            BackendKind::Ifma512 => {
                plain::<crate::backend::x86_512::V512>();
                multiplies_52::<crate::backend::x86_512::V512>();
            }
            BackendKind::Ifma256 => {
                plain::<crate::backend::x86_256::V256>();
                multiplies_52::<crate::backend::x86_256::V256>();
            }
            BackendKind::Avx512 => {
                plain::<crate::backend::x86_512::V512>();
                fuses::<crate::backend::x86_512::V512>();
            }
            BackendKind::Avx2 => {
                plain::<crate::backend::x86_256::V256>();
                plain::<Pair<crate::backend::x86_256::V256>>();
                fuses::<crate::backend::x86_256::V256>();
                fuses::<Pair<crate::backend::x86_256::V256>>();
            }
            other => panic!("{other:?} is of another architecture"),
        }
        #[cfg(target_arch = "aarch64")]
        {
            assert_eq!(backend.kind(), BackendKind::Neon);
            plain::<crate::backend::aarch64::Neon>();
            multiplies_32::<crate::backend::aarch64::Neon>();
        }
    }
}
