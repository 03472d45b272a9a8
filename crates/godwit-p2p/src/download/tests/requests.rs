//! Single requests, driven by hand.

use std::cell::Cell;
use std::time::Duration;

use godwit_primitives::network::{Network, Params};
use godwit_primitives::{BlockHash, Work};

use super::super::overdue::{OverdueReason, headers_received, set_headers_asked};
use super::super::{Downloads, PeerTraits, Receipt};
use super::simulation::HONEST;
use super::tree::{Counting, GENESIS, Tree, hash_of};
use crate::{HeaderId, HeaderIndex, Now, PeerId};

const ROOM: u64 = 100_000_000;
const A: PeerId = PeerId(1);
const B: PeerId = PeerId(2);

fn at(milliseconds: u64) -> Now {
    Now { monotonic: Duration::from_millis(milliseconds), unix: 0 }
}

/// A chain of `blocks` and peers that have all of it.
fn tree_and_downloads(blocks: u32, peers: &[PeerId]) -> (Tree, Downloads) {
    let mut tree = Tree::new();
    let best = tree.grow(GENESIS, blocks, 1_000);
    let mut downloads = Downloads::new(&Params::new(Network::Regtest), Work::ZERO);
    for peer in peers {
        downloads.add_peer(*peer, HONEST, at(0));
        downloads.set_best_known(*peer, best);
    }
    (tree, downloads)
}

fn block(n: u32) -> BlockHash {
    hash_of(HeaderId(n))
}

fn asked(downloads: &mut Downloads, tree: &Tree, time: u64) -> Vec<(PeerId, u32)> {
    let requests = downloads.schedule(at(time), tree, ROOM);
    requests.into_iter().map(|(peer, id, _)| (peer, id.0)).collect()
}

#[test]
fn blocks_are_asked_for_in_height_order_two_of_a_new_peer() {
    let (tree, mut downloads) = tree_and_downloads(10, &[A, B]);
    let requests = asked(&mut downloads, &tree, 0);
    assert_eq!(requests, [(A, 1), (B, 2), (A, 3), (B, 4)]);
    assert_eq!(asked(&mut downloads, &tree, 1), []);
    assert_eq!((downloads.in_flight(A), downloads.in_flight(B)), (2, 2));
    assert!(downloads.is_requested(A, &block(1)) && !downloads.is_requested(B, &block(1)));
    assert_eq!(downloads.in_flight(PeerId(9)), 0);
    assert!(!downloads.is_requested(PeerId(9), &block(1)));
    assert!(!downloads.is_requested(A, &block(10)));
}

#[test]
fn what_arrives_is_told_apart() {
    let (mut tree, mut downloads) = tree_and_downloads(4, &[A, B]);
    asked(&mut downloads, &tree, 0);
    assert_eq!(downloads.received(B, block(1), 9, at(10)), Receipt::Unrequested);
    assert_eq!(downloads.received(A, block(99), 9, at(10)), Receipt::Unrequested);
    assert_eq!(downloads.received(PeerId(9), block(1), 9, at(10)), Receipt::Unrequested);
    assert!(downloads.is_requested(A, &block(1)), "others do not end a request");
    // A is silent, B is asked too.
    for n in [2, 4] {
        downloads.bytes_received(B, at(20), 1_000);
        assert_eq!(downloads.received(B, block(n), 1_000, at(20)), Receipt::Requested);
    }
    let late = asked(&mut downloads, &tree, 1_990);
    let later = asked(&mut downloads, &tree, 3_900);
    assert_eq!([late, later].concat(), [(B, 1), (B, 3)]);
    assert_eq!(downloads.received(A, block(1), 1_000, at(4_000)), Receipt::Requested);
    assert_eq!(downloads.received(B, block(1), 1_000, at(4_100)), Receipt::Duplicate);
    assert_eq!(downloads.received(A, block(1), 1_000, at(4_200)), Receipt::Unrequested);
    // Stored, and the copy comes after that.
    assert_eq!(downloads.received(B, block(3), 1_000, at(4_300)), Receipt::Requested);
    tree.nodes[3].stored = true;
    downloads.judged(block(3), true);
    assert_eq!(downloads.received(A, block(3), 1_000, at(4_400)), Receipt::Duplicate);
    assert_eq!((downloads.in_flight(A), downloads.in_flight(B)), (0, 0));
    for n in [1, 2, 4] {
        tree.nodes[n].stored = true;
        downloads.judged(block(n as u32), true);
    }
    assert_eq!(downloads.blocks.len(), 0, "nothing is kept of what is done");
    assert_eq!(downloads.pending, 0);
    assert_eq!(downloads.next_wakeup(at(4_500)), None);
}

/// A peer that was asked for forty blocks at once, of which another one has delivered the last.
fn asked_for_forty() -> Downloads {
    let (mut tree, mut downloads) = tree_and_downloads(42, &[A]);
    assert_eq!(asked(&mut downloads, &tree, 0), [(A, 1), (A, 2)]);
    for n in 1..=2 {
        downloads.bytes_received(A, at(10), 1_000);
        assert_eq!(downloads.received(A, block(n), 1_000, at(10)), Receipt::Requested);
        tree.nodes[n as usize].stored = true;
        downloads.judged(block(n), true);
    }
    tree.connect();
    assert_eq!(asked(&mut downloads, &tree, 10).len(), 40);
    downloads.judged(block(42), true);
    downloads
}

/// When and why A is let go, of which bytes arrive all the time, and at what else happens each second.
fn let_go(
    mut downloads: Downloads,
    mut happens: impl FnMut(&mut Downloads, u64),
) -> Option<(u64, OverdueReason)> {
    (1..=130).find_map(|second| {
        downloads.bytes_received(A, at(second * 1_000), 4_000);
        happens(&mut downloads, second);
        downloads.overdue(at(second * 1_000)).pop().map(|overdue| (second, overdue.why))
    })
}

#[test]
fn b5_what_is_far_back_in_a_queue_is_not_withheld_while_what_is_before_it_comes() {
    let mut downloads = asked_for_forty();
    for second in 1..=40 * 25 {
        let now = at(second * 1_000);
        downloads.bytes_received(A, now, 4_000);
        if second % 25 == 0 {
            let next = block(second as u32 / 25 + 2);
            assert_ne!(downloads.received(A, next, 100_000, now), Receipt::Unrequested);
        }
        assert_eq!(downloads.overdue(now), [], "second {second}");
    }
    assert_eq!(downloads.in_flight(A), 0);
}

#[test]
fn b4_bytes_that_become_no_block_do_not_make_up_for_one_that_is_withheld() {
    let when = let_go(asked_for_forty(), |_, _| ());
    assert_eq!(when, Some((121, OverdueReason::Stalled)));
}

/// It has what it announced, and says of later blocks that it has not.
#[test]
fn b4_not_found_does_not_make_up_for_a_block_that_is_withheld() {
    let when = let_go(asked_for_forty(), |downloads, second| {
        if second % 25 == 0 {
            downloads.not_found(A, block(41 - second as u32 / 25), at(second * 1_000));
        }
    });
    assert_eq!(when, Some((121, OverdueReason::Stalled)));
}

#[test]
fn a_removed_peers_blocks_are_asked_of_others() {
    let (tree, mut downloads) = tree_and_downloads(3, &[A]);
    assert_eq!(asked(&mut downloads, &tree, 0), [(A, 1), (A, 2)]);
    downloads.remove_peer(A, at(10));
    downloads.remove_peer(A, at(10));
    assert_eq!(downloads.in_flight(A), 0);
    assert!(downloads.blocks.is_empty() && downloads.pending == 0);
    assert_eq!(asked(&mut downloads, &tree, 20), []);
    downloads.add_peer(B, HONEST, at(30));
    assert_eq!(asked(&mut downloads, &tree, 30), [], "nothing is known of it");
    downloads.set_best_known(B, HeaderId(3));
    assert_eq!(asked(&mut downloads, &tree, 40), [(B, 1), (B, 2)]);
}

/// B20 and CVE-2012-2459: bad bytes do not make a bad block.
#[test]
fn b20_bad_bytes_are_asked_of_others_before_the_same_peer() {
    let (mut tree, mut downloads) = tree_and_downloads(1, &[A]);
    assert_eq!(asked(&mut downloads, &tree, 0), [(A, 1)]);
    assert_eq!(downloads.received(A, block(1), 1_000, at(100)), Receipt::Requested);
    assert_eq!(asked(&mut downloads, &tree, 200), [], "being judged");
    downloads.judged(block(1), false);
    assert_eq!(asked(&mut downloads, &tree, 449), [], "it rests");
    assert_eq!(asked(&mut downloads, &tree, 450), [(A, 1)], "nobody else has it");
    assert_eq!(downloads.received(A, block(1), 1_000, at(500)), Receipt::Requested);
    downloads.judged(block(1), false);
    downloads.add_peer(B, HONEST, at(20_000));
    downloads.set_best_known(B, HeaderId(1));
    assert_eq!(asked(&mut downloads, &tree, 20_001), [(B, 1)]);
    assert_eq!(downloads.received(B, block(1), 1_000, at(20_100)), Receipt::Requested);
    tree.nodes[1].stored = true;
    downloads.judged(block(1), true);
    assert!(downloads.blocks.is_empty());
}

/// While one copy is judged and found bad, another is on its way: it is still waited for.
#[test]
fn a_copy_on_its_way_replaces_bad_bytes() {
    let (tree, mut downloads) = tree_and_downloads(1, &[A, B]);
    assert_eq!(asked(&mut downloads, &tree, 0), [(A, 1)]);
    let mut late = Vec::new();
    for time in (500..2_500).step_by(500) {
        assert_eq!(asked(&mut downloads, &tree, time), []);
    }
    for time in (2_500..20_000).step_by(500) {
        late.extend(asked(&mut downloads, &tree, time));
    }
    assert_eq!(late, [(B, 1)]);
    downloads.received(B, block(1), 1_000, at(20_000));
    downloads.judged(block(1), false);
    assert!(downloads.is_requested(A, &block(1)));
    assert_eq!(downloads.received(A, block(1), 1_000, at(20_100)), Receipt::Requested);
    assert!(downloads.overdue(at(20_200)).is_empty());
    // What B delivered was no good: A withheld nothing.
    downloads.judged(block(1), true);
    assert!(downloads.blocks.is_empty() && downloads.pending == 0);
}

#[test]
fn the_first_block_is_asked_of_who_has_missed_it_longest() {
    let (tree, mut downloads) = tree_and_downloads(1, &[A, B]);
    let mut order = Vec::new();
    for time in (0..20_000).step_by(50) {
        for (peer, n) in asked(&mut downloads, &tree, time) {
            assert!(downloads.next_wakeup(at(time)).is_some());
            downloads.not_found(peer, block(n), at(time));
            order.push(peer);
        }
    }
    assert_eq!(order[..6], [A, B, A, B, A, B]);
    assert!(order.len() < 16, "{order:?}");
}

#[test]
fn a_block_that_was_not_found_is_asked_for_again_after_a_rest() {
    let (mut tree, mut downloads) = tree_and_downloads(3, &[A]);
    assert_eq!(asked(&mut downloads, &tree, 0), [(A, 1), (A, 2)]);
    downloads.not_found(A, block(2), at(10));
    let mut again = Vec::new();
    for time in (10..70_000).step_by(50) {
        // Its first block stays on its way.
        downloads.bytes_received(A, at(time), 1);
        for (peer, n) in asked(&mut downloads, &tree, time) {
            again.push((n, time));
            if n == 3 {
                assert_eq!(downloads.received(peer, block(3), 9, at(time)), Receipt::Requested);
                tree.nodes[3].stored = true;
                downloads.judged(block(3), true);
            }
        }
    }
    assert_eq!(again, [(3, 260), (2, 60_010)]);
}

/// Who cannot be asked does not keep those who chose us from being asked.
#[test]
fn preferred_peers_that_cannot_be_asked_leave_room_for_others() {
    let inbound = PeerTraits { preferred: false, ..HONEST };
    let (tree, mut downloads) = tree_and_downloads(10, &[A]);
    downloads.add_peer(B, inbound, at(0));
    downloads.set_best_known(B, HeaderId(10));
    assert_eq!(asked(&mut downloads, &tree, 0), [(A, 1), (A, 2)], "a preferred peer is only busy");
    for n in [1, 2] {
        downloads.not_found(A, block(n), at(10));
    }
    assert_eq!(asked(&mut downloads, &tree, 20), [(B, 1), (B, 2)], "it rests");

    let (tree, mut downloads) = tree_and_downloads(400, &[]);
    downloads.add_peer(A, PeerTraits { limited: true, ..HONEST }, at(0));
    downloads.add_peer(B, inbound, at(0));
    for peer in [A, B] {
        downloads.set_best_known(peer, HeaderId(400));
    }
    let of_inbound = [(B, 1), (B, 2)];
    let requests = asked(&mut downloads, &tree, 0);
    assert!(of_inbound.iter().all(|one| requests.contains(one)), "{requests:?}");
}

#[test]
fn a_peer_that_has_not_what_it_announced_is_left_alone_for_a_while() {
    let (tree, mut downloads) = tree_and_downloads(100, &[A]);
    let mut requests = 0;
    let mut time = 0;
    while time < 60_000 {
        for (peer, n) in asked(&mut downloads, &tree, time) {
            requests += 1;
            downloads.not_found(peer, block(n), at(time));
            downloads.not_found(peer, block(n), at(time));
        }
        time = downloads.next_wakeup(at(time)).map_or(time + 1_000, |t| t.as_millis() as u64);
    }
    assert!(requests <= 18, "{requests} in a minute");
    // Nothing that it was not asked for is remembered.
    let before = downloads.blocks.len();
    for n in 0..1_000 {
        downloads.not_found(A, block(10_000 + n), at(time));
        downloads.not_found(B, block(n), at(time));
    }
    assert_eq!(downloads.blocks.len(), before);
    downloads.remove_peer(A, at(time));
    assert!(downloads.blocks.is_empty());
}

#[test]
fn zero_room_asks_for_nothing_and_a_byte_for_the_first_block() {
    let (tree, mut downloads) = tree_and_downloads(10, &[A, B]);
    assert!(downloads.schedule(at(0), &tree, 0).is_empty());
    let requests = downloads.schedule(at(1), &tree, 1);
    assert_eq!(requests, [(A, HeaderId(1), block(1))]);
    assert!(downloads.schedule(at(2), &tree, 1).is_empty());
}

/// A call costs what changed, at worst the window, and nothing that depends on the tree.
#[test]
fn a_call_costs_no_more_than_the_window() {
    for blocks in [10_000, 100_000] {
        let (tree, mut downloads) = tree_and_downloads(blocks, &[A, B]);
        let index = Counting { tree, calls: Cell::new(0) };
        let mut index = index;
        let mut requests = downloads.schedule(at(0), &index, ROOM);
        assert!(index.calls.take() < 3 * 4_096);
        for round in 1..3_000u32 {
            let mut arrived = Vec::new();
            for (peer, id, hash) in requests {
                let time = at(u64::from(round) * 10);
                downloads.bytes_received(peer, time, 300);
                assert_eq!(downloads.received(peer, hash, 300, time), Receipt::Requested);
                index.tree.nodes[id.0 as usize].stored = true;
                downloads.judged(hash, true);
                arrived.push(id);
            }
            index.tree.connect_some(arrived.len() as u32);
            requests = downloads.schedule(at(u64::from(round) * 10), &index, ROOM);
            // The first blocks tell how small they are, and the window grows to its full size.
            let changed = arrived.len() + requests.len();
            let calls = index.calls.take();
            assert!(calls < 60 + 8 * changed || round < 40, "{calls} for {changed} blocks");
            assert!(calls < 3 * 4_096);
            if index.tree.tip().0 == blocks {
                break;
            }
        }
        assert!(index.tree.get(index.tree.tip()).height > 9_000);
        assert!(downloads.blocks.len() < 600);
    }
}

/// The second at which A, which never answers, is let go, while B begins each answer after `wait` seconds.
fn silent_peer_is_let_go_after(wait: u64) -> u64 {
    let (mut tree, mut downloads) = tree_and_downloads(1_000, &[A, B]);
    let mut due = Vec::new();
    for second in 0..1_000 {
        let now = at(second * 1_000);
        let (answered, waiting) = due.into_iter().partition(|(_, then)| *then <= second);
        due = waiting;
        for (n, _) in answered {
            downloads.bytes_received(B, now, 1_000);
            downloads.received(B, block(n), 1_000, now);
            tree.nodes[n as usize].stored = true;
            downloads.judged(block(n), true);
        }
        if let [one] = downloads.overdue(now)[..] {
            assert_eq!(one.peer, A);
            return second;
        }
        let requests = asked(&mut downloads, &tree, second * 1_000);
        due.extend(
            requests.iter().filter(|(peer, _)| *peer == B).map(|(_, n)| (*n, second + wait)),
        );
    }
    panic!("nobody was let go");
}

/// As on a slow line that somebody else floods: its queue delays everybody's answers.
#[test]
fn b5_where_all_answers_are_late_silence_is_forgiven_longer() {
    let (quick, late) = (silent_peer_is_let_go_after(1), silent_peer_is_let_go_after(9));
    assert!(quick <= 61 && (70..=75).contains(&late), "{quick} {late}");
}

/// As on a line that somebody floods, where all answers wait in its queue, and a new block is announced.
#[test]
fn b5_that_another_one_is_asked_ends_no_peers_time() {
    let (mut tree, mut downloads) = tree_and_downloads(3, &[]);
    downloads.add_peer(B, HONEST, at(0));
    downloads.set_best_known(B, HeaderId(1));
    assert_eq!(asked(&mut downloads, &tree, 0), [(B, 1)]);
    downloads.bytes_received(B, at(500), 1_000);
    assert_eq!(downloads.received(B, block(1), 1_000, at(500)), Receipt::Requested);
    tree.nodes[1].stored = true;
    downloads.judged(block(1), true);
    downloads.add_peer(A, HONEST, at(1_000));
    downloads.set_best_known(A, HeaderId(2));
    let (mut requests, mut let_go) = (Vec::new(), Vec::new());
    for second in 1..=700 {
        if second == 100 {
            downloads.set_best_known(B, HeaderId(3));
        }
        for one in downloads.overdue(at(second * 1_000)) {
            let_go.push((one.peer, one.why, second));
        }
        let now = asked(&mut downloads, &tree, second * 1_000);
        requests.extend(now.into_iter().map(|(peer, n)| (peer, n, second)));
    }
    assert!(requests.starts_with(&[(A, 2, 1), (B, 3, 100)]), "{requests:?}");
    let silent = OverdueReason::Silent;
    assert_eq!(let_go, [(A, silent, 601), (B, silent, 700)], "nobody has delivered anything");
}

/// What another peer delivered at once, and what A does with the headers that it was asked for.
fn let_go_with_headers(asked_before: bool, mut sends: impl FnMut(u64) -> bool) -> Option<u64> {
    let (mut tree, mut downloads) = tree_and_downloads(2, &[A]);
    if asked_before {
        set_headers_asked(&mut downloads, A, Some(at(0).monotonic));
    }
    assert_eq!(asked(&mut downloads, &tree, 0), [(A, 1), (A, 2)]);
    set_headers_asked(&mut downloads, A, Some(at(0).monotonic));
    tree.nodes[1].stored = true;
    downloads.judged(block(1), true);
    (1..=400).find(|second| {
        if sends(*second) {
            headers_received(&mut downloads, A);
        }
        !downloads.overdue(at(second * 1_000)).is_empty()
    })
}

/// Seed 98059 of the simulated runs: 162 kB of headers are ahead of the first block, on a flooded line.
#[test]
fn b5_headers_that_were_asked_for_before_a_block_may_come_before_it() {
    assert_eq!(let_go_with_headers(true, |_| false), Some(30), "nothing comes");
    assert_eq!(let_go_with_headers(true, |second| second <= 50), Some(79));
    // Each a long time after the one before.
    assert_eq!(let_go_with_headers(true, |second| second <= 50 && second % 25 == 0), Some(79));
}

#[test]
fn b4_headers_excuse_no_block_that_was_asked_for_before_or_long_ago() {
    assert_eq!(let_go_with_headers(false, |_| true), Some(30));
    assert_eq!(let_go_with_headers(true, |_| true), Some(150), "they have no end");
}

/// A request for headers that follows the answer to one comes after the blocks.
#[test]
fn b4_headers_that_are_asked_for_next_excuse_nothing() {
    let (mut tree, mut downloads) = tree_and_downloads(1, &[A]);
    set_headers_asked(&mut downloads, A, Some(at(0).monotonic));
    assert_eq!(asked(&mut downloads, &tree, 0), [(A, 1)]);
    tree.nodes[1].stored = true;
    downloads.judged(block(1), true);
    let when = (1..=400).find(|second| {
        headers_received(&mut downloads, A);
        if second % 10 == 0 {
            set_headers_asked(&mut downloads, A, Some(at(second * 1_000).monotonic));
        }
        !downloads.overdue(at(second * 1_000)).is_empty()
    });
    assert_eq!(when, Some(39));
}

/// A peer that sends a block while it sends headers that it was asked for before does not answer in order.
#[test]
fn b4_headers_excuse_nothing_once_a_block_has_come_beside_them() {
    for first in [1, 2] {
        let (mut tree, mut downloads) = tree_and_downloads(2, &[A]);
        set_headers_asked(&mut downloads, A, Some(at(0).monotonic));
        assert_eq!(asked(&mut downloads, &tree, 0), [(A, 1), (A, 2)]);
        assert_eq!(downloads.received(A, block(first), 1_000, at(1_000)), Receipt::Requested);
        for n in [1, 2] {
            tree.nodes[n as usize].stored = true;
            downloads.judged(block(n), true);
        }
        let when = (2..=400).find(|second| {
            headers_received(&mut downloads, A);
            !downloads.overdue(at(second * 1_000)).is_empty()
        });
        assert_eq!(when, Some(31), "block {first} came first");
    }
}
