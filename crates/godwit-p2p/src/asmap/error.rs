//! Why a file is not a valid asmap.

use std::fmt;

use super::MAX_ASMAP_BYTES;

/// The rule that a file breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsmapError {
    /// It is larger than [`MAX_ASMAP_BYTES`].
    TooLarge,
    /// It ends within an instruction.
    CutShort,
    /// It ends, and the last branch has not told a system.
    NoReturn,
    /// A jump leads into an instruction.
    JumpIntoInstruction,
    /// A jump leads behind the end.
    JumpBeyondEnd,
    /// A jump leads out of the branch in which it is.
    CrossingJumps,
    /// Nothing leads to an instruction, or more is behind the last one than fills its byte.
    Unreachable,
    /// The bits that fill the last byte are not zero.
    Padding,
    /// More bits are read than an address has.
    BeyondAddress,
    /// A default is set and a system told at once.
    DefaultBeforeReturn,
    /// A default is set twice at once.
    TwoDefaults,
    /// Two patterns of less than eight bits follow one another.
    TwoShortMatches,
}

impl fmt::Display for AsmapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => {
                return write!(f, "it has more than {} MiB", MAX_ASMAP_BYTES >> 20);
            }
            Self::CutShort => "it ends within an instruction",
            Self::NoReturn => "it ends without telling a system",
            Self::JumpIntoInstruction => "a jump leads into an instruction",
            Self::JumpBeyondEnd => "a jump leads behind its end",
            Self::CrossingJumps => "a jump leads out of its branch",
            Self::Unreachable => "nothing leads to some of it",
            Self::Padding => "the bits behind the last instruction are not zero",
            Self::BeyondAddress => "it reads more than the 128 bits of an address",
            Self::DefaultBeforeReturn => "a default is set where it cannot matter",
            Self::TwoDefaults => "a default is set twice",
            Self::TwoShortMatches => "two short patterns follow one another",
        })
    }
}

impl std::error::Error for AsmapError {}
