//! One transaction, from its bytes to its scripts.

use std::collections::{BTreeSet, HashMap};

use godwit_consensus::{
    COINBASE_MATURITY, MAX_BLOCK_SIGOPS_COST, Reject, RejectReason, TxFacts, check_transaction,
    check_tx_inputs, is_final, sequence_locks_met, sigop_cost,
};
use godwit_engine::{PolicyRefusal, PolicyStage, ScriptError, SpentOutput, check_policy};
use godwit_primitives::{Amount, Coin, CoinView, OutPoint, ScriptFlags, TxView, Txid};

use crate::dust::{dust_pays_no_fee, spends_parents_dust};
use crate::fee_rate::{FeeRate, RELAY_FEE};
use crate::pool::{Pool, PoolTx};
use crate::refusal::{Refusal, money};
use crate::{replace, truc};

/// Bytes without witness that a transaction has at least: fewer can look like a node of a merkle tree (Core
/// `MIN_STANDARD_TX_NONWITNESS_SIZE`).
const MIN_SIZE: usize = 65;

/// Core `MAX_STANDARD_TX_SIGOPS_COST` and `DEFAULT_BYTES_PER_SIGOP`.
const MAX_SIGOPS: u64 = MAX_BLOCK_SIGOPS_COST / 5;
const BYTES_PER_SIGOP: u64 = 20;

/// The block that the transaction would be in.
pub struct NextBlock<'a> {
    pub height: u32,
    /// Of the tip.
    pub median_time: u32,
    /// That of the block at a height; asked only below coins whose spending is locked for a time.
    pub median_time_at: &'a dyn Fn(u32) -> u32,
}

/// What a transaction is judged with.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// It may replace others.
    pub replaces: bool,
    /// The highest fee rate that the caller wants.
    pub max_rate: Option<FeeRate>,
}

/// Who pays for relaying the transactions of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pay {
    /// Each for itself.
    Alone,
    /// All for all.
    Together,
}

/// A transaction that keeps the rules, but for its scripts.
#[derive(Clone, Debug)]
pub(crate) struct Checked<'a> {
    pub(crate) tx: PoolTx<'a>,
    pub(crate) spent: Vec<Coin>,
    pub(crate) conflicts: BTreeSet<Txid>,
}

/// A transaction that keeps all rules.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    pub tx: PoolTx<'a>,
    /// What leaves the pool for it.
    pub replaced: BTreeSet<Txid>,
    /// What it has to pay, alone or together with others.
    pub rate: FeeRate,
}

/// A coin that exists at the tip, by its outpoint.
pub(crate) type Coins = HashMap<OutPoint, Coin>;

fn rule(details: impl Into<String>) -> impl FnOnce(Reject) -> Refusal {
    |reject| Refusal::Rule(reject.reason, details.into())
}

/// Asks Core's own functions. A failure of the engine refuses the transaction, too.
fn ask_core(stage: PolicyStage, tx: TxView<'_>, spent: &[Coin]) -> Result<(), Refusal> {
    let outputs: Vec<SpentOutput<'_>> = spent
        .iter()
        .map(|coin| SpentOutput { value: coin.value, script_pubkey: &coin.script_pubkey })
        .collect();
    match check_policy(stage, tx.bytes(), &outputs) {
        Ok(verdict) => verdict.map_err(Refusal::Policy),
        Err(error) => Err(Refusal::Policy(failed(error))),
    }
}

fn failed(error: ScriptError) -> PolicyRefusal {
    PolicyRefusal { reason: "scripts cannot be checked".to_owned(), details: error.to_string() }
}

/// What the transaction alone decides.
///
/// # Errors
///
/// It breaks a rule.
pub fn check_alone(tx: TxView<'_>) -> Result<(), Refusal> {
    check_transaction(tx).map_err(rule(""))?;
    if tx.is_coinbase() {
        return Err(Refusal::Coinbase);
    }
    ask_core(PolicyStage::Alone, tx, &[])?;
    if tx.stripped_size() < MIN_SIZE {
        return Err(Refusal::TooSmall);
    }
    Ok(())
}

fn check_not_in_pool(tx: TxView<'_>, pool: &Pool<'_>) -> Result<(), Refusal> {
    match pool.get(&tx.txid()) {
        Some(same) if same.wtxid == tx.wtxid() => Err(Refusal::AlreadyInPool),
        Some(_) => Err(Refusal::OtherWitness),
        None => Ok(()),
    }
}

fn conflicts(tx: TxView<'_>, pool: &Pool<'_>, replaces: bool) -> Result<BTreeSet<Txid>, Refusal> {
    let spenders = tx.inputs().filter_map(|input| pool.spender(&input.prevout));
    let conflicts: BTreeSet<Txid> = spenders.collect();
    if !replaces && !conflicts.is_empty() {
        return Err(Refusal::Conflict);
    }
    Ok(conflicts)
}

/// What the inputs spend. Outputs of the pool are taken to be in the next block.
fn spent(
    tx: TxView<'_>,
    coins: &Coins,
    pool: &Pool<'_>,
    height: u32,
) -> Result<Vec<Coin>, Refusal> {
    let coin = |outpoint: &OutPoint| match pool.get(&outpoint.txid) {
        None => coins.get(outpoint).cloned(),
        Some(parent) => parent.tx.output(outpoint.vout as usize).map(|output| Coin {
            value: output.value,
            script_pubkey: output.script_pubkey.into(),
            height,
            coinbase: false,
        }),
    };
    let spent: Option<Vec<Coin>> = tx.inputs().map(|input| coin(&input.prevout)).collect();
    let missing = RejectReason::InputsMissingOrSpent;
    spent.ok_or_else(|| {
        let own = (0..tx.output_count() as u32).map(|vout| OutPoint { txid: tx.txid(), vout });
        match own.into_iter().any(|outpoint| coins.contains_key(&outpoint)) {
            true => Refusal::AlreadyInBlock,
            false => Refusal::Rule(missing, String::new()),
        }
    })
}

/// What Core says of a transaction that breaks a rule over its coins.
pub(crate) fn input_details(reject: Reject, tx: TxView<'_>, spent: &[Coin], height: u32) -> String {
    match reject.reason {
        RejectReason::PrematureSpendOfCoinbase => {
            let depth = |coin: &Coin| i64::from(height) - i64::from(coin.height);
            let young = |coin: &&Coin| coin.coinbase && depth(coin) < i64::from(COINBASE_MATURITY);
            let depth = spent.iter().find(young).map_or(0, depth);
            format!("tried to spend coinbase at depth {depth}")
        }
        RejectReason::InBelowOut => {
            let value_in: Amount = spent.iter().map(|coin| coin.value).sum();
            let value_out: Amount = tx.outputs().map(|output| output.value).sum();
            format!("value in ({}) < value out ({})", money(value_in), money(value_out))
        }
        _ => String::new(),
    }
}

/// Everything up to the rules about others of the pool. `coins` are those of the tip that the transaction
/// may spend, and its own outputs that exist there. Whether it pays for itself is asked where it pays alone.
pub(crate) fn check<'a>(
    tx: TxView<'a>,
    coins: &Coins,
    pool: &Pool<'_>,
    next_block: &NextBlock<'_>,
    replaces: bool,
    pay: Pay,
) -> Result<Checked<'a>, Refusal> {
    check_alone(tx)?;
    if !is_final(tx, next_block.height, next_block.median_time) {
        return Err(Refusal::NonFinal);
    }
    check_not_in_pool(tx, pool)?;
    let conflicts = conflicts(tx, pool, replaces)?;
    let spent = spent(tx, coins, pool, next_block.height)?;
    let views: Vec<CoinView<'_>> = spent.iter().map(CoinView::from).collect();
    let facts = TxFacts::of(tx);
    let NextBlock { height, median_time, median_time_at } = *next_block;
    sequence_locks_met(tx, &facts, &views, height, median_time, median_time_at)
        .map_err(|_| Refusal::NonFinalSequence)?;
    let fee = check_tx_inputs(tx, &facts, &views, height)
        .map_err(|reject| rule(input_details(reject, tx, &spent, height))(reject))?;
    ask_core(PolicyStage::Inputs, tx, &spent)?;
    let sigops = sigop_cost(tx, &facts, &views, ScriptFlags::P2SH | ScriptFlags::WITNESS);
    let weight = (tx.weight() as u64).max(sigops * BYTES_PER_SIGOP);
    let vsize = weight.div_ceil(4);
    dust_pays_no_fee(tx, fee)?;
    if sigops > MAX_SIGOPS {
        return Err(Refusal::TooManySigops(sigops));
    }
    if pay == Pay::Alone {
        pays_for_relay(fee, vsize)?;
    }
    truc::check(tx, vsize, pool, &conflicts)?;
    let tx = PoolTx { tx, txid: tx.txid(), wtxid: tx.wtxid(), fee, vsize, weight };
    Ok(Checked { tx, spent, conflicts })
}

pub(crate) fn pays_for_relay(fee: Amount, vsize: u64) -> Result<(), Refusal> {
    let least = RELAY_FEE.fee_of(vsize);
    if fee < least { Err(Refusal::BelowRelayFee(fee, least)) } else { Ok(()) }
}

pub(crate) fn within_rate(tx: &PoolTx<'_>, max_rate: Option<FeeRate>) -> Result<(), Refusal> {
    match max_rate {
        Some(most) if tx.rate().compare(most).is_gt() => Err(Refusal::MaxFeeRate),
        _ => Ok(()),
    }
}

impl Checked<'_> {
    /// The scripts, with all standard flags.
    pub(crate) fn check_scripts(&self) -> Result<(), Refusal> {
        ask_core(PolicyStage::Scripts, self.tx.tx, &self.spent)
    }
}

/// Judges a transaction that is handed in alone. `coins` are those of the tip that it may spend, and its own
/// outputs that exist there.
///
/// # Errors
///
/// Why it is refused.
pub fn judge<'a>(
    tx: TxView<'a>,
    coins: &HashMap<OutPoint, Coin>,
    pool: &Pool<'_>,
    next_block: &NextBlock<'_>,
    terms: Terms,
) -> Result<Judged<'a>, Refusal> {
    let checked = check(tx, coins, pool, next_block, terms.replaces, Pay::Alone)?;
    let Checked { tx: of_pool, conflicts, .. } = &checked;
    let replaced = replace::replaced(of_pool, pool, conflicts)?;
    replace::keeps_its_parents(tx, pool, conflicts)?;
    within_rate(of_pool, terms.max_rate)?;
    spends_parents_dust(tx, pool)?;
    checked.check_scripts()?;
    Ok(Judged { tx: *of_pool, replaced, rate: of_pool.rate() })
}
