//! Many secp256k1 signature checks at once, one in each lane of the vector registers.
//!
//! A [`Verifier`] takes ECDSA checks, BIP340 checks and taproot commitments, each with an identity, and
//! answers *yes* or *not proven*. It works in variable time on public data, and must never see a secret.
//!
//! ```
//! use godwit_verify::{Answer, Check, Verifier};
//!
//! let mut verifier = Verifier::new();
//! verifier.push(7, Check::Schnorr { key: [1; 32], signature: [2; 64], message: [3; 32] });
//! verifier.run(|id, answer| assert_eq!((id, answer), (7, Answer::NotProven)));
//! ```
//!
//! # Algorithm
//!
//! Every check is the question whether u1 G + u2 Q is a point with a given x, for some also with a given
//! parity of y:
//!
//! | check | u1 | u2 | x | y |
//! | --- | --- | --- | --- | --- |
//! | ECDSA | m / s | r / s | r, or r + n if below p | any |
//! | BIP340 | s | -e | r | even |
//! | commitment | t | 1 | x of the output key | its parity |
//!
//! One check is in one lane and all lanes take the same steps, whatever is in them, so that kinds of checks
//! can be mixed:
//!
//! 1. `check`, `scalar`, `digits`, one check at a time in proven arithmetic modulo n (`fiat-crypto`): parse,
//!    one inversion for all s of a batch, u2 split along the endomorphism, u1 at 2^128, odd signed digits.
//! 2. `group::keys`: y from x by a square root, and that the key is on the curve.
//! 3. `point::odd_multiples`: 16 multiples of Q with one Z in common, and the same of lambda Q.
//! 4. `group::sum`: 125 doublings, 51 additions of multiples of Q and lambda Q, 20 of G and 2^128 G.
//! 5. `verdict`: Z is not 0, x matches without an inversion, parity by one inversion for up to eight groups.
//!
//! In all 2,150 multiplications and squares, an eighth of them for the square root.
//!
//! The tables of Q share a Z rather than being made affine: as in libsecp256k1, the sum is then computed
//! on the isomorphic curve where they are affine, and an addition of G costs one multiplication more. That is
//! 20 multiplications, against 37 for an eighth of an inversion, and no zero can spoil an inversion there.
//!
//! # Layers
//!
//! ```text
//! verifier     batches, libsecp256k1 for the rest        known_answers
//! group, verdict, point, field     written once, generic over the vector
//! radix52, Ifma     radix52, Fused        radix29         two representations, three multiplications
//! V512, V256        V512, Pair<V256>      Neon            real instructions: `backend`
//! Model<8>          Model<8>              Model<8>        the same in u64 and f64, bit for bit
//! Interval          Interval              Interval        tests: the proof that nothing wraps
//! ```
//!
//! # What is trusted, and what is not
//!
//! - **Lanes may only say yes.** What they do not prove goes to libsecp256k1: a lane's false no costs time.
//! - The formulas have exceptions. Each of them makes Z = 0 mod p and leaves it so (`point`), and no type but
//!   the one that `verdict::Sum::finite` returns can become a *yes*.
//! - That no limb overflows, for any input at all, is proven by running the same code on intervals
//!   (`tests::intervals`); that the limbs mean the right numbers is tested against big integers and
//!   libsecp256k1, not proven.
//! - The constants of the split are checked with every split, the tables of G in a test, the instructions by
//!   known answers when a backend is first used.
//!
//! `docs/verification.md` says the same for a cryptographer, with what was tried to break it.

// Loops over several arrays at once: an iterator's closure would not be compiled with a backend's features.
#![allow(clippy::needless_range_loop)]

mod backend;
mod check;
mod der;
mod digits;
mod field;
mod generator;
mod group;
mod known_answers;
mod lanes;
mod point;
mod scalar;
mod single;
#[cfg(test)]
mod tests;
mod vector;
mod verdict;
mod verifier;

pub use backend::BackendKind;
pub use check::{Check, KeyBytes};
pub use der::parse_strict_der;
pub use verifier::{Answer, Counts, Verifier};
