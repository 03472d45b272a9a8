//! The index of block filters, beside Bitcoin Core's answers for real chains.

use godwit_fault_disk::FaultDisk;
use godwit_index::{FilterIndex, Outcome, next};
use godwit_primitives::Network;
use godwit_store::ChainPoint;
use godwit_testdata::shared_data;

use crate::beside::{BLOCKS, branch, chain_of, follow, hash, real_chain, settle, submit};
use crate::per_block::{
    PerBlock, entries, expected, follower, is_built_again_after_damage, survives_kills,
};

/// The index waits for as long as nothing repairs the record, and is not built again.
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
    let (mut follower, reader) = follower::<FilterIndex>(&FaultDisk::new(), &chain);
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
    assert_eq!(entries(&*reader, 1, &BLOCKS), expected::<FilterIndex>(&BLOCKS));
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
        let (mut follower, reader) = follower::<FilterIndex>(&FaultDisk::new(), &chain);
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
    let before = expected::<FilterIndex>(&BLOCKS);
    let disk = FaultDisk::new();
    let mut chain = chain_of(&disk, &BLOCKS);
    let index_disk = FaultDisk::new();
    let (mut follower, reader) = follower::<FilterIndex>(&index_disk, &chain);
    follow(&chain, &mut follower).expect("no fault");
    assert_eq!(entries(&*reader, 1, &BLOCKS), before);
    let left = branch(&BLOCKS, fork, 13, 0);
    left.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    follow(&chain, &mut follower).expect("no fault");
    let other = expected::<FilterIndex>(&[&BLOCKS[..fork], &left[..]].concat());
    let check = |reader: &FilterIndex| {
        assert_eq!(entries(reader, 1, &BLOCKS), before);
        assert_eq!(entries(reader, fork as u32 + 1, &left), other[fork..]);
        let unknown = ChainPoint { hash: hash(&left[0]), height: fork as u32 };
        assert_eq!(reader.filter(unknown).expect("it can be read"), None);
    };
    check(&reader);
    follower.close().expect("no fault");
    let reader = FilterIndex::writer(&index_disk, &chain).expect("it opens").reader();
    assert_eq!(reader.status().best(), Some(chain.tip_point()));
    check(&reader);
    chain.close().expect("no fault");
}

#[test]
fn a_filter_index_that_was_killed_at_any_operation_is_as_a_fresh_one() {
    let failed = survives_kills::<FilterIndex>();
    assert!(failed > 15, "{failed}");
}

#[test]
fn a_damaged_filter_index_is_built_again() {
    is_built_again_after_damage::<FilterIndex>();
}
