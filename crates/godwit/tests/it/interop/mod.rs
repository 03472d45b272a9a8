//! godwit and nodes that nobody here wrote: bitcoind and btcd serve it, and sync from it, on
//! loopback.
//!
//! `make interop` builds these programs into `~/.cache/godwit`; without them these tests say
//! `SKIPPED`. Each node of a test is a process with a data directory and ports of its own. Times that
//! are printed count from the answer of the node where something happened.

mod api;
mod bitcoind;
mod block;
mod btcd;
mod chain;
mod encrypted;
mod filters;
mod follower;
mod hand_over;
mod kernel;
mod long;
mod peer;
mod process;
mod psbt;
mod rpc;
mod tools;
mod tor;

use std::io::{self, Write};

use godwit_sim::programs::{LIMIT, POLL, free_port, wait_until};

/// An option of both nodes.
const FILTERS: &str = "-blockfilterindex=basic";

/// To the handle itself: libtest drops what a passing test printed.
fn say(line: &str) {
    io::stderr().write_all(format!("{line}\n").as_bytes()).expect("stderr is open");
}
