//! The services that a node offers to its peers, as flags.

use std::fmt;
use std::ops::BitOr;

/// Blocks that a node with [`Services::NETWORK_LIMITED`] promises to have (BIP159; Core
/// `NODE_NETWORK_LIMITED_MIN_BLOCKS`).
pub(crate) const NETWORK_LIMITED_MIN_BLOCKS: u32 = 288;

/// A set of services (Core `protocol.h`, `ServiceFlags`). Any bit may arrive; nothing proves that a
/// peer does what it says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Services(pub u64);

impl Services {
    pub const NONE: Self = Self(0);
    /// All blocks.
    pub const NETWORK: Self = Self(1);
    /// Bloom filters (BIP111).
    pub const BLOOM: Self = Self(1 << 2);
    /// Blocks and transactions with witness (BIP144).
    pub const WITNESS: Self = Self(1 << 3);
    /// Compact block filters (BIP157).
    pub const COMPACT_FILTERS: Self = Self(1 << 6);
    /// The last 288 blocks at least (BIP159).
    pub const NETWORK_LIMITED: Self = Self(1 << 10);
    /// The encrypted transport (BIP324).
    pub const P2P_V2: Self = Self(1 << 11);

    const NAMES: [(Self, &'static str); 6] = [
        (Self::NETWORK, "NETWORK"),
        (Self::BLOOM, "BLOOM"),
        (Self::WITNESS, "WITNESS"),
        (Self::COMPACT_FILTERS, "COMPACT_FILTERS"),
        (Self::NETWORK_LIMITED, "NETWORK_LIMITED"),
        (Self::P2P_V2, "P2P_V2"),
    ];

    /// Those that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What of them a node can offer whose blocks are stored from height `lowest` to `tip`: not all blocks
    /// while some are not here, and not the last ones while these are not. That is so above a loaded
    /// snapshot, until its history is validated. (Core announces the last blocks all the same.)
    pub(crate) fn as_stored(self, lowest: u32, tip: u32) -> Self {
        if lowest == 0 {
            return self;
        }
        let offered = self.without(Self::NETWORK);
        match (tip + 1).saturating_sub(lowest) >= NETWORK_LIMITED_MIN_BLOCKS {
            true => offered,
            false => offered.without(Self::NETWORK_LIMITED),
        }
    }

    /// Whether every service of `other` is in it.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Services {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The names, comma between them, as Core's `serviceFlagsToStr`.
impl fmt::Display for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = (0..u64::BITS).filter(|bit| self.0 & 1 << bit != 0);
        for (i, bit) in bits.enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            match Self::NAMES.iter().find(|(service, _)| service.0 == 1 << bit) {
                Some((_, name)) => f.write_str(name)?,
                None => write!(f, "UNKNOWN[2^{bit}]")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Services({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_each_bit() {
        assert_eq!(Services::NONE.to_string(), "");
        assert_eq!(
            Services(1 | 1 << 1 | 1 << 3 | 1 << 63).to_string(),
            "NETWORK, UNKNOWN[2^1], WITNESS, UNKNOWN[2^63]"
        );
    }

    #[test]
    fn contains_needs_every_bit() {
        let both = Services::NETWORK | Services::WITNESS;
        assert!(both.contains(Services::NETWORK) && both.contains(both));
        assert!(!Services::NETWORK.contains(both));
        assert!(Services::NONE.contains(Services::NONE));
    }
}
