//! What the operator lets single peers do: each effect beside a peer without the permission.

use std::collections::BTreeSet;
use std::time::Duration;

use godwit_primitives::Work;

use super::harness::{FULL, Harness, START, Sent, address, block_entry, chain, config};
use super::index::TestBlock;
use super::sending::{send, told};
use super::serving::getheaders;
use crate::{
    AddressBook, AddressEntry, Ban, Command, ConnectionKind, DisconnectReason, Event, Host,
    HostRange, Inventory, InventoryKind, MAX_HEADERS, Message, Misbehaviour, NetAddress, NetEvent,
    NodeCommand, PeerId, PeersConfig, Permissions, Services, Source, Whitelist,
};

const ADDR: Permissions = Permissions::ADDR;
const DOWNLOAD: Permissions = Permissions::DOWNLOAD;
const NONE: Permissions = Permissions::NONE;
const NO_BAN: Permissions = Permissions::NO_BAN;

/// Somebody connects to a socket with these permissions and is greeted.
fn peer(node: &mut Harness, permissions: Permissions) -> PeerId {
    let address = node.fresh_address();
    let id = node.accept_with(address, permissions).expect("there is a place");
    node.greet(id);
    node.take(id);
    id
}

fn misbehave(node: &mut Harness, id: PeerId) -> Option<DisconnectReason> {
    node.raw(id, Command::SENDCMPCT, &[2, 0, 0, 0, 0, 0, 0, 0, 0]);
    node.is_gone(id)
}

fn permissions(node: &Harness, id: PeerId) -> Vec<&'static str> {
    let infos = node.peers.infos();
    let info = infos.iter().find(|info| info.id == id).expect("it is connected");
    info.permissions.names().collect()
}

#[test]
fn a_peer_has_the_permissions_of_its_host_its_socket_and_its_direction() {
    let mut whitelist = Whitelist::default();
    for line in ["addr,in,out@99.1.0.0/16", "out,relay@99.2.0.0/16", "99.3.0.0/16"] {
        whitelist.add(line).expect(line);
    }
    let mut node = Harness::new(PeersConfig { whitelist, ..config() });
    let mut inbound = |n, socket| {
        let id = node.accept_with(address(n), socket).expect("there is a place");
        permissions(&node, id)
    };
    assert_eq!(inbound(1, DOWNLOAD), ["download", "addr"]);
    assert_eq!(inbound(2, NONE), [""; 0]);
    assert_eq!(inbound(3, NONE), ["noban", "mempool", "download"]);
    let mut outbound = |n, kind| {
        let id = node.outbound_to(address(n), kind);
        permissions(&node, id)
    };
    assert_eq!(outbound(101, ConnectionKind::Manual), [""; 0]);
    assert_eq!(outbound(1, ConnectionKind::Manual), ["addr"]);
    assert_eq!(outbound(2, ConnectionKind::Manual), ["relay"]);
    assert_eq!(outbound(2, ConnectionKind::OutboundFull), [""; 0], "we chose it ourselves");
}

#[test]
fn who_may_not_be_banned_is_not_punished_and_comes_in_whatever_its_host_did() {
    let mut node = Harness::new(PeersConfig { max_inbound: 3, ..config() });
    let trusted = peer(&mut node, NO_BAN);
    assert_eq!(misbehave(&mut node, trusted), None);
    assert_eq!(node.discouraged(), 0);
    let other = peer(&mut node, DOWNLOAD);
    let host = node.address_of(other);
    let shares = node.accept_with(host, NO_BAN).expect("there is a place");
    let what = Misbehaviour::ForbiddenValue(Command::SENDCMPCT);
    assert_eq!(misbehave(&mut node, other), Some(DisconnectReason::Misbehaved(what)));
    assert_eq!((node.discouraged(), node.is_gone(shares)), (1, None));
    // The last place is not for a discouraged host, unless it is trusted.
    assert_eq!(node.accept(host), None);
    assert!(node.accept_with(host, NO_BAN).is_some());

    let mut node = Harness::new(config());
    let ban = Ban { created: 0, until: i64::MAX };
    node.tell(Event::Operator(NodeCommand::Ban(HostRange::of_host(host.host), ban)));
    assert_eq!((node.accept(host), node.accept_with(host, DOWNLOAD)), (None, None));
    assert!(node.accept_with(host, NO_BAN).is_some());
}

#[test]
fn who_may_not_be_banned_is_not_evicted() {
    let evicted = |permissions| {
        let mut node = Harness::new(PeersConfig { max_inbound: 40, ..config() });
        let ids: Vec<PeerId> = (0..40).map(|_| peer(&mut node, permissions)).collect();
        node.advance(Duration::from_secs(1));
        let new = node.accept(address(1));
        node.pump();
        (new.is_some(), ids.iter().filter(|id| node.is_gone(**id).is_some()).count())
    };
    assert_eq!(evicted(NONE), (true, 1));
    assert_eq!(evicted(NO_BAN), (false, 0));
}

#[test]
fn allowances_do_not_bind_who_may_not_be_banned() {
    let blocks = chain(MAX_HEADERS as u32, 3_600);
    let mut node = Harness::with_chain(config(), &blocks);
    let useless = Some(DisconnectReason::UselessHeaders);
    for (permissions, ends) in [(NONE, useless), (DOWNLOAD, useless), (NO_BAN, None)] {
        let id = peer(&mut node, permissions);
        node.headers(id, &blocks[MAX_HEADERS - 1..]);
        (0..30).for_each(|_| node.headers(id, &blocks));
        assert_eq!(node.is_gone(id), ends, "{permissions:?}");
    }
    let unwanted = Some(DisconnectReason::UnwantedTransactions);
    let relay = Permissions::RELAY;
    for (permissions, ends) in [(NONE, unwanted), (relay, None), (NO_BAN, None)] {
        let id = peer(&mut node, permissions);
        let entries = vec![Inventory { kind: InventoryKind::TX, hash: [7; 32] }; 50_000];
        (0..3).for_each(|_| node.says(id, Message::Inv(entries.clone())));
        assert_eq!(node.is_gone(id), ends, "{permissions:?}");
    }
}

#[test]
fn a_chain_of_little_work_is_taken_only_of_who_may_not_be_banned() {
    let minimum_chain_work = Work::from(2 * 2_500u32);
    let blocks = chain(100, 4_000_000);
    for (permissions, headers) in [(NONE, 1), (DOWNLOAD, 1), (NO_BAN, 101)] {
        let mut node = Harness::new(PeersConfig { minimum_chain_work, ..config() });
        let id = peer(&mut node, permissions);
        node.headers(id, &blocks);
        assert_eq!(node.index.headers(), headers, "{permissions:?}");
    }
}

#[test]
fn headers_below_the_minimum_work_are_served_only_for_the_download() {
    let blocks = chain(10, 60);
    let minimum_chain_work = Work::from(2 * 11u32 + 1);
    for (permissions, expected) in [(ADDR, 0), (DOWNLOAD, 10), (NO_BAN, 10)] {
        let config = PeersConfig { minimum_chain_work, ..config() };
        let mut node = Harness::with_chain(config, &blocks);
        let id = peer(&mut node, permissions);
        node.says(id, getheaders(vec![TestBlock::genesis().hash]));
        let sent = node.take(id);
        let [Sent::Message(Message::Headers(headers))] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(headers.len(), expected, "{permissions:?}");
    }
}

#[test]
fn the_upload_target_does_not_bind_a_download() {
    let blocks = chain(2_000, 60);
    let limit = Some(144 * 4_000_000 + 1_000_000);
    let config = PeersConfig { max_upload_target: limit, ..config() };
    let mut node = Harness::with_chain(config, &blocks);
    let first = peer(&mut node, NONE);
    node.tell(NetEvent::Sent { peer: first, bytes: 1_000_000 });
    let reached = Some(DisconnectReason::UploadTarget);
    for (permissions, ends) in [(ADDR, reached), (DOWNLOAD, None), (NO_BAN, None)] {
        let id = peer(&mut node, permissions);
        node.says(id, Message::GetData(vec![block_entry(blocks[0].hash)]));
        assert_eq!((node.is_gone(id), node.take(id).len()), (ends, usize::from(ends.is_none())));
    }
}

#[test]
fn who_may_not_be_banned_may_learn_where_we_pruned() {
    let blocks = chain(400, 60);
    let services = Services::WITNESS | Services::NETWORK_LIMITED;
    let mut node = Harness::with_chain(PeersConfig { services, ..config() }, &blocks);
    node.index.prune_height = 50;
    let pruned = Some(DisconnectReason::PrunedBlock);
    for (permissions, place, ends, blocks_sent) in
        [(DOWNLOAD, 100, pruned, 0), (NO_BAN, 100, None, 1), (NO_BAN, 0, None, 0)]
    {
        let id = peer(&mut node, permissions);
        node.says(id, Message::GetData(vec![block_entry(blocks[place].hash)]));
        assert_eq!((node.is_gone(id), node.take(id).len()), (ends, blocks_sent));
    }
}

#[test]
fn who_may_ask_for_the_mempool_hears_nothing() {
    let ends = Some(DisconnectReason::NotOffered(Command::MEMPOOL));
    for (permissions, ends) in
        [(NONE, ends), (DOWNLOAD, ends), (Permissions::MEMPOOL, None), (NO_BAN, None)]
    {
        let mut node = Harness::new(config());
        let id = peer(&mut node, permissions);
        node.discard(id, Command::MEMPOOL, 0);
        assert_eq!((node.is_gone(id), node.take(id)), (ends, Vec::new()), "{permissions:?}");
    }
    let mut node = Harness::new(config());
    let id = peer(&mut node, Permissions::BLOOM_FILTER | NO_BAN);
    node.discard(id, Command::FILTERLOAD, 0);
    let ends = Some(DisconnectReason::NotOffered(Command::FILTERLOAD));
    assert_eq!(node.is_gone(id), ends, "there are no filters");
}

fn entry(n: u32) -> AddressEntry {
    let [_, b, c, d] = n.to_be_bytes();
    let address = NetAddress::new(Host::Ipv4([60 + b, d, c, 1]), 8333);
    AddressEntry { time: START as u32 - 3_600, services: FULL, address }
}

#[test]
fn addresses_are_unlimited_in_both_directions() {
    let mut node = Harness::new(config());
    let limited = peer(&mut node, NO_BAN);
    node.says(limited, Message::AddrV2((0..1_000).map(entry).collect()));
    assert_eq!(node.peers.address_book().len(), 1);
    let unlimited = peer(&mut node, ADDR);
    node.says(unlimited, Message::AddrV2((0..1_000).map(entry).collect()));
    // Not all find a place: one source has few buckets.
    assert!(node.peers.address_book().len() > 100, "{}", node.peers.address_book().len());

    let mut book = AddressBook::new([9; 32]);
    for source in 0..50u32 {
        let entries: Vec<_> = (source * 100..source * 100 + 100).map(entry).collect();
        book.add(START - 3_600, &entries, Source::Host(Host::Ipv4([90, source as u8, 1, 1])), 0);
    }
    node.peers = crate::Peers::new(config(), book, node.now, &node.index);
    let mut answer = |permissions| {
        let id = peer(&mut node, permissions);
        node.says(id, Message::GetAddr);
        node.advance_in(Duration::from_secs(600), Duration::from_secs(10));
        let sent = node.take(id).into_iter();
        let told = sent.flat_map(|sent| match sent {
            Sent::Message(Message::AddrV2(entries)) => entries,
            _ => Vec::new(),
        });
        told.map(|entry| entry.address).collect::<BTreeSet<_>>()
    };
    let cached = answer(NONE);
    assert_eq!(answer(NO_BAN), cached);
    let (first, second) = (answer(ADDR), answer(ADDR));
    assert!(first != cached && second != cached && first != second && first.len() >= 100);
    assert_eq!(answer(NONE), cached, "others get the same as before");
}

/// As in Core `ProcessMessage`, `fPreferredDownload`.
#[test]
fn who_may_not_be_banned_is_asked_for_headers_as_if_we_had_chosen_it() {
    let mut node = Harness::new(config());
    let (stranger, trusted) = (node.inbound(), node.fresh_address());
    let trusted = node.accept_with(trusted, NO_BAN).expect("there is a place");
    let outbound = node.outbound(ConnectionKind::OutboundFull);
    for id in [stranger, trusted, outbound] {
        node.greet(id);
    }
    let preferred = [stranger, trusted, outbound].map(|id| node.peer_state(id).preferred());
    assert_eq!(preferred, [false, true, true]);
}

/// As in Core `SendMessages`: what is told to many at random times hides who sent it.
#[test]
fn who_may_not_be_banned_is_told_of_transactions_at_once() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let trusted = [(); 20].map(|()| peer(&mut node, NO_BAN));
    let others = [(); 20].map(|()| peer(&mut node, ADDR));
    send(&mut node, 1, 10);
    node.advance(Duration::from_millis(500));
    let mut number = |ids: [PeerId; 20]| {
        let all = ids.into_iter().map(|id| told(&mut node, id).len());
        all.sum::<usize>()
    };
    let (to_trusted, to_others) = (number(trusted), number(others));
    assert!(to_trusted == 20 && to_others < 10, "{to_trusted} {to_others}");
}

/// Whether a peer is let go that does not answer `getheaders`, while another one does.
fn silent_about_headers(permissions: Permissions) -> Option<DisconnectReason> {
    let mut node = Harness::new(config());
    let (silent, other) = (node.full_peer(), node.full_peer());
    let state = node.peers.table.get_mut(silent).expect("it is connected");
    state.privileges.permissions = permissions;
    node.advance(Duration::from_secs(6));
    node.answers_pings = false;
    node.headers(other, &chain(5, 400_000));
    for _ in 0..300 {
        node.advance(Duration::from_secs(1));
        node.says(other, Message::SendHeaders);
    }
    node.is_gone(silent)
}

/// As in Core `SendMessages`, the timeout of the headers' download.
#[test]
fn who_may_not_be_banned_may_be_silent_about_headers() {
    let others = DOWNLOAD | ADDR;
    assert_eq!(silent_about_headers(others), Some(DisconnectReason::HeadersTimeout));
    assert_eq!(silent_about_headers(NO_BAN), None);
}
