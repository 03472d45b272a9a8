use proptest::prelude::*;

use super::*;
use crate::MAX_PAYLOAD;
use crate::v2::{IGNORE, MAX_GARBAGE};

const PING: Command = Command::PING;

#[test]
fn b16_whatever_is_changed_on_the_way_ends_the_connection_and_is_never_seen() {
    for place in 0..packet_size(1 + 40) {
        let mut transport = initiator(0);
        let mut hand = Hand::answered(&mut transport);
        let mut bytes = hand.message(PING, &payload(40));
        bytes[place] ^= 0x10;
        bytes.extend(hand.packet(IGNORE, &payload(1 << 21)));
        let seen = receive_bytes(&mut transport, &bytes);
        assert_eq!(seen, ["packet decryption failure"], "{place}");
    }
}

#[test]
fn b16_decoys_are_passed_over_whatever_they_hold_and_never_kept() {
    let mut transport = responder(0);
    let handshake = Handshake::new(key(9), [9; 32], true, MAGIC).expect("locked memory");
    receive_bytes(&mut transport, handshake.public_key());
    let answer = written(&mut transport);
    let session = handshake.agree(answer.first_chunk().expect("a key"));
    let mut hand = Hand { session, additional: Vec::new() };
    let mut bytes = hand.session.send_terminator().to_vec();
    for len in [0, 1, 15, 16, 17, 100_000] {
        bytes.extend(hand.packet(IGNORE, &payload(len)));
    }
    assert_eq!(receive_bytes(&mut transport, &bytes), [""; 0]);
    assert_eq!(transport.protocol(), Protocol::Detecting, "no version packet has come");
    receive_bytes(&mut transport, &hand.packet(0, &[]));
    assert!(matches!(transport.protocol(), Protocol::V2 { .. }));
    // Of the size that the largest message has.
    let mut largest = vec![2; 13 + MAX_PAYLOAD as usize];
    let decoy = hand.packet(IGNORE | 1, &largest);
    assert_eq!(receive_bytes(&mut transport, &decoy[..decoy.len() - 1]), [""; 0]);
    assert_eq!((transport.buffered_bytes(), transport.incoming()), (0, None));
    receive_bytes(&mut transport, &decoy[decoy.len() - 1..]);
    let ping = hand.message(PING, &payload(8));
    assert_eq!(receive_bytes(&mut transport, &ping), [named(PING, &payload(8))]);
    largest.push(2);
    let decoy = hand.packet(IGNORE, &largest);
    let expected = ["packet of 4000014 bytes is too large"];
    assert_eq!(receive_bytes(&mut transport, &decoy), expected);
}

/// A flood of the shortest packets, which are dropped as they come, leaves a turn as soon as one of
/// messages.
#[test]
fn b16_decoys_are_charged_by_number_and_a_budget_bounds_them() {
    const COST: usize = packet_size(0) + PACKET_COST;
    for (budget, decoys) in
        [(1, 0), (19, 0), (20, 1), (COST, 1), (COST + 19, 1), (COST + 20, 2), (50 * COST, 50)]
    {
        let mut transport = initiator(0);
        let mut hand = Hand::answered(&mut transport);
        let packets: Vec<u8> = (0..100).flat_map(|_| hand.packet(IGNORE, &[])).collect();
        let before = (transport.total_received(), transport.total_cost());
        let mut source = Source::one(&packets);
        let end = transport.receive(&mut source, &BLOCK, budget);
        assert!(matches!(end, Ok(Receive::BudgetUsed)), "{end:?}");
        let bytes = (transport.total_received() - before.0) as usize;
        let cost = (transport.total_cost() - before.1) as usize;
        assert_eq!((bytes / packet_size(0), cost), (decoys, bytes + decoys * PACKET_COST));
        assert!(bytes <= budget, "{bytes} of {budget}");
        // All of them, and not one too many.
        let rest = COST * (100 - decoys) - bytes % packet_size(0);
        let end = transport.receive(&mut source, &BLOCK, rest);
        assert!(matches!(end, Ok(Receive::BudgetUsed)), "{end:?}");
        assert_eq!(transport.total_received() - before.0, packets.len() as u64);
        assert!(matches!(transport.receive(&mut source, &BLOCK, 1), Ok(Receive::Pending)));
    }
}

#[test]
fn messages_are_charged_by_number_too() {
    let mut transport = initiator(0);
    let mut hand = Hand::answered(&mut transport);
    let contents = hand.message(PING, &payload(8));
    let before = transport.total_cost();
    assert_eq!(receive_bytes(&mut transport, &contents), [named(PING, &payload(8))]);
    assert_eq!(transport.total_cost() - before, (contents.len() + PACKET_COST) as u64);
}

#[test]
fn limits_are_those_of_the_plain_protocol_and_seen_once_the_packet_is_proven() {
    let limits = [(PING, 1_024), (Command::HEADERS, 162_003), (Command::BLOCK, 4_000_000)];
    for (command, limit) in limits {
        let mut transport = initiator(0);
        let mut hand = Hand::answered(&mut transport);
        let most = payload(limit);
        let bytes = hand.packet(0, &long_name(command, &most));
        assert_eq!(receive_bytes(&mut transport, &bytes), [named(command, &most)]);
        let bytes = hand.message(command, &payload(limit + 1));
        let (last, before) = bytes.split_last().expect("a packet");
        assert_eq!(receive_bytes(&mut transport, before), [""; 0], "nothing is proven");
        assert_eq!(transport.buffered_bytes(), 0);
        let why = format!("{command} message of {} bytes is too large", limit + 1);
        assert_eq!(receive_bytes(&mut transport, &[*last]), [why]);
    }
    let mut transport = initiator(0);
    let mut hand = Hand::answered(&mut transport);
    let bytes = hand.packet(0, &long_name(Command::BLOCK, &payload(4_000_001)));
    assert_eq!(receive_bytes(&mut transport, &bytes), ["packet of 4000014 bytes is too large"]);
}

#[test]
fn b9_memory_grows_with_received_bytes_only() {
    for (command, length) in [("block", 4_000_000), ("headers", 162_003), ("inv", 1_800_003)] {
        let command = Command::new(command);
        let mut transport = initiator(0);
        let mut hand = Hand::answered(&mut transport);
        let bytes = hand.message(command, &payload(length));
        let mut sent = 20;
        assert_eq!(receive_bytes(&mut transport, &bytes[..sent]), [""; 0]);
        for step in [1, 1, 60_000, 5_534, 1, 30_000, 100_000, 500_000, 900_000] {
            let step = step.min(bytes.len() - 1 - sent);
            receive_bytes(&mut transport, &bytes[sent..sent + step]);
            sent += step;
            let held = transport.buffered_bytes();
            let bound = (64 * 1024).max(2 * sent);
            assert!(held + 21 >= sent && held <= bound, "{command}: {held} held for {sent}");
            let received = (sent - 5).min(length);
            assert_eq!(transport.incoming(), Some((command, received, length)));
        }
        let last = receive_bytes(&mut transport, &bytes[sent..]);
        assert_eq!(last, [named(command, &payload(length))]);
        assert_eq!((transport.buffered_bytes(), transport.incoming()), (0, None));
    }
}

#[test]
fn b9_what_is_dropped_is_never_kept_and_still_proven() {
    for (command, why) in [
        (Command::BLOCK, "block 3000000 UnexpectedBlock"),
        (Command::TX, "tx 3000000 Unknown"),
        (Command::new("feature"), "feature 3000000 Unknown"),
        (Command::from_bytes([7; 12]), " 3000000 InvalidCommand"),
    ] {
        for changed in [0, 1] {
            let mut transport = initiator(0);
            let mut hand = Hand::answered(&mut transport);
            let mut bytes = hand.message(command, &payload(3_000_000));
            bytes[1_000_000] ^= changed;
            let (last, before) = bytes.split_last().expect("a packet");
            let before = &mut Source::one(before);
            assert_eq!(receive(&mut transport, before, &NO_BLOCK), [""; 0]);
            assert_eq!(transport.buffered_bytes(), 0, "{command:?}");
            let seen = receive(&mut transport, &mut Source::one(&[*last]), &NO_BLOCK);
            assert_eq!(seen, [if changed == 0 { why } else { "packet decryption failure" }]);
        }
    }
}

#[test]
fn a_block_that_was_not_asked_for_is_named_by_its_header() {
    for (length, named) in [(79, false), (80, true), (900, true)] {
        let payload = payload(length);
        let hash = named.then(|| BlockHash::from_bytes(sha256d(&payload[..80])));
        for step in [1, 7, 2_000] {
            let mut transport = initiator(0);
            let bytes = Hand::answered(&mut transport).message(Command::BLOCK, &payload);
            let mut source = Source(bytes.chunks(step).map(<[u8]>::to_vec).collect());
            let end = transport.receive(&mut source, &NO_BLOCK, ALL);
            let Ok(Receive::Discarded(Discard { block, .. })) = end else { panic!("{end:?}") };
            assert_eq!(block, hash, "{length}");
        }
    }
}

#[test]
fn messages_without_a_name_are_dropped() {
    let mut transport = initiator(0);
    let mut hand = Hand::answered(&mut transport);
    let contents = [vec![], vec![29], vec![38, 1, 2], vec![255; 50], vec![0; 12]];
    let bytes: Vec<u8> = contents.iter().flat_map(|contents| hand.packet(0, contents)).collect();
    let expected = [0, 1, 3, 50, 12].map(|len| format!(" {len} InvalidCommand"));
    assert_eq!(receive_bytes(&mut transport, &bytes), expected);
    // Without a byte behind it the name is empty, and valid as in Core.
    let bytes = hand.packet(0, &[0; 13]);
    assert_eq!(receive_bytes(&mut transport, &bytes), [" 0 Unknown"]);
}

/// 223, 224 and 225 packets before, between and behind those in the other direction.
#[test]
fn keys_change_at_the_same_packet_on_both_sides() {
    for count in [222, 223, 224, 225, 447, 448, 449] {
        let (mut ours, mut theirs) = (initiator(3), responder(7));
        exchange(&mut ours, &mut theirs);
        // The version packet was the first.
        let numbers: Vec<usize> = (1..count).collect();
        for n in &numbers {
            send(&mut ours, PING, &payload(*n));
        }
        let expected: Vec<String> = numbers.iter().map(|n| named(PING, &payload(*n))).collect();
        let [_, at_theirs] = exchange(&mut ours, &mut theirs);
        assert_eq!(at_theirs, expected);
        send(&mut theirs, Command::PONG, b"answer");
        send(&mut ours, PING, b"last");
        let [at_ours, at_theirs] = exchange(&mut ours, &mut theirs);
        assert_eq!(at_ours, [named(Command::PONG, b"answer")], "{count}");
        assert_eq!(at_theirs, [named(PING, b"last")], "{count}");
    }
}

#[test]
fn blocks_are_decrypted_where_they_were_received() {
    let pool = pool();
    let mut transport =
        Transport::new_v2_initiator(MAGIC, pool.clone(), secrets(1, 0)).expect("locked memory");
    let mut hand = Hand::answered(&mut transport);
    let mut memory = None;
    for size in [1_000_000, 900_000] {
        let bytes = hand.message(Command::BLOCK, &payload(size));
        let mut source = Source::cut(&bytes, &[16 << 10]);
        let Ok(Receive::Frame(frame)) = transport.receive(&mut source, &BLOCK, ALL) else {
            panic!("a whole block was sent");
        };
        assert_eq!((frame.command, frame.payload.len()), (Command::BLOCK, size));
        assert!(frame.payload.as_slice() == payload(size), "nothing before or behind it");
        let at = frame.payload.as_slice().as_ptr();
        assert!(memory.is_none_or(|memory| memory == at), "reused and not copied");
        memory = Some(at);
        drop(frame);
        assert_eq!(pool.idle().0, 1);
    }
}

#[test]
fn what_is_sent_is_encrypted_where_it_lies() {
    let (mut ours, mut theirs) = (initiator(0), responder(0));
    exchange(&mut ours, &mut theirs);
    // The header of a record in a block file: read before, not sent.
    let mut stream = DataStream::from(&b"12345678"[..]);
    stream.skip(8).expect("8 bytes");
    stream.write(&payload(100_000));
    ours.send(Command::BLOCK, stream.into());
    assert_eq!(ours.queued_bytes(), packet_size(1 + 100_000));
    let [_, at_theirs] = exchange(&mut ours, &mut theirs);
    assert_eq!(at_theirs, [named(Command::BLOCK, &payload(100_000))]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>, size in 1..100usize, initiates: bool) {
        let mut transport = if initiates { initiator(0) } else { responder(0) };
        let bytes = [&[7; 64][..], &bytes].concat();
        receive(&mut transport, &mut Source::cut(&bytes, &[size]), &BLOCK);
    }

    #[test]
    fn what_one_side_writes_the_other_reads(
        messages in prop::collection::vec((0..5usize, 0..2_000usize), 0..30),
        garbage in 0..=MAX_GARBAGE,
        sizes in prop::collection::vec(1..3_000usize, 1..50),
        budget in 1..5_000usize,
    ) {
        let (mut ours, mut theirs) = (initiator(garbage), responder(MAX_GARBAGE - garbage));
        let mut expected = Vec::new();
        for (kind, len) in messages {
            let (command, len) = match kind {
                0 => (Command::BLOCK, 40 * len),
                1 => (Command::VERACK, len % 10),
                2 => (PING, len % 1_000),
                3 => (Command::INV, len),
                _ => (Command::TX, len),
            };
            send(&mut ours, command, &payload(len));
            expected.push(match command {
                Command::TX => format!("tx {len} Unknown"),
                _ => named(command, &payload(len)),
            });
        }
        let mut seen = Vec::new();
        loop {
            let (there, back) = (written(&mut ours), written(&mut theirs));
            if there.is_empty() && back.is_empty() {
                break;
            }
            let (mut there, mut back) = (Source::cut(&there, &sizes), Source::cut(&back, &sizes));
            seen.extend(receive_within(&mut theirs, &mut there, &BLOCK, budget));
            prop_assert!(receive_within(&mut ours, &mut back, &BLOCK, budget).is_empty());
        }
        prop_assert_eq!(seen, expected);
    }
}
