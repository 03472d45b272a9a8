//! A connection's bytes as a socket gives them: in pieces, then none for now.

use std::io::{self, ErrorKind, Read};

/// Gives `bytes` in pieces of `sizes` in turn.
pub(crate) struct Pieces<'a> {
    bytes: &'a [u8],
    sizes: [usize; 2],
    turn: usize,
}

impl<'a> Pieces<'a> {
    /// Sizes of zero count as one.
    pub(crate) fn new(bytes: &'a [u8], sizes: [usize; 2]) -> Self {
        Self { bytes, sizes: sizes.map(|size| size.max(1)), turn: 0 }
    }

    pub(crate) fn whole(bytes: &'a [u8]) -> Self {
        Self::new(bytes, [usize::MAX; 2])
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.turn += 1;
        let size = self.sizes[self.turn % 2].min(target.len()).min(self.bytes.len());
        let (piece, rest) = self.bytes.split_at(size);
        target[..size].copy_from_slice(piece);
        self.bytes = rest;
        Ok(size)
    }
}
