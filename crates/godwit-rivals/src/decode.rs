//! Other decoders of a block, and Core's block check, on the bytes that godwit decodes.

use std::hint::black_box;
use std::ops::ControlFlow;

use bitcoin::hashes::Hash as _;
use bitcoin_slices::bsl;
use bitcoin_slices::{Parse as _, Visit as _, Visitor};
use bitcoinkernel::prelude::*;
use bitcoinkernel::{BLOCK_CHECK_ALL, BlockCheckResult, ChainParams, ChainType};

use crate::Subject;

/// The decoders, each with a copy of `block`, a mainnet block. The unit is the block:
///
/// - `DeserializeBlock Core`: `btck_block_create`, which is the timed body of Core's
///   `DeserializeBlockTest`: `SpanReader >> TX_WITH_WITNESS(CBlock)`. The constructor of each
///   `CTransaction` hashes its txid, and its wtxid when it has a witness. Beside it one
///   `make_shared`. The block is dropped.
/// - `DeserializeBlock bitcoin crate`: into owned transactions; `, txids`: then each one's txid,
///   which this crate does not keep.
/// - `DeserializeBlock bitcoin_slices`: one pass that checks the lengths and keeps nothing;
///   `, txids`: with each txid from its visitor, by the `sha2` crate.
/// - `DeserializeAndCheckBlock Core`: `btck_block_create`, then `btck_block_check`, which is
///   `CheckBlock` of the fresh block with proof of work and merkle root, for mainnet.
///
/// # Panics
///
/// If `block` does not decode; the bodies, if it fails Core's check.
pub fn decode_subjects(block: &[u8]) -> Vec<Subject> {
    let counts = tx_counts(block);
    assert!(counts.iter().all(|count| *count == counts[0]), "the decoders differ: {counts:?}");
    let mainnet = ChainParams::new(ChainType::Mainnet);
    vec![
        subject("DeserializeBlock Core", block, |block| {
            black_box(kernel_block(block));
        }),
        subject("DeserializeBlock bitcoin crate", block, |block| {
            black_box(owned_block(block));
        }),
        subject("DeserializeBlock bitcoin crate, txids", block, |block| {
            let block = owned_block(block);
            for tx in &block.txdata {
                black_box(tx.compute_txid());
            }
        }),
        subject("DeserializeBlock bitcoin_slices", block, |block| {
            black_box(bsl::Block::parse(block).expect("it decoded before"));
        }),
        subject("DeserializeBlock bitcoin_slices, txids", block, |block| {
            black_box(bsl::Block::visit(block, &mut Txids).expect("it decoded before"));
        }),
        subject("DeserializeAndCheckBlock Core", block, move |block| {
            let result = kernel_block(block).check(&mainnet, BLOCK_CHECK_ALL);
            assert!(matches!(result, BlockCheckResult::Valid), "not valid to Core");
        }),
    ]
}

/// How many transactions each decoder finds: Core, the `bitcoin` crate, `bitcoin_slices`.
///
/// # Panics
///
/// If one does not decode `block`.
pub fn tx_counts(block: &[u8]) -> [usize; 3] {
    let mut count = TxCount(0);
    bsl::Block::visit(block, &mut count).expect("bitcoin_slices decodes it");
    [kernel_block(block).transaction_count(), owned_block(block).txdata.len(), count.0]
}

/// All txids, in block order and in the order of their bytes: Core, the `bitcoin` crate,
/// `bitcoin_slices`.
///
/// # Panics
///
/// As [`tx_counts`].
pub fn txids(block: &[u8]) -> [Vec<[u8; 32]>; 3] {
    let kernel = kernel_block(block);
    let from_kernel = kernel.transactions().map(|tx| tx.txid().to_bytes()).collect();
    let txs = owned_block(block).txdata;
    let owned = txs.iter().map(|tx| tx.compute_txid().to_byte_array()).collect();
    let mut listed = TxidList(Vec::new());
    bsl::Block::visit(block, &mut listed).expect("bitcoin_slices decodes it");
    [from_kernel, owned, listed.0]
}

fn subject(name: &str, block: &[u8], mut body: impl FnMut(&[u8]) + 'static) -> Subject {
    let block = block.to_vec();
    Subject::new(name, "block", 1.0, move || body(black_box(&block)))
}

fn kernel_block(bytes: &[u8]) -> bitcoinkernel::Block {
    bitcoinkernel::Block::new(bytes).expect("Core decodes it")
}

fn owned_block(bytes: &[u8]) -> bitcoin::Block {
    bitcoin::consensus::deserialize(bytes).expect("the bitcoin crate decodes it")
}

struct Txids;

impl Visitor for Txids {
    fn visit_transaction(&mut self, tx: &bsl::Transaction<'_>) -> ControlFlow<()> {
        black_box(tx.txid_sha2());
        ControlFlow::Continue(())
    }
}

struct TxCount(usize);

impl Visitor for TxCount {
    fn visit_block_begin(&mut self, total_transactions: usize) {
        self.0 = total_transactions;
    }
}

struct TxidList(Vec<[u8; 32]>);

impl Visitor for TxidList {
    fn visit_transaction(&mut self, tx: &bsl::Transaction<'_>) -> ControlFlow<()> {
        self.0.push(tx.txid_sha2().into());
        ControlFlow::Continue(())
    }
}
