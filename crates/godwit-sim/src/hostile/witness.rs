//! Witness commitments (BIP141).

use bitcoin::hashes::Hash;
use bitcoin::{
    Amount, Block, ScriptBuf, Transaction, TxOut, Witness, WitnessMerkleNode, merkle_tree,
};

use super::stage::Stage;
use super::{Suite, Verdict};
use crate::miner;

const MISMATCH: Verdict = Some("bad-witness-merkle-match");
const NONCE_SIZE: Verdict = Some("bad-witness-nonce-size");
const UNEXPECTED: Verdict = Some("unexpected-witness");

pub(super) fn suite(mut stage: Stage) -> Suite {
    // Funded first, so that the cases hold nothing but what they are about.
    let txs: Vec<Transaction> = (0..24).map(|_| stage.any_witness_tx()).collect();
    let mut txs = txs.into_iter();
    let mut next = move || txs.next().expect("as many as the cases take");
    presence(&mut stage, &mut next);
    reserved_value(&mut stage, &mut next);
    several_commitments(&mut stage, &mut next);
    commitment_form(&mut stage, &mut next);
    changed_witness(&mut stage, &mut next);
    stage.into_suite()
}

type Next<'a> = &'a mut dyn FnMut() -> Transaction;

fn finish(block: &mut Block) {
    miner::set_merkle_root(block);
    miner::mine(&mut block.header);
}

fn presence(stage: &mut Stage, next: Next<'_>) {
    let block = stage.sealed(vec![next()]);
    stage.accept("a committed witness", &block);

    let mut block = stage.draft(vec![next()]);
    finish(&mut block);
    stage.judge("a witness without a commitment", &block, UNEXPECTED);

    let mut block = stage.draft(vec![]);
    block.txdata[0].input[0].witness = Witness::from_slice(&[[0u8; 32]]);
    finish(&mut block);
    stage.judge("a coinbase witness without a commitment", &block, UNEXPECTED);

    let tx = stage.any_tx();
    let mut block = stage.draft(vec![tx]);
    miner::commit_witness(&mut block);
    finish(&mut block);
    stage.accept("a commitment to no witness", &block);

    let mut block = stage.draft(vec![]);
    miner::commit_witness(&mut block);
    finish(&mut block);
    stage.accept("a commitment in an otherwise empty block", &block);
}

/// Commits, then gives the coinbase another witness than the reserved value committed with.
fn reserved_value(stage: &mut Stage, next: Next<'_>) {
    let cases: [(&str, &[&[u8]], Verdict); 6] = [
        ("no reserved value", &[], NONCE_SIZE),
        ("reserved value of 31 bytes", &[&[0; 31]], NONCE_SIZE),
        ("reserved value of 33 bytes", &[&[0; 33]], NONCE_SIZE),
        ("empty reserved value", &[&[]], NONCE_SIZE),
        ("two reserved values", &[&[0; 32], &[0; 32]], NONCE_SIZE),
        ("another reserved value than committed", &[&[1; 32]], MISMATCH),
    ];
    for (name, witness, verdict) in cases {
        let honest = stage.sealed(vec![next()]);
        let mut bad = honest.clone();
        bad.txdata[0].input[0].witness = Witness::from_slice(witness);
        stage.case(format!("{name}, then the honest block"));
        stage.submit(&bad, verdict);
        stage.submit(&honest, None);
    }
    let mut block = stage.draft(vec![next()]);
    block.txdata[0].input[0].witness = Witness::from_slice(&[[0xab; 32]]);
    let root = block.witness_root().expect("the block has transactions");
    block.txdata[0].output.push(miner::commitment_output(root, &[0xab; 32]));
    finish(&mut block);
    stage.accept("a reserved value that is not zero", &block);
}

fn several_commitments(stage: &mut Stage, next: Next<'_>) {
    let wrong = miner::commitment_output(WitnessMerkleNode::from_byte_array([3; 32]), &[0; 32]);
    let cases: [(&str, bool, Verdict); 2] = [
        ("a wrong commitment before the right one", false, None),
        ("a wrong commitment after the right one", true, MISMATCH),
    ];
    for (name, wrong_last, verdict) in cases {
        let mut block = stage.draft(vec![next()]);
        miner::commit_witness(&mut block);
        let at = if wrong_last { block.txdata[0].output.len() } else { 0 };
        block.txdata[0].output.insert(at, wrong.clone());
        finish(&mut block);
        stage.judge(name, &block, verdict);
    }
    let mut block = stage.draft(vec![next()]);
    miner::commit_witness(&mut block);
    let again = block.txdata[0].output[1].clone();
    block.txdata[0].output.extend([again.clone(), again]);
    finish(&mut block);
    stage.accept("the same commitment three times", &block);

    let mut block = stage.draft(vec![next()]);
    block.txdata[0].output.push(wrong);
    block.txdata[0].input[0].witness = Witness::from_slice(&[[0u8; 32]]);
    finish(&mut block);
    stage.judge("a wrong commitment alone", &block, MISMATCH);
}

fn commitment_form(stage: &mut Stage, next: Next<'_>) {
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, Change, Verdict); 6] = [
        ("commitment one byte short", |script| script.truncate(37), UNEXPECTED),
        ("commitment with a byte behind it", |script| script.push(0), None),
        ("commitment with 500 bytes behind it", |script| script.resize(538, 7), None),
        ("commitment with another tag", |script| script[5] ^= 1, UNEXPECTED),
        ("commitment with another push", |script| script[1] = 0x25, UNEXPECTED),
        ("commitment without OP_RETURN", |script| script[0] = 0x61, UNEXPECTED),
    ];
    for (name, change, verdict) in cases {
        let mut block = stage.draft(vec![next()]);
        miner::commit_witness(&mut block);
        let output = &mut block.txdata[0].output[1];
        let mut script = output.script_pubkey.to_bytes();
        change(&mut script);
        output.script_pubkey = ScriptBuf::from_bytes(script);
        finish(&mut block);
        stage.judge(name, &block, verdict);
    }

    let mut block = stage.draft(vec![next()]);
    miner::commit_witness(&mut block);
    block.txdata[0].output[1].value = Amount::from_sat(1);
    block.txdata[0].output[0].value -= Amount::from_sat(1);
    finish(&mut block);
    stage.accept("commitment with a value", &block);

    // The commitment of a block with the same transactions, moved out of the coinbase.
    let mut carrier = stage.any_tx();
    let mut block = stage.draft(vec![next()]);
    miner::commit_witness(&mut block);
    let commitment: TxOut = block.txdata[0].output.remove(1);
    carrier.output.push(commitment);
    block.txdata.push(carrier);
    finish(&mut block);
    stage.judge("commitment in another transaction", &block, UNEXPECTED);
}

fn changed_witness(stage: &mut Stage, next: Next<'_>) {
    let honest = stage.sealed(vec![next()]);
    stage.case("a witness changed after the commitment, then the honest block");
    let mut bad = honest.clone();
    let mut items = bad.txdata[1].input[0].witness.to_vec();
    items[0][10] ^= 1;
    bad.txdata[1].input[0].witness = Witness::from_slice(&items);
    stage.submit(&bad, MISMATCH);
    items.push(vec![1]);
    bad.txdata[1].input[0].witness = Witness::from_slice(&items);
    stage.submit(&bad, MISMATCH);
    bad.txdata[1].input[0].witness = Witness::new();
    stage.submit(&bad, MISMATCH);
    stage.submit(&honest, None);

    // A root that counts the coinbase by its real wtxid instead of zeros.
    let mut block = stage.draft(vec![next()]);
    block.txdata[0].input[0].witness = Witness::from_slice(&[[0u8; 32]]);
    let wtxids = block.txdata.iter().map(|tx| tx.compute_wtxid().to_raw_hash());
    let root = merkle_tree::calculate_root(wtxids).expect("there are transactions");
    let root = WitnessMerkleNode::from_raw_hash(root);
    block.txdata[0].output.push(miner::commitment_output(root, &[0; 32]));
    finish(&mut block);
    stage.judge("a root over the coinbase's own wtxid", &block, MISMATCH);
}
