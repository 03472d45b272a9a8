//! Decides whether a transaction may be in the next block, and whether Bitcoin Core's nodes would relay it.
//!
//! The rules are those of Core's mempool with its default options, in its order (`validation.cpp`,
//! `MemPoolAccept`), so that a transaction that breaks several is refused for the same reason. Those over
//! scripts and their kinds are Core's own functions, by way of `godwit-engine`. What godwit keeps instead of
//! a mempool, the outbox, arrives as a [`Pool`]; coins, heights and times arrive as arguments.
//!
//! Simpler than in Core, and never more lenient: a replacement has to have a higher fee rate than each
//! transaction that it replaces, also together with cheap ancestors that these have not (Core compares
//! fee-rate diagrams); a package replaces nothing; the only child of a version 3 transaction is not evicted
//! for another one.

mod dust;
mod fee_rate;
mod in_block;
mod judge;
mod package;
mod pool;
mod refusal;
mod replace;
mod truc;

pub use fee_rate::{FeeRate, RELAY_FEE};
pub use in_block::check_in_block;
pub use judge::{Judged, NextBlock, Pay, Terms, check_alone, judge};
pub use package::{
    MAX_PACKAGE, PackageRefusal, PackageVerdict, check_package, is_child_with_parents,
    judge_package,
};
pub use pool::{Pool, PoolTx};
pub use refusal::{Class, Refusal};
