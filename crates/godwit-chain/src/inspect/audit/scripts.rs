//! The scripts of audited blocks: those of several small blocks fill the lanes together.

use std::num::NonZeroU32;

use godwit_primitives::{Coin, ScriptFlags};
use godwit_script::{Group, ScriptError, Scripts, SpendingTx, SpentOutput, Work};

use crate::contradiction::Contradiction;
use crate::options::ScriptOptions;
use crate::structure::Structured;
use crate::tree::NodeId;

use super::ledger::ClaimError;

/// Inputs that are verified together, those of the last block aside.
const INPUTS: usize = 1_024;
/// Memory of blocks whose scripts wait, the last block aside.
const BYTES: usize = 8 << 20;

/// A block whose scripts are to run with the coins that are claimed.
pub(crate) struct Waiting {
    pub(crate) id: NodeId,
    pub(crate) block: Structured,
    pub(crate) coins: Vec<Coin>,
    pub(crate) flags: ScriptFlags,
}

impl Waiting {
    fn spent_by(&self, tx: usize) -> &[Coin] {
        let first = &self.block.first_inputs()[tx..];
        &self.coins[first[0] as usize..first[1] as usize]
    }

    fn txs(&self) -> Vec<SpendingTx<'_>> {
        let view = self.block.view();
        let tx = |n| {
            let spent = self.spent_by(n).iter();
            let spent = spent
                .map(|coin| SpentOutput { value: coin.value, script_pubkey: &coin.script_pubkey });
            SpendingTx::new(view.tx(n), spent).expect("a coin is claimed for each input")
        };
        (1..view.tx_count()).map(tx).collect()
    }
}

/// Why it is not known whether scripts hold.
pub(crate) enum Unknown {
    Engine(ScriptError),
    Contradicted(Box<Contradiction>),
}

/// One thread's scripts.
pub(crate) struct ScriptQueue {
    scripts: Scripts,
    crosscheck: Option<NonZeroU32>,
    waiting: Vec<Waiting>,
    inputs: usize,
    bytes: usize,
}

impl ScriptQueue {
    pub(crate) fn new(options: &ScriptOptions) -> Self {
        let (scripts, crosscheck) = (options.engine.start(), options.crosscheck_download);
        Self { scripts, crosscheck, waiting: Vec::new(), inputs: 0, bytes: 0 }
    }

    /// Takes a block, and verifies all that wait if they are enough. Returns those whose claims do not hold.
    pub(crate) fn push(&mut self, block: Waiting) -> Result<Vec<(NodeId, ClaimError)>, Unknown> {
        self.inputs += block.coins.len();
        self.bytes += block.block.memory() + block.coins.capacity() * size_of::<Coin>();
        self.waiting.push(block);
        match self.inputs >= INPUTS || self.bytes >= BYTES {
            true => self.flush(),
            false => Ok(Vec::new()),
        }
    }

    /// Verifies all that wait.
    pub(crate) fn flush(&mut self) -> Result<Vec<(NodeId, ClaimError)>, Unknown> {
        (self.inputs, self.bytes) = (0, 0);
        let waiting = std::mem::take(&mut self.waiting);
        let txs: Vec<Vec<SpendingTx<'_>>> = waiting.iter().map(Waiting::txs).collect();
        let groups: Vec<Group<'_, '_>> = waiting
            .iter()
            .zip(&txs)
            .map(|(block, txs)| Group {
                works: txs.iter().map(|tx| Work { tx, inputs: 0..tx.input_count() }).collect(),
                flags: block.flags,
                crosscheck: self.crosscheck,
            })
            .collect();
        let verdicts = self.scripts.verify(&groups);
        assert_eq!(verdicts.len(), waiting.len(), "what has no verdict would pass");
        let mut faults = Vec::new();
        for (block, verdict) in waiting.iter().zip(verdicts) {
            let Err((work, error)) = verdict else { continue };
            // Works are the transactions behind the coinbase.
            let tx = work + 1;
            match error {
                ScriptError::Rejected { input } => {
                    faults.push((block.id, ClaimError::Script { tx, input }));
                }
                ScriptError::Contradicted { input } => {
                    let (flags, spent) = (block.flags, block.spent_by(tx));
                    let about = Contradiction::of(&block.block, flags, tx, input, spent);
                    return Err(Unknown::Contradicted(Box::new(about)));
                }
                error => return Err(Unknown::Engine(error)),
            }
        }
        Ok(faults)
    }
}
