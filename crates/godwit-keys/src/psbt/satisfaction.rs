//! The fewest bytes with which a script (Miniscript) can be satisfied.
//!
//! `miniscript` counts the most bytes, and finds the best way for signatures that are there. Here nobody has
//! signed yet, and any of the keys may: only the locks are settled, since every signature covers them.

use bitcoin::{Script, Sequence, Transaction, absolute, relative};
use miniscript::{Miniscript, MiniscriptKey, ScriptContext, Terminal};

/// An ECDSA signature with its type, ground for a low R as Core's. Most have 71 bytes, one of 128 has 70, and
/// one of 20,000 fewer.
const ECDSA_BYTES: usize = 70;
/// A signature, with its length as all that follow.
pub(super) const SIGNATURE: usize = 1 + ECDSA_BYTES;
/// A compressed key.
pub(super) const KEY: usize = 1 + 33;
const PREIMAGE: usize = 1 + 32;
/// An element without bytes, which is false.
const EMPTY: usize = 1;

/// Where the elements before a script stand.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Witness,
    ScriptSig,
}

/// What a transaction says of the locks of an input.
#[derive(Clone, Copy)]
pub(super) struct Locks {
    sequence: Sequence,
    lock_time: absolute::LockTime,
}

impl Locks {
    pub(super) fn of(transaction: &Transaction, input: usize) -> Self {
        Locks { sequence: transaction.input[input].sequence, lock_time: transaction.lock_time }
    }

    fn open_after(self, time: absolute::LockTime) -> bool {
        self.sequence.enables_absolute_lock_time() && time.is_implied_by(self.lock_time)
    }

    fn open_when_older(self, time: relative::LockTime) -> bool {
        time.is_implied_by_sequence(self.sequence)
    }
}

/// The fewest bytes of the elements before a script, each with its length. None are counted for a script that
/// is no Miniscript, or that the locks leave no way to satisfy.
pub(super) fn least_elements<Ctx: ScriptContext>(
    script: &Script,
    place: Place,
    locks: Locks,
) -> usize {
    let script = Miniscript::<Ctx::Key, Ctx>::decode_consensus(script).ok();
    script.and_then(|script| Count { place, locks }.of(&script).sat).unwrap_or(0)
}

/// The fewest bytes that satisfy and that dissatisfy an expression; nothing where that cannot be.
#[derive(Clone, Copy)]
struct Least {
    sat: Option<usize>,
    dissat: Option<usize>,
}

fn least(sat: Option<usize>, dissat: Option<usize>) -> Least {
    Least { sat, dissat }
}

fn both(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    Some(one? + other?)
}

fn either(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    one.into_iter().chain(other).min()
}

impl Least {
    fn and_v(self, y: Self) -> Self {
        least(both(self.sat, y.sat), both(self.sat, y.dissat))
    }

    fn and_b(self, y: Self) -> Self {
        let one = either(both(self.sat, y.dissat), both(self.dissat, y.sat));
        least(both(self.sat, y.sat), either(both(self.dissat, y.dissat), one))
    }

    fn andor(self, y: Self, z: Self) -> Self {
        let sat = either(both(self.sat, y.sat), both(self.dissat, z.sat));
        least(sat, either(both(self.dissat, z.dissat), both(self.sat, y.dissat)))
    }

    fn or_b(self, z: Self) -> Self {
        let one = either(both(self.sat, z.dissat), both(self.dissat, z.sat));
        least(either(one, both(self.sat, z.sat)), both(self.dissat, z.dissat))
    }

    fn or_c(self, z: Self) -> Self {
        least(either(self.sat, both(self.dissat, z.sat)), None)
    }

    fn or_d(self, z: Self) -> Self {
        least(self.or_c(z).sat, both(self.dissat, z.dissat))
    }

    /// `one`: bytes of the number that chooses the first.
    fn or_i(self, z: Self, one: usize) -> Self {
        let of = |x, z| either(both(x, Some(one)), both(z, Some(EMPTY)));
        least(of(self.sat, z.sat), of(self.dissat, z.dissat))
    }
}

struct Count {
    place: Place,
    locks: Locks,
}

impl Count {
    /// In the ways that finalizers take, malleable ones among them (`Satisfaction` in `miniscript`,
    /// `ProduceInput` in Core's `script/miniscript.h`).
    fn of<Pk: MiniscriptKey, Ctx: ScriptContext>(&self, script: &Miniscript<Pk, Ctx>) -> Least {
        match script.as_inner() {
            Terminal::True => least(Some(0), None),
            Terminal::False => least(None, Some(0)),
            Terminal::PkK(_) => least(Some(SIGNATURE), Some(EMPTY)),
            Terminal::PkH(_) | Terminal::RawPkH(_) => {
                least(Some(SIGNATURE + KEY), Some(EMPTY + KEY))
            }
            Terminal::After(time) => {
                least(self.locks.open_after((*time).into()).then_some(0), None)
            }
            Terminal::Older(time) => {
                least(self.locks.open_when_older((*time).into()).then_some(0), None)
            }
            Terminal::Sha256(_)
            | Terminal::Hash256(_)
            | Terminal::Ripemd160(_)
            | Terminal::Hash160(_) => least(Some(PREIMAGE), Some(PREIMAGE)),
            Terminal::Alt(x)
            | Terminal::Swap(x)
            | Terminal::Check(x)
            | Terminal::ZeroNotEqual(x) => self.of(x),
            Terminal::DupIf(x) => least(both(self.of(x).sat, Some(self.one())), Some(EMPTY)),
            Terminal::Verify(x) => least(self.of(x).sat, None),
            Terminal::NonZero(x) => least(self.of(x).sat, Some(EMPTY)),
            Terminal::AndV(x, y) => self.of(x).and_v(self.of(y)),
            Terminal::AndB(x, y) => self.of(x).and_b(self.of(y)),
            Terminal::AndOr(x, y, z) => self.of(x).andor(self.of(y), self.of(z)),
            Terminal::OrB(x, z) => self.of(x).or_b(self.of(z)),
            Terminal::OrC(x, z) => self.of(x).or_c(self.of(z)),
            Terminal::OrD(x, z) => self.of(x).or_d(self.of(z)),
            Terminal::OrI(x, z) => self.of(x).or_i(self.of(z), self.one()),
            Terminal::Thresh(expressions) => {
                let each: Vec<Least> = expressions.iter().map(|x| self.of(x)).collect();
                of_threshold(expressions.k(), &each)
            }
            Terminal::Multi(keys) => {
                least(Some(EMPTY + keys.k() * SIGNATURE), Some(EMPTY + keys.k() * EMPTY))
            }
            // In taproot alone.
            Terminal::MultiA(_) => least(None, None),
        }
    }

    /// Bytes of the number one: a script has an opcode for it.
    fn one(&self) -> usize {
        match self.place {
            Place::Witness => 2,
            Place::ScriptSig => 1,
        }
    }
}

/// All are dissatisfied, except for those that add the least when they are satisfied instead: `k` of them, or
/// any other number to dissatisfy the whole.
fn of_threshold(k: usize, each: &[Least]) -> Least {
    let all: Option<usize> = each.iter().map(|x| x.dissat).sum();
    let added = each.iter().filter_map(|x| Some(x.sat?.cast_signed() - x.dissat?.cast_signed()));
    let mut added: Vec<isize> = added.collect();
    added.sort_unstable();
    let with = |count: usize| all?.checked_add_signed(added.get(..count)?.iter().sum());
    let others = (0..=each.len()).filter(|count| *count != k);
    least(with(k), others.filter_map(with).min())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As an `older` that is open, behind `ln:`: fewer bytes satisfy it than dissatisfy it. Core takes such
    /// ways, in which more is satisfied than has to be.
    #[test]
    fn what_has_to_be_dissatisfied_may_be_so_by_what_is_satisfied() {
        let (lock, key, hash) = (least(Some(1), Some(2)), least(Some(71), Some(1)), 34);
        let key_hash = least(Some(71 + hash), Some(1 + hash));
        assert_eq!(lock.andor(key, key_hash).dissat, Some(1 + 1));
        assert_eq!(lock.and_b(lock).dissat, Some(1 + 2));
        assert_eq!(lock.or_b(lock).sat, Some(1 + 1));
        let two_of_three = of_threshold(2, &[lock, lock, lock]);
        assert_eq!((two_of_three.sat, two_of_three.dissat), (Some(1 + 1 + 2), Some(1 + 1 + 1)));
        let one_of_two = of_threshold(1, &[key, key]);
        assert_eq!((one_of_two.sat, one_of_two.dissat), (Some(71 + 1), Some(1 + 1)));
        assert_eq!(of_threshold(3, &[key, key]).sat, None);
    }
}
