//! Ways in which the user has not agreed.

use std::fmt;

/// Why an operation is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disagreement {
    /// `-yes` names another operation.
    Other,
    /// The user did not answer with the word.
    No,
    /// There is no terminal, and no `-yes`.
    NobodyToAsk,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Other => "-yes names something else",
            Self::No => "you did not agree",
            Self::NobodyToAsk => "there is no terminal to ask at; see -yes",
        })
    }
}
