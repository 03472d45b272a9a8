//! What peers that ask and read nothing make a node hold, measured on a real process.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use godwit_p2p::PEER_MEMORY;
use godwit_primitives::sha256::sha256d;
use godwit_sim::chain::generated;
use godwit_sim::miner::REGTEST_MAGIC;
use godwit_sim::plan::{ChainPlan, FanOut, GIANT_INSCRIPTIONS, OLD_COINS, Stretch};
use socket2::{Domain, Socket, Type};

use crate::blocks::write_dat;
use crate::loopback::unix_now;
use crate::node::Node;
use crate::running::Running;
use crate::sync::{free_port, stops_in_time, wait_until};

/// More than a node lets in by default, which is 114.
const ATTACKERS: usize = 120;
/// Blocks of 1.7 MB at the tip.
const LARGE_BLOCKS: usize = 6;
/// What a process may take beside the budget: 13 MiB when it starts, and the pool's idle buffers.
const OTHER_MEMORY: usize = 32 << 20;
/// MSG_BLOCK, and MSG_WITNESS_FLAG (BIP144).
const BLOCK: u32 = 2;
const WITNESS: u32 = 1 << 30;

/// A chain that ends now, with [`LARGE_BLOCKS`].
fn chain() -> &'static [Vec<u8>] {
    static BLOCKS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    BLOCKS.get_or_init(|| {
        let coins = || FanOut { blocks: 1, locks: OLD_COINS, bare: 0, giant: 425_000 };
        let mut stretches: Vec<Stretch> =
            (0..LARGE_BLOCKS).map(|_| Stretch::FanOut(coins())).collect();
        stretches.push(Stretch::Mix(&GIANT_INSCRIPTIONS, LARGE_BLOCKS as u32));
        let plan = ChainPlan {
            name: "large blocks",
            maturing: 140,
            stretches,
            block_weight: 1_750_000,
            empty_tail: 0,
            ..ChainPlan::small(1)
        };
        let plan = plan.ending_at(unix_now() as u32).expect("a short chain");
        let blocks = generated(&plan);
        let large = &blocks[blocks.len() - LARGE_BLOCKS..];
        assert!(large.iter().all(|block| block.len() > 1_600_000));
        blocks
    })
}

fn with_chain() -> Node {
    let node = Node::new("regtest");
    let path = node.beside("chain.dat");
    write_dat(&path, chain());
    node.import(&path);
    node
}

fn serve(node: &Node, port: u16) -> Running<'_> {
    let bind = format!("-bind=127.0.0.1:{port}");
    let mut running = Running::start(node, &[&"-noconnect", &bind, &"-maxconnections=200"]);
    wait_until("it listens", || running.log().0.contains(&format!("Bound to 127.0.0.1:{port}")));
    running
}

fn frame(command: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = REGTEST_MAGIC.to_vec();
    message.extend(command.as_bytes());
    message.resize(16, 0);
    message.extend((payload.len() as u32).to_le_bytes());
    message.extend(&sha256d(payload)[..4]);
    message.extend(payload);
    message
}

/// Version and verack of a peer that has nothing.
fn greeting() -> Vec<u8> {
    let mut version = 70_016i32.to_le_bytes().to_vec();
    version.extend([0; 8]);
    version.extend(unix_now().to_le_bytes());
    version.extend([0; 2 * 26]);
    version.extend(*b"a nonce.");
    version.extend(b"\x08/silent/");
    version.extend([0; 5]);
    [frame("version", &version), frame("verack", &[])].concat()
}

fn getdata(kind: u32, block: &[u8]) -> Vec<u8> {
    let mut payload = vec![1];
    payload.extend(kind.to_le_bytes());
    payload.extend(sha256d(&block[..80]));
    frame("getdata", &payload)
}

/// The first transaction of a block.
fn getblocktxn(block: &[u8]) -> Vec<u8> {
    let mut payload = sha256d(&block[..80]).to_vec();
    payload.extend([1, 0]);
    frame("getblocktxn", &payload)
}

fn connect(port: u16, receive_buffer: usize) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(receive_buffer).expect("it is not open");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    socket.connect(&address.into()).expect("the node listens");
    socket.into()
}

/// A connection that sends and never reads.
struct Silent {
    stream: TcpStream,
    unsent: Vec<u8>,
    open: bool,
}

impl Silent {
    fn connect(port: u16) -> Self {
        let stream = connect(port, 4 << 10);
        stream.set_nonblocking(true).expect("a socket");
        Self { stream, unsent: greeting(), open: true }
    }

    /// Sends what it can; nothing more before the last was taken.
    fn ask(&mut self, requests: &[u8]) {
        if !self.open {
            return;
        }
        if self.unsent.is_empty() {
            self.unsent.extend(requests);
        }
        match self.stream.write(&self.unsent) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // The node has left it.
            Err(_) => self.open = false,
        }
    }
}

/// Attacks until told to stop; who is left connects again. How many were left.
fn attack(port: u16, requests: &[u8], stop: &AtomicBool) -> usize {
    let mut peers: Vec<Silent> = (0..ATTACKERS).map(|_| Silent::connect(port)).collect();
    let mut left = 0;
    while !stop.load(Ordering::Relaxed) {
        for peer in &mut peers {
            peer.ask(requests);
            if !peer.open {
                left += 1;
                *peer = Silent::connect(port);
            }
        }
        thread::sleep(Duration::from_millis(100));
    }
    left
}

/// Does something while the attack goes on.
fn beside_attack(port: u16, requests: &[u8], what: impl FnOnce()) {
    struct Stops<'a>(&'a AtomicBool);
    impl Drop for Stops<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let attack = scope.spawn(|| attack(port, requests, &stop));
        // Also when it fails.
        let stops = Stops(&stop);
        what();
        drop(stops);
        eprintln!("{} were left", attack.join().expect("it connects"));
    });
}

#[track_caller]
fn check(running: &Running<'_>, before: usize) {
    let peak = running.memory("VmHWM");
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    eprintln!("resident: {:.1} MiB before, {:.1} MiB at the most", mib(before), mib(peak));
    assert!(peak < PEER_MEMORY + OTHER_MEMORY, "{:.1} MiB", mib(peak));
}

/// One transaction of a block near the tip, and block 1 without witness: small answers, for which blocks
/// of 1.7 MB are read.
fn small_answers() -> Vec<u8> {
    let blocks = chain();
    [getblocktxn(&blocks[blocks.len() - 4]), getdata(BLOCK, &blocks[0])].concat()
}

/// All of the process's memory is compared with the budget and 32 MiB: what it takes before is in the
/// latter.
#[test]
fn b7_what_120_peers_make_a_process_hold_that_read_nothing_is_bounded() {
    const ATTACK: Duration = Duration::from_secs(20);
    let node = with_chain();
    let port = free_port();
    let running = serve(&node, port);
    let before = running.memory("VmRSS");
    beside_attack(port, &small_answers(), || thread::sleep(ATTACK));
    check(&running, before);
    // Now for as many large blocks as they get, so that their queues fill up.
    let large = chain()[chain().len() - LARGE_BLOCKS..].iter();
    let large = large.flat_map(|block| getdata(BLOCK | WITNESS, block));
    let requests: Vec<u8> = large.chain(small_answers()).collect();
    beside_attack(port, &requests, || thread::sleep(ATTACK));
    check(&running, before);
    stops_in_time(running);
}

/// Reads 50 kB a second.
fn read_slowly(stream: &mut TcpStream, bytes: &mut [u8]) {
    const STEP: usize = 5_000;
    for part in bytes.chunks_mut(STEP) {
        let pause = Duration::from_millis(100) * part.len() as u32 / STEP as u32;
        let started = Instant::now();
        stream.read_exact(part).expect("the node keeps the connection");
        thread::sleep(pause.saturating_sub(started.elapsed()));
    }
}

/// The payload of the next message of that command.
fn receive_slowly(stream: &mut TcpStream, wanted: &[u8]) -> Vec<u8> {
    loop {
        let mut header = [0; 24];
        read_slowly(stream, &mut header);
        let length = u32::from_le_bytes(header[16..20].try_into().expect("four bytes"));
        let mut payload = vec![0; length as usize];
        read_slowly(stream, &mut payload);
        let end = header[4..16].iter().position(|byte| *byte == 0).unwrap_or(12);
        let command = &header[4..4 + end];
        if command == wanted {
            return payload;
        }
        if command == b"ping" {
            stream.write_all(&frame("pong", &payload)).expect("the node keeps the connection");
        }
    }
}

#[test]
fn a_peer_that_reads_50_kb_a_second_is_served_beside_120_that_read_nothing() {
    const DOWNLOADED: usize = 2;
    let node = with_chain();
    let port = free_port();
    let running = serve(&node, port);
    let before = running.memory("VmRSS");
    let large = &chain()[chain().len() - LARGE_BLOCKS..];
    beside_attack(port, &small_answers(), || {
        thread::sleep(Duration::from_secs(2));
        let mut slow = connect(port, 64 << 10);
        slow.set_read_timeout(Some(Duration::from_secs(180))).expect("a time is not zero");
        slow.write_all(&greeting()).expect("the node reads");
        for block in &large[..DOWNLOADED] {
            slow.write_all(&getdata(BLOCK | WITNESS, block)).expect("the node reads");
            assert!(receive_slowly(&mut slow, b"block") == *block);
        }
        slow.write_all(&frame("ping", &[5; 8])).expect("the node reads");
        assert_eq!(receive_slowly(&mut slow, b"pong"), [5; 8]);
    });
    check(&running, before);
    stops_in_time(running);
}
