//! What large answers make a node hold, while they are made and afterwards, measured on a real process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use godwit_primitives::sha256::sha256d;
use godwit_sim::chain::generated;
use godwit_sim::plan::{ChainPlan, FanOut, OLD_COINS, SEGWIT, Stretch};

use crate::blocks::write_dat;
use crate::loopback::unix_now;
use crate::node::Node;
use crate::running::Running;
use crate::sync::{free_port, stops_in_time, wait_until};

/// As many as there are threads that run methods.
const CLIENTS: usize = 16;
/// Blocks of full weight at the tip.
const LARGE_BLOCKS: usize = 2;
/// What the process may take beside what it takes when nobody asks: one answer, of which values and text are
/// some 60 MiB, and 4 MiB at the end of each of glibc's areas. Where each thread kept what one answer took,
/// it was several times as much.
const MOST: usize = 256 << 20;

/// A node with a chain that ends in [`LARGE_BLOCKS`] with thousands of transactions, and their hashes.
fn with_chain() -> (Node, Vec<String>) {
    let plan = ChainPlan {
        name: "many transactions",
        maturing: 140,
        stretches: vec![
            Stretch::FanOut(FanOut { blocks: 2, locks: OLD_COINS, bare: 0, giant: 0 }),
            Stretch::Mix(&SEGWIT, LARGE_BLOCKS as u32),
        ],
        block_weight: 3_900_000,
        empty_tail: 0,
        ..ChainPlan::small(1)
    };
    let plan = plan.ending_at(unix_now() as u32).expect("a short chain");
    let blocks = generated(&plan);
    let large = blocks[blocks.len() - LARGE_BLOCKS..].iter().map(|block| {
        assert!(block.len() > 900_000, "{} bytes", block.len());
        sha256d(&block[..80]).iter().rev().map(|byte| format!("{byte:02x}")).collect()
    });
    let (node, large) = (Node::new("regtest"), large.collect());
    let path = node.beside("chain.dat");
    write_dat(&path, &blocks);
    node.import(&path);
    (node, large)
}

/// Bytes of the process that no file has.
fn anonymous(running: &Running<'_>) -> usize {
    running.memory("RssAnon")
}

/// A block as JSON with the outputs that it spends; bytes of the answer, or nothing where others were first
/// for ten seconds.
fn ask(port: u16, block: &str) -> Option<usize> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the node listens");
    let request = format!(
        "GET /rest/block/{block}.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("the node reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the node answers");
    if answer.starts_with(b"HTTP/1.1 503 ") {
        return None;
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{:.100}", String::from_utf8_lossy(&answer));
    Some(answer.len())
}

/// The most that it holds until all clients have their answers, one block after the other.
fn most_while_all_ask(running: &Running<'_>, port: u16, blocks: &[String]) -> usize {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let most = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(anonymous(running));
                thread::sleep(Duration::from_millis(2));
            }
            most
        });
        let ask_all = || {
            for block in blocks {
                let bytes = std::iter::repeat_with(|| ask(port, block)).flatten().next();
                assert!(bytes > Some(4 << 20), "{bytes:?}");
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask_all)).collect();
        // Also when one fails.
        let ended: Vec<_> = clients.into_iter().map(|client| client.join().is_ok()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(|ended| *ended), "all are answered");
        most.join().expect("it reads a file")
    })
}

/// Each of the threads that run methods makes several large answers. Only memory that goes back to the system
/// is there for the next one.
#[test]
fn what_16_clients_that_ask_for_large_blocks_make_a_process_hold_is_bounded() {
    let (node, blocks) = with_chain();
    let (port, rpc_port) = (free_port(), free_port());
    let words = [
        format!("-bind=127.0.0.1:{port}"),
        format!("-rpcport={rpc_port}"),
        "-noconnect".to_owned(),
        "-rest=1".to_owned(),
        "-memory=448".to_owned(),
    ];
    let words: Vec<&dyn AsRef<std::ffi::OsStr>> = words.iter().map(|word| word as _).collect();
    let mut running = Running::start(&node, &words);
    wait_until("it listens", || running.log().0.contains(&format!("Bound to 127.0.0.1:{port}")));
    let before = anonymous(&running);
    let most = most_while_all_ask(&running, rpc_port, &blocks);
    // The last answers have been sent, and go.
    let mut behind = 0;
    wait_until("the memory of the answers goes", || {
        behind = anonymous(&running);
        behind.saturating_sub(before) < MOST / 2
    });
    let mib = |bytes: usize| bytes >> 20;
    eprintln!("{} MiB before, {} at the most, {} behind", mib(before), mib(most), mib(behind));
    assert!(most.saturating_sub(before) < MOST, "{} MiB, {} before", mib(most), mib(before));
    stops_in_time(running);
}
