//! The godwit node: everything that touches the world outside — arguments, files, clock, log,
//! signals — around the crates that do the work.

pub mod exit;
pub mod log_format;
pub mod options;
pub mod progress;
