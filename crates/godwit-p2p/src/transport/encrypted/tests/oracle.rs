//! Against the `bip324` crate in both roles.

use bip324::{
    CipherSession, GarbageResult, Handshake as OracleHandshake, Initialized, PacketType, Role,
    VersionResult,
};

use super::*;

/// Splits a packet off the front: header and contents.
fn take_packet(cipher: &mut CipherSession, bytes: &mut Vec<u8>) -> (PacketType, Vec<u8>) {
    let (length, body) = bytes.split_first_chunk::<3>().expect("a packet");
    let length = cipher.inbound().decrypt_packet_len(*length);
    let (packet_type, mut contents) =
        cipher.inbound().decrypt_to_vec(&body[..length], None).expect("it is right");
    bytes.drain(..3 + length);
    contents.remove(0);
    (packet_type, contents)
}

/// A connection between the transport and the oracle.
fn connected(mut transport: Transport, role: Role, garbage: usize) -> (Transport, CipherSession) {
    let garbage = payload(garbage);
    let oracle = OracleHandshake::<Initialized>::new(MAGIC, role).expect("randomness");
    let mut start = vec![0; OracleHandshake::<Initialized>::send_key_len(Some(&garbage))];
    let oracle = oracle.send_key(Some(&garbage), &mut start).expect("room for it");
    receive_bytes(&mut transport, &start);
    let mut bytes = written(&mut transport);
    let key = *bytes.first_chunk().expect("a key");
    let oracle = oracle.receive_key(key).expect("a key");
    let decoys: &[&[u8]] = &[b"a decoy", b"", &[7; 1_000]];
    let mut version = vec![0; 100_000];
    let len = OracleHandshake::<bip324::ReceivedKey>::send_version_len(Some(decoys));
    let oracle = oracle.send_version(&mut version, Some(decoys)).expect("room for it");
    assert_eq!(receive_bytes(&mut transport, &version[..len]), [""; 0]);
    bytes.extend(written(&mut transport));
    let bytes = bytes.split_off(64);
    let GarbageResult::FoundGarbage { mut handshake, consumed_bytes } =
        oracle.receive_garbage(&bytes).expect("no error")
    else {
        panic!("the terminator is missing")
    };
    let mut rest = bytes[consumed_bytes..].to_vec();
    let (length, body) = rest.split_first_chunk_mut().expect("a packet");
    let length = handshake.decrypt_packet_len(*length).expect("a length");
    assert_eq!(length, body.len(), "the version packet is all that follows");
    let VersionResult::Complete { cipher } = handshake.receive_version(body).expect("no error")
    else {
        panic!("we send no decoys")
    };
    (transport, cipher)
}

fn check(transport: Transport, role: Role, garbage: usize) {
    let (mut transport, mut cipher) = connected(transport, role, garbage);
    assert_eq!(transport.protocol(), Protocol::V2 { session_id: *cipher.id() });
    for n in 0..500usize {
        let payload = payload(n * 97 % 1_000);
        send(&mut transport, Command::PING, &payload);
        send(&mut transport, Command::VERSION, &payload);
        let mut bytes = written(&mut transport);
        let (packet_type, contents) = take_packet(&mut cipher, &mut bytes);
        assert_eq!(packet_type, PacketType::Genuine);
        assert_eq!(contents, [&[18][..], &payload].concat(), "message {n}");
        let (_, contents) = take_packet(&mut cipher, &mut bytes);
        assert_eq!(contents, long_name(Command::VERSION, &payload));
        assert!(bytes.is_empty());
        let contents = [&[19][..], &payload].concat();
        let mut bytes = cipher.outbound().encrypt_to_vec(&contents, PacketType::Genuine, None);
        bytes.extend(cipher.outbound().encrypt_to_vec(&contents, PacketType::Decoy, None));
        let seen = receive_bytes(&mut transport, &bytes);
        assert_eq!(seen, [named(Command::PONG, &payload)], "message {n}");
    }
}

#[test]
fn we_call_and_the_oracle_answers() {
    for garbage in [0, 1, 4_095] {
        check(initiator(garbage), Role::Responder, 4_095 - garbage);
    }
}

#[test]
fn the_oracle_calls_and_we_answer() {
    for garbage in [0, 1, 4_095] {
        check(responder(garbage), Role::Initiator, 4_095 - garbage);
    }
}
