//! Reasons for which a transaction is refused, in Core's words.

use std::fmt;

use godwit_consensus::RejectReason;
use godwit_engine::PolicyRefusal;
use godwit_primitives::{Amount, COIN, Txid, Wtxid};

/// What follows from a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// What it spends is not known (Core `TX_MISSING_INPUTS`).
    MissingInputs,
    /// Others in the same package may pay for it (Core `TX_RECONSIDERABLE`).
    Reconsiderable,
    Final,
}

/// Why a transaction is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A consensus rule, with what Core adds.
    Rule(RejectReason, String),
    Coinbase,
    /// One of Core's own functions refuses it.
    Policy(PolicyRefusal),
    TooSmall,
    NonFinal,
    NonFinalSequence,
    /// It is in the pool.
    AlreadyInPool,
    /// It is there with another witness.
    OtherWitness,
    /// It is in a block.
    AlreadyInBlock,
    /// It spends what one of the pool spends, and may not replace that.
    Conflict,
    TooManySigops(u64),
    Dust,
    UnspentDust {
        txid: Txid,
        wtxid: Wtxid,
    },
    /// The fee, and the least.
    BelowRelayFee(Amount, Amount),
    /// The pool would have too many that depend on each other.
    ClusterTooLarge,
    /// It would replace more than it may.
    TooManyReplaced(String),
    /// The fee of a replacement is too low: why.
    InsufficientFee(String),
    /// The fee rate of a replacement is too low.
    ReplacementFailed,
    SpendsConflicting(Txid, Txid),
    /// A rule about version 3 (BIP431).
    Truc(String),
    MaxFeeRate,
    /// The pool is full.
    Full,
}

impl Refusal {
    pub fn class(&self) -> Class {
        match self {
            Self::Rule(RejectReason::InputsMissingOrSpent, _) => Class::MissingInputs,
            Self::BelowRelayFee(..) | Self::InsufficientFee(_) | Self::ReplacementFailed => {
                Class::Reconsiderable
            }
            _ => Class::Final,
        }
    }

    /// Core's reject reason.
    pub fn reason(&self) -> &str {
        match self {
            Self::Rule(reason, _) => reason.as_str(),
            Self::Coinbase => "coinbase",
            Self::Policy(refusal) => &refusal.reason,
            Self::TooSmall => "tx-size-small",
            Self::NonFinal => "non-final",
            Self::NonFinalSequence => "non-BIP68-final",
            Self::AlreadyInPool => "txn-already-in-mempool",
            Self::OtherWitness => "txn-same-nonwitness-data-in-mempool",
            Self::AlreadyInBlock => "txn-already-known",
            Self::Conflict => "bip125-replacement-disallowed",
            Self::TooManySigops(_) => "bad-txns-too-many-sigops",
            Self::Dust => "dust",
            Self::UnspentDust { .. } => "missing-ephemeral-spends",
            Self::BelowRelayFee(..) => "min relay fee not met",
            Self::ClusterTooLarge => "too-large-cluster",
            Self::TooManyReplaced(_) => "too many potential replacements",
            Self::InsufficientFee(_) => "insufficient fee",
            Self::ReplacementFailed => "replacement-failed",
            Self::SpendsConflicting(..) => "bad-txns-spends-conflicting-tx",
            Self::Truc(_) => "TRUC-violation",
            Self::MaxFeeRate => "max feerate exceeded",
            Self::Full => "mempool full",
        }
    }

    /// What Core adds to the reason; may be empty.
    fn details(&self) -> String {
        match self {
            Self::Rule(_, details)
            | Self::TooManyReplaced(details)
            | Self::InsufficientFee(details)
            | Self::Truc(details) => details.clone(),
            Self::Policy(refusal) => refusal.details.clone(),
            Self::TooManySigops(cost) => cost.to_string(),
            Self::Dust => "tx with dust output must be 0-fee".to_owned(),
            Self::UnspentDust { txid, wtxid } => {
                format!("tx {txid} (wtxid={wtxid}) did not spend parent's ephemeral dust")
            }
            Self::BelowRelayFee(fee, least) => format!("{fee} < {least}"),
            Self::ReplacementFailed => {
                "insufficient feerate: does not improve feerate diagram".to_owned()
            }
            Self::SpendsConflicting(tx, parent) => {
                format!("{tx} spends conflicting transaction {parent}")
            }
            _ => String::new(),
        }
    }
}

/// The reason and what Core adds to it (Core `ValidationState::ToString`).
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = self.details();
        match details.is_empty() {
            true => f.write_str(self.reason()),
            false => write!(f, "{}, {details}", self.reason()),
        }
    }
}

impl std::error::Error for Refusal {}

/// An amount in bitcoins, with as few decimals as Core gives it, but at least two (Core `FormatMoney`).
pub(crate) fn money(amount: Amount) -> String {
    let whole = amount.unsigned_abs() / COIN.unsigned_abs();
    let rest = format!("{:08}", amount.unsigned_abs() % COIN.unsigned_abs());
    let end = rest.trim_end_matches('0').len().max(2);
    format!("{}{whole}.{}", if amount < 0 { "-" } else { "" }, &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_core_writes_them() {
        let written = [0, 1, 10, 100_000_000, 123_450_000, -150_000_000].map(money);
        assert_eq!(written, ["0.00", "0.00000001", "0.0000001", "1.00", "1.2345", "-1.50"]);
    }

    #[test]
    fn details_follow_the_reason() {
        assert_eq!(Refusal::NonFinal.to_string(), "non-final");
        assert_eq!(Refusal::BelowRelayFee(5, 9).to_string(), "min relay fee not met, 5 < 9");
        assert_eq!(Refusal::BelowRelayFee(5, 9).class(), Class::Reconsiderable);
    }
}
