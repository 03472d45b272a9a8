//! The same payloads, read and written by the crate `bitcoin`, which shares nothing with this one.

use std::net::{IpAddr, Ipv6Addr};

use bitcoin::bip152::{
    BlockTransactions as TheirAnswer, BlockTransactionsRequest as TheirRequest, HeaderAndShortIds,
    ShortId,
};
use bitcoin::consensus::encode::{deserialize, deserialize_partial, serialize};
use bitcoin::hashes::Hash;
use bitcoin::p2p::address::{AddrV2, AddrV2Message};
use bitcoin::p2p::message::{NetworkMessage, RawNetworkMessage};
use bitcoin::p2p::{Magic, message_blockdata};
use godwit_primitives::Wtxid;
use godwit_primitives::sha256::sha256d;

use super::*;
use crate::{Frame, Receive, ReceiveLimits, Services, Transport};

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

fn frame(command: Command, payload: &[u8]) -> Vec<u8> {
    [
        &MAGIC[..],
        &command.to_bytes(),
        &(payload.len() as u32).to_le_bytes(),
        &sha256d(payload)[..4],
        payload,
    ]
    .concat()
}

/// The message as the other crate understands it.
fn theirs(message: &Message) -> NetworkMessage {
    let bytes = frame(message.command(), &encoded(message));
    let raw: RawNetworkMessage = deserialize(&bytes).expect("it reads what was written here");
    assert_eq!(*raw.magic(), Magic::from_bytes(MAGIC));
    raw.into_payload()
}

/// The message that the other crate writes, through a transport.
fn ours(message: NetworkMessage) -> Message {
    let bytes = serialize(&RawNetworkMessage::new(Magic::from_bytes(MAGIC), message));
    let pool = godwit_stream::BufferPool::new(godwit_stream::PoolLimits {
        buffers: 0,
        buffer_bytes: 0,
        total_bytes: 0,
    });
    let mut transport = Transport::new_v1(MAGIC, pool);
    let limits = ReceiveLimits { expects_block: true, expects_compact: true };
    match transport.receive(&mut &bytes[..], &limits, usize::MAX) {
        Ok(Receive::Frame(Frame { command, payload })) => {
            decoded(command, payload.unread()).expect("what another implementation writes")
        }
        other => panic!("{other:?}"),
    }
}

/// Whether the other crate has a place for it.
fn is_known_there(message: &Message) -> bool {
    match message {
        Message::Ping(nonce) => nonce.is_some(),
        // It refuses what Core ignores after decoding.
        Message::FeeFilter(rate) => godwit_primitives::money_range(*rate),
        // It refuses what Core keeps without taking it for valid.
        Message::AddrV2(entries) => entries.iter().all(|entry| match entry.address.host {
            Host::Cjdns(bytes) => bytes[0] == 0xfc,
            _ => true,
        }),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_other_crate_reads_and_writes_the_same(message in any_message()) {
        if is_known_there(&message) {
            let theirs = theirs(&message);
            prop_assert_eq!(theirs.cmd(), message.command().to_string());
            let magic = Magic::from_bytes(MAGIC);
            let bytes = serialize(&RawNetworkMessage::new(magic, theirs.clone()));
            prop_assert_eq!(&bytes, &frame(message.command(), &encoded(&message)));
            prop_assert_eq!(ours(theirs), message);
        }
    }

    #[test]
    fn the_other_crate_accepts_and_refuses_the_same_compact_messages(
        message in prop_oneof![
            any_compact_block().prop_map(Message::CmpctBlock),
            any_request().prop_map(Message::GetBlockTxn),
            any_answer().prop_map(Message::BlockTxn),
        ],
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut payload = encoded(&message);
        let at = at.index(payload.len());
        payload[at] = byte;
        // It does not check positions, and bounds no count below a message's size.
        if decoded(message.command(), &payload).is_ok() {
            let accepted = match message {
                Message::CmpctBlock(_) => {
                    deserialize_partial::<HeaderAndShortIds>(&payload).is_ok()
                }
                Message::GetBlockTxn(_) => {
                    deserialize_partial::<TheirRequest>(&payload).is_ok()
                }
                _ => deserialize_partial::<TheirAnswer>(&payload).is_ok(),
            };
            prop_assert!(accepted);
        }
    }

    #[test]
    fn short_ids_are_the_other_crate_s(header in any_header(), nonce: u64, wtxid: [u8; 32]) {
        let their_header = deserialize(&header.to_bytes()).expect("80 bytes");
        let keys = ShortId::calculate_siphash_keys(&their_header, nonce);
        let theirs = ShortId::with_siphash_keys(&wtxid, keys);
        let ours = ShortIdKeys::new(&header, nonce).short_id(&Wtxid::from_bytes(wtxid));
        prop_assert_eq!(&ours.to_le_bytes()[..6], theirs.as_ref() as &[u8]);
        prop_assert_eq!(ours >> 48, 0);
    }
}

#[test]
fn fields_mean_the_same() {
    match theirs(&Message::Version(Box::new(whole_version()))) {
        NetworkMessage::Version(version) => {
            assert_eq!((version.version, version.timestamp), (70_016, 1_700_000_000));
            assert_eq!((version.services.to_u64(), version.nonce), (9, 77));
            let receiver = version.receiver.socket_addr().expect("an IP address");
            assert_eq!(receiver.to_string(), "1.2.3.4:8333");
            let sender = version.sender.socket_addr().expect("an IP address");
            assert_eq!(sender.to_string(), "[2a00::1]:18333");
            assert_eq!(version.user_agent, "/godwit:0.1.0/");
            assert_eq!((version.start_height, version.relay), (800_000, false));
        }
        other => panic!("{other:?}"),
    }
    let hash = [7; 32];
    let inventory = |kind| Inventory { kind, hash };
    let kinds = [InventoryKind::WITNESS_BLOCK, InventoryKind::CMPCT_BLOCK, InventoryKind::WTX];
    match theirs(&Message::GetData(kinds.map(inventory).to_vec())) {
        NetworkMessage::GetData(entries) => {
            let block = bitcoin::BlockHash::from_byte_array(hash);
            use message_blockdata::Inventory::{CompactBlock, WTx, WitnessBlock};
            let wtxid = bitcoin::Wtxid::from_byte_array(hash);
            assert_eq!(entries, [WitnessBlock(block), CompactBlock(block), WTx(wtxid)]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn networks_of_bip155_mean_the_same() {
    let ip: Ipv6Addr = "2a00::1".parse().expect("an address");
    let cjdns: Ipv6Addr = "fc00::1".parse().expect("an address");
    let hosts = [
        (AddrV2::Ipv4([1, 2, 3, 4].into()), Host::Ipv4([1, 2, 3, 4])),
        (AddrV2::Ipv6(ip), Host::from(IpAddr::from(ip))),
        (AddrV2::TorV3([5; 32]), Host::OnionV3([5; 32])),
        (AddrV2::I2p([6; 32]), Host::I2p([6; 32])),
        (AddrV2::Cjdns(cjdns), Host::Cjdns(cjdns.octets())),
    ];
    let entry = |addr: AddrV2| AddrV2Message { time: 5, services: 9.into(), addr, port: 8333 };
    let mut entries: Vec<_> = hosts.iter().map(|(theirs, _)| entry(theirs.clone())).collect();
    entries.push(entry(AddrV2::TorV2([7; 10])));
    entries.push(entry(AddrV2::Unknown(0x99, vec![1, 2, 3])));
    let known = hosts.map(|(_, host)| NetAddress::new(host, 8333));
    let unknown = [NetAddress::new(Host::UNSPECIFIED, 0); 2];
    let expected = known.into_iter().chain(unknown).map(|address| AddressEntry {
        time: 5,
        services: Services(9),
        address,
    });
    assert_eq!(ours(NetworkMessage::AddrV2(entries)), Message::AddrV2(expected.collect()));
}
