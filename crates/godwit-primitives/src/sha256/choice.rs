//! Which instructions compress many messages at once, on this CPU.

use std::sync::OnceLock;

use super::Chaining;
use super::groups::{ENOUGH, Groups, length};
use super::lanes::{self, Compressor};
use super::vector::{self, Vectors};
use super::x86::{self, ShaExtensions};

/// Without SHA extensions, `ring` takes less time than vectors for fewer messages than this.
const ENOUGH_WITHOUT_EXTENSIONS: usize = 3;

/// Without SHA extensions, longer messages than this are left to `ring`: nothing else could take over the
/// last one of a block, which would go on in one lane of many, at a third of `ring`'s speed.
const LONGEST_WITHOUT_EXTENSIONS: usize = 64 << 10;

/// How to compress many messages: in the lanes of vectors where there are any, and then the last few by SHA
/// extensions; else all by these, a few interleaved; else one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compression {
    pub vectors: Option<Vectors>,
    pub extensions: Option<ShaExtensions>,
}

impl Compression {
    /// The one that takes least time on this CPU.
    ///
    /// With AVX-512 a block takes two thirds of the time that the SHA extensions take (measured on Zen 5).
    /// Where two of its instructions start in a cycle and one rotation, it needs 54 cycles by their number;
    /// of the SHA extensions' instructions 32 start in every other cycle at best, which makes 64. AVX2 takes
    /// twice the time of the SHA extensions, and is for CPUs without them.
    pub(super) fn fastest() -> Compression {
        static FASTEST: OnceLock<Compression> = OnceLock::new();
        *FASTEST.get_or_init(|| {
            let extensions = ShaExtensions::detect();
            let avx2 = || Vectors::detect_avx2().filter(|_| extensions.is_none());
            Compression { vectors: Vectors::detect_avx512().or_else(avx2), extensions }
        })
    }

    /// Double SHA-256 of messages `0..out.len()`, each of three spans.
    pub(super) fn sha256d_spans<'a>(
        self,
        spans: impl Fn(usize) -> [&'a [u8]; 3],
        out: &mut [[u8; 32]],
    ) {
        let enough = if self.extensions.is_some() { ENOUGH } else { ENOUGH_WITHOUT_EXTENSIONS };
        let vectors = self.vectors.filter(|_| out.len() >= enough);
        let messages = (0..out.len()).map(|number| (number, spans(number)));
        match (vectors, self.extensions) {
            (Some(vectors), extensions) => in_vectors(vectors, extensions, messages, out),
            (None, Some(extensions)) => {
                let messages = messages.map(|(number, spans)| lanes::message(number, spans));
                lanes::sha256d(extensions, messages, 1, out);
            }
            (None, None) => super::sha256d_spans_portable(spans, out),
        }
    }

    /// Double SHA-256 of each pair of neighbours, in place: entry `i` becomes that of entries `2i` and
    /// `2i + 1`.
    pub(super) fn sha256d_pairs(self, hashes: &mut [[u8; 32]]) {
        let pairs = hashes.len() / 2;
        let mut done = 0;
        if let Some(vectors) = self.vectors {
            let lanes = vectors.lanes();
            while pairs - done >= lanes {
                let messages = hashes[2 * done..].as_flattened().as_chunks::<64>().0;
                let digests = vectors.sha256d_64(messages);
                hashes[done..done + lanes].copy_from_slice(&digests[..lanes]);
                done += lanes;
            }
        }
        let Some(extensions) = self.extensions else {
            super::sha256d_pairs_portable(done, hashes);
            return;
        };
        while done < pairs {
            done += match pairs - done {
                1 => pairs_at::<1>(extensions, hashes, done),
                2 => pairs_at::<2>(extensions, hashes, done),
                _ => pairs_at::<{ x86::MAX_LANES }>(extensions, hashes, done),
            };
        }
    }
}

/// Short messages in groups of equal length, the long ones in lanes that each go their own way.
fn in_vectors<'a>(
    vectors: Vectors,
    extensions: Option<ShaExtensions>,
    messages: impl Iterator<Item = (usize, [&'a [u8]; 3])>,
    out: &mut [[u8; 32]],
) {
    let mut groups = Groups::new(vectors);
    let mut long = Vec::new();
    for (number, spans) in messages {
        if groups.take(number, spans, out) {
            continue;
        }
        if extensions.is_none() && length(&spans) > LONGEST_WITHOUT_EXTENSIONS {
            out[number] = super::sha256d_of_spans(spans);
        } else {
            long.push((number, spans));
        }
    }
    let long = long.into_iter().map(|(number, spans)| lanes::message(number, spans));
    let Some(extensions) = extensions else {
        groups.finish(1, out);
        lanes::sha256d(vectors, long, 1, out);
        return;
    };
    let few = groups.finish(ENOUGH, out);
    let rest = lanes::sha256d(vectors, long, ENOUGH, out);
    lanes::sha256d(extensions, rest.into_iter().chain(few), 1, out);
}

fn pairs_at<const N: usize>(
    extensions: ShaExtensions,
    hashes: &mut [[u8; 32]],
    first: usize,
) -> usize {
    let mut messages = [[0; 64]; N];
    let pairs = hashes[2 * first..].as_flattened().as_chunks::<64>().0;
    messages.copy_from_slice(&pairs[..N]);
    hashes[first..first + N].copy_from_slice(&extensions.sha256d_64(&messages));
    N
}

impl Compressor for Vectors {
    type States = vector::States;

    const INITIAL: Self::States = vector::States::INITIAL;

    fn lanes(self) -> usize {
        Vectors::lanes(self)
    }

    fn get(states: &Self::States, lane: usize) -> Chaining {
        states.get(lane)
    }

    fn set(states: &mut Self::States, lane: usize, chaining: Chaining) {
        states.set(lane, chaining);
    }

    fn compress(self, states: &mut Self::States, runs: &[&[[u8; 64]]], count: usize) {
        Vectors::compress(self, states, runs, count);
    }
}

impl Compressor for ShaExtensions {
    type States = [x86::State; x86::MAX_LANES];

    const INITIAL: Self::States = [x86::State::new(Chaining::INITIAL); x86::MAX_LANES];

    fn lanes(self) -> usize {
        x86::MAX_LANES
    }

    fn get(states: &Self::States, lane: usize) -> Chaining {
        states[lane].chaining()
    }

    fn set(states: &mut Self::States, lane: usize, chaining: Chaining) {
        states[lane] = x86::State::new(chaining);
    }

    fn compress(self, states: &mut Self::States, runs: &[&[[u8; 64]]], count: usize) {
        match *runs {
            [] => {}
            [a] => compress_first(self, states, [a], count),
            [a, b] => compress_first(self, states, [a, b], count),
            _ => {
                let runs = runs.try_into().expect("no more runs than lanes");
                ShaExtensions::compress(self, states, runs, count);
            }
        }
    }
}

/// Compresses into the first `N` states.
fn compress_first<const N: usize>(
    extensions: ShaExtensions,
    states: &mut [x86::State],
    runs: [&[[u8; 64]]; N],
    count: usize,
) {
    let states = states.first_chunk_mut::<N>().expect("no more runs than lanes");
    ShaExtensions::compress(extensions, states, runs, count);
}
