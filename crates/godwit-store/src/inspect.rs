//! Inspection: reads everything stored and reports what is not as it was written.
//!
//! Without a repair it changes nothing: the database is opened over memory, runs are read without being
//! repaired, and nothing is cut off or removed. A repair writes in place and reports it, except for undo
//! records that have no place yet.

mod added_undo;
pub(crate) mod found;
pub mod pruned;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use godwit_primitives::BlockHash;
use godwit_stream::{DataStream, Obfuscation, PooledStream, SerializeData, SpanReader};

use crate::block_files::{
    FRAME_SIZE, block_file_path, check_distinct, frame, has_files as has_block_files,
};
use crate::checkpoint::{Checkpoints, Work};
use crate::control::{self, Control, Slot};
use crate::db::Db;
use crate::disk::{Disk, DiskLock, OpenMode, StoreDisk, StoreFile};
use crate::error::{Damage, DamagedPart, NetworkId, Remedy, StoreError};
use crate::exec::Executor;
use crate::names::{BLOCKS_DIR, HISTORY_DIR, LOCK_FILE, UTXO_DIR, XOR_FILE};
use crate::record::{BlockPosition, BlockRecord, CommittedState, FileEnds, UndoPosition};
use crate::scan::read_obfuscation;
use crate::store::pruned_blocks::makes_index;
use crate::store::{
    DATABASE_FILE, FILE_ENDS, OpenedDatabase, commit_history, commit_manifest, inspect_database,
    own_controls, refuse_core_directory, refuse_obfuscated_files, visit_blocks,
    write_zero_obfuscation,
};
use crate::undo::{BlockUndo, UndoFiles, UndoRecord};
use crate::utxo::{CoinsInspection, CompressedCoins, Manifest, RepairMode, UtxoHasher};

pub use added_undo::AddedUndo;
pub use found::{Found, Stage, Watch};

/// A data directory that is being inspected.
pub struct Inspection {
    disk: StoreDisk,
    dir: PathBuf,
    network: NetworkId,
    committed: Mutex<Committed>,
    undo: UndoFiles,
    /// Damage of the index that a repair will mend, and reports once it has.
    index_damage: Option<Found>,
    /// Nothing was ever stored.
    is_new: bool,
    repair: bool,
    _lock: Box<dyn DiskLock>,
}

/// The state that the last commit left; a repair of coins commits a new one.
struct Committed {
    /// `None` where neither database nor control file tells.
    control: Option<Control>,
    /// `None` where it is damaged, or its index is not whole.
    db: Option<Db>,
}

/// A file of the block or undo files that a commit has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    pub number: u32,
    pub path: PathBuf,
    /// Its committed length.
    pub committed: u64,
    /// Its length; `None` if it is not there.
    pub len: Option<u64>,
}

impl NamedFile {
    /// How many of the committed bytes exist.
    pub fn there(&self) -> u64 {
        self.len.unwrap_or(0).min(self.committed)
    }
}

/// Keeps other processes away from a network's directory, for what is inspected beside an [`Inspection`].
///
/// # Errors
///
/// [`StoreError::Locked`]; a failed system call.
pub fn lock(disk: &StoreDisk, dir: &Path) -> Result<Box<dyn DiskLock>, StoreError> {
    disk.lock(&dir.join(LOCK_FILE))
}

impl Inspection {
    /// Opens a network's directory, and inspects its control files and database. With `repair`, this and the
    /// other functions repair in place what they can. Of the control files and the database it repairs only
    /// the former: opening the store ([`crate::Store::open`]) does the rest.
    ///
    /// # Errors
    ///
    /// [`StoreError::Locked`], [`StoreError::OtherNetwork`], [`StoreError::NewerSchema`],
    /// [`StoreError::ObfuscatedFiles`]; a failed system call.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        network: NetworkId,
        repair: bool,
        watch: &mut dyn Watch,
    ) -> Result<Self, StoreError> {
        let disk = StoreDisk::new(disk);
        refuse_core_directory(&disk, dir)?;
        let lock = lock(&disk, dir)?;
        let controls = Control::intact(&disk, dir)?;
        let path = dir.join(DATABASE_FILE);
        let own = own_controls(&controls, &path, network).unwrap_or_default();
        let confirmed = control::confirmed(&disk, dir, &own)?.cloned();
        let slots = Control::both(&disk, dir)?;
        let blocks_dir = dir.join(BLOCKS_DIR);
        // Whatever else there is: a link to a disk that is not mounted is no damage.
        let has_files = has_files(&disk, dir)?;
        check_distinct(&disk, &blocks_dir)?;
        let is_new = controls.is_empty() && disk.is_missing(&path)? && !has_files;
        let (mut db, mut control, mut ends) = (None, confirmed.clone(), BTreeMap::new());
        let mut index_damage = None;
        if !is_new {
            let opened = inspect_database(&disk, dir, &controls, network);
            match opened.and_then(|opened| Self::check_database(opened, dir, &mut ends)) {
                Ok(opened) => (db, control) = (Some(opened.db), Some(opened.control)),
                Err(error) => {
                    own_controls(&controls, &path, network)?;
                    let makes = |control| makes_index(&disk, dir, control);
                    let again = confirmed.as_ref().map_or(Ok(false), makes)?;
                    let remedy = match again {
                        true => Remedy::Repair,
                        false => DamagedPart::Index.remedy(crate::has_whole_history(&disk, dir)),
                    };
                    let found = Found::of(error, remedy)?;
                    match again && repair {
                        true => index_damage = Some(found),
                        false => watch.found(found),
                    }
                }
            }
        }
        let undo_ends = ends.iter().map(|(file, end): (&u32, &FileEnds)| (*file, end.undo));
        let undo = UndoFiles::new(&disk, &blocks_dir, undo_ends.collect());
        let dir = dir.to_owned();
        let has_index = db.is_some();
        let committed = Mutex::new(Committed { control, db });
        let inspection =
            Self { disk, dir, network, committed, undo, index_damage, is_new, repair, _lock: lock };
        // With a repair it is asked again, when the database is there.
        if has_index || !repair {
            inspection.check_control(slots, watch)?;
            inspection.check_obfuscation(watch)?;
        }
        Ok(inspection)
    }

    /// Reads all of a database, and notes the ends of the files.
    fn check_database(
        opened: OpenedDatabase,
        dir: &Path,
        ends: &mut BTreeMap<u32, FileEnds>,
    ) -> Result<OpenedDatabase, StoreError> {
        if opened.kept.is_some() {
            let unfinished = Damage::Disagreement("its index is not made to its end");
            return Err(StoreError::damaged(&dir.join(DATABASE_FILE), 0, unfinished));
        }
        opened.db.for_each(&FILE_ENDS, |file, end| {
            ends.insert(file, end);
            Ok(())
        })?;
        visit_blocks(&opened.db, dir, &mut |_, _| Ok(()))?;
        Ok(opened)
    }

    /// Tells what is wrong with the control files: of the last two commits each has left one.
    fn check_control(
        &self,
        slots: [(PathBuf, Slot); 2],
        watch: &mut dyn Watch,
    ) -> Result<(), StoreError> {
        let Some(control) = self.control() else { return Ok(()) };
        let has_files = control.identity.schema > 1;
        for (path, slot) in slots {
            // Schema 1 has none.
            let damage = control.damage_of(&slot).filter(|_| has_files || !slot.is_missing());
            let Some(damage) = damage else { continue };
            let mut remedy = Remedy::Repair;
            if self.repair {
                control.write_to(&self.disk, &path)?;
                remedy = Remedy::Done;
            }
            watch.found(Found { path, offset: 0, bytes: 0, damage, remedy });
        }
        Ok(())
    }

    /// Tells whether the key beside the block files is the one that they are not changed by.
    fn check_obfuscation(&self, watch: &mut dyn Watch) -> Result<(), StoreError> {
        let dir = self.dir.join(BLOCKS_DIR);
        if self.control().is_some() {
            // Each block would be told to be damaged, and no repair begins.
            refuse_obfuscated_files(&self.disk, &dir, self.network.magic)?;
        }
        let damage = match read_obfuscation(&self.disk, &dir) {
            Ok(Some(Obfuscation::NONE)) => return Ok(()),
            Ok(None) if self.control().is_none() => return Ok(()),
            Ok(None) => Damage::MissingFile,
            Ok(Some(_)) => Damage::Format,
            Err(StoreError::Damaged { damage, .. }) => damage,
            Err(error) => return Err(error),
        };
        let mut remedy = Remedy::Repair;
        if self.repair {
            self.disk.create_dir_all(&dir)?;
            write_zero_obfuscation(&self.disk, &dir, self.network.magic)?;
            remedy = Remedy::Done;
        }
        watch.found(Found { path: dir.join(XOR_FILE), offset: 0, bytes: 0, damage, remedy });
        Ok(())
    }

    fn committed(&self) -> MutexGuard<'_, Committed> {
        // A commit that panicked has replaced the whole or nothing.
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn control(&self) -> Option<Control> {
        self.committed().control.clone()
    }

    /// Whether the block index can be read. Without it, neither blocks nor undo records can be found.
    pub fn has_index(&self) -> bool {
        self.committed().db.is_some()
    }

    /// Whether there are block or undo files: a node does not open a directory that has lost all of them.
    ///
    /// # Errors
    ///
    /// The directory cannot be listed.
    pub fn has_block_files(&self) -> Result<bool, StoreError> {
        has_block_files(&self.disk, &self.dir.join(BLOCKS_DIR))
    }

    /// Whether nothing was ever stored.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Damage of the block index that was not reported yet: the index has to be rebuilt first, from the block
    /// files, so that the existing coins can be kept.
    pub fn index_damage(&self) -> Option<&Found> {
        self.index_damage.as_ref()
    }

    /// What rebuilds index and coins.
    pub fn index_remedy(&self) -> Remedy {
        DamagedPart::Index.remedy(self.has_whole_history())
    }

    /// Whether all blocks are stored that the coins come from.
    pub fn has_whole_history(&self) -> bool {
        self.control().as_ref().is_none_or(Control::has_whole_history)
    }

    /// The state that the last commit left.
    pub fn state(&self) -> CommittedState {
        self.control().map(|control| control.state).unwrap_or_default()
    }

    /// The hasher of the coins' keys.
    pub fn hasher(&self) -> UtxoHasher {
        let key = self.control().map(|control| control.identity.utxo_hash_key);
        UtxoHasher::new(key.unwrap_or_default())
    }

    /// The place of the checkpoints of an interrupted repair.
    pub fn checkpoints(&self) -> Checkpoints {
        let (magic, fingerprint) = (self.network.magic, self.hasher().fingerprint());
        Checkpoints::new(&self.disk, &self.dir, Work::Repair, magic, fingerprint, None)
    }

    pub fn disk(&self) -> &StoreDisk {
        &self.disk
    }

    /// The network's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Message start of the network.
    pub fn magic(&self) -> [u8; 4] {
        self.network.magic
    }

    pub fn database_path(&self) -> PathBuf {
        self.dir.join(DATABASE_FILE)
    }

    /// Calls `visit` with each entry of the block index.
    pub fn for_each_block(
        &self,
        mut visit: impl FnMut(BlockHash, BlockRecord) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let committed = self.committed();
        let Some(db) = &committed.db else { return Ok(()) };
        visit_blocks(db, &self.dir, &mut visit)
    }

    fn ends(&self) -> Result<BTreeMap<u32, FileEnds>, StoreError> {
        let mut ends = BTreeMap::new();
        if let Some(db) = &self.committed().db {
            db.for_each(&FILE_ENDS, |file, end| {
                ends.insert(file, end);
                Ok(())
            })?;
        }
        Ok(ends)
    }

    /// The block files that commits have named.
    pub fn block_files(&self) -> Result<Vec<NamedFile>, StoreError> {
        let ends = self.ends()?;
        let named = ends.into_iter().filter(|(_, end)| end.blocks > 0);
        let path = |number| block_file_path(&self.dir.join(BLOCKS_DIR), number);
        named.map(|(number, end)| self.named(number, path(number), end.blocks.into())).collect()
    }

    /// The undo files that commits have named.
    pub fn undo_files(&self) -> Result<Vec<NamedFile>, StoreError> {
        let ends = self.ends()?;
        let named = ends.into_iter().filter(|(_, end)| end.undo > 0);
        named.map(|(number, end)| self.named(number, self.undo.path(number), end.undo)).collect()
    }

    fn named(&self, number: u32, path: PathBuf, committed: u64) -> Result<NamedFile, StoreError> {
        let len = match self.disk.open(&path, OpenMode::Read) {
            Ok(file) => Some(file.file_len()?),
            Err(error) if error.is_not_found() => {
                self.disk.check_link(&path)?;
                None
            }
            Err(error) => return Err(error),
        };
        Ok(NamedFile { number, path, committed, len })
    }

    pub fn block_path(&self, file: u32) -> PathBuf {
        block_file_path(&self.dir.join(BLOCKS_DIR), file)
    }

    pub fn undo_path(&self, file: u32) -> PathBuf {
        self.undo.path(file)
    }

    /// The bytes of a block, whatever its frame is.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] where the file is missing or ends before.
    pub fn read_block(&self, at: BlockPosition) -> Result<PooledStream, StoreError> {
        let (path, mut bytes) = (self.block_path(at.file), DataStream::new());
        let file = open_file(&self.disk, &path)?;
        file.read_stream_at(at.offset.into(), at.len as usize, &mut bytes)
            .map_err(|error| unreadable(error, &path, at.offset.into()))?;
        Ok(PooledStream::from(bytes))
    }

    /// Reports a block's frame that is not as it was written; a repair writes it again. Only for a block
    /// whose own bytes are right, since index and network then determine the frame.
    ///
    /// # Errors
    ///
    /// A failed system call.
    pub fn check_block_frame(&self, at: BlockPosition) -> Result<Option<Found>, StoreError> {
        let path = self.block_path(at.file);
        let start = u64::from(at.offset.saturating_sub(FRAME_SIZE));
        let mut found = match check_frame(&self.disk, self.network.magic, &path, start, at.len) {
            Ok(()) => return Ok(None),
            Err(error) => Found::of(error, Remedy::Repair)?,
        };
        if self.repair {
            let file = self.disk.open(&path, OpenMode::ReadWrite)?;
            file.write_all_at(start, &frame(self.network.magic, at.len))?;
            file.sync()?;
            found.remedy = Remedy::Done;
        }
        Ok(Some(Found { bytes: FRAME_SIZE.into(), ..found }))
    }

    /// The undo data of the block that follows `prev`, from a record whose frame and checksum are right.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] where they are not, or the file ends before.
    pub fn read_undo(&self, at: UndoPosition, prev: &BlockHash) -> Result<BlockUndo, StoreError> {
        self.read_stored_undo(at, prev).map(|(undo, _)| undo)
    }

    /// The same undo data, with the coins in the coins store's form; `None` if the record has numbers that
    /// only old versions of Core wrote.
    ///
    /// # Errors
    ///
    /// As [`Self::read_undo`].
    pub fn read_stored_undo(
        &self,
        at: UndoPosition,
        prev: &BlockHash,
    ) -> Result<(BlockUndo, Option<CompressedCoins>), StoreError> {
        let path = self.undo.path(at.file);
        let start = at.offset.saturating_sub(FRAME_SIZE.into());
        check_frame(&self.disk, self.network.magic, &path, start, at.len)?;
        let read = self.undo.read_stored(at, prev);
        read.map_err(|error| unreadable(error, &path, at.offset))
    }

    /// Drops a block file and its undo file from the system's page cache: an inspection reads everything only
    /// once, and the memory is of more use to others.
    pub fn release_cache(&self, file: u32) {
        for path in [self.block_path(file), self.undo_path(file)] {
            if let Ok(file) = self.disk.open_cached(&path) {
                file.release_cache(0..u64::MAX);
            }
        }
    }

    /// Puts an undo record back to its place; `false` if it has another length.
    pub fn restore_undo(&self, at: UndoPosition, record: &UndoRecord) -> Result<bool, StoreError> {
        self.undo.restore(at, record)
    }

    /// Makes a manifest that a repair has written the coins' manifest, in one transaction.
    ///
    /// # Errors
    ///
    /// A failed system call, after which either manifest may be in force.
    ///
    /// # Panics
    ///
    /// If no coins were ever committed.
    pub fn commit_coins(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.commit(|controls| {
            commit_manifest(&self.disk, &self.dir, controls, self.network, manifest)
        })
    }

    /// The same for the coins of a snapshot's history. `None` removes them: the history has to be validated
    /// from genesis again.
    ///
    /// # Errors
    ///
    /// As [`Self::commit_coins`].
    pub fn commit_history(&self, manifest: Option<&Manifest>) -> Result<(), StoreError> {
        self.commit(|controls| {
            commit_history(&self.disk, &self.dir, controls, self.network, manifest)
        })
    }

    fn commit(
        &self,
        commit: impl FnOnce(&[Control]) -> Result<Control, StoreError>,
    ) -> Result<(), StoreError> {
        let mut committed = self.committed();
        // What the one that changes nothing has read, the other one replaces.
        drop(committed.db.take());
        let control = commit(&Control::intact(&self.disk, &self.dir)?)?;
        let db = Db::open_unchanged(&self.disk, &self.dir.join(DATABASE_FILE))?;
        *committed = Committed { control: Some(control), db: Some(db) };
        Ok(())
    }

    /// Inspects the coins that the last commit has named, if there are any.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] where the manifest is.
    pub fn coins(
        &self,
        executor: &Arc<dyn Executor>,
    ) -> Result<Option<CoinsInspection>, StoreError> {
        let beyond_parity = DamagedPart::Coins.remedy(self.has_whole_history());
        self.runs(UTXO_DIR, self.state().utxo_manifest, beyond_parity, executor)
    }

    /// The same of the coins of a snapshot's history.
    ///
    /// # Errors
    ///
    /// As [`Self::coins`].
    pub fn history_coins(
        &self,
        executor: &Arc<dyn Executor>,
    ) -> Result<Option<CoinsInspection>, StoreError> {
        let manifest = self.state().history.map(|coins| coins.manifest);
        self.runs(HISTORY_DIR, manifest, Remedy::Validation, executor)
    }

    fn runs(
        &self,
        dir: &str,
        manifest: Option<SerializeData>,
        beyond_parity: Remedy,
        executor: &Arc<dyn Executor>,
    ) -> Result<Option<CoinsInspection>, StoreError> {
        let Some(bytes) = manifest else { return Ok(None) };
        let manifest: Manifest = SpanReader::new(&bytes).get().map_err(|error| {
            StoreError::damaged(&self.database_path(), 0, Damage::Decode(error))
        })?;
        let (dir, mode) = (self.dir.join(dir), RepairMode { writes: self.repair, beyond_parity });
        CoinsInspection::open(&self.disk, &dir, self.hasher(), manifest, executor, mode).map(Some)
    }
}

/// Fails if undo records of these blocks are damaged at their places but present in another file, and cannot
/// all be rebuilt. Each block comes with the hash of the one before it.
///
/// # Errors
///
/// The name of the file that has them, as one that is not to be used.
pub fn refuse_misplaced_undo(
    inspection: &Inspection,
    wrong: &[(UndoPosition, BlockHash)],
) -> Result<(), StoreError> {
    match inspection.has_whole_history() {
        true => Ok(()),
        false => inspection.undo.refuse_misplaced(wrong),
    }
}

/// Whether there are files of blocks, undo records or coins.
fn has_files(disk: &StoreDisk, dir: &Path) -> Result<bool, StoreError> {
    let has_coins = !disk.list_if_there(&dir.join(UTXO_DIR))?.is_empty();
    Ok(has_block_files(disk, &dir.join(BLOCKS_DIR))? || has_coins)
}

/// Checks that a record of `len` bytes begins at `start`.
///
/// # Errors
///
/// [`StoreError::Damaged`] where it does not, or there is no such place.
pub(crate) fn check_frame(
    disk: &StoreDisk,
    magic: [u8; 4],
    path: &Path,
    start: u64,
    len: u32,
) -> Result<(), StoreError> {
    let mut found = [0; FRAME_SIZE as usize];
    let file = open_file(disk, path)?;
    file.read_exact_at(start, &mut found).map_err(|error| unreadable(error, path, start))?;
    match found == frame(magic, len) {
        true => Ok(()),
        false => Err(StoreError::damaged(path, start, Damage::Format)),
    }
}

fn open_file(disk: &StoreDisk, path: &Path) -> Result<StoreFile, StoreError> {
    disk.open_cached(path).map_err(|error| match error.is_not_found() {
        true => StoreError::damaged(path, 0, Damage::MissingFile),
        false => error,
    })
}

/// Treats a place that the medium does not return as damaged, like one behind the end of the file.
pub(crate) fn unreadable(error: StoreError, path: &Path, offset: u64) -> StoreError {
    match error.is_unreadable() {
        true => StoreError::damaged(path, offset, Damage::Short),
        false => error,
    }
}
