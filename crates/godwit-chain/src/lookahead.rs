//! Looking ahead: the next blocks in line for the tip, read back from their files where they are not
//! in memory, and their coins fetched from below the memtable before their turn.

pub(crate) mod kept;

use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_primitives::network::Deployment;
use godwit_store::StoreError;
use godwit_store::utxo::Layers;

use crate::apply::Prefetched;
use crate::chain::Chain;
use crate::error::ChainError;
use crate::message::{Message, report_from};
use crate::structure::Structured;
use crate::tree::{NodeId, Validity};

/// Blocks in line whose inputs are fetched before their turn.
const AHEAD_BLOCKS: usize = 32;

/// Inputs of the blocks in line, the last block aside: about ten full blocks. Bounds what their coins
/// can take, whose scripts may have 10,000 bytes each.
const AHEAD_INPUTS: u64 = 64 << 10;

/// Bytes of the coins store's memory for each of these inputs. With little memory a memtable is
/// sealed every few blocks, and what was fetched before the last seals has to be fetched again: with
/// 8 MiB, looking ten blocks ahead made nearly every answer come too early.
const CACHE_BYTES_PER_INPUT: u64 = 1024;

/// Bytes of a block for each of its inputs, to guess how many a block has that is still being read.
const TYPICAL_INPUT_BYTES: usize = 128;

/// A block in line for the tip.
pub(crate) struct Ahead {
    id: NodeId,
    token: u64,
    stage: Stage,
}

enum Stage {
    /// Being read back from its file.
    Loading,
    /// Its coins are being fetched.
    Fetching(Arc<Structured>),
    /// Ready; without prefetched coins the store is asked when it is applied.
    Ready(Arc<Structured>, Option<Prefetched>),
}

impl Chain {
    /// Keeps a fresh block in memory if it may come into line. One of an import is kept only if it
    /// is next or follows one that is kept: a block that waits for another one would hold the budget
    /// that this one needs to be read.
    pub(crate) fn keep_if_near(&mut self, id: NodeId, block: &Arc<Structured>) {
        let node = self.tree.node(id);
        let Some(parent) = node.parent() else { return };
        let near = match block.holds_permit() {
            true => {
                parent == self.applied
                    || self.cache.contains((node.height - 1, parent))
                    || self.ahead.back().is_some_and(|last| last.id == parent)
            }
            false => self.tree.is_ancestor(self.applied, id),
        };
        if near && !node.failed {
            self.cache.insert((node.height, id), Arc::clone(block));
        }
    }

    /// Fills the line towards `target`, which the last applied block leads to.
    pub(crate) fn look_ahead(&mut self, target: NodeId) -> Result<(), ChainError> {
        let last = self.ahead.back().map_or(self.applied, |ahead| ahead.id);
        if !self.tree.is_ancestor(last, target) {
            self.ahead.clear();
        }
        let target_height = self.tree.node(target).height;
        let inputs = AHEAD_INPUTS.min(self.options.cache_bytes / CACHE_BYTES_PER_INPUT) as usize;
        while self.ahead.len() < AHEAD_BLOCKS && self.inputs_ahead() < inputs {
            let last = self.ahead.back().map_or(self.applied, |ahead| ahead.id);
            let height = self.tree.node(last).height + 1;
            if height > target_height {
                break;
            }
            let id = self.tree.ancestor(target, height).expect("below the target");
            let token = self.token();
            let stage = match self.cache.remove((height, id)) {
                Some(block) => self.fetch(token, id, block),
                None => self.load(token, id)?,
            };
            self.ahead.push_back(Ahead { id, token, stage });
        }
        Ok(())
    }

    /// Takes the first block out of the line, if it is ready.
    pub(crate) fn take_ready(&mut self) -> Option<(NodeId, Arc<Structured>, Option<Prefetched>)> {
        let Ahead { id, stage: Stage::Ready(block, prefetched), .. } = self.ahead.front_mut()?
        else {
            return None;
        };
        let ready = (*id, Arc::clone(block), prefetched.take());
        self.ahead.pop_front();
        Some(ready)
    }

    fn inputs_ahead(&self) -> usize {
        let inputs = |ahead: &Ahead| match &ahead.stage {
            Stage::Fetching(block) | Stage::Ready(block, _) => block.spends().len(),
            Stage::Loading => {
                let position = self.tree.node(ahead.id).position;
                position.map_or(0, |position| position.len as usize / TYPICAL_INPUT_BYTES)
            }
        };
        self.ahead.iter().map(inputs).sum()
    }

    fn load(&self, token: u64, id: NodeId) -> Result<Stage, ChainError> {
        let node = self.tree.node(id);
        // Candidates are stored, and so is what leads to them from the tip.
        let position = node.position.ok_or(ChainError::DamagedIndex(node.hash))?;
        let (hash, hasher) = (node.hash, self.hasher());
        // What was verified before needs no second look at its witnesses: its scripts do not run.
        let segwit = self.params.is_active(Deployment::Segwit, node.height);
        let witnesses = (node.validity < Validity::Scripts).then_some(segwit);
        let store = Arc::clone(&self.store);
        report_from(&self.workers, &self.outbox, move || {
            let block = store.read_block(position).map(|bytes| {
                Structured::from_own_file(bytes, hash, witnesses, &hasher).map(Arc::new)
            });
            Message::Loaded { token, block }
        });
        Ok(Stage::Loading)
    }

    pub(crate) fn loaded(
        &mut self,
        token: u64,
        block: Result<Option<Arc<Structured>>, StoreError>,
    ) -> Result<(), ChainError> {
        let Some(at) = self.ahead.iter().position(|ahead| ahead.token == token) else {
            return out_of_line(block);
        };
        let id = self.ahead[at].id;
        let Some(block) = block? else { return Err(self.damaged(id)) };
        self.ahead[at].stage = self.fetch(token, id, block);
        Ok(())
    }

    /// A stored block is damaged. One that was never connected is forgotten, so that a good copy is
    /// stored in its place after the next start.
    fn damaged(&mut self, id: NodeId) -> ChainError {
        let node = self.tree.node_mut(id);
        let hash = node.hash;
        if node.validity < Validity::Scripts {
            (node.position, node.validity, node.tx_count) = (None, Validity::Header, 0);
        }
        match self.checkpoint() {
            Ok(()) => ChainError::DamagedBlock(hash),
            Err(error) => error,
        }
    }

    fn fetch(&self, token: u64, id: NodeId, block: Arc<Structured>) -> Stage {
        let layers = self.utxo.layers();
        if layers.is_empty() {
            return Stage::Ready(block, None);
        }
        let no_overwrite = self.enforces_bip30(id);
        let fetched = Arc::clone(&block);
        report_from(&self.workers, &self.outbox, move || {
            let prefetched = prefetch(&fetched, &layers, no_overwrite);
            Message::Fetched { token, prefetched }
        });
        Stage::Fetching(block)
    }

    pub(crate) fn fetched(
        &mut self,
        token: u64,
        prefetched: Result<Prefetched, StoreError>,
    ) -> Result<(), ChainError> {
        let Some(ahead) = self.ahead.iter_mut().find(|ahead| ahead.token == token) else {
            return out_of_line(prefetched);
        };
        let prefetched = prefetched?;
        if let Stage::Fetching(block) = &ahead.stage {
            self.times.bip30 += prefetched.probe_time;
            ahead.stage = Stage::Ready(Arc::clone(block), Some(prefetched));
        }
        Ok(())
    }
}

/// A job reports for a block that is not in line any more. Its file may have been pruned meanwhile, so
/// an error says nothing, unless the store is closed.
fn out_of_line<T>(result: Result<T, StoreError>) -> Result<(), ChainError> {
    match result {
        Err(error @ StoreError::Closed(_)) => Err(error.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn prefetch(
    block: &Structured,
    layers: &Layers,
    no_overwrite: bool,
) -> Result<Prefetched, StoreError> {
    let mut prefetched = Prefetched {
        coins: Vec::new(),
        outputs_exist: Vec::new(),
        probe_time: Duration::ZERO,
        pin: layers.pin(),
    };
    layers.get_many(block.spends(), &mut prefetched.coins)?;
    if no_overwrite {
        let start = Instant::now();
        layers.contains_many(block.creates(), &mut prefetched.outputs_exist)?;
        prefetched.probe_time = start.elapsed();
    }
    Ok(prefetched)
}

#[cfg(test)]
mod tests;
