use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use godwit_primitives::{Block, BlockHash, Work};
use proptest::prelude::*;

use super::harness::{Harness, START, block_entry, block_inv, chain, config};
use super::index::TestBlock;
use crate::rate_limit::INVENTORY_BURST;
use crate::{
    BlockTransactionsRequest, Command, ConnectionKind, DisconnectReason, Inventory, InventoryKind,
    Locator, MAX_HEADERS, Message, NetEvent, PeerId, PeersConfig, compact_block,
    presync_memory_bound,
};

fn transactions(count: usize) -> Message {
    Message::Inv(vec![Inventory { kind: InventoryKind::WTX, hash: [3; 32] }; count])
}

#[test]
fn b12_announced_transactions_are_ignored_within_a_budget() {
    let mut node = Harness::new(config());
    let (busy, flooding) = (node.inbound_peer(), node.inbound_peer());
    // Fourteen a second is what Core sends at most to an inbound peer.
    for _ in 0..600 {
        node.says(busy, transactions(14));
        node.now.monotonic += Duration::from_secs(1);
    }
    assert_eq!((node.is_gone(busy), node.take_only(busy, Command::GETDATA)), (None, vec![]));
    let mut told = 0;
    while node.is_gone(flooding).is_none() {
        node.says(flooding, transactions(50_000));
        told += 50_000;
        assert!(told <= 2 * INVENTORY_BURST);
    }
    assert_eq!(node.is_gone(flooding), Some(DisconnectReason::UnwantedTransactions));
    assert_eq!(node.discouraged(), 0, "it may be an old node that cannot know");
}

#[test]
fn b12_transactions_cost_as_much_as_their_size() {
    let mut node = Harness::new(config());
    let id = node.inbound_peer();
    let mut bytes = 0;
    while node.is_gone(id).is_none() {
        node.discard(id, Command::TX, 100_000);
        bytes += 100_000;
        assert!(bytes <= 5_000_000);
    }
    assert_eq!(node.is_gone(id), Some(DisconnectReason::UnwantedTransactions));
    assert!(bytes > 1_000_000);
}

/// Counts the lines that would be logged at the default level.
struct Counter;
static LINES: AtomicUsize = AtomicUsize::new(0);

impl log::Log for Counter {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Info
    }

    fn log(&self, record: &log::Record<'_>) {
        // Other tests log at the same time; this one's peers speak of this height only.
        if self.enabled(record.metadata()) && record.args().to_string().contains("424242") {
            LINES.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&self) {}
}

#[test]
fn b14_repeated_faults_of_many_connections_fill_no_log() {
    static COUNTER: Counter = Counter;
    log::set_logger(&COUNTER).expect("no other test sets one");
    log::set_max_level(log::LevelFilter::Info);
    let mut node = Harness::new(config());
    node.peers.table.name_from(424_242_000);
    for n in 0..100_000 {
        // Those that we chose are replaced, perhaps by more of the same.
        let id = match n % 2 {
            0 => node.inbound(),
            _ => node.outbound(ConnectionKind::OutboundFull),
        };
        let hello = node.version();
        node.greet_as(id, hello);
        node.raw(id, Command::SENDCMPCT, &[2, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert!(matches!(node.is_gone(id), Some(DisconnectReason::Misbehaved(_))));
        node.gone.clear();
        node.sent.clear();
    }
    let lines = LINES.load(Ordering::Relaxed);
    assert!((50..=200).contains(&lines), "{lines} lines for 100,000 misbehaving peers");
}

#[test]
fn b14_one_peer_that_may_stay_fills_no_log_either() {
    let mut node = Harness::new(config());
    let id = node.peer(ConnectionKind::Manual);
    let mut allowed = 0;
    for _ in 0..100_000 {
        allowed += usize::from(node.takes_log_line(id));
    }
    assert!(allowed <= 10, "{allowed}");
}

/// One of the things that a hostile peer may say, out of a few numbers.
fn hostile(what: u8, n: u32, blocks: &[TestBlock]) -> (Command, Vec<u8>) {
    let block = &blocks[n as usize % blocks.len()];
    let hash = if n.is_multiple_of(7) { BlockHash::from_bytes([n as u8; 32]) } else { block.hash };
    let count = (n % 5_000) as usize;
    let locator = Locator { hashes: vec![hash; count % 102], stop: hash };
    let compact = || compact_block(Block::from_bytes(&block.bytes).expect("a block").view(), 1);
    let message = match what % 17 {
        0 => Message::Inv(vec![block_inv(hash); count]),
        1 => Message::GetData(vec![block_entry(hash); count]),
        2 => Message::NotFound(vec![block_entry(hash); count]),
        3 => Message::GetHeaders(locator),
        4 => Message::GetBlocks(locator),
        5 => Message::Headers(vec![block.header]),
        6 => Message::Headers(Vec::new()),
        7 => Message::CmpctBlock(compact()),
        8 => Message::GetBlockTxn(BlockTransactionsRequest {
            block_hash: hash,
            positions: vec![(n % 3) as u16],
        }),
        9 => Message::SendCmpct { announce: n.is_multiple_of(2), version: 2 },
        10 => Message::Ping(Some(n.into())),
        11 => Message::Pong(n.into()),
        12 => Message::GetAddr,
        13 => Message::SendHeaders,
        14 => transactions(count),
        15 => return (Command::BLOCK, block.bytes.clone()),
        _ => {
            let start = (n as usize) % blocks.len();
            let part = &blocks[start..blocks.len().min(start + count)];
            Message::Headers(part.iter().map(|block| block.header).collect())
        }
    };
    let mut payload = godwit_stream::DataStream::new();
    message.encode(&mut payload);
    (message.command(), payload.as_slice().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever hostile peers say in whatever order: nothing panics, what waits for them is bounded,
    /// and an honest peer beside them is neither punished nor left alone.
    #[test]
    fn hostile_words_in_any_order_do_no_harm(
        words in prop::collection::vec((0..3u8, any::<u8>(), any::<u32>(), 0..200u64), 1..200),
        cut in any::<u16>(),
    ) {
        let blocks = chain(12, 1_200);
        let branch = TestBlock::chain(&blocks[3], 9, START as u32 - 600, 6);
        let all: Vec<TestBlock> = blocks.iter().chain(&branch).cloned().collect();
        let mut node = Harness::with_chain(config(), &blocks[..6]);
        let honest = node.full_peer();
        let hostile_peers = [node.full_peer(), node.inbound_peer(), node.inbound_peer()];
        node.headers(honest, &blocks);
        for (place, (who, what, n, pause)) in words.into_iter().enumerate() {
            let id = hostile_peers[who as usize];
            let (command, mut payload) = hostile(what, n, &all);
            if place % 5 == 4 {
                payload.truncate(usize::from(cut) % (payload.len() + 1));
            }
            node.raw(id, command, &payload);
            if pause < 20 {
                node.advance_in(Duration::from_millis(pause * 100), Duration::from_millis(500));
            }
            for &id in &hostile_peers {
                // One message; and one more while it owes a block.
                prop_assert!(node.waiting_requests(id) < 2 * 5_000);
                node.take(id);
            }
            node.answer_questions(honest, &blocks, |block| Some(block.clone()));
        }
        for _ in 0..1_200 {
            node.advance(Duration::from_millis(500));
            node.answer_questions(honest, &blocks, |block| Some(block.clone()));
        }
        prop_assert_eq!(node.is_gone(honest), None);
        prop_assert!(node.index.height() >= 12);
    }
}

/// Each in its second pass, with almost as much held back as may be.
#[test]
fn b1_presyncs_of_all_connections_cost_each_its_bound_and_end_with_them() {
    const MESSAGES: usize = 9;
    const HELD_BACK: usize = 3;
    let length = (MESSAGES * MAX_HEADERS) as u32;
    let minimum_chain_work = Work::from(2 * (length + 1));
    let mut node = Harness::new(PeersConfig { minimum_chain_work, ..config() });
    let blocks = chain(length, 4_000_000);
    let bound = presync_memory_bound(&node.peers.config.params, node.now.unix);
    // 48 bytes a header.
    let bound = HELD_BACK * MAX_HEADERS * 48..bound + 1;
    let memory = |node: &Harness| -> usize {
        let presyncs = node.peers.table.iter().filter_map(|peer| peer.headers.presync());
        presyncs.map(|presync| presync.memory()).sum()
    };
    let peers: Vec<PeerId> =
        (0..10).map(|n| if n < 5 { node.full_peer() } else { node.inbound_peer() }).collect();
    for (n, &id) in peers.iter().enumerate() {
        let messages = || blocks.chunks(MAX_HEADERS);
        for message in messages().chain(messages().take(HELD_BACK)) {
            node.headers(id, message);
        }
        let each = memory(&node) / (n + 1);
        assert!(bound.contains(&each), "{each} of {bound:?}");
    }
    assert_eq!((node.presync_height(), node.index.headers()), (Some(length), 1));
    for (n, &id) in peers.iter().enumerate() {
        node.tell(NetEvent::Closed { peer: id });
        assert!(memory(&node) <= (peers.len() - 1 - n) * bound.end);
    }
    assert_eq!(memory(&node), 0);
}
