//! The godwit node: everything that touches the outside world — arguments, configuration, clock,
//! entropy, log, signals, sockets — around the crates that do the work.

mod chain_log;
mod core_sources;
mod descriptors;
mod failure;
mod hand_over;
mod import;
mod input_file;
pub mod log_format;
mod logging;
mod memory;
pub mod node;
mod open;
pub mod options;
mod process;
mod processor_time;
pub mod progress;
pub mod run;
mod screen;
mod service;
mod status;
mod utxo;
mod verdicts;
mod verify;
#[cfg(feature = "count-wipes")]
pub mod wipes;

/// How the process ends.
pub mod exit {
    pub use godwit_program::Exit;
}
