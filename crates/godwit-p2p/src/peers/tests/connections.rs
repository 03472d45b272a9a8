use std::time::Duration;

use super::harness::{FULL, Harness, START, address, chain, config};
use crate::{
    AddressBook, AddressEntry, Ban, ChainEvent, Command, ConnectFailure, ConnectionKind,
    DisconnectReason, Event, Host, HostRange, Message, NetAddress, NetEvent, NodeCommand, PeerId,
    Peers, PeersConfig, Reachable, Source, Target, TransportError,
};

fn misbehave(node: &mut Harness, id: PeerId) {
    node.raw(id, Command::SENDCMPCT, &[2, 2, 0, 0, 0, 0, 0, 0, 0]);
}

/// A node that knows `count` addresses in as many groups.
fn with_addresses(config: PeersConfig, count: u8, age: u32) -> Harness {
    let mut node = Harness::with_chain(config.clone(), &chain(3, age));
    let mut book = AddressBook::new([9; 32]);
    for n in 0..count {
        let address = NetAddress::new(Host::Ipv4([100 + n, 1, 1, 1]), 8333);
        let entry = AddressEntry { time: START as u32, services: FULL, address };
        book.add(START, &[entry], Source::Host(Host::Ipv4([30 + n, 1, 1, 1])), 0);
    }
    node.peers = Peers::new(config, book, node.now, &node.index);
    node.tell(ChainEvent::TipChanged { initial_download: false });
    node
}

/// Lets time pass and connects everything that is asked for; who is connected then.
fn connect_all(node: &mut Harness, seconds: u64) -> Vec<(PeerId, ConnectionKind)> {
    let mut connected = Vec::new();
    for _ in 0..seconds {
        node.advance(Duration::from_secs(1));
        for (id, target, kind) in std::mem::take(&mut node.connects) {
            let Target::Address(address) = target else { panic!("no names here") };
            node.tell(NetEvent::Connected { peer: id, address: Some(address) });
            node.pump();
            node.greet(id);
            if node.is_gone(id).is_none() {
                connected.push((id, kind));
            }
        }
    }
    connected
}

fn count(connected: &[(PeerId, ConnectionKind)], wanted: ConnectionKind) -> usize {
    connected.iter().filter(|(_, kind)| *kind == wanted).count()
}

#[test]
fn the_slots_are_filled_from_the_address_book() {
    let mut node = with_addresses(config(), 40, 60);
    let connected = connect_all(&mut node, 20);
    assert_eq!(count(&connected, ConnectionKind::OutboundFull), 8);
    assert_eq!(count(&connected, ConnectionKind::BlockRelay), 2);
    assert_eq!(node.peers.address_book().tried_len(), 10, "they answered");
    node.tell(NetEvent::Closed { peer: connected[0].0 });
    assert_eq!(connect_all(&mut node, 5).len(), 1, "a place became free");
}

/// `-onlynet`: what DNS seeds tell of other networks is not kept, and what the book has of them not
/// called; what the user names is.
#[test]
fn only_addresses_of_the_networks_that_the_user_wants_are_called() {
    let ipv6 = |n: u8| {
        NetAddress::new(Host::Ipv6([0x2a, n, 0, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), 18_444)
    };
    let ipv4 = NetAddress::new(Host::Ipv4([60, 1, 1, 1]), 8333);
    let reachable = Reachable { ipv4: false, ..Reachable::CLEARNET };
    let dns_seeds = vec!["seed.example.".to_string()];
    let add_nodes = vec![Target::Address(ipv4)];
    let restricted = PeersConfig { reachable, dns_seeds, add_nodes, ..config() };
    let mut node = with_addresses(restricted, 40, 60);
    node.advance(Duration::from_secs(60));
    assert_eq!(node.connects.len(), 1, "nobody in the book is called: {:?}", node.connects);
    assert_eq!(node.connects[0].1, Target::Address(ipv4));
    let told = [ipv6(1), NetAddress::new(Host::Ipv4([61, 1, 1, 1]), 0), ipv6(2)].to_vec();
    let before = node.peers.address_book().len();
    node.tell(NetEvent::Resolved { host: node.resolves[0].clone(), addresses: told });
    assert_eq!(node.peers.address_book().len(), before + 2);
    node.advance(Duration::from_secs(60));
    let mut called: Vec<Target> = node.connects.drain(1..).map(|(_, target, _)| target).collect();
    called.sort_by_key(|target| format!("{target:?}"));
    called.dedup();
    assert_eq!(called, [1, 2].map(|n| Target::Address(ipv6(n))));
}

#[test]
fn block_relay_peers_that_stayed_longest_are_the_anchors() {
    let anchors = |node: &Harness| {
        let anchors = node.peers.anchors();
        anchors.entries().iter().map(|entry| (entry.address, entry.services)).collect::<Vec<_>>()
    };
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    assert_eq!(anchors(&node), []);
    let connect = |node: &mut Harness, kind| {
        node.advance(Duration::from_secs(1));
        node.peer(kind)
    };
    let full = [(); 3].map(|()| connect(&mut node, ConnectionKind::OutboundFull));
    let expected = |node: &Harness, ids: &[PeerId]| {
        ids.iter().map(|id| (node.address_of(*id), FULL)).collect::<Vec<_>>()
    };
    assert_eq!(anchors(&node), expected(&node, &full[..2]), "there is nobody better");
    let relay = [(); 3].map(|()| connect(&mut node, ConnectionKind::BlockRelay));
    assert_eq!(anchors(&node), expected(&node, &relay[..2]));
    node.tell(NetEvent::Closed { peer: relay[0] });
    assert_eq!(anchors(&node), expected(&node, &relay[1..]));
    node.outbound(ConnectionKind::BlockRelay);
    node.inbound_peer();
    assert_eq!(anchors(&node), expected(&node, &relay[1..]), "it has not said hello");
}

#[test]
fn connections_are_counted_before_their_handshake_and_attempts_are_not() {
    let mut node = with_addresses(config(), 40, 60);
    node.inbound_peer();
    node.inbound();
    node.inbound();
    node.peer(ConnectionKind::Manual);
    let last = node.outbound(ConnectionKind::Manual);
    node.advance(Duration::from_secs(1));
    assert!(!node.peers.parts.connections.attempts().is_empty());
    assert_eq!((node.peers.connection_counts(), node.peers.infos().len()), ((3, 2), 5));
    let summary = node.peers.summary();
    assert_eq!((summary.inbound, summary.outbound), (1, 1), "whom the progress lines count");
    node.tell(NetEvent::Closed { peer: last });
    assert_eq!(node.peers.connection_counts(), (3, 1));
}

#[test]
fn a_failed_attempt_frees_the_place() {
    let mut node = with_addresses(config(), 40, 60);
    let mut attempts = 0;
    for _ in 0..30 {
        node.advance(Duration::from_secs(1));
        for (id, ..) in std::mem::take(&mut node.connects) {
            node.tell(NetEvent::ConnectFailed { peer: id, why: ConnectFailure::Refused });
            attempts += 1;
        }
    }
    assert!(attempts > 20 && node.peers.parts.connections.attempts().is_empty(), "{attempts}");
}

/// Without any connection failures never count: our line may be down.
fn connect_three(node: &mut Harness) {
    while node.peers.summary().outbound < 3 {
        node.advance(Duration::from_secs(1));
        let (id, target, _) = node.connects.remove(0);
        let Target::Address(address) = target else { panic!("no names here") };
        node.tell(NetEvent::Connected { peer: id, address: Some(address) });
        node.pump();
        node.greet(id);
    }
}

#[test]
fn a_dead_proxy_wears_no_address_out() {
    for (why, counted) in [
        (ConnectFailure::Local, false),
        (ConnectFailure::Unanswered, true),
        (ConnectFailure::Refused, true),
    ] {
        let mut node = with_addresses(config(), 40, 60);
        let saved = |node: &Harness| node.peers.address_book().to_bytes([0; 4]);
        connect_three(&mut node);
        let before = saved(&node);
        for _ in 0..30 {
            for (id, ..) in std::mem::take(&mut node.connects) {
                node.tell(NetEvent::ConnectFailed { peer: id, why });
            }
            node.advance(Duration::from_secs(1));
        }
        assert_eq!(saved(&node) != before, counted);
    }
}

/// IPv6 where there is none: otherwise such addresses would be the freshest of the book before long.
#[test]
fn addresses_of_a_network_without_a_route_wear_out_where_another_is_reached() {
    for (host, counted) in [(Host::Ipv6([0x26; 16]), true), (Host::Ipv4([9, 9, 9, 9]), false)] {
        let mut node = with_addresses(config(), 40, 60);
        connect_three(&mut node);
        let address = NetAddress::new(host, 8333);
        let entry = AddressEntry { time: START as u32, services: FULL, address };
        let (mut book, from) = (AddressBook::new([9; 32]), Source::Host(host));
        assert_eq!(book.add(START, &[entry], from, 0), 1);
        node.peers.book = book;
        let saved = |node: &Harness| node.peers.address_book().to_bytes([0; 4]);
        let before = saved(&node);
        let mut failed = 0;
        for _ in 0..300 {
            for (peer, target, _) in std::mem::take(&mut node.connects) {
                failed += usize::from(target == Target::Address(address));
                node.tell(NetEvent::ConnectFailed { peer, why: ConnectFailure::NoRoute });
            }
            node.advance(Duration::from_secs(1));
        }
        assert!(failed > 0);
        assert_eq!(saved(&node) != before, counted, "{host:?}");
    }
}

#[test]
fn what_dns_seeds_answer_to_an_inactive_network_opens_nothing() {
    let seeds = vec!["seed.example.".to_string()];
    let mut node = Harness::new(PeersConfig { dns_seeds: seeds, ..config() });
    node.advance(Duration::from_secs(30));
    let host = node.resolves.pop().expect("a seed is asked");
    node.tell(Event::NetworkActive(false));
    node.tell(NetEvent::Resolved { host, addresses: vec![] });
    node.pump();
    assert!(node.resolves.is_empty() && node.connects.is_empty());
}

#[test]
fn b18_a_stale_tip_opens_one_extra_connection_and_gives_one_up() {
    let mut node = with_addresses(config(), 60, 60);
    let connected = connect_all(&mut node, 20);
    let blocks = chain(3, 60);
    for &(id, kind) in &connected {
        if kind == ConnectionKind::OutboundFull {
            node.headers(id, &blocks[2..]);
        }
    }
    let full =
        |node: &Harness| node.kinds().filter(|kind| *kind == ConnectionKind::OutboundFull).count();
    assert_eq!(full(&node), 8);
    connect_all(&mut node, 29 * 60);
    assert_eq!(full(&node), 8, "not stale before half an hour");
    let mut most = 0;
    let mut new = Vec::new();
    for _ in 0..12 * 60 {
        new.extend(connect_all(&mut node, 1));
        most = most.max(full(&node));
    }
    assert!(count(&new, ConnectionKind::OutboundFull) >= 1 && most == 9, "{most}: {new:?}");
    connect_all(&mut node, 120);
    assert_eq!(full(&node), 8);
    let given_up = node.gone.values().filter(|why| **why == DisconnectReason::Extra).count();
    assert!(given_up >= 1);
    assert_eq!(node.discouraged(), 0);
}

#[test]
fn b18_extra_block_relay_peers_come_and_go() {
    let mut node = with_addresses(config(), 100, 60);
    connect_all(&mut node, 20);
    let mut tip = chain(3, 60).pop().expect("three");
    let mut seen = 0;
    for minute in 0..60 {
        let new = connect_all(&mut node, 60);
        seen += count(&new, ConnectionKind::BlockRelay);
        if minute % 10 == 0 {
            tip = super::index::TestBlock::on(&tip, node.now.unix as u32, 1, 0);
            node.mined(std::slice::from_ref(&tip));
        }
        assert!(node.kinds().filter(|kind| *kind == ConnectionKind::BlockRelay).count() <= 3);
    }
    assert!(seen >= 4, "about one in five minutes: {seen}");
}

#[test]
fn b18_an_outbound_peer_that_knows_a_better_chain_wins() {
    let blocks = chain(20, 60);
    let mut node = Harness::with_chain(config(), &blocks[..10]);
    let attackers: Vec<PeerId> = (0..8).map(|_| node.full_peer()).collect();
    for &id in &attackers {
        node.headers(id, &blocks[9..10]);
    }
    let honest = node.peer(ConnectionKind::BlockRelay);
    node.headers(honest, &blocks[9..]);
    node.serve(&[honest], &blocks, 10, |_, block| Some(block.clone()));
    assert_eq!(node.tip(), blocks[19].hash);
    // Those who keep to the old chain go, but for the four protected ones.
    node.advance(Duration::from_secs(23 * 60));
    let stale = attackers.iter().filter(|id| node.is_gone(**id).is_some()).count();
    assert_eq!((stale, node.is_gone(honest)), (4, None));
}

#[test]
fn misbehaving_hosts_are_discouraged_and_refused_when_places_are_scarce() {
    let mut node = Harness::new(PeersConfig { max_inbound: 3, ..config() });
    let bad = node.inbound_peer();
    let host = node.address_of(bad);
    misbehave(&mut node, bad);
    assert_eq!(node.discouraged(), 1);
    let again = node.accept(host);
    assert!(again.is_some(), "there is place enough");
    node.inbound();
    let refused = node.accept(host);
    assert_eq!(refused, None, "the last place is not for it");
    node.inbound();
}

#[test]
fn banned_hosts_are_let_go_and_neither_accepted_nor_called_until_the_ban_ends() {
    let command = |node: &mut Harness, command| {
        node.tell(Event::Operator(command));
        node.pump();
    };
    let mut node = Harness::new(config());
    let (bad, other) = (node.inbound_peer(), node.inbound_peer());
    let manual = node.peer(ConnectionKind::Manual);
    let host = node.address_of(bad);
    let range = |address: NetAddress| HostRange::of_host(address.host);
    let until = node.now.unix + 100;
    let ban = Ban { created: node.now.unix, until };
    command(&mut node, NodeCommand::Ban(range(host), ban));
    assert_eq!(node.is_gone(bad), Some(DisconnectReason::ByOperator));
    assert_eq!((node.is_gone(other), node.is_gone(manual)), (None, None));
    assert_eq!(node.accept(host), None);
    let chosen = range(node.address_of(manual));
    command(&mut node, NodeCommand::Ban(chosen, ban));
    assert_eq!(node.is_gone(manual), Some(DisconnectReason::ByOperator), "also who was chosen");
    node.advance(Duration::from_secs(99));
    assert_eq!(node.accept(host), None);
    node.advance(Duration::from_secs(3));
    let again = node.accept(host).expect("it is over");
    command(&mut node, NodeCommand::Ban(range(host), Ban { created: 0, until: i64::MAX }));
    assert!(node.is_gone(again).is_some());
    command(&mut node, NodeCommand::Unban(range(host)));
    assert!(node.accept(host).is_some());
    command(&mut node, NodeCommand::Ban("0.0.0.0/0".parse().expect("all"), ban));
    command(&mut node, NodeCommand::ClearBans);
    assert!(node.accept(host).is_some());
}

#[test]
fn who_is_banned_while_he_is_called_is_let_go() {
    let mut node = Harness::new(config());
    let ban = Ban { created: 0, until: i64::MAX };
    let before = node.full_peer();
    node.tell(Event::Operator(NodeCommand::Ban("98.0.0.0/8".parse().expect("others"), ban)));
    let other = node.outbound(ConnectionKind::OutboundFull);
    assert_eq!((node.is_gone(before), node.is_gone(other)), (None, None));
    node.tell(Event::Operator(NodeCommand::Ban("0.0.0.0/0".parse().expect("all"), ban)));
    node.pump();
    for kind in [ConnectionKind::OutboundFull, ConnectionKind::BlockRelay, ConnectionKind::Feeler] {
        let id = node.outbound(kind);
        assert_eq!(node.is_gone(id), Some(DisconnectReason::ByOperator), "{kind}");
    }
    let manual = node.outbound(ConnectionKind::Manual);
    assert_eq!(node.is_gone(manual), None, "the operator chose it");
}

#[test]
fn others_of_the_same_host_go_with_a_misbehaving_peer() {
    let mut node = Harness::new(config());
    let host = address(200);
    let mut connect = |port| {
        let address = NetAddress { port, ..host };
        node.accept(address).expect("there is a place")
    };
    let (a, b) = (connect(1), connect(2));
    let other = node.inbound_peer();
    node.greet(a);
    misbehave(&mut node, a);
    assert_eq!(node.is_gone(b), Some(DisconnectReason::SharesDiscouragedAddress));
    assert_eq!(node.is_gone(other), None);
}

#[test]
fn local_peers_are_left_but_not_discouraged_and_manual_ones_are_kept() {
    let mut node = Harness::new(config());
    let local = NetAddress::new(Host::Ipv4([127, 0, 0, 1]), 5_000);
    let id = node.accept(local).expect("there is a place");
    let other = node.accept(local).expect("there is a place");
    let manual = node.peer(ConnectionKind::Manual);
    node.greet(id);
    misbehave(&mut node, id);
    misbehave(&mut node, manual);
    assert!(matches!(node.is_gone(id), Some(DisconnectReason::Misbehaved(_))));
    assert_eq!((node.is_gone(other), node.is_gone(manual)), (None, None));
    assert_eq!(node.discouraged(), 0);
}

#[test]
fn a_full_house_makes_room_by_eviction() {
    let mut node = Harness::new(PeersConfig { max_inbound: 40, ..config() });
    let ids: Vec<PeerId> = (0..40).map(|_| node.inbound_peer()).collect();
    node.advance(Duration::from_secs(1));
    let host = NetAddress::new(Host::Ipv4([99, 1, 1, 1]), 1);
    let new = node.accept(host);
    node.pump();
    assert!(new.is_some());
    let evicted: Vec<_> = ids.iter().filter(|id| node.is_gone(**id).is_some()).collect();
    assert_eq!(evicted.len(), 1);
    assert_eq!(node.is_gone(*evicted[0]), Some(DisconnectReason::Evicted));
    let few = PeersConfig { max_inbound: 10, ..config() };
    let mut node = Harness::new(few);
    for _ in 0..10 {
        node.inbound_peer();
    }
    let host = NetAddress::new(Host::Ipv4([99, 1, 1, 1]), 1);
    let refused = node.accept(host);
    assert_eq!((refused, node.gone.len()), (None, 0), "each of few has something in its favour");
}

#[test]
fn dns_seeds_fill_an_empty_address_book() {
    let seeds = vec!["seed.example.".to_string()];
    let mut node = Harness::new(PeersConfig { dns_seeds: seeds.clone(), ..config() });
    node.advance(Duration::from_secs(30));
    assert_eq!(node.resolves, ["x9.seed.example."]);
    let found: Vec<NetAddress> =
        (0..10).map(|n| NetAddress::new(Host::Ipv4([50 + n, 1, 1, 1]), 0)).collect();
    node.tell(NetEvent::Resolved { host: "x9.seed.example.".into(), addresses: found.to_vec() });
    assert_eq!(node.peers.address_book().len(), 10);

    let mut node = Harness::new(PeersConfig { dns_seeds: seeds.clone(), ..config() });
    node.advance(Duration::from_secs(30));
    node.tell(NetEvent::Resolved { host: "x9.seed.example.".into(), addresses: vec![] });
    node.pump();
    assert_eq!(node.resolves.last().map(String::as_str), Some("seed.example."));

    let proxied = PeersConfig { dns_seeds: seeds, name_proxy: true, ..config() };
    let mut node = Harness::new(proxied);
    node.advance(Duration::from_secs(30));
    let host = "seed.example.".into();
    let port = node.peers.config.params.default_port;
    let expected = (Target::Name { host, port }, ConnectionKind::AddrFetch);
    let connects = node.connects.iter().map(|(_, target, kind)| (target.clone(), *kind));
    assert_eq!(connects.collect::<Vec<_>>(), [expected]);
    let (id, ..) = node.connects[0];
    node.tell(NetEvent::Connected { peer: id, address: None });
    node.pump();
    node.greet(id);
    let told = found.iter().map(|address| AddressEntry {
        time: node.now.unix as u32,
        services: FULL,
        address: NetAddress { port, ..*address },
    });
    node.says(id, Message::AddrV2(told.collect()));
    assert_eq!(node.peers.address_book().len(), 10);
    assert_eq!(node.is_gone(id), Some(DisconnectReason::AddrFetchDone));
    node.connects.clear();
    assert_eq!(connect_all(&mut node, 20).len(), 10, "they are connected to");
}

#[test]
fn fixed_seeds_are_the_last_resort() {
    let fixed = (0..5).map(|n| NetAddress::new(Host::Ipv4([50 + n, 1, 1, 1]), 8333)).collect();
    let mut node = Harness::new(PeersConfig { fixed_seeds: fixed, ..config() });
    node.advance(Duration::from_secs(70));
    assert_eq!(node.peers.address_book().len(), 5);
}

#[test]
fn without_network_nothing_is_open() {
    let mut node = with_addresses(config(), 20, 60);
    connect_all(&mut node, 3);
    node.advance(Duration::from_millis(500));
    let inbound = node.inbound_peer();
    node.tell(Event::NetworkActive(false));
    node.pump();
    assert_eq!(node.is_gone(inbound), Some(DisconnectReason::NetworkInactive));
    assert_eq!(
        (node.peers.table.iter().count(), node.peers.parts.connections.attempts().len()),
        (0, 0)
    );
    node.connects.clear();
    node.advance(Duration::from_secs(60));
    assert!(node.connects.is_empty());
    let refused = node.accept(address(9));
    assert_eq!(refused, None);
    node.tell(Event::NetworkActive(true));
    assert!(!connect_all(&mut node, 5).is_empty());
}

#[test]
fn transport_errors_end_the_connection_without_punishment() {
    let too_large = TransportError::TooLarge { command: Command::HEADERS, bytes: 1 << 30 };
    let cases = [
        (TransportError::WrongMagic([1; 4]), DisconnectReason::WrongMagic),
        (too_large, DisconnectReason::Oversized(Command::HEADERS)),
    ];
    for (error, expected) in cases {
        let mut node = Harness::new(config());
        let id = node.inbound_peer();
        node.tell(NetEvent::TransportFailed { peer: id, error });
        node.pump();
        assert_eq!(node.is_gone(id), Some(expected));
        assert_eq!(node.discouraged(), 0);
        // What still arrives is ignored.
        node.says(id, Message::Ping(Some(1)));
        node.take(id);
    }
}

/// What a peer says may wait behind a block of its own that the chain cannot take.
#[test]
fn silence_does_not_count_while_the_chain_takes_no_blocks() {
    let mut node = Harness::new(config());
    node.answers_pings = false;
    let id = node.inbound_peer();
    node.room = 0;
    node.advance(Duration::from_secs(3 * 60 * 60));
    assert_eq!(node.is_gone(id), None);
    node.room = 1;
    // The last ping may be two minutes old.
    node.advance(Duration::from_secs(18 * 60 - 5));
    assert_eq!(node.is_gone(id), None);
    node.advance(Duration::from_secs(3 * 60));
    assert!(matches!(
        node.is_gone(id),
        Some(DisconnectReason::Idle | DisconnectReason::PingTimeout)
    ));
}

#[test]
fn silence_ends_a_connection_after_twenty_minutes() {
    let mut node = Harness::new(config());
    node.answers_pings = false;
    let id = node.inbound_peer();
    node.advance(Duration::from_secs(20 * 60 - 1));
    assert_eq!(node.is_gone(id), None);
    node.advance(Duration::from_secs(3));
    assert!(matches!(
        node.is_gone(id),
        Some(DisconnectReason::Idle | DisconnectReason::PingTimeout)
    ));
}
