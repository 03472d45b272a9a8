//! Hashes of coins in the order in which Core prints them.

use std::fmt;

/// A hash in the order in which it was computed.
pub(crate) struct Reversed<'a>(pub(crate) &'a [u8; 32]);

impl fmt::Display for Reversed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().rev().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
