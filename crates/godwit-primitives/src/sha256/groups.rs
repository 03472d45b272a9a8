//! Messages of equal length side by side, for the lanes of vectors.
//!
//! Most transactions are a few blocks long. Lanes that each go on to the next message when theirs has ended
//! ([`super::lanes`]) cost as much in looking after them as in compressing. So short messages wait here
//! until there are as many of one length as lanes, are copied behind each other with their padding, and
//! are compressed in step from the first block to the second hash. What is left over at the end is put
//! together with its neighbours in length.

use smallvec::SmallVec;

use super::lanes::{self, InFlight};
use super::vector::{MAX_LANES, Vectors};

/// Blocks, padding included, of the longest messages that are taken. Sixteen of them are copied into 24 KiB.
const MAX_BLOCKS: usize = 24;

/// With fewer messages than this in its last group, the SHA extensions take less time for them one after
/// another than a step of all lanes takes, most of which are idle then.
pub(super) const ENOUGH: usize = 8;

/// A message and its number.
type Waiting<'a> = (usize, [&'a [u8]; 3]);

/// Messages that wait for others of their length.
pub(super) struct Groups<'a> {
    vectors: Vectors,
    /// Those of one block, those of two, and so on; always fewer than lanes.
    by_blocks: [SmallVec<[Waiting<'a>; MAX_LANES]>; MAX_BLOCKS],
    /// Where they are put together to be hashed. On the stack, as all of this: it is for one block.
    copies: [[u8; 64]; MAX_LANES * MAX_BLOCKS],
}

impl<'a> Groups<'a> {
    pub(super) fn new(vectors: Vectors) -> Groups<'a> {
        Groups { vectors, by_blocks: Default::default(), copies: [[0; 64]; MAX_LANES * MAX_BLOCKS] }
    }

    /// Takes a message, unless it is long; and hashes it with others, if they are enough. Digests go into
    /// the entries of `out` that have the messages' numbers.
    pub(super) fn take(
        &mut self,
        number: usize,
        spans: [&'a [u8]; 3],
        out: &mut [[u8; 32]],
    ) -> bool {
        let blocks = blocks(length(&spans));
        let Some(waiting) = self.by_blocks.get_mut(blocks - 1) else { return false };
        waiting.push((number, spans));
        if waiting.len() == self.vectors.lanes() {
            let group = std::mem::take(waiting);
            self.hash(&group, out);
        }
        true
    }

    /// Hashes what waits, but for the last group if it has fewer than `enough`, which it returns.
    pub(super) fn finish(&mut self, enough: usize, out: &mut [[u8; 32]]) -> InFlight<'a> {
        let mut group: SmallVec<[Waiting<'a>; MAX_LANES]> = SmallVec::new();
        // The longest first: what is left over then takes least.
        for blocks in (0..MAX_BLOCKS).rev() {
            for message in std::mem::take(&mut self.by_blocks[blocks]) {
                group.push(message);
                if group.len() == self.vectors.lanes() {
                    self.hash(&group, out);
                    group.clear();
                }
            }
        }
        if group.len() >= enough {
            self.hash(&group, out);
            group.clear();
        }
        group.into_iter().map(|(number, spans)| lanes::message(number, spans)).collect()
    }

    fn hash(&mut self, group: &[Waiting<'a>], out: &mut [[u8; 32]]) {
        let mut runs: [&[[u8; 64]]; MAX_LANES] = [&[]; MAX_LANES];
        let mut free = self.copies.as_mut_slice();
        for (run, (_, spans)) in runs.iter_mut().zip(group) {
            let (copy, rest) = free.split_at_mut(blocks(length(spans)));
            free = rest;
            copy_padded(spans, copy);
            *run = copy;
        }
        let digests = self.vectors.sha256d(&runs[..group.len()]);
        for ((number, _), digest) in group.iter().zip(digests) {
            out[*number] = digest;
        }
    }
}

pub(super) fn length(spans: &[&[u8]; 3]) -> usize {
    spans.iter().map(|span| span.len()).sum()
}

/// Blocks of a message with its padding: a bit and eight bytes at least.
fn blocks(length: usize) -> usize {
    (length + 9).div_ceil(64)
}

/// Copies a message and pads it, as FIPS 180-4 section 5.1.1 says, to the whole of `copy`.
fn copy_padded(spans: &[&[u8]; 3], copy: &mut [[u8; 64]]) {
    let copy = copy.as_flattened_mut();
    let mut end = 0;
    for span in spans {
        copy[end..end + span.len()].copy_from_slice(span);
        end += span.len();
    }
    let (padding, bits) = copy[end..].split_last_chunk_mut::<8>().expect("room for the length");
    padding.fill(0);
    padding[0] = 0x80;
    *bits = (end as u64 * 8).to_be_bytes();
}
