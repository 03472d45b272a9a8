//! The bits to which a peer is committed by the headers that it sent first, in a queue.

/// Bits, first in first out. All are pushed before the first is taken.
#[derive(Debug, Default)]
pub(super) struct Commitments {
    words: Vec<u64>,
    pushed: u64,
    popped: u64,
}

/// Bits of a word.
const WORD: u64 = u64::BITS as u64;

impl Commitments {
    pub(super) fn len(&self) -> u64 {
        self.pushed - self.popped
    }

    pub(super) fn push(&mut self, bit: bool) {
        let offset = self.pushed % WORD;
        if offset == 0 {
            self.words.push(0);
        }
        *self.words.last_mut().expect("one was pushed") |= u64::from(bit) << offset;
        self.pushed += 1;
    }

    pub(super) fn pop(&mut self) -> Option<bool> {
        if self.popped == self.pushed {
            return None;
        }
        let word = self.words[(self.popped / WORD) as usize];
        let bit = word >> (self.popped % WORD) & 1 == 1;
        self.popped += 1;
        Some(bit)
    }

    pub(super) fn memory(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// The most that `count` commitments use: the allocation doubles when it is full.
    pub(super) fn memory_bound(count: u64) -> usize {
        (2 * count.div_ceil(WORD) as usize).max(4) * size_of::<u64>()
    }
}
