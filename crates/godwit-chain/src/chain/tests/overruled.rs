//! Blocks that are invalidated while they arrive, wait, are verified or are being written.

use godwit_sim::rng::Rng;

use super::sealed_windows::{CHAIN, OFTEN, Timed, settled};
use super::*;

/// Where a block is when it is invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Known by its header alone.
    Arriving,
    /// Stored, or on its way to its file.
    Ahead,
    /// Applied, and not on its way to be connected.
    Verifying,
    /// Its undo record is being written.
    Recording,
    Connected,
}

fn place(chain: &Chain, id: NodeId) -> Place {
    let tree = chain.index.tree();
    if tree.is_ancestor(id, chain.index.tip()) {
        return Place::Connected;
    }
    if tree.is_ancestor(id, chain.window.applied()) {
        let recording = chain.window.is_recording(id);
        return if recording { Place::Recording } else { Place::Verifying };
    }
    let stored = chain.index.node(id).position.is_some() || chain.appender.is_writing(id);
    if stored { Place::Ahead } else { Place::Arriving }
}

/// The block above the tip.
fn next_up(chain: &Chain) -> Option<NodeId> {
    let best = chain.index.tree().best_header();
    chain.index.tree().ancestor(best, chain.tip_point().height + 1)
}

/// Until nothing is to be done. Blocks that come meanwhile are refused or stored.
fn run(timed: &mut Timed) {
    while timed.go_on() {
        timed.chain.take_events();
    }
}

/// Some blocks are connected, some applied, and others arrive.
fn under_way(seed: u64, rng: &mut Rng) -> Timed {
    let (blocks, _) = &*CHAIN;
    let cache = if rng.chance(500) { SMALL_CACHE } else { CacheMinima::PRODUCT };
    let mut timed = Timed::new(seed, cache, OFTEN);
    let from = rng.below(blocks.len() as u64 - 30) as u32;
    let (first, rest) = blocks.split_at(from as usize + 20);
    timed.give_all(first);
    while timed.chain.index.height(timed.chain.window.applied()) < from {
        timed.go_on();
    }
    for _ in 0..rng.below(60) {
        timed.go_on();
    }
    timed.give_all(rest);
    for _ in 0..rng.below(4) {
        timed.go_on();
    }
    timed
}

/// Chooses a block anywhere.
fn choose(timed: &mut Timed, rng: &mut Rng) -> NodeId {
    let wants_recording = rng.chance(250);
    for _ in 0..if wants_recording { 400 } else { 0 } {
        if next_up(&timed.chain).is_some_and(|id| timed.chain.window.is_recording(id)) {
            break;
        }
        timed.go_on();
    }
    let chain = &timed.chain;
    let (tip, applied) = (chain.tip_point().height, chain.index.height(chain.window.applied()));
    let last = CHAIN.0.len() as u32;
    let (low, high) = match rng.below(4) {
        _ if wants_recording => (tip + 1, tip + 1),
        0 => (tip.saturating_sub(12), tip),
        1 => (tip + 1, applied),
        2 => (applied + 1, applied + 12),
        _ => (last - 8, last),
    };
    let clamp = |height: u32| u64::from(height.clamp(1, last));
    let height = rng.between(clamp(low), clamp(high.max(low))) as u32;
    let best = chain.index.tree().best_header();
    chain.index.tree().ancestor(best, height).expect("all headers are known")
}

/// Where the block was, and whether it was durable that it failed when the power was cut, if it was.
fn invalidate(seed: u64) -> (Place, Option<bool>) {
    let (blocks, expected) = &*CHAIN;
    let mut rng = Rng::new(seed);
    let mut timed = under_way(seed, &mut rng);
    let id = choose(&mut timed, &mut rng);
    let chain = &mut timed.chain;
    let place = place(chain, id);
    let node = chain.index.node(id);
    let (hash, below) = (node.hash, node.height - 1);
    chain.invalidate_block(&hash).expect("it can be left");
    if rng.chance(500) {
        return (place, Some(cut(timed, &mut rng, &hash, below)));
    }
    run(&mut timed);
    assert_eq!(timed.chain.tip_point().height, below, "seed {seed}: {place:?}");
    timed.executor.disarm();
    assert_eq!(timed.chain.utxo_stats().expect("no fault"), expected[below as usize]);
    timed.executor.arm();
    timed.chain.reconsider_block(&hash).expect("it is known");
    // Some were refused; the others are known.
    timed.give_all(blocks);
    run(&mut timed);
    assert_eq!(timed.chain.tip_point().height as usize, blocks.len(), "seed {seed}: {place:?}");
    timed.executor.disarm();
    let stats = timed.chain.utxo_stats().expect("no fault");
    assert_eq!(Some(&stats), expected.last(), "seed {seed}: {place:?}");
    (place, None)
}

/// Cuts the power at some time; whether the word was durable. `below` is the height below the failed block.
fn cut(mut timed: Timed, rng: &mut Rng, hash: &BlockHash, below: u32) -> bool {
    for _ in 0..rng.below(400) {
        timed.go_on();
    }
    let durable = timed.chain.durability.is_settled();
    let survival = match rng.below(2) {
        0 => Survival::Nothing,
        _ => Survival::Part(rng.next_u64()),
    };
    let chain = timed.cut(survival);
    let id = chain.index.tree().find(hash);
    let failed = id.is_some_and(|id| chain.index.node(id).failed);
    assert!(failed || !durable, "{hash}");
    let stats = settled(chain);
    assert_eq!(stats, CHAIN.1[stats.tip.height as usize], "{hash}");
    assert!(!failed || stats.tip.height <= below, "{hash}");
    durable
}

#[test]
fn a_block_is_invalidated_wherever_it_is() {
    let mut seen = std::collections::BTreeMap::new();
    let (mut durable, mut lost) = (0, 0);
    for seed in 0..120 {
        let (place, cut) = invalidate(seed);
        *seen.entry(place).or_insert(0) += 1;
        durable += u32::from(cut == Some(true));
        lost += u32::from(cut == Some(false));
    }
    eprintln!("{seen:?}, cut after the commit {durable}, before it {lost}");
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(durable > 10 && lost > 3, "{durable} {lost}");
}
