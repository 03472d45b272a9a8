//! Chains that change under the download, and chains besides the best one.

use super::super::PeerTraits;
use super::MB;
use super::simulation::{Conduct, HONEST, Simulation};
use super::tree::{GENESIS, Tree, hash_of};
use crate::index::is_ancestor;
use crate::{HeaderId, HeaderIndex, PeerId};

const SIZE: u64 = 500_000;

fn tell_all(simulation: &mut Simulation, best: HeaderId) {
    for peer in simulation.peers.keys() {
        simulation.downloads.set_best_known(*peer, best);
    }
}

fn four(tree: Tree) -> Simulation {
    let mut simulation = Simulation::new(tree);
    for n in 1..5 {
        simulation.add(Conduct::Honest, MB, 0.05 * f64::from(n));
    }
    simulation
}

/// Whether anything was ever asked for that lies on the chain of `id`, from `height` on.
fn asked_on(simulation: &Simulation, id: HeaderId, height: u32) -> bool {
    simulation.asked.iter().any(|(_, asked)| {
        simulation.tree.get(*asked).height >= height && is_ancestor(&simulation.tree, *asked, id)
    })
}

#[test]
fn headers_that_come_in_while_blocks_do_extend_the_window() {
    let mut simulation = four(Tree::new());
    let mut best = GENESIS;
    for _ in 0..10 {
        best = simulation.tree.grow(best, 50, SIZE);
        tell_all(&mut simulation, best);
        simulation.run_for(3.0);
    }
    simulation.run(100.0);
    assert!(simulation.overdue.is_empty());
    assert_eq!(simulation.requests, 500);
}

/// The best header moves to another branch inside the window, below it, and back.
#[test]
fn the_best_header_may_move_to_another_branch() {
    for fork in [0, 20, 100, 180, 199] {
        let mut tree = Tree::new();
        let first = tree.grow(GENESIS, 200, SIZE);
        let mut simulation = four(tree);
        simulation.run_for(12.0);
        let tip = simulation.tree.get(simulation.tree.tip()).height;
        assert!((60..140).contains(&tip), "{tip}");
        let fork_id = simulation.tree.ancestor(first, fork).unwrap();
        let second = simulation.tree.grow(fork_id, 220 - fork, SIZE);
        tell_all(&mut simulation, second);
        simulation.run_for(5.0);
        assert!(asked_on(&simulation, second, fork + 1) || fork > 150);
        simulation.run(200.0);
        assert_eq!(simulation.tree.tip(), second);
        let third = simulation.tree.grow(first, 30, SIZE);
        tell_all(&mut simulation, third);
        simulation.run(200.0);
        assert_eq!(simulation.tree.tip(), third);
        assert!(simulation.overdue.is_empty(), "fork at {fork}: {:?}", simulation.overdue);
    }
}

/// Nothing of it is connected before all of it is here: no end of the window may come before.
#[test]
fn a_branch_may_need_more_blocks_than_the_window_has() {
    const DEPTH: u32 = 1_700;
    let mut tree = Tree::new();
    let fork = tree.grow(GENESIS, 10, SIZE);
    let ours = tree.grow(fork, DEPTH, SIZE);
    tree.store_chain(ours);
    let mut simulation = four(tree);
    assert_eq!(simulation.tree.tip(), ours);
    let second = simulation.tree.grow(fork, DEPTH + 1, SIZE);
    tell_all(&mut simulation, second);
    simulation.run(1_000.0);
    assert!(3 * simulation.downloads.window() < DEPTH as usize);
    assert_eq!(simulation.tree.tip(), second);
    assert_eq!(simulation.requests, u64::from(DEPTH) + 1);
    assert!(simulation.overdue.is_empty(), "{:?}", simulation.overdue);
}

/// A peer that left a branch does not serve it any more: nobody holds that against it.
#[test]
fn requests_of_a_branch_that_was_given_up_are_forgotten() {
    let mut tree = Tree::new();
    let first = tree.grow(GENESIS, 100, SIZE);
    let mut simulation = Simulation::new(tree);
    let peer = simulation.add(Conduct::Stalls, MB, 0.1);
    simulation.step();
    assert!(simulation.downloads.in_flight(peer) > 0);
    let second = simulation.tree.grow(GENESIS, 101, SIZE);
    tell_all(&mut simulation, second);
    let other = simulation.add_with(Conduct::Honest, MB, 0.1, HONEST, second);
    simulation.run_for(1.0);
    assert!(asked_on(&simulation, first, 1) && asked_on(&simulation, second, 1));
    // What it withholds of the new branch is another matter.
    let of_first =
        |one: &(PeerId, HeaderId)| one.0 == peer && is_ancestor(&simulation.tree, one.1, first);
    let stale: Vec<HeaderId> =
        simulation.asked.iter().filter(|one| of_first(one)).map(|one| one.1).collect();
    simulation.peers.get_mut(&peer).unwrap().conduct = Conduct::Honest;
    simulation.peers.get_mut(&peer).unwrap().forget(&stale);
    simulation.run(100.0);
    assert!(simulation.downloads.peers.contains_key(&peer) && other != peer);
    simulation.run_for(70.0);
    assert_eq!(simulation.downloads.in_flight(peer), 0);
    assert!(simulation.overdue.is_empty(), "{:?}", simulation.overdue);
}

/// A block turns out invalid when it is connected: the download goes on with the next best chain.
#[test]
fn an_invalid_chain_is_left() {
    let mut tree = Tree::new();
    let fork = tree.grow(GENESIS, 50, SIZE);
    let bad = tree.grow(fork, 1, SIZE);
    let best = tree.grow(bad, 100, SIZE);
    let good = tree.grow(fork, 60, SIZE);
    let mut simulation = four(tree);
    simulation.add_with(Conduct::Honest, MB, 0.1, HONEST, good);
    for peer in 1..5 {
        simulation.downloads.set_best_known(PeerId(peer), best);
    }
    while !simulation.tree.node(bad).stored {
        simulation.step();
    }
    simulation.tree.fail(bad);
    simulation.asked.clear();
    simulation.run(100.0);
    assert_eq!(simulation.tree.tip(), good);
    assert!(!asked_on(&simulation, best, 51), "nothing on top of an invalid block is asked for");
    assert!(simulation.overdue.is_empty());
}

/// Headers of a better chain, but nobody has its blocks: what is better than ours is fetched.
#[test]
fn a_heavier_side_branch_of_one_peer_is_fetched() {
    let mut tree = Tree::new();
    let fork = tree.grow(GENESIS, 30, SIZE);
    tree.store_chain(fork);
    let ours = tree.grow(fork, 10, SIZE);
    let side = tree.grow(fork, 20, SIZE);
    let _best = tree.grow(fork, 40, SIZE);
    tree.store_chain(ours);
    let mut simulation = Simulation::new(tree);
    simulation.add_with(Conduct::Honest, MB, 0.1, HONEST, ours);
    simulation.add_with(Conduct::Honest, MB, 0.1, HONEST, side);
    simulation.run_for(60.0);
    for height in 31..=50 {
        let id = simulation.tree.ancestor(side, height).unwrap();
        assert!(simulation.tree.node(id).stored, "height {height}");
    }
    assert_eq!(simulation.requests, 20);
    assert!(simulation.overdue.is_empty());
}

/// The best chain comes first; a side branch only when nothing of it is left to ask for.
#[test]
fn side_branches_wait_for_the_best_chain() {
    let mut tree = Tree::new();
    let fork = tree.grow(GENESIS, 100, SIZE);
    let side = tree.grow(fork, 10, SIZE);
    let best = tree.grow(fork, 100, SIZE);
    let mut simulation = Simulation::new(tree);
    simulation.add_with(Conduct::Honest, 2.0 * MB, 0.1, HONEST, best);
    simulation.add_with(Conduct::Honest, MB, 0.1, HONEST, side);
    while simulation.tree.get(simulation.tree.tip()).height < 60 {
        simulation.step();
        assert!(!asked_on(&simulation, side, 101));
    }
    simulation.run(100.0);
    assert_eq!(simulation.tree.tip(), best);
    // Once ours has more work it is not fetched at all, or was while the other peer was busy.
    assert!(simulation.overdue.is_empty());
}

/// Headers alone, of however many chains, are no reason not to fetch the one whose blocks there are.
#[test]
fn peers_that_withhold_the_blocks_of_their_chains_do_not_hold_up_another_chain() {
    let mut tree = Tree::new();
    let ours = tree.grow(GENESIS, 30, SIZE);
    tree.store_chain(ours);
    let withheld: Vec<HeaderId> = (0..20).map(|_| tree.grow(ours, 2, SIZE)).collect();
    let honest = tree.grow(ours, 2, SIZE);
    let mut simulation = Simulation::new(tree);
    for side in withheld {
        simulation.add_with(Conduct::Stalls, MB, 0.1, HONEST, side);
    }
    simulation.run_for(1.0);
    simulation.add_with(Conduct::Honest, MB, 0.1, HONEST, honest);
    simulation.run_for(3.0);
    assert!(simulation.tree.node(honest).stored);
}

#[test]
fn chains_with_less_work_than_ours_or_than_the_minimum_are_not_fetched() {
    let mut tree = Tree::new();
    let ours = tree.grow(GENESIS, 50, SIZE);
    let fork = tree.ancestor(ours, 40).unwrap();
    let less = tree.grow(fork, 9, SIZE);
    let equal = tree.grow(fork, 10, SIZE);
    tree.store_chain(ours);
    let mut simulation = Simulation::new(tree.clone());
    simulation.add_with(Conduct::Honest, MB, 0.1, HONEST, less);
    simulation.run_for(10.0);
    assert_eq!(simulation.requests, 0);
    // As in Core: it may be needed when ours turns out invalid.
    simulation.add_with(Conduct::Honest, MB, 0.1, HONEST, equal);
    simulation.run_for(20.0);
    assert_eq!(simulation.requests, 10);

    let mut tree = Tree::new();
    let best = tree.grow(GENESIS, 50, SIZE);
    for (minimum, requests) in [(51u32, 50), (52, 0)] {
        let mut simulation = Simulation::new(tree.clone());
        simulation.downloads.minimum_work = godwit_primitives::Work::from(minimum);
        simulation.add_with(Conduct::Honest, MB, 0.1, HONEST, best);
        simulation.run_for(60.0);
        assert_eq!(simulation.requests, requests, "{minimum}");
    }
}

#[test]
fn limited_peers_are_asked_for_recent_blocks_only() {
    let mut tree = Tree::new();
    let best = tree.grow(GENESIS, 400, 1_000);
    let mut simulation = Simulation::new(tree);
    let limited = PeerTraits { limited: true, ..HONEST };
    simulation.add_with(Conduct::Honest, MB, 0.1, limited, best);
    simulation.run_for(10.0);
    let heights: Vec<u32> =
        simulation.asked.iter().map(|(_, id)| simulation.tree.get(*id).height).collect();
    assert_eq!(heights.iter().min(), Some(&115), "285 below the best");
    assert_eq!(heights.len(), 286);
    simulation.add(Conduct::Honest, MB, 0.1);
    simulation.run(10.0);
}

#[test]
fn peers_without_witnesses_serve_what_is_before_segwit() {
    let mut tree = Tree::new();
    let best = tree.grow(GENESIS, 100, 1_000);
    let mut simulation = Simulation::new(tree);
    simulation.downloads.segwit_height = 60;
    let old = PeerTraits { witness: false, ..HONEST };
    simulation.add_with(Conduct::Honest, MB, 0.1, old, best);
    simulation.run_for(10.0);
    assert_eq!(simulation.tree.get(simulation.tree.tip()).height, 59);
    assert_eq!(simulation.requests, 59);
    assert!(simulation.downloads.overdue(simulation.now()).is_empty());
}

#[test]
fn peers_that_chose_us_serve_what_nobody_else_has_or_delivers() {
    let inbound = PeerTraits { preferred: false, ..HONEST };
    let build = || {
        let mut tree = Tree::new();
        let part = tree.grow(GENESIS, 50, SIZE);
        let best = tree.grow(part, 50, SIZE);
        (part, best, Simulation::new(tree))
    };
    let of_inbound = |simulation: &Simulation| {
        simulation.asked.iter().filter(|(peer, _)| *peer == PeerId(1)).count()
    };
    let (_, best, mut simulation) = build();
    simulation.add_with(Conduct::Honest, MB, 0.1, inbound, best);
    simulation.add(Conduct::Honest, MB, 0.1);
    simulation.run(100.0);
    assert_eq!(of_inbound(&simulation), 0);
    // What no preferred peer has.
    let (part, best, mut simulation) = build();
    simulation.add_with(Conduct::Honest, MB, 0.1, inbound, best);
    simulation.add_with(Conduct::Honest, MB, 0.1, HONEST, part);
    simulation.run(100.0);
    assert_eq!(of_inbound(&simulation), 50);
    // What no preferred peer delivers.
    let (_, best, mut simulation) = build();
    simulation.add_with(Conduct::Honest, MB, 0.1, inbound, best);
    simulation.add(Conduct::Stalls, MB, 0.1);
    simulation.run(200.0);
    // No preferred peer at all.
    let (_, best, mut simulation) = build();
    simulation.add_with(Conduct::Honest, MB, 0.1, inbound, best);
    simulation.run(100.0);
}

/// Blocks that came by another way are not asked for.
#[test]
fn blocks_that_are_stored_already_are_passed_over() {
    let mut tree = Tree::new();
    let best = tree.grow(GENESIS, 100, SIZE);
    for height in (1..100).step_by(3) {
        tree.nodes[height].stored = true;
    }
    let mut simulation = four(tree);
    simulation.step();
    for height in 60..90 {
        simulation.tree.nodes[height].stored = true;
    }
    simulation.run(60.0);
    assert_eq!(simulation.tree.tip(), best);
    assert!(simulation.requests < 60);
    assert!(simulation.asked.iter().all(|(_, id)| id.0 % 3 != 1 || id.0 == 100));
    assert_eq!(hash_of(best), simulation.tree.get(best).hash);
}
