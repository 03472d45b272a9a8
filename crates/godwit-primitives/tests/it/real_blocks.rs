//! Every block of the shared data, compared with its index and with the `bitcoin` crate.

use bitcoin::hashes::Hash;
use godwit_primitives::{Block, BlockView, TxView};
use godwit_stream::{DataStream, Encode};
use godwit_testdata::shared_file;
use serde_json::Value;

use crate::core_decoder::Stream;
use crate::data::{block, shared_json};

fn encoded<T: Encode>(value: &T) -> Vec<u8> {
    let mut out = DataStream::new();
    out.put(value);
    out.as_slice().to_vec()
}

fn encoded_block(view: BlockView<'_>, put_tx: impl Fn(&mut DataStream, TxView<'_>)) -> Vec<u8> {
    let mut out = DataStream::new();
    out.put(view.header());
    out.write_compact_size(view.tx_count() as u64);
    for tx in view.txs() {
        put_tx(&mut out, tx);
    }
    out.as_slice().to_vec()
}

fn check_index(view: BlockView<'_>, entry: &Value) {
    let number = |name: &str| entry[name].as_u64().expect("a number") as usize;
    assert_eq!(view.hash().to_string(), entry["hash"]);
    assert_eq!(view.total_size(), number("bytes"));
    assert_eq!(view.weight(), number("weight"));
    assert_eq!(view.tx_count(), number("ntx"));
    assert_eq!(view.header().time as usize, number("time"));
    assert_eq!(format!("{:08x}", view.header().bits), entry["bits"]);
    let spends = view.txs().skip(1).map(|tx| tx.input_count()).sum::<usize>();
    assert_eq!(spends, number("inputs_non_coinbase"));
    let with_witness = view.txs().filter(TxView::has_witness).count();
    assert_eq!(with_witness, number("segwit_txs"));
    let coinbase = view.tx(0);
    let value = coinbase.outputs().map(|output| output.value).sum::<i64>();
    assert_eq!(value as usize, number("coinbase_value_sat"));
    assert!(coinbase.is_coinbase());
    assert!(view.txs().skip(1).all(|tx| !tx.is_coinbase()));
}

fn check_tx(tx: TxView<'_>, theirs: &bitcoin::Transaction) {
    let alone = TxView::parse(tx.bytes()).expect("a transaction of the block");
    assert_eq!(alone.txid(), tx.txid());
    assert_eq!(tx.txid().to_bytes(), theirs.compute_txid().to_byte_array());
    assert_eq!(tx.wtxid().to_bytes(), theirs.compute_wtxid().to_byte_array());
    assert_eq!((tx.total_size(), tx.stripped_size()), (theirs.total_size(), theirs.base_size()));
    assert_eq!(tx.weight() as u64, theirs.weight().to_wu());
    assert_eq!(tx.version(), theirs.version.0 as u32);
    assert_eq!(tx.lock_time(), theirs.lock_time.to_consensus_u32());
    assert_eq!(tx.inputs().len(), theirs.input.len());
    assert_eq!(tx.witnesses().len(), theirs.input.len());
    for ((input, witness), theirs) in tx.inputs().zip(tx.witnesses()).zip(&theirs.input) {
        assert_eq!(input.prevout.txid.to_bytes(), theirs.previous_output.txid.to_byte_array());
        assert_eq!(input.prevout.vout, theirs.previous_output.vout);
        assert_eq!(input.script_sig, theirs.script_sig.as_bytes());
        assert_eq!(input.sequence, theirs.sequence.0);
        assert_eq!(witness.len(), theirs.witness.len());
        assert!(witness.items().eq(&theirs.witness));
    }
    assert_eq!(tx.output_count(), theirs.output.len());
    for (output, theirs) in tx.outputs().zip(&theirs.output) {
        assert_eq!(output.value as u64, theirs.value.to_sat());
        assert_eq!(output.script_pubkey, theirs.script_pubkey.as_bytes());
    }
}

#[test]
fn blocks_equal_their_index_and_the_bitcoin_crate() {
    let Some(index) = shared_json("blocks/index.json") else { return };
    let entries = index.as_array().expect("a list");
    assert!(entries.len() >= 30, "{} blocks", entries.len());
    for entry in entries {
        let name = entry["file"].as_str().expect("a file name");
        let bytes = shared_file(&format!("blocks/{name}")).expect("the index was there");
        let block = Block::from_bytes(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let view = block.view();
        check_index(view, entry);
        assert_eq!(view.bytes(), bytes);
        assert_eq!(encoded_block(view, |out, tx| out.put(&tx.to_owned())), bytes, "{name}");

        let theirs: bitcoin::Block = bitcoin::consensus::deserialize(&bytes).expect("a block");
        assert_eq!(encoded(view.header()), bitcoin::consensus::serialize(&theirs.header));
        for (tx, theirs) in view.txs().zip(&theirs.txdata) {
            check_tx(tx, theirs);
        }
        assert!(view.txs().map(|tx| tx.txid()).eq(view.txids().iter().copied()));
        assert!(view.txs().map(|tx| tx.wtxid()).eq(view.wtxids()));
        let stripped = encoded_block(view, |out, tx| tx.to_owned().encode_stripped(out));
        assert_eq!(stripped.len(), view.stripped_size());
        assert_eq!(view.has_witness(), stripped != bytes);
    }
}

#[test]
fn owned_transactions_equal_the_twin_and_hash_alike() {
    for name in ["testnet3_924634", "mainnet_702861"] {
        let Some(bytes) = block(name) else { return };
        let block = Block::from_bytes(&bytes).expect("a real block");
        let twins = Stream::new(&bytes).block().expect("a real block");
        for (tx, twin) in block.view().txs().zip(twins) {
            assert_eq!((twin.txid(), twin.wtxid()), (tx.txid(), tx.wtxid()));
            assert_eq!(tx.to_owned(), twin);
        }
    }
}

#[test]
fn stripped_form_of_block_481824() {
    let Some(with) = block("mainnet_481824") else { return };
    let Some(without) = block("mainnet_481824_stripped") else { return };
    let with = Block::from_bytes(&with).expect("a real block");
    let stripped = encoded_block(with.view(), |out, tx| tx.to_owned().encode_stripped(out));
    assert!(stripped == without);
    let without = Block::from_bytes(&without).expect("a real block");
    assert_eq!(with.hash(), without.hash());
    assert_eq!(with.view().txids(), without.view().txids());
    assert_ne!(with.view().wtxids(), without.view().wtxids());
    assert!(with.view().has_witness() && !without.view().has_witness());
    assert_eq!(with.view().stripped_size(), without.view().total_size());
}

#[test]
fn transactions_of_cores_vectors_round_trip() {
    let hex_of = |row: &Value, column: usize| {
        let text = row.get(column).and_then(Value::as_str)?;
        (row.as_array()?.len() > 1).then(|| hex::decode(text).expect("hexadecimal"))
    };
    for (file, column, least) in [("tx_valid", 1, 100), ("tx_invalid", 1, 90), ("sighash", 0, 500)]
    {
        let Some(rows) = shared_json(&format!("vectors/core/{file}.json")) else { return };
        let rows = rows.as_array().expect("a list");
        let transactions: Vec<_> = rows.iter().filter_map(|row| hex_of(row, column)).collect();
        assert!(transactions.len() >= least, "{file}: {}", transactions.len());
        for bytes in transactions {
            let view = TxView::parse(&bytes).expect("Core decodes it");
            assert_eq!(view.bytes(), bytes);
            assert_eq!(encoded(&view.to_owned()), bytes);
        }
    }
}
