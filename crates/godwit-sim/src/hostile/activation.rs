//! Rules at the heights where they begin, and BIP94: suites for nodes with test options.

use bitcoin::block::Version;
use bitcoin::{Amount, Block, OutPoint, ScriptBuf, Sequence, Transaction, absolute};

use super::scripts::{self, Row};
use super::stage::Stage;
use super::{ChainOptions, Suite, Verdict};
use crate::lock::Coin;
use crate::miner;

const SCRIPT_FAILED: Verdict = Some("block-script-verify-flag-failed");
const DIFFICULTY_INTERVAL: u32 = 144;

pub(super) fn suites(stage: &Stage) -> Vec<Suite> {
    let on = |name, activation: &[(&'static str, u32)]| {
        let activation = activation.to_vec();
        stage.named(name).with_options(ChainOptions { bip94: false, activation })
    };
    let bip94 = ChainOptions { bip94: true, ..ChainOptions::default() };
    vec![
        bip34(on("bip34 at 240", &[("bip34", 240)]), 240),
        versions(on("dersig at 130, cltv at 140", &[("dersig", 130), ("cltv", 140)])),
        csv(on("csv at 130", &[("csv", 130)]), 130),
        segwit(on("segwit at 130", &[("segwit", 130)]), 130),
        time_warp(stage.named("without bip94")),
        time_warp(stage.named("bip94").with_options(bip94)),
    ]
}

/// Mines until the next block has `height`.
fn mine_to(stage: &mut Stage, height: u32) {
    let missing = height - stage.height();
    stage.case(format!("up to height {height}"));
    stage.mine_empty(missing);
}

/// A block whose coinbase script does not begin with its height.
fn anonymous(stage: &mut Stage, script_sig: &[u8], outputs: usize) -> Block {
    let mut block = stage.draft(vec![]);
    let coinbase = &mut block.txdata[0];
    coinbase.input[0].script_sig = ScriptBuf::from_bytes(script_sig.to_vec());
    coinbase.output[0].value = Amount::from_sat(1_000);
    coinbase.output[0].script_pubkey = ScriptBuf::from_bytes(vec![0x51]);
    coinbase.output = vec![coinbase.output[0].clone(); outputs];
    miner::seal(&mut block);
    block
}

fn bip34(mut stage: Stage, active: u32) -> Suite {
    let overwrite = Some("bad-txns-BIP30");
    let first = anonymous(&mut stage, &[1, 2, 3], 2);
    stage.accept("coinbase without a height", &first);
    let created = stage.tip().height;
    let again = anonymous(&mut stage, &[1, 2, 3], 2);
    assert_eq!(first.txdata[0], again.txdata[0]);
    stage.judge("the same coinbase again", &again, overwrite);
    mine_to(&mut stage, created + 100);

    let coin = stage.coinbase_coin(created);
    let spend = |stage: &mut Stage, vout: u32| {
        let outpoint = OutPoint { vout, ..coin.outpoint };
        stage.move_coins(&[Coin { outpoint, ..coin.clone() }])
    };
    let tx = spend(&mut stage, 0);
    let block = stage.sealed(vec![tx]);
    stage.accept("one of its outputs spent", &block);
    let again = anonymous(&mut stage, &[1, 2, 3], 2);
    stage.judge("the same coinbase, half spent", &again, overwrite);

    let tx = spend(&mut stage, 1);
    let mut block = anonymous(&mut stage, &[1, 2, 3], 2);
    block.txdata.push(tx.clone());
    miner::seal(&mut block);
    stage.judge("the same coinbase, the rest spent in its block", &block, overwrite);
    let block = stage.sealed(vec![tx]);
    stage.accept("the other output spent", &block);
    let again = anonymous(&mut stage, &[1, 2, 3], 2);
    stage.accept("the same coinbase, all spent", &again);
    let again = anonymous(&mut stage, &[1, 2, 3], 2);
    stage.judge("and once more", &again, overwrite);

    mine_to(&mut stage, active - 1);
    let block = anonymous(&mut stage, &[4, 5, 6], 1);
    stage.accept("without a height, last block", &block);
    let block = anonymous(&mut stage, &[7, 8, 9], 1);
    stage.reject("without a height, first block of BIP34", &block, "bad-cb-height");
    let block = stage.sealed(vec![]);
    stage.accept("with its height", &block);
    stage.into_suite()
}

fn judge(stage: &mut Stage, name: &str, tx: &Transaction, verdict: Verdict) {
    let block = stage.sealed(vec![tx.clone()]);
    stage.judge(name, &block, verdict);
}

fn judge_version(stage: &mut Stage, version: i32, verdict: Verdict) {
    let name = format!("version {version} at height {}", stage.height());
    let mut block = stage.draft(vec![]);
    block.header.version = Version::from_consensus(version);
    miner::seal(&mut block);
    stage.judge(&name, &block, verdict);
}

/// BIP66 at 130 and BIP65 at 140: versions, signature encodings, CHECKLOCKTIMEVERIFY.
fn versions(mut stage: Stage) -> Suite {
    let rows = vec![
        scripts::padded_signature(),
        scripts::padded_signature(),
        Row::plain("CLTV without a lock time", "500 CLTV", "", true),
        Row::plain("CLTV without a lock time", "500 CLTV", "", true),
    ];
    let txs = scripts::spends(&mut stage, &rows);
    judge_version(&mut stage, 1, Some("bad-version(0x00000001)"));
    judge_version(&mut stage, 2, None);
    mine_to(&mut stage, 128);
    judge(&mut stage, "padded signature before BIP66", &txs[0], None);
    judge_version(&mut stage, 2, None);
    assert_eq!(stage.height(), 130);
    judge(&mut stage, "padded signature under BIP66", &txs[1], SCRIPT_FAILED);
    judge_version(&mut stage, 2, Some("bad-version(0x00000002)"));
    judge_version(&mut stage, 3, None);

    mine_to(&mut stage, 138);
    judge(&mut stage, "CLTV before BIP65", &txs[2], None);
    judge_version(&mut stage, 3, None);
    assert_eq!(stage.height(), 140);
    judge(&mut stage, "CLTV under BIP65", &txs[3], SCRIPT_FAILED);
    judge_version(&mut stage, 3, Some("bad-version(0x00000003)"));
    judge_version(&mut stage, 4, None);
    stage.into_suite()
}

/// BIP68, 112 and 113.
fn csv(mut stage: Stage, active: u32) -> Suite {
    let unmet = || Row::plain("CSV of a final sequence", "5 CSV", "", true);
    let txs = scripts::spends(&mut stage, &[unmet(), unmet()]);
    mine_to(&mut stage, active - 3);
    judge(&mut stage, "CSV before BIP112", &txs[0], None);

    let locked = |stage: &mut Stage| {
        let mut tx = stage.any_tx();
        tx.input[0].sequence = Sequence(0xffff);
        tx
    };
    let tx = locked(&mut stage);
    judge(&mut stage, "relative lock before BIP68", &tx, None);

    // Before BIP113 the block's own time counts, which may be far ahead of the median.
    let timed = |stage: &mut Stage, lock_time: u32| {
        let mut tx = stage.any_tx();
        tx.lock_time = absolute::LockTime::from_consensus(lock_time);
        tx.input[0].sequence = Sequence(0xffff_fffe);
        tx
    };
    let own_time = stage.tip().time + miner::BLOCK_SPACING;
    let tx = timed(&mut stage, own_time);
    let name = "lock time of the block's own time, before BIP113";
    judge(&mut stage, name, &tx, Some("bad-txns-nonfinal"));
    let tx = timed(&mut stage, own_time - 1);
    let name = "lock time one below the block's own time, before BIP113";
    judge(&mut stage, name, &tx, None);

    assert_eq!(stage.height(), active);
    judge(&mut stage, "CSV under BIP112", &txs[1], SCRIPT_FAILED);
    let tx = locked(&mut stage);
    judge(&mut stage, "relative lock under BIP68", &tx, Some("bad-txns-nonfinal"));
    let median = stage.median_time();
    let tx = timed(&mut stage, median);
    let name = "lock time of the median time, under BIP113";
    judge(&mut stage, name, &tx, Some("bad-txns-nonfinal"));
    let tx = timed(&mut stage, median - 1);
    judge(&mut stage, "lock time one below the median time, under BIP113", &tx, None);
    stage.into_suite()
}

/// BIP141 and BIP147. The script flags of segwit itself hold at every height.
fn segwit(mut stage: Stage, active: u32) -> Suite {
    let dummy = || Row::plain("dummy of one", "0 0 CHECKMULTISIG", "1", true);
    let bare_program = scripts::program_without_witness();
    let rows = [dummy(), dummy(), bare_program];
    let txs = scripts::spends(&mut stage, &rows);
    let witness_txs = [stage.any_witness_tx(), stage.any_witness_tx()];
    mine_to(&mut stage, active - 2);

    let block = stage.sealed(vec![witness_txs[0].clone()]);
    stage.reject("a witness before segwit", &block, "unexpected-witness");
    judge(&mut stage, "a program without its witness before segwit", &txs[2], SCRIPT_FAILED);
    judge(&mut stage, "dummy of one before BIP147", &txs[0], None);
    let mut block = stage.draft(vec![]);
    block.txdata[0].output.push(miner::commitment_output(
        bitcoin::WitnessMerkleNode::from_raw_hash(bitcoin::hashes::Hash::all_zeros()),
        &[0; 32],
    ));
    miner::seal(&mut block);
    stage.accept("a wrong commitment without witnesses before segwit", &block);

    assert_eq!(stage.height(), active);
    judge(&mut stage, "dummy of one under BIP147", &txs[1], SCRIPT_FAILED);
    let block = stage.sealed(vec![witness_txs[0].clone()]);
    stage.accept("a witness under segwit", &block);
    let block = stage.sealed(vec![witness_txs[1].clone()]);
    stage.accept("another witness", &block);
    stage.into_suite()
}

/// The first block of a difficulty period may be up to 600 seconds before its parent (BIP94).
fn time_warp(mut stage: Stage) -> Suite {
    let verdict = stage.options().bip94.then_some("time-timewarp-attack");
    mine_to(&mut stage, DIFFICULTY_INTERVAL - 1);
    let early = |stage: &mut Stage, seconds: u32| {
        let mut block = stage.draft(vec![]);
        block.header.time = stage.tip().time - seconds;
        miner::seal(&mut block);
        block
    };
    let block = stage.sealed(vec![]);
    stage.accept("last block of a period", &block);
    let block = early(&mut stage, 601);
    stage.judge("period begins 601 seconds before its parent", &block, verdict);
    if verdict.is_some() {
        let block = early(&mut stage, 600);
        stage.accept("period begins 600 seconds before its parent", &block);
    }
    let block = stage.sealed(vec![]);
    stage.accept("second block of a period", &block);
    let block = early(&mut stage, 601);
    stage.accept("601 seconds before its parent inside a period", &block);
    stage.into_suite()
}
