use std::hint::black_box;
use std::time::Instant;

use godwit_stream::DataStream;
use godwit_testdata::shared_file;

use super::*;

/// Least time of many runs, in nanoseconds.
fn least_ns(mut run: impl FnMut()) -> u128 {
    let time = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed().as_nanos()
    };
    (0..500).map(|_| time(&mut run)).min().expect("500 runs")
}

#[test]
fn the_stream_comes_back_as_it_was() {
    let Some(bytes) = shared_file("blocks/mainnet_170.blk.zst") else { return };
    let mut stream = DataStream::from(&[&[7][..], &bytes, &[9, 9]].concat()[..]);
    stream.skip(1).expect("there is a byte");
    let unhashed = UnhashedBlock::decode(stream).expect("a real block");
    let block = Block::decode(unhashed.into_stream()).expect("the same block");
    let stream = block.into_stream();
    assert_eq!(stream.unread(), [&bytes[..], &[9, 9]].concat());
}

#[test]
fn decoding_is_parsing_and_hashing() {
    let Some(bytes) = shared_file("blocks/mainnet_866342.blk.zst") else { return };
    let decoded = Block::decode(DataStream::from(&bytes[..])).expect("a real block");
    let unhashed = UnhashedBlock::decode(DataStream::from(&bytes[..])).expect("a real block");
    assert_eq!(unhashed.hash().view().txids(), decoded.view().txids());
    let cut = DataStream::from(&bytes[..bytes.len() - 1]);
    assert!(UnhashedBlock::decode(cut).is_err());
}

/// `cargo test --release -p godwit-primitives --lib -- --ignored --nocapture decoding_speed`
#[test]
#[ignore = "a measurement, prints and checks nothing"]
fn decoding_speed() {
    let Some(bytes) = shared_file("blocks/mainnet_413567.blk.zst") else { return };
    let mut index = BlockIndex::parse(&bytes).expect("a real block");
    let parse = least_ns(|| drop(black_box(BlockIndex::parse(black_box(&bytes)))));
    let hash = least_ns(|| index.hash_txs(black_box(&bytes)));
    let block = Block::decode(DataStream::from(&bytes[..])).expect("a real block");
    let walk = least_ns(|| {
        let mut sum = 0;
        for tx in black_box(&block).view().txs() {
            for input in tx.inputs() {
                sum += u64::from(input.prevout.txid.as_bytes()[0]) + input.script_sig.len() as u64;
            }
            for output in tx.outputs() {
                sum += (output.value & 0xff) as u64 + output.script_pubkey.len() as u64;
            }
        }
        black_box(sum);
    });
    println!("block 413567, {} bytes, {} transactions", bytes.len(), index.txs.len());
    println!("parse with index {parse} ns, txids {hash} ns, walk inputs and outputs {walk} ns");
}
