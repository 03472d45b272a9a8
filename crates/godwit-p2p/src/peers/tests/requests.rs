//! What waits for a peer, and for how long nothing more is read of it.

use std::time::Duration;

use godwit_primitives::BlockHash;

use super::harness::{Harness, Sent, block_entry, chain, config};
use crate::frame::FRAME_HEADER_SIZE;
use crate::{
    BlockTransactionsRequest, Command, ConnectionKind, DisconnectReason, Inventory, InventoryKind,
    Message, Misbehaviour, NetEvent, SEND_PAUSE, Version,
};

#[test]
fn transactions_are_not_found_and_blocks_that_are_not_here_passed_over() {
    let blocks = chain(3, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    let unknown = block_entry(BlockHash::from_bytes([5; 32]));
    let tx = Inventory { kind: InventoryKind::TX, hash: [6; 32] };
    let wtx = Inventory { kind: InventoryKind::WTX, hash: [8; 32] };
    let odd = Inventory { kind: InventoryKind(0x77), hash: [7; 32] };
    let filtered = Inventory::block(InventoryKind::FILTERED_BLOCK, blocks[0].hash);
    node.take(id);
    let known = block_entry(blocks[0].hash);
    node.says(id, Message::GetData(vec![tx, wtx, unknown, odd, known, filtered, tx]));
    let sent = node.take(id);
    assert_eq!(
        sent,
        [
            Sent::Message(Message::NotFound(vec![tx, wtx])),
            Sent::Block(blocks[0].bytes.clone()),
            Sent::Message(Message::NotFound(vec![tx])),
        ]
    );
}

/// Core has no `TxRelay` for them.
#[test]
fn who_wants_no_transactions_hears_nothing_of_those_that_it_asks_for() {
    let blocks = chain(3, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let block_relay = node.peer(ConnectionKind::BlockRelay);
    let silent = node.inbound();
    let version = Version { relay: false, ..node.version() };
    node.greet_as(silent, version);
    for id in [block_relay, silent] {
        node.take(id);
        let tx = Inventory { kind: InventoryKind::TX, hash: [6; 32] };
        node.says(id, Message::GetData(vec![tx, block_entry(blocks[0].hash)]));
        assert_eq!(node.take(id), [Sent::Block(blocks[0].bytes.clone())]);
    }
}

#[test]
fn b8_getdata_of_50000_transactions_is_answered_in_one_go() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let id = node.inbound_peer();
    node.take(id);
    let transactions = vec![Inventory { kind: InventoryKind::TX, hash: [6; 32] }; 50_000];
    node.says(id, Message::GetData(transactions));
    let sent = node.take(id);
    let [Sent::Message(Message::NotFound(missing))] = &sent[..] else { panic!("one answer") };
    assert_eq!(missing.len(), 50_000);
}

/// What a request takes in the queue.
const REQUEST_SIZE: usize = 40;

#[test]
fn b8_50000_blocks_wait_and_what_is_said_behind_them_is_not_read() {
    let blocks = chain(3, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    node.hold_reads = true;
    let id = node.inbound_peer();
    node.take(id);
    for _ in 0..3 {
        node.says(id, Message::GetData(vec![block_entry(blocks[0].hash); 50_000]));
    }
    assert_eq!((node.reads.len(), node.waiting_requests(id)), (1, 49_999));
    assert_eq!(node.peer_state(id).serving.request_bytes(), 50_000 * REQUEST_SIZE);
    assert_eq!((node.unread[&id].len(), node.take(id)), (2, vec![]));
    // One after the other is served, and nothing is kept of what is done.
    node.hold_reads = false;
    let (request, _, header) = node.reads.pop_front().expect("one read");
    node.answer_read(request, header);
    node.pump();
    assert_eq!(node.take(id).len(), 150_000);
    assert_eq!(node.peer_state(id).serving.request_bytes(), 0);
    assert_eq!(node.is_gone(id), None);
}

#[test]
fn b8_getdata_of_50001_entries_is_misbehaviour() {
    for (count, misbehaves) in [(50_000, false), (50_001, true)] {
        let mut node = Harness::with_chain(config(), &chain(3, 60));
        let id = node.inbound_peer();
        node.says(id, Message::GetData(vec![block_entry(BlockHash::from_bytes([5; 32])); count]));
        let what = Misbehaviour::TooManyEntries(Command::GETDATA);
        assert_eq!(node.is_gone(id), misbehaves.then_some(DisconnectReason::Misbehaved(what)));
    }
}

/// Core has no limit for it.
#[test]
fn b8_notfound_of_50001_entries_is_ignored() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let id = node.inbound_peer();
    let entry = block_entry(BlockHash::from_bytes([5; 32]));
    node.says(id, Message::NotFound(vec![entry; 50_001]));
    assert_eq!((node.is_gone(id), node.discouraged()), (None, 0));
}

/// btcd 0.26 asks a peer that is 2,564 blocks ahead for all of them, and bans it for a `notfound`.
#[test]
fn b8_2564_blocks_are_served_in_order_as_the_queue_drains() {
    let mut blocks = chain(2_564, 60);
    blocks.iter_mut().for_each(|block| block.bytes.resize(5_000, 0));
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    node.take(id);
    node.reads_everything = false;
    let entries: Vec<Inventory> = blocks.iter().map(|block| block_entry(block.hash)).collect();
    node.says(id, Message::GetData(entries));
    node.says(id, Message::Ping(Some(9)));
    let mut sent = Vec::new();
    loop {
        let part = node.take(id);
        let size = FRAME_HEADER_SIZE + 5_000;
        let waits = part.len() * size;
        assert!(waits <= SEND_PAUSE + size, "{waits} bytes wait");
        sent.extend(part);
        if !node.unread.contains_key(&id) {
            break;
        }
        assert!(waits > SEND_PAUSE, "it is served until enough waits");
        node.tell(NetEvent::Sent { peer: id, bytes: waits });
        node.pump();
    }
    let pong = Sent::Message(Message::Pong(9));
    let expected = blocks.into_iter().map(|block| Sent::Block(block.bytes)).chain([pong]);
    assert!(sent.into_iter().eq(expected), "in order, and what was said behind them last");
    assert_eq!(node.is_gone(id), None);
}

/// They cost the asker 36 bytes and us a search.
#[test]
fn b8_blocks_that_are_not_here_are_looked_up_a_thousand_at_a_time() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let id = node.inbound_peer();
    node.take(id);
    node.tick();
    assert!(node.peers.next_wakeup() > node.now.monotonic);
    node.says(id, Message::GetData(vec![block_entry(BlockHash::from_bytes([5; 32])); 50_000]));
    node.says(id, Message::Ping(Some(9)));
    for left in (0..50).rev() {
        assert_eq!(node.waiting_requests(id), left * 1_000);
        assert_eq!(node.peers.next_wakeup() == node.now.monotonic, left > 0, "{left}");
        assert_eq!(node.take(id).len(), usize::from(left == 0));
        node.tick();
    }
}

/// Two nodes that wait for each other's blocks must not both stop reading.
#[test]
fn who_owes_a_block_is_read_on_up_to_50000_requests() {
    let blocks = chain(20, 60);
    let mut node = Harness::with_chain(config(), &blocks[..10]);
    let id = node.full_peer();
    node.headers(id, &blocks);
    node.hold_reads = true;
    node.advance(Duration::from_secs(1));
    assert!(node.requested(id).len() > 1);
    let ask = |node: &mut Harness, count| {
        node.says(id, Message::GetData(vec![block_entry(blocks[0].hash); count]));
    };
    ask(&mut node, 10);
    ask(&mut node, 49_000);
    assert!(!node.unread.contains_key(&id));
    assert_eq!(node.waiting_requests(id), 49_009);
    // Its blocks arrive, though it is not served.
    node.gives(id, &blocks[10]);
    assert_eq!(node.tip(), blocks[10].hash);
    ask(&mut node, 50_000);
    assert!(node.unread.contains_key(&id), "so much is not asked for by accident");
    assert_eq!(node.waiting_requests(id), 99_009);
    let bytes = node.peer_state(id).serving.request_bytes();
    assert!(bytes <= 2 * 50_000 * REQUEST_SIZE, "{bytes}");

    // One that owes nothing when it asks is read when it shall give something.
    let mut node = Harness::with_chain(config(), &blocks[..10]);
    node.hold_reads = true;
    let id = node.full_peer();
    ask(&mut node, 10);
    node.says(id, Message::Ping(Some(9)));
    assert!(node.unread.contains_key(&id));
    node.expect_block(id);
    node.pump();
    assert_eq!(node.take_only(id, Command::PONG), [Message::Pong(9)]);
}

/// Its pongs are not read while it is served, however long that takes.
#[test]
fn who_is_served_for_hours_stays_as_long_as_it_takes_something() {
    let mut blocks = chain(10, 60);
    blocks.iter_mut().for_each(|block| block.bytes.resize(1_000_000, 0));
    let mut node = Harness::with_chain(config(), &blocks);
    node.reads_everything = false;
    node.answers_pings = false;
    let (slow, dead) = (node.inbound_peer(), node.inbound_peer());
    let entries: Vec<Inventory> = blocks.iter().map(|block| block_entry(block.hash)).collect();
    for id in [slow, dead] {
        node.take(id);
        node.says(id, Message::GetData(entries.clone()));
    }
    let mut sent = Vec::new();
    while node.unread.contains_key(&slow) {
        node.advance(Duration::from_secs(1_199));
        assert_eq!(node.is_gone(slow), None);
        let part = node.take(slow);
        node.tell(NetEvent::Sent { peer: slow, bytes: part.len() * 1_000_000 });
        node.pump();
        sent.extend(part);
    }
    assert_eq!(node.is_gone(dead), Some(DisconnectReason::Idle));
    // A pong may have waited all the time; there is another ping to be answered.
    node.advance(Duration::from_secs(1_199));
    assert_eq!(node.is_gone(slow), None);
    node.advance(Duration::from_secs(60));
    assert_eq!(node.is_gone(slow), Some(DisconnectReason::Idle));
}

#[test]
fn requests_for_transactions_are_bounded() {
    let blocks = chain(3, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    node.hold_reads = true;
    let id = node.inbound_peer();
    let block_hash = blocks[2].hash;
    let request = |count| {
        let positions = (0..count).collect();
        Message::GetBlockTxn(BlockTransactionsRequest { block_hash, positions })
    };
    for _ in 0..100 {
        node.says(id, request(1));
    }
    assert_eq!((node.reads.len(), node.unread[&id].len()), (1, 99));
    // All are answered, one after the other.
    node.take(id);
    node.hold_reads = false;
    let (read, _, header) = node.reads.pop_front().expect("one read");
    node.answer_read(read, header);
    node.pump();
    assert_eq!(node.take(id).len(), 100);

    // While a block is expected many wait; what they take is counted.
    node.hold_reads = true;
    node.expect_block(id);
    for _ in 0..100 {
        node.says(id, request(60_000));
    }
    let bytes = node.peer_state(id).serving.request_bytes();
    assert!(node.unread.contains_key(&id) && bytes > 50_000 * REQUEST_SIZE, "{bytes}");
    assert!(bytes < 50_000 * REQUEST_SIZE + (160 << 10), "one more than fits: {bytes}");
}
