//! Rules that a block can be checked against alone: merkle tree, coinbase, transactions, encoding.

use bitcoin::consensus::{Encodable, serialize};
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::script::Builder;
use bitcoin::{
    Amount, Block, OutPoint, ScriptBuf, Transaction, TxIn, TxMerkleNode, TxOut, VarInt, Witness,
};

use super::Suite;
use super::stage::{self, Stage};
use crate::lock::Lock;
use crate::miner;

const MAX_MONEY: u64 = 21_000_000 * 100_000_000;

pub(super) fn suite(mut stage: Stage) -> Suite {
    coinbase_script(&mut stage);
    merkle_tree(&mut stage);
    duplicated_tails(&mut stage);
    coinbase_place(&mut stage);
    transactions(&mut stage);
    output_values(&mut stage);
    stage.into_suite()
}

/// First of the suite: below height 128 the height of BIP34 takes two bytes, the lower limit.
fn coinbase_script(stage: &mut Stage) {
    assert!((17..=127).contains(&stage.height()));
    for (length, verdict) in [
        (0, Some("bad-cb-length")),
        (1, Some("bad-cb-length")),
        (2, None),
        (3, None),
        (99, None),
        (100, None),
        (101, Some("bad-cb-length")),
        (520, Some("bad-cb-length")),
    ] {
        let mut block = stage.draft(vec![]);
        let mut script = Builder::new().push_int(i64::from(stage.height())).into_bytes();
        script.resize(length, 0);
        block.txdata[0].input[0].script_sig = ScriptBuf::from_bytes(script);
        miner::seal(&mut block);
        stage.judge(&format!("coinbase script of {length} bytes"), &block, verdict);
    }
    coinbase_height(stage);
}

fn coinbase_height(stage: &mut Stage) {
    let height = stage.height() as u8;
    for (name, script) in [
        ("coinbase with the parent's height", vec![1, height - 1, 0]),
        ("coinbase with the next height", vec![1, height + 1, 0]),
        ("coinbase height in a longer number", vec![2, height, 0]),
        ("coinbase height behind PUSHDATA1", vec![0x4c, 1, height]),
        ("coinbase height not first", vec![0, 1, height]),
        ("coinbase script without a push", vec![0x51, 0x51]),
    ] {
        let mut block = stage.draft(vec![]);
        block.txdata[0].input[0].script_sig = ScriptBuf::from_bytes(script);
        miner::seal(&mut block);
        stage.reject(name, &block, "bad-cb-height");
    }
}

fn merkle_tree(stage: &mut Stage) {
    let (a, b) = (stage.any_tx(), stage.any_tx());
    let honest = stage.sealed(vec![a, b]);
    stage.case("merkle root of other bytes, then the honest block");
    let mut bad = honest.clone();
    let mut root = bad.header.merkle_root.to_byte_array();
    root[31] ^= 1;
    bad.header.merkle_root = TxMerkleNode::from_byte_array(root);
    miner::mine(&mut bad.header);
    stage.submit(&bad, Some("bad-txnmrklroot"));
    stage.submit(&honest, None);

    stage.case("transactions in another order than the root says");
    let (a, b) = (stage.any_tx(), stage.any_tx());
    let honest = stage.sealed(vec![a, b]);
    let mut swapped = honest.clone();
    swapped.txdata.swap(1, 2);
    stage.submit(&swapped, Some("bad-txnmrklroot"));
    let mut shortened = honest.clone();
    shortened.txdata.pop();
    stage.submit(&shortened, Some("bad-txnmrklroot"));
    stage.submit(&honest, None);

    stage.case("no transactions, root of all zeros");
    let mut empty = stage.draft(vec![]);
    empty.txdata.clear();
    miner::mine(&mut empty.header);
    stage.submit(&empty, Some("bad-blk-length"));
    stage.case("no transactions, another root");
    empty.header.merkle_root = TxMerkleNode::from_byte_array([1; 32]);
    miner::mine(&mut empty.header);
    stage.submit(&empty, Some("bad-txnmrklroot"));
}

/// CVE-2012-2459: repeating the end of the transaction list keeps the merkle root. Such a block
/// must not spoil the honest one with the same hash.
fn duplicated_tails(stage: &mut Stage) {
    for (transactions, repeated) in [(3, 1), (5, 1), (6, 2), (7, 1), (9, 1), (10, 2), (12, 4)] {
        let txs = (1..transactions).map(|_| stage.any_tx()).collect();
        let honest = stage.sealed(txs);
        let mut mutated = honest.clone();
        mutated.txdata.extend_from_within(transactions - repeated..);
        assert_eq!(mutated.compute_merkle_root(), honest.compute_merkle_root());
        stage.case(format!("last {repeated} of {transactions} repeated, then the honest block"));
        stage.submit(&mutated, Some("bad-txns-duplicate"));
        stage.submit(&mutated, Some("bad-txns-duplicate"));
        stage.submit(&honest, None);
    }
    let (a, b) = (stage.any_tx(), stage.any_tx());
    let block = stage.sealed(vec![b.clone(), a.clone(), a.clone()]);
    stage.reject("an equal pair inside the tree", &block, "bad-txns-duplicate");
    let block = stage.sealed(vec![a.clone(), b, a]);
    stage.reject("a repeated transaction, not a pair", &block, "bad-txns-inputs-missingorspent");
}

fn coinbase_place(stage: &mut Stage) {
    let tx = stage.any_tx();
    let mut block = stage.draft(vec![tx]);
    block.txdata.swap(0, 1);
    miner::seal(&mut block);
    stage.reject("coinbase second", &block, "bad-cb-missing");
    block.txdata.truncate(1);
    miner::seal(&mut block);
    stage.reject("no coinbase", &block, "bad-cb-missing");

    let mut block = stage.draft(vec![]);
    let mut second = block.txdata[0].clone();
    second.output[0].value = Amount::ZERO;
    block.txdata.push(second);
    miner::seal(&mut block);
    stage.reject("two coinbases", &block, "bad-cb-multiple");

    let mut block = stage.draft(vec![]);
    block.txdata[0].input[0].previous_output.vout = 0;
    miner::seal(&mut block);
    stage.reject("coinbase whose prevout has index 0", &block, "bad-cb-missing");

    let mut block = stage.draft(vec![]);
    let input = block.txdata[0].input[0].clone();
    block.txdata[0].input.push(input);
    miner::seal(&mut block);
    stage.reject("coinbase with two inputs", &block, "bad-cb-missing");
}

fn transactions(stage: &mut Stage) {
    let mut tx = stage.any_tx();
    tx.output.clear();
    let block = stage.sealed(vec![tx]);
    stage.reject("transaction without outputs", &block, "bad-txns-vout-empty");

    let mut block = stage.draft(vec![]);
    block.txdata[0].output.clear();
    miner::seal(&mut block);
    stage.reject("coinbase without outputs", &block, "bad-txns-vout-empty");

    // Without inputs the first byte reads as the segwit marker, so neither can have outputs.
    let empty = vec![2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    stage.case("transaction without inputs and outputs");
    let bytes = with_raw_tx(stage, &empty);
    stage.submit_bytes(bytes, Some("bad-txns-vin-empty"));

    let coin = stage.bare();
    let tx = stage.move_coins(&[coin.clone(), coin]);
    let block = stage.sealed(vec![tx]);
    stage.reject("one coin twice in a transaction", &block, "bad-txns-inputs-duplicate");

    let (first, second) = (stage.bare(), stage.bare());
    let tx = stage.move_coins(&[first.clone(), second, first]);
    let block = stage.sealed(vec![tx]);
    stage.reject("one coin twice with another between", &block, "bad-txns-inputs-duplicate");

    let mut tx = stage.any_tx();
    tx.input.push(TxIn { previous_output: OutPoint::null(), ..tx.input[0].clone() });
    let block = stage.sealed(vec![tx]);
    stage.reject("null prevout beside a real one", &block, "bad-txns-prevout-null");

    let coin = stage.bare();
    let mut tx = stage.move_coins(std::slice::from_ref(&coin));
    tx.output = (0..2_000).map(|_| stage.output(1, Lock::Bare)).collect();
    let block = stage.sealed(vec![tx]);
    stage.accept("2,000 outputs of one satoshi", &block);
}

fn output_values(stage: &mut Stage) {
    let cases: [(&str, &[u64], &str); 7] = [
        ("output of -1", &[u64::MAX], "bad-txns-vout-negative"),
        ("lowest output value", &[1 << 63], "bad-txns-vout-negative"),
        ("output above all money", &[MAX_MONEY + 1], "bad-txns-vout-toolarge"),
        ("highest output value", &[i64::MAX as u64], "bad-txns-vout-toolarge"),
        ("outputs above all money", &[MAX_MONEY, 1], "bad-txns-txouttotal-toolarge"),
        ("outputs of all money", &[MAX_MONEY - 1, 1], "bad-txns-in-belowout"),
        ("negative after large", &[MAX_MONEY, u64::MAX], "bad-txns-vout-negative"),
    ];
    for (name, values, reason) in cases {
        let mut tx = stage.any_tx();
        let script = tx.output[0].script_pubkey.clone();
        tx.output = outputs(values, &script);
        let block = stage.sealed(vec![tx]);
        stage.reject(name, &block, reason);

        let mut block = stage.draft(vec![]);
        block.txdata[0].output = outputs(values, &script);
        miner::seal(&mut block);
        let reason = if reason == "bad-txns-in-belowout" { "bad-cb-amount" } else { reason };
        stage.reject(&format!("coinbase: {name}"), &block, reason);
    }
    let mut tx = stage.any_tx();
    tx.output.push(TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::new() });
    let block = stage.sealed(vec![tx]);
    stage.accept("output of zero", &block);
}

fn outputs(values: &[u64], script: &ScriptBuf) -> Vec<TxOut> {
    let output =
        |value: &u64| TxOut { value: Amount::from_sat(*value), script_pubkey: script.clone() };
    values.iter().map(output).collect()
}

/// A block whose second transaction is `raw`, hashed as it stands.
fn with_raw_tx(stage: &mut Stage, raw: &[u8]) -> Vec<u8> {
    let mut block = stage.draft(vec![]);
    let coinbase = block.txdata[0].compute_txid().to_byte_array();
    let pair = [coinbase, sha256d::Hash::hash(raw).to_byte_array()].concat();
    block.header.merkle_root = TxMerkleNode::from_raw_hash(sha256d::Hash::hash(&pair));
    miner::mine(&mut block.header);
    raw_block(&block, &[&serialize(&block.txdata[0]), raw])
}

fn raw_block(block: &Block, transactions: &[&[u8]]) -> Vec<u8> {
    let mut bytes = serialize(&block.header);
    VarInt::from(transactions.len())
        .consensus_encode(&mut bytes)
        .expect("a vector takes every write");
    transactions.iter().for_each(|tx| bytes.extend_from_slice(tx));
    bytes
}

/// Blocks that do not decode, and encodings that look odd but do.
pub(super) fn encoding_suite(mut stage: Stage) -> Suite {
    let tx = stage.any_witness_tx();
    let honest = stage.sealed(vec![tx]);
    let bytes = serialize(&honest);
    let count_at = 80;
    let fails: Vec<(&str, Vec<u8>)> = vec![
        ("nothing at all", Vec::new()),
        ("half a header", bytes[..40].to_vec()),
        ("a header alone", bytes[..80].to_vec()),
        ("one byte short", bytes[..bytes.len() - 1].to_vec()),
        ("cut in the first transaction", bytes[..100].to_vec()),
        ("one transaction announced too many", replaced(&bytes, count_at, 1, &[3])),
        ("count in three bytes instead of one", replaced(&bytes, count_at, 1, &[0xfd, 2, 0])),
        ("count in five bytes", replaced(&bytes, count_at, 1, &[0xfe, 2, 0, 0, 0])),
        ("count in nine bytes", replaced(&bytes, count_at, 1, &[0xff, 2, 0, 0, 0, 0, 0, 0, 0])),
        ("count above 32 MiB", replaced(&bytes, count_at, 1, &[0xfe, 1, 0, 0, 2])),
        ("count of 2^64 - 1", replaced(&bytes, count_at, 1, &[0xff; 9])),
        ("count of exactly 32 MiB, no bytes", replaced(&bytes, count_at, 1, &[0xfe, 0, 0, 0, 2])),
    ];
    for (name, bytes) in fails {
        stage.case(name);
        stage.submit_bytes(bytes, Some("Block decode failed"));
    }
    transaction_encodings(&mut stage, &honest);

    stage.case("bytes after the block");
    let with_tail = [bytes.as_slice(), &[0xde, 0xad]].concat();
    stage.submit_bytes(with_tail, None);
    let fork = stage.tip().height;
    stage.reorganise(fork, &[honest]);
    stage.case("a child of it");
    stage.mine_empty(1);
    stage.into_suite()
}

fn transaction_encodings(stage: &mut Stage, honest: &Block) {
    let coinbase = serialize(&honest.txdata[0]);
    let tx = &honest.txdata[1];
    let full = serialize(tx);
    let stripped = serialize(&without_witness(tx));
    // Marker and flag stand after the four bytes of the version.
    let flagged = |flag: u8, body: &[u8], witness: &[u8]| {
        let end = body.len() - 4;
        [&body[..4], &[0, flag], &body[4..end], witness, &body[end..]].concat()
    };
    let fails: Vec<(&str, Vec<u8>)> = vec![
        ("superfluous witness", flagged(1, &stripped, &[0])),
        ("witness flag without witness bytes", flagged(1, &stripped, &[])),
        ("unknown flag 2", flagged(2, &stripped, &[])),
        ("unknown flag 3 with a witness", replaced(&full, 5, 1, &[3])),
        ("unknown flag 128", flagged(0x80, &stripped, &[])),
        ("witness with an item of 2^32 bytes", {
            flagged(1, &stripped, &[1, 0xff, 0, 0, 0, 0, 1, 0, 0, 0])
        }),
        ("witness of 2^25 items", flagged(1, &stripped, &[0xfe, 0, 0, 0, 2])),
        ("input count not canonical", replaced(&stripped, 4, 1, &[0xfd, 1, 0])),
        ("script length beyond the end", replaced(&stripped, 41, 1, &[0xfd, 0xff, 0xff])),
        ("script length of 2^40", { replaced(&stripped, 41, 1, &[0xff, 0, 0, 0, 0, 0, 1, 0, 0]) }),
    ];
    for (name, raw) in fails {
        stage.case(name);
        let bytes = raw_block(honest, &[&coinbase, &raw]);
        stage.submit_bytes(bytes, Some("Block decode failed"));
    }
    stage.case("witness left out of the encoding");
    stage
        .submit_bytes(raw_block(honest, &[&coinbase, &stripped]), Some("bad-witness-merkle-match"));
}

fn without_witness(tx: &Transaction) -> Transaction {
    let mut tx = tx.clone();
    tx.input.iter_mut().for_each(|input| input.witness = Witness::new());
    tx
}

fn replaced(bytes: &[u8], at: usize, length: usize, with: &[u8]) -> Vec<u8> {
    [&bytes[..at], with, &bytes[at + length..]].concat()
}

/// Adds an unspendable output to the last transaction that brings the block, which must not have
/// witnesses yet, to `size` bytes.
pub(super) fn pad_to_stripped_size(block: &mut Block, size: usize) {
    let last = block.txdata.len() - 1;
    block.txdata[last].output.push(stage::padding_output(100_000));
    let missing = size as isize - block.total_size() as isize;
    let length = (100_000 + missing) as usize;
    let outputs = &mut block.txdata[last].output;
    outputs.pop();
    outputs.push(stage::padding_output(length));
    assert_eq!(block.total_size(), size, "the length of the padding's length changed");
}
