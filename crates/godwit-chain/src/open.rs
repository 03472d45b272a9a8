//! Opens a datadir: reads the header tree from the block index, and of the coins what is kept in memory of
//! their runs. Blocks that were written after the last commit are found by their frames at the ends of the
//! block files; they are read, and blocks applied again, when the chain is open.

use std::path::PathBuf;
use std::sync::Arc;

use godwit_store::disk::Disk;
use godwit_store::exec::Executor;
use godwit_store::utxo::{Manifest, UtxoConfig, UtxoHasher, UtxoStore};
use godwit_store::{
    BLOCK_BUFFERS, Commit, HistoryCoins, HistoryCommit, MAX_BLOCK_FILE_SIZE, NetworkId, Store,
    StoreOptions,
};
use godwit_stream::{PoolLimits, SpanReader};

use crate::chain::Chain;
use crate::chain::assembly::Opened;
use crate::error::ChainError;
use crate::event::Event;
use crate::index::assumed::begin as begin_history;
use crate::index::{BlockIndex, Body, Loading};
use crate::options::ChainOptions;
use crate::reindex::{place_headers, reindex};
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
        mut options: ChainOptions,
        new_hash_key: [u8; 16],
        now: i64,
        file_size: u32,
    ) -> Result<Self, ChainError> {
        let network = NetworkId {
            magic: options.params.magic,
            genesis: options.params.genesis_hash.to_bytes(),
        };
        let idle = options.block_memory.idle_buffers;
        let buffers = PoolLimits { total_bytes: idle, ..BLOCK_BUFFERS };
        let (rebuild, stop) = (options.start.rebuild, Arc::clone(&options.start.stop));
        let store_options = StoreOptions { dir, network, new_hash_key, buffers, rebuild, stop };
        let (store, mut recovered) = Store::open_with_file_size(disk, store_options, file_size)?;
        if store.lost().is_some() {
            let (params, threads) = (&options.params, options.workers);
            reindex(&store, params, threads, &recovered, &mut options.start)?;
            recovered.clear();
        }
        let state = store.state()?;
        let mut loading = Loading::new(Arc::clone(&options.params));
        store.for_each_block(|hash, record| {
            loading.add(hash, record);
            Ok(())
        })?;
        let hasher = UtxoHasher::new(store.utxo_hash_key());
        if let (Some(assumed), Some(refutation)) = (state.assumed, state.refuted) {
            return Err(ChainError::SnapshotRefuted { assumed, refutation });
        }
        let manifest = manifest(&store, state.utxo_manifest.as_deref())?;
        let budget = options.coins_memory.beside(loading.memory());
        let config = UtxoConfig { budget, minima: options.cache_minima };
        let (disk, executor) = (store.disk(), &options.executor);
        let coins = UtxoStore::open(disk, &store.utxo_dir(), hasher, &manifest, config, executor)?;
        let mut index = loading.finish(state.utxo_tip.as_ref(), state.assumed)?;
        index.doubted = state.doubted.is_some();
        let history = match options.start.validates_history && index.history().is_some() {
            true => {
                let config = UtxoConfig { budget: budget / 8, ..config };
                Some(open_history(&store, &mut index, state.history, config, executor)?)
            }
            false => {
                // What is validated need not be stored any more, whoever asks.
                if let Some(coins) = &state.history {
                    begin_history(&mut index, &coins.tip.hash);
                }
                None
            }
        };
        // Blocks of a download lie in the files in any order, and one is taken only behind its parent.
        place_headers(&mut index, &recovered, now);
        let verified = state.verified_tip.unwrap_or_else(|| index.point(index.tip()));
        let store = Arc::new(store);
        let opened = Opened { store, index, coins, history, verified, recovered };
        let mut chain = Self::assemble(&options, opened, now)?;
        chain.durability.find_prune_height(&chain.index);
        let last = chain.index.find(&verified.hash)?;
        chain.start_replay(last);
        want_missing(&mut chain);
        Ok(chain)
    }

    /// Begins the replay: `last` is the last block that an earlier run verified. The blocks up to
    /// it whose coins were not flushed are applied again.
    fn start_replay(&mut self, last: NodeId) {
        // It may have failed since, by the operator's word.
        let last = self.index.tree().last_valid(last);
        let height = |id| self.index.height(id);
        let (verified, coins) = (height(last), height(self.index.tip()));
        log::info!(
            "Loaded {} headers and {} blocks: verified up to height {verified}, coins at height \
             {coins}.",
            self.index.tree().len(),
            self.index.tree().stored() + self.recovery.left()
        );
        let fork = self.index.tree().fork(self.index.tip(), last);
        let end = self.last_stored_ancestor(fork, last);
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
    fn last_stored_ancestor(&self, fork: NodeId, last: NodeId) -> NodeId {
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

/// Tells of the blocks below the tip that were never stored, as far as the index knows: one that was made
/// again from damaged block files lacks them, and what follows them is no candidate before they are there.
fn want_missing(chain: &mut Chain) {
    let (mut walk, mut missing) = (chain.index.tip(), 0);
    // Nothing is missing below a block whose chain is complete, nor below an assumed snapshot.
    while let node = chain.index.node(walk)
        && !node.has_chain()
        && let Some(parent) = node.parent()
    {
        if Body::of(&chain.index, walk) == Body::Absent {
            chain.events.push_back(Event::Lost { hash: node.hash });
            missing += 1;
        }
        walk = parent;
    }
    if missing > 0 {
        let height = chain.index.height(walk) + 1;
        log::warn!(
            "{missing} blocks that were connected are not stored, the first at height {height}: a node fetches \
             them again, and connects no other block before."
        );
    }
}

/// A manifest as it was committed, or that of no coins.
fn manifest(store: &Store, committed: Option<&[u8]>) -> Result<Manifest, ChainError> {
    Ok(match committed {
        Some(bytes) => SpanReader::new(bytes)
            .get::<Manifest>()
            .map_err(|error| store.damaged_manifest(error))?,
        None => Manifest::empty(PARTITION_BITS, &UtxoHasher::new(store.utxo_hash_key())),
    })
}

/// Opens the coins of the history below a snapshot, from which its validation goes on. It begins with none
/// where they are not of that history, or damaged.
fn open_history(
    store: &Store,
    index: &mut BlockIndex,
    committed: Option<HistoryCoins>,
    config: UtxoConfig,
    executor: &Arc<dyn Executor>,
) -> Result<UtxoStore, ChainError> {
    let hasher = UtxoHasher::new(store.utxo_hash_key());
    // Before a commit names a file in it.
    store.disk().create_dir_all(&store.history_dir())?;
    store.disk().sync_dir(store.dir())?;
    let open = |manifest: &Manifest| {
        UtxoStore::open(store.disk(), &store.history_dir(), hasher, manifest, config, executor)
    };
    let genesis = index.tree().genesis();
    let genesis = index.point(genesis).hash;
    if let Some(HistoryCoins { tip, manifest: bytes }) = committed
        && begin_history(index, &tip.hash)
    {
        match manifest(store, Some(&bytes)).and_then(|manifest| Ok(open(&manifest)?)) {
            Ok(coins) => return Ok(coins),
            Err(ChainError::Store(error)) if error.is_rotten() => {
                log::error!(
                    "{error}. The history below the snapshot is validated from genesis again."
                );
                // Before others take their place: both together may not fit on the disk.
                store.commit(Commit {
                    history: Some(HistoryCommit::Forgotten),
                    ..Commit::default()
                })?;
            }
            Err(error) => return Err(error),
        }
    }
    begin_history(index, &genesis);
    Ok(open(&manifest(store, None)?)?)
}
