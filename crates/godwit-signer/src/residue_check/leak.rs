//! Ways in which programs leave copies of secrets behind.

use std::hint::black_box;

use godwit_secret::{Declassified, SecretArray, cleanse};

/// So many copies: what runs behind a leak may take blocks that were freed, the latest first. With four, a
/// connection has taken all of one kind before the search; seven of a size are what the allocator has ready.
/// (That a search takes none is tested beside it.)
const COPIES: usize = 12;
/// HMAC's, which it combines with its key.
const PAD: u8 = 0x36;
/// A block of a hash.
const BLOCK: usize = 128;

/// What happened to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leak {
    /// It was freed and not wiped: the allocator writes over its first sixteen bytes.
    Freed,
    /// It is a part, from an odd place.
    Cut,
    /// It was combined with a pad, as keys of HMAC are.
    Padded,
    /// Its vector grew, and moved; where it went was wiped.
    Moved,
}

impl Leak {
    pub(super) const ALL: [Self; 4] = [Self::Freed, Self::Cut, Self::Padded, Self::Moved];

    /// As the report calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Freed => "freed and not wiped",
            Self::Cut => "in part",
            Self::Padded => "combined with a pad of HMAC",
            Self::Moved => "where a vector was before it grew",
        }
    }

    /// What will be left of `secret`, in plain memory.
    pub(super) fn copies(self, secret: &SecretArray<32>) -> Vec<Vec<u8>> {
        let copy = || {
            let Declassified(copy) = secret.expose_secret(|bytes| {
                Declassified(match self {
                    Self::Freed | Self::Moved => bytes.to_vec(),
                    Self::Cut => bytes[5..21].to_vec(),
                    Self::Padded => {
                        let mut block = vec![PAD; BLOCK];
                        block.iter_mut().zip(bytes).for_each(|(to, byte)| *to ^= byte);
                        block
                    }
                })
            });
            // A neighbour stays, so that what is freed is not joined to a larger block that is soon used
            // again.
            keep(vec![PAD; copy.len()]);
            copy
        };
        (0..COPIES).map(|_| copy()).collect()
    }

    /// Leaves copies behind.
    pub(super) fn leave(self, copies: Vec<Vec<u8>>) {
        for copy in copies {
            match self {
                Self::Freed => drop(black_box(copy)),
                Self::Cut | Self::Padded => keep(copy),
                Self::Moved => {
                    // As the allocator does where it cannot make room behind a block.
                    let mut grown = Vec::with_capacity(BLOCK * 2);
                    grown.extend_from_slice(&copy);
                    drop(black_box(copy));
                    cleanse(&mut grown);
                    keep(grown);
                }
            }
        }
    }
}

/// Leaves it where it is, for the rest of the process.
fn keep(bytes: Vec<u8>) {
    black_box(Box::leak(bytes.into_boxed_slice()));
}
