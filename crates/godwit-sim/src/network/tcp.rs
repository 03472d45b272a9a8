//! Scripted peers on real sockets.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::conduct::Conduct;
use super::session::Session;

/// Longest wait of a read or a write; then timers are checked.
const TURN: Duration = Duration::from_millis(4);

/// A scripted peer that listens on a port of its own. Dropping it ends its connections.
#[derive(Debug)]
pub struct TcpPeer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    conduct: Arc<Conduct>,
    magic: [u8; 4],
    unix_start: i64,
    started: Instant,
    stop: AtomicBool,
    connections: AtomicU64,
}

impl TcpPeer {
    /// Listens on a free port of 127.0.0.1. `unix_start`: the peer's clock now.
    pub fn listen(conduct: Conduct, magic: [u8; 4], unix_start: i64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        // Accepting waits in small steps, so that the thread can be stopped.
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            conduct: Arc::new(conduct),
            magic,
            unix_start,
            started: Instant::now(),
            stop: AtomicBool::new(false),
            connections: AtomicU64::new(0),
        });
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name(format!("peer-{}", address.port()))
            .spawn(move || accept(&listener, &own))?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that were opened to it so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for TcpPeer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("a scripted peer panicked");
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut running = Vec::new();
    while !shared.stop.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok((stream, _)) => {
                let seed = shared.connections.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(shared);
                running.push(thread::spawn(move || converse(stream, &shared, seed)));
            }
            Err(_) => thread::sleep(TURN),
        }
    }
    for thread in running {
        thread.join().expect("a scripted peer panicked");
    }
}

fn converse(mut stream: TcpStream, shared: &Shared, seed: u64) {
    let prepared = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_nodelay(true))
        .and_then(|()| stream.set_read_timeout(Some(TURN)))
        .and_then(|()| stream.set_write_timeout(Some(TURN)));
    if prepared.is_err() {
        return;
    }
    let conduct = Arc::clone(&shared.conduct);
    let start = shared.started.elapsed();
    let mut session = Session::new(conduct, shared.magic, false, start, shared.unix_start, seed);
    while !shared.stop.load(Ordering::SeqCst) {
        let now = shared.started.elapsed();
        if !session.writable(now, &mut stream) {
            return;
        }
        if !session.takes_more() {
            thread::sleep(TURN);
        } else if !session.readable(now, &mut stream) {
            return;
        }
    }
}
