//! Applies one block to the coins: resolves every spent output, applies the rules that need coins
//! but no script, spends and creates.
//!
//! This is the connector's hot path, strictly in height order. The order in which rules are applied
//! is Core's (`ConnectBlock`), so that a block that breaks several gets Core's reason. A block that
//! fails leaves the store as it was.
//!
//! Nothing here reads from a disk: a worker has looked up before what memory does not know, under a
//! pin that the caller holds ([`UtxoStore::pinned`]).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use godwit_consensus::{
    Reject, RejectReason, add_fee, check_coinbase_amount, check_tx_inputs, sequence_locks_met,
    sigop_cost, sigop_cost_within_limit,
};
use godwit_primitives::{Amount, Coin, Params, ScriptFlags, TxView, coin};
use godwit_store::utxo::{EpochPin, HashedOutPoint, Probe, Taken, UtxoStore};

use crate::structure::Structured;
use crate::tree::NodeId;

/// The rules that follow from a block's place in the chain.
#[derive(Clone, Copy)]
pub(crate) struct BlockRules<'a> {
    /// Height of the block.
    pub(crate) height: u32,
    pub(crate) flags: ScriptFlags,
    /// Whether relative lock times hold (BIP68).
    pub(crate) sequence_locks: bool,
    /// Whether no output may exist already (BIP30).
    pub(crate) no_overwrite: bool,
    /// Median time past of the previous block.
    pub(crate) prev_median_time_past: u32,
    /// Median time past of the block at a height of this block's own chain.
    pub(crate) median_time_past: &'a dyn Fn(u32) -> u32,
    /// The network's parameters.
    pub(crate) params: &'a Params,
}

/// What workers found below the memtable for one block, and the pin that says whether it still holds.
#[derive(Debug)]
pub(crate) struct Prefetched {
    /// One answer for each of the block's spends; empty where no coin can be below the memtable.
    pub(crate) coins: Vec<Option<Coin>>,
    /// At a second look, for each of the block's spends the coin as it was written first; else empty.
    pub(crate) written: Vec<Option<Coin>>,
    /// Whether an output exists below the memtable; empty where BIP30 does not ask.
    pub(crate) outputs_exist: Vec<bool>,
    /// Time that the answers about outputs took.
    pub(crate) probe_time: Duration,
    /// Coins that were read from runs, and the time that the answers about coins took.
    pub(crate) reads: usize,
    pub(crate) read_time: Duration,
    /// Memory of the coins.
    pub(crate) memory: usize,
    /// The layers that gave the answers.
    pub(crate) pin: EpochPin,
}

impl Prefetched {
    /// For a block of which no coin is below the memtable.
    pub(crate) fn nothing(pin: EpochPin) -> Self {
        let (coins, written, outputs_exist) = (Vec::new(), Vec::new(), Vec::new());
        let (probe_time, read_time) = (Duration::ZERO, Duration::ZERO);
        Self { coins, written, outputs_exist, probe_time, reads: 0, read_time, memory: 0, pin }
    }

    /// Counts the memory of the coins, once they are here.
    pub(crate) fn count_memory(&mut self) {
        let Self { coins, written, .. } = self;
        let scripts = script_bytes(coins.iter().chain(written.iter()).flatten());
        let slots = coins.capacity() + written.capacity();
        self.memory = scripts + slots * size_of::<Option<Coin>>();
    }
}

/// Memory of the scripts that do not fit into their coins.
fn script_bytes<'a>(coins: impl Iterator<Item = &'a Coin>) -> usize {
    let spilled = coins.filter(|coin| coin.script_pubkey.spilled());
    spilled.map(|coin| coin.script_pubkey.capacity()).sum()
}

/// A block whose turn has come, with what was found for it.
pub(crate) struct Ready {
    pub(crate) id: NodeId,
    pub(crate) block: Arc<Structured>,
    pub(crate) prefetched: Prefetched,
    /// This is the second look at it.
    pub(crate) again: bool,
}

/// The coins that a block spent.
#[derive(Debug, Default)]
pub(crate) struct SpentCoins {
    /// All of them, in the order of the inputs.
    pub(crate) coins: Vec<Coin>,
    /// For each transaction the index of its first coin, and the end after the last one.
    pub(crate) first: Vec<u32>,
    /// Which of them memory did not know, as far as that is known: they are given back by forgetting that
    /// they were spent, and not as they were read, which may have been wrong.
    below: Vec<bool>,
}

impl SpentCoins {
    /// Coins of a block that this process has not applied.
    pub(crate) fn from_records(coins: Vec<Coin>, first: Vec<u32>) -> Self {
        Self { coins, first, below: Vec::new() }
    }

    /// Memory that the coins take.
    pub(crate) fn bytes(&self) -> usize {
        script_bytes(self.coins.iter()) + self.coins.len() * (size_of::<Coin>() + 1)
    }

    /// The coins of one transaction.
    pub(crate) fn of_tx(&self, tx: usize) -> &[Coin] {
        &self.coins[self.first[tx] as usize..self.first[tx + 1] as usize]
    }
}

/// A block whose coins were found and spent, and whose outputs were created, in its place.
pub(crate) struct Resolved {
    id: NodeId,
    block: Arc<Structured>,
    spent: SpentCoins,
    flags: ScriptFlags,
}

impl Resolved {
    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    pub(crate) fn block(&self) -> &Arc<Structured> {
        &self.block
    }

    pub(crate) fn spent(&self) -> &SpentCoins {
        &self.spent
    }

    pub(crate) fn flags(&self) -> ScriptFlags {
        self.flags
    }
}

/// Applies the block of node `id`.
pub(crate) fn apply(
    utxo: &mut UtxoStore,
    id: NodeId,
    block: Arc<Structured>,
    prefetched: Prefetched,
    rules: &BlockRules<'_>,
) -> Result<Resolved, Reject> {
    let spent = spend_and_create(utxo, &block, prefetched, rules)?;
    Ok(Resolved { id, block, spent, flags: rules.flags })
}

fn spend_and_create(
    utxo: &mut UtxoStore,
    block: &Structured,
    prefetched: Prefetched,
    rules: &BlockRules<'_>,
) -> Result<SpentCoins, Reject> {
    if rules.no_overwrite {
        check_no_overwrite(utxo, block, &prefetched)?;
    }
    let mut run = Applier {
        utxo,
        block,
        below: prefetched,
        rules,
        spent: SpentCoins {
            coins: Vec::with_capacity(block.spends().len()),
            first: vec![0],
            below: Vec::with_capacity(block.spends().len()),
        },
        outputs_done: 0,
        fees: 0,
    };
    let mut result = Ok(());
    let mut txs_done = 0;
    for (n, tx) in block.view().txs().enumerate() {
        result = run.apply_tx(n, tx);
        if result.is_err() {
            break;
        }
        txs_done = n + 1;
    }
    if result.is_ok() {
        let coinbase = block.view().tx(0);
        result = check_coinbase_amount(coinbase, run.fees, rules.height, rules.params);
    }
    let spent = run.spent;
    match result {
        Ok(()) => Ok(spent),
        Err(reject) => {
            // Core counts signature operations as it goes; here workers do, after this function. So
            // look whether an earlier transaction had already exceeded the limit.
            let excess = sigops_exceeded(block, &spent, rules.flags, txs_done);
            let rollback =
                Rollback { height: rules.height, txs: txs_done, mismatch: Mismatch::Tolerated };
            unapply_txs(utxo, block, &spent, rollback, Below::Read(&mut []));
            if excess { Err(Reject::new(RejectReason::BadBlkSigops)) } else { Err(reject) }
        }
    }
}

/// Whether the first `txs` transactions together exceed the limit of signature operations.
pub(crate) fn sigops_exceeded(
    block: &Structured,
    spent: &SpentCoins,
    flags: ScriptFlags,
    txs: usize,
) -> bool {
    let mut cost = 0;
    block.view().txs().take(txs).enumerate().any(|(n, tx)| {
        cost += sigop_cost(tx, spent.of_tx(n), flags);
        sigop_cost_within_limit(cost).is_err()
    })
}

fn check_no_overwrite(
    utxo: &UtxoStore,
    block: &Structured,
    prefetched: &Prefetched,
) -> Result<(), Reject> {
    let outputs = block.creates();
    if utxo.probe_any(outputs).is_some() {
        return Err(Reject::new(RejectReason::Bip30));
    }
    // Hardly any exists below: memory is asked again only for those.
    let below = outputs.iter().zip(&prefetched.outputs_exist).filter(|(_, exists)| **exists);
    for (output, _) in below {
        if utxo.probe(output) == Probe::NotInMemory {
            return Err(Reject::new(RejectReason::Bip30));
        }
    }
    Ok(())
}

/// Keys whose slots are brought into the processor's cache at once; the next transactions' keys, few
/// enough to be there still when their turn comes.
const WARM_KEYS: usize = 64;

struct Applier<'a> {
    utxo: &'a mut UtxoStore,
    block: &'a Structured,
    below: Prefetched,
    rules: &'a BlockRules<'a>,
    spent: SpentCoins,
    outputs_done: usize,
    fees: Amount,
}

impl Applier<'_> {
    fn apply_tx(&mut self, n: usize, tx: TxView<'_>) -> Result<(), Reject> {
        if n > 0 {
            let result = self.spend_inputs(tx);
            self.spent.first.push(self.spent.coins.len() as u32);
            result?;
        } else {
            self.spent.first.push(0);
        }
        for output in tx.outputs() {
            self.warm_outputs();
            let hashed = self.block.creates()[self.outputs_done];
            self.outputs_done += 1;
            // A coinbase may overwrite: the pairs of BIP30 exist.
            let overwrite = n == 0;
            let height = self.rules.height;
            self.utxo.add(&hashed, output.value, output.script_pubkey, height, n == 0, overwrite);
        }
        Ok(())
    }

    fn spend_inputs(&mut self, tx: TxView<'_>) -> Result<(), Reject> {
        let first = self.spent.coins.len();
        let inputs = first..first + tx.input_count();
        for (index, hashed) in inputs.clone().zip(&self.block.spends()[inputs]) {
            self.warm_inputs(index);
            match take(self.utxo, hashed, self.below.coins.get_mut(index)) {
                Some((coin, below)) => {
                    self.spent.below.push(below);
                    let written = self.below.written.get_mut(index).and_then(Option::take);
                    self.spent.coins.push(as_written(coin, written));
                }
                None => return Err(Reject::new(RejectReason::InputsMissingOrSpent)),
            }
        }
        let coins = &self.spent.coins[first..];
        let BlockRules { height, prev_median_time_past, median_time_past, .. } = *self.rules;
        self.fees = add_fee(self.fees, check_tx_inputs(tx, coins, height)?)?;
        if self.rules.sequence_locks {
            sequence_locks_met(tx, coins, height, prev_median_time_past, median_time_past)?;
        }
        Ok(())
    }

    fn warm_inputs(&self, index: usize) {
        if index.is_multiple_of(WARM_KEYS) {
            let next = &self.block.spends()[index..];
            self.utxo.warm(&next[..next.len().min(WARM_KEYS)]);
        }
    }

    fn warm_outputs(&self) {
        // Where BIP30 was looked up, the slots were just touched.
        if !self.rules.no_overwrite && self.outputs_done.is_multiple_of(WARM_KEYS) {
            let next = &self.block.creates()[self.outputs_done..];
            self.utxo.warm(&next[..next.len().min(WARM_KEYS)]);
        }
    }
}

/// Spends a coin that memory knows, or the answer that a worker found for it below; and whether it was that.
fn take(
    utxo: &mut UtxoStore,
    hashed: &HashedOutPoint,
    below: Option<&mut Option<Coin>>,
) -> Option<(Coin, bool)> {
    match utxo.take(hashed) {
        Taken::Coin(coin) => Some((coin, false)),
        Taken::Spent => None,
        Taken::NotInMemory => spend_answered(utxo, hashed, below).map(|coin| (coin, true)),
    }
}

/// Spends a coin that memory does not know, if a worker found it.
fn spend_answered(
    utxo: &mut UtxoStore,
    hashed: &HashedOutPoint,
    answer: Option<&mut Option<Coin>>,
) -> Option<Coin> {
    let coin = answer?.take();
    if coin.is_some() {
        utxo.spend_below(hashed);
    }
    coin
}

/// A coin as it was written first, if it was. One that an earlier look had read wrong was given back to
/// memory as it was when the block was taken back. Of another height it may be the same output of a branch
/// that was left, where its transaction stood in another block: then the coin is what memory or the newest
/// run has. So a flipped bit in a height or a coinbase flag survives.
fn as_written(coin: Coin, written: Option<Coin>) -> Coin {
    let is_same =
        |written: &Coin| (written.height, written.coinbase) == (coin.height, coin.coinbase);
    written.filter(is_same).unwrap_or(coin)
}

/// What to do when an output that a block created is not there when the block is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// It may be missing: half a block is taken back, or one whose coinbase a later one overwrote.
    Tolerated,
    /// The store or the undo record is damaged.
    Reported,
}

/// What is known of the outputs of a block that is taken back, where memory does not know them.
pub(crate) enum Below<'a> {
    /// What was read below memory for each of them; nothing, if none can be there.
    Read(&'a mut [Option<Coin>]),
    /// Each is there as it was created: the block was applied by this process, what was applied above it is
    /// taken back, and so the coins are those that it left.
    AsCreated,
}

/// What of a block is taken back, and from where.
#[derive(Clone, Copy)]
struct Rollback {
    height: u32,
    /// So many transactions, and the inputs of the one after them that were spent.
    txs: usize,
    mismatch: Mismatch,
}

/// Takes back a whole block. Returns whether every output was there as created.
pub(crate) fn unapply(
    utxo: &mut UtxoStore,
    block: &Structured,
    spent: &SpentCoins,
    height: u32,
    mismatch: Mismatch,
    below: Below<'_>,
) -> bool {
    let rollback = Rollback { height, txs: block.view().tx_count(), mismatch };
    unapply_txs(utxo, block, spent, rollback, below)
}

/// Last transaction first.
fn unapply_txs(
    utxo: &mut UtxoStore,
    block: &Structured,
    spent: &SpentCoins,
    rollback: Rollback,
    mut below: Below<'_>,
) -> bool {
    let Rollback { height, txs, mismatch } = rollback;
    let done = spent.first[txs] as usize;
    restore(utxo, block, spent, done..spent.coins.len());
    let outputs_before: Vec<usize> = block
        .view()
        .txs()
        .scan(0, |sum, tx| {
            let before = *sum;
            *sum += tx.output_count();
            Some(before)
        })
        .collect();
    let mut intact = true;
    for n in (0..txs).rev() {
        let tx = block.view().tx(n);
        for (vout, output) in tx.outputs().enumerate() {
            if coin::is_unspendable(output.script_pubkey) {
                continue;
            }
            let index = outputs_before[n] + vout;
            let key = &block.creates()[index];
            let removed = match (utxo.take(key), &mut below) {
                (Taken::Coin(coin), _) => Some(coin),
                (Taken::Spent, _) => None,
                (Taken::NotInMemory, Below::Read(answers)) => {
                    spend_answered(utxo, key, answers.get_mut(index))
                }
                (Taken::NotInMemory, Below::AsCreated) => {
                    utxo.spend_below(key);
                    continue;
                }
            };
            intact &= removed.is_some_and(|coin| {
                coin.value == output.value
                    && coin.script_pubkey[..] == *output.script_pubkey
                    && coin.height == height
                    && coin.coinbase == (n == 0)
            });
        }
        let range = spent.first[n] as usize..spent.first[n + 1] as usize;
        restore(utxo, block, spent, range);
    }
    intact || mismatch == Mismatch::Tolerated
}

fn restore(utxo: &mut UtxoStore, block: &Structured, spent: &SpentCoins, range: Range<usize>) {
    for n in range.rev() {
        let (hashed, coin) = (&block.spends()[n], &spent.coins[n]);
        let below = spent.below.get(n).is_some_and(|below| *below);
        if !below || !utxo.unspend_below(hashed) {
            let Coin { value, script_pubkey, height, coinbase } = coin;
            utxo.add(hashed, *value, script_pubkey, *height, *coinbase, true);
        }
    }
}

#[cfg(test)]
mod tests;
