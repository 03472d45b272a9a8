//! The instructions of a map, and the numbers in them.

/// Sizes of the classes of each kind of number, in bits (see [`Bits::number`]).
const KINDS: &[u32] = &[0, 0, 1];
const SYSTEMS: &[u32] = &[15, 16, 17, 18, 19, 20, 21, 22, 23, 24];
const PATTERNS: &[u32] = &[1, 2, 3, 4, 5, 6, 7, 8];
const DISTANCES: &[u32] = &[
    5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
    30,
];

/// The least numbers of each kind.
const LEAST_SYSTEM: u32 = 1;
const LEAST_PATTERN: u32 = 2;
const LEAST_DISTANCE: u32 = 17;

/// An instruction of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    /// `0`: the address belongs to this system.
    Return(u32),
    /// `10`: reads a bit of the address, and goes on so many bits further if that is 1.
    Jump(usize),
    /// `110`: compares bits of the address; where they differ, the default is the answer.
    Match(Pattern),
    /// `111`: the answer of later patterns that differ.
    Default(u32),
}

/// Bits to compare with: those behind the highest one that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern(u32);

impl Pattern {
    pub(super) fn len(self) -> u32 {
        self.0.ilog2()
    }

    pub(super) fn bits(self) -> impl Iterator<Item = u8> {
        (0..self.len()).rev().map(move |bit| (self.0 >> bit & 1) as u8)
    }
}

/// Reads the bits of a map, the least significant one of a byte first.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The number of bits that were read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The number of bits that are still to be read.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() * 8 - self.at
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.left() == 0
    }

    pub(super) fn bit(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (self.at % 8) & 1;
        self.at += 1;
        Some(bit)
    }

    /// Passes over bits that are there.
    pub(super) fn skip(&mut self, bits: usize) {
        debug_assert!(bits <= self.left());
        self.at += bits;
    }

    /// The next instruction; `None` where the map ends within it.
    pub(super) fn instruction(&mut self) -> Option<Instruction> {
        Some(match self.number(0, KINDS)? {
            0 => Instruction::Return(self.number(LEAST_SYSTEM, SYSTEMS)?),
            1 => Instruction::Jump(self.number(LEAST_DISTANCE, DISTANCES)? as usize),
            2 => Instruction::Match(Pattern(self.number(LEAST_PATTERN, PATTERNS)?)),
            _ => Instruction::Default(self.number(LEAST_SYSTEM, SYSTEMS)?),
        })
    }

    /// A number of at least `least`: a 1 for each class that is passed over, a 0 unless the last class is
    /// reached, then the place in the class, most significant bit first (Core `DecodeBits`).
    fn number(&mut self, least: u32, classes: &[u32]) -> Option<u32> {
        let (last, others) = classes.split_last()?;
        let mut first = least;
        for size in others {
            if self.bit()? == 0 {
                return self.place(first, *size);
            }
            first += 1 << size;
        }
        self.place(first, *last)
    }

    fn place(&mut self, first: u32, size: u32) -> Option<u32> {
        let place = (0..size).try_fold(0, |place, _| Some(place << 1 | u32::from(self.bit()?)))?;
        Some(first + place)
    }
}
