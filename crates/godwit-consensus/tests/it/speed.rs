//! What the rules cost on real blocks.
//!
//! `cargo test --release -p godwit-consensus --test it -- --ignored --nocapture speed`

use std::hint::black_box;
use std::time::Instant;

use godwit_consensus::{
    TxFacts, check_block, check_transaction, legacy_sigop_count, script_flags, sigop_cost,
};
use godwit_primitives::{Coin, CoinView, OutPoint};

use crate::blocks::{check_in_place, real_blocks};

/// Milliseconds of the fastest of some runs.
fn fastest(mut f: impl FnMut()) -> f64 {
    let run = |_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..20).map(run).fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "a measurement, prints and checks nothing"]
fn speed_of_rules() {
    let Some(blocks) = real_blocks() else { return };
    for real in blocks {
        let (Some(height), Some(spent)) = (real.height, &real.spent) else { continue };
        let view = real.block.view();
        if view.total_size() < 900_000 {
            continue;
        }
        let flags = script_flags(height, &view.hash(), &real.params);
        // A coin of the block itself counts as one that holds nothing.
        let empty =
            Coin { value: 0, script_pubkey: Default::default(), height: 0, coinbase: false };
        let coin =
            |outpoint: OutPoint| CoinView::from(spent.coins.get(&outpoint).unwrap_or(&empty));
        let coins: Vec<Vec<CoinView<'_>>> =
            view.txs().map(|tx| tx.inputs().map(|i| coin(i.prevout)).collect()).collect();
        let alone = fastest(|| {
            black_box(check_block(black_box(view), &real.params, |_| false)).unwrap();
        });
        let txs = fastest(|| {
            assert!(view.txs().all(|tx| check_transaction(black_box(tx)).is_ok()));
        });
        let legacy = fastest(|| {
            black_box(view.txs().map(|tx| legacy_sigop_count(black_box(tx))).sum::<u64>());
        });
        let in_place = fastest(|| {
            black_box(check_in_place(black_box(&real.block), height, &real.params)).unwrap();
        });
        let all = fastest(|| {
            let costs = view
                .txs()
                .zip(&coins)
                .map(|(tx, coins)| sigop_cost(tx, &TxFacts::of(tx), coins, flags));
            black_box(costs.sum::<u64>());
        });
        println!(
            "{}: {} tx, check_block {alone:.3} ms (transactions {txs:.3}, sigops {legacy:.3}), \
             in place {in_place:.3} ms, sigop cost {all:.3} ms",
            real.name,
            view.tx_count(),
        );
    }
}
