//! Script verification: in the lanes of vector registers where signatures alone decide, and by Bitcoin Core's
//! own engine otherwise.
//!
//! ```text
//! Scripts::verify          parts of blocks in, for each the first input that fails out
//!   |-- claim()            spent output, input, witness, flags -> a Claim, or nothing
//!   |     |-- forms        which scripts are taken, and what each demands
//!   |     '-- sighash      the messages that signatures sign
//!   |-- ClaimQueue         claims -> checks of godwit-verify, in batches and rounds -> proven or not
//!   '-- PreparedTx         what made no claim and what is not proven: Core's engine (godwit-engine)
//! ```
//!
//! # What decides
//!
//! A [`Claim`] is a statement about signatures from which it follows that Core's `VerifyScript` returns true.
//! [`claim`] makes one for the forms of output that nearly all coins have, and only if every condition that
//! Core's interpreter sets is met; the code checks them line by line, each with its source. In case of doubt
//! it makes none. Without a claim, or if a claim is not proven, the engine is asked, **and the engine alone
//! rejects**. So every input that is refused was refused by Core's engine, and what has to be trusted is that
//! no claim is made and proven for an input that the engine would refuse.

#![warn(missing_docs)]

mod claim;
mod forms;
mod hashes;
mod losses;
mod multisig;
mod pushes;
mod queue;
mod sighash;
mod spending_tx;
mod taproot;
#[cfg(test)]
mod tests;
mod verify;

pub use claim::{Claim, claim};
pub use godwit_engine::{
    ENGINE_MEMORY_BYTES, PreparedTx, ScriptError, SpentOutput, broken_rule, verify_transaction,
};
pub use godwit_verify::{BackendKind, Counts as CheckCounts};
pub use multisig::{MatchOrder, Multisig};
pub use queue::{ClaimQueue, Proof};
pub use spending_tx::{Precomputed, SpendingTx};
pub use verify::{Counts, Group, Proofs, Scripts, Verdict, Work};
