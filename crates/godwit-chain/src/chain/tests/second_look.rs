//! Verdicts that a flipped bit makes up: the block is looked at again, and connected.

use godwit_consensus::RejectReason;
use godwit_sim::rng::Rng;
use godwit_store::utxo::CompressedCoins;

use super::sealed_windows::{CHAIN, Timed};
use super::*;

/// Flushes after some tens of blocks. With fewer, runs are merged before the window has come to an end, and a
/// coin that was read wrong, spent, sealed, merged away and then given back is nowhere as it was.
const CACHE: CacheMinima = CacheMinima { budget: 448 << 10, active: 208 << 10, ..SMALL_CACHE };

/// What goes wrong at first looks.
#[derive(Clone, Copy, Debug)]
enum Flip {
    /// A filter says that there is no such coin.
    Filter,
    /// A coin is worth more than there is.
    Amount,
    /// The script of a coin is another one.
    Script,
    /// The engine refuses what is valid.
    Engine,
}

fn spoil(coins: &mut CompressedCoins, n: usize, flip: Flip) {
    let mut coin = coins.coin(n).expect("it is there");
    match flip {
        Flip::Filter => return coins.forget(n),
        // The highest of the bits that keep their places when an amount is compressed.
        Flip::Amount => coin.value ^= 1 << 60,
        Flip::Script => {
            if let Some(last) = coin.script_pubkey.last_mut() {
                *last ^= 1;
            }
        }
        Flip::Engine => {}
    }
    coins.set_coin(n, &coin);
}

/// The blocks that were looked at again, and what was found invalid.
fn run(timed: &mut Timed, mut each: impl FnMut(&mut Timed)) -> (Vec<NodeId>, Vec<Reject>) {
    let (mut looks, mut invalid) = (Vec::new(), Vec::new());
    while timed.go_on() {
        each(timed);
        let doubted = timed.chain.goal.doubted();
        looks.extend(doubted.filter(|doubted| looks.last() != Some(doubted)));
        invalid.extend(timed.chain.take_events().into_iter().filter_map(|event| match event {
            Event::Invalid { reject, .. } => Some(reject),
            _ => None,
        }));
    }
    (looks, invalid)
}

#[test]
fn c15_flipped_bits_at_the_first_look_change_no_verdict() {
    let (blocks, expected) = &*CHAIN;
    for flip in [Flip::Filter, Flip::Amount, Flip::Script, Flip::Engine] {
        let mut looks = 0;
        for seed in 0..8 {
            let mut rng = Rng::new(seed);
            let mut timed = Timed::new(seed, CACHE, CoinWriting::PRODUCT);
            timed.give_all(blocks);
            // One bit at a time.
            let rate = if let Flip::Engine = flip { 4 } else { 60 };
            let (more, invalid) = run(&mut timed, |timed| {
                if !rng.chance(rate) || timed.chain.goal.doubted().is_some() {
                    return;
                }
                if let Flip::Engine = flip {
                    return timed.fail_scripts();
                }
                let mut fetched = timed.chain.lookahead.fetched();
                let places = fetched.iter().enumerate();
                let places: Vec<(usize, usize)> = places
                    .flat_map(|(block, coins)| (0..coins.len()).map(move |n| (block, n)))
                    .filter(|(block, n)| fetched[*block].has(*n))
                    .collect();
                if !places.is_empty() {
                    let (block, n) = places[rng.below(places.len() as u64) as usize];
                    spoil(fetched[block], n, flip);
                }
            });
            looks += more.len();
            assert_eq!(invalid, [], "{flip:?}, seed {seed}");
            assert_eq!(timed.chain.goal.doubted(), None);
            timed.executor.disarm();
            let stats = timed.chain.utxo_stats().expect("no fault");
            assert_eq!(Some(&stats), expected.last(), "{flip:?}, seed {seed}");
        }
        eprintln!("{flip:?}: {looks} looked at again");
        assert!(looks >= 6, "{flip:?}: {looks} second looks");
    }
}

/// The second verdict is the one that counts, and there is no third.
#[test]
fn c15_a_block_that_fails_twice_has_failed_for_the_second_reason() {
    let (blocks, expected) = &*CHAIN;
    let mut timed = Timed::new(3, CACHE, CoinWriting::PRODUCT);
    timed.give_all(blocks);
    // What is made up may come too late, or another answer after it.
    let (mut looks, invalid) = run(&mut timed, |timed| {
        if timed.chain.goal.doubted().is_none() {
            let applied = timed.chain.window.applied();
            if timed.chain.index.height(applied) >= 20 {
                timed.fail_scripts();
            }
        } else if let Some(token) = timed.chain.window.first_verifying() {
            let reject = Reject::new(RejectReason::BadBlkSigops);
            let outcome = Err(VerifyError::Rejected(reject));
            let answer = window::Answer::Verified(vec![(token, outcome)]);
            timed.chain.deliver_one(Message::Window(answer)).expect("no fault");
        }
    });
    assert_eq!(invalid, [Reject::new(RejectReason::BadBlkSigops)]);
    let last = *looks.last().expect("it was looked at again");
    let node = timed.chain.index.node(last);
    assert!(node.failed && timed.chain.tip_point().height == node.height - 1);
    let count = looks.len();
    looks.sort_unstable();
    looks.dedup();
    assert_eq!(looks.len(), count, "no block has a third look");
    timed.executor.disarm();
    let stats = timed.chain.utxo_stats().expect("no fault");
    assert_eq!(stats, expected[node.height as usize - 1]);
}
