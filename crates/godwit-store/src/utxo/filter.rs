//! The filter of a segment: tells for most absent keys that the segment does not hold them.
//!
//! A split block Bloom filter (the one of Apache Parquet): a key sets one bit in each of the eight
//! 32-bit words of one 32-byte block, so that a probe costs one cache line. At 10 bits a key about
//! 1.3 % of absent keys pass.

/// Bits of filter for a key.
const BITS_PER_KEY: u64 = 10;
/// Below this many bits a key most absent keys would pass: no filter is better.
const MIN_BITS_PER_KEY: u64 = 5;
const BLOCK_BITS: u64 = 256;
/// Bytes of a block; the bytes of every filter are a multiple of them.
const BLOCK_BYTES: usize = 32;

/// Odd multipliers of the Parquet specification, one for each word of a block.
const SALT: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// A filter over keys that share their first `skip_bits` bits.
pub(super) struct Filter {
    blocks: Vec<[u32; 8]>,
    skip_bits: u32,
    folded: bool,
}

#[inline]
fn mask(key: u64) -> [u32; 8] {
    SALT.map(|salt| 1 << ((key as u32).wrapping_mul(salt) >> 27))
}

/// Blocks of a filter: an even number, so that it can be folded.
fn blocks_for(keys: u64, bits_per_key: u64) -> u64 {
    keys.saturating_mul(bits_per_key).div_ceil(BLOCK_BITS).next_multiple_of(2)
}

impl Filter {
    /// An empty filter for `keys` keys within `max_bytes`, or none when that is too little room.
    pub(super) fn sized(keys: u64, max_bytes: u64, skip_bits: u32) -> Option<Self> {
        let affordable = max_bytes / (2 * BLOCK_BYTES as u64) * 2;
        if keys == 0 || affordable < blocks_for(keys, MIN_BITS_PER_KEY) {
            return None;
        }
        let blocks = vec![[0; 8]; blocks_for(keys, BITS_PER_KEY).min(affordable) as usize];
        Some(Self { blocks, skip_bits, folded: false })
    }

    /// Bytes of the unrestricted filter of `keys` keys.
    pub(super) fn full_bytes(keys: u64) -> u64 {
        blocks_for(keys, BITS_PER_KEY) * BLOCK_BYTES as u64
    }

    #[inline]
    fn block_of(&self, key: u64) -> usize {
        let spread = key << self.skip_bits >> 32;
        ((spread * self.blocks.len() as u64) >> 32) as usize
    }

    #[inline]
    pub(super) fn insert(&mut self, key: u64) {
        let block = self.block_of(key);
        for (word, bit) in self.blocks[block].iter_mut().zip(mask(key)) {
            *word |= bit;
        }
    }

    /// `false` only for keys that were not inserted.
    #[inline]
    pub(super) fn may_contain(&self, key: u64) -> bool {
        let block = &self.blocks[self.block_of(key)];
        let missing =
            block.iter().zip(mask(key)).fold(0, |missing, (word, bit)| missing | bit & !word);
        missing == 0
    }

    /// The same filter in half the memory, passing more absent keys (about 17 % at 5 bits a key);
    /// `None` when that was done before.
    pub(super) fn fold(&self) -> Option<Self> {
        if self.folded {
            return None;
        }
        let or = |pair: &[[u32; 8]; 2]| std::array::from_fn(|word| pair[0][word] | pair[1][word]);
        let (pairs, _) = self.blocks.as_chunks::<2>();
        let blocks = pairs.iter().map(or).collect();
        Some(Self { blocks, skip_bits: self.skip_bits, folded: true })
    }

    /// The filter that no key passes.
    #[cfg(test)]
    pub(super) fn emptied(&self) -> Self {
        Self { blocks: vec![[0; 8]; self.blocks.len()], ..*self }
    }

    /// Bytes in memory.
    pub(super) fn memory(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// The words little-endian, block after block.
    pub(super) fn bytes(&self) -> impl Iterator<Item = [u8; BLOCK_BYTES]> {
        self.blocks.iter().map(|block| {
            let mut bytes = [0; BLOCK_BYTES];
            for (chunk, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(block) {
                *chunk = word.to_le_bytes();
            }
            bytes
        })
    }

    /// The filter with these bytes; an odd or empty number of blocks is `None`.
    pub(super) fn from_bytes(bytes: &[u8], skip_bits: u32) -> Option<Self> {
        let (chunks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        if chunks.is_empty() || chunks.len() % 2 != 0 || !rest.is_empty() {
            return None;
        }
        let words = |chunk: &[u8; BLOCK_BYTES]| {
            let (words, _) = chunk.as_chunks::<4>();
            std::array::from_fn(|n| u32::from_le_bytes(words[n]))
        };
        Some(Self { blocks: chunks.iter().map(words).collect(), skip_bits, folded: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of partition 5 of 16, spread as hashes are.
    fn keys(count: u64, stream: u64) -> impl Iterator<Item = u64> {
        let spread = move |n: u64| (n * 2 + stream).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..count).map(move |n| {
            let key = spread(n);
            (key ^ key >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 4 | 5 << 60
        })
    }

    fn passing(filter: &Filter) -> f64 {
        keys(100_000, 1).filter(|key| filter.may_contain(*key)).count() as f64 / 100_000.0
    }

    #[test]
    fn keeps_every_key_and_few_others() {
        let mut filter = Filter::sized(100_000, u64::MAX, 4).unwrap();
        keys(100_000, 0).for_each(|key| filter.insert(key));
        let folded = filter.fold().unwrap();
        assert!(keys(100_000, 0).all(|key| filter.may_contain(key) && folded.may_contain(key)));
        assert!(passing(&filter) < 0.02, "{}", passing(&filter));
        assert!(passing(&folded) < 0.20, "{}", passing(&folded));
        assert_eq!(folded.memory() * 2, filter.memory());
        assert!(folded.fold().is_none());
        assert_eq!(filter.memory() as u64, Filter::full_bytes(100_000));
    }

    #[test]
    fn bytes_round_trip() {
        let mut filter = Filter::sized(1000, u64::MAX, 0).unwrap();
        keys(1000, 0).for_each(|key| filter.insert(key));
        let bytes: Vec<u8> = filter.bytes().flatten().collect();
        assert_eq!(Filter::from_bytes(&bytes, 0).unwrap().blocks, filter.blocks);
        assert!(Filter::from_bytes(&bytes[..bytes.len() - 1], 0).is_none());
        assert!(Filter::from_bytes(&bytes[..bytes.len() - BLOCK_BYTES], 0).is_none());
        assert!(Filter::from_bytes(&[], 0).is_none());
    }

    #[test]
    fn short_of_memory_it_shrinks_and_then_vanishes() {
        assert_eq!(Filter::sized(100_000, 125_000, 0).unwrap().memory(), 124_992);
        assert_eq!(Filter::sized(100_000, 100_000, 0).unwrap().memory(), 99_968);
        assert!(Filter::sized(100_000, 62_000, 0).is_none());
        assert!(Filter::sized(0, 1000, 0).is_none());
    }
}
