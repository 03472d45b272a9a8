//! Which blocks a peer gets of which nothing is known, beside peers that have delivered.

use std::time::Duration;

use godwit_primitives::Work;
use godwit_primitives::network::{Network, Params};

use super::super::assign::MANY_REFUSALS;
use super::super::{Downloads, Receipt};
use super::MB;
use super::simulation::{Conduct, HONEST, Simulation};
use super::tree::{GENESIS, Tree, hash_of};
use crate::{HeaderId, HeaderIndex, Now, PeerId};

const PROVEN: PeerId = PeerId(1);
const SLOWER: PeerId = PeerId(2);

fn at(seconds: u64) -> Now {
    Now { monotonic: Duration::from_secs(seconds), unix: 0 }
}

/// Two peers have delivered what they were asked for first: one within a turn of a busy node, the other
/// within two. And how many seconds have passed.
fn two_are_proven(blocks: u32) -> (Tree, Downloads, u64) {
    const TURN: u64 = 9;
    let mut tree = Tree::new();
    let best = tree.grow(GENESIS, blocks, 1_000);
    let mut downloads = Downloads::new(&Params::new(Network::Regtest), Work::ZERO);
    for peer in [PROVEN, SLOWER] {
        downloads.add_peer(peer, HONEST, at(0));
        downloads.set_best_known(peer, best);
    }
    let first = downloads.schedule(at(0), &tree, 100_000_000);
    let mut now = 0;
    for peer in [PROVEN, SLOWER] {
        now += TURN;
        for (_, id, hash) in first.iter().filter(|(asked, ..)| *asked == peer) {
            downloads.bytes_received(peer, at(now), 1_000);
            downloads.received(peer, *hash, 1_000, at(now));
            downloads.judged(*hash, true);
            tree.nodes[id.0 as usize].stored = true;
        }
    }
    tree.connect();
    (tree, downloads, now)
}

/// To a busy node all answers are late. A peer whose answers are worthless, and who is back within each of
/// its turns, is a new one each time.
#[test]
fn who_comes_back_again_and_again_does_not_get_the_block_that_all_wait_for() {
    let (tree, mut downloads, now) = two_are_proven(60);
    let next = HeaderId(tree.tip.0 + 1);
    let newcomer = PeerId(3);
    downloads.add_peer(newcomer, HONEST, at(now));
    downloads.set_best_known(newcomer, tree.best_header());
    let requests = downloads.schedule(at(now), &tree, 100_000_000);
    let asked = requests.iter().find(|(_, id, _)| *id == next).map(|(peer, ..)| *peer);
    assert_eq!(asked, Some(PROVEN), "{requests:?}");
}

/// The only proven peer that has the last block is slower than most. Hosts that send a forgery of it are let
/// go and come back as new peers, of which as much is expected as of most.
#[test]
fn hosts_that_come_back_with_forgeries_get_the_last_block_a_few_times_at_most() {
    let (mut tree, mut downloads, mut now) = two_are_proven(4);
    assert_eq!(tree.tip, HeaderId(4), "all have come");
    let last = tree.grow(tree.tip, 1, 1_000);
    downloads.set_best_known(SLOWER, last);
    let hosts = 3..100;
    let tried = hosts.map(PeerId).take_while(|host| {
        now += 8;
        downloads.add_peer(*host, HONEST, at(now));
        downloads.set_best_known(*host, last);
        let requests = downloads.schedule(at(now), &tree, 100_000_000);
        let [(asked, _, hash)] = requests[..] else { panic!("{requests:?}") };
        if asked == *host {
            downloads.bytes_received(asked, at(now), 1_000);
            assert_eq!(downloads.received(asked, hash, 1_000, at(now)), Receipt::Requested);
            downloads.judged(hash, false);
            downloads.remove_peer(asked, at(now));
        }
        asked == *host
    });
    let tried = tried.count();
    assert_eq!(tried, MANY_REFUSALS as usize);
    assert!(downloads.is_requested(SLOWER, &hash_of(last)));
}

/// Near the tip, soon after a start: some have delivered a block, and have the next one; of the others
/// nothing is known. The longer those are silent, the slower all appear to be that were measured.
#[test]
fn the_only_ones_that_have_delivered_cannot_withhold_the_next_block() {
    for (size, silent) in [(300, 1), (1_500_000, 1), (300, 2), (1_500_000, 2)] {
        let mut tree = Tree::new();
        tree.grow(GENESIS, silent, size);
        let mut simulation = Simulation::new(tree);
        let proven: Vec<PeerId> =
            (0..silent).map(|_| simulation.add(Conduct::DiesAfter(1), MB, 0.1)).collect();
        simulation.run(20.0);
        let delivered = |id: &PeerId| simulation.peers[id].delivered == size;
        assert!(proven.iter().all(delivered), "{simulation:?}");
        let best = simulation.tree.grow(simulation.tree.tip(), 1, size);
        proven.iter().for_each(|id| simulation.downloads.set_best_known(*id, best));
        simulation.step();
        for _ in 0..4 {
            simulation.add(Conduct::Honest, MB, 0.1);
        }
        let seconds = simulation.run(30.0);
        assert!(seconds < 20.0, "{seconds} s for {size} bytes withheld by {silent}");
    }
}

/// One block is missing, as after a start near the tip. Who is asked for it begins to answer, and by that is
/// all that is known of anybody; what is expected of the others must not follow from it.
#[test]
fn the_first_peer_that_is_ever_asked_cannot_withhold_the_block() {
    use Conduct::{BreaksOff, Dribbles};
    for size in [20_000, 1_500_000] {
        for (bad, count) in [
            (BreaksOff(1), 1),
            (BreaksOff(10_000), 1),
            (BreaksOff(size - 1), 1),
            (Dribbles, 1),
            (BreaksOff(1_000), 3),
            (Dribbles, 3),
        ] {
            let mut tree = Tree::new();
            tree.grow(GENESIS, 1, size);
            let mut simulation = Simulation::new(tree);
            for _ in 0..count {
                simulation.add(bad, MB, 0.1);
            }
            for _ in 0..4 {
                simulation.add(Conduct::Honest, MB, 0.1);
            }
            let seconds = simulation.run(600.0);
            let most = 35.0 * count as f64;
            assert!(seconds < most, "{seconds} s for {size} bytes, {bad:?} by {count}");
        }
    }
}

/// A line that takes two minutes for the block takes no longer because others could be asked.
#[test]
fn what_a_slow_line_brings_first_is_asked_of_one_peer() {
    for (blocks, size) in [(1, MB as u64), (3, 300_000)] {
        let mut tree = Tree::new();
        tree.grow(GENESIS, blocks, size);
        let mut simulation = Simulation::new(tree);
        simulation.link = 9_000.0;
        for _ in 0..8 {
            simulation.add(Conduct::Honest, MB, 0.1);
        }
        let seconds = simulation.run(200.0);
        assert_eq!(simulation.requests, u64::from(blocks), "{seconds} s");
    }
}
