//! Chains from genesis to tip, judged by Bitcoin Core's own answers or its engine.

mod datadir;
mod feed;
mod golden;
mod kernel;
mod panics;
mod pruned_branches;
mod pruning;
mod restart;
mod snapshots;
