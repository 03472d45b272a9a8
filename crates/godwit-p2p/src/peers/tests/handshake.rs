use std::time::Duration;

use super::harness::{FULL, Harness, Sent, chain, config};
use crate::{
    Command, ConnectionKind, DisconnectReason, Message, Misbehaviour, PeersConfig, Services,
    Version,
};

fn commands(sent: Vec<Sent>) -> Vec<Command> {
    let command = |sent| match sent {
        Sent::Message(message) => Message::command(&message),
        Sent::Block(_) => Command::BLOCK,
        Sent::Filters(command, _) => command,
        Sent::Transaction(_) => Command::TX,
    };
    sent.into_iter().map(command).collect()
}

#[test]
fn an_outbound_connection_says_hello_in_core_s_order() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let id = node.outbound(ConnectionKind::OutboundFull);
    let sent = node.take(id);
    let [Sent::Message(Message::Version(version))] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((version.version, version.services, version.relay), (70_016, FULL, false));
    assert_eq!((version.start_height, version.user_agent.as_str()), (3, "/godwit:0.0.0/"));
    let hello = node.version();
    node.says(id, Message::Version(Box::new(hello)));
    use Command as C;
    assert_eq!(commands(node.take(id)), [C::WTXIDRELAY, C::SENDADDRV2, C::VERACK, C::GETADDR]);
    node.says(id, Message::Verack);
    assert_eq!(commands(node.take(id)), [C::SENDCMPCT, C::PING, C::GETHEADERS]);
}

/// As bitcoind shows it: only what the peer has said.
#[test]
fn before_its_version_nothing_is_shown_of_what_a_peer_wants() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let (inbound, manual) = (node.inbound(), node.outbound(ConnectionKind::Manual));
    let blocks_alone = node.outbound(ConnectionKind::BlockRelay);
    let shown = |node: &Harness| {
        let of_peer = |info: crate::PeerInfo| {
            (info.said.relay, info.transactions.told_before, info.times.last_received)
        };
        node.peers.infos().into_iter().map(of_peer).collect::<Vec<_>>()
    };
    node.advance(Duration::from_secs(1));
    assert_eq!(shown(&node), [(false, 0, Duration::ZERO); 3]);
    let version = node.version();
    for id in [inbound, manual, blocks_alone] {
        node.says(id, Message::Version(Box::new(version.clone())));
    }
    let now = node.now.monotonic;
    assert_eq!(shown(&node), [(true, 1, now), (true, 1, now), (false, 0, now)]);
}

/// Block 1 is at height 1; `lowest` is the first height of which the block is here.
#[test]
fn blocks_are_promised_only_when_they_are_here() {
    let limited = Services::WITNESS | Services::NETWORK_LIMITED;
    for (services, lowest, promised) in [
        (limited, 0, limited),
        (limited, 113, limited),
        (limited, 114, Services::WITNESS),
        (limited, 401, Services::WITNESS),
        (FULL, 0, FULL),
        (FULL, 1, limited),
        (FULL, 114, Services::WITNESS),
    ] {
        let mut node = Harness::with_chain(PeersConfig { services, ..config() }, &chain(400, 60));
        node.index.prune_height = lowest;
        let id = node.outbound(ConnectionKind::OutboundFull);
        let [Sent::Message(Message::Version(version))] = &node.take(id)[..] else {
            panic!("hello")
        };
        assert_eq!((version.services, version.sender.services), (promised, promised), "{lowest}");
    }
}

#[test]
fn clocks_of_outbound_peers_say_whether_ours_is_right() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let tell = |node: &mut Harness, id, offset| {
        let hello = Version { timestamp: node.now.unix + offset, ..node.version() };
        node.greet_as(id, hello);
        node.peers.clock_offset()
    };
    for _ in 0..20 {
        let id = node.inbound();
        assert_eq!(tell(&mut node, id, 90_000), 0, "whoever connects to us chooses us");
    }
    for n in 1..=5 {
        let id = node.outbound(ConnectionKind::OutboundFull);
        assert_eq!(tell(&mut node, id, 1_000 + n), if n == 5 { 1_003 } else { 0 });
    }
    let before = node.now.unix;
    node.advance(Duration::from_secs(1));
    assert_eq!(node.now.unix, before + 1, "our clock stays what it is");
}

#[test]
fn an_inbound_connection_is_answered_and_not_asked_for_addresses() {
    let mut node = Harness::new(config());
    let id = node.inbound();
    node.pump();
    assert_eq!(node.take(id), [], "the one who connects begins");
    let hello = node.version();
    node.says(id, Message::Version(Box::new(hello)));
    use Command as C;
    assert_eq!(commands(node.take(id)), [C::VERSION, C::WTXIDRELAY, C::SENDADDRV2, C::VERACK]);
}

/// Version, what is sent before `verack`, what after.
#[test]
fn old_versions_get_only_what_they_know() {
    use Command as C;
    let matrix: [(i32, &[C], &[C]); 5] = [
        (31_800, &[C::VERACK, C::GETADDR], &[C::PING, C::GETHEADERS]),
        (60_001, &[C::VERACK, C::GETADDR], &[C::PING, C::GETHEADERS]),
        (70_013, &[C::VERACK, C::GETADDR], &[C::PING, C::GETHEADERS]),
        (70_015, &[C::VERACK, C::GETADDR], &[C::SENDCMPCT, C::PING, C::GETHEADERS]),
        (
            80_000,
            &[C::WTXIDRELAY, C::SENDADDRV2, C::VERACK, C::GETADDR],
            &[C::SENDCMPCT, C::PING, C::GETHEADERS],
        ),
    ];
    for (version, before, after) in matrix {
        let mut node = Harness::new(config());
        let id = node.outbound(ConnectionKind::OutboundFull);
        node.take(id);
        let hello = Version { version, ..node.version() };
        node.says(id, Message::Version(Box::new(hello)));
        assert_eq!(commands(node.take(id)), before, "{version}");
        node.says(id, Message::Verack);
        let sent = node.take(id);
        let nonce = sent.iter().any(|sent| matches!(sent, Sent::Message(Message::Ping(Some(_)))));
        assert_eq!(nonce, version > 60_000, "BIP31");
        assert_eq!(commands(sent), after, "{version}");
    }
}

#[test]
fn too_old_versions_and_too_few_services_are_left() {
    let cases = [
        (
            ConnectionKind::OutboundFull,
            31_799,
            FULL,
            Some(DisconnectReason::ObsoleteVersion(31_799)),
        ),
        (ConnectionKind::OutboundFull, -1, FULL, Some(DisconnectReason::ObsoleteVersion(-1))),
        (
            ConnectionKind::OutboundFull,
            70_016,
            Services::NETWORK,
            Some(DisconnectReason::MissingServices),
        ),
        (ConnectionKind::BlockRelay, 70_016, Services(8), Some(DisconnectReason::MissingServices)),
        (ConnectionKind::AddrFetch, 70_016, Services(0), Some(DisconnectReason::MissingServices)),
        (ConnectionKind::Manual, 70_016, Services(0), None),
        (ConnectionKind::Feeler, 70_016, Services(0), Some(DisconnectReason::FeelerDone)),
        (ConnectionKind::OutboundFull, 70_016, FULL, None),
        (ConnectionKind::OutboundFull, 31_800, FULL, None),
    ];
    for (kind, version, services, expected) in cases {
        let mut node = Harness::new(config());
        let id = node.outbound(kind);
        let hello = Version { version, services, ..node.version() };
        node.says(id, Message::Version(Box::new(hello)));
        assert_eq!(node.is_gone(id), expected, "{kind} {version} {services}");
        assert_eq!(node.discouraged(), 0, "no reason to discourage anybody");
    }
}

#[test]
fn a_pruned_peer_will_do_near_the_tip_only() {
    let pruned = Services::WITNESS | Services::NETWORK_LIMITED;
    for (age, expected) in [(143 * 600, None), (145 * 600, Some(DisconnectReason::MissingServices))]
    {
        let mut node = Harness::with_chain(config(), &chain(2, age));
        let id = node.outbound(ConnectionKind::OutboundFull);
        let hello = Version { services: pruned, ..node.version() };
        node.says(id, Message::Version(Box::new(hello)));
        assert_eq!(node.is_gone(id), expected);
    }
}

#[test]
fn nothing_counts_before_version_and_little_before_verack() {
    let mut node = Harness::new(config());
    let id = node.inbound();
    node.says(id, Message::Verack);
    node.says(id, Message::Ping(Some(1)));
    node.says(id, Message::GetAddr);
    assert_eq!(node.take(id), []);
    let hello = node.version();
    node.says(id, Message::Version(Box::new(hello)));
    node.take(id);
    node.says(id, Message::Ping(Some(1)));
    node.headers(id, &chain(1, 60));
    assert_eq!((node.take(id), node.index.headers()), (vec![], 1));
    node.says(id, Message::Verack);
    node.take(id);
    node.says(id, Message::Ping(Some(1)));
    assert_eq!(node.take(id), [Sent::Message(Message::Pong(1))]);
}

#[test]
fn a_second_version_or_verack_changes_nothing() {
    let mut node = Harness::new(config());
    let id = node.inbound_peer();
    node.take(id);
    let hello = Version { services: Services::NONE, version: 1, ..node.version() };
    node.says(id, Message::Version(Box::new(hello)));
    node.says(id, Message::Verack);
    assert_eq!((node.take(id), node.is_gone(id)), (vec![], None));
}

#[test]
fn negotiation_after_verack_ends_the_connection() {
    for (message, command) in
        [(Message::WtxidRelay, Command::WTXIDRELAY), (Message::SendAddrV2, Command::SENDADDRV2)]
    {
        let mut node = Harness::new(config());
        let id = node.inbound_peer();
        node.says(id, message);
        assert_eq!(node.is_gone(id), Some(DisconnectReason::NegotiatedTooLate(command)));
    }
    let mut node = Harness::new(config());
    let id = node.inbound_peer();
    node.says(id, Message::SendHeaders);
    node.says(id, Message::FeeFilter(1_000));
    assert_eq!(node.is_gone(id), None, "these belong after verack");
}

/// Seed 7714 of the runs with kills: on a flooded line each message took 34 s.
#[test]
fn b5_a_handshake_has_a_minute_for_each_step() {
    let mut node = Harness::new(config());
    let slow = node.inbound();
    node.advance(Duration::from_secs(59));
    let hello = node.version();
    node.says(slow, Message::Version(Box::new(hello)));
    node.advance(Duration::from_secs(60));
    assert_eq!(node.is_gone(slow), None);
    node.advance(Duration::from_secs(1));
    assert_eq!(node.is_gone(slow), Some(DisconnectReason::HandshakeTimeout));
}

#[test]
fn the_handshake_has_a_minute() {
    let mut node = Harness::new(config());
    let silent = node.inbound();
    let halfway = node.inbound();
    let done = node.inbound_peer();
    let hello = node.version();
    node.says(halfway, Message::Version(Box::new(hello)));
    node.advance(Duration::from_secs(60));
    assert_eq!(node.gone.len(), 0);
    node.advance(Duration::from_secs(1));
    for id in [silent, halfway] {
        assert_eq!(node.is_gone(id), Some(DisconnectReason::HandshakeTimeout));
    }
    assert_eq!(node.is_gone(done), None);
}

#[test]
fn b13_own_nonce_is_a_connection_to_ourselves_only_while_it_is_made() {
    let mut node = Harness::new(config());
    let out = node.outbound(ConnectionKind::OutboundFull);
    let ours = node.take_only(out, Command::VERSION);
    let [Message::Version(ours)] = &ours[..] else { panic!("{ours:?}") };
    let back = node.inbound();
    node.says(back, Message::Version(ours.clone()));
    assert_eq!(node.is_gone(back), Some(DisconnectReason::SelfConnection));
    assert_eq!(node.take(back), [], "no version for ourselves");
    // Later the other side knows our nonce: replayed, it must not keep anybody out.
    node.greet(out);
    let replay = node.inbound();
    node.says(replay, Message::Version(ours.clone()));
    assert_eq!(node.is_gone(replay), None);
    assert_eq!(node.discouraged(), 0);
}

#[test]
fn b13_hostile_version_fields_do_no_harm() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    for (timestamp, start_height) in [(i64::MIN, i32::MIN), (i64::MAX, i32::MAX), (-1, -1)] {
        let id = node.inbound();
        let user_agent = "/\u{1b}[31mevil\n\0<script>/".to_string();
        let hello = Version { timestamp, start_height, user_agent, ..node.version() };
        node.greet_as(id, hello);
        assert_eq!(node.is_gone(id), None);
        let user_agent = &node.peer_state(id).handshake.user_agent;
        assert_eq!(*user_agent, "/[31mevilscript/".replace('[', ""), "sanitised");
        // Their time is not ours: our next version still has the driver's clock.
        let next = node.outbound(ConnectionKind::Manual);
        let sent = node.take_only(next, Command::VERSION);
        let [Message::Version(sent)] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(sent.timestamp, node.now.unix);
    }
    // A user agent above 256 bytes makes the whole message void.
    let id = node.inbound();
    let hello = Version { user_agent: "x".repeat(257), ..node.version() };
    node.says(id, Message::Version(Box::new(hello)));
    assert_eq!((node.take(id), node.is_gone(id)), (vec![], None));
}

#[test]
fn pings_go_out_every_two_minutes_and_have_twenty_to_be_answered() {
    let mut node = Harness::new(config());
    node.answers_pings = false;
    let (good, silent) = (node.inbound_peer(), node.inbound_peer());
    let ping = |node: &mut Harness, id| match &node.take_only(id, Command::PING)[..] {
        [] => None,
        [Message::Ping(Some(nonce))] => Some(*nonce),
        other => panic!("{other:?}"),
    };
    let first = ping(&mut node, good).expect("at once");
    node.says(good, Message::Pong(first ^ 1));
    node.advance(Duration::from_secs(150));
    assert_eq!(ping(&mut node, good), None, "a wrong nonce is no answer");
    node.says(good, Message::Pong(first));
    let mut pings = 0;
    for _ in 0..130 {
        node.advance(Duration::from_secs(10));
        if let Some(nonce) = ping(&mut node, good) {
            node.says(good, Message::Pong(nonce));
            pings += 1;
        }
        // What else it says does not help.
        node.says(silent, Message::SendHeaders);
    }
    assert!((9..=11).contains(&pings), "{pings}");
    assert_eq!(node.is_gone(good), None);
    assert_eq!(node.is_gone(silent), Some(DisconnectReason::PingTimeout));
    let shortest = node.peer_state(good).ping.shortest;
    assert!(shortest.is_some_and(|ping| ping <= Duration::from_secs(150)));
}

#[test]
fn a_pong_that_is_too_short_ends_the_waiting() {
    let mut node = Harness::new(config());
    node.answers_pings = false;
    let id = node.inbound_peer();
    node.raw(id, Command::PONG, &[1, 2, 3]);
    node.take(id);
    node.advance(Duration::from_secs(121));
    assert_eq!(node.take_only(id, Command::PING).len(), 1);
}

#[test]
fn sendcmpct_with_a_forbidden_value_is_misbehaving() {
    let mut node = Harness::new(config());
    let id = node.inbound();
    node.raw(id, Command::SENDCMPCT, &[2, 2, 0, 0, 0, 0, 0, 0, 0]);
    node.greet(id);
    assert_eq!(node.is_gone(id), None, "before `version` it is ignored");
    node.raw(id, Command::SENDCMPCT, &[2, 2, 0, 0, 0, 0, 0, 0]);
    assert_eq!(node.is_gone(id), None, "so is one that is cut");
    node.raw(id, Command::SENDCMPCT, &[1, 9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(node.is_gone(id), None, "another version is ignored");
    node.raw(id, Command::SENDCMPCT, &[2, 2, 0, 0, 0, 0, 0, 0, 0]);
    let what = Misbehaviour::ForbiddenValue(Command::SENDCMPCT);
    assert_eq!(node.is_gone(id), Some(DisconnectReason::Misbehaved(what)));
}
