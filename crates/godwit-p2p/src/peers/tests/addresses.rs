use std::collections::BTreeSet;
use std::time::Duration;

use super::harness::{FULL, Harness, chain, config};
use crate::{
    AddressBook, AddressEntry, Command, ConnectionKind, DisconnectReason, Event, Host, Message,
    Misbehaviour, NetAddress, NetEvent, NodeCommand, OwnAddressSource, PeerId, PeersConfig,
    Reachable, Services, Source, Version, VersionAddress,
};

fn entry(node: &Harness, n: u32) -> AddressEntry {
    let [_, b, c, d] = n.to_be_bytes();
    let address = NetAddress::new(Host::Ipv4([60 + b, d, c, 1]), 8333);
    AddressEntry { time: node.now.unix as u32, services: FULL, address }
}

fn entries(node: &Harness, numbers: std::ops::Range<u32>) -> Vec<AddressEntry> {
    numbers.map(|n| entry(node, n)).collect()
}

fn told(node: &mut Harness, id: PeerId) -> Vec<AddressEntry> {
    let messages = node.take(id).into_iter();
    messages
        .flat_map(|sent| match sent {
            super::harness::Sent::Message(Message::Addr(entries) | Message::AddrV2(entries)) => {
                entries
            }
            _ => Vec::new(),
        })
        .collect()
}

#[test]
fn b10_a_flood_of_addresses_is_cut_to_the_rate() {
    let mut node = Harness::new(config());
    let id = node.inbound_peer();
    for round in 0..100 {
        let flood = entries(&node, round * 1_000..(round + 1) * 1_000);
        node.says(id, Message::AddrV2(flood));
    }
    assert!(node.peers.address_book().len() <= 1, "one at first");
    node.advance_in(Duration::from_secs(1_000), Duration::from_secs(100));
    node.says(id, Message::AddrV2(entries(&node, 200_000..201_000)));
    assert!(node.peers.address_book().len() <= 101, "and one in ten seconds");
    let of_peer = node.peers.infos()[0].addresses;
    // One at first, and one in ten seconds.
    assert_eq!((of_peer.processed, of_peer.rate_limited), (101, 101_000 - 101));
    assert_eq!(node.is_gone(id), None);
}

#[test]
fn b10_an_answer_to_our_question_is_taken_whole() {
    let mut node = Harness::new(config());
    let id = node.full_peer();
    node.says(id, Message::AddrV2(entries(&node, 0..1_000)));
    let len = node.peers.address_book().len();
    assert!(len > 300, "as far as one source gets buckets: {len}");
    node.says(id, Message::AddrV2(entries(&node, 1_000..2_000)));
    assert!(node.peers.address_book().len() <= len + 2);
}

#[test]
fn b10_more_than_1000_addresses_are_misbehaving() {
    for command in [Command::ADDR, Command::ADDRV2] {
        let mut node = Harness::new(config());
        let id = node.inbound_peer();
        let too_many = entries(&node, 0..1_001);
        let v2 = command == Command::ADDRV2;
        node.says(id, if v2 { Message::AddrV2(too_many) } else { Message::Addr(too_many) });
        let what = Misbehaviour::TooManyEntries(command);
        assert_eq!(node.is_gone(id), Some(DisconnectReason::Misbehaved(what)));
    }
}

#[test]
fn b10_peer_ids_are_never_used_twice() {
    let mut node = Harness::new(config());
    let mut last = node.inbound();
    for _ in 0..1_000 {
        node.tell(NetEvent::Closed { peer: last });
        let next = node.accept(super::harness::address(1));
        let next = next.expect("there is a place");
        assert!(next > last);
        last = next;
    }
}

#[test]
fn addresses_of_block_relay_peers_are_ignored() {
    let mut node = Harness::new(config());
    let id = node.peer(ConnectionKind::BlockRelay);
    assert_eq!(node.take_only(id, Command::GETADDR), []);
    node.says(id, Message::AddrV2(entries(&node, 0..1)));
    assert_eq!((node.peers.address_book().len(), node.is_gone(id)), (0, None));
}

#[test]
fn useless_and_discouraged_addresses_are_not_kept() {
    let mut node = Harness::new(config());
    let hostile = node.inbound_peer();
    let bad = node.address_of(hostile);
    node.raw(hostile, Command::SENDCMPCT, &[2, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(node.discouraged(), 1);
    let id = node.full_peer();
    let (mut spv, mut discouraged) = (entry(&node, 1), entry(&node, 2));
    spv.services = Services::NONE;
    discouraged.address = bad;
    let mut private = entry(&node, 3);
    private.address.host = Host::Ipv4([192, 168, 0, 1]);
    let mut onion = entry(&node, 4);
    onion.address.host = Host::OnionV3([7; 32]);
    let mut unknown = entry(&node, 6);
    unknown.address.host = Host::UNSPECIFIED;
    node.says(id, Message::AddrV2(vec![spv, discouraged, private, onion, unknown]));
    assert_eq!(node.peers.address_book().len(), 0);
    let of_peer = |info: &crate::PeerInfo| (info.id == id).then_some(info.addresses);
    let told = node.peers.infos().iter().find_map(of_peer).expect("it is there");
    // As in Core, all but those that are useless or shunned.
    assert_eq!((told.processed, told.rate_limited), (3, 0));
    node.says(id, Message::AddrV2(entries(&node, 5..6)));
    assert_eq!(node.peers.address_book().len(), 1);
}

#[test]
fn a_fresh_address_is_passed_on_to_two_peers() {
    let mut node = Harness::new(config());
    let ids: Vec<PeerId> = (0..10).map(|_| node.full_peer()).collect();
    for &id in &ids {
        node.says(id, Message::AddrV2(entries(&node, 900..920)));
        told(&mut node, id);
    }
    let source = node.full_peer();
    node.says(source, Message::AddrV2(entries(&node, 900..920)));
    let fresh = entry(&node, 1);
    node.says(source, Message::AddrV2(vec![fresh]));
    node.says(source, Message::AddrV2(vec![fresh]));
    node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
    let told: Vec<usize> = ids
        .iter()
        .map(|&id| told(&mut node, id).iter().filter(|one| one.address == fresh.address).count())
        .collect();
    assert_eq!(told.iter().sum::<usize>(), 2, "{told:?}");
    assert!(told.iter().all(|&count| count <= 1));
}

#[test]
fn old_addresses_and_long_lists_are_not_passed_on() {
    let mut node = Harness::new(config());
    let (listener, source) = (node.full_peer(), node.inbound_peer());
    node.says(listener, Message::AddrV2(entries(&node, 900..920)));
    node.advance_in(Duration::from_secs(3_000), Duration::from_secs(10));
    told(&mut node, listener);
    let mut old = entry(&node, 1);
    old.time -= 700;
    let mut future = entry(&node, 2);
    future.time += 3_600;
    node.says(source, Message::AddrV2(vec![old, future]));
    node.says(source, Message::AddrV2(entries(&node, 10..21)));
    node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
    assert_eq!(told(&mut node, listener), []);
}

/// What so many nodes told, 100 addresses each.
fn book(sources: u8) -> AddressBook {
    let mut book = AddressBook::new([9; 32]);
    let mut node = Harness::new(config());
    node.now.unix -= 3_600;
    for source in 0..sources {
        let entries = entries(&node, u32::from(source) * 100..u32::from(source) * 100 + 100);
        book.add(node.now.unix, &entries, Source::Host(Host::Ipv4([90, source, 1, 1])), 0);
    }
    book
}

#[test]
fn getaddr_is_answered_once_to_inbound_peers_and_the_same_to_all() {
    let mut node = Harness::new(config());
    node.peers = crate::Peers::new(config(), book(50), node.now, &node.index);
    let (a, b, outbound) = (node.inbound_peer(), node.inbound_peer(), node.full_peer());
    for id in [a, b, outbound] {
        node.says(id, Message::GetAddr);
    }
    node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
    let (first, second) = (told(&mut node, a), told(&mut node, b));
    assert!((100..=1_000).contains(&first.len()), "{}", first.len());
    assert_eq!(first, second, "who asks twice learns nothing");
    assert_eq!(told(&mut node, outbound), []);
    node.says(a, Message::GetAddr);
    node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
    assert_eq!(told(&mut node, a), []);
    // A day later others get another answer.
    node.advance_in(Duration::from_secs(28 * 3_600), Duration::from_secs(60));
    let c = node.inbound_peer();
    node.says(c, Message::GetAddr);
    node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
    assert_ne!(told(&mut node, c), first);
}

#[test]
fn each_of_our_addresses_gives_an_answer_of_its_own_to_getaddr() {
    let mut node = Harness::new(config());
    node.peers = crate::Peers::new(config(), book(50), node.now, &node.index);
    let [one, other] = [1, 2].map(|n| NetAddress::new(Host::Ipv4([77, 1, 1, n]), 8333));
    let other_port = NetAddress { port: 8334, ..one };
    let answers = [one, other, other_port, one, other].map(|called| {
        node.called = called;
        let id = node.inbound_peer();
        node.says(id, Message::GetAddr);
        node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
        told(&mut node, id)
    });
    let [first, second, third, first_again, second_again] = answers;
    assert!([&first, &second, &third].into_iter().all(|answer| answer.len() >= 100));
    assert!(first != second && first != third && second != third, "they are of one node");
    assert_eq!((first_again, second_again), (first, second));
}

#[test]
fn nobody_is_told_of_banned_and_discouraged_hosts() {
    let mut node = Harness::new(config());
    node.peers = crate::Peers::new(config(), book(50), node.now, &node.index);
    let everything = |node: &Harness| {
        let parts = (0..).step_by(500).map(|n| node.peers.known_addresses(n..n + 500));
        parts.map_while(|part| part).flatten().collect::<Vec<_>>()
    };
    let before = everything(&node);
    let ban = |range: &str| {
        let ban = crate::Ban { created: 0, until: i64::MAX };
        Event::Operator(crate::NodeCommand::Ban(range.parse().expect("a range"), ban))
    };
    let Host::Ipv4([a, b, ..]) = before[0].address.host else { panic!("the book has others") };
    let other = |entry: &&AddressEntry| match entry.address.host {
        Host::Ipv4(bytes) => bytes[..2] != [a, b],
        _ => true,
    };
    // Discouraged as one that has misbehaved, and banned with its neighbours.
    let discouraged = before.iter().find(other).expect("the book has others").address;
    node.peers.table.discourage(&discouraged.host);
    node.tell(ban(&format!("{a}.{b}.0.0/16")));
    node.pump();
    let asks = node.inbound_peer();
    node.says(asks, Message::GetAddr);
    node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
    let answer = told(&mut node, asks);
    let after = everything(&node);
    assert!(!answer.is_empty() && !after.is_empty() && after.len() < before.len());
    for entry in answer.iter().chain(&after) {
        assert!(other(&entry) && entry.address.host != discouraged.host, "{}", entry.address);
    }
}

#[test]
fn no_more_than_1000_addresses_wait_for_a_peer() {
    let mut node = Harness::new(config());
    node.peers = crate::Peers::new(config(), book(200), node.now, &node.index);
    let (asks, source) = (node.inbound_peer(), node.inbound_peer());
    node.advance_in(Duration::from_secs(100), Duration::from_secs(10));
    node.take(asks);
    // The answer waits for its time; what is news until then takes places in it.
    node.says(asks, Message::GetAddr);
    let news = entries(&node, 100_000..100_005);
    node.says(source, Message::AddrV2(news.clone()));
    node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
    let messages = node.take_only(asks, Command::ADDRV2);
    let [Message::AddrV2(told)] = &messages[..] else { panic!("{} messages", messages.len()) };
    assert_eq!(told.len(), 1_000, "the most that a peer may be sent");
    assert!(told.iter().any(|entry| news.contains(entry)));
}

#[test]
fn an_address_fetch_ends_with_its_answer_or_after_five_minutes() {
    let mut node = Harness::new(config());
    let (gives, own, silent) = (
        node.peer(ConnectionKind::AddrFetch),
        node.peer(ConnectionKind::AddrFetch),
        node.peer(ConnectionKind::AddrFetch),
    );
    node.says(gives, Message::AddrV2(entries(&node, 0..20)));
    assert_eq!(node.is_gone(gives), Some(DisconnectReason::AddrFetchDone));
    node.says(own, Message::AddrV2(entries(&node, 50..51)));
    assert_eq!(node.is_gone(own), None, "its own address is not the answer");
    node.advance(Duration::from_secs(301));
    for id in [own, silent] {
        assert_eq!(node.is_gone(id), Some(DisconnectReason::AddrFetchDone));
    }
}

#[test]
fn our_address_is_told_first_alone_and_only_when_others_can_reach_us() {
    let ours = NetAddress { port: 8333, ..SEEN };
    let listening = PeersConfig { listen_port: Some(8333), ..config() };
    for (config, tells) in [(config(), false), (listening, true)] {
        let mut node = Harness::with_chain(config, &chain(3, 60));
        let peer = node.outbound(ConnectionKind::OutboundFull);
        let relay = node.outbound(ConnectionKind::BlockRelay);
        for id in [peer, relay] {
            let hello = sees(&node, SEEN);
            node.greet_as(id, hello);
        }
        node.advance(Duration::from_secs(5));
        let told_to_peer = told(&mut node, peer);
        assert_eq!(told_to_peer.len(), usize::from(tells));
        assert!(told_to_peer.iter().all(|one| one.address == ours && one.services == FULL));
        assert_eq!(told(&mut node, relay), [], "never to a block relay peer");
    }
}

const SEEN: NetAddress = NetAddress { host: Host::Ipv4([77, 1, 2, 3]), port: 40_000 };

/// The `version` of a peer that sees us at `seen`.
fn sees(node: &Harness, seen: NetAddress) -> Version {
    let receiver = VersionAddress { services: Services::NONE, address: seen };
    Version { receiver, ..node.version() }
}

/// What is told of ourselves to peers that see us at `seen`.
fn told_to_who_sees(
    node: &mut Harness,
    seen: NetAddress,
    connect: impl Fn(&mut Harness) -> PeerId,
) -> BTreeSet<NetAddress> {
    let hello = sees(node, seen);
    let ids: Vec<PeerId> = (0..50).map(|_| connect(node)).collect();
    for &id in &ids {
        node.greet_as(id, hello.clone());
        // Before that nobody who connected to us is told of addresses.
        node.says(id, Message::GetAddr);
    }
    node.advance(Duration::from_secs(5));
    ids.iter().flat_map(|&id| told(node, id)).map(|entry| entry.address).collect()
}

fn outbound(node: &mut Harness) -> PeerId {
    node.outbound(ConnectionKind::Manual)
}

/// As behind a proxy for names.
fn nameless(node: &mut Harness) -> PeerId {
    let id = outbound(node);
    node.peers.table.get_mut(id).expect("it is connected").address = None;
    id
}

/// As behind a hidden service.
fn from_this_machine(node: &mut Harness) -> PeerId {
    let address = NetAddress::new(Host::Ipv4([127, 0, 0, 1]), 1);
    node.accept(address).expect("there is a place")
}

#[test]
fn the_address_that_the_peer_sees_is_told_of_ourselves() {
    let listening = PeersConfig { listen_port: Some(9_999), ..config() };
    let told = |config: &PeersConfig, seen, connect: fn(&mut Harness) -> PeerId| {
        let mut node = Harness::with_chain(config.clone(), &chain(3, 60));
        let told = told_to_who_sees(&mut node, seen, connect);
        told.into_iter().collect::<Vec<_>>()
    };
    let ours = NetAddress { port: 9_999, ..SEEN };
    assert_eq!(told(&listening, SEEN, outbound), [ours], "it cannot see our port");
    assert_eq!(told(&listening, SEEN, Harness::inbound), [SEEN]);
    let private = NetAddress::new(Host::Ipv4([10, 1, 2, 3]), 1);
    assert_eq!(told(&listening, private, outbound), []);
    let unreachable = NetAddress::new(Host::OnionV3([1; 32]), 1);
    assert_eq!(told(&listening, unreachable, outbound), []);
    assert_eq!(told(&listening, SEEN, nameless), []);
    assert_eq!(told(&listening, SEEN, from_this_machine), []);
    let hidden = PeersConfig { discover: false, ..listening.clone() };
    assert_eq!(told(&hidden, SEEN, outbound), []);
    assert_eq!(told(&hidden, SEEN, Harness::inbound), []);
}

/// Core `GetLocalAddrForPeer`.
#[test]
fn an_address_that_we_know_of_is_told_and_what_the_peer_sees_now_and_then() {
    let named = NetAddress::new(Host::Ipv4([77, 9, 9, 9]), 1_234);
    let told = |discover, listen_port, seen, connect: fn(&mut Harness) -> PeerId| {
        let config = PeersConfig { listen_port, discover, ..config() };
        let mut node = Harness::with_chain(config, &chain(3, 60));
        node.tell(Event::Operator(NodeCommand::AddOwnAddress(named, OwnAddressSource::Manual)));
        let told = told_to_who_sees(&mut node, seen, connect);
        told.into_iter().collect::<Vec<_>>()
    };
    let port = Some(9_999);
    let seen_by_outbound = NetAddress { port: 1_234, ..SEEN };
    assert_eq!(told(true, port, SEEN, outbound), [seen_by_outbound, named]);
    assert_eq!(told(true, port, SEEN, Harness::inbound), [SEEN, named]);
    assert_eq!(told(true, port, SEEN, from_this_machine), [named], "it cannot know better");
    let private = NetAddress::new(Host::Ipv4([10, 1, 2, 3]), 1);
    assert_eq!(told(true, port, private, outbound), [named]);
    assert_eq!(told(false, port, SEEN, outbound), [named]);
    assert_eq!(told(false, None, SEEN, outbound), [], "nobody could call");
}

#[test]
fn an_own_address_gains_by_each_peer_that_called_it_and_can_be_taken_back() {
    let mut node = Harness::new(config());
    let own = NetAddress { port: 8333, ..SEEN };
    node.tell(Event::Operator(NodeCommand::AddOwnAddress(own, OwnAddressSource::Bound)));
    let score = |node: &Harness| node.peers.own_addresses().iter().map(|own| own.score).next();
    assert_eq!(score(&node), Some(2));
    let hello = sees(&node, SEEN);
    let (inbound, outbound) = (node.inbound(), outbound(&mut node));
    node.greet_as(inbound, hello.clone());
    assert_eq!(score(&node), Some(3));
    node.greet_as(outbound, hello);
    assert_eq!(score(&node), Some(3), "it was called by us");
    node.tell(Event::Operator(NodeCommand::RemoveOwnAddress(own.host)));
    assert_eq!(score(&node), None);
}

#[test]
fn addresses_are_told_in_the_form_that_the_peer_understands() {
    let reachable = Reachable { onion: true, ..Reachable::CLEARNET };
    let mut node = Harness::with_chain(PeersConfig { reachable, ..config() }, &chain(3, 60));
    let source = node.inbound_peer();
    let old = node.outbound(ConnectionKind::OutboundFull);
    let hello = node.version();
    node.says(old, Message::Version(Box::new(hello)));
    node.says(old, Message::Verack);
    let new = node.full_peer();
    node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
    let onion = NetAddress::new(Host::OnionV3([7; 32]), 8333);
    let hidden = AddressEntry { address: onion, ..entry(&node, 1) };
    node.says(source, Message::AddrV2(vec![hidden]));
    node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
    assert_eq!(told(&mut node, old), [], "it could not read it");
    let messages = node.take_only(new, Command::ADDRV2);
    assert_eq!(messages, [Message::AddrV2(vec![hidden])]);
    let plain = entry(&node, 2);
    node.says(source, Message::AddrV2(vec![plain]));
    node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
    assert_eq!(node.take_only(old, Command::ADDR), [Message::Addr(vec![plain])]);
    assert_eq!(node.take_only(new, Command::ADDRV2), [Message::AddrV2(vec![plain])]);
}
