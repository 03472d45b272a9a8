//! Fee rates, exact and in the units of Core.

use std::cmp::Ordering;

use godwit_primitives::Amount;

/// What relaying costs at least, and what a replacement adds at least, in satoshi per 1,000 virtual bytes
/// (Core `DEFAULT_MIN_RELAY_TX_FEE`, `DEFAULT_INCREMENTAL_RELAY_FEE`).
pub const RELAY_FEE: FeeRate = FeeRate { fee: 100, size: 1000 };

/// A fee for a size, kept exactly (Core `CFeeRate`).
#[derive(Clone, Copy, Debug)]
pub struct FeeRate {
    /// In satoshi.
    pub fee: Amount,
    /// In virtual bytes; never zero.
    pub size: u64,
}

impl FeeRate {
    /// Satoshi per 1,000 virtual bytes.
    pub const fn per_kvb(fee: Amount) -> Self {
        Self { fee, size: 1000 }
    }

    /// The fee of so many virtual bytes, rounded up.
    pub fn fee_of(self, size: u64) -> Amount {
        let exact = i128::from(self.fee) * i128::from(size);
        let size = i128::from(self.size);
        Amount::try_from((exact + size - 1).div_euclid(size)).unwrap_or(Amount::MAX)
    }

    /// Satoshi per 1,000 virtual bytes, rounded down.
    pub fn rate_per_kvb(self) -> Amount {
        let rate = (i128::from(self.fee) * 1000).div_euclid(i128::from(self.size));
        Amount::try_from(rate).unwrap_or(Amount::MAX)
    }

    /// Compares two rates.
    pub fn compare(self, other: Self) -> Ordering {
        let cross = |a: Self, b: Self| i128::from(a.fee) * i128::from(b.size);
        cross(self, other).cmp(&cross(other, self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fees_are_rounded_up_and_rates_down() {
        let rate = FeeRate::per_kvb(100);
        assert_eq!([0, 1, 10, 11, 20].map(|size| rate.fee_of(size)), [0, 1, 1, 2, 2]);
        assert_eq!(FeeRate { fee: 10, size: 3 }.rate_per_kvb(), 3333);
        let third = FeeRate { fee: 1, size: 3 };
        assert_eq!(third.compare(FeeRate { fee: 2, size: 6 }), Ordering::Equal);
        assert_eq!(third.compare(FeeRate { fee: 1, size: 2 }), Ordering::Less);
        assert_eq!(FeeRate { fee: Amount::MAX, size: 1 }.fee_of(u64::MAX), Amount::MAX);
    }
}
