//! The coin of an outpoint as of the tip, while other blocks are applied above it.

use std::collections::HashMap;

use godwit_primitives::{Block, OutPoint, coin};

use super::*;
use crate::coin_at_tip::CoinAtTip;
use crate::stored_data::StoredData;

/// When an output came and went, by the chain's own blocks.
struct Life {
    value: i64,
    created: u32,
    spent: Option<u32>,
}

/// All outputs that can be spent, and those of each block that it created or spent.
fn lives(blocks: &[Vec<u8>]) -> (HashMap<OutPoint, Life>, Vec<Vec<OutPoint>>) {
    let (mut lives, mut touched) = (HashMap::new(), Vec::new());
    for (height, bytes) in (1..).zip(blocks) {
        let block = Block::from_bytes(bytes).expect("a block");
        let mut of_block = Vec::new();
        for (tx, txid) in block.view().txs().zip(block.view().txids()) {
            for input in tx.inputs().filter(|input| !input.prevout.is_null()) {
                let life: &mut Life = lives.get_mut(&input.prevout).expect("it was created");
                life.spent = Some(height);
                of_block.push(input.prevout);
            }
            for (vout, output) in (0..).zip(tx.outputs()) {
                if !coin::is_unspendable(output.script_pubkey) {
                    let outpoint = OutPoint { txid: *txid, vout };
                    let life = Life { value: output.value, created: height, spent: None };
                    lives.insert(outpoint, life);
                    of_block.push(outpoint);
                }
            }
        }
        touched.push(of_block);
    }
    (lives, touched)
}

#[test]
fn a_coin_at_the_tip_is_that_of_the_tip_whatever_is_applied_above() {
    let blocks = blocks();
    let (lives, touched) = lives(&blocks);
    let mut chain = chain_with(&FaultDisk::new(), SMALL_CACHE);
    for (ticket, block) in (0..).zip(&blocks) {
        give(&mut chain, block, ticket);
    }
    let (mut above, mut below) = (0, 0);
    loop {
        let poll = chain.poll(NOW).expect("a valid chain");
        let height = chain.tip_point().height as usize;
        let last = chain.index.height(chain.window.applied()) as usize;
        above += usize::from(last > height);
        // Of the blocks around the tip, where something may be wrong.
        let around = height.saturating_sub(2)..(last + 1).min(touched.len());
        for outpoint in touched[around].iter().flatten() {
            let life = &lives[outpoint];
            let exists = life.created as usize <= height
                && life.spent.is_none_or(|spent| spent as usize > height);
            let found = match StoredData::of(&chain).coin(outpoint) {
                CoinAtTip::Known(coin) => coin,
                CoinAtTip::Below(place) => {
                    below += 1;
                    place.read().expect("no fault")
                }
            };
            let expected = exists.then_some((life.value, life.created));
            assert_eq!(found.map(|coin| (coin.value, coin.height)), expected, "at height {height}");
        }
        chain.take_events();
        match poll {
            Poll::Idle => break,
            Poll::Waiting => chain.wait_with(&crossbeam_channel::never::<()>(), LONGEST_WAIT),
            Poll::Progress => {}
        }
    }
    assert_eq!(chain.tip_point().height as usize, blocks.len());
    assert!(above > 0 && below > 0, "{above} looks beside a window, {below} below memory");
}
