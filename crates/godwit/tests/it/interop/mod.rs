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
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// An option of both nodes.
const FILTERS: &str = "-blockfilterindex=basic";

/// How long anything may take before a test gives up. No result depends on it.
const LIMIT: Duration = Duration::from_secs(180);

/// Between two looks.
const POLL: Duration = Duration::from_millis(5);

/// Waits until something holds; how long that took.
#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        thread::sleep(POLL);
    }
    started.elapsed()
}

/// To the handle itself: libtest drops what a passing test printed.
fn say(line: &str) {
    io::stderr().write_all(format!("{line}\n").as_bytes()).expect("stderr is open");
}

/// A port of the loopback interface that nobody listens on and that this process gave to no other
/// node. They lie below those that Linux takes for outgoing connections.
fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const RANGE: u16 = 10_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % u32::from(RANGE)) as u16;
    for _ in 0..RANGE {
        let offset = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % RANGE;
        if TcpListener::bind(("127.0.0.1", FIRST + offset)).is_ok() {
            return FIRST + offset;
        }
    }
    panic!("no free port");
}
