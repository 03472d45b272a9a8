use godwit_primitives::Block;

use super::harness::{Harness, START, Sent, block_inv, chain, config};
use super::index::TestBlock;
use crate::{
    BlockTransactionsRequest, ChainEvent, Command, ConnectionKind, HeaderIndex, Locator, Message,
    NetEvent, PeerId, compact_block,
};

/// What is sent when `blocks` are connected at once.
fn announced(node: &mut Harness, id: PeerId, blocks: &[TestBlock]) -> Vec<Sent> {
    node.take(id);
    node.mined(blocks);
    node.take(id)
}

fn next(parent: &TestBlock, count: u32) -> Vec<TestBlock> {
    TestBlock::chain(parent, count, START as u32, 1)
}

fn inv(block: &TestBlock) -> Sent {
    Sent::Message(Message::Inv(vec![block_inv(block.hash)]))
}

fn headers(blocks: &[TestBlock]) -> Sent {
    Sent::Message(Message::Headers(blocks.iter().map(|block| block.header).collect()))
}

fn is_compact(sent: &Sent, block: &TestBlock) -> bool {
    matches!(sent, Sent::Message(Message::CmpctBlock(compact)) if compact.header == block.header)
}

#[test]
fn new_blocks_are_announced_as_each_peer_asked() {
    let old = chain(5, 6_000);
    let new = next(&old[4], 1);
    let mut node = Harness::with_chain(config(), &old);
    let (plain, by_headers, compact) =
        (node.inbound_peer(), node.inbound_peer(), node.inbound_peer());
    node.says(by_headers, Message::SendHeaders);
    node.says(compact, Message::SendCmpct { announce: true, version: 2 });
    for id in [plain, by_headers, compact] {
        node.headers(id, &old[4..]);
        node.take(id);
    }
    node.mined(&new);
    assert_eq!(node.take(plain), [inv(&new[0])]);
    assert_eq!(node.take(by_headers), [headers(&new)]);
    let sent = node.take(compact);
    assert!(sent.len() == 1 && is_compact(&sent[0], &new[0]), "{sent:?}");
}

#[test]
fn headers_that_would_not_connect_are_announced_by_inv() {
    let old = chain(5, 6_000);
    let new = next(&old[4], 1);
    for (known, expected) in
        [(Some(4), headers(&new)), (Some(3), inv(&new[0])), (None, inv(&new[0]))]
    {
        let mut node = Harness::with_chain(config(), &old);
        let id = node.inbound_peer();
        node.says(id, Message::SendHeaders);
        if let Some(known) = known {
            node.headers(id, &old[known..=known]);
        }
        assert_eq!(announced(&mut node, id, &new), [expected], "{known:?}");
    }
}

#[test]
fn what_we_sent_counts_as_known_to_the_peer() {
    let old = chain(5, 6_000);
    let mut node = Harness::with_chain(config(), &old);
    let id = node.inbound_peer();
    node.says(id, Message::SendHeaders);
    let hashes = vec![TestBlock::genesis().hash];
    let stop = godwit_primitives::BlockHash::ZERO;
    node.says(id, Message::GetHeaders(Locator { hashes, stop }));
    let new = next(&old[4], 2);
    assert_eq!(announced(&mut node, id, &new[..1]), [headers(&new[..1])]);
    assert_eq!(announced(&mut node, id, &new[1..]), [headers(&new[1..])]);
}

#[test]
fn several_blocks_are_announced_together_up_to_eight() {
    let old = chain(5, 60_000);
    for (count, by_headers) in [(2, true), (8, true), (9, false)] {
        let new = next(&old[4], count);
        let mut node = Harness::with_chain(config(), &old);
        let id = node.inbound_peer();
        node.says(id, Message::SendHeaders);
        node.headers(id, &old[4..]);
        let last = new.last().expect("some");
        let expected = if by_headers { headers(&new) } else { inv(last) };
        assert_eq!(announced(&mut node, id, &new), [expected], "{count}");
    }
}

#[test]
fn several_blocks_are_not_announced_in_compact_form() {
    let old = chain(5, 60_000);
    let new = next(&old[4], 2);
    for (prefers_headers, expected) in [(false, inv(&new[1])), (true, headers(&new))] {
        let mut node = Harness::with_chain(config(), &old);
        let id = node.inbound_peer();
        node.says(id, Message::SendCmpct { announce: true, version: 2 });
        if prefers_headers {
            node.says(id, Message::SendHeaders);
        }
        node.headers(id, &old[4..]);
        assert_eq!(announced(&mut node, id, &new), [expected]);
    }
}

#[test]
fn who_gave_a_block_is_not_told_of_it() {
    let old = chain(5, 6_000);
    let new = next(&old[4], 1);
    let mut node = Harness::with_chain(config(), &old);
    let (sender, other) = (node.full_peer(), node.inbound_peer());
    node.says(sender, Message::SendHeaders);
    node.headers(sender, &new);
    node.tick();
    node.take(sender);
    node.take(other);
    node.gives(sender, &new[0]);
    assert_eq!(node.tip(), new[0].hash);
    assert_eq!(node.take_only(sender, Command::HEADERS), []);
    assert_eq!(node.take(other), [inv(&new[0])]);
}

/// Our `version` has told it of the height before.
#[test]
fn who_is_being_greeted_hears_of_a_new_tip_when_that_is_done() {
    let old = chain(5, 6_000);
    let new = next(&old[4], 3);
    let mut node = Harness::with_chain(config(), &old);
    let (silent, greeting) = (node.inbound(), node.outbound(ConnectionKind::OutboundFull));
    let version = node.version();
    node.says(greeting, Message::Version(Box::new(version)));
    node.mined(&new[..1]);
    node.mined(&new[1..]);
    for id in [silent, greeting] {
        assert_eq!(node.take_only(id, Command::INV), []);
    }
    node.says(greeting, Message::SendHeaders);
    node.says(greeting, Message::Verack);
    node.greet(silent);
    for id in [silent, greeting] {
        assert_eq!(node.take_only(id, Command::INV), [Message::Inv(vec![block_inv(new[2].hash)])]);
    }
    let later = node.inbound_peer();
    assert_eq!(node.take_only(later, Command::INV), [], "it was told of the height");
}

#[test]
fn nothing_is_announced_in_the_initial_download() {
    let old = chain(5, 6_000);
    let mut node = Harness::with_chain(config(), &old);
    let id = node.inbound_peer();
    node.initial_download = true;
    node.connect();
    assert_eq!(announced(&mut node, id, &next(&old[4], 1)), []);
}

/// As in Core: what a peer asks for it gets, and of the rest it hears when the download ends.
#[test]
fn an_empty_peer_is_served_in_the_initial_download_and_told_of_the_tip_at_its_end() {
    let old = chain(5, 60_000);
    let mut node = Harness::with_chain(config(), &old);
    let id = node.full_peer();
    node.initial_download = true;
    node.connect();
    node.take(id);
    node.says(id, Message::SendHeaders);
    let hashes = vec![TestBlock::genesis().hash];
    let stop = godwit_primitives::BlockHash::ZERO;
    node.says(id, Message::GetHeaders(Locator { hashes, stop }));
    assert_eq!(node.take(id), [headers(&old)]);
    let untold = next(&old[4], 3);
    assert_eq!(announced(&mut node, id, &untold), []);
    let entry = crate::Inventory::block(crate::InventoryKind::WITNESS_BLOCK, untold[2].hash);
    node.says(id, Message::GetData(vec![entry]));
    assert_eq!(node.take(id), [Sent::Block(untold[2].bytes.clone())]);
    node.initial_download = false;
    let last = next(&untold[2], 1);
    assert_eq!(announced(&mut node, id, &last), [inv(&last[0])], "it does not know the parent");
}

#[test]
fn a_reorganisation_is_announced_from_the_fork() {
    let old = chain(5, 6_000);
    let branch = TestBlock::chain(&old[2], 4, START as u32, 2);
    let mut node = Harness::with_chain(config(), &old);
    let id = node.inbound_peer();
    node.says(id, Message::SendHeaders);
    node.headers(id, &old[4..]);
    assert_eq!(announced(&mut node, id, &branch), [headers(&branch)]);
    assert_eq!(node.tip(), branch[3].hash);
}

#[test]
fn the_tip_is_read_once_for_all_compact_announcements() {
    let old = chain(5, 6_000);
    let new = next(&old[4], 2);
    let mut node = Harness::with_chain(config(), &old);
    node.hold_reads = true;
    let ids: Vec<PeerId> = (0..20).map(|_| node.inbound_peer()).collect();
    for &id in &ids {
        node.says(id, Message::SendCmpct { announce: true, version: 2 });
        node.headers(id, &old[4..]);
        node.take(id);
    }
    node.mined(&new[..1]);
    assert_eq!(node.reads.len(), 1);
    let (request, _, header) = node.reads.pop_front().expect("one");
    node.tell(NetEvent::Closed { peer: ids[0] });
    node.answer_read(request, header);
    node.pump();
    for &id in &ids[1..] {
        let sent = node.take(id);
        assert!(sent.len() == 1 && is_compact(&sent[0], &new[0]));
    }
    // When another tip comes before the read is done, nobody waits for it.
    node.mined(&new[1..]);
    let newest = next(&new[1], 1);
    node.mined(&newest);
    assert_eq!(node.take(ids[1])[0], inv(&new[1]));
    for (request, _, header) in std::mem::take(&mut node.reads) {
        node.answer_read(request, header);
    }
    node.pump();
    let tip = node.index.get(node.index.tip()).hash;
    assert_eq!(tip, newest[0].hash);
}

#[test]
fn one_tip_at_a_time_is_read_to_be_announced() {
    let old = chain(5, 6_000);
    let new = next(&old[4], 3);
    let mut node = Harness::with_chain(config(), &old);
    node.hold_reads = true;
    let id = node.inbound_peer();
    node.says(id, Message::SendCmpct { announce: true, version: 2 });
    node.headers(id, &old[4..]);
    assert_eq!(announced(&mut node, id, &new[..1]), []);
    let memory = node.peers.memory();
    node.headers(id, &new[..1]);
    assert_eq!(announced(&mut node, id, &new[1..2]), [inv(&new[1])]);
    assert_eq!((node.reads.len(), node.peers.memory()), (1, memory));
    let (request, _, header) = node.reads.pop_front().expect("one");
    node.answer_read(request, header);
    node.headers(id, &new[1..2]);
    assert_eq!(announced(&mut node, id, &new[2..]), []);
    assert_eq!(node.reads.len(), 1, "the first has ended");
}

#[test]
fn a_compact_announcement_that_can_not_be_read_becomes_another() {
    let old = chain(5, 6_000);
    let new = next(&old[4], 1);
    let mut node = Harness::with_chain(config(), &old);
    node.hold_reads = true;
    let id = node.inbound_peer();
    node.says(id, Message::SendCmpct { announce: true, version: 2 });
    node.headers(id, &old[4..]);
    assert_eq!(announced(&mut node, id, &new), []);
    let (request, ..) = node.reads.pop_front().expect("one");
    node.tell(ChainEvent::BlockRead { request, bytes: None });
    node.pump();
    assert_eq!((node.take(id), node.is_gone(id)), (vec![inv(&new[0])], None));
}

#[test]
fn a_compact_block_is_sent_on_request_near_the_tip() {
    let blocks = chain(10, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    let mut ask = |place: usize| {
        node.take(id);
        let kind = crate::InventoryKind::CMPCT_BLOCK;
        let entry = crate::Inventory::block(kind, blocks[place].hash);
        node.says(id, Message::GetData(vec![entry]));
        node.take(id).pop().expect("an answer")
    };
    // Height 5 is five below the tip.
    assert!(is_compact(&ask(4), &blocks[4]) && is_compact(&ask(9), &blocks[9]));
    assert_eq!(ask(3), Sent::Block(blocks[3].bytes.clone()));
    let block = Block::from_bytes(&blocks[9].bytes).expect("a block");
    let Sent::Message(Message::CmpctBlock(sent)) = ask(9) else { panic!("compact") };
    assert_eq!(sent, compact_block(block.view(), sent.nonce));
}

/// A node that has announced a new block to a peer in compact form.
fn with_compact_announcement() -> (Harness, PeerId, TestBlock) {
    let old = chain(5, 6_000);
    let new = next(&old[4], 1).remove(0);
    let mut node = Harness::with_chain(config(), &old);
    let id = node.inbound_peer();
    node.says(id, Message::SendCmpct { announce: true, version: 2 });
    node.headers(id, &old[4..]);
    assert!(is_compact(&announced(&mut node, id, std::slice::from_ref(&new))[0], &new));
    (node, id, new)
}

/// The last block that was announced in compact form stays in memory, however many follow it.
#[test]
fn a_block_that_was_announced_in_compact_form_is_sent_whole_once_it_is_deep() {
    let (mut node, id, new) = with_compact_announcement();
    node.says(id, Message::SendCmpct { announce: false, version: 2 });
    let kind = crate::InventoryKind::CMPCT_BLOCK;
    let mut tip = new.clone();
    for depth in 1..=6 {
        tip = TestBlock::on(&tip, START as u32, 1, 0);
        node.mined(std::slice::from_ref(&tip));
        node.take(id);
        node.says(id, Message::GetData(vec![crate::Inventory::block(kind, new.hash)]));
        let answer = node.take(id).pop().expect("an answer");
        assert_eq!(is_compact(&answer, &new), depth <= 5, "{depth}");
    }
    assert_eq!(node.is_gone(id), None);
}

#[test]
fn nothing_is_given_of_an_announced_block_that_was_declared_invalid() {
    let (mut node, id, new) = with_compact_announcement();
    let kind = crate::InventoryKind::CMPCT_BLOCK;
    let ask = |node: &mut Harness| {
        let (block_hash, positions) = (new.hash, vec![0]);
        node.says(id, Message::GetData(vec![crate::Inventory::block(kind, block_hash)]));
        node.says(id, Message::GetBlockTxn(BlockTransactionsRequest { block_hash, positions }));
        node.take(id).len()
    };
    assert_eq!(ask(&mut node), 2);
    node.index.invalidate_tip();
    node.connect();
    node.pump();
    assert_eq!((ask(&mut node), node.is_gone(id)), (0, None));
}
