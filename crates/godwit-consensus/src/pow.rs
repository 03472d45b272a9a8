//! Proof of work: targets, retargets, and work as time.
//!
//! Source: Core `pow.cpp`, `chain.cpp` (`GetBlockProofEquivalentTime`).

use ethnum::U256;
use godwit_primitives::network::Params;
use godwit_primitives::work::{block_proof, compact_target, expand_target, hash_value};
use godwit_primitives::{BlockHash, Work};

use crate::prev_context::PrevContext;

/// A target is positive, fits 256 bits and is not above the network's limit.
pub fn derive_target(bits: u32, pow_limit: U256) -> Option<U256> {
    let expanded = expand_target(bits);
    let valid = !expanded.negative
        && !expanded.overflow
        && expanded.target != U256::ZERO
        && expanded.target <= pow_limit;
    valid.then_some(expanded.target)
}

/// The hash, as a little-endian number, is not above the target that the header claims.
pub fn check_proof_of_work(hash: &BlockHash, bits: u32, params: &Params) -> bool {
    derive_target(bits, params.pow_limit).is_some_and(|target| hash_value(hash) <= target)
}

/// The compact target that a block of time `time` on top of `prev` must have.
///
/// Within a period it is the predecessor's, or what the 20-minute rule says where the network has it;
/// the first block of a period is retargeted, under BIP94 from the target of the period's first block
/// instead of the last.
pub fn next_work_required(prev: &PrevContext<'_>, time: u32, params: &Params) -> u32 {
    let interval = params.difficulty_adjustment_interval();
    if !(prev.height + 1).is_multiple_of(interval) {
        if params.allow_min_difficulty {
            return min_difficulty_target(prev, time, params);
        }
        return prev.header.bits;
    }
    if params.no_retargeting {
        return prev.header.bits;
    }
    let first = (prev.ancestor)(prev.height + 1 - interval);
    // BIP94: the first block of a period cannot use the 20-minute rule, so its target is real.
    let base = if params.enforce_bip94 { first.bits } else { prev.header.bits };
    retarget(base, i64::from(prev.header.time) - i64::from(first.time), params)
}

/// The 20-minute rule: a block more than twice the target spacing after its predecessor has the
/// easiest target; another one has that of the last block of the period that did not use the rule.
///
/// Asks for ancestors one by one downwards, at most a period.
fn min_difficulty_target(prev: &PrevContext<'_>, time: u32, params: &Params) -> u32 {
    let limit = compact_target(params.pow_limit);
    if i64::from(time) > i64::from(prev.header.time) + 2 * i64::from(params.pow_target_spacing) {
        return limit;
    }
    let interval = params.difficulty_adjustment_interval();
    let mut height = prev.height;
    let mut bits = prev.header.bits;
    while !height.is_multiple_of(interval) && bits == limit {
        height -= 1;
        bits = (prev.ancestor)(height).bits;
    }
    bits
}

/// A new target is the old one times the seconds that the period took, clamped to a quarter and four
/// times of what it should take, over what it should take; never above the limit.
///
/// The seconds run from the period's first to its last block: one spacing is missing, by an old
/// mistake that is consensus.
pub fn retarget(bits: u32, actual_timespan: i64, params: &Params) -> u32 {
    let expected = i64::from(params.pow_target_timespan);
    let clamped = actual_timespan.clamp(expected / 4, expected * 4);
    // The product of a target within the limit fits; Core's arithmetic wraps beyond.
    let target = expand_target(bits).target.wrapping_mul(U256::from(clamped.unsigned_abs()))
        / U256::from(params.pow_target_timespan);
    compact_target(target.min(params.pow_limit))
}

/// Whether a block at `height` may claim `new_bits` after one that claimed `old_bits`, whatever their
/// times: within a period nothing changes, and a retarget is at most by a factor of four.
///
/// Necessary, not sufficient: for headers whose ancestors are not kept. Networks with the 20-minute
/// rule permit everything (Core `PermittedDifficultyTransition`).
pub fn permitted_difficulty_transition(
    height: u32,
    old_bits: u32,
    new_bits: u32,
    params: &Params,
) -> bool {
    if params.allow_min_difficulty {
        return true;
    }
    if !height.is_multiple_of(params.difficulty_adjustment_interval()) {
        return old_bits == new_bits;
    }
    let extreme = |timespan| expand_target(retarget(old_bits, timespan, params)).target;
    let new = expand_target(new_bits).target;
    // The timespan is clamped to the extremes.
    (extreme(i64::MIN)..=extreme(i64::MAX)).contains(&new)
}

/// Seconds that the network takes, at the difficulty of `tip_bits`, for the work between two blocks;
/// negative where `to` has less work than `from`. Saturates at ±`i64::MAX`.
pub fn proof_equivalent_time(to: Work, from: Work, tip_bits: u32, params: &Params) -> i64 {
    let (difference, sign) = if to > from { (to - from, 1) } else { (from - to, -1) };
    let hashes = difference.wrapping_mul(U256::from(params.pow_target_spacing));
    let seconds = hashes.checked_div(block_proof(tip_bits)).unwrap_or(U256::MAX);
    sign * i64::try_from(seconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
