use godwit_primitives::{Block, BlockHash, Work};
use godwit_stream::{BufferPool, DataStream, PoolLimits};

use super::harness::{FULL, Harness, START, Sent, block_entry, block_inv, chain, config};
use super::index::TestBlock;
use crate::frame::FRAME_HEADER_SIZE;
use crate::index::locator;
use crate::{
    Action, BlockTransactionsRequest, ChainEvent, Command, DisconnectReason, Frame, HeaderIndex,
    Inventory, InventoryKind, Locator, MAX_HEADERS, Message, Misbehaviour, NetCommand, NetEvent,
    PeerId, PeersConfig, SEND_PAUSE, SEND_QUEUE_MAX, Services,
};

pub(super) fn getheaders(hashes: Vec<BlockHash>) -> Message {
    Message::GetHeaders(Locator { hashes, stop: BlockHash::ZERO })
}

fn ask(node: &mut Harness, id: PeerId, kind: InventoryKind, hash: BlockHash) -> Vec<Sent> {
    node.take(id);
    node.says(id, Message::GetData(vec![Inventory::block(kind, hash)]));
    node.take(id)
}

#[test]
fn blocks_are_served_in_order_and_as_they_are_stored() {
    let blocks = chain(10, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    node.take(id);
    let entries = blocks.iter().map(|block| block_entry(block.hash)).collect();
    node.says(id, Message::GetData(entries));
    let expected: Vec<Sent> = blocks.iter().map(|block| Sent::Block(block.bytes.clone())).collect();
    assert_eq!(node.take(id), expected);
}

#[test]
fn a_block_without_witness_is_stripped() {
    let plain = &chain(1, 60)[0];
    let mut node = Harness::with_chain(config(), std::slice::from_ref(plain));
    let id = node.inbound_peer();
    let sent = ask(&mut node, id, InventoryKind::BLOCK, plain.hash);
    assert_eq!(sent, [Sent::Block(plain.bytes.clone())]);
    // The same transactions with a witness: other bytes, the same header.
    let block = Block::from_bytes(&plain.bytes).expect("a block");
    let mut coinbase = block.view().tx(0).to_owned();
    coinbase.inputs[0].witness = vec![vec![0; 32]];
    let mut bytes: DataStream = DataStream::new();
    bytes.put(block.header());
    bytes.write_compact_size(1);
    bytes.put(&coinbase);
    let with_witness = TestBlock { bytes: bytes.as_slice().to_vec(), ..plain.clone() };
    let mut node = Harness::with_chain(config(), std::slice::from_ref(&with_witness));
    let id = node.inbound_peer();
    let sent = ask(&mut node, id, InventoryKind::BLOCK, plain.hash);
    assert_eq!(sent, [Sent::Block(plain.bytes.clone())]);
    let sent = ask(&mut node, id, InventoryKind::WITNESS_BLOCK, plain.hash);
    assert_eq!(sent, [Sent::Block(with_witness.bytes)]);
}

/// Has the peer ask for so much that nothing more is read for it; the bytes that are queued.
fn fill_queue(node: &mut Harness, id: PeerId) -> usize {
    node.take(id);
    let transactions = vec![Inventory { kind: InventoryKind::TX, hash: [6; 32] }; 50_000];
    let size = FRAME_HEADER_SIZE + 3 + transactions.len() * Inventory::SIZE;
    node.says(id, Message::GetData(transactions));
    assert!(size > SEND_PAUSE && node.take_only(id, Command::NOTFOUND).len() == 1);
    size
}

#[test]
fn b7_a_late_report_takes_nothing_off_that_was_queued_after_it() {
    let blocks = chain(2, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    node.reads_everything = false;
    let queued = fill_queue(&mut node, id);
    // What the driver wrote before it came to know of the long answer.
    node.tell(NetEvent::Sent { peer: id, bytes: 0 });
    node.says(id, Message::GetData(vec![block_entry(blocks[0].hash)]));
    assert_eq!(node.take(id), []);
    node.tell(NetEvent::Sent { peer: id, bytes: queued });
    node.pump();
    assert_eq!(node.take(id), [Sent::Block(blocks[0].bytes.clone())]);
}

#[test]
fn b7_small_answers_hold_no_buffer_of_a_block() {
    let pool =
        BufferPool::new(PoolLimits { buffers: 1, buffer_bytes: 4_000_000, total_bytes: 4_000_000 });
    let mut buffer = pool.take();
    buffer.reserve(4_000_000);
    drop(buffer);
    let mut node = Harness::new(PeersConfig { pool, ..config() });
    let id = node.inbound_peer();
    let payload = DataStream::from(&[7; 8][..]).into();
    node.tell(NetEvent::Frame { peer: id, frame: Frame { command: Command::PING, payload } });
    let actions = node.peers.take_actions();
    let sizes = actions.iter().map(|action| match action {
        Action::Net(NetCommand::Send { command: Command::PONG, payload, .. }) => payload.capacity(),
        other => panic!("{other:?}"),
    });
    assert!(sizes.max().is_some_and(|capacity| capacity < 100));
}

#[test]
fn b7_blocks_are_read_only_as_fast_as_the_peer_takes_them() {
    let blocks = chain(20, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    node.reads_everything = false;
    let mut excess = fill_queue(&mut node, id) - SEND_PAUSE;
    let entries: Vec<Inventory> = blocks.iter().map(|block| block_entry(block.hash)).collect();
    node.says(id, Message::GetData(entries));
    assert_eq!(node.take(id), [], "nothing is read while so much is queued");
    for (place, block) in blocks.iter().enumerate() {
        node.hold_reads = true;
        node.tell(NetEvent::Sent { peer: id, bytes: excess - 1 });
        node.pump();
        assert!(node.reads.is_empty(), "one byte too many is left");
        node.tell(NetEvent::Sent { peer: id, bytes: 1 });
        node.pump();
        excess = FRAME_HEADER_SIZE + block.bytes.len();
        let (request, peer, header) = node.reads.pop_front().expect("one read");
        assert!(peer == id && node.reads.is_empty(), "one at a time");
        node.answer_read(request, header);
        node.pump();
        assert_eq!(node.take(id), [Sent::Block(block.bytes.clone())], "{place}");
        assert!(node.reads.is_empty(), "its bytes were counted");
    }
}

#[test]
fn b7_a_peer_that_asks_and_never_reads_is_left() {
    let blocks = chain(MAX_HEADERS as u32, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    node.reads_everything = false;
    let (hostile, honest) = (node.inbound_peer(), node.inbound_peer());
    node.take(hostile);
    let mut queued = 0;
    let mut asked = 0;
    while node.is_gone(hostile).is_none() {
        node.says(hostile, getheaders(vec![TestBlock::genesis().hash]));
        queued += 3 + 81 * node.take_only(hostile, Command::HEADERS).len() * MAX_HEADERS;
        asked += 1;
        assert!(asked < 100 && queued <= SEND_QUEUE_MAX);
    }
    assert_eq!(node.is_gone(hostile), Some(DisconnectReason::SendQueueFull));
    assert_eq!(node.is_gone(honest), None);
}

#[test]
fn headers_are_served_from_where_the_chains_part() {
    let blocks = chain(MAX_HEADERS as u32 + 50, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    let mut ask = |hashes: Vec<BlockHash>, stop| {
        node.take(id);
        node.says(id, Message::GetHeaders(Locator { hashes, stop }));
        match node.take(id).pop() {
            Some(Sent::Message(Message::Headers(headers))) => headers,
            other => panic!("{other:?}"),
        }
    };
    let header = |place: usize| blocks[place].header;
    let genesis = TestBlock::genesis().hash;
    let all = ask(vec![genesis], BlockHash::ZERO);
    assert_eq!((all.len(), all[0], all[1_999]), (MAX_HEADERS, header(0), header(1_999)));
    let rest = ask(vec![blocks[2_039].hash, genesis], BlockHash::ZERO);
    assert_eq!((rest.len(), rest[0]), (10, header(2_040)));
    let stopped = ask(vec![blocks[4].hash], blocks[7].hash);
    assert_eq!(stopped, [header(5), header(6), header(7)]);
    let unknown = ask(vec![BlockHash::from_bytes([1; 32]), blocks[2_047].hash], BlockHash::ZERO);
    assert_eq!(unknown.len(), 2);
    assert_eq!(ask(vec![BlockHash::from_bytes([1; 32])], BlockHash::ZERO)[0], header(0));
    assert_eq!(ask(vec![blocks[2_049].hash], BlockHash::ZERO), []);
    assert_eq!(ask(Vec::new(), blocks[9].hash), [header(9)], "without locator: the one block");
}

#[test]
fn b8_a_question_costs_no_more_than_its_answer() {
    let blocks = chain(MAX_HEADERS as u32 + 50, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    let hashes = vec![TestBlock::genesis().hash];
    let locator = Locator { hashes, stop: blocks[4].hash };
    for message in [Message::GetHeaders(locator.clone()), Message::GetBlocks(locator.clone())] {
        node.take(id);
        node.index.steps.set(0);
        node.says(id, message);
        let steps = node.index.steps.take();
        assert!(node.take(id).len() == 1 && steps < 200, "{steps} steps for five headers");
    }
}

#[test]
fn a_locator_above_101_hashes_ends_the_connection() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let (ok, headers, blocks) = (node.inbound_peer(), node.inbound_peer(), node.inbound_peer());
    node.says(ok, getheaders(vec![BlockHash::ZERO; 101]));
    assert_eq!(node.is_gone(ok), None);
    let long = Locator { hashes: vec![BlockHash::ZERO; 102], stop: BlockHash::ZERO };
    node.says(headers, Message::GetHeaders(long.clone()));
    node.says(blocks, Message::GetBlocks(long));
    for id in [headers, blocks] {
        assert_eq!(node.is_gone(id), Some(DisconnectReason::LocatorTooLong));
    }
}

#[test]
fn headers_are_not_served_below_the_minimum_work() {
    let blocks = chain(10, 60);
    for (extra, expected) in [(0, 10), (1, 0)] {
        let minimum_chain_work = Work::from(2 * 11u32 + extra);
        let mut node = Harness::with_chain(PeersConfig { minimum_chain_work, ..config() }, &blocks);
        let id = node.inbound_peer();
        node.take(id);
        node.says(id, getheaders(vec![TestBlock::genesis().hash]));
        let sent = node.take(id);
        let [Sent::Message(Message::Headers(headers))] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(headers.len(), expected, "an empty answer is one, too");
    }
}

#[test]
fn getblocks_is_answered_in_batches_of_500() {
    let blocks = chain(1_100, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    let mut from = TestBlock::genesis().hash;
    let mut told = Vec::new();
    for expected in [500, 500, 100] {
        node.take(id);
        node.says(id, Message::GetBlocks(Locator { hashes: vec![from], stop: BlockHash::ZERO }));
        let sent = node.take(id);
        let [Sent::Message(Message::Inv(entries))] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(entries.len(), expected);
        told.extend(entries.iter().map(Inventory::block_hash));
        from = *told.last().expect("some");
        // Asking for the last one of a full batch brings the tip, so that the peer goes on.
        let sent = ask(&mut node, id, InventoryKind::WITNESS_BLOCK, from);
        let tip = Sent::Message(Message::Inv(vec![block_inv(blocks[1_099].hash)]));
        assert_eq!(sent.len(), if expected == 500 { 2 } else { 1 });
        assert_eq!(sent.last() == Some(&tip), expected == 500);
    }
    assert_eq!(told, blocks.iter().map(|block| block.hash).collect::<Vec<_>>());
    let stop = blocks[3].hash;
    node.says(id, Message::GetBlocks(Locator { hashes: vec![blocks[0].hash], stop }));
    let expected = vec![block_inv(blocks[1].hash), block_inv(blocks[2].hash)];
    assert_eq!(node.take(id), [Sent::Message(Message::Inv(expected))], "without the last one");
}

/// Core `ProcessGetBlockData`: only the answer depends on the filter.
#[test]
fn a_filtered_block_is_not_sent_and_the_next_batch_is_told_behind_it() {
    let blocks = chain(1_100, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    let hashes = vec![TestBlock::genesis().hash];
    node.says(id, Message::GetBlocks(Locator { hashes, stop: BlockHash::ZERO }));
    let filtered = InventoryKind::FILTERED_BLOCK;
    assert_eq!(ask(&mut node, id, filtered, blocks[498].hash), []);
    let tip = Sent::Message(Message::Inv(vec![block_inv(blocks[1_099].hash)]));
    assert_eq!(ask(&mut node, id, filtered, blocks[499].hash), [tip]);
    assert_eq!(ask(&mut node, id, filtered, blocks[499].hash), [], "once");
    assert!(node.reads.is_empty());
}

#[test]
fn a_filtered_block_ends_the_connection_where_any_other_form_would() {
    let blocks = chain(400, 60);
    let services = Services::WITNESS | Services::NETWORK_LIMITED;
    for (place, served) in [(109, true), (108, false)] {
        let mut node = Harness::with_chain(PeersConfig { services, ..config() }, &blocks);
        let id = node.inbound_peer();
        assert_eq!(ask(&mut node, id, InventoryKind::FILTERED_BLOCK, blocks[place].hash), []);
        let why = (!served).then_some(DisconnectReason::PrunedBlock);
        assert_eq!(node.is_gone(id), why);
    }
    // Above the upload target a young one, too.
    let limit = 144 * 4_000_000 + 1_000_000;
    let config = PeersConfig { max_upload_target: Some(limit), ..config() };
    let mut node = Harness::with_chain(config, &blocks);
    let (id, other) = (node.inbound_peer(), node.inbound_peer());
    let young = blocks[399].hash;
    assert_eq!(ask(&mut node, id, InventoryKind::FILTERED_BLOCK, young), []);
    assert_eq!(node.is_gone(id), None);
    node.tell(NetEvent::Sent { peer: other, bytes: 1_000_000 });
    assert_eq!(ask(&mut node, id, InventoryKind::FILTERED_BLOCK, young), []);
    assert_eq!(node.is_gone(id), Some(DisconnectReason::UploadTarget));
}

#[test]
fn a_pruned_node_serves_the_last_290_blocks_only() {
    let blocks = chain(400, 60);
    let services = Services::WITNESS | Services::NETWORK_LIMITED;
    for (place, served) in [(399, true), (109, true), (108, false), (0, false)] {
        let mut node = Harness::with_chain(PeersConfig { services, ..config() }, &blocks);
        node.index.prune_height = 50;
        let id = node.inbound_peer();
        let sent = ask(&mut node, id, InventoryKind::WITNESS_BLOCK, blocks[place].hash);
        assert_eq!(sent.len(), usize::from(served), "{place}");
        let why = (!served).then_some(DisconnectReason::PrunedBlock);
        assert_eq!(node.is_gone(id), why);
    }
    // One that was deleted all the same is passed over.
    let mut node = Harness::with_chain(PeersConfig { services: FULL, ..config() }, &blocks);
    node.index.prune_height = 300;
    let id = node.inbound_peer();
    let sent = ask(&mut node, id, InventoryKind::WITNESS_BLOCK, blocks[200].hash);
    assert_eq!((sent, node.is_gone(id)), (vec![], None));
}

#[test]
fn a_pruned_node_announces_what_it_will_have_in_an_hour() {
    let blocks = chain(400, 60);
    let services = Services::WITNESS | Services::NETWORK_LIMITED;
    let mut node = Harness::with_chain(PeersConfig { services, ..config() }, &blocks);
    let id = node.inbound_peer();
    let mut ask = |from: usize| {
        node.take(id);
        let hashes = vec![blocks[from].hash];
        node.says(id, Message::GetBlocks(Locator { hashes, stop: BlockHash::ZERO }));
        node.take(id).len()
    };
    assert_eq!((ask(0), ask(116), ask(117)), (0, 0, 1));
}

#[test]
fn old_branches_are_served_to_nobody() {
    let blocks = chain(50, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let recent = TestBlock::chain(&blocks[45], 2, START as u32 - 600, 7);
    let old = TestBlock::chain(&blocks[2], 2, START as u32 - 31 * 24 * 3_600, 8);
    node.index.extend(&recent);
    node.index.extend(&old);
    let id = node.inbound_peer();
    for (block, served) in [(&recent[1], true), (&old[1], false)] {
        let sent = ask(&mut node, id, InventoryKind::WITNESS_BLOCK, block.hash);
        let block_sent = matches!(sent[..], [Sent::Block(_)]);
        assert_eq!(block_sent, served);
        node.says(id, Message::GetHeaders(Locator { hashes: Vec::new(), stop: block.hash }));
        assert_eq!(node.take(id).len(), usize::from(served), "nor its header");
    }
    // Near enough to the tip for single transactions.
    let old = TestBlock::chain(&blocks[45], 2, START as u32 - 31 * 24 * 3_600, 9);
    node.index.extend(&old);
    let request = BlockTransactionsRequest { block_hash: old[1].hash, positions: vec![0] };
    node.says(id, Message::GetBlockTxn(request));
    assert_eq!(node.take(id), []);
    assert_eq!(node.is_gone(id), None);
}

#[test]
fn above_the_upload_target_old_blocks_end_the_connection() {
    let blocks = chain(2_000, 60);
    let limit = 144 * 4_000_000 + 1_000_000;
    let config = PeersConfig { max_upload_target: Some(limit), ..config() };
    let mut node = Harness::with_chain(config, &blocks);
    let (a, b, c) = (node.inbound_peer(), node.inbound_peer(), node.inbound_peer());
    let (old, young) = (blocks[0].hash, blocks[1_999].hash);
    assert_eq!(ask(&mut node, a, InventoryKind::WITNESS_BLOCK, old).len(), 1);
    node.tell(NetEvent::Sent { peer: a, bytes: 1_000_000 });
    assert_eq!(ask(&mut node, b, InventoryKind::WITNESS_BLOCK, young).len(), 1);
    assert_eq!(ask(&mut node, c, InventoryKind::WITNESS_BLOCK, old).len(), 0);
    assert_eq!(node.is_gone(c), Some(DisconnectReason::UploadTarget));
    assert_eq!((node.is_gone(a), node.is_gone(b)), (None, None));
}

#[test]
fn transactions_of_young_blocks_are_served_old_blocks_are_sent_whole() {
    let mut blocks = chain(20, 660);
    let rich = TestBlock::on(&blocks[19], START as u32 - 60, 5, 4);
    blocks.push(rich.clone());
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    let request = |block: &TestBlock, positions: &[u16]| {
        let block_hash = block.hash;
        Message::GetBlockTxn(BlockTransactionsRequest { block_hash, positions: positions.to_vec() })
    };
    node.take(id);
    node.says(id, request(&rich, &[1, 4]));
    let sent = node.take(id);
    let [Sent::Message(Message::BlockTxn(answer))] = &sent[..] else { panic!("{sent:?}") };
    let block = Block::from_bytes(&rich.bytes).expect("a block");
    assert_eq!(answer.transactions.get(1), Some(block.view().tx(4).bytes()));
    // Height 11 of 21 is ten below the tip, 10 is more.
    node.says(id, request(&blocks[10], &[0]));
    assert!(matches!(node.take(id)[..], [Sent::Message(Message::BlockTxn(_))]));
    node.says(id, request(&blocks[9], &[0]));
    assert_eq!(node.take(id), [Sent::Block(blocks[9].bytes.clone())]);
    node.says(id, request(&rich, &[5]));
    let what = Misbehaviour::TransactionsOutOfRange;
    assert_eq!(node.is_gone(id), Some(DisconnectReason::Misbehaved(what)));
}

#[test]
fn a_block_that_can_not_be_read_ends_the_connection_of_who_waits_for_it() {
    let blocks = chain(3, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    node.hold_reads = true;
    let (id, other) = (node.inbound_peer(), node.inbound_peer());
    node.says(id, Message::GetData(vec![block_entry(blocks[0].hash)]));
    let (request, ..) = node.reads.pop_front().expect("a read");
    node.tell(ChainEvent::BlockRead { request, bytes: None });
    node.pump();
    assert_eq!(node.is_gone(id), Some(DisconnectReason::BlockUnreadable));
    assert_eq!(node.is_gone(other), None);
    // An answer for somebody who is gone is dropped.
    node.tell(ChainEvent::BlockRead { request, bytes: None });
    node.pump();
}

#[test]
fn what_is_not_offered_ends_the_connection() {
    for command in [Command::MEMPOOL, Command::FILTERLOAD, Command::FILTERCLEAR] {
        let mut node = Harness::new(config());
        let id = node.inbound_peer();
        node.discard(id, command, 10);
        assert_eq!(node.is_gone(id), Some(DisconnectReason::NotOffered(command)));
        assert_eq!(node.discouraged(), 0);
    }
    let mut node = Harness::new(config());
    let id = node.inbound_peer();
    node.discard(id, Command::new("sendtxrcncl"), 12);
    node.discard(id, Command::new("whatever"), 3_000_000);
    assert_eq!(node.is_gone(id), None, "unknown messages are ignored");
}

#[test]
fn locators_reach_genesis() {
    let node = Harness::with_chain(config(), &chain(100, 60));
    let hashes = locator(&node.index, node.index.tip());
    assert_eq!(hashes.last(), Some(&TestBlock::genesis().hash));
}
