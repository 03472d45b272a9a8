//! Connections to different autonomous systems.

use super::*;
use crate::asmap::tests::map_of;
use crate::slots::tests::eviction::{KEY, nobody};

/// 60.0 to 60.3 are of one system, 60.4 and 60.5 of another one.
fn two_systems() -> NetGroups {
    NetGroups::by_system(map_of(&[("::ffff:60.0.0.0", 110, 1), ("::ffff:60.4.0.0", 111, 2)]))
}

fn world() -> World {
    World { book: AddressBook::with_groups([4; 32], two_systems()), ..World::new(config()) }
}

#[test]
fn lasting_peers_are_of_different_systems() {
    let mut world = world();
    world.know_groups(6);
    world.run(60.0);
    let of = |link: &Link| link.address.and_then(|to| two_systems().system_of(to.host));
    let systems: BTreeSet<_> = world.links.iter().map(of).collect();
    assert_eq!((world.links.len(), systems.len()), (2, 2), "there are no more systems");
    // Others are grouped by prefix.
    world.know(&[ipv4(61, 1, 1, 1), ipv4(61, 1, 1, 2), ipv4(61, 2, 1, 1)], SEED_SERVICES);
    world.run(60.0);
    assert_eq!(world.links.len(), 4);
}

#[test]
fn an_anchor_of_a_system_that_is_connected_is_not_called() {
    let mut world = world();
    let entry = |address| AddressEntry { time: 1, services: SEED_SERVICES, address };
    let [first, near, other] = [ipv4(60, 0, 1, 1), ipv4(60, 3, 1, 1), ipv4(60, 4, 1, 1)];
    world.slots.call_first(&Anchors::new([entry(first), entry(near)]));
    world.run(10.0);
    assert_eq!(world.links.len(), 1);
    world.slots.call_first(&Anchors::new([entry(other)]));
    world.run(10.0);
    let called: BTreeSet<_> = world.links.iter().filter_map(|link| link.address).collect();
    assert_eq!(called, BTreeSet::from([first, other]));
}

#[test]
fn of_many_inbound_peers_one_of_the_largest_system_goes() {
    let candidates: Vec<EvictionCandidate> = (0..200)
        .map(|n| EvictionCandidate {
            address: match n {
                100..150 => ipv4(60, (n % 4) as u8, (n / 4) as u8, 1),
                _ => ipv4(70, n as u8, 1, 1),
            },
            ..nobody(n)
        })
        .collect();
    let evicted = |by: &NetGroups| select_to_evict(&candidates, KEY, by).map(|peer| peer.0);
    assert!(evicted(&two_systems()).is_some_and(|peer| (100..150).contains(&peer)));
    // Each in a prefix of its own, they are of no large group.
    let spread: Vec<EvictionCandidate> = (0..200).map(nobody).collect();
    let by_prefix = select_to_evict(&spread, KEY, &NetGroups::default());
    assert!(by_prefix.is_some_and(|peer| peer.0 >= 150), "the youngest");
    let one = NetGroups::by_system(map_of(&[("::ffff:60.96.0.0", 107, 1)]));
    let by_system = select_to_evict(&spread, KEY, &one);
    assert!(by_system.is_some_and(|peer| (96..128).contains(&peer.0)), "{by_system:?}");
}
