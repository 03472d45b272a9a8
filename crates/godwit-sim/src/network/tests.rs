//! Links keep their promises, and honest peers serve whoever asks.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use godwit_p2p::{
    Command, Host, Inventory, InventoryKind, Locator, Message, NetAddress, Receive, ReceiveLimits,
    Services, Transport, Version, VersionAddress,
};
use godwit_primitives::BlockHash;
use godwit_stream::{DataStream, PooledStream};

use super::outbox::small_pool;
use super::*;
use crate::rng::Rng;

const HOUR: Duration = Duration::from_secs(3_600);
const MAGIC: [u8; 4] = crate::miner::REGTEST_MAGIC;

fn link(latency_ms: u64, rate: u64) -> LinkSpec {
    LinkSpec {
        latency: Duration::from_millis(latency_ms),
        jitter: Duration::from_millis(3),
        rate,
        window: 40_000,
    }
}

/// Writes as much of `bytes` as the network takes, from the peer's end.
fn push(network: &mut Network, id: ConnectionId, bytes: &[u8], at: &mut usize) {
    while *at < bytes.len() {
        match network.socket(id, End::Peer).write(&bytes[*at..]) {
            Ok(len) => *at += len,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                return;
            }
        }
    }
}

/// Sends bytes from a peer to the node: what arrived, in how many pieces, and when the last did.
fn transfer(seed: u64, spec: LinkSpec, line: Option<u64>) -> (Vec<u8>, usize, Duration) {
    let mut bytes = vec![0; 300_000];
    Rng::new(1).fill(&mut bytes);
    let mut network = Network::new(seed, line);
    let id = network.connect(0, spec, End::Peer);
    let (mut sent, mut received, mut pieces) = (0, Vec::new(), 0);
    while received.len() < bytes.len() {
        match network.next(HOUR).expect("not all is here") {
            Happening::Opened(_, End::Peer) | Happening::Writable(_, End::Peer) => {
                push(&mut network, id, &bytes, &mut sent);
            }
            Happening::Readable(_, End::Node) => {
                pieces += 1;
                let mut out = [0; 100_000];
                let mut socket = network.socket(id, End::Node);
                while let Ok(len) = socket.read(&mut out) {
                    received.extend_from_slice(&out[..len]);
                }
            }
            _ => {}
        }
    }
    assert!(received == bytes);
    (received, pieces, network.now())
}

#[test]
fn bytes_arrive_in_order_in_pieces_and_no_faster_than_the_link() {
    for seed in 0..5 {
        let (_, pieces, end) = transfer(seed, link(20, 100_000), None);
        assert!(pieces > 20, "{pieces} pieces");
        assert!(end > Duration::from_secs(3) && end < Duration::from_secs(5), "{end:?}");
    }
}

#[test]
fn the_node_s_own_line_limits_all_links_together() {
    let (_, _, end) = transfer(1, link(20, 1_000_000), Some(50_000));
    assert!(end > Duration::from_secs(6) && end < Duration::from_secs(8), "{end:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let ends = |seed| transfer(seed, link(5, 70_000), None);
    assert_eq!(ends(3), ends(3));
    assert_ne!(ends(3).2, ends(4).2);
}

#[test]
fn what_was_sent_before_closing_arrives_and_then_the_end() {
    let mut network = Network::new(1, Some(10_000));
    let id = network.connect(0, link(10, 5_000), End::Node);
    let (mut sent, mut received) = (0, 0);
    loop {
        match network.next(HOUR).expect("the end comes") {
            Happening::Opened(_, End::Peer) => {
                push(&mut network, id, &[7; 9_000], &mut sent);
                network.close(id, End::Peer);
            }
            Happening::Readable(_, End::Node) => {
                let mut out = [0; 10_000];
                received += network.socket(id, End::Node).read(&mut out).expect("readable");
            }
            Happening::Ended(_, End::Node) => break,
            _ => {}
        }
    }
    assert_eq!((sent, received), (9_000, 9_000));
    let mut socket = network.socket(id, End::Node);
    assert_eq!(socket.read(&mut [0; 10]).expect("the end"), 0);
    assert_eq!(socket.write(&[0; 10]).expect_err("closed").kind(), io::ErrorKind::BrokenPipe);
}

/// A node that asks one peer for everything, as simply as can be.
struct Client {
    transport: Transport,
    headers: usize,
    blocks: Vec<Vec<u8>>,
    asked: Vec<BlockHash>,
    pings: u32,
}

impl Client {
    fn send(&mut self, message: &Message) {
        let mut payload = DataStream::new();
        message.encode(&mut payload);
        self.transport.send(message.command(), PooledStream::from(payload));
    }

    fn hear(&mut self, command: Command, payload: &[u8], genesis: BlockHash) {
        if command == Command::BLOCK {
            self.blocks.push(payload.to_vec());
            return;
        }
        match Message::decode(command, payload).expect("an honest message") {
            Some(Message::Verack) => {
                self.send(&Message::Verack);
                self.send(&Message::Ping(Some(7)));
                let locator = Locator { hashes: vec![genesis], stop: BlockHash::ZERO };
                self.send(&Message::GetHeaders(locator));
            }
            Some(Message::Pong(7)) => self.pings += 1,
            Some(Message::Headers(headers)) => {
                self.headers += headers.len();
                self.asked = headers.iter().map(|header| header.block_hash()).collect();
                let entry = |hash| Inventory::block(InventoryKind::WITNESS_BLOCK, hash);
                let wanted = self.asked.iter().copied().map(entry).collect();
                self.send(&Message::GetData(wanted));
            }
            _ => {}
        }
    }

    fn version() -> Message {
        let nowhere = NetAddress::new(Host::Ipv4([0; 4]), 0);
        let address = VersionAddress { services: Services::NONE, address: nowhere };
        Message::Version(Box::new(Version {
            version: 70_016,
            services: Services::NONE,
            timestamp: 0,
            receiver: address,
            sender: address,
            nonce: 1,
            user_agent: String::new(),
            start_height: 0,
            relay: false,
        }))
    }
}

fn small_branch() -> Arc<Branch> {
    Arc::new(forge::extended_by_empty(&Branch::genesis(), 40, 1))
}

fn crowd(conduct: Conduct) -> (Crowd, NetAddress) {
    let address = mix::address(0, &mut Rng::new(1));
    let plan = PeerPlan {
        address,
        conduct: Arc::new(conduct),
        link: link(30, 50_000),
        listens: true,
        dials: None,
    };
    (Crowd::new(5, None, MAGIC, 1_800_000_000, vec![plan]), address)
}

/// Runs a client against one peer for an hour.
fn download(conduct: Conduct) -> Client {
    let (mut crowd, address) = crowd(conduct);
    let mut client = Client {
        transport: Transport::new_v1(MAGIC, small_pool()),
        headers: 0,
        blocks: Vec::new(),
        asked: Vec::new(),
        pings: 0,
    };
    let id = crowd.connect(&address).expect("somebody listens there");
    let genesis = Branch::genesis().tip().hash;
    while let Some(event) = crowd.next(HOUR) {
        match event {
            NodeEvent::Connected(_) => client.send(&Client::version()),
            NodeEvent::Readable(_) => loop {
                let limits = ReceiveLimits { expects_block: true, expects_compact: true };
                match client.transport.receive(&mut crowd.socket(id), &limits, 1 << 20) {
                    Ok(Receive::Frame(frame)) => {
                        client.hear(frame.command, frame.payload.unread(), genesis);
                    }
                    Ok(Receive::Discarded(_)) => {}
                    Ok(Receive::Pending | Receive::BudgetUsed | Receive::Closed) | Err(_) => break,
                }
            },
            _ => {}
        }
        client.transport.write(&mut crowd.socket(id), usize::MAX).expect("the peer reads");
    }
    client
}

#[test]
fn an_honest_peer_gives_its_chain_to_whoever_asks() {
    let branch = small_branch();
    let client = download(Conduct::honest_with(&branch));
    assert_eq!((client.headers, client.blocks.len(), client.pings), (40, 40, 1));
    for (block, own) in client.blocks.iter().zip(&branch.blocks()[1..]) {
        assert!(*block == own.bytes);
    }
}

#[test]
fn hostile_peers_do_what_they_are_named_for() {
    let branch = small_branch();
    let hostile =
        |blocks| Conduct::hostile("", View::constant(Arc::clone(&branch))).with_blocks(blocks);
    let blocks = |conduct| download(conduct).blocks.len();
    assert_eq!(blocks(hostile(BlockConduct::Silent)), 0);
    assert_eq!(blocks(hostile(BlockConduct::NotFound)), 0);
    assert_eq!(blocks(hostile(BlockConduct::Truncated)), 0);
    assert_eq!(blocks(hostile(BlockConduct::WithholdFirst)), 39);
    assert_eq!(blocks(hostile(BlockConduct::WithholdLast)), 39);
    assert_eq!(blocks(hostile(BlockConduct::Unrequested)), 80);
    // An hour has 3,600 seconds.
    let dribbled = blocks(hostile(BlockConduct::Dribble(1)));
    let sizes = branch.blocks()[1..].iter().map(|block| block.bytes.len() + 24);
    let expected = sizes.scan(0, |sum, len| {
        *sum += len;
        Some(*sum)
    });
    assert_eq!(dribbled, expected.filter(|sum| *sum < 3_599).count());
}

#[test]
fn a_mutated_block_has_the_hash_of_the_good_one_and_other_bytes() {
    let world = World::mixed();
    let mutated = world.best.blocks().iter().filter_map(|block| {
        let bytes = forge::mutated(&block.bytes)?;
        let header = godwit_p2p::block_header_of(&bytes).expect("a header");
        assert_eq!(header.block_hash(), block.hash);
        assert!(bytes.len() > block.bytes.len());
        Some(())
    });
    assert!(mutated.count() > 20);
}

/// Both ends write a byte a second and tell when they read one, or that the connection ended.
fn heard(fault: Fault, seconds: u64) -> Vec<(u64, End, &'static str)> {
    let mut network = Network::new(1, None);
    network.plan_faults(vec![fault]);
    let id = network.connect(0, link(10, 5_000), End::Node);
    for second in 1..=seconds {
        network.wake(Duration::from_secs(second), second);
    }
    let mut told = Vec::new();
    while let Some(happening) = network.next(Duration::from_secs(seconds)) {
        let second = network.now().as_secs();
        match happening {
            Happening::Timer(_) => {
                for end in [End::Node, End::Peer] {
                    // It may have ended.
                    let _written = network.socket(id, end).write(&[7]);
                }
            }
            Happening::Readable(_, end) => {
                let mut out = [0; 100];
                let read = network.socket(id, end).read(&mut out).expect("readable");
                told.extend((0..read).map(|_| (second, end, "byte")));
            }
            Happening::Ended(_, end) => told.push((second, end, "end")),
            Happening::Opened(..) | Happening::Writable(..) => {}
        }
    }
    told
}

#[test]
fn a_stall_holds_everything_back_and_loses_nothing() {
    let (at, lasts) = (Duration::from_millis(3_500), Duration::from_millis(5_000));
    let told = heard(Fault { at, lasts, whom: None, kind: FaultKind::Stall }, 12);
    for end in [End::Node, End::Peer] {
        let seconds: Vec<u64> =
            told.iter().filter(|(_, whom, _)| *whom == end).map(|(second, ..)| *second).collect();
        assert_eq!(seconds, [1, 2, 3, 8, 8, 8, 8, 8, 9, 10, 11], "{end:?}");
    }
}

#[test]
fn a_black_hole_swallows_one_direction_until_it_is_noticed() {
    let (at, lasts) = (Duration::from_millis(3_500), Duration::from_millis(1_000));
    let hole = |lost, noticed, whom| {
        let kind = FaultKind::BlackHole { lost, noticed };
        heard(Fault { at, lasts, whom, kind }, 70)
    };
    let last = |told: &[(u64, End, &'static str)], end| {
        told.iter().rfind(|(_, whom, _)| *whom == end).map(|(second, _, what)| (*second, *what))
    };
    let told = hole(Lost::ToNode, Noticed::Soon, Some(0));
    assert_eq!(told.iter().filter(|(_, end, _)| *end == End::Node).count(), 3 + 1);
    assert_eq!([End::Node, End::Peer].map(|end| last(&told, end)), [Some((63, "end")); 2]);
    let told = hole(Lost::Both, Noticed::Never, None);
    assert_eq!([End::Node, End::Peer].map(|end| last(&told, end)), [Some((3, "byte")); 2]);
    let told = hole(Lost::ToPeer, Noticed::Never, None);
    assert_eq!(last(&told, End::Peer), Some((3, "byte")));
    assert!(last(&told, End::Node) > Some((60, "byte")));
    let told = hole(Lost::Both, Noticed::Soon, Some(1));
    assert!(last(&told, End::Node) > Some((60, "byte")), "it is another's link");
}

#[test]
fn a_reset_ends_connections_on_both_sides_and_others_can_be_opened() {
    let at = Duration::from_millis(3_500);
    let fault = Fault { at, lasts: Duration::ZERO, whom: None, kind: FaultKind::Reset };
    let told = heard(fault, 10);
    assert_eq!(told.len(), 2 * (3 + 1), "{told:?}");
    assert!(told[6..].iter().all(|(second, _, what)| (*second, *what) == (3, "end")));
    let mut network = Network::new(1, None);
    let lasts = Duration::from_secs(2);
    network.plan_faults(vec![Fault { at, lasts, whom: Some(1), kind: FaultKind::Stall }]);
    let reachable = |network: &Network| [0, 1].map(|peer| network.is_reachable(peer));
    let mut seen = Vec::new();
    for second in [3, 4, 5, 6] {
        assert_eq!(network.next(Duration::from_secs(second)), None);
        seen.push(reachable(&network));
    }
    assert_eq!(seen, [[true, true], [true, false], [true, false], [true, true]]);
}
