//! Builds blocks from their compact form, and the compact form of blocks (BIP152, Core
//! `blockencodings.cpp`).
//!
//! There is no memory pool to take transactions from: those that are not prefilled are requested.

use std::fmt;

use godwit_consensus::check_witnesses;
use godwit_primitives::merkle::merkle_root;
use godwit_primitives::{Block, BlockHash, BlockHeader, BlockView, TxView};
use godwit_stream::DataStream;

use crate::message::{
    BlockTransactions, BlockTransactionsRequest, CompactBlock, RawTransactions, ShortIdKeys,
};

/// The version of compact blocks that this node speaks: with witnesses.
pub(crate) const COMPACT_BLOCKS: u64 = 2;

/// Size, in bytes, of a transaction that can be taken for two hashes of a merkle tree.
const AMBIGUOUS_SIZE: usize = 64;

/// Why a compact block cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactError {
    /// No honest peer sends this (Core `READ_STATUS_INVALID`: punished).
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

/// A compact block that waits for its missing transactions. It holds no more memory than its
/// message.
#[derive(Clone, Debug)]
pub struct PartialBlock {
    compact: CompactBlock,
    hash: BlockHash,
}

impl PartialBlock {
    /// Begins with a compact block.
    ///
    /// # Errors
    ///
    /// `Failed` when two short ids are equal, so that they name no single transaction.
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

    /// The request for the missing transactions; `None` when all were prefilled.
    pub fn request(&self) -> Option<BlockTransactionsRequest> {
        let prefilled = &self.compact.prefilled_positions;
        let positions: Vec<u16> = (0..self.compact.transaction_count())
            .map(|position| position as u16)
            .filter(|position| prefilled.binary_search(position).is_err())
            .collect();
        (!positions.is_empty())
            .then_some(BlockTransactionsRequest { block_hash: self.hash, positions })
    }

    /// Appends the block to `out`, given the missing transactions in the order of the request.
    /// Consumes the partial block, so that a second answer has no effect (CVE-2024-35202).
    ///
    /// # Errors
    ///
    /// `Invalid` when there are fewer or more transactions than were missing. `Failed` when they do
    /// not match the header's merkle root or their witnesses the coinbase's commitment; `out` is
    /// then of no use.
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

/// Whether the transactions are not those that the header's miner meant (Core `IsBlockMutated`).
/// Segwit is taken to be active: where it is not, and a block commits to witnesses all the same,
/// the whole block is requested.
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

/// The compact form of a block: short ids for all transactions but the coinbase, which no peer can
/// have already. `nonce` is random, so that an attacker cannot make ids collide at all nodes at
/// once. The block must have a transaction.
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
