//! Headers that are no longer in the block files. Blocks above them would connect to nothing, and be fetched
//! again although they are stored.
//!
//! * An index that is rebuilt at the user's request begins with the headers of the old one
//!   (`godwit-store/src/store/database.rs`). They are judged again, since that index may have been wrong.
//! * Without the old index, the blocks above give the hash of a missing header, by which a header with a
//!   single flipped bit can be corrected: only one of its 640 bits gives that hash.

use std::collections::HashSet;

use godwit_consensus::{check_header, contextual_check_header};
use godwit_primitives::{BlockHash, BlockHeader, HEADER_SIZE};
use godwit_store::RecoveredBlock;
use godwit_stream::SpanReader;

use super::{ANY_TIME, place_headers};
use crate::index::BlockIndex;

/// Blocks that no other one builds upon, of which a header that is missing may have been: ends of branches, a
/// few hundred on main, and those whose headers are damaged.
const MOST_LEAVES: usize = 4096;

/// Judges the headers of blocks that are not indexed yet.
pub(super) fn judge_headers(index: &mut BlockIndex) {
    for n in 0..index.tree().len() as u32 {
        let id = index.tree().at(n);
        let node = index.node(id);
        let Some(parent) = node.parent().filter(|_| node.position.is_none()) else { continue };
        let judged = index.with_prev_context(parent, |context, params| {
            check_header(&node.hash, &node.header, params)?;
            contextual_check_header(&node.header, context, params, ANY_TIME)
        });
        if let Err(reject) = judged {
            index.fail(id, reject);
        }
    }
}

/// Puts headers with a flipped bit into the index as they were, and those of the blocks above them. Returns
/// how many blocks have no place there even so.
pub(super) fn mend_headers(index: &mut BlockIndex, found: &[RecoveredBlock]) -> usize {
    let mut left = mended_headers(index, found);
    let mut without_place = found.len();
    loop {
        let before = left.len();
        left.retain(|header| index.accept_header(header, header.block_hash(), ANY_TIME).is_err());
        without_place = without_place.min(place_headers(index, found, ANY_TIME));
        if left.is_empty() || left.len() == before {
            return without_place;
        }
    }
}

/// The headers that are missing below found blocks and differ in one bit from one that was found.
fn mended_headers(index: &BlockIndex, found: &[RecoveredBlock]) -> Vec<BlockHeader> {
    let hashes: HashSet<BlockHash> = found.iter().map(|block| block.header.block_hash()).collect();
    let parents: HashSet<BlockHash> =
        found.iter().map(|block| block.header.prev_blockhash).collect();
    let is_missing = |hash: &BlockHash| !hashes.contains(hash) && index.tree().find(hash).is_none();
    let is_leaf = |header: &BlockHeader| !parents.contains(&header.block_hash());
    let leaves = found.iter().map(|block| block.header).filter(is_leaf).take(MOST_LEAVES);
    let is_wanted = |header: &BlockHeader| {
        let hash = header.block_hash();
        parents.contains(&hash) && is_missing(&hash)
    };
    match parents.iter().any(is_missing) {
        true => leaves.flat_map(one_bit_off).filter(is_wanted).collect(),
        false => Vec::new(),
    }
}

/// All headers that differ from one in one bit.
fn one_bit_off(header: BlockHeader) -> impl Iterator<Item = BlockHeader> {
    let bytes = header.to_bytes();
    (0..8 * HEADER_SIZE).map(move |bit| {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        SpanReader::new(&flipped).get().expect("any 80 bytes are a header")
    })
}
