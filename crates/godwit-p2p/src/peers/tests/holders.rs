//! Who is disconnected for the memory that it holds, and who never is.

use std::time::Duration;

use godwit_primitives::Work;

use super::harness::{Harness, START, Sent, block_entry, chain};
use super::index::TestBlock;
use super::memory::{HELD, half_messages, many, with_witness};
use crate::peers::memory::account::{
    BLOCKS_MEMORY, LARGEST_BLOCK, MAX_ARRIVING, MAX_LASTING_OUTBOUND, READS, UNSCHEDULED_MEMORY,
};
use crate::peers::memory::footprint::STALLED;
use crate::{
    CONNECTIONS_MEMORY, Command, ConnectionKind, MAX_HEADERS, Message, NetEvent, PEER_MEMORY,
    PeerId, PeersConfig,
};

/// Size of the large blocks here.
const LARGE: usize = 2_000_000;

/// As many peers as are served blocks of [`LARGE`] bytes while nobody takes anything.
const READERS: usize = (BLOCKS_MEMORY - LARGEST_BLOCK) / LARGE + 1;

/// A peer of 125 may hold this beside blocks without ever being disconnected for it.
const SHARE: usize = UNSCHEDULED_MEMORY / 125;

/// A chain whose last block is [`LARGE`].
fn large_tip() -> Vec<TestBlock> {
    let mut blocks = chain(20, 6_000);
    blocks[19] = with_witness(&blocks[19], LARGE);
    blocks
}

/// So many peers that ask for the block and take nothing.
fn readers(node: &mut Harness, block: &TestBlock, count: usize) -> Vec<PeerId> {
    node.reads_everything = false;
    let readers: Vec<PeerId> = (0..count).map(|_| node.inbound_peer()).collect();
    for &id in &readers {
        node.tell(NetEvent::Sent { peer: id, bytes: node.peer_state(id).flow.footprint.queued() });
        node.says(id, Message::GetData(vec![block_entry(block.hash)]));
    }
    readers
}

/// How many of them were sent a block.
fn served(node: &mut Harness, readers: &[PeerId]) -> usize {
    let mut is_served =
        |id: &&PeerId| node.take(**id).iter().any(|sent| matches!(sent, Sent::Block(_)));
    readers.iter().filter(&mut is_served).count()
}

/// Each of these peers has sent this much of a message.
fn receive_parts(node: &mut Harness, peers: &[PeerId], memory: usize) {
    for &peer in peers {
        node.tell(NetEvent::Receiving { peer, memory });
    }
    node.pump();
}

#[test]
fn who_takes_blocks_stays_while_we_receive_those_that_we_asked_for() {
    let blocks = large_tip();
    let mut node = Harness::with_chain(many(), &blocks);
    let senders: Vec<PeerId> = (0..10).map(|_| node.full_peer()).collect();
    let readers = readers(&mut node, &blocks[19], READERS);
    assert_eq!(served(&mut node, &readers), READERS);
    senders.iter().for_each(|&id| node.expect_block(id));
    receive_parts(&mut node, &senders, LARGEST_BLOCK);
    assert_eq!(node.gone.len(), 0);
    assert!(node.peers.memory() > READERS * LARGE + senders.len() * LARGEST_BLOCK);
    // What is left of a block whose request is withdrawn was asked for all the same.
    senders.iter().for_each(|&id| node.withdraw_request(id));
    half_messages(&mut node, 1, SHARE);
    assert_eq!(node.gone.len(), 0);
}

#[test]
fn who_takes_blocks_stays_while_a_tip_is_read_to_be_announced() {
    let blocks = large_tip();
    let new = TestBlock::chain(&blocks[19], 1, START as u32, 1);
    let mut node = Harness::with_chain(many(), &blocks);
    let announced_to = node.inbound_peer();
    node.says(announced_to, Message::SendCmpct { announce: true, version: 2 });
    node.headers(announced_to, &blocks[19..]);
    let readers = readers(&mut node, &blocks[19], READERS);
    receive_parts(&mut node, &readers, SHARE);
    half_messages(&mut node, 124 - READERS, SHARE);
    let before = node.peers.memory();
    assert!(before <= PEER_MEMORY && before + LARGEST_BLOCK > PEER_MEMORY, "{before}");
    node.hold_reads = true;
    node.mined(&new);
    node.advance(Duration::from_secs(1));
    assert_eq!((node.reads.len(), node.gone.len()), (1, 0));
    assert!(node.peers.memory() >= before + LARGEST_BLOCK, "it is in the account");
}

#[test]
fn blocks_that_we_asked_for_leave_those_who_ask_for_ours_all_their_room() {
    let blocks = large_tip();
    let mut node = Harness::with_chain(many(), &blocks);
    let senders: Vec<PeerId> = (0..10).map(|_| node.full_peer()).collect();
    half_messages(&mut node, 114 - READERS, 131_072);
    senders.iter().for_each(|&id| node.expect_block(id));
    receive_parts(&mut node, &senders, LARGEST_BLOCK);
    let readers = readers(&mut node, &blocks[19], READERS + 5);
    assert_eq!((served(&mut node, &readers), node.gone.len()), (READERS, 0));
}

#[test]
fn who_stalls_on_blocks_goes_however_small_they_are_until_there_is_room() {
    const STALLING: usize = 100;
    let mut blocks = large_tip();
    blocks[18] = with_witness(&blocks[18], SHARE / 2);
    let mut node = Harness::with_chain(many(), &blocks);
    let stalling = readers(&mut node, &blocks[18], STALLING);
    assert_eq!(served(&mut node, &stalling), STALLING);
    node.advance(STALLED + Duration::from_secs(1));
    assert_eq!(node.gone.len(), 0, "nobody waits");
    let readers = readers(&mut node, &blocks[19], READERS - 1);
    let before = served(&mut node, &readers);
    assert!(before < readers.len(), "some of them wait");
    node.advance(Duration::from_secs(5));
    assert_eq!(before + served(&mut node, &readers), readers.len());
    let gone = stalling.iter().filter(|&&id| node.is_gone(id) == HELD).count();
    assert_eq!(node.gone.len(), gone);
    assert!(gone < STALLING, "no more than it takes");
}

#[test]
fn what_we_asked_for_is_held_against_no_peer_that_we_chose() {
    let blocks = large_tip();
    let mut node = Harness::with_chain(many(), &blocks);
    let chosen: Vec<PeerId> = (0..10).map(|_| node.full_peer()).collect();
    let readers = readers(&mut node, &blocks[19], READERS - 1);
    receive_parts(&mut node, &readers, SHARE);
    half_messages(&mut node, 114 - READERS, SHARE);
    // Headers: what has arrived of them doubles from 64 KiB on.
    receive_parts(&mut node, &chosen, 256 << 10);
    let last = self::readers(&mut node, &blocks[19], 1);
    node.advance(Duration::from_secs(5));
    assert_eq!((served(&mut node, &last), node.gone.len()), (1, 0));
}

#[test]
fn a_pre_sync_counts_against_strangers_alone() {
    let minimum_chain_work = Work::from(1_000_000u32);
    for inbound in [false, true] {
        let mut node = Harness::new(PeersConfig { minimum_chain_work, ..many() });
        let id = if inbound { node.inbound_peer() } else { node.full_peer() };
        assert_eq!(node.peers.memory(), 0);
        node.headers(id, &chain(MAX_HEADERS as u32, 4_000_000));
        assert_eq!(node.presync_height(), Some(MAX_HEADERS as u32));
        let memory = node.peers.memory();
        assert!(memory > 0);
        assert_eq!(node.held_by_peers(), if inbound { memory } else { 0 });
    }
}

#[test]
fn who_owed_a_block_has_a_minute_from_when_its_request_is_withdrawn() {
    let blocks = large_tip();
    let mut node = Harness::with_chain(many(), &blocks);
    let peer = node.full_peer();
    node.reads_everything = false;
    node.says(peer, Message::GetData(vec![block_entry(blocks[19].hash)]));
    node.expect_block(peer);
    node.advance(STALLED + Duration::from_secs(1));
    node.withdraw_request(peer);
    let others = half_messages(&mut node, 19, 3_500_000);
    assert_eq!((node.is_gone(peer), node.gone.len()), (None, 1));
    node.advance(STALLED + Duration::from_secs(1));
    for peer in others {
        let command = Command::HEADERS;
        node.tell(NetEvent::Arriving { peer, command, bytes: 1_000_000 });
    }
    half_messages(&mut node, 1, 3_500_000);
    assert_eq!(node.is_gone(peer), HELD, "it still takes nothing");
}

#[test]
fn nobody_goes_while_a_peer_waits_only_for_other_reads_to_end() {
    const HOLDERS: usize = 30;
    let blocks = large_tip();
    let mut node = Harness::with_chain(many(), &blocks);
    half_messages(&mut node, HOLDERS, (PEER_MEMORY - READS * LARGEST_BLOCK) / HOLDERS - 10_000);
    node.hold_reads = true;
    for _ in 0..READS + 1 {
        let id = node.inbound_peer();
        node.says(id, Message::GetData(vec![block_entry(blocks[0].hash)]));
    }
    assert_eq!(node.reads.len(), READS);
    assert!(node.peers.memory() + LARGEST_BLOCK > PEER_MEMORY);
    node.advance(Duration::from_secs(5));
    assert_eq!(node.gone.len(), 0);
    // That block is small: there is room for another.
    let (request, _, header) = node.reads.pop_front().expect("a read");
    node.answer_read(request, header);
    node.advance(Duration::from_secs(5));
    assert_eq!((node.reads.len(), node.gone.len()), (READS, 0));
}

#[test]
fn the_node_holds_no_more_than_is_said_while_everybody_takes_what_there_is() {
    let blocks = large_tip();
    let mut node = Harness::with_chain(many(), &blocks);
    let chosen = ConnectionKind::OutboundFull;
    let opened: Vec<PeerId> = (0..MAX_LASTING_OUTBOUND).map(|_| node.peer(chosen)).collect();
    let readers = readers(&mut node, &blocks[19], READERS);
    opened.iter().for_each(|&id| node.expect_block(id));
    receive_parts(&mut node, &opened, MAX_ARRIVING);
    receive_parts(&mut node, &readers, SHARE);
    half_messages(&mut node, 60, 1_800_000);
    let memory = node.peers.memory();
    assert!(memory > PEER_MEMORY / 8 * 7 + MAX_LASTING_OUTBOUND * MAX_ARRIVING, "{memory}");
    assert!(memory <= CONNECTIONS_MEMORY, "{memory}");
    assert!(node.held_by_peers() <= PEER_MEMORY);
    assert!(opened.iter().chain(&readers).all(|&id| node.is_gone(id).is_none()));
}
