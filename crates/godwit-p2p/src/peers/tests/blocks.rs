use std::time::Duration;

use godwit_consensus::RejectReason;

use super::harness::{Harness, START, block_entry, chain, config};
use super::index::TestBlock;
use crate::{
    Command, ConnectionKind, Discard, DiscardReason, DisconnectReason, MAX_HEADERS, Message,
    Misbehaviour, NetEvent, PeerId,
};

fn misbehaved(what: Misbehaviour) -> Option<DisconnectReason> {
    Some(DisconnectReason::Misbehaved(what))
}

/// A node with a peer of each of the kinds, every one of which has told it the headers of `blocks`.
fn with_headers(blocks: &[TestBlock], kinds: &[ConnectionKind]) -> (Harness, Vec<PeerId>) {
    let mut node = Harness::new(config());
    let ids: Vec<PeerId> = kinds.iter().map(|&kind| node.peer(kind)).collect();
    for &id in &ids {
        node.headers(id, blocks);
        node.take(id);
    }
    (node, ids)
}

const OUTBOUND: ConnectionKind = ConnectionKind::OutboundFull;

#[test]
fn blocks_are_asked_for_taken_in_and_connected() {
    let blocks = chain(60, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND, OUTBOUND]);
    node.serve(&ids, &blocks, 30, |_, block| Some(block.clone()));
    assert_eq!(node.tip(), blocks[59].hash);
    for &id in &ids {
        assert_eq!(node.expects.get(&id), Some(&false), "and no more are kept");
        assert_eq!(node.is_gone(id), None);
        assert!(node.submitted_blocks.iter().any(|(peer, _)| *peer == id), "both gave some");
    }
    assert_eq!(node.submitted_blocks.len(), 60, "each one once");
}

#[test]
fn b6_an_unrequested_block_is_an_announcement_and_nothing_more() {
    let blocks = chain(3, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND]);
    let stranger = node.inbound_peer();
    let unknown = TestBlock::on(&blocks[2], START as u32, 99, 0);
    for block in blocks.iter().chain([&unknown]) {
        node.gives(stranger, block);
        node.pushes(stranger, block);
    }
    assert_eq!((node.submitted_blocks.len(), node.is_gone(stranger)), (0, None));
    node.serve(&ids, &blocks, 10, |_, block| Some(block.clone()));
    assert_eq!(node.tip(), blocks[2].hash);
}

/// As tests of other nodes do it: a block is sent, and what is asked because of it is answered.
#[test]
fn blocks_that_are_pushed_are_asked_for_and_connected() {
    let blocks = chain(4, 400_000);
    let mut node = Harness::with_chain(config(), &blocks[..1]);
    let id = node.inbound_peer();
    node.says(id, Message::SendHeaders);
    for place in 1..4 {
        // The sync with it begins with the first one; the node itself might begin it later.
        node.pushes(id, &blocks[place]);
        node.answer_questions(id, &blocks[..=place], |block| Some(block.clone()));
        node.tick();
        node.answer_questions(id, &blocks[..=place], |block| Some(block.clone()));
        assert_eq!(node.tip(), blocks[place].hash);
    }
    assert_eq!(node.submitted_blocks.len(), 3, "each once");
}

#[test]
fn a_pushed_block_of_a_known_header_can_be_asked_of_who_pushed_it() {
    let blocks = chain(2, 400_000);
    let (mut node, silent) = with_headers(&blocks, &[OUTBOUND]);
    let id = node.inbound_peer();
    node.take(id);
    node.pushes(id, &blocks[1]);
    assert_eq!(node.take_only(id, Command::GETHEADERS), []);
    node.tell(NetEvent::Closed { peer: silent[0] });
    node.tick();
    assert_eq!(node.requested(id), [blocks[0].hash, blocks[1].hash]);
}

#[test]
fn b7_a_flood_of_pushed_blocks_is_followed_by_one_question() {
    let known = chain(5, 60);
    for expected in [false, true] {
        let mut node = Harness::with_chain(config(), &known);
        let id = node.full_peer();
        node.headers(id, &known[4..]);
        node.advance(Duration::from_secs(1));
        if expected {
            let next = TestBlock::on(&known[4], START as u32, 7, 0);
            node.headers(id, &[next]);
            node.tick();
            assert_eq!(node.expects.get(&id), Some(&true));
        }
        node.take(id);
        for n in 0..1_000 {
            node.pushes(id, &TestBlock::on(&known[4], START as u32, 100 + n, 0));
        }
        assert_eq!(node.take(id).len(), 1, "one getheaders for a thousand blocks");
        assert_eq!((node.submitted_blocks.len(), node.is_gone(id)), (0, None));
    }
}

/// CVE-2024-52921: what somebody else sends must not end the request to an honest peer.
#[test]
fn b6_a_mutated_block_of_another_peer_does_not_end_a_request() {
    let blocks = chain(1, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND]);
    node.tick();
    assert_eq!(node.requested(ids[0]), [blocks[0].hash]);
    let hostile = node.inbound_peer();
    node.gives(hostile, &flipped(&blocks[0]));
    node.gives(ids[0], &blocks[0]);
    assert_eq!(node.tip(), blocks[0].hash);
    assert_eq!(node.submitted_blocks, [(ids[0], blocks[0].hash)]);
}

fn flipped(block: &TestBlock) -> TestBlock {
    let mut flipped = block.clone();
    let place = flipped.bytes.len() - 15;
    flipped.bytes[place] ^= 1;
    flipped
}

#[test]
fn b20_a_flipped_bit_costs_its_sender_the_connection_and_nobody_else() {
    let blocks = chain(40, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND; 3]);
    let hostile = ids[1];
    node.serve(&ids, &blocks, 60, |id, block| {
        Some(if id == hostile { flipped(block) } else { block.clone() })
    });
    assert_eq!(node.tip(), blocks[39].hash, "the headers are not called invalid");
    let what = Misbehaviour::InvalidBlock(RejectReason::BadTxnMrklRoot);
    assert_eq!(node.is_gone(hostile), misbehaved(what));
    assert_eq!((node.is_gone(ids[0]), node.is_gone(ids[2])), (None, None));
    assert_eq!(node.discouraged(), 1);
}

#[test]
fn b20_a_manual_peer_that_flips_bits_is_kept_and_asked_ever_more_rarely() {
    let blocks = chain(10, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[ConnectionKind::Manual]);
    let bad = blocks[4].hash;
    let mut asked = 0;
    node.serve(&ids, &blocks, 30, |_, block| {
        asked += usize::from(block.hash == bad);
        Some(if block.hash == bad { flipped(block) } else { block.clone() })
    });
    assert_eq!(node.is_gone(ids[0]), None);
    // Nobody else has it. The pauses double from a quarter of a second on, once no good blocks come.
    assert!((2..=9).contains(&asked), "{asked}");
    let honest = node.peer(ConnectionKind::Manual);
    node.headers(honest, &blocks);
    node.serve(&[ids[0], honest], &blocks, 30, |_, block| Some(block.clone()));
    assert_eq!(node.tip(), blocks[9].hash);
}

#[test]
fn a_truncated_block_is_misbehaving_and_asked_of_another() {
    let blocks = chain(20, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND; 2]);
    node.serve(&ids, &blocks, 60, |id, block| {
        let mut block = block.clone();
        if id == ids[0] {
            block.bytes.truncate(100);
        }
        Some(block)
    });
    assert_eq!(node.is_gone(ids[0]), misbehaved(Misbehaviour::UndecodableBlock));
    assert_eq!(node.tip(), blocks[19].hash);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND]);
    node.tick();
    node.raw(ids[0], Command::BLOCK, &blocks[0].bytes[..79]);
    assert_eq!(node.is_gone(ids[0]), misbehaved(Misbehaviour::UndecodableBlock));
}

#[test]
fn an_invalid_block_discourages_who_sent_it_even_when_that_shows_late() {
    let blocks = chain(10, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND; 2]);
    node.index.bad_blocks.insert(blocks[5].hash);
    node.serve(&ids, &blocks, 20, |_, block| Some(block.clone()));
    let sender = node.submitted_blocks.iter().find(|(_, hash)| *hash == blocks[5].hash);
    let sender = sender.expect("it was sent").0;
    let what = Misbehaviour::InvalidBlock(RejectReason::BadCbAmount);
    assert_eq!(node.is_gone(sender), misbehaved(what));
    assert_eq!(node.tip(), blocks[4].hash);
    let other = ids.iter().find(|&&id| id != sender).expect("two peers");
    assert_eq!(node.is_gone(*other), None, "it told the header, which may be all that it knows");
}

#[test]
fn b6_notfound_sends_the_request_elsewhere() {
    let blocks = chain(30, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND; 2]);
    for _ in 0..60 {
        node.advance(Duration::from_millis(500));
        let entries: Vec<_> = node.requested(ids[0]).into_iter().map(block_entry).collect();
        if !entries.is_empty() {
            node.says(ids[0], Message::NotFound(entries));
        }
        for hash in node.requested(ids[1]) {
            let block = blocks.iter().find(|block| block.hash == hash).expect("of the chain");
            node.gives(ids[1], block);
        }
    }
    assert_eq!(node.tip(), blocks[29].hash);
    assert_eq!((node.is_gone(ids[0]), node.is_gone(ids[1])), (None, None));
}

#[test]
fn b6_notfound_of_what_was_not_asked_for_has_no_effect() {
    let blocks = chain(1, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND]);
    node.tick();
    assert_eq!(node.requested(ids[0]).len(), 1);
    let hostile = node.inbound_peer();
    node.says(hostile, Message::NotFound(vec![block_entry(blocks[0].hash); 50_000]));
    node.gives(ids[0], &blocks[0]);
    assert_eq!(node.tip(), blocks[0].hash);
}

#[test]
fn b4_a_peer_that_withholds_blocks_does_not_stop_the_sync() {
    let blocks = chain(100, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND; 3]);
    node.serve(&ids, &blocks, 200, |id, block| (id != ids[0]).then(|| block.clone()));
    assert_eq!(node.tip(), blocks[99].hash);
    assert_eq!(node.discouraged(), 0, "slow is not bad");
    assert_eq!((node.is_gone(ids[1]), node.is_gone(ids[2])), (None, None));
}

#[test]
fn what_a_lost_peer_was_asked_for_is_asked_of_another() {
    let blocks = chain(10, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND; 2]);
    node.tick();
    let lost = node.requested(ids[0]);
    assert!(!lost.is_empty());
    node.tell(NetEvent::Closed { peer: ids[0] });
    node.serve(&ids[1..], &blocks, 30, |_, block| Some(block.clone()));
    assert_eq!(node.tip(), blocks[9].hash);
}

#[test]
fn a_damaged_block_frees_the_request_and_discourages_nobody() {
    let blocks = chain(1, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND; 2]);
    node.tick();
    let asked = *ids.iter().find(|&&id| node.expects.get(&id) == Some(&true)).expect("one is");
    let discard = Discard {
        command: Command::BLOCK,
        bytes: 200,
        why: DiscardReason::WrongChecksum,
        block: None,
    };
    node.tell(NetEvent::Discarded { peer: asked, discard });
    node.pump();
    assert_eq!(node.is_gone(asked), Some(DisconnectReason::CorruptBlock));
    assert_eq!(node.discouraged(), 0);
    node.serve(&ids, &blocks, 5, |_, block| Some(block.clone()));
    assert_eq!(node.tip(), blocks[0].hash);
}

/// As Core counts them (`CNode::ReceiveMsgBytes` in `net.cpp`).
#[test]
fn damaged_and_unknown_messages_count_by_no_name() {
    let (mut node, ids) = with_headers(&chain(1, 400_000), &[OUTBOUND]);
    let received = |node: &Harness| {
        let of = |wanted: &str| {
            let by_command = node.peers.infos()[0].traffic.received_by_command();
            by_command.into_iter().find(|(name, _)| name == wanted).map_or(0, |(_, bytes)| bytes)
        };
        ["*other*", "ping", "block"].map(of)
    };
    let before = received(&node);
    let mut discarded = |command, why| -> [u64; 3] {
        let discard = Discard { command, bytes: 8, why, block: None };
        node.tell(NetEvent::Discarded { peer: ids[0], discard });
        let now = received(&node);
        std::array::from_fn(|n| now[n] - before[n])
    };
    assert_eq!(discarded(Command::PING, DiscardReason::WrongChecksum), [32, 0, 0]);
    assert_eq!(discarded(Command::PING, DiscardReason::InvalidCommand), [64, 0, 0]);
    assert_eq!(discarded(Command::new("nonsense"), DiscardReason::Unknown), [96, 0, 0]);
    assert_eq!(discarded(Command::BLOCK, DiscardReason::UnexpectedBlock), [96, 0, 32]);
}

#[test]
fn nothing_is_asked_for_while_the_chain_has_no_room() {
    let blocks = chain(10, 400_000);
    let (mut node, ids) = with_headers(&blocks, &[OUTBOUND]);
    node.room = 0;
    node.advance(Duration::from_secs(5));
    assert_eq!(node.requested(ids[0]), []);
    node.room = 1;
    node.advance(Duration::from_secs(1));
    assert_eq!(node.requested(ids[0])[..1], [blocks[0].hash], "the first one always fits");
}

/// On a slow line a full message of headers takes a minute. The peer has told half of its chain, and was
/// asked for the rest before it was asked for the first blocks.
#[test]
fn b5_a_peer_is_not_let_go_while_headers_come_that_are_ahead_of_its_blocks() {
    let blocks = chain(MAX_HEADERS as u32 + 10, 10_000_000);
    for arrive in [false, true] {
        let mut node = Harness::new(config());
        let (slow, other) = (node.full_peer(), node.full_peer());
        node.headers(slow, &blocks[..MAX_HEADERS]);
        node.tick();
        assert!(node.requested(slow).contains(&blocks[0].hash));
        node.headers(other, &blocks[..MAX_HEADERS]);
        for _ in 0..50 {
            if arrive {
                let command = Command::HEADERS;
                node.tell(NetEvent::Arriving { peer: slow, command, bytes: 3_000 });
            }
            node.serve(&[other], &blocks[..20], 1, |_, block| Some(block.clone()));
        }
        assert_eq!(node.tip(), blocks[19].hash, "the other one has sent them meanwhile");
        let let_go = (!arrive).then_some(DisconnectReason::BlockStalled);
        assert_eq!(node.is_gone(slow), let_go, "arrive: {arrive}");
    }
}
