//! The last check of a block that was refused twice: its coins are compared with the blocks that created
//! them.
//!
//! Both looks believe the memtables, of which there is no second copy ([`crate::second_look`]). But the block
//! that created a coin is stored: its transaction's id commits to amount and script, and its place gives the
//! height and tells whether the coin is a coinbase's. A coin that differs from the one that was created is
//! this machine's fault, not the block's. A coin that is missing altogether stays missing, since nothing
//! tells where it would have been created.

use std::collections::BTreeMap;

use godwit_primitives::{Coin, OutPoint};
use godwit_store::utxo::UtxoHasher;
use godwit_store::{BlockPosition, Store, StoreError};

use crate::apply::Resolved;
use crate::index::BlockIndex;
use crate::limits::CONFIRMED_BLOCKS;
use crate::own_block::{ReadError, read_own_block};
use crate::structure::Structured;
use crate::tree::NodeId;

/// Blocks that one job reads.
const BLOCKS_PER_JOB: usize = 8;

/// A stored block, and coins that it is to have created.
struct Creator {
    id: NodeId,
    position: BlockPosition,
    hash: godwit_primitives::BlockHash,
    coins: Vec<(OutPoint, Coin)>,
}

/// See the module's documentation.
pub(crate) struct Confirmation {
    left: Vec<Creator>,
    wrong: Option<OutPoint>,
}

impl Confirmation {
    /// For the coins of a block; those whose creators are not stored here are believed.
    pub(crate) fn new(index: &BlockIndex, resolved: &Resolved) -> Self {
        let height = index.height(resolved.id());
        let inputs = resolved.block().view().txs().skip(1).flat_map(|tx| tx.inputs());
        let coins = inputs.map(|input| input.prevout).zip(resolved.spent().decoded());
        let mut by_height: BTreeMap<u32, Vec<(OutPoint, Coin)>> = BTreeMap::new();
        // What it has created itself is as the block says.
        for (outpoint, coin) in coins.filter(|(_, coin)| coin.height < height) {
            by_height.entry(coin.height).or_default().push((outpoint, coin.clone()));
        }
        let creator = |(height, coins)| {
            let id = index.tree().ancestor(resolved.id(), height)?;
            let node = index.node(id);
            Some(Creator { id, position: node.position?, hash: node.hash, coins })
        };
        let left = by_height.into_iter().filter_map(creator).take(CONFIRMED_BLOCKS).collect();
        Self { left, wrong: None }
    }

    /// Compares the next coins.
    pub(crate) fn go_on(mut self, store: &Store, hasher: &UtxoHasher) -> Result<Self, StoreError> {
        let rest = self.left.len().saturating_sub(BLOCKS_PER_JOB);
        for Creator { id, position, hash, coins } in self.left.split_off(rest) {
            let block = match read_own_block(store, hasher, id, position, hash) {
                // It is found and fetched again in other ways.
                Err(ReadError::Block(_)) => continue,
                Err(ReadError::Store(error)) => return Err(error),
                Ok(block) => block,
            };
            let wrong =
                coins.into_iter().find(|(outpoint, coin)| !has_created(&block, outpoint, coin));
            self.wrong = self.wrong.or(wrong.map(|(outpoint, _)| outpoint));
        }
        Ok(self)
    }

    /// A coin that its block has not created so.
    pub(crate) fn wrong(&self) -> Option<OutPoint> {
        self.wrong
    }

    pub(crate) fn is_done(&self) -> bool {
        self.left.is_empty()
    }
}

/// Whether a block of the coin's height has created the coin.
fn has_created(block: &Structured, outpoint: &OutPoint, coin: &Coin) -> bool {
    let txids = block.view().txids();
    let Some(n) = txids.iter().position(|txid| *txid == outpoint.txid) else { return false };
    let tx = block.view().tx(n);
    let output = tx.outputs().nth(outpoint.vout as usize);
    output.is_some_and(|output| {
        output.value == coin.value
            && output.script_pubkey == &coin.script_pubkey[..]
            && (n == 0) == coin.coinbase
    })
}
