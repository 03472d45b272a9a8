//! SHA-256 compression with the SHA extensions of x86-64, for up to three messages at once.
//!
//! One message alone waits for the latency of each `sha256rnds2`; rounds of independent messages,
//! interleaved instruction by instruction, fill those gaps.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_blend_epi16, _mm_loadu_si128, _mm_set_epi8,
    _mm_set_epi32, _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32,
    _mm_shuffle_epi8, _mm_shuffle_epi32, _mm_storeu_si128,
};

use super::{Chaining, K, PADDING_AFTER_64};

/// The most messages that are worth interleaving. Three lanes keep their working variables and
/// message words in the sixteen registers more or less; a fourth only adds spills (Zen 4, against one
/// lane: two 1.97, three 2.06, four 1.94 times as fast).
pub(super) const MAX_LANES: usize = 3;

/// A chaining value in the order in which `sha256rnds2` wants it, so that no call has to shuffle: F, E, B, A,
/// then H, G, D, C.
#[derive(Clone, Copy, Debug)]
pub(super) struct State([u32; 8]);

impl State {
    const INITIAL: State = State::new(Chaining::INITIAL);

    pub(super) const fn new(Chaining([a, b, c, d, e, f, g, h]): Chaining) -> State {
        State([f, e, b, a, h, g, d, c])
    }

    pub(super) const fn chaining(self) -> Chaining {
        let [f, e, b, a, h, g, d, c] = self.0;
        Chaining([a, b, c, d, e, f, g, h])
    }
}

/// Proof that this CPU has the instructions used here.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShaExtensions(());

impl ShaExtensions {
    /// `None` on a CPU without the SHA extensions, SSSE3 or SSE4.1.
    pub(super) fn detect() -> Option<ShaExtensions> {
        let present = is_x86_feature_detected!("sha")
            && is_x86_feature_detected!("ssse3")
            && is_x86_feature_detected!("sse4.1");
        present.then_some(ShaExtensions(()))
    }

    /// Compresses the first `count` blocks of each run into the state of the same index.
    ///
    /// # Panics
    /// When a run is shorter than `count`.
    pub(super) fn compress<const N: usize>(
        self,
        states: &mut [State; N],
        runs: [&[[u8; 64]]; N],
        count: usize,
    ) {
        // SAFETY: `self` exists only when `detect` found the features that `compress` enables.
        unsafe { compress(states, runs, count) }
    }

    /// Double SHA-256 of `N` messages of exactly 64 bytes.
    pub(super) fn sha256d_64<const N: usize>(self, messages: &[[u8; 64]; N]) -> [[u8; 32]; N] {
        // SAFETY: `self` exists only when `detect` found the features that `sha256d_64` enables.
        unsafe { sha256d_64(messages) }
    }
}

/// One lane's working variables: (F, E, B, A) and (H, G, D, C).
type Working = [__m128i; 2];

/// Sixteen message words of one lane, four to a register.
type Schedule = [__m128i; 4];

/// Round constants and message words already added up, four to an entry.
type RoundInputs = [[u32; 4]; 16];

const ROUND_CONSTANTS: RoundInputs = in_fours(&K);

const PADDING_INPUTS: RoundInputs = in_fours(&PADDING_AFTER_64);

// Macros, because the compiler does not inline functions of this size on its own, cannot be made to
// where `target_feature` is involved, and a call passes all lanes through memory.

/// Four rounds of one lane; `inputs` are words with the constants added.
macro_rules! four_rounds {
    ($working:expr, $inputs:expr) => {
        let (inputs, [feba, hgdc]) = ($inputs, $working);
        let hgdc = _mm_sha256rnds2_epu32(hgdc, feba, inputs);
        let upper = _mm_shuffle_epi32::<0x0e>(inputs);
        $working = [_mm_sha256rnds2_epu32(feba, hgdc, upper), hgdc];
    };
}

/// Replaces the oldest four message words, those of index `$oldest`, by the next four.
macro_rules! extend {
    ($schedule:expr, $oldest:literal) => {{
        let newest = $schedule[($oldest + 3) % 4];
        let seven_back = _mm_alignr_epi8::<4>(newest, $schedule[($oldest + 2) % 4]);
        let partial = _mm_sha256msg1_epu32($schedule[$oldest], $schedule[($oldest + 1) % 4]);
        $schedule[$oldest] = _mm_sha256msg2_epu32(_mm_add_epi32(partial, seven_back), newest);
        $schedule[$oldest]
    }};
}

/// The sixty-four rounds of one block of every lane, and the addition that ends them.
macro_rules! compress_block {
    ($working:ident, $schedule:ident) => {
        let before = $working;
        let (first, rest) = ROUND_CONSTANTS.split_at(4);
        for (i, constants) in first.iter().enumerate() {
            let constants = load_words(constants);
            for lane in 0..N {
                four_rounds!($working[lane], _mm_add_epi32($schedule[lane][i], constants));
            }
        }
        for constants in rest.as_chunks::<4>().0 {
            compress_block!($working, $schedule, constants, 0);
            compress_block!($working, $schedule, constants, 1);
            compress_block!($working, $schedule, constants, 2);
            compress_block!($working, $schedule, constants, 3);
        }
        add(&mut $working, &before);
    };
    ($working:ident, $schedule:ident, $constants:ident, $oldest:literal) => {
        let constants = load_words(&$constants[$oldest]);
        for lane in 0..N {
            let words = extend!($schedule[lane], $oldest);
            four_rounds!($working[lane], _mm_add_epi32(words, constants));
        }
    };
}

#[target_feature(enable = "sha,ssse3,sse4.1")]
fn compress<const N: usize>(states: &mut [State; N], runs: [&[[u8; 64]]; N], count: usize) {
    let mut working = [load_state(&State::INITIAL); N];
    for lane in 0..N {
        assert!(runs[lane].len() >= count, "every lane has that many blocks");
        working[lane] = load_state(&states[lane]);
    }
    for i in 0..count {
        let mut schedule = [[_mm_set_epi32(0, 0, 0, 0); 4]; N];
        for (schedule, run) in schedule.iter_mut().zip(runs) {
            *schedule = load_block(&run[i]);
        }
        compress_block!(working, schedule);
    }
    for lane in 0..N {
        states[lane] = store_state(&working[lane]);
    }
}

#[target_feature(enable = "sha,ssse3,sse4.1")]
fn sha256d_64<const N: usize>(messages: &[[u8; 64]; N]) -> [[u8; 32]; N] {
    let initial = [load_state(&State::INITIAL); N];
    let mut schedule = [[_mm_set_epi32(0, 0, 0, 0); 4]; N];
    for lane in 0..N {
        schedule[lane] = load_block(&messages[lane]);
    }
    let mut working = initial;
    compress_block!(working, schedule);
    let before = working;
    for inputs in &PADDING_INPUTS {
        let inputs = load_words(inputs);
        for working in &mut working {
            four_rounds!(*working, inputs);
        }
    }
    add(&mut working, &before);

    for lane in 0..N {
        schedule[lane] = digest_block(&working[lane]);
    }
    let mut working = initial;
    compress_block!(working, schedule);
    let mut digests = [[0; 32]; N];
    for lane in 0..N {
        digests[lane] = store_state(&working[lane]).chaining().to_digest();
    }
    digests
}

/// The message block that hashes the digest in `working` a second time.
#[inline]
#[target_feature(enable = "sha,ssse3,sse4.1")]
fn digest_block(working: &Working) -> Schedule {
    // Lowest word first: A, B, E, F and C, D, G, H.
    let abef = _mm_shuffle_epi32::<0x1b>(working[0]);
    let cdgh = _mm_shuffle_epi32::<0x1b>(working[1]);
    [
        _mm_blend_epi16::<0xf0>(abef, _mm_shuffle_epi32::<0x44>(cdgh)),
        _mm_blend_epi16::<0xf0>(_mm_shuffle_epi32::<0xee>(abef), cdgh),
        _mm_set_epi32(0, 0, 0, i32::MIN),
        _mm_set_epi32(256, 0, 0, 0),
    ]
}

#[inline]
#[target_feature(enable = "sha,ssse3,sse4.1")]
fn add<const N: usize>(working: &mut [Working; N], before: &[Working; N]) {
    for lane in 0..N {
        working[lane][0] = _mm_add_epi32(working[lane][0], before[lane][0]);
        working[lane][1] = _mm_add_epi32(working[lane][1], before[lane][1]);
    }
}

#[inline]
#[target_feature(enable = "sha,ssse3,sse4.1")]
fn load_block(block: &[u8; 64]) -> Schedule {
    let big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    let mut words = [big_endian; 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: `bytes` points at 16 readable bytes; the load needs no alignment.
        let loaded = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        *words = _mm_shuffle_epi8(loaded, big_endian);
    }
    words
}

#[inline]
#[target_feature(enable = "sha,ssse3,sse4.1")]
fn load_words(words: &[u32; 4]) -> __m128i {
    // SAFETY: `words` points at 16 readable bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sha,ssse3,sse4.1")]
fn load_state(state: &State) -> Working {
    let [f, e, b, a, h, g, d, c] = state.0;
    [load_words(&[f, e, b, a]), load_words(&[h, g, d, c])]
}

#[inline]
#[target_feature(enable = "sha,ssse3,sse4.1")]
fn store_state(working: &Working) -> State {
    let mut words = [[0u32; 4]; 2];
    // SAFETY: each store writes 16 bytes to an array of exactly 16; neither needs alignment.
    unsafe {
        _mm_storeu_si128(words[0].as_mut_ptr().cast(), working[0]);
        _mm_storeu_si128(words[1].as_mut_ptr().cast(), working[1]);
    }
    let [[f, e, b, a], [h, g, d, c]] = words;
    State([f, e, b, a, h, g, d, c])
}

const fn in_fours(words: &[u32; 64]) -> RoundInputs {
    let mut fours = [[0; 4]; 16];
    let mut i = 0;
    while i < 64 {
        fours[i / 4][i % 4] = words[i];
        i += 1;
    }
    fours
}
