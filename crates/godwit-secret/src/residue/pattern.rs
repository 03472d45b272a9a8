//! Searches for many byte strings, and parts of them, at once.

use std::ops::{Range, RangeInclusive};

use super::ScanError;
use super::encodings::SHORTEST;
use super::needle::{Form, Needle, SHORTEST_PART};
use super::scratch::Scratch;
use crate::array::SecretArray;
use crate::releasable::Declassified;

/// Least and most bits of the filter of anchors: what fits a processor's nearest cache, and two megabytes.
const FILTER_BITS: RangeInclusive<usize> = 1 << 15..=1 << 24;
/// Bits of the filter for each anchor, so that few windows of other bytes pass it.
const BITS_OF_ONE: usize = 64;

/// The forms of some needles, by their length.
///
/// ```text
///   memory    ........|aaaaaaaa|bbbbbbbb|........     windows: every `stride` bytes, `width` bytes each
///   a form        xxxxx|aaaaaaaa|xx                   anchors: `width` bytes at every place of the form
/// ```
///
/// Wherever `width + stride - 1` bytes of a form lie in memory, a window lies within them, and is one of the
/// form's anchors. Only where the hash of a window is that of an anchor are the bytes around it compared.
/// Windows at every byte, and anchors at every eighth, found the same and took more than twice as long.
pub(super) struct Patterns<'a> {
    forms: Scratch<(&'a Needle, &'a Form)>,
    /// The anchors of long forms, and those of short ones, if there are any.
    groups: [Option<Anchors>; 2],
    /// Odd, random and secret, so that the hashes tell nothing.
    multiplier: SecretArray<8>,
    longest: usize,
}

/// The windows that find forms of some lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grid {
    width: usize,
    stride: usize,
    /// Bytes of the shortest and longest forms.
    lengths: (usize, usize),
}

impl Grid {
    /// Forms of which parts of sixteen bytes count, too.
    const LONG: Self = Self { width: 8, stride: 8, lengths: (15, usize::MAX) };
    /// Forms that count only as a whole. Windows of four bytes would be found everywhere by chance.
    const SHORT: Self = Self { width: 5, stride: 4, lengths: (SHORTEST, 14) };

    fn holds(&self, form: &Form) -> bool {
        (self.lengths.0..=self.lengths.1).contains(&form.len())
    }

    /// The anchors of a form, by their places.
    fn anchors(self, form: &Form) -> impl Iterator<Item = (usize, u64)> {
        (0..=form.len() - self.width).map(move |at| (at, form.anchor(at, self.width)))
    }
}

const _: () = {
    assert!(Grid::LONG.width + Grid::LONG.stride - 1 <= SHORTEST_PART);
    assert!(Grid::LONG.width + Grid::LONG.stride - 1 <= Grid::LONG.lengths.0);
    assert!(Grid::SHORT.width + Grid::SHORT.stride - 1 <= Grid::SHORT.lengths.0);
    assert!(
        Grid::SHORT.lengths.1 + 1 == Grid::LONG.lengths.0 && Grid::SHORT.lengths.1 < SHORTEST_PART
    );
};

/// The anchors of the forms of one length.
struct Anchors {
    grid: Grid,
    /// One bit for the first bits of each hash.
    filter: Scratch<u64>,
    /// How many of its bits a hash has behind those.
    shift: u32,
    /// Hash of the anchor, number of its form and its place there, in order.
    by_hash: Scratch<(u32, u32, u32)>,
    zeros: Zeros,
    /// Bytes of the longest form.
    longest: usize,
}

/// What zeros mean for a search; most of memory consists of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zeros {
    /// No form has an anchor of zeros.
    Nothing,
    /// Some form has one: zeros say something where other bytes are near.
    AtTheirEnds,
    /// Some form is nothing but zeros: they are found everywhere.
    Everywhere,
}

impl Zeros {
    fn of(form: &Form, grid: Grid) -> Self {
        let mut anchors = grid.anchors(form);
        match (0..form.len()).any(|at| form.byte(at) != 0) {
            false => Self::Everywhere,
            true if anchors.any(|(_, anchor)| anchor == 0) => Self::AtTheirEnds,
            true => Self::Nothing,
        }
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Everywhere, _) | (_, Self::Everywhere) => Self::Everywhere,
            (Self::AtTheirEnds, _) | (_, Self::AtTheirEnds) => Self::AtTheirEnds,
            (Self::Nothing, Self::Nothing) => Self::Nothing,
        }
    }
}

impl<'a> Patterns<'a> {
    pub(super) fn new(
        needles: impl IntoIterator<Item = &'a Needle> + Clone,
    ) -> Result<Self, ScanError> {
        let all = || {
            let needles = needles.clone().into_iter();
            needles.flat_map(|needle| needle.forms.iter().map(move |form| (needle, form)))
        };
        let mut forms = Scratch::with_capacity(all().count())?;
        all().try_for_each(|form| forms.extend(&[form]))?;
        let mut multiplier = SecretArray::random()?;
        multiplier.expose_secret_mut(|bytes| bytes[0] |= 1);
        let longest = forms.iter().map(|(_, form)| form.len()).max().unwrap_or(SHORTEST);
        let mut patterns = Self { forms, groups: [None, None], multiplier, longest };
        let factor = patterns.factor();
        patterns.groups = [
            Anchors::new(Grid::LONG, &patterns.forms, factor)?,
            Anchors::new(Grid::SHORT, &patterns.forms, factor)?,
        ];
        Ok(patterns)
    }

    /// Number of forms.
    pub(super) fn len(&self) -> usize {
        self.forms.len()
    }

    /// Bytes of the longest form; at least that of a window.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    pub(super) fn form(&self, index: usize) -> (&'a Needle, &'a Form) {
        self.forms[index]
    }

    /// Calls `found` with the offset of each form or part of one that lies in `bytes`, the number of the
    /// form and the place of the part in it: long forms first, each in the order of their offsets.
    pub(super) fn search(&self, bytes: &[u8], mut found: impl FnMut(usize, usize, Range<usize>)) {
        let factor = self.factor();
        for anchors in self.groups.iter().flatten() {
            anchors.search(&self.forms, factor, bytes, &mut found);
        }
    }

    fn factor(&self) -> u64 {
        self.multiplier.expose_secret(|bytes| Declassified(u64::from_le_bytes(*bytes))).0
    }
}

impl Anchors {
    /// `None` where no form has such a length.
    fn new(grid: Grid, forms: &[(&Needle, &Form)], factor: u64) -> Result<Option<Self>, ScanError> {
        let all = || {
            let numbered = (0_u32..).zip(forms).map(|(index, (_, form))| (index, *form));
            numbered.filter(|(_, form)| grid.holds(form))
        };
        let count: usize = all().map(|(_, form)| form.len() + 1 - grid.width).sum();
        if count == 0 {
            return Ok(None);
        }
        let bits = (count * BITS_OF_ONE).next_power_of_two();
        let bits = bits.clamp(*FILTER_BITS.start(), *FILTER_BITS.end());
        let mut filter = Scratch::with_capacity(bits / 64)?;
        (0..bits / 64).try_for_each(|_| filter.extend(&[0]))?;
        let shift = u32::BITS - bits.ilog2();
        let mut by_hash = Scratch::with_capacity(count)?;
        for (index, form) in all() {
            for (place, (_, anchor)) in (0_u32..).zip(grid.anchors(form)) {
                let hash = hash(anchor, factor);
                let bit = (hash >> shift) as usize;
                filter[bit / 64] |= 1 << (bit % 64);
                by_hash.extend(&[(hash, index, place)])?;
            }
        }
        by_hash.sort_unstable();
        let zeros = all().fold(Zeros::Nothing, |zeros, (_, form)| zeros.or(Zeros::of(form, grid)));
        let longest = all().map(|(_, form)| form.len()).max().unwrap_or(SHORTEST);
        Ok(Some(Self { grid, filter, shift, by_hash, zeros, longest }))
    }

    /// Zeros that have nothing else within the length of a form are passed over: parts of zeros tell nothing,
    /// and comparing them at each took two minutes where a needle had many (the words of "abandon ... about",
    /// as numbers).
    fn search(
        &self,
        forms: &[(&Needle, &Form)],
        factor: u64,
        bytes: &[u8],
        found: &mut impl FnMut(usize, usize, Range<usize>),
    ) {
        let Grid { width, stride, .. } = self.grid;
        let (mut next, mut zeros) = (0, 0..0);
        while next + width <= bytes.len() {
            let offset = next;
            next += stride;
            let window = window(bytes, offset, width);
            if window == 0 && self.zeros != Zeros::Everywhere {
                if offset >= zeros.end {
                    zeros = offset..offset + zeros_at_start(&bytes[offset..]);
                }
                // How far from anything else zeros say nothing.
                let (behind, before) = match self.zeros {
                    Zeros::Nothing => (0, width - 1),
                    _ => (self.longest, self.longest),
                };
                let silent = zeros.start + behind..zeros.end.saturating_sub(before);
                if silent.contains(&offset) {
                    next = silent.end.next_multiple_of(stride);
                    continue;
                }
            }
            let hash = hash(window, factor);
            let bit = (hash >> self.shift) as usize;
            if self.filter[bit / 64] >> (bit % 64) & 1 == 0 {
                continue;
            }
            let first = self.by_hash.partition_point(|(other, ..)| *other < hash);
            let same = self.by_hash[first..].iter().take_while(|(other, ..)| *other == hash);
            for &(_, index, at) in same {
                let (index, at) = (index as usize, at as usize);
                let form = forms[index].1;
                let run = form.run(at, bytes, offset);
                // It has the whole window, and not the one before it, which would have told of it.
                let first_window = run.end >= at + width && run.start + stride > at;
                if first_window && form.tells(&run) {
                    found(offset + run.start - at, index, run);
                }
            }
        }
    }
}

/// Some bytes, up to eight, as a number.
#[inline]
fn window(bytes: &[u8], offset: usize, width: usize) -> u64 {
    match bytes.get(offset..offset + SHORTEST) {
        Some(eight) => {
            let eight = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
            eight & u64::MAX >> (64 - 8 * width)
        }
        None => {
            let mut eight = [0; SHORTEST];
            eight[..width].copy_from_slice(&bytes[offset..offset + width]);
            u64::from_le_bytes(eight)
        }
    }
}

/// How many zeros `bytes` begins with.
fn zeros_at_start(bytes: &[u8]) -> usize {
    // Blocks of this size are compared in vector registers.
    let blocks = bytes.chunks_exact(64).take_while(|block| **block == [0; 64]).count() * 64;
    blocks + bytes[blocks..].iter().take_while(|byte| **byte == 0).count()
}

#[inline]
fn hash(window: u64, factor: u64) -> u32 {
    (window.wrapping_mul(factor) >> u32::BITS) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::slice::SecretSlice;

    /// So many that the filter grows.
    #[test]
    fn a_part_of_each_of_many_is_found() {
        let mut state = 1_u64;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let secrets: Vec<[u8; 32]> =
            (0..5_000).map(|_| std::array::from_fn(|_| byte() | 0x80)).collect();
        let made = made_of(&secrets);
        let patterns = Patterns::new(&made).expect("memory");
        let [Some(long), None] = &patterns.groups else { panic!("all are of 32 bytes") };
        assert!(long.filter.len() * 64 > 1 << 20);
        let parts = secrets.iter().map(|secret| [&secret[5..21], &[0x7f; 3]].concat());
        let text: Vec<u8> = parts.flatten().collect();
        let mut found = Vec::new();
        patterns.search(&text, |offset, index, run| found.push((offset, index, run)));
        let expected: Vec<_> = (0..5_000).map(|index| (index * 19, index, 5..21)).collect();
        assert_eq!(found, expected);
    }

    fn plant(text: &mut [u8], needles: &[Vec<u8>], places: Vec<(prop::sample::Index, usize)>) {
        for (which, place) in places {
            let needle = which.get(needles);
            if let Some(target) = text.get_mut(place..place + needle.len()) {
                target.copy_from_slice(needle);
            }
        }
    }

    fn made_of<S: AsRef<[u8]>>(secrets: &[S]) -> Vec<Needle> {
        let made = |secret: &S| Needle::raw("x", SecretSlice::new(secret.as_ref()));
        secrets.iter().map(|secret| made(secret).expect("memory")).collect()
    }

    proptest! {
        #[test]
        fn it_finds_what_comparing_everywhere_finds(
            mut text in prop::collection::vec(0u8..3, 0..300),
            needles in prop::collection::vec(prop::collection::vec(0u8..3, 8..24), 1..8),
            places in prop::collection::vec((any::<prop::sample::Index>(), 0usize..300), 0..6),
        ) {
            plant(&mut text, &needles, places);
            let made = made_of(&needles);
            let patterns = Patterns::new(&made).expect("memory");
            let mut found = Vec::new();
            patterns.search(&text, |offset, index, run| {
                if run == (0..needles[index].len()) {
                    found.push((offset, index));
                }
            });
            found.sort_unstable();
            let expected: Vec<(usize, usize)> = (0..text.len())
                .flat_map(|offset| (0..needles.len()).map(move |index| (offset, index)))
                .filter(|(offset, index)| text[*offset..].starts_with(&needles[*index]))
                .collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(patterns.longest(), needles.iter().map(Vec::len).max().unwrap_or(0));
        }

        #[test]
        fn zeros_around_and_inside_hide_no_form(
            pieces in prop::collection::vec((0usize..120, prop::collection::vec(0u8..2, 0..30)), 1..6),
            needles in prop::collection::vec(prop::collection::vec(0u8..2, 8..40), 1..4),
            places in prop::collection::vec((any::<prop::sample::Index>(), 0usize..500), 0..6),
        ) {
            let mut text: Vec<u8> =
                pieces.into_iter().flat_map(|(zeros, piece)| [vec![0; zeros], piece].concat()).collect();
            plant(&mut text, &needles, places);
            let made = made_of(&needles);
            let patterns = Patterns::new(&made).expect("memory");
            let mut found = std::collections::BTreeSet::new();
            patterns.search(&text, |offset, index, run| {
                found.insert((offset, index, run.start, run.end));
            });
            // Every place of every form against every place of the text, with the same rule.
            let mut expected = std::collections::BTreeSet::new();
            for (index, needle) in needles.iter().enumerate() {
                let form = &made[index].forms[0];
                for (at, offset) in (0..=needle.len() - SHORTEST)
                    .step_by(SHORTEST)
                    .flat_map(|at| (0..text.len()).map(move |offset| (at, offset)))
                {
                    let run = form.run(at, &text, offset);
                    if run.end >= at + SHORTEST && form.tells(&run) {
                        expected.insert((offset + run.start - at, index, run.start, run.end));
                    }
                }
            }
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn it_finds_each_part_that_is_long_enough_and_no_shorter_one(
            secret in prop::collection::vec(1u8..32, 16..80),
            from in any::<prop::sample::Index>(),
            len in 1usize..80,
            place in 0usize..40,
        ) {
            let from = from.index(secret.len());
            let part = &secret[from..secret.len().min(from + len)];
            // Bytes that the secret does not have.
            let mut text = vec![0xee; place];
            text.extend(part);
            text.extend([0xdd; 20]);
            let made = [Needle::raw("x", SecretSlice::new(&secret)).expect("memory")];
            let patterns = Patterns::new(&made).expect("memory");
            let mut found = Vec::new();
            patterns.search(&text, |offset, _, run| found.push((offset, run)));
            found.retain(|(_, run)| run.len() >= part.len());
            let tells = part.len() >= SHORTEST_PART;
            let expected = tells.then(|| (place, from..from + part.len()));
            let lies = found.iter().any(|one| Some(one) == expected.as_ref());
            prop_assert_eq!(lies, tells);
            prop_assert_eq!(found.is_empty(), !tells);
        }
    }
}
