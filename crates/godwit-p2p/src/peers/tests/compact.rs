use std::time::Duration;

use godwit_primitives::Block;

use super::harness::{Harness, START, Sent, block_entry, chain, config};
use super::index::TestBlock;
use crate::{
    BlockTransactions, BlockTransactionsRequest, Command, CompactBlock, ConnectionKind,
    DisconnectReason, Message, Misbehaviour, PeerId, RawTransactions, block_transactions,
    compact_block,
};

/// A node near the tip, and a peer that it asked to announce by compact blocks.
fn with_high_bandwidth_peer() -> (Harness, PeerId, TestBlock) {
    with_high_bandwidth(ConnectionKind::OutboundFull)
}

fn with_high_bandwidth(kind: ConnectionKind) -> (Harness, PeerId, TestBlock) {
    let blocks = chain(5, 1_200);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.peer(kind);
    node.says(id, Message::SendCmpct { announce: false, version: 2 });
    let next = TestBlock::on(&blocks[4], START as u32 - 600, 1, 0);
    give_first(&mut node, id, &next);
    let selected = Sent::Message(Message::SendCmpct { announce: true, version: 2 });
    assert!(node.take(id).contains(&selected), "who gave the tip first shall announce");
    (node, id, next)
}

/// Lets a peer announce and give a block.
fn give_first(node: &mut Harness, id: PeerId, block: &TestBlock) {
    node.headers(id, std::slice::from_ref(block));
    node.tick();
    node.gives(id, block);
    assert_eq!(node.tip(), block.hash);
}

fn compact(block: &TestBlock) -> CompactBlock {
    compact_block(Block::from_bytes(&block.bytes).expect("a block").view(), 99)
}

fn asked_transactions(node: &mut Harness, id: PeerId) -> Vec<Message> {
    node.take_only(id, Command::GETBLOCKTXN)
}

fn answer(block: &TestBlock, request: &Message) -> Message {
    let Message::GetBlockTxn(request) = request else { panic!("{request:?}") };
    let block = Block::from_bytes(&block.bytes).expect("a block");
    Message::BlockTxn(block_transactions(block.view(), request).expect("in range"))
}

#[test]
fn a_block_is_put_together_from_its_compact_form() {
    let (mut node, id, tip) = with_high_bandwidth_peer();
    let block = TestBlock::on(&tip, START as u32, 2, 3);
    node.says(id, Message::CmpctBlock(compact(&block)));
    node.tick();
    let request = asked_transactions(&mut node, id);
    assert_eq!(request.len(), 1);
    assert_eq!(node.expects.get(&id), Some(&true), "it may send the whole block instead");
    node.says(id, answer(&block, &request[0]));
    assert_eq!((node.tip(), node.is_gone(id)), (block.hash, None));
    assert_eq!(node.expects.get(&id), Some(&false));
}

#[test]
fn b15_a_partial_block_is_dropped_when_its_height_is_connected() {
    let (mut node, id, tip) = with_high_bandwidth_peer();
    let block = TestBlock::on(&tip, START as u32, 2, 3);
    let child = TestBlock::on(&block, START as u32, 2, 3);
    node.headers(id, std::slice::from_ref(&block));
    node.says(id, Message::CmpctBlock(compact(&child)));
    assert!(node.peer_state(id).fetch.holds_partial());
    node.mined(std::slice::from_ref(&block));
    assert!(node.peer_state(id).fetch.holds_partial(), "it may still be of use");
    node.mined(&[TestBlock::on(&block, START as u32, 7, 0)]);
    assert!(!node.peer_state(id).fetch.holds_partial());
}

#[test]
fn a_block_with_nothing_missing_needs_no_question() {
    let (mut node, id, tip) = with_high_bandwidth_peer();
    let block = TestBlock::on(&tip, START as u32, 2, 0);
    node.says(id, Message::CmpctBlock(compact(&block)));
    node.tick();
    assert_eq!(node.take_only(id, Command::GETDATA), []);
    assert_eq!(node.tip(), block.hash);
}

#[test]
fn b15_transactions_sent_twice_have_no_effect() {
    let (mut node, id, tip) = with_high_bandwidth_peer();
    let block = TestBlock::on(&tip, START as u32, 2, 3);
    node.says(id, Message::CmpctBlock(compact(&block)));
    node.tick();
    let request = asked_transactions(&mut node, id);
    node.says(id, answer(&block, &request[0]));
    let submitted = node.submitted_blocks.len();
    for _ in 0..3 {
        node.says(id, answer(&block, &request[0]));
        node.says(id, Message::CmpctBlock(compact(&block)));
    }
    assert_eq!((node.submitted_blocks.len(), node.is_gone(id)), (submitted, None));
}

#[test]
fn b15_a_child_in_compact_form_does_not_end_the_wait_for_its_parent() {
    let (mut node, id, tip) = with_high_bandwidth_peer();
    let block = TestBlock::on(&tip, START as u32, 2, 3);
    let child = TestBlock::on(&block, START as u32, 2, 2);
    node.says(id, Message::CmpctBlock(compact(&block)));
    node.tick();
    let request = asked_transactions(&mut node, id);
    node.says(id, Message::CmpctBlock(compact(&child)));
    node.says(id, answer(&block, &request[0]));
    assert_eq!(node.tip(), block.hash);
    node.serve(&[id], &[block.clone(), child.clone()], 5, |_, block| Some(block.clone()));
    assert_eq!((node.tip(), node.is_gone(id)), (child.hash, None));
}

/// CVE-2024-35202: the first answer fails, the second one must not find what is left of the block.
#[test]
fn b15_colliding_transactions_make_the_whole_block_be_asked_for() {
    let (mut node, id, tip) = with_high_bandwidth_peer();
    let block = TestBlock::on(&tip, START as u32, 2, 3);
    let other = TestBlock::on(&tip, START as u32, 3, 3);
    node.says(id, Message::CmpctBlock(compact(&block)));
    node.tick();
    let request = asked_transactions(&mut node, id);
    let Message::BlockTxn(wrong) = answer(&other, &request[0]) else { panic!("transactions") };
    let wrong = BlockTransactions { block_hash: block.hash, ..wrong };
    node.says(id, Message::BlockTxn(wrong.clone()));
    assert_eq!(node.requested(id), [block.hash]);
    node.says(id, Message::BlockTxn(wrong));
    node.says(id, answer(&block, &request[0]));
    assert_ne!(node.tip(), block.hash, "the answer is not waited for any more");
    node.gives(id, &block);
    assert_eq!((node.tip(), node.is_gone(id)), (block.hash, None));
}

/// The peer announces a block on the tip in compact form, and is asked for its transactions.
fn asking_for_transactions(node: &mut Harness, id: PeerId, tip: &TestBlock) -> TestBlock {
    let block = TestBlock::on(tip, START as u32, 2, 3);
    node.says(id, Message::CmpctBlock(compact(&block)));
    node.tick();
    asked_transactions(node, id);
    block
}

/// The wrong number of them.
fn no_transactions(block: &TestBlock) -> Message {
    Message::BlockTxn(BlockTransactions {
        block_hash: block.hash,
        transactions: RawTransactions::new(),
    })
}

#[test]
fn b15_the_wrong_number_of_transactions_is_misbehaving() {
    let (mut node, id, tip) = with_high_bandwidth_peer();
    let block = asking_for_transactions(&mut node, id, &tip);
    node.says(id, no_transactions(&block));
    let what = Misbehaviour::InvalidCompactBlock;
    assert_eq!(node.is_gone(id), Some(DisconnectReason::Misbehaved(what)));
}

/// Core `ProcessCompactBlockTxns`: the request is withdrawn "in case Misbehaving does not result in a
/// disconnect".
#[test]
fn b15_who_is_not_punished_for_wrong_transactions_is_asked_for_the_whole_block() {
    let (mut node, id, tip) = with_high_bandwidth(ConnectionKind::Manual);
    let block = asking_for_transactions(&mut node, id, &tip);
    node.says(id, no_transactions(&block));
    assert_eq!(node.requested(id), [block.hash]);
    node.gives(id, &block);
    assert_eq!((node.tip(), node.is_gone(id)), (block.hash, None));
}

/// It has said `notfound`, so that others are asked: what it sends of the block after that changes nothing.
#[test]
fn b15_who_has_not_a_block_is_not_asked_for_it_because_of_wrong_transactions() {
    let (mut node, id, tip) = with_high_bandwidth(ConnectionKind::Manual);
    let block = asking_for_transactions(&mut node, id, &tip);
    node.says(id, Message::NotFound(vec![block_entry(block.hash)]));
    node.says(id, no_transactions(&block));
    assert_eq!(node.requested(id), []);
    assert_eq!((node.expects.get(&id), node.is_gone(id)), (Some(&false), None));
}

#[test]
fn b15_equal_short_ids_punish_nobody() {
    let (mut node, id, tip) = with_high_bandwidth_peer();
    let block = TestBlock::on(&tip, START as u32, 2, 3);
    let mut collided = compact(&block);
    collided.short_ids[1] = collided.short_ids[0];
    node.says(id, Message::CmpctBlock(collided));
    node.tick();
    node.advance(Duration::from_secs(1));
    let asked = node.take(id).len();
    assert!(asked > 0, "in one form or the other");
    node.gives(id, &block);
    assert_eq!(node.is_gone(id), None);
}

#[test]
fn b15_a_compact_block_of_a_peer_that_was_not_asked_is_a_header() {
    let (mut node, _, tip) = with_high_bandwidth_peer();
    let block = TestBlock::on(&tip, START as u32, 2, 3);
    let other = node.inbound_peer();
    node.says(other, Message::CmpctBlock(compact(&block)));
    assert_eq!(node.index.headers(), 7, "without sendcmpct it is nothing at all");
    node.says(other, Message::SendCmpct { announce: false, version: 2 });
    node.says(other, Message::CmpctBlock(compact(&block)));
    assert_eq!(node.index.headers(), 8);
    node.tick();
    assert_eq!(asked_transactions(&mut node, other), []);
    assert_eq!(node.is_gone(other), None);
}

#[test]
fn an_invalid_block_in_compact_form_punishes_nobody() {
    let (mut node, id, tip) = with_high_bandwidth_peer();
    let block = TestBlock::on(&tip, START as u32, 2, 3);
    node.index.bad_blocks.insert(block.hash);
    node.says(id, Message::CmpctBlock(compact(&block)));
    node.tick();
    let request = asked_transactions(&mut node, id);
    node.says(id, answer(&block, &request[0]));
    assert_eq!((node.tip(), node.is_gone(id)), (tip.hash, None), "BIP152 allows it");
    // Building on it does not.
    let child = TestBlock::on(&block, START as u32, 2, 0);
    node.headers(id, &[child]);
    let reason = godwit_consensus::RejectReason::BadPrevblk;
    let what = Misbehaviour::InvalidHeader(reason);
    assert_eq!(node.is_gone(id), Some(DisconnectReason::Misbehaved(what)));
}

#[test]
fn a_compact_header_without_work_is_misbehaving_and_one_on_an_old_block_is_ignored() {
    let (mut node, id, tip) = with_high_bandwidth_peer();
    let orphan = TestBlock::on(&TestBlock::on(&tip, 9, 9, 0), START as u32, 2, 0);
    node.take(id);
    node.advance(Duration::from_secs(130));
    node.take(id);
    node.says(id, Message::CmpctBlock(compact(&orphan)));
    assert_eq!(node.take_only(id, Command::GETHEADERS).len(), 1, "its parent is unknown");
    let mut bad = compact(&TestBlock::on(&tip, START as u32, 2, 0));
    bad.header = super::index::spoil(bad.header);
    node.says(id, Message::CmpctBlock(bad));
    let what = Misbehaviour::HeaderWithoutWork;
    assert_eq!(node.is_gone(id), Some(DisconnectReason::Misbehaved(what)));
}

#[test]
fn three_peers_announce_by_compact_blocks_and_one_of_them_is_outbound() {
    let blocks = chain(5, 6_000);
    let mut node = Harness::with_chain(config(), &blocks);
    let outbound = node.full_peer();
    let inbound: Vec<PeerId> = (0..4).map(|_| node.inbound_peer()).collect();
    let mut parent = blocks[4].clone();
    for (n, id) in [outbound].into_iter().chain(inbound.iter().copied()).enumerate() {
        node.says(id, Message::SendCmpct { announce: false, version: 2 });
        node.take(id);
        parent = TestBlock::on(&parent, START as u32 - 3_000 + n as u32, 1, 0);
        give_first(&mut node, id, &parent);
    }
    let mut state = |id| match node.take_only(id, Command::SENDCMPCT).last() {
        Some(Message::SendCmpct { announce, .. }) => *announce,
        _ => false,
    };
    let selected: Vec<bool> = [outbound].iter().chain(&inbound).map(|&id| state(id)).collect();
    assert_eq!(selected, [true, false, false, true, true]);
    for (id, selected) in [outbound].iter().chain(&inbound).zip(selected) {
        assert_eq!(node.expects_compact.get(id), Some(&selected));
    }
}

#[test]
fn b15_of_eight_peers_that_send_parts_three_have_theirs_kept() {
    let blocks = chain(5, 6_000);
    let mut node = Harness::with_chain(config(), &blocks);
    let ids: Vec<PeerId> = (0..8).map(|_| node.inbound_peer()).collect();
    let mut tip = blocks[4].clone();
    for (n, &id) in ids.iter().enumerate() {
        node.says(id, Message::SendCmpct { announce: false, version: 2 });
        tip = TestBlock::on(&tip, START as u32 - 3_000 + n as u32, 1, 0);
        give_first(&mut node, id, &tip);
    }
    // Another block from each, and then one more.
    for round in 0..2 {
        for (n, &id) in ids.iter().enumerate() {
            let salt = 2 + 8 * round + n as u32;
            let block = TestBlock::on(&tip, START as u32, salt, 3);
            node.says(id, Message::CmpctBlock(compact(&block)));
        }
        let kept: Vec<bool> =
            ids.iter().map(|&id| node.peer_state(id).fetch.holds_partial()).collect();
        assert_eq!(kept, [false, false, false, false, false, true, true, true]);
    }
}

#[test]
fn one_announced_block_is_kept_and_the_next_takes_its_place() {
    let old = chain(5, 6_000);
    let new = TestBlock::chain(&old[4], 2, START as u32, 1);
    let mut node = Harness::with_chain(config(), &old);
    let id = node.inbound_peer();
    node.says(id, Message::SendCmpct { announce: true, version: 2 });
    node.headers(id, &old[4..]);
    // Whether its transactions have to be read from disk.
    let is_read = |node: &mut Harness, block: &TestBlock| {
        let positions = vec![0];
        node.hold_reads = true;
        let request = BlockTransactionsRequest { block_hash: block.hash, positions };
        node.says(id, Message::GetBlockTxn(request));
        let reads = std::mem::take(&mut node.reads);
        for (request, _, header) in &reads {
            node.answer_read(*request, *header);
        }
        node.hold_reads = false;
        node.pump();
        assert_eq!(node.take_only(id, Command::BLOCKTXN).len(), 1);
        !reads.is_empty()
    };
    node.mined(&new[..1]);
    assert!(!is_read(&mut node, &new[0]));
    node.mined(&new[1..]);
    assert!(!is_read(&mut node, &new[1]) && is_read(&mut node, &new[0]));
}

#[test]
fn nobody_is_selected_in_the_initial_download_or_without_sendcmpct() {
    let blocks = chain(5, 6_000);
    let next = TestBlock::on(&blocks[4], START as u32, 1, 0);
    for (initial_download, provides) in [(true, true), (false, false)] {
        let mut node = Harness::with_chain(config(), &blocks);
        node.initial_download = initial_download;
        node.connect();
        let id = node.peer(ConnectionKind::OutboundFull);
        if provides {
            node.says(id, Message::SendCmpct { announce: false, version: 2 });
        }
        node.take(id);
        give_first(&mut node, id, &next);
        assert_eq!(node.take_only(id, Command::SENDCMPCT), []);
    }
}
