//! A peer that has the keys, and sends packets with whatever contents: decoys are passed over, names
//! are read as BIP324 says, and what is not acceptable is dropped. The `bip324` crate is the peer.

use bip324::{
    CipherSession, FillBytes, GarbageResult, Handshake, Initialized, PacketType, ReceivedKey, Role,
    VersionResult,
};
use godwit_p2p::{Command, Discard, DiscardReason, Protocol, ReceiveLimits, Transport};
use secp256k1::Secp256k1;

use crate::input::Input;
use crate::source::Pieces;
use crate::transport::{ALL, MAGIC, Seen, expected, limits, pool, receive, secrets, written};

/// BIP324's table of one-byte names, from 1 on.
const SHORT_IDS: [&str; 28] = [
    "addr",
    "block",
    "blocktxn",
    "cmpctblock",
    "feefilter",
    "filteradd",
    "filterclear",
    "filterload",
    "getblocks",
    "getblocktxn",
    "getdata",
    "getheaders",
    "headers",
    "inv",
    "mempool",
    "merkleblock",
    "notfound",
    "ping",
    "pong",
    "sendcmpct",
    "tx",
    "getcfilters",
    "cfilter",
    "getcfheaders",
    "cfheaders",
    "getcfcheckpt",
    "cfcheckpt",
    "addrv2",
];

/// What Core has added to the table.
const FEATURE_ID: u8 = 37;

/// The private key of the peer.
struct PeerKey;

impl FillBytes for PeerKey {
    fn fill_bytes(&mut self, target: &mut [u8; 32]) {
        *target = [9; 32];
    }
}

/// What is acceptable; which side we are; two sizes of pieces; then packets: whether it is a decoy, its
/// length, its contents.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let limits = limits(&mut input);
    let initiator = input.u8() & 1 != 0;
    let sizes = [usize::from(input.u8()), usize::from(input.u16())];
    let (mut transport, mut peer) = connected(initiator);
    assert_eq!(transport.protocol(), Protocol::V2 { session_id: *peer.id() });
    let (mut bytes, mut all_expected) = (Vec::new(), Vec::new());
    while !input.is_empty() && !matches!(all_expected.last(), Some(Seen::Error(_))) {
        let decoy = input.u8() & 1 != 0;
        let length = usize::from(input.u16());
        let contents = input.bytes(length);
        let kind = if decoy { PacketType::Decoy } else { PacketType::Genuine };
        bytes.extend(peer.outbound().encrypt_to_vec(contents, kind, None));
        if !decoy {
            all_expected.push(expected_packet(contents, &limits));
        }
    }
    let mut source = Pieces::new(&bytes, sizes);
    let seen = receive(&mut transport, &mut source, &limits, usize::MAX);
    assert_eq!(seen, all_expected);
}

fn expected_packet(contents: &[u8], limits: &ReceiveLimits) -> Seen {
    let (command, payload) = match contents.split_first() {
        Some((0, rest)) => match rest.split_first_chunk() {
            Some((name, payload)) => (Command::from_bytes(*name), payload),
            None => return nameless(contents),
        },
        Some((&FEATURE_ID, payload)) => (Command::new("feature"), payload),
        Some((id, payload)) => match SHORT_IDS.get(usize::from(*id) - 1) {
            Some(name) => (Command::new(name), payload),
            None => return nameless(contents),
        },
        None => return nameless(contents),
    };
    expected(command, payload, limits)
}

fn nameless(contents: &[u8]) -> Seen {
    let command = Command::from_bytes([0; 12]);
    let why = DiscardReason::InvalidCommand;
    Seen::Discarded(Discard { command, bytes: contents.len(), why, block: None })
}

/// A connection after its handshake.
fn connected(initiator: bool) -> (Transport, CipherSession) {
    let secrets = secrets(1, 10);
    let (transport, role) = match initiator {
        true => (Transport::new_v2_initiator(MAGIC, pool(), secrets), Role::Responder),
        false => (Transport::new_v2_responder(MAGIC, pool(), secrets), Role::Initiator),
    };
    let mut transport = transport.expect("locked memory");
    let mut read = |bytes: &[u8]| {
        assert_eq!(receive(&mut transport, &mut Pieces::whole(bytes), &ALL, usize::MAX), []);
        written(&mut transport)
    };
    let curve = Secp256k1::signing_only();
    let peer = Handshake::<Initialized>::new_with_rng(MAGIC, role, &mut PeerKey, &curve);
    let mut start = vec![0; Handshake::<Initialized>::send_key_len(None)];
    let peer = peer.expect("a key").send_key(None, &mut start).expect("room for it");
    let mut bytes = read(&start);
    let peer = peer.receive_key(*bytes.first_chunk().expect("a key")).expect("a key");
    let mut version = vec![0; Handshake::<ReceivedKey<'_>>::send_version_len(None)];
    let peer = peer.send_version(&mut version, None).expect("room for it");
    bytes.extend(read(&version));
    let mut bytes = bytes.split_off(64);
    let received = bytes.clone();
    let GarbageResult::FoundGarbage { handshake: mut peer, consumed_bytes } =
        peer.receive_garbage(&received).expect("garbage that ends")
    else {
        panic!("the terminator is missing")
    };
    let (length, body) = bytes[consumed_bytes..].split_first_chunk_mut().expect("our first packet");
    assert_eq!(peer.decrypt_packet_len(*length).expect("a length"), body.len());
    let VersionResult::Complete { cipher } = peer.receive_version(body).expect("it is right")
    else {
        panic!("we send no decoys")
    };
    (transport, cipher)
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let packet = |header: u8, contents: &[u8]| {
        [&[header][..], &(contents.len() as u16).to_le_bytes(), contents].concat()
    };
    let packets = [
        packet(0, &[18, 1, 2, 3, 4, 5, 6, 7, 8]),
        packet(1, b"a decoy"),
        packet(0, b"\0version\0\0\0\0\0payload"),
        packet(0, &[2; 300]),
        packet(0, &[4; 300]),
        packet(0, &[99, 1]),
        packet(0, b"\0short"),
        packet(0, b""),
        packet(0, &[FEATURE_ID, 0]),
        packet(0, &[18; 1_026]),
    ];
    let settings = [[3, 0, 255, 255, 255], [0, 1, 1, 9, 0]];
    settings.iter().map(|settings| [&settings[..], &packets.concat()].concat()).collect()
}
