//! Makes Bitcoin Core's data directory from godwit's, so that `bitcoind` can start on it at once, and reads
//! Core's coins, to compare them with godwit's.
//!
//! A [`Plan`] is made from the index of the source; [`hand_over`] carries it out. [`Chainstate`] reads Core's
//! coins. What happens to block and undo files, and why, is in `docs/hand-over.md`.

mod chainstate;
mod error;
mod leveldb;
mod line;
mod make;
mod plan;
mod record;
mod target;

pub use chainstate::{Chainstate, CoinsRead};
pub use error::{HandOverError, Missing};
pub use leveldb::LevelDbError;
pub use make::{HandedOver, Settings, Step, hand_over};
pub use plan::Plan;
pub use target::{HANDED_OVER, check_apart};

#[cfg(test)]
mod tests;
