//! When the scripts of a block need not run because a later block is assumed to be valid.
//!
//! Source: Core `validation.cpp` (`ConnectBlock`).

use std::fmt;

use godwit_primitives::Work;
use godwit_primitives::network::Params;

use crate::pow::proof_equivalent_time;

/// Work that must lie between the block and the best header, as time, in seconds.
const TWO_WEEKS: i64 = 60 * 60 * 24 * 7 * 2;

/// Why the scripts of a block run; the text is Core's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptCheckReason {
    /// No block is assumed to be valid.
    AlwaysVerify,
    /// The assumed block's header is not known.
    NotInHeaders,
    /// The block is above the assumed one.
    AboveAssumedHeight,
    /// The block is not an ancestor of the assumed one.
    NotInAssumedChain,
    /// The block is not an ancestor of the best header.
    NotInBestHeaderChain,
    /// The best header has less than the network's minimum work.
    BestHeaderLowWork,
    /// Less than two weeks of work lie above the block.
    TooRecent,
}

impl fmt::Display for ScriptCheckReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlwaysVerify => "assumevalid=0 (always verify)",
            Self::NotInHeaders => "assumevalid hash not in headers",
            Self::AboveAssumedHeight => "block height above assumevalid height",
            Self::NotInAssumedChain => "block not in assumevalid chain",
            Self::NotInBestHeaderChain => "block not in best header chain",
            Self::BestHeaderLowWork => "best header chainwork below minimumchainwork",
            Self::TooRecent => "block too recent relative to best header",
        })
    }
}

/// What is known about the assumed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssumedBlock {
    /// `-assumevalid=0`.
    None,
    /// Its header is not known.
    Unknown,
    /// Its header is known.
    Known {
        /// Its height.
        height: u32,
        /// Whether the block to connect is its ancestor, or it.
        descends: bool,
    },
}

/// The block to connect and the best header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptCheckContext {
    /// Height of the block.
    pub height: u32,
    /// Work of the chain up to the block.
    pub chain_work: Work,
    /// Whether the block is an ancestor of the best header, or it.
    pub in_best_chain: bool,
    /// Work of the chain up to the best header.
    pub best_chain_work: Work,
    /// The best header's compact target.
    pub best_bits: u32,
}

/// Scripts are skipped (`None`) in an ancestor of the assumed block that is also an ancestor of the
/// best header, where that has `minimum_chain_work` and is more than two weeks of work above.
pub fn script_check_reason(
    assumed: AssumedBlock,
    block: &ScriptCheckContext,
    minimum_chain_work: Work,
    params: &Params,
) -> Option<ScriptCheckReason> {
    match assumed {
        AssumedBlock::None => return Some(ScriptCheckReason::AlwaysVerify),
        AssumedBlock::Unknown => return Some(ScriptCheckReason::NotInHeaders),
        AssumedBlock::Known { descends: true, .. } => {}
        AssumedBlock::Known { height, .. } if block.height > height => {
            return Some(ScriptCheckReason::AboveAssumedHeight);
        }
        AssumedBlock::Known { .. } => return Some(ScriptCheckReason::NotInAssumedChain),
    }
    if !block.in_best_chain {
        return Some(ScriptCheckReason::NotInBestHeaderChain);
    }
    if block.best_chain_work < minimum_chain_work {
        return Some(ScriptCheckReason::BestHeaderLowWork);
    }
    let above =
        proof_equivalent_time(block.best_chain_work, block.chain_work, block.best_bits, params);
    (above <= TWO_WEEKS).then_some(ScriptCheckReason::TooRecent)
}

#[cfg(test)]
mod tests;
