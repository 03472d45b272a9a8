//! What is said of a block that was handed in.

use crate::reject::Reject;

/// The verdict on a block. Chain, engine and program have this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was connected; it is or was the tip.
    Connected,
    /// It is stored; whether it is valid shows when it is connected.
    Stored,
    /// It was stored before.
    Duplicate,
    /// The bytes are no block.
    Undecodable,
    /// It breaks a rule.
    Rejected(Reject),
}
