//! One of several independent economies that fill the blocks of a chain together.
//!
//! A lane spends its own coins only, so lanes build and sign transactions in parallel and the
//! result still depends on nothing but the seed.

use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;
use bitcoin::script::PushBytesBuf;
use bitcoin::{Amount, OutPoint, ScriptBuf, Transaction, TxOut};

use crate::keys::KeyRing;
use crate::lock::{self, Coin, KEYS_PER_COIN, Lock, Locking};
use crate::plan::{FanOut, Recipe, Source};
use crate::rng::Rng;
use crate::spend;
use crate::summary::Counts;

/// Weight of version, lock time, witness marker and both counts.
const TX_OVERHEAD: u64 = 60;
/// Room that inputs leave for outputs: two of the largest usual type.
const OUTPUT_ROOM: u64 = 2 * 172;
const OP_RETURN_MAX: u64 = 80;
/// Draws of a first coin that may be too large for the rest of the block.
const FIT_ATTEMPTS: u32 = 8;

/// What a lane may still put into a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) weight: u64,
    pub(crate) sigop_cost: u64,
}

/// A lane's transactions of one block, serialised back to back.
#[derive(Debug, Default)]
pub(crate) struct LanePart {
    pub(crate) bytes: Vec<u8>,
    pub(crate) txs: Vec<PartTx>,
    pub(crate) weight: u64,
    pub(crate) counts: Counts,
}

impl LanePart {
    /// Transaction `i` and its bytes.
    pub(crate) fn tx(&self, i: usize) -> Option<(&[u8], &PartTx)> {
        let tx = self.txs.get(i)?;
        let start = if i == 0 { 0 } else { self.txs[i - 1].end };
        Some((&self.bytes[start..tx.end], tx))
    }
}

/// Where one transaction of a [`LanePart`] ends, and its hashes.
#[derive(Debug)]
pub(crate) struct PartTx {
    pub(crate) end: usize,
    pub(crate) txid: [u8; 32],
    pub(crate) wtxid: [u8; 32],
    pub(crate) has_witness: bool,
}

pub(crate) struct Lane {
    keys: KeyRing,
    rng: Rng,
    next_key: u64,
    first_height: u32,
    /// Coins of the blocks from `first_height` on.
    by_height: Vec<Vec<Coin>>,
    /// Indexes into `by_height` of the fan-out blocks.
    fan_outs: Vec<usize>,
    bare: Vec<Coin>,
    giants: Vec<Coin>,
    coinbases: Vec<Coin>,
    /// Coins of the block being made, and those of them that may not be spent in it.
    fresh: Vec<Coin>,
    unripe: Vec<Coin>,
    part: LanePart,
    left: Budget,
}

impl Lane {
    /// A lane that owns `coinbases` (mature when their turn comes) and starts at `first_height`.
    pub(crate) fn new(keys: KeyRing, rng: Rng, first_height: u32, coinbases: Vec<Coin>) -> Lane {
        Lane {
            keys,
            rng,
            next_key: 0,
            first_height,
            by_height: Vec::new(),
            fan_outs: Vec::new(),
            bare: Vec::new(),
            giants: Vec::new(),
            coinbases,
            fresh: Vec::new(),
            unripe: Vec::new(),
            part: LanePart::default(),
            left: Budget { weight: 0, sigop_cost: 0 },
        }
    }

    /// The next block's share of a fan-out: one coinbase split into many coins.
    pub(crate) fn fan_out(&mut self, plan: &FanOut, first: bool, budget: Budget) -> LanePart {
        self.left = budget;
        self.fan_outs.push(self.by_height.len());
        if let Some(coin) = self.coinbases.pop() {
            self.split_coinbase(coin, plan, first);
        }
        self.finish_block()
    }

    /// The next block's share of a recipe.
    pub(crate) fn mix(&mut self, recipe: &Recipe, budget: Budget) -> LanePart {
        self.left = budget;
        while self.add_mixed(recipe).is_some() {}
        self.finish_block()
    }

    fn height(&self) -> u32 {
        self.first_height + self.by_height.len() as u32
    }

    fn finish_block(&mut self) -> LanePart {
        let mut coins = std::mem::take(&mut self.fresh);
        coins.append(&mut self.unripe);
        self.by_height.push(coins);
        std::mem::take(&mut self.part)
    }

    fn split_coinbase(&mut self, coin: Coin, plan: &FanOut, first: bool) {
        let mut weight = TX_OVERHEAD + coin.lock.input_weight();
        let mut sigops = coin.lock.input_sigop_cost();
        let mut locks = Vec::new();
        let has_giant = first && plan.giant > 0;
        if has_giant {
            locks.push(Lock::Inscription(plan.giant));
        }
        locks.extend((0..plan.bare).map(|_| Lock::Bare));
        weight += locks.iter().map(|lock| lock.output_weight()).sum::<u64>();
        loop {
            let lock = *self.rng.weighted(plan.locks);
            weight += lock.output_weight();
            sigops += lock.output_sigop_cost();
            if weight > self.left.weight || sigops > self.left.sigop_cost {
                break;
            }
            locks.push(lock);
        }
        let values = split(&mut self.rng, coin.value, locks.len());
        let mut outputs: Vec<Output> =
            values.into_iter().zip(locks).map(|(v, l)| self.new_output(v, l)).collect();
        if has_giant {
            outputs[0].fate = Fate::Giant;
        }
        self.add_transaction(vec![coin], outputs);
    }

    /// Adds a transaction of the recipe, or returns nothing when the block is full.
    fn add_mixed(&mut self, recipe: &Recipe) -> Option<()> {
        let mut weight = TX_OVERHEAD + OUTPUT_ROOM;
        let mut sigops = 0;
        let coins = self.take_inputs(recipe, &mut weight, &mut sigops);
        if coins.is_empty() {
            return None;
        }
        weight -= OUTPUT_ROOM;
        let total: u64 = coins.iter().map(|coin| coin.value).sum();
        let outputs = self.make_outputs(recipe, total, weight, sigops);
        self.add_transaction(coins, outputs);
        Some(())
    }

    fn take_inputs(&mut self, recipe: &Recipe, weight: &mut u64, sigops: &mut u64) -> Vec<Coin> {
        let wanted = draw(&mut self.rng, recipe.inputs);
        let mut coins = Vec::new();
        let mut refused = 0;
        while coins.len() < wanted && refused < FIT_ATTEMPTS {
            let Some(coin) = self.take(recipe) else { break };
            let heavier = *weight + coin.lock.input_weight();
            let costlier = *sigops + coin.lock.input_sigop_cost();
            if heavier > self.left.weight || costlier > self.left.sigop_cost {
                self.put_back(coin, recipe);
                refused += 1;
                if !coins.is_empty() {
                    break;
                }
                continue;
            }
            (*weight, *sigops) = (heavier, costlier);
            coins.push(coin);
        }
        coins
    }

    fn make_outputs(
        &mut self,
        recipe: &Recipe,
        total: u64,
        mut weight: u64,
        mut sigops: u64,
    ) -> Vec<Output> {
        let wanted = draw(&mut self.rng, recipe.outputs);
        let mut data = Vec::new();
        let mut locks = Vec::new();
        for i in 0..wanted {
            // The first output is always value, so that no transaction gives all to fees.
            if i > 0 && self.rng.chance(recipe.op_return) {
                let script = self.data_script();
                weight += 4 * (9 + script.len() as u64);
                data.push(script);
            } else {
                let drawn = *self.rng.weighted(recipe.locks);
                let lock = self.fill_in(drawn);
                weight += lock.output_weight();
                sigops += lock.output_sigop_cost();
                locks.push(lock);
            }
            if weight + OUTPUT_ROOM > self.left.weight || sigops + 80 > self.left.sigop_cost {
                break;
            }
        }
        let fee = (weight / 4 * self.rng.between(1, 30)).min(total / 10);
        // Every value needs a satoshi.
        locks.truncate((total - fee) as usize);
        let values = split(&mut self.rng, total - fee, locks.len());
        let mut outputs: Vec<Output> =
            values.into_iter().zip(locks).map(|(v, l)| self.new_output(v, l)).collect();
        self.forget_some(&mut outputs, recipe);
        outputs.extend(data.into_iter().map(Output::data));
        outputs
    }

    /// Turns some outputs into dust that is never spent; the first one takes the difference.
    fn forget_some(&mut self, outputs: &mut [Output], recipe: &Recipe) {
        let Some((first, others)) = outputs.split_first_mut() else { return };
        for output in others {
            if self.rng.chance(recipe.never_spent) {
                let dust = Amount::from_sat(self.rng.between(330, 999)).min(output.tx_out.value);
                first.tx_out.value += output.tx_out.value - dust;
                output.tx_out.value = dust;
                output.fate = Fate::Forgotten;
            }
        }
    }

    /// Puts the numbers that depend on the block into a lock of a recipe.
    fn fill_in(&mut self, lock: Lock) -> Lock {
        match lock {
            Lock::Cltv(_) => Lock::Cltv(self.height() - 1),
            Lock::Inscription(_) => {
                let most = (self.left.weight / 16).clamp(200, 40_000);
                Lock::Inscription(self.rng.log_between(100, most) as u32)
            }
            other => other,
        }
    }

    fn data_script(&mut self) -> ScriptBuf {
        let mut data = vec![0; self.rng.between(4, OP_RETURN_MAX) as usize];
        self.rng.fill(&mut data);
        ScriptBuf::new_op_return(PushBytesBuf::try_from(data).expect("80 bytes are below 4 GiB"))
    }

    fn new_output(&mut self, value: u64, lock: Lock) -> Output {
        let key = self.next_key;
        self.next_key += KEYS_PER_COIN;
        let Locking { script_pubkey, revealed } = lock::locking(&self.keys, lock, key);
        let tx_out = TxOut { value: Amount::from_sat(value), script_pubkey };
        Output { tx_out, owner: Some(Owner { lock, key, revealed }), fate: Fate::Spent }
    }

    fn add_transaction(&mut self, coins: Vec<Coin>, outputs: Vec<Output>) {
        let tx_outs = outputs.iter().map(|output| output.tx_out.clone()).collect();
        let mut tx = spend::unsigned(&coins, tx_outs);
        spend::sign(&mut tx, &coins, &self.keys);
        self.count(&tx, &coins, &outputs);
        let txid = tx.compute_txid();
        self.keep_outputs(txid, outputs);
        self.part.bytes.extend_from_slice(&serialize(&tx));
        self.part.txs.push(PartTx {
            end: self.part.bytes.len(),
            txid: txid.to_byte_array(),
            wtxid: tx.compute_wtxid().to_byte_array(),
            has_witness: crate::miner::has_witness(&tx),
        });
    }

    fn keep_outputs(&mut self, txid: bitcoin::Txid, outputs: Vec<Output>) {
        let height = self.height();
        for (vout, output) in (0u32..).zip(outputs) {
            let Some(Owner { lock, key, revealed }) = output.owner else { continue };
            let TxOut { value, script_pubkey } = output.tx_out;
            let outpoint = OutPoint { txid, vout };
            let value = value.to_sat();
            let coin = Coin { outpoint, value, height, lock, key, script_pubkey, revealed };
            match (output.fate, lock) {
                (Fate::Forgotten, _) => {}
                (Fate::Giant, _) => self.giants.push(coin),
                (Fate::Spent, Lock::Bare) => self.bare.push(coin),
                (Fate::Spent, Lock::Csv(_)) => self.unripe.push(coin),
                (Fate::Spent, _) => self.fresh.push(coin),
            }
        }
    }

    fn count(&mut self, tx: &Transaction, coins: &[Coin], outputs: &[Output]) {
        let height = self.height();
        self.part.weight += tx.weight().to_wu();
        self.left.weight = self.left.weight.saturating_sub(tx.weight().to_wu());
        let counts = &mut self.part.counts;
        counts.txs += 1;
        counts.inputs += coins.len() as u64;
        counts.outputs += outputs.len() as u64;
        for coin in coins {
            let (ecdsa, schnorr) = coin.lock.signatures();
            counts.ecdsa_signatures += ecdsa;
            counts.schnorr_signatures += schnorr;
            counts.add_age(height - coin.height);
            *counts.input_types.entry(coin.lock.name().to_owned()).or_default() += 1;
            self.left.sigop_cost =
                self.left.sigop_cost.saturating_sub(coin.lock.input_sigop_cost());
        }
        for output in outputs {
            let Some(Owner { lock, .. }) = &output.owner else {
                counts.op_returns += 1;
                continue;
            };
            *counts.output_types.entry(lock.name().to_owned()).or_default() += 1;
            self.left.sigop_cost = self.left.sigop_cost.saturating_sub(lock.output_sigop_cost());
        }
        let paid: u64 = outputs.iter().map(|output| output.tx_out.value.to_sat()).sum();
        counts.fees += coins.iter().map(|coin| coin.value).sum::<u64>() - paid;
    }

    fn take(&mut self, recipe: &Recipe) -> Option<Coin> {
        match recipe.source {
            Source::Bare => self.bare.pop(),
            Source::Giants => self.giants.pop(),
            Source::Ages => {
                if !self.fresh.is_empty() && self.rng.chance(recipe.intra_block) {
                    return Some(remove_random(&mut self.fresh, &mut self.rng));
                }
                let index = self.draw_bucket(recipe)?;
                Some(remove_random(&mut self.by_height[index], &mut self.rng))
            }
        }
    }

    fn put_back(&mut self, coin: Coin, recipe: &Recipe) {
        match recipe.source {
            Source::Bare => self.bare.push(coin),
            Source::Giants => self.giants.push(coin),
            Source::Ages if coin.height == self.height() => self.fresh.push(coin),
            Source::Ages => self.by_height[(coin.height - self.first_height) as usize].push(coin),
        }
    }

    /// The block whose coin is spent next: of a drawn age, or else the nearest with coins left.
    fn draw_bucket(&mut self, recipe: &Recipe) -> Option<usize> {
        let blocks = self.by_height.len();
        let index = match self.draw_age(recipe.ages) {
            Some(age) => blocks.saturating_sub(age as usize),
            None => self.draw_old(recipe.ages.last().map_or(0, |(_, age)| *age) as usize)?,
        };
        let has_coins = |i: &usize| !self.by_height[*i].is_empty();
        (0..=index.min(blocks.checked_sub(1)?))
            .rev()
            .find(has_coins)
            .or_else(|| (index..blocks).find(has_coins))
    }

    fn draw_age(&mut self, ages: &[(u32, u32)]) -> Option<u64> {
        let draw = self.rng.below(1000);
        let class = ages.iter().position(|(permille, _)| draw < u64::from(*permille))?;
        let youngest = if class == 0 { 1 } else { ages[class - 1].1 + 1 };
        Some(self.rng.log_between(u64::from(youngest), u64::from(ages[class].1)))
    }

    /// A block older than `age`, or one of a fan-out, which stands for older history.
    fn draw_old(&mut self, age: usize) -> Option<usize> {
        let old = self.by_height.len().saturating_sub(age);
        let choices = old + self.fan_outs.len();
        if choices == 0 {
            return None;
        }
        let choice = self.rng.below(choices as u64) as usize;
        Some(if choice < old { choice } else { self.fan_outs[choice - old] })
    }
}

/// An output to be made.
struct Output {
    tx_out: TxOut,
    /// None when it carries data.
    owner: Option<Owner>,
    fate: Fate,
}

/// What spending an output takes.
struct Owner {
    lock: Lock,
    key: u64,
    revealed: ScriptBuf,
}

/// What becomes of a spendable output.
#[derive(Clone, Copy)]
enum Fate {
    Spent,
    Forgotten,
    /// Kept for the block of giant inscriptions.
    Giant,
}

impl Output {
    fn data(script_pubkey: ScriptBuf) -> Output {
        Output {
            tx_out: TxOut { value: Amount::ZERO, script_pubkey },
            owner: None,
            fate: Fate::Forgotten,
        }
    }
}

fn remove_random(coins: &mut Vec<Coin>, rng: &mut Rng) -> Coin {
    let index = rng.below(coins.len() as u64) as usize;
    coins.swap_remove(index)
}

fn draw(rng: &mut Rng, spread: crate::plan::Spread) -> usize {
    let (low, high) = *rng.weighted(spread);
    rng.between(u64::from(low), u64::from(high)) as usize
}

/// Splits `total` into `parts` amounts of at least one satoshi.
fn split(rng: &mut Rng, total: u64, parts: usize) -> Vec<u64> {
    let mut left = total;
    (0..parts as u64)
        .map(|i| {
            let others = parts as u64 - i - 1;
            let mean = left / (others + 1);
            let most = left - others;
            let value =
                if others == 0 { left } else { (mean * rng.between(50, 150) / 100).clamp(1, most) };
            left -= value;
            value
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_split_without_loss_and_stay_positive() {
        let mut rng = Rng::new(3);
        for (total, parts) in [(1, 1), (2, 2), (5, 4), (5_000_000_000, 7_000), (1_000, 3)] {
            let amounts = split(&mut rng, total, parts);
            assert_eq!(amounts.iter().sum::<u64>(), total);
            assert!(amounts.len() == parts && amounts.iter().all(|amount| *amount > 0));
        }
    }
}
