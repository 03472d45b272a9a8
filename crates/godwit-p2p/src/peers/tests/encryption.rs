//! To whom connections are encrypted.

use std::time::Duration;

use super::harness::{FULL, Harness, START, chain, config};
use crate::{
    AddressBook, AddressEntry, ConnectionKind, DisconnectReason, Host, NetAddress, NetEvent, Peers,
    PeersConfig, Protocol, Services, Source, Target, TransportError,
};

const OURS: Services = Services(FULL.0 | Services::P2P_V2.0);

/// What the connections of a node begin with whose book has addresses with these services.
fn begun_with_v2(config: PeersConfig, services: &[Services]) -> Vec<(ConnectionKind, bool)> {
    let mut node = Harness::with_chain(config.clone(), &chain(3, 60));
    let mut book = AddressBook::new([9; 32]);
    for (n, services) in (0..).zip(services) {
        let address = NetAddress::new(Host::Ipv4([100 + n, 1, 1, 1]), 8333);
        let entry = AddressEntry { time: START as u32, services: *services, address };
        book.add(START, &[entry], Source::Host(Host::Ipv4([30 + n, 1, 1, 1])), 0);
    }
    node.peers = Peers::new(config, book, node.now, &node.index);
    for _ in 0..10 {
        node.advance(Duration::from_secs(1));
    }
    let kinds = node.connects.iter().map(|(_, _, kind)| *kind);
    kinds.zip(node.begun_with_v2.iter().copied()).collect()
}

#[test]
fn automatic_connections_are_encrypted_to_those_that_are_said_to_do_it() {
    let encrypted = |ours, theirs| {
        let begun = begun_with_v2(PeersConfig { services: ours, ..config() }, &[theirs; 3]);
        assert!(begun.len() >= 2, "{begun:?}");
        let first = begun[0].1;
        assert!(begun.iter().all(|(_, v2)| *v2 == first), "{begun:?}");
        first
    };
    assert!(encrypted(OURS, OURS));
    assert!(!encrypted(OURS, FULL) && !encrypted(FULL, OURS) && !encrypted(FULL, FULL));
}

#[test]
fn peers_that_the_user_named_are_offered_it_whatever_is_known_of_them() {
    let address = NetAddress::new(Host::Ipv4([50, 1, 1, 1]), 8333);
    let named = |services| {
        let connect_only = Some(vec![Target::Address(address)]);
        begun_with_v2(PeersConfig { services, connect_only, ..config() }, &[])
    };
    assert_eq!(named(OURS), [(ConnectionKind::Manual, true)]);
    assert_eq!(named(FULL), [(ConnectionKind::Manual, false)], "-v2transport=0");
}

#[test]
fn what_is_broken_in_an_encrypted_connection_ends_it_and_is_held_against_nobody() {
    let errors =
        [TransportError::WrongTag, TransportError::NoTerminator, TransportError::PacketTooLarge(9)];
    for error in errors {
        let mut node = Harness::new(config());
        let id = node.full_peer();
        node.tell(NetEvent::Protocol { peer: id, protocol: Protocol::V2 { session_id: [7; 32] } });
        let protocol = node.peer_state(id).handshake.protocol;
        assert_eq!(protocol, Protocol::V2 { session_id: [7; 32] });
        node.tell(NetEvent::TransportFailed { peer: id, error });
        node.pump();
        assert_eq!(node.is_gone(id), Some(DisconnectReason::Undecryptable));
        assert_eq!(node.discouraged(), 0);
    }
}
