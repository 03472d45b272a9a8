//! One network's data directory: lock, database, block and undo files.

mod database;
mod foreign;
pub(crate) mod pruned_blocks;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use godwit_primitives::BlockHash;
use godwit_stream::{BufferPool, DecodeError, PoolLimits, PooledStream};

use database::open_database;
pub(crate) use database::{
    ASSUMED, BLOCK_INDEX, BlockKey, COMMIT_NUMBER, DOUBTED, FILE_ENDS, HISTORY, ONLY, REFUTED,
    REINDEXING, SCRUB, UTXO, VERIFIED_TIP,
};
pub(crate) use database::{
    DATABASE_FILE, OpenedDatabase, commit_history, commit_manifest, committed_state,
    inspect_database, open_current, own_controls,
};
use foreign::refuse_foreign_files;
pub(crate) use foreign::{refuse_core_directory, refuse_obfuscated_files, write_zero_obfuscation};
pub use pruned_blocks::PrunedBlock;

use crate::block_files::{
    BlockFiles, MAX_BLOCK_FILE_SIZE, MAX_BLOCK_SERIALIZED_SIZE, MAX_OPEN_BLOCK_FILES,
    RecoveredBlock, WrittenBlock, block_file_path, file_number,
};
use crate::checkpoint;
use crate::control::{self, Control, Kept};
use crate::db::Db;
use crate::disk::probe::{probe, unless_unsuitable};
use crate::disk::{Disk, DiskLock, MAX_CACHED_FILES, OpenMode, StoreDisk};
use crate::error::{Damage, NetworkId, StoreError};
use crate::names::{BLOCKS_DIR, HISTORY_DIR, LOCK_FILE, UTXO_DIR};
use crate::record::{
    BlockChecksum, BlockPosition, BlockRecord, CommittedState, FileEnds, UndoPosition,
};
use crate::undo::{BlockUndo, MAX_OPEN_UNDO_FILES, UndoFiles, UndoRecord, WrittenUndo};
use crate::utxo::{MAX_UNFLUSHED, remove_runs};

/// Version of the database's tables and of every file that they name.
pub const SCHEMA_VERSION: u32 = 3;

/// Idle buffers of blocks and undo records: enough for those on their way to the tip, so
/// that a sync takes memory from the system once and not for each block.
pub const BLOCK_BUFFERS: PoolLimits = PoolLimits {
    buffers: 256,
    buffer_bytes: MAX_BLOCK_SERIALIZED_SIZE as usize,
    total_bytes: 32 << 20,
};

/// Files of a data directory that are open for as long as it is, or for one operation: lock, database,
/// control file, a directory that is synced; the runs that are being written or synced and the one that is
/// merged with their parity, one that is sorted, one that is repaired with its parity, each twice beside the
/// history of a snapshot.
const OTHER_OPEN_FILES: usize = 4 + 2 * (2 * MAX_UNFLUSHED + 2 + 1 + 2);

/// Most files that a data directory with its coins holds open, however many block files and runs it
/// has: those kept for reading; those that were appended to since the last commit, and once more
/// those that a running commit syncs. Each thread that reads may have one more.
pub const MAX_OPEN_FILES: usize =
    MAX_CACHED_FILES + 2 * (MAX_OPEN_BLOCK_FILES + MAX_OPEN_UNDO_FILES) + OTHER_OPEN_FILES;

/// Which data directory to open.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The network's own directory.
    pub dir: PathBuf,
    pub network: NetworkId,
    /// Random bytes, kept as the key of the UTXO store's hash when the directory is created.
    pub new_hash_key: [u8; 16],
    /// What the pool of buffers for blocks and undo records keeps.
    pub buffers: PoolLimits,
    /// What to rebuild although it may be intact.
    pub rebuild: Rebuild,
    /// Ends an open that takes long, because all block files are searched for blocks.
    pub stop: Arc<AtomicBool>,
}

/// What to rebuild from the block files, whatever state it is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rebuild {
    #[default]
    Nothing,
    /// The coins (`-reindex-chainstate`).
    Coins,
    /// The block index and the coins (`-reindex`).
    Index,
    /// The block index, some entries of which cannot be read, while the existing coins are kept (`verify
    /// -repair`).
    IndexAlone,
}

/// How far each block and undo file is durable.
#[derive(Default)]
pub(crate) struct DurableEnds {
    pub(crate) files: BTreeMap<u32, FileEnds>,
    /// Files whose ends no commit has recorded yet.
    pub(crate) uncommitted: BTreeSet<u32>,
    /// End of the file of pruned blocks, if there is one.
    pub(crate) pruned: Option<u64>,
}

/// What was written and is not yet named by a commit: for [`Store::note_written`].
#[derive(Debug)]
pub enum Written {
    Block(WrittenBlock),
    /// An undo record.
    Undo(WrittenUndo),
}

impl From<WrittenBlock> for Written {
    fn from(written: WrittenBlock) -> Self {
        Self::Block(written)
    }
}

impl From<WrittenUndo> for Written {
    fn from(written: WrittenUndo) -> Self {
        Self::Undo(written)
    }
}

/// An open data directory. All methods may be called from any thread; a failed write or fsync
/// closes it for good.
pub struct Store {
    pub(crate) disk: StoreDisk,
    pub(crate) db: Db,
    pub(crate) blocks: BlockFiles,
    pub(crate) undo: UndoFiles,
    /// The durable ends of all files. The lock also puts commits in order.
    pub(crate) ends: Mutex<DurableEnds>,
    /// The state that the last commit left. Locked while `ends` is held.
    pub(crate) control: Mutex<Control>,
    kept: Option<Kept>,
    pub(crate) dir: PathBuf,
    magic: [u8; 4],
    utxo_hash_key: [u8; 16],
    block_buffers: BufferPool,
    _lock: Box<dyn DiskLock>,
}

impl Store {
    /// Opens the data directory, creating it when there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Locked`], [`StoreError::CoreDirectory`], [`StoreError::CoreStarted`],
    /// [`StoreError::ForeignFile`], [`StoreError::ObfuscatedFiles`], [`StoreError::OtherNetwork`],
    /// [`StoreError::NewerSchema`],
    /// [`StoreError::Damaged`] for a damaged database or files shorter than committed,
    /// [`StoreError::AllMissing`] where a directory has none of the files that it should be full of,
    /// [`StoreError::IncompleteHistory`] and [`StoreError::Stopped`] as the options have it, else
    /// [`StoreError::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        options: StoreOptions,
    ) -> Result<(Self, Vec<RecoveredBlock>), StoreError> {
        Self::open_with_file_size(disk, options, MAX_BLOCK_FILE_SIZE)
    }

    /// As [`Store::open`]; a block file is left for the next one before it grows to
    /// `max_file_size` bytes instead of [`MAX_BLOCK_FILE_SIZE`]. For tests, which then need few
    /// blocks to fill files (Core's `-fastprune`).
    pub fn open_with_file_size(
        disk: Arc<dyn Disk>,
        options: StoreOptions,
        max_file_size: u32,
    ) -> Result<(Self, Vec<RecoveredBlock>), StoreError> {
        let disk = StoreDisk::new(disk);
        let dir = options.dir.clone();
        refuse_core_directory(&disk, &dir)?;
        let blocks_dir = dir.join(BLOCKS_DIR);
        for below in [&blocks_dir, &dir.join(UTXO_DIR)] {
            disk.create_dir_all(below).map_err(|error| unless_unsuitable(error, &dir))?;
        }
        let lock = disk.lock(&dir.join(LOCK_FILE))?;
        let network = options.network;
        let found = Control::intact(&disk, &dir)?;
        disk.sync_dir(&dir).map_err(|error| unless_unsuitable(error, &dir))?;
        if found.is_empty() && disk.is_missing(&dir.join(DATABASE_FILE))? {
            probe(&disk, &dir)?;
        }
        let mut opened = open_database(&disk, &dir, found, &options)?;
        remove_useless(&disk, &dir, &mut opened, options.rebuild)?;
        let OpenedDatabase { db, control, kept } = opened;
        write_zero_obfuscation(&disk, &blocks_dir, network.magic)?;

        let mut ends = DurableEnds::default();
        db.for_each(&FILE_ENDS, |file, end| {
            ends.files.insert(file, end);
            Ok(())
        })?;
        ends.pruned = pruned_blocks::open(&disk, &dir, &db, &ends.files, kept.is_some())?;
        remove_dead(&disk, &blocks_dir, &ends.files)?;
        let magic = network.magic;
        let mut named = ends.files.clone();
        // Of files that are searched for all their blocks some lie before one that was pruned.
        named.retain(|_, ends| kept.is_none() || *ends != FileEnds::PRUNED);
        let (blocks, recovered) =
            BlockFiles::open(&disk, &blocks_dir, magic, &named, max_file_size, &options.stop)?;
        let undo_ends = ends.files.iter().map(|(file, end)| (*file, end.undo)).collect();
        let undo = UndoFiles::new(&disk, &blocks_dir, undo_ends);
        let utxo_hash_key = control.identity.utxo_hash_key;
        let (ends, control) = (Mutex::new(ends), Mutex::new(control));
        let store = Store {
            disk,
            db,
            blocks,
            undo,
            ends,
            control,
            kept,
            dir,
            magic,
            utxo_hash_key,
            block_buffers: BufferPool::new(options.buffers),
            _lock: lock,
        };
        Ok((store, recovered))
    }

    /// The disk, with the store's latch: for the UTXO store, which fails and closes with this one.
    pub fn disk(&self) -> &StoreDisk {
        &self.disk
    }

    /// The network's own directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The state that the last commit left.
    pub fn state(&self) -> Result<CommittedState, StoreError> {
        committed_state(&self.db)
    }

    /// The state to restore while the index is rebuilt from the block files; `None` if the index is whole.
    /// All blocks that the index does not have yet were handed back at open. Until [`Self::end_reindex`] this
    /// state is in force instead of [`Self::state`].
    pub fn lost(&self) -> Option<&CommittedState> {
        self.kept.as_ref().map(|kept| &kept.state)
    }

    /// Passes to `take` everything in a file that may be an undo record, in file order: [`Store::read_undo`]
    /// tells whether it belongs to a given block, and `take` returns whether it did.
    ///
    /// # Errors
    ///
    /// Those of `take`, and failed reads.
    pub fn undo_records(
        &self,
        file: u32,
        take: &mut dyn FnMut(UndoPosition) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        self.undo.records(file, self.magic, take)
    }

    /// Has the next commit name the undo records of a file up to `last`.
    pub fn adopt_undo(&self, last: UndoPosition) -> Result<(), StoreError> {
        self.undo.adopt(last)
    }

    /// The error that says that the committed manifest of the runs does not decode.
    pub fn damaged_manifest(&self, error: DecodeError) -> StoreError {
        StoreError::damaged(&self.dir.join(DATABASE_FILE), 0, Damage::Decode(error))
    }

    /// Bytes of each pair of block and undo file, reserved places included.
    pub fn file_bytes(&self) -> BTreeMap<u32, u64> {
        let (last, last_len) = self.blocks.last_file();
        let mut bytes = self.undo.lengths();
        for (file, len) in self.blocks.full_files().into_iter().chain([(last, last_len)]) {
            *bytes.entry(file).or_default() += u64::from(len);
        }
        bytes.retain(|_, bytes| *bytes > 0);
        bytes
    }

    /// Number of the first block file that may still grow: one that blocks are being written to, or
    /// will be. Neither it nor a later one may be pruned.
    pub fn first_open_file(&self) -> u32 {
        self.blocks.first_open_file()
    }

    /// Path of a block file, to name it to the user.
    pub fn block_file(&self, file: u32) -> PathBuf {
        self.blocks.path(file)
    }

    /// Path of an undo file, to name it to the user.
    pub fn undo_file(&self, file: u32) -> PathBuf {
        self.undo.path(file)
    }

    /// Directory of the UTXO store's runs.
    pub fn utxo_dir(&self) -> PathBuf {
        self.dir.join(UTXO_DIR)
    }

    /// Directory of the runs of the history's coins.
    pub fn history_dir(&self) -> PathBuf {
        self.dir.join(HISTORY_DIR)
    }

    /// Key of the UTXO store's hash, random per data directory.
    pub fn utxo_hash_key(&self) -> [u8; 16] {
        self.utxo_hash_key
    }

    /// Calls `visit` with each entry of the block index in order of height, a parent always before
    /// its children.
    ///
    /// # Errors
    ///
    /// Also [`StoreError::Damaged`] when a header does not hash to its key.
    pub fn for_each_block(
        &self,
        mut visit: impl FnMut(BlockHash, BlockRecord) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        visit_blocks(&self.db, &self.dir, &mut visit)
    }

    /// Reserves the next place in the block files for a block of `len` bytes. Does no I/O. Write to it with
    /// [`Store::write_block`], and pass it on only after that has returned. With `begins_file`, the block is
    /// the first one of its file.
    ///
    /// # Errors
    ///
    /// [`StoreError::RecordTooLarge`] above [`crate::MAX_BLOCK_SERIALIZED_SIZE`].
    pub fn reserve_block(
        &self,
        len: usize,
        begins_file: bool,
    ) -> Result<BlockPosition, StoreError> {
        if begins_file {
            self.blocks.begin_file();
        }
        self.blocks.reserve(len)
    }

    /// Writes a block to the place that was reserved for it. Places are written to in the order in
    /// which they were reserved. Handed back as [`RecoveredBlock`] when a crash comes before the
    /// commit that names it, and the bytes survive.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] or [`StoreError::Closed`].
    ///
    /// # Panics
    ///
    /// If it is not this place's turn, or the block has another length.
    pub fn write_block(&self, at: BlockPosition, block: &[u8]) -> Result<WrittenBlock, StoreError> {
        self.blocks.write(at, block)
    }

    /// Writes a stored block again to its place, where its bytes are damaged, and makes it durable.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] or [`StoreError::Closed`].
    ///
    /// # Panics
    ///
    /// If the block has another length.
    pub fn rewrite_block(&self, at: BlockPosition, block: &[u8]) -> Result<(), StoreError> {
        self.blocks.rewrite(at, block)
    }

    /// Makes the next commit name a written record. Call it in the order of reservation, together with the
    /// change of the block index that says where the record lies. Does no I/O.
    pub fn note_written(&self, written: impl Into<Written>) {
        match written.into() {
            Written::Block(written) => self.blocks.note(written),
            Written::Undo(written) => self.undo.note(written),
        }
    }

    /// The bytes at a stored block's place, for a reader that checks them.
    pub fn read_block(&self, position: BlockPosition) -> Result<PooledStream, StoreError> {
        self.blocks.read(position, &self.block_buffers)
    }

    /// The bytes of a stored block, checked to be those that were written.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] when they are not, besides failed reads.
    pub fn read_intact_block(
        &self,
        position: BlockPosition,
        checksum: BlockChecksum,
    ) -> Result<PooledStream, StoreError> {
        let block = self.read_block(position)?;
        if BlockChecksum::of(block.as_slice()) == checksum {
            return Ok(block);
        }
        let path = self.blocks.path(position.file);
        Err(StoreError::damaged(&path, position.offset.into(), Damage::Checksum))
    }

    /// The buffers that blocks are read into, from wherever they come, and undo records encoded in.
    pub fn block_buffers(&self) -> &BufferPool {
        &self.block_buffers
    }

    /// Message start of the network, for [`UndoRecord::encode`].
    pub fn magic(&self) -> [u8; 4] {
        self.magic
    }

    /// Takes the next place for a block's undo record in the undo file with the number of the block's
    /// file. Does no I/O; further as [`Store::reserve_block`].
    pub fn reserve_undo(&self, block: BlockPosition, record: &UndoRecord) -> UndoPosition {
        self.undo.reserve(block.file, record)
    }

    /// Writes an undo record to the place that was reserved for it, those of one file in the order in
    /// which they were reserved.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] or [`StoreError::Closed`]; [`StoreError::Damaged`] when the file is shorter
    /// than a commit has named.
    ///
    /// # Panics
    ///
    /// If it is not this place's turn, or the record has another length.
    pub fn write_undo(
        &self,
        at: UndoPosition,
        record: &UndoRecord,
    ) -> Result<WrittenUndo, StoreError> {
        self.undo.write(at, record)
    }

    /// Reads a block's undo data; `prev` is the hash of the block before it, which the checksum
    /// covers.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] when the checksum does not match or the data do not decode.
    pub fn read_undo(
        &self,
        position: UndoPosition,
        prev: &BlockHash,
    ) -> Result<BlockUndo, StoreError> {
        self.undo.read(position, prev)
    }
}

/// Whether nothing was kept of the database that this one replaces: with `-reindex`, or because the control
/// files are lost as well. Stays true while an interrupted rebuild of the index is resumed.
pub fn starts_over(store: &Store) -> bool {
    store.kept.as_ref().is_some_and(Kept::connects_all_anew)
}

/// Calls `visit` with each entry of the block index.
pub(crate) fn visit_blocks(
    db: &Db,
    dir: &Path,
    visit: &mut dyn FnMut(BlockHash, BlockRecord) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    db.for_each(&BLOCK_INDEX, |key, record| {
        if record.header.block_hash() != key.hash || record.height != key.height {
            return Err(StoreError::damaged(&dir.join(DATABASE_FILE), 0, Damage::Format));
        }
        visit(key.hash, record)
    })
}

/// Whether a network's directory has all blocks from which its coins come, so that index and coins can be
/// rebuilt without a download. Reads the state of the last commit without opening anything.
pub fn has_whole_history(disk: &StoreDisk, dir: &Path) -> bool {
    let controls = Control::intact(disk, dir).unwrap_or_default();
    match control::confirmed(disk, dir, &controls) {
        Ok(Some(control)) => control.has_whole_history(),
        // Nothing tells whose these are, and below a snapshot the first block file says nothing.
        _ => {
            controls.iter().all(Control::has_whole_history)
                && disk.open(&dir.join(BLOCKS_DIR).join("blk00000.dat"), OpenMode::Read).is_ok()
        }
    }
}

/// Makes sure that no other process uses the data directory, for work that has to be done before it is
/// opened.
///
/// # Errors
///
/// As [`Store::open`] for a directory that is locked, or Core's.
pub fn check_unused(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    refuse_core_directory(disk, dir)?;
    disk.lock(&dir.join(LOCK_FILE)).map(drop)
}

/// Removes what a rebuild replaces, and what nothing names any more, before anything is written.
fn remove_useless(
    disk: &StoreDisk,
    dir: &Path,
    opened: &mut OpenedDatabase,
    rebuild: Rebuild,
) -> Result<(), StoreError> {
    let OpenedDatabase { control, kept, .. } = opened;
    let blocks_dir = dir.join(BLOCKS_DIR);
    if control.state.utxo_tip.is_none() && (kept.is_some() || rebuild != Rebuild::Nothing) {
        remove_runs(disk, &dir.join(UTXO_DIR))?;
        checkpoint::remove_all(disk, dir)?;
    } else if control.names_no_run() {
        // Of a snapshot whose load has failed or was interrupted before there was any coin.
        remove_runs(disk, &dir.join(UTXO_DIR))?;
    }
    if kept.as_ref().is_some_and(|kept| kept.pruned) {
        remove_files(disk, &blocks_dir, &["blk", "rev"], "whose blocks connect to nothing stored")?;
        pruned_blocks::remove(disk, dir)?;
        control.pruned = false;
    } else if kept.as_ref().is_some_and(Kept::connects_all_anew) {
        // Under new names: of a directory that was handed over Bitcoin Core has these files as well.
        remove_files(disk, &blocks_dir, &["rev"], "which are made anew")?;
    }
    if control.state.history.is_none() {
        remove_history(disk, dir)?;
    }
    Ok(())
}

/// Removes what a crash has left of pruned files, and of files that it emptied: where a commit has
/// named a later one, it has named all that there was before it. A block file that has content, with its undo
/// file, was left as it is at an earlier start, which could not tell what that is.
fn remove_dead(
    disk: &StoreDisk,
    dir: &Path,
    ends: &BTreeMap<u32, FileEnds>,
) -> Result<(), StoreError> {
    let last = ends.iter().rev().find(|(_, ends)| ends.blocks > 0).map_or(0, |(file, _)| *file);
    let is_empty = |number| match disk.open(&block_file_path(dir, number), OpenMode::Read) {
        Err(error) if error.is_not_found() => Ok(true),
        file => Ok(file?.file_len()? == 0),
    };
    let is_dead = |number: u32| match ends.get(&number) {
        Some(ends) => Ok(*ends == FileEnds::PRUNED),
        None if number < last => is_empty(number),
        None => Ok(false),
    };
    for path in disk.list(dir)? {
        let number = file_number(&path, "blk").or_else(|| file_number(&path, "rev"));
        if let Some(number) = number
            && is_dead(number)?
        {
            log::info!("{} is of no use any more: removing it", path.display());
            disk.remove(&path)?;
        }
    }
    Ok(())
}

/// Removes the coins of a history that nothing names.
pub(crate) fn remove_history(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    remove_runs(disk, &dir.join(HISTORY_DIR))
}

/// Removes all files of the block directory with these prefixes.
fn remove_files(
    disk: &StoreDisk,
    dir: &Path,
    prefixes: &[&str],
    why: &str,
) -> Result<(), StoreError> {
    let is_one = |path: &PathBuf| prefixes.iter().any(|prefix| file_number(path, prefix).is_some());
    let paths: Vec<PathBuf> = disk.list(dir)?.into_iter().filter(is_one).collect();
    if !paths.is_empty() {
        log::warn!("{}: removing {} files, {why}.", dir.display(), paths.len());
    }
    paths.iter().try_for_each(|path| disk.remove(path))?;
    // Before a commit says that there is nothing to be removed any more.
    disk.sync_dir(dir)
}

#[cfg(test)]
mod tests;
