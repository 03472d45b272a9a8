//! The shared chains, read as foreign files, stored, and read back.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_primitives::network::Params;
use godwit_primitives::{BlockHash, Network};
use godwit_store::disk::{RealDisk, StoreDisk};
use godwit_store::scan::{BlockFileScanner, Scanned};
use godwit_store::{
    BLOCK_BUFFERS, BlockPosition, BlockRecord, BlockStatus, Commit, NetworkId, Rebuild,
    RecoveredBlock, Store, StoreOptions,
};
use godwit_stream::{BufferPool, Obfuscation};
use godwit_testdata::{read, shared_data};

struct SharedChain {
    network: Network,
    file: &'static str,
    golden: &'static str,
    first_height: u32,
    blocks: usize,
}

const CHAINS: [SharedChain; 4] = [
    SharedChain {
        network: Network::Main,
        file: "mainnet_0_299.dat.zst",
        golden: "golden_mainnet_0_299.jsonl.zst",
        first_height: 0,
        blocks: 300,
    },
    SharedChain {
        network: Network::Testnet3,
        file: "testnet3_1_2500.dat.zst",
        golden: "golden_testnet3_0_2500.jsonl.zst",
        first_height: 1,
        blocks: 2500,
    },
    SharedChain {
        network: Network::Signet,
        file: "signet_0_60.dat.zst",
        golden: "golden_signet_0_60.jsonl.zst",
        first_height: 0,
        blocks: 61,
    },
    SharedChain {
        network: Network::Regtest,
        file: "regtest_0_150.dat.zst",
        golden: "golden_regtest_0_150.jsonl.zst",
        first_height: 0,
        blocks: 151,
    },
];

fn shared_chains() -> Option<PathBuf> {
    shared_data().map(|folder| folder.join("chains"))
}

/// The hashes that Core gives for the chain's heights.
fn golden_hashes(chains: &Path, chain: &SharedChain) -> Vec<BlockHash> {
    let text = String::from_utf8(read(chains.join(chain.golden))).unwrap();
    let hash_of = |line: &str| {
        let (_, rest) = line.split_once("\"hash\"").unwrap();
        rest.split('"').nth(1).unwrap().parse().unwrap()
    };
    text.lines().skip(chain.first_height as usize).map(hash_of).collect()
}

fn disk() -> StoreDisk {
    StoreDisk::new(Arc::new(RealDisk))
}

/// Hashes and bytes of all records; nothing may lie between them.
fn scan(path: &Path, magic: [u8; 4]) -> Vec<(BlockHash, Vec<u8>)> {
    let scanner = BlockFileScanner::open(&disk(), path, magic).unwrap();
    let pool = BufferPool::new(BLOCK_BUFFERS);
    let records = scanner.scan().map(|found| match found.unwrap() {
        Scanned::Block(block) => (
            block.header.block_hash(),
            scanner.read(&block.place, &pool).unwrap().as_slice().to_vec(),
        ),
        Scanned::Skipped(bytes) => panic!("{bytes:?}"),
    });
    records.collect()
}

#[test]
fn shared_chains_are_found_record_by_record() {
    let Some(chains) = shared_chains() else { return };
    let dir = tempfile::tempdir().unwrap();
    for chain in CHAINS {
        let path = dir.path().join("chain.dat");
        fs::write(&path, read(chains.join(chain.file))).unwrap();
        let found = scan(&path, Params::new(chain.network).magic);
        assert_eq!(found.len(), chain.blocks);
        assert!(found.iter().map(|(hash, _)| *hash).eq(golden_hashes(&chains, &chain)));
    }
}

#[test]
fn a_directory_as_core_writes_it_gives_the_same_blocks() {
    let Some(chains) = shared_chains() else { return };
    let chain = &CHAINS[1];
    let magic = Params::new(chain.network).magic;
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("chain.dat");
    fs::write(&plain, read(chains.join(chain.file))).unwrap();
    let expected = scan(&plain, magic);

    let blocks_dir = dir.path().join("blocks");
    fs::create_dir(&blocks_dir).unwrap();
    let key = Obfuscation::new(*b"\xfd\xc3\xe8\xde\xce\xa7\xfe\x1c");
    fs::write(blocks_dir.join("xor.dat"), key.key()).unwrap();
    for (number, records) in expected.chunks(1000).enumerate() {
        let framed = |(_, block): &(BlockHash, Vec<u8>)| {
            [&magic[..], &(block.len() as u32).to_le_bytes(), block].concat()
        };
        let mut bytes = records.iter().map(framed).collect::<Vec<_>>().concat();
        key.apply(&mut bytes, 0);
        // Core preallocates in chunks of 16 MiB, without obfuscation.
        bytes.resize(bytes.len() + 100_000, 0);
        fs::write(blocks_dir.join(format!("blk{number:05}.dat")), bytes).unwrap();
    }
    assert!(scan(&blocks_dir, magic) == expected);
}

#[test]
fn a_stored_chain_is_what_other_readers_of_block_files_expect() {
    let Some(chains) = shared_chains() else { return };
    let chain = &CHAINS[1];
    let params = Params::new(chain.network);
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("chain.dat");
    let bytes = read(chains.join(chain.file));
    fs::write(&source, &bytes).unwrap();
    let blocks = scan(&source, params.magic);

    let store_dir = dir.path().join("testnet3");
    let open = || {
        let network = NetworkId { magic: params.magic, genesis: params.genesis_hash.to_bytes() };
        let options = StoreOptions {
            dir: store_dir.clone(),
            network,
            new_hash_key: [1; 16],
            buffers: BLOCK_BUFFERS,
            rebuild: Rebuild::Nothing,
            stop: Arc::default(),
        };
        Store::open(Arc::new(RealDisk), options).unwrap()
    };
    let (store, _) = open();
    let (committed, late) = blocks.split_at(2000);
    let records = committed.iter().zip(chain.first_height..).map(|((hash, block), height)| {
        let position = append(&store, block);
        let header = godwit_stream::SpanReader::new(block).get().unwrap();
        let record = BlockRecord {
            header,
            height,
            status: BlockStatus::STRUCTURED,
            tx_count: 1,
            sequence: u64::from(height),
            position: Some(position),
            checksum: None,
            undo: None,
        };
        (*hash, record)
    });
    let records: Vec<_> = records.collect();
    store
        .commit(Commit {
            appended: store.take_appended(),
            blocks: records.clone(),
            ..Commit::default()
        })
        .unwrap();
    let late_positions: Vec<_> = late.iter().map(|(_, block)| append(&store, block)).collect();
    drop(store);

    let (store, recovered) = open();
    let mut found = Vec::new();
    store
        .for_each_block(|hash, record| {
            found.push((hash, record));
            Ok(())
        })
        .unwrap();
    assert!(found == records);
    let recovered_hash = |block: &RecoveredBlock| (block.header.block_hash(), block.position);
    let late_hashes = late.iter().map(|(hash, _)| *hash);
    assert!(recovered.iter().map(recovered_hash).eq(late_hashes.zip(late_positions)));
    for ((_, block), (_, record)) in committed.iter().zip(found) {
        assert_eq!(store.read_block(record.position.unwrap()).unwrap().as_slice(), block);
    }
    // The framing is Core's: the file is the source, byte for byte, and scans as it does.
    assert!(fs::read(store_dir.join("blocks/blk00000.dat")).unwrap() == bytes);
    assert!(scan(&store_dir.join("blocks"), params.magic) == blocks);
}

/// All steps of an append, as the chain takes them one by one.
fn append(store: &Store, block: &[u8]) -> BlockPosition {
    let position = store.reserve_block(block.len(), false).unwrap();
    store.note_written(store.write_block(position, block).unwrap());
    position
}
