//! Script verification by Bitcoin Core's own engine, through the `bitcoinkernel` crate.
//!
//! Everything that blocks are judged by goes through [`PreparedTx`]: it parses a serialised transaction once,
//! keeps what the engine shares between its inputs, and verifies single inputs or ranges of them from any
//! thread. [`verify_transaction`] does the same in one call. [`check_policy`] tells what Core's nodes would
//! not relay; no block is judged by it.
//!
//! The engine's objects for a transaction may take fifty times its size. [`ENGINE_MEMORY`] bounds them for
//! all threads: the functions take their permits themselves, and whoever makes a [`PreparedTx`] for a block
//! takes one before. The signer has one thread and judges what it made itself, so it takes no permits.
//!
//! The engine asserts its preconditions and would abort the process if one did not hold. This crate checks
//! every one of them before the call, so no bytes and no flags reach an assertion. The tests are those of
//! `godwit-script`, which is built on this crate; those of [`check_policy`] are beside it.

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
