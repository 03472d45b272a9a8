//! Makes the coins again that a block spent, when its undo record has rotted: from the blocks that created
//! them, one after the other from the block down.
//!
//! A transaction's id commits to its outputs, and a block's place says the rest of a coin: so what is found
//! is what was spent. Of two transactions of one id (the pairs of BIP30) the one that is met first is
//! meant, since it had overwritten the other. A block on the way that is damaged itself is fetched again, if
//! somebody does, and the search begins anew; where one was pruned, there is no way back.

use std::collections::HashMap;
use std::time::Duration;

use godwit_primitives::{BlockHash, BlockView, Coin, ScriptBytes, Txid};
use godwit_store::utxo::UtxoHasher;
use godwit_store::{BlockPosition, Store};

use crate::apply::SpentCoins;
use crate::index::BlockIndex;
use crate::own_block::{ReadError, read_own_block};
use crate::structure::Structured;
use crate::tree::NodeId;

/// Blocks that one job looks through.
const BLOCKS_PER_JOB: usize = 8;

/// Time between lines of the log about one search: the whole chain takes hours.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);

/// An output that was spent, and by which input.
struct Wanted {
    vout: u32,
    input: usize,
}

/// A block that may have created coins.
pub(crate) struct Creator {
    id: NodeId,
    position: BlockPosition,
    hash: BlockHash,
    height: u32,
}

/// See the module's documentation.
pub(crate) struct LostUndo {
    block: Structured,
    coins: Vec<Option<Coin>>,
    /// What was not found, by the transaction that created it.
    wanted: HashMap<Txid, Vec<Wanted>>,
    /// The last block that was looked through.
    lowest: NodeId,
    /// When the search began, or its progress was reported.
    reported: Option<Duration>,
}

impl LostUndo {
    /// For block `id`, which may spend what it creates.
    pub(crate) fn new(id: NodeId, block: Structured, height: u32) -> Self {
        let mut wanted: HashMap<Txid, Vec<Wanted>> = HashMap::new();
        let inputs = block.view().txs().skip(1).flat_map(|tx| tx.inputs());
        for (input, spent) in inputs.enumerate() {
            let found = Wanted { vout: spent.prevout.vout, input };
            wanted.entry(spent.prevout.txid).or_default().push(found);
        }
        let coins = vec![None; block.input_count()];
        let mut lost = Self { block, coins, wanted, lowest: id, reported: None };
        let Self { block, coins, wanted, .. } = &mut lost;
        take_outputs(block.view(), height, coins, wanted);
        lost
    }

    /// Takes the next blocks below; none where one was pruned, or at genesis, whose coin is never spent.
    pub(crate) fn next_blocks(&mut self, index: &BlockIndex) -> Vec<Creator> {
        let mut blocks = Vec::new();
        while blocks.len() < BLOCKS_PER_JOB
            && let Some(below) = index.node(self.lowest).parent()
            && let node = index.node(below)
            && let Some(position) = node.position
        {
            blocks.push(Creator { id: below, position, hash: node.hash, height: node.height });
            self.lowest = below;
        }
        blocks
    }

    /// Says now and then how far the search is.
    pub(crate) fn report_progress(&mut self, index: &BlockIndex, now: Duration) {
        if self.is_report_due(now) {
            log::info!(
                "Looking for what block {} spent: {} coins are not found, down to height {}.",
                self.block.hash(),
                self.wanted.values().map(Vec::len).sum::<usize>(),
                index.height(self.lowest)
            );
        }
    }

    fn is_report_due(&mut self, now: Duration) -> bool {
        let is_due = now.saturating_sub(*self.reported.get_or_insert(now)) >= PROGRESS_INTERVAL;
        if is_due {
            self.reported = Some(now);
        }
        is_due
    }

    /// Looks through these blocks.
    pub(crate) fn look_through(
        &mut self,
        store: &Store,
        hasher: &UtxoHasher,
        blocks: &[Creator],
    ) -> Result<(), ReadError> {
        for Creator { id, position, hash, height } in blocks {
            if self.is_done() {
                break;
            }
            let block = read_own_block(store, hasher, *id, (*position, *hash))?;
            take_outputs(block.view(), *height, &mut self.coins, &mut self.wanted);
        }
        Ok(())
    }

    /// Whether every coin was found.
    pub(crate) fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The block and what it spent.
    pub(crate) fn into_spent(self) -> (Structured, SpentCoins) {
        let coins = self.coins.into_iter().map(|coin| coin.expect("all were found"));
        (self.block, SpentCoins::from_records(&coins.collect::<Vec<Coin>>()))
    }
}

fn take_outputs(
    block: BlockView<'_>,
    height: u32,
    coins: &mut [Option<Coin>],
    wanted: &mut HashMap<Txid, Vec<Wanted>>,
) {
    for (n, tx) in block.txs().enumerate() {
        let Some(spent) = wanted.remove(&block.txids()[n]) else { continue };
        for Wanted { vout, input } in spent {
            coins[input] = tx.outputs().nth(vout as usize).map(|output| Coin {
                value: output.value,
                script_pubkey: ScriptBytes::from_slice(output.script_pubkey),
                height,
                coinbase: n == 0,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use godwit_stream::DataStream;

    use super::*;
    use crate::chain::tests::{blocks, chain};
    use crate::structure::WitnessCheck;

    #[test]
    fn a_search_is_reported_once_a_minute() {
        let chain = chain(&godwit_fault_disk::FaultDisk::new());
        let bytes = blocks().swap_remove(0);
        let view = godwit_primitives::Block::from_bytes(&bytes[..]).expect("a block");
        let block = Structured::from_own_file(
            DataStream::from(&bytes[..]).into(),
            view.hash(),
            WitnessCheck::Skip,
            &chain.hasher(),
        );
        let mut lost = LostUndo::new(chain.tip(), block.expect("it is whole"), 1);
        let reported: Vec<u64> =
            (7..200).filter(|now| lost.is_report_due(Duration::from_secs(*now))).collect();
        assert_eq!(reported, [67, 127, 187]);
    }
}
