//! Script verification by Bitcoin Core's own engine, through the `bitcoinkernel` crate.
//!
//! [`PreparedTx`] is the only door for what blocks are judged by: it parses a serialised transaction once,
//! keeps what the engine shares between its inputs, and answers for single inputs or ranges of them from any
//! thread. [`verify_transaction`] is the same in one call. [`check_policy`] is the door for what Core's nodes
//! would not relay; no block is judged by it.
//!
//! What the engine makes of a transaction may be fifty times its size. [`ENGINE_MEMORY`] bounds it for all
//! threads: the functions take their permits themselves, and who makes a [`PreparedTx`] for a block takes one
//! before. The signer, which has one thread and judges what it made itself, takes none for its own.
//!
//! The engine asserts its preconditions and would abort the process where one does not hold. Every
//! one of them is checked here before the call, so no bytes and no flags reach an assertion. The tests
//! are those of `godwit-script`, which is built on this crate; those of [`check_policy`] are beside it.

#![warn(missing_docs)]

mod blanked;
#[cfg(target_os = "linux")]
mod clock;
mod error;
mod free_memory;
mod memory;
mod policy;
mod prepared;

pub use error::ScriptError;
pub use free_memory::release_free_memory;
pub use memory::{ENGINE_MEMORY, ENGINE_MEMORY_BYTES, EngineMemory, EnginePermit};
pub use policy::{PolicyRefusal, PolicyStage, broken_rule, check_policy};
pub use prepared::{PreparedTx, SpentOutput, verify_transaction};
