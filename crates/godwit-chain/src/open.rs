//! Opens a datadir: reads the header tree from the block index, the coins from their manifest, and
//! blocks that were written after the last commit from the ends of the block files.

use std::path::PathBuf;
use std::sync::Arc;

use godwit_store::disk::Disk;
use godwit_store::utxo::{Manifest, UtxoConfig, UtxoHasher, UtxoStore};
use godwit_store::{MAX_BLOCK_FILE_SIZE, NetworkId, RecoveredBlock, Store, StoreOptions};
use godwit_stream::SpanReader;

use crate::chain::Chain;
use crate::error::ChainError;
use crate::index::{Acceptance, BlockIndex};
use crate::options::ChainOptions;
use crate::structure::{Received, structure};
use crate::tree::NodeId;

/// Partitions of the coins store as a power of two: sixteen, so that the largest merge of a set of
/// mainnet's size writes about 1 GiB.
const PARTITION_BITS: u8 = 4;

impl Chain {
    /// Opens the datadir of one network, or creates it. `new_hash_key` is random; it becomes the key
    /// of the coins store's hashes when the datadir is new. `now` is in seconds since 1970.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        options: ChainOptions,
        new_hash_key: [u8; 16],
        now: i64,
    ) -> Result<Self, ChainError> {
        Self::open_with_file_size(disk, dir, options, new_hash_key, now, MAX_BLOCK_FILE_SIZE)
    }

    /// As [`open`](Self::open), with block files of another size: see
    /// [`Store::open_with_file_size`].
    pub fn open_with_file_size(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        options: ChainOptions,
        new_hash_key: [u8; 16],
        now: i64,
        file_size: u32,
    ) -> Result<Self, ChainError> {
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
        let hasher = UtxoHasher::new(store.utxo_hash_key());
        let manifest = match &state.utxo_manifest {
            Some(bytes) => SpanReader::new(bytes)
                .get::<Manifest>()
                .map_err(|error| store.damaged_manifest(error))?,
            None => Manifest::empty(PARTITION_BITS, &hasher),
        };
        let config = UtxoConfig { budget: options.cache_bytes, minima: options.cache_minima };
        let (disk, executor) = (store.disk(), &options.executor);
        let coins = UtxoStore::open(disk, &store.utxo_dir(), hasher, &manifest, config, executor)?;
        let params = Arc::clone(&options.params);
        let index = BlockIndex::load(params, records, state.utxo_tip.as_ref(), state.assumed)?;
        let verified = state.verified_tip.unwrap_or_else(|| index.point(index.tip()));
        let mut chain = Self::assemble(&options, Arc::new(store), index, coins, verified, now)?;
        chain.recover(recovered)?;
        chain.durability.find_prune_height(&chain.index);
        let last = chain.index.find(&verified.hash)?;
        chain.start_replay(last);
        Ok(chain)
    }

    /// Stores the blocks that were written after the last commit.
    fn recover(&mut self, recovered: Vec<RecoveredBlock>) -> Result<(), ChainError> {
        if !recovered.is_empty() {
            log::info!("{} blocks had arrived after the last commit.", recovered.len());
        }
        let now = self.now;
        for found in recovered {
            let bytes = self.env.store.read_block(found.position)?;
            let block = match structure(bytes, &self.env.params, &self.env.hasher, None) {
                Received::Structured(block) => block,
                Received::Unjudged(error) => return Err(ChainError::Engine(error)),
                // A torn record whose length happens to fit.
                Received::Undecodable | Received::Malformed { .. } => continue,
            };
            // Not kept in memory, since nothing bounds their bytes: they are read back when their
            // turn comes.
            if let Acceptance::New(accepted) = self.index.accept(block, now) {
                let stored = self.index.receive_recovered(accepted, &found);
                self.durability.note_stored(&self.index, &stored);
            }
        }
        Ok(())
    }

    /// Begins the replay: `last` is the last block that an earlier run verified. The blocks up to
    /// it whose coins were not flushed are applied again.
    fn start_replay(&mut self, last: NodeId) {
        let height = |id| self.index.height(id);
        let (verified, coins) = (height(last), height(self.index.tip()));
        log::info!(
            "Loaded {} headers and {} blocks: verified up to height {verified}, coins at height \
             {coins}.",
            self.index.tree().len(),
            self.index.tree().stored()
        );
        let fork = self.index.tree().fork(self.index.tip(), last);
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
            self.goal.set_replay(Some(end));
        }
    }

    /// The last block before the first one that is not stored, on the way from `fork` up to `last`.
    /// An earlier version of godwit that was killed at the end of `utxo load` left a verified
    /// height without its blocks.
    fn last_stored_in_line(&self, fork: NodeId, last: NodeId) -> NodeId {
        let (mut walk, mut end) = (last, last);
        while walk != fork {
            let node = self.index.node(walk);
            let parent = node.parent().expect("the fork lies below");
            if node.position.is_none() {
                end = parent;
            }
            walk = parent;
        }
        end
    }
}
