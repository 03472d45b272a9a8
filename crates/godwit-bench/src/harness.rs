//! How a figure comes about: epochs of many iterations, hardware counters around them, subjects that
//! take turns.
//!
//! A subject runs in this process or in a worker process; [`Runner`] is what both look like. Subjects
//! of one group take turns epoch by epoch, so that what disturbs the machine for a while disturbs all
//! of them, and a ratio is taken between epochs of the same turn.

pub mod callgrind;
pub mod counters;
pub mod epoch;
pub mod figures;
pub mod known_cost;
pub mod turns;
pub mod worker;

pub use counters::Counters;
pub use epoch::{Counts, Epoch, Subject};
pub use figures::Figures;
pub use turns::{Plan, Runner, take_turns};
pub use worker::{Worker, WorkerError};
