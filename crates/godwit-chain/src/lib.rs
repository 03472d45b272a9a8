//! From blocks to a verified chain: header tree, window, prevout resolution, script workers,
//! connecting, reorganising, verdicts.
//!
//! A block earns trust on its way and changes type with it: bytes → [`Structured`] (it decodes and
//! keeps the structural rules; workers) → accepted (its header has a place and the contextual rules
//! hold; the connector) → stored (it is in its block file; one thread writes) → resolved (its coins were
//! found and spent in the store; the connector, in height order) → verified (signature operations and
//! scripts; workers, in any order) → recorded (its undo record is written, in height order) → connected
//! (everything before it is connected; the connector). `Chain::step` is the row of these stations.
//!
//! Nothing here opens a socket or prints, and nothing is decided by the time but by that which the
//! chain is told; the monotonic clock only times stages, from which follows how much may be unwritten,
//! and bounds waits. What happened goes out as [`Event`]s.

mod appender;
mod apply;
mod chain;
mod coin_at_tip;
mod coins_view;
mod confirm;
mod contradiction;
mod durability;
mod ending;
mod environment;
mod error;
mod event;
mod flush;
mod found_block;
mod goal;
mod history;
mod history_files;
mod import;
mod index;
mod inspect;
mod intake;
mod job_sender;
mod left_blocks;
mod limits;
mod lookahead;
mod lost_undo;
mod message;
mod open;
mod options;
mod overrule;
mod own_block;
mod permits;
mod reads;
mod recheck;
mod record;
mod recovery;
mod reindex;
mod script_row;
mod scrub;
mod second_look;
mod shares;
mod signet;
mod snapshot;
mod stats;
mod status;
mod stored_data;
mod structure;
mod submit;
mod tree;
mod verify;
mod view;
mod waiting;
mod window;

pub use chain::deliver::note_unreadable;
pub use chain::{Chain, Poll, is_at_rest};
pub use coin_at_tip::{CoinAtTip, CoinBelow};
pub use coins_view::CoinsView;
pub use contradiction::Contradiction;
pub use durability::pruning::{MIN_BLOCKS_TO_KEEP, PRUNE_ON_REQUEST};
pub use durability::writing::CoinWriting;
pub use error::ChainError;
pub use event::{BlockContents, Connected, Disconnected, Event, Source};
pub use godwit_consensus::Verdict;
pub use godwit_script::{BackendKind, ENGINE_MEMORY_BYTES};
pub use import::{
    BadRecord, ImportObserver, ImportPlan, ImportSummary, expect_copies_of, import, plan,
};
pub use index::assumed::{HistoryProgress, HistorySpan};
pub use index::body::Body;
pub use inspect::audit::{AuditOptions, Audited, ClaimError, CoinFault, Dispute, Proof};
pub use inspect::{CoinsFound, InspectOptions, Inspected, RepairPace, inspect};
pub use left_blocks::LeftBlocks;
pub use limits::{IMPORT_BYTES, MAX_TIP_AGE, NEAR_BLOCKS_BYTES, RECEIVING_BYTES};
pub use options::{
    BlockMemory, ChainOptions, CoinsMemory, Indexed, ScriptEngine, ScriptOptions, StartOptions,
};
pub use overrule::OverruleError;
pub use permits::Permit;
pub use reads::{BlockReader, BlockUnreadable, StoredBlock};
pub use recheck::{BlockInPlace, CheckLevel, Recheck, RecheckFault, block_in_place, median_times};
pub use scrub::{SCRUB_BYTES_PER_SECOND, ScrubStatus};
pub use snapshot::{
    BaseFault, DumpError, HeaderFault, LoadWatch, Loading, SnapshotDump, SnapshotError,
    SnapshotFlaw, SnapshotHeader, SnapshotInfo, check_snapshot_base,
};
pub use stats::{
    CoinsHash, Totals, UtxoStats, VIEW_SORT_BYTES, ViewStats, insert_coin, remove_coin,
};
pub use status::{
    BytesWritten, ChainMemory, ChainStatus, ConnectedTotals, DamagedBlocks, StageTimes,
};
pub use stored_data::StoredData;
pub use structure::{Received, Structured, structure};
pub use tree::{HeaderTree, Node, NodeId, Validity};
pub use verify::ScriptTotals;
pub use view::{
    body, deletes_blocks, end_of_deleted, has_pruned, heading, history, history_memory,
    history_progress, is_below_lowest, is_pruning, is_unvalidated, keep_above, lacks_history_alone,
    left_blocks, lowest_for_indexes, may_return, prune_to, replay_ahead, scripts_from, show_blocks,
    starts_over, view_coins, want_again, want_no_longer,
};
pub use waiting::{settle_until, wait_with_both};
