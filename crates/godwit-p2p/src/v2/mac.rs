//! Poly1305 over bytes that come in pieces, in the order of RFC 8439, section 2.8.

use poly1305::universal_hash::{KeyInit, UniversalHash};
use poly1305::{BLOCK_SIZE, Block, Poly1305};

/// Length of a tag, in bytes.
pub(crate) const TAG_SIZE: usize = 16;

/// Bytes that the hash takes at once where the processor can do that. It falls out of that step when
/// it is given less, and stays out of it for the rest of the packet.
const STRIDE: usize = 4 * BLOCK_SIZE;

/// The tag of one packet, as far as it came. It holds the packet's one-time key.
pub(super) struct Mac {
    hash: Poly1305,
    /// The last bytes that make no stride yet.
    partial: [u8; STRIDE],
    filled: usize,
    additional: u64,
    ciphertext: u64,
}

impl Mac {
    /// Of no packet, with no key.
    pub(super) fn idle() -> Self {
        Self::new(&[0; 32], &[])
    }

    pub(super) fn new(key: &[u8; 32], additional: &[u8]) -> Self {
        let mut hash = Poly1305::new(key.into());
        hash.update_padded(additional);
        let additional = additional.len() as u64;
        Self { hash, partial: [0; STRIDE], filled: 0, additional, ciphertext: 0 }
    }

    /// The next bytes of the ciphertext.
    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        self.ciphertext += bytes.len() as u64;
        if self.filled > 0 {
            let (first, rest) = bytes.split_at(bytes.len().min(STRIDE - self.filled));
            self.partial[self.filled..][..first.len()].copy_from_slice(first);
            self.filled += first.len();
            bytes = rest;
            if self.filled < STRIDE {
                return;
            }
            self.hash.update(Block::slice_as_chunks(&self.partial).0);
            self.filled = 0;
        }
        let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % STRIDE);
        self.hash.update(Block::slice_as_chunks(whole).0);
        self.partial[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    pub(super) fn finish(&self) -> [u8; TAG_SIZE] {
        let mut hash = self.hash.clone();
        hash.update_padded(&self.partial[..self.filled]);
        let mut lengths = [0; BLOCK_SIZE];
        lengths[..8].copy_from_slice(&self.additional.to_le_bytes());
        lengths[8..].copy_from_slice(&self.ciphertext.to_le_bytes());
        hash.update(&[Block::from(lengths)]);
        hash.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_give_the_same_tag() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| (i * 37 % 251) as u8).collect();
        let tag = |pieces: &[usize]| {
            let mut mac = Mac::new(&[9; 32], b"additional");
            let mut rest = bytes.as_slice();
            for size in pieces.iter().cycle() {
                let (piece, left) = rest.split_at(rest.len().min(*size));
                mac.update(piece);
                rest = left;
                if rest.is_empty() {
                    return mac.finish();
                }
            }
            unreachable!("the pieces never end")
        };
        let whole = tag(&[1000]);
        for pieces in [
            &[1][..],
            &[15],
            &[16],
            &[17],
            &[63],
            &[64],
            &[65],
            &[1, 16, 33],
            &[0, 7, 64, 3],
            &[999],
        ] {
            assert_eq!(tag(pieces), whole, "{pieces:?}");
        }
    }
}
