//! The index of the coins' statistics, beside Bitcoin Core's answers for real chains and beside the store.

use std::path::Path;
use std::sync::Arc;

use godwit_chain::{Chain, lowest_for_indexes};
use godwit_fault_disk::FaultDisk;
use godwit_index::{
    CoinStats, CoinStatsIndex, CoinStatsIndexWriter, Follower, INDEXES_DIR, IndexError,
};
use godwit_primitives::{BlockHash, Network};
use godwit_store::ChainPoint;
use godwit_store::disk::StoreDisk;
use godwit_testdata::shared_data;

use crate::beside::{
    BLOCKS, DIR, branch, chain_of, flip_in_each_file, follow, hash, kill_at_any_operation, points,
    real_chain, settle, submit,
};

pub(crate) fn index(disk: &FaultDisk, chain: &Chain) -> Result<CoinStatsIndexWriter, IndexError> {
    let store = StoreDisk::new(Arc::new(disk.clone()));
    let (dir, lowest) = (Path::new(DIR).join(INDEXES_DIR), lowest_for_indexes(chain));
    CoinStatsIndexWriter::open(&store, &dir, chain.params(), lowest)
}

pub(crate) fn follower(
    disk: &FaultDisk,
    chain: &Chain,
) -> (Follower<CoinStatsIndexWriter>, Arc<CoinStatsIndex>) {
    let writer = index(disk, chain).expect("it opens");
    let reader = writer.reader();
    (Follower::new(writer), reader)
}

/// What the index has of blocks from a height on, all there.
pub(crate) fn stats(index: &CoinStatsIndex, first: u32, blocks: &[Vec<u8>]) -> Vec<CoinStats> {
    let read = |block| index.stats(block).expect("it can be read").expect("it is there");
    points(first, blocks).map(read).collect()
}

/// That of an index that nothing has disturbed.
pub(crate) fn expected(blocks: &[Vec<u8>]) -> Vec<CoinStats> {
    let chain = chain_of(&FaultDisk::new(), blocks);
    let (mut fresh, reader) = follower(&FaultDisk::new(), &chain);
    follow(&chain, &mut fresh).expect("no fault");
    let found = stats(&reader, 1, blocks);
    chain.close().expect("no fault");
    found
}

#[test]
fn statistics_of_real_chains_are_bitcoin_core_s() {
    let Some(data) = shared_data() else { return };
    for (network, blocks, golden) in [
        (Network::Testnet3, "testnet3_1_2500.dat.zst", "golden_testnet3_0_2500.jsonl.zst"),
        (Network::Main, "mainnet_0_299.dat.zst", "golden_mainnet_0_299.jsonl.zst"),
        (Network::Signet, "signet_0_60.dat.zst", "golden_signet_0_60.jsonl.zst"),
        (Network::Regtest, "regtest_0_150.dat.zst", "golden_regtest_0_150.jsonl.zst"),
    ] {
        let (chain, blocks) = real_chain(&data, network, blocks, golden);
        let (mut follower, reader) = follower(&FaultDisk::new(), &chain);
        follow(&chain, &mut follower).expect("no fault");
        for (point, said) in blocks {
            let height = point.height;
            let found = reader.stats(point).expect("it can be read");
            let CoinStats { muhash, totals, .. } = found.expect("it is there");
            assert_eq!(BlockHash::from_bytes(muhash).to_string(), said["muhash"], "{height}");
            assert_eq!(totals.txouts, said["txouts"], "{height}");
            assert_eq!(totals.bogosize, said["bogosize"], "{height}");
            assert_eq!(totals.amount, said["total_amount_sat"], "{height}");
            assert_eq!(totals.unspendable, said["total_unspendable_sat"], "{height}");
        }
        chain.close().expect("no fault");
    }
}

/// The coins that the store counts and hashes at the tip, and those of the index.
#[track_caller]
fn is_of_the_tip(chain: &mut Chain, reader: &CoinStatsIndex) {
    let found = reader.stats(chain.tip_point()).expect("it can be read").expect("it is there");
    let (totals, muhash) = chain.coins_muhash().expect("no fault");
    assert_eq!(found.muhash, muhash);
    let there = (found.totals.txouts, found.totals.bogosize, found.totals.amount);
    assert_eq!(there, (totals.txouts, totals.bogosize, totals.total_amount));
}

#[test]
fn statistics_of_blocks_that_a_reorganisation_leaves_stay() {
    let fork = BLOCKS.len() - 12;
    let before = expected(&BLOCKS);
    let disk = FaultDisk::new();
    let mut chain = chain_of(&disk, &BLOCKS);
    let index_disk = FaultDisk::new();
    let (mut follower, reader) = follower(&index_disk, &chain);
    follow(&chain, &mut follower).expect("no fault");
    is_of_the_tip(&mut chain, &reader);
    assert_eq!(stats(&reader, 1, &BLOCKS), before);
    let left = branch(&BLOCKS, fork, 13, 0);
    left.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    follow(&chain, &mut follower).expect("no fault");
    is_of_the_tip(&mut chain, &reader);
    // The miner of the branch takes nothing, and its coinbases have no scripts that cannot succeed.
    let others = stats(&reader, fork as u32 + 1, &left);
    for (height, found) in (fork as u32 + 1..).zip(&others) {
        let block = found.block;
        let nothing = [block.coinbase, block.prevout_spent, block.new_outputs_ex_coinbase];
        assert_eq!(nothing, [0; 3], "{height}");
        assert_eq!(block.unspendables.total(), block.unspendables.unclaimed_rewards);
        assert!(block.unspendables.unclaimed_rewards > 0, "{height}");
    }
    let other = expected(&[&BLOCKS[..fork], &left[..]].concat());
    let check = |reader: &CoinStatsIndex| {
        assert_eq!(stats(reader, 1, &BLOCKS), before);
        assert_eq!(stats(reader, fork as u32 + 1, &left), other[fork..]);
        let unknown = ChainPoint { hash: hash(&left[0]), height: fork as u32 };
        assert_eq!(reader.stats(unknown).expect("it can be read"), None);
    };
    check(&reader);
    follower.close().expect("no fault");
    let reader = index(&index_disk, &chain).expect("it opens").reader();
    assert_eq!(reader.status().best(), Some(chain.tip_point()));
    check(&reader);
    is_of_the_tip(&mut chain, &reader);
    chain.close().expect("no fault");
}

/// As for filters, with a reorganisation among what is followed.
#[test]
fn a_statistics_index_that_was_killed_at_any_operation_is_as_a_fresh_one() {
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
        assert_eq!(stats(&reader, 1, &blocks), fresh, "{moment}");
        assert_eq!(reader.status().best(), Some(chain.tip_point()));
    };
    let failed = kill_at_any_operation(&start, &[&chain], |disk| index(disk, &chain), is_whole);
    assert!(failed >= 6, "{failed}");
    chain.close().expect("no fault");
}

#[test]
fn a_damaged_statistics_index_is_built_again() {
    let chain = chain_of(&FaultDisk::new(), &BLOCKS);
    let fresh = expected(&BLOCKS);
    let start = FaultDisk::new();
    let (mut first, _) = follower(&start, &chain);
    follow(&chain, &mut first).expect("no fault");
    first.close().expect("no fault");
    flip_in_each_file(&start, 2, |disk, place| {
        let (mut again, reader) = follower(disk, &chain);
        for (height, block) in (1..).zip(BLOCKS.iter()) {
            // Never other figures than there were.
            match reader.stats(ChainPoint { hash: hash(block), height }) {
                Ok(Some(found)) => assert_eq!(found, fresh[height as usize - 1]),
                Ok(None) => {}
                Err(error) => assert!(error.is_damage(), "{error}"),
            }
        }
        follow(&chain, &mut again).expect("it is built again");
        assert_eq!(stats(&reader, 1, &BLOCKS), fresh, "{place}");
    });
    chain.close().expect("no fault");
}
