//! A seeded generator whose sequence never changes with a dependency's version.
//!
//! Chains are cached and compared by seed, so the stream of random numbers is part of the
//! format: xoshiro256++ (Blackman, Vigna) seeded by splitmix64.

/// Deterministic pseudo-random numbers; not for secrets.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// A stream that depends on nothing but `seed`.
    pub fn new(seed: u64) -> Rng {
        let mut state = seed;
        Rng([(); 4].map(|()| splitmix64(&mut state)))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiply-shift: the bias is below bound / 2^64, invisible at the sizes used here.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `permille` of 1,000 draws.
    pub fn chance(&mut self, permille: u32) -> bool {
        self.below(1000) < u64::from(permille)
    }

    /// A number from `low` (not zero) to `high`, each octave that the range touches being equally
    /// likely. Integers only: a logarithm's last bit depends on the platform.
    pub fn log_between(&mut self, low: u64, high: u64) -> u64 {
        let octave = self.between(u64::from(low.ilog2()), u64::from(high.ilog2()));
        let first = 1u64 << octave;
        self.between(low.max(first), high.min(first + (first - 1)))
    }

    /// The item of a weighted list that this draw selects; the list must have positive weight.
    pub fn weighted<'a, T>(&mut self, items: &'a [(u32, T)]) -> &'a T {
        let total: u64 = items.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let mut draw = self.below(total);
        for (weight, item) in items {
            if draw < u64::from(*weight) {
                return item;
            }
            draw -= u64::from(*weight);
        }
        unreachable!("the draw is below the sum of the weights")
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_seed_is_fixed() {
        // A change here changes every cached chain and every recorded benchmark.
        let mut rng = Rng::new(1);
        let first = [rng.next_u64(), rng.next_u64()];
        assert_eq!(first, [14971601782005023387, 13781649495232077965]);
        assert_ne!(Rng::new(2).next_u64(), first[0]);
    }

    #[test]
    fn draws_stay_in_their_ranges() {
        let mut rng = Rng::new(7);
        for _ in 0..2_000 {
            assert!(rng.below(3) < 3);
            assert!((5..=9).contains(&rng.between(5, 9)));
            assert!((1..=144).contains(&rng.log_between(1, 144)));
            assert_eq!(rng.log_between(21, 21), 21);
            assert_ne!(*rng.weighted(&[(1, 'a'), (0, 'b'), (2, 'c')]), 'b');
        }
        assert!(!rng.chance(0) && rng.chance(1000));
    }
}
