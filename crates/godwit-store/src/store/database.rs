//! Opens the database of a data directory: the existing one, a new one, or a new one in place of a database
//! that is unusable or that the user wants rebuilt ([`Rebuild`]).
//!
//! A database that replaces another one says so in its table `reindexing`, from the transaction that creates
//! it to the one that completes its index (`Store::end_reindex`). So an interrupted reindex resumes at the
//! next start whether or not the user asks for it, and so does the removal of what it makes useless: runs
//! whose coins are given up, and block files whose earlier blocks are missing.

use std::path::Path;

use godwit_primitives::BlockHash;
use godwit_stream::{Allocator, DataStream, Decode, DecodeError, Encode, SpanReader};

use super::pruned_blocks::Headers;
use super::sources::{Named, check_sources};
use super::{
    Rebuild, SCHEMA_VERSION, StoreOptions, refuse_foreign_files, remove_history, visit_blocks,
};
use crate::block_files::has_first_block;
use crate::control::{self, Control, Kept, Slot};
use crate::db::{Db, Table};
use crate::disk::{OpenMode, StoreDisk};
use crate::error::{Damage, NetworkId, StoreError};
use crate::names::BLOCKS_DIR;
use crate::record::{
    AssumedSnapshot, BlockRecord, ChainPoint, CommittedState, FileEnds, HistoryCoins, Identity,
    Refutation, ScrubPass, UtxoState,
};
use crate::utxo::Manifest;

pub(crate) const DATABASE_FILE: &str = "godwit.redb";

/// Key of the block index: height first, so that a parent is read before its children and a
/// batch of new blocks touches neighbouring pages.
#[derive(Clone, Copy)]
pub(crate) struct BlockKey {
    pub(crate) height: u32,
    pub(crate) hash: BlockHash,
}

impl Encode for BlockKey {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write(&self.height.to_be_bytes());
        out.put(&self.hash);
    }
}

impl Decode for BlockKey {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let height = u32::from_be_bytes(reader.array()?);
        Ok(BlockKey { height, hash: reader.get()? })
    }
}

/// Headers that one transaction copies: what it changes is in memory until it is committed.
const HEADERS_AT_ONCE: usize = 1 << 15;

/// Keys of the single values, one table for each type of value.
pub(crate) const ONLY: u8 = 0;

pub(crate) const BLOCK_INDEX: Table<BlockKey, BlockRecord> = Table::new("block_index");
pub(crate) const FILE_ENDS: Table<u32, FileEnds> = Table::new("file_ends");
pub(crate) const VERIFIED_TIP: Table<u8, ChainPoint> = Table::new("verified_tip");
pub(crate) const UTXO: Table<u8, UtxoState> = Table::new("utxo");
pub(crate) const ASSUMED: Table<u8, AssumedSnapshot> = Table::new("assumed");
/// How far the history below that snapshot is validated, and what was found against it, from schema 3 on. The
/// tables are there once something is.
pub(crate) const HISTORY: Table<u8, HistoryCoins> = Table::new("history");
pub(crate) const DOUBTED: Table<u8, Refutation> = Table::new("doubted");
pub(crate) const REFUTED: Table<u8, Refutation> = Table::new("refuted");
/// Number of the last commit, from schema 2 on.
pub(crate) const COMMIT_NUMBER: Table<u8, u64> = Table::new("commit_number");
/// What was kept of the database in whose place this one was begun, while its index is being made from the
/// block files. The table is not there otherwise.
pub(crate) const REINDEXING: Table<u8, Kept> = Table::new("reindexing");
/// How far the scrub is, once one has begun.
pub(crate) const SCRUB: Table<u8, ScrubPass> = Table::new("scrub");
pub(super) const IDENTITY: Table<u8, Identity> = Table::new("identity");

pub(crate) fn committed_state(db: &Db) -> Result<CommittedState, StoreError> {
    let utxo = db.get(&UTXO, &ONLY)?;
    let (utxo_tip, utxo_manifest) = utxo.map(|UtxoState { tip, manifest }| (tip, manifest)).unzip();
    let verified_tip = db.get(&VERIFIED_TIP, &ONLY)?;
    let assumed = db.get(&ASSUMED, &ONLY)?;
    let history = db.find(&HISTORY, &ONLY)?;
    let (doubted, refuted) = (db.find(&DOUBTED, &ONLY)?, db.find(&REFUTED, &ONLY)?);
    Ok(CommittedState { utxo_tip, utxo_manifest, verified_tip, assumed, history, doubted, refuted })
}

pub(crate) struct OpenedDatabase {
    pub(crate) db: Db,
    pub(crate) control: Control,
    /// Set while the index is to be made from the block files.
    pub(crate) kept: Option<Kept>,
}

/// Opens the database, or begins a new one where there is none, where what is there is damaged or
/// older than the control file and the block files can be indexed again, or where the user says so.
/// `controls` are the control files, the newest first. Beside a database that opens none of them decides
/// alone; without one the one that the runs confirm does.
pub(super) fn open_database(
    disk: &StoreDisk,
    dir: &Path,
    controls: Vec<Control>,
    options: &StoreOptions,
) -> Result<OpenedDatabase, StoreError> {
    let (path, network) = (dir.join(DATABASE_FILE), options.network);
    let opened = match disk.open(&path, OpenMode::Read) {
        Ok(_) => open_current(disk, dir, &controls, network),
        Err(error) if !error.is_not_found() => return Err(error),
        Err(_) => Err(StoreError::damaged(&path, 0, Damage::MissingFile)),
    };
    let utxo_hash_key = options.new_hash_key;
    let new_identity = Identity { schema: SCHEMA_VERSION, network, utxo_hash_key };
    let is_new = controls.is_empty();
    let confirmed = match &opened {
        Err(StoreError::Damaged { .. }) => {
            let own = own_controls(&controls, &path, network)?;
            control::confirmed(disk, dir, &own)?.cloned()
        }
        _ => None,
    };
    let named = named(&opened, confirmed.as_ref())?;
    check_sources(disk, options, named.as_ref())?;
    match (opened, confirmed, options.rebuild) {
        (Ok(OpenedDatabase { db, control, kept: None }), _, Rebuild::IndexAlone)
            if control.has_whole_history() =>
        {
            set_aside(disk, &path)?;
            begin_with(disk, dir, control, Some(&db))
        }
        (Ok(opened @ OpenedDatabase { kept: None, .. }), _, Rebuild::IndexAlone) => {
            match Headers::gather(disk, dir, &opened.control, &options.stop)? {
                Ok(headers) => begin_pruned(disk, dir, opened.control, &headers),
                Err(_) => Ok(opened),
            }
        }
        (Ok(opened), _, Rebuild::Nothing | Rebuild::IndexAlone) => Ok(opened),
        (Ok(opened), _, Rebuild::Coins) => forget_coins(disk, dir, opened),
        (Ok(OpenedDatabase { db, control, .. }), _, Rebuild::Index) => {
            begin_without(disk, dir, &control, Some(&db))
        }
        (
            Err(StoreError::Damaged { damage: Damage::MissingFile, .. }),
            None,
            Rebuild::Nothing | Rebuild::Coins | Rebuild::IndexAlone,
        ) if is_new => {
            refuse_foreign_files(disk, &dir.join(BLOCKS_DIR), network.magic)?;
            let db = create_database(disk, &path, &new_identity, 0, |_| Ok(()))?;
            let state = CommittedState::default();
            let control = Control { commit: 0, identity: new_identity, pruned: false, state };
            control.write(disk, dir)?;
            Ok(OpenedDatabase { db, control, kept: None })
        }
        (Err(StoreError::Damaged { .. }), found, Rebuild::Index) => {
            if found.is_none() {
                refuse_foreign_files(disk, &dir.join(BLOCKS_DIR), network.magic)?;
            }
            let state = CommittedState::default();
            let nothing = Control { commit: 0, identity: new_identity, pruned: false, state };
            begin_without(disk, dir, &found.unwrap_or(nothing), None)
        }
        (Err(error @ StoreError::Damaged { .. }), Some(control), _) => {
            begin_again(disk, dir, control, options, error)
        }
        (Err(error), ..) => Err(error),
    }
}

/// What the last commit names, as far as database or control file tell. Where the database is lost, or begun
/// anew, coins that come from blocks tell of one block file at least.
fn named(
    opened: &Result<OpenedDatabase, StoreError>,
    confirmed: Option<&Control>,
) -> Result<Option<Named>, StoreError> {
    let control = opened.as_ref().map_or(confirmed, |opened| Some(&opened.control));
    let Some(control) = control else { return Ok(None) };
    let whole = control.has_whole_history();
    let block_files = match opened {
        Ok(OpenedDatabase { db, kept: None, .. }) => {
            let mut listed = 0;
            db.for_each(&FILE_ENDS, |_, ends| {
                listed += usize::from(ends.blocks > 0);
                Ok(())
            })?;
            listed
        }
        _ => {
            let tip = control.state.utxo_tip.as_ref();
            usize::from(whole && tip.is_some_and(|tip| tip.height > 0))
        }
    };
    Ok(Some(Named { block_files, runs: control.run_count(), whole }))
}

/// Begins a new database in place of one that `error` is said of, for the coins of its control file, where
/// its index can be made again.
///
/// # Errors
///
/// `error`, where it cannot.
fn begin_again(
    disk: &StoreDisk,
    dir: &Path,
    mut control: Control,
    options: &StoreOptions,
    error: StoreError,
) -> Result<OpenedDatabase, StoreError> {
    if control.has_whole_history() {
        log::error!("{error}. The index is made again from the block files.");
        set_aside(disk, &dir.join(DATABASE_FILE))?;
        if options.rebuild == Rebuild::Coins {
            control.state.forget_coins();
        }
        return begin_with(disk, dir, control, None);
    }
    if control.state.assumed.is_some() || options.rebuild == Rebuild::Coins {
        return Err(error);
    }
    match Headers::gather(disk, dir, &control, &options.stop)? {
        Ok(headers) => {
            log::error!(
                "{error}. The index is made again from the headers of pruned blocks and the block files."
            );
            begin_pruned(disk, dir, control, &headers)
        }
        Err(missing) => {
            log::error!("The index cannot be made again: {missing}.");
            Err(error)
        }
    }
}

/// Begins a new database in place of the one that `control` is of: index and coins are to be made again.
/// Where the block files lack blocks, so that nothing connects to what they have, they are given up too.
fn begin_without(
    disk: &StoreDisk,
    dir: &Path,
    control: &Control,
    old: Option<&Db>,
) -> Result<OpenedDatabase, StoreError> {
    let no_first_block = control.state.assumed.is_some()
        && !has_first_block(disk, &dir.join(BLOCKS_DIR), &control.identity.network)?;
    let pruned = control.pruned || no_first_block;
    let (commit, identity) = (control.commit + 1, control.identity.clone());
    let state = CommittedState::default();
    begin_with(disk, dir, Control { commit, identity, pruned, state }, old)
}

/// Begins a new database whose index is to be made from the block files, and whose coins are those that
/// `control` names. It has the headers of the `old` one, if that can be read.
fn begin_with(
    disk: &StoreDisk,
    dir: &Path,
    control: Control,
    old: Option<&Db>,
) -> Result<OpenedDatabase, StoreError> {
    let kept = Kept { pruned: control.pruned, state: control.state.clone() };
    begin(disk, dir, control, kept, |db| old.map_or(Ok(()), |old| keep_headers(old, dir, db)))
}

/// The same where blocks were pruned. Those that are left stay.
fn begin_pruned(
    disk: &StoreDisk,
    dir: &Path,
    control: Control,
    headers: &Headers,
) -> Result<OpenedDatabase, StoreError> {
    set_aside(disk, &dir.join(DATABASE_FILE))?;
    // Its commit was the last one, and a crash came before anything was removed.
    if headers.has_all_files() {
        return begin_with(disk, dir, Control { pruned: false, ..control }, None);
    }
    let kept = Kept { pruned: false, state: control.state.clone() };
    begin(disk, dir, Control { pruned: true, ..control }, kept, |db| headers.put_into(db))
}

fn begin(
    disk: &StoreDisk,
    dir: &Path,
    control: Control,
    kept: Kept,
    fill: impl FnOnce(&Db) -> Result<(), StoreError>,
) -> Result<OpenedDatabase, StoreError> {
    let Control { commit, identity, .. } = &control;
    let db = create_database(disk, &dir.join(DATABASE_FILE), identity, *commit, |db| {
        let mut batch = db.batch()?;
        batch.put(&REINDEXING, ONLY, &kept)?;
        batch.commit()?;
        fill(db)
    })?;
    control.write(disk, dir)?;
    Ok(OpenedDatabase { db, control, kept: Some(kept) })
}

/// Copies the headers of an index into a new one, without what it says of blocks: by them blocks connect that
/// lie above one whose header has rotted in its file. Those behind an entry that is damaged are left out.
fn keep_headers(old: &Db, dir: &Path, new: &Db) -> Result<(), StoreError> {
    let mut headers: Vec<(BlockKey, BlockRecord)> = Vec::new();
    let put = |headers: &mut Vec<(BlockKey, BlockRecord)>| {
        let mut batch = new.batch()?;
        batch.put_all(&BLOCK_INDEX, headers.iter().map(|(key, record)| (*key, record)))?;
        headers.clear();
        batch.commit()
    };
    let copied = visit_blocks(old, dir, &mut |hash, record| {
        let key = BlockKey { height: record.height, hash };
        headers.push((key, record.header_alone()));
        if headers.len() == HEADERS_AT_ONCE { put(&mut headers) } else { Ok(()) }
    });
    match copied {
        Err(error @ StoreError::Damaged { .. }) => {
            log::warn!("{error}. The headers behind it are made again from the block files.");
        }
        copied => copied?,
    }
    put(&mut headers)
}

/// Forgets the coins, in one transaction. Blocks that were verified stay so: they are applied again.
fn forget_coins(
    disk: &StoreDisk,
    dir: &Path,
    opened: OpenedDatabase,
) -> Result<OpenedDatabase, StoreError> {
    let OpenedDatabase { db, mut control, mut kept } = opened;
    if !control.has_whole_history() {
        return Err(StoreError::IncompleteHistory { dir: dir.to_owned() });
    }
    control.commit += 1;
    control.state.forget_coins();
    let mut batch = db.batch()?;
    batch.put(&COMMIT_NUMBER, ONLY, &control.commit)?;
    batch.remove(&UTXO, ONLY)?;
    if let Some(kept) = &mut kept {
        kept.state.forget_coins();
        batch.put(&REINDEXING, ONLY, kept)?;
    }
    batch.commit()?;
    control.write(disk, dir)?;
    Ok(OpenedDatabase { db, control, kept })
}

/// Opens a database that is there, if it is not older than the control file, which is brought to what it
/// says.
pub(crate) fn open_current(
    disk: &StoreDisk,
    dir: &Path,
    controls: &[Control],
    network: NetworkId,
) -> Result<OpenedDatabase, StoreError> {
    let db = Db::open(disk, &dir.join(DATABASE_FILE))?;
    let found = read_identity(&db, disk, dir, network, controls)?;
    let identity = upgrade(&db, found)?;
    let (control, kept) = read_control(&db, dir, identity, controls)?;
    if !controls.contains(&control) {
        control.write(disk, dir)?;
    }
    for (path, slot) in Control::both(disk, dir)? {
        if let Slot::Whole(found) = slot
            && !found.is_of(&control.identity)
        {
            log::warn!("{} is of another data directory; written again.", path.display());
            control.write_to(disk, &path)?;
        }
    }
    Ok(OpenedDatabase { db, control, kept })
}

/// Opens a database as it is, and changes nothing.
pub(crate) fn inspect_database(
    disk: &StoreDisk,
    dir: &Path,
    controls: &[Control],
    network: NetworkId,
) -> Result<OpenedDatabase, StoreError> {
    let path = dir.join(DATABASE_FILE);
    let db = Db::open_unchanged(disk, &path).map_err(|error| match error.is_not_found() {
        true => StoreError::damaged(&path, 0, Damage::MissingFile),
        false => error,
    })?;
    let identity = read_identity(&db, disk, dir, network, controls)?;
    let (control, kept) = read_control(&db, dir, identity, controls)?;
    Ok(OpenedDatabase { db, control, kept })
}

/// Commits another manifest of the coins that the last commit has named: a repair has written their runs
/// again. Returns what the control file says now.
pub(crate) fn commit_manifest(
    disk: &StoreDisk,
    dir: &Path,
    controls: &[Control],
    network: NetworkId,
    manifest: &Manifest,
) -> Result<Control, StoreError> {
    let OpenedDatabase { db, mut control, .. } = open_current(disk, dir, controls, network)?;
    let mut encoded = DataStream::new();
    encoded.put(manifest);
    let bytes = encoded.into_vec();
    let tip = control.state.utxo_tip.expect("these coins are those of a block");
    control.commit += 1;
    control.state.utxo_manifest = Some(bytes.clone());
    let mut batch = db.batch()?;
    batch.put(&COMMIT_NUMBER, ONLY, &control.commit)?;
    batch.put(&UTXO, ONLY, &UtxoState { tip, manifest: bytes })?;
    batch.commit()?;
    control.write(disk, dir)?;
    Ok(control)
}

/// Commits other runs of the history's coins, which a repair has written, or with `None` that there are
/// none: then their files are removed. Returns what the control file says now.
pub(crate) fn commit_history(
    disk: &StoreDisk,
    dir: &Path,
    controls: &[Control],
    network: NetworkId,
    manifest: Option<&Manifest>,
) -> Result<Control, StoreError> {
    let OpenedDatabase { db, mut control, .. } = open_current(disk, dir, controls, network)?;
    let before = control.state.history.take();
    control.state.history = before.zip(manifest).map(|(before, manifest)| {
        let mut encoded = DataStream::new();
        encoded.put(manifest);
        HistoryCoins { tip: before.tip, manifest: encoded.into_vec() }
    });
    control.commit += 1;
    let mut batch = db.batch()?;
    batch.put(&COMMIT_NUMBER, ONLY, &control.commit)?;
    match &control.state.history {
        Some(coins) => batch.put(&HISTORY, ONLY, coins)?,
        None => batch.remove(&HISTORY, ONLY)?,
    }
    batch.commit()?;
    control.write(disk, dir)?;
    if control.state.history.is_none() {
        remove_history(disk, dir)?;
    }
    Ok(control)
}

/// What a database says that it is of. One that was copied here is damaged, as far as the control files tell.
fn read_identity(
    db: &Db,
    disk: &StoreDisk,
    dir: &Path,
    network: NetworkId,
    controls: &[Control],
) -> Result<Identity, StoreError> {
    let path = dir.join(DATABASE_FILE);
    let damaged = |damage| StoreError::damaged(&path, 0, damage);
    let identity = db.get(&IDENTITY, &ONLY)?.ok_or_else(|| damaged(Damage::MissingEntry))?;
    let own = own_controls(controls, &path, network);
    match check_identity(&identity, &path, network) {
        Err(StoreError::OtherNetwork { .. }) if own.as_ref().is_ok_and(|own| !own.is_empty()) => {
            return Err(damaged(Damage::Disagreement("the database is of another network")));
        }
        checked => checked?,
    }
    // A newer program has written here, though not to this database.
    controls
        .iter()
        .filter(|control| control.is_of(&identity))
        .try_for_each(|control| check_identity(&control.identity, &path, network))?;
    match control::refute(disk, dir, &identity, &own.unwrap_or_default())? {
        true => Err(damaged(Damage::Disagreement("the database is of another data directory"))),
        false => Ok(identity),
    }
}

/// The control files of this network that this program reads. Others were copied here, if there is one.
///
/// # Errors
///
/// That of another one, where there is none of these, or it has the key of one of these.
pub(crate) fn own_controls(
    controls: &[Control],
    path: &Path,
    network: NetworkId,
) -> Result<Vec<Control>, StoreError> {
    let check = |control: &Control| check_identity(&control.identity, path, network);
    let own: Vec<Control> =
        controls.iter().filter(|control| check(control).is_ok()).cloned().collect();
    for control in controls {
        if own.is_empty() || own.iter().any(|own| own.is_of(&control.identity)) {
            check(control)?;
        }
    }
    Ok(own)
}

/// What a control file is to say beside a database that is not older than the one that is there.
fn read_control(
    db: &Db,
    dir: &Path,
    identity: Identity,
    controls: &[Control],
) -> Result<(Control, Option<Kept>), StoreError> {
    let commit = db.find(&COMMIT_NUMBER, &ONLY)?.unwrap_or(0);
    if controls.iter().any(|control| control.is_of(&identity) && control.commit > commit) {
        return Err(StoreError::damaged(&dir.join(DATABASE_FILE), 0, Damage::RolledBack));
    }
    let kept = db.find(&REINDEXING, &ONLY)?;
    let mut pruned = kept.as_ref().is_some_and(|kept| kept.pruned);
    db.for_each(&FILE_ENDS, |_, ends| {
        pruned |= ends == FileEnds::PRUNED;
        Ok(())
    })?;
    let state = match &kept {
        Some(kept) => kept.state.clone(),
        None => committed_state(db)?,
    };
    Ok((Control { commit, identity, pruned, state }, kept))
}

/// A database with empty tables, and what `fill` adds to them.
fn create_database(
    disk: &StoreDisk,
    path: &Path,
    identity: &Identity,
    commit: u64,
    fill: impl FnOnce(&Db) -> Result<(), StoreError>,
) -> Result<Db, StoreError> {
    Db::create(disk, path, |db| {
        let mut batch = db.batch()?;
        batch.create(&BLOCK_INDEX)?;
        batch.create(&FILE_ENDS)?;
        batch.create(&VERIFIED_TIP)?;
        batch.create(&UTXO)?;
        batch.create(&ASSUMED)?;
        batch.put(&COMMIT_NUMBER, ONLY, &commit)?;
        batch.put(&IDENTITY, ONLY, identity)?;
        batch.commit()?;
        fill(db)
    })
}

/// Gives a database that cannot be used another name, to be looked at: the first one that is free.
fn set_aside(disk: &StoreDisk, path: &Path) -> Result<(), StoreError> {
    let is_there = |path: &Path| match disk.open(path, OpenMode::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    };
    if !is_there(path)? {
        return Ok(());
    }
    let (mut aside, mut n) = (path.with_extension("damaged"), 0);
    while is_there(&aside)? {
        n += 1;
        aside = path.with_extension(format!("damaged{n}"));
    }
    disk.rename(path, &aside)
}

fn check_identity(identity: &Identity, path: &Path, network: NetworkId) -> Result<(), StoreError> {
    let path = path.to_owned();
    if identity.schema > SCHEMA_VERSION {
        let found = identity.schema;
        return Err(StoreError::NewerSchema { path, found, supported: SCHEMA_VERSION });
    }
    if identity.network != network {
        let found = identity.network;
        return Err(StoreError::OtherNetwork { path, found, expected: network });
    }
    Ok(())
}

/// Brings a directory of an older schema to this one, in one transaction. What a schema adds is absent in
/// what the one before has written, so that nothing is written again; what it writes, that one cannot read.
fn upgrade(db: &Db, found: Identity) -> Result<Identity, StoreError> {
    if found.schema == SCHEMA_VERSION {
        return Ok(found);
    }
    let identity = Identity { schema: SCHEMA_VERSION, ..found };
    let mut batch = db.batch()?;
    batch.create(&COMMIT_NUMBER)?;
    batch.put(&IDENTITY, ONLY, &identity)?;
    batch.commit()?;
    log::info!("The data directory has schema version {SCHEMA_VERSION} now.");
    Ok(identity)
}
