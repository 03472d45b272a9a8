//! Measures: epochs of many iterations with hardware counters around them, and rounds in which each subject
//! has one epoch.
//!
//! A subject runs in this process or in a worker process; [`Runner`] is the interface to both. The subjects
//! of one group alternate epoch by epoch, so that a disturbance of the machine affects all of them, and
//! ratios are taken between epochs of the same round.

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
