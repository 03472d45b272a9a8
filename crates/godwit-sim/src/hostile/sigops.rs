//! The limit of 80,000 on the cost of signature operations.

use bitcoin::{Amount, ScriptBuf, Transaction, TxOut, Witness};

use super::asm::{asm, concat, push};
use super::stage::{self, Stage};
use super::{Suite, Verdict};
use crate::lock::Coin;
use crate::miner;

/// Legacy signature operations cost four each, so this many reach the limit.
const LEGACY_LIMIT: usize = 20_000;
const TOO_MANY: Verdict = Some("bad-blk-sigops");

pub(super) fn suite(mut stage: Stage) -> Suite {
    legacy(&mut stage);
    counting(&mut stage);
    pay_to_script_hash(&mut stage);
    witness_programs(&mut stage);
    stage.into_suite()
}

/// A transaction whose output scripts hold `count` CHECKSIGs; what it spends has none.
fn with_sigops(stage: &mut Stage, count: usize) -> Transaction {
    let mut tx = stage.any_tx();
    add_output(&mut tx, ScriptBuf::from_bytes(vec![0xac; count]));
    tx
}

fn add_output(tx: &mut Transaction, script_pubkey: ScriptBuf) {
    tx.output.push(TxOut { value: Amount::ZERO, script_pubkey });
}

fn judge(stage: &mut Stage, name: &str, txs: Vec<Transaction>, verdict: Verdict) {
    let block = stage.sealed(txs);
    stage.judge(name, &block, verdict);
}

fn legacy(stage: &mut Stage) {
    for (name, count, verdict) in [
        ("20,000 CHECKSIGs in outputs", LEGACY_LIMIT, None),
        ("20,001 CHECKSIGs in outputs", LEGACY_LIMIT + 1, TOO_MANY),
    ] {
        let tx = with_sigops(stage, count);
        judge(stage, name, vec![tx], verdict);
    }
    for (name, last, verdict) in [
        ("20,000 spread over transactions", 0, None),
        ("20,001 spread over transactions", 1, TOO_MANY),
    ] {
        let txs = vec![with_sigops(stage, 10_000), with_sigops(stage, 10_000 + last)];
        judge(stage, name, txs, verdict);
    }
    for (name, count, verdict) in [
        ("20,000 with those of the coinbase", 19_999, None),
        ("20,001 with those of the coinbase", 20_000, TOO_MANY),
    ] {
        let tx = with_sigops(stage, count);
        let mut block = stage.draft(vec![tx]);
        let mut script = block.txdata[0].input[0].script_sig.to_bytes();
        script.push(0xac);
        block.txdata[0].input[0].script_sig = ScriptBuf::from_bytes(script);
        miner::seal(&mut block);
        stage.judge(name, &block, verdict);
    }
}

/// How single opcodes count in scripts that are not run.
fn counting(stage: &mut Stage) {
    let cases: [(&str, &str, usize); 9] = [
        ("CHECKSIGVERIFY counts one", "CHECKSIGVERIFY", 1),
        ("CHECKMULTISIG counts twenty", "CHECKMULTISIG", 20),
        ("CHECKMULTISIGVERIFY counts twenty", "CHECKMULTISIGVERIFY", 20),
        ("3 CHECKMULTISIG counts twenty in an output", "3 CHECKMULTISIG", 20),
        ("CHECKSIG in pushed data counts nothing", "<acac>", 0),
        ("CHECKSIG behind a truncated push counts nothing", "0x05acacac", 0),
        ("CHECKSIG behind a bad PUSHDATA2 counts nothing", "0x4dffacac", 0),
        ("CHECKSIGADD counts nothing", "CHECKSIGADD", 0),
        ("CHECKSIG behind OP_RETURN counts", "RETURN CHECKSIG", 1),
    ];
    for (name, script, count) in cases {
        for (side, excess, verdict) in [("at the limit", 0, None), ("above", 1, TOO_MANY)] {
            let mut tx = with_sigops(stage, LEGACY_LIMIT - count + excess);
            add_output(&mut tx, asm(script));
            judge(stage, &format!("{name}: {side}"), vec![tx], verdict);
        }
    }
}

/// A coin whose script anyone can satisfy, in a block of its own in the case.
fn custom_coin(stage: &mut Stage, script_pubkey: ScriptBuf) -> Coin {
    let coin = stage.bare();
    let value = Amount::from_sat(coin.value);
    let output = TxOut { value, script_pubkey: script_pubkey.clone() };
    let tx = stage::unsigned(std::slice::from_ref(&coin), vec![output]);
    let block = stage.sealed(vec![tx.clone()]);
    stage.extend(&block);
    let outpoint = bitcoin::OutPoint { txid: tx.compute_txid(), vout: 0 };
    Coin { outpoint, script_pubkey, height: stage.tip().height, ..coin }
}

/// Signature operations that are counted and never run.
fn unexecuted(operations: &str) -> ScriptBuf {
    asm(&format!("0 IF {operations} ENDIF 1"))
}

fn pay_to_script_hash(stage: &mut Stage) {
    let cases: [(&str, &str, usize); 4] = [
        ("P2SH with ten CHECKSIGs", "CHECKSIG*10", 10),
        ("P2SH counts 3 CHECKMULTISIG as three", "3 CHECKMULTISIG", 3),
        ("P2SH counts 16 CHECKMULTISIGVERIFY as sixteen", "16 CHECKMULTISIGVERIFY", 16),
        ("P2SH counts CHECKMULTISIG without a number as twenty", "NOP CHECKMULTISIG", 20),
    ];
    for (name, operations, count) in cases {
        let redeem = unexecuted(operations);
        for (side, excess, verdict) in [("at the limit", 0, None), ("above", 1, TOO_MANY)] {
            stage.case(format!("{name}: {side}"));
            let coin = custom_coin(stage, redeem.to_p2sh());
            let mut spend = stage.move_coins(&[coin]);
            spend.input[0].script_sig = push(redeem.as_bytes());
            let filler = with_sigops(stage, LEGACY_LIMIT - count + excess);
            let block = stage.sealed(vec![filler, spend]);
            stage.submit(&block, verdict);
        }
    }
}

fn witness_programs(stage: &mut Stage) {
    for (side, count, verdict) in [("at the limit", 4, None), ("above", 5, TOO_MANY)] {
        stage.case(format!("witness operations cost one each: {side}"));
        let script = unexecuted(&format!("CHECKSIG*{count}"));
        let coin = custom_coin(stage, script.to_p2wsh());
        let mut spend = stage.move_coins(&[coin]);
        spend.input[0].witness = Witness::from_slice(&[script.as_bytes()]);
        let filler = with_sigops(stage, LEGACY_LIMIT - 1);
        let block = stage.sealed(vec![filler, spend]);
        stage.submit(&block, verdict);
    }
    for (side, count, verdict) in [("at the limit", 4, None), ("above", 5, TOO_MANY)] {
        stage.case(format!("nested witness operations: {side}"));
        let script = unexecuted(&format!("CHECKSIG*{count}"));
        let program = script.to_p2wsh();
        let coin = custom_coin(stage, program.to_p2sh());
        let mut spend = stage.move_coins(&[coin]);
        spend.input[0].script_sig = push(program.as_bytes());
        spend.input[0].witness = Witness::from_slice(&[script.as_bytes()]);
        let filler = with_sigops(stage, LEGACY_LIMIT - 1);
        let block = stage.sealed(vec![filler, spend]);
        stage.submit(&block, verdict);
    }
    for (side, keys, verdict) in [("at the limit", 4, None), ("above", 5, TOO_MANY)] {
        stage.case(format!("P2WPKH costs one each: {side}"));
        let txs: Vec<Transaction> = (0..keys).map(|_| stage.any_witness_tx()).collect();
        let filler = with_sigops(stage, LEGACY_LIMIT - 1);
        let block = stage.sealed(std::iter::once(filler).chain(txs).collect());
        stage.submit(&block, verdict);
    }
    stage.case("witness operations in an output script of P2SH form are not there yet");
    let script = concat(&[&unexecuted("CHECKSIG*1000"), &asm("NOP")]);
    let mut tx = with_sigops(stage, LEGACY_LIMIT);
    add_output(&mut tx, script.to_p2wsh());
    add_output(&mut tx, script.to_p2sh());
    let block = stage.sealed(vec![tx]);
    stage.submit(&block, None);
}
