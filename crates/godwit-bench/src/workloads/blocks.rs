//! A block decoded from a stream that holds it and one byte more, as in the pull request.
//!
//! Bitcoin Core copies a block out of the stream into objects of its own and rewinds the stream.
//! godwit's block keeps the stream and an index; dropping the index and taking the stream back is its
//! rewinding.

use std::hint::black_box;

use godwit_consensus::check_block;
use godwit_primitives::network::{Network, Params};
use godwit_primitives::{Block, UnhashedBlock};
use godwit_stream::{DataStream, PooledStream};

use crate::harness::Subject;

pub(super) fn deserialize(block: &[u8]) -> Subject {
    subject(block, |stream| {
        let block = Block::decode(stream).expect("it decoded before");
        black_box(&block);
        block.into_stream()
    })
}

pub(super) fn deserialize_unhashed(block: &[u8]) -> Subject {
    subject(block, |stream| {
        let block = UnhashedBlock::decode(stream).expect("it decoded before");
        black_box(&block);
        block.into_stream()
    })
}

pub(super) fn deserialize_and_check(block: &[u8]) -> Subject {
    let params = Params::new(Network::Main);
    subject(block, move |stream| {
        let block = Block::decode(stream).expect("it decoded before");
        let checked = check_block(block.view(), &params, |_| false);
        black_box(checked).expect("a block of the main chain is valid");
        block.into_stream()
    })
}

fn subject(block: &[u8], body: impl Fn(PooledStream) -> PooledStream + 'static) -> Subject {
    let mut stream = DataStream::from(block);
    stream.write_u8(0);
    let decoded = Block::decode(stream).expect("the block decodes");
    assert_eq!(decoded.block_len(), block.len(), "one block and nothing behind it");
    let mut held = Some(decoded.into_stream());
    Subject::new("block", 1.0, move || held = held.take().map(&body))
}
