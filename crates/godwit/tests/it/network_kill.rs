//! A node that is killed at any moment while it fetches a chain from another one, and started again.
//!
//! A relay between the two reads off what the client asks for: after a kill, nothing that had come to
//! lie in its block files is asked for again, and the server sends no more than what it was asked for.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use godwit_p2p::FRAME_HEADER_SIZE;
use godwit_primitives::BlockHash;
use godwit_sim::rng::Rng;
use godwit_stream::SpanReader;

use crate::blocks::{blocks_of, header};
use crate::kill::{CACHE_MIB, Kept, Reference, print, reference, succeeds};
use crate::node::Node;
use crate::progress::Phase;
use crate::records;
use crate::running::{Moment, Running};
use crate::sync::{free_port, serve};

/// What a server sends beside blocks in one run: the handshake, one message of headers, pings.
const OTHER_BYTES: u64 = 200_000;

/// The line of a run that is to be killed: the whole chain would come over loopback in a second, and
/// takes some twenty runs through this.
pub(crate) const LINE: &str = "-maxdownloadrate=5M";

/// Kills of one client after its last block had come; then it may end. What is left of such a run is an
/// import's, which has kills of its own.
const COMPLETE_KILLS: usize = 3;

/// What passed a relay.
#[derive(Default)]
pub(crate) struct Passed {
    /// Blocks that the client asked for, in order.
    pub(crate) asked: Vec<BlockHash>,
    /// Bytes from the server.
    sent: u64,
}

/// Passes connections on to a port, and reads what the client says.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: JoinHandle<Passed>,
}

impl Relay {
    pub(crate) fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut all = Passed::default();
            loop {
                let (client, _) = listener.accept().expect("it listens");
                if is_over.load(Ordering::Relaxed) {
                    return all;
                }
                let passed = relay(client, port);
                all.asked.extend(passed.asked);
                all.sent += passed.sent;
            }
        });
        Self { address, over, thread }
    }

    /// To be called when the client is dead.
    pub(crate) fn finish(self) -> Passed {
        self.over.store(true, Ordering::Relaxed);
        // Nothing was said yet on a connection that is accepted from here on.
        let _wake = TcpStream::connect(self.address).expect("it listens");
        self.thread.join().expect("it does not panic")
    }
}

/// Passes both directions on until one side is gone.
fn relay(client: TcpStream, port: u16) -> Passed {
    let server = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    thread::scope(|scope| {
        let back = scope.spawn(|| {
            let sent = pass_bytes(&server, &client);
            // Both may be closed already.
            client.shutdown(Shutdown::Both).ok();
            sent
        });
        let mut asked = Vec::new();
        // It ends in an error when the client is killed.
        pass_messages(&client, &server, &mut asked).ok();
        server.shutdown(Shutdown::Both).ok();
        Passed { asked, sent: back.join().expect("it does not panic") }
    })
}

fn pass_bytes(mut from: &TcpStream, mut to: &TcpStream) -> u64 {
    let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
    loop {
        match from.read(&mut buffer) {
            Ok(read) if read > 0 && to.write_all(&buffer[..read]).is_ok() => bytes += read as u64,
            _ => return bytes,
        }
    }
}

fn pass_messages(
    mut from: &TcpStream,
    mut to: &TcpStream,
    asked: &mut Vec<BlockHash>,
) -> io::Result<()> {
    loop {
        let mut message = vec![0; FRAME_HEADER_SIZE];
        from.read_exact(&mut message)?;
        let length = u32::from_le_bytes(message[16..20].try_into().expect("four bytes"));
        message.resize(FRAME_HEADER_SIZE + length as usize, 0);
        from.read_exact(&mut message[FRAME_HEADER_SIZE..])?;
        if message[4..].starts_with(b"getdata\0") {
            let mut reader = SpanReader::new(&message[FRAME_HEADER_SIZE..]);
            for _ in 0..reader.compact_size().expect("a count") {
                reader.u32().expect("a type");
                asked.push(BlockHash::from_bytes(reader.array().expect("a hash")));
            }
        }
        to.write_all(&message)?;
    }
}

/// What the kills cost.
#[derive(Default)]
struct Report {
    kills: usize,
    /// Kills while blocks were on their way.
    in_flight: usize,
    /// Kills after the last block had arrived.
    complete: usize,
    /// Data directories that were brought to the end.
    rounds: usize,
    /// Blocks that were asked for and had not arrived at a kill.
    lost: u64,
    lost_bytes: u64,
    replays: usize,
}

/// One client and what is to be true of it.
struct Client<'a> {
    node: Node,
    sizes: &'a HashMap<BlockHash, u64>,
    kept: Kept,
    /// Blocks in its files at the last look.
    stored: HashMap<BlockHash, u64>,
}

impl Client<'_> {
    /// Runs it and kills it at a moment, if there is one; whether it was killed before its end.
    fn run(&mut self, moment: Option<Moment>, port: u16, report: &mut Report) -> bool {
        let relay = Relay::start(port);
        let height = self.sizes.len();
        // The relay reads along.
        let mut words = ["-listen=0", "-par=1", "-v2transport=0"].map(str::to_owned).to_vec();
        words.push(format!("-dbcache={CACHE_MIB}"));
        words.push(format!("-connect={}", relay.address));
        words.push(format!("-stopatheight={height}"));
        words.extend(moment.map(|_| LINE.to_owned()));
        let words: Vec<&dyn AsRef<OsStr>> = words.iter().map(|word| word as _).collect();
        let mut running = Running::start(&self.node, &words);
        let killed = moment.is_some_and(|moment| running.wait_for(moment) && running.kill());
        // A run that ended by itself is waited for, one that was killed has been.
        running.wait();
        let passed = relay.finish();
        report.replays += usize::from(running.log().starts(Phase::Replay) > 0);
        let (blocks, undo) = (records::blocks(&self.node), records::undo_records(&self.node));
        self.kept.check(running.log(), blocks, undo);
        match killed {
            true => drop(running),
            false => succeeds(&self.node, running),
        }
        self.check_asked(&passed, killed, report);
        killed
    }

    fn check_asked(&mut self, passed: &Passed, killed: bool, report: &mut Report) {
        let mut asked: HashMap<BlockHash, u64> = HashMap::new();
        for hash in &passed.asked {
            assert!(!self.stored.contains_key(hash), "{hash} was there and is asked for again");
            assert!(asked.insert(*hash, self.sizes[hash]).is_none(), "{hash} is asked for twice");
        }
        let most = asked.values().sum::<u64>() + OTHER_BYTES;
        assert!(passed.sent <= most, "{} bytes sent, at most {most} asked for", passed.sent);
        let mut stored = HashMap::new();
        for hash in records::block_hashes(&self.node) {
            assert!(stored.insert(hash, self.sizes[&hash]).is_none(), "{hash} is stored twice");
        }
        let lost = asked.iter().filter(|(hash, _)| !stored.contains_key(*hash));
        let (blocks, bytes) = lost.fold((0, 0), |(n, sum), (_, bytes)| (n + 1, sum + bytes));
        report.lost += blocks;
        report.lost_bytes += bytes;
        report.kills += usize::from(killed);
        report.in_flight += usize::from(killed && blocks > 0);
        report.complete += usize::from(killed && stored.len() == self.sizes.len());
        assert!(killed || blocks == 0, "what was asked for by a run that ends well is stored");
        self.stored = stored;
    }
}

/// The size of each block of the chain.
fn sizes(reference: &Reference) -> HashMap<BlockHash, u64> {
    let file = fs::read(&reference.path).expect("the chain is there");
    let blocks = blocks_of(&file).into_iter();
    blocks.map(|block| (header(block).block_hash(), block.len() as u64)).collect()
}

/// At least `least_in_flight` of the kills must hit what they are for: blocks on their way.
fn kill(wanted: usize, least_in_flight: usize, seed: u64) {
    let reference = reference();
    let _serves_alone = reference.serve_alone();
    let sizes = sizes(reference);
    let port = free_port();
    let mut serving = serve(&reference.node, port);
    let mut rng = Rng::new(seed);
    let mut report = Report::default();
    while report.kills < wanted {
        let node = Node::new("regtest");
        let (kept, stored) = (Kept::default(), HashMap::new());
        let mut client = Client { node, sizes: &sizes, kept, stored };
        let complete = report.complete;
        loop {
            let delay = Duration::from_millis(rng.between(10, 2_500));
            let goes_on = report.kills < wanted && report.complete - complete < COMPLETE_KILLS;
            let moment = goes_on.then_some(Moment::After(delay));
            if !client.run(moment, port, &mut report) {
                break;
            }
        }
        assert_eq!(client.node.stats(), reference.stats);
        assert_eq!(client.stored.len(), sizes.len(), "each block is stored once");
        assert_eq!(records::blocks(&client.node).torn, 0);
        report.rounds += 1;
    }
    let (_, status) = serving.terminate();
    assert!(status.success(), "{status}");
    report.print(&sizes);
    let in_flight = report.in_flight;
    assert!(
        in_flight >= least_in_flight,
        "{in_flight} kills hit a download, not {least_in_flight}"
    );
}

impl Report {
    fn print(&self, sizes: &HashMap<BlockHash, u64>) {
        let Self { kills, in_flight, complete, rounds, lost, lost_bytes, replays } = self;
        let mut text = String::new();
        let chain = sizes.values().sum::<u64>() >> 20;
        writeln!(
            text,
            "network kill test: {kills} kills, {in_flight} with blocks on their way, {complete} after \
             the last had arrived; {replays} starts applied blocks again\n  {rounds} syncs of {} blocks \
             ({chain} MiB) ended in the server's UTXO set; asked for again: {lost} blocks ({} MiB) that \
             had not arrived, none that had",
            sizes.len(),
            lost_bytes >> 20,
        )
        .expect("a string grows");
        print(&text);
    }
}

#[test]
fn twenty_kills_of_a_sync_fetch_again_only_what_had_not_arrived() {
    kill(20, 3, 11);
}

#[test]
#[ignore = "half an hour"]
fn five_hundred_kills_of_a_sync_fetch_again_only_what_had_not_arrived() {
    kill(500, 500 / 3, 12);
}
