//! Faults of this node. A block's or peer's fault is a verdict, never one of these.

use std::fmt;
use std::path::{Path, PathBuf};

use godwit_consensus::Reject;
use godwit_primitives::{BlockHash, OutPoint, ReversedHex};
use godwit_script::ScriptError;
use godwit_store::{AssumedSnapshot, ChainPoint, Refutation, StoreError};

use crate::contradiction::Contradiction;

/// A local fault. The chain stops at the last commit; it is never blamed on the block.
#[derive(Debug)]
pub enum ChainError {
    /// A store: blocks, undo records, database or coins.
    Store(StoreError),
    /// The script engine failed for want of memory.
    Engine(ScriptError),
    /// Godwit proved an input valid by its signatures, and the engine refuses it: one of the two is wrong,
    /// and nothing of the block is connected. A file describes the case ([`Contradiction`]).
    ScriptContradiction(Box<Contradiction>),
    /// A thread could not be started.
    Spawn(std::io::Error),
    /// A thread panicked: a bug. Nothing is made durable after it.
    ThreadPanicked,
    /// A stored block is not what was written.
    DamagedBlock { hash: BlockHash, height: u32, path: PathBuf, offset: u32 },
    /// A block in memory no longer keeps the rules that it kept when it arrived, though nothing changed it:
    /// memory cannot be trusted.
    ChangedInMemory(BlockHash),
    /// A block that was verified before is refused now: a stored coin or block is damaged, or the heights at
    /// which rules apply were changed.
    Contradiction(BlockHash, Reject),
    /// A block could not be taken back: its undo record does not fit the coins.
    DamagedUndo(BlockHash),
    /// A block could not be taken back: its undo record is damaged, and cannot be rebuilt because some blocks
    /// that created the coins are not stored.
    LostUndo { hash: BlockHash, height: u32, path: PathBuf, offset: Option<u64> },
    /// A coin that a refused block spends is not the one that its block created: memory cannot be trusted.
    ChangedCoin(OutPoint),
    /// A stored coin is not what was written, though its block's checksum holds.
    DamagedCoin(OutPoint),
    /// The chain with the most work leaves the active one below the blocks that pruning kept, which
    /// therefore cannot be taken back.
    ForkBelowPruned {
        /// Height of the last block that the two chains share.
        fork: u32,
        /// Height of the lowest block that is kept.
        lowest: u32,
    },
    /// The chain that is to become the active one leaves it below the block whose coins were loaded from
    /// a snapshot, which therefore cannot be taken back. Only the operator can ask for that, by taking this
    /// block or one below for invalid: until the history is validated, such a chain waits.
    ForkBelowSnapshot {
        /// Height of the last block that the two chains share.
        fork: u32,
        /// The snapshot's block.
        base: ChainPoint,
    },
    /// The validation of a loaded snapshot's history refuted the snapshot for the first time. A flipped bit
    /// in memory can cause that too, so the next start validates again.
    SnapshotDoubted { assumed: AssumedSnapshot, refutation: Refutation },
    /// Two validations of its history have refuted a loaded snapshot. Every start reports this.
    SnapshotRefuted { assumed: AssumedSnapshot, refutation: Refutation },
    /// The block index names a tip or a parent that it does not hold.
    DamagedIndex(BlockHash),
}

/// Describes a lost undo record; without an offset, its place is not known.
fn what_is_lost(path: &Path, offset: Option<u64>) -> String {
    let path = path.display();
    match offset {
        Some(at) => format!(", {path} at byte {at}, is not what was written"),
        None => format!(" was not found in {path}"),
    }
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
            Self::ScriptContradiction(contradiction) => contradiction.fmt(f),
            Self::Spawn(error) => write!(f, "could not start a thread: {error}"),
            Self::ThreadPanicked => f.write_str("a thread panicked"),
            Self::DamagedBlock { hash, height, path, offset } => write!(
                f,
                "block {hash} at height {height} is damaged: {} at byte {offset} is not what was written; a \
                 node with peers fetches it again",
                path.display()
            ),
            Self::ChangedInMemory(hash) => write!(
                f,
                "block {hash} changed in memory while it was judged: the memory of this machine cannot be \
                 trusted"
            ),
            Self::ChangedCoin(OutPoint { txid, vout }) => write!(
                f,
                "the coin {txid}:{vout} is not the one that its block created: the memory of this machine cannot \
                 be trusted. The stored data may be right: start again, and if that ends in the same way, check \
                 it with `godwit verify -audit`"
            ),
            Self::Contradiction(hash, reject) => write!(
                f,
                "block {hash} was verified before and is refused now ({reject}): the data \
                 directory is damaged, or the activation heights were changed"
            ),
            Self::DamagedUndo(hash) => {
                write!(f, "block {hash} cannot be disconnected: undo data and coins disagree")
            }
            Self::LostUndo { hash, height, path, offset } => write!(
                f,
                "block {hash} at height {height} cannot be disconnected: its undo record{}, and blocks that \
                 created what it spent are not stored here",
                what_is_lost(path, *offset)
            ),
            Self::DamagedCoin(OutPoint { txid, vout }) => {
                write!(f, "the coin {txid}:{vout} in the coins store is not what was written")
            }
            Self::ForkBelowPruned { fork, lowest } => write!(
                f,
                "the chain with the most work forks off at height {fork}, but blocks below height \
                 {lowest} were pruned and cannot be disconnected: synchronise again into an empty \
                 data directory"
            ),
            Self::ForkBelowSnapshot { fork, base: ChainPoint { hash, height } } => write!(
                f,
                "the chain with the most work forks off at height {fork}, but the coins were loaded \
                 from a snapshot of block {hash} at height {height}, which cannot be disconnected: \
                 load a snapshot of the other chain, or synchronise again into an empty data directory"
            ),
            Self::SnapshotDoubted { assumed, refutation } => {
                fmt_against(f, assumed, refutation)?;
                f.write_str(VALIDATE_AGAIN)
            }
            Self::SnapshotRefuted { assumed, refutation } => {
                fmt_against(f, assumed, refutation)?;
                f.write_str(DISTRUST_COINS)
            }
            Self::DamagedIndex(hash) => {
                write!(f, "the block index refers to block {hash} but does not hold it")
            }
        }
    }
}

/// After the first refutation of a snapshot, which a bit that flipped in memory can cause.
const VALIDATE_AGAIN: &str = ". Start again: the blocks below it are then validated from genesis once more, \
                              and if they refute it again, it is rejected for good";

/// After the second one.
const DISTRUST_COINS: &str = ", which was found twice. Nothing of this data directory's coins can be trusted; \
                              start with -reindex, which validates all blocks from genesis, or into an empty \
                              data directory";

fn fmt_against(
    f: &mut fmt::Formatter<'_>,
    assumed: &AssumedSnapshot,
    refutation: &Refutation,
) -> fmt::Result {
    let ChainPoint { hash, height } = assumed.base;
    write!(f, "the loaded snapshot of block {hash} at height {height} is wrong: ")?;
    match refutation {
        Refutation::OtherCoins(found) => write!(
            f,
            "its coins hash to {}, and those that follow from genesis to {}",
            ReversedHex(&assumed.utxo_hash),
            ReversedHex(found)
        ),
        Refutation::InvalidBlock(ChainPoint { hash, height }) => {
            write!(f, "block {hash} at height {height} of its chain is invalid")
        }
    }
}

impl std::error::Error for ChainError {}

impl From<StoreError> for ChainError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
