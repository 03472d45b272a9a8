//! Peers that are named, not given by their address.

use std::collections::BTreeSet;
use std::time::Duration;

use super::harness::{Harness, config};
use crate::{
    ConnectFailure, ConnectionKind, Event, Host, NetAddress, NetEvent, NodeCommand, PeerId,
    PeersConfig, Target,
};

const PORT: u16 = 8_333;

fn name(host: &str) -> Target {
    Target::Name { host: host.into(), port: PORT }
}

/// An address of a name: without a port, as lookups tell it.
fn found(n: u8) -> NetAddress {
    NetAddress::new(Host::Ipv4([50 + n, 1, 1, 1]), 0)
}

fn at(n: u8) -> NetAddress {
    NetAddress { port: PORT, ..found(n) }
}

fn resolved(node: &mut Harness, host: &str, addresses: &[NetAddress]) {
    node.tell(NetEvent::Resolved { host: host.into(), addresses: addresses.to_vec() });
    node.pump();
}

fn attempts(node: &mut Harness) -> usize {
    node.peers.parts.connections.attempts().len()
}

/// The address that is called, and under which id.
fn call(node: &mut Harness) -> (PeerId, NetAddress) {
    let (id, target, kind) = node.connects.pop().expect("one is called");
    assert_eq!((kind, node.connects.len()), (ConnectionKind::Manual, 0), "one at a time");
    let Target::Address(address) = target else { panic!("{target:?} was looked up") };
    (id, address)
}

fn fail(node: &mut Harness, peer: PeerId, why: ConnectFailure) {
    node.tell(NetEvent::ConnectFailed { peer, why });
    node.pump();
}

#[test]
fn names_are_resolved_first_or_left_to_the_proxy() {
    let target = Target::Name { host: "node.example".into(), port: 8_333 };
    let named = PeersConfig { connect_only: Some(vec![target.clone()]), ..config() };
    let mut node = Harness::new(named.clone());
    node.advance(Duration::from_secs(1));
    assert_eq!((node.resolves.len(), node.connects.len()), (1, 0));
    let found = NetAddress::new(Host::Ipv4([50, 1, 1, 1]), 0);
    node.tell(NetEvent::Resolved { host: "node.example".into(), addresses: vec![found] });
    node.pump();
    let expected = Target::Address(NetAddress { port: 8_333, ..found });
    let (id, at, kind) = node.connects.pop().expect("one");
    assert_eq!((at, kind), (expected, ConnectionKind::Manual));
    node.tell(NetEvent::Connected { peer: id, address: None });
    node.pump();
    node.greet(id);
    node.advance(Duration::from_secs(120));
    assert_eq!((node.resolves.len(), node.connects.len()), (1, 0), "it is connected");

    let mut node = Harness::new(PeersConfig { name_proxy: true, ..named });
    node.advance(Duration::from_secs(1));
    assert!(node.resolves.is_empty());
    assert_eq!(node.connects.pop().map(|(_, at, _)| at), Some(target));
}

#[test]
fn a_name_without_addresses_is_tried_again_later() {
    let target = Target::Name { host: "node.example".into(), port: 8_333 };
    let mut node = Harness::new(PeersConfig { connect_only: Some(vec![target]), ..config() });
    node.advance(Duration::from_secs(1));
    node.tell(NetEvent::Resolved { host: "node.example".into(), addresses: vec![] });
    node.pump();
    assert_eq!(node.peers.parts.connections.attempts().len(), 0);
    node.advance(Duration::from_secs(120));
    assert!(node.resolves.len() > 1 && node.connects.is_empty());
}

/// As in Core: one of them may be of a network that this machine is not in, or dead.
#[test]
fn the_addresses_of_a_name_are_called_one_after_the_other_until_one_answers() {
    use ConnectFailure::{Local, NoRoute, Refused, Unanswered};
    let failures = [NoRoute, Refused, Unanswered, Local];
    let addresses = [0, 1, 2, 3].map(found);
    let named = PeersConfig { connect_only: Some(vec![name("node.example")]), ..config() };
    for failing in 0..=failures.len() {
        let mut node = Harness::new(named.clone());
        node.advance(Duration::from_secs(1));
        resolved(&mut node, "node.example", &addresses);
        let mut called = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for why in failures.into_iter().take(failing) {
            let (id, address) = call(&mut node);
            assert!(ids.insert(id) == called.is_empty(), "it is one attempt");
            assert!(called.insert(address), "{address} was called before");
            fail(&mut node, id, why);
        }
        if failing == failures.len() {
            assert_eq!(called, BTreeSet::from([0, 1, 2, 3].map(at)));
            assert_eq!((node.connects.len(), attempts(&mut node)), (0, 0), "there is none left");
            node.advance(Duration::from_secs(60));
            assert!(node.resolves.len() > 1, "it is looked up again");
            continue;
        }
        let (id, address) = call(&mut node);
        node.tell(NetEvent::Connected { peer: id, address: Some(address) });
        node.pump();
        node.greet(id);
        assert_eq!(node.address_of(id), address);
        node.advance(Duration::from_secs(120));
        assert_eq!((node.resolves.len(), node.connects.len()), (1, 0), "it is connected");
    }
}

#[test]
fn without_network_no_further_address_of_a_name_is_called() {
    let named = PeersConfig { add_nodes: vec![name("node.example")], ..config() };
    let mut node = Harness::new(named);
    node.advance(Duration::from_secs(1));
    resolved(&mut node, "node.example", &[found(0), found(1)]);
    let (id, _) = call(&mut node);
    node.tell(Event::NetworkActive(false));
    fail(&mut node, id, ConnectFailure::Refused);
    assert_eq!((node.connects.len(), attempts(&mut node)), (0, 0));
}

#[test]
fn another_name_of_a_connected_peer_opens_no_second_connection() {
    let mut node = Harness::new(config());
    let known = node.outbound_to(at(7), ConnectionKind::Manual);
    node.greet(known);
    let ask = |node: &mut Harness, command| {
        node.tell(Event::Operator(command));
        node.advance(Duration::from_secs(1));
    };
    ask(&mut node, NodeCommand::TryNode(name("again.example")));
    ask(&mut node, NodeCommand::AddNode(name("again.example")));
    // Whichever of its addresses would come first.
    for others in 0..4 {
        let addresses: Vec<NetAddress> = (0..others).chain([7]).map(found).collect();
        resolved(&mut node, "again.example", &addresses);
        assert_eq!((node.connects.len(), attempts(&mut node)), (0, 0), "{others}");
        node.advance(Duration::from_secs(60));
    }
    assert!(node.resolves.len() > 2, "it is looked up again: that peer may leave");
    // At another port there is another peer.
    let target = Target::Name { host: "other.example".into(), port: PORT + 1 };
    ask(&mut node, NodeCommand::TryNode(target));
    resolved(&mut node, "other.example", &[found(7)]);
    assert_eq!(call(&mut node).1, NetAddress { port: PORT + 1, ..found(7) });
}

#[test]
fn two_names_of_a_peer_that_are_looked_up_at_once_open_one_connection() {
    let add_nodes = vec![Target::Address(at(0)), name("one.example"), name("two.example")];
    let mut node = Harness::new(PeersConfig { add_nodes, ..config() });
    node.advance(Duration::from_secs(1));
    let (first, address) = call(&mut node);
    assert_eq!((address, node.resolves.len()), (at(0), 2));
    resolved(&mut node, "one.example", &[found(0), found(1)]);
    assert_eq!((node.connects.len(), attempts(&mut node)), (0, 2), "it is being called");
    fail(&mut node, first, ConnectFailure::Refused);
    resolved(&mut node, "two.example", &[found(0)]);
    assert_eq!(call(&mut node).1, at(0), "it is not any more");
}

/// As when a peer calls, or is chosen from the address book, while the first address does not answer.
#[test]
fn a_further_address_of_a_name_is_not_called_once_it_is_connected() {
    let mut node = Harness::new(PeersConfig { add_nodes: vec![name("a.example")], ..config() });
    node.advance(Duration::from_secs(1));
    resolved(&mut node, "a.example", &[found(0), found(1)]);
    let (id, address) = call(&mut node);
    let other = if address == at(0) { at(1) } else { at(0) };
    node.outbound_to(other, ConnectionKind::OutboundFull);
    fail(&mut node, id, ConnectFailure::Refused);
    assert_eq!((node.connects.len(), attempts(&mut node)), (0, 0));
}
