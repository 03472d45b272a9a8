//! Peers that called the onion service: all of them come from Tor's address.

use std::collections::BTreeSet;
use std::time::Duration;

use super::harness::{FULL, Harness, Sent, address, chain, config};
use crate::{
    AddressBook, AddressEntry, AddressNetwork, Ban, Command, ConnectionKind, DisconnectReason,
    Entrance, Event, Host, HostRange, MAX_HEADERS, Message, Misbehaviour, NetAddress, NodeCommand,
    OwnAddressSource, PeerId, PeersConfig, Permissions, Reachable, Source, Target, Whitelist,
};

/// Tor on this machine, and on another one.
const TOR: [Host; 2] = [Host::Ipv4([127, 0, 0, 1]), Host::Ipv4([99, 7, 3, 4])];
const ONION: NetAddress = NetAddress { host: Host::OnionV3([5; 32]), port: 8333 };
const CLEARNET: NetAddress = NetAddress { host: Host::Ipv4([77, 1, 2, 3]), port: 8333 };

/// Somebody calls the onion service; Tor hands over the connection from a port of its own.
fn caller(node: &mut Harness, tor: Host, port: u16) -> PeerId {
    let id = node.accept_at(NetAddress::new(tor, port), Entrance::Onion).expect("there is a place");
    node.greet(id);
    node.take(id);
    id
}

fn network_and_permissions(node: &Harness, id: PeerId) -> (AddressNetwork, Permissions) {
    let infos = node.peers.infos();
    let info = infos.iter().find(|info| info.id == id).expect("it is connected");
    (info.network, info.permissions)
}

fn misbehave(node: &mut Harness, id: PeerId) {
    node.raw(id, Command::SENDCMPCT, &[2, 0, 0, 0, 0, 0, 0, 0, 0]);
    let what = Misbehaviour::ForbiddenValue(Command::SENDCMPCT);
    assert_eq!(node.is_gone(id), Some(DisconnectReason::Misbehaved(what)));
}

#[test]
fn a_caller_has_no_permissions_of_the_address_from_which_tor_comes() {
    for tor in TOR {
        let mut whitelist = Whitelist::default();
        whitelist.add("0.0.0.0/0").expect("everybody");
        let mut node = Harness::new(PeersConfig { whitelist, ..config() });
        let through_tor = caller(&mut node, tor, 1);
        let (network, permissions) = network_and_permissions(&node, through_tor);
        assert_eq!((network, permissions), (AddressNetwork::Onion, Permissions::NONE));
        let direct = Entrance::Direct(Permissions::NONE);
        let direct = node.accept_at(NetAddress::new(tor, 2), direct).expect("there is a place");
        let (network, permissions) = network_and_permissions(&node, direct);
        assert_eq!(network, tor.network_class());
        assert!(permissions.contains(Permissions::NO_BAN));
        misbehave(&mut node, through_tor);
    }
}

#[test]
fn a_caller_does_not_learn_where_tor_runs() {
    for tor in TOR {
        let mut node = Harness::new(config());
        let id =
            node.accept_at(NetAddress::new(tor, 1), Entrance::Onion).expect("there is a place");
        node.greet(id);
        let messages = node.take_only(id, Command::VERSION);
        let [Message::Version(version)] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!(version.receiver.address, NetAddress::new(Host::UNSPECIFIED, 0));
    }
}

#[test]
fn who_misbehaves_through_tor_goes_alone() {
    for tor in TOR {
        let mut node = Harness::new(config());
        let (first, second) = (caller(&mut node, tor, 1), caller(&mut node, tor, 2));
        misbehave(&mut node, first);
        assert_eq!((node.is_gone(second), node.discouraged()), (None, 0));
        caller(&mut node, tor, 3);
    }
    // Who comes from where Tor is, and not through it, is another matter; so are those who come through it.
    let mut node = Harness::new(PeersConfig { max_inbound: 2, ..config() });
    let through_tor = caller(&mut node, TOR[1], 1);
    let direct = node.accept(NetAddress::new(TOR[1], 2)).expect("there is a place");
    node.greet(direct);
    misbehave(&mut node, direct);
    assert_eq!((node.is_gone(through_tor), node.discouraged()), (None, 1));
    assert_eq!(node.accept(NetAddress::new(TOR[1], 3)), None, "the last place is for others");
    caller(&mut node, TOR[1], 4);
}

#[test]
fn a_ban_of_the_address_from_which_tor_comes_hits_no_caller() {
    for tor in TOR {
        let mut node = Harness::new(config());
        let before = caller(&mut node, tor, 1);
        let direct = node.accept(NetAddress::new(tor, 2)).expect("there is a place");
        let ban = Ban { created: 0, until: i64::MAX };
        node.tell(Event::Operator(NodeCommand::Ban(HostRange::of_host(tor), ban)));
        node.pump();
        assert_eq!(node.is_gone(before), None);
        assert_eq!(node.is_gone(direct), Some(DisconnectReason::ByOperator));
        assert_eq!(node.accept(NetAddress::new(tor, 3)), None);
        caller(&mut node, tor, 4);
    }
}

#[test]
fn what_one_caller_wastes_leaves_the_others_a_part_of_their_allowance() {
    let blocks = chain(MAX_HEADERS as u32, 3_600);
    let useless = Some(DisconnectReason::UselessHeaders);
    // How many messages of useless headers each of three in turn may send.
    let sent = |node: &mut Harness, id| {
        node.headers(id, &blocks[MAX_HEADERS - 1..]);
        (0..40)
            .take_while(|_| {
                node.headers(id, &blocks);
                node.is_gone(id).is_none()
            })
            .count()
    };
    for tor in TOR {
        let mut node = Harness::with_chain(config(), &blocks);
        let counts = [1, 2, 3].map(|port| {
            let id = caller(&mut node, tor, port);
            let count = sent(&mut node, id);
            assert_eq!(node.is_gone(id), useless);
            count
        });
        let [first, second, third] = counts;
        assert!(second >= 1 && second < first / 5 && third == second, "{counts:?}");
    }
}

/// Addresses that the node tells of itself to a peer.
fn told(node: &mut Harness, id: PeerId) -> BTreeSet<NetAddress> {
    node.says(id, Message::GetAddr);
    node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
    let sent = node.take(id).into_iter();
    let entries = sent.flat_map(|sent| match sent {
        Sent::Message(Message::Addr(entries) | Message::AddrV2(entries)) => entries,
        _ => Vec::new(),
    });
    entries.map(|entry| entry.address).collect()
}

#[test]
fn a_caller_is_told_the_onion_address_alone_and_nobody_else_is_told_it() {
    for tor in TOR {
        let listening = PeersConfig { listen_port: Some(8333), ..config() };
        let mut node = Harness::with_chain(listening, &chain(3, 60));
        for own in [ONION, CLEARNET] {
            let add = NodeCommand::AddOwnAddress(own, OwnAddressSource::Manual);
            node.tell(Event::Operator(add));
        }
        let through_tor = caller(&mut node, tor, 1);
        let direct = node.accept(address(1)).expect("there is a place");
        node.greet(direct);
        assert_eq!(told(&mut node, through_tor), BTreeSet::from([ONION]));
        assert_eq!(told(&mut node, direct), BTreeSet::from([CLEARNET]));
        // Tor has gone, and with it the service.
        node.tell(Event::Operator(NodeCommand::RemoveOwnAddress(ONION.host)));
        let later = caller(&mut node, tor, 2);
        assert_eq!(told(&mut node, later), BTreeSet::new());
    }
}

/// With `-onlynet=onion`, before and after Tor has told of its proxy.
#[test]
fn nobody_is_called_until_onion_addresses_can_be_reached_and_then_nobody_else() {
    let nothing = Reachable { ipv4: false, ipv6: false, ..Reachable::CLEARNET };
    let config = PeersConfig { reachable: nothing, listen_port: Some(8333), ..config() };
    let mut node = Harness::new(config.clone());
    let mut book = AddressBook::new([9; 32]);
    let entry = |address| AddressEntry { time: node.now.unix as u32, services: FULL, address };
    let entries: Vec<AddressEntry> = [ONION, CLEARNET, address(1), address(2)].map(entry).to_vec();
    book.add(node.now.unix, &entries, Source::Host(Host::Ipv4([90, 1, 1, 1])), 0);
    node.peers = crate::Peers::new(config, book, node.now, &node.index);
    let interface = NodeCommand::AddOwnAddress(CLEARNET, OwnAddressSource::Interface);
    node.tell(Event::Operator(interface));
    node.advance_in(Duration::from_secs(60), Duration::from_secs(1));
    assert!(node.connects.is_empty());
    assert_eq!(node.peers.own_addresses().iter().count(), 0);

    node.tell(Event::Operator(NodeCommand::ReachOnion));
    assert!(node.peers.reachable().contains(AddressNetwork::Onion));
    node.advance_in(Duration::from_secs(60), Duration::from_secs(1));
    let called: BTreeSet<String> =
        node.connects.iter().map(|(_, target, _)| format!("{target:?}")).collect();
    assert_eq!(called, BTreeSet::from([format!("{:?}", Target::Address(ONION))]));
    assert!(node.connects.iter().all(|(_, _, kind)| *kind != ConnectionKind::Inbound));
    assert!(node.resolves.is_empty());
}

/// The bytes of a caller pass the line to the outside, wherever Tor runs.
#[test]
fn silence_of_callers_is_silence_of_the_line() {
    for tor in TOR {
        let mut node = Harness::with_chain(config(), &chain(3, 60));
        let callers: Vec<PeerId> = (1..=4).map(|port| caller(&mut node, tor, port)).collect();
        node.advance(Duration::from_secs(60));
        node.answers_pings = false;
        node.advance(Duration::from_secs(60 * 4));
        assert!(node.peers.summary().silent_since.is_some(), "{tor:?}");
        assert!(callers.iter().all(|id| node.is_gone(*id).is_none()), "{:?}", node.gone);
    }
}
