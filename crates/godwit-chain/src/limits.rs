//! The limits on which freedom from deadlock rests, together.
//!
//! 1. A job sends at most one message, when it is done, and the inbox has a place for every job that can
//!    be queued or running ([`INBOX_LIMIT`]): no worker ever waits to report.
//! 2. Each station counts the jobs that it has out and stops at its limit; the queues of the workers hold
//!    the sum ([`QUEUED_JOBS`]): the connector never waits to hand out a job.
//! 3. In a turn the connector waits for nothing else: not for the disk, a flush, a merge or a commit.
//! 4. [`Chain::wait`](crate::chain::Chain) waits only for jobs that are out.
//! 5. The reader of an import waits for permits alone, which blocks give back that were connected, not
//!    kept or refused.
//! 6. A worker waits for memory of Core's engine (`godwit_engine::ENGINE_MEMORY`) only while it holds none;
//!    what it holds it gives back in the same job, and waits for nothing until then, but for what is kept for
//!    other parts of a transaction, for which nobody waits.
//!
//! So every wait ends.
//!
//! What waits inside the stations is bounded by what has not ended yet:
//!
//! - `Intake`, blocks for which no worker is free and arrivals: [`RECEIVING_BYTES`], which its caller
//!   heeds ([`Chain::room`](crate::Chain::room)); records of an import: their permits.
//! - `Appender`, what is gathered and what has returned: the same, for a block counts there until it is
//!   stored; undo records: [`WINDOW_BLOCKS`].
//! - `Lookahead`, the queue and the near blocks: [`AHEAD_BLOCKS`], [`NEAR_BLOCKS_BYTES`] for both, and the
//!   permits.
//! - `Window`: [`WINDOW_BLOCKS`], [`WINDOW_BYTES`], [`SCRIPT_PARTS`]. Beside a history there are two of each,
//!   and they share the bytes.
//! - `Recovery`: [`RECOVERY_JOBS`] blocks, and the places of those that are not read yet.
//! - `Reads`: what its caller asks for; the engine has one block read for each peer and one to announce.
//! - Events: one for each message and each block of a turn, where they are taken after each turn.

use std::time::Duration;

use godwit_store::exec::Priority;

/// Seconds. While the tip is older, the chain is still being downloaded (Core `DEFAULT_MAX_TIP_AGE`).
pub const MAX_TIP_AGE: i64 = 24 * 60 * 60;

/// Blocks of peers that workers decode at once; what is more waits in the intake, bounded by
/// [`BlockMemory::receiving`](crate::BlockMemory).
pub(crate) const DECODE_JOBS: usize = 256;

/// Bytes of received blocks that are being decoded, wait to be accepted or are being written, where the
/// options say nothing else ([`BlockMemory`](crate::BlockMemory)); what is left of it is the
/// [`Chain::room`](crate::Chain::room). Sixteen blocks of the largest size, some forty usual ones: a full
/// pipe of a gigabit line over 0.5 s of round trip.
pub const RECEIVING_BYTES: u64 = 64 << 20;

/// Memory of the blocks that peers sent and that wait for their turn or are queued, with the keys and
/// coins of these: some forty full blocks, more than are ever queued ([`AHEAD_BLOCKS`]), which take half
/// of it at most and one block more. An import's blocks are not counted, they have a budget of their own
/// ([`IMPORT_BYTES`]).
pub const NEAR_BLOCKS_BYTES: usize = 64 << 20;

/// Blocks that workers read for peers at once; never so many that no worker is left, if there are two. What
/// is more waits: one for each peer and one that is to be announced.
pub(crate) const READ_JOBS: usize = 256;

/// Records of an import between its reader and the tip, by number.
pub(crate) const IMPORT_JOBS: u64 = 2048;

/// Bytes of blocks between the reader and the tip, where the options say nothing else: what an import holds
/// in memory beside the coins.
pub const IMPORT_BYTES: u64 = 96 << 20;

/// Bytes of a budget of `importing` bytes that the smallest record takes, so that [`IMPORT_JOBS`] holds.
pub(crate) const fn smallest_charge(importing: u64) -> u64 {
    importing.div_ceil(IMPORT_JOBS)
}

/// Memory of the blocks in the window and of the coins that they spent, where the options say nothing else.
pub(crate) const WINDOW_BYTES: usize = 64 << 20;

/// Queued blocks whose inputs are fetched before their turn.
pub(crate) const AHEAD_BLOCKS: usize = 32;

/// Jobs for queued blocks, those for blocks that left the queue since included.
pub(crate) const AHEAD_JOBS: usize = 2 * AHEAD_BLOCKS;

/// What one job fetches coins for, and a few reads more: the end of a node waits for jobs that run.
pub(crate) const FETCH_TIME: Duration = Duration::from_millis(500);

/// Coins that one job searches for at a second look, with a read for each in every run.
pub(crate) const SEARCHED_COINS: usize = 256;

/// Blocks that are read at most to compare coins of a block that was refused twice with what they created:
/// half a minute's work for a worker, for which a bad block has to have its proof of work.
pub(crate) const CONFIRMED_BLOCKS: usize = 4096;

/// Blocks applied whose scripts still run or whose undo records are on their way to the disk.
pub(crate) const WINDOW_BLOCKS: usize = 32;

/// Jobs of verifications, one for each part, that are queued or running before another block is applied;
/// those of blocks that were taken back included, and those whose part another job took along.
pub(crate) const SCRIPT_PARTS: usize = 1024;

/// Inputs that one part verifies; at about 30 microseconds each a part is long against the cost of
/// queueing it and short against the time of a block.
pub(crate) const INPUTS_PER_PART: usize = 96;

/// Parts of one transaction at most: each reads all of its inputs, witnesses and spent outputs, which may be
/// millions of empty witness items. (One part for every [`INPUTS_PER_PART`] would be 254.)
pub(crate) const PARTS_PER_TX: usize = 16;

/// Inputs that a worker takes together at most, the last part aside: four batches of the lanes, of which
/// then hardly one is empty. More would keep urgent jobs waiting.
pub(crate) const SHARED_INPUTS: usize = 256;

/// Bytes of the largest block.
const MAX_BLOCK_BYTES: u64 = 4_000_000;

/// Inputs of a block: 41 bytes each of a million without witnesses.
pub(crate) const MAX_BLOCK_INPUTS: usize = 1_000_000 / 41;

/// Parts of one block: a transaction with more than twice the inputs of a part has parts of its own, and
/// what is before it ends a part. One more for the signature operations, the undo record and the rest.
pub(crate) const MAX_PARTS: usize = 2 * MAX_BLOCK_INPUTS.div_ceil(INPUTS_PER_PART) + 4;

/// Bytes that one job appends, the last record aside: what it holds is given back when all of it is
/// written.
pub(crate) const APPEND_BATCH: u64 = 8 << 20;

/// Blocks behind the committed ends that are read back at once, or wait for their turn to be judged.
pub(crate) const RECOVERY_JOBS: usize = 16;

/// Bytes of blocks and undo records that the scrub reads at once, the last block aside.
pub(crate) const SCRUB_BATCH: u64 = 2 << 20;

/// Undo records that are made again in one search, by the number of blocks that spent: their coins are in
/// memory.
pub(crate) const SCRUB_UNDO: usize = 16;

/// Bytes of these records, the first aside: the coins take a few times as much.
pub(crate) const SCRUB_UNDO_BYTES: u64 = 8 << 20;

/// Blocks that are lost at a time for the scrub to read no further: they are asked of peers.
pub(crate) const SCRUB_LOST: usize = 64;

/// Undo records that are known to be rotten, and wait for that.
pub(crate) const SCRUB_ROTTEN: usize = 1024;

/// The one job that reads the tip back, to disconnect it.
const DISCONNECT_JOBS: usize = 1;

/// The one job that compares coins of a block that was refused twice.
const CONFIRM_JOBS: usize = 1;

/// Look-aheads and windows: those of the chain, and of the history below a snapshot.
const CHAINS: usize = 2;

const URGENT: usize = DECODE_JOBS
    + READ_JOBS
    + IMPORT_JOBS as usize
    + CHAINS * (AHEAD_JOBS + CONFIRM_JOBS)
    + RECOVERY_JOBS
    + DISCONNECT_JOBS;

/// Another block is applied while [`SCRIPT_PARTS`] are not reached, and has so many more at most.
const SCRIPTS: usize = CHAINS * (SCRIPT_PARTS + MAX_PARTS);

/// Jobs that wait for a worker: those of all stations.
pub(crate) const QUEUED_JOBS: [usize; Priority::COUNT] = [URGENT, SCRIPTS];

/// Jobs that wait for the threads that append, commit, scrub and hash a history's coins: the next
/// is handed out when one has returned.
pub(crate) const QUEUED_ALONE: [usize; Priority::COUNT] = [1, 0];

/// Messages of the import's reader: that it could not read a file, that it panicked.
const READER_MESSAGES: usize = 2;

/// Most messages that wait: one of each job that is queued or running, those of the threads that append,
/// commit, scrub and hash, and the reader's.
pub(crate) const INBOX_LIMIT: usize = URGENT + SCRIPTS + 4 + READER_MESSAGES;

const _: () = {
    // 1: each job's message has its place, and the inbox stays small.
    assert!(INBOX_LIMIT >= QUEUED_JOBS[0] + QUEUED_JOBS[1] + 4 * QUEUED_ALONE[0] + READER_MESSAGES);
    assert!(INBOX_LIMIT <= 8192, "the inbox is memory, too");
    // 2: a block's two jobs, one after the other, and as many of blocks that left the queue.
    assert!(
        AHEAD_JOBS >= 2 * AHEAD_BLOCKS,
        "jobs of a queue that was emptied do not hold up the next one's"
    );
    assert!(AHEAD_BLOCKS >= WINDOW_BLOCKS, "the window is filled from the queue");
    assert!(SCRIPT_PARTS >= MAX_PARTS, "the next block starts before a whole one has ended");
    // 5: a permit holds every record between reader and verdict, so that many are on their way.
    assert!(IMPORT_BYTES / smallest_charge(IMPORT_BYTES) <= IMPORT_JOBS);
    assert!(smallest_charge(1) == 1, "also with the smallest budget");
    assert!(APPEND_BATCH < RECEIVING_BYTES, "appending gives back while more arrives");
    assert!(RECEIVING_BYTES >= 2 * MAX_BLOCK_BYTES, "one is taken while one is written");
    assert!(IMPORT_BYTES >= 2 * MAX_BLOCK_BYTES, "one is read while one is connected");
};
