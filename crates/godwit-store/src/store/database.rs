//! Opens the database of a data directory: the one that is there, a new one, or a new one in place of one
//! that cannot be used any more.

use std::path::Path;

use godwit_primitives::BlockHash;
use godwit_stream::{Allocator, DataStream, Decode, DecodeError, Encode, SpanReader};

use super::{CommittedState, SCHEMA_VERSION};
use crate::control::Control;
use crate::db::{Db, Table};
use crate::disk::{OpenMode, StoreDisk};
use crate::error::{Damage, NetworkId, StoreError};
use crate::record::{AssumedSnapshot, BlockRecord, ChainPoint, FileEnds, UtxoState};

pub(super) const DATABASE_FILE: &str = "godwit.redb";

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

/// Keys of the single values, one table for each type of value.
pub(crate) const ONLY: u8 = 0;

pub(crate) const BLOCK_INDEX: Table<BlockKey, BlockRecord> = Table::new("block_index");
pub(crate) const FILE_ENDS: Table<u32, FileEnds> = Table::new("file_ends");
pub(crate) const VERIFIED_TIP: Table<u8, ChainPoint> = Table::new("verified_tip");
pub(crate) const UTXO: Table<u8, UtxoState> = Table::new("utxo");
pub(crate) const ASSUMED: Table<u8, AssumedSnapshot> = Table::new("assumed");
/// Number of the last commit, from schema 2 on.
pub(crate) const COMMIT_NUMBER: Table<u8, u64> = Table::new("commit_number");
pub(super) const IDENTITY: Table<u8, Identity> = Table::new("identity");

/// What a data directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) schema: u32,
    pub(crate) network: NetworkId,
    pub(crate) utxo_hash_key: [u8; 16],
}

impl Encode for Identity {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write_u32(self.schema);
        out.write(&self.network.magic);
        out.write(&self.network.genesis);
        out.write(&self.utxo_hash_key);
    }
}

impl Decode for Identity {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let schema = reader.u32()?;
        let network = NetworkId { magic: reader.array()?, genesis: reader.array()? };
        Ok(Identity { schema, network, utxo_hash_key: reader.array()? })
    }
}

pub(super) fn committed_state(db: &Db) -> Result<CommittedState, StoreError> {
    let utxo = db.get(&UTXO, &ONLY)?;
    let (utxo_tip, utxo_manifest) = utxo.map(|UtxoState { tip, manifest }| (tip, manifest)).unzip();
    let verified_tip = db.get(&VERIFIED_TIP, &ONLY)?;
    let assumed = db.get(&ASSUMED, &ONLY)?;
    Ok(CommittedState { utxo_tip, utxo_manifest, verified_tip, assumed })
}

pub(super) struct OpenedDatabase {
    pub(super) db: Db,
    pub(super) control: Control,
    /// See [`super::Store::lost`].
    pub(super) lost: Option<CommittedState>,
}

/// Opens the database, or begins a new one where there is none, or where what is there is damaged or
/// older than the control file and the block files can be indexed again.
pub(super) fn open_database(
    disk: &StoreDisk,
    dir: &Path,
    found: Option<Control>,
    network: NetworkId,
    new_hash_key: [u8; 16],
) -> Result<OpenedDatabase, StoreError> {
    let path = dir.join(DATABASE_FILE);
    if let Some(control) = &found {
        check_identity(&control.identity, &path, network)?;
    }
    let opened = match disk.open(&path, OpenMode::Read) {
        Ok(_) => open_current(disk, dir, found.as_ref(), network),
        Err(error) if !error.is_not_found() => return Err(error),
        Err(_) => Err(StoreError::damaged(&path, 0, Damage::MissingFile)),
    };
    let error = match (opened, &found) {
        (Err(StoreError::Damaged { damage: Damage::MissingFile, .. }), None) => {
            let identity =
                Identity { schema: SCHEMA_VERSION, network, utxo_hash_key: new_hash_key };
            let db = create_database(disk, &path, &identity)?;
            let state = CommittedState::default();
            let control = Control { commit: 0, identity, pruned: false, state };
            control.write(disk, dir)?;
            return Ok(OpenedDatabase { db, control, lost: None });
        }
        (Err(error @ StoreError::Damaged { .. }), Some(control)) if !control.pruned => error,
        (opened, _) => return opened,
    };
    let control = found.expect("a database is replaced only beside a control file");
    log::error!("{error}. The index is made again from the block files.");
    set_aside(disk, &path)?;
    let db = create_database(disk, &path, &control.identity)?;
    let lost = Some(control.state.clone());
    Ok(OpenedDatabase { db, control, lost })
}

/// Opens a database that is there, if it is not older than the control file, which is brought to what it
/// says.
fn open_current(
    disk: &StoreDisk,
    dir: &Path,
    found: Option<&Control>,
    network: NetworkId,
) -> Result<OpenedDatabase, StoreError> {
    let path = dir.join(DATABASE_FILE);
    let db = Db::open(disk, &path)?;
    let identity = db
        .get(&IDENTITY, &ONLY)?
        .ok_or_else(|| StoreError::damaged(&path, 0, Damage::MissingEntry))?;
    check_identity(&identity, &path, network)?;
    let identity = upgrade(&db, identity)?;
    let commit = db.get(&COMMIT_NUMBER, &ONLY)?.unwrap_or(0);
    if found.is_some_and(|control| control.commit > commit) {
        return Err(StoreError::damaged(&path, 0, Damage::RolledBack));
    }
    let mut pruned = false;
    db.for_each(&FILE_ENDS, |_, ends| {
        pruned |= ends == FileEnds::PRUNED;
        Ok(())
    })?;
    let control = Control { commit, identity, pruned, state: committed_state(&db)? };
    if found != Some(&control) {
        control.write(disk, dir)?;
    }
    Ok(OpenedDatabase { db, control, lost: None })
}

fn create_database(disk: &StoreDisk, path: &Path, identity: &Identity) -> Result<Db, StoreError> {
    Db::create(disk, path, |batch| {
        batch.create(&BLOCK_INDEX)?;
        batch.create(&FILE_ENDS)?;
        batch.create(&VERIFIED_TIP)?;
        batch.create(&UTXO)?;
        batch.create(&ASSUMED)?;
        batch.create(&COMMIT_NUMBER)?;
        batch.put(&IDENTITY, ONLY, identity)
    })
}

/// Gives a database that cannot be used another name, to be looked at. The first one stays: those that
/// follow it were begun in its place.
fn set_aside(disk: &StoreDisk, path: &Path) -> Result<(), StoreError> {
    let aside = path.with_extension("damaged");
    if disk.open(path, OpenMode::Read).is_err_and(|error| error.is_not_found()) {
        return Ok(());
    }
    match disk.open(&aside, OpenMode::Read) {
        Ok(_) => disk.remove(path),
        Err(error) if error.is_not_found() => disk.rename(path, &aside),
        Err(error) => Err(error),
    }
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

/// Brings a directory of an older schema to this one, in one transaction. What schema 2 adds is absent
/// in what schema 1 has written, so that nothing is written again; what it writes, schema 1 can not read.
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
