//! Maps IP addresses to the autonomous systems that announce them, for `-asmap` (Core
//! `util/asmap.{h,cpp}`).
//!
//! The file is a trie of prefixes of 128-bit addresses, written as a sequence of instructions, bit by bit
//! (`bits`). [`interpret`] follows them for one address; [`check`] follows every branch once, so that no
//! lookup can leave the file later.

mod bits;
mod error;
#[cfg(test)]
pub(crate) mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::num::NonZeroU32;

use godwit_primitives::ReversedHex;
use godwit_primitives::sha256::sha256d;

use bits::{Bits, Instruction};
pub use error::AsmapError;

/// Largest file of a map, in bytes. The whole internet takes less than two million of them; Core has no
/// limit.
pub const MAX_ASMAP_BYTES: usize = 8 << 20;

/// Bits of an address; one of IPv4 is looked up in the form `::ffff:1.2.3.4`.
const ADDRESS_BITS: u32 = 128;

/// Bits of the longest pattern.
const PATTERN_BITS: u32 = 8;

/// Bits behind the last instruction at most: those that fill its byte.
const MAX_PADDING: usize = 7;

/// A map that has been checked.
pub struct Asmap {
    bytes: Vec<u8>,
    version: AsmapVersion,
}

/// What a map is told from others by: SHA-256d of its bytes (Core `AsmapVersion`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsmapVersion(pub [u8; 32]);

/// In the order in which Core prints hashes.
impl fmt::Display for AsmapVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ReversedHex(&self.0).fmt(f)
    }
}

impl fmt::Debug for Asmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Asmap({} bytes, {})", self.bytes.len(), self.version)
    }
}

impl Asmap {
    /// A map from the content of its file (Core `CheckStandardAsmap`).
    ///
    /// # Errors
    ///
    /// The content is no map, or a larger one than [`MAX_ASMAP_BYTES`].
    pub fn new(bytes: Vec<u8>) -> Result<Self, AsmapError> {
        if bytes.len() > MAX_ASMAP_BYTES {
            return Err(AsmapError::TooLarge);
        }
        check(&bytes, ADDRESS_BITS)?;
        let version = AsmapVersion(sha256d(&bytes));
        Ok(Self { bytes, version })
    }

    /// Which map it is.
    pub fn version(&self) -> AsmapVersion {
        self.version
    }

    /// The number of the system to which the address belongs, if the map knows one.
    pub fn system_of(&self, address: [u8; 16]) -> Option<NonZeroU32> {
        let system = interpret(&self.bytes, &address).expect("it was checked");
        NonZeroU32::new(system)
    }
}

/// Follows the instructions of `map` for an address (Core `Interpret`): the number of its system, 0 where
/// there is none. `None` where the instructions lead astray, which those of a checked map never do.
fn interpret(map: &[u8], address: &[u8]) -> Option<u32> {
    let mut map = Bits::new(map);
    let mut address = address.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    let mut default = 0;
    loop {
        match map.instruction()? {
            Instruction::Return(system) => return Some(system),
            Instruction::Default(system) => default = system,
            Instruction::Jump(distance) => {
                let is_set = address.next()? == 1;
                if distance >= map.left() {
                    return None;
                }
                if is_set {
                    map.skip(distance);
                }
            }
            Instruction::Match(pattern) => {
                for wanted in pattern.bits() {
                    if address.next()? != wanted {
                        return Some(default);
                    }
                }
            }
        }
    }
}

/// Whether `map` is one for addresses of `address_bits` bits: every branch ends with a system and within
/// the address, every instruction is reached, and none could be left out (Core `SanityCheckAsmap`).
fn check(map: &[u8], address_bits: u32) -> Result<(), AsmapError> {
    let mut check = Check {
        map: Bits::new(map),
        unread: address_bits,
        branches: Vec::with_capacity(address_bits as usize),
        last: Last::Jump,
    };
    while !check.map.is_at_end() {
        if check.branches.last().is_some_and(|branch| check.map.position() >= branch.start) {
            return Err(AsmapError::JumpIntoInstruction);
        }
        match check.map.instruction().ok_or(AsmapError::CutShort)? {
            Instruction::Return(_) => {
                if check.end_branch()? {
                    return check_padding(&mut check.map);
                }
            }
            Instruction::Default(_) => check.set_default()?,
            Instruction::Jump(distance) => check.branch(distance)?,
            Instruction::Match(pattern) => check.compare(pattern.len())?,
        }
    }
    Err(AsmapError::NoReturn)
}

/// What is known of the branch that [`check`] is in.
struct Check<'a> {
    map: Bits<'a>,
    /// Bits of the address that no instruction has read yet.
    unread: u32,
    /// Branches that are still to come, the nearest last.
    branches: Vec<Branch>,
    last: Last,
}

/// Where a jump leads.
struct Branch {
    start: usize,
    /// Bits of the address that are unread there.
    unread: u32,
}

/// The instruction before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Also at the beginning, and where a jump has led.
    Jump,
    Default,
    /// A pattern; `short`: of less than [`PATTERN_BITS`].
    Match {
        short: bool,
    },
}

impl Check<'_> {
    /// The branch ends; whether it was the last one.
    fn end_branch(&mut self) -> Result<bool, AsmapError> {
        if self.last == Last::Default {
            return Err(AsmapError::DefaultBeforeReturn);
        }
        let Some(next) = self.branches.pop() else { return Ok(true) };
        match self.map.position().cmp(&next.start) {
            Ordering::Less => return Err(AsmapError::Unreachable),
            Ordering::Greater => return Err(AsmapError::JumpIntoInstruction),
            Ordering::Equal => {}
        }
        self.unread = next.unread;
        self.last = Last::Jump;
        Ok(false)
    }

    fn branch(&mut self, distance: usize) -> Result<(), AsmapError> {
        if distance > self.map.left() {
            return Err(AsmapError::JumpBeyondEnd);
        }
        self.read_address(1)?;
        let start = self.map.position() + distance;
        if self.branches.last().is_some_and(|outer| start >= outer.start) {
            return Err(AsmapError::CrossingJumps);
        }
        self.branches.push(Branch { start, unread: self.unread });
        self.last = Last::Jump;
        Ok(())
    }

    fn compare(&mut self, len: u32) -> Result<(), AsmapError> {
        let short = len < PATTERN_BITS;
        if short && self.last == (Last::Match { short: true }) {
            return Err(AsmapError::TwoShortMatches);
        }
        self.read_address(len)?;
        self.last = Last::Match { short };
        Ok(())
    }

    fn set_default(&mut self) -> Result<(), AsmapError> {
        if self.last == Last::Default {
            return Err(AsmapError::TwoDefaults);
        }
        self.last = Last::Default;
        Ok(())
    }

    fn read_address(&mut self, bits: u32) -> Result<(), AsmapError> {
        self.unread = self.unread.checked_sub(bits).ok_or(AsmapError::BeyondAddress)?;
        Ok(())
    }
}

/// What is behind the last instruction.
fn check_padding(map: &mut Bits<'_>) -> Result<(), AsmapError> {
    if map.left() > MAX_PADDING {
        return Err(AsmapError::Unreachable);
    }
    while let Some(bit) = map.bit() {
        if bit != 0 {
            return Err(AsmapError::Padding);
        }
    }
    Ok(())
}
