//! Opening connections; giving them up is in `eviction`.

mod by_system;
mod eviction;
mod few_connections;
mod single_tries;

use std::collections::BTreeSet;

use super::*;
use crate::bans::{Ban, Bans};
use crate::net_address::{AddressEntry, AddressNetwork, Host};
use crate::own_addresses::OwnAddressSource;
use crate::seeds::SEED_SERVICES;
use crate::{Services, Source};

const UNIX: i64 = 1_700_000_000;

fn at(seconds: f64) -> Now {
    let monotonic = Duration::from_secs_f64(seconds);
    Now { monotonic, unix: UNIX + seconds as i64 }
}

fn ipv4(a: u8, b: u8, c: u8, d: u8) -> NetAddress {
    NetAddress::new(Host::Ipv4([a, b, c, d]), 8333)
}

fn onion(n: u8) -> NetAddress {
    NetAddress::new(Host::OnionV3([n; 32]), 8333)
}

fn name(host: &str) -> Target {
    Target::Name { host: host.to_owned(), port: 8333 }
}

fn config() -> SlotsConfig {
    SlotsConfig {
        max_full: MAX_OUTBOUND_FULL,
        max_block_relay: MAX_OUTBOUND_BLOCK_RELAY,
        max_automatic: 125,
        connect_only: None,
        add_nodes: Vec::new(),
        seed_nodes: Vec::new(),
        dns_seeds: Vec::new(),
        fixed_seeds: false,
    }
}

/// A connection of the little world below.
#[derive(Clone)]
struct Link {
    kind: ConnectionKind,
    address: Option<NetAddress>,
    target: Target,
    ready: bool,
}

impl Link {
    fn peer(&self) -> SlotPeer<'_> {
        let Self { kind, address, target, ready } = self;
        SlotPeer { kind: *kind, address: *address, target: Some(target), ready: *ready }
    }
}

/// Slots, a book, and connections that stand as long as the test leaves them.
struct World {
    slots: Slots,
    book: AddressBook,
    links: Vec<Link>,
    reachable: Reachable,
    discouraged: Discouraged,
    bans: Bans,
    own: OwnAddresses,
    exhausted: Vec<Host>,
    stale_tip: bool,
    synced: bool,
    near_tip: bool,
    seconds: f64,
}

#[test]
fn anchors_are_called_first_and_once() {
    let entry = |address, services| AddressEntry { time: 1, services, address };
    let (first, second) = (ipv4(70, 1, 1, 1), ipv4(71, 1, 1, 1));
    let called_in = |reachable: Reachable, config: SlotsConfig, entries: &[AddressEntry]| {
        let anchors = Anchors::new(entries.iter().copied());
        let mut world = World::new(config);
        world.reachable = reachable;
        world.slots.call_first(&anchors);
        world.know_groups(40);
        let mut called = Vec::new();
        for (_, opening) in world.run(30.0) {
            if let Opening::Connect { target: Target::Address(address), kind, .. } = opening {
                called.push((address, kind));
            }
        }
        called
    };
    let called = |config: SlotsConfig, entries: &[AddressEntry]| {
        called_in(Reachable::CLEARNET, config, entries)
    };
    let both = [entry(first, SEED_SERVICES), entry(second, SEED_SERVICES)];
    let block_relay = ConnectionKind::BlockRelay;
    let all = called(config(), &both);
    assert_eq!(all[..2], [(first, block_relay), (second, block_relay)]);
    assert_eq!(all.len(), 10, "the other slots are filled from the book");
    assert!(all[2..].iter().all(|(_, kind)| *kind == ConnectionKind::OutboundFull));
    // Without slots for block-relay peers.
    let few = called(SlotsConfig { max_block_relay: 0, ..config() }, &both);
    assert_eq!(few[..2], [first, second].map(|anchor| (anchor, ConnectionKind::OutboundFull)));
    assert_eq!(few.len(), 8);
    // One that has not what we need, one in a network that is not wanted, two of one group.
    let useless = entry(first, Services::NETWORK);
    assert_eq!(called(config(), &[useless, both[1]])[0], (second, block_relay));
    let only_ipv6 = Reachable { ipv4: false, ..Reachable::CLEARNET };
    assert_eq!(called_in(only_ipv6, config(), &both), []);
    let near = entry(ipv4(70, 1, 2, 2), SEED_SERVICES);
    let all = called(config(), &[both[0], near]);
    assert!(all[0].0 == first && all.iter().all(|(address, _)| *address != near.address));
    let added = vec![Target::Address(first)];
    let all = called(SlotsConfig { add_nodes: added, ..config() }, &both[..1]);
    assert!(all.iter().all(|(address, kind)| *address != first || *kind == ConnectionKind::Manual));
    let named = SlotsConfig { connect_only: Some(Vec::new()), ..config() };
    assert_eq!(called(named, &both), [], "the user chooses");
}

impl World {
    fn new(config: SlotsConfig) -> Self {
        Self {
            slots: Slots::new(config, at(0.0), [3; 32]),
            book: AddressBook::new([4; 32]),
            links: Vec::new(),
            reachable: Reachable::CLEARNET,
            discouraged: Discouraged::new([5; 16]),
            bans: Bans::default(),
            own: OwnAddresses::new(true),
            exhausted: Vec::new(),
            stale_tip: false,
            synced: false,
            near_tip: false,
            seconds: 0.0,
        }
    }

    fn know(&mut self, addresses: &[NetAddress], services: Services) {
        for address in addresses {
            let entry = AddressEntry { time: UNIX as u32, services, address: *address };
            self.book.add(UNIX, &[entry], Source::Host(address.host), 0);
        }
    }

    /// Nodes in `groups` groups, four in each.
    fn know_groups(&mut self, groups: u8) {
        let nodes: Vec<_> =
            (0..groups).flat_map(|group| (1..5).map(move |n| ipv4(60, group, 1, n))).collect();
        self.know(&nodes, SEED_SERVICES);
    }

    /// One look at the slots; connections to addresses stand from then on, feelers end at once.
    fn step(&mut self) -> Vec<Opening> {
        let links = self.links.clone();
        let peers: Vec<_> = links.iter().map(Link::peer).collect();
        let situation = Situation {
            peers: &peers,
            reachable: self.reachable,
            stale_tip: self.stale_tip,
            synced: self.synced,
            line_probed: false,
            near_tip: self.near_tip,
            discouraged: &self.discouraged,
            bans: &self.bans,
            own: &self.own,
            exhausted: &self.exhausted,
        };
        let openings = self.slots.next(at(self.seconds), &situation, &mut self.book);
        for opening in &openings {
            if let Opening::Connect { target, kind, .. } = opening {
                let address = match target {
                    Target::Address(address) => Some(*address),
                    Target::Name { .. } => None,
                };
                let lasting = !matches!(kind, ConnectionKind::Feeler | ConnectionKind::AddrFetch);
                if lasting {
                    let (kind, target) = (*kind, target.clone());
                    self.links.push(Link { kind, address, target, ready: true });
                }
            }
        }
        openings
    }

    /// Steps of half a second; what was opened and when.
    fn run(&mut self, seconds: f64) -> Vec<(f64, Opening)> {
        let end = self.seconds + seconds;
        let mut all = Vec::new();
        while self.seconds < end {
            let openings = self.step();
            all.extend(openings.into_iter().map(|opening| (self.seconds, opening)));
            self.seconds += 0.5;
        }
        all
    }

    fn count(&self, kind: ConnectionKind) -> usize {
        self.links.iter().filter(|link| link.kind == kind).count()
    }
}

fn kinds(openings: &[(f64, Opening)]) -> Vec<ConnectionKind> {
    let kind = |(_, opening): &(f64, Opening)| match opening {
        Opening::Connect { kind, .. } => Some(*kind),
        _ => None,
    };
    openings.iter().filter_map(kind).collect()
}

fn targets(openings: &[(f64, Opening)]) -> Vec<Target> {
    let target = |(_, opening): &(f64, Opening)| match opening {
        Opening::Connect { target, .. } => Some(target.clone()),
        _ => None,
    };
    openings.iter().filter_map(target).collect()
}

#[test]
fn full_slots_are_filled_first_and_one_at_a_time() {
    let mut world = World::new(config());
    world.know_groups(40);
    let opened = world.run(5.0);
    let expected: Vec<_> = std::iter::repeat_n(ConnectionKind::OutboundFull, 8)
        .chain([ConnectionKind::BlockRelay; 2])
        .collect();
    assert_eq!(kinds(&opened), expected);
    assert!(world.step().is_empty());
}

#[test]
fn b18_lasting_peers_are_of_different_groups() {
    let mut world = World::new(config());
    world.know_groups(6);
    world.run(60.0);
    let groups: BTreeSet<_> =
        world.links.iter().map(|link| link.address.map(|to| to.host.prefix_group())).collect();
    assert_eq!(world.links.len(), 6, "there are no more groups");
    assert_eq!(groups.len(), 6);

    // A lost one is replaced by another of its group.
    world.links.pop();
    assert_eq!(world.run(60.0).len(), 1);
}

#[test]
fn private_networks_have_no_groups() {
    let mut world = World::new(config());
    world.reachable = [AddressNetwork::Onion].into_iter().collect();
    // The first four bits make a group: these are all of one.
    let onions: Vec<_> = (0x10..0x20).map(onion).collect();
    world.know(&onions, SEED_SERVICES);
    world.run(10.0);
    assert_eq!(world.links.len(), 10);
}

#[test]
fn unsuitable_addresses_are_not_connected_to() {
    let added = ipv4(60, 9, 1, 1);
    let mut world = World::new(SlotsConfig { add_nodes: vec![Target::Address(added)], ..config() });
    let bad = ipv4(60, 2, 1, 1);
    world.discouraged.insert(&bad.host);
    let wasteful = ipv4(60, 6, 1, 1);
    world.exhausted.push(wasteful.host);
    let banned = ipv4(60, 7, 1, 1);
    let ban = Ban { created: 0, until: i64::MAX };
    world.bans.add("60.7.0.0/16".parse().expect("a range"), ban);
    let ours = ipv4(60, 8, 1, 1);
    world.own.add(ours, OwnAddressSource::Interface, world.reachable);
    let mail = NetAddress { port: 25, ..ipv4(60, 3, 1, 1) };
    world.know(&[bad, banned, ours, wasteful, added, onion(1)], SEED_SERVICES);
    world.know(&[ipv4(60, 4, 1, 1)], Services::NETWORK);
    world.know(&[ipv4(60, 5, 1, 1)], Services::WITNESS | Services::NETWORK_LIMITED);
    assert_eq!(targets(&world.run(300.0)), [Target::Address(added)], "by hand only");
    world.near_tip = true;
    assert_eq!(targets(&world.run(10.0)), [Target::Address(ipv4(60, 5, 1, 1))]);
    world.know(&[mail], SEED_SERVICES);
    assert_eq!(targets(&world.run(10.0)), [Target::Address(mail)], "rather than none");
    world.links.retain(|link| link.address != Some(added));
    world.slots.remove_node(&Target::Address(added));
    assert_eq!(targets(&world.run(10.0)), [Target::Address(added)], "not by hand any more");
}

#[test]
fn addresses_tried_lately_wait_while_there_are_others() {
    let mut world = World::new(config());
    let (recent, other) = (ipv4(60, 1, 1, 1), ipv4(60, 2, 1, 1));
    world.know(&[recent, other], SEED_SERVICES);
    world.book.attempt(UNIX, &recent, false);
    let first = targets(&world.run(0.5));
    assert_eq!(first, [Target::Address(other)]);
}

#[test]
fn failures_count_once_two_groups_are_connected() {
    let mut world = World::new(config());
    world.know_groups(10);
    let counts: Vec<_> = world
        .run(2.5)
        .into_iter()
        .map(|(_, opening)| matches!(opening, Opening::Connect { count_failure: true, .. }))
        .collect();
    assert_eq!(counts, [false, false, true, true, true]);
    // Connections on the way show nothing.
    world.links.iter_mut().for_each(|link| link.ready = false);
    let next = world.run(0.5);
    assert!(matches!(next[0].1, Opening::Connect { count_failure: false, .. }));
}

#[test]
fn b18_feelers_test_new_addresses_every_two_minutes() {
    let mut world = World::new(config());
    world.know_groups(40);
    world.run(10.0);
    let hours = 10.0;
    let feelers = world.run(hours * 3600.0);
    assert!(kinds(&feelers).iter().all(|&kind| kind == ConnectionKind::Feeler));
    let expected = hours * 30.0;
    let count = feelers.len() as f64;
    assert!((0.75 * expected..1.25 * expected).contains(&count), "{count} of {expected}");
    let gaps: Vec<_> = feelers.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(gaps.iter().any(|&gap| gap < 30.0) && gaps.iter().any(|&gap| gap > 240.0), "random");
}

#[test]
fn feelers_first_test_whose_place_is_claimed() {
    let mut world = World::new(config());
    world.know_groups(200);
    world.run(10.0);
    // Everybody answers; then tried places collide.
    for group in 0..200 {
        for n in 1..5 {
            world.book.good(UNIX - 5 * 3600, &ipv4(60, group, 1, n));
        }
    }
    let claimed = world.book.select_collision().expect("800 addresses share few places");
    let tested = targets(&world.run(4.0 * 3600.0));
    assert!(tested.len() > 50);
    assert!(tested.contains(&Target::Address(claimed.address)));
}

#[test]
fn b18_one_more_block_relay_peer_now_and_then_once_synced() {
    let mut world = World::new(config());
    world.know_groups(200);
    world.run(10.0);
    let relays = |world: &mut World| {
        let mut count = 0;
        for _ in 0..600 {
            let opened = kinds(&world.run(60.0));
            count += opened.iter().filter(|&&kind| kind == ConnectionKind::BlockRelay).count();
            // The engine gives the third one up again.
            world.links.truncate(MAX_OUTBOUND_BLOCK_RELAY + MAX_OUTBOUND_FULL);
        }
        count
    };
    assert_eq!(relays(&mut world), 0, "not during the initial download");
    world.synced = true;
    let count = relays(&mut world);
    assert!((60..180).contains(&count), "{count} in ten hours");
}

#[test]
fn b18_stale_tip_gets_one_more_full_peer() {
    let mut world = World::new(config());
    world.know_groups(40);
    world.run(10.0);
    world.stale_tip = true;
    assert_eq!(kinds(&world.run(20.0)), [ConnectionKind::OutboundFull]);
    assert_eq!(world.count(ConnectionKind::OutboundFull), MAX_OUTBOUND_FULL + 1);
}

#[test]
fn network_without_a_peer_gets_one() {
    let mut world = World::new(config());
    world.reachable.onion = true;
    world.know_groups(40);
    world.run(10.0);
    world.know(&[onion(1)], SEED_SERVICES);
    let opened = world.run(3600.0);
    let full = opened.iter().find(|(_, opening)| {
        matches!(opening, Opening::Connect { kind: ConnectionKind::OutboundFull, .. })
    });
    let (_, opening) = full.expect("the onion network has none");
    let onion = Target::Address(onion(1));
    assert!(matches!(opening, Opening::Connect { target, .. } if *target == onion));
}

#[test]
fn connect_opens_nothing_else_and_is_patient() {
    let peers = vec![name("a.example"), Target::Address(ipv4(60, 1, 1, 1))];
    let mut world = World::new(SlotsConfig {
        connect_only: Some(peers.clone()),
        dns_seeds: vec!["seed.example.".to_owned()],
        fixed_seeds: true,
        ..config()
    });
    world.know_groups(40);
    let opened = world.run(600.0);
    assert_eq!(targets(&opened), peers);
    assert!(kinds(&opened).iter().all(|&kind| kind == ConnectionKind::Manual));
    // They keep failing: after 0.5 s, 1 s, ... 5.5 s, and so on.
    let mut times = Vec::new();
    for _ in 0..400 {
        world.links.clear();
        times.extend(world.run(0.5).iter().map(|(time, _)| *time));
    }
    assert!(times.len() > 2 * (200.0 / 5.5) as usize, "{}", times.len());
    let last: Vec<_> = times.iter().rev().step_by(2).take(2).collect();
    assert_eq!(last[0] - last[1], 5.5);

    let mut nobody = World::new(SlotsConfig { connect_only: Some(Vec::new()), ..config() });
    nobody.know_groups(40);
    assert!(nobody.run(600.0).is_empty());
}

#[test]
fn added_nodes_are_tried_each_minute_and_eight_at_once() {
    let nodes: Vec<_> = (0..10).map(|n| name(&format!("{n}.example"))).collect();
    let mut world = World::new(SlotsConfig { add_nodes: nodes.clone(), ..config() });
    assert_eq!(targets(&world.run(30.0)), nodes[..MAX_ADD_NODE_CONNECTIONS]);
    world.links.remove(0);
    assert_eq!(targets(&world.run(1.0)), nodes[8..9], "the first was tried too lately");
    world.links.clear();
    let again = world.run(59.5);
    assert_eq!(again.len(), 8);
}

#[test]
fn added_nodes_are_dialled_beside_those_of_connect_and_share_no_places_with_them() {
    let only: Vec<_> = (0..3).map(|n| name(&format!("connect{n}.example"))).collect();
    let added: Vec<_> = (0..10).map(|n| name(&format!("added{n}.example"))).collect();
    // One is in both lists.
    let add_nodes: Vec<_> = only.iter().take(1).chain(&added).cloned().collect();
    let connect_only = Some(only.clone());
    let mut world =
        World::new(SlotsConfig { connect_only, add_nodes: add_nodes.clone(), ..config() });
    world.know_groups(40);
    let expected: Vec<_> = only.iter().chain(&added[..MAX_ADD_NODE_CONNECTIONS]).cloned().collect();
    assert_eq!(targets(&world.run(600.0)), expected);
    world.links.clear();
    assert_eq!(targets(&world.run(5.0)), expected);
    world.links.retain(|link| !only.contains(&link.target));
    assert_eq!(targets(&world.run(5.0)), only);

    let nobody = SlotsConfig { connect_only: Some(Vec::new()), add_nodes, ..config() };
    let mut world = World::new(nobody);
    world.know_groups(40);
    let opened = world.run(600.0);
    assert_eq!(targets(&opened).len(), MAX_ADD_NODE_CONNECTIONS);
    assert!(kinds(&opened).iter().all(|&kind| kind == ConnectionKind::Manual));
}

#[test]
fn added_node_that_connected_to_us_is_not_dialled() {
    let address = ipv4(60, 1, 1, 1);
    let mut world =
        World::new(SlotsConfig { add_nodes: vec![Target::Address(address)], ..config() });
    let inbound = Link {
        kind: ConnectionKind::Inbound,
        address: Some(address),
        target: name("inbound.example"),
        ready: true,
    };
    world.links.push(inbound);
    assert!(world.run(120.0).is_empty());
}

fn seeds(openings: &[(f64, Opening)]) -> Vec<(f64, &str)> {
    let seed = |(time, opening): &'_ (f64, Opening)| match opening {
        Opening::AskDnsSeed { host } => Some((*time, host.clone())),
        _ => None,
    };
    let found: Vec<_> = openings.iter().filter_map(seed).collect();
    found.into_iter().map(|(time, host)| (time, &*host.leak())).collect()
}

fn with_seeds() -> SlotsConfig {
    let dns_seeds = (0..7).map(|n| format!("{n}.example.")).collect();
    SlotsConfig { dns_seeds, fixed_seeds: true, ..config() }
}

#[test]
fn b18_empty_book_asks_all_dns_seeds_and_the_fixed_ones_after_a_minute() {
    let mut world = World::new(with_seeds());
    let opened = world.run(200.0);
    let asked = seeds(&opened);
    assert_eq!(asked.len(), 7);
    assert!(asked.iter().all(|(time, _)| *time == 0.0));
    let fixed: Vec<_> = opened
        .iter()
        .filter(|(_, opening)| matches!(opening, Opening::AddFixedSeeds { .. }))
        .collect();
    assert_eq!(fixed, [&(60.0, Opening::AddFixedSeeds { networks: Reachable::CLEARNET })]);
}

#[test]
fn fixed_seeds_come_at_once_when_nothing_else_can() {
    let mut world = World::new(SlotsConfig { fixed_seeds: true, ..config() });
    world.know(&[ipv4(60, 1, 1, 1)], SEED_SERVICES);
    let networks = [AddressNetwork::Ipv6].into_iter().collect();
    assert_eq!(world.step()[0], Opening::AddFixedSeeds { networks });
}

#[test]
fn b18_known_addresses_are_tried_before_three_dns_seeds_at_a_time_are_asked() {
    let mut world = World::new(with_seeds());
    // Peers that offer too little.
    world.know(&[ipv4(60, 1, 1, 1)], Services::NONE);
    let opened = world.run(100.0);
    let times: Vec<_> = seeds(&opened).iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [11.0, 11.0, 11.0, 22.0, 22.0, 22.0, 33.0]);
    let hosts: BTreeSet<_> = seeds(&opened).iter().map(|(_, host)| *host).collect();
    assert_eq!(hosts.len(), 7);
}

#[test]
fn dns_seeds_are_not_asked_when_peers_are_there() {
    let mut world = World::new(with_seeds());
    world.know_groups(20);
    assert_eq!(seeds(&world.run(1000.0)), []);
    let mut slow = World::new(with_seeds());
    slow.know((0..200).map(|n| ipv4(61, n, 1, 1)).collect::<Vec<_>>().as_slice(), Services::NONE);
    for n in 0..20 {
        slow.know(
            (0..200).map(|m| ipv4(62 + n, m, 1, 1)).collect::<Vec<_>>().as_slice(),
            Services::NONE,
        );
    }
    assert!(slow.book.len() > 1000);
    assert_eq!(seeds(&slow.run(400.0))[0].0, 300.0, "many addresses are given more time");
}

#[test]
fn seed_nodes_have_a_head_start() {
    let mut world =
        World::new(SlotsConfig { seed_nodes: vec![name("a"), name("b")], ..with_seeds() });
    let opened = world.run(100.0);
    let fetches: Vec<_> = opened
        .iter()
        .filter(|(_, opening)| {
            matches!(opening, Opening::Connect { kind: ConnectionKind::AddrFetch, .. })
        })
        .map(|(time, _)| *time)
        .collect();
    assert_eq!(fetches, [0.0, 10.0]);
    assert!(seeds(&opened).iter().all(|(time, _)| *time == 30.0));

    let mut known = World::new(SlotsConfig { seed_nodes: vec![name("a")], ..config() });
    known.know_groups(20);
    assert!(!kinds(&known.run(100.0)).contains(&ConnectionKind::AddrFetch), "not needed");
}

#[test]
fn one_seed_opens_the_same_connections() {
    let run = || {
        let mut world = World::new(with_seeds());
        world.know_groups(30);
        world.run(2000.0)
    };
    assert_eq!(run(), run());
}

#[test]
fn bad_ports_increase() {
    assert!(ports::is_bad(1) && ports::is_bad(25) && ports::is_bad(27017));
    assert!(!ports::is_bad(8333) && !ports::is_bad(0) && !ports::is_bad(65535));
    // Else the search would miss some.
    let bad = (0..=u16::MAX).filter(|&port| ports::is_bad(port)).count();
    assert_eq!(bad, 85);
}
