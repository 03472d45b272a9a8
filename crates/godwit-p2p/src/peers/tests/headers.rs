use std::sync::Arc;
use std::time::Duration;

use godwit_primitives::work::block_proof;
use godwit_primitives::{BlockHash, Work};

use super::harness::{Harness, START, block_inv, chain, config};
use super::index::{TestBlock, mine, spoil};
use crate::index::locator;
use crate::{
    ChainEvent, Command, ConnectionKind, DisconnectReason, HeaderIndex, MAX_HEADERS, Message,
    Misbehaviour, PeerId, PeersConfig,
};

fn misbehaved(what: Misbehaviour) -> Option<DisconnectReason> {
    Some(DisconnectReason::Misbehaved(what))
}

pub(super) fn locators(node: &mut Harness, id: PeerId) -> Vec<Vec<BlockHash>> {
    let asked = node.take_only(id, Command::GETHEADERS).into_iter();
    asked
        .map(|message| match message {
            Message::GetHeaders(locator) => locator.hashes,
            _ => panic!("only getheaders was taken"),
        })
        .collect()
}

#[test]
fn one_peer_is_asked_first_and_the_others_when_it_told_its_chain() {
    let mut node = Harness::new(config());
    let blocks = chain(5, 400_000);
    let (first, second) = (node.full_peer(), node.full_peer());
    assert_eq!(locators(&mut node, first), [vec![TestBlock::genesis().hash]]);
    assert_eq!(locators(&mut node, second), Vec::<Vec<BlockHash>>::new());
    node.headers(first, &blocks);
    node.tick();
    node.advance(Duration::from_secs(1));
    // From the parent of the best header: the answer then tells what the peer has.
    let best = node.index.best_header();
    let from = node.index.parent(best).expect("five blocks");
    assert_eq!(locators(&mut node, second), [locator(&node.index, from)]);
    assert_eq!(locators(&mut node, first), Vec::<Vec<BlockHash>>::new());
}

#[test]
fn all_are_asked_when_the_headers_are_recent() {
    let mut node = Harness::with_chain(config(), &chain(5, 3_600));
    let ids = [node.full_peer(), node.full_peer(), node.inbound_peer()];
    for id in ids {
        assert_eq!(locators(&mut node, id).len(), 1, "peer {id:?}");
    }
}

#[test]
fn a_full_message_is_followed_by_the_next_question() {
    let mut node = Harness::new(config());
    let id = node.full_peer();
    node.take(id);
    let blocks = chain(MAX_HEADERS as u32 + 10, 400_000);
    node.headers(id, &blocks[..MAX_HEADERS]);
    let last = node.index.find(&blocks[MAX_HEADERS - 1].hash).expect("taken");
    assert_eq!(locators(&mut node, id), [locator(&node.index, last)]);
    node.headers(id, &blocks[MAX_HEADERS..]);
    assert_eq!(locators(&mut node, id), Vec::<Vec<BlockHash>>::new());
    assert_eq!(node.index.headers(), 1 + blocks.len());
}

#[test]
fn b3_headers_without_work_are_misbehaving_and_not_stored() {
    let mut node = Harness::with_chain(config(), &chain(2, 60));
    let id = node.full_peer();
    let mut headers: Vec<_> = chain(4, 60).iter().map(|block| block.header).collect();
    headers[3] = spoil(headers[3]);
    node.says(id, Message::Headers(headers));
    assert_eq!(node.is_gone(id), misbehaved(Misbehaviour::HeaderWithoutWork));
    assert_eq!((node.index.headers(), node.submitted_headers.len()), (3, 0));
    assert_eq!(node.discouraged(), 1);
}

#[test]
fn b3_headers_that_do_not_follow_one_another_are_misbehaving() {
    let mut node = Harness::new(config());
    let id = node.full_peer();
    let blocks = chain(5, 400_000);
    node.headers(id, &[blocks[0].clone(), blocks[1].clone(), blocks[3].clone()]);
    assert_eq!(node.is_gone(id), misbehaved(Misbehaviour::HeadersNotContinuous));
    assert_eq!(node.index.headers(), 1);
}

#[test]
fn b3_more_than_2000_headers_are_misbehaving() {
    let mut node = Harness::new(config());
    let (ok, bad) = (node.full_peer(), node.full_peer());
    let blocks = chain(MAX_HEADERS as u32 + 1, 400_000);
    node.headers(ok, &blocks[..MAX_HEADERS]);
    assert_eq!(node.is_gone(ok), None);
    node.headers(bad, &blocks);
    let what = Misbehaviour::TooManyEntries(Command::HEADERS);
    assert_eq!(node.is_gone(bad), misbehaved(what));
}

#[test]
fn b3_headers_that_do_not_connect_cost_one_question() {
    let mut node = Harness::with_chain(config(), &chain(5, 60));
    let id = node.full_peer();
    let elsewhere =
        TestBlock::chain(&TestBlock::on(&TestBlock::genesis(), 9, 9, 0), 20, 1 << 30, 9);
    node.headers(id, &chain(5, 60)[4..]);
    node.take(id);
    for block in &elsewhere {
        node.headers(id, std::slice::from_ref(block));
    }
    assert_eq!(locators(&mut node, id).len(), 1);
    assert_eq!((node.is_gone(id), node.index.headers()), (None, 6));
    // The question is open; after two minutes another may be asked.
    node.advance(Duration::from_secs(121));
    node.headers(id, &elsewhere[3..4]);
    assert_eq!(locators(&mut node, id).len(), 1);
}

#[test]
fn b3_a_header_that_breaks_a_rule_is_misbehaving() {
    let blocks = chain(5, 400_000);
    let mut node = Harness::new(config());
    node.index.bad_headers.insert(blocks[2].hash);
    let id = node.full_peer();
    node.headers(id, &blocks);
    let what = Misbehaviour::InvalidHeader(godwit_consensus::RejectReason::BadDiffbits);
    assert_eq!(node.is_gone(id), misbehaved(what));
    assert_eq!(node.index.headers(), 3, "those before it were taken");
}

#[test]
fn a_header_of_a_known_invalid_block_costs_outbound_peers_their_place() {
    let blocks = chain(5, 60);
    let mut node = Harness::with_chain(config(), &blocks[..2]);
    node.index.bad_blocks.insert(blocks[3].hash);
    let (inbound, outbound) = (node.inbound_peer(), node.full_peer());
    node.mined(&blocks[2..]);
    assert_eq!(node.index.height(), 3);
    node.headers(inbound, &blocks[3..4]);
    assert_eq!(node.is_gone(inbound), None, "it may follow other rules");
    node.headers(outbound, &blocks[3..4]);
    let what = Misbehaviour::InvalidHeader(godwit_consensus::RejectReason::DuplicateInvalid);
    assert_eq!(node.is_gone(outbound), misbehaved(what));
}

/// Enough work for 2,500 blocks.
fn with_minimum_work() -> PeersConfig {
    PeersConfig { minimum_chain_work: Work::from(2 * 2_500u32), ..config() }
}

#[test]
fn b1_chains_with_too_little_work_are_never_stored() {
    let mut node = Harness::new(with_minimum_work());
    let (liar, short) = (node.full_peer(), node.inbound_peer());
    let blocks = chain(3 * MAX_HEADERS as u32, 4_000_000);
    node.headers(short, &blocks[..100]);
    assert_eq!((node.index.headers(), node.is_gone(short)), (1, None));
    node.headers(liar, &blocks[..MAX_HEADERS]);
    assert_eq!(node.index.headers(), 1, "not before the work is known");
    assert_eq!(node.presync_height(), Some(MAX_HEADERS as u32));
    assert_eq!(node.peers.infos()[0].blocks.presynced, Some(MAX_HEADERS as u32));
    node.headers(liar, &[]);
    assert_eq!(node.presync_height(), None);
    assert_eq!((node.index.headers(), node.submitted_headers.len()), (1, 0));
}

/// Answers questions for headers out of a chain.
fn serve_headers(node: &mut Harness, id: PeerId, blocks: &[TestBlock]) -> usize {
    let mut answered = 0;
    loop {
        let Some(hashes) = locators(node, id).pop() else { return answered };
        let known = |hash: &BlockHash| blocks.iter().position(|block| block.hash == *hash);
        let next = hashes.iter().find_map(known).map_or(0, |place| place + 1);
        let end = blocks.len().min(next + MAX_HEADERS);
        node.headers(id, &blocks[next..end]);
        answered += 1;
        assert!(answered < 1_000, "a loop");
    }
}

/// Core `HeadersSyncState::NextHeadersRequestLocator`.
#[test]
fn a_presync_asks_behind_its_last_header_or_else_where_it_started() {
    let blocks = chain(2_600, 4_000_000);
    let mut node = Harness::with_chain(with_minimum_work(), &blocks[..30]);
    let id = node.full_peer();
    let at = |height: usize| match height {
        0 => TestBlock::genesis().hash,
        _ => blocks[height - 1].hash,
    };
    let start: Vec<BlockHash> = (20..=30).rev().chain([19, 17, 13, 5, 0]).map(at).collect();
    let behind = |last| [vec![at(last)], start.clone()].concat();
    locators(&mut node, id);
    let (first, second) = blocks[30..].split_at(MAX_HEADERS);
    node.headers(id, first);
    assert_eq!(locators(&mut node, id), [behind(30 + MAX_HEADERS)]);
    node.headers(id, second);
    assert_eq!(locators(&mut node, id), [behind(30)], "the second pass");
    node.headers(id, first);
    assert_eq!(locators(&mut node, id), [behind(30 + MAX_HEADERS)]);
}

#[test]
fn a_chain_with_enough_work_is_stored_in_the_second_pass() {
    let mut node = Harness::new(with_minimum_work());
    let id = node.full_peer();
    let blocks = chain(5_000, 4_000_000);
    serve_headers(&mut node, id, &blocks);
    assert_eq!(node.index.headers(), 1 + blocks.len());
    assert_eq!(node.is_gone(id), None);
}

#[test]
fn b2_a_presync_that_never_ends_does_not_keep_the_node_from_syncing() {
    let mut node = Harness::new(with_minimum_work());
    let (liar, honest) = (node.full_peer(), node.full_peer());
    let blocks = chain(5_000, 4_000_000);
    let other = TestBlock::chain(&TestBlock::genesis(), 2_600, START as u32 - 5_000_000, 8);
    // The first pass shows one chain, the second another: it is given up and begun again, for ever.
    let mut asked = 0;
    for round in 0..60 {
        for hashes in locators(&mut node, liar) {
            asked += 1;
            let shown = if round % 2 == 0 { &blocks } else { &other };
            let known = |hash: &BlockHash| shown.iter().position(|block| block.hash == *hash);
            let next = hashes.iter().find_map(known).map_or(0, |place| place + 1);
            node.headers(liar, &shown[next..shown.len().min(next + MAX_HEADERS)]);
        }
        node.advance_in(Duration::from_secs(1), Duration::from_secs(1));
        if node.index.headers() == 1 + blocks.len() {
            break;
        }
        serve_headers(&mut node, honest, &blocks);
    }
    assert_eq!(node.index.headers(), 1 + blocks.len(), "the honest peer was asked");
    assert!(asked > 0);
    assert_eq!(node.is_gone(honest), None);
}

#[test]
fn b2_a_peer_that_repeats_known_headers_does_not_keep_the_node_from_syncing() {
    let mut node = Harness::new(config());
    let (liar, honest) = (node.full_peer(), node.full_peer());
    let blocks = chain(4_500, 4_000_000);
    node.take(liar);
    for _ in 0..3 {
        node.headers(liar, &blocks[..MAX_HEADERS]);
        node.advance(Duration::from_secs(1));
    }
    serve_headers(&mut node, honest, &blocks);
    assert_eq!(node.index.headers(), 1 + blocks.len());
    assert_eq!((node.is_gone(liar), node.is_gone(honest)), (None, None));
}

#[test]
fn a_peer_with_little_work_is_left_in_the_initial_download_only() {
    for (initial_download, kind, expected) in [
        (true, ConnectionKind::OutboundFull, Some(DisconnectReason::LittleWork)),
        (true, ConnectionKind::Manual, None),
        (false, ConnectionKind::OutboundFull, None),
    ] {
        // Known headers, so that they are looked at although they have little work.
        let blocks = chain(5, 400_000);
        let mut node = Harness::with_chain(with_minimum_work(), &blocks);
        node.initial_download = initial_download;
        node.tell(ChainEvent::TipChanged { initial_download });
        let id = node.peer(kind);
        node.headers(id, &blocks);
        assert_eq!(node.is_gone(id), expected);
    }
}

#[test]
fn b7_a_flood_of_announced_blocks_is_followed_by_one_question() {
    let mut node = Harness::with_chain(config(), &chain(5, 60));
    let id = node.inbound_peer();
    node.headers(id, &chain(5, 60)[4..]);
    node.take(id);
    let unknown = |n: u32| {
        let mut bytes = [9; 32];
        bytes[..4].copy_from_slice(&n.to_le_bytes());
        block_inv(BlockHash::from_bytes(bytes))
    };
    for _ in 0..10 {
        node.says(id, Message::Inv((0..50_000).map(unknown).collect()));
    }
    assert_eq!(node.take(id).len(), 1, "one getheaders for ten times 50,000 blocks");
    assert_eq!(node.is_gone(id), None);
}

/// Whom we chose takes a place that another peer could have.
#[test]
fn b7_whom_we_chose_is_let_go_when_it_announces_more_blocks_than_there_are() {
    let mut node = Harness::with_chain(config(), &chain(5, 60));
    let too_many = Some(DisconnectReason::TooManyAnnouncements);
    for (kind, ends) in [
        (ConnectionKind::OutboundFull, too_many),
        (ConnectionKind::BlockRelay, too_many),
        (ConnectionKind::Manual, None),
    ] {
        let id = node.peer(kind);
        let unknown = block_inv(BlockHash::from_bytes([9; 32]));
        for _ in 0..2 {
            node.says(id, Message::Inv(vec![unknown; 50_000]));
        }
        assert_eq!(node.is_gone(id), None);
        node.says(id, Message::Inv(vec![unknown]));
        assert_eq!(node.is_gone(id), ends, "{kind}");
    }
    assert_eq!(node.discouraged(), 0);
}

#[test]
fn b7_before_its_sync_began_a_peer_is_asked_once_for_announced_blocks() {
    let mut node = Harness::new(config());
    let (syncing, other, third) = (node.full_peer(), node.inbound_peer(), node.inbound_peer());
    for id in [syncing, other, third] {
        node.take(id);
    }
    let block = |n: u8| vec![block_inv(BlockHash::from_bytes([n; 32]))];
    node.says(other, Message::Inv(block(1)));
    node.says(third, Message::Inv(block(1)));
    assert_eq!(locators(&mut node, other).len(), 1);
    assert_eq!(locators(&mut node, third).len(), 0, "one more peer for each block");
    node.headers(other, &[]);
    node.says(other, Message::Inv(block(2)));
    assert_eq!(locators(&mut node, other).len(), 0);
    node.says(third, Message::Inv(block(2)));
    assert_eq!(locators(&mut node, third).len(), 1);
}

#[test]
fn an_announced_block_that_becomes_known_can_be_asked_of_who_announced_it() {
    let mut node = Harness::with_chain(config(), &chain(5, 60));
    let (a, b) = (node.full_peer(), node.full_peer());
    let next = TestBlock::on(chain(5, 60).last().expect("five"), START as u32, 2, 0);
    node.says(a, Message::Inv(vec![block_inv(next.hash)]));
    let known = |node: &Harness, id| node.peer_state(id).known.best();
    assert_eq!(known(&node, a), None);
    node.headers(b, std::slice::from_ref(&next));
    node.advance(Duration::from_secs(1));
    assert_eq!(known(&node, a), node.index.find(&next.hash));
}

/// The last block that we share counts while the peer's chain is of use, and stays what it was afterwards.
#[test]
fn how_much_we_share_with_a_peer_is_looked_at_while_its_chain_is_of_use() {
    let blocks = chain(60, 60);
    let mut node = Harness::with_chain(config(), &blocks[..50]);
    let id = node.inbound_peer();
    let common = |node: &mut Harness| {
        node.advance(Duration::from_secs(1));
        let common = node.peers.infos()[0].blocks.common;
        common.map(|id| node.index.get(id).height)
    };
    node.headers(id, &blocks[..49]);
    assert_eq!(common(&mut node), None, "it is one block behind");
    // Of the same work, on another branch: what is stored of that counts too.
    let other = TestBlock::on(&blocks[48], START as u32, 7, 0);
    node.headers(id, std::slice::from_ref(&other));
    assert_eq!(common(&mut node), Some(49));
    node.gives(id, &other);
    assert_eq!((common(&mut node), node.tip()), (Some(50), blocks[49].hash));
    node.headers(id, &blocks[48..53]);
    assert_eq!(common(&mut node), Some(50));
    node.mined(&blocks[50..52]);
    assert_eq!(common(&mut node), Some(52), "its last block is missing here");
    node.mined(&blocks[52..60]);
    node.headers(id, &blocks[52..55]);
    assert_eq!(common(&mut node), Some(52), "it has fallen behind");
    node.headers(id, &blocks[55..60]);
    assert_eq!(common(&mut node), Some(60));
}

#[test]
fn what_we_share_with_a_peer_of_too_little_work_is_not_looked_at() {
    let blocks = chain(50, 60);
    let found = |minimum: u64| {
        let minimum_chain_work = block_proof(blocks[0].header.bits) * u128::from(minimum);
        let config = PeersConfig { minimum_chain_work, ..config() };
        let mut node = Harness::with_chain(config, &blocks);
        let id = node.inbound_peer();
        node.headers(id, &blocks);
        node.advance(Duration::from_secs(1));
        node.peers.infos()[0].blocks.common.is_some()
    };
    // Genesis counts.
    assert!(found(51) && !found(52));
}

#[test]
fn b18_an_outbound_peer_whose_chain_stays_behind_is_asked_once_more_and_left() {
    let blocks = chain(30, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    // Four are protected for having had our chain once; the fifth one is behind.
    let good: Vec<PeerId> = (0..4).map(|_| node.full_peer()).collect();
    for &id in &good {
        node.headers(id, &blocks[28..]);
    }
    let behind = node.full_peer();
    let (manual, inbound) = (node.peer(ConnectionKind::Manual), node.inbound_peer());
    for id in [behind, manual, inbound] {
        node.headers(id, &blocks[..20]);
        node.take(id);
    }
    node.advance(Duration::from_secs(20 * 60 + 1));
    let from = node.index.find(&blocks[28].hash).expect("known");
    assert_eq!(locators(&mut node, behind), [locator(&node.index, from)]);
    assert_eq!(node.is_gone(behind), None);
    node.advance(Duration::from_secs(121));
    assert_eq!(node.is_gone(behind), Some(DisconnectReason::StaleChain));
    for id in good.into_iter().chain([manual, inbound]) {
        assert_eq!(node.is_gone(id), None);
    }
    assert_eq!(node.discouraged(), 0, "no punishment");
}

#[test]
fn an_outbound_peer_that_catches_up_is_kept() {
    let blocks = chain(30, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.peer(ConnectionKind::BlockRelay);
    node.headers(id, &blocks[..20]);
    node.advance(Duration::from_secs(20 * 60 + 1));
    node.headers(id, &blocks[20..]);
    node.advance(Duration::from_secs(30 * 60));
    assert_eq!(node.is_gone(id), None);
}

#[test]
fn a_chain_of_invalid_blocks_does_not_keep_an_outbound_peer() {
    let blocks = chain(10, 60);
    let worse = TestBlock::chain(&blocks[4], 20, START as u32, 3);
    let mut node = Harness::with_chain(config(), &blocks);
    node.index.bad_blocks.insert(worse[0].hash);
    let id = node.peer(ConnectionKind::BlockRelay);
    node.headers(id, &worse);
    node.mined(&worse);
    assert_eq!(node.index.height(), 10);
    node.advance(Duration::from_secs(23 * 60));
    assert_eq!(node.is_gone(id), Some(DisconnectReason::StaleChain));
}

#[test]
fn sendheaders_follows_when_the_peer_showed_a_chain() {
    let blocks = chain(5, 60);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    assert_eq!(node.take_only(id, Command::SENDHEADERS).len(), 0);
    node.headers(id, &blocks[4..]);
    node.advance(Duration::from_secs(5));
    assert_eq!(node.take_only(id, Command::SENDHEADERS).len(), 1, "and once only");
}

#[test]
fn mined_headers_of_the_support_module_keep_the_rules() {
    let block = &chain(1, 60)[0];
    let params = Arc::clone(&config().params);
    let works = |header: &godwit_primitives::BlockHeader| {
        godwit_consensus::check_proof_of_work(&header.block_hash(), header.bits, &params)
    };
    assert!(works(&mine(block.header)) && !works(&spoil(block.header)));
}
