//! What the rules over coins ask of a transaction by itself.

use godwit_primitives::Amount;

/// What the rules over coins ask of a transaction by itself. Whoever has it need not walk over the
/// transaction's bytes once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxFacts {
    /// The sum of its outputs.
    pub(crate) value_out: Amount,
    /// Signature operations of its own scripts ([`legacy_sigop_count`](crate::legacy_sigop_count)).
    pub(crate) own_sigops: u32,
    /// Whether any input has a relative lock time (BIP68).
    pub(crate) is_locked: bool,
}
