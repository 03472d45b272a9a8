//! Blocks as peers send them: in any order, more than once, damaged, invalid.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, never, unbounded};
use godwit_chain::{
    Chain, Event, NEAR_BLOCKS_BYTES, Poll, RECEIVING_BYTES, Source, UtxoStats, Verdict,
};
use godwit_consensus::ResultClass;
use godwit_primitives::network::{Network, Params};
use godwit_primitives::{Block, BlockHash, BlockHeader, TxView};
use godwit_sim::hostile::{ChainOptions, reorganisations, suites};
use godwit_sim::rng::Rng;
use godwit_stream::{DataStream, PooledStream, SpanReader};

use crate::datadir::{clock, open, open_with, options, small_chain, submit, submit_at};

fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut rng = Rng::new(seed);
    for index in (1..items.len()).rev() {
        items.swap(index, rng.below(index as u64 + 1) as usize);
    }
}

fn hash(block: &[u8]) -> BlockHash {
    header(block).block_hash()
}

fn header(block: &[u8]) -> BlockHeader {
    SpanReader::new(block).get().expect("a block starts with a header")
}

fn accept_headers<'b>(chain: &mut Chain, blocks: impl IntoIterator<Item = &'b Vec<u8>>) {
    for block in blocks {
        chain.accept_header(&header(block), hash(block), clock()).expect("a good header");
    }
}

fn give(chain: &mut Chain, block: &[u8], ticket: u64) {
    chain.receive_block(PooledStream::from(DataStream::from(block)), ticket);
}

/// Until nothing is under way; what happened meanwhile.
fn settle(chain: &mut Chain) -> Vec<Event> {
    settle_at(chain, clock())
}

fn settle_at(chain: &mut Chain, now: i64) -> Vec<Event> {
    let nobody: Receiver<()> = never();
    let mut events = Vec::new();
    loop {
        let poll = chain.poll(now).expect("no local fault");
        events.extend(chain.take_events());
        assert!(chain.status().memory.near <= NEAR_BLOCKS_BYTES);
        match poll {
            Poll::Progress => {}
            Poll::Waiting => chain.wait_with(&nobody, Duration::from_secs(1)),
            Poll::Idle => {
                assert_eq!(chain.room(), RECEIVING_BYTES, "everything is given back");
                return events;
            }
        }
    }
}

/// The answers by ticket, each given once.
fn answers(events: &[Event], tickets: u64) -> Vec<Verdict> {
    let mut answers = vec![None; tickets as usize];
    for event in events {
        let (ticket, answer) = match event {
            Event::Judged { source: Source::Peer { ticket }, hash, verdict } => {
                assert_eq!(hash.is_none(), *verdict == Verdict::Undecodable);
                (*ticket, *verdict)
            }
            _ => continue,
        };
        assert_eq!(answers[ticket as usize].replace(answer), None, "ticket {ticket} twice");
    }
    answers.into_iter().map(|answer| answer.expect("every ticket has its answer")).collect()
}

fn submitted<'b>(blocks: impl IntoIterator<Item = &'b Vec<u8>>) -> UtxoStats {
    let temp = tempfile::tempdir().unwrap();
    let mut chain = open(temp.path(), Network::Regtest);
    for block in blocks {
        assert_eq!(submit(&mut chain, block), Verdict::Connected);
    }
    chain.utxo_stats().unwrap()
}

const NEW: Verdict = Verdict::Stored;
const KNOWN: Verdict = Verdict::Duplicate;

#[test]
fn blocks_in_any_order_and_twice_make_the_chain_of_submitting_them_in_order() {
    let blocks = small_chain();
    let expected = submitted(&blocks);
    for seed in 0..3 {
        let temp = tempfile::tempdir().unwrap();
        let mut chain = open(temp.path(), Network::Regtest);
        accept_headers(&mut chain, &blocks);
        let mut sent: Vec<&Vec<u8>> = blocks.iter().chain(&blocks).collect();
        shuffle(&mut sent, seed);
        let mut events = Vec::new();
        for (ticket, block) in sent.iter().enumerate() {
            give(&mut chain, block, ticket as u64);
            if ticket % 17 == 0 {
                chain.poll(clock()).expect("no local fault");
                events.extend(chain.take_events());
            }
        }
        events.extend(settle(&mut chain));
        let answers = answers(&events, sent.len() as u64);
        let of = |answer| answers.iter().filter(|other| **other == answer).count();
        assert_eq!((of(NEW), of(KNOWN)), (blocks.len(), blocks.len()));
        let connected = events.iter().filter_map(|event| match event {
            Event::Connected(connected) => Some(connected.point.height),
            _ => None,
        });
        assert!(connected.eq(1..=blocks.len() as u32), "in height order");
        assert_eq!(chain.utxo_stats().unwrap(), expected);
    }
}

#[test]
fn a_block_that_arrives_out_of_order_is_kept_in_memory_for_its_turn() {
    let blocks = small_chain();
    let temp = tempfile::tempdir().unwrap();
    let mut chain = open(temp.path(), Network::Regtest);
    accept_headers(&mut chain, &blocks);
    for (ticket, block) in blocks.iter().enumerate().skip(1).rev() {
        give(&mut chain, block, ticket as u64);
    }
    settle(&mut chain);
    let bytes: usize = blocks[1..].iter().map(Vec::len).sum();
    assert!(chain.status().memory.near > bytes, "{} bytes of blocks wait", bytes);
    let ahead = [u32::MAX, 2, 1, 0].map(|most| chain.stored_ahead(most));
    assert_eq!(ahead, [bytes as u64, blocks[1].len() as u64, 0, 0], "the first is missing");
    give(&mut chain, &blocks[0], 0);
    settle(&mut chain);
    assert_eq!(chain.tip_point().height, blocks.len() as u32);
    assert_eq!((chain.status().memory.near, chain.stored_ahead(u32::MAX)), (0, 0));
}

/// The block with its last transaction twice: an odd number of transactions has the same merkle
/// root then (CVE-2012-2459).
fn with_last_transaction_twice(block: &[u8]) -> Option<Vec<u8>> {
    let parsed = Block::from_bytes(block).expect("a good block");
    let view = parsed.view();
    let count = view.tx_count();
    if count < 3 || count.is_multiple_of(2) {
        return None;
    }
    let mut mutated: DataStream = DataStream::new();
    mutated.put(view.header());
    mutated.write_compact_size(count as u64 + 1);
    view.txs().for_each(|tx| mutated.write(tx.bytes()));
    mutated.write(view.tx(count - 1).bytes());
    Some(mutated.as_slice().to_vec())
}

/// A bit of the first witness changed: header and txids stay.
fn with_other_witness(block: &[u8]) -> Option<Vec<u8>> {
    let parsed = Block::from_bytes(block).expect("a good block");
    let ends_with_witness = |tx: &TxView<'_>| {
        let last = tx.witnesses().last().and_then(|witness| witness.items().last());
        last.is_some_and(|item| !item.is_empty())
    };
    let tx = parsed.view().txs().skip(1).find(ends_with_witness)?;
    let start = tx.bytes().as_ptr() as usize - parsed.view().bytes().as_ptr() as usize;
    // The lock time follows the witness.
    let last_of_witness = start + tx.bytes().len() - 5;
    let mut mutated = block.to_vec();
    mutated[last_of_witness] ^= 1;
    Some(mutated)
}

#[test]
fn a2_b20_forged_copies_are_refused_and_the_honest_block_is_taken() {
    let blocks = small_chain();
    let temp = tempfile::tempdir().unwrap();
    let mut chain = open(temp.path(), Network::Regtest);
    accept_headers(&mut chain, &blocks);
    let mut forged = Vec::new();
    for block in &blocks {
        let mut flipped = block.clone();
        *flipped.last_mut().expect("bytes") ^= 1;
        forged.push((hash(block), flipped));
        forged.extend(with_last_transaction_twice(block).map(|bytes| (hash(block), bytes)));
        forged.extend(with_other_witness(block).map(|bytes| (hash(block), bytes)));
    }
    assert!(forged.len() > blocks.len() + 50, "{} forgeries", forged.len());
    for (ticket, (_, bytes)) in forged.iter().enumerate() {
        give(&mut chain, bytes, ticket as u64);
    }
    let events = settle(&mut chain);
    for answer in answers(&events, forged.len() as u64) {
        let Verdict::Rejected(reject) = answer else { panic!("{answer:?}") };
        assert_eq!(reject.class, ResultClass::Mutated, "{reject}");
    }
    for (hash, _) in &forged {
        let id = chain.tree().find(hash).expect("its header was accepted");
        assert!(!chain.tree().node(id).failed && chain.tree().node(id).position.is_none());
    }
    for (ticket, block) in blocks.iter().enumerate() {
        give(&mut chain, block, ticket as u64);
    }
    let events = settle(&mut chain);
    assert!(answers(&events, blocks.len() as u64).iter().all(|answer| *answer == NEW));
    assert_eq!(chain.utxo_stats().unwrap(), submitted(&blocks));
}

#[test]
fn bytes_that_are_no_block_harm_nobody() {
    let blocks = small_chain();
    let temp = tempfile::tempdir().unwrap();
    let mut chain = open(temp.path(), Network::Regtest);
    accept_headers(&mut chain, &blocks);
    let cut = &blocks[5][..blocks[5].len() - 1];
    for (ticket, bytes) in [&[][..], &[0xff; 200], &blocks[5][..80], cut].iter().enumerate() {
        give(&mut chain, bytes, ticket as u64);
    }
    let events = settle(&mut chain);
    assert_eq!(answers(&events, 4), [Verdict::Undecodable; 4]);
    for (ticket, block) in blocks.iter().enumerate() {
        give(&mut chain, block, ticket as u64);
    }
    settle(&mut chain);
    assert_eq!(chain.utxo_stats().unwrap(), submitted(&blocks));
}

fn wall_clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64
}

/// The verdict that the events tell on the block that was given with ticket 0.
fn verdict(events: &[Event], block: &[u8]) -> Verdict {
    let verdict = answers(events, 1)[0];
    if verdict != NEW {
        return verdict;
    }
    let hash = hash(block);
    let judged = events.iter().rev().find_map(|event| match event {
        Event::Connected(connected) if connected.point.hash == hash => Some(Verdict::Connected),
        Event::Invalid { hash: invalid, reject } if *invalid == hash => {
            Some(Verdict::Rejected(*reject))
        }
        _ => None,
    });
    judged.unwrap_or(NEW)
}

#[test]
fn hostile_blocks_get_the_verdict_of_submitting_them() {
    let now = u32::try_from(wall_clock()).expect("before 2106");
    let mut judged = 0;
    for suite in suites(now).iter().filter(|suite| suite.options == ChainOptions::default()) {
        let temp = tempfile::tempdir().unwrap();
        let [mut fed, mut submitting] = ["fed", "submitting"]
            .map(|name| open_with(&temp.path().join(name), options(Params::new(Network::Regtest))));
        let cases = suite.cases.iter().flat_map(|case| &case.blocks);
        for block in suite.base.iter().chain(cases) {
            give(&mut fed, block, 0);
            let events = settle_at(&mut fed, wall_clock());
            let expected = submit_at(&mut submitting, block, wall_clock());
            submitting.take_events();
            assert_eq!(verdict(&events, block), expected, "{}", suite.name);
            assert_eq!(fed.tip_point(), submitting.tip_point(), "{}", suite.name);
            judged += 1;
        }
    }
    assert!(judged >= 300, "{judged} blocks");
}

#[test]
fn both_branches_of_a_reorganisation_in_any_order_end_on_the_better_one() {
    for (seed, scenario) in (0..).zip(reorganisations()) {
        let temp = tempfile::tempdir().unwrap();
        let mut chain = open(temp.path(), Network::Regtest);
        let (stale, winning) = (&scenario.blocks[..=scenario.turn], &scenario.second);
        accept_headers(&mut chain, scenario.base.iter().chain(stale));
        let mut sent: Vec<&Vec<u8>> = scenario.base.iter().chain(stale).collect();
        shuffle(&mut sent, seed);
        for (ticket, block) in sent.iter().enumerate() {
            give(&mut chain, block, ticket as u64);
        }
        settle(&mut chain);
        let expected = submitted(scenario.base.iter().chain(winning));
        assert_eq!(chain.utxo_stats().unwrap(), expected, "depth {}", scenario.depth);
    }
}

#[test]
fn blocks_that_came_before_their_parents_are_not_lost_in_a_crash() {
    let blocks = small_chain();
    let temp = tempfile::tempdir().unwrap();
    let mut chain = open(temp.path(), Network::Regtest);
    accept_headers(&mut chain, &blocks);
    for (ticket, block) in blocks.iter().enumerate().skip(1).rev() {
        give(&mut chain, block, ticket as u64);
    }
    settle(&mut chain);
    // Neither closed nor flushed.
    drop(chain);
    let mut chain = open(temp.path(), Network::Regtest);
    settle(&mut chain);
    assert_eq!(chain.tree().stored(), blocks.len() - 1);
    give(&mut chain, &blocks[0], 0);
    settle(&mut chain);
    assert_eq!(chain.utxo_stats().unwrap(), submitted(&blocks));
}

#[test]
fn more_blocks_at_once_than_any_queue_holds_are_all_judged() {
    const COPIES: u64 = 6_000;
    let block = &small_chain()[0];
    let temp = tempfile::tempdir().unwrap();
    let mut chain = open(temp.path(), Network::Regtest);
    for ticket in 0..COPIES {
        give(&mut chain, block, ticket);
    }
    assert_eq!(chain.room(), RECEIVING_BYTES - COPIES * block.len() as u64);
    let events = settle(&mut chain);
    let answers = answers(&events, COPIES);
    assert_eq!(answers.iter().filter(|answer| **answer == NEW).count(), 1);
}

#[test]
fn stored_blocks_are_read_back_as_they_came() {
    let blocks = small_chain();
    let temp = tempfile::tempdir().unwrap();
    let mut chain = open(temp.path(), Network::Regtest);
    accept_headers(&mut chain, &blocks);
    for (ticket, block) in blocks[1..].iter().enumerate() {
        give(&mut chain, block, ticket as u64);
    }
    settle(&mut chain);
    for (height, block) in blocks.iter().enumerate() {
        let id = chain.tree().find(&hash(block)).expect("a known header");
        chain.read_block(id, height as u64);
    }
    let genesis = chain.tree().genesis();
    chain.read_block(genesis, blocks.len() as u64);
    let mut read = 0;
    for event in settle(&mut chain) {
        let Event::Read { ticket, bytes } = event else { continue };
        read += 1;
        let bytes = bytes.as_ref().map(|bytes| bytes.as_slice());
        match ticket as usize {
            0 => assert_eq!(bytes, None, "it never came"),
            n if n < blocks.len() => assert_eq!(bytes, Some(&blocks[n][..])),
            _ => assert_eq!(bytes, Some(&chain.params().genesis_block()[..])),
        }
    }
    assert_eq!(read, blocks.len() + 1);
}

#[test]
fn waiting_ends_with_a_message_to_either_and_takes_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let mut chain = open(temp.path(), Network::Regtest);
    let (sender, receiver) = unbounded();
    let thread = std::thread::spawn(move || sender.send(7));
    chain.wait_with(&receiver, Duration::from_secs(600));
    assert_eq!(receiver.recv(), Ok(7));
    thread.join().unwrap().unwrap();
    // The other end is gone, which is news too.
    chain.wait_with(&receiver, Duration::from_secs(600));
    let nobody: Receiver<()> = never();
    chain.wait_with(&nobody, Duration::from_millis(1));
    give(&mut chain, &small_chain()[0], 0);
    chain.wait_with(&nobody, Duration::from_secs(600));
    assert_eq!(answers(&settle(&mut chain), 1), [NEW]);
}
