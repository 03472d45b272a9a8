//! Ways in which programs leave copies of secrets behind.

use std::hint::black_box;

use godwit_secret::{SecretArray, cleanse};

/// So many copies: the search takes some blocks that others have freed.
const COPIES: usize = 32;
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

    /// Leaves copies of `secret` in plain memory.
    pub(super) fn leave(self, secret: &SecretArray<32>) {
        // A neighbour stays, so that what is freed is not joined to a larger block that is soon used again.
        let copy = || {
            let copy = secret.expose_secret(|bytes| bytes.to_vec());
            keep(vec![PAD; copy.len()]);
            copy
        };
        let copies = || (0..COPIES).map(|_| copy()).collect::<Vec<_>>();
        match self {
            Self::Freed => drop(black_box(copies())),
            Self::Cut => keep(secret.expose_secret(|bytes| bytes[5..21].to_vec())),
            Self::Padded => {
                let mut block = vec![PAD; BLOCK];
                secret.expose_secret(|bytes| {
                    block.iter_mut().zip(bytes).for_each(|(to, byte)| *to ^= byte);
                });
                keep(block);
            }
            Self::Moved => {
                let mut grown = copies();
                for copy in &mut grown {
                    copy.reserve(BLOCK * COPIES);
                    cleanse(copy);
                }
                drop(black_box(grown));
            }
        }
    }
}

/// Leaves it where it is, for the rest of the process.
fn keep(bytes: Vec<u8>) {
    black_box(Box::leak(bytes.into_boxed_slice()));
}
