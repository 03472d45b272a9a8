//! Two engines that talk to each other: both sides of every exchange are the real ones.

use std::time::Duration;

use super::harness::{Harness, START, Sent, chain, config};
use super::index::TestBlock;
use crate::{Command, ConnectionKind, Message, PeerId, PeersConfig};

struct Pair {
    /// Connects.
    client: Harness,
    to_server: PeerId,
    /// Is connected to.
    server: Harness,
    to_client: PeerId,
}

impl Pair {
    fn new(client: Harness, server: Harness, kind: ConnectionKind) -> Self {
        let (mut client, mut server) = (client, server);
        client.answers_pings = false;
        server.answers_pings = false;
        let to_client = server.inbound();
        let to_server = client.outbound(kind);
        Self { client, to_server, server, to_client }
    }

    /// Carries messages for that time.
    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            for node in [&mut self.client, &mut self.server] {
                node.advance_in(Duration::from_millis(100), Duration::from_millis(100));
            }
            carry(&mut self.client, self.to_server, &mut self.server, self.to_client);
            carry(&mut self.server, self.to_client, &mut self.client, self.to_server);
        }
        assert!(self.client.gone.is_empty(), "{:?}", self.client.gone);
        assert!(self.server.gone.is_empty(), "{:?}", self.server.gone);
    }
}

fn carry(from: &mut Harness, to_peer: PeerId, to: &mut Harness, from_peer: PeerId) {
    for sent in from.take(to_peer) {
        match sent {
            Sent::Block(bytes) => to.raw(from_peer, Command::BLOCK, &bytes),
            Sent::Transaction(bytes) => to.raw(from_peer, Command::TX, &bytes),
            Sent::Message(message) => to.says(from_peer, message),
            Sent::Filters(..) => unreachable!("nobody asks for them"),
        }
    }
}

#[test]
fn a_node_syncs_from_another_and_follows_it() {
    let blocks = chain(600, 30);
    let server = Harness::with_chain(config(), &blocks);
    let mut pair = Pair::new(Harness::new(config()), server, ConnectionKind::OutboundFull);
    pair.run(60);
    assert_eq!(pair.client.tip(), blocks[599].hash);
    pair.client.initial_download = false;
    pair.client.connect();
    let mut parent = blocks[599].clone();
    for n in 0..5 {
        let next = TestBlock::on(&parent, START as u32 + n, n, n);
        pair.server.mined(std::slice::from_ref(&next));
        pair.run(3);
        assert_eq!(pair.client.tip(), next.hash, "block {n}");
        parent = next;
    }
    // By now the server announces in compact form: it gave every tip.
    let announcing = pair.server.peers.table.iter().count();
    assert_eq!(announcing, 1);
    let next = TestBlock::on(&parent, START as u32 + 9, 9, 3);
    pair.server.mined(std::slice::from_ref(&next));
    let announced = pair.server.take(pair.to_client);
    let compact = |sent: &Sent| matches!(sent, Sent::Message(Message::CmpctBlock(_)));
    assert!(announced.iter().any(compact), "{announced:?}");
}

#[test]
fn a_reorganisation_reaches_the_other_side() {
    let blocks = chain(50, 30_000);
    let server = Harness::with_chain(config(), &blocks);
    let client = Harness::with_chain(config(), &blocks[..50]);
    let mut pair = Pair::new(client, server, ConnectionKind::OutboundFull);
    pair.run(10);
    let branch = TestBlock::chain(&blocks[30], 30, START as u32, 4);
    pair.server.mined(&branch);
    pair.run(10);
    assert_eq!(pair.client.tip(), branch[29].hash);
}

#[test]
fn blocks_travel_from_the_inbound_side_too() {
    let blocks = chain(20, 3_000);
    let client = Harness::with_chain(config(), &blocks[..19]);
    let server = Harness::with_chain(config(), &blocks[..10]);
    let mut pair = Pair::new(client, server, ConnectionKind::OutboundFull);
    pair.run(10);
    assert_eq!(pair.server.tip(), blocks[18].hash, "its only peer connected to it");
    pair.client.mined(&blocks[19..]);
    pair.run(5);
    assert_eq!(pair.server.tip(), blocks[19].hash);
}

#[test]
fn a_block_relay_connection_carries_blocks_and_no_addresses() {
    let blocks = chain(20, 3_000);
    let listening = PeersConfig { listen_port: Some(1), ..config() };
    let server = Harness::with_chain(listening, &blocks);
    let mut pair = Pair::new(Harness::new(config()), server, ConnectionKind::BlockRelay);
    pair.run(30);
    assert_eq!(pair.client.tip(), blocks[19].hash);
    assert_eq!(pair.client.peers.address_book().len(), 0);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let server = Harness::with_chain(config(), &chain(100, 30));
        let client = Harness::new(config());
        let mut pair = Pair::new(client, server, ConnectionKind::OutboundFull);
        let mut sent = Vec::new();
        for _ in 0..20 {
            pair.client.advance(Duration::from_millis(100));
            sent.push(format!("{:?}", pair.client.sent));
            pair.run(1);
        }
        (sent, pair.client.submitted_blocks)
    };
    let (first, second) = (run(), run());
    assert!(first == second);
}
