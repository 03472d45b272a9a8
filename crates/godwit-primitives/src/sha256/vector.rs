//! SHA-256 compression of sixteen messages at once with AVX-512, or of eight with AVX2.
//!
//! Register `i` of the message schedule holds word `i` of every message, one message to each 32-bit
//! lane, and so do the eight working variables; the rounds are those of a single message. AVX-512
//! rotates in one instruction and computes any function of three bits in another, which AVX2 has to
//! put together: it takes four times as many instructions for a message.
//!
//! ```text
//!             lane 0         lane 1       ...
//! words[0]   message 0's    message 1's        first word
//! words[1]   message 0's    message 1's        second word
//! ```

#![allow(unsafe_code)]

use super::{Chaining, K, PADDING_AFTER_64};

/// Messages that AVX-512 takes at once.
pub(super) const MAX_LANES: usize = 16;

/// Chaining values of up to [`MAX_LANES`] messages: word by word, one message to a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct States([[u32; MAX_LANES]; 8]);

impl States {
    pub(super) const INITIAL: States = {
        let mut words = [[0; MAX_LANES]; 8];
        let mut i = 0;
        while i < 8 {
            words[i] = [super::INITIAL[i]; MAX_LANES];
            i += 1;
        }
        States(words)
    };

    pub(super) fn get(&self, lane: usize) -> Chaining {
        Chaining(self.0.map(|words| words[lane]))
    }

    pub(super) fn set(&mut self, lane: usize, chaining: Chaining) {
        for (words, word) in self.0.iter_mut().zip(chaining.0) {
            words[lane] = word;
        }
    }
}

/// Proof that this CPU has the instructions of one width.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vectors(Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Avx512,
    Avx2,
}

impl Vectors {
    /// `None` on a CPU, or a system, without AVX-512F and AVX-512BW.
    pub(super) fn detect_avx512() -> Option<Vectors> {
        let present = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        present.then_some(Vectors(Width::Avx512))
    }

    /// `None` on a CPU without AVX2.
    pub(super) fn detect_avx2() -> Option<Vectors> {
        is_x86_feature_detected!("avx2").then_some(Vectors(Width::Avx2))
    }

    /// How many messages it takes at once.
    pub(super) fn lanes(self) -> usize {
        match self.0 {
            Width::Avx512 => avx512::LANES,
            Width::Avx2 => avx2::LANES,
        }
    }

    /// Compresses the first `count` blocks of each run into the state of the same index. What the lanes
    /// beyond the runs hold afterwards has no meaning.
    ///
    /// # Panics
    /// Without runs, with more than [`Self::lanes`], and when one is shorter than `count`.
    pub(super) fn compress(self, states: &mut States, runs: &[&[[u8; 64]]], count: usize) {
        assert!(runs.len() <= self.lanes(), "no more runs than lanes");
        // Idle lanes repeat the first run: to leave them out would take as long.
        let mut all = [&runs[0][..count]; MAX_LANES];
        for (slot, run) in all.iter_mut().zip(runs) {
            *slot = &run[..count];
        }
        // SAFETY: `self` exists only when `detect_…` found the features that each of them enables.
        unsafe {
            match self.0 {
                Width::Avx512 => avx512::compress(states, &all, count),
                Width::Avx2 => avx2::compress(states, &all, count),
            }
        }
    }

    /// Double SHA-256 of messages that are padded already, in order, and as many digests with a meaning.
    ///
    /// # Panics
    /// With more messages than [`Self::lanes`].
    pub(super) fn sha256d(self, messages: &[&[[u8; 64]]]) -> [[u8; 32]; MAX_LANES] {
        assert!(messages.len() <= self.lanes(), "no more messages than lanes");
        let (mut states, mut ended) = (States::INITIAL, States::INITIAL);
        let mut rest: [&[[u8; 64]]; MAX_LANES] = [&[]; MAX_LANES];
        rest[..messages.len()].copy_from_slice(messages);
        let rest = &mut rest[..messages.len()];
        while let Some(longest) = rest.iter().copied().max_by_key(|rest| rest.len()) {
            // As far as none ends; those that have ended repeat the longest.
            let lengths = rest.iter().map(|rest| rest.len());
            let Some(count) = lengths.filter(|length| *length > 0).min() else { break };
            let mut runs = [longest; MAX_LANES];
            for (run, rest) in runs.iter_mut().zip(&*rest) {
                if !rest.is_empty() {
                    *run = rest;
                }
            }
            self.compress(&mut states, &runs[..self.lanes()], count);
            for (lane, rest) in rest.iter_mut().enumerate().filter(|(_, rest)| !rest.is_empty()) {
                *rest = &rest[count..];
                if rest.is_empty() {
                    ended.set(lane, states.get(lane));
                }
            }
        }
        // SAFETY: as in `compress`.
        unsafe {
            match self.0 {
                Width::Avx512 => avx512::hash_digests(&mut ended),
                Width::Avx2 => avx2::hash_digests(&mut ended),
            }
        }
        std::array::from_fn(|lane| ended.get(lane).to_digest())
    }

    /// Double SHA-256 of as many messages of exactly 64 bytes as there are lanes, in order, and as many
    /// digests with a meaning.
    ///
    /// # Panics
    /// When there are fewer messages.
    pub(super) fn sha256d_64(self, messages: &[[u8; 64]]) -> [[u8; 32]; MAX_LANES] {
        let mut states = States::INITIAL;
        // SAFETY: as in `compress`.
        unsafe {
            match self.0 {
                Width::Avx512 => avx512::sha256d_64(&mut states, messages),
                Width::Avx2 => avx2::sha256d_64(&mut states, messages),
            }
        }
        std::array::from_fn(|lane| states.get(lane).to_digest())
    }
}

// Macros, because words and working variables stay in registers only where each index is a literal, and
// because a generic function cannot enable the features of its parameter.

/// Sixteen rounds, `$round!` each; after each the working variables change places.
macro_rules! sixteen_times {
    ($round:ident!(
        $constants:expr,
        $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident
        $(, $words:ident)?
    )) => {
        $round!($constants, 0, $a $b $c $d $e $f $g $h $(, $words)?);
        $round!($constants, 1, $h $a $b $c $d $e $f $g $(, $words)?);
        $round!($constants, 2, $g $h $a $b $c $d $e $f $(, $words)?);
        $round!($constants, 3, $f $g $h $a $b $c $d $e $(, $words)?);
        $round!($constants, 4, $e $f $g $h $a $b $c $d $(, $words)?);
        $round!($constants, 5, $d $e $f $g $h $a $b $c $(, $words)?);
        $round!($constants, 6, $c $d $e $f $g $h $a $b $(, $words)?);
        $round!($constants, 7, $b $c $d $e $f $g $h $a $(, $words)?);
        $round!($constants, 8, $a $b $c $d $e $f $g $h $(, $words)?);
        $round!($constants, 9, $h $a $b $c $d $e $f $g $(, $words)?);
        $round!($constants, 10, $g $h $a $b $c $d $e $f $(, $words)?);
        $round!($constants, 11, $f $g $h $a $b $c $d $e $(, $words)?);
        $round!($constants, 12, $e $f $g $h $a $b $c $d $(, $words)?);
        $round!($constants, 13, $d $e $f $g $h $a $b $c $(, $words)?);
        $round!($constants, 14, $c $d $e $f $g $h $a $b $(, $words)?);
        $round!($constants, 15, $b $c $d $e $f $g $h $a $(, $words)?);
    };
}

/// A round that adds a message word, if there are any, and a constant.
macro_rules! round {
    (
        $constants:expr, $i:literal,
        $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident
        $(, $words:ident)?
    ) => {
        let input = splat($constants[$i]);
        $(let input = add(input, $words[$i]);)?
        let ready = add(add($h, input), choose($e, $f, $g));
        let sum_e = xor3(rotate::<6, 26>($e), rotate::<11, 21>($e), rotate::<25, 7>($e));
        let sum_a = xor3(rotate::<2, 30>($a), rotate::<13, 19>($a), rotate::<22, 10>($a));
        // One addition more than FIPS 180-4 has, so that only one comes after `sum_e`: the next round waits
        // for this.
        $h = add(add(add(ready, majority($a, $b, $c)), sum_e), sum_a);
        $d = add(add($d, ready), sum_e);
    };
}

/// A round before which its message word is replaced by the one sixteen further on.
macro_rules! extend_and_round {
    (
        $constants:expr, $i:literal,
        $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident,
        $words:ident
    ) => {
        let (early, late) = ($words[($i + 1) % 16], $words[($i + 14) % 16]);
        let early = xor3(rotate::<7, 25>(early), rotate::<18, 14>(early), shift::<3>(early));
        let late = xor3(rotate::<17, 15>(late), rotate::<19, 13>(late), shift::<10>(late));
        $words[$i] = add(add($words[$i], early), add($words[($i + 9) % 16], late));
        round!($constants, $i, $a $b $c $d $e $f $g $h, $words);
    };
}

/// What both widths have in common, over the operations that their module defines on `Words`, of `LANES`
/// messages each.
macro_rules! sha256_of_lanes {
    ($features:literal) => {
        /// Word `i` of every lane, for each `i`.
        type State = [Words; 8];

        #[target_feature(enable = $features)]
        pub(super) fn compress(states: &mut States, runs: &[&[[u8; 64]]; MAX_LANES], count: usize) {
            let mut state = load_state(states);
            for i in 0..count {
                let mut blocks = [&[0; 64]; LANES];
                for (block, run) in blocks.iter_mut().zip(runs) {
                    *block = &run[i];
                }
                compress_block(&mut state, load_blocks(&blocks));
            }
            store_state(states, &state);
        }

        #[target_feature(enable = $features)]
        pub(super) fn sha256d_64(states: &mut States, messages: &[[u8; 64]]) {
            let mut blocks = [&messages[0]; LANES];
            for (block, message) in blocks.iter_mut().zip(&messages[..LANES]) {
                *block = message;
            }
            let mut state = load_state(states);
            compress_block(&mut state, load_blocks(&blocks));
            compress_padding_after_64(&mut state);
            store_state(states, &state);
            hash_digests(states);
        }

        /// Turns digests into the digests of them.
        #[target_feature(enable = $features)]
        pub(super) fn hash_digests(states: &mut States) {
            let mut block = [zero(); 16];
            block[..8].copy_from_slice(&load_state(states));
            block[8] = splat(0x8000_0000);
            block[15] = splat(256);
            let mut state = load_state(&States::INITIAL);
            compress_block(&mut state, block);
            store_state(states, &state);
        }

        /// The sixty-four rounds of one block of every lane, and the addition that ends them.
        #[target_feature(enable = $features)]
        fn compress_block(state: &mut State, mut words: [Words; 16]) {
            let before = *state;
            let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = before;
            let (first, rest) = K.as_chunks::<16>().0.split_first().expect("64 constants");
            sixteen_times!(round!(first, a b c d e f g h, words));
            for constants in rest {
                sixteen_times!(extend_and_round!(constants, a b c d e f g h, words));
            }
            *state = [a, b, c, d, e, f, g, h];
            add_to(state, &before);
        }

        /// The same for the block that pads a message of 64 bytes, which is the same for each.
        #[target_feature(enable = $features)]
        fn compress_padding_after_64(state: &mut State) {
            let before = *state;
            let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = before;
            for inputs in PADDING_AFTER_64.as_chunks::<16>().0 {
                sixteen_times!(round!(inputs, a b c d e f g h));
            }
            *state = [a, b, c, d, e, f, g, h];
            add_to(state, &before);
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn add_to(state: &mut State, before: &State) {
            for (word, before) in state.iter_mut().zip(before) {
                *word = add(*word, *before);
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn load_state(states: &States) -> State {
            let mut state = [zero(); 8];
            for (words, stored) in state.iter_mut().zip(&states.0) {
                *words = load(stored.first_chunk().expect("no more lanes than columns"));
            }
            state
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn store_state(states: &mut States, state: &State) {
            for (words, stored) in state.iter().zip(&mut states.0) {
                store(stored.first_chunk_mut().expect("no more lanes than columns"), *words);
            }
        }
    };
}

mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm_set_epi8, _mm512_add_epi32, _mm512_broadcast_i32x4, _mm512_loadu_si512,
        _mm512_ror_epi32, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_shuffle_epi8,
        _mm512_shuffle_i32x4, _mm512_srli_epi32, _mm512_storeu_si512, _mm512_ternarylogic_epi32,
        _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    };

    use super::{K, MAX_LANES, PADDING_AFTER_64, States};

    pub(super) const LANES: usize = 16;

    type Words = __m512i;

    sha256_of_lanes!("avx512f,avx512bw");

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn zero() -> Words {
        _mm512_setzero_si512()
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn splat(word: u32) -> Words {
        _mm512_set1_epi32(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn add(x: Words, y: Words) -> Words {
        _mm512_add_epi32(x, y)
    }

    /// To the right by `R` bits, which is to the left by `L`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn rotate<const R: i32, const L: i32>(x: Words) -> Words {
        const { assert!(R + L == 32) };
        _mm512_ror_epi32::<R>(x)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn shift<const R: u32>(x: Words) -> Words {
        _mm512_srli_epi32::<R>(x)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn xor3(x: Words, y: Words, z: Words) -> Words {
        _mm512_ternarylogic_epi32::<0x96>(x, y, z)
    }

    /// Bits of `y` where `x` has ones, of `z` where it has zeros.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn choose(x: Words, y: Words, z: Words) -> Words {
        _mm512_ternarylogic_epi32::<0xca>(x, y, z)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn majority(x: Words, y: Words, z: Words) -> Words {
        _mm512_ternarylogic_epi32::<0xe8>(x, y, z)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn load(words: &[u32; LANES]) -> Words {
        // SAFETY: `words` points at 64 readable bytes; the load needs no alignment.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn store(words: &mut [u32; LANES], x: Words) {
        // SAFETY: `words` points at 64 writable bytes; the store needs no alignment.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), x) }
    }

    /// One block of each lane, turned from messages into words: first within the quarters of 128 bits of
    /// four messages, then the quarters among the fours.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn load_blocks(blocks: &[&[u8; 64]; LANES]) -> [Words; 16] {
        let quarter = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
        let big_endian = _mm512_broadcast_i32x4(quarter);
        let mut fours = [[zero(); 4]; 4];
        for (four, blocks) in fours.iter_mut().zip(blocks.as_chunks::<4>().0) {
            let mut rows = [zero(); 4];
            for (row, block) in rows.iter_mut().zip(blocks) {
                // SAFETY: `block` points at 64 readable bytes; the load needs no alignment.
                let loaded = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
                *row = _mm512_shuffle_epi8(loaded, big_endian);
            }
            let low =
                [_mm512_unpacklo_epi32(rows[0], rows[1]), _mm512_unpacklo_epi32(rows[2], rows[3])];
            let high =
                [_mm512_unpackhi_epi32(rows[0], rows[1]), _mm512_unpackhi_epi32(rows[2], rows[3])];
            *four = [
                _mm512_unpacklo_epi64(low[0], low[1]),
                _mm512_unpackhi_epi64(low[0], low[1]),
                _mm512_unpacklo_epi64(high[0], high[1]),
                _mm512_unpackhi_epi64(high[0], high[1]),
            ];
        }
        let mut words = [zero(); 16];
        for i in 0..4 {
            // Quarters 0 and 2, then 1 and 3, of two fours each.
            let even = [
                _mm512_shuffle_i32x4::<0x88>(fours[0][i], fours[1][i]),
                _mm512_shuffle_i32x4::<0x88>(fours[2][i], fours[3][i]),
            ];
            let odd = [
                _mm512_shuffle_i32x4::<0xdd>(fours[0][i], fours[1][i]),
                _mm512_shuffle_i32x4::<0xdd>(fours[2][i], fours[3][i]),
            ];
            words[i] = _mm512_shuffle_i32x4::<0x88>(even[0], even[1]);
            words[4 + i] = _mm512_shuffle_i32x4::<0x88>(odd[0], odd[1]);
            words[8 + i] = _mm512_shuffle_i32x4::<0xdd>(even[0], even[1]);
            words[12 + i] = _mm512_shuffle_i32x4::<0xdd>(odd[0], odd[1]);
        }
        words
    }
}

mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_set_epi8, _mm256_add_epi32, _mm256_and_si256, _mm256_broadcastsi128_si256,
        _mm256_loadu_si256, _mm256_or_si256, _mm256_permute2x128_si256, _mm256_set1_epi32,
        _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_srli_epi32,
        _mm256_storeu_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32,
        _mm256_unpacklo_epi64, _mm256_xor_si256,
    };

    use super::{K, MAX_LANES, PADDING_AFTER_64, States};

    pub(super) const LANES: usize = 8;

    type Words = __m256i;

    sha256_of_lanes!("avx2");

    #[inline]
    #[target_feature(enable = "avx2")]
    fn zero() -> Words {
        _mm256_setzero_si256()
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn splat(word: u32) -> Words {
        _mm256_set1_epi32(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(x: Words, y: Words) -> Words {
        _mm256_add_epi32(x, y)
    }

    /// To the right by `R` bits, which is to the left by `L`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotate<const R: i32, const L: i32>(x: Words) -> Words {
        const { assert!(R + L == 32) };
        _mm256_or_si256(_mm256_srli_epi32::<R>(x), _mm256_slli_epi32::<L>(x))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn shift<const R: i32>(x: Words) -> Words {
        _mm256_srli_epi32::<R>(x)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn xor3(x: Words, y: Words, z: Words) -> Words {
        _mm256_xor_si256(_mm256_xor_si256(x, y), z)
    }

    /// Bits of `y` where `x` has ones, of `z` where it has zeros.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn choose(x: Words, y: Words, z: Words) -> Words {
        _mm256_xor_si256(z, _mm256_and_si256(x, _mm256_xor_si256(y, z)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn majority(x: Words, y: Words, z: Words) -> Words {
        _mm256_or_si256(_mm256_and_si256(x, y), _mm256_and_si256(z, _mm256_or_si256(x, y)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(words: &[u32; LANES]) -> Words {
        // SAFETY: `words` points at 32 readable bytes; the load needs no alignment.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(words: &mut [u32; LANES], x: Words) {
        // SAFETY: `words` points at 32 writable bytes; the store needs no alignment.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), x) }
    }

    /// One block of each lane, turned from messages into words: first within the halves of 128 bits of four
    /// messages, then the halves among the fours; and so twice, for 32 bytes of each block.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load_blocks(blocks: &[&[u8; 64]; LANES]) -> [Words; 16] {
        let half = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
        let big_endian = _mm256_broadcastsi128_si256(half);
        let mut words = [zero(); 16];
        for (part, words) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let mut fours = [[zero(); 4]; 2];
            for (four, blocks) in fours.iter_mut().zip(blocks.as_chunks::<4>().0) {
                let mut rows = [zero(); 4];
                for (row, block) in rows.iter_mut().zip(blocks) {
                    let bytes = &block.as_chunks::<32>().0[part];
                    // SAFETY: `bytes` points at 32 readable bytes; the load needs no alignment.
                    let loaded = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
                    *row = _mm256_shuffle_epi8(loaded, big_endian);
                }
                let low = [
                    _mm256_unpacklo_epi32(rows[0], rows[1]),
                    _mm256_unpacklo_epi32(rows[2], rows[3]),
                ];
                let high = [
                    _mm256_unpackhi_epi32(rows[0], rows[1]),
                    _mm256_unpackhi_epi32(rows[2], rows[3]),
                ];
                *four = [
                    _mm256_unpacklo_epi64(low[0], low[1]),
                    _mm256_unpackhi_epi64(low[0], low[1]),
                    _mm256_unpacklo_epi64(high[0], high[1]),
                    _mm256_unpackhi_epi64(high[0], high[1]),
                ];
            }
            for i in 0..4 {
                words[i] = _mm256_permute2x128_si256::<0x20>(fours[0][i], fours[1][i]);
                words[4 + i] = _mm256_permute2x128_si256::<0x31>(fours[0][i], fours[1][i]);
            }
        }
        words
    }
}
