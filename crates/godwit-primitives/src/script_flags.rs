//! The script verification flags that are consensus.

use std::ops::BitOr;

/// A set of script verification flags. Bit values are those of Core's `script/interpreter.h`, which
/// its kernel interface takes unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScriptFlags(u32);

impl ScriptFlags {
    /// No rule beyond the original ones.
    pub const NONE: Self = Self(0);
    /// BIP16.
    pub const P2SH: Self = Self(1 << 0);
    /// BIP66: strict DER signatures.
    pub const DERSIG: Self = Self(1 << 2);
    /// BIP147: the element that CHECKMULTISIG drops is empty.
    pub const NULLDUMMY: Self = Self(1 << 4);
    /// BIP65.
    pub const CHECKLOCKTIMEVERIFY: Self = Self(1 << 9);
    /// BIP112.
    pub const CHECKSEQUENCEVERIFY: Self = Self(1 << 10);
    /// BIP141.
    pub const WITNESS: Self = Self(1 << 11);
    /// BIP341 and BIP342.
    pub const TAPROOT: Self = Self(1 << 17);
    /// Every flag that a block can be judged by.
    pub const ALL: Self = Self(
        Self::P2SH.0
            | Self::DERSIG.0
            | Self::NULLDUMMY.0
            | Self::CHECKLOCKTIMEVERIFY.0
            | Self::CHECKSEQUENCEVERIFY.0
            | Self::WITNESS.0
            | Self::TAPROOT.0,
    );

    /// The bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether every flag of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set without the flags of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for ScriptFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
