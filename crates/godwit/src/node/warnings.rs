//! The `warnings` of RPC: those of Bitcoin Core that follow from the chain and the clock. Core stores texts
//! and removes them again; here they are derived from the state whenever they are requested.

use godwit_chain::{HeaderTree, NodeId};
use godwit_primitives::work::block_proof;
use godwit_primitives::{Network, Params};

/// Seconds by which the clocks of peers may differ from ours (Core `TimeOffsets::WARN_THRESHOLD`).
const CLOCK_TOLERANCE: u64 = 10 * 60;

/// An invalid chain is a reason to worry when it has more work than the tip and so many blocks like it.
const BLOCKS_AHEAD: u64 = 6;

/// Bits of a version that can ask for a change of rules, the lowest ones (Core `VERSIONBITS_NUM_BITS`; miners
/// may use the others for themselves).
const BITS: usize = 5;
/// What a version is that does so, and in which bits it shows (BIP9).
const TOP: u32 = 0x2000_0000;
const TOP_MASK: u32 = 0xe000_0000;

/// See the module's documentation.
pub(super) struct Warnings {
    /// The invalid block with the most work, of those that were found so (Core `m_best_invalid`).
    best_invalid: Option<NodeId>,
    rules: UnknownRules,
}

impl Warnings {
    /// Those of a chain as it was left. As in Core, any block that was invalid before counts.
    pub(super) fn of(tree: &HeaderTree, params: &Params) -> Self {
        let failed = tree.ends().filter(|end| tree.node(*end).failed);
        let best_invalid = failed.max_by_key(|end| tree.chain_work(*end));
        Self { best_invalid, rules: UnknownRules::new(params) }
    }

    /// A block was found to be invalid. What is stored above it is invalid with it, and counts; what is not,
    /// does not (Core `FindMostWorkChain`).
    pub(super) fn note_invalid(&mut self, tree: &HeaderTree, tip: NodeId, block: NodeId) {
        let above = tree.ends().filter(|end| tree.is_ancestor(block, *end));
        let best = above.map(|end| last_stored(tree, block, end));
        let before = self.best_invalid;
        self.best_invalid = before.into_iter().chain(best).max_by_key(|id| tree.chain_work(*id));
        if self.best_invalid != before && self.is_behind_invalid(tree, tip) {
            log::warn!("{}", &INVALID_CHAIN["Warning: ".len()..]);
        }
    }

    /// The operator takes a block for invalid: it alone counts, and what was left with it does not.
    pub(super) fn note_taken_for_invalid(&mut self, tree: &HeaderTree, block: NodeId) {
        let known = self.best_invalid.into_iter().chain([block]);
        self.best_invalid = known.max_by_key(|id| tree.chain_work(*id));
    }

    /// Blocks may be valid again.
    pub(super) fn note_reconsidered(&mut self, tree: &HeaderTree) {
        self.best_invalid = self.best_invalid.filter(|id| tree.node(*id).failed);
    }

    /// A block was connected, and the chain is up to date.
    pub(super) fn note_tip(&mut self, tree: &HeaderTree, tip: NodeId) {
        self.rules.note_tip(tree, tip);
    }

    /// In Core's words and order. `clock_offset` is by how many seconds the clocks of peers are ahead.
    pub(super) fn texts(&self, tree: &HeaderTree, tip: NodeId, clock_offset: i64) -> Vec<String> {
        let rules = self.rules.active.map(unknown_rules);
        let invalid = self.is_behind_invalid(tree, tip).then(|| INVALID_CHAIN.to_owned());
        rules.into_iter().chain(invalid).chain(of_clock(clock_offset)).collect()
    }

    fn is_behind_invalid(&self, tree: &HeaderTree, tip: NodeId) -> bool {
        let ahead = block_proof(tree.node(tip).header.bits) * u128::from(BLOCKS_AHEAD);
        self.best_invalid.is_some_and(|id| tree.chain_work(id) > tree.chain_work(tip) + ahead)
    }
}

const INVALID_CHAIN: &str = "Warning: Found invalid chain more than 6 blocks longer than our best chain. This could be due to \
     database corruption or consensus incompatibility with peers.";

fn unknown_rules(bit: u32) -> String {
    format!("Unknown new rules activated (versionbit {bit})")
}

/// Core `TimeOffsets::WarnIfOutOfSync`; the engine writes it to the log.
fn of_clock(offset: i64) -> Option<String> {
    (offset.unsigned_abs() > CLOCK_TOLERANCE).then(|| {
        format!(
            "Your computer's date and time appear to be more than {} minutes out of sync with the network, \
             this may lead to consensus failure. After you've confirmed your computer's clock, this message \
             should no longer appear when you restart your node. Without a restart, it should stop showing \
             automatically after you've connected to a sufficient number of new outbound peers, which may \
             take some time. You can inspect the `timeoffset` field of the `getpeerinfo` and `getnetworkinfo` \
             RPC methods to get more info.",
            CLOCK_TOLERANCE / 60
        )
    })
}

/// The last block on the way from `block` to `end` up to which all are stored, or `block`.
fn last_stored(tree: &HeaderTree, block: NodeId, end: NodeId) -> NodeId {
    let at = |height| tree.ancestor(end, height).expect("below the end");
    let (mut stored, mut not) = (tree.node(block).height, tree.node(end).height + 1);
    while not - stored > 1 {
        let middle = stored + (not - stored) / 2;
        *(if tree.node(at(middle)).has_chain() { &mut stored } else { &mut not }) = middle;
    }
    at(stored)
}

/// Changes of rules that blocks ask for and this program does not know (Core
/// `WarningBitsConditionChecker`). A change is locked in after a period of which enough blocks ask for it,
/// the first one excepted, and in force after one more.
struct UnknownRules {
    period: u32,
    threshold: u32,
    /// Blocks below it ask for changes that are known by now (Core `MinBIP9WarningHeight`).
    first_height: u32,
    /// The last period that was counted, by its last block, and the bits that it and those before lock in.
    counted: Option<(NodeId, u32)>,
    /// The bit of the first change that was found in force. As in Core, it stays until the end.
    active: Option<u32>,
}

impl UnknownRules {
    fn new(params: &Params) -> Self {
        let period = params.pow_target_timespan / params.pow_target_spacing;
        let (period, threshold) = match params.network {
            Network::Main => (2016, 1815),
            _ => (period, period / 4 * 3),
        };
        let first_height = match params.network {
            Network::Main => 711_648,
            Network::Testnet3 => 2_013_984,
            _ => 0,
        };
        Self { period, threshold, first_height, counted: None, active: None }
    }

    fn note_tip(&mut self, tree: &HeaderTree, tip: NodeId) {
        // Periods that are over, but for the last one, which locks in what is in force one period later.
        let over = (tree.node(tip).height + 1) / self.period;
        let Some(end) = (over.saturating_sub(1) * self.period).checked_sub(1) else { return };
        let end = tree.ancestor(tip, end).expect("not above the tip");
        if self.counted.is_some_and(|(counted, _)| counted == end) {
            return;
        }
        let bits = self.locked_in(tree, end);
        self.counted = Some((end, bits));
        if self.active.is_none() && bits != 0 {
            let bit = bits.trailing_zeros();
            log::warn!("{}", unknown_rules(bit));
            self.active = Some(bit);
        }
    }

    /// The bits that the periods up to this block lock in. Those that were counted are not counted again; all
    /// of them, for the first time, are some hundred thousand blocks of the main chain, read through memory.
    fn locked_in(&self, tree: &HeaderTree, end: NodeId) -> u32 {
        let (mut bits, mut last) = (0, end);
        loop {
            let height = tree.node(last).height;
            // What begins at the first block locks nothing in.
            if height < self.period || height < self.first_height {
                return bits;
            }
            if let Some((counted, before)) = self.counted
                && counted == last
            {
                return bits | before;
            }
            let (of_period, before) = self.count(tree, last);
            bits |= of_period;
            last = before;
        }
    }

    /// The bits for which enough blocks ask of the period that ends here, and the last block before it.
    fn count(&self, tree: &HeaderTree, last: NodeId) -> (u32, NodeId) {
        let (mut counts, mut walk) = ([0_u32; BITS], last);
        for _ in 0..self.period {
            let node = tree.node(walk);
            let version = node.header.version as u32;
            if version & TOP_MASK == TOP && node.height >= self.first_height {
                counts.iter_mut().enumerate().for_each(|(bit, count)| *count += version >> bit & 1);
            }
            walk = node.parent().expect("not the first period");
        }
        let is_enough = |(_, count): &(usize, &u32)| **count >= self.threshold;
        let bits =
            counts.iter().enumerate().filter(is_enough).fold(0, |bits, (n, _)| bits | 1 << n);
        (bits, walk)
    }
}

#[cfg(test)]
mod tests;
