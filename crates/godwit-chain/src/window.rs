//! The window: blocks that are applied to the coins and whose scripts still run, and the way back.
//!
//! Core does this in `ActivateBestChain`; the difference is that here the blocks of one branch
//! overlap. A change of branch waits until the window is empty, so that at most one branch is ever in
//! flight.
//!
//! ```text
//!                 tip                        applied
//!   connected ─────▼── verified? ── verified? ──▼── next in line
//!                     └───── the window ───────┘
//! ```
//!
//! A block that fails takes those above it back with it, last first, from coins that memory still
//! holds.

use std::collections::VecDeque;
use std::sync::Arc;

use godwit_consensus::{Reject, is_bip30_unspendable, script_flags};
use godwit_primitives::network::Deployment;
use godwit_store::utxo::UtxoStore;
use godwit_store::{BlockUndo, StoreError};

use crate::apply::{ApplyError, BlockRules, Mismatch, Resolved, SpentCoins, apply, unapply};
use crate::desk::Desk;
use crate::error::ChainError;
use crate::index::BlockIndex;
use crate::lookahead::Ready;
use crate::site::Site;
use crate::structure::Structured;
use crate::tree::NodeId;
use crate::verify::{Needs, Outcome, UndoFormat, Verified, VerifyError, verify};

/// Blocks applied whose scripts still run.
const WINDOW_BLOCKS: usize = 32;

/// Bytes of the coins that the blocks in the window spent, the last block aside.
const WINDOW_COIN_BYTES: usize = 64 << 20;

/// A block that is applied to the coins and not yet retired.
struct Applied {
    /// Tells its outcome from that of an earlier application of the same block.
    token: u64,
    resolved: Arc<Resolved>,
    /// Memory of the coins that it spent.
    coin_bytes: usize,
    outcome: Option<Outcome>,
}

/// The outcome of an applied block.
pub(crate) struct Answer {
    token: u64,
    outcome: Outcome,
}

/// What became of the block at the window's front.
pub(crate) enum Retired {
    /// It stands on the tip and is to be connected.
    Verified(Verified),
    /// It breaks a rule: its coins and those of the blocks above it are as they were before.
    TakenBack(NodeId, Reject),
}

/// See the module's documentation.
pub(crate) struct Window {
    blocks: VecDeque<Applied>,
    /// The last block that is applied to the coins.
    applied: NodeId,
    /// A block that could not be applied. It is judged when the window is empty: where an ancestor
    /// turns out to be invalid, nothing is said of it.
    refused: Option<(NodeId, Reject)>,
    /// The branch that is being switched to, once its blocks and the way to it are known to be
    /// there, and how often blocks had been pruned by then.
    checked_branch: Option<(NodeId, u32)>,
    next_token: u64,
    desk: Desk<Answer>,
}

impl Window {
    /// An empty window over the coins of block `applied`.
    pub(crate) fn new(applied: NodeId, desk: Desk<Answer>) -> Self {
        Self {
            blocks: VecDeque::new(),
            applied,
            refused: None,
            checked_branch: None,
            next_token: 0,
            desk,
        }
    }

    pub(crate) fn applied(&self) -> NodeId {
        self.applied
    }

    /// The coins are those of another block now.
    pub(crate) fn set_applied(&mut self, applied: NodeId) {
        assert!(self.blocks.is_empty(), "nothing is in flight");
        self.applied = applied;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        let bytes: usize = self.blocks.iter().map(|applied| applied.coin_bytes).sum();
        self.blocks.len() >= WINDOW_BLOCKS || bytes > WINDOW_COIN_BYTES
    }

    /// Whether a block was refused, and the blocks below it are still verified.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// The block that was refused, once everything below it is connected.
    pub(crate) fn take_refused(&mut self) -> Option<(NodeId, Reject)> {
        if self.blocks.is_empty() { self.refused.take() } else { None }
    }

    /// Applies a block to the coins and starts its verification, or takes note that it is refused.
    pub(crate) fn apply(
        &mut self,
        site: &Site,
        index: &BlockIndex,
        coins: &mut UtxoStore,
        ready: Ready,
        scripts: bool,
    ) -> Result<(), StoreError> {
        let Ready { id, block, prefetched } = ready;
        let tree = index.tree();
        let median_time_past = |height| {
            let block = tree.ancestor(id, height).expect("coins come from below the block");
            tree.median_time_past(block)
        };
        let node = index.node(id);
        let rules = BlockRules {
            height: node.height,
            flags: script_flags(node.height, &node.hash, &site.params),
            sequence_locks: site.params.is_active(Deployment::Csv, node.height),
            no_overwrite: index.enforces_bip30(id),
            prev_median_time_past: median_time_past(node.height - 1),
            median_time_past: &median_time_past,
            params: &site.params,
        };
        match apply(coins, id, block, prefetched, &rules) {
            Ok(resolved) => self.verify(site, index, resolved, scripts),
            Err(ApplyError::Rejected(reject)) => self.refused = Some((id, reject)),
            Err(ApplyError::Store(error)) => return Err(error),
        }
        Ok(())
    }

    fn verify(&mut self, site: &Site, index: &BlockIndex, resolved: Resolved, scripts: bool) {
        self.next_token += 1;
        let (token, id) = (self.next_token, resolved.id());
        let coin_bytes = resolved.spent().bytes();
        let resolved = Arc::new(resolved);
        let buffers = site.store.block_buffers().clone();
        let format = UndoFormat { magic: site.params.magic, buffers };
        let undo = index.node(id).undo.is_none().then_some(format);
        verify(&self.desk, Arc::clone(&resolved), Needs { scripts, undo }, move |outcome| Answer {
            token,
            outcome,
        });
        self.blocks.push_back(Applied { token, resolved, coin_bytes, outcome: None });
        self.applied = id;
    }

    /// The checks of an applied block are done; of one that was taken back meanwhile it says nothing.
    pub(crate) fn answered(&mut self, answer: Answer) {
        let Answer { token, outcome } = answer;
        if let Some(applied) = self.blocks.iter_mut().find(|applied| applied.token == token) {
            applied.outcome = Some(outcome);
        }
    }

    /// Takes the block at the front out, if its checks are done.
    pub(crate) fn retire(
        &mut self,
        index: &BlockIndex,
        coins: &mut UtxoStore,
    ) -> Result<Option<Retired>, ChainError> {
        let Some(front) = self.blocks.pop_front_if(|front| front.outcome.is_some()) else {
            return Ok(None);
        };
        match front.outcome.expect("just seen") {
            Ok(verified) => Ok(Some(Retired::Verified(verified))),
            Err(VerifyError::Rejected(reject)) => {
                while let Some(above) = self.blocks.pop_back() {
                    self.take_back(index, coins, &above.resolved)?;
                }
                // What stood above it is not judged.
                self.refused = None;
                self.take_back(index, coins, &front.resolved)?;
                Ok(Some(Retired::TakenBack(front.resolved.id(), reject)))
            }
            Err(VerifyError::Engine(error)) => Err(ChainError::Engine(error)),
            Err(VerifyError::Undo(error)) => Err(error.into()),
        }
    }

    fn take_back(
        &mut self,
        index: &BlockIndex,
        coins: &mut UtxoStore,
        resolved: &Resolved,
    ) -> Result<(), ChainError> {
        self.unapply(index, coins, resolved.id(), resolved.block(), resolved.spent())
    }

    fn unapply(
        &mut self,
        index: &BlockIndex,
        coins: &mut UtxoStore,
        id: NodeId,
        block: &Structured,
        spent: &SpentCoins,
    ) -> Result<(), ChainError> {
        let node = index.node(id);
        // A coinbase that a later one overwrote is not there (BIP30's two pairs).
        let overwritten = is_bip30_unspendable(node.height, &node.hash);
        let mismatch = if overwritten { Mismatch::Tolerated } else { Mismatch::Reported };
        if !unapply(coins, block, spent, node.height, mismatch)? {
            return Err(ChainError::DamagedUndo(node.hash));
        }
        self.applied = node.parent().expect("genesis is never applied");
        Ok(())
    }

    /// Whether the active chain can be left for the one that ends in `target`; `lowest` is the lowest
    /// block of the active chain that is stored, `prunings` how often blocks were deleted. Where a
    /// block of that one is missing, `target` is set aside.
    ///
    /// # Errors
    ///
    /// The two chains part below what can be taken back.
    pub(crate) fn can_switch_to(
        &mut self,
        index: &mut BlockIndex,
        target: NodeId,
        lowest: u32,
        prunings: u32,
    ) -> Result<bool, ChainError> {
        if self.checked_branch == Some((target, prunings)) {
            return Ok(true);
        }
        let fork = index.tree().fork(self.applied, target);
        let mut branch = vec![target];
        while let Some(&id) = branch.last()
            && id != fork
            && index.node(id).position.is_some()
        {
            branch.extend(index.node(id).parent());
        }
        if branch.pop() != Some(fork) {
            index.set_aside(&branch, target);
            return Ok(false);
        }
        let fork = index.height(fork);
        if let Some(assumed) = index.assumed()
            && fork < assumed.base.height
        {
            return Err(ChainError::ForkBelowSnapshot { fork, base: assumed.base });
        }
        if fork + 1 < lowest {
            return Err(ChainError::ForkBelowPruned { fork, lowest });
        }
        self.checked_branch = Some((target, prunings));
        Ok(true)
    }

    /// Takes the coins of the tip, which is verified, back with its undo record.
    pub(crate) fn disconnect(
        &mut self,
        site: &Site,
        index: &BlockIndex,
        coins: &mut UtxoStore,
    ) -> Result<(), ChainError> {
        let id = self.applied;
        let node = index.node(id);
        let hash = node.hash;
        let (Some(position), Some(undo)) = (node.position, node.undo) else {
            return Err(ChainError::DamagedIndex(hash));
        };
        let prev = node.header.prev_blockhash;
        let bytes = site.store.read_block(position)?;
        let block = Structured::from_own_file(bytes, hash, None, &site.hasher)
            .ok_or(ChainError::DamagedBlock(hash))?;
        let undo = site.store.read_undo(undo, &prev)?;
        let spent = spent_coins(&block, undo).ok_or(ChainError::DamagedUndo(hash))?;
        self.unapply(index, coins, id, &block, &spent)
    }
}

/// The coins of an undo record, if they fit the block.
fn spent_coins(block: &Structured, undo: BlockUndo) -> Option<SpentCoins> {
    let inputs = block.view().txs().skip(1).map(|tx| tx.input_count());
    if !inputs.eq(undo.transactions().map(|coins| coins.len())) {
        return None;
    }
    let mut first = vec![0, 0];
    let mut end = 0;
    for coins in undo.transactions() {
        end += coins.len() as u32;
        first.push(end);
    }
    Some(SpentCoins { coins: undo.into_coins(), first })
}
