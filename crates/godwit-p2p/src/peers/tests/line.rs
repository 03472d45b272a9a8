//! Silence of everybody, which is our own line's, and silence of one, which is the peer's.

use std::time::Duration;

use super::harness::{FULL, Harness, START, chain, config};
use super::index::TestBlock;
use crate::peers::connections::Attempt;
use crate::{
    AddressBook, AddressEntry, ChainEvent, Command, ConnectFailure, ConnectionKind,
    DisconnectReason, Host, Message, NetAddress, NetEvent, PeerId, Peers, Source, Target,
};

const OUTBOUND: ConnectionKind = ConnectionKind::OutboundFull;
const MINUTE: Duration = Duration::from_secs(60);

/// A node that has asked so many peers for blocks. Nobody has said anything since.
fn downloading(peers: usize) -> (Harness, Vec<PeerId>, Vec<TestBlock>) {
    let blocks = chain(60, 400_000);
    let mut node = Harness::new(config());
    let ids: Vec<PeerId> = (0..peers).map(|_| node.peer(OUTBOUND)).collect();
    for &id in &ids {
        node.headers(id, &blocks);
    }
    node.advance(Duration::from_secs(1));
    let asked = |id: &PeerId| node.expects.get(id) == Some(&true);
    assert!(ids.iter().all(asked), "each owes a block");
    (node, ids, blocks)
}

/// What was asked while the line was down arrives when it is back.
fn answer_late(node: &mut Harness, ids: &[PeerId], blocks: &[TestBlock]) {
    for &id in ids {
        let pings: Vec<u64> = node
            .sent
            .get(&id)
            .into_iter()
            .flatten()
            .filter_map(|sent| match sent {
                super::harness::Sent::Message(Message::Ping(Some(nonce))) => Some(*nonce),
                _ => None,
            })
            .collect();
        pings.into_iter().for_each(|nonce| node.says(id, Message::Pong(nonce)));
        node.answer_questions(id, blocks, |block| Some(block.clone()));
    }
}

#[test]
fn nobody_is_let_go_while_nothing_arrives_from_anybody() {
    for minutes in [1, 5, 15] {
        let (mut node, ids, blocks) = downloading(4);
        node.answers_pings = false;
        node.advance(Duration::from_secs(27));
        assert_eq!(node.peers.summary().silent_since, None);
        node.advance(Duration::from_secs(7));
        assert!(node.peers.summary().silent_since.is_some(), "it is noticed in half a minute");
        node.advance(MINUTE * minutes);
        assert!(node.gone.is_empty(), "{:?}", node.gone);
        node.answers_pings = true;
        answer_late(&mut node, &ids, &blocks);
        assert_eq!(node.peers.summary().silent_since, None);
        node.serve(&ids, &blocks, 60, |_, block| Some(block.clone()));
        assert_eq!(node.tip(), blocks[59].hash);
        node.advance(MINUTE * 5);
        assert!(node.gone.is_empty(), "{:?}", node.gone);
        assert_eq!(node.discouraged(), 0);
    }
}

#[test]
fn a_connection_that_is_not_heard_again_was_lost_with_the_line() {
    let (mut node, ids, blocks) = downloading(4);
    node.answers_pings = false;
    node.advance(MINUTE * 2);
    // The first two survived; the others' address has changed, say.
    let (alive, lost) = ids.split_at(2);
    let down = node.now.monotonic;
    while node.gone.len() < lost.len() {
        answer_late(&mut node, alive, &blocks);
        node.advance(Duration::from_millis(500));
        assert!(node.now.monotonic < down + MINUTE * 4, "{:?}", node.gone);
    }
    let took = node.now.monotonic - down;
    assert!(took > Duration::from_secs(30), "a system waits as long as it has waited: {took:?}");
    for id in lost {
        let why = node.is_gone(*id);
        assert!(
            matches!(
                why,
                Some(
                    DisconnectReason::LostWithLine
                        | DisconnectReason::BlockTimeout
                        | DisconnectReason::BlockStalled
                )
            ),
            "{why:?}"
        );
    }
    assert_eq!(node.discouraged(), 0);
    assert!(alive.iter().all(|id| node.is_gone(*id).is_none()));
}

#[test]
fn idle_connections_are_asked_when_the_line_is_back() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let ids: Vec<PeerId> = (0..4).map(|_| node.peer(OUTBOUND)).collect();
    node.advance(MINUTE);
    node.answers_pings = false;
    // Until the pings of every two minutes are not answered.
    node.advance(MINUTE * 4);
    assert!(node.peers.summary().silent_since.is_some() && node.gone.is_empty());
    let survivors = &ids[..3];
    for _ in 0..500 {
        answer_late(&mut node, survivors, &[]);
        node.advance(Duration::from_millis(500));
    }
    assert_eq!(node.is_gone(ids[3]), Some(DisconnectReason::LostWithLine));
    assert!(survivors.iter().all(|id| node.is_gone(*id).is_none()), "{:?}", node.gone);
}

/// The same silence while another peer is heard.
#[test]
fn a_silent_peer_is_let_go_when_others_answer() {
    let (mut node, ids, blocks) = downloading(3);
    let silent = ids[0];
    let begun = node.now.monotonic;
    while node.is_gone(silent).is_none() {
        node.advance(Duration::from_millis(500));
        for &id in &ids[1..] {
            node.answer_questions(id, &blocks, |block| Some(block.clone()));
        }
        assert!(node.now.monotonic < begun + MINUTE * 3);
    }
    assert!(matches!(
        node.is_gone(silent),
        Some(DisconnectReason::BlockStalled | DisconnectReason::BlockTimeout)
    ));
    assert_eq!(node.gone.len(), 1);
}

/// Of two that withhold blocks and answer pings nobody says that the line is down.
#[test]
fn who_answers_pings_alone_is_judged() {
    let (mut node, ids, _) = downloading(2);
    node.advance(MINUTE * 12);
    assert_eq!(node.peers.summary().silent_since, None);
    for id in ids {
        assert_eq!(node.is_gone(id), Some(DisconnectReason::BlockTimeout));
    }
}

/// A connection that is being opened.
fn begin_to_connect(node: &mut Harness) -> PeerId {
    let (id, address) = (node.peers.table.next_id(), node.fresh_address());
    let attempt = Attempt {
        target: Target::Address(address),
        kind: OUTBOUND,
        address: Some(address),
        left: Vec::new(),
        nonce: id.0,
        count_failure: true,
        begun: node.now.monotonic,
        resolving: false,
    };
    node.peers.parts.connections.attempts().insert(id, attempt);
    id
}

#[test]
fn one_peer_is_no_witness() {
    let (mut node, ids, _) = downloading(1);
    node.answers_pings = false;
    node.advance(Duration::from_secs(601));
    assert_eq!(node.is_gone(ids[0]), Some(DisconnectReason::BlockTimeout));
    // But it is when connections cannot be opened either.
    let (mut node, ids, _) = downloading(1);
    node.answers_pings = false;
    for _ in 0..60 {
        let attempt = begin_to_connect(&mut node);
        node.advance(Duration::from_secs(10));
        node.tell(NetEvent::ConnectFailed { peer: attempt, why: ConnectFailure::Local });
    }
    assert_eq!(node.is_gone(ids[0]), None);
}

/// Who connects from our own network proves nothing of the line to the outside.
#[test]
fn peers_of_our_own_network_are_no_witnesses() {
    let (mut node, ids, _) = downloading(3);
    node.answers_pings = false;
    let near = node.accept(NetAddress::new(Host::Ipv4([192, 168, 1, 7]), 5)).expect("a place");
    node.greet(near);
    for _ in 0..60 {
        node.advance(Duration::from_secs(5));
        node.says(near, Message::Ping(Some(7)));
    }
    assert!(node.peers.summary().silent_since.is_some());
    assert!(ids.iter().all(|id| node.is_gone(*id).is_none()), "{:?}", node.gone);
}

/// A node that knows one address and is connected to three others, which answer pings or not.
fn with_an_address(answer: bool) -> (Harness, NetAddress) {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let address = NetAddress::new(Host::Ipv4([120, 1, 1, 1]), 8_333);
    let mut book = AddressBook::new([9; 32]);
    let entry = AddressEntry { time: START as u32, services: FULL, address };
    book.add(START, &[entry], Source::Host(Host::Ipv4([30, 1, 1, 1])), 0);
    node.peers = Peers::new(config(), book, node.now, &node.index);
    node.tell(ChainEvent::TipChanged { initial_download: false });
    for _ in 0..3 {
        node.peer(OUTBOUND);
    }
    node.advance(MINUTE * 3);
    for (peer, ..) in std::mem::take(&mut node.connects) {
        node.tell(NetEvent::ConnectFailed { peer, why: ConnectFailure::Local });
    }
    node.answers_pings = answer;
    (node, address)
}

#[test]
fn want_of_an_answer_counts_against_an_address_only_while_the_line_is_alive() {
    for answer in [true, false] {
        let (mut node, _) = with_an_address(answer);
        let before = node.peers.address_book().to_bytes([0; 4]);
        let mut failed = 0;
        for _ in 0..120 {
            let attempts = std::mem::take(&mut node.connects);
            node.advance(Duration::from_secs(1));
            for (peer, ..) in attempts {
                failed += 1;
                node.tell(NetEvent::ConnectFailed { peer, why: ConnectFailure::Unanswered });
            }
        }
        assert!(failed > 1);
        let after = node.peers.address_book().to_bytes([0; 4]);
        assert_eq!(before != after, answer, "{failed} failures");
    }
}

/// While nothing arrives feelers are sent every quarter of a minute: each could find the line alive.
#[test]
fn a_silent_line_is_probed_by_new_connections() {
    let (mut node, ids, _) = downloading(4);
    node.answers_pings = false;
    let known = node.address_of(ids[0]);
    let entry = AddressEntry { time: START as u32, services: FULL, address: known };
    node.peers.book.add(START, &[entry], Source::Host(known.host), 0);
    node.advance(MINUTE * 2);
    let feelers = node.connects.iter().filter(|(_, _, kind)| *kind == ConnectionKind::Feeler);
    assert!(feelers.count() > 1, "to somebody who seems to be connected");
    for _ in 0..5 * 60 {
        for (probe, ..) in std::mem::take(&mut node.connects) {
            node.tell(NetEvent::Connected { peer: probe, address: Some(known) });
            assert_eq!(node.peers.summary().silent_since, None, "the line is back");
            node.pump();
            node.greet(probe);
        }
        node.advance(Duration::from_secs(1));
    }
    assert!(ids.iter().all(|id| node.is_gone(*id).is_some()), "they were lost: {:?}", node.gone);
    assert_eq!(node.discouraged(), 0);
}

#[test]
fn few_are_asked_and_only_while_something_is_owed() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let ids: Vec<PeerId> = (0..8).map(|_| node.peer(OUTBOUND)).collect();
    node.advance(MINUTE);
    let pings = |node: &mut Harness| -> usize {
        ids.iter().map(|id| node.take_only(*id, Command::PING).len()).sum()
    };
    pings(&mut node);
    node.advance(MINUTE * 10);
    // One in two minutes for each, and what the unanswered getheaders of the beginning may cost.
    let quiet = pings(&mut node);
    assert!(quiet <= 8 * 6, "{quiet}");
}
