//! Decodes received bytes, and checks every rule that needs no other block.
//!
//! Runs on workers, before the block's place in the chain is known. Everything that costs time and
//! depends on the block alone happens here, once: decoding, hashing, the structural rules, and the
//! keyed hashes by which the coins store finds coins.

use std::cell::Cell;
use std::sync::Arc;

use godwit_consensus::{Reject, SignetSpend, check_block, check_witnesses};
use godwit_primitives::network::Params;
use godwit_primitives::{Block, BlockHash, BlockHeader, BlockView, OutPoint};
use godwit_script::ScriptError;
use godwit_store::utxo::{HashedOutPoint, UtxoHasher};
use godwit_stream::{BufferPool, PooledStream};

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
    permit: Option<Permit>,
}

/// How to check the witnesses of a block from godwit's own files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WitnessCheck {
    /// Not at all: the block was verified before, and its scripts do not run.
    Skip,
    /// By the rules from before BIP141.
    BeforeSegwit,
    /// By those of BIP141.
    Segwit,
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
        Self { block, spends, creates, permit }
    }

    /// A block from godwit's own files. `None` if the bytes are not those of `hash` or the
    /// transactions not those of the header: the disk did not keep what was written.
    pub(crate) fn from_own_file(
        bytes: PooledStream,
        hash: BlockHash,
        witnesses: WitnessCheck,
        hasher: &UtxoHasher,
    ) -> Option<Self> {
        let block = Block::decode(bytes).ok()?;
        let (root, mutated) = godwit_primitives::merkle::merkle_root(
            block.view().txids().iter().map(|txid| txid.to_bytes()),
        );
        let header = block.header();
        let intact = block.hash() == hash && !mutated && root == header.merkle_root.to_bytes();
        // Zeros decode as a block too, which has no coinbase whose witness could be looked at.
        let witnesses = || match witnesses {
            WitnessCheck::Skip => true,
            WitnessCheck::BeforeSegwit => check_witnesses(block.view(), false).is_ok(),
            WitnessCheck::Segwit => check_witnesses(block.view(), true).is_ok(),
        };
        (intact && witnesses()).then(|| Self::new(block, hasher, None))
    }

    /// Decodes and checks the bytes of the block once more.
    pub(crate) fn again(
        &self,
        params: &Params,
        hasher: &UtxoHasher,
        buffers: &BufferPool,
    ) -> Received {
        let bytes = self.view().bytes();
        let mut copy = buffers.take_for(bytes.len());
        copy.write(bytes);
        structure(copy, params, hasher, self.permit.clone())
    }

    /// The block's parts.
    pub fn view(&self) -> BlockView<'_> {
        self.block.view()
    }

    pub fn hash(&self) -> BlockHash {
        self.block.hash()
    }

    pub fn header(&self) -> &BlockHeader {
        self.block.header()
    }

    /// Spent outpoints of all transactions but the coinbase, in order.
    pub(crate) fn spends(&self) -> &[HashedOutPoint] {
        &self.spends
    }

    /// Memory that the block takes: the buffer of its bytes, 12 and a txid for each transaction, the keys.
    pub(crate) fn memory(&self) -> usize {
        const TRANSACTION: usize = 12 + 32;
        let keys = (self.spends.len() + self.creates.len()) * size_of::<HashedOutPoint>();
        self.block.buffer_capacity() + self.view().tx_count() * TRANSACTION + keys
    }

    /// Whether it counts against a reader's byte budget.
    pub(crate) fn holds_permit(&self) -> bool {
        self.permit.is_some()
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
        hash: BlockHash,
        reject: Reject,
    },
    /// They are a block that keeps the structural rules.
    Structured(Arc<Structured>),
}

/// Decodes `bytes` and applies the structural rules. Bytes after the block are ignored, as Core
/// ignores them in its block files and in `submitblock`. `permit` is the share of its budget that an
/// import has taken for them.
pub fn structure(
    bytes: impl Into<PooledStream>,
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

#[cfg(test)]
mod tests;
