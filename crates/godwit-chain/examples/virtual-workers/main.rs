//! What a chain would take on more processors than there are, and which threads wait for which: `make
//! bench-workers` runs it.
//!
//! `virtual-workers CHAIN [WORKERS…]`: CHAIN is a generated chain with its summary beside it, WORKERS are
//! numbers of worker threads, 1, 2, 4, 8, 16 and 32 otherwise. The blocks of the file are handed in like
//! those of peers that are never too slow, and everything that the chain does is done, one job after the
//! other on one thread, whose processor time is the clock ([`VirtualThreads`]). Reading the file, opening the
//! directory and checking the headers take no time; what the threads of the sockets do is left out. The
//! worker threads come beside the connector and the single threads that append, commit, flush and merge, as
//! in a node with `-par`.
//!
//! So few blocks are on their way that none is read back from its file. Peers that are faster than the chain
//! have it decode most blocks twice.
//!
//! As on main, no output is looked up for BIP30.

mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use godwit_chain::{Chain, ChainOptions, CoinsMemory, NEAR_BLOCKS_BYTES, Poll};
use godwit_fault_disk::{Schedule, VirtualThreads};
use godwit_primitives::BlockHash;
use godwit_primitives::network::{Network, Params};
use godwit_store::disk::{RealDisk, StoreDisk};
use godwit_store::exec::Executor;
use godwit_store::scan::{BlockFileScanner, Scanned, ScannedBlock};
use rustix::time::{ClockId, clock_gettime};

const WORKERS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// After every block of the chain, by so much that nothing is recent.
const NOW: i64 = 2_000_000_000;

/// Bytes of blocks between the file and the tip: so few that the chain keeps all of them, with their keys and
/// coins, in memory.
const ON_THE_WAY: u64 = NEAR_BLOCKS_BYTES as u64 / 3;

/// What is run with each number of workers.
struct Case {
    name: &'static str,
    scripts: bool,
    /// MiB of coins (`-dbcache`); the same as those of `make bench-import` for the benchmark chain.
    dbcache: u64,
}

const CASES: [Case; 3] = [
    Case { name: "every script, coins in memory", scripts: true, dbcache: 450 },
    Case { name: "scripts off, coins in memory", scripts: false, dbcache: 450 },
    Case { name: "scripts off, 1/13 of the coins in memory", scripts: false, dbcache: 7 },
];

/// The chain's file, and what its summary says.
struct ChainFile {
    path: PathBuf,
    /// Bytes of its blocks.
    bytes: u64,
    /// The last block with transactions.
    last_busy: BlockHash,
    tip: BlockHash,
}

impl ChainFile {
    fn open(path: PathBuf) -> Self {
        let summary =
            fs::read(path.with_extension("json")).expect("the summary is beside the chain");
        let summary: serde_json::Value =
            serde_json::from_slice(&summary).expect("the summary is JSON");
        let hash = |name: &str| -> BlockHash {
            let text = summary[name].as_str().expect("a hash in the summary");
            text.parse().expect("a hash in the summary")
        };
        let bytes = summary["bytes"].as_u64().expect("bytes in the summary");
        Self { path, bytes, last_busy: hash("last_busy_block"), tip: hash("tip") }
    }
}

/// A run up to the tip, and what closing the chain took then.
struct Run {
    workers: usize,
    schedule: Schedule,
    closing: Duration,
}

fn main() {
    let mut args = env::args().skip(1);
    let file = ChainFile::open(args.next().expect("virtual-workers CHAIN [WORKERS…]").into());
    let mut workers: Vec<usize> =
        args.map(|word| word.parse().expect("a number of workers")).collect();
    if workers.is_empty() {
        workers = WORKERS.to_vec();
    }
    for case in &CASES {
        let runs: Vec<Run> = workers.iter().map(|count| run(&file, case, *count)).collect();
        print!("{}", report::of(case, file.bytes, &runs));
    }
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().expect("not negative"),
        time.tv_nsec.try_into().expect("less than a second"),
    )
}

fn run(file: &ChainFile, case: &Case, workers: usize) -> Run {
    let threads = VirtualThreads::new(processor_time);
    let dir = tempfile::tempdir().expect("a directory");
    let (mut chain, scanner, blocks) =
        threads.beside(|| open(file, case, workers, &threads, dir.path()));
    let buffers = chain.block_buffers().clone();
    let mut coming = blocks.iter().enumerate();
    loop {
        while takes_blocks(&chain)
            && let Some((ticket, block)) = coming.next()
        {
            let bytes = threads.beside(|| scanner.read(&block.place, &buffers));
            chain.receive_block(bytes.expect("the chain's file is read"), ticket as u64);
        }
        threads.catch_up();
        let poll = chain.poll(NOW).expect("no fault");
        threads.beside(|| chain.take_events());
        match poll {
            Poll::Progress => {}
            Poll::Waiting => assert!(threads.run_one(), "the chain waits for nothing"),
            Poll::Idle if coming.len() == 0 => break,
            Poll::Idle => assert!(takes_blocks(&chain), "the chain takes nothing, and rests"),
        }
    }
    assert_eq!(chain.tip_point().hash, file.tip, "it comes to the tip");
    let schedule = threads.schedule();
    chain.close().expect("no fault");
    let closing = threads.schedule().total - schedule.total;
    Run { workers, schedule, closing }
}

fn takes_blocks(chain: &Chain) -> bool {
    let memory = chain.status().memory;
    let waiting = memory.near + memory.lookahead + memory.window;
    let room = ON_THE_WAY.saturating_sub(waiting as u64 + chain.receiving());
    room > 0 && chain.room() > 0
}

/// A chain in an empty directory that has all headers, and the places of its blocks.
fn open(
    file: &ChainFile,
    case: &Case,
    workers: usize,
    threads: &VirtualThreads,
    dir: &Path,
) -> (Chain, BlockFileScanner, Vec<ScannedBlock>) {
    let mut params = Params::new(Network::Regtest);
    let disk = StoreDisk::new(Arc::new(RealDisk));
    let scanner = BlockFileScanner::open(&disk, &file.path, params.magic).expect("a chain's file");
    let blocks: Vec<ScannedBlock> = scanner
        .scan()
        .map(|found| match found.expect("the chain's file is read") {
            Scanned::Block(block) => block,
            Scanned::Skipped(skipped) => panic!("not a block: {skipped:?}"),
        })
        .collect();
    params.bip34_hash = Some(blocks[0].header.block_hash());
    let options = ChainOptions {
        assume_valid: (!case.scripts).then_some(file.last_busy),
        ..ChainOptions::new(
            Arc::new(params),
            Arc::new(threads.clone()),
            workers,
            CoinsMemory::Fixed(case.dbcache << 20),
        )
    };
    let mut chain = Chain::open(Arc::new(RealDisk), dir.join("chain"), options, [7; 16], NOW)
        .expect("an empty directory opens");
    for block in &blocks {
        let hash = block.header.block_hash();
        chain.accept_header(&block.header, hash, NOW).expect("a good header");
    }
    (chain, scanner, blocks)
}
