//! Which blocks a peer gets of which nothing is known, beside peers that have delivered.

use std::time::Duration;

use godwit_primitives::Work;
use godwit_primitives::network::{Network, Params};

use super::super::Downloads;
use super::MB;
use super::simulation::{Conduct, HONEST, Simulation};
use super::tree::{GENESIS, Tree};
use crate::{HeaderId, HeaderIndex, Now, PeerId};

const PROVEN: PeerId = PeerId(1);
const SLOWER: PeerId = PeerId(2);

/// To a busy node all answers are late. A peer whose answers are worthless, and who is back within each of
/// its turns, is a new one each time.
#[test]
fn who_comes_back_again_and_again_does_not_get_the_block_that_all_wait_for() {
    const TURN: u64 = 9;
    let mut tree = Tree::new();
    let best = tree.grow(GENESIS, 60, 1_000);
    let mut downloads = Downloads::new(&Params::new(Network::Regtest), Work::ZERO);
    let at = |seconds| Now { monotonic: Duration::from_secs(seconds), unix: 0 };
    for peer in [PROVEN, SLOWER] {
        downloads.add_peer(peer, HONEST, at(0));
        downloads.set_best_known(peer, best);
    }
    let first = downloads.schedule(at(0), &tree, 100_000_000);
    // One answers within a turn, the other within two.
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
    let next = HeaderId(tree.tip.0 + 1);
    let newcomer = PeerId(3);
    downloads.add_peer(newcomer, HONEST, at(now));
    downloads.set_best_known(newcomer, best);
    let requests = downloads.schedule(at(now), &tree, 100_000_000);
    let asked = requests.iter().find(|(_, id, _)| *id == next).map(|(peer, ..)| *peer);
    assert_eq!(asked, Some(PROVEN), "{requests:?}");
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
