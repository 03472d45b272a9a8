//! The memory of all connections together.

use std::time::Duration;

use godwit_primitives::{Block, BlockHash, Work};
use godwit_stream::{BufferPool, DataStream, PoolLimits};

use super::harness::{Harness, START, Sent, block_entry, chain, config};
use super::index::TestBlock;
use crate::frame::FRAME_HEADER_SIZE;
use crate::peers::memory::account::{
    ENOUGH, LARGEST_BLOCK, MAX_LASTING_OUTBOUND, READS, READS_IN_INITIAL_DOWNLOAD, SHORT,
};
use crate::peers::memory::footprint::STALLED;
use crate::{
    Action, BlockTransactionsRequest, ChainEvent, ChainRequest, Command, ConnectionKind,
    DisconnectReason, Frame, Inventory, InventoryKind, Locator, MAX_HEADERS, MAX_PAYLOAD, Message,
    NetCommand, NetEvent, PEER_MEMORY, PeerId, PeersConfig, SEND_PAUSE,
};

pub(super) const HELD: Option<DisconnectReason> = Some(DisconnectReason::HoldsMemory);

pub(super) fn many() -> PeersConfig {
    PeersConfig { max_inbound: 300, ..config() }
}

fn getheaders() -> Message {
    Message::GetHeaders(Locator { hashes: vec![TestBlock::genesis().hash], stop: BlockHash::ZERO })
}

/// The same block, with a witness of so many bytes.
pub(super) fn with_witness(plain: &TestBlock, size: usize) -> TestBlock {
    let block = Block::from_bytes(&plain.bytes).expect("a block");
    let mut coinbase = block.view().tx(0).to_owned();
    coinbase.inputs[0].witness = vec![vec![0; size]];
    let mut bytes: DataStream = DataStream::new();
    bytes.put(block.header());
    bytes.write_compact_size(1);
    bytes.put(&coinbase);
    TestBlock { bytes: bytes.as_slice().to_vec(), ..plain.clone() }
}

/// Length and capacity of every payload that a message brings.
fn payloads(node: &mut Harness, id: PeerId, message: &Message) -> Vec<(usize, usize)> {
    let mut payload: DataStream = DataStream::new();
    message.encode(&mut payload);
    let frame = Frame { command: message.command(), payload: payload.into() };
    node.tell(NetEvent::Frame { peer: id, frame });
    let mut sizes = Vec::new();
    loop {
        let actions = node.peers.take_actions();
        if actions.is_empty() {
            return sizes;
        }
        for action in actions {
            match action {
                Action::Net(NetCommand::Send { payload, .. }) => {
                    sizes.push((payload.len(), payload.capacity()))
                }
                Action::Chain(ChainRequest::ReadBlock { request, id, .. }) => {
                    node.answer_read(request, id)
                }
                Action::Net(NetCommand::ReadOn { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn b7_blocks_for_peers_hold_no_buffer_of_a_larger_one() {
    const LARGEST: usize = MAX_PAYLOAD as usize;
    let limits = PoolLimits { buffers: 9, buffer_bytes: LARGEST, total_bytes: 9 * LARGEST };
    let pool = BufferPool::new(limits);
    let buffers: Vec<_> = (0..9).map(|_| pool.take_for(LARGEST)).collect();
    drop(buffers);
    let mut blocks = chain(20, 60);
    blocks[19] = with_witness(&blocks[19], 1_700_000);
    let mut node = Harness::with_chain(PeersConfig { pool, ..config() }, &blocks);
    let id = node.inbound_peer();
    let transactions = |block: &TestBlock| {
        let request = BlockTransactionsRequest { block_hash: block.hash, positions: vec![0] };
        Message::GetBlockTxn(request)
    };
    let data = |kind, block: &TestBlock| Message::GetData(vec![Inventory::block(kind, block.hash)]);
    for message in [
        transactions(&blocks[17]),
        data(InventoryKind::BLOCK, &blocks[0]),
        data(InventoryKind::BLOCK, &blocks[19]),
        data(InventoryKind::CMPCT_BLOCK, &blocks[0]),
        data(InventoryKind::CMPCT_BLOCK, &blocks[18]),
        data(InventoryKind::WITNESS_BLOCK, &blocks[19]),
    ] {
        let sizes = payloads(&mut node, id, &message);
        assert_eq!(sizes.len(), 1, "{message:?}");
        for (len, capacity) in sizes {
            assert!(capacity < 4 * (len + 1), "{capacity} for {len} of {message:?}");
        }
    }
}

#[test]
fn what_is_sent_is_charged_by_its_buffer_until_all_of_it_is_written() {
    let blocks = chain(200, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    node.reads_everything = false;
    assert_eq!(node.peers.memory(), 0);
    node.says(id, getheaders());
    let bytes = FRAME_HEADER_SIZE + 1 + 200 * 81;
    let memory = node.peers.memory();
    assert!(memory >= bytes && memory < 3 * bytes, "{memory}");
    node.tell(NetEvent::Sent { peer: id, bytes: bytes - 1 });
    assert_eq!(node.peers.memory(), memory);
    node.tell(NetEvent::Sent { peer: id, bytes: 1 });
    assert_eq!(node.peers.memory(), 0);
}

#[test]
fn requests_half_received_messages_and_presyncs_are_charged() {
    let blocks = chain(3, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    node.hold_reads = true;
    let id = node.inbound_peer();
    node.says(id, Message::GetData(vec![block_entry(blocks[0].hash)]));
    let read = LARGEST_BLOCK;
    assert!((read..read + 1_000).contains(&node.peers.memory()), "{}", node.peers.memory());
    // It may say more behind its request.
    node.expect_block(id);
    node.pump();
    let positions = (0..50_000).collect();
    let request = BlockTransactionsRequest { block_hash: blocks[2].hash, positions };
    node.says(id, Message::GetBlockTxn(request));
    let waiting = node.peers.memory();
    assert!(waiting >= read + 100_000);
    node.tell(NetEvent::Receiving { peer: id, memory: 70_000 });
    assert_eq!(node.peers.memory(), waiting + 70_000);
    node.tell(NetEvent::Receiving { peer: id, memory: 90_000 });
    assert_eq!(node.peers.memory(), waiting + 90_000);
    node.says(id, Message::SendHeaders);
    assert_eq!(node.peers.memory(), waiting);
    node.tell(NetEvent::Receiving { peer: id, memory: 90_000 });
    node.discard(id, Command::new("whatever"), 3_000);
    assert_eq!(node.peers.memory(), waiting);
    node.tell(NetEvent::Closed { peer: id });
    assert_eq!(node.peers.memory(), read, "what is read for it comes all the same");
    let (request, _, header) = node.reads.pop_front().expect("a read");
    node.answer_read(request, header);
    assert_eq!(node.peers.memory(), 0);

    let minimum_chain_work = Work::from(1_000_000u32);
    let mut node = Harness::new(PeersConfig { minimum_chain_work, ..config() });
    let id = node.full_peer();
    let before = node.peers.memory();
    node.headers(id, &chain(MAX_HEADERS as u32, 4_000_000));
    assert_eq!(node.presync_height(), Some(MAX_HEADERS as u32));
    assert!(node.peers.memory() > before);
}

#[test]
fn blocks_are_read_for_a_few_peers_at_once_and_for_all_of_them_in_turn() {
    let blocks = chain(20, 60);
    let mut node = Harness::with_chain(many(), &blocks);
    node.hold_reads = true;
    let peers: Vec<PeerId> = (0..READS + 3).map(|_| node.inbound_peer()).collect();
    let wanted: Vec<Inventory> = blocks.iter().map(|block| block_entry(block.hash)).collect();
    for &id in &peers {
        node.says(id, Message::GetData(wanted.clone()));
    }
    assert_eq!(node.reads.len(), READS);
    let mut order = Vec::new();
    for n in 0..4 * peers.len() {
        let (request, peer, header) = node.reads.pop_front().expect("a read");
        order.push(peer);
        node.answer_read(request, header);
        node.pump();
        assert_eq!(node.reads.len(), READS, "{n}");
    }
    let turns: Vec<PeerId> = peers.iter().copied().cycle().take(order.len()).collect();
    assert_eq!(order, turns);
    // What was being read for a peer that leaves comes all the same; nothing more is read for it.
    assert_eq!(node.reads[0].1, peers[0]);
    node.tell(NetEvent::Closed { peer: peers[0] });
    for n in 0..2 * peers.len() {
        let (request, peer, header) = node.reads.pop_front().expect("a read");
        assert_eq!(peer == peers[0], n == 0);
        node.answer_read(request, header);
        node.pump();
        assert_eq!(node.reads.len(), READS);
    }
}

#[test]
fn fewer_blocks_are_read_for_peers_in_the_initial_download() {
    let blocks = chain(20, 60);
    let mut node = Harness::with_chain(many(), &blocks);
    node.hold_reads = true;
    node.initial_download = true;
    node.tell(ChainEvent::TipChanged { initial_download: true });
    let peers: Vec<PeerId> = (0..READS + 3).map(|_| node.inbound_peer()).collect();
    let wanted: Vec<Inventory> = blocks.iter().map(|block| block_entry(block.hash)).collect();
    for &id in &peers {
        node.says(id, Message::GetData(wanted.clone()));
    }
    for &expected in peers.iter().chain(&peers) {
        assert_eq!(node.reads.len(), READS_IN_INITIAL_DOWNLOAD);
        let (request, peer, header) = node.reads.pop_front().expect("a read");
        assert_eq!(peer, expected, "all of them have their turn");
        node.answer_read(request, header);
        node.pump();
    }
    node.initial_download = false;
    node.tell(ChainEvent::TipChanged { initial_download: false });
    node.advance(Duration::from_secs(1));
    assert_eq!(node.reads.len(), READS);
    node.initial_download = true;
    node.tell(ChainEvent::TipChanged { initial_download: true });
    for left in (READS_IN_INITIAL_DOWNLOAD..READS).rev() {
        let (request, _, header) = node.reads.pop_front().expect("a read");
        node.answer_read(request, header);
        node.pump();
        assert_eq!(node.reads.len(), left);
    }
}

#[test]
fn what_needs_no_read_waits_for_none() {
    let old = chain(20, 6_000);
    let new = TestBlock::chain(&old[19], 1, START as u32, 1);
    let mut node = Harness::with_chain(many(), &old);
    let quick = node.inbound_peer();
    node.says(quick, Message::SendCmpct { announce: true, version: 2 });
    node.headers(quick, &old[19..]);
    node.mined(&new);
    node.hold_reads = true;
    let readers: Vec<PeerId> = (0..READS + 1).map(|_| node.inbound_peer()).collect();
    for &id in &readers {
        node.says(id, Message::GetData(vec![block_entry(old[0].hash)]));
    }
    assert_eq!(node.reads.len(), READS, "the last one waits");
    node.take(quick);
    node.says(quick, Message::GetData(vec![block_entry(BlockHash::ZERO)]));
    let request = BlockTransactionsRequest { block_hash: new[0].hash, positions: vec![0] };
    node.says(quick, Message::GetBlockTxn(request));
    assert_eq!(node.take_only(quick, Command::BLOCKTXN).len(), 1);
    // What has to be read for it waits like the others.
    node.says(quick, Message::GetData(vec![block_entry(old[0].hash)]));
    let mut order = Vec::new();
    while let Some((request, peer, header)) = node.reads.pop_front() {
        order.push(peer);
        node.answer_read(request, header);
        node.pump();
    }
    assert_eq!(order, [readers, vec![quick]].concat());
}

#[test]
fn what_nobody_can_give_takes_no_memory() {
    let mut node = Harness::with_chain(many(), &chain(20, 60));
    let id = node.inbound_peer();
    let before = node.peers.memory();
    let odd = Inventory { kind: InventoryKind(0x77), hash: [7; 32] };
    node.says(id, Message::GetData(vec![odd; 50_000]));
    assert_eq!(node.peers.memory(), before);
}

#[test]
fn memory_that_is_short_is_for_those_that_take_what_they_ask_for() {
    let blocks = chain(20, 60);
    let mut node = Harness::with_chain(many(), &blocks);
    let (slow, quick, holder) = (node.inbound_peer(), node.inbound_peer(), node.inbound_peer());
    node.reads_everything = false;
    node.says(slow, Message::Ping(Some(7)));
    node.take(slow);
    let mut held = 0;
    // Has the holder fill memory up to this; what the driver was told last.
    let mut fill = |node: &mut Harness, memory: usize| {
        held = memory - (node.peers.memory() - held);
        node.tell(NetEvent::Receiving { peer: holder, memory: held });
        assert_eq!(node.peers.memory(), memory);
        node.pump();
        node.pauses.last().copied()
    };
    assert_eq!(fill(&mut node, SHORT), None);
    assert_eq!(fill(&mut node, SHORT + 1), Some(0));
    let block = Sent::Block(blocks[0].bytes.clone());
    for (id, expected) in [(slow, &[][..]), (quick, std::slice::from_ref(&block))] {
        node.take(id);
        node.says(id, Message::GetData(vec![block_entry(blocks[0].hash)]));
        assert_eq!(node.take(id), expected);
    }
    node.tell(NetEvent::Sent { peer: slow, bytes: FRAME_HEADER_SIZE + 8 });
    node.pump();
    assert_eq!(node.take(slow), [block], "it has taken the pong");
    assert_eq!(fill(&mut node, ENOUGH + 1), Some(0));
    assert_eq!(fill(&mut node, ENOUGH), Some(SEND_PAUSE));
    assert_eq!((node.pauses.len(), node.gone.len()), (2, 0));
}

#[test]
fn b7_the_budget_holds_against_a_hundred_and_twenty_that_read_nothing() {
    let blocks = chain(MAX_HEADERS as u32, 60);
    let mut node = Harness::with_chain(many(), &blocks);
    let honest = node.inbound_peer();
    let hostile: Vec<PeerId> = (0..120).map(|_| node.inbound_peer()).collect();
    node.reads_everything = false;
    let answer = FRAME_HEADER_SIZE + 3 + 81 * MAX_HEADERS;
    for round in 0..8 {
        for &id in hostile.iter().chain([&honest]) {
            if node.is_gone(id).is_none() {
                node.says(id, getheaders());
                node.take(id);
            }
            assert!(node.peers.memory() <= PEER_MEMORY, "round {round}: {}", node.peers.memory());
        }
        node.tell(NetEvent::Sent { peer: honest, bytes: answer });
    }
    assert!(node.gone.len() > 40, "{}", node.gone.len());
    assert!(node.gone.values().all(|why| Some(*why) == HELD));
    assert_eq!((node.is_gone(honest), node.discouraged()), (None, 0));
    assert_eq!(node.pauses, [0]);
}

#[test]
fn a_slow_reader_keeps_its_connection_while_those_that_read_nothing_go() {
    const SILENT: usize = 60;
    const STEP: Duration = Duration::from_secs(20);
    let mut blocks = chain(20, 60);
    for block in &mut blocks[10..] {
        *block = with_witness(block, 1_700_000);
    }
    let mut node = Harness::with_chain(many(), &blocks);
    let slow = node.inbound_peer();
    let silent: Vec<PeerId> = (0..SILENT).map(|_| node.inbound_peer()).collect();
    node.reads_everything = false;
    let wanted: Vec<Inventory> = blocks[10..].iter().map(|block| block_entry(block.hash)).collect();
    for &id in [slow].iter().chain(&silent) {
        node.says(id, Message::GetData(wanted.clone()));
    }
    let served = |node: &mut Harness, id| {
        node.take(id).iter().filter(|sent| matches!(sent, Sent::Block(_))).count()
    };
    let mut got = served(&mut node, slow);
    assert_eq!(got, 1);
    assert!(silent.iter().any(|&id| served(&mut node, id) == 0), "not all of them fit");
    // 50 kB/s, seen in steps.
    let mut passed = Duration::ZERO;
    while got < 8 {
        node.advance(STEP);
        passed += STEP;
        assert!(passed < Duration::from_secs(1_000), "{got} blocks");
        if passed <= STALLED {
            assert_eq!(node.gone.len(), 0, "{passed:?}");
        }
        node.tell(NetEvent::Sent { peer: slow, bytes: 50_000 * STEP.as_secs() as usize });
        node.pump();
        got += served(&mut node, slow);
        assert!(node.peers.memory() <= PEER_MEMORY);
    }
    assert_eq!(node.is_gone(slow), None);
    let gone = silent.iter().filter(|&&id| node.is_gone(id) == HELD).count();
    assert!(gone >= SILENT / 3, "{gone}");
    assert_eq!((node.gone.len(), node.discouraged()), (gone, 0));
}

#[test]
fn half_messages_count_against_who_sends_them_but_not_blocks_that_were_asked_for() {
    const HALF: usize = 1_800_000;
    let blocks = chain(20, 60);
    let mut node = Harness::with_chain(many(), &blocks);
    let asked = node.full_peer();
    node.headers(asked, &TestBlock::chain(&blocks[19], 1, super::harness::recent(), 9));
    node.advance(Duration::from_secs(1));
    assert_eq!(node.expects.get(&asked), Some(&true));
    node.tell(NetEvent::Receiving { peer: asked, memory: MAX_PAYLOAD as usize });
    assert_eq!((node.held_by_peers(), node.peers.memory()), (0, MAX_PAYLOAD as usize));
    let fit = PEER_MEMORY / HALF;
    let senders: Vec<PeerId> = (0..=fit).map(|_| node.inbound_peer()).collect();
    for &id in &senders[..fit] {
        node.tell(NetEvent::Receiving { peer: id, memory: HALF });
    }
    node.pump();
    assert_eq!(node.gone.len(), 0);
    node.tell(NetEvent::Receiving { peer: senders[fit], memory: HALF + 1 });
    node.pump();
    assert_eq!((node.gone.len(), node.is_gone(senders[fit])), (1, HELD));
    assert!(node.held_by_peers() <= PEER_MEMORY);
    assert_eq!(node.peers.memory(), node.held_by_peers() + MAX_PAYLOAD as usize);
    assert_eq!(node.is_gone(asked), None);
}

/// So many peers that connected to us, each of which has sent a part of a message.
pub(super) fn half_messages(node: &mut Harness, count: usize, memory: usize) -> Vec<PeerId> {
    let senders: Vec<PeerId> = (0..count).map(|_| node.inbound_peer()).collect();
    for &peer in &senders {
        node.tell(NetEvent::Receiving { peer, memory });
    }
    node.pump();
    senders
}

#[test]
fn requests_alone_never_keep_blocks_from_being_read() {
    // With these all memory is requests, and no block can be read while they arrive.
    const GREEDY: usize = 35;
    let blocks = chain(20, 60);
    let mut node = Harness::with_chain(many(), &blocks);
    node.hold_reads = true;
    let greedy = half_messages(&mut node, GREEDY, 1_800_003);
    assert_eq!(node.gone.len(), 0);
    let wanted = Message::GetData(vec![block_entry(blocks[0].hash); 50_000]);
    for &id in &greedy {
        node.says(id, wanted.clone());
    }
    let modest = node.inbound_peer();
    node.says(modest, Message::GetData(vec![block_entry(blocks[1].hash)]));
    assert_eq!(node.reads.len(), 0);
    node.advance(Duration::from_secs(1));
    for _ in 0..GREEDY + READS {
        let Some((request, _, header)) = node.reads.pop_front() else { break };
        node.answer_read(request, header);
        node.pump();
    }
    assert_eq!(node.take(modest).last(), Some(&Sent::Block(blocks[1].bytes.clone())));
    let gone = greedy.iter().filter(|&&id| node.is_gone(id) == HELD).count();
    assert_eq!(node.gone.len(), gone);
    assert!(gone <= 6, "{gone}: no more than it takes");
    let block = Sent::Block(blocks[0].bytes.clone());
    assert!(greedy.iter().any(|&id| node.take(id).contains(&block)), "those that stay are served");
}

/// A request for the block, and one for its first transaction, which in these tests is nearly all of it.
fn for_a_block(block: &TestBlock) -> [Message; 2] {
    let request = BlockTransactionsRequest { block_hash: block.hash, positions: vec![0] };
    [Message::GetData(vec![block_entry(block.hash)]), Message::GetBlockTxn(request)]
}

#[test]
fn a_slow_reader_of_blocks_stays_when_others_fill_memory_without_waiting_for_a_turn() {
    const OTHERS: usize = 70;
    let mut blocks = chain(MAX_HEADERS as u32, 60);
    let last = blocks.len() - 1;
    blocks[last] = with_witness(&blocks[last], 3_500_000);
    let wanted = for_a_block(&blocks[last]);
    for (wanted, of_headers) in wanted.iter().flat_map(|wanted| [(wanted, false), (wanted, true)]) {
        let mut node = Harness::with_chain(many(), &blocks);
        let slow = node.inbound_peer();
        node.reads_everything = false;
        node.says(slow, wanted.clone());
        assert!(node.peers.memory() > 3_500_000);
        if of_headers {
            let others: Vec<PeerId> = (0..OTHERS).map(|_| node.inbound_peer()).collect();
            for id in std::iter::repeat_n(others, 7).flatten() {
                if node.is_gone(id).is_none() {
                    node.says(id, getheaders());
                    node.take(id);
                }
            }
        } else {
            half_messages(&mut node, OTHERS, 1 << 20);
        }
        assert!(node.peers.memory() <= PEER_MEMORY);
        assert!(node.gone.len() > 5, "{}", node.gone.len());
        assert_eq!(node.is_gone(slow), None, "{wanted:?}, headers: {of_headers}");
    }
}

#[test]
fn blocks_for_slow_readers_leave_room_for_what_waits_for_no_turn() {
    const SLOW: usize = 60;
    let mut blocks = chain(20, 60);
    blocks[19] = with_witness(&blocks[19], 1_700_000);
    for wanted in for_a_block(&blocks[19]) {
        let mut node = Harness::with_chain(many(), &blocks);
        let slow: Vec<PeerId> = (0..SLOW).map(|_| node.inbound_peer()).collect();
        node.reads_everything = false;
        for id in slow {
            node.says(id, wanted.clone());
        }
        half_messages(&mut node, 120, 100_000);
        node.advance(Duration::from_secs(5));
        assert_eq!(node.gone.len(), 0, "{wanted:?}");
        let full = PEER_MEMORY - LARGEST_BLOCK;
        assert!((full - 5_000_000..PEER_MEMORY).contains(&node.peers.memory()), "{wanted:?}");
    }
}

#[test]
fn who_owes_us_a_block_does_not_stall_by_taking_nothing() {
    let mut blocks = chain(20, 60);
    blocks[19] = with_witness(&blocks[19], 2_000_000);
    for owes in [true, false] {
        let mut node = Harness::with_chain(many(), &blocks);
        let peer = node.full_peer();
        node.reads_everything = false;
        node.says(peer, Message::GetData(vec![block_entry(blocks[19].hash)]));
        assert!(node.peers.memory() > 2_000_000);
        if owes {
            node.expect_block(peer);
        }
        node.advance(STALLED + Duration::from_secs(1));
        let others = half_messages(&mut node, 19, 3_500_000);
        assert!(node.peers.memory() <= PEER_MEMORY);
        assert_eq!(node.is_gone(peer), if owes { None } else { HELD });
        let gone = others.iter().filter(|&&id| node.is_gone(id) == HELD).count();
        assert_eq!(gone, if owes { 1 } else { 0 });
    }
}

#[test]
fn blocks_that_we_asked_for_cost_nobody_else_its_connection() {
    const SENDERS: usize = MAX_LASTING_OUTBOUND;
    let blocks = chain(20, 60);
    let mut node = Harness::with_chain(many(), &blocks);
    let senders: Vec<PeerId> = (0..SENDERS).map(|_| node.peer(ConnectionKind::Manual)).collect();
    let others: Vec<PeerId> = (0..20).map(|_| node.inbound_peer()).collect();
    node.reads_everything = false;
    for &id in &others[1..] {
        node.says(id, Message::Ping(Some(7)));
    }
    for &peer in &senders {
        node.expect_block(peer);
        node.tell(NetEvent::Receiving { peer, memory: LARGEST_BLOCK });
    }
    node.pump();
    assert_eq!(node.gone.len(), 0);
    node.take(others[0]);
    node.says(others[0], Message::GetData(vec![block_entry(blocks[0].hash)]));
    assert_eq!(node.take(others[0]), [Sent::Block(blocks[0].bytes.clone())]);
    // What others send all the same is bounded still.
    let half = half_messages(&mut node, 60, 1_800_000);
    assert!(node.held_by_peers() <= PEER_MEMORY);
    assert_eq!(node.peers.memory(), node.held_by_peers() + SENDERS * LARGEST_BLOCK);
    let gone = half.iter().filter(|&&id| node.is_gone(id) == HELD).count();
    assert!(gone > 20, "{gone}");
    assert_eq!(node.gone.len(), gone);
}

#[test]
fn blocks_that_strangers_were_asked_for_stay_within_the_budget() {
    let mut node = Harness::with_chain(many(), &chain(20, 60));
    let senders: Vec<PeerId> = (0..40).map(|_| node.inbound_peer()).collect();
    for &peer in &senders {
        node.expect_block(peer);
        node.tell(NetEvent::Receiving { peer, memory: LARGEST_BLOCK });
    }
    node.pump();
    assert!(node.peers.memory() <= PEER_MEMORY, "{}", node.peers.memory());
    assert_eq!(node.gone.len(), 40 - PEER_MEMORY / LARGEST_BLOCK);
}
