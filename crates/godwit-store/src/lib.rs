//! godwit's storage: block files, undo, block index, UTXO store and the commit that ties them.
//!
//! Nothing here decides validity. Everything reaches the operating system through
//! [`disk::Disk`], so that tests and simulations see every read, write and fsync.

pub mod disk;
pub mod error;
#[cfg(test)]
mod fault;

pub use error::StoreError;
