//! The index of the coins' statistics, beside Bitcoin Core's answers for real chains and beside the store.

use godwit_chain::Chain;
use godwit_fault_disk::FaultDisk;
use godwit_index::{CoinStats, CoinStatsIndex};
use godwit_primitives::{BlockHash, Network};
use godwit_store::ChainPoint;
use godwit_testdata::shared_data;

use crate::beside::{BLOCKS, branch, chain_of, follow, hash, real_chain, settle, submit};
use crate::per_block::{
    PerBlock, entries, expected, follower, is_built_again_after_damage, survives_kills,
};

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
        let (mut follower, reader) = follower::<CoinStatsIndex>(&FaultDisk::new(), &chain);
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
    let before = expected::<CoinStatsIndex>(&BLOCKS);
    let disk = FaultDisk::new();
    let mut chain = chain_of(&disk, &BLOCKS);
    let index_disk = FaultDisk::new();
    let (mut follower, reader) = follower::<CoinStatsIndex>(&index_disk, &chain);
    follow(&chain, &mut follower).expect("no fault");
    is_of_the_tip(&mut chain, &reader);
    assert_eq!(entries(&*reader, 1, &BLOCKS), before);
    let left = branch(&BLOCKS, fork, 13, 0);
    left.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    follow(&chain, &mut follower).expect("no fault");
    is_of_the_tip(&mut chain, &reader);
    // The miner of the branch takes nothing, and its coinbases have no scripts that cannot succeed.
    let others = entries(&*reader, fork as u32 + 1, &left);
    for (height, found) in (fork as u32 + 1..).zip(&others) {
        let block = found.block;
        let nothing = [block.coinbase, block.prevout_spent, block.new_outputs_ex_coinbase];
        assert_eq!(nothing, [0; 3], "{height}");
        assert_eq!(block.unspendables.total(), block.unspendables.unclaimed_rewards);
        assert!(block.unspendables.unclaimed_rewards > 0, "{height}");
    }
    let other = expected::<CoinStatsIndex>(&[&BLOCKS[..fork], &left[..]].concat());
    let check = |reader: &CoinStatsIndex| {
        assert_eq!(entries(reader, 1, &BLOCKS), before);
        assert_eq!(entries(reader, fork as u32 + 1, &left), other[fork..]);
        let unknown = ChainPoint { hash: hash(&left[0]), height: fork as u32 };
        assert_eq!(reader.stats(unknown).expect("it can be read"), None);
    };
    check(&reader);
    follower.close().expect("no fault");
    let reader = CoinStatsIndex::writer(&index_disk, &chain).expect("it opens").reader();
    assert_eq!(reader.status().best(), Some(chain.tip_point()));
    check(&reader);
    is_of_the_tip(&mut chain, &reader);
    chain.close().expect("no fault");
}

#[test]
fn a_statistics_index_that_was_killed_at_any_operation_is_as_a_fresh_one() {
    let failed = survives_kills::<CoinStatsIndex>();
    assert!(failed >= 6, "{failed}");
}

#[test]
fn a_damaged_statistics_index_is_built_again() {
    is_built_again_after_damage::<CoinStatsIndex>();
}
