//! How a chain is to be run.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use godwit_primitives::BlockHash;
use godwit_primitives::network::Params;
use godwit_script::{BackendKind, Scripts};
use godwit_store::disk::StoreDisk;
use godwit_store::exec::Executor;
use godwit_store::utxo::CacheMinima;
use godwit_store::{BLOCK_BUFFERS, Rebuild, StoreError};

use crate::contradiction;
use crate::durability::writing::CoinWriting;
use crate::limits::{IMPORT_BYTES, NEAR_BLOCKS_BYTES, RECEIVING_BYTES, WINDOW_BYTES};

/// Bytes of blocks and undo records after which the product pushes them out.
const PUSH_BYTES: u64 = 16 << 20;

/// How a chain is to be run.
pub struct ChainOptions {
    /// Rules and constants of the network.
    pub params: Arc<Params>,
    /// The block below which scripts are taken as valid, if any (`-assumevalid`).
    pub assume_valid: Option<BlockHash>,
    /// Where jobs run.
    pub executor: Arc<dyn Executor>,
    /// Worker threads (`-par`).
    pub workers: usize,
    /// What verifies scripts, and how much of it is cross-checked.
    pub scripts: ScriptOptions,
    /// Memory of the coins store.
    pub coins_memory: CoinsMemory,
    /// Lower bounds of the coins store. Tests set lower ones, to flush and merge few coins.
    pub cache_minima: CacheMinima,
    /// Stop connecting at this height (`-stopatheight`).
    pub stop_at_height: Option<u32>,
    /// Bytes that block and undo files together should not exceed (`-prune`), or
    /// [`PRUNE_ON_REQUEST`](crate::PRUNE_ON_REQUEST); `None` keeps all.
    pub prune_bytes: Option<u64>,
    /// Memory for blocks on their way to the tip.
    pub block_memory: BlockMemory,
    /// When coins are written although memory is not short.
    pub coin_writing: CoinWriting,
    /// Bytes per second at which everything stored is checked, pass by pass, while there is nothing else to
    /// do (`-scrub`); `None` for never. Damaged blocks are reported as [`Event::Lost`](crate::Event::Lost).
    pub scrub: Option<u64>,
    /// Bytes of blocks and undo records after which they are pushed out between commits. Simulations push out
    /// fewer, because their chains are small.
    pub push_bytes: u64,
    pub start: StartOptions,
}

impl ChainOptions {
    /// A chain with the product's limits and pace that keeps everything: every script is checked, nothing is
    /// pruned or scrubbed, and it stops at no height.
    pub fn new(
        params: Arc<Params>,
        executor: Arc<dyn Executor>,
        workers: usize,
        coins_memory: CoinsMemory,
    ) -> Self {
        Self {
            params,
            assume_valid: None,
            executor,
            workers,
            scripts: ScriptOptions::default(),
            coins_memory,
            cache_minima: CacheMinima::PRODUCT,
            stop_at_height: None,
            prune_bytes: None,
            block_memory: BlockMemory::default(),
            coin_writing: CoinWriting::PRODUCT,
            scrub: None,
            push_bytes: PUSH_BYTES,
            start: StartOptions::default(),
        }
    }
}

/// Options that concern only the start.
#[derive(Default)]
pub struct StartOptions {
    /// What to rebuild from the block files, whatever state it is in.
    pub rebuild: Rebuild,
    /// Ends a start that rebuilds the block index from the block files, and is read only during such a start.
    pub stop: Arc<AtomicBool>,
    /// Whether the history below a loaded snapshot is validated from genesis in the background, with coins of
    /// its own. The driver sets it if it fetches blocks. It takes part of the memory until it is done.
    pub validates_history: bool,
    /// Called with the progress of a rebuild of the block index.
    pub indexed: Option<Box<dyn FnMut(Indexed) + Send>>,
}

/// Progress of rebuilding the block index from the block files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indexed {
    pub blocks: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
    /// Bytes of all blocks that this start has to index.
    pub total: u64,
}

/// What verifies scripts, and how much of it is cross-checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptOptions {
    /// The engine (`-scriptengine`).
    pub engine: ScriptEngine,
    /// During the download, Core's engine also judges one of this many inputs that godwit proved by their
    /// signatures (`-crosscheck`); `None`: none of them.
    pub crosscheck_download: Option<NonZeroU32>,
    /// The same for blocks of the last day.
    pub crosscheck_recent: Option<NonZeroU32>,
}

/// What verifies scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptEngine {
    /// Godwit checks signatures in vector lanes where they alone decide an input; Core's engine judges
    /// everything else.
    Native {
        /// The lanes to use; `None`: the fastest that this processor has. If it lacks the given lanes, no
        /// lanes are used.
        lanes: Option<BackendKind>,
    },
    /// Core's engine alone.
    Core,
}

impl Default for ScriptOptions {
    fn default() -> Self {
        Self {
            engine: ScriptEngine::Native { lanes: None },
            crosscheck_download: NonZeroU32::new(1024),
            crosscheck_recent: NonZeroU32::new(1),
        }
    }
}

impl ScriptOptions {
    /// Switches to Core's engine alone while the network's directory holds the record of a contradiction.
    pub(crate) fn unless_contradicted(
        self,
        disk: &StoreDisk,
        dir: &Path,
    ) -> Result<Self, StoreError> {
        let Some(path) = contradiction::find(disk, dir)? else { return Ok(self) };
        log::warn!(
            "Scripts are verified by Bitcoin Core's engine alone, because {} is there.",
            path.display()
        );
        Ok(Self { engine: ScriptEngine::Core, ..self })
    }
}

impl ScriptEngine {
    /// The native engine with these lanes; `None` if the processor lacks them.
    pub fn with_lanes(lanes: BackendKind) -> Option<Self> {
        Scripts::with_backend(lanes).map(|_| Self::Native { lanes: Some(lanes) })
    }

    /// Starts the verifier of one thread.
    pub(crate) fn start(self) -> Scripts {
        match self {
            Self::Native { lanes: None } => Scripts::new(),
            Self::Native { lanes: Some(lanes) } => {
                Scripts::with_backend(lanes).unwrap_or_else(Scripts::engine_only)
            }
            Self::Core => Scripts::engine_only(),
        }
    }
}

/// Memory of the coins store, in bytes. Values below [`CacheMinima::budget`] are raised to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoinsMemory {
    /// Exactly this much (`-dbcache`).
    Fixed(u64),
    /// This much, less what the header tree takes.
    BesideHeaders(u64),
}

impl CoinsMemory {
    /// The coins' share, given the bytes of the header tree.
    pub(crate) fn beside(self, tree: usize) -> u64 {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::BesideHeaders(bytes) => bytes.saturating_sub(tree as u64),
        }
    }
}

/// Memory of blocks on their way to the tip, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMemory {
    /// Blocks of peers that are being decoded, wait to be accepted or are being written; one block more
    /// at worst.
    pub receiving: u64,
    /// Stored blocks of peers that wait for their turn, indexes included.
    pub waiting: usize,
    /// Blocks in the window and the coins that they spent, not counting the last one.
    pub window: usize,
    /// Blocks of an import between the reader and the tip.
    pub importing: u64,
    /// Idle buffers of blocks and undo records; three times as much while many are in use
    /// ([`BufferPool`](godwit_stream::BufferPool)).
    pub idle_buffers: usize,
}

impl Default for BlockMemory {
    fn default() -> Self {
        Self {
            receiving: RECEIVING_BYTES,
            waiting: NEAR_BLOCKS_BYTES,
            window: WINDOW_BYTES,
            importing: IMPORT_BYTES,
            idle_buffers: BLOCK_BUFFERS.total_bytes,
        }
    }
}
