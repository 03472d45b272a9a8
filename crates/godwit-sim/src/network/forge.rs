//! Forged blocks and headers.

use bitcoin::consensus::{deserialize, serialize};
use bitcoin::{Amount, Block, ScriptBuf, Transaction, TxIn, Witness};
use godwit_primitives::{BlockHash, BlockHeader, HEADER_SIZE, MerkleRoot};

use super::branch::Branch;
use crate::keys::KeyRing;
use crate::lock::{self, Lock};
use crate::miner::{self, Tip};
use crate::rng::Rng;

/// What is wrong with the first block of an invalid branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The coinbase claims a satoshi too much.
    Overpaid,
    /// A signature is wrong. The good block at that height must [have one](has_signature).
    Signature,
    /// The coinbase has the wrong height: found before the coins are looked at.
    Height,
}

/// A fork of `branch` at `fork` whose first block breaks a rule; `above` empty blocks follow. All
/// headers are good.
pub fn invalid_branch(branch: &Branch, fork: u32, flaw: Flaw, above: u32) -> Branch {
    let tip = tip_of(branch, fork);
    let mut block = match flaw {
        Flaw::Overpaid => {
            let mut block = empty_block(&tip, 77);
            block.txdata[0].output[0].value += Amount::from_sat(1);
            block
        }
        Flaw::Height => {
            let mut block = empty_block(&tip, 77);
            let elsewhere = miner::coinbase(tip.height + 2, 77, 1, ScriptBuf::new());
            block.txdata[0].input[0].script_sig = elsewhere.input[0].script_sig.clone();
            block
        }
        Flaw::Signature => {
            let good = branch.at(fork + 1).expect("a block to spoil");
            wrong_signature(deserialize(&good.bytes).expect("a good block"))
        }
    };
    miner::seal(&mut block);
    let forged = branch.truncated(fork).extended([serialize(&block)]);
    extended_by_empty(&forged, above, 78)
}

/// Whether a witness of the block has a signature that can be spoiled.
pub fn has_signature(block: &[u8]) -> bool {
    let block: Block = deserialize(block).expect("a good block");
    signed_inputs(&mut block.txdata.clone()).next().is_some()
}

fn signed_inputs(txs: &mut [Transaction]) -> impl Iterator<Item = &mut TxIn> {
    let inputs = txs.iter_mut().skip(1).flat_map(|tx| &mut tx.input);
    inputs.filter(|input| input.witness.iter().any(is_signature))
}

fn is_signature(item: &[u8]) -> bool {
    (64..=73).contains(&item.len())
}

/// `branch` with `count` more empty blocks. Another `nonce` makes other blocks.
pub fn extended_by_empty(branch: &Branch, count: u32, nonce: u64) -> Branch {
    let mut tip = tip_of(branch, branch.height());
    let blocks: Vec<Vec<u8>> = (0..count)
        .map(|_| {
            let mut block = empty_block(&tip, nonce);
            miner::seal(&mut block);
            tip = tip.extended_by(&block);
            serialize(&block)
        })
        .collect();
    branch.extended(blocks)
}

fn tip_of(branch: &Branch, height: u32) -> Tip {
    let block = branch.at(height).expect("not above the tip");
    let parsed: Block = deserialize(&block.bytes).expect("a good block");
    // Generated chains start years after genesis.
    let time = match height {
        0 => {
            branch.at(1).map_or(block.header.time, |first| first.header.time - miner::BLOCK_SPACING)
        }
        _ => block.header.time,
    };
    Tip { hash: parsed.block_hash(), height, time }
}

fn empty_block(tip: &Tip, nonce: u64) -> Block {
    let height = tip.height + 1;
    let payout = lock::script_pubkey(&KeyRing::new(0, 0), Lock::P2wpkh, 1);
    let coinbase = miner::coinbase(height, nonce, miner::subsidy(height), payout);
    miner::draft(tip, vec![coinbase])
}

/// Changes a signature of the last transaction. The caller has to renew the commitment to the witnesses.
fn wrong_signature(mut block: Block) -> Block {
    let coinbase = &mut block.txdata[0];
    coinbase.output.retain(|output| !output.script_pubkey.is_op_return());
    coinbase.input[0].witness.clear();
    let input = signed_inputs(&mut block.txdata).next().expect("asked before");
    let mut items: Vec<Vec<u8>> = input.witness.iter().map(<[u8]>::to_vec).collect();
    items.iter_mut().filter(|item| is_signature(item)).for_each(|item| item[20] ^= 1);
    input.witness = Witness::from_slice(&items);
    block
}

/// The same header over repeated transactions (CVE-2012-2459); `None` if no repetition keeps the merkle root.
pub fn mutated(block: &[u8]) -> Option<Vec<u8>> {
    let mut block: Block = deserialize(block).ok()?;
    let root = block.header.merkle_root;
    let count = block.txdata.len();
    // On the level whose number of nodes is odd, the last node is used twice.
    let mut covered = 1;
    while covered < count && (count / covered).is_multiple_of(2) {
        covered *= 2;
    }
    if covered >= count {
        return None;
    }
    let repeated = block.txdata[count - covered..].to_vec();
    block.txdata.extend(repeated);
    (block.compute_merkle_root() == Some(root)).then(|| serialize(&block))
}

/// The block with one bit behind its header and the number of its transactions flipped.
pub fn bit_flipped(block: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = block.to_vec();
    let first = HEADER_SIZE + 1;
    let at = first + rng.below((bytes.len() - first) as u64) as usize;
    bytes[at] ^= 1 << rng.below(8);
    bytes
}

/// Good headers, except that the last one does not meet its target.
pub(super) fn without_work(mut headers: Vec<BlockHeader>) -> Vec<BlockHeader> {
    if let Some(last) = headers.last_mut() {
        while last.block_hash().to_bytes()[31] < 0x80 {
            last.nonce = last.nonce.wrapping_add(1);
        }
    }
    headers
}

/// `count` headers on `start`, each with its own work done, of blocks that nobody has.
pub fn headers(start: BlockHash, time: u32, count: usize, seed: u64) -> Vec<BlockHeader> {
    let mut rng = Rng::new(seed);
    let (mut previous, mut time) = (start, time);
    let next = |_| {
        let mut root = [0; 32];
        rng.fill(&mut root);
        time += 1;
        let mut header = BlockHeader {
            version: miner::BLOCK_VERSION,
            prev_blockhash: previous,
            merkle_root: MerkleRoot::from_bytes(root),
            time,
            bits: miner::REGTEST_BITS,
            nonce: 0,
        };
        while !meets_target(&header) {
            header.nonce += 1;
        }
        previous = header.block_hash();
        header
    };
    (0..count).map(next).collect()
}

/// Regtest's target is half of all hashes, less a sliver; this asks for a little more.
fn meets_target(header: &BlockHeader) -> bool {
    let hash = header.block_hash().to_bytes();
    hash[31] < 0x7f
}
