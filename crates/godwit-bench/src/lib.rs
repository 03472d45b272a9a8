//! Benchmarks of godwit beside its rivals, as whole programs: this crate starts processes, watches
//! them from outside and links neither side, so it cannot favour one.
//!
//! `import-vs-core` runs `godwit import` and `bitcoind -loadblock` on the same bytes in alternating
//! rounds: [`contest`] is its loop, [`node`] the two command lines, [`measured`] the stopwatch,
//! [`report`] what it writes.

pub mod arguments;
pub mod case;
pub mod chain_summary;
pub mod contest;
pub mod datadir;
pub mod failure;
pub mod machine;
pub mod measured;
pub mod node;
pub mod node_log;
pub mod report;
pub mod spread;
