//! A node of the header tree as it stays in memory: 128 bytes, where [`Node`] has 224.
//!
//! A million headers stay in memory for as long as the program runs, on machines with 4 GiB. What makes
//! the difference: the hash of the header before is its parent's, and is not kept twice; positions have
//! the bits that their limits ask for; the total work is kept for one height in sixty-four
//! (`tree/chain_work.rs`).
//!
//! | bits | field | bound |
//! | ---: | --- | --- |
//! | 28 | length of the undo record | an input of 41 bytes spends 10 kB at most: 244 MB |
//! | 36 | its offset | those of a file of 128 MiB of such inputs: 33 GB |
//! | 22 | length of the block | 4,000,000 |
//! | 20 | transactions of the block | 4,000,000 / 60 |
//! | 40 | transactions of the chain | 10^12 |

use godwit_primitives::{BlockHash, BlockHeader, MerkleRoot};
use godwit_store::{BlockChecksum, BlockPosition, UndoPosition};

use super::{Node, NodeId, Validity};

const UNDO_LEN_BITS: u32 = 28;
const UNDO_OFFSET_BITS: u32 = 64 - UNDO_LEN_BITS;
const BLOCK_LEN_BITS: u32 = 22;
const TX_COUNT_BITS: u32 = 20;
const CHAIN_TX_COUNT_BITS: u32 = 40;

/// No node: genesis has no parent.
const NONE: u32 = u32::MAX;

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    hash: BlockHash,
    merkle_root: MerkleRoot,
    version: i32,
    pub(super) time: u32,
    pub(super) bits: u32,
    nonce: u32,
    pub(super) height: u32,
    parent: u32,
    skip: u32,
    sequence: u32,
    file: u32,
    offset: u32,
    checksum: Option<BlockChecksum>,
    /// Length of the block; 0 where it is not stored. Above it the flags.
    len_and_flags: u32,
    /// Offset and length of the undo record, low word first. Length 0: there is none.
    undo: [u32; 2],
    /// Transactions of the block and of the chain, low word first.
    counts: [u32; 2],
}

const _: () = assert!(size_of::<Packed>() == 128);

/// Flags, above the length of the block: two bits of validity, failed, dirty, named.
const VALIDITY_SHIFT: u32 = BLOCK_LEN_BITS;
const FAILED: u32 = 1 << (BLOCK_LEN_BITS + 2);
const DIRTY: u32 = 1 << (BLOCK_LEN_BITS + 3);
const NAMED: u32 = 1 << (BLOCK_LEN_BITS + 4);

fn low_bits(value: u64, bits: u32) -> u64 {
    value & ((1 << bits) - 1)
}

fn split(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

fn join(words: [u32; 2]) -> u64 {
    u64::from(words[0]) | u64::from(words[1]) << 32
}

impl Packed {
    /// A header of whose block nothing is known.
    pub(super) fn new(
        header: &BlockHeader,
        hash: BlockHash,
        height: u32,
        parent: Option<NodeId>,
        skip: Option<NodeId>,
    ) -> Self {
        let link = |id: Option<NodeId>| id.map_or(NONE, |id| id.0);
        Self {
            hash,
            merkle_root: header.merkle_root,
            version: header.version,
            time: header.time,
            bits: header.bits,
            nonce: header.nonce,
            height,
            parent: link(parent),
            skip: link(skip),
            sequence: 0,
            file: 0,
            offset: 0,
            checksum: None,
            len_and_flags: 0,
            undo: [0; 2],
            counts: [0; 2],
        }
    }

    pub(super) fn hash(&self) -> BlockHash {
        self.hash
    }

    pub(super) fn parent(&self) -> Option<NodeId> {
        (self.parent != NONE).then_some(NodeId(self.parent))
    }

    pub(super) fn skip(&self) -> Option<NodeId> {
        (self.skip != NONE).then_some(NodeId(self.skip))
    }

    pub(super) fn failed(&self) -> bool {
        self.len_and_flags & FAILED != 0
    }

    pub(super) fn is_stored(&self) -> bool {
        self.block_len() != 0
    }

    fn block_len(&self) -> u32 {
        low_bits(u64::from(self.len_and_flags), BLOCK_LEN_BITS) as u32
    }

    /// Marks it as changed; returns whether it was already.
    pub(super) fn set_dirty(&mut self) -> bool {
        let was = self.len_and_flags & DIRTY != 0;
        self.len_and_flags |= DIRTY;
        was
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.len_and_flags & DIRTY != 0
    }

    pub(super) fn clear_dirty(&mut self) {
        self.len_and_flags &= !DIRTY;
    }

    /// A commit that holds it has returned.
    pub(super) fn set_named(&mut self) {
        self.len_and_flags |= NAMED;
    }

    pub(super) fn is_named(&self) -> bool {
        self.len_and_flags & NAMED != 0
    }

    fn validity(&self) -> Validity {
        match self.len_and_flags >> VALIDITY_SHIFT & 3 {
            0 => Validity::Header,
            1 => Validity::Structured,
            _ => Validity::Scripts,
        }
    }

    /// The node; `prev` is the hash of its parent.
    pub(super) fn unpack(&self, prev: BlockHash) -> Node {
        let (undo, counts, len) = (join(self.undo), join(self.counts), self.block_len());
        let undo_len = low_bits(undo, UNDO_LEN_BITS) as u32;
        let stored = BlockPosition { file: self.file, offset: self.offset, len };
        let undone = UndoPosition { file: self.file, offset: undo >> UNDO_LEN_BITS, len: undo_len };
        Node {
            header: BlockHeader {
                version: self.version,
                prev_blockhash: prev,
                merkle_root: self.merkle_root,
                time: self.time,
                bits: self.bits,
                nonce: self.nonce,
            },
            hash: self.hash,
            height: self.height,
            validity: self.validity(),
            failed: self.failed(),
            tx_count: low_bits(counts, TX_COUNT_BITS) as u32,
            chain_tx_count: counts >> TX_COUNT_BITS,
            sequence: u64::from(self.sequence),
            position: (len > 0).then_some(stored),
            checksum: self.checksum,
            undo: (undo_len > 0).then_some(undone),
            parent: self.parent(),
        }
    }

    /// Takes over what `node` says of its block; `None` where a value is above its bound, or the undo
    /// record lies in a file of another number than the block.
    pub(super) fn set_block(&mut self, node: &Node) -> Option<()> {
        let Node { position, undo, .. } = *node;
        let files = [position.map(|at| at.file), undo.map(|at| at.file)];
        if let [Some(block), Some(undo)] = files
            && block != undo
        {
            return None;
        }
        let block = position.unwrap_or(BlockPosition { file: 0, offset: 0, len: 0 });
        let undo = undo.unwrap_or(UndoPosition { file: 0, offset: 0, len: 0 });
        let fits = block.len < 1 << BLOCK_LEN_BITS
            && undo.len < 1 << UNDO_LEN_BITS
            && undo.offset < 1 << UNDO_OFFSET_BITS
            && node.tx_count < 1 << TX_COUNT_BITS
            && node.chain_tx_count < 1 << CHAIN_TX_COUNT_BITS;
        let sequence = u32::try_from(node.sequence).ok().filter(|_| fits)?;
        self.sequence = sequence;
        self.file = files.into_iter().flatten().next().unwrap_or(0);
        self.offset = block.offset;
        self.checksum = node.checksum;
        let failed = if node.failed { FAILED } else { 0 };
        let kept = self.len_and_flags & (DIRTY | NAMED);
        let flags = kept | failed | (node.validity as u32) << VALIDITY_SHIFT;
        self.len_and_flags = block.len | flags;
        self.undo = split(undo.offset << UNDO_LEN_BITS | u64::from(undo.len));
        self.counts = split(node.chain_tx_count << TX_COUNT_BITS | u64::from(node.tx_count));
        Some(())
    }
}

#[cfg(test)]
mod tests;
