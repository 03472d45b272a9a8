//! The godwit node: everything that touches the world outside — arguments, files, clock, entropy,
//! log, signals — around the crates that do the work.

mod chain_log;
mod descriptors;
pub mod exit;
mod failure;
mod import;
pub mod keys;
pub mod log_format;
pub mod node;
pub mod options;
mod output;
pub mod panics;
mod process;
pub mod progress;
mod psbt;
pub mod run;
mod utxo;
mod verdicts;
#[cfg(feature = "count-wipes")]
pub mod wipes;
