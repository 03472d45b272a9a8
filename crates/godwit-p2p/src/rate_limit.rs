//! Limits over time: token buckets, and the daily upload target.

use std::time::Duration;

use godwit_consensus::MAX_BLOCK_WEIGHT;

/// Addresses that a peer may tell us per ten seconds (Core `MAX_ADDR_RATE_PER_SECOND` 0.1).
const ADDRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Addresses that a peer may tell us at once (Core `MAX_ADDR_PROCESSING_TOKEN_BUCKET`).
pub(crate) const ADDRESS_BURST: u64 = 1000;
/// Warning lines about one peer at once. Core has no such limit per peer.
pub(crate) const PEER_LOG_BURST: u64 = 10;
/// After the burst, one more warning line about the same peer is allowed each time this passes.
const PEER_LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Warning lines about all peers together at once: peers that reconnect get a new bucket each time.
pub(crate) const LOG_BURST: u64 = 100;
/// After the burst, one more warning line about any peer each time this passes: 3600 lines, below
/// 1 MB, an hour (Core limits each place in its source to 1 MiB an hour, CVE-2025-54605).
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Inventory entries that a peer may announce at once: two full messages. Core has no limit.
pub(crate) const INVENTORY_BURST: u64 = 100_000;
/// Inventory entries that a peer may announce per second after that; a busy Core node announces at
/// most 200 transactions a second (`INVENTORY_BROADCAST_MAX` per 5 s).
const INVENTORY_PER_SECOND: u64 = 200;

/// A token bucket: tokens arrive at a fixed rate and are kept, up to a limit, until they are spent.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    burst: u64,
    amount: u64,
    interval: Duration,
    /// Tokens times nanoseconds of `interval`: no fraction of a token is lost.
    level: u128,
    refilled: Duration,
}

impl TokenBucket {
    /// A full bucket: `burst` tokens now, and `amount` more each `interval` up to that.
    ///
    /// # Panics
    ///
    /// When `amount` or `interval` is zero.
    pub fn new(now: Duration, burst: u64, amount: u64, interval: Duration) -> Self {
        assert!(amount > 0 && !interval.is_zero(), "a bucket that is never refilled");
        let empty = Self { burst, amount, interval, level: 0, refilled: now };
        Self { level: empty.scaled(burst), ..empty }
    }

    /// For the addresses that one peer sends: a single token at first, as in Core;
    /// [`grant`](Self::grant) adds those for addresses that we ask for.
    pub fn addresses(now: Duration) -> Self {
        let full = Self::new(now, ADDRESS_BURST, 1, ADDRESS_INTERVAL);
        Self { level: full.scaled(1), ..full }
    }

    /// For warning lines about one peer.
    pub fn peer_log(now: Duration) -> Self {
        Self::new(now, PEER_LOG_BURST, 1, PEER_LOG_INTERVAL)
    }

    /// For warning lines about all peers.
    pub fn log(now: Duration) -> Self {
        Self::new(now, LOG_BURST, 1, LOG_INTERVAL)
    }

    /// For the inventory entries that one peer announces.
    pub fn inventory(now: Duration) -> Self {
        Self::new(now, INVENTORY_BURST, INVENTORY_PER_SECOND, Duration::from_secs(1))
    }

    /// Spends `n` tokens, if there are as many; returns whether it did.
    pub fn take(&mut self, now: Duration, n: u64) -> bool {
        self.refill(now);
        let cost = self.scaled(n);
        let enough = self.level >= cost;
        if enough {
            self.level -= cost;
        }
        enough
    }

    /// Spends as many as there are, at most `n`; returns how many.
    pub fn take_up_to(&mut self, now: Duration, n: u64) -> u64 {
        self.refill(now);
        let whole = self.level / self.interval.as_nanos();
        let taken = u64::try_from(whole).map_or(n, |whole| whole.min(n));
        self.level -= self.scaled(taken);
        taken
    }

    /// Adds tokens beyond the rate and the limit (Core: for as many addresses as the answer to our
    /// `getaddr` may have).
    pub fn grant(&mut self, n: u64) {
        self.level = self.level.saturating_add(self.scaled(n));
    }

    /// When there will be `n` tokens: `now` if there are; `None` (never) if that is more than the
    /// limit.
    pub fn ready_at(&mut self, now: Duration, n: u64) -> Option<Duration> {
        self.refill(now);
        let missing = self.scaled(n).saturating_sub(self.level);
        if missing > 0 && n > self.burst {
            return None;
        }
        Some(now.saturating_add(duration(missing.div_ceil(self.amount.into()))))
    }

    fn refill(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.refilled).as_nanos();
        self.refilled = self.refilled.max(now);
        let full = self.scaled(self.burst);
        if self.level < full {
            let due = elapsed.saturating_mul(self.amount.into());
            self.level = self.level.saturating_add(due).min(full);
        }
    }

    /// Converts tokens to the unit of `level`.
    fn scaled(&self, tokens: u64) -> u128 {
        self.interval.as_nanos().saturating_mul(tokens.into())
    }
}

/// Nanoseconds as a duration, saturating.
fn duration(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    match u64::try_from(nanos / SECOND) {
        Ok(seconds) => Duration::new(seconds, (nanos % SECOND) as u32),
        Err(_) => Duration::MAX,
    }
}

/// A cycle of the upload target (Core `MAX_UPLOAD_TIMEFRAME`).
pub(crate) const UPLOAD_CYCLE: Duration = Duration::from_secs(24 * 60 * 60);
/// Target time between blocks.
const BLOCK_SPACING: Duration = Duration::from_secs(10 * 60);
/// Largest block in bytes: each weighs at least one unit (Core `MAX_BLOCK_SERIALIZED_SIZE`).
const MAX_BLOCK_BYTES: u64 = MAX_BLOCK_WEIGHT;

/// Bytes sent in cycles of a day against a target (`-maxuploadtarget`; Core `OutboundTargetReached`).
#[derive(Clone, Debug)]
pub(crate) struct UploadTarget {
    limit: Option<u64>,
    /// When the first byte of this cycle was sent.
    start: Option<Duration>,
    sent: u64,
}

impl UploadTarget {
    /// Nothing sent so far. `None` is no limit.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit, start: None, sent: 0 }
    }

    /// Counts bytes that were sent.
    pub(crate) fn record(&mut self, now: Duration, bytes: u64) {
        if self.start.is_none_or(|start| now.saturating_sub(start) > UPLOAD_CYCLE) {
            self.start = Some(now);
            self.sent = 0;
        }
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Whether no old block (of more than a week, Core `HISTORICAL_BLOCK_AGE`) is to be served in
    /// this cycle any more: what is left of the target is reserved for new blocks, a full one each
    /// ten minutes.
    pub(crate) fn is_reached_for_old_blocks(&self, now: Duration) -> bool {
        let Some(limit) = self.limit else { return false };
        let left = match self.start {
            None => UPLOAD_CYCLE,
            Some(start) => start.saturating_add(UPLOAD_CYCLE).saturating_sub(now),
        };
        let reserve = left.as_secs() / BLOCK_SPACING.as_secs() * MAX_BLOCK_BYTES;
        self.sent >= limit.saturating_sub(reserve)
    }

    /// For RPC methods.
    pub(crate) fn status(&self, now: Duration) -> UploadStatus {
        let Some(target) = self.limit else { return UploadStatus::default() };
        let end = self.start.map_or(now + UPLOAD_CYCLE, |start| start.saturating_add(UPLOAD_CYCLE));
        UploadStatus {
            target,
            reached: self.sent >= target,
            refuses_old_blocks: self.is_reached_for_old_blocks(now),
            bytes_left: target.saturating_sub(self.sent),
            seconds_left: end.saturating_sub(now).as_secs(),
        }
    }
}

/// What is left of the upload target; all zero where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadStatus {
    /// Bytes of a cycle.
    pub target: u64,
    pub reached: bool,
    /// Blocks of more than a week are not served any more.
    pub refuses_old_blocks: bool,
    pub bytes_left: u64,
    pub seconds_left: u64,
}

#[cfg(test)]
mod tests;
