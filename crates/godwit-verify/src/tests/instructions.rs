//! Each instruction of the real vectors beside the model's, on words of every shape.
//!
//! The tests of the field run on the model alone, where limbs are as large as they can get. With signatures
//! the highest bit of a sum of products is set once in a million products, and other bounds are never
//! reached: an instruction that is right only below them would pass all tests of whole checks.

use rand::Rng;

use super::real;
use super::sample::Samples;
use crate::backend::BackendKind;
use crate::vector::model::Model;
use crate::vector::{Entry, LaneMask, MAX_LANES, Multiply32, Multiply52, Vector};

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
                multiplies_32::<crate::backend::x86_512::V512>();
            }
            BackendKind::Avx2 => {
                plain::<crate::backend::x86_256::V256>();
                multiplies_32::<crate::backend::x86_256::V256>();
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
