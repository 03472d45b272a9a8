//! Rules for a transaction: by itself, at a height, over the coins that it spends.
//!
//! Source: Core `consensus/tx_check.cpp`, `consensus/tx_verify.cpp`.

use godwit_primitives::{Amount, CoinView, MAX_MONEY, OutPoint, TxView, money_range};

use crate::limits::{
    COINBASE_MATURITY, LOCKTIME_THRESHOLD, MAX_BLOCK_WEIGHT, WITNESS_SCALE_FACTOR,
};
use crate::reject::{Reject, RejectReason, ensure};
use crate::sequence_lock::is_locked;
use crate::sigops::{input_sigops, legacy_sigop_count, output_sigops};
use crate::tx_facts::TxFacts;

/// The sequence number that takes no part in lock times.
const SEQUENCE_FINAL: u32 = 0xffff_ffff;

/// Up to this many inputs every pair is compared, beyond them they are sorted.
const COMPARED_INPUTS: usize = 16;

impl TxFacts {
    /// Those of a transaction that has passed [`check_transaction`]. Of another one whose outputs sum up to
    /// more than an amount can be, the sum is the largest amount.
    pub fn of(tx: TxView<'_>) -> Self {
        let value_out =
            tx.outputs().fold(0, |sum: Amount, output| sum.saturating_add(output.value));
        let version = tx.version();
        Self {
            value_out,
            own_sigops: legacy_sigop_count(tx) as u32,
            is_locked: tx.inputs().any(|input| is_locked(version, input.sequence)),
        }
    }
}

/// The rules that need nothing but the transaction (Core `CheckTransaction`).
pub fn check_transaction(tx: TxView<'_>) -> Result<(), Reject> {
    check_and_sum_up(tx, &mut Vec::new()).map(drop)
}

/// [`check_transaction`], and [`TxFacts::of`]: one walk over the transaction's bytes gives both.
/// `fingerprints` is room that is used again for each transaction.
pub(crate) fn check_and_sum_up(
    tx: TxView<'_>,
    fingerprints: &mut Vec<u64>,
) -> Result<TxFacts, Reject> {
    check_not_empty(tx)?;
    fits_a_block(tx)?;
    let mut facts = TxFacts { value_out: 0, own_sigops: 0, is_locked: false };
    output_amounts_in_range(tx, &mut facts)?;
    take_fingerprints(tx, fingerprints, &mut facts);
    // An outpoint of zeros and ones is rare enough to look again.
    let may_be_null = fingerprints.contains(&fingerprint(&OutPoint::NULL));
    inputs_differ(tx, fingerprints)?;
    if may_be_null {
        if tx.is_coinbase() { coinbase_script_length(tx) } else { no_null_outpoint(tx) }?;
    }
    Ok(facts)
}

/// A transaction has inputs (`bad-txns-vin-empty`) and outputs (`bad-txns-vout-empty`).
fn check_not_empty(tx: TxView<'_>) -> Result<(), Reject> {
    ensure(tx.input_count() != 0, RejectReason::VinEmpty)?;
    ensure(tx.output_count() != 0, RejectReason::VoutEmpty)
}

/// A transaction without its witness takes at most a quarter of a block's weight
/// (`bad-txns-oversize`).
fn fits_a_block(tx: TxView<'_>) -> Result<(), Reject> {
    let weight = tx.stripped_size() as u64 * WITNESS_SCALE_FACTOR;
    ensure(weight <= MAX_BLOCK_WEIGHT, RejectReason::Oversize)
}

/// An output is neither negative (`bad-txns-vout-negative`) nor above the money limit
/// (`bad-txns-vout-toolarge`), nor is their sum (`bad-txns-txouttotal-toolarge`, CVE-2010-5139). Adds up
/// the outputs and the signature operations of their scripts.
fn output_amounts_in_range(tx: TxView<'_>, facts: &mut TxFacts) -> Result<(), Reject> {
    for output in tx.outputs() {
        ensure(output.value >= 0, RejectReason::VoutNegative)?;
        ensure(output.value <= MAX_MONEY, RejectReason::VoutTooLarge)?;
        // Both are at most the money limit, twice which fits.
        facts.value_out += output.value;
        ensure(money_range(facts.value_out), RejectReason::TxoutTotalTooLarge)?;
        facts.own_sigops += output_sigops(output.script_pubkey) as u32;
    }
    Ok(())
}

/// Puts the fingerprints of what the inputs spend into `fingerprints`; adds up the signature operations of
/// the input scripts, and looks for relative lock times.
fn take_fingerprints(tx: TxView<'_>, fingerprints: &mut Vec<u64>, facts: &mut TxFacts) {
    let version = tx.version();
    fingerprints.clear();
    fingerprints.extend(tx.inputs().map(|input| {
        facts.own_sigops += input_sigops(input.script_sig) as u32;
        facts.is_locked |= is_locked(version, input.sequence);
        fingerprint(&input.prevout)
    }));
}

/// No two inputs of a transaction spend the same output (`bad-txns-inputs-duplicate`,
/// CVE-2018-17144). Leaves the fingerprints in another order.
fn inputs_differ(tx: TxView<'_>, fingerprints: &mut [u64]) -> Result<(), Reject> {
    let repeated = if fingerprints.len() <= COMPARED_INPUTS {
        (1..fingerprints.len()).any(|i| fingerprints[..i].contains(&fingerprints[i]))
    } else {
        fingerprints.sort_unstable();
        fingerprints.windows(2).any(|pair| pair[0] == pair[1])
    };
    ensure(!repeated || outpoints_differ(tx), RejectReason::InputsDuplicate)
}

/// Equal for equal outpoints; others rarely share one unless somebody made them to.
fn fingerprint(outpoint: &OutPoint) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *outpoint.txid.as_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ u64::from(outpoint.vout).rotate_left(32)
}

/// Sorted rather than hashed: whoever makes the block chooses the outpoints.
fn outpoints_differ(tx: TxView<'_>) -> bool {
    let mut outpoints: Vec<OutPoint> = tx.inputs().map(|input| input.prevout).collect();
    outpoints.sort_unstable();
    outpoints.windows(2).all(|pair| pair[0] != pair[1])
}

/// The input script of a coinbase has 2 to 100 bytes (`bad-cb-length`).
fn coinbase_script_length(tx: TxView<'_>) -> Result<(), Reject> {
    let holds = tx.inputs().all(|input| (2..=100).contains(&input.script_sig.len()));
    ensure(holds, RejectReason::BadCbLength)
}

/// Only a coinbase has an input without an outpoint (`bad-txns-prevout-null`).
fn no_null_outpoint(tx: TxView<'_>) -> Result<(), Reject> {
    let null = tx.inputs().any(|input| input.prevout.is_null());
    ensure(!null, RejectReason::PrevoutNull)
}

/// The highest lock times of transactions, those left out that are final without: they are zero, or every
/// input's sequence number is final.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LockTimes {
    /// Below 500,000,000: the height that the block must be above.
    height: Option<u32>,
    /// The others: the time that must be past.
    time: Option<u32>,
}

impl LockTimes {
    /// Those of one transaction more.
    pub(crate) fn with(mut self, tx: TxView<'_>) -> Self {
        let lock = tx.lock_time();
        if lock != 0 {
            let highest = if lock < LOCKTIME_THRESHOLD { &mut self.height } else { &mut self.time };
            if highest.is_none_or(|highest| highest < lock)
                && !tx.inputs().all(|input| input.sequence == SEQUENCE_FINAL)
            {
                *highest = Some(lock);
            }
        }
        self
    }

    /// Whether the lock times are below the block's height and time. `time` is that of the block, or the
    /// median time past of its predecessor under BIP113.
    pub(crate) fn are_reached(&self, height: u32, time: u32) -> bool {
        self.height.is_none_or(|lock| lock < height) && self.time.is_none_or(|lock| lock < time)
    }
}

/// A transaction's lock time is reached in a block at `height`, or all its inputs are final (Core
/// `IsFinalTx`). `time` is the median time past of the block's predecessor (BIP113).
pub fn is_final(tx: TxView<'_>, height: u32, time: u32) -> bool {
    LockTimes::default().with(tx).are_reached(height, time)
}

/// The rules for a transaction, not a coinbase, over the coins that it spends; its fee (Core
/// `CheckTxInputs`).
///
/// `facts` are its own. `coins` are those that the inputs spend, in their order, up to the first that does
/// not exist. `height` is that of the block. The transaction has passed [`check_transaction`].
pub fn check_tx_inputs(
    tx: TxView<'_>,
    facts: &TxFacts,
    coins: &[CoinView<'_>],
    height: u32,
) -> Result<Amount, Reject> {
    inputs_exist(tx, coins)?;
    let mut value_in: Amount = 0;
    for coin in coins {
        check_maturity(coin, height)?;
        value_in = add_input_value(value_in, coin.value)?;
    }
    covers_outputs(value_in, facts.value_out)?;
    fee_in_range(value_in - facts.value_out)
}

/// An input spends an output that exists and is unspent (`bad-txns-inputs-missingorspent`).
fn inputs_exist(tx: TxView<'_>, coins: &[CoinView<'_>]) -> Result<(), Reject> {
    ensure(coins.len() >= tx.input_count(), RejectReason::InputsMissingOrSpent)
}

/// An output of a coinbase is spent 100 blocks later at the earliest
/// (`bad-txns-premature-spend-of-coinbase`).
fn check_maturity(coin: &CoinView<'_>, height: u32) -> Result<(), Reject> {
    let depth = i64::from(height) - i64::from(coin.height);
    let mature = !coin.coinbase || depth >= i64::from(COINBASE_MATURITY);
    ensure(mature, RejectReason::PrematureSpendOfCoinbase)
}

/// A spent amount and the sum so far are within the money limit (`bad-txns-inputvalues-outofrange`).
fn add_input_value(sum: Amount, value: Amount) -> Result<Amount, Reject> {
    ensure(money_range(value), RejectReason::InputValuesOutOfRange)?;
    // Both are at most the money limit, twice which fits.
    let sum = sum + value;
    ensure(money_range(sum), RejectReason::InputValuesOutOfRange)?;
    Ok(sum)
}

/// The outputs of a transaction are at most its inputs (`bad-txns-in-belowout`).
fn covers_outputs(value_in: Amount, value_out: Amount) -> Result<(), Reject> {
    ensure(value_in >= value_out, RejectReason::InBelowOut)
}

/// A fee is within the money limit (`bad-txns-fee-outofrange`). Implied by the rules before it.
fn fee_in_range(fee: Amount) -> Result<Amount, Reject> {
    ensure(money_range(fee), RejectReason::FeeOutOfRange)?;
    Ok(fee)
}

#[cfg(test)]
mod tests;
