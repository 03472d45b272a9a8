//! Assembles blocks from the parts that lanes deliver.

use bitcoin::block::{Header, Version};
use bitcoin::consensus::{Encodable, serialize};
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::merkle_tree;
use bitcoin::{
    CompactTarget, ScriptBuf, Transaction, TxMerkleNode, VarInt, Witness, WitnessMerkleNode,
};

use crate::lane::LanePart;
use crate::miner::{self, Tip};

/// A mined block.
pub(crate) struct Assembled {
    pub(crate) tip: Tip,
    pub(crate) bytes: Vec<u8>,
    pub(crate) weight: u64,
}

/// Mines a block at `time` with the lanes' transactions, taken from one lane after the other in
/// turn, and a coinbase that claims subsidy and fees.
pub(crate) fn block(tip: &Tip, time: u32, payout: ScriptBuf, parts: &[LanePart]) -> Assembled {
    let height = tip.height + 1;
    let fees: u64 = parts.iter().map(|part| part.counts.fees).sum();
    let mut coinbase = miner::coinbase(height, 0, miner::subsidy(height) + fees, payout);
    let txs: Vec<_> = in_turn(parts).collect();
    if txs.iter().any(|(_, tx)| tx.has_witness) {
        let wtxids = std::iter::once([0; 32]).chain(txs.iter().map(|(_, tx)| tx.wtxid));
        commit(&mut coinbase, wtxids);
    }
    let txid = coinbase.compute_txid().to_byte_array();
    let txids = std::iter::once(txid).chain(txs.iter().map(|(_, tx)| tx.txid));
    let mut header = Header {
        version: Version::from_consensus(miner::BLOCK_VERSION),
        prev_blockhash: tip.hash,
        merkle_root: TxMerkleNode::from_raw_hash(merkle_root(txids)),
        time,
        bits: CompactTarget::from_consensus(miner::REGTEST_BITS),
        nonce: 0,
    };
    miner::mine(&mut header);

    let mut bytes = serialize(&header);
    VarInt::from(txs.len() + 1).consensus_encode(&mut bytes).expect("a vector takes every write");
    let framing = 4 * bytes.len() as u64;
    bytes.extend_from_slice(&serialize(&coinbase));
    txs.iter().for_each(|(tx_bytes, _)| bytes.extend_from_slice(tx_bytes));
    let weight =
        framing + coinbase.weight().to_wu() + parts.iter().map(|part| part.weight).sum::<u64>();
    Assembled { tip: Tip { hash: header.block_hash(), height, time }, bytes, weight }
}

/// The transactions of all parts: the first of each, the second of each, and so on. The order
/// within a part stays, as later transactions may spend earlier ones.
fn in_turn(parts: &[LanePart]) -> impl Iterator<Item = (&[u8], &crate::lane::PartTx)> {
    let longest = parts.iter().map(|part| part.txs.len()).max().unwrap_or(0);
    (0..longest).flat_map(move |i| parts.iter().filter_map(move |part| part.tx(i)))
}

fn commit(coinbase: &mut Transaction, wtxids: impl Iterator<Item = [u8; 32]>) {
    let reserved = [0u8; 32];
    let root = WitnessMerkleNode::from_raw_hash(merkle_root(wtxids));
    coinbase.output.push(miner::commitment_output(root, &reserved));
    coinbase.input[0].witness = Witness::from_slice(&[reserved]);
}

fn merkle_root(hashes: impl Iterator<Item = [u8; 32]>) -> sha256d::Hash {
    merkle_tree::calculate_root(hashes.map(sha256d::Hash::from_byte_array))
        .expect("there is at least the coinbase")
}
