//! Putting blocks together from their compact form, and taking them apart (BIP152, Core
//! `blockencodings.cpp`).
//!
//! There is no memory pool to take transactions from: what does not come along is asked for.

use std::fmt;

use godwit_consensus::check_witnesses;
use godwit_primitives::merkle::merkle_root;
use godwit_primitives::{Block, BlockHash, BlockHeader, BlockView, TxView};
use godwit_stream::DataStream;

use crate::message::{
    BlockTransactions, BlockTransactionsRequest, CompactBlock, RawTransactions, ShortIdKeys,
};

/// The version of compact blocks that is spoken: with witness.
pub(crate) const COMPACT_BLOCKS: u64 = 2;

/// Size of a transaction that can pass for two hashes of a merkle tree, in bytes.
const AMBIGUOUS_SIZE: usize = 64;

/// Why a compact block does not become a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactError {
    /// No honest peer sends that (Core `READ_STATUS_INVALID`: punished).
    Invalid,
    /// Short ids collide, or the transactions do not have the header's merkle root: the whole block
    /// has to be asked for (Core `READ_STATUS_FAILED`: not punished).
    Failed,
}

impl fmt::Display for CompactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "invalid compact block",
            Self::Failed => "compact block does not give the block",
        })
    }
}

impl std::error::Error for CompactError {}

/// A block that is being put together. Holds no more than the message that it came in.
#[derive(Clone, Debug)]
pub struct PartialBlock {
    compact: CompactBlock,
    hash: BlockHash,
}

impl PartialBlock {
    /// Takes a compact block in.
    ///
    /// # Errors
    ///
    /// `Failed` when two short ids are equal: it could not be said which transaction is meant.
    pub fn new(compact: CompactBlock) -> Result<Self, CompactError> {
        let empty = |tx: &[u8]| {
            TxView::parse(tx).is_ok_and(|tx| tx.input_count() == 0 && tx.output_count() == 0)
        };
        let null = compact.header.bits == 0;
        if null || !positions_fit(&compact) || compact.prefilled.iter().any(empty) {
            return Err(CompactError::Invalid);
        }
        let mut ids = compact.short_ids.clone();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(CompactError::Failed);
        }
        let hash = compact.header.block_hash();
        Ok(Self { compact, hash })
    }

    pub fn hash(&self) -> BlockHash {
        self.hash
    }

    pub fn header(&self) -> &BlockHeader {
        &self.compact.header
    }

    /// What is missing; `None` when every transaction came along.
    pub fn request(&self) -> Option<BlockTransactionsRequest> {
        let prefilled = &self.compact.prefilled_positions;
        let positions: Vec<u16> = (0..self.compact.transaction_count())
            .map(|position| position as u16)
            .filter(|position| prefilled.binary_search(position).is_err())
            .collect();
        (!positions.is_empty())
            .then_some(BlockTransactionsRequest { block_hash: self.hash, positions })
    }

    /// Appends the block to `out`, given the transactions that were missing, in the order of the
    /// request. Uses the partial block up: a second answer finds nothing (CVE-2024-35202).
    ///
    /// # Errors
    ///
    /// `Invalid` when there are fewer or more transactions than were missing. `Failed` when they are
    /// not those of the header, or their witnesses not those of the coinbase; `out` is then to be
    /// thrown away.
    pub fn complete(
        self,
        missing: &RawTransactions,
        out: &mut DataStream,
    ) -> Result<(), CompactError> {
        let start = out.as_slice().len();
        let count = self.compact.transaction_count();
        if missing.len() != self.compact.short_ids.len() {
            return Err(CompactError::Invalid);
        }
        let mut missing = missing.iter();
        let mut prefilled =
            self.compact.prefilled_positions.iter().zip(self.compact.prefilled.iter()).peekable();
        out.put(&self.compact.header);
        out.write_compact_size(count as u64);
        for position in 0..count {
            let given = prefilled.next_if(|(at, _)| usize::from(**at) == position);
            let transaction = given.map(|(_, transaction)| transaction).or_else(|| missing.next());
            out.write(transaction.ok_or(CompactError::Invalid)?);
        }
        let block =
            Block::from_bytes(&out.as_slice()[start..]).map_err(|_| CompactError::Failed)?;
        if is_mutated(block.view()) { Err(CompactError::Failed) } else { Ok(()) }
    }
}

/// Whether each position of the block has either a short id or a transaction, and only one of them.
fn positions_fit(compact: &CompactBlock) -> bool {
    let positions = &compact.prefilled_positions;
    let count = compact.transaction_count();
    count > 0
        && count <= usize::from(u16::MAX)
        && positions.len() == compact.prefilled.len()
        && positions.is_sorted_by(|a, b| a < b)
        && positions.last().is_none_or(|&last| usize::from(last) < count)
}

/// Whether the transactions are others than the header's miner meant (Core `IsBlockMutated`). Taken
/// as if segwit were active: where it is not, a block that commits to witnesses all the same is asked
/// for as a whole.
fn is_mutated(block: BlockView<'_>) -> bool {
    let (root, repeated) = merkle_root(block.txids().iter().map(|txid| txid.to_bytes()));
    if repeated || root != block.header().merkle_root.to_bytes() {
        return true;
    }
    if block.tx(0).is_coinbase() {
        check_witnesses(block, true).is_err()
    } else {
        block.txs().any(|tx| tx.stripped_size() == AMBIGUOUS_SIZE)
    }
}

/// The compact form of a block: all short ids but for the coinbase, which nobody else can have.
/// `nonce` is random, so that no one can make ids collide everywhere at once. The block has a
/// transaction.
pub fn compact_block(block: BlockView<'_>, nonce: u64) -> CompactBlock {
    let header = *block.header();
    let keys = ShortIdKeys::new(&header, nonce);
    let short_ids = block.wtxids()[1..].iter().map(|wtxid| keys.short_id(wtxid)).collect();
    let mut prefilled = RawTransactions::new();
    prefilled.push(block.tx(0).bytes());
    CompactBlock { header, nonce, short_ids, prefilled_positions: vec![0], prefilled }
}

/// The answer to a request for transactions of `block`; `None` when it has no transaction at one of
/// the positions (Core: punished).
pub fn block_transactions(
    block: BlockView<'_>,
    request: &BlockTransactionsRequest,
) -> Option<BlockTransactions> {
    let mut transactions = RawTransactions::new();
    for &position in &request.positions {
        let position = usize::from(position);
        if position >= block.tx_count() {
            return None;
        }
        transactions.push(block.tx(position).bytes());
    }
    Some(BlockTransactions { block_hash: block.hash(), transactions })
}

#[cfg(test)]
mod tests;
