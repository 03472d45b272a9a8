//! Why a block is rejected, in Core's words.

use std::fmt;

/// How a rejection reflects on the block and on who sent it (Core `BlockValidationResult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResultClass {
    /// Invalid by consensus rules, for good.
    Consensus,
    /// Known to be invalid; why was not kept.
    CachedInvalid,
    /// The header breaks a rule.
    InvalidHeader,
    /// The data are not those that the header commits to; the block itself may be valid.
    Mutated,
    /// The previous block is not known.
    MissingPrev,
    /// The previous block is invalid.
    InvalidPrev,
    /// Too far in the future; valid later.
    TimeFuture,
    /// The header may belong to a chain of too little work.
    HeaderLowWork,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $class:ident;)*) => {
        /// One for each reason that Core gives for rejecting a block.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum RejectReason {
            $(#[doc = concat!("`", $text, "`: ")] $(#[$doc])* $variant,)*
            /// `bad-version(0x…)`: the version is too low for the rules at this height.
            BadVersion(i32),
        }

        impl RejectReason {
            /// Every reason; the version of [`Self::BadVersion`] is an example.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)* Self::BadVersion(1)];

            /// Core's reason up to its parenthesis, where it has one.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::BadVersion(_) => "bad-version",
                }
            }

            /// The class in which Core reports the reason for a block.
            pub const fn class(self) -> ResultClass {
                match self {
                    $(Self::$variant => ResultClass::$class,)*
                    Self::BadVersion(_) => ResultClass::InvalidHeader,
                }
            }
        }
    };
}

reasons! {
    /// the hash is not below a valid target.
    HighHash = "high-hash", InvalidHeader;
    /// the target is not the one that the rules require.
    BadDiffbits = "bad-diffbits", InvalidHeader;
    /// the time is not above the median of the last blocks.
    TimeTooOld = "time-too-old", InvalidHeader;
    /// a difficulty period starts too long before its predecessor's end (BIP94).
    TimeTimewarpAttack = "time-timewarp-attack", InvalidHeader;
    /// the time is more than two hours ahead.
    TimeTooNew = "time-too-new", TimeFuture;
    /// the block was rejected before.
    DuplicateInvalid = "duplicate-invalid", CachedInvalid;
    /// the previous block is unknown.
    PrevBlkNotFound = "prev-blk-not-found", MissingPrev;
    /// the previous block is invalid.
    BadPrevblk = "bad-prevblk", InvalidPrev;
    /// the chain has too little work to be stored.
    TooLittleChainwork = "too-little-chainwork", HeaderLowWork;
    /// the signet solution is missing or wrong (BIP325).
    BadSignetBlksig = "bad-signet-blksig", Consensus;
    /// the transactions do not hash to the header's merkle root.
    BadTxnMrklRoot = "bad-txnmrklroot", Mutated;
    /// a duplicated run of transactions leaves the merkle root unchanged (CVE-2012-2459).
    BadTxnsDuplicate = "bad-txns-duplicate", Mutated;
    /// no transactions, too many, or too many bytes.
    BadBlkLength = "bad-blk-length", Consensus;
    /// the first transaction is not a coinbase.
    BadCbMissing = "bad-cb-missing", Consensus;
    /// a transaction after the first is a coinbase.
    BadCbMultiple = "bad-cb-multiple", Consensus;
    /// no inputs.
    VinEmpty = "bad-txns-vin-empty", Consensus;
    /// no outputs.
    VoutEmpty = "bad-txns-vout-empty", Consensus;
    /// the transaction alone exceeds a block.
    Oversize = "bad-txns-oversize", Consensus;
    /// an output below zero.
    VoutNegative = "bad-txns-vout-negative", Consensus;
    /// an output above the money limit.
    VoutTooLarge = "bad-txns-vout-toolarge", Consensus;
    /// outputs that sum above the money limit (CVE-2010-5139).
    TxoutTotalTooLarge = "bad-txns-txouttotal-toolarge", Consensus;
    /// an outpoint spent twice by one transaction (CVE-2018-17144).
    InputsDuplicate = "bad-txns-inputs-duplicate", Consensus;
    /// a coinbase script shorter than 2 or longer than 100 bytes.
    BadCbLength = "bad-cb-length", Consensus;
    /// a null outpoint outside a coinbase.
    PrevoutNull = "bad-txns-prevout-null", Consensus;
    /// too many signature operations.
    BadBlkSigops = "bad-blk-sigops", Consensus;
    /// a lock time or relative lock time (BIP68) is not reached.
    TxnsNonfinal = "bad-txns-nonfinal", Consensus;
    /// the coinbase does not start with the height (BIP34).
    BadCbHeight = "bad-cb-height", Consensus;
    /// the coinbase witness is not one item of 32 bytes (BIP141).
    BadWitnessNonceSize = "bad-witness-nonce-size", Mutated;
    /// the witness commitment does not match (BIP141).
    BadWitnessMerkleMatch = "bad-witness-merkle-match", Mutated;
    /// witness data without a commitment (BIP141).
    UnexpectedWitness = "unexpected-witness", Mutated;
    /// too much weight (BIP141).
    BadBlkWeight = "bad-blk-weight", Consensus;
    /// a transaction would overwrite an unspent one (BIP30).
    Bip30 = "bad-txns-BIP30", Consensus;
    /// a spent output does not exist or is spent already.
    InputsMissingOrSpent = "bad-txns-inputs-missingorspent", Consensus;
    /// a coinbase output is spent before 100 blocks.
    PrematureSpendOfCoinbase = "bad-txns-premature-spend-of-coinbase", Consensus;
    /// a spent amount or their sum is out of range.
    InputValuesOutOfRange = "bad-txns-inputvalues-outofrange", Consensus;
    /// the outputs exceed the inputs.
    InBelowOut = "bad-txns-in-belowout", Consensus;
    /// the fee is out of range.
    FeeOutOfRange = "bad-txns-fee-outofrange", Consensus;
    /// the fees of the block are out of range.
    AccumulatedFeeOutOfRange = "bad-txns-accumulated-fee-outofrange", Consensus;
    /// the coinbase claims more than subsidy and fees.
    BadCbAmount = "bad-cb-amount", Consensus;
    /// a script fails.
    BlockScriptVerifyFlagFailed = "block-script-verify-flag-failed", Consensus;
}

/// The reason as Core prints it, but for the script error that Core adds to a failed script.
impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        match self {
            Self::BadVersion(version) => write!(f, "(0x{version:08x})"),
            _ => Ok(()),
        }
    }
}

/// A rejected block: why, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reject {
    /// The rule that the block breaks.
    pub reason: RejectReason,
    /// What follows from it.
    pub class: ResultClass,
    /// The rule that a script breaks, in Core's words, where that is known.
    pub script_rule: Option<&'static str>,
}

impl Reject {
    /// A block rejected for `reason`.
    pub const fn new(reason: RejectReason) -> Self {
        Self { reason, class: reason.class(), script_rule: None }
    }

    /// Whether the block was invalid before, so that nothing new is known of it.
    pub fn was_known(&self) -> bool {
        self.class == ResultClass::CachedInvalid
    }

    /// A block of which a script breaks a rule.
    pub const fn by_script(rule: Option<&'static str>) -> Self {
        let reject = Self::new(RejectReason::BlockScriptVerifyFlagFailed);
        Self { script_rule: rule, ..reject }
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        match self.script_rule {
            Some(rule) => write!(f, " ({rule})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Reject {}

/// A rule: `Err` with the reason unless it holds.
pub(crate) fn ensure(holds: bool, reason: RejectReason) -> Result<(), Reject> {
    if holds { Ok(()) } else { Err(Reject::new(reason)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_printed_as_core_does() {
        assert_eq!(RejectReason::BadVersion(1).to_string(), "bad-version(0x00000001)");
        assert_eq!(RejectReason::BadVersion(-1).to_string(), "bad-version(0xffffffff)");
        assert_eq!(RejectReason::BadVersion(3).as_str(), "bad-version");
        assert_eq!(Reject::new(RejectReason::BadVersion(3)).class, ResultClass::InvalidHeader);
    }

    #[test]
    fn reasons_differ() {
        let mut texts: Vec<&str> = RejectReason::ALL.iter().map(|r| r.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), RejectReason::ALL.len());
    }
}
