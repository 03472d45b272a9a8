//! The fee of a PSBT, and whether it is acceptable.

use std::error::Error;
use std::fmt;

use bitcoin::{Amount, FeeRate, Script, VarInt, Weight};
use miniscript::{BareCtx, Legacy, Segwitv0};

use super::Psbt;
use super::limits::{DEFAULT_MAX_FEE, DEFAULT_MAX_FEE_RATE};
use super::satisfaction::{KEY, Locks, Place, SIGNATURE, least_elements};
use super::spent::{KnownOutput, SpendKind, Spent};

/// Highest fee that is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeeLimits {
    /// Of the whole transaction.
    pub fee: Amount,
    /// For its size.
    pub rate: FeeRate,
}

impl Default for FeeLimits {
    fn default() -> Self {
        FeeLimits { fee: DEFAULT_MAX_FEE, rate: DEFAULT_MAX_FEE_RATE }
    }
}

/// What a transaction pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fee {
    /// Inputs less outputs.
    pub amount: Amount,
    /// What the inputs are worth.
    pub inputs: Amount,
    /// Weight of the finished transaction; estimated while inputs are not finished.
    pub weight: Weight,
}

impl Fee {
    /// Satoshi for 1000 units of weight, rounded up.
    pub fn rate(&self) -> FeeRate {
        let weight = self.weight.to_wu().max(1);
        let rate = (u128::from(self.amount.to_sat()) * 1000).div_ceil(u128::from(weight));
        FeeRate::from_sat_per_kwu(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Holds the fee against limits.
    ///
    /// # Errors
    ///
    /// If it is above one of them.
    pub fn check(&self, limits: &FeeLimits) -> Result<(), FeeObjection> {
        if self.amount > limits.fee {
            return Err(FeeObjection::AboveLimit { fee: self.amount, limit: limits.fee });
        }
        if self.rate() > limits.rate {
            return Err(FeeObjection::AboveRate { rate: self.rate(), limit: limits.rate });
        }
        Ok(())
    }

    /// Holds the fee against a part of an amount, in hundredths; all of it is no limit.
    ///
    /// # Errors
    ///
    /// If it is above that.
    pub fn check_share(&self, of: Amount, limit: u64) -> Result<(), FeeObjection> {
        let (fee, hundred) = (u128::from(self.amount.to_sat()), 100);
        let above = fee * hundred > u128::from(of.to_sat()) * u128::from(limit);
        match u128::from(limit) < hundred && above {
            true => Err(FeeObjection::AboveShare { fee: self.amount, of, limit }),
            false => Ok(()),
        }
    }
}

/// What is wrong with a fee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeeObjection {
    /// The amount of this input is not known.
    UnknownAmount(usize),
    /// The sum of the amounts is above 21 million bitcoin.
    OutOfRange,
    /// The outputs are worth more than the inputs.
    Negative,
    AboveLimit {
        fee: Amount,
        limit: Amount,
    },
    /// Above the limit for its size.
    AboveRate {
        rate: FeeRate,
        limit: FeeRate,
    },
    /// Above the limit for what is paid.
    AboveShare {
        fee: Amount,
        of: Amount,
        /// In hundredths.
        limit: u64,
    },
}

impl fmt::Display for FeeObjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownAmount(index) => {
                write!(f, "the fee is not known: input {index} does not say what it spends")
            }
            Self::OutOfRange => f.write_str("the amounts are out of range"),
            Self::Negative => f.write_str("the outputs are worth more than the inputs"),
            Self::AboveLimit { fee, limit } => {
                write!(f, "the fee of {fee} is above the limit of {limit}")
            }
            Self::AboveRate { rate, limit } => write!(
                f,
                "the fee rate of {} sat/vB is above the limit of {} sat/vB",
                rate.to_sat_per_vb_ceil(),
                limit.to_sat_per_vb_ceil()
            ),
            Self::AboveShare { fee, of, limit } => {
                write!(f, "the fee of {fee} is more than {limit} % of what is paid, {of}")
            }
        }
    }
}

impl Error for FeeObjection {}

impl Psbt {
    /// The fee, held against no limit yet.
    ///
    /// # Errors
    ///
    /// If an amount is not known, or the amounts are out of range.
    pub fn fee(&self) -> Result<Fee, FeeObjection> {
        self.fee_counting(|_| true)
    }

    /// The fee of the smallest transaction that this may become: `counts` says of which inputs the scripts
    /// count. Others may have named longer ones than they will use; without them the rate is found too high,
    /// not too low.
    pub(super) fn fee_counting(&self, counts: impl Fn(usize) -> bool) -> Result<Fee, FeeObjection> {
        let transaction = self.unsigned_transaction();
        let mut inputs = Amount::ZERO;
        let mut weight = transaction.weight();
        let mut witnesses = 0;
        let mut has_witness = false;
        for (index, input) in self.inputs().iter().enumerate() {
            let output = self.spent_output_of(index).ok_or(FeeObjection::UnknownAmount(index))?;
            inputs = inputs.checked_add(output.value).ok_or(FeeObjection::OutOfRange)?;
            let script_sig = input.final_script_sig.as_ref().map(|script| script.len());
            let witness = input.final_script_witness.as_ref().map(|witness| witness.size());
            let (script_sig, witness) = match (script_sig, witness) {
                _ if !counts(index) => (0, 0),
                (None, None) => estimate(input, &self.spent[index], Locks::of(transaction, index)),
                (script_sig, witness) => (script_sig.unwrap_or(0), witness.unwrap_or(0)),
            };
            // The length of an empty script is in the unsigned transaction.
            let script_sig = VarInt::from(script_sig).size() - 1 + script_sig;
            weight += Weight::from_wu(script_sig as u64 * 4);
            // An input without elements says that it has none, if another one has some.
            witnesses += witness.max(1) as u64;
            has_witness |= witness > 1;
        }
        let values = transaction.output.iter().map(|output| output.value);
        let outputs =
            values.into_iter().try_fold(Amount::ZERO, |sum, value| sum.checked_add(value));
        let outputs = outputs.ok_or(FeeObjection::OutOfRange)?;
        if inputs > Amount::MAX_MONEY || outputs > Amount::MAX_MONEY {
            return Err(FeeObjection::OutOfRange);
        }
        let amount = inputs.checked_sub(outputs).ok_or(FeeObjection::Negative)?;
        if has_witness {
            // Marker and flag (BIP144).
            weight += Weight::from_wu(2 + witnesses);
        }
        Ok(Fee { amount, inputs, weight })
    }
}

const SCHNORR_BYTES: usize = 64;

/// Bytes of script and witness that an unfinished input will have. Rather too few than too many: the
/// fee rate is then found too high, not too low.
fn estimate(input: &bitcoin::psbt::Input, known: &KnownOutput, locks: Locks) -> (usize, usize) {
    let Ok(spent) = Spent::of(input, known) else { return (0, 0) };
    let keyed = SIGNATURE + KEY;
    match spent.kind {
        SpendKind::Pkh => (keyed, 0),
        SpendKind::Wpkh => (0, 1 + keyed),
        SpendKind::ShWpkh => (1 + spent.script.len(), 1 + keyed),
        SpendKind::Wsh => (0, witness_script_bytes(&spent.script, locks)),
        SpendKind::ShWsh => (1 + 34, witness_script_bytes(&spent.script, locks)),
        SpendKind::Sh => (redeem_script_bytes(&spent.script, locks), 0),
        // By the key path: a leaf needs a control block beside its signatures.
        SpendKind::Tr => (0, 1 + 1 + SCHNORR_BYTES),
        SpendKind::Bare => (least_elements::<BareCtx>(&spent.script, Place::ScriptSig, locks), 0),
    }
}

fn witness_script_bytes(script: &Script, locks: Locks) -> usize {
    let elements = least_elements::<Segwitv0>(script, Place::Witness, locks);
    1 + elements + VarInt::from(script.len()).size() + script.len()
}

fn redeem_script_bytes(script: &Script, locks: Locks) -> usize {
    let push = match script.len() {
        ..=75 => 1,
        76..=255 => 2,
        _ => 3,
    };
    least_elements::<Legacy>(script, Place::ScriptSig, locks) + push + script.len()
}
