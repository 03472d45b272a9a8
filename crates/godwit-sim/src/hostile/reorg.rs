//! Reorganisations: two branches of a common base that spend the same coins in different ways.

use bitcoin::consensus::serialize;
use bitcoin::{OutPoint, Transaction};

use super::Verdict;
use super::stage::Stage;
use crate::lock::{Coin, Lock};
use crate::miner::COINBASE_MATURITY;

/// Depths of the branches.
const DEPTHS: [u32; 3] = [1, 10, 100];
/// Blocks that bring the first branch back to the front.
const RETURN: u32 = 2;
/// Types of the coins that the branches spend.
const LOCKS: [Lock; 13] = [
    Lock::P2pk,
    Lock::P2wpkh,
    Lock::P2trKey,
    Lock::P2pkh,
    Lock::P2shMultisig,
    Lock::P2shP2wpkh,
    Lock::P2wshMultisig,
    Lock::P2trScript,
    Lock::BareMultisig,
    Lock::Inscription(700),
    Lock::Cltv(1),
    Lock::Csv(1),
    Lock::LargeScript,
];

/// A first branch, a longer second one, and the first one's return.
#[derive(Clone, Debug)]
pub struct Reorganisation {
    /// Blocks that the first reorganisation disconnects.
    pub depth: u32,
    /// Common blocks from height 1 on, all accepted.
    pub base: Vec<Vec<u8>>,
    /// The branches' blocks in order of submission.
    pub blocks: Vec<Vec<u8>>,
    /// The verdict on each.
    pub expect: Vec<Verdict>,
    /// Index into `blocks` of the last block of the second branch: after it, and after the last
    /// block, the tip has changed sides.
    pub turn: usize,
    /// The blocks of the second branch, which are the active chain after `turn`.
    pub second: Vec<Vec<u8>>,
    /// The blocks of the first branch, which are the active chain at the end.
    pub first: Vec<Vec<u8>>,
}

/// One reorganisation, and back, for each depth: 1, 10 and 100.
pub fn reorganisations() -> Vec<Reorganisation> {
    DEPTHS.iter().map(|depth| reorganisation(*depth)).collect()
}

fn reorganisation(depth: u32) -> Reorganisation {
    let mut base = Stage::new();
    let count = (depth + RETURN) as usize;
    let locks: Vec<Lock> = LOCKS.iter().cycle().take(count).copied().collect();
    let source = base.coinbase_coin(2);
    let coins = base.fund(&source, &locks);
    base.mine_empty(1);

    let first = branch(base.named("first"), &coins);
    let mut coins_of_second = coins;
    coins_of_second.reverse();
    coins_of_second.truncate(depth as usize + 1);
    let mut rival = base.named("second");
    rival.skip_extra_nonces();
    let second = branch(rival, &coins_of_second);

    let (before, after) = first.split_at(depth as usize);
    let blocks = [before, &second, after].concat();
    let mut expect = vec![None; before.len()];
    expect.extend(vec![Some("inconclusive"); second.len() - 1]);
    expect.extend([None, Some("inconclusive"), None]);
    let turn = before.len() + second.len() - 1;
    Reorganisation { depth, base: base.into_suite().base, blocks, expect, turn, second, first }
}

/// One block for each coin: it spends the coin, an output of the block before, an output of its
/// own, and a coinbase that has just matured.
fn branch(mut stage: Stage, coins: &[Coin]) -> Vec<Vec<u8>> {
    let mut previous: Option<Coin> = None;
    coins
        .iter()
        .map(|coin| {
            let halves = [coin.value / 2, coin.value - coin.value / 2];
            let outputs = halves.map(|value| stage.output(value, Lock::Bare)).to_vec();
            let split = stage.signed(std::slice::from_ref(coin), outputs);
            let (inner, kept) = (output_of(&stage, &split, 0), output_of(&stage, &split, 1));
            let mut txs = vec![split, stage.move_coins(&[inner])];
            txs.extend(previous.replace(kept).map(|coin| stage.move_coins(&[coin])));
            let matured = stage.coinbase_coin(stage.height() - COINBASE_MATURITY);
            txs.push(stage.move_coins(&[matured]));
            let block = stage.sealed(txs);
            let parent = stage.tip().height;
            stage.reorganise(parent, std::slice::from_ref(&block));
            serialize(&block)
        })
        .collect()
}

fn output_of(stage: &Stage, tx: &Transaction, vout: u32) -> Coin {
    let output = &tx.output[vout as usize];
    Coin {
        outpoint: OutPoint { txid: tx.compute_txid(), vout },
        value: output.value.to_sat(),
        height: stage.height(),
        lock: Lock::Bare,
        key: 0,
        script_pubkey: output.script_pubkey.clone(),
        revealed: Default::default(),
    }
}
