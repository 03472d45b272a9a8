//! Keeps the lanes of a compression of many messages busy while messages differ in length.

use smallvec::SmallVec;

use super::Chaining;
use super::vector::MAX_LANES;

/// Compresses blocks of several messages at once.
pub(super) trait Compressor: Copy {
    /// The chaining values of as many messages as it takes at once, each at the index of its lane.
    type States;

    /// [`Chaining::INITIAL`] in every lane.
    const INITIAL: Self::States;

    /// How many messages it takes at once, [`MAX_LANES`] at most.
    fn lanes(self) -> usize;

    fn get(states: &Self::States, lane: usize) -> Chaining;

    fn set(states: &mut Self::States, lane: usize, chaining: Chaining);

    /// Compresses the first `count` blocks of each run into the state of the same lane.
    fn compress(self, states: &mut Self::States, runs: &[&[[u8; 64]]], count: usize);
}

/// Messages on their way, each with what it has been compressed to.
pub(super) type InFlight<'a> = SmallVec<[(Lane<'a>, Chaining); MAX_LANES]>;

/// A message of three spans, of which no block has been compressed.
pub(super) fn message(number: usize, spans: [&[u8]; 3]) -> (Lane<'_>, Chaining) {
    (Lane::start(number, spans), Chaining::INITIAL)
}

/// Double SHA-256 of the messages, each into the entry of `out` that has its number, until fewer than
/// `enough` are left, which it returns.
pub(super) fn sha256d<'a, C: Compressor>(
    compressor: C,
    mut messages: impl Iterator<Item = (Lane<'a>, Chaining)>,
    enough: usize,
    out: &mut [[u8; 32]],
) -> InFlight<'a> {
    let mut states = C::INITIAL;
    let mut lanes: SmallVec<[Lane<'a>; MAX_LANES]> = SmallVec::new();
    for (lane, chaining) in messages.by_ref().take(compressor.lanes()) {
        C::set(&mut states, lanes.len(), chaining);
        lanes.push(lane);
    }
    while lanes.len() >= enough && !lanes.is_empty() {
        compress_ready_blocks(compressor, &mut states, &mut lanes);
        let mut i = 0;
        while i < lanes.len() {
            if lanes[i].has_blocks() {
                i += 1;
                continue;
            }
            let mut chaining = C::get(&states, i);
            if lanes[i].advance(&mut chaining) {
                C::set(&mut states, i, chaining);
                i += 1;
                continue;
            }
            out[lanes[i].message] = chaining.to_digest();
            if let Some((lane, chaining)) = messages.next() {
                lanes[i] = lane;
                C::set(&mut states, i, chaining);
                i += 1;
            } else {
                let last = C::get(&states, lanes.len() - 1);
                C::set(&mut states, i, last);
                lanes.swap_remove(i);
            }
        }
    }
    lanes.into_iter().enumerate().map(|(i, lane)| (lane, C::get(&states, i))).collect()
}

/// Compresses as many blocks as every lane has ready.
fn compress_ready_blocks<C: Compressor>(
    compressor: C,
    states: &mut C::States,
    lanes: &mut [Lane<'_>],
) {
    let mut runs: [&[[u8; 64]]; MAX_LANES] = [&[]; MAX_LANES];
    for (run, lane) in runs.iter_mut().zip(&*lanes) {
        *run = lane.blocks();
    }
    let runs = &runs[..lanes.len()];
    let count = runs.iter().map(|run| run.len()).min().unwrap_or(0);
    compressor.compress(states, runs, count);
    for lane in lanes {
        lane.consume(count);
    }
}

/// The block of the second hash, but for the digest at its start.
const PADDED_DIGEST: [u8; 64] = {
    let mut block = [0; 64];
    block[32] = 0x80;
    block[62] = 1; // 256 bits
    block
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Bytes of the message, or its padding, are still to be made ready.
    Message,
    /// Everything of the first hash has been made ready.
    Padded,
    /// So has the second hash.
    Digest,
}

/// One message on its way through the two hashes.
///
/// Whole blocks inside a span are compressed where they lie (`direct`); only blocks that straddle
/// spans, and padding, are put together in `staged`.
pub(super) struct Lane<'a> {
    message: usize,
    stage: Stage,
    /// What has not been made ready yet.
    spans: [&'a [u8]; 3],
    message_len: u64,
    direct: &'a [[u8; 64]],
    staged: [[u8; 64]; 2],
    staged_from: usize,
    staged_to: usize,
}

impl<'a> Lane<'a> {
    fn start(message: usize, spans: [&'a [u8]; 3]) -> Lane<'a> {
        let message_len = spans.iter().map(|span| span.len() as u64).sum();
        let mut lane = Lane {
            message,
            stage: Stage::Message,
            spans,
            message_len,
            direct: &[],
            staged: [[0; 64]; 2],
            staged_from: 0,
            staged_to: 0,
        };
        lane.prepare_message();
        lane
    }

    fn has_blocks(&self) -> bool {
        !self.direct.is_empty() || self.staged_from < self.staged_to
    }

    fn blocks(&self) -> &[[u8; 64]] {
        if self.direct.is_empty() {
            &self.staged[self.staged_from..self.staged_to]
        } else {
            self.direct
        }
    }

    fn consume(&mut self, count: usize) {
        if self.direct.is_empty() {
            self.staged_from += count;
        } else {
            self.direct = &self.direct[count..];
        }
    }

    /// Makes the next blocks ready, or returns false: `chaining` is the double hash.
    fn advance(&mut self, chaining: &mut Chaining) -> bool {
        match self.stage {
            Stage::Message => self.prepare_message(),
            Stage::Padded => {
                self.staged[0] = PADDED_DIGEST;
                self.staged[0][..32].copy_from_slice(&chaining.to_digest());
                (self.staged_from, self.staged_to) = (0, 1);
                self.stage = Stage::Digest;
                *chaining = Chaining::INITIAL;
            }
            Stage::Digest => return false,
        }
        true
    }

    /// Makes the next blocks of the message ready; called at block boundaries only.
    fn prepare_message(&mut self) {
        let mut filled = 0;
        for span in &mut self.spans {
            if filled == 0 {
                if span.len() >= 64 {
                    (self.direct, *span) = span.as_chunks::<64>();
                    return;
                }
                self.staged = [[0; 64]; 2];
            }
            let (taken, rest) = span.split_at(span.len().min(64 - filled));
            self.staged[0][filled..filled + taken.len()].copy_from_slice(taken);
            *span = rest;
            filled += taken.len();
            if filled == 64 {
                (self.staged_from, self.staged_to) = (0, 1);
                return;
            }
        }
        self.pad(filled);
        self.stage = Stage::Padded;
    }

    /// Ends the staged bytes, `filled` < 64 of them, as FIPS 180-4 section 5.1.1 says.
    fn pad(&mut self, filled: usize) {
        let blocks = if filled < 56 { 1 } else { 2 };
        self.staged[0][filled] = 0x80;
        self.staged[blocks - 1][56..].copy_from_slice(&(self.message_len * 8).to_be_bytes());
        (self.staged_from, self.staged_to) = (0, blocks);
    }
}
