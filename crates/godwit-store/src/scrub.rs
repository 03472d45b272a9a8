//! Checks stored data in the background.
//!
//! What it reads is dropped from the system's page cache, where it would displace what others read. Damage is
//! read once more, from the disk, before it is reported.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_primitives::BlockHash;
use godwit_stream::Obfuscation;

use crate::block_files::FRAME_SIZE;
use crate::control::Control;
use crate::db::Db;
use crate::disk::OpenMode;
use crate::error::{Damage, DamagedPart, Remedy, StoreError};
use crate::inspect::{Found, check_frame, unreadable};
use crate::names::{BLOCKS_DIR, XOR_FILE};
use crate::record::{BlockPosition, FileEnds, ScrubPass, UndoPosition};
use crate::scan::read_obfuscation;
use crate::store::pruned_blocks::{self, makes_index};
use crate::store::{
    COMMIT_NUMBER, DATABASE_FILE, FILE_ENDS, ONLY, SCRUB, Store, committed_state, visit_blocks,
    write_zero_obfuscation,
};
use crate::undo::UndoRecord;

/// What was read of control files and database.
#[derive(Debug, Default)]
pub struct FilesScrubbed {
    pub bytes: u64,
    pub found: Vec<Found>,
    /// The database was read as well.
    pub is_done: bool,
}

/// What makes undo records again that no search has made.
pub fn undo_remedy(store: &Store) -> Remedy {
    match store.coins_remedy() {
        Remedy::Download => Remedy::RepairWhereStored,
        _ => Remedy::Repair,
    }
}

/// As [`crate::inspect::refuse_misplaced_undo`], of a store that is open.
///
/// # Errors
///
/// The same.
pub fn refuse_misplaced_undo(
    store: &Store,
    wrong: &[(UndoPosition, BlockHash)],
) -> Result<(), StoreError> {
    let whole = {
        let control = store.control.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        control.has_whole_history()
    };
    if whole { Ok(()) } else { store.undo.refuse_misplaced(wrong) }
}

impl Store {
    /// How far the scrub was at the last commit; `None` if there was none yet.
    pub fn scrubbed(&self) -> Result<Option<ScrubPass>, StoreError> {
        self.db.find(&SCRUB, &ONLY)
    }

    /// Runs `read` for a stored block and the frame before it.
    ///
    /// # Errors
    ///
    /// That of `read`; [`StoreError::Damaged`] for a frame that is not right.
    pub fn scrub_block<T>(
        &self,
        at: BlockPosition,
        read: impl Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (path, start) =
            (self.block_file(at.file), u64::from(at.offset.saturating_sub(FRAME_SIZE)));
        let place = start..u64::from(at.offset) + u64::from(at.len);
        read_at_rest(self, &path, place, || {
            check_frame(&self.disk, self.magic(), &path, start, at.len)?;
            read()
        })
    }

    /// Checks the undo record of the block behind `prev`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] where it is not what was written, or a failed read.
    pub fn scrub_undo(&self, at: UndoPosition, prev: &BlockHash) -> Result<(), StoreError> {
        let (path, start) = (self.undo.path(at.file), at.offset.saturating_sub(FRAME_SIZE.into()));
        let place = start..at.offset + u64::from(at.len) + CHECKSUM_SIZE;
        read_at_rest(self, &path, place, || {
            check_frame(&self.disk, self.magic(), &path, start, at.len)?;
            let read = self.read_undo(at, prev);
            read.map(drop).map_err(|error| unreadable(error, &path, at.offset))
        })
    }

    /// Puts an undo record that has rotted back to its place; `false` if it has another length, or its file
    /// was pruned. Waits for a commit that is under way.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] or [`StoreError::Closed`].
    pub fn restore_undo(&self, at: UndoPosition, record: &UndoRecord) -> Result<bool, StoreError> {
        self.disk.check()?;
        // Held, so that the file is not removed meanwhile.
        let ends = self.ends.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let pruned = ends.files.get(&at.file).is_some_and(|ends| *ends == FileEnds::PRUNED);
        if pruned { Ok(false) } else { self.undo.restore(at, record) }
    }

    /// What makes coins again that parity does not bring back. Waits for a commit that is under way.
    pub fn coins_remedy(&self) -> Remedy {
        let control = self.control.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        DamagedPart::Coins.remedy(control.has_whole_history())
    }

    /// Checks control files, `xor.dat`, what is kept of pruned blocks, and the database, and writes all but
    /// the last one again where they are damaged.
    /// No commit begins meanwhile: it would change what is read. `stop` ends the reading of the database.
    ///
    /// # Errors
    ///
    /// A failed system call. A damaged database is none: this process has it in
    /// memory as far as it needs it.
    pub fn scrub_files(&self, stop: &Arc<AtomicBool>) -> Result<FilesScrubbed, StoreError> {
        let mut no_commit = self.ends.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let control = self.control.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut out = FilesScrubbed::default();
        for (path, slot) in Control::both(&self.disk, &self.dir)? {
            if let Some(damage) = control.damage_of(&slot) {
                control.write_to(&self.disk, &path)?;
                out.found.push(whole_file(&path, damage, Remedy::Done));
            }
        }
        scrub_key(self, &mut out)?;
        let path = self.dir.join(DATABASE_FILE);
        let check = || check_database(self, &path, control.commit, stop);
        let checked = match check() {
            Err(StoreError::Damaged { .. }) => check(),
            other => other,
        };
        out.is_done = checked.is_ok() || !stop.load(Ordering::Relaxed);
        match checked {
            // What is kept of pruned blocks is written again from the database through the instance that is
            // open, which an unreadable page would close: only where all of it could be read.
            Ok(bytes) => {
                out.bytes += bytes;
                scrub_pruned(self, &mut no_commit.pruned, stop, &mut out)?;
            }
            Err(_) if !out.is_done => {}
            Err(error) => {
                let remedy = match makes_index(&self.disk, &self.dir, &control)? {
                    true => Remedy::Restart,
                    false => DamagedPart::Index.remedy(false),
                };
                out.found.push(Found::of(error, remedy)?);
            }
        }
        Ok(out)
    }
}

/// Reads a place from the disk, again if that fails, and lets the system forget it.
fn read_at_rest<T>(
    store: &Store,
    path: &Path,
    place: Range<u64>,
    read: impl Fn() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let forget = || {
        if let Ok(file) = store.disk.open_cached(path) {
            file.release_cache(place.clone());
        }
    };
    // A file that was removed from outside is still there for who has it open.
    store.disk.reopen(path).map_err(|error| match error.is_not_found() {
        true => StoreError::damaged(path, 0, Damage::MissingFile),
        false => error,
    })?;
    // What the system has of it may be what was written, and not what the disk has.
    forget();
    let first = read();
    forget();
    if first.is_ok() {
        return first;
    }
    let second = read();
    forget();
    second
}

fn scrub_key(store: &Store, out: &mut FilesScrubbed) -> Result<(), StoreError> {
    let dir = store.dir.join(BLOCKS_DIR);
    let damage = match read_obfuscation(&store.disk, &dir) {
        Ok(Some(Obfuscation::NONE)) => return Ok(()),
        Ok(None) => Damage::MissingFile,
        Ok(Some(_)) => Damage::Format,
        Err(StoreError::Damaged { damage, .. }) => damage,
        Err(error) => return Err(error),
    };
    write_zero_obfuscation(&store.disk, &dir, store.magic())?;
    out.found.push(whole_file(&dir.join(XOR_FILE), damage, Remedy::Done));
    Ok(())
}

/// Reads what is kept of pruned blocks, and writes it again from the database where it is damaged or shorter
/// than `end`. Nothing is done where `stop` says so.
fn scrub_pruned(
    store: &Store,
    end: &mut Option<u64>,
    stop: &AtomicBool,
    out: &mut FilesScrubbed,
) -> Result<(), StoreError> {
    let Some(known) = *end else { return Ok(()) };
    let read = match pruned_blocks::read(&store.disk, &store.dir, stop, &mut |_| {}) {
        Err(StoreError::Stopped) => return Ok(()),
        read => read?,
    };
    out.bytes += read.bytes;
    let path = pruned_blocks::path(&store.dir);
    let short = || StoreError::damaged(&path, read.bytes, Damage::Short);
    let damage = read.damage.or_else(|| (read.bytes < known).then(short));
    if let Some(damage) = damage {
        *end = Some(pruned_blocks::rewrite(&store.disk, &store.dir, &store.db)?);
        out.found.push(Found::of(damage, Remedy::Done)?);
    }
    Ok(())
}

/// Reads all of the database, of that commit, beside the instance that is open; returns its length.
fn check_database(
    store: &Store,
    path: &Path,
    commit: u64,
    stop: &Arc<AtomicBool>,
) -> Result<u64, StoreError> {
    let file =
        store.disk.open(path, OpenMode::Read).map_err(|error| match error.is_not_found() {
            true => StoreError::damaged(path, 0, Damage::MissingFile),
            false => error,
        })?;
    // As above.
    file.release_cache(0..u64::MAX);
    let db = Db::open_beside(&store.disk, path, stop)?;
    visit_blocks(&db, &store.dir, &mut |_, _| Ok(()))?;
    db.for_each(&FILE_ENDS, |_, _| Ok(()))?;
    committed_state(&db)?;
    if db.find(&COMMIT_NUMBER, &ONLY)?.unwrap_or(0) != commit {
        return Err(StoreError::damaged(path, 0, Damage::RolledBack));
    }
    file.release_cache(0..u64::MAX);
    file.file_len()
}

/// Bytes behind undo data (Core: `UNDO_DATA_DISK_OVERHEAD`).
const CHECKSUM_SIZE: u64 = 32;

fn whole_file(path: &Path, damage: Damage, remedy: Remedy) -> Found {
    Found { path: path.to_owned(), offset: 0, bytes: 0, damage, remedy }
}
