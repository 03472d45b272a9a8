use super::*;
use crate::v2::{EXPANSION, IGNORE, MAX_GARBAGE, PUBLIC_KEY_SIZE, TERMINATOR_SIZE, V2Error};

fn plain_version() -> Vec<u8> {
    let mut plain = Transport::new_v1(MAGIC, pool());
    send(&mut plain, Command::VERSION, &payload(86));
    written(&mut plain)
}

#[test]
fn two_sides_agree_and_messages_cross() {
    let (mut ours, mut theirs) = (initiator(30), responder(0));
    send(&mut ours, Command::VERSION, &payload(86));
    send(&mut ours, Command::PING, &payload(8));
    send(&mut theirs, Command::BLOCK, &payload(300_000));
    assert_eq!(ours.queued_bytes(), 64 + 30 + 24 + 86 + 24 + 8);
    assert_eq!((ours.protocol(), theirs.protocol()), (Protocol::Detecting, Protocol::Detecting));
    let [at_ours, at_theirs] = exchange(&mut ours, &mut theirs);
    assert_eq!(at_ours, [named(Command::BLOCK, &payload(300_000))]);
    let expected = [named(Command::VERSION, &payload(86)), named(Command::PING, &payload(8))];
    assert_eq!(at_theirs, expected);
    let Protocol::V2 { session_id } = ours.protocol() else { panic!("{}", ours.protocol()) };
    assert_eq!(theirs.protocol(), Protocol::V2 { session_id });
    assert_eq!((ours.queued_bytes(), theirs.queued_bytes()), (0, 0));
    assert_eq!(ours.total_sent(), theirs.total_received());
    let sent = 64 + 30 + 16 + 20 + packet_size(13 + 86) + packet_size(1 + 8);
    assert_eq!(ours.total_sent(), sent as u64);
    assert_eq!(ours.total_sent_plain(), 24 + 86 + 24 + 8, "as whoever queued them counts");
}

#[test]
fn b16_every_length_of_garbage_up_to_4095_is_passed_over() {
    for len in [0, 1, 15, 16, 17, 19, 20, 21, 35, 36, 37, 4_094, 4_095] {
        let (mut ours, mut theirs) = (initiator(len), responder(4_095 - len));
        let [at_ours, at_theirs] = exchange(&mut ours, &mut theirs);
        assert!(at_ours.is_empty() && at_theirs.is_empty());
        assert!(matches!(ours.protocol(), Protocol::V2 { .. }), "{len}");
        assert!(matches!(theirs.protocol(), Protocol::V2 { .. }), "{len}");
        assert_eq!((ours.buffered_bytes(), theirs.buffered_bytes()), (0, 0));
    }
    for make in [Transport::new_v2_initiator, Transport::new_v2_responder] {
        let made = make(MAGIC, pool(), secrets(1, MAX_GARBAGE + 1));
        assert!(matches!(made, Err(V2Error::Garbage)));
    }
}

#[test]
fn b16_garbage_of_4096_bytes_and_a_wrong_terminator_end_the_connection() {
    for (len, wrong, ends) in [(4_095, 0, false), (4_096, 0, true), (0, 1, true), (4_095, 1, true)]
    {
        let mut transport = initiator(0);
        let garbage = payload(len);
        let (mut hand, mut bytes) = Hand::answering(&mut transport, &garbage);
        let mut terminator = *hand.session.send_terminator();
        terminator[15] ^= wrong;
        bytes.extend_from_slice(&terminator);
        bytes.extend(hand.packet(0, &[]));
        bytes.extend(hand.packet(IGNORE, &payload(5_000)));
        let seen = receive_bytes(&mut transport, &bytes);
        let expected: &[&str] = if ends { &["missing garbage terminator"] } else { &[] };
        assert_eq!(seen, expected, "{len} {wrong}");
        let most = (PUBLIC_KEY_SIZE + MAX_GARBAGE + TERMINATOR_SIZE + EXPANSION) as u64;
        assert!(!ends || transport.total_received() <= most);
    }
}

/// Also where the garbage looks like the terminator's beginning.
#[test]
fn b16_the_terminator_is_found_however_it_arrives() {
    for begun in 0..TERMINATOR_SIZE {
        for size in [1, 2, 7, 16, 35, 36, 1_000] {
            let mut transport = initiator(0);
            let (mut hand, mut bytes) = Hand::answering(&mut transport, &[]);
            let terminator = *hand.session.send_terminator();
            hand.additional = terminator[..begun].repeat(3);
            bytes.extend_from_slice(&hand.additional);
            bytes.extend_from_slice(&terminator);
            bytes.extend(hand.packet(0, &[]));
            let seen = receive(&mut transport, &mut Source::cut(&bytes, &[size]), &BLOCK);
            assert_eq!(seen, [""; 0], "{begun} {size}");
            assert!(matches!(transport.protocol(), Protocol::V2 { .. }), "{begun} {size}");
        }
    }
}

#[test]
fn b16_garbage_without_an_end_is_kept_no_longer_than_it_may_be() {
    let mut transport = initiator(0);
    let (_, start) = Hand::answering(&mut transport, &[]);
    receive_bytes(&mut transport, &start);
    for sent in 1..MAX_GARBAGE + TERMINATOR_SIZE {
        assert_eq!(receive_bytes(&mut transport, &[7]), [""; 0], "{sent}");
        assert!(transport.buffered_bytes() <= (2 * sent).max(64));
    }
    assert_eq!(receive_bytes(&mut transport, &[7]), ["missing garbage terminator"]);
}

#[test]
fn b16_the_first_packet_authenticates_the_garbage_even_if_it_is_a_decoy() {
    for (header, changed) in [(0, false), (0, true), (IGNORE, false), (IGNORE, true)] {
        let mut transport = initiator(0);
        let (mut hand, mut bytes) = Hand::answering(&mut transport, &payload(50));
        bytes[64 + 20] ^= u8::from(changed);
        bytes.extend_from_slice(hand.session.send_terminator());
        bytes.extend(hand.packet(header, b"something"));
        bytes.extend(hand.packet(0, b"a version packet of the future"));
        bytes.extend(hand.message(Command::PING, &payload(8)));
        let ping = named(Command::PING, &payload(8));
        let expected = match (changed, header) {
            (true, _) => vec!["packet decryption failure".to_owned()],
            // Else what was meant for the version packet is the first message: without a name.
            (false, 0) => vec![" 30 InvalidCommand".to_owned(), ping],
            (false, _) => vec![ping],
        };
        // `a` is no name that means anything.
        assert_eq!(receive_bytes(&mut transport, &bytes), expected, "{header} {changed}");
    }
}

#[test]
fn b16_plain_peers_that_connect_are_found_by_their_first_sixteen_bytes() {
    let bytes = plain_version();
    for size in [1, 3, 15, 16, 17, 24, 1_000] {
        let mut transport = responder(10);
        send(&mut transport, Command::VERACK, &[]);
        let seen = receive(&mut transport, &mut Source::cut(&bytes, &[size]), &BLOCK);
        assert_eq!(seen, [named(Command::VERSION, &payload(86))], "{size}");
        assert_eq!(transport.protocol(), Protocol::V1);
        let mut plain = Transport::new_v1(MAGIC, pool());
        assert_eq!(
            receive_bytes(&mut plain, &written(&mut transport)),
            [named(Command::VERACK, &[])]
        );
    }
}

#[test]
fn b16_nothing_is_said_before_the_peer_s_protocol_is_known() {
    let bytes = plain_version();
    for matching in 0..16 {
        let mut transport = responder(10);
        send(&mut transport, Command::VERACK, &[]);
        assert_eq!(receive_bytes(&mut transport, &bytes[..matching]), [""; 0]);
        assert_eq!((written(&mut transport).len(), transport.protocol()), (0, Protocol::Detecting));
        assert_eq!(receive_bytes(&mut transport, &[!bytes[matching]]), [""; 0]);
        assert!(transport.wants_write());
        assert_eq!(written(&mut transport).len(), 64 + 10, "{matching}");
        assert!(!transport.wants_write());
        assert_eq!(transport.queued_bytes(), 24, "the message waits for the key");
    }
}

#[test]
fn b16_a_plain_peer_of_another_network_is_told_from_a_key() {
    let mut bytes = plain_version();
    bytes[3] ^= 1;
    let mut transport = responder(0);
    assert_eq!(receive_bytes(&mut transport, &bytes), ["wrong network magic fabfb5db"]);
    // A key may look like that on a connection that we opened.
    let mut transport = initiator(0);
    assert_eq!(receive_bytes(&mut transport, &bytes[..63]), [""; 0]);
}

#[test]
fn a_connection_is_tried_again_in_plain_only_if_the_peer_took_it_for_nonsense() {
    let connection = |taken: usize, answered: &[u8]| {
        let mut transport = initiator(5);
        send(&mut transport, Command::VERSION, &payload(86));
        let mut sink = Vec::new();
        transport.write(&mut sink, taken).expect("a vector takes it");
        receive_bytes(&mut transport, answered);
        transport
    };
    assert!(connection(24, &[]).looks_refused() && !connection(23, &[]).looks_refused());
    let mut plain = connection(24, &[]).fall_back().expect("it looks refused");
    assert_eq!(written(&mut plain), plain_version(), "what waited is sent in plain");
    assert_eq!(plain.protocol(), Protocol::V1);
    assert!(plain.fall_back().is_none());
    assert!(connection(69, &[]).fall_back().is_some());
    assert!(connection(23, &[]).fall_back().is_none(), "too little to be taken for nonsense");
    assert!(connection(69, &[1]).fall_back().is_none(), "it answered");
    let (mut ours, mut theirs) = (initiator(0), responder(0));
    exchange(&mut ours, &mut theirs);
    assert!(ours.fall_back().is_none() && theirs.fall_back().is_none());
    assert!(responder(0).fall_back().is_none(), "it is not ours");
}

#[test]
fn b16_a_changed_key_ends_in_garbage_without_end() {
    let (mut ours, mut theirs) = (initiator(0), responder(4_000));
    let mut there = written(&mut ours);
    there[40] ^= 1;
    receive_bytes(&mut theirs, &there);
    send(&mut theirs, Command::VERSION, &payload(200));
    let seen = receive_bytes(&mut ours, &written(&mut theirs));
    assert_eq!(seen, ["missing garbage terminator"]);
    assert_eq!(ours.protocol(), Protocol::Detecting);
}
