//! Regtest miner, chain generator and simulated network for tests, demo and benchmarks; never a
//! dependency of shipped code.
//!
//! - [`miner`]: block assembly in separate steps, proof of work at regtest's difficulty.
//! - [`chain`]: whole chains with real signatures, deterministic from a seed ([`plan`] has their
//!   shapes), written in Bitcoin Core's block file framing.
//! - [`blocks`]: single blocks, of godwit's own types.
//! - [`cold`]: more coins than there is memory for.
//! - [`mod@restamp`]: the same chains at another time.
//! - [`hostile`]: blocks on both sides of every rule.
//! - [`mod@reference`]: a naive UTXO set to compare with.
//! - [`network`]: a simulated network of scripted peers, honest and hostile.
//! - [`programs`]: whole programs as a user runs them.

pub mod blocks;
pub mod chain;
pub mod cold;
pub mod empty;
pub mod hostile;
pub mod keys;
pub mod lock;
pub mod miner;
pub mod network;
pub mod plan;
pub mod programs;
pub mod reference;
pub mod restamp;
pub mod rng;
pub mod spend;
pub mod summary;

mod assemble;
mod lane;
