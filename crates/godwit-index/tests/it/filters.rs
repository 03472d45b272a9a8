//! The index of block filters, beside Bitcoin Core's answers for real chains.

use std::path::Path;
use std::sync::Arc;

use godwit_chain::{Chain, lowest_for_indexes};
use godwit_fault_disk::FaultDisk;
use godwit_index::{
    BlockFilter, FilterIndex, FilterIndexWriter, Follower, INDEXES_DIR, IndexError, Outcome, next,
};
use godwit_primitives::Network;
use godwit_store::ChainPoint;
use godwit_store::disk::StoreDisk;
use godwit_testdata::shared_data;

use crate::beside::{
    BLOCKS, DIR, branch, chain_of, flip_in_each_file, follow, hash, kill_at_any_operation, points,
    real_chain, settle, submit,
};

pub(crate) fn index(disk: &FaultDisk, chain: &Chain) -> Result<FilterIndexWriter, IndexError> {
    let store = StoreDisk::new(Arc::new(disk.clone()));
    let (dir, genesis) = (Path::new(DIR).join(INDEXES_DIR), chain.params().genesis_hash);
    FilterIndexWriter::open(&store, &dir, genesis, lowest_for_indexes(chain))
}

pub(crate) fn follower(
    disk: &FaultDisk,
    chain: &Chain,
) -> (Follower<FilterIndexWriter>, Arc<FilterIndex>) {
    let writer = index(disk, chain).expect("it opens");
    let reader = writer.reader();
    (Follower::new(writer), reader)
}

/// The filters of blocks from a height on, all there.
pub(crate) fn filters(index: &FilterIndex, first: u32, blocks: &[Vec<u8>]) -> Vec<BlockFilter> {
    let read = |block| index.filter(block).expect("it can be read").expect("it is there");
    points(first, blocks).map(read).collect()
}

/// Those of an index that nothing has disturbed.
pub(crate) fn expected(blocks: &[Vec<u8>]) -> Vec<BlockFilter> {
    let chain = chain_of(&FaultDisk::new(), blocks);
    let (mut fresh, reader) = follower(&FaultDisk::new(), &chain);
    follow(&chain, &mut fresh).expect("no fault");
    let filters = filters(&reader, 1, blocks);
    chain.close().expect("no fault");
    filters
}

/// What nobody makes again the index waits for, without an end and without being built again.
#[test]
fn an_index_waits_for_an_undo_record_that_cannot_be_read() {
    let disk = FaultDisk::new();
    let mut chain = chain_of(&disk, &BLOCKS);
    let undo: Vec<_> = (disk.paths().into_iter())
        .filter(|path| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"rev"))
        })
        .collect();
    assert!(!undo.is_empty(), "{:?}", disk.paths());
    let sound: Vec<Vec<u8>> =
        undo.iter().map(|path| disk.contents(path).expect("a file")).collect();
    for (path, bytes) in undo.iter().zip(&sound) {
        disk.overwrite(path, vec![0; bytes.len()]);
    }
    let (mut follower, reader) = follower(&FaultDisk::new(), &chain);
    for _ in 0..2 {
        let step = next(&chain, &follower.state());
        let outcome = follower.take(step, &|| false).expect("no fault of its own");
        assert_eq!(outcome, Outcome::LacksUndo);
        assert!(!reader.status().is_synced());
    }
    for (path, bytes) in undo.iter().zip(sound) {
        disk.overwrite(path, bytes);
    }
    follow(&chain, &mut follower).expect("no fault");
    assert_eq!(filters(&reader, 1, &BLOCKS), expected(&BLOCKS));
    settle(&mut chain);
    chain.close().expect("no fault");
}

#[test]
fn filters_and_headers_of_real_chains_are_bitcoin_core_s() {
    let Some(data) = shared_data() else { return };
    for (network, file, golden) in [
        (Network::Testnet3, "testnet3_1_2500.dat.zst", "golden_testnet3_0_2500.jsonl.zst"),
        (Network::Main, "mainnet_0_299.dat.zst", "golden_mainnet_0_299.jsonl.zst"),
    ] {
        let (chain, blocks) = real_chain(&data, network, file, golden);
        let (mut follower, reader) = follower(&FaultDisk::new(), &chain);
        follow(&chain, &mut follower).expect("no fault");
        for (point, said) in blocks {
            let height = point.height;
            let filter = reader.filter(point).expect("it can be read").expect("it is there");
            assert_eq!(hex::encode(&filter.bytes), said["filter"], "{height}");
            let mut header = filter.header;
            header.reverse();
            assert_eq!(hex::encode(header), said["filter_header"], "{height}");
            let hashes = reader.hashes(point).expect("it can be read").expect("it is there");
            assert_eq!(hashes.header, filter.header);
        }
        chain.close().expect("no fault");
    }
}

#[test]
fn filters_of_blocks_that_a_reorganisation_leaves_stay() {
    let fork = BLOCKS.len() - 12;
    let before = expected(&BLOCKS);
    let disk = FaultDisk::new();
    let mut chain = chain_of(&disk, &BLOCKS);
    let index_disk = FaultDisk::new();
    let (mut follower, reader) = follower(&index_disk, &chain);
    follow(&chain, &mut follower).expect("no fault");
    assert_eq!(filters(&reader, 1, &BLOCKS), before);
    let left = branch(&BLOCKS, fork, 13, 0);
    left.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    follow(&chain, &mut follower).expect("no fault");
    let other = expected(&[&BLOCKS[..fork], &left[..]].concat());
    let check = |reader: &FilterIndex| {
        assert_eq!(filters(reader, 1, &BLOCKS), before);
        assert_eq!(filters(reader, fork as u32 + 1, &left), other[fork..]);
        let unknown = ChainPoint { hash: hash(&left[0]), height: fork as u32 };
        assert_eq!(reader.filter(unknown).expect("it can be read"), None);
    };
    check(&reader);
    follower.close().expect("no fault");
    let reader = index(&index_disk, &chain).expect("it opens").reader();
    assert_eq!(reader.status().best(), Some(chain.tip_point()));
    check(&reader);
    chain.close().expect("no fault");
}

/// As for transactions, with a reorganisation among what is followed.
#[test]
fn a_filter_index_that_was_killed_at_any_operation_is_as_a_fresh_one() {
    let mut chain = chain_of(&FaultDisk::new(), &BLOCKS[..150]);
    let start = FaultDisk::new();
    let (mut first, _) = follower(&start, &chain);
    follow(&chain, &mut first).expect("no fault");
    first.close().expect("no fault");
    let end = branch(&BLOCKS, 140, 15, 0);
    end.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    let blocks = [&BLOCKS[..140], &end[..]].concat();
    let fresh = expected(&blocks);
    let is_whole = |disk: &FaultDisk, moment: &str| {
        let (mut again, reader) = follower(disk, &chain);
        follow(&chain, &mut again).expect("no fault any more");
        assert_eq!(filters(&reader, 1, &blocks), fresh, "{moment}");
        assert_eq!(reader.status().best(), Some(chain.tip_point()));
    };
    let failed = kill_at_any_operation(&start, &[&chain], |disk| index(disk, &chain), is_whole);
    assert!(failed > 15, "{failed}");
    chain.close().expect("no fault");
}

#[test]
fn a_damaged_filter_index_is_built_again() {
    let chain = chain_of(&FaultDisk::new(), &BLOCKS);
    let fresh = expected(&BLOCKS);
    let start = FaultDisk::new();
    let (mut first, _) = follower(&start, &chain);
    follow(&chain, &mut first).expect("no fault");
    first.close().expect("no fault");
    flip_in_each_file(&start, 3, |disk, place| {
        let (mut again, reader) = follower(disk, &chain);
        for (height, block) in (1..).zip(BLOCKS.iter()) {
            // Never another filter than there was.
            match reader.filter(ChainPoint { hash: hash(block), height }) {
                Ok(Some(filter)) => assert_eq!(filter, fresh[height as usize - 1]),
                Ok(None) => {}
                Err(error) => assert!(error.is_damage(), "{error}"),
            }
        }
        follow(&chain, &mut again).expect("it is built again");
        assert_eq!(filters(&reader, 1, &BLOCKS), fresh, "{place}");
    });
    chain.close().expect("no fault");
}
