//! How a figure comes about: epochs of many iterations, hardware counters around them, rounds in which
//! each subject has one epoch.
//!
//! A subject runs in this process or in a worker process; [`Runner`] is what both look like. Since the
//! subjects of one group alternate epoch by epoch, what disturbs the machine for a while disturbs all
//! of them, and a ratio is taken between epochs of the same round.

pub mod callgrind;
pub mod counters;
pub mod epoch;
pub mod figures;
pub mod known_cost;
pub mod rounds;
pub mod worker;

pub use counters::Counters;
pub use epoch::{Counts, Epoch, Subject};
pub use figures::Figures;
pub use rounds::{Plan, Runner, run_rounds};
pub use worker::{Worker, WorkerError};
