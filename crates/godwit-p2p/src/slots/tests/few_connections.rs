//! `-maxconnections` below what the kinds of connections come to.

use super::*;

/// A node with so many connections at most, which wants all that it may have: its tip is stale, and extra
/// peers and feelers are due. It knows anchors and seeds.
fn eager(max_automatic: usize) -> World {
    let max_full = MAX_OUTBOUND_FULL.min(max_automatic);
    let max_block_relay = MAX_OUTBOUND_BLOCK_RELAY.min(max_automatic - max_full);
    let limits = SlotsConfig { max_full, max_block_relay, max_automatic, ..with_seeds() };
    let mut world = World::new(SlotsConfig { seed_nodes: vec![name("a")], ..limits });
    world.know_groups(40);
    (world.stale_tip, world.synced) = (true, true);
    world
}

fn anchor() -> AddressEntry {
    AddressEntry { time: 1, services: SEED_SERVICES, address: ipv4(71, 1, 1, 1) }
}

/// With as many as Core's semaphore has permits, the smaller one of `m_max_automatic_outbound` and
/// `m_max_automatic_connections`.
#[test]
fn lasting_connections_are_no_more_than_allowed() {
    for (max, lasting) in [(0, 0), (1, 1), (2, 2), (8, 8), (9, 9), (10, 10), (11, 11), (125, 11)] {
        let mut world = eager(max);
        world.run(3600.0);
        assert_eq!(world.links.len(), lasting, "{max}");
    }
}

#[test]
fn feelers_need_a_slot_of_their_own() {
    let feelers = |max| {
        let mut world = eager(max);
        world.stale_tip = false;
        world.synced = false;
        let opened = kinds(&world.run(3600.0));
        opened.iter().filter(|kind| **kind == ConnectionKind::Feeler).count()
    };
    assert_eq!([0, 1, 8, 10].map(feelers), [0; 4]);
    assert!(feelers(11) > 10);
}

#[test]
fn with_no_connection_nobody_is_asked_and_added_nodes_stay() {
    let added = Target::Address(ipv4(70, 1, 1, 1));
    let mut world = eager(0);
    world.slots.call_first(&Anchors::new([anchor()]));
    world.slots.add_node(&added);
    assert!(world.tries(&name("b")));
    world.book = AddressBook::new([4; 32]);
    let opened = world.run(3600.0);
    assert_eq!(opened.len(), targets(&opened).len(), "no seeds");
    assert!(kinds(&opened).iter().all(|kind| *kind == ConnectionKind::Manual));
    assert_eq!(targets(&opened), [added]);
}

/// Core takes a permit for a seed node too (`ProcessAddrFetch`).
#[test]
fn a_seed_node_takes_a_slot_and_waits_for_none() {
    let with_empty_book = |max| {
        let mut world = eager(max);
        world.book = AddressBook::new([4; 32]);
        kinds(&world.run(0.5))
    };
    assert_eq!(with_empty_book(0), []);
    assert_eq!(with_empty_book(1), [ConnectionKind::AddrFetch]);
    // One full peer is too few not to ask, and takes the only slot.
    assert_eq!(kinds(&eager(1).run(100.0)), [ConnectionKind::OutboundFull]);
}

#[test]
fn a_seed_node_and_a_peer_are_not_called_at_once_where_there_is_one_slot() {
    let mut world = eager(1);
    world.slots.call_first(&Anchors::new([anchor()]));
    world.book = AddressBook::new([4; 32]);
    assert_eq!(kinds(&world.run(0.5)), [ConnectionKind::AddrFetch]);
    assert_eq!(kinds(&world.run(0.5)), [ConnectionKind::OutboundFull], "the seed node has ended");
}
