//! m of n signatures: searches in rounds for a match that keeps the order.
//!
//! OP_CHECKMULTISIG is true exactly if each signature is valid for one of the keys, with signatures and keys
//! in the same order. Core tries the last ones first, skipping keys that do not fit, and so finds such a
//! match if there is one. Trying from both ends at once finds it too: a key at an end either fits the
//! signature at that end, or no signature that is left. Each check uses up a key, so there are never more
//! checks than keys.

use std::ops::Range;

use godwit_verify::{Check, KeyBytes};

/// A signature and what it should sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    pub(crate) signature: [u8; 64],
    pub(crate) message: [u8; 32],
}

/// The order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchOrder {
    /// From both ends, in as few rounds as that takes: for backends that run checks side by side.
    Ends,
    /// One at a time from the last on, as Core does.
    Core,
}

/// Some signatures by some of several keys, with what is known so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multisig {
    signed: Vec<Signed>,
    keys: Vec<KeyBytes>,
    /// Not matched yet.
    signed_left: Range<usize>,
    keys_left: Range<usize>,
}

/// The checks of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// As many signatures as keys: all must fit.
    Rest,
    /// The first signature with the first key, and the last with the last.
    Ends,
    /// The last signature with the last key. This is Core's order, and also that of a single signature, so
    /// that a 1 of 20 never takes more checks than in Core.
    Last,
}

/// What is known about the claim after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Each signature has a key.
    Proven,
    /// Fewer keys than signatures are left.
    NotProven,
    /// Another round will tell.
    Open,
}

impl Multisig {
    pub(crate) fn new(signed: Vec<Signed>, keys: Vec<KeyBytes>) -> Self {
        let (signed_left, keys_left) = (0..signed.len(), 0..keys.len());
        Self { signed, keys, signed_left, keys_left }
    }

    fn round(&self, order: MatchOrder) -> Round {
        match order {
            MatchOrder::Core => Round::Last,
            MatchOrder::Ends if self.signed_left.len() == self.keys_left.len() => Round::Rest,
            MatchOrder::Ends if self.signed_left.len() == 1 => Round::Last,
            MatchOrder::Ends => Round::Ends,
        }
    }

    /// The checks of the next round, at most as many as there are keys.
    pub(crate) fn checks(&self, order: MatchOrder) -> Vec<Check> {
        let (signed, keys) = (&self.signed_left, &self.keys_left);
        let first = (signed.start, keys.start);
        let last = (signed.end - 1, keys.end - 1);
        let pairs = match self.round(order) {
            Round::Rest => signed.clone().zip(keys.clone()).collect(),
            Round::Ends => vec![first, last],
            Round::Last => vec![last],
        };
        pairs.into_iter().map(|(signed, key)| self.check(signed, key)).collect()
    }

    fn check(&self, signed: usize, key: usize) -> Check {
        let Signed { signature, message } = self.signed[signed];
        Check::Ecdsa { key: self.keys[key], signature, message }
    }

    /// Takes the answers to [`Multisig::checks`]; bit i of `refused` is set if check i was not proven.
    pub(crate) fn advance(&mut self, order: MatchOrder, refused: u32) -> Known {
        match self.round(order) {
            Round::Rest if refused == 0 => return Known::Proven,
            Round::Rest => return Known::NotProven,
            Round::Ends => {
                self.take_first(refused & 1 == 0);
                self.take_last(refused & 2 == 0);
            }
            Round::Last => self.take_last(refused & 1 == 0),
        }
        match (self.signed_left.len(), self.keys_left.len()) {
            (0, _) => Known::Proven,
            (signed, keys) if signed > keys => Known::NotProven,
            _ => Known::Open,
        }
    }

    fn take_first(&mut self, fits: bool) {
        self.keys_left.start += 1;
        self.signed_left.start += usize::from(fits);
    }

    fn take_last(&mut self, fits: bool) {
        self.keys_left.end -= 1;
        self.signed_left.end -= usize::from(fits);
    }
}
