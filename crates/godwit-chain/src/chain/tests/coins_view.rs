//! The coins of the tip, read while the chain goes on, is reorganised and takes blocks back.

use std::collections::{HashMap, VecDeque};
use std::sync::Weak;

use crossbeam_channel::Receiver;
use godwit_sim::rng::Rng;

use super::sealed_windows::{CHAIN, OFTEN, Timed, coins_by_height};
use super::*;
use crate::coins_view::CoinsView;
use crate::stats::{CoinsHash, UtxoStats, VIEW_SORT_BYTES};
use crate::view::view_coins;

type Coins = HashMap<BlockHash, UtxoStats>;

/// Somebody who waits for coins, and the tip when he asked.
struct Asked {
    tip: NodeId,
    _sender: Arc<crossbeam_channel::Sender<CoinsView>>,
    view: Receiver<CoinsView>,
}

impl Asked {
    fn new(chain: &mut Chain) -> Self {
        let (sender, view) = bounded(1);
        let sender = Arc::new(sender);
        view_coins(chain, Arc::downgrade(&sender));
        Self { tip: chain.index.tip(), _sender: sender, view }
    }
}

fn check(timed: &Timed, view: &CoinsView, coins: &Coins) {
    timed.executor.disarm();
    let expected = coins[&view.tip().hash];
    for (hash, digest) in [
        (CoinsHash::Nothing, [0; 32]),
        (CoinsHash::MuHash, expected.muhash),
        (CoinsHash::Serialized, expected.hash_serialized),
    ] {
        let stats = view.stats(hash, VIEW_SORT_BYTES, &|| false).expect("no fault");
        assert_eq!((stats.totals, stats.hash), (expected.totals, digest), "{:?}", view.tip());
        assert!(stats.transactions <= stats.totals.txouts);
    }
    timed.executor.arm();
}

/// Goes on until nothing is to be done; asks now and then, and reads what it is given a while later.
fn run(timed: &mut Timed, coins: &Coins, rng: &mut Rng) -> (usize, usize) {
    let (mut asked, mut views) = (None::<Asked>, VecDeque::new());
    let (mut seen, mut later) = (0, 0);
    loop {
        let goes_on = timed.go_on();
        timed.chain.take_events();
        if asked.is_none() && rng.chance(30) && goes_on {
            asked = Some(Asked::new(&mut timed.chain));
        }
        if let Some(waits) = &asked
            && let Ok(view) = waits.view.try_recv()
        {
            let tree = timed.chain.index.tree();
            let tip = tree.find(&view.tip().hash).expect("it is known");
            let work = |id| tree.chain_work(id);
            assert!(tip == waits.tip || work(tip) > work(waits.tip), "a block between two tips");
            later += usize::from(tip != waits.tip);
            (asked, seen) = (None, seen + 1);
            views.push_back(view);
        }
        if views.len() > 2 || !goes_on {
            views.drain(..).for_each(|view| check(timed, &view, coins));
        }
        match &asked {
            None if !goes_on => return (seen, later),
            Some(_) if !goes_on => assert!(timed.executor.finish_one(), "nothing runs"),
            _ => {}
        }
    }
}

fn by_hash(blocks: &[Vec<u8>], stats: &[UtxoStats]) -> Coins {
    assert_eq!(stats.len(), blocks.len() + 1);
    stats.iter().map(|stats| (stats.tip.hash, *stats)).collect()
}

#[test]
fn a_view_has_the_coins_of_a_block_that_was_the_tip() {
    let mut coins = by_hash(&CHAIN.0, &CHAIN.1);
    let other = generated(&ChainPlan { empty_tail: 60, ..ChainPlan::small(2) });
    assert!(other.len() > CHAIN.0.len());
    coins.extend(by_hash(&other, &coins_by_height(&other)));
    let (mut seen, mut later) = (0, 0);
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let cache = if rng.chance(500) { SMALL_CACHE } else { CacheMinima::PRODUCT };
        let writing = if rng.chance(500) { OFTEN } else { CoinWriting::PRODUCT };
        let mut timed = Timed::new(seed, cache, writing);
        for blocks in [&CHAIN.0, &other] {
            timed.give_all(blocks);
            let of_run = run(&mut timed, &coins, &mut rng);
            (seen, later) = (seen + of_run.0, later + of_run.1);
            assert_eq!(timed.chain.tip_point().height as usize, blocks.len(), "seed {seed}");
        }
        timed.executor.disarm();
    }
    eprintln!("{seen} views, {later} of a later tip");
    assert!(seen > 50 && later > 20, "{seen} {later}");
}

/// Who asks for the coins of a tip that is taken for invalid meanwhile is answered, if need be with those of
/// one behind it, which has less work.
#[test]
fn the_coins_of_a_tip_that_failed_are_those_of_one_that_did_not() {
    let coins = by_hash(&CHAIN.0, &CHAIN.1);
    let (mut same, mut below) = (0, 0);
    for seed in 0..30 {
        let mut timed = Timed::new(seed, SMALL_CACHE, OFTEN);
        timed.give_all(&CHAIN.0);
        let height = Rng::new(seed).between(10, CHAIN.0.len() as u64 - 10);
        while u64::from(timed.chain.tip_point().height) < height {
            timed.go_on();
        }
        let asked = Asked::new(&mut timed.chain);
        let tip = timed.chain.tip_point();
        timed.chain.invalidate_block(&tip.hash).expect("it can be left");
        while timed.go_on() || asked.view.is_empty() {
            timed.executor.finish_one();
        }
        let view = asked.view.try_recv().expect("just seen");
        let behind = view.tip().height < tip.height;
        assert!(behind || view.tip() == tip, "{:?} after {tip:?}", view.tip());
        (same, below) = (same + u32::from(!behind), below + u32::from(behind));
        check(&timed, &view, &coins);
        timed.executor.disarm();
    }
    assert!(same > 0 && below > 0, "{same} {below}");
}

#[test]
fn nothing_is_sealed_for_who_is_gone_and_nothing_written_twice() {
    let mut chain = chain(&FaultDisk::new());
    for (ticket, block) in (0..).zip(&CHAIN.0) {
        give(&mut chain, block, ticket);
    }
    let settle = |chain: &mut Chain| {
        let (_, result) = poll_until(chain, |_, poll| poll == Poll::Idle);
        result.expect("a valid chain");
    };
    settle(&mut chain);
    view_coins(&mut chain, Weak::new());
    settle(&mut chain);
    assert_eq!(chain.utxo().counters().flushes, 0);
    for _ in 0..2 {
        let asked = Asked::new(&mut chain);
        let (_, result) = poll_until(&mut chain, |_, _| !asked.view.is_empty());
        result.expect("no fault");
        assert_eq!(chain.utxo().counters().flushes, 1);
    }
}

/// A caller that wants no more ends it, wherever it is.
#[test]
fn statistics_end_when_nobody_wants_them() {
    let mut chain = chain(&FaultDisk::new());
    for (ticket, block) in (0..).zip(&CHAIN.0) {
        give(&mut chain, block, ticket);
    }
    let (_, result) = poll_until(&mut chain, |_, poll| poll == Poll::Idle);
    result.expect("a valid chain");
    let asked = Asked::new(&mut chain);
    let (_, result) = poll_until(&mut chain, |_, _| !asked.view.is_empty());
    result.expect("no fault");
    let view = asked.view.try_recv().expect("just seen");
    let looks = std::cell::Cell::new(0);
    let count = || {
        looks.set(looks.get() + 1);
        false
    };
    view.stats(CoinsHash::MuHash, VIEW_SORT_BYTES, &count).expect("no fault");
    let all = looks.get();
    assert!(all > 0);
    for most in 0..all {
        looks.set(0);
        let is_over = || {
            looks.set(looks.get() + 1);
            looks.get() > most
        };
        let stats = view.stats(CoinsHash::MuHash, VIEW_SORT_BYTES, &is_over);
        assert!(matches!(stats, Err(ChainError::Store(StoreError::Stopped))), "{most} of {all}");
    }
}
