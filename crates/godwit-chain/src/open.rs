//! Opening a datadir: the header tree from the block index, the coins from their manifest, and the
//! blocks that arrived completely after the last commit from the ends of the block files.

use std::path::PathBuf;
use std::sync::Arc;

use godwit_primitives::BlockHash;
use godwit_store::disk::Disk;
use godwit_store::utxo::{Manifest, UtxoConfig, UtxoHasher, UtxoStore};
use godwit_store::{
    BlockRecord, MAX_BLOCK_FILE_SIZE, NetworkId, RecoveredBlock, Store, StoreOptions,
};
use godwit_stream::SpanReader;

use crate::chain::{AcceptError, Chain, ChainOptions};
use crate::durability::{by_height, restore};
use crate::error::ChainError;
use crate::structure::{Received, structure};
use crate::tree::{HeaderTree, NodeId};

/// Partitions of the coins store as a power of two: sixteen, so that the largest merge of a set of
/// mainnet's size writes about 1 GiB.
const PARTITION_BITS: u8 = 4;

impl Chain {
    /// Opens the datadir of one network, or creates it. `new_hash_key` is random; it becomes the key
    /// of the coins store's hashes when the datadir is new.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        options: ChainOptions,
        new_hash_key: [u8; 16],
    ) -> Result<Self, ChainError> {
        Self::open_with_file_size(disk, dir, options, new_hash_key, MAX_BLOCK_FILE_SIZE)
    }

    /// As [`open`](Self::open), with block files of another size: see
    /// [`Store::open_with_file_size`].
    pub fn open_with_file_size(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        options: ChainOptions,
        new_hash_key: [u8; 16],
        file_size: u32,
    ) -> Result<Self, ChainError> {
        let genesis = options.params.genesis;
        let network = NetworkId {
            magic: options.params.magic,
            genesis: options.params.genesis_hash.to_bytes(),
        };
        let store_options = StoreOptions { dir, network, new_hash_key };
        let (store, recovered) = Store::open_with_file_size(disk, store_options, file_size)?;
        let state = store.state()?;
        let mut records = Vec::new();
        store.for_each_block(|_, record| {
            records.push(record);
            Ok(())
        })?;
        let mut tree = HeaderTree::new(genesis);
        let received = load(&mut tree, records)?;
        let hasher = UtxoHasher::new(store.utxo_hash_key());
        let manifest = match &state.utxo_manifest {
            Some(bytes) => SpanReader::new(bytes)
                .get::<Manifest>()
                .map_err(|error| store.damaged_manifest(error))?,
            None => Manifest::empty(PARTITION_BITS, &hasher),
        };
        let config = UtxoConfig { budget: options.cache_bytes, minima: options.cache_minima };
        let (disk, executor) = (store.disk(), &options.executor);
        let utxo = UtxoStore::open(disk, &store.utxo_dir(), hasher, &manifest, config, executor)?;
        let tip = match &state.utxo_tip {
            None => tree.genesis(),
            Some(point) => find(&tree, &point.hash)?,
        };
        let mut chain =
            Self::assemble(options, Arc::new(store), hasher, utxo, tree, tip, state.assumed)?;
        chain.relink(&received)?;
        chain.recover(recovered)?;
        chain.find_prune_height();
        let last = match &state.verified_tip {
            None => tip,
            Some(point) => find(&chain.tree, &point.hash)?,
        };
        chain.start_replay(last);
        Ok(chain)
    }

    /// Gives the blocks that are or were stored their places among the candidates again.
    fn relink(&mut self, received: &[NodeId]) -> Result<(), ChainError> {
        for id in received {
            let node = self.tree.node(*id);
            self.next_sequence = self.next_sequence.max(node.sequence + 1);
            if let Some(position) = node.position {
                self.pruning.note_stored(*id, node.height, position.file);
            }
        }
        self.candidates.add(&self.tree, self.tip, self.tip);
        let assumed = self.assumed.as_ref().map(|assumed| find(&self.tree, &assumed.base.hash));
        let base = assumed.transpose()?;
        if let Some(base) = base {
            self.adopt_assumed_base(base);
        }
        for id in received {
            let parent = self.tree.node(*id).parent().expect("genesis is not stored");
            let before = self.tree.node(parent).chain_tx_count;
            if before == 0 {
                if self.tree.node(*id).position.is_some() {
                    self.unlinked.entry(parent).or_default().push(*id);
                }
                continue;
            }
            let node = self.tree.node_mut(*id);
            node.chain_tx_count = before + u64::from(node.tx_count);
            if !node.failed {
                self.candidates.add(&self.tree, *id, self.tip);
            }
        }
        if let Some(base) = base {
            self.link_above_assumed_history(base);
        }
        // What was just read back is not new.
        self.tree.take_dirty();
        Ok(())
    }

    /// Takes in the blocks that were appended after the last commit.
    fn recover(&mut self, recovered: Vec<RecoveredBlock>) -> Result<(), ChainError> {
        let hasher = self.hasher();
        if !recovered.is_empty() {
            log::info!("{} blocks had arrived after the last commit.", recovered.len());
        }
        for RecoveredBlock { position, .. } in recovered {
            let bytes = self.store.read_block(position)?;
            let block = match structure(bytes, &self.params, &hasher, None) {
                Received::Structured(block) => block,
                Received::Unjudged(error) => return Err(ChainError::Engine(error)),
                // A torn record whose length happens to fit; its bytes are not a block.
                Received::Undecodable | Received::Malformed { .. } => continue,
            };
            match self.accept_structured(&block, Some(position)) {
                Ok(_) | Err(AcceptError::Rejected(_)) => {}
                Err(AcceptError::Chain(error)) => return Err(error),
            }
            // Nothing bounds their bytes: they are read back when their turn comes.
            self.cache.clear();
        }
        Ok(())
    }

    /// Says where the chain stands. `last` is the last block that an earlier run verified; the coins
    /// of the blocks up to it that were not flushed are applied again.
    fn start_replay(&mut self, last: NodeId) {
        let height = |id| self.tree.node(id).height;
        let (verified, coins) = (height(last), height(self.tip));
        log::info!(
            "Loaded {} headers and {} blocks: verified up to height {verified}, coins at height \
             {coins}.",
            self.tree.len(),
            self.tree.stored()
        );
        let fork = self.tree.fork(self.tip, last);
        let end = self.last_stored_in_line(fork, last);
        if end != last {
            let missing = height(end) + 1;
            log::warn!(
                "The block at height {missing} is not stored, though height {verified} was verified: \
                 it is fetched again."
            );
        }
        if end != fork {
            let (blocks, first) = (height(end) - height(fork), height(fork) + 1);
            log::info!(
                "Replaying {blocks} blocks from height {first}: their coins are not on disk."
            );
            self.replay = Some(end);
        }
    }

    /// The last block on the way from `fork` up to `last` before one that is not stored. A version of
    /// godwit that was killed at the end of `utxo load` left a verified height without its blocks.
    fn last_stored_in_line(&self, fork: NodeId, last: NodeId) -> NodeId {
        let (mut walk, mut end) = (last, last);
        while walk != fork {
            let node = self.tree.node(walk);
            let parent = node.parent().expect("the fork lies below");
            if node.position.is_none() {
                end = parent;
            }
            walk = parent;
        }
        end
    }

    /// A block was connected; with the last one of a replay, or the first that is new, it ends.
    pub(crate) fn note_replayed(&mut self, id: NodeId, verified_before: bool) {
        if self.replay.is_some_and(|last| last == id || !verified_before) {
            self.replay = None;
            log::info!("Replay done at height {}.", self.tree.node(id).height);
        }
    }
}

fn find(tree: &HeaderTree, hash: &BlockHash) -> Result<NodeId, ChainError> {
    tree.find(hash).ok_or(ChainError::DamagedIndex(*hash))
}

/// Puts the records into the tree; the nodes whose blocks are or were stored, parents first.
fn load(tree: &mut HeaderTree, records: Vec<BlockRecord>) -> Result<Vec<NodeId>, ChainError> {
    let mut received = Vec::new();
    for record in by_height(records) {
        let hash = record.header.block_hash();
        let parent = find(tree, &record.header.prev_blockhash)?;
        let id = tree.insert(record.header, hash, parent);
        restore(tree.node_mut(id), &record);
        // A pruned block has no position any more, but its number of transactions.
        if record.tx_count > 0 {
            received.push(id);
        }
    }
    // Each header was inserted before its node was known to be invalid.
    tree.find_best_header();
    Ok(received)
}
