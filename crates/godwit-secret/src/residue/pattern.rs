//! The search for many byte strings at once.

use super::needle::{Form, Needle, SHORTEST};
use crate::array::SecretArray;
use crate::random::RandomError;

/// Bits of the hash of a form's head.
const HASH_BITS: u32 = 16;

/// The forms of some needles. A window of eight bytes is hashed, and only where the hash is that of a
/// form's head is the form compared.
pub(super) struct Patterns<'a> {
    forms: Vec<(&'a Needle, &'a Form)>,
    /// One bit for each hash.
    heads: Vec<u64>,
    /// Hash of the head and number of each form, in order.
    by_hash: Vec<(usize, usize)>,
    /// Odd, random and secret, so that the hashes tell nothing.
    multiplier: SecretArray<8>,
    longest: usize,
}

impl<'a> Patterns<'a> {
    pub(super) fn new(needles: impl IntoIterator<Item = &'a Needle>) -> Result<Self, RandomError> {
        let needles = needles.into_iter();
        let forms: Vec<_> = needles
            .flat_map(|needle| needle.forms.iter().map(move |form| (needle, form)))
            .collect();
        let mut multiplier = SecretArray::random()?;
        multiplier.expose_secret_mut(|bytes| bytes[0] |= 1);
        let mut patterns = Self {
            heads: vec![0; (1 << HASH_BITS) / 64],
            by_hash: Vec::with_capacity(forms.len()),
            longest: forms.iter().map(|(_, form)| form.len()).max().unwrap_or(SHORTEST),
            multiplier,
            forms,
        };
        for (index, (_, form)) in patterns.forms.iter().enumerate() {
            let head = form.bytes().take(SHORTEST).zip((0..).step_by(8));
            let head = head.fold(0, |head, (byte, shift)| head | u64::from(byte) << shift);
            let hash = hash(head, patterns.factor());
            patterns.heads[hash / 64] |= 1 << (hash % 64);
            patterns.by_hash.push((hash, index));
        }
        patterns.by_hash.sort_unstable();
        Ok(patterns)
    }

    /// Bytes of the longest form; at least that of a window.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    pub(super) fn form(&self, index: usize) -> (&'a Needle, &'a Form) {
        self.forms[index]
    }

    /// Calls `found` with the offset and number of each form that lies in `bytes`.
    pub(super) fn search(&self, bytes: &[u8], mut found: impl FnMut(usize, usize)) {
        let factor = self.factor();
        for (offset, window) in bytes.windows(SHORTEST).enumerate() {
            let window = window.try_into().expect("a window of eight bytes");
            let hash = hash(u64::from_le_bytes(window), factor);
            if self.heads[hash / 64] >> (hash % 64) & 1 == 0 {
                continue;
            }
            let first = self.by_hash.partition_point(|(other, _)| *other < hash);
            let same = self.by_hash[first..].iter().take_while(|(other, _)| *other == hash);
            for (_, index) in same {
                if self.forms[*index].1.is_at_start_of(&bytes[offset..]) {
                    found(offset, *index);
                }
            }
        }
    }

    fn factor(&self) -> u64 {
        self.multiplier.expose_secret(|bytes| u64::from_le_bytes(*bytes))
    }
}

#[inline]
fn hash(window: u64, factor: u64) -> usize {
    (window.wrapping_mul(factor) >> (u64::BITS - HASH_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::slice::SecretSlice;

    proptest! {
        #[test]
        fn it_finds_what_comparing_everywhere_finds(
            mut text in prop::collection::vec(0u8..3, 0..300),
            needles in prop::collection::vec(prop::collection::vec(0u8..3, 8..12), 1..8),
            places in prop::collection::vec((any::<prop::sample::Index>(), 0usize..300), 0..6),
        ) {
            for (which, place) in places {
                let needle = which.get(&needles);
                if let Some(target) = text.get_mut(place..place + needle.len()) {
                    target.copy_from_slice(needle);
                }
            }
            let made: Vec<Needle> = needles
                .iter()
                .map(|bytes| Needle::raw("x", SecretSlice::new(bytes)).expect("memory"))
                .collect();
            let patterns = Patterns::new(&made).expect("memory");
            let mut found = Vec::new();
            patterns.search(&text, |offset, index| found.push((offset, index)));
            let expected: Vec<(usize, usize)> = (0..text.len())
                .flat_map(|offset| (0..needles.len()).map(move |index| (offset, index)))
                .filter(|(offset, index)| text[*offset..].starts_with(&needles[*index]))
                .collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(patterns.longest(), needles.iter().map(Vec::len).max().unwrap_or(0));
        }
    }
}
