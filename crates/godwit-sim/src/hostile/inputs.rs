//! Rules about spent coins: existence, order, maturity, amounts.

use bitcoin::hashes::Hash;
use bitcoin::{Amount, OutPoint, ScriptBuf, Transaction, TxOut, Txid};

use super::stage::{self, COIN_VALUE, Stage};
use super::{Suite, Verdict};
use crate::lock::{Coin, Lock};
use crate::miner;

const MISSING: Verdict = Some("bad-txns-inputs-missingorspent");

pub(super) fn suite(mut stage: Stage) -> Suite {
    missing_coins(&mut stage);
    unspendable_outputs(&mut stage);
    inside_a_block(&mut stage);
    double_spends(&mut stage);
    maturity(&mut stage);
    amounts(&mut stage);
    coinbase_amount(&mut stage);
    stage.into_suite()
}

fn missing_coins(stage: &mut Stage) {
    let mut tx = stage.any_tx();
    tx.input[0].previous_output.txid = Txid::from_byte_array([5; 32]);
    let block = stage.sealed(vec![tx]);
    stage.judge("unknown txid", &block, MISSING);

    let mut tx = stage.any_tx();
    tx.input[0].previous_output.vout = 1_000_000;
    let block = stage.sealed(vec![tx]);
    stage.judge("index beyond the outputs", &block, MISSING);

    let mut tx = stage.any_tx();
    tx.input[0].previous_output.vout = u32::MAX;
    let block = stage.sealed(vec![tx]);
    stage.judge("highest index of a real txid", &block, MISSING);

    let genesis = miner::genesis().txdata[0].compute_txid();
    let mut tx = stage.any_tx();
    tx.input[0].previous_output = OutPoint { txid: genesis, vout: 0 };
    let block = stage.sealed(vec![tx]);
    stage.judge("the genesis coinbase", &block, MISSING);

    let (good, mut bad) = (stage.any_tx(), stage.any_tx());
    bad.input[0].previous_output.vout = 77_777;
    let block = stage.sealed(vec![good, bad]);
    stage.judge("a missing coin after a good transaction", &block, MISSING);
}

fn unspendable_outputs(stage: &mut Stage) {
    let scripts: [(&str, ScriptBuf, Verdict); 4] = [
        ("OP_RETURN", ScriptBuf::from_bytes(vec![0x6a]), MISSING),
        ("OP_RETURN after OP_1", ScriptBuf::from_bytes(vec![0x51, 0x6a]), {
            Some("block-script-verify-flag-failed")
        }),
        ("script of 10,001 bytes", ScriptBuf::from_bytes(vec![0x61; 10_001]), MISSING),
        ("script of 10,000 NOPs", ScriptBuf::from_bytes(vec![0x61; 10_000]), {
            Some("block-script-verify-flag-failed")
        }),
    ];
    for (name, script_pubkey, verdict) in scripts {
        stage.case(format!("spending an output with {name}"));
        let coin = custom_coin(stage, script_pubkey);
        let tx = stage.move_coins(&[coin]);
        let block = stage.sealed(vec![tx]);
        stage.submit(&block, verdict);
    }
}

/// A coin with that script, in a block of its own.
fn custom_coin(stage: &mut Stage, script_pubkey: ScriptBuf) -> Coin {
    let mut coin = stage.bare();
    let value = Amount::from_sat(coin.value);
    let tx = stage::unsigned(&[coin.clone()], vec![TxOut { value, script_pubkey }]);
    coin.outpoint = OutPoint { txid: tx.compute_txid(), vout: 0 };
    coin.height = stage.height();
    let block = stage.sealed(vec![tx]);
    stage.submit(&block, None);
    coin
}

fn inside_a_block(stage: &mut Stage) {
    let chain = chain_of_spends(stage, 4);
    let block = stage.sealed(chain);
    stage.accept("four transactions spending one another", &block);

    let mut chain = chain_of_spends(stage, 2);
    chain.swap(0, 1);
    let block = stage.sealed(chain);
    stage.judge("child before its parent", &block, MISSING);

    let mut chain = chain_of_spends(stage, 25);
    chain.swap(23, 24);
    let block = stage.sealed(chain);
    stage.judge("the last two of a chain swapped", &block, MISSING);

    let chain = chain_of_spends(stage, 300);
    let block = stage.sealed(chain);
    stage.accept("a chain of 300 in one block", &block);

    let chain = chain_of_spends(stage, 3);
    let block = stage.sealed(vec![chain[0].clone(), chain[2].clone()]);
    stage.judge("the middle of a chain is absent", &block, MISSING);
}

/// Transactions of which each spends the one before.
fn chain_of_spends(stage: &mut Stage, length: usize) -> Vec<Transaction> {
    let mut coin = stage.bare();
    (0..length)
        .map(|_| {
            let tx = stage.move_coins(&[coin.clone()]);
            coin.outpoint = OutPoint { txid: tx.compute_txid(), vout: 0 };
            tx
        })
        .collect()
}

fn double_spends(stage: &mut Stage) {
    let coin = stage.bare();
    let (a, b) = (stage.move_coins(std::slice::from_ref(&coin)), stage.move_coins(&[coin]));
    let block = stage.sealed(vec![a, b]);
    stage.judge("one coin in two transactions", &block, MISSING);

    let coin = stage.bare();
    let first = stage.move_coins(std::slice::from_ref(&coin));
    let again = stage.move_coins(&[coin]);
    let block = stage.sealed(vec![first]);
    stage.case("one coin in two blocks");
    stage.submit(&block, None);
    let block = stage.sealed(vec![again]);
    stage.submit(&block, MISSING);

    let chain = chain_of_spends(stage, 2);
    let sibling = {
        let outpoint = chain[1].input[0].previous_output;
        let coin = Coin { outpoint, ..stage.bare() };
        stage.move_coins(&[coin])
    };
    let block = stage.sealed(vec![chain[0].clone(), chain[1].clone(), sibling]);
    stage.judge("an output of the block spent twice in it", &block, MISSING);

    repeated_transaction(stage);
}

/// A transaction again: BIP30 speaks first while any of its outputs is unspent.
fn repeated_transaction(stage: &mut Stage) {
    let chain = chain_of_spends(stage, 2);
    let block = stage.sealed(vec![chain[0].clone()]);
    stage.case("a transaction again, its output unspent");
    stage.submit(&block, None);
    let block = stage.sealed(vec![chain[0].clone()]);
    stage.submit(&block, Some("bad-txns-BIP30"));
    let block = stage.sealed(vec![chain[1].clone(), chain[0].clone()]);
    stage.submit(&block, Some("bad-txns-BIP30"));

    stage.case("a transaction again, its output spent");
    let block = stage.sealed(vec![chain[1].clone()]);
    stage.submit(&block, None);
    let block = stage.sealed(vec![chain[0].clone()]);
    stage.submit(&block, MISSING);
}

fn maturity(stage: &mut Stage) {
    const PREMATURE: Verdict = Some("bad-txns-premature-spend-of-coinbase");
    for depth in [1, 2, 99] {
        let coin = stage.coinbase_coin(stage.height() - depth);
        let tx = stage.move_coins(&[coin]);
        let block = stage.sealed(vec![tx]);
        stage.judge(&format!("coinbase at depth {depth}"), &block, PREMATURE);
    }
    for depth in [100, 105] {
        let coin = stage.coinbase_coin(stage.height() - depth);
        let tx = stage.move_coins(&[coin]);
        let block = stage.sealed(vec![tx]);
        stage.accept(&format!("coinbase at depth {depth}"), &block);
    }
    let mut block = stage.draft(vec![]);
    let outpoint = OutPoint { txid: block.txdata[0].compute_txid(), vout: 0 };
    let coin = Coin { outpoint, ..stage.bare() };
    block.txdata.push(stage.move_coins(&[coin]));
    miner::seal(&mut block);
    stage.judge("the block's own coinbase", &block, PREMATURE);

    let coins = [stage.bare(), stage.coinbase_coin(stage.height() - 99)];
    let tx = stage.move_coins(&coins);
    let block = stage.sealed(vec![tx]);
    stage.judge("a young coinbase beside an old coin", &block, PREMATURE);
}

fn amounts(stage: &mut Stage) {
    for (name, value, verdict) in [
        ("outputs one above the inputs", COIN_VALUE + 1, Some("bad-txns-in-belowout")),
        ("outputs equal to the inputs", COIN_VALUE, None),
        ("outputs one below the inputs", COIN_VALUE - 1, None),
        ("all to fees", 0, None),
    ] {
        let mut tx = stage.any_tx();
        tx.output[0].value = Amount::from_sat(value);
        let block = stage.sealed(vec![tx]);
        stage.judge(name, &block, verdict);
    }
    let mut first = stage.any_tx();
    first.output[0].value = Amount::from_sat(COIN_VALUE - 50);
    let mut second = stage.any_tx();
    second.output[0].value = Amount::from_sat(COIN_VALUE + 50);
    let block = stage.sealed(vec![first, second]);
    stage.judge("one transaction's fee cannot pay another", &block, Some("bad-txns-in-belowout"));
}

fn coinbase_amount(stage: &mut Stage) {
    const FEE: u64 = 700;
    let greedy = Some("bad-cb-amount");
    for (name, extra, verdict) in [
        ("coinbase one above subsidy and fees", FEE as i64 + 1, greedy),
        ("coinbase of subsidy and fees", FEE as i64, None),
        ("coinbase of the subsidy alone", 0, None),
        ("coinbase below the subsidy", -1, None),
    ] {
        let mut tx = stage.any_tx();
        tx.output[0].value = Amount::from_sat(COIN_VALUE - FEE);
        let mut block = stage.draft(vec![tx]);
        let subsidy = block.txdata[0].output[0].value.to_sat();
        block.txdata[0].output[0].value = Amount::from_sat(subsidy.wrapping_add_signed(extra));
        miner::seal(&mut block);
        stage.judge(name, &block, verdict);
    }
    let mut block = stage.draft(vec![]);
    block.txdata[0].output[0].value = Amount::ZERO;
    miner::seal(&mut block);
    stage.accept("coinbase of nothing", &block);

    let mut block = stage.draft(vec![]);
    let extra = stage.output(1, Lock::Bare);
    block.txdata[0].output.push(extra);
    miner::seal(&mut block);
    stage.judge("the excess in a second coinbase output", &block, greedy);
    halving(stage);
}

/// The subsidy halves at height 150.
fn halving(stage: &mut Stage) {
    stage.case("up to the halving");
    let missing = miner::HALVING_INTERVAL.saturating_sub(stage.height() + 1);
    stage.mine_empty(missing);
    assert!(stage.height() < miner::HALVING_INTERVAL, "the suite grew past the halving");
    let block = stage.sealed(vec![]);
    stage.accept("the last full subsidy", &block);
    let mut block = stage.draft(vec![]);
    block.txdata[0].output[0].value = Amount::from_sat(miner::subsidy(149));
    miner::seal(&mut block);
    stage.reject("the old subsidy after the halving", &block, "bad-cb-amount");
    let mut block = stage.draft(vec![]);
    block.txdata[0].output[0].value = Amount::from_sat(miner::subsidy(150) + 1);
    miner::seal(&mut block);
    stage.reject("one above the halved subsidy", &block, "bad-cb-amount");
    let block = stage.sealed(vec![]);
    stage.accept("the halved subsidy", &block);
}
