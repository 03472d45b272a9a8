//! Bitcoin's consensus rules, all but the scripts, as small pure functions.
//!
//! Inputs arrive resolved: blocks as [`godwit_primitives`] views, ancestors and median times through
//! closures, spent coins as slices. Nothing here reads a store, a clock or a socket. A rule's
//! documentation is the sentence that it enforces, with its BIP and Core's reject reason.
//!
//! A block passes these phases, in this order:
//!
//! 1. [`check_header`], [`contextual_check_header`]: the header by itself, and on top of its
//!    predecessor;
//! 2. [`check_block`]: the block by itself;
//! 3. [`contextual_check_block`]: the block on top of its predecessor;
//! 4. the rules over the coins that it spends, in the order that [`connect`] gives.
//!
//! The order of the rules within a phase is Core's, so that a block that breaks several is rejected
//! for the same reason.

#![warn(missing_docs)]

mod assume_valid;
mod block;
pub mod connect;
#[cfg(test)]
mod fixtures;
mod header;
mod limits;
mod pow;
mod prev_context;
mod reject;
mod script;
mod sequence_lock;
mod signet;
mod sigops;
mod tx;
mod tx_facts;
mod verdict;
mod witness;

pub use assume_valid::{AssumedBlock, ScriptCheckContext, ScriptCheckReason, script_check_reason};
pub use block::{PlaceFacts, check_and_sum_up_block, check_block, contextual_check_block};
pub use connect::{
    add_fee, check_coinbase_amount, enforces_bip30, is_bip30_repeat, is_bip30_unspendable,
    script_flags, sigop_cost_within_limit,
};
pub use header::{check_header, contextual_check_header, median_time_past};
pub use limits::{
    BIP34_IMPLIES_BIP30_LIMIT, COINBASE_MATURITY, LOCKTIME_THRESHOLD, MAX_BLOCK_SIGOPS_COST,
    MAX_BLOCK_WEIGHT, MAX_FUTURE_BLOCK_TIME, MAX_TIMEWARP, MEDIAN_TIME_SPAN, WITNESS_SCALE_FACTOR,
};
pub use pow::{
    check_proof_of_work, derive_target, next_work_required, permitted_difficulty_transition,
    proof_equivalent_time, retarget,
};
pub use prev_context::PrevContext;
pub use reject::{Reject, RejectReason, ResultClass};
pub use sequence_lock::{is_time_locked, sequence_locks_met};
pub use signet::{SOLUTION_FLAGS, SignetSpend, signet_spend};
pub use sigops::{legacy_sigop_count, sigop_cost};
pub use tx::{check_transaction, check_tx_inputs, is_final};
pub use tx_facts::TxFacts;
pub use verdict::Verdict;
pub use witness::{check_witnesses, commitment_output};
