//! Blocks that the chain had and has lost.

use std::cell::Cell;
use std::time::Duration;

use godwit_primitives::network::{Network, Params};
use godwit_primitives::{BlockHash, Work};

use super::super::lost::{LostBlocks, ask_for};
use super::super::overdue::{Overdue, OverdueReason};
use super::super::{Downloads, PeerTraits, Receipt};
use super::simulation::HONEST;
use super::tree::{Counting, GENESIS, Tree, hash_of};
use crate::{HeaderId, HeaderIndex, Now, PeerId};

const A: PeerId = PeerId(1);
const B: PeerId = PeerId(2);
const LIMITED: PeerId = PeerId(3);
const BEHIND: PeerId = PeerId(4);
const NEW: PeerId = PeerId(5);

const ROOM: u64 = 100_000_000;

fn at(milliseconds: u64) -> Now {
    Now { monotonic: Duration::from_millis(milliseconds), unix: 0 }
}

fn block(n: u32) -> BlockHash {
    hash_of(HeaderId(n))
}

/// A chain of 1,000 blocks that is complete, two peers that have it, one that has the last of it, and one
/// that has the first of it.
fn tree_and_downloads() -> (Tree, Downloads) {
    let mut tree = Tree::new();
    let best = tree.grow(GENESIS, 1_000, 1_000);
    tree.nodes.iter_mut().for_each(|node| node.stored = true);
    tree.tip = best;
    let mut downloads = Downloads::new(&Params::new(Network::Regtest), Work::ZERO);
    for (peer, known) in [(A, best), (B, best), (LIMITED, best), (BEHIND, HeaderId(50))] {
        let traits = PeerTraits { limited: peer == LIMITED, ..HONEST };
        downloads.add_peer(peer, traits, at(0));
        downloads.set_best_known(peer, known);
    }
    (tree, downloads)
}

fn lost_blocks(numbers: &[u32]) -> LostBlocks {
    let mut lost = LostBlocks::default();
    numbers.iter().for_each(|n| lost.add(block(*n)));
    lost
}

#[test]
fn c5_lost_blocks_are_asked_of_peers_that_have_them_and_few_at_once() {
    let (tree, mut downloads) = tree_and_downloads();
    assert_eq!(downloads.schedule(at(0), &tree, ROOM), [], "the chain is complete");
    let numbers = [10, 20, 30, 40, 500, 600];
    let mut lost = lost_blocks(&numbers);
    let mut asked = Vec::new();
    for time in 1..1_000 {
        let requests = lost.schedule(&mut downloads, at(time), &tree);
        let in_flight = |peer: PeerId| downloads.in_flight(peer);
        let flying: usize = [A, B, LIMITED, BEHIND].into_iter().map(in_flight).sum();
        assert!(flying <= 4, "{flying} in flight");
        if flying == 0 {
            break;
        }
        for (peer, hash) in requests {
            assert!(
                peer != LIMITED
                    && (peer != BEHIND || numbers[..4].iter().any(|n| block(*n) == hash))
            );
            asked.push((peer, hash));
        }
        // One arrives.
        let (peer, hash) = asked.remove(0);
        assert_eq!(downloads.received(peer, hash, 1_000, at(time)), Receipt::Requested);
        downloads.judged(hash, true);
        lost.remove(&hash);
    }
    assert_eq!(asked, []);
    assert_eq!(lost.schedule(&mut downloads, at(2_000), &tree), [], "all have come");
}

#[test]
fn c5_a_lost_block_is_asked_of_one_peer_after_the_other() {
    let (tree, mut downloads) = tree_and_downloads();
    let mut lost = lost_blocks(&[700]);
    let (mut time, mut peers) = (1, Vec::new());
    for _ in 0..6 {
        // Until whoever failed is asked again.
        let request = loop {
            match lost.schedule(&mut downloads, at(time), &tree)[..] {
                [one] => break one,
                _ => time += 1_000,
            }
        };
        assert_eq!(request.1, block(700));
        assert_eq!(lost.schedule(&mut downloads, at(time), &tree), [], "it is in flight");
        peers.push(request.0);
        downloads.not_found(request.0, request.1, at(time + 1));
    }
    assert_eq!(peers, [A, B, A, B, A, B]);
    // The one that recent blocks can be asked of has them.
    let mut recent = lost_blocks(&[990]);
    for peer in [A, B] {
        downloads.remove_peer(peer, at(time));
    }
    assert_eq!(recent.schedule(&mut downloads, at(time + 2), &tree), [(LIMITED, block(990))]);
}

/// As of a tip that is to be left: all peers are on the better branch.
#[test]
fn c5_a_lost_block_that_no_peer_is_known_to_have_is_asked_of_those_that_keep_all() {
    let (mut tree, mut downloads) = tree_and_downloads();
    let side = tree.grow(HeaderId(995), 2, 998);
    tree.nodes.iter_mut().for_each(|node| node.stored = true);
    let hash = hash_of(side);
    let mut lost = LostBlocks::default();
    lost.add(hash);
    let (mut time, mut peers) = (1, Vec::new());
    for _ in 0..4 {
        let request = loop {
            match lost.schedule(&mut downloads, at(time), &tree)[..] {
                [one] => break one,
                _ => time += 1_000,
            }
        };
        assert_eq!(request.1, hash);
        peers.push(request.0);
        downloads.not_found(request.0, request.1, at(time + 1));
    }
    assert_eq!(peers, [A, B, A, B]);
    // Whoever is known to have it comes first.
    let (_, mut downloads) = tree_and_downloads();
    downloads.set_best_known(B, side);
    lost = LostBlocks::default();
    lost.add(hash);
    assert_eq!(lost.schedule(&mut downloads, at(1), &tree), [(B, hash)]);
}

/// Blocks of a branch that was left long ago, which no peer sends any more, whatever their hashes.
#[test]
fn c5_lost_blocks_that_nobody_sends_keep_no_other_waiting() {
    let (mut tree, mut downloads) = tree_and_downloads();
    let side = tree.grow(HeaderId(900), 8, 950);
    tree.nodes.iter_mut().for_each(|node| node.stored = true);
    let mut lost = LostBlocks::default();
    (0..8).for_each(|n| lost.add(hash_of(HeaderId(side.0 - n))));
    assert_eq!(
        lost.schedule(&mut downloads, at(0), &tree).len(),
        4,
        "all that are asked for at once"
    );
    // Those with the first and the last hash of the active chain.
    let needed =
        [(1..800).map(block).min(), (1..800).map(block).max()].map(|hash| hash.expect("many"));
    needed.iter().for_each(|hash| lost.add(*hash));
    let mut asked = Vec::new();
    for second in 1..=600 {
        let requests = lost.schedule(&mut downloads, at(second * 1_000), &tree);
        asked.extend(requests.into_iter().map(|(_, hash)| (second, hash)));
    }
    let first = |hash: &BlockHash| asked.iter().find(|(_, asked)| asked == hash).map(|(at, _)| *at);
    assert_eq!(needed.each_ref().map(first), [Some(120); 2], "when the first four were given up");
    // And of the others each has its turn.
    for n in 0..8 {
        let hash = hash_of(HeaderId(side.0 - n));
        assert!(asked.iter().any(|(_, asked)| *asked == hash), "{n}");
    }
}

#[test]
fn c5_a_peer_that_keeps_a_lost_block_waiting_is_not_the_only_one_asked() {
    let (tree, mut downloads) = tree_and_downloads();
    let mut lost = lost_blocks(&[700]);
    let mut asked = Vec::new();
    for second in 0..600 {
        for request in lost.schedule(&mut downloads, at(second * 1_000), &tree) {
            asked.push((second, request));
        }
    }
    assert_eq!(asked, [(0, (A, block(700))), (120, (B, block(700)))]);
    // The second one is faster.
    assert_eq!(downloads.received(B, block(700), 1_000, at(600_000)), Receipt::Requested);
    for second in 600..900 {
        assert_eq!(lost.schedule(&mut downloads, at(second * 1_000), &tree), [], "it is judged");
    }
    downloads.judged(block(700), true);
    assert_eq!(downloads.received(A, block(700), 1_000, at(900_000)), Receipt::Duplicate);
}

/// Who is overdue when B delivers a block at 61 s, and nothing has come from anybody before.
fn overdue_at_61_s(tree: &Tree, mut downloads: Downloads) -> Vec<Overdue> {
    // Everything is sorted out again.
    downloads.add_peer(NEW, HONEST, at(1_000));
    for second in 1..=60 {
        downloads.schedule(at(second * 1_000), tree, ROOM);
        assert_eq!(downloads.overdue(at(second * 1_000)), [], "at {second} s");
    }
    assert!(ask_for(&mut downloads, B, HeaderId(5), block(5), tree, at(60_500)));
    downloads.bytes_received(B, at(61_000), 1_000_000);
    assert_eq!(downloads.received(B, block(5), 1_000_000, at(61_000)), Receipt::Requested);
    downloads.judged(block(5), true);
    downloads.overdue(at(61_000))
}

#[test]
fn c5_a_peer_that_need_not_have_a_lost_block_is_not_blamed_for_silence_about_it() {
    let (mut tree, mut downloads) = tree_and_downloads();
    let side = tree.grow(HeaderId(995), 2, 998);
    tree.nodes.iter_mut().for_each(|node| node.stored = true);
    let mut lost = LostBlocks::default();
    lost.add(hash_of(side));
    assert_eq!(lost.schedule(&mut downloads, at(0), &tree), [(A, hash_of(side))]);
    assert_eq!(overdue_at_61_s(&tree, downloads), []);
    // The operator's wish is no other reason.
    let (_, mut downloads) = tree_and_downloads();
    assert!(ask_for(&mut downloads, A, HeaderId(7), block(7), &tree, at(0)));
    assert_eq!(overdue_at_61_s(&tree, downloads), []);
    // Of its own chain it has all.
    let (_, mut downloads) = tree_and_downloads();
    assert_eq!(lost_blocks(&[7]).schedule(&mut downloads, at(0), &tree), [(A, block(7))]);
    let silent = Overdue { peer: A, why: OverdueReason::Silent };
    assert_eq!(overdue_at_61_s(&tree, downloads), [silent]);
}

/// Nor for as long about the next block, which it is asked for in the 60th second.
#[test]
fn silence_about_what_the_operator_wants_does_not_count_for_the_next_block() {
    let (mut tree, mut downloads) = tree_and_downloads();
    assert!(ask_for(&mut downloads, A, HeaderId(7), block(7), &tree, at(0)));
    for second in 1..60 {
        assert_eq!(downloads.schedule(at(second * 1_000), &tree, ROOM), []);
    }
    let next = tree.grow(HeaderId(1_000), 1, 1_000);
    downloads.set_best_known(A, next);
    let requests = downloads.schedule(at(59_500), &tree, ROOM);
    assert_eq!(requests, [(A, next, hash_of(next))]);
    assert!(ask_for(&mut downloads, B, HeaderId(5), block(5), &tree, at(60_000)));
    downloads.bytes_received(B, at(61_000), 1_000_000);
    assert_eq!(downloads.received(B, block(5), 1_000_000, at(61_000)), Receipt::Requested);
    assert_eq!(downloads.overdue(at(61_000)), []);
}

/// It is the only peer, and says so of blocks of a branch that it has left.
#[test]
fn a_peer_that_has_not_what_it_need_not_have_is_asked_for_the_next_block_at_once() {
    let (mut tree, mut downloads) = tree_and_downloads();
    for other in [B, LIMITED, BEHIND] {
        downloads.remove_peer(other, at(0));
    }
    let last = tree.grow(HeaderId(900), 12, 1_000);
    tree.nodes.iter_mut().for_each(|node| node.stored = true);
    for id in (0..12).map(|below| HeaderId(last.0 - below)) {
        assert!(ask_for(&mut downloads, A, id, hash_of(id), &tree, at(1)));
        downloads.not_found(A, hash_of(id), at(2));
    }
    let next = tree.grow(HeaderId(1_000), 1, 1_000);
    downloads.set_best_known(A, next);
    assert_eq!(downloads.schedule(at(3), &tree, ROOM), [(A, next, hash_of(next))]);
}

/// A full block over Tor.
#[test]
fn what_the_operator_wants_is_taken_as_long_as_it_arrives() {
    let (mut tree, mut downloads) = tree_and_downloads();
    // They were pruned.
    tree.nodes[7..9].iter_mut().for_each(|node| node.stored = false);
    assert!(ask_for(&mut downloads, A, HeaderId(7), block(7), &tree, at(0)));
    for second in 1..=100 {
        downloads.bytes_received(A, at(second * 1_000), 40_000);
        downloads.schedule(at(second * 1_000), &tree, ROOM);
        assert_eq!(downloads.overdue(at(second * 1_000)), []);
    }
    assert_eq!(downloads.received(A, block(7), 4_000_000, at(100_000)), Receipt::Requested);
    // One of which nothing comes is given up.
    downloads.judged(block(7), true);
    assert!(ask_for(&mut downloads, A, HeaderId(8), block(8), &tree, at(100_000)));
    for second in 101..220 {
        downloads.schedule(at(second * 1_000), &tree, ROOM);
        assert_eq!(downloads.in_flight(A), 1, "{second}");
    }
    downloads.schedule(at(220_000), &tree, ROOM);
    assert_eq!(downloads.in_flight(A), 0);
}

/// It may not have had it the first time, of which Core says nothing.
#[test]
fn what_the_operator_wants_again_is_asked_for_again() {
    let (mut tree, mut downloads) = tree_and_downloads();
    tree.nodes[7..9].iter_mut().for_each(|node| node.stored = false);
    let want = |downloads: &mut Downloads, id: u32, time| {
        ask_for(downloads, A, HeaderId(id), block(id), &tree, at(time))
    };
    assert!(want(&mut downloads, 7, 0));
    assert!(want(&mut downloads, 7, 60_000));
    assert_eq!(downloads.in_flight(A), 1);
    // What counts is the second time.
    downloads.schedule(at(170_000), &tree, ROOM);
    assert_eq!(downloads.in_flight(A), 1);
    assert_eq!(downloads.received(A, block(7), 1_000, at(171_000)), Receipt::Requested);
    downloads.judged(block(7), true);
    // What the node itself waits for is not.
    assert_eq!(lost_blocks(&[8]).schedule(&mut downloads, at(172_000), &tree), [(A, block(8))]);
    assert!(!want(&mut downloads, 8, 173_000));
}

/// As where the block files are gone, and the index was made again.
#[test]
fn c5_a_turn_costs_no_more_for_very_many_lost_blocks_and_one_line_is_said_of_them() {
    const BLOCKS: u32 = 100_000;
    let mut tree = Tree::new();
    tree.tip = tree.grow(GENESIS, BLOCKS, 1_000);
    let mut downloads = Downloads::new(&Params::new(Network::Regtest), Work::ZERO);
    let mut lost = lost_blocks(&(1..=BLOCKS).collect::<Vec<u32>>());
    let index = Counting { tree, calls: Cell::new(0) };
    let ask = |lost: &mut LostBlocks, downloads: &mut Downloads, time| {
        let requests = lost.schedule(downloads, at(time), &index);
        let calls = index.calls.take();
        assert!(calls < 1_000, "{calls} at {time}");
        requests
    };
    // While there are no peers.
    for second in 0..1_200 {
        assert_eq!(ask(&mut lost, &mut downloads, second * 1_000), []);
    }
    let mut same = lost_blocks(&(1..=BLOCKS).collect::<Vec<u32>>());
    let seconds = (0..1_200).map(Duration::from_secs);
    let said: Vec<String> = seconds.filter_map(|now| same.remind(&index, now)).collect();
    assert!(matches!(&said[..], [line] if line.contains("100000 blocks")), "{said:?}");
    // Each of those that come is asked for once.
    downloads.add_peer(A, HONEST, at(1_200_000));
    downloads.set_best_known(A, index.tip());
    for time in 1_200_000..1_201_000 {
        let requests = ask(&mut lost, &mut downloads, time);
        assert_eq!(requests.len(), 4);
        for (peer, hash) in requests {
            assert_eq!(downloads.received(peer, hash, 1_000, at(time)), Receipt::Requested);
            downloads.judged(hash, true);
            lost.remove(&hash);
        }
    }
}
