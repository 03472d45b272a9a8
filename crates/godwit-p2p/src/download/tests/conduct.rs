//! Peers with rates, answer times and bad manners: what they cost, and who is let go.

use proptest::prelude::*;

use super::super::overdue::OverdueReason;
use super::MB;
use super::simulation::{Conduct, HONEST, Simulation};
use super::tree::{GENESIS, Tree, hash_of};
use crate::{HeaderIndex, PeerId};

fn chain(blocks: u32, size: u64) -> Simulation {
    let mut tree = Tree::new();
    tree.grow(GENESIS, blocks, size);
    Simulation::new(tree)
}

/// Eight peers of 2 MB/s with answer times of 20 to 160 ms; the first ones behave as told.
fn eight(blocks: u32, size: u64, bad: &[Conduct]) -> Simulation {
    let mut simulation = chain(blocks, size);
    for n in 0..8 {
        let conduct = bad.get(n).copied().unwrap_or(Conduct::Honest);
        simulation.add(conduct, 2.0 * MB, 0.02 * (n + 1) as f64);
    }
    simulation
}

/// Seconds, and as a multiple of what the bytes take at full rate.
fn report(name: &str, simulation: &Simulation, seconds: f64, ideal: f64) -> f64 {
    println!(
        "{name}: {seconds:.2} s, {:.3} of ideal; {} requests, {:.1} MB twice, let go: {:?}",
        seconds / ideal,
        simulation.requests,
        simulation.duplicates as f64 / MB,
        simulation.overdue,
    );
    seconds / ideal
}

#[test]
fn the_rates_of_all_peers_add_up() {
    for (blocks, size) in [(20_000, 20_000), (1_600, 250_000), (300, 1_600_000)] {
        let mut simulation = eight(blocks, size, &[]);
        let seconds = simulation.run(100.0);
        let ideal = f64::from(blocks) * size as f64 / (16.0 * MB);
        assert!(report(&format!("{size} bytes"), &simulation, seconds, ideal) < 1.1);
        assert!(simulation.overdue.is_empty());
        assert_eq!(simulation.requests, u64::from(blocks));
    }
}

/// 300 bytes each: what limits is the round trip, 90 ms on average.
#[test]
fn early_blocks_do_not_wait_for_a_round_trip_each() {
    let mut simulation = eight(20_000, 300, &[]);
    let seconds = simulation.run(10.0);
    report("300 bytes", &simulation, seconds, 20_000.0 / 11_000.0);
    // Sixteen for each peer: 18 seconds.
    assert!(seconds < 2.5, "{seconds}");
}

#[test]
fn shares_follow_rates() {
    let mut simulation = chain(600, MB as u64);
    let peers: Vec<PeerId> = (0..6)
        .map(|n| simulation.add(Conduct::Honest, 8.0 * MB / f64::from(1 << n), 0.1))
        .collect();
    let rates = 8.0 * (2.0 - 1.0 / 32.0);
    let seconds = simulation.run(100.0);
    assert!(report("8:4:2:1:½:¼", &simulation, seconds, 600.0 / rates) < 1.1);
    assert!(simulation.overdue.is_empty());
    for id in peers {
        let peer = &simulation.peers[&id];
        let share = peer.delivered as f64 / (600.0 * MB) * (rates * MB) / peer.rate;
        println!("  {} B/s: {share:.3} of its share", peer.rate);
        assert!((0.8..1.2).contains(&share), "{share}");
    }
}

#[test]
fn one_peer_is_enough() {
    for latency in [0.001, 0.1, 1.0, 4.0] {
        let mut simulation = chain(200, MB as u64);
        simulation.add(Conduct::Honest, 5.0 * MB, latency);
        let seconds = simulation.run(200.0);
        let ideal = 40.0 + 2.0 * latency;
        assert!(report(&format!("one, {latency} s"), &simulation, seconds, ideal) < 1.3);
        assert!(simulation.overdue.is_empty());
        assert_eq!(simulation.duplicates, 0);
    }
}

/// One of eight that holds everything up costs its own bandwidth and little more.
#[test]
fn b4_one_bad_peer_of_eight_costs_at_most_a_fifth() {
    use Conduct::*;
    for (blocks, size) in [(40_000, 20_000), (3_200, 250_000), (500, 1_600_000)] {
        let honest = eight(blocks, size, &[]).run(200.0);
        for bad in [Stalls, Dribbles, Withholds(7), Withholds(3), Junk, NotFound, DiesAfter(20)] {
            let mut simulation = eight(blocks, size, &[bad]);
            let seconds = simulation.run(200.0);
            let name = format!("{size} bytes, {bad:?}, against honest");
            let ratio = report(&name, &simulation, seconds, honest);
            assert!(ratio <= 1.2, "{name}: {ratio}");
            assert!(simulation.overdue.iter().all(|overdue| overdue.peer == PeerId(1)), "{name}");
            let let_go = matches!(bad, Stalls | Dribbles | Withholds(_) | DiesAfter(_));
            assert_eq!(simulation.overdue.len(), usize::from(let_go), "{name}");
        }
    }
}

/// Where the line is what limits, the others take over what half of the peers do not deliver.
#[test]
fn b4_four_bad_peers_of_eight_on_one_line_cost_at_most_a_fifth() {
    use Conduct::*;
    let run = |bad: &[Conduct]| {
        let mut simulation = eight(600, MB as u64, bad);
        simulation.link = 7.0 * MB;
        (simulation.run(300.0), simulation)
    };
    let (honest, _) = run(&[]);
    let (seconds, simulation) = run(&[Stalls, Dribbles, Junk, Withholds(5)]);
    assert!(report("four bad on one line, against honest", &simulation, seconds, honest) <= 1.2);
    assert!(simulation.overdue.iter().all(|overdue| overdue.peer <= PeerId(4)));
}

#[test]
fn b4_seven_bad_peers_of_eight_do_not_stop_the_download() {
    use Conduct::*;
    let bad = [Stalls, Dribbles, Withholds(2), Junk, NotFound, DiesAfter(3), Stalls];
    let mut simulation = eight(400, MB as u64, &bad);
    let seconds = simulation.run(1_000.0);
    // Three of the eight deliver something.
    assert!(report("seven bad", &simulation, seconds, 200.0) < 1.2);
    assert!(simulation.overdue.iter().all(|overdue| overdue.peer != PeerId(8)));
}

/// Bytes that nobody asked for do not stand for those that are withheld: blocks that are old, one
/// that is dribbled, and one that has no end.
#[test]
fn b4_a_peer_that_sends_other_blocks_than_it_was_asked_for_costs_little() {
    let honest = eight(800, MB as u64, &[]).run(200.0);
    for message in [300, 250_000, 4_000_000, u64::MAX] {
        for (after, rate) in [(0, 2.0), (5, 2.0), (20, 2.0), (5, 0.5), (5, 0.2)] {
            let mut simulation = eight(800, MB as u64, &[Conduct::Floods { after, message }]);
            simulation.peers.get_mut(&PeerId(1)).unwrap().rate = rate * MB;
            let seconds = simulation.run(1_000.0);
            let name =
                format!("floods with {message} after {after} at {rate} MB/s, against honest");
            assert!(report(&name, &simulation, seconds, honest) <= 1.2, "{name}");
            simulation.run_for(200.0);
            let let_go: Vec<PeerId> = simulation.overdue.iter().map(|one| one.peer).collect();
            assert_eq!(let_go, [PeerId(1)], "{name}");
        }
    }
}

/// At the tip nothing else shows that it withholds the block.
#[test]
fn b4_at_the_tip_a_block_is_not_held_up_by_other_blocks() {
    for message in [300, 250_000, 4_000_000, u64::MAX] {
        let mut simulation = eight(100, MB as u64, &[]);
        simulation.run(100.0);
        let tip = simulation.tree.tip();
        let best = simulation.tree.add(tip, MB as u64, 1);
        for peer in simulation.peers.keys() {
            simulation.downloads.set_best_known(*peer, best);
        }
        simulation.step();
        let asked = simulation.asked.iter().find(|(_, id)| *id == best).unwrap().0;
        let after = 0;
        simulation.peers.get_mut(&asked).unwrap().conduct = Conduct::Floods { after, message };
        let seconds = simulation.run(100.0);
        assert!(seconds < 10.0, "{seconds} s of {message}");
        simulation.run_for(200.0);
        let let_go: Vec<PeerId> = simulation.overdue.iter().map(|one| one.peer).collect();
        assert_eq!(let_go, [asked], "{message}");
    }
}

/// A peer that is still short of blocks whose headers it announced has them later.
#[test]
fn b4_a_peer_that_had_no_blocks_is_asked_again() {
    let mut simulation = chain(50, MB as u64);
    for _ in 0..2 {
        simulation.add(Conduct::NotFound, MB, 0.1);
    }
    simulation.run_for(30.0);
    for peer in simulation.peers.values_mut() {
        peer.conduct = Conduct::Honest;
    }
    simulation.run(400.0);
    assert!(simulation.overdue.is_empty());
}

/// As a hostile peer that connects again at once.
#[test]
fn b4_a_staller_that_comes_back_costs_little() {
    let mut simulation = eight(400, MB as u64, &[Conduct::Stalls]);
    simulation.reconnect = true;
    let seconds = simulation.run(1_000.0);
    assert!(report("staller comes back", &simulation, seconds, 400.0 / 14.0) < 1.2);
}

#[test]
fn b4_with_slow_peers_only_it_goes_on() {
    let mut simulation = chain(40, MB as u64);
    for n in 0..8 {
        simulation.add(Conduct::Honest, 4_000.0 + 500.0 * f64::from(n), 1.0);
    }
    let seconds = simulation.run(20_000.0);
    assert!(report("all slow", &simulation, seconds, 40.0 * MB / 46_000.0) < 1.4);
    assert!(simulation.overdue.is_empty());
}

/// 256 kbit/s for eight peers.
#[test]
fn b5_a_slow_line_punishes_nobody() {
    for size in [100_000, 1_000_000, 2_000_000] {
        let mut simulation = eight(60, size, &[]);
        simulation.link = 32_000.0;
        let seconds = simulation.run(10_000.0);
        let ideal = 60.0 * size as f64 / 32_000.0;
        assert!(report(&format!("32 kB/s, {size}"), &simulation, seconds, ideal) < 1.2);
        assert!(simulation.overdue.is_empty());
    }
}

/// The same line when one peer after the other has it to itself, ten seconds each.
#[test]
fn b5_a_slow_line_that_is_shared_unfairly_punishes_nobody() {
    let mut simulation = eight(60, MB as u64, &[]);
    simulation.link = 32_000.0;
    let mut turn = 0;
    while simulation.tree.tip() != simulation.tree.best_header() {
        turn += 1;
        assert!(turn < 1_000, "stuck");
        for (id, peer) in &mut simulation.peers {
            peer.rate = if id.0 == turn % 8 + 1 { 2.0 * MB } else { 0.0 };
        }
        simulation.run_for(10.0);
    }
    let ideal = 60.0 * MB / 32_000.0;
    let seconds = f64::from(turn as u32) * 10.0;
    assert!(report("32 kB/s in turns", &simulation, seconds, ideal) < 1.5);
    assert!(simulation.overdue.is_empty());
}

#[test]
fn b5_on_a_slow_line_a_staller_is_told_from_the_others() {
    let mut simulation = eight(150, 250_000, &[Conduct::Stalls]);
    simulation.link = 32_000.0;
    let seconds = simulation.run(10_000.0);
    let ideal = 150.0 * 250_000.0 / 32_000.0;
    assert!(report("32 kB/s, one stalls", &simulation, seconds, ideal) < 1.2);
    assert_eq!(simulation.overdue.iter().map(|one| one.peer).collect::<Vec<_>>(), [PeerId(1)]);
}

/// The driver does nothing for a minute now and then; answers wait in the sockets.
#[test]
fn b5_a_driver_that_hangs_punishes_nobody() {
    let mut simulation = eight(400, MB as u64, &[]);
    for _ in 0..10 {
        simulation.run_for(1.5);
        simulation.time += 90.0;
    }
    simulation.run(100.0);
    assert!(simulation.overdue.is_empty());
}

/// Nothing comes from anybody for a while, or the chain takes nothing.
#[test]
fn b5_an_outage_punishes_nobody_and_a_pause_stops_the_clock() {
    let mut simulation = eight(400, MB as u64, &[]);
    simulation.run_for(5.0);
    simulation.link = 0.0;
    simulation.run_for(500.0);
    assert!(simulation.overdue.is_empty());
    simulation.link = f64::INFINITY;
    simulation.run_for(3.0);
    let requests = simulation.requests;
    simulation.capacity = 0;
    simulation.link = 0.0;
    simulation.run_for(2_000.0);
    assert_eq!(simulation.requests, requests);
    (simulation.capacity, simulation.link) = (64_000_000, f64::INFINITY);
    simulation.run(100.0);
    assert!(simulation.overdue.is_empty());
}

/// Silence of all for ten minutes is no slow line.
#[test]
fn b4_peers_that_all_fall_silent_are_let_go_in_the_end() {
    let mut simulation = eight(400, MB as u64, &[Conduct::DiesAfter(3); 8]);
    simulation.run_for(590.0);
    assert!(simulation.overdue.is_empty());
    simulation.run_for(30.0);
    assert_eq!(simulation.overdue.len(), 8);
    assert!(simulation.overdue.iter().all(|one| one.why == OverdueReason::Silent));
}

#[test]
fn b4_at_the_tip_one_peer_is_asked_and_another_after_a_short_time() {
    let mut simulation = eight(100, MB as u64, &[]);
    simulation.run(100.0);
    let before = simulation.requests;
    simulation.peers.get_mut(&PeerId(1)).unwrap().conduct = Conduct::Stalls;
    for round in 0..20 {
        let tip = simulation.tree.tip();
        let best = simulation.tree.add(tip, MB as u64, 1);
        let peers: Vec<PeerId> = simulation.peers.keys().copied().collect();
        for peer in peers {
            simulation.downloads.set_best_known(peer, best);
        }
        simulation.step();
        assert!(simulation.requests - before <= 2 * round + 1, "asked of one");
        let seconds = simulation.run(10.0);
        assert!(seconds < 5.0, "{seconds}");
        simulation.run_for(100.0);
    }
    // It is let go when it has withheld a block for half a minute.
    assert_eq!(simulation.overdue.iter().map(|one| one.peer).collect::<Vec<_>>(), [PeerId(1)]);
    assert_eq!(simulation.overdue[0].why, OverdueReason::Stalled);
}

/// Room is what arrives and was not judged: never more is in flight, but for copies.
#[test]
fn room_limits_what_is_in_flight() {
    let mut simulation = eight(300, MB as u64, &[]);
    simulation.capacity = 10_000_000;
    simulation.judging_rate = 5.0 * MB;
    let seconds = simulation.run(200.0);
    report("slow chain", &simulation, seconds, 60.0);
    assert!(simulation.most_in_flight <= 10, "{}", simulation.most_in_flight);
    assert!(simulation.overdue.is_empty());
    assert!(seconds < 66.0, "the chain never waits: {seconds}");
    // Less than a block: one at a time.
    let mut simulation = eight(30, MB as u64, &[]);
    simulation.capacity = 1;
    simulation.run(200.0);
    assert_eq!(simulation.most_in_flight, 1);
}

fn conduct() -> impl Strategy<Value = Conduct> {
    prop_oneof![
        4 => Just(Conduct::Honest),
        1 => Just(Conduct::Stalls),
        1 => Just(Conduct::Dribbles),
        1 => (1u32..9).prop_map(Conduct::Withholds),
        1 => Just(Conduct::Junk),
        1 => Just(Conduct::NotFound),
        1 => (0u32..30).prop_map(Conduct::DiesAfter),
        1 => (0u32..9, prop_oneof![Just(300u64), Just(4_000_000), Just(u64::MAX)])
            .prop_map(|(after, message)| Conduct::Floods { after, message }),
    ]
}

/// Conduct, rate, answer time in hundredths of a second, and kind.
type Guest = (Conduct, usize, u32, usize);

/// With one honest peer every block arrives. That none is asked twice of the same peer without
/// need, and none that is stored, the simulation checks.
fn check_that_no_block_is_lost(
    mut simulation: Simulation,
    guests: Vec<Guest>,
    leaves: f64,
    fork: Option<(u32, u32, u64)>,
) {
    simulation.add(Conduct::Honest, 0.5 * MB, 0.1);
    let mut ids = Vec::new();
    for (conduct, rate, latency, kind) in guests {
        let rate = [0.02, 0.2, 1.0, 5.0][rate] * MB;
        let mut traits = HONEST;
        (traits.preferred, traits.limited) = (kind != 0, kind == 1);
        let best = simulation.tree.best_header();
        ids.push(simulation.add_with(conduct, rate, f64::from(latency) / 100.0, traits, best));
    }
    simulation.run_for(leaves);
    if let Some((height, blocks, size)) = fork {
        let fork = simulation.tree.ancestor(simulation.tree.best_header(), height).unwrap();
        let best = simulation.tree.grow(fork, blocks, size);
        for peer in simulation.peers.keys() {
            simulation.downloads.set_best_known(*peer, best);
        }
    }
    for guest in ids.into_iter().step_by(3) {
        if simulation.peers.contains_key(&guest) {
            simulation.remove(guest);
        }
    }
    simulation.run(5_000.0);
    let best = simulation.tree.best_header();
    for height in 1..=simulation.tree.get(best).height {
        let id = simulation.tree.ancestor(best, height).unwrap();
        assert!(simulation.tree.node(id).stored, "{}", hash_of(id));
    }
    let overdue = &simulation.overdue;
    assert!(overdue.iter().all(|one| one.peer != PeerId(1)), "{overdue:?}");
}

/// An honest copy is dropped while a bad one is with the chain: it has to be asked for again.
#[test]
fn a_copy_that_was_dropped_for_bad_bytes_is_asked_for_again() {
    let guests = vec![
        (Conduct::Honest, 0, 1, 1),
        (Conduct::Junk, 3, 218, 1),
        (Conduct::Honest, 0, 1, 0),
        (Conduct::Honest, 0, 219, 0),
        (Conduct::Honest, 3, 59, 1),
    ];
    let mut simulation = chain(19, 245_455);
    simulation.capacity = 5_000_000;
    check_that_no_block_is_lost(simulation, guests, 15.171_802_007_524_974, None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_block_is_lost(
        guests in proptest::collection::vec((conduct(), 0usize..4, 1u32..300, 0usize..9), 0..9),
        blocks in 1u32..200, size in 200u64..400_000, room in 1u64..20_000_000, leaves in 0.1f64..20.0,
        reorganises in any::<bool>(),
    ) {
        let mut simulation = chain(blocks, size);
        simulation.capacity = room;
        let fork = reorganises.then_some((blocks / 2, blocks, size));
        check_that_no_block_is_lost(simulation, guests, leaves, fork);
    }
}
