//! Relative lock times (BIP68).
//!
//! Source: Core `consensus/tx_verify.cpp` (`CalculateSequenceLocks`, `EvaluateSequenceLocks`).

use godwit_primitives::{CoinView, TxView};

use crate::reject::{Reject, RejectReason, ensure};
use crate::tx_facts::TxFacts;

const DISABLE_FLAG: u32 = 1 << 31;
const TYPE_FLAG: u32 = 1 << 22;
const VALUE_MASK: u32 = 0xffff;
/// Time locks count units of 512 seconds.
const TIME_GRANULARITY: u32 = 9;

/// The last height and the last median time past at which a transaction is still locked; -1 where
/// nothing locks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SequenceLock {
    /// The block must be above this height.
    height: i64,
    /// The median time past of the block's predecessor must be above this.
    time: i64,
}

impl SequenceLock {
    /// Locks nothing.
    const OPEN: Self = Self { height: -1, time: -1 };

    /// Whether a block at `height`, whose predecessor has the median time past
    /// `prev_median_time_past`, may contain the transaction.
    fn is_met(&self, height: u32, prev_median_time_past: u32) -> bool {
        self.height < i64::from(height) && self.time < i64::from(prev_median_time_past)
    }
}

/// BIP68: an input whose sequence number has bit 31 clear, in a transaction of version 2 or above,
/// is locked until the spent output is that many blocks or that many times 512 seconds (bit 22) old.
fn sequence_lock(
    tx: TxView<'_>,
    coins: &[CoinView<'_>],
    median_time_past: &dyn Fn(u32) -> u32,
) -> SequenceLock {
    let mut lock = SequenceLock::OPEN;
    let version = tx.version();
    for (input, coin) in tx.inputs().zip(coins) {
        if !is_locked(version, input.sequence) {
            continue;
        }
        let created = coin.height;
        let value = i64::from(input.sequence & VALUE_MASK);
        if input.sequence & TYPE_FLAG != 0 {
            let since = i64::from(median_time_past(created.saturating_sub(1)));
            lock.time = lock.time.max(since + (value << TIME_GRANULARITY) - 1);
        } else {
            lock.height = lock.height.max(i64::from(created) + value - 1);
        }
    }
    lock
}

/// BIP68: whether an input of a transaction of this version is locked for a time, so that
/// [`sequence_locks_met`] asks for the median time past below its coin.
pub fn is_time_locked(version: u32, sequence: u32) -> bool {
    is_locked(version, sequence) && sequence & TYPE_FLAG != 0
}

/// BIP68: whether an input of a transaction of this version has a relative lock time. The version is
/// unsigned here: a negative one is above 2.
pub(crate) fn is_locked(version: u32, sequence: u32) -> bool {
    version >= 2 && sequence & DISABLE_FLAG == 0
}

/// BIP68: the relative lock times of a transaction's inputs are reached (`bad-txns-nonfinal`). The
/// block is at `height`, its predecessor has the median time past `prev_median_time_past`.
///
/// `facts` are the transaction's own, `coins` those that the inputs spend, in their order;
/// `median_time_past(h)` is that of the block at height `h` of the same chain, asked for the block before
/// the one that created a coin.
pub fn sequence_locks_met(
    tx: TxView<'_>,
    facts: &TxFacts,
    coins: &[CoinView<'_>],
    height: u32,
    prev_median_time_past: u32,
    median_time_past: &dyn Fn(u32) -> u32,
) -> Result<(), Reject> {
    if !facts.is_locked {
        return Ok(());
    }
    let lock = sequence_lock(tx, coins, median_time_past);
    ensure(lock.is_met(height, prev_median_time_past), RejectReason::TxnsNonfinal)
}

#[cfg(test)]
mod tests;
