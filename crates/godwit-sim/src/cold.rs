//! Makes more coins than a machine has memory for, and blocks that spend some of them at random, to measure
//! the cost of look-ups on a disk.
//!
//! Making sixty million coins with keys of their own would take longer than measuring them. So all coins have
//! one script, P2WSH of `OP_TRUE`, which has a usual size and needs no signature: the chain is valid, and
//! coins are its only significant cost. Each transaction makes four coins, because a database keeps the coins
//! of one transaction side by side.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use bitcoin::consensus::encode::VarInt;
use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::script::Builder;
use bitcoin::{OutPoint, ScriptBuf, Txid, opcodes};
use serde::{Deserialize, Serialize};

use crate::assemble;
use crate::lane::{LanePart, PartTx};
use crate::miner::{self, COINBASE_MATURITY, Tip};
use crate::plan::START_TIME;
use crate::rng::Rng;

/// Blocks whose coinbases pay for all coins; below the first halving.
const FUNDING: u32 = 40;
/// Coins of a transaction.
const COINS_PER_TX: u64 = 4;
/// Such transactions, of 1,069 of weight each, in a full block.
const TXS_PER_BLOCK: u64 = 3_700;
/// Number of inputs, and of outputs, of a transaction that spends coins.
const SPENT_PER_TX: u64 = 2;
/// Coins that a block spends: as many as a full block of main.
const SPENT_PER_BLOCK: u64 = 7_000;
/// Witness of every input: one item, the script.
const WITNESS: [u8; 3] = [1, 1, 0x51];

/// Description of the two written files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdSummary {
    /// Coins that the first file makes, except its coinbases and the coins that pay for them.
    pub coins: u64,
    /// Height of that file's last block.
    pub height: u32,
    /// Coins of these that the blocks of the second file spend.
    pub spends: u64,
    /// Height of its last block.
    pub end_height: u32,
    /// Hash of its last block.
    pub end: String,
    /// Bytes of its blocks.
    pub spend_bytes: u64,
}

/// Writes the blocks that make at least `coins` coins to one file, and `blocks` blocks that spend some of
/// them to another, both in the framing of block files. Each coin shares its txid with three others.
pub fn write_cold(
    coins: u64,
    blocks: u32,
    seed: u64,
    [to_coins, to_spends]: [&Path; 2],
) -> io::Result<ColdSummary> {
    let mut chain = ColdChain::new(coins, seed, to_coins)?;
    for height in 1..=FUNDING + COINBASE_MATURITY {
        chain.mine(LanePart::default())?;
        if height <= FUNDING {
            // Made as the block will have it: a block without witnesses has no output that commits to them.
            let value = miner::subsidy(height);
            let coinbase = miner::coinbase(height, 0, value, chain.script.clone());
            let outpoint = OutPoint { txid: coinbase.compute_txid(), vout: 0 };
            chain.bank.push((outpoint, value));
        }
    }
    while (chain.txids.len() as u64) < chain.txs {
        let part = chain.make_coins();
        chain.mine(part)?;
    }
    let height = chain.tip.height;
    chain.turn_to(to_spends)?;
    let mut order = Permutation::new(chain.coins(), seed);
    for _ in 0..blocks {
        let part = chain.spend(&mut order);
        chain.mine(part)?;
    }
    chain.file.flush()?;
    Ok(ColdSummary {
        coins: chain.coins(),
        height,
        spends: order.next.min(chain.coins()),
        end_height: chain.tip.height,
        end: chain.tip.hash.to_string(),
        spend_bytes: chain.bytes,
    })
}

struct ColdChain {
    file: BufWriter<File>,
    bytes: u64,
    tip: Tip,
    script: ScriptBuf,
    seed: u64,
    /// Number of transactions that make coins, and the txids of those made so far.
    txs: u64,
    txids: Vec<Txid>,
    /// Value of a coin on average.
    usual: u64,
    /// The outputs that pay for the next coins.
    bank: Vec<(OutPoint, u64)>,
}

impl ColdChain {
    fn new(coins: u64, seed: u64, to: &Path) -> io::Result<Self> {
        let script = Builder::new().push_opcode(opcodes::OP_TRUE).into_script();
        let txs = coins.div_ceil(COINS_PER_TX);
        Ok(Self {
            file: create(to)?,
            bytes: 0,
            tip: miner::genesis_tip(),
            script: ScriptBuf::new_p2wsh(&script.wscript_hash()),
            seed,
            txs,
            txids: Vec::new(),
            usual: u64::from(FUNDING) * miner::subsidy(1) / (txs * COINS_PER_TX) / 2,
            bank: Vec::new(),
        })
    }

    fn turn_to(&mut self, path: &Path) -> io::Result<()> {
        self.file.flush()?;
        (self.file, self.bytes) = (create(path)?, 0);
        Ok(())
    }

    fn coins(&self) -> u64 {
        self.txs * COINS_PER_TX
    }

    /// Satoshi of a coin: between half and one and a half times the usual value, so that amounts differ in
    /// length.
    fn value(&self, coin: u64) -> u64 {
        self.usual / 2 + Rng::new(self.seed ^ coin).below(self.usual)
    }

    fn make_coins(&mut self) -> LanePart {
        let mut part = LanePart::default();
        let left = self.txs - self.txids.len() as u64;
        for _ in 0..left.min(TXS_PER_BLOCK) {
            let first = self.txids.len() as u64 * COINS_PER_TX;
            let mut values: Vec<u64> =
                (first..first + COINS_PER_TX).map(|n| self.value(n)).collect();
            let inputs = std::mem::take(&mut self.bank);
            let has: u64 = inputs.iter().map(|(_, value)| value).sum();
            let rest = has - values.iter().sum::<u64>();
            values.push(rest);
            let spent: Vec<OutPoint> = inputs.into_iter().map(|(outpoint, _)| outpoint).collect();
            let txid = self.add(&mut part, &spent, &values);
            self.bank.push((OutPoint { txid, vout: COINS_PER_TX as u32 }, rest));
            self.txids.push(txid);
        }
        part
    }

    fn spend(&mut self, order: &mut Permutation) -> LanePart {
        let mut part = LanePart::default();
        for _ in 0..SPENT_PER_BLOCK / SPENT_PER_TX {
            let coins: Vec<u64> = order.take(SPENT_PER_TX as usize).collect();
            if coins.is_empty() {
                break;
            }
            let outpoint = |coin: &u64| OutPoint {
                txid: self.txids[(coin / COINS_PER_TX) as usize],
                vout: (coin % COINS_PER_TX) as u32,
            };
            let spent: Vec<OutPoint> = coins.iter().map(outpoint).collect();
            let values: Vec<u64> = coins.iter().map(|coin| self.value(*coin)).collect();
            self.add(&mut part, &spent, &values);
        }
        part
    }

    /// Adds a transaction without a fee.
    fn add(&self, part: &mut LanePart, spent: &[OutPoint], values: &[u64]) -> Txid {
        let mut body = serialize(&VarInt::from(spent.len()));
        for outpoint in spent {
            body.extend(serialize(outpoint));
            // No script, and a final sequence number.
            body.extend([0, 0xff, 0xff, 0xff, 0xff]);
        }
        body.extend(serialize(&VarInt::from(values.len())));
        for value in values {
            body.extend(value.to_le_bytes());
            body.extend(serialize(&self.script));
        }
        let (version, lock_time) = (2u32.to_le_bytes(), 0u32.to_le_bytes());
        let witnesses = WITNESS.repeat(spent.len());
        let plain = [&version[..], &body, &lock_time].concat();
        let whole = [&version[..], &[0, 1], &body, &witnesses, &lock_time].concat();
        let txid = Txid::from_raw_hash(sha256d::Hash::hash(&plain));
        part.weight += (3 * plain.len() + whole.len()) as u64;
        part.bytes.extend_from_slice(&whole);
        part.txs.push(PartTx {
            end: part.bytes.len(),
            txid: txid.to_byte_array(),
            wtxid: sha256d::Hash::hash(&whole).to_byte_array(),
            has_witness: true,
        });
        txid
    }

    /// Mines a block of these transactions.
    fn mine(&mut self, part: LanePart) -> io::Result<()> {
        let height = self.tip.height + 1;
        let time = START_TIME + miner::BLOCK_SPACING * height;
        let block = assemble::block(&self.tip, time, self.script.clone(), &[part]);
        assert!(block.weight <= miner::MAX_BLOCK_WEIGHT, "{} at height {height}", block.weight);
        self.tip = block.tip;
        self.bytes += block.bytes.len() as u64;
        miner::write_record(&mut self.file, &block.bytes)
    }
}

fn create(path: &Path) -> io::Result<BufWriter<File>> {
    Ok(BufWriter::with_capacity(1 << 20, File::create(path)?))
}

/// The numbers below a limit, each once, in an order that follows from a seed. It is a Feistel network over
/// the smallest power of four that is not below the limit; numbers at or above the limit are skipped.
struct Permutation {
    limit: u64,
    half_bits: u32,
    keys: [u64; 4],
    at: u64,
    /// Number of values taken from the network, including skipped ones.
    next: u64,
}

impl Permutation {
    fn new(limit: u64, seed: u64) -> Self {
        let mut rng = Rng::new(!seed);
        let half_bits = (64 - limit.saturating_sub(1).leading_zeros()).div_ceil(2).max(1);
        let mut key = || rng.below(u64::MAX);
        Self { limit, half_bits, keys: [key(), key(), key(), key()], at: 0, next: 0 }
    }

    fn image(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            let mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (left, right) = (right, left ^ mixed >> 32 & mask);
        }
        left << self.half_bits | right
    }
}

impl Iterator for Permutation {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        while self.at < 1 << (2 * self.half_bits) {
            let image = self.image(self.at);
            self.at += 1;
            if image < self.limit {
                self.next += 1;
                return Some(image);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use bitcoin::Block;
    use bitcoin::consensus::deserialize_partial;

    use super::*;
    use crate::reference::ReferenceUtxo;

    fn blocks(path: &Path) -> Vec<Vec<u8>> {
        let bytes = fs::read(path).expect("just written");
        let (mut at, mut blocks) = (0, Vec::new());
        while at < bytes.len() {
            let (_, len) = deserialize_partial::<Block>(&bytes[at + 8..]).expect("a block");
            blocks.push(bytes[at + 8..at + 8 + len].to_vec());
            at += 8 + len;
        }
        blocks
    }

    #[test]
    fn the_second_file_spends_coins_of_the_first_each_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let [coins, spends] = ["coins.dat", "spends.dat"].map(|name| dir.path().join(name));
        // A block and a transaction of coins; more is to be spent than there is.
        let wanted = TXS_PER_BLOCK * COINS_PER_TX + 1;
        let summary = write_cold(wanted, 3, 7, [&coins, &spends]).expect("room");
        assert_eq!(summary.coins, wanted + COINS_PER_TX - 1);
        assert_eq!((summary.height, summary.end_height), (FUNDING + COINBASE_MATURITY + 2, 145));
        assert_eq!(summary.spends, summary.coins);
        let mut utxo = ReferenceUtxo::new();
        let (first, second) = (blocks(&coins), blocks(&spends));
        assert_eq!(second.iter().map(|block| block.len() as u64).sum::<u64>(), summary.spend_bytes);
        for (height, block) in (1..).zip(&first) {
            utxo.connect(block, height).expect("a valid block");
        }
        // One coinbase for each block, of which the bank took some, and the bank itself.
        let others = u64::from(summary.height) - u64::from(FUNDING) + 1;
        assert_eq!(utxo.txouts(), summary.coins + others);
        for (height, block) in (summary.height + 1..).zip(&second) {
            utxo.connect(block, height).expect("a valid block");
        }
        let spending = second.iter().map(|block| {
            let (block, _) = deserialize_partial::<Block>(block).expect("a block");
            block.txdata.iter().skip(1).map(|tx| tx.input.len() as u64).sum::<u64>()
        });
        assert_eq!(spending.sum::<u64>(), summary.spends);
    }

    #[test]
    fn an_order_has_each_number_once() {
        for limit in [1, 2, 3, 15, 16, 17, 1000] {
            let order: Vec<u64> = Permutation::new(limit, 3).collect();
            let numbers: BTreeSet<u64> = order.iter().copied().collect();
            assert_eq!((order.len() as u64, numbers.len() as u64), (limit, limit));
            assert_eq!(numbers.last(), Some(&(limit - 1)));
            assert!(limit < 15 || !order.is_sorted(), "{order:?}");
        }
    }
}
