//! Targets and work: the compact form of a target and the work that a block proves.
//!
//! Source: Core `arith_uint256.cpp` (`SetCompact`, `GetCompact`) and `chain.cpp` (`GetBlockProof`).

use ethnum::U256;

use crate::BlockHash;

/// Accumulated or single proof of work: the expected number of hashes.
pub type Work = U256;

/// What the compact form of a target says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpandedTarget {
    /// The target. Meaningless where `overflow` is set.
    pub target: U256,
    /// The sign bit is set and the mantissa is not zero.
    pub negative: bool,
    /// The value does not fit 256 bits.
    pub overflow: bool,
}

/// Expands a compact target: one byte of exponent, a sign bit, 23 bits of mantissa.
pub fn expand_target(bits: u32) -> ExpandedTarget {
    let size = bits >> 24;
    let mantissa = bits & 0x007f_ffff;
    let target = if size <= 3 {
        U256::from(mantissa >> (8 * (3 - size)))
    } else if size - 3 < 32 {
        U256::from(mantissa) << (8 * (size - 3))
    } else {
        U256::ZERO
    };
    let word = if size <= 3 { mantissa >> (8 * (3 - size)) } else { mantissa };
    ExpandedTarget {
        target,
        negative: word != 0 && bits & 0x0080_0000 != 0,
        overflow: word != 0
            && (size > 34 || (word > 0xff && size > 33) || (word > 0xffff && size > 32)),
    }
}

/// The compact form of `target`; the low bits that do not fit its 23-bit mantissa are lost.
pub fn compact_target(target: U256) -> u32 {
    let mut size = (256 - target.leading_zeros()).div_ceil(8);
    let mut mantissa = if size <= 3 {
        target.as_u32() << (8 * (3 - size))
    } else {
        (target >> (8 * (size - 3))).as_u32()
    };
    // The bit 0x00800000 is the sign: a mantissa that reaches it moves to the next exponent.
    if mantissa & 0x0080_0000 != 0 {
        mantissa >>= 8;
        size += 1;
    }
    mantissa | size << 24
}

/// The work that a header of this target proves: 2^256 / (target + 1), and zero for a target that
/// is negative, zero or too large.
pub fn block_proof(bits: u32) -> Work {
    let expanded = expand_target(bits);
    if expanded.negative || expanded.overflow || expanded.target == U256::ZERO {
        return U256::ZERO;
    }
    if expanded.target == U256::MAX {
        return U256::ONE;
    }
    // 2^256 does not fit: 2^256 / (t+1) = (2^256 - t - 1) / (t+1) + 1 = !t / (t+1) + 1.
    !expanded.target / (expanded.target + U256::ONE) + U256::ONE
}

/// A block hash as the number that proof of work compares with the target.
pub fn hash_value(hash: &BlockHash) -> U256 {
    U256::from_le_bytes(hash.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(bits: u32) -> (U256, bool, bool) {
        let e = expand_target(bits);
        (e.target, e.negative, e.overflow)
    }

    /// The cases of Core's `arith_uint256_tests.cpp` (bignum_SetCompact).
    #[test]
    fn compact_form_as_in_core() {
        for zero in [0, 0x0012_3456, 0x0100_3456, 0x0200_0056, 0x0300_0000, 0x0400_0000] {
            assert_eq!(expanded(zero), (U256::ZERO, false, false), "{zero:#x}");
        }
        for zero in [0x0092_3456, 0x0180_3456, 0x0280_0056, 0x0380_0000, 0x0480_0000] {
            assert_eq!(expanded(zero).0, U256::ZERO, "{zero:#x}");
            assert!(!expanded(zero).1, "{zero:#x}");
        }
        assert_eq!(expanded(0x0112_3456), (U256::new(0x12), false, false));
        assert_eq!(compact_target(U256::new(0x12)), 0x0112_0000);
        assert_eq!(compact_target(U256::new(0x80)), 0x0200_8000);
        assert!(expanded(0x01fe_dcba).1);
        assert_eq!(compact_target(expanded(0x01fe_dcba).0), 0x017e_0000);
        assert_eq!(expanded(0x0212_3456).0, U256::new(0x1234));
        assert_eq!(expanded(0x0312_3456).0, U256::new(0x12_3456));
        assert_eq!(expanded(0x0412_3456).0, U256::new(0x1234_5600));
        assert!(expanded(0x0492_3456).1);
        assert_eq!(expanded(0x0500_9234).0, U256::new(0x9234_0000));
        assert_eq!(compact_target(U256::new(0x9234_0000)), 0x0500_9234);
        assert_eq!(compact_target(expanded(0x2012_3456).0), 0x2012_3456);
        assert!(expanded(0xff12_3456).2);
    }

    #[test]
    fn overflow_starts_where_core_says() {
        for (bits, overflow) in [
            (0x2200_00ff, false),
            (0x2300_0001, true),
            (0x2200_0100, true),
            (0x2100_ffff, false),
            (0x2101_0000, true),
            (0x207f_ffff, false),
        ] {
            assert_eq!(expanded(bits).2, overflow, "{bits:#x}");
        }
    }

    #[test]
    fn work_of_known_targets() {
        assert_eq!(block_proof(0x1d00_ffff), U256::new(0x1_0001_0001));
        assert_eq!(block_proof(0x207f_ffff), U256::new(2));
        assert_eq!(block_proof(0), U256::ZERO);
        assert_eq!(block_proof(0x0480_0001), U256::ZERO);
        assert_eq!(block_proof(0xff12_3456), U256::ZERO);
    }
}
