//! From received bytes to a block that keeps every rule that needs no other block.
//!
//! Runs on workers, before the block's place in the chain is known. Everything that costs time and
//! depends on the block alone happens here, once: decoding, hashing, the structural rules, and the
//! keyed hashes by which the coins store finds coins.

use std::cell::Cell;
use std::sync::Arc;

use godwit_consensus::{Reject, SignetSpend, check_block};
use godwit_primitives::network::Params;
use godwit_primitives::{Block, BlockHash, BlockHeader, BlockView, OutPoint};
use godwit_script::ScriptError;
use godwit_store::utxo::{HashedOutPoint, UtxoHasher};
use godwit_stream::DataStream;

use crate::permits::Permit;
use crate::signet::check_solution;

/// A block that decodes and keeps the structural rules (Core `CheckBlock`), with the keys of all
/// coins that it spends and creates.
pub struct Structured {
    block: Block,
    /// Spent outpoints of all transactions but the coinbase, in order.
    spends: Vec<HashedOutPoint>,
    /// All outputs, in order, the coinbase's included.
    creates: Vec<HashedOutPoint>,
    /// Holds the reader's byte budget until the block leaves memory.
    _permit: Option<Permit>,
}

impl Structured {
    fn new(block: Block, hasher: &UtxoHasher, permit: Option<Permit>) -> Self {
        let view = block.view();
        let inputs = view.txs().skip(1).map(|tx| tx.input_count()).sum();
        let outputs = view.txs().map(|tx| tx.output_count()).sum();
        let mut spends = Vec::with_capacity(inputs);
        let mut creates = Vec::with_capacity(outputs);
        for (n, tx) in view.txs().enumerate() {
            if n > 0 {
                spends.extend(tx.inputs().map(|input| hasher.hash(input.prevout)));
            }
            let txid = tx.txid();
            let outpoints = (0..tx.output_count() as u32).map(|vout| OutPoint { txid, vout });
            creates.extend(outpoints.map(|outpoint| hasher.hash(outpoint)));
        }
        Self { block, spends, creates, _permit: permit }
    }

    /// A block from godwit's own files. Returns `None` where the bytes are not those of `hash`
    /// or the transactions not those of the header: the disk did not keep what was written.
    pub(crate) fn from_own_file(
        bytes: DataStream,
        hash: BlockHash,
        hasher: &UtxoHasher,
    ) -> Option<Self> {
        let block = Block::decode(bytes).ok()?;
        let (root, mutated) = godwit_primitives::merkle::merkle_root(
            block.view().txids().iter().map(|txid| txid.to_bytes()),
        );
        let intact =
            block.hash() == hash && !mutated && root == block.header().merkle_root.to_bytes();
        intact.then(|| Self::new(block, hasher, None))
    }

    /// The block's parts.
    pub fn view(&self) -> BlockView<'_> {
        self.block.view()
    }

    /// The block's hash.
    pub fn hash(&self) -> BlockHash {
        self.block.hash()
    }

    /// The header.
    pub fn header(&self) -> &BlockHeader {
        self.block.header()
    }

    /// Spent outpoints of all transactions but the coinbase, in order.
    pub(crate) fn spends(&self) -> &[HashedOutPoint] {
        &self.spends
    }

    /// Outpoints of all outputs, in order.
    pub(crate) fn creates(&self) -> &[HashedOutPoint] {
        &self.creates
    }
}

/// What became of received bytes.
pub enum Received {
    /// They are no block.
    Undecodable,
    /// The script engine failed on a signet solution; nothing is known of the block.
    Unjudged(ScriptError),
    /// They are a block that breaks a structural rule.
    Malformed {
        /// Its header, which may be valid in its place.
        header: BlockHeader,
        /// The header's hash.
        hash: BlockHash,
        /// The rule.
        reject: Reject,
    },
    /// They are a block that keeps the structural rules.
    Structured(Arc<Structured>),
}

/// Decodes `bytes` and applies the structural rules. Bytes after the block are ignored, as Core
/// ignores them in its block files and in `submitblock`.
pub fn structure(
    bytes: DataStream,
    params: &Params,
    hasher: &UtxoHasher,
    permit: Option<Permit>,
) -> Received {
    let Ok(block) = Block::decode(bytes) else {
        return Received::Undecodable;
    };
    let engine = Cell::new(None);
    let solution = |spend: &SignetSpend<'_>| {
        check_solution(spend).unwrap_or_else(|error| {
            engine.set(Some(error));
            false
        })
    };
    let checked = check_block(block.view(), params, solution);
    if let Some(error) = engine.get() {
        return Received::Unjudged(error);
    }
    if let Err(reject) = checked {
        return Received::Malformed { header: *block.header(), hash: block.hash(), reject };
    }
    Received::Structured(Arc::new(Structured::new(block, hasher, permit)))
}
