//! Packets of the v2 transport compared with the test vectors of BIP324.

use std::fs;

use godwit_secret::SecretArray;
use godwit_testdata::{package_source, shared_file, skip};
use secp256k1::PublicKey;
use secp256k1::ellswift::ElligatorSwift;

use super::handshake::Handshake;
use super::{EXPANSION, IGNORE, LENGTH_SIZE, Session};

/// The vectors are mainnet's.
const MAGIC: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];

/// One packet, as the BIP describes it.
struct Vector {
    index: u32,
    key: Vec<u8>,
    ours: [u8; 64],
    theirs: [u8; 64],
    initiator: bool,
    contents: Vec<u8>,
    additional: Vec<u8>,
    ignore: bool,
    send_terminator: Vec<u8>,
    receive_terminator: Vec<u8>,
    session_id: Vec<u8>,
    packet: Vec<u8>,
    packet_end: Vec<u8>,
}

fn bytes(text: &str) -> Vec<u8> {
    hex::decode(text).expect("hex digits")
}

fn key_bytes(text: &str) -> [u8; 64] {
    bytes(text).try_into().expect("64 bytes")
}

impl Vector {
    /// From the fields in the order of the BIP, without those that are computed on the way.
    fn new(fields: [&str; 14]) -> Self {
        let is = |text: &str| matches!(text, "1" | "true");
        let times = fields[6].parse().expect("a number");
        Self {
            index: fields[0].parse().expect("a number"),
            key: bytes(fields[1]),
            ours: key_bytes(fields[2]),
            theirs: key_bytes(fields[3]),
            initiator: is(fields[4]),
            contents: bytes(fields[5]).repeat(times),
            additional: bytes(fields[7]),
            ignore: is(fields[8]),
            send_terminator: bytes(fields[9]),
            receive_terminator: bytes(fields[10]),
            session_id: bytes(fields[11]),
            packet: bytes(fields[12]),
            packet_end: bytes(fields[13]),
        }
    }

    fn session(&self, initiator: bool) -> Session {
        let mut key = self.key.clone().try_into().expect("32 bytes");
        let key = SecretArray::from_plain_and_wipe(&mut key).expect("locked memory");
        Handshake::with_public_key(key, self.ours, initiator, MAGIC)
            .expect("locked memory")
            .agree(&self.theirs)
    }

    /// What receives the packets that [`session`](Self::session) sends.
    fn opposite(&self, initiator: bool) -> Session {
        let ours = self.session(initiator);
        let receive_packet = ours.send_packet.into_opener();
        Session { receive_length: ours.send_length, receive_packet, ..self.session(initiator) }
    }

    /// What is sent up to the vector's packet, and it.
    fn sealed(&self, session: &mut Session) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut seal = |contents: &[u8], additional: &[u8], ignore| {
            let mut head = [0, 0, 0, if ignore { IGNORE } else { 0 }];
            let mut contents = contents.to_vec();
            let tag = session.seal(&mut head, &mut contents, additional);
            [&head[..], &contents, &tag].concat()
        };
        let before = (0..self.index).map(|_| seal(&[], &[], true)).collect();
        (before, seal(&self.contents, &self.additional, self.ignore))
    }

    fn check(&self) {
        let mut session = self.session(self.initiator);
        assert_eq!(session.session_id(), self.session_id.as_slice());
        assert_eq!(session.send_terminator(), self.send_terminator.as_slice());
        assert_eq!(session.receive_terminator(), self.receive_terminator.as_slice());
        let (before, packet) = self.sealed(&mut session);
        assert!(self.packet.is_empty() || packet == self.packet);
        assert!(packet.ends_with(&self.packet_end));
        let opened = self.open(self.initiator, &before, packet.clone(), &self.additional);
        let header = if self.ignore { IGNORE } else { 0 };
        assert_eq!(opened, Some([&[header], &self.contents[..]].concat()));
        for place in [0, 2, 3, 4, packet.len() - 1, packet.len() / 2] {
            let mut wrong = packet.clone();
            wrong[place] ^= 1 << (self.index % 8);
            assert_eq!(self.open(self.initiator, &before, wrong, &self.additional), None);
        }
        assert_eq!(self.open(!self.initiator, &before, packet.clone(), &self.additional), None);
        let more = [&self.additional[..], &[0]].concat();
        assert_eq!(self.open(self.initiator, &before, packet.clone(), &more), None);
        if let Some((_, fewer)) = before.split_last() {
            assert_eq!(self.open(self.initiator, fewer, packet, &self.additional), None);
        }
    }

    /// Header and contents of the packet; `None` when it is found to be wrong.
    fn open(
        &self,
        initiator: bool,
        before: &[Vec<u8>],
        packet: Vec<u8>,
        additional: &[u8],
    ) -> Option<Vec<u8>> {
        let mut session = self.opposite(initiator);
        for packet in before {
            open(&mut session, packet.clone(), &[]);
        }
        open(&mut session, packet, additional)
    }
}

fn open(session: &mut Session, mut packet: Vec<u8>, additional: &[u8]) -> Option<Vec<u8>> {
    let (length, body) = packet.split_first_chunk_mut::<LENGTH_SIZE>().expect("a packet");
    let length = session.open_length(*length);
    // A wrong length is not looked at by what opens the rest.
    let whole = length + EXPANSION == LENGTH_SIZE + body.len();
    let (body, tag) = body.split_last_chunk_mut().expect("a packet");
    session.open_first(body, additional);
    let right = session.finish(tag);
    (right && whole).then(|| body.to_vec())
}

/// The calls of Core's test, which it says were made from the BIP's table.
#[test]
fn packets_are_those_of_core_s_test() {
    let Some(source) = package_source("libbitcoinkernel-sys") else {
        return skip("cargo has not unpacked Bitcoin Core's source");
    };
    let test = fs::read_to_string(source.join("bitcoin/src/test/bip324_tests.cpp"));
    let test = test.expect("the test is text");
    let mut calls = test.split("    TestBIP324PacketVector(\n").skip(1);
    let mut count = 0;
    for call in calls.by_ref() {
        let (arguments, _) = call.split_once(");").expect("the end of a call");
        let fields: Vec<&str> =
            arguments.split(',').map(|field| field.trim().trim_matches('"')).collect();
        Vector::new(fields.try_into().expect("14 arguments")).check();
        count += 1;
    }
    assert!(count >= 7, "{count} calls");
}

#[test]
fn packets_are_those_of_the_bip() {
    let Some(file) = shared_file("vectors/crypto/bip324_packet_encoding_test_vectors.csv") else {
        return;
    };
    let lines = table(&file);
    assert!(lines.len() >= 7);
    for fields in lines {
        let computed_on_the_way = 9..17;
        let fields: Vec<&str> = fields
            .iter()
            .enumerate()
            .filter(|(column, _)| !computed_on_the_way.contains(column))
            .map(|(_, field)| field.as_str())
            .collect();
        Vector::new(fields.try_into().expect("14 columns")).check();
    }
}

fn table(file: &[u8]) -> Vec<Vec<String>> {
    let text = std::str::from_utf8(file).expect("text");
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn decoded_x(encoded: [u8; 64]) -> Vec<u8> {
    let public = PublicKey::from_ellswift(ElligatorSwift::from_array(encoded));
    public.x_only_public_key().0.serialize().to_vec()
}

#[test]
fn public_keys_are_decoded_as_the_bip_says() {
    let Some(file) = shared_file("vectors/crypto/bip324_ellswift_decode_test_vectors.csv") else {
        return;
    };
    let lines = table(&file);
    assert!(lines.len() > 50);
    for fields in lines {
        assert_eq!(decoded_x(key_bytes(&fields[0])), bytes(&fields[1]), "{}", fields[2]);
    }
}

/// Every second half that the BIP finds for a first half and a point leads back to the point.
#[test]
fn encodings_of_the_bip_lead_back_to_their_point() {
    let Some(file) = shared_file("vectors/crypto/bip324_xswiftec_inv_test_vectors.csv") else {
        return;
    };
    let mut count = 0;
    for fields in table(&file) {
        for second in fields[2..10].iter().filter(|second| !second.is_empty()) {
            let encoded = key_bytes(&format!("{}{second}", fields[0]));
            assert_eq!(decoded_x(encoded), bytes(&fields[1]), "{}", fields[10]);
            count += 1;
        }
    }
    assert!(count > 50, "{count} encodings");
}
