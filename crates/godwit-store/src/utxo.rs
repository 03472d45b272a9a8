//! The UTXO store: unspent coins by outpoint.
//!
//! Changes go to a memtable. When it is *rotated* after a block, it is sealed, and a background
//! thread *flushes* it: writes it as an immutable, sorted *run*, from which its coins are read then, and
//! syncs that; another thread merges runs. There is no write-ahead log: what a crash loses is applied again
//! from the block files.
//!
//! [`UtxoStore`] connects two parts that do not know each other, and whose private state only they change,
//! but for the entries of the active memtable: [`memtables`], in memory, and [`runs`], in files. It has the
//! jobs begun that bring coins from one to the other, divides the memory between them, and publishes both
//! together as [`Layers`].
//!
//! # Commits
//!
//! 1. At tip `T` the chain calls [`UtxoStore::rotate`] and remembers the [`SealId`] with `T`.
//! 2. Once [`UtxoStore::flushed`] has reached the seal and the scripts up to `T` are verified, it
//!    writes [`UtxoStore::manifest`] and `T` in one database transaction.
//! 3. It calls [`UtxoStore::committed`]. Files that no manifest needs are then removed.
//!
//! A seal whose block turns out invalid is never committed; its run stays, and later seals take the
//! block's changes back. Merges mix only committed runs, so that the manifest of a seal is the
//! state at this seal and nothing newer.

mod arena;
mod background;
mod beyond_parity;
mod budget;
mod clean;
mod commits;
mod compressed;
mod derived;
mod entry;
mod entry_sum;
mod filter;
#[cfg(test)]
mod fixtures;
mod inspect;
mod jobs;
mod key;
mod layers;
mod lost_coins;
mod manifest;
mod memory;
mod memtable;
mod memtables;
mod merge;
mod merge_policy;
mod room;
mod run;
mod run_lookup;
mod runs;
mod scrub;
mod sealed;
mod segments;
mod slots;
mod sort;
mod stop;
mod store;
mod unnamed;
mod worker_pools;
mod write_rate;

pub use background::{Rotation, SealId, manifest_again, newest_seal, replaced_bytes, written_seal};
pub use beyond_parity::{CoinsRepair, SavedPass, Tally};
pub(crate) use budget::MAX_UNFLUSHED;
pub use budget::{CacheMinima, MemoryUsage, UtxoConfig};
pub use commits::ManifestId;
pub use compressed::{CoinCode, CompressedCoins, OutputEncoder};
pub(crate) use inspect::RepairMode;
pub use inspect::{CoinsInspection, RunsInspected};
pub use key::{HashedOutPoint, UtxoHasher};
pub use layers::{CoinEntry, EpochPin, Layers, LayersReader, Scan, Searched};
pub use lost_coins::LostCoins;
pub use manifest::Manifest;
pub use memtable::{KnownCoin, Probe, Taken};
pub(crate) use run::file::{parity_tells, run_fingerprints};
pub use scrub::{RunScrub, Scrubbed};
pub use sealed::SealedSince;
pub use segments::Shape;
pub use sort::{MIN_SORT_MEMORY, OutPointOrder, SortedScan};
pub use store::{Counters, UtxoStore, sealed_since, unsealed_coin};
pub(crate) use unnamed::{check_removable, remove_runs};
pub use worker_pools::UtxoEvent;

#[cfg(test)]
mod tests;
