//! Numeric limits of the rules (Core `consensus/consensus.h`, `chain.h`, `script/script.h`).

/// Weight that a block may have (BIP141).
pub const MAX_BLOCK_WEIGHT: u64 = 4_000_000;

/// Cost of signature operations that a block may have (BIP141).
pub const MAX_BLOCK_SIGOPS_COST: u64 = 80_000;

/// What a byte or signature operation outside the witness counts, against one inside it (BIP141).
pub const WITNESS_SCALE_FACTOR: u64 = 4;

/// Blocks after which a coinbase output may be spent.
pub const COINBASE_MATURITY: u32 = 100;

/// Seconds that the first block of a difficulty period may be older than its predecessor (BIP94).
pub const MAX_TIMEWARP: u32 = 600;

/// Seconds that a block may be ahead of the clock.
pub const MAX_FUTURE_BLOCK_TIME: i64 = 2 * 60 * 60;

/// Blocks over which the median time past is taken (BIP113).
pub const MEDIAN_TIME_SPAN: usize = 11;

/// Lock times below this are heights, the others times.
pub const LOCKTIME_THRESHOLD: u32 = 500_000_000;

/// Public keys that count for a CHECKMULTISIG whose number of keys is not read.
pub(crate) const MAX_PUBKEYS_PER_MULTISIG: u64 = 20;

/// From this height on BIP34 no longer implies BIP30: an early coinbase names it.
pub const BIP34_IMPLIES_BIP30_LIMIT: u32 = 1_983_702;
