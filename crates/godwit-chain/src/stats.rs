//! Statistics of the UTXO set, as in Core's `gettxoutsetinfo`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_primitives::muhash::MuHash3072;
use godwit_primitives::sha256::{Sha256, sha256};
use godwit_primitives::{Amount, Coin, OutPoint, Txid, coin};
use godwit_store::utxo::{CoinEntry, Layers, OutPointOrder};
use godwit_store::{ChainPoint, StoreError};
use godwit_stream::DataStream;

use crate::chain::Chain;
use crate::coins_view::CoinsView;
use crate::error::ChainError;

/// Memory for sorting coins by outpoint.
pub(crate) const SORT_BYTES: usize = 64 << 20;

/// Counts and sums over the unspent outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of unspent outputs.
    pub txouts: u64,
    /// Core's size that does not depend on a database: 50 bytes an output and its script.
    pub bogosize: u64,
    /// Their sum, in satoshi.
    pub total_amount: Amount,
}

impl Totals {
    fn add(&mut self, coin: &Coin) {
        self.txouts += 1;
        self.bogosize += coin::bogo_size(coin.script_pubkey.len());
        // The coins of a snapshot need not be those of a valid chain: its hash may be the user's.
        self.total_amount = self.total_amount.saturating_add(coin.value);
    }

    fn merge(&mut self, other: Self) {
        self.txouts += other.txouts;
        self.bogosize += other.bogosize;
        self.total_amount = self.total_amount.saturating_add(other.total_amount);
    }
}

/// Statistics at one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtxoStats {
    pub tip: ChainPoint,
    /// Counts and sums.
    pub totals: Totals,
    /// `muhash`, in the order in which it is hashed; Core prints it reversed.
    pub muhash: [u8; 32],
    /// `hash_serialized_3`, likewise.
    pub hash_serialized: [u8; 32],
}

/// Memory in which a view's coins are sorted at most.
pub const VIEW_SORT_BYTES: usize = 8 << 20;

/// Coins between two looks whether the caller wants no more.
const LOOK_EVERY: u64 = 1 << 10;

/// What is hashed of all coins together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoinsHash {
    Nothing,
    /// As a set.
    MuHash,
    /// In the order of outpoints: Core's `hash_serialized_3`.
    Serialized,
}

/// Statistics of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewStats {
    pub totals: Totals,
    /// Transactions with unspent outputs.
    pub transactions: u64,
    /// As it is hashed; Core prints it reversed. Zeros where nothing is hashed.
    pub hash: [u8; 32],
}

impl CoinsView {
    /// Counts and hashes them, sorted within so much memory, which takes scratch files of about their size.
    ///
    /// # Errors
    ///
    /// A failed system call or a damaged block; [`StoreError::Stopped`] once `is_over` says so.
    pub fn stats(
        &self,
        hash: CoinsHash,
        memory: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<ViewStats, ChainError> {
        let mut sorted = self.layers.sorted(OutPointOrder::Numeric, memory, is_over)?;
        let (mut totals, mut transactions) = (Totals::default(), 0);
        let (mut set, mut serialized) = (MuHash3072::new(), Sha256::new());
        let (mut last, mut bytes) = (None::<Txid>, DataStream::new());
        while let Some(entry) = sorted.next()? {
            if totals.txouts.is_multiple_of(LOOK_EVERY) && is_over() {
                return Err(StoreError::Stopped.into());
            }
            let coin = decoded(&entry)?;
            totals.add(&coin);
            transactions += u64::from(last != Some(entry.outpoint.txid));
            last = Some(entry.outpoint.txid);
            match hash {
                CoinsHash::Nothing => {}
                CoinsHash::MuHash => insert_coin(&mut set, &entry.outpoint, &coin),
                CoinsHash::Serialized => {
                    bytes.clear();
                    coin::txout_ser(&entry.outpoint, &coin, &mut bytes);
                    serialized.update(bytes.as_slice());
                }
            }
        }
        let hash = match hash {
            CoinsHash::Nothing => [0; 32],
            CoinsHash::MuHash => set.finalize(),
            CoinsHash::Serialized => sha256(&serialized.finalize()),
        };
        Ok(ViewStats { totals, transactions, hash })
    }
}

impl Chain {
    /// Flushes, and counts and hashes the coins at the tip as a set: totals, and `muhash` as in
    /// [`UtxoStats`].
    pub fn coins_muhash(&mut self) -> Result<(Totals, [u8; 32]), ChainError> {
        self.flush()?;
        muhash_totals(&self.coins.layers(), self.env.workers, &AtomicBool::default())
    }

    /// Flushes and takes the statistics of the coins at the tip.
    pub fn utxo_stats(&mut self) -> Result<UtxoStats, ChainError> {
        let (totals, muhash) = self.coins_muhash()?;
        let hash_serialized = hash_serialized(&self.coins.layers(), &|| false)?;
        Ok(UtxoStats { tip: self.tip_point(), totals, muhash, hash_serialized })
    }
}

fn decoded(entry: &CoinEntry<'_>) -> Result<Coin, ChainError> {
    entry.coin().map_err(|_| ChainError::DamagedCoin(entry.outpoint))
}

/// Adds one unspent output to a MuHash.
pub fn insert_coin(muhash: &mut MuHash3072, outpoint: &OutPoint, coin: &Coin) {
    let mut bytes = DataStream::new();
    coin::txout_ser(outpoint, coin, &mut bytes);
    muhash.insert(bytes.as_slice());
}

/// Removes one unspent output from a MuHash.
pub fn remove_coin(muhash: &mut MuHash3072, outpoint: &OutPoint, coin: &Coin) {
    let mut bytes = DataStream::new();
    coin::txout_ser(outpoint, coin, &mut bytes);
    muhash.remove(bytes.as_slice());
}

/// Totals and MuHash; partitions are scanned on `threads` threads.
pub(crate) fn muhash_totals(
    layers: &Arc<Layers>,
    threads: usize,
    stop: &AtomicBool,
) -> Result<(Totals, [u8; 32]), ChainError> {
    let threads = threads.clamp(1, layers.partitions());
    let shares: Vec<_> = std::thread::scope(|scope| {
        let spawn = |share: usize| {
            let thread = std::thread::Builder::new().name(format!("godwit-stats-{share}"));
            let partitions = (share..layers.partitions()).step_by(threads);
            let scan = move || muhash_of_partitions(layers, partitions, stop);
            thread.spawn_scoped(scope, scan).map_err(ChainError::Spawn)
        };
        let running: Vec<_> = (0..threads).map(spawn).collect();
        running.into_iter().map(|thread| thread.map(|thread| thread.join())).collect()
    });
    let (mut totals, mut muhash) = (Totals::default(), MuHash3072::new());
    for share in shares {
        let (share_totals, share_hash) = share?.unwrap_or(Err(ChainError::ThreadPanicked))?;
        totals.merge(share_totals);
        muhash.combine(&share_hash);
    }
    Ok((totals, muhash.finalize()))
}

fn muhash_of_partitions(
    layers: &Arc<Layers>,
    partitions: impl Iterator<Item = usize>,
    stop: &AtomicBool,
) -> Result<(Totals, MuHash3072), ChainError> {
    let (mut totals, mut muhash) = (Totals::default(), MuHash3072::new());
    for partition in partitions {
        let mut scan = layers.scan_partition(partition)?;
        while let Some(entry) = scan.next()? {
            if stop.load(Ordering::Relaxed) {
                return Err(StoreError::Stopped.into());
            }
            let coin = decoded(&entry)?;
            totals.add(&coin);
            insert_coin(&mut muhash, &entry.outpoint, &coin);
        }
    }
    Ok((totals, muhash))
}

/// Double SHA-256 over all outputs in the order of their outpoints; [`StoreError::Stopped`] once `is_over`
/// says so.
pub(crate) fn hash_serialized(
    layers: &Arc<Layers>,
    is_over: &dyn Fn() -> bool,
) -> Result<[u8; 32], ChainError> {
    let mut sorted = layers.sorted(OutPointOrder::Numeric, SORT_BYTES, is_over)?;
    let (mut hash, mut count) = (Sha256::new(), 0_u64);
    let mut bytes = DataStream::new();
    while let Some(entry) = sorted.next()? {
        if count.is_multiple_of(LOOK_EVERY) && is_over() {
            return Err(StoreError::Stopped.into());
        }
        count += 1;
        bytes.clear();
        coin::txout_ser(&entry.outpoint, &decoded(&entry)?, &mut bytes);
        hash.update(bytes.as_slice());
    }
    Ok(sha256(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use godwit_primitives::MAX_MONEY;
    use godwit_primitives::coin::ScriptBytes;

    use super::*;

    #[test]
    fn coins_that_no_chain_can_have_are_added_up_without_an_overflow() {
        let coin = Coin {
            value: MAX_MONEY,
            script_pubkey: ScriptBytes::new(),
            height: 1,
            coinbase: false,
        };
        let mut totals = Totals::default();
        for _ in 0..=i64::MAX / MAX_MONEY {
            totals.add(&coin);
        }
        totals.merge(totals);
        assert_eq!(totals.total_amount, i64::MAX);
    }
}
