//! A block: decoded as rust-bitcoin decodes it, hashed and measured the same, and judged by itself as
//! rules written down naively judge it.

use std::collections::BTreeSet;

use bitcoin::consensus::{deserialize_partial, serialize};
use bitcoin::hashes::Hash;
use godwit_consensus::{MAX_BLOCK_SIGOPS_COST, MAX_BLOCK_WEIGHT, PrevContext};
use godwit_consensus::{
    PlaceFacts, RejectReason, check_block, contextual_check_block, legacy_sigop_count,
};
use godwit_primitives::{
    Block, BlockHeader, BlockView, HEADER_SIZE, MAX_MONEY, Network, Params, Transaction, TxView,
};
use godwit_stream::{DataStream, Decode, SpanReader};

use crate::input::Input;
use crate::memory::within;

/// Bytes that decoding holds for each byte of a block: the copy, and for each transaction, of ten bytes
/// at least, its place, its hash and the hash's first home.
const FACTOR: usize = 12;

/// Whether the header is mended; then the block, and what may follow it.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let mends = input.u8() & 1 != 0;
    let mut bytes = input.rest().to_vec();
    let allowed = 4_096 + FACTOR * bytes.len();
    let decoded = within(allowed, || Block::from_bytes(&bytes));
    let theirs = deserialize_partial::<bitcoin::Block>(&bytes);
    let Ok(mut block) = decoded else {
        let without_inputs = |block: &bitcoin::Block| {
            block.txdata.iter().any(|transaction| transaction.input.is_empty())
        };
        // The witness form of a transaction without inputs has no witness: superfluous for Core.
        assert!(!theirs.is_ok_and(|(block, _)| !without_inputs(&block)), "they decode it");
        return;
    };
    assert_eq!(block.view().bytes(), &bytes[..block.block_len()]);
    let without_inputs = block.view().txs().any(|tx| tx.input_count() == 0);
    match theirs {
        Ok((theirs, len)) => {
            assert_eq!(len, block.block_len());
            compare(block.view(), &theirs);
        }
        Err(error) => assert!(without_inputs, "they do not decode it: {error}"),
    }
    block.view().txs().for_each(check_transaction);
    if mends {
        mend(&mut bytes, block.view());
        block = Block::from_bytes(&bytes).expect("only the header has changed");
    }
    judge(&block);
}

fn compare(ours: BlockView<'_>, theirs: &bitcoin::Block) {
    assert_eq!(ours.bytes(), serialize(theirs));
    assert_eq!(ours.hash().to_bytes(), theirs.block_hash().to_byte_array());
    assert_eq!(ours.tx_count(), theirs.txdata.len());
    assert_eq!(ours.total_size(), theirs.total_size());
    // They leave what precedes the transactions out of their weight for a block of none.
    if ours.tx_count() > 0 {
        assert_eq!(ours.weight() as u64, theirs.weight().to_wu());
    }
    let wtxids = ours.wtxids();
    for (i, (ours, theirs)) in ours.txs().zip(&theirs.txdata).enumerate() {
        assert_eq!(ours.txid().to_bytes(), theirs.compute_txid().to_byte_array());
        assert_eq!(ours.wtxid().to_bytes(), theirs.compute_wtxid().to_byte_array());
        assert_eq!(ours.wtxid(), wtxids[i]);
        assert_eq!(ours.stripped_size(), theirs.base_size());
        assert_eq!(ours.is_coinbase(), theirs.is_coinbase());
        let scripts = theirs.input.iter().map(|input| &input.script_sig);
        let scripts = scripts.chain(theirs.output.iter().map(|output| &output.script_pubkey));
        let sigops: usize = scripts.map(|script| script.count_sigops_legacy()).sum();
        assert_eq!(legacy_sigop_count(ours), sigops as u64);
    }
}

/// A view and what owns its parts are the same transaction.
fn check_transaction(view: TxView<'_>) {
    let owned = view.to_owned();
    assert_eq!((owned.txid(), owned.wtxid()), (view.txid(), view.wtxid()));
    assert_eq!(
        (owned.inputs.len(), owned.outputs.len()),
        (view.input_count(), view.output_count())
    );
    let mut out = DataStream::new();
    out.put(&owned);
    assert_eq!(out.as_slice(), view.bytes());
    let again = Transaction::decode(&mut SpanReader::new(out.as_slice()));
    assert_eq!(again, Ok(owned));
}

/// Gives the block the merkle root of its transactions, regtest's target and a nonce that meets it.
fn mend(bytes: &mut [u8], view: BlockView<'_>) {
    let (root, _) = naive_merkle_root(&view);
    let mut header = *view.header();
    header.merkle_root = godwit_primitives::MerkleRoot::from_bytes(root);
    header.bits = 0x207f_ffff;
    while header.block_hash().as_bytes()[31] >= 0x7f {
        header.nonce = header.nonce.wrapping_add(1);
    }
    bytes[..HEADER_SIZE].copy_from_slice(&header.to_bytes());
}

fn judge(block: &Block) {
    let params = Params::new(Network::Regtest);
    let view = block.view();
    let judged = check_block(view, &params, |_| false).map_err(|reject| reject.reason);
    if block.hash().as_bytes()[31] >= 0x80 || block.header().bits != 0x207f_ffff {
        return;
    }
    assert_eq!(judged.is_ok(), naive_check(view), "{judged:?}");
    if judged.is_err() {
        return;
    }
    let parent = BlockHeader { time: 0, ..params.genesis };
    for height in [0, 1, 1_000_000] {
        let ancestor = |_| parent;
        let prev = PrevContext { height, header: parent, median_time_past: 0, ancestor: &ancestor };
        let judged = contextual_check_block(view, &PlaceFacts::of(view), &prev, &params)
            .map_err(|reject| reject.reason);
        let heavy = view.weight() as u64 > MAX_BLOCK_WEIGHT;
        assert!(!heavy || judged.is_err());
        assert!(judged != Err(RejectReason::BadBlkWeight) || heavy);
    }
}

/// Core's `CheckBlock`, `CheckTransaction` without order or reasons.
fn naive_check(block: BlockView<'_>) -> bool {
    let (root, repeats) = naive_merkle_root(&block);
    let sigops: u64 = block.txs().map(legacy_sigop_count).sum();
    block.tx_count() > 0
        && root == block.header().merkle_root.to_bytes()
        && !repeats
        && 4 * block.stripped_size() as u64 <= MAX_BLOCK_WEIGHT
        && block.txs().enumerate().all(|(i, tx)| tx.is_coinbase() == (i == 0))
        && block.txs().all(|tx| naive_check_transaction(&tx.to_owned()))
        && 4 * sigops <= MAX_BLOCK_SIGOPS_COST
}

fn naive_check_transaction(tx: &Transaction) -> bool {
    let total = tx.outputs.iter().try_fold(0i64, |total, output| {
        let fits = (0..=MAX_MONEY).contains(&output.value);
        total.checked_add(output.value).filter(|total| fits && *total <= MAX_MONEY)
    });
    let prevouts: BTreeSet<_> = tx.inputs.iter().map(|input| input.prevout).collect();
    let inputs = match &tx.inputs[..] {
        [input] if tx.is_coinbase() => (2..=100).contains(&input.script_sig.len()),
        inputs => !inputs.iter().any(|input| input.prevout.is_null()),
    };
    let present = !tx.inputs.is_empty() && !tx.outputs.is_empty();
    present && total.is_some() && prevouts.len() == tx.inputs.len() && inputs
}

/// The root, and whether two hashes that are joined at some level are the same.
fn naive_merkle_root(block: &BlockView<'_>) -> ([u8; 32], bool) {
    let mut level: Vec<[u8; 32]> = block.txids().iter().map(|txid| txid.to_bytes()).collect();
    let mut repeats = false;
    while level.len() > 1 {
        repeats |= level.chunks_exact(2).any(|pair| pair[0] == pair[1]);
        let joined = level.chunks(2).map(|pair| {
            let both = [&pair[0][..], pair.last().expect("one or two")].concat();
            bitcoin::hashes::sha256d::Hash::hash(&both).to_byte_array()
        });
        level = joined.collect();
    }
    (level.first().copied().unwrap_or_default(), repeats)
}

/// Small enough to be changed often.
const SEED_BYTES: usize = 20_000;

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut blocks: Vec<Vec<u8>> = [Network::Main, Network::Testnet4]
        .into_iter()
        .map(|network| Params::new(network).genesis_block())
        .collect();
    blocks.push(block_with_everything(&blocks[0]));
    for name in ["mainnet_170", "mainnet_13b8a", "mainnet_2016", "testnet3_700000"] {
        blocks.extend(godwit_testdata::shared_file(&format!("blocks/{name}.blk.zst")));
    }
    blocks.retain(|block| block.len() <= SEED_BYTES);
    blocks.iter().flat_map(|block| [0, 1].map(|mends| [&[mends][..], block].concat())).collect()
}

/// The coinbase of `genesis` with a witness, then a transaction of two inputs, one of them with one.
fn block_with_everything(genesis: &[u8]) -> Vec<u8> {
    let block = Block::from_bytes(genesis).expect("genesis");
    let mut coinbase = block.view().tx(0).to_owned();
    coinbase.inputs[0].witness = vec![vec![0; 32]];
    let mut spend = coinbase.clone();
    spend.inputs[0].prevout.vout = 0;
    spend.inputs.push(spend.inputs[0].clone());
    spend.inputs[1].prevout.vout = 1;
    spend.inputs[1].witness = Vec::new();
    spend.outputs.push(spend.outputs[0].clone());
    let mut out = DataStream::new();
    out.put(block.header());
    out.put(&vec![coinbase, spend]);
    out.as_slice().to_vec()
}
