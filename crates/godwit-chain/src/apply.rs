//! Applies one block to the coins: looks up and spends the coins that its inputs name, and creates its
//! outputs.
//!
//! This is the connector's hot path. It runs strictly in height order and does nothing but look up keys and
//! copy bytes: workers have encoded the outputs beforehand ([`Structured`]), and apply the rules that need
//! coins afterwards ([`Resolved::check`]). Coins keep the form in which they are stored.
//!
//! 1. Outputs that the block spends itself never enter the store. All other coins that it spends are older
//!    than the block, so the order of the rest does not matter: first all spends, then all outputs.
//! 2. Rules are applied in Core's order (`ConnectBlock`), transaction by transaction, so that a block that
//!    breaks several of them is refused for Core's reason. Where a coin is missing, the transactions before
//!    it are checked at once, because their faults take precedence.
//! 3. A block that fails here leaves the store as it was; a block that fails later is taken back
//!    ([`unapply`]).
//!
//! Nothing here reads from a disk: a worker has already looked up what memory does not know, under a pin that
//! the caller holds ([`UtxoStore::pinned`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use godwit_consensus::{
    Reject, RejectReason, add_fee, check_coinbase_amount, check_tx_inputs, is_bip30_repeat,
    sequence_locks_met, sigop_cost, sigop_cost_within_limit,
};
use godwit_primitives::{Amount, BlockHash, Coin, CoinView, OutPoint, Params, ScriptFlags};
use godwit_store::utxo::{
    CoinCode, CompressedCoins, EpochPin, KnownCoin, Probe, SealId, UtxoStore, newest_seal,
    sealed_since,
};

use crate::structure::Structured;
use crate::tree::NodeId;

/// The rules that follow from a block's place in the chain.
#[derive(Clone)]
pub(crate) struct BlockRules {
    /// Height of the block.
    pub(crate) height: u32,
    pub(crate) flags: ScriptFlags,
    /// Whether relative lock times hold (BIP68).
    pub(crate) sequence_locks: bool,
    /// Whether no output may exist already (BIP30).
    pub(crate) no_overwrite: bool,
    /// Median time past of the previous block.
    pub(crate) prev_median_time_past: u32,
    /// The network's parameters.
    pub(crate) params: Arc<Params>,
}

/// Gives the median time past of the block at a height, on the chain of the block in question.
pub(crate) type MedianTimePast<'a> = dyn Fn(u32) -> u32 + 'a;

/// What workers found below the memtable for one block, and the pin that says whether it still holds.
#[derive(Debug)]
pub(crate) struct Prefetched {
    /// One answer for each of the block's spends; empty where no coin can be below the memtable.
    pub(crate) coins: CompressedCoins,
    /// At a second look, for each of the block's spends the coin as it was written first; else empty.
    pub(crate) written: Vec<Option<Coin>>,
    /// Whether an output exists below the memtable; empty where BIP30 does not ask.
    pub(crate) outputs_exist: Vec<bool>,
    /// Memory of the coins.
    pub(crate) memory: usize,
    /// The layers that gave the answers.
    pub(crate) pin: EpochPin,
}

impl Prefetched {
    /// For a block that has no coin below the memtable.
    pub(crate) fn nothing(pin: EpochPin) -> Self {
        let (coins, written) = (CompressedCoins::default(), Vec::new());
        Self { coins, written, outputs_exist: Vec::new(), memory: 0, pin }
    }

    /// Updates what a first look found to the newest seal, so that no memtable has to be kept for it. Nothing
    /// changes if a memtable that was sealed since then is gone.
    pub(crate) fn update(&mut self, utxo: &UtxoStore, block: &Structured, no_overwrite: bool) {
        let Some(sealed) = sealed_since(utxo, &self.pin) else { return };
        let Self { coins, outputs_exist, .. } = self;
        if coins.is_empty() {
            *coins = CompressedCoins::absent(block.spends().len());
        }
        sealed.for_each_change(block.spends(), |n, coin| match coin {
            Some(coin) => coins.set(n, coin),
            None => coins.forget(n),
        });
        if no_overwrite {
            outputs_exist.resize(block.creates().len(), false);
            sealed.for_each_change(block.creates(), |n, coin| outputs_exist[n] = coin.is_some());
        }
        self.pin = sealed.pin();
        self.count_memory();
    }

    /// Counts the memory of the coins, once they are here.
    pub(crate) fn count_memory(&mut self) {
        let Self { coins, written, .. } = self;
        let spilled = written.iter().flatten().filter(|coin| coin.script_pubkey.spilled());
        let scripts: usize = spilled.map(|coin| coin.script_pubkey.capacity()).sum();
        self.memory = coins.memory() + scripts + written.capacity() * size_of::<Option<Coin>>();
    }
}

/// Coins that workers read from runs, and how long that took them together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CoinReads {
    pub(crate) coins: usize,
    pub(crate) time: Duration,
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
    /// All coins, in the order of the inputs.
    coins: CompressedCoins,
    /// Which of them memory did not know, as far as that is recorded. These are given back by forgetting that
    /// they were spent, rather than as they were read: the read may have been wrong.
    below: Vec<bool>,
    /// The newest seal at the time of the spend: whatever memory learned since then is in the active
    /// memtable.
    seal: Option<SealId>,
    /// The coins decoded, once the first job has asked for them.
    decoded: OnceLock<Vec<Coin>>,
}

impl SpentCoins {
    fn with_capacity(inputs: usize, seal: SealId) -> Self {
        let coins = CompressedCoins::with_capacity(inputs);
        let (below, seal) = (Vec::with_capacity(inputs), Some(seal));
        Self { coins, below, seal, decoded: OnceLock::new() }
    }

    /// The coins of an undo record, for a block that this process has not applied.
    pub(crate) fn from_records(records: &[Coin]) -> Self {
        let mut coins = CompressedCoins::with_capacity(records.len());
        coins.extend(records);
        Self { coins, below: Vec::new(), seal: None, decoded: OnceLock::new() }
    }

    /// The coins in the form in which they are stored.
    pub(crate) fn compressed(&self) -> &CompressedCoins {
        &self.coins
    }

    #[cfg(test)]
    pub(crate) fn compressed_mut(&mut self) -> &mut CompressedCoins {
        &mut self.coins
    }

    /// The coin of input `input`, counted over the whole block.
    fn view(&self, input: usize) -> CoinView<'_> {
        self.coins.view(input).expect("what memory and runs gave are coins")
    }

    /// All coins, decoded, in the order of the inputs.
    pub(crate) fn decoded(&self) -> &[Coin] {
        self.decoded.get_or_init(|| {
            let coin = |n| self.coins.coin(n).expect("what memory and runs gave are coins");
            (0..self.coins.len()).map(coin).collect()
        })
    }

    /// Memory that the coins take, once they are decoded.
    pub(crate) fn bytes(&self) -> usize {
        /// The script of a shorter coin needs no memory of its own. A public key that is stored compressed
        /// takes 35 bytes with height and amount; any other script takes more bytes than itself.
        const WITHOUT_SPILL: usize = 35;
        /// Memory of a script per byte of its coin, at most: an uncompressed key's script has 67 bytes.
        const SPILL: usize = 2;
        let long = self.coins.iter().flatten().filter(|coin| coin.len() >= WITHOUT_SPILL);
        let scripts: usize = long.map(|coin| SPILL * coin.len()).sum();
        self.coins.memory() + self.below.capacity() + self.coins.len() * size_of::<Coin>() + scripts
    }
}

/// A block whose coins were found and spent, and whose outputs were created, in its place.
pub(crate) struct Resolved {
    id: NodeId,
    block: Arc<Structured>,
    spent: SpentCoins,
    rules: BlockRules,
    /// Median times past that relative lock times ask for, by height.
    median_times: BTreeMap<u32, u32>,
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

    /// What an output was before this block, if the block created or spent it.
    pub(crate) fn coin_before(&self, outpoint: &OutPoint) -> Option<KnownCoin> {
        let block = self.block.view();
        let mut inputs = block.txs().skip(1).flat_map(|tx| tx.inputs());
        let spent = inputs.position(|input| input.prevout == *outpoint);
        // Created here: whatever happens to it behind that, it was not there before. (What BIP30 allowed
        // twice is spent by nobody.)
        let created = block.txids().iter().position(|txid| *txid == outpoint.txid);
        if let Some(n) = created
            && (outpoint.vout as usize) < block.tx(n).output_count()
        {
            return Some(KnownCoin::Absent);
        }
        let coin = |input| self.spent.compressed().coin(input);
        spent.map(|input| coin(input).map_or(KnownCoin::Absent, KnownCoin::Unspent))
    }

    /// The coins that transaction `tx` spent.
    pub(crate) fn spent_by(&self, tx: usize) -> &[Coin] {
        let first = self.block.first_inputs();
        &self.spent.decoded()[first[tx] as usize..first[tx + 1] as usize]
    }

    pub(crate) fn flags(&self) -> ScriptFlags {
        self.rules.flags
    }

    /// The rules that need coins and no scripts.
    pub(crate) fn check(&self) -> Result<(), Reject> {
        let median_time_past = |height: u32| self.median_times[&height];
        self.rules.check(&self.block, |input| self.spent.view(input), &median_time_past)
    }

    /// The same rules for the first `txs` transactions, in order.
    fn check_txs(&self, txs: usize) -> Result<(), Reject> {
        let median_time_past = |height: u32| self.median_times[&height];
        let coin = |input| self.spent.view(input);
        self.rules.check_txs(&self.block, coin, &median_time_past, txs).map(drop)
    }
}

impl BlockRules {
    /// Checks the rules that need coins but no scripts. `spent` gives the coin of each input by its number in
    /// the block; no coin's height is above the block's.
    pub(crate) fn check<'c>(
        &self,
        block: &Structured,
        coin: impl Fn(usize) -> CoinView<'c>,
        median_time_past: &MedianTimePast<'_>,
    ) -> Result<(), Reject> {
        let fees = self.check_txs(block, coin, median_time_past, block.view().tx_count())?;
        check_coinbase_amount(&block.tx_facts()[0], fees, self.height, &self.params)
    }

    /// The same rules for the first `txs` transactions, in order. Returns the sum of their fees.
    fn check_txs<'c>(
        &self,
        block: &Structured,
        coin: impl Fn(usize) -> CoinView<'c>,
        median_time_past: &MedianTimePast<'_>,
        txs: usize,
    ) -> Result<Amount, Reject> {
        let Self { height, flags, sequence_locks, prev_median_time_past, .. } = *self;
        let (mut fees, mut sigops, mut coins) = (0, 0, Vec::new());
        for (n, (tx, facts)) in block.view().txs().zip(block.tx_facts()).take(txs).enumerate() {
            let first = &block.first_inputs()[n..];
            coins.clear();
            coins.extend((first[0] as usize..first[1] as usize).map(&coin));
            if n > 0 {
                fees = add_fee(fees, check_tx_inputs(tx, facts, &coins, height)?)?;
                if sequence_locks {
                    let prev = prev_median_time_past;
                    sequence_locks_met(tx, facts, &coins, height, prev, median_time_past)?;
                }
            }
            sigops += sigop_cost(tx, facts, &coins, flags);
            sigop_cost_within_limit(sigops)?;
        }
        Ok(fees)
    }
}

/// Applies the block of node `id`.
pub(crate) fn apply(
    utxo: &mut UtxoStore,
    id: NodeId,
    block: Arc<Structured>,
    prefetched: Prefetched,
    rules: BlockRules,
    median_time_past: &MedianTimePast<'_>,
) -> Result<Resolved, Reject> {
    if rules.no_overwrite {
        check_no_overwrite(utxo, &block, &prefetched)?;
    }
    let spent = spend(utxo, &block, prefetched, rules.height);
    let missing = spent.coins.len() < block.input_count();
    let median_times = match rules.sequence_locks {
        true => median_times(&block, &spent, median_time_past),
        false => BTreeMap::new(),
    };
    let resolved = Resolved { id, block, spent, rules, median_times };
    let Resolved { block, spent, rules, .. } = &resolved;
    if missing {
        restore(utxo, block, spent);
        let first = block.first_inputs();
        let tx = first.partition_point(|first| *first as usize <= spent.coins.len()) - 1;
        resolved.check_txs(tx)?;
        return Err(Reject::new(RejectReason::InputsMissingOrSpent));
    }
    create(utxo, block, rules.height);
    Ok(resolved)
}

/// The median times past that the rules will ask for.
fn median_times(
    block: &Structured,
    spent: &SpentCoins,
    median_time_past: &MedianTimePast<'_>,
) -> BTreeMap<u32, u32> {
    let locked = block.time_locked().iter();
    let coins = locked.filter_map(|input| spent.coins.coin(*input as usize));
    // Asked for the block before the one that created a coin.
    let heights: BTreeSet<u32> = coins.map(|coin| coin.height.saturating_sub(1)).collect();
    heights.into_iter().map(|height| (height, median_time_past(height))).collect()
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

/// Keys whose slots are brought into the processor's cache at once; few enough to be there still when their
/// turn comes.
const WARM_KEYS: usize = 64;

/// Codes of the coins that a block at `height` creates: `[0]` for ordinary outputs, `[1]` for those of the
/// coinbase.
pub(crate) fn codes(height: u32) -> [CoinCode; 2] {
    [false, true].map(|coinbase| CoinCode::new(height, coinbase))
}

/// The coins that the block spends, up to the first that is missing.
fn spend(
    utxo: &mut UtxoStore,
    block: &Structured,
    prefetched: Prefetched,
    height: u32,
) -> SpentCoins {
    let Prefetched { coins: answers, mut written, .. } = prefetched;
    let mut spent = SpentCoins::with_capacity(block.input_count(), newest_seal(utxo));
    let (codes, mut inside) = (codes(height), block.inside().iter().peekable());
    for (n, hashed) in block.spends().iter().enumerate() {
        if n.is_multiple_of(WARM_KEYS) {
            let next = &block.spends()[n..];
            utxo.warm(&next[..next.len().min(WARM_KEYS)]);
        }
        while let Some(own) = inside.next_if(|own| own.input as usize == spent.coins.len()) {
            spend_inside(block, &codes, own.output, &mut spent);
        }
        let below = match utxo.take_compressed(hashed, &mut spent.coins) {
            Probe::Unspent => false,
            Probe::Spent => return spent,
            Probe::NotInMemory => {
                let Some(coin) = answers.get(n) else { return spent };
                utxo.spend_below(hashed);
                spent.coins.push(coin);
                true
            }
        };
        spent.below.push(below);
        if let Some(written) = written.get_mut(n).and_then(Option::take) {
            let last = spent.coins.len() - 1;
            let coin = spent.coins.coin(last).expect("what memory and runs gave are coins");
            spent.coins.set_coin(last, &as_written(coin, written));
        }
    }
    inside.for_each(|own| spend_inside(block, &codes, own.output, &mut spent));
    spent
}

fn spend_inside(block: &Structured, codes: &[CoinCode; 2], output: u32, spent: &mut SpentCoins) {
    let (output, coinbase) = block.output(output as usize);
    let output = output.expect("what cannot be spent is no coin");
    spent.coins.push_output(&codes[usize::from(coinbase)], output);
    spent.below.push(false);
}

fn create(utxo: &mut UtxoStore, block: &Structured, height: u32) {
    let codes = codes(height);
    for batch in block.created().chunks(WARM_KEYS) {
        // Where BIP30 was looked up, the slots were just touched: it costs little then.
        utxo.warm_slots(batch.iter().map(|n| &block.creates()[*n as usize]));
        for n in batch {
            let n = *n as usize;
            let (output, coinbase) = block.output(n);
            let output = output.expect("what cannot be spent is no coin");
            // A coinbase may overwrite: the pairs of BIP30 exist.
            let code = &codes[usize::from(coinbase)];
            utxo.insert(&block.creates()[n], [code.as_slice(), output], coinbase);
        }
    }
}

/// `written`, the coin as it was first written, unless its height or coinbase flag differs from that of
/// `coin`. An earlier look that read the coin wrong gave that wrong coin back to memory when the block was
/// taken back. If they differ, `written` may be the same output on a branch that was left, where another
/// block held its transaction; then the coin in memory or in the newest run counts. So this does not correct
/// a flipped bit in a height or in a coinbase flag.
fn as_written(coin: Coin, written: Coin) -> Coin {
    let is_same = (written.height, written.coinbase) == (coin.height, coin.coinbase);
    if is_same { written } else { coin }
}

/// What to do when an output of a block is missing while the block is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// That is allowed: a later block may have overwritten the coinbase (BIP30).
    Tolerated,
    /// That is reported: the store or the undo record is damaged.
    Reported,
}

/// The outputs of a block that is taken back, as far as they are below memory.
pub(crate) enum Below<'a> {
    /// The coin that was read below memory for each output.
    Read(&'a CompressedCoins),
    /// Each output is present as it was created: this process applied the block, and everything above it has
    /// been taken back, so the coins are those that the block left.
    AsCreated {
        /// Height of the block whose coinbase was overwritten by this block's, if any: [`overwritten_by`].
        overwritten: Option<u32>,
    },
}

/// Coinbases that another one replaced before they were spent (BIP30), and the heights of both.
pub(crate) const OVERWRITTEN: [(u32, u32); 2] = [(91_812, 91_842), (91_722, 91_880)];

/// Height of the block whose unspent coinbase this block's coinbase overwrites.
pub(crate) fn overwritten_by(height: u32, hash: &BlockHash) -> Option<u32> {
    let pair = OVERWRITTEN.iter().find(|(_, repeat)| *repeat == height);
    pair.filter(|_| is_bip30_repeat(height, hash)).map(|(first, _)| *first)
}

/// Takes back a block. Returns whether every output was there as created.
pub(crate) fn unapply(
    utxo: &mut UtxoStore,
    block: &Structured,
    spent: &SpentCoins,
    height: u32,
    mismatch: Mismatch,
    below: Below<'_>,
) -> bool {
    let (codes, mut intact) = (codes(height), true);
    let (mut taken, mut expected) = (CompressedCoins::default(), CompressedCoins::default());
    for n in block.created().iter().rev() {
        let n = *n as usize;
        let key = &block.creates()[n];
        taken.clear();
        match (utxo.take_compressed(key, &mut taken), &below) {
            (Probe::Unspent | Probe::Spent, _) => {}
            (Probe::NotInMemory, Below::Read(answers)) => {
                if let Some(coin) = answers.get(n) {
                    utxo.spend_below(key);
                    taken.push(coin);
                }
            }
            (Probe::NotInMemory, Below::AsCreated { .. }) => {
                utxo.spend_below(key);
                continue;
            }
        }
        let (output, coinbase) = block.output(n);
        expected.clear();
        expected.push_output(&codes[usize::from(coinbase)], output.unwrap_or_default());
        intact &= taken.get(0) == expected.get(0);
    }
    if let Below::AsCreated { overwritten: Some(first) } = below {
        restore_overwritten(utxo, block, first);
    }
    restore(utxo, block, spent);
    intact || mismatch == Mismatch::Tolerated
}

/// Gives back the coinbase of the block at `height`. It is the same transaction as the one of `block`, so
/// that the coins differ in nothing but their height, and none has to be looked up.
fn restore_overwritten(utxo: &mut UtxoStore, block: &Structured, height: u32) {
    let [_, code] = codes(height);
    for n in block.created() {
        let n = *n as usize;
        if let (Some(output), true) = block.output(n) {
            utxo.insert(&block.creates()[n], [code.as_slice(), output], true);
        }
    }
}

/// Gives back the coins that the block's inputs spent.
fn restore(utxo: &mut UtxoStore, block: &Structured, spent: &SpentCoins) {
    let mut inside = block.inside().iter().peekable();
    let mut spends = block.spends().iter();
    // Behind a seal the active memtable may know of a spend that is not this block's: of the same coinbase in
    // a later block, which was taken back. To forget that one would leave the coin spent in the seal.
    let is_unsealed = spent.seal == Some(newest_seal(utxo));
    for n in 0..spent.coins.len() {
        if inside.next_if(|own| own.input as usize == n).is_some() {
            continue;
        }
        let (hashed, coin) = (spends.next(), spent.coins.get(n));
        let (hashed, coin) = hashed.zip(coin).expect("each other input spends a coin");
        let below = is_unsealed && spent.below.get(n).is_some_and(|below| *below);
        if !below || !utxo.unspend_below(hashed) {
            utxo.insert(hashed, [coin, &[]], true);
        }
    }
}

#[cfg(test)]
mod tests;
