//! Rules for a block: by itself, and on top of its predecessor.
//!
//! Source: Core `validation.cpp` (`CheckBlock`, `ContextualCheckBlock`).

use godwit_primitives::merkle::merkle_root;
use godwit_primitives::network::{Deployment, Params};
use godwit_primitives::{BlockView, TxView};

use crate::header::check_header;
use crate::limits::{MAX_BLOCK_SIGOPS_COST, MAX_BLOCK_WEIGHT, WITNESS_SCALE_FACTOR};
use crate::prev_context::PrevContext;
use crate::reject::{Reject, RejectReason, ensure};
use crate::script::HeightPush;
use crate::signet::{SignetSpend, signet_spend};
use crate::tx::{LockTimes, check_and_sum_up};
use crate::tx_facts::TxFacts;
use crate::witness::check_witnesses;

/// The rules that need nothing but the block (Core `CheckBlock`). `verify_solution` runs the script
/// of a signet solution under [`SOLUTION_FLAGS`](crate::SOLUTION_FLAGS), and is not called on other
/// networks.
pub fn check_block(
    block: BlockView<'_>,
    params: &Params,
    verify_solution: impl FnOnce(&SignetSpend<'_>) -> bool,
) -> Result<(), Reject> {
    check_and_sum_up_block(block, params, verify_solution).map(drop)
}

/// [`check_block`], and the facts of each transaction: one walk over the block's bytes gives both.
pub fn check_and_sum_up_block(
    block: BlockView<'_>,
    params: &Params,
    verify_solution: impl FnOnce(&SignetSpend<'_>) -> bool,
) -> Result<Vec<TxFacts>, Reject> {
    check_header(&block.hash(), block.header(), params)?;
    signed_on_signet(block, params, verify_solution)?;
    transactions_match_header(block)?;
    fits_without_witness(block)?;
    only_first_is_coinbase(block)?;
    transactions_are_valid(block)
}

/// What the rules of [`contextual_check_block`] ask of all transactions: a pass over the block and the hashes
/// of its witnesses, which need not wait until the block's place is known.
#[derive(Clone, Copy, Debug)]
pub struct PlaceFacts {
    lock_times: LockTimes,
    /// Whether the rules about witnesses hold, before BIP141 and under it.
    witnesses: [Result<(), Reject>; 2],
}

impl PlaceFacts {
    /// Those of a block that has a transaction.
    pub fn of(block: BlockView<'_>) -> Self {
        let lock_times = block.txs().fold(LockTimes::default(), LockTimes::with);
        Self { lock_times, witnesses: [false, true].map(|segwit| check_witnesses(block, segwit)) }
    }
}

/// The rules for a block on top of `prev`, its coins aside (Core `ContextualCheckBlock`). The block
/// has passed [`check_block`]; `facts` are its own.
pub fn contextual_check_block(
    block: BlockView<'_>,
    facts: &PlaceFacts,
    prev: &PrevContext<'_>,
    params: &Params,
) -> Result<(), Reject> {
    let height = prev.height + 1;
    transactions_are_final(block, &facts.lock_times, prev, params)?;
    starts_with_height(block.tx(0), height, params)?;
    facts.witnesses[usize::from(params.is_active(Deployment::Segwit, height))]?;
    fits_with_witness(block)
}

/// BIP325: a signet block, but for the first, holds a solution of the network's challenge
/// (`bad-signet-blksig`).
fn signed_on_signet(
    block: BlockView<'_>,
    params: &Params,
    verify_solution: impl FnOnce(&SignetSpend<'_>) -> bool,
) -> Result<(), Reject> {
    let Some(challenge) = params.signet_challenge.as_deref() else { return Ok(()) };
    let valid = block.hash() == params.genesis_hash
        || signet_spend(block, challenge).is_some_and(|spend| verify_solution(&spend));
    ensure(valid, RejectReason::BadSignetBlksig)
}

/// The txids hash to the header's merkle root (`bad-txnmrklroot`), and no run of them is repeated in
/// the way that leaves the root unchanged (`bad-txns-duplicate`, CVE-2012-2459).
fn transactions_match_header(block: BlockView<'_>) -> Result<(), Reject> {
    let (root, mutated) = merkle_root(block.txids().iter().map(|txid| txid.to_bytes()));
    ensure(root == block.header().merkle_root.to_bytes(), RejectReason::BadTxnMrklRoot)?;
    ensure(!mutated, RejectReason::BadTxnsDuplicate)
}

/// A block has transactions, and at most a million bytes without its witnesses (`bad-blk-length`).
///
/// Core also limits the transactions to a million, which those bytes cannot hold.
fn fits_without_witness(block: BlockView<'_>) -> Result<(), Reject> {
    let weight = block.stripped_size() as u64 * WITNESS_SCALE_FACTOR;
    ensure(block.tx_count() != 0 && weight <= MAX_BLOCK_WEIGHT, RejectReason::BadBlkLength)
}

/// The first transaction is a coinbase (`bad-cb-missing`), the others are not (`bad-cb-multiple`).
fn only_first_is_coinbase(block: BlockView<'_>) -> Result<(), Reject> {
    ensure(block.tx(0).is_coinbase(), RejectReason::BadCbMissing)?;
    ensure(!block.txs().skip(1).any(|tx| tx.is_coinbase()), RejectReason::BadCbMultiple)
}

/// Each transaction is valid by itself, and their own scripts have at most 20,000 signature
/// operations (`bad-blk-sigops`).
///
/// One pass over the block's bytes; a transaction's reason still goes before that of the sum.
fn transactions_are_valid(block: BlockView<'_>) -> Result<Vec<TxFacts>, Reject> {
    let mut fingerprints = Vec::new();
    let facts: Vec<TxFacts> =
        block.txs().map(|tx| check_and_sum_up(tx, &mut fingerprints)).collect::<Result<_, _>>()?;
    let sigops: u64 = facts.iter().map(|facts| u64::from(facts.own_sigops)).sum();
    let cost = sigops * WITNESS_SCALE_FACTOR;
    ensure(cost <= MAX_BLOCK_SIGOPS_COST, RejectReason::BadBlkSigops)?;
    Ok(facts)
}

/// Each transaction's lock time is reached at the block's height and at its time, or the median time
/// past of its predecessor under BIP113 (`bad-txns-nonfinal`).
fn transactions_are_final(
    block: BlockView<'_>,
    lock_times: &LockTimes,
    prev: &PrevContext<'_>,
    params: &Params,
) -> Result<(), Reject> {
    let height = prev.height + 1;
    let time = if params.is_active(Deployment::Csv, height) {
        prev.median_time_past
    } else {
        block.header().time
    };
    ensure(lock_times.are_reached(height, time), RejectReason::TxnsNonfinal)
}

/// BIP34: the coinbase's input script starts with the block's height (`bad-cb-height`).
fn starts_with_height(coinbase: TxView<'_>, height: u32, params: &Params) -> Result<(), Reject> {
    let applies = params.is_active(Deployment::HeightInCoinbase, height);
    let expected = HeightPush::new(height);
    let holds = coinbase
        .inputs()
        .next()
        .is_some_and(|input| input.script_sig.starts_with(expected.as_slice()));
    ensure(!applies || holds, RejectReason::BadCbHeight)
}

/// BIP141: a block weighs at most 4,000,000 (`bad-blk-weight`).
fn fits_with_witness(block: BlockView<'_>) -> Result<(), Reject> {
    ensure(block.weight() as u64 <= MAX_BLOCK_WEIGHT, RejectReason::BadBlkWeight)
}

#[cfg(test)]
mod tests;
