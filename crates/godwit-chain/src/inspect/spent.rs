//! The coins that blocks spent, taken from the blocks that created them, to rebuild undo records.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use godwit_primitives::{Coin, OutPoint};

use crate::index::BlockIndex;
use crate::structure::Structured;
use crate::tree::NodeId;

/// Puts blocks in lines, each of them below the block that it is named by: the tip, and of branches that are
/// not active their highest ones. The same transaction may be in two of them, at other heights.
pub(super) fn lines(index: &BlockIndex, blocks: Vec<(NodeId, usize)>) -> Vec<(NodeId, Vec<usize>)> {
    let mut left = blocks;
    left.sort_by_key(|(id, place)| (Reverse(index.height(*id)), *place));
    let (mut lines, mut line) = (Vec::new(), Some(index.tip()));
    while let Some(top) = line {
        let (mut below, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|(id, _)| index.tree().is_ancestor(*id, top));
        below.sort_by_key(|(_, place)| *place);
        lines.push((top, below.into_iter().map(|(_, place)| place).collect()));
        line = others.first().map(|(id, _)| *id);
        left = others;
    }
    lines
}

/// Coins that undo records are to have; `None` while the block that created one was not found.
pub(super) type Wanted = BTreeMap<OutPoint, Option<Coin>>;

/// Those of the coins that a block created.
pub(super) fn created(block: &Structured, height: u32, wanted: &Wanted) -> Vec<(OutPoint, Coin)> {
    let mut coins = Vec::new();
    for (n, (tx, txid)) in block.view().txs().zip(block.view().txids()).enumerate() {
        let of_tx = OutPoint { txid: *txid, vout: 0 }..=OutPoint { txid: *txid, vout: u32::MAX };
        for outpoint in wanted.range(of_tx).map(|(outpoint, _)| *outpoint) {
            if let Some(output) = tx.output(outpoint.vout as usize) {
                let script_pubkey = output.script_pubkey.into();
                let coinbase = n == 0;
                coins.push((
                    outpoint,
                    Coin { value: output.value, script_pubkey, height, coinbase },
                ));
            }
        }
    }
    coins
}
