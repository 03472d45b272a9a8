//! What workers and the commit thread send to the connector.

use std::sync::Arc;

use godwit_store::StoreError;
use godwit_store::utxo::ManifestId;
use godwit_stream::PooledStream;

use crate::apply::Prefetched;
use crate::feed::Arrival;
use crate::structure::{Received, Structured};
use crate::verify::Outcome;

/// Most messages that wait. The inbox must never be full: the connector may wait for room in the
/// workers' queues, and workers that wait for room here would never make any. So what can be on its
/// way is bounded below this: half of it for blocks that arrive, and a few for each block in line.
pub(crate) const INBOX_LIMIT: usize = 4096;

/// A message to the connector.
pub(crate) enum Message {
    /// Record `sequence` of an import, decoded and checked.
    Received { sequence: u64, received: Received },
    /// A block from a peer, decoded and checked.
    Arrived(Arrival),
    /// A stored block for whoever asked.
    Read { ticket: u64, bytes: Result<PooledStream, StoreError> },
    /// The import's reader could not read a file.
    ReaderFailed(StoreError),
    /// A block in line was read back from its file; `None` when it is damaged.
    Loaded { token: u64, block: Result<Option<Arc<Structured>>, StoreError> },
    /// The coins below the memtable for a block in line.
    Fetched { token: u64, prefetched: Result<Prefetched, StoreError> },
    /// All checks of an applied block are done.
    Verified { token: u64, outcome: Outcome },
    /// A commit is durable.
    Committed(Result<Option<ManifestId>, StoreError>),
    /// A job panicked.
    Panicked,
}
