//! Keeps the lanes of the multi-message compression busy while messages differ in length.

use std::array;

use super::x86::{MAX_LANES, ShaExtensions, State};

/// Double SHA-256 of messages `0..out.len()`, each of three spans.
pub(super) fn sha256d_spans<'a>(
    cpu: ShaExtensions,
    spans: impl Fn(usize) -> [&'a [u8]; 3],
    out: &mut [[u8; 32]],
) {
    let mut active = out.len().min(MAX_LANES);
    let mut next = active;
    let mut states = [State::INITIAL; MAX_LANES];
    let mut lanes: [Lane<'a>; MAX_LANES] =
        array::from_fn(|i| if i < active { Lane::start(i, spans(i)) } else { Lane::IDLE });
    while active > 0 {
        compress_all(cpu, &mut states[..active], &mut lanes[..active]);
        let mut i = 0;
        while i < active {
            let lane = &mut lanes[i];
            if lane.has_blocks() || lane.advance(&mut states[i]) {
                i += 1;
                continue;
            }
            out[lane.message] = states[i].to_digest();
            if next < out.len() {
                *lane = Lane::start(next, spans(next));
                states[i] = State::INITIAL;
                next += 1;
                i += 1;
            } else {
                active -= 1;
                lanes.swap(i, active);
                states.swap(i, active);
            }
        }
    }
}

/// Double SHA-256 of each pair of neighbours, in place.
pub(super) fn sha256d_pairs(cpu: ShaExtensions, hashes: &mut [[u8; 32]]) {
    let pairs = hashes.len() / 2;
    let mut done = 0;
    while done < pairs {
        done += match pairs - done {
            1 => pairs_at::<1>(cpu, hashes, done),
            2 => pairs_at::<2>(cpu, hashes, done),
            3 => pairs_at::<3>(cpu, hashes, done),
            _ => pairs_at::<MAX_LANES>(cpu, hashes, done),
        };
    }
}

fn pairs_at<const N: usize>(cpu: ShaExtensions, hashes: &mut [[u8; 32]], first: usize) -> usize {
    let mut messages = [[0; 64]; N];
    let pairs = hashes[2 * first..].as_flattened().as_chunks::<64>().0;
    messages.copy_from_slice(&pairs[..N]);
    hashes[first..first + N].copy_from_slice(&cpu.sha256d_64(&messages));
    N
}

/// Compresses as many blocks as every lane has ready.
fn compress_all(cpu: ShaExtensions, states: &mut [State], lanes: &mut [Lane<'_>]) {
    match lanes.len() {
        1 => compress_lanes::<1>(cpu, states, lanes),
        2 => compress_lanes::<2>(cpu, states, lanes),
        3 => compress_lanes::<3>(cpu, states, lanes),
        _ => compress_lanes::<MAX_LANES>(cpu, states, lanes),
    }
}

fn compress_lanes<const N: usize>(
    cpu: ShaExtensions,
    states: &mut [State],
    lanes: &mut [Lane<'_>],
) {
    let states = states.first_chunk_mut::<N>().expect("the caller chose N by the number of lanes");
    let lanes = lanes.first_chunk_mut::<N>().expect("the caller chose N by the number of lanes");
    let runs = lanes.each_ref().map(Lane::blocks);
    let count = runs.iter().map(|run| run.len()).min().unwrap_or(0);
    cpu.compress(states, runs, count);
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
struct Lane<'a> {
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
    const IDLE: Lane<'static> = Lane {
        message: 0,
        stage: Stage::Digest,
        spans: [&[]; 3],
        message_len: 0,
        direct: &[],
        staged: [[0; 64]; 2],
        staged_from: 0,
        staged_to: 0,
    };

    fn start(message: usize, spans: [&'a [u8]; 3]) -> Lane<'a> {
        let message_len = spans.iter().map(|span| span.len() as u64).sum();
        let mut lane = Lane { message, stage: Stage::Message, spans, message_len, ..Lane::IDLE };
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

    /// Makes the next blocks ready, or returns false: `state` is the double hash.
    fn advance(&mut self, state: &mut State) -> bool {
        match self.stage {
            Stage::Message => self.prepare_message(),
            Stage::Padded => {
                self.staged[0] = PADDED_DIGEST;
                self.staged[0][..32].copy_from_slice(&state.to_digest());
                (self.staged_from, self.staged_to) = (0, 1);
                self.stage = Stage::Digest;
                *state = State::INITIAL;
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
