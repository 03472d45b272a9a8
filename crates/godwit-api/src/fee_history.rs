//! Estimates the fee that a transaction needs from what recent blocks took.
//!
//! Each block has a price: the fee rate that would have put a transaction into it. If the block had room
//! left, that is the minimum relay rate; if it was full, the rate that nine tenths of its transactions
//! reached. Waiting for `n` blocks from some moment costs the cheapest price of the next `n`. The answer is
//! the rate that would have been enough from nearly all moments of the last hours.
//!
//! The moments are all places in the last blocks that are followed by `n` of them:
//!
//! ```text
//!   prices  9 4 4 7 1 5      n = 2     9 4|4 7 1 5   9|4 4|7 1 5   9 4|4 7|1 5  …   needed: 4 4 4 1 1
//! ```

use std::collections::{HashMap, HashSet};

use godwit_policy::{FeeRate, RELAY_FEE};
use godwit_primitives::{Amount, BlockView, Coin};

/// Blocks that are looked at: a day.
pub(crate) const DEPTH: usize = 144;

/// Fewer say nothing.
const LEAST_BLOCKS: usize = 12;

/// Where the market is now: blocks that decide alone, unless the caller is careful.
const RECENT: usize = 24;

/// Nobody is sure of the next block (as in Core).
const LEAST_TARGET: usize = 2;

/// A block of so much weight had no room for everything that waited: miners leave one or two percent of the
/// limit of 4,000,000 to themselves.
const FULL_WEIGHT: usize = 3_800_000;

/// Of a full block's weight, the part that paid less than its price. What miners take for other reasons than
/// fees is there.
const BELOW_PRICE: f64 = 0.1;

/// Of the moments, those from which the answer would have been enough.
const ECONOMICAL: f64 = 0.85;
const CONSERVATIVE: f64 = 0.95;

/// With which rate a transaction would have been in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Price {
    /// It has a coinbase alone: a miner that did not look, where other blocks are full.
    Unknown,
    /// It had room left.
    Least,
    /// In satoshi per 1,000 virtual bytes.
    Rate(Amount),
}

/// How sure the caller wants to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Economical,
    Conservative,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Estimate {
    /// In satoshi per 1,000 virtual bytes.
    pub(crate) rate: Amount,
    /// Within how many blocks.
    pub(crate) target: usize,
}

/// The price of a block; `spent` are the coins of each transaction behind the coinbase.
pub(crate) fn price<'c>(block: BlockView<'_>, spent: impl Iterator<Item = &'c [Coin]>) -> Price {
    if block.tx_count() <= 1 {
        return Price::Unknown;
    }
    if block.weight() < FULL_WEIGHT {
        return Price::Least;
    }
    let mut rates = lone_rates(block, spent);
    rates.sort_unstable();
    let total: usize = rates.iter().map(|(_, weight)| weight).sum();
    let (bound, mut below) = (total as f64 * BELOW_PRICE, 0);
    let at = rates.iter().find(|(_, weight)| {
        below += weight;
        below as f64 > bound
    });
    at.map_or(Price::Unknown, |(rate, _)| Price::Rate(*rate))
}

/// Rate and weight of the transactions that neither spend one of the same block nor are spent there: such
/// ones pay for each other.
fn lone_rates<'c>(
    block: BlockView<'_>,
    spent: impl Iterator<Item = &'c [Coin]>,
) -> Vec<(Amount, usize)> {
    let numbers: HashMap<_, usize> = block.txids().iter().zip(0..).collect();
    let mut related = HashSet::new();
    for (number, tx) in block.txs().enumerate().skip(1) {
        for input in tx.inputs() {
            if let Some(parent) = numbers.get(&input.prevout.txid) {
                related.extend([number, *parent]);
            }
        }
    }
    let others = block.txs().enumerate().skip(1).zip(spent);
    others
        .filter(|((number, _), _)| !related.contains(number))
        .map(|((_, tx), coins)| {
            let paid: Amount = coins.iter().map(|coin| coin.value).sum();
            let fee = paid - tx.outputs().map(|output| output.value).sum::<Amount>();
            let size = tx.weight().div_ceil(4) as u64;
            (FeeRate { fee, size }.rate_per_kvb(), tx.weight())
        })
        .collect()
}

/// The rate with which a transaction should be in one of the next `target` blocks, by the prices of the last
/// ones, the newest first; `None` where they are too few.
pub(crate) fn estimate(prices: &[Price], target: usize, mode: Mode) -> Option<Estimate> {
    let prices = &prices[..prices.len().min(DEPTH)];
    if prices.len() < LEAST_BLOCKS {
        return None;
    }
    let is_calm = !prices.iter().any(|price| matches!(price, Price::Rate(_)));
    let least = RELAY_FEE.rate_per_kvb();
    let amounts: Vec<Amount> = (prices.iter())
        .map(|price| match price {
            Price::Unknown if !is_calm => Amount::MAX,
            Price::Unknown | Price::Least => least,
            Price::Rate(rate) => (*rate).max(least),
        })
        .collect();
    let target = target.clamp(LEAST_TARGET, amounts.len() / 2);
    // What is enough for fewer blocks is enough for more.
    let rate = (LEAST_TARGET..=target).map(|target| within(&amounts, target, mode)).min()?;
    (rate < Amount::MAX).then_some(Estimate { rate, target })
}

/// The rate that was enough for exactly so many blocks.
fn within(amounts: &[Amount], target: usize, mode: Mode) -> Amount {
    let recent = &amounts[..amounts.len().min(RECENT.max(2 * target))];
    match mode {
        Mode::Economical => enough(recent, target, ECONOMICAL),
        Mode::Conservative => {
            enough(recent, target, CONSERVATIVE).max(enough(amounts, target, CONSERVATIVE))
        }
    }
}

/// The rate that was enough from this part of the moments on.
fn enough(amounts: &[Amount], target: usize, part: f64) -> Amount {
    let cheapest = |waited: &[Amount]| waited.iter().copied().min().expect("a target is not zero");
    let mut needed: Vec<Amount> = amounts.windows(target).map(cheapest).collect();
    needed.sort_unstable();
    let of_part = (needed.len() as f64 * part).ceil() as usize;
    needed[of_part.clamp(1, needed.len()) - 1]
}

#[cfg(test)]
mod tests;
