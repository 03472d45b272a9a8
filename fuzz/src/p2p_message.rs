//! Payloads of messages: decoded in memory in proportion to their length, and the same again when
//! what was decoded is encoded.

use godwit_p2p::{
    AddressEntry, BlockTransactionsRequest, Command, CompactBlock, Host, Inventory, InventoryKind,
    Locator, MAX_PAYLOAD, Message, NetAddress, PartialBlock, RawTransactions, Services, Version,
    VersionAddress, compact_block, payload_limit,
};
use godwit_primitives::{Block, BlockHash, Network, Params};
use godwit_stream::DataStream;

use crate::input::Input;
use crate::memory::within;

/// Bytes that decoding holds for each byte of a payload: three times, since growing a vector holds the
/// old and the new one, what an entry of `addrv2` becomes, 56 bytes of 9.
const FACTOR: usize = 24;

const COMMANDS: &[Command] = &[
    Command::VERSION,
    Command::VERACK,
    Command::WTXIDRELAY,
    Command::SENDADDRV2,
    Command::SENDHEADERS,
    Command::SENDCMPCT,
    Command::FEEFILTER,
    Command::PING,
    Command::PONG,
    Command::GETADDR,
    Command::ADDR,
    Command::ADDRV2,
    Command::INV,
    Command::GETDATA,
    Command::NOTFOUND,
    Command::GETHEADERS,
    Command::GETBLOCKS,
    Command::HEADERS,
    Command::CMPCTBLOCK,
    Command::GETBLOCKTXN,
    Command::BLOCKTXN,
    Command::BLOCK,
    Command::TX,
];

/// One byte chooses the command, the rest is the payload.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let command = *input.choice(COMMANDS);
    let payload = input.rest();
    let allowed = 4_096 + FACTOR * payload.len();
    let Ok(decoded) = within(allowed, || Message::decode(command, payload)) else { return };
    let Some(message) = decoded else {
        assert!(matches!(command, Command::BLOCK | Command::TX), "{command} has a meaning");
        return;
    };
    assert_eq!(message.command(), command);
    let encoded = encoded(&message);
    let again = Message::decode(command, &encoded);
    assert_eq!(again.as_ref().ok(), Some(&Some(message.clone())), "{again:?}");
    assert!(
        !is_canonical(&message) || payload.starts_with(&encoded),
        "another form of {message:?}"
    );
    // What a connection drops as too large before it is decoded is never a message in full.
    let limit = payload_limit(command).map_or(MAX_PAYLOAD, |limit| limit);
    assert!(payload.len() > limit as usize || encoded.len() <= limit as usize);
    if let Message::CmpctBlock(compact) = message {
        check_compact(compact);
    }
}

/// A compact block that came whole is the block that its parts are.
fn check_compact(compact: CompactBlock) {
    let count = compact.transaction_count();
    let Ok(partial) = PartialBlock::new(compact.clone()) else { return };
    match partial.request() {
        Some(request) => {
            assert_eq!(request.positions.len(), compact.short_ids.len());
            assert_eq!(request.block_hash, compact.header.block_hash());
        }
        None => {
            assert_eq!(count, compact.prefilled.len());
            let mut out = DataStream::new();
            if partial.complete(&RawTransactions::new(), &mut out).is_ok() {
                let block = Block::from_bytes(out.as_slice()).expect("its parts were well-formed");
                assert_eq!(block.view().tx_count(), count);
                assert_eq!(*block.header(), compact.header);
            }
        }
    }
}

/// Whether there is one form only of what the message says. A `version` may lack fields, `headers` have
/// numbers of transactions, `addr` addresses of Tor v2, `addrv2` networks that are left out.
fn is_canonical(message: &Message) -> bool {
    !matches!(
        message,
        Message::Version(_)
            | Message::Headers(_)
            | Message::Addr(_)
            | Message::AddrV2(_)
            | Message::SendCmpct { .. }
            | Message::GetHeaders(_)
            | Message::GetBlocks(_)
    )
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut out = DataStream::new();
    message.encode(&mut out);
    out.as_slice().to_vec()
}

fn seed(command: Command, payload: &[u8]) -> Vec<u8> {
    let index = COMMANDS.iter().position(|known| *known == command).expect("one of them");
    [&[index as u8][..], payload].concat()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> =
        messages().iter().map(|message| seed(message.command(), &encoded(message))).collect();
    if let Some(compact) = godwit_testdata::shared_file("p2p/compact_block_898352_testnet3.bin") {
        seeds.push(seed(Command::CMPCTBLOCK, &compact));
    }
    seeds
}

/// One of each kind.
pub(crate) fn messages() -> Vec<Message> {
    let genesis = Params::new(Network::Main).genesis_block();
    let block = Block::from_bytes(&genesis).expect("genesis");
    let hash = block.hash();
    let hosts = [
        Host::Ipv6([0xfd; 16]),
        Host::Ipv4([1, 2, 3, 4]),
        Host::OnionV3([7; 32]),
        Host::I2p([8; 32]),
        Host::Cjdns([0xfc; 16]),
    ];
    let entry = |host| {
        let address = NetAddress { host, port: 8333 };
        AddressEntry { time: 1_700_000_000, services: Services(0x409), address }
    };
    let (legacy, all) = (hosts[..2].to_vec(), hosts.to_vec());
    let inventory = vec![Inventory::block(InventoryKind::WITNESS_BLOCK, hash); 2];
    let locator = Locator { hashes: vec![hash, BlockHash::ZERO], stop: BlockHash::ZERO };
    let mut transactions = RawTransactions::new();
    transactions.push(block.view().tx(0).bytes());
    let header = *block.header();
    let address = VersionAddress { services: Services(9), address: entry(hosts[1]).address };
    let version = Version {
        version: 70_016,
        services: Services(0x409),
        timestamp: 1_700_000_000,
        receiver: address,
        sender: address,
        nonce: 7,
        user_agent: "/fuzz:0.1/".to_owned(),
        start_height: 800_000,
        relay: true,
    };
    vec![
        Message::Version(Box::new(version)),
        Message::Verack,
        Message::FeeFilter(1_000),
        Message::SendCmpct { announce: true, version: 2 },
        Message::Ping(None),
        Message::Ping(Some(7)),
        Message::Pong(7),
        Message::Addr(legacy.into_iter().map(entry).collect()),
        Message::AddrV2(all.into_iter().map(entry).collect()),
        Message::Inv(inventory.clone()),
        Message::GetData(inventory.clone()),
        Message::NotFound(inventory),
        Message::GetHeaders(locator.clone()),
        Message::GetBlocks(locator),
        Message::Headers(vec![header; 3]),
        Message::CmpctBlock(compact_block(block.view(), 3)),
        Message::GetBlockTxn(BlockTransactionsRequest {
            block_hash: hash,
            positions: vec![1, 300],
        }),
        Message::BlockTxn(godwit_p2p::BlockTransactions { block_hash: hash, transactions }),
    ]
}
