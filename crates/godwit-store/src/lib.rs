//! godwit's storage: block files, undo, block index, UTXO store and the commit that ties them.
//!
//! Nothing here decides validity. All access to the operating system goes through [`disk::Disk`], so that
//! tests and simulations see every read, write and fsync.

mod block_files;
pub mod checkpoint;
mod commit;
mod control;
mod db;
pub mod disk;
pub mod error;
pub mod exec;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod gate_disk;
pub mod inspect;
mod lost_undo;
mod names;
mod record;
pub mod scan;
mod scrub;
mod store;
mod undo;
pub mod utxo;

pub use block_files::{
    MAX_BLOCK_FILE_SIZE, MAX_BLOCK_SERIALIZED_SIZE, RecoveredBlock, WrittenBlock,
};
pub use commit::{Appended, Commit, HistoryCommit, UtxoCommit};
pub use db::{DATABASE_CACHE_BYTES, expects_panic};
pub use error::{NetworkId, StoreError};
pub use lost_undo::lost_undo_checkpoints;
pub use record::{
    AssumedSnapshot, BlockChecksum, BlockPosition, BlockRecord, BlockStatus, ChainPoint,
    CommittedState, HistoryCoins, Refutation, ScrubPass, ScrubPlace, UndoPosition,
};
pub use scrub::{FilesScrubbed, refuse_misplaced_undo, undo_remedy};
pub use store::{
    BLOCK_BUFFERS, MAX_OPEN_FILES, PrunedBlock, Rebuild, SCHEMA_VERSION, Store, StoreOptions,
    Written, check_unused, has_whole_history, starts_over,
};
pub use undo::{BlockUndo, UndoRecord, WrittenUndo};
