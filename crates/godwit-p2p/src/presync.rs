//! Low-work header protection: a chain has to show its work before any of its headers is stored.
//!
//! Headers are downloaded twice (Core `headerssync.h`). The first pass adds up the work and keeps
//! one bit of a salted hash of every [`commitment_period`]-th header, a commitment. Once the chain
//! has enough work, the second pass downloads it again, compares the commitments, and releases a
//! header only when enough commitments above it agreed. So a peer cannot show a chain with much
//! work and then have another one stored.
//!
//! Memory of one pre-sync is at most [`memory_bound`], whatever the peer sends.
//!
//! [`commitment_period`]: godwit_primitives::network::HeadersSyncParams::commitment_period

mod commitments;

use std::collections::VecDeque;
use std::hash::Hasher;

use godwit_consensus::{MAX_FUTURE_BLOCK_TIME, permitted_difficulty_transition};
use godwit_primitives::network::Params;
use godwit_primitives::work::block_proof;
use godwit_primitives::{BlockHash, BlockHeader, MerkleRoot, Work};
use siphasher::sip::SipHasher24;

use self::commitments::Commitments;
use crate::index::{HeaderId, HeaderIndex, HeaderInfo, locator};
use crate::message::MAX_HEADERS;

/// Most blocks per second that a valid chain can have in the long run: the median of eleven block
/// times must rise with every block, so six blocks can share a second (Core: the same).
const MAX_BLOCKS_PER_SECOND: u64 = 6;

/// The state of a pre-sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresyncState {
    /// First pass: the chain has not shown enough work so far (Core `PRESYNC`).
    Measuring,
    /// Second pass (Core `REDOWNLOAD`).
    Redownloading,
    /// Finished or given up; nothing is kept.
    Final,
}

/// The result of processing a message of headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresyncOutcome {
    /// False if the headers are not those of one valid chain that the peer shows twice. The
    /// pre-sync is given up.
    pub success: bool,
    /// Headers that are safe to store now, in order; they connect to those of earlier outcomes, the
    /// first to where the pre-sync started.
    pub accepted: Vec<BlockHeader>,
    /// More headers are to be requested, with [`Presync::next_locator`]. Otherwise the pre-sync is
    /// over.
    pub request_more: bool,
}

/// A header without the previous block's hash, which the header before it gives.
#[derive(Clone, Copy, Debug)]
struct CompressedHeader {
    version: i32,
    merkle_root: MerkleRoot,
    time: u32,
    bits: u32,
    nonce: u32,
}

impl CompressedHeader {
    fn new(header: &BlockHeader) -> Self {
        let BlockHeader { version, prev_blockhash: _, merkle_root, time, bits, nonce } = *header;
        Self { version, merkle_root, time, bits, nonce }
    }

    fn expand(self, prev_blockhash: BlockHash) -> BlockHeader {
        let Self { version, merkle_root, time, bits, nonce } = self;
        BlockHeader { version, prev_blockhash, merkle_root, time, bits, nonce }
    }
}

/// The last header of a pass.
#[derive(Clone, Copy, Debug)]
struct Position {
    hash: BlockHash,
    height: u32,
    bits: u32,
    work: Work,
}

/// The two-pass download of one peer's chain.
#[derive(Debug)]
pub struct Presync {
    params: Params,
    minimum_work: Work,
    salt: (u64, u64),
    /// A height with this remainder modulo the period has a commitment. Secret, so that the peer
    /// cannot tell which headers are compared.
    commit_offset: u32,
    max_commitments: u64,
    state: PresyncState,
    start_id: HeaderId,
    start: Position,
    /// Last header of the first pass.
    measured: Position,
    commitments: Commitments,
    /// Last header of the second pass.
    redownloaded: Position,
    /// Headers of the second pass that are not safe yet.
    buffer: VecDeque<CompressedHeader>,
    /// What the first header of the buffer connects to.
    buffer_prev: BlockHash,
    /// The second pass has reached the work: all its headers are safe.
    release_all: bool,
}

impl Presync {
    /// A pre-sync of a chain that builds on `start`, to be stored from `minimum_work` on (work from
    /// genesis). `median_time_past` is that of `start`, `commit_offset` is random below the
    /// commitment period, `now_unix` in seconds.
    pub fn new(
        params: &Params,
        start: &HeaderInfo,
        median_time_past: u32,
        minimum_work: Work,
        salt: [u8; 16],
        commit_offset: u32,
        now_unix: i64,
    ) -> Self {
        let start_position = Position {
            hash: start.hash,
            height: start.height,
            bits: start.header.bits,
            work: start.chain_work,
        };
        let (key0, key1) = salt.split_at(8);
        let key = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("eight bytes"));
        Self {
            minimum_work,
            salt: (key(key0), key(key1)),
            commit_offset: commit_offset % params.headers_sync.commitment_period,
            max_commitments: max_commitments(params, median_time_past, now_unix),
            state: PresyncState::Measuring,
            start_id: start.id,
            start: start_position,
            measured: start_position,
            commitments: Commitments::default(),
            redownloaded: start_position,
            buffer: VecDeque::new(),
            buffer_prev: start.hash,
            release_all: false,
            params: params.clone(),
        }
    }

    /// Processes a message of headers. The caller has checked that each has the proof of work that
    /// it claims. `full_message`: it has as many headers as a message can, so the peer may have
    /// more.
    pub fn process(&mut self, headers: &[BlockHeader], full_message: bool) -> PresyncOutcome {
        let mut accepted = Vec::new();
        let success = !headers.is_empty()
            && match self.state {
                PresyncState::Measuring => self.measure(headers),
                PresyncState::Redownloading => {
                    let agreed = headers.iter().all(|header| self.redownload(header));
                    if agreed {
                        accepted = self.release();
                    }
                    agreed
                }
                PresyncState::Final => false,
            };
        // The second pass starts over, so the peer has more than what this message held.
        let restarted = self.state == PresyncState::Redownloading
            && self.redownloaded.height == self.start.height;
        let complete = self.release_all && self.buffer.is_empty();
        let request_more = success && (restarted || (full_message && !complete));
        if !request_more {
            self.finish();
        }
        PresyncOutcome { success, accepted, request_more }
    }

    /// A locator from which the peer is to continue: the last header of the pass, then the locator of
    /// where the pre-sync started, which is the same block twice when the second pass begins (Core
    /// `HeadersSyncState::NextHeadersRequestLocator`). Empty when the pre-sync is over. `index` is the
    /// one that the start is from.
    pub fn next_locator(&self, index: &dyn HeaderIndex) -> Vec<BlockHash> {
        let Some(last) = self.last() else { return Vec::new() };
        let mut hashes = vec![last];
        hashes.extend(locator(index, self.start_id));
        hashes
    }

    /// The last header of the pass; `None` when the pre-sync is over.
    fn last(&self) -> Option<BlockHash> {
        match self.state {
            PresyncState::Measuring => Some(self.measured.hash),
            PresyncState::Redownloading => Some(self.redownloaded.hash),
            PresyncState::Final => None,
        }
    }

    /// The state of the pre-sync.
    pub fn state(&self) -> PresyncState {
        self.state
    }

    /// Height that the first pass reached.
    pub fn height(&self) -> u32 {
        self.measured.height
    }

    /// Work of the chain from genesis to that height.
    pub fn work(&self) -> Work {
        self.measured.work
    }

    /// Memory in use, in bytes, counted by the capacity of its allocations.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.commitments.memory()
            + self.buffer.capacity() * size_of::<CompressedHeader>()
    }

    /// First pass. A peer with little hash power could otherwise pack much claimed work into few
    /// headers, so the difficulty may not rise faster than the rules permit.
    fn measure(&mut self, headers: &[BlockHeader]) -> bool {
        for header in headers {
            let Some(next) = self.extend(&self.measured, header) else { return false };
            if self.is_committed(next.height) {
                if self.commitments.len() >= self.max_commitments {
                    return false;
                }
                self.commitments.push(self.commitment(&next.hash));
            }
            self.measured = next;
        }
        if self.measured.work >= self.minimum_work {
            self.state = PresyncState::Redownloading;
        }
        true
    }

    /// Second pass. Commitments are compared until the work is reached: beyond it the peer's chain
    /// may have grown since the first pass.
    fn redownload(&mut self, header: &BlockHeader) -> bool {
        let Some(next) = self.extend(&self.redownloaded, header) else { return false };
        self.release_all |= next.work >= self.minimum_work;
        if !self.release_all && self.is_committed(next.height) {
            let commitment = self.commitment(&next.hash);
            if self.commitments.pop() != Some(commitment) {
                return false;
            }
        }
        if self.buffer.len() == self.buffer.capacity() {
            // By one message at a time: doubling would take three times the memory in the end.
            self.buffer.reserve_exact(MAX_HEADERS);
        }
        self.buffer.push_back(CompressedHeader::new(header));
        self.redownloaded = next;
        true
    }

    /// The position after `header`, if it connects and may claim its target.
    fn extend(&self, last: &Position, header: &BlockHeader) -> Option<Position> {
        let height = last.height.checked_add(1)?;
        let valid = header.prev_blockhash == last.hash
            && permitted_difficulty_transition(height, last.bits, header.bits, &self.params);
        valid.then(|| Position {
            hash: header.block_hash(),
            height,
            bits: header.bits,
            work: last.work.saturating_add(block_proof(header.bits)),
        })
    }

    /// Removes from the buffer the headers that have enough agreed commitments above them.
    fn release(&mut self) -> Vec<BlockHeader> {
        let kept = match self.release_all {
            true => 0,
            false => self.params.headers_sync.redownload_buffer_size as usize,
        };
        let safe = self.buffer.len().saturating_sub(kept);
        let mut headers = Vec::with_capacity(safe);
        for compressed in self.buffer.drain(..safe) {
            let header = compressed.expand(self.buffer_prev);
            self.buffer_prev = header.block_hash();
            headers.push(header);
        }
        headers
    }

    fn is_committed(&self, height: u32) -> bool {
        height % self.params.headers_sync.commitment_period == self.commit_offset
    }

    fn commitment(&self, hash: &BlockHash) -> bool {
        let mut hasher = SipHasher24::new_with_keys(self.salt.0, self.salt.1);
        hasher.write(hash.as_bytes());
        hasher.finish() & 1 == 1
    }

    fn finish(&mut self) {
        self.state = PresyncState::Final;
        self.commitments = Commitments::default();
        self.buffer = VecDeque::new();
    }
}

/// Most commitments that a valid chain on a block with this median time can have by now. This
/// bounds the memory of the first pass; a longer chain can be tried again later.
fn max_commitments(params: &Params, median_time_past: u32, now_unix: i64) -> u64 {
    let seconds =
        now_unix.saturating_sub(i64::from(median_time_past)).saturating_add(MAX_FUTURE_BLOCK_TIME);
    let seconds = u64::try_from(seconds).unwrap_or(0);
    let blocks = MAX_BLOCKS_PER_SECOND.saturating_mul(seconds);
    blocks / u64::from(params.headers_sync.commitment_period)
}

/// Most bytes that a pre-sync of a chain from genesis holds at `now_unix`: 2.2 MB on the main
/// network in 2026, of which 1.3 MB are commitments.
pub fn memory_bound(params: &Params, now_unix: i64) -> usize {
    let commitments = max_commitments(params, params.genesis.time, now_unix);
    let buffer = params.headers_sync.redownload_buffer_size as usize + 2 * MAX_HEADERS;
    size_of::<Presync>()
        + Commitments::memory_bound(commitments)
        + buffer * size_of::<CompressedHeader>()
}

#[cfg(test)]
mod tests;
