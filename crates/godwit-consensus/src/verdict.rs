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

impl Verdict {
    /// The word of BIP22 for it, as Core's `submitblock` replies, but for the broken script rule. Of a
    /// connected block BIP22 says nothing, and this is "accept"; of bytes that are no block Core replies
    /// with an error of this text.
    pub fn bip22_word(self) -> String {
        match self {
            Self::Connected => "accept".into(),
            Self::Stored => "inconclusive".into(),
            Self::Duplicate => "duplicate".into(),
            Self::Undecodable => "Block decode failed".into(),
            Self::Rejected(reject) => reject.reason.to_string(),
        }
    }
}
