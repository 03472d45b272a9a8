mod cross_check;
mod limits;
mod real;

use godwit_primitives::{BlockHash, BlockHeader, MerkleRoot};
use godwit_stream::{DataStream, DecodeError};
use proptest::prelude::*;

use super::*;
use crate::net_address::tests::any_address;
use crate::{Host, InventoryKind, NetAddress, Services};

pub(super) fn encoded(message: &Message) -> Vec<u8> {
    let mut out = DataStream::new();
    message.encode(&mut out);
    out.as_slice().to_vec()
}

pub(super) fn decoded(command: Command, payload: &[u8]) -> Result<Message, MessageError> {
    Message::decode(command, payload).map(|message| message.expect("a command with meaning"))
}

/// A transaction without witness, with `outputs` outputs.
pub(super) fn transaction(outputs: u8) -> Vec<u8> {
    let input = [&[1][..], &[7; 36], &[2, 0x51, 0x52], &[0xff; 4]].concat();
    let output = [&[9; 8][..], &[1, 0x51]].concat();
    [&[2, 0, 0, 0][..], &input, &[outputs], &output.repeat(outputs.into()), &[0; 4]].concat()
}

fn raw(transactions: &[Vec<u8>]) -> RawTransactions {
    let mut all = RawTransactions::new();
    transactions.iter().for_each(|transaction| all.push(transaction));
    all
}

prop_compose! {
    fn any_header()(
        (version, previous, root) in any::<(i32, [u8; 32], [u8; 32])>(),
        (time, bits, nonce) in (any::<u32>(), 1u32.., any::<u32>()),
    ) -> BlockHeader {
        BlockHeader {
            version,
            prev_blockhash: BlockHash::from_bytes(previous),
            merkle_root: MerkleRoot::from_bytes(root),
            time,
            bits,
            nonce,
        }
    }
}

fn any_transactions() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec((1..5u8).prop_map(transaction), 1..6)
}

prop_compose! {
    /// Prefilled transactions anywhere among the short ids.
    fn any_compact_block()(
        header in any_header(),
        nonce: u64,
        short_ids in prop::collection::vec(0..1u64 << 48, 0..300),
        transactions in any_transactions(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 6),
    ) -> CompactBlock {
        let total = short_ids.len() + transactions.len();
        let places = places.iter().map(|place| place.index(total) as u16);
        let mut positions: Vec<u16> = places.collect();
        positions.truncate(transactions.len());
        positions.sort_unstable();
        positions.dedup();
        let prefilled = raw(&transactions[..positions.len()]);
        // Each place that lost its transaction gets a short id.
        let mut short_ids = short_ids;
        short_ids.resize(total - positions.len(), 5);
        CompactBlock { header, nonce, short_ids, prefilled_positions: positions, prefilled }
    }
}

prop_compose! {
    fn any_version()(
        (version, services, timestamp) in (any::<i32>(), any::<u64>(), 0..i64::MAX),
        (receiver, sender) in (any_version_address(), any_version_address()),
        (nonce, user_agent) in (any::<u64>(), "[a-zA-Z0-9/:. ]{0,256}"),
        (start_height, relay) in any::<(i32, bool)>(),
    ) -> Version {
        Version {
            version,
            services: Services(services),
            timestamp,
            receiver,
            sender,
            nonce,
            user_agent,
            start_height,
            relay,
        }
    }
}

fn any_version_address() -> impl Strategy<Value = VersionAddress> {
    (any::<u64>(), any::<[u8; 16]>(), any::<u16>()).prop_map(|(services, host, port)| {
        let address = NetAddress::new(Host::from_legacy(host), port);
        VersionAddress { services: Services(services), address }
    })
}

fn any_entries() -> impl Strategy<Value = Vec<AddressEntry>> {
    let entry =
        (any::<u32>(), any::<u64>(), any_address()).prop_map(|(time, services, address)| {
            AddressEntry { time, services: Services(services), address }
        });
    prop::collection::vec(entry, 0..20)
}

/// Those that the form from before BIP155 can hold.
fn v1_entries() -> impl Strategy<Value = Vec<AddressEntry>> {
    any_entries().prop_map(|mut entries| {
        entries.retain(|entry| entry.address.host.is_v1_compatible());
        entries
    })
}

fn any_inventory() -> impl Strategy<Value = Vec<Inventory>> {
    let entry = any::<(u32, [u8; 32])>()
        .prop_map(|(kind, hash)| Inventory { kind: InventoryKind(kind), hash });
    prop::collection::vec(entry, 0..20)
}

fn any_locator() -> impl Strategy<Value = Locator> {
    (prop::collection::vec(any::<[u8; 32]>(), 0..=101), any::<[u8; 32]>()).prop_map(
        |(hashes, stop)| Locator {
            hashes: hashes.into_iter().map(BlockHash::from_bytes).collect(),
            stop: BlockHash::from_bytes(stop),
        },
    )
}

fn any_request() -> impl Strategy<Value = BlockTransactionsRequest> {
    (any::<[u8; 32]>(), prop::collection::btree_set(any::<u16>(), 0..300)).prop_map(
        |(hash, positions)| BlockTransactionsRequest {
            block_hash: BlockHash::from_bytes(hash),
            positions: positions.into_iter().collect(),
        },
    )
}

fn any_answer() -> impl Strategy<Value = BlockTransactions> {
    (any::<[u8; 32]>(), any_transactions()).prop_map(|(hash, transactions)| BlockTransactions {
        block_hash: BlockHash::from_bytes(hash),
        transactions: raw(&transactions),
    })
}

pub(super) fn any_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        any_version().prop_map(|version| Message::Version(Box::new(version))),
        Just(Message::Verack),
        Just(Message::WtxidRelay),
        Just(Message::SendAddrV2),
        Just(Message::SendHeaders),
        Just(Message::GetAddr),
        any::<i64>().prop_map(Message::FeeFilter),
        any::<(bool, u64)>()
            .prop_map(|(announce, version)| Message::SendCmpct { announce, version }),
        any::<Option<u64>>().prop_map(Message::Ping),
        any::<u64>().prop_map(Message::Pong),
        v1_entries().prop_map(Message::Addr),
        any_entries().prop_map(Message::AddrV2),
        any_inventory().prop_map(Message::Inv),
        any_inventory().prop_map(Message::GetData),
        any_inventory().prop_map(Message::NotFound),
        any_locator().prop_map(Message::GetHeaders),
        any_locator().prop_map(Message::GetBlocks),
        prop::collection::vec(any_header(), 0..20).prop_map(Message::Headers),
        any_compact_block().prop_map(Message::CmpctBlock),
        any_request().prop_map(Message::GetBlockTxn),
        any_answer().prop_map(Message::BlockTxn),
    ]
}

/// Whether a payload that ends early may still be a message.
fn may_be_cut(message: &Message, end: usize) -> bool {
    match message {
        // Everything behind the receiver is optional, field by field.
        Message::Version(version) => {
            let user_agent =
                80 + compact_size_len(version.user_agent.len()) + version.user_agent.len();
            [46, 80, user_agent, user_agent + 4].contains(&end)
        }
        Message::Ping(_) => end == 0,
        _ => false,
    }
}

fn compact_size_len(len: usize) -> usize {
    godwit_stream::compact_size_len(len as u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn messages_round_trip(
        message in any_message(),
        behind in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let mut payload = encoded(&message);
        prop_assert_eq!(decoded(message.command(), &payload), Ok(message.clone()));
        // Bytes behind a message are ignored; a ping without nonce would take them for one.
        if message != Message::Ping(None) {
            payload.extend(behind);
            prop_assert_eq!(decoded(message.command(), &payload), Ok(message));
        }
    }

    #[test]
    fn a_message_that_ends_early_is_malformed(message in any_message()) {
        let payload = encoded(&message);
        for end in 0..payload.len() {
            let cut = decoded(message.command(), &payload[..end]);
            if may_be_cut(&message, end) {
                prop_assert!(cut.is_ok(), "{:?} to {}", message, end);
            } else {
                let malformed = Err(MessageError::Malformed(DecodeError::UnexpectedEnd));
                prop_assert_eq!(cut, malformed, "{:?} to {}", message, end);
            }
        }
    }

    #[test]
    fn any_payload_is_survived(
        message in any_message(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Ok(message) = decoded(message.command(), &bytes) {
            prop_assert_eq!(decoded(message.command(), &encoded(&message)), Ok(message));
        }
    }

    #[test]
    fn a_changed_byte_is_survived(message in any_message(), at: prop::sample::Index, byte: u8) {
        let mut payload = encoded(&message);
        if !payload.is_empty() {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        if let Ok(message) = decoded(message.command(), &payload) {
            prop_assert_eq!(decoded(message.command(), &encoded(&message)), Ok(message));
        }
    }
}

#[test]
fn commands_without_meaning_give_nothing() {
    for command in [Command::TX, Command::BLOCK, Command::MEMPOOL, Command::new("whatever")] {
        assert_eq!(Message::decode(command, &[0xff; 100]), Ok(None));
    }
}

/// With every field.
fn whole_version() -> Version {
    Version {
        version: 70_016,
        services: Services::NETWORK | Services::WITNESS,
        timestamp: 1_700_000_000,
        receiver: address("1.2.3.4:8333"),
        sender: address("[2a00::1]:18333"),
        nonce: 77,
        user_agent: "/godwit:0.1.0/".to_owned(),
        start_height: 800_000,
        relay: false,
    }
}

#[test]
fn a_version_may_lack_what_came_later() {
    let mut version = whole_version();
    let payload = encoded(&Message::Version(Box::new(version.clone())));
    assert_eq!(payload.len(), 46 + 34 + 15 + 4 + 1);
    let mut at = |end: usize, change: &dyn Fn(&mut Version)| {
        change(&mut version);
        let found = decoded(Command::VERSION, &payload[..end]);
        assert_eq!(found, Ok(Message::Version(Box::new(version.clone()))), "{end}");
    };
    at(100, &|_| {});
    at(99, &|version| version.relay = true);
    at(95, &|version| version.start_height = -1);
    at(80, &|version| version.user_agent.clear());
    at(46, &|version| {
        version.nonce = 1;
        version.sender = VersionAddress { services: Services::NONE, ..address("[::]:0") };
    });
}

fn address(text: &str) -> VersionAddress {
    let services = Services::NETWORK;
    VersionAddress { services, address: text.parse().expect("an address") }
}

#[test]
fn a_user_agent_arrives_harmless_and_a_time_before_1970_as_zero() {
    let version = Version {
        version: 70_016,
        services: Services::NONE,
        timestamp: -5,
        receiver: address("1.2.3.4:8333"),
        sender: address("1.2.3.4:8333"),
        nonce: 0,
        user_agent: "/a\x1b[31m\r\nb<ü>/".to_owned(),
        start_height: 0,
        relay: true,
    };
    let payload = encoded(&Message::Version(Box::new(version)));
    match decoded(Command::VERSION, &payload) {
        Ok(Message::Version(version)) => {
            assert_eq!((version.user_agent.as_str(), version.timestamp), ("/a31mb/", 0));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bool_is_any_byte_but_zero() {
    let message = decoded(Command::SENDCMPCT, &[9, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(message, Ok(Message::SendCmpct { announce: true, version: 2 }));
}

#[test]
fn the_header_of_a_block_is_known_from_its_first_80_bytes() {
    let bytes: Vec<u8> = (0..90).collect();
    let header = block_header_of(&bytes).expect("more than 80 bytes");
    assert_eq!(header.to_bytes()[..], bytes[..80]);
    assert_eq!(block_header_of(&bytes[..80]), Some(header));
    assert_eq!(block_header_of(&bytes[..79]), None);
}

#[test]
fn raw_transactions_are_found_by_position() {
    let transactions = [transaction(1), transaction(3), transaction(2)];
    let all = raw(&transactions);
    assert_eq!((all.len(), all.is_empty(), RawTransactions::new().is_empty()), (3, false, true));
    assert!(all.iter().eq(transactions.iter().map(Vec::as_slice)));
    assert_eq!(all.get(1), Some(&transactions[1][..]));
    assert_eq!(all.get(3), None);
    assert_eq!(all.bytes(), transactions.concat());
}

/// Core `netbase_tests.cpp`, `caddress_serialize_v1` and the three after it.
#[test]
fn core_address_entries() {
    let entry = |time, port, services: u64| AddressEntry {
        time,
        services: Services(services),
        address: NetAddress::new("::1".parse().expect("an address"), port),
    };
    let entries = vec![
        entry(0x4966_bc61, 0, 0),
        entry(0x8376_6279, 0x00f1, 1),
        entry(0xffff_ffff, 0xf1f2, 8 | 64 | 1024),
    ];
    let v1 = "03\
        61bc6649 0000000000000000 00000000000000000000000000000001 0000\
        79627683 0100000000000000 00000000000000000000000000000001 00f1\
        ffffffff 4804000000000000 00000000000000000000000000000001 f1f2";
    let v2 = "03\
        61bc6649 00 02 10 00000000000000000000000000000001 0000\
        79627683 01 02 10 00000000000000000000000000000001 00f1\
        ffffffff fd4804 02 10 00000000000000000000000000000001 f1f2";
    for (message, text) in [(Message::Addr(entries.clone()), v1), (Message::AddrV2(entries), v2)] {
        let bytes = hex::decode(text.replace(' ', "")).expect("hexadecimal");
        assert_eq!(encoded(&message), bytes);
        assert_eq!(decoded(message.command(), &bytes), Ok(message));
    }
}

/// Core reads such an address as one that is not valid, and counts it with the others.
#[test]
fn an_address_of_an_unknown_network_takes_its_place() {
    let text = "03\
        61bc6649 01 aa 04 01020304 0000\
        61bc6649 01 02 10 00000000000000000000ffff01020304 208d\
        61bc6649 01 01 04 01020304 208d";
    let bytes = hex::decode(text.replace(' ', "")).expect("hexadecimal");
    let Ok(Message::AddrV2(entries)) = decoded(Command::ADDRV2, &bytes) else {
        panic!("it is one")
    };
    let hosts: Vec<String> = entries.iter().map(|entry| entry.address.host.to_string()).collect();
    assert_eq!(hosts, ["::", "::", "1.2.3.4"]);
    assert!(entries.iter().all(|entry| (entry.time, entry.services.0) == (0x4966_bc61, 1)));
}
