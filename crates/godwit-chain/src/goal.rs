//! The block to which the tip is to move, and whether the scripts of the blocks on the way run.

use godwit_consensus::{
    AssumedBlock, Reject, ScriptCheckContext, ScriptCheckReason, script_check_reason,
};
use godwit_primitives::BlockHash;
use godwit_primitives::network::Params;

use crate::index::BlockIndex;
use crate::tree::{NodeId, Validity};

/// See the module's documentation.
pub(crate) struct Goal {
    /// `-stopatheight`.
    stop_at_height: Option<u32>,
    /// Only blocks that an earlier run verified are connected.
    known_only: bool,
    /// The last block that an earlier run verified, until its coins are applied again.
    replay: Option<NodeId>,
    /// The block below which scripts are taken as valid (`-assumevalid`).
    assume_valid: Option<BlockHash>,
    /// Whether scripts run, as the log said last.
    said: Option<bool>,
    /// Whether the driver fetches lost blocks.
    copies_come: bool,
    /// The block that gets a second look, and why the first look refused it.
    second_look: Option<(NodeId, Reject)>,
}

impl Goal {
    pub(crate) fn new(stop_at_height: Option<u32>, assume_valid: Option<BlockHash>) -> Self {
        Self {
            stop_at_height,
            known_only: false,
            replay: None,
            assume_valid,
            said: None,
            copies_come: false,
            second_look: None,
        }
    }

    /// The block that is to become the tip; `None` if `applied` is that block, or is valid and as high as the
    /// chain may go. Nothing is applied on top of a block that gets a second look.
    pub(crate) fn target(&self, index: &BlockIndex, applied: NodeId) -> Option<NodeId> {
        let best = if self.known_only { self.replay } else { index.best() }?;
        let doubted = self.doubted().filter(|id| index.tree().is_ancestor(*id, best));
        let target = doubted.unwrap_or(best);
        let moves = || !self.is_reached(index, applied) || index.node(applied).failed;
        (target != applied && moves()).then_some(target)
    }

    /// The block that gets a second look, if it is on the way.
    pub(crate) fn doubted(&self) -> Option<NodeId> {
        self.second_look.map(|(id, _)| id)
    }

    /// Takes note of a refused block. Returns whether this was its first look, so that a second one follows.
    pub(crate) fn doubt(&mut self, id: NodeId, reject: Reject) -> bool {
        let is_first = self.doubted() != Some(id);
        self.second_look = is_first.then_some((id, reject));
        is_first
    }

    /// Takes note of a valid block. Returns the first look's reason for refusing it, if this was the second
    /// look.
    pub(crate) fn clear_doubt(&mut self, id: NodeId) -> Option<Reject> {
        self.second_look.take_if(|(doubted, _)| *doubted == id).map(|(_, reject)| reject)
    }

    /// Whether connecting has reached `-stopatheight`.
    pub(crate) fn is_reached(&self, index: &BlockIndex, applied: NodeId) -> bool {
        self.stop_at_height.is_some_and(|stop| index.height(applied) >= stop)
    }

    pub(crate) fn connect_known_only(&mut self) {
        self.known_only = true;
    }

    pub(crate) fn replay(&self) -> Option<NodeId> {
        self.replay
    }

    pub(crate) fn set_replay(&mut self, replay: Option<NodeId>) {
        self.replay = replay;
    }

    /// Takes note that blocks have failed: a replay ends below them.
    pub(crate) fn note_failed(&mut self, index: &BlockIndex) {
        let tree = index.tree();
        let last = self.replay.map(|last| tree.last_valid(last));
        self.replay = last.filter(|last| !tree.is_ancestor(*last, index.tip()));
    }

    /// From now on, lost blocks are fetched again.
    pub(crate) fn expect_copies(&mut self) {
        self.copies_come = true;
    }

    pub(crate) fn copies_come(&self) -> bool {
        self.copies_come
    }

    /// Takes note of a connected block. A replay ends with its last block, or with the first one that was not
    /// verified before.
    pub(crate) fn note_connected(&mut self, index: &BlockIndex, id: NodeId, verified_before: bool) {
        if self.replay.is_some_and(|last| last == id || !verified_before) {
            self.replay = None;
            log::info!("Replay done at height {}.", index.height(id));
        }
    }

    /// Why the scripts of a block have to run; `None` if they ran before or were skipped then, or if Core
    /// would skip them below the assumed block. (Core does not ask what was before: a block that is
    /// connected again with another `-assumevalid` runs its scripts there. Here a block that was connected
    /// is not judged again; `-reindex` and `verify -audit` do that.)
    pub(crate) fn scripts_for(
        &self,
        index: &BlockIndex,
        params: &Params,
        id: NodeId,
    ) -> Option<ScriptCheckReason> {
        let ran = index.node(id).validity == Validity::Scripts;
        if ran { None } else { script_reason(index, params, self.assume_valid, id) }
    }

    /// Whether Core would skip the scripts of a block.
    pub(crate) fn skips_scripts(&self, index: &BlockIndex, params: &Params, id: NodeId) -> bool {
        script_reason(index, params, self.assume_valid, id).is_none()
    }

    /// The block below which scripts are taken as valid.
    pub(crate) fn assume_valid(&self) -> Option<BlockHash> {
        self.assume_valid
    }

    /// Logs when scripts start or stop running, ignoring blocks whose scripts ran in an earlier run.
    pub(crate) fn log_script_change(
        &mut self,
        index: &BlockIndex,
        id: NodeId,
        reason: Option<ScriptCheckReason>,
    ) {
        let runs = reason.is_some();
        if index.node(id).validity == Validity::Scripts || self.said == Some(runs) {
            return;
        }
        self.said = Some(runs);
        let godwit_store::ChainPoint { hash, height } = index.point(id);
        match reason {
            Some(reason) => {
                log::info!("Enabling script verification at block #{height} ({hash}): {reason}.");
            }
            None => log::info!("Disabling script verification at block #{height} ({hash})."),
        }
    }
}

/// Why the scripts of a block have to run, whether or not they ever did, with a block below which they are
/// taken as valid; `None` if Core would skip them.
pub(crate) fn script_reason(
    index: &BlockIndex,
    params: &Params,
    assume_valid: Option<BlockHash>,
    id: NodeId,
) -> Option<ScriptCheckReason> {
    let (node, tree) = (index.node(id), index.tree());
    let assumed = match assume_valid {
        None => AssumedBlock::None,
        Some(hash) => match tree.find(&hash) {
            None => AssumedBlock::Unknown,
            Some(assumed) => AssumedBlock::Known {
                height: tree.node(assumed).height,
                descends: tree.is_ancestor(id, assumed),
            },
        },
    };
    let best = tree.best_header();
    let context = ScriptCheckContext {
        height: node.height,
        in_best_chain: tree.is_ancestor(id, best),
        chain_work: tree.chain_work(id),
        best_chain_work: tree.chain_work(best),
        best_bits: tree.node(best).header.bits,
    };
    script_check_reason(assumed, &context, params.minimum_chain_work, params)
}
