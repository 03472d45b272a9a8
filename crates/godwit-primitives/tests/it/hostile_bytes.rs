//! Broken and invented bytes, judged by the decoder and by its naive twin.

use godwit_primitives::{Block, OutPoint, Transaction, TxIn, TxOut, TxView, Txid};
use godwit_stream::{DataStream, DecodeError, Encode, compact_size_len};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::core_decoder::Stream;
use crate::data::block;

/// Both decoders take the same bytes for a block, or neither takes any.
fn check_block(bytes: &[u8]) {
    let mut stream = Stream::new(bytes);
    match (Block::from_bytes(bytes), stream.block()) {
        (Ok(block), Ok(twins)) => {
            let view = block.view();
            assert_eq!(block.block_len(), stream.at);
            assert_eq!(view.tx_count(), twins.len());
            assert!(view.txids().iter().copied().eq(twins.iter().map(Transaction::txid)));
            assert!(view.wtxids().into_iter().eq(twins.iter().map(Transaction::wtxid)));
            assert_eq!(view.has_witness(), twins.iter().any(Transaction::has_witness));
            let count_size = compact_size_len(twins.len() as u64);
            let sizes: usize = twins.iter().map(|twin| encoded(twin, false).len()).sum();
            assert_eq!(view.stripped_size(), 80 + count_size + sizes);
            for (tx, twin) in view.txs().zip(twins) {
                assert_eq!(tx.to_owned(), twin);
            }
        }
        (ours, twin) => assert_eq!(ours.is_ok(), twin.is_ok(), "{ours:?}, {twin:?}"),
    }
}

fn check_transaction(bytes: &[u8]) {
    let mut stream = Stream::new(bytes);
    match (TxView::parse(bytes), stream.transaction()) {
        (Ok(view), Ok(twin)) => {
            assert_eq!(view.total_size(), stream.at);
            assert_eq!(view.stripped_size() == view.total_size(), !twin.has_witness());
            assert_eq!(view.to_owned(), twin);
            let mut again = DataStream::new();
            twin.encode(&mut again);
            assert_eq!(again.as_slice(), view.bytes());
        }
        (ours, twin) => assert_eq!(ours.is_ok(), twin.is_ok(), "{ours:?}, {twin:?}"),
    }
}

/// A segwit block of eleven kilobytes and one with two transactions.
fn small_blocks() -> impl Iterator<Item = Vec<u8>> {
    ["testnet3_924634", "mainnet_170"].into_iter().filter_map(block)
}

#[test]
fn every_truncation_of_a_block_is_an_end_of_data() {
    for bytes in small_blocks() {
        for end in 0..bytes.len() {
            let stream = DataStream::from(&bytes[..end]);
            let (error, stream) = Block::decode(stream).expect_err("truncated");
            assert_eq!(error, DecodeError::UnexpectedEnd);
            assert_eq!(stream.unread(), &bytes[..end], "the stream comes back");
        }
    }
}

#[test]
fn a_block_begins_at_the_cursor_and_ignores_what_follows() {
    for bytes in small_blocks() {
        let mut stream = DataStream::from(&b"head"[..]);
        stream.write(&bytes);
        stream.write(b"\x00\x01tail");
        stream.skip(4).expect("four bytes");
        let decoded = Block::decode(stream).expect("a real block");
        assert_eq!((decoded.block_len(), decoded.view().bytes()), (bytes.len(), &bytes[..]));
        let last = decoded.view().txs().next_back().expect("a coinbase at least");
        assert!(bytes.ends_with(last.bytes()));
        let copied = Block::from_bytes(&bytes).expect("a real block");
        assert_eq!(copied.hash(), decoded.hash());
        assert_eq!(copied.header(), decoded.view().header());
    }
}

#[test]
fn no_transactions_is_well_formed() {
    let mut bytes = vec![7; 80];
    assert_eq!(Block::from_bytes(&bytes).err(), Some(DecodeError::UnexpectedEnd));
    bytes.push(0);
    let block = Block::from_bytes(&bytes).expect("a header and a zero");
    let view = block.view();
    assert_eq!((view.tx_count(), view.total_size(), view.weight()), (0, 81, 324));
    assert_eq!((view.txids().len(), view.wtxids().len(), view.has_witness()), (0, 0, false));
}

#[test]
fn the_smallest_transactions_fill_a_block() {
    let mut bytes = vec![0; 80];
    bytes.push(3);
    bytes.extend([0; 30]);
    check_block(&bytes);
    let block = Block::from_bytes(&bytes).expect("three transactions of ten bytes");
    assert_eq!((block.view().tx_count(), block.view().weight()), (3, 444));
    bytes.pop();
    assert_eq!(Block::from_bytes(&bytes).err(), Some(DecodeError::UnexpectedEnd));
}

#[test]
fn a_block_is_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Block>();
}

/// Bytes among which counts and flags are mostly small, so that much of it decodes.
fn likely_bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![12 => 0u8..3, 1 => Just(0xfd), 1 => Just(0xff), 2 => any::<u8>()], 0..most)
}

fn script() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![5 => vec(any::<u8>(), 0..4), 1 => vec(any::<u8>(), 250..256)]
}

fn transaction() -> impl Strategy<Value = Transaction> {
    let outpoint = (any::<[u8; 32]>(), any::<u32>())
        .prop_map(|(txid, vout)| OutPoint { txid: Txid::from_bytes(txid), vout });
    let input = (outpoint, script(), any::<u32>(), vec(script(), 0..3)).prop_map(
        |(prevout, script_sig, sequence, witness)| TxIn { prevout, script_sig, sequence, witness },
    );
    let output =
        (any::<i64>(), script()).prop_map(|(value, script_pubkey)| TxOut { value, script_pubkey });
    (any::<u32>(), vec(input, 0..4), vec(output, 0..4), any::<u32>()).prop_map(
        |(version, inputs, outputs, lock_time)| Transaction { version, inputs, outputs, lock_time },
    )
}

fn encoded(tx: &Transaction, witness: bool) -> Vec<u8> {
    let mut out = DataStream::new();
    if witness {
        tx.encode(&mut out)
    } else {
        tx.encode_stripped(&mut out)
    }
    out.as_slice().to_vec()
}

/// Overwrites, inserts or removes a byte.
fn mutate(bytes: &mut Vec<u8>, (kind, at, value): (u8, prop::sample::Index, u8)) {
    if bytes.is_empty() {
        return;
    }
    let at = at.index(bytes.len());
    match kind % 4 {
        0 => drop(bytes.remove(at)),
        1 => bytes.insert(at, value),
        _ => bytes[at] = value,
    }
}

fn mutations() -> impl Strategy<Value = Vec<(u8, prop::sample::Index, u8)>> {
    vec((any::<u8>(), any::<prop::sample::Index>(), prop_oneof![0u8..4, any::<u8>()]), 1..4)
}

proptest! {
    #[test]
    fn invented_transactions(body in likely_bytes(120)) {
        check_transaction(&body);
        check_transaction(&[&[1, 0, 0, 0], &body[..]].concat());
    }

    #[test]
    fn invented_blocks(body in likely_bytes(200)) {
        check_block(&[&[0; 80], &body[..]].concat());
    }

    #[test]
    fn built_transactions_round_trip(tx in transaction()) {
        let bytes = encoded(&tx, true);
        check_transaction(&bytes);
        if !tx.inputs.is_empty() {
            let view = TxView::parse(&bytes).expect("just encoded");
            prop_assert_eq!(view.to_owned(), tx.clone());
            prop_assert_eq!((view.txid(), view.wtxid()), (tx.txid(), tx.wtxid()));
            prop_assert_eq!(view.stripped_size(), encoded(&tx, false).len());
        }
    }

    #[test]
    fn mutated_transactions(tx in transaction(), witness: bool, changes in mutations()) {
        let mut bytes = encoded(&tx, witness);
        for change in changes {
            mutate(&mut bytes, change);
            check_transaction(&bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn mutated_real_blocks(changes in mutations()) {
        for mut bytes in small_blocks() {
            for change in &changes {
                mutate(&mut bytes, *change);
                check_block(&bytes);
            }
        }
    }

    #[test]
    fn built_blocks(txs in vec(transaction(), 0..6), changes in mutations()) {
        let mut block = DataStream::new();
        block.write(&[3; 80]);
        block.put(&txs);
        let mut bytes = block.as_slice().to_vec();
        check_block(&bytes);
        for change in changes {
            mutate(&mut bytes, change);
            check_block(&bytes);
        }
    }
}
