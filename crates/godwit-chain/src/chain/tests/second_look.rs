//! Verdicts that a flipped bit makes up: the block is looked at again, and connected.

use std::collections::HashMap;

use godwit_consensus::RejectReason;
use godwit_primitives::{Block, OutPoint, Txid};
use godwit_sim::rng::Rng;
use godwit_store::utxo::{CompressedCoins, Taken};

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

/// The first block that spends a coin of an earlier one, too early if it were a coinbase's; and the coin.
fn first_spend(blocks: &[Vec<u8>]) -> (usize, OutPoint) {
    let mut creators: HashMap<Txid, usize> = HashMap::new();
    for (n, bytes) in blocks.iter().enumerate() {
        let block = Block::from_bytes(bytes).expect("the generator's blocks are sound");
        for input in block.view().txs().skip(1).flat_map(|tx| tx.inputs()) {
            let creator = creators.get(&input.prevout.txid);
            if creator.is_some_and(|creator| creator + 90 > n) {
                return (n, input.prevout);
            }
        }
        creators.extend(block.view().txids().iter().skip(1).map(|txid| (*txid, n)));
    }
    panic!("the plan has spends")
}

/// In a memtable, where both looks find it: the block that created the coin says what it was.
#[test]
fn c15_a_coin_that_changed_in_memory_ends_the_node_and_fails_no_block() {
    let (blocks, expected) = &*CHAIN;
    let (spender, outpoint) = first_spend(blocks);
    for changed in ["amount", "script", "height", "coinbase"] {
        let mut timed = Timed::new(5, CacheMinima::PRODUCT, CoinWriting::PRODUCT);
        timed.give_all(&blocks[..spender]);
        while timed.go_on() {
            timed.chain.take_events();
        }
        let key = timed.chain.env.hasher.hash(outpoint);
        let Taken::Coin(mut other) = timed.chain.coins.take(&key) else {
            panic!("it is in memory")
        };
        match changed {
            "amount" => other.value >>= 8,
            "script" => *other.script_pubkey.last_mut().expect("it has a script") ^= 1,
            // No rule speaks of it: that the block is refused is made up.
            "height" => other.height -= 1,
            _ => other.coinbase = true,
        }
        timed.chain.coins.add(&key, &other, false);
        timed.give_all(&blocks[spender..=spender]);
        let header: BlockHeader = SpanReader::new(&blocks[spender]).get().expect("a header");
        let id = timed.chain.index.find(&header.block_hash()).expect("it was given");
        let error = loop {
            let clock = NOW + timed.executor.now().as_secs() as i64;
            match timed.chain.poll(clock) {
                Err(error) => break error,
                Ok(Poll::Progress) => {}
                Ok(Poll::Waiting) => assert!(timed.executor.finish_one(), "nothing runs"),
                Ok(Poll::Idle) => panic!("{changed}: the block is connected, or has failed"),
            }
            timed.chain.take_events();
            let verifying = timed.chain.window.first_verifying();
            let newest = timed.chain.window.newest();
            if changed == "height"
                && newest.is_some_and(|(token, block)| block.id() == id && verifying == Some(token))
            {
                timed.fail_scripts();
            }
        };
        assert!(
            matches!(error, ChainError::ChangedCoin(of) if of == outpoint),
            "{changed}: {error}"
        );
        assert!(!timed.chain.index.node(id).failed, "{changed}");
        // The next process has the coin as the block says.
        let stats = super::sealed_windows::settled(timed.cut(Survival::All));
        assert_eq!(stats, expected[spender + 1], "{changed}");
    }
}
