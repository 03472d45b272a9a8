//! Requests for compact block filters.

use godwit_primitives::BlockHash;

use super::harness::{FULL, Harness, Sent, block_entry, chain, config};
use super::index::TestBlock;
use crate::{
    ChainEvent, Command, DisconnectReason, FRAME_HEADER_SIZE, FilterBlock, FilterData, FilterQuery,
    FilterRead, FilterRequest, Message, NetEvent, PeersConfig, SEND_PAUSE, Services,
};

fn offering() -> PeersConfig {
    PeersConfig { services: FULL | Services::COMPACT_FILTERS, ..config() }
}

fn ask(query: FilterQuery, start: u32, stop: BlockHash) -> Message {
    Message::GetFilters(FilterRequest { query, filter_type: 0, start, stop })
}

/// A filter of a few bytes, another one for each block.
fn filter(block: &FilterBlock) -> (BlockHash, Vec<u8>) {
    (block.hash, block.hash.to_bytes()[..5].to_vec())
}

fn payload(block: &TestBlock) -> Sent {
    let hash = block.hash.to_bytes();
    Sent::Filters(Command::CFILTER, [&[0][..], &hash, &[5], &hash[..5]].concat())
}

/// Answers the first read with its first `count` filters; what was to be read.
fn answer(node: &mut Harness, count: usize) -> FilterRead {
    let (request, read) = node.filters.pop_front().expect("a read");
    let filters = read.blocks.iter().take(count).map(filter).collect();
    node.tell(ChainEvent::FiltersRead { request, data: Some(FilterData::Filters(filters)) });
    node.pump();
    read
}

fn heights(read: &FilterRead) -> Vec<u32> {
    read.blocks.iter().map(|block| block.height).collect()
}

#[test]
fn what_may_not_be_asked_ends_the_connection() {
    let blocks = chain(2_002, 60);
    let at = |height: usize| blocks[height - 1].hash;
    let (filters, headers) = (FilterQuery::Filters, FilterQuery::Headers);
    let unknown = BlockHash::from_bytes([9; 32]);
    for (query, start, stop, is_served) in [
        (filters, 1, at(1_000), true),
        (filters, 0, at(999), true),
        (filters, 0, at(1_000), false),
        (filters, 1_000, at(1_000), true),
        (filters, 1_001, at(1_000), false),
        (filters, u32::MAX, at(1_000), false),
        (filters, 1, unknown, false),
        (headers, 1, at(2_000), true),
        (headers, 1, at(2_001), false),
        (headers, 0, at(1_999), true),
        (headers, 2_002, at(2_001), false),
        (FilterQuery::Checkpoints, 0, at(2_002), true),
        (FilterQuery::Checkpoints, 0, unknown, false),
    ] {
        let mut node = Harness::with_chain(offering(), &blocks);
        let id = node.inbound_peer();
        node.says(id, ask(query, start, stop));
        let refused = DisconnectReason::FilterRange(query.command());
        let expected = (!is_served).then_some(refused);
        assert_eq!(node.is_gone(id), expected, "{query:?} {start} {stop}");
        assert_eq!(node.filters.len(), usize::from(is_served));
        assert_eq!(node.discouraged(), 0);
    }
    let basic = FilterRequest { query: filters, filter_type: 0, start: 1, stop: at(2) };
    for (config, request) in
        [(config(), basic), (offering(), FilterRequest { filter_type: 1, ..basic })]
    {
        let mut node = Harness::with_chain(config, &blocks[..5]);
        let id = node.inbound_peer();
        node.says(id, Message::GetFilters(request));
        let expected = DisconnectReason::NotOffered(Command::GETCFILTERS);
        assert_eq!((node.is_gone(id), node.discouraged()), (Some(expected), 0));
    }
}

#[test]
fn filters_are_read_in_parts_as_the_peer_takes_them() {
    let blocks = chain(250, 60);
    let mut node = Harness::with_chain(offering(), &blocks);
    let id = node.inbound_peer();
    node.take(id);
    node.says(id, ask(FilterQuery::Filters, 11, blocks[239].hash));
    // Nothing that it says behind that is heard before it is served.
    node.says(id, Message::Ping(Some(7)));
    assert_eq!(heights(&answer(&mut node, 100)), Vec::from_iter(11..=110));
    let expected: Vec<Sent> = blocks[10..110].iter().map(payload).collect();
    assert_eq!(node.take(id), expected);
    // A reader that stops earlier goes on from there.
    let read = answer(&mut node, 3);
    assert_eq!(heights(&read), Vec::from_iter(111..=210));
    assert_eq!(read.stop, FilterBlock { hash: blocks[239].hash, height: 240 });
    assert_eq!(node.take(id), blocks[110..113].iter().map(payload).collect::<Vec<_>>());
    // While much is queued, nothing is read.
    node.reads_everything = false;
    let (request, read) = node.filters.pop_front().expect("a read");
    let long = vec![(read.blocks[0].hash, vec![0; SEND_PAUSE])];
    node.tell(ChainEvent::FiltersRead { request, data: Some(FilterData::Filters(long)) });
    node.pump();
    assert!(node.filters.is_empty() && node.is_gone(id).is_none());
    assert_eq!(node.take(id).len(), 1);
    let queued = FRAME_HEADER_SIZE + 1 + 32 + 5 + SEND_PAUSE;
    node.tell(NetEvent::Sent { peer: id, bytes: queued - SEND_PAUSE - 1 });
    node.pump();
    assert!(node.filters.is_empty(), "one byte too many is left");
    node.reads_everything = true;
    node.tell(NetEvent::Sent { peer: id, bytes: SEND_PAUSE + 1 });
    node.pump();
    assert_eq!(heights(&answer(&mut node, 100)), Vec::from_iter(115..=214));
    assert_eq!(heights(&answer(&mut node, 100)), Vec::from_iter(215..=240));
    assert!(node.filters.is_empty());
    let sent = node.take(id);
    assert_eq!(sent.len(), 126 + 1);
    assert_eq!(sent[125..], [payload(&blocks[239]), Sent::Message(Message::Pong(7))]);
}

#[test]
fn headers_and_checkpoints_are_told_in_one_message() {
    let blocks = chain(2_050, 60);
    let hash = |height: usize| blocks[height - 1].hash.to_bytes();
    let mut node = Harness::with_chain(offering(), &blocks);
    let id = node.inbound_peer();
    node.take(id);
    node.says(id, ask(FilterQuery::Headers, 7, blocks[9].hash));
    let (request, read) = node.filters.pop_front().expect("a read");
    assert_eq!(
        (heights(&read), read.previous.map(|block| block.height)),
        (vec![7, 8, 9, 10], Some(6))
    );
    let hashes = read.blocks.iter().map(|block| block.hash.to_bytes()).collect();
    let data = FilterData::Headers { previous: [3; 32], hashes };
    node.tell(ChainEvent::FiltersRead { request, data: Some(data) });
    node.pump();
    let expected = [&[0][..], &hash(10), &[3; 32], &[4], &hash(7), &hash(8), &hash(9), &hash(10)];
    assert_eq!(node.take(id), [Sent::Filters(Command::CFHEADERS, expected.concat())]);

    node.says(id, ask(FilterQuery::Headers, 0, blocks[0].hash));
    let (request, read) = node.filters.pop_front().expect("a read");
    assert_eq!((heights(&read), read.previous), (vec![0, 1], None));
    // The index has not come to it: no answer, and the peer stays.
    node.tell(ChainEvent::FiltersRead { request, data: None });
    node.pump();
    assert_eq!((node.take(id), node.is_gone(id)), (Vec::new(), None));

    node.says(id, ask(FilterQuery::Checkpoints, 0, blocks[2_009].hash));
    let (request, read) = node.filters.pop_front().expect("a read");
    assert_eq!(heights(&read), [1_000, 2_000]);
    let data = FilterData::Checkpoints(vec![[1; 32], [2; 32]]);
    node.tell(ChainEvent::FiltersRead { request, data: Some(data) });
    node.pump();
    let expected = [&[0][..], &hash(2_010), &[2], &[1; 32], &[2; 32]].concat();
    assert_eq!(node.take(id), [Sent::Filters(Command::CFCHECKPT, expected)]);
    // Blocks are served as before.
    node.says(id, Message::GetData(vec![block_entry(blocks[0].hash)]));
    assert_eq!(node.take(id), [Sent::Block(blocks[0].bytes.clone())]);
}

/// Reads for peers are taken in turn, whatever they are for.
#[test]
fn filters_take_their_turn_among_blocks() {
    let blocks = chain(5, 60);
    let mut node = Harness::with_chain(offering(), &blocks);
    node.hold_reads = true;
    let ids: Vec<_> = (0..6).map(|_| node.inbound_peer()).collect();
    for id in &ids[..4] {
        node.says(*id, Message::GetData(vec![block_entry(blocks[0].hash)]));
    }
    node.says(ids[4], ask(FilterQuery::Filters, 1, blocks[1].hash));
    assert_eq!((node.reads.len(), node.filters.len()), (4, 0));
    let (request, _, id) = node.reads.pop_front().expect("a read");
    node.answer_read(request, id);
    node.pump();
    assert_eq!(node.filters.len(), 1);
    // A peer that leaves gets no answer.
    node.tell(NetEvent::Closed { peer: ids[4] });
    node.pump();
    answer(&mut node, 2);
    assert_eq!(node.filters.len(), 0);
}
