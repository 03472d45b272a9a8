use std::collections::HashSet;
use std::fs;
use std::sync::LazyLock;

use bitcoin::consensus::deserialize;
use bitcoin::hashes::Hash;
use bitcoin::{Block, BlockHash, OutPoint};
use godwit_sim::chain::{GeneratedBlock, cached_dat, generate, write_dat};
use godwit_sim::miner::{self, REGTEST_MAGIC};
use godwit_sim::plan::{ChainPlan, Stretch};
use godwit_sim::reference::ReferenceUtxo;
use godwit_sim::restamp::restamp;
use godwit_sim::summary::Summary;

const LOCK_NAMES: [&str; 14] = [
    "p2pk",
    "p2pkh",
    "bare-multisig",
    "p2sh-multisig",
    "p2sh-p2wpkh",
    "p2wpkh",
    "p2wsh-multisig",
    "p2tr-key",
    "p2tr-script",
    "inscription",
    "cltv",
    "csv",
    "large-script",
    "bare",
];

static SMALL: LazyLock<(Vec<Vec<u8>>, Summary)> = LazyLock::new(|| small(1));

fn small(seed: u64) -> (Vec<Vec<u8>>, Summary) {
    let mut blocks = Vec::new();
    let summary = generate(&ChainPlan::small(seed), |block: GeneratedBlock<'_>| {
        assert_eq!(block.height as usize, blocks.len() + 1);
        blocks.push(block.bytes.to_vec());
        Ok(())
    });
    (blocks, summary.expect("the sink never fails"))
}

#[test]
fn blocks_link_commit_and_have_work() {
    let (blocks, summary) = &*SMALL;
    let mut previous = miner::genesis_tip().hash;
    for bytes in blocks {
        let block: Block = deserialize(bytes).expect("a generated block decodes");
        assert_eq!(block.header.prev_blockhash, previous);
        assert!(block.check_merkle_root() && block.check_witness_commitment());
        let target = block.header.target();
        block.header.validate_pow(target).expect("the nonce was mined");
        assert!(block.weight().to_wu() <= ChainPlan::small(1).block_weight);
        previous = block.block_hash();
    }
    assert_eq!(previous.to_string(), summary.tip);
}

#[test]
fn mixed_blocks_are_full() {
    let plan = ChainPlan::small(1);
    let (blocks, summary) = &*SMALL;
    for stretch in summary.stretches.iter().filter(|s| s.name == "segwit" || s.name == "modern") {
        for height in stretch.first_height..stretch.first_height + stretch.blocks {
            let block: Block = deserialize(&blocks[height as usize - 1]).expect("decodes");
            // The small plan has large coins for its blocks; full-size blocks reach 99.9 %.
            assert!(block.weight().to_wu() * 10 > plan.block_weight * 9, "height {height}");
        }
    }
}

#[test]
fn a_second_accounting_agrees_with_the_summary() {
    let (blocks, summary) = &*SMALL;
    let mut unspent: HashSet<OutPoint> = HashSet::new();
    let (mut amount, mut bytes) = (0i128, 0);
    for (height, raw) in (1u32..).zip(blocks) {
        let block: Block = deserialize(raw).expect("a generated block decodes");
        bytes += raw.len() as u64;
        amount += i128::from(miner::subsidy(height));
        for tx in &block.txdata {
            for input in tx.input.iter().filter(|_| !tx.is_coinbase()) {
                assert!(unspent.remove(&input.previous_output), "spent twice or unknown");
            }
            let txid = tx.compute_txid();
            for (vout, output) in (0..).zip(&tx.output) {
                if !output.script_pubkey.is_op_return() {
                    unspent.insert(OutPoint { txid, vout });
                    assert!(output.value.to_sat() > 0);
                }
            }
        }
    }
    assert_eq!(unspent.len() as u64, summary.txouts);
    assert_eq!(amount, i128::from(summary.total_amount));
    assert_eq!(bytes, summary.bytes);
}

#[test]
fn disconnecting_every_block_empties_the_reference() {
    let (blocks, summary) = &*SMALL;
    let mut utxo = ReferenceUtxo::new();
    let mut states = Vec::new();
    for (height, raw) in (1u32..).zip(blocks) {
        let before = (utxo.txouts(), utxo.total_amount(), utxo.bogosize());
        states.push((before, utxo.connect(raw, height).expect("the chain is consistent")));
    }
    assert_eq!(utxo.txouts(), summary.txouts);
    assert_eq!(utxo.bogosize(), summary.bogosize);
    for (before, undo) in states.into_iter().rev() {
        utxo.disconnect(undo);
        assert_eq!((utxo.txouts(), utxo.total_amount(), utxo.bogosize()), before);
    }
    assert_eq!(utxo.iter().count(), 0);
}

#[test]
fn every_script_type_is_made_and_spent() {
    let (_, summary) = &*SMALL;
    for name in LOCK_NAMES {
        assert!(summary.counts.output_types.contains_key(name), "no output of type {name}");
        assert!(summary.counts.input_types.contains_key(name), "no input of type {name}");
    }
    assert!(summary.counts.op_returns > 0);
    assert!(summary.counts.spend_ages[0] > 0, "nothing spent inside a block");
}

#[test]
fn the_seed_decides_everything() {
    let (first, again, other) = (&*SMALL, small(1), small(2));
    assert_eq!(*first, again);
    assert_ne!(first.1.tip, other.1.tip);
    // When this changes, `GENERATOR_VERSION` must change too: cached chains are named by it.
    assert_eq!(first.1.tip, "40873d89bb77aed53e914cb99ce1f72c60ef261db0a026e64fb2accfe6610a59");
}

#[test]
fn files_hold_framed_blocks_and_are_made_once() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let plan = ChainPlan::small(5);
    let direct = directory.path().join("direct.dat");
    let mut heights = 0;
    let summary = write_dat(&plan, &direct, |height| heights = height).expect("disk is writable");
    assert_eq!(heights, plan.height());

    let file = fs::read(&direct).expect("the file was written");
    let (mut rest, mut count, mut last) = (file.as_slice(), 0, BlockHash::all_zeros());
    while !rest.is_empty() {
        assert_eq!(rest[..4], REGTEST_MAGIC);
        let length = u32::from_le_bytes(rest[4..8].try_into().expect("four bytes")) as usize;
        let block: Block = deserialize(&rest[8..8 + length]).expect("exactly one block");
        (last, rest, count) = (block.block_hash(), &rest[8 + length..], count + 1);
    }
    assert_eq!((count, last.to_string()), (plan.height(), summary.tip.clone()));

    let made = cached_dat(&plan, directory.path(), |_| {}).expect("disk is writable");
    assert_eq!(made.summary, summary);
    assert_eq!(fs::read(&made.path).expect("the file was written"), file);
    let found = cached_dat(&plan, directory.path(), |_| panic!("generated again"));
    assert_eq!(found.expect("the cache is readable").summary, summary);
}

#[test]
fn timestamps_can_end_at_any_time_after_genesis() {
    let plan = |time| ChainPlan::small(1).ending_at(time);
    let genesis = miner::genesis_tip().time;
    let length = miner::BLOCK_SPACING * ChainPlan::small(1).height();
    assert!(plan(genesis + length - 1).is_none());
    assert!(plan(genesis + length).is_some());

    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let moved = plan(1_800_000_000).expect("later than genesis");
    let made = cached_dat(&moved, directory.path(), |_| {}).expect("disk is writable");
    assert_eq!(made.summary.tip_time, 1_800_000_000);
    assert_ne!(made.summary.tip, SMALL.1.tip);
    // Its file has a name of its own.
    let other = cached_dat(&ChainPlan::small(1), directory.path(), |_| {});
    assert_eq!(other.expect("disk is writable").summary, SMALL.1);
}

#[test]
fn a_restamped_chain_is_the_one_that_ends_then() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = |name: &str| directory.path().join(name);
    let (old, new, moved) = (path("old.dat"), path("new.dat"), path("moved.dat"));
    let end_time = 1_800_000_000;
    let summary = write_dat(&ChainPlan::small(1), &old, |_| {}).expect("disk is writable");
    let plan = ChainPlan::small(1).ending_at(end_time).expect("later than genesis");
    let expected = write_dat(&plan, &new, |_| {}).expect("disk is writable");
    let made = restamp(&old, &moved, &summary, end_time).expect("it is the summary's chain");
    assert_eq!(made, expected);
    assert!(fs::read(&moved).expect("the file was written") == fs::read(&new).expect("it too"));

    let genesis = miner::genesis_tip().time;
    assert!(restamp(&old, &moved, &summary, genesis).is_err(), "too early");
    let shorter = Summary { height: summary.height - 1, ..summary.clone() };
    assert!(restamp(&old, &moved, &shorter, end_time).is_err(), "another chain");
    fs::write(&old, b"something else").expect("disk is writable");
    assert!(restamp(&old, &moved, &summary, end_time).is_err(), "no block file");
}

/// The plan with a few small blocks of each mix; empty ones stay as many.
fn shrunk(mut plan: ChainPlan) -> ChainPlan {
    for stretch in &mut plan.stretches {
        match stretch {
            Stretch::FanOut(fan_out) => {
                (fan_out.blocks, fan_out.bare, fan_out.giant) = (1, 10, fan_out.giant.min(2_000));
            }
            Stretch::Mix(recipe, _) if recipe.name == "empty" => {}
            Stretch::Mix(_, blocks) => *blocks = (*blocks).min(3),
        }
    }
    ChainPlan { block_weight: 120_000, empty_tail: 5, ..plan }
}

#[test]
fn the_aged_chain_spends_coins_older_than_a_week_and_the_benchmark_none() {
    let within_a_week = |plan: ChainPlan| {
        let summary = generate(&shrunk(plan), |_| Ok(())).unwrap();
        let (class, percent) = *summary.spend_age_percent.last().unwrap();
        assert_eq!(class, 1008);
        percent
    };
    assert_eq!(within_a_week(ChainPlan::benchmark(1)), 100.0);
    assert!(within_a_week(ChainPlan::aged(1)) < 100.0);
}

/// Its eras are four times as long as those of the benchmark's chain, with no more coins to begin with.
#[test]
#[ignore = "a minute"]
fn the_long_chain_does_not_run_out_of_coins() {
    let long = ChainPlan::long(1);
    let mut plan = ChainPlan { block_weight: 100_000, empty_tail: 5, ..ChainPlan::long(1) };
    for stretch in &mut plan.stretches {
        if let Stretch::FanOut(fan_out) = stretch {
            (fan_out.bare, fan_out.giant) = (10, fan_out.giant.min(2_000));
        }
    }
    let mut least = u64::MAX;
    // Behind the first coins, and before the two blocks of special inputs.
    let eras = plan.maturing + 14..plan.height() - plan.empty_tail - 1;
    let summary = generate(&plan, |block| {
        if eras.contains(&block.height) {
            least = least.min(block.bytes.len() as u64);
        }
        Ok(())
    });
    let summary = summary.expect("the plan is sound");
    assert_eq!(summary.height + 2_095, long.height());
    println!("{least} bytes in the least block, {} coins", summary.txouts);
    assert!(least > 10_000, "{least}");
}
