//! Rules for a header on top of its predecessor.
//!
//! Source: Core `validation.cpp` (`CheckBlockHeader`, `ContextualCheckBlockHeader`).

use godwit_primitives::network::{Deployment, Params};
use godwit_primitives::{BlockHash, BlockHeader};

use crate::limits::{MAX_FUTURE_BLOCK_TIME, MAX_TIMEWARP, MEDIAN_TIME_SPAN};
use crate::pow::{check_proof_of_work, next_work_required};
use crate::prev_context::PrevContext;
use crate::reject::{Reject, RejectReason, ensure};

/// The median of the times of the last eleven blocks (BIP113): a block's own time and those of the
/// up to ten blocks below it, in any order. Of an even number the upper middle one counts.
///
/// # Panics
///
/// When `times` is empty or longer than eleven.
pub fn median_time_past(times: &[u32]) -> u32 {
    let mut sorted = [0; MEDIAN_TIME_SPAN];
    let sorted = &mut sorted[..times.len()];
    sorted.copy_from_slice(times);
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// The hash of a block does not exceed the target that it claims (`high-hash`).
pub fn check_header(hash: &BlockHash, header: &BlockHeader, params: &Params) -> Result<(), Reject> {
    ensure(check_proof_of_work(hash, header.bits, params), RejectReason::HighHash)
}

/// The rules for a header on top of `prev`; `now` is the clock in seconds since 1970.
pub fn contextual_check_header(
    header: &BlockHeader,
    prev: &PrevContext<'_>,
    params: &Params,
    now: i64,
) -> Result<(), Reject> {
    required_target(header, prev, params)?;
    later_than_median(header, prev)?;
    no_timewarp(header, prev, params)?;
    not_in_future(header, now)?;
    current_version(header, prev.height + 1, params)
}

/// A block claims the target that its ancestors and its time require (`bad-diffbits`).
fn required_target(
    header: &BlockHeader,
    prev: &PrevContext<'_>,
    params: &Params,
) -> Result<(), Reject> {
    let required = next_work_required(prev, header.time, params);
    ensure(header.bits == required, RejectReason::BadDiffbits)
}

/// A block is later than the median time past of its predecessor (`time-too-old`).
fn later_than_median(header: &BlockHeader, prev: &PrevContext<'_>) -> Result<(), Reject> {
    ensure(header.time > prev.median_time_past, RejectReason::TimeTooOld)
}

/// BIP94: the first block of a difficulty period is at most 600 seconds older than its predecessor
/// (`time-timewarp-attack`).
fn no_timewarp(
    header: &BlockHeader,
    prev: &PrevContext<'_>,
    params: &Params,
) -> Result<(), Reject> {
    let interval = params.difficulty_adjustment_interval();
    let applies = params.enforce_bip94 && (prev.height + 1).is_multiple_of(interval);
    let earliest = prev.header.time.saturating_sub(MAX_TIMEWARP);
    ensure(!applies || header.time >= earliest, RejectReason::TimeTimewarpAttack)
}

/// A block is at most two hours ahead of the clock (`time-too-new`).
fn not_in_future(header: &BlockHeader, now: i64) -> Result<(), Reject> {
    let latest = now.saturating_add(MAX_FUTURE_BLOCK_TIME);
    ensure(i64::from(header.time) <= latest, RejectReason::TimeTooNew)
}

/// A block's version, as a signed number, is at least 2 under BIP34, 3 under BIP66 and 4 under BIP65
/// (`bad-version`).
fn current_version(header: &BlockHeader, height: u32, params: &Params) -> Result<(), Reject> {
    let lowest =
        [(Deployment::HeightInCoinbase, 2), (Deployment::Dersig, 3), (Deployment::Cltv, 4)]
            .into_iter()
            .filter(|(deployment, _)| params.is_active(*deployment, height))
            .map(|(_, version)| version)
            .max();
    ensure(
        lowest.is_none_or(|lowest| header.version >= lowest),
        RejectReason::BadVersion(header.version),
    )
}

#[cfg(test)]
mod tests;
