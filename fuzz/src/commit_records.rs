//! What the database says: each record decodes to what encodes to the same, and a store that is opened
//! on hostile records, whose checksums hold, answers or refuses.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use godwit_fault_disk::FaultDisk;
use godwit_primitives::{Network, Params};
use godwit_store::disk::{Disk, StoreDisk};
use godwit_store::error::NetworkId;
use godwit_store::exec::{Executor, Threads};
use godwit_store::utxo::{CacheMinima, Manifest, UtxoConfig, UtxoHasher, UtxoStore};
use godwit_store::{
    AssumedSnapshot, BLOCK_BUFFERS, BlockChecksum, BlockPosition, BlockRecord, BlockStatus,
    ChainPoint, Rebuild, SCHEMA_VERSION, Store, StoreOptions, UndoPosition,
};
use godwit_stream::{DataStream, Decode, Encode, SpanReader};
use redb::{Builder, StorageBackend, TableDefinition};

use crate::input::Input;
use crate::memory::within;

const DIR: &str = "/data";
const MAGIC: [u8; 4] = *b"comm";
const HASH_KEY: [u8; 16] = *b"sixteen byte key";

/// The tables, and how long their keys are.
const TABLES: [(&str, usize); 6] = [
    ("block_index", 36),
    ("file_ends", 4),
    ("verified_tip", 1),
    ("utxo", 1),
    ("assumed", 1),
    ("identity", 1),
];

/// Most records of an input.
const MAX_RECORDS: usize = 8;

/// What an open database and store take, whatever is in them.
const OPEN_BYTES: usize = 64 << 20;

/// One byte says what the rest is: a record of some kind, a manifest, or records of a database: table, key,
/// length of the value, value.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    match input.u8() {
        0 => check_record::<BlockRecord>(input.rest()),
        1 => check_record::<ChainPoint>(input.rest()),
        2 => check_record::<AssumedSnapshot>(input.rest()),
        3 => check_manifest(input.rest()),
        _ => within(OPEN_BYTES, || check_store(&mut input)),
    }
}

fn check_record<T: Encode + Decode + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let decode = |bytes: &[u8]| {
        let mut reader = SpanReader::new(bytes);
        let record = within(4_096 + 8 * bytes.len(), || T::decode(&mut reader)).ok()?;
        Some((record, reader.position()))
    };
    let Some((record, len)) = decode(bytes) else { return };
    let mut out = DataStream::new();
    out.put(&record);
    assert_eq!(out.as_slice().len(), len);
    assert_eq!(decode(out.as_slice()), Some((record, len)));
}

/// A manifest, and a store of it whose run files are missing.
fn check_manifest(bytes: &[u8]) {
    check_record::<Manifest>(bytes);
    let Ok(manifest) = Manifest::decode(&mut SpanReader::new(bytes)) else { return };
    let mut out = DataStream::new();
    out.put(&manifest);
    assert!(bytes.starts_with(out.as_slice()), "another form of {manifest:?}");
    let disk = StoreDisk::new(Arc::new(FaultDisk::new()));
    let config = UtxoConfig { budget: 0, minima: CacheMinima::PRODUCT };
    let hasher = UtxoHasher::new(HASH_KEY);
    let executor: Arc<dyn Executor> = Arc::new(Threads::default());
    let dir = Path::new("/data/utxo");
    let opened = UtxoStore::open(&disk, dir, hasher, &manifest, config, &executor);
    assert!(opened.is_err() || manifest.is_empty(), "runs that are not there");
}

fn check_store(input: &mut Input<'_>) {
    let params = Params::new(Network::Regtest);
    let network = NetworkId { magic: MAGIC, genesis: params.genesis_hash.to_bytes() };
    let disk = FaultDisk::new();
    disk.create_dir_all(Path::new("/data/blocks")).expect("an empty disk");
    let genesis = params.genesis_block();
    let block = [&MAGIC[..], &(genesis.len() as u32).to_le_bytes(), &genesis].concat();
    disk.overwrite(Path::new("/data/blocks/blk00000.dat"), block);
    disk.overwrite(Path::new("/data/godwit.redb"), database(input, &network));
    let options = StoreOptions {
        dir: PathBuf::from(DIR),
        network,
        new_hash_key: HASH_KEY,
        buffers: BLOCK_BUFFERS,
        rebuild: Rebuild::Nothing,
        stop: Arc::default(),
    };
    let Ok((store, recovered)) = Store::open(Arc::new(disk), options) else { return };
    assert!(recovered.len() <= 1, "one block lies there");
    let walked = store.for_each_block(|hash, record| {
        assert_eq!(record.header.block_hash(), hash);
        if let Some(position) = record.position
            && let Ok(bytes) = store.read_block(position)
        {
            assert_eq!(bytes.unread().len(), position.len as usize);
        }
        if let Some(undo) = record.undo {
            assert!(store.read_undo(undo, &record.header.prev_blockhash).is_err(), "there is none");
        }
        Ok(())
    });
    let (Ok(()), Ok(state)) = (walked, store.state()) else { return };
    assert_eq!(state.utxo_tip.is_some(), state.utxo_manifest.is_some());
    if let Some(manifest) = state.utxo_manifest {
        check_manifest(&manifest);
    }
}

/// The bytes of a database with the records of an input, behind what every database has.
fn database(input: &mut Input<'_>, network: &NetworkId) -> Vec<u8> {
    let memory = Memory::default();
    let database = Builder::new().create_with_backend(memory.clone()).expect("an empty database");
    let mut writing = database.begin_write().expect("the only writer");
    writing.set_quick_repair(true);
    let put = |table: usize, key: &[u8], value: &[u8]| {
        let definition = TableDefinition::<&[u8], &[u8]>::new(TABLES[table].0);
        let mut table = writing.open_table(definition).expect("of this type");
        let checksum = crc32c::crc32c_append(crc32c::crc32c(key), value);
        let value = [value, &checksum.to_le_bytes()].concat();
        table.insert(key, &value[..]).expect("room for it");
    };
    let identity =
        [&SCHEMA_VERSION.to_le_bytes()[..], &network.magic, &network.genesis, &HASH_KEY].concat();
    put(5, &[0], &identity);
    for _ in 0..MAX_RECORDS {
        if input.is_empty() {
            break;
        }
        let table = usize::from(input.u8()) % TABLES.len();
        let key = input.bytes(TABLES[table].1);
        let len = usize::from(input.u8());
        put(table, key, input.bytes(len));
    }
    for (name, _) in TABLES {
        drop(writing.open_table(TableDefinition::<&[u8], &[u8]>::new(name)).expect("of this type"));
    }
    writing.commit().expect("memory does not fail");
    drop(database);
    memory.bytes().clone()
}

/// A file of a database.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

impl StorageBackend for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = offset as usize;
        out.copy_from_slice(&self.bytes()[start..start + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = offset as usize;
        self.bytes()[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let params = Params::new(Network::Regtest);
    let genesis_len = params.genesis_block().len() as u32;
    let header = params.genesis;
    let record = BlockRecord {
        header,
        height: 0,
        status: BlockStatus::STRUCTURED | BlockStatus::SCRIPTS,
        tx_count: 1,
        sequence: 1,
        position: Some(BlockPosition { file: 0, offset: 8, len: genesis_len }),
        checksum: Some(BlockChecksum::of(&params.genesis_block())),
        undo: Some(UndoPosition { file: 0, offset: 8, len: 1 }),
    };
    let tip = ChainPoint { hash: header.block_hash(), height: 0 };
    let assumed = AssumedSnapshot { base: tip, utxo_hash: [5; 32] };
    let empty = encoded(&Manifest::empty(3, &UtxoHasher::new(HASH_KEY)));
    let run = [&7u64.to_le_bytes()[..], &3u32.to_le_bytes(), &[0; 16], &5u64.to_le_bytes()];
    let manifest = [&empty[..empty.len() - 1], &[1], &run.concat()[..]].concat();
    let hash = header.block_hash();
    let entry = |table: u8, key: &[u8], value: &[u8]| {
        [&[table][..], key, &[value.len() as u8], value].concat()
    };
    let index_key = [&0u32.to_be_bytes()[..], hash.as_bytes()].concat();
    let ends = [&(genesis_len + 8).to_le_bytes()[..], &[0; 8]].concat();
    let store = [
        vec![4],
        entry(0, &index_key, &encoded(&record)),
        entry(1, &[0; 4], &ends),
        entry(2, &[0], &encoded(&tip)),
        entry(3, &[0], &[&encoded(&tip)[..], &empty].concat()),
        entry(4, &[0], &encoded(&assumed)),
    ];
    vec![
        [&[0][..], &encoded(&record)].concat(),
        [&[1][..], &encoded(&tip)].concat(),
        [&[2][..], &encoded(&assumed)].concat(),
        [&[3][..], &empty].concat(),
        [&[3][..], &manifest].concat(),
        store.concat(),
        store[..1].concat(),
        [vec![4], entry(5, &[0], b"another identity")].concat(),
    ]
}

fn encoded(record: &impl Encode) -> Vec<u8> {
    let mut out = DataStream::new();
    out.put(record);
    out.as_slice().to_vec()
}
