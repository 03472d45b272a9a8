//! A naive UTXO set: one `HashMap`, no caching, no compression, no shared code with godwit.
//!
//! It checks nothing but what it needs to stay consistent; it is the oracle for counts and
//! contents, not for validity.

use std::collections::HashMap;
use std::fmt;

use bitcoin::consensus::encode;
use bitcoin::hashes::Hash;
use bitcoin::{Block, OutPoint};

/// Output index in a transaction, after its txid in internal byte order.
pub type Key = ([u8; 32], u32);

/// An unspent output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceCoin {
    /// Satoshi.
    pub value: u64,
    /// Locking script.
    pub script_pubkey: Vec<u8>,
    /// Height of the creating block.
    pub height: u32,
    /// Whether a coinbase created it.
    pub coinbase: bool,
}

/// What [`ReferenceUtxo::disconnect`] needs to undo a block: its changes in order.
#[derive(Clone, Debug, Default)]
pub struct Undo(Vec<Change>);

#[derive(Clone, Debug)]
enum Change {
    Removed(Key, ReferenceCoin),
    Created(Key),
}

/// Why a block cannot be applied.
#[derive(Debug)]
pub enum ReferenceError {
    /// The bytes are not exactly one block.
    Decode(encode::Error),
    /// An input spends what is not in the set.
    MissingCoin(OutPoint),
}

impl fmt::Display for ReferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReferenceError::Decode(error) => write!(f, "block does not decode: {error}"),
            ReferenceError::MissingCoin(outpoint) => write!(f, "{outpoint} is not unspent"),
        }
    }
}

impl std::error::Error for ReferenceError {}

/// The unspent outputs after the blocks connected so far.
#[derive(Clone, Debug, Default)]
pub struct ReferenceUtxo {
    coins: HashMap<Key, ReferenceCoin>,
    total_amount: u64,
    bogosize: u64,
}

impl ReferenceUtxo {
    /// The set before block 1: the genesis coinbase is not in it.
    pub fn new() -> ReferenceUtxo {
        ReferenceUtxo::default()
    }

    /// Applies the serialised block at `height`. On an error the set is left in between.
    pub fn connect(&mut self, block: &[u8], height: u32) -> Result<Undo, ReferenceError> {
        let block: Block = encode::deserialize(block).map_err(ReferenceError::Decode)?;
        let mut undo = Undo::default();
        for tx in &block.txdata {
            let coinbase = tx.is_coinbase();
            for input in tx.input.iter().filter(|_| !coinbase) {
                let outpoint = input.previous_output;
                let key = (outpoint.txid.to_byte_array(), outpoint.vout);
                let coin = self.remove(&key).ok_or(ReferenceError::MissingCoin(outpoint))?;
                undo.0.push(Change::Removed(key, coin));
            }
            let txid = tx.compute_txid().to_byte_array();
            for (vout, output) in (0u32..).zip(&tx.output) {
                if is_unspendable(output.script_pubkey.as_bytes()) {
                    continue;
                }
                let coin = ReferenceCoin {
                    value: output.value.to_sat(),
                    script_pubkey: output.script_pubkey.to_bytes(),
                    height,
                    coinbase,
                };
                // Before BIP34 a coinbase could repeat an earlier one's txid.
                if let Some(overwritten) = self.insert((txid, vout), coin) {
                    undo.0.push(Change::Removed((txid, vout), overwritten));
                }
                undo.0.push(Change::Created((txid, vout)));
            }
        }
        Ok(undo)
    }

    /// Takes back the block that returned `undo`, which must be the last one connected.
    pub fn disconnect(&mut self, undo: Undo) {
        for change in undo.0.into_iter().rev() {
            match change {
                Change::Created(key) => drop(self.remove(&key)),
                Change::Removed(key, coin) => drop(self.insert(key, coin)),
            }
        }
    }

    /// Number of unspent outputs, `gettxoutsetinfo`'s `txouts`.
    pub fn txouts(&self) -> u64 {
        self.coins.len() as u64
    }

    /// Satoshi in all of them.
    pub fn total_amount(&self) -> u64 {
        self.total_amount
    }

    /// `gettxoutsetinfo`'s `bogosize`.
    pub fn bogosize(&self) -> u64 {
        self.bogosize
    }

    /// The coin at an outpoint.
    pub fn get(&self, txid: [u8; 32], vout: u32) -> Option<&ReferenceCoin> {
        self.coins.get(&(txid, vout))
    }

    /// All coins, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &ReferenceCoin)> {
        self.coins.iter()
    }

    fn insert(&mut self, key: Key, coin: ReferenceCoin) -> Option<ReferenceCoin> {
        self.total_amount += coin.value;
        self.bogosize += bogo_size(&coin);
        let previous = self.coins.insert(key, coin);
        if let Some(coin) = &previous {
            self.forget(coin.value, bogo_size(coin));
        }
        previous
    }

    fn remove(&mut self, key: &Key) -> Option<ReferenceCoin> {
        let coin = self.coins.remove(key)?;
        self.forget(coin.value, bogo_size(&coin));
        Some(coin)
    }

    fn forget(&mut self, value: u64, bogosize: u64) {
        self.total_amount -= value;
        self.bogosize -= bogosize;
    }
}

/// Bitcoin Core: `GetBogoSize` in kernel/coinstats.cpp.
fn bogo_size(coin: &ReferenceCoin) -> u64 {
    32 + 4 + 4 + 8 + 2 + coin.script_pubkey.len() as u64
}

/// Bitcoin Core: `CScript::IsUnspendable`.
fn is_unspendable(script: &[u8]) -> bool {
    script.first() == Some(&0x6a) || script.len() > 10_000
}

#[cfg(test)]
mod tests {
    use bitcoin::ScriptBuf;
    use bitcoin::consensus::serialize;

    use super::*;
    use crate::miner;

    #[test]
    fn genesis_like_block_counts_and_comes_off_again() {
        let script = ScriptBuf::from_bytes(vec![0x51; 5]);
        let tx = miner::coinbase(1, 0, 700, script);
        let mut block = miner::draft(&miner::genesis_tip(), vec![tx]);
        miner::seal(&mut block);
        let mut utxo = ReferenceUtxo::new();
        let undo = utxo.connect(&serialize(&block), 1).expect("a coinbase spends nothing");
        assert_eq!((utxo.txouts(), utxo.total_amount(), utxo.bogosize()), (1, 700, 55));
        utxo.disconnect(undo);
        assert_eq!((utxo.txouts(), utxo.total_amount(), utxo.bogosize()), (0, 0, 0));
    }

    #[test]
    fn unspendable_outputs_are_left_out() {
        assert!(is_unspendable(&[0x6a]));
        assert!(is_unspendable(&[0; 10_001]));
        assert!(!is_unspendable(&[0; 10_000]));
        assert!(!is_unspendable(&[]));
    }
}
