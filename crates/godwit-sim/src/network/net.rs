//! Connections between the node and its peers, and the queue of events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::time::Duration;

use super::faults::{Fault, FaultKind, KEEPALIVE, Lost, Noticed};
use super::link::{LinkSpec, Pipe};
use crate::rng::Rng;

/// Names a connection. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The node under test.
    Node,
    /// The scripted peer.
    Peer,
}

impl End {
    fn other(self) -> Self {
        match self {
            End::Node => End::Peer,
            End::Peer => End::Node,
        }
    }
}

/// An event that an end has to handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A connection was established, and this end may write. The end that opened it hears of it a
    /// latency after the other.
    Opened(ConnectionId, End),
    /// Bytes have arrived.
    Readable(ConnectionId, End),
    /// There is room again, after a write that found none.
    Writable(ConnectionId, End),
    /// The other end has closed; everything it sent before has arrived.
    Ended(ConnectionId, End),
    /// A timer set with [`Network::wake`].
    Timer(u64),
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Tell(Happening),
    /// A segment reaches the node's own line, and has to pass it.
    AtLine(ConnectionId, Vec<u8>),
    Arrive(ConnectionId, End, Vec<u8>),
    End(ConnectionId, End),
    /// The fault with this number begins.
    Fault(usize),
    /// The ends notice that the connection is dead.
    Reset(ConnectionId),
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    at: Duration,
    /// Entries of the same time happen in the order in which they were made.
    sequence: u64,
    kind: Kind,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug)]
struct Connection {
    /// Number of the peer.
    peer: usize,
    to_node: Pipe,
    to_peer: Pipe,
    node_closed: bool,
    peer_closed: bool,
}

impl Connection {
    fn towards(&mut self, end: End) -> &mut Pipe {
        match end {
            End::Node => &mut self.to_node,
            End::Peer => &mut self.to_peer,
        }
    }

    fn closed(&mut self, end: End) -> &mut bool {
        match end {
            End::Node => &mut self.node_closed,
            End::Peer => &mut self.peer_closed,
        }
    }
}

/// The node's own line, which all connections share.
#[derive(Debug)]
struct Line {
    /// Bytes a second in each direction; `None`: never the bottleneck.
    rate: Option<u64>,
    down_free: Duration,
    up_free: Duration,
}

/// All connections and the clock.
#[derive(Debug)]
pub struct Network {
    now: Duration,
    rng: Rng,
    queue: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    next_connection: u64,
    connections: BTreeMap<ConnectionId, Connection>,
    line: Line,
    faults: Vec<Fault>,
}

impl Network {
    /// A network without connections. `line`: bytes a second, in each direction, that the node can
    /// exchange with all its peers together.
    pub fn new(seed: u64, line: Option<u64>) -> Self {
        Self {
            now: Duration::ZERO,
            rng: Rng::new(seed),
            queue: BinaryHeap::new(),
            sequence: 0,
            next_connection: 0,
            connections: BTreeMap::new(),
            line: Line { rate: line, down_free: Duration::ZERO, up_free: Duration::ZERO },
            faults: Vec::new(),
        }
    }

    /// Sets the faults of a run. To be called before the first connection.
    pub fn plan_faults(&mut self, faults: Vec<Fault>) {
        for (number, fault) in faults.iter().enumerate() {
            if fault.kind != FaultKind::Stall {
                self.push(fault.at, Kind::Fault(number));
            }
        }
        self.faults = faults;
    }

    /// Whether a connection to the peer can be opened now.
    pub fn is_reachable(&self, peer: usize) -> bool {
        !self.faults.iter().any(|fault| fault.bars(peer, self.now))
    }

    /// Whether bytes vanish in some direction of the connection.
    pub fn is_dead(&self, id: ConnectionId) -> bool {
        let dead = |connection: &Connection| connection.to_node.dead || connection.to_peer.dead;
        self.connections.get(&id).is_some_and(dead)
    }

    /// Whether the peer's own links have failed so far.
    pub fn has_failed(&self, peer: usize) -> bool {
        self.faults.iter().any(|fault| fault.whom == Some(peer) && fault.at <= self.now)
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The next event, if there is one until `until`; otherwise `None`, and the clock shows `until`.
    pub fn next(&mut self, until: Duration) -> Option<Happening> {
        while self.queue.peek().is_some_and(|Reverse(entry)| entry.at <= until) {
            let Reverse(entry) = self.queue.pop().expect("just seen");
            self.now = self.now.max(entry.at);
            if let Some(happening) = self.happen(entry.kind) {
                return Some(happening);
            }
        }
        self.now = self.now.max(until);
        None
    }

    /// A [`Happening::Timer`] at that time.
    pub fn wake(&mut self, at: Duration, token: u64) {
        self.push(at, Kind::Tell(Happening::Timer(token)));
    }

    /// Opens a connection from `opener` between the node and this peer.
    pub fn connect(&mut self, peer: usize, spec: LinkSpec, opener: End) -> ConnectionId {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let connection = Connection {
            peer,
            to_node: Pipe::new(spec),
            to_peer: Pipe::new(spec),
            node_closed: false,
            peer_closed: false,
        };
        self.connections.insert(id, connection);
        let accepted = self.delayed(peer, self.now + spec.latency);
        let opened = self.delayed(peer, accepted + spec.latency);
        self.push(accepted, Kind::Tell(Happening::Opened(id, opener.other())));
        self.push(opened, Kind::Tell(Happening::Opened(id, opener)));
        id
    }

    /// One end of a connection, to be read from and written to.
    pub fn socket(&mut self, id: ConnectionId, end: End) -> Socket<'_> {
        Socket { network: self, id, end }
    }

    /// Closes an end. What it has written still arrives; what it has not read is lost.
    pub fn close(&mut self, id: ConnectionId, end: End) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if std::mem::replace(connection.closed(end), true) {
            return;
        }
        connection.towards(end).drain();
        if connection.node_closed && connection.peer_closed {
            self.connections.remove(&id);
            return;
        }
        let at = connection.towards(end.other()).end_arrives(now);
        let at = self.delayed(self.connections[&id].peer, at);
        self.push(at, Kind::End(id, end.other()));
    }

    fn push(&mut self, at: Duration, kind: Kind) {
        let entry = Entry { at, sequence: self.sequence, kind };
        self.sequence += 1;
        self.queue.push(Reverse(entry));
    }

    /// The time at which something planned to arrive at `arrival` does arrive.
    fn delayed(&self, peer: usize, arrival: Duration) -> Duration {
        let later = |at, fault: &Fault| fault.delays_to(peer, at).unwrap_or(at);
        // Faults may be in any order: an arrival delayed by one may meet another.
        let once = |at| self.faults.iter().fold(at, later);
        let (mut at, mut next) = (arrival, once(arrival));
        while next > at {
            (at, next) = (next, once(next));
        }
        at
    }

    /// Applies a fault to existing connections.
    fn fail(&mut self, fault: Fault) {
        let concerned = |(_, connection): &(_, &mut Connection)| fault.concerns(connection.peer);
        let mut resets = Vec::new();
        for (id, connection) in self.connections.iter_mut().filter(concerned) {
            match fault.kind {
                FaultKind::Stall => {}
                FaultKind::Reset => resets.push((self.now, *id)),
                FaultKind::BlackHole { lost, noticed } => {
                    connection.to_node.dead |= lost != Lost::ToPeer;
                    connection.to_peer.dead |= lost != Lost::ToNode;
                    if noticed == Noticed::Soon {
                        resets.push((self.now + KEEPALIVE, *id));
                    }
                }
            }
        }
        for (at, id) in resets {
            self.push(at, Kind::Reset(id));
        }
    }

    fn reset(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        for end in [End::Node, End::Peer] {
            let pipe = connection.towards(end);
            pipe.drain();
            (pipe.dead, pipe.ended) = (true, true);
        }
        for end in [End::Node, End::Peer] {
            self.push(self.now, Kind::Tell(Happening::Ended(id, end)));
        }
    }

    fn happen(&mut self, kind: Kind) -> Option<Happening> {
        match kind {
            Kind::Tell(happening) => Some(happening).filter(|happening| self.concerns(happening)),
            Kind::Fault(number) => {
                self.fail(self.faults[number]);
                None
            }
            Kind::Reset(id) => {
                self.reset(id);
                None
            }
            Kind::AtLine(id, segment) => {
                let peer = self.connections.get(&id)?.peer;
                let rate = self.line.rate.expect("only of a limited line");
                let at = passing(&mut self.line.down_free, self.now, segment.len(), rate);
                let at = self.delayed(peer, at);
                self.push(at, Kind::Arrive(id, End::Node, segment));
                None
            }
            Kind::Arrive(id, end, segment) => {
                let connection = self.connections.get_mut(&id)?;
                let closed = *connection.closed(end);
                if connection.towards(end).dead {
                    return None;
                }
                connection.towards(end).arrive(segment);
                if closed {
                    connection.towards(end).drain();
                }
                (!closed).then_some(Happening::Readable(id, end))
            }
            Kind::End(id, end) => self.end(id, end),
        }
    }

    /// Behind a shared line, the last segments may come after the news that the sender has closed.
    fn end(&mut self, id: ConnectionId, end: End) -> Option<Happening> {
        let now = self.now;
        let line = self.line.down_free;
        let connection = self.connections.get_mut(&id)?;
        if connection.towards(end).dead {
            return None;
        }
        if end == End::Node && connection.to_node.has_bytes_under_way() {
            let at = line.max(now + Duration::from_millis(1));
            self.push(at, Kind::End(id, end));
            return None;
        }
        connection.towards(end).ended = true;
        (!*connection.closed(end)).then_some(Happening::Ended(id, end))
    }

    /// Whether the end is to be told; events of a connection that it has left are not.
    fn concerns(&mut self, happening: &Happening) -> bool {
        match happening {
            Happening::Timer(_) => true,
            Happening::Opened(id, end) => self.connections.get_mut(id).is_some_and(|connection| {
                !*connection.closed(*end) && !connection.towards(*end).dead
            }),
            Happening::Readable(id, end)
            | Happening::Writable(id, end)
            | Happening::Ended(id, end) => {
                self.connections.get_mut(id).is_some_and(|connection| !*connection.closed(*end))
            }
        }
    }

    fn write(&mut self, id: ConnectionId, end: End, bytes: &[u8]) -> io::Result<usize> {
        let now = self.now;
        let connection = self.connections.get_mut(&id).ok_or(io::ErrorKind::NotConnected)?;
        if *connection.closed(end) || connection.towards(end).ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let pipe = connection.towards(end.other());
        let most = bytes.len().min(pipe.room());
        if most == 0 {
            pipe.starved = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let from = match (end, self.line.rate) {
            (End::Node, Some(_)) => now.max(self.line.up_free),
            _ => now,
        };
        let (len, at) = pipe.accept(from, most, &mut self.rng);
        let segment = bytes[..len].to_vec();
        let kind = match (end, self.line.rate) {
            (End::Peer, Some(_)) => Kind::AtLine(id, segment),
            (End::Peer, None) => Kind::Arrive(id, End::Node, segment),
            (End::Node, rate) => {
                if let Some(rate) = rate {
                    passing(&mut self.line.up_free, now, len, rate);
                }
                Kind::Arrive(id, End::Peer, segment)
            }
        };
        let peer = self.connections[&id].peer;
        self.push(self.delayed(peer, at), kind);
        Ok(len)
    }

    fn read(&mut self, id: ConnectionId, end: End, out: &mut [u8]) -> io::Result<usize> {
        let now = self.now;
        let connection = self.connections.get_mut(&id).ok_or(io::ErrorKind::NotConnected)?;
        let pipe = connection.towards(end);
        let len = pipe.take(out);
        if len == 0 {
            let ended = pipe.ended;
            return if ended { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        if std::mem::take(&mut pipe.starved) {
            let at = now + pipe.latency();
            self.push(at, Kind::Tell(Happening::Writable(id, end.other())));
        }
        Ok(len)
    }
}

/// When `bytes` that come `now` have passed a line that is busy until `free`.
fn passing(free: &mut Duration, now: Duration, bytes: usize, rate: u64) -> Duration {
    let takes = Duration::from_nanos(bytes as u64 * 1_000_000_000 / rate.max(1));
    *free = now.max(*free) + takes;
    *free
}

/// One end of a connection, as a socket that never blocks.
#[derive(Debug)]
pub struct Socket<'a> {
    network: &'a mut Network,
    id: ConnectionId,
    end: End,
}

impl io::Read for Socket<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.network.read(self.id, self.end, out)
    }
}

impl io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.network.write(self.id, self.end, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
