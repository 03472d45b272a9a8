//! The commit: the moment from which a restart continues.
//!
//! # The four states of a block's bytes
//!
//! ```text
//! reserved ──write job──▶ written ──note_written──▶ noted ──take_appended, sync, transaction──▶ durable
//! the place is known,     in the page cache;        in the index;                               named by
//! nothing names it        nothing names it          the next commit names it                    the database
//! ```
//!
//! The connector reserves and notes, which is arithmetic. One job at a time writes; no lock that the
//! connector takes is held across I/O. An undo record goes the same way. What must hold:
//!
//! 1. *Places are written to in the order in which they were reserved, and noted in the same order.*
//!    So what is written of the block files is at every instant a prefix of what is reserved, and a
//!    kill leaves complete records, then at most one that is torn, then nothing. A power cut may leave any
//!    of the bytes behind the last sync; what is found there is checked again ([`crate::RecoveredBlock`]).
//! 2. *A position enters the block index together with [`Store::note_written`].* So a commit, which
//!    names the ends of what was noted when its entries were gathered, names only bytes whose write had
//!    returned, and has an entry for every block before those ends.
//! 3. *What is reserved or written and not noted is behind the committed ends.* A crash hands it
//!    back at open ([`crate::RecoveredBlock`]) or cuts it off, as it does with what is appended beside
//!    a commit.
//! 4. *A block is called verified only once its undo record is noted.* So no commit names a verified
//!    tip whose undo bytes it does not sync.
//! 5. *A file is pruned only if all places in it are noted.* Those of blocks are from
//!    [`Store::first_open_file`] on; an undo record that is not noted belongs to a block above the
//!    tip, whose file is kept. So no write goes to a file that is being removed.
//! 6. *The first failed write closes the store.* So nothing is ever written, noted or committed behind
//!    a hole.
//!
//! # The order of a commit
//!
//! One database transaction names everything that belongs together: how far each block and undo
//! file reaches, the block index changes that point into them, the verified tip, and the UTXO runs
//! with the block they describe. Before it, all that it names is made durable; after it, what it no
//! longer names is deleted. So at every instant the database on disk names only complete, durable
//! files, whichever step a crash interrupts:
//!
//! 1. *Run files and their directory were synced by the UTXO store before it handed over its
//!    manifest.* One that is written and not yet synced is read, and no manifest names it. A crash here
//!    leaves runs that the manifest in force does not name; the UTXO store removes them at open.
//! 2. *Block and undo files, and their directory, are synced.* A crash before or during this step
//!    leaves bytes behind the committed ends. Nothing refers to them; complete block records among
//!    them are handed back at open, the rest is cut off or overwritten.
//! 3. *What the index has of blocks whose files are to be pruned is appended to a file of its own, and
//!    synced* ([`crate::store::pruned_blocks`]). It is true whether or not the transaction follows.
//! 4. *The database transaction.* It is atomic (two-phase, each phase an fsync): a crash leaves the
//!    state before it, which the steps above have not touched, or the state after it, which they
//!    have made durable.
//! 5. *The control file* ([`crate::control`]) says once more what the transaction has left of the coins. A
//!    crash before it leaves the one of the commit before; the next open writes it again.
//! 6. *Pruned block and undo files are removed*, and the coins of a history that is validated or begun
//!    again. The transaction has taken their ends and the positions of their blocks out of the index. A
//!    crash leaves some of them; they go at open.
//! 7. *The UTXO store removes the files that the new manifest no longer names*, once it is told that
//!    the commit has returned: until the transaction is durable a restart may still need them. A
//!    crash leaves some of them; they go at open, as in 1.
//!
//! There are two kinds. A commit with a UTXO state follows a flush or a merge of the memtable. One
//! without is cheap and comes often: it bounds what is re-downloaded (block index) and
//! re-verified (verified tip), and leaves the UTXO set where it was; a restart re-applies the blocks
//! between the UTXO tip and the verified tip without scripts.
//!
//! A commit runs beside connecting: appending goes on while it syncs, and what is noted meanwhile
//! belongs to the next one.

use godwit_primitives::BlockHash;
use godwit_stream::SerializeData;

use crate::block_files::AppendedBlocks;
use crate::control::Control;
use crate::db::Batch;
use crate::error::StoreError;
use crate::record::{
    AssumedSnapshot, BlockPosition, BlockRecord, ChainPoint, FileEnds, HistoryCoins, Refutation,
    ScrubPass, UtxoState,
};
use crate::store::pruned_blocks::{PRUNED_END, PrunedEnd, append, pruned_files};
use crate::store::{
    ASSUMED, BLOCK_INDEX, BlockKey, COMMIT_NUMBER, DOUBTED, DurableEnds, FILE_ENDS, HISTORY, ONLY,
    REFUTED, REINDEXING, SCRUB, Store, UTXO, VERIFIED_TIP, remove_history,
};
use crate::undo::AppendedUndo;

/// A new state of the UTXO set. Its run files and their directory are durable already.
#[derive(Clone, Debug)]
pub struct UtxoCommit {
    /// The block after which the runs are the UTXO set.
    pub tip: ChainPoint,
    /// Encoded manifest of the runs.
    pub manifest: SerializeData,
    /// Set with the first commit of a UTXO set that was loaded from a snapshot.
    pub assumed: Option<AssumedSnapshot>,
}

/// What has become known of the history below a loaded snapshot.
#[derive(Clone, Debug)]
pub enum HistoryCommit {
    /// It is validated so far. The run files of these coins and their directory are durable already.
    Coins(HistoryCoins),
    /// It is validated from genesis to the snapshot's block, and has the snapshot's coins: these are not
    /// assumed any more, and the history's own, which nothing may have open, are removed.
    Validated,
    /// It has ended against the snapshot for the first time, and is to be validated from genesis on again.
    /// Its coins are removed, as with [`Self::Forgotten`].
    Doubted(Refutation),
    /// It has ended so again: the snapshot is wrong.
    Refuted(Refutation),
    /// Its coins are damaged: they are removed, and it is to be validated from genesis on again.
    Forgotten,
}

/// The ends of the block and undo files when [`Store::take_appended`] looked at them.
///
/// A commit names these ends, not those of the moment when it is written: a block that is noted in
/// between has no entry in this commit's block index, and must be behind the committed end to be
/// found again after a crash.
#[derive(Default)]
pub struct Appended {
    blocks: AppendedBlocks,
    undo: AppendedUndo,
}

/// What changes with one commit.
#[derive(Default)]
pub struct Commit {
    /// What was noted up to the moment when `blocks` was put together: positions in it are at
    /// most these ends, and every block before them has its entry.
    pub appended: Appended,
    /// Entries of the block index, new or changed.
    pub blocks: Vec<(BlockHash, BlockRecord)>,
    /// Numbers of block and undo files to be deleted: no entry of the index has a position in them
    /// behind this commit, and blocks are not appended to them any more.
    pub pruned: Vec<u32>,
    /// The highest block of the active chain that was fully connected; `None` leaves it. A restart
    /// applies the blocks up to it from the tip of the UTXO set that this commit leaves in force, so
    /// all of them are stored.
    pub verified_tip: Option<ChainPoint>,
    /// The UTXO set; `None` leaves it.
    pub utxo: Option<UtxoCommit>,
    /// The history below a loaded snapshot; `None` leaves it.
    pub history: Option<HistoryCommit>,
    /// How far the scrub is; `None` leaves it.
    pub scrub: Option<ScrubPass>,
}

impl Store {
    /// Hands over what was noted since the last call, for the next [`Commit`]. To be called
    /// together with gathering the changes of the block index; does no I/O.
    pub fn take_appended(&self) -> Appended {
        Appended { blocks: self.blocks.take_appended(), undo: self.undo.take_appended() }
    }

    /// Hands over, for a commit on the way of a reindex, the blocks that were handed back at open up to the
    /// one at `last`, all of which are in the index.
    pub fn take_recovered(&self, last: BlockPosition) -> Appended {
        Appended { blocks: self.blocks.take_recovered(last), ..Appended::default() }
    }

    /// Writes to the disk what was noted and not handed over yet, so that the syncs of the next commit are
    /// short. Nothing names it before that. May run beside appends.
    ///
    /// # Errors
    ///
    /// A failed fsync, which closes the store.
    pub fn push_out(&self) -> Result<(), StoreError> {
        self.blocks.push_out()?;
        self.undo.push_out()
    }

    /// Makes `commit` durable, in the order that the module describes, and deletes the files that it
    /// prunes. Commits follow one another.
    ///
    /// # Errors
    ///
    /// Any error leaves the last commit in force; a failed write or fsync closes the store.
    pub fn commit(&self, commit: Commit) -> Result<(), StoreError> {
        self.commit_with(commit, |_| Ok(()))
    }

    /// As [`Self::commit`]; the index that was made again from the block files is whole with it.
    pub fn end_reindex(&self, commit: Commit) -> Result<(), StoreError> {
        self.commit_with(commit, |batch| batch.remove(&REINDEXING, ONLY))
    }

    fn commit_with(
        &self,
        commit: Commit,
        more: impl FnOnce(&mut Batch<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // What a panicked commit has synced is recorded by the next one.
        let mut ends = self.ends.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let DurableEnds { files, uncommitted, .. } = &mut *ends;
        let mut control = self.control.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let next = control.after(&commit);
        for (file, end) in self.blocks.sync(commit.appended.blocks)? {
            files.entry(file).or_default().blocks = end;
            uncommitted.insert(file);
        }
        for (file, end) in self.undo.sync(commit.appended.undo)? {
            files.entry(file).or_default().undo = end;
            uncommitted.insert(file);
        }
        if !commit.pruned.is_empty() {
            keep_pruned(self, &mut ends, &commit.pruned, &commit.blocks)?;
        }
        let DurableEnds { files, uncommitted, pruned } = &mut *ends;
        let mut batch = self.db.batch()?;
        if let Some(end) = pruned.filter(|_| !commit.pruned.is_empty()) {
            batch.put(&PRUNED_END, ONLY, &PrunedEnd { end, files: pruned_files(files) })?;
        }
        batch.put(&COMMIT_NUMBER, ONLY, &next.commit)?;
        batch.put_all(&FILE_ENDS, uncommitted.iter().map(|file| (*file, &files[file])))?;
        put_blocks(&mut batch, &commit.blocks)?;
        if let Some(tip) = &commit.verified_tip {
            batch.put(&VERIFIED_TIP, ONLY, tip)?;
        }
        if let Some(utxo) = commit.utxo {
            if let Some(assumed) = &utxo.assumed {
                batch.put(&ASSUMED, ONLY, assumed)?;
                // Those of another snapshot.
                if next.state.history.is_none() && control.state.history.is_some() {
                    batch.remove(&HISTORY, ONLY)?;
                }
                if next.state.doubted.is_none() && control.state.doubted.is_some() {
                    batch.remove(&DOUBTED, ONLY)?;
                }
            }
            let state = UtxoState { tip: utxo.tip, manifest: utxo.manifest };
            batch.put(&UTXO, ONLY, &state)?;
        }
        if let Some(pass) = &commit.scrub {
            batch.put(&SCRUB, ONLY, pass)?;
        }
        let ends_history = matches!(
            commit.history,
            Some(HistoryCommit::Validated | HistoryCommit::Doubted(_) | HistoryCommit::Forgotten)
        );
        if let Some(history) = commit.history {
            put_history(&mut batch, history)?;
        }
        more(&mut batch)?;
        batch.commit()?;
        uncommitted.clear();
        next.write(&self.disk, &self.dir)?;
        *control = next;
        for file in commit.pruned {
            self.blocks.remove(file)?;
            self.undo.remove(file)?;
        }
        if ends_history { remove_history(&self.disk, &self.dir) } else { Ok(()) }
    }
}

/// Notes the files that a commit prunes, and keeps what the index has of their blocks.
fn keep_pruned(
    store: &Store,
    ends: &mut DurableEnds,
    pruned: &[u32],
    blocks: &[(BlockHash, BlockRecord)],
) -> Result<(), StoreError> {
    // Where blocks were pruned that it lacks, the next start writes it wholly.
    let has_all = ends.pruned.is_some() || pruned_files(&ends.files) == 0;
    for file in pruned {
        ends.files.insert(*file, FileEnds::PRUNED);
        ends.uncommitted.insert(*file);
    }
    if has_all {
        let entries = blocks.iter().map(|(_, record)| record);
        let end = append(&store.disk, &store.dir, &store.db, ends.pruned, entries)?;
        ends.pruned = Some(end);
    }
    Ok(())
}

/// In the order of the keys each page is touched once, however many records and branches there are. In the
/// order in which they changed, pages that had left the database's cache were read and written again for
/// one record each.
fn put_blocks(
    batch: &mut Batch<'_>,
    blocks: &[(BlockHash, BlockRecord)],
) -> Result<(), StoreError> {
    let key =
        |hash: &BlockHash, record: &BlockRecord| BlockKey { height: record.height, hash: *hash };
    let mut blocks: Vec<_> =
        blocks.iter().map(|(hash, record)| (key(hash, record), record)).collect();
    blocks.sort_unstable_by_key(|(key, _)| (key.height, key.hash));
    batch.put_all(&BLOCK_INDEX, blocks)
}

fn put_history(batch: &mut Batch<'_>, history: HistoryCommit) -> Result<(), StoreError> {
    match history {
        HistoryCommit::Coins(coins) => batch.put(&HISTORY, ONLY, &coins),
        HistoryCommit::Validated => {
            batch.remove(&ASSUMED, ONLY)?;
            batch.remove(&DOUBTED, ONLY)?;
            batch.remove(&HISTORY, ONLY)
        }
        HistoryCommit::Doubted(refutation) => {
            batch.put(&DOUBTED, ONLY, &refutation)?;
            batch.remove(&HISTORY, ONLY)
        }
        HistoryCommit::Refuted(refutation) => batch.put(&REFUTED, ONLY, &refutation),
        HistoryCommit::Forgotten => batch.remove(&HISTORY, ONLY),
    }
}

impl Control {
    /// What the control file says behind `commit`.
    fn after(&self, commit: &Commit) -> Self {
        let mut next = Self { commit: self.commit + 1, ..self.clone() };
        next.pruned |= !commit.pruned.is_empty();
        next.state.verified_tip = commit.verified_tip.or(next.state.verified_tip);
        if let Some(UtxoCommit { tip, manifest, assumed }) = &commit.utxo {
            next.state.utxo_tip = Some(*tip);
            next.state.utxo_manifest = Some(manifest.clone());
            if assumed.is_some() && *assumed != next.state.assumed {
                next.state.forget_snapshot();
                next.state.assumed = *assumed;
            }
        }
        match &commit.history {
            Some(HistoryCommit::Coins(coins)) => next.state.history = Some(coins.clone()),
            Some(HistoryCommit::Validated) => next.state.forget_snapshot(),
            Some(HistoryCommit::Doubted(refutation)) => {
                (next.state.doubted, next.state.history) = (Some(*refutation), None);
            }
            Some(HistoryCommit::Refuted(refutation)) => next.state.refuted = Some(*refutation),
            Some(HistoryCommit::Forgotten) => next.state.history = None,
            None => {}
        }
        next
    }
}

#[cfg(test)]
mod tests;
