//! Disconnecting the tip: a worker reads back what that needs, and makes a rotted undo record good.

use std::sync::Arc;

use godwit_primitives::Txid;
use godwit_store::checkpoint::Checkpoints;
use godwit_store::exec::Priority;
use godwit_store::utxo::{CompressedCoins, EpochPin, Layers, UtxoStore};
use godwit_store::{ChainPoint, lost_undo_checkpoints};

use super::{Answer, Window};
use crate::apply::{Below, SpentCoins};
use crate::environment::Environment;
use crate::error::ChainError;
use crate::index::BlockIndex;
use crate::lost_undo::LostUndo;
use crate::own_block::{ReadError, has_coins_of, read_own_block};
use crate::structure::Structured;
use crate::tree::NodeId;

/// What came of an attempt to disconnect the tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disconnect {
    /// What it needs is being read.
    Waits,
    /// It is done; if its undo record was not there as written, another one is to be made.
    Done { undo_intact: bool, coinbase: Txid },
}

/// How far the tip is read back.
pub(crate) enum Reading {
    Done(Box<ReadBack>),
    /// Its undo record has rotted; what it spent is looked for.
    Rebuilding(Box<Rebuilding>),
}

/// A connected block, and what is known of its undo record.
pub(crate) struct Rebuilding {
    block: Structured,
    lost: LostUndo,
    /// Where it is written down how far the search is; `None` once that has failed.
    place: Option<Checkpoints>,
    /// It was.
    is_saved: bool,
}

/// A connected block with all that is needed to disconnect it.
pub(crate) struct ReadBack {
    block: Structured,
    spent: SpentCoins,
    /// The outputs that it created, as far as they are below the memtable.
    created: CompressedCoins,
    pin: EpochPin,
    undo_intact: bool,
}

/// The tip that is to be disconnected.
pub(super) struct Disconnecting {
    id: NodeId,
    token: u64,
    read: Option<Box<ReadBack>>,
    /// A block that was to be read for it and is damaged.
    damaged: Option<NodeId>,
}

impl Window {
    /// What was read of the tip. Returns a block whose bytes are damaged.
    pub(super) fn read_answered(
        &mut self,
        env: &Environment,
        index: &BlockIndex,
        layers: Arc<Layers>,
        token: u64,
        read: Result<Reading, ReadError>,
    ) -> Result<Option<NodeId>, ChainError> {
        self.reading = false;
        let tip = self.disconnecting.as_mut().filter(|tip| tip.token == token);
        let Some(tip) = tip else { return Ok(None) };
        let id = tip.id;
        match read {
            Ok(Reading::Done(read)) => tip.read = Some(read),
            Ok(Reading::Rebuilding(rebuilding)) => {
                self.rebuild(env, index, layers, token, id, rebuilding)?;
            }
            Err(ReadError::Block(damaged)) => {
                tip.damaged = Some(damaged);
                return Ok(Some(damaged));
            }
            Err(ReadError::Store(error)) => return Err(error.into()),
        }
        Ok(None)
    }

    /// Takes the coins of the tip, which is verified, back on the way to `target`: has a worker read what
    /// that needs, and does it when the answer is here. Whether it is done.
    pub(crate) fn disconnect(
        &mut self,
        env: &Environment,
        index: &BlockIndex,
        coins: &mut UtxoStore,
        target: NodeId,
    ) -> Result<Disconnect, ChainError> {
        let applied = self.applied;
        if self.reading || self.waits_for_copy(index, target) {
            return Ok(Disconnect::Waits);
        }
        let tip = self.disconnecting.take().filter(|tip| tip.id == applied);
        let Some(read) = tip.and_then(|tip| tip.read) else {
            self.read_back(env, index, coins)?;
            return Ok(Disconnect::Waits);
        };
        let ReadBack { block, spent, created, pin, undo_intact } = *read;
        let taken_back = coins.pinned(&pin, |coins| {
            self.unapply(index, coins, applied, &block, &spent, Below::Read(&created))
        });
        let coinbase = block.view().txids()[0];
        match taken_back {
            Some(result) => result.map(|()| Disconnect::Done { undo_intact, coinbase }),
            None => {
                self.read_back(env, index, coins)?;
                Ok(Disconnect::Waits)
            }
        }
    }

    /// Whether the next block on the way to `target` has to be fetched again, or the one that is to be left,
    /// or another one that this needs.
    pub(crate) fn waits_for_copy(&self, index: &BlockIndex, target: NodeId) -> bool {
        let (tree, applied) = (index.tree(), self.applied);
        let next = tree.ancestor(target, index.height(applied) + 1);
        let next = next.filter(|next| tree.is_ancestor(applied, *next)).unwrap_or(applied);
        let damaged = self.disconnecting.as_ref().and_then(|tip| tip.damaged);
        [Some(next), damaged].into_iter().flatten().any(|id| index.is_lost(id))
    }

    /// The tip is not to be disconnected after all.
    pub(crate) fn forget_disconnecting(&mut self) {
        self.disconnecting = None;
    }

    fn read_back(
        &mut self,
        env: &Environment,
        index: &BlockIndex,
        coins: &UtxoStore,
    ) -> Result<(), ChainError> {
        let id = self.applied;
        let node = index.node(id);
        let hash = node.hash;
        let Some(position) = node.position else { return Err(ChainError::DamagedIndex(hash)) };
        let undo = node.undo;
        self.next_token += 1;
        let token = self.next_token;
        self.disconnecting = Some(Disconnecting { id, token, read: None, damaged: None });
        self.reading = true;
        let (prev, height, hasher) = (node.header.prev_blockhash, node.height, env.hasher);
        let below = node.parent().expect("genesis is never disconnected");
        let (store, layers) = (Arc::clone(&env.store), coins.layers());
        self.job_sender.run(Priority::Urgent, "disconnect", move || {
            let read = || {
                let block = read_own_block(&store, &hasher, id, position, hash)?;
                // An index that was made again from damaged undo files lacks places of records.
                match undo.map(|undo| store.read_undo(undo, &prev)) {
                    Some(Ok(undo)) if has_coins_of(block.view(), &undo) => {
                        let spent = SpentCoins::from_records(undo.coins());
                        return read_created(&layers, block, spent, true);
                    }
                    // That of a sibling has the right checksum.
                    Some(Ok(_)) => log::error!(
                        "The undo record of block {hash} is of another block, and what it would say is \
                         looked for."
                    ),
                    Some(Err(error)) if !error.is_rotten() => return Err(error.into()),
                    Some(Err(error)) => log::error!(
                        "An undo record is damaged, and what it says looked for: {error}"
                    ),
                    None => log::error!(
                        "Block {hash} has no undo record, and what it would say is looked for."
                    ),
                }
                let mut lost = LostUndo::of(id, &block, height, below);
                let place = lost_undo_checkpoints(&store, ChainPoint { hash, height });
                lost.take_up(&place);
                let rebuilding = Rebuilding { block, lost, place: Some(place), is_saved: false };
                Ok(Reading::Rebuilding(Box::new(rebuilding)))
            };
            Answer::Read(token, read())
        });
        Ok(())
    }

    /// Has the next blocks below the tip looked through for what it spent.
    fn rebuild(
        &mut self,
        env: &Environment,
        index: &BlockIndex,
        layers: Arc<Layers>,
        token: u64,
        id: NodeId,
        mut rebuilding: Box<Rebuilding>,
    ) -> Result<(), ChainError> {
        let lost = &mut rebuilding.lost;
        let blocks = lost.next_blocks(index);
        if blocks.is_empty() && !lost.is_done() {
            return Err(lost_undo(env, index, id));
        }
        let is_due = !lost.is_done() && lost.report_progress(index, env.now());
        rebuilding.is_saved |= is_due;
        self.reading = true;
        let (store, hasher) = (Arc::clone(&env.store), env.hasher);
        self.job_sender.run(Priority::Urgent, "rebuild", move || {
            let look = || {
                let Rebuilding { lost, place, is_saved, .. } = &mut *rebuilding;
                lost.look_through(&store, &hasher, &blocks)?;
                let is_done = lost.is_done();
                // At the end, too: the block is not yet disconnected for good.
                if is_due || is_done && *is_saved {
                    let looked_through = blocks.last().expect("there is one").hash();
                    place.take_if(|place| !lost.save(place, &looked_through));
                }
                if !is_done {
                    return Ok(Reading::Rebuilding(rebuilding));
                }
                let Rebuilding { block, lost, .. } = *rebuilding;
                read_created(&layers, block, lost.into_spent(), false)
            };
            Answer::Read(token, look())
        });
        Ok(())
    }
}

/// Nothing makes the undo record of a block again.
fn lost_undo(env: &Environment, index: &BlockIndex, id: NodeId) -> ChainError {
    let node = index.node(id);
    // An index that was made again from damaged undo files lacks places of records.
    let offset = node.undo.map(|at| at.offset);
    let Some(block) = node.position else { return ChainError::DamagedIndex(node.hash) };
    let path = env.store.undo_file(block.file);
    ChainError::LostUndo { hash: node.hash, height: node.height, path, offset }
}

/// Looks up which of the outputs that a block created are below the memtable.
fn read_created(
    layers: &Layers,
    block: Structured,
    spent: SpentCoins,
    undo_intact: bool,
) -> Result<Reading, ReadError> {
    let (mut created, pin) = (CompressedCoins::default(), layers.pin());
    layers.get_compressed(block.creates(), &mut created)?;
    Ok(Reading::Done(Box::new(ReadBack { block, spent, created, pin, undo_intact })))
}
