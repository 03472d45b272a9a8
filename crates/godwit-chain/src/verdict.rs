//! The verdict on a block.

use godwit_consensus::Reject;

/// The verdict on a block that was handed in, as Core's `submitblock` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Connected; it is or was the tip.
    Accepted,
    /// Stored, and not itself judged as the new tip.
    Inconclusive,
    /// Stored before.
    Duplicate,
    /// The bytes are no block.
    Undecodable,
    /// It breaks a rule.
    Rejected(Reject),
}
