//! Ways in which the verification of scripts fails.

use std::error::Error;
use std::fmt;

/// Why scripts were not found valid. Only [`ScriptError::Rejected`] is a verdict about a block; the
/// other variants say that the question was malformed or that the engine failed, and must not be
/// held against the peer that sent the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptError {
    /// The bytes do not start with a serialised transaction.
    MalformedTransaction,
    /// There is not one spent output for each input.
    SpentOutputCount {
        /// Inputs of the transaction.
        inputs: usize,
        /// Spent outputs that were given.
        spent: usize,
    },
    /// The range is reversed or reaches beyond the transaction's inputs.
    BadRange {
        /// Start of the range.
        start: usize,
        /// End of the range, exclusive.
        end: usize,
        /// Inputs of the transaction.
        inputs: usize,
    },
    /// WITNESS without P2SH: BIP141 is not defined without BIP16.
    WitnessWithoutP2sh,
    /// The script or witness of this input does not satisfy the output that it spends. Core's
    /// reject reason is `block-script-verify-flag-failed`; [`broken_rule`](crate::broken_rule) says which
    /// rule.
    Rejected {
        /// Index of the input.
        input: usize,
    },
    /// Godwit's own proof says that the signatures make this input valid, but the engine refuses it: one of
    /// the two has a defect. Neither is believed.
    Contradicted {
        /// Index of the input.
        input: usize,
    },
    /// The engine could not do its work because memory was short.
    Engine,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MalformedTransaction => write!(f, "not a serialised transaction"),
            Self::SpentOutputCount { inputs, spent } => {
                write!(f, "{spent} spent outputs for {inputs} inputs")
            }
            Self::BadRange { start, end, inputs } => {
                write!(f, "inputs {start}..{end} of a transaction of {inputs} inputs")
            }
            Self::WitnessWithoutP2sh => write!(f, "script flag WITNESS without P2SH"),
            Self::Rejected { input } => write!(f, "script of input {input} failed"),
            Self::Contradicted { input } => {
                write!(
                    f,
                    "the signatures of input {input} hold, but Bitcoin Core's engine refuses it"
                )
            }
            Self::Engine => write!(f, "the script engine failed"),
        }
    }
}

impl Error for ScriptError {}
