//! The thread that owns all sockets.
//!
//! It turns bytes into messages and back ([`Transport`]) and does not know what they mean.
//! Connections have turns of bounded length, one after the other. The node's inbox holds
//! [`INBOX_BYTES`] of events: a share for peers that owe blocks, one for all others. While a share is
//! full, nothing is read from those whose it is, so that a slow disk slows them down instead of
//! filling memory.

mod commands;
mod connection;
mod inbox;
mod keepalive;
mod listen;
mod route;
#[cfg(test)]
mod tests;
mod transports;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, TryRecvError, unbounded};
use godwit_p2p::{
    Command, ConnectFailure, NetAddress, NetCommand, NetEvent, PeerId, SEND_PAUSE, SocketId,
    Target, TokenBucket, Transport,
};
use godwit_secret::{leave_signals_to_other_threads, run_on_secret_stack};
use godwit_stream::{BufferPool, PooledStream};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};

use commands::{Commands, Order};
use connection::{Connection, Phase, TurnOutcome, failure};
use route::{Route, route};
use transports::Transports;

pub use inbox::{
    INBOX_BYTES, Inbox, InboxLimits, LastBlock, Outbox, PeerOutbox, Queued, Share, channel,
};
pub use listen::{BindError, Bound, bind, bind_everywhere, bind_for_onion};
pub use route::Proxies;
pub(crate) use transports::check_locked_memory;

/// How long opening a connection may take (Core `DEFAULT_CONNECT_TIMEOUT`).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a proxy may take to connect (Core `SOCKS5_RECV_TIMEOUT`).
const PROXY_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause after the system could not wait for sockets.
const FAILED_POLL_PAUSE: Duration = Duration::from_secs(1);

/// Events that the system reports at once.
const SYSTEM_EVENTS: usize = 256;

/// Bytes of messages on their way from the node to the thread. Hashing and encrypting answers may
/// take longer than making them: until the thread has caught up, the node handles no more requests.
const COMMAND_BYTES: usize = 8 << 20;

const WAKER: Token = Token(0);
/// Tokens of connections start here; those below are listeners'.
const FIRST_CONNECTION: usize = 1 << 16;

/// How to run the sockets.
pub struct SocketsConfig {
    /// The network's message start.
    pub magic: [u8; 4],
    /// Buffers of received blocks.
    pub pool: BufferPool,
    /// Proxies, by network.
    pub proxies: Proxies,
    /// Random: isolates the Tor circuits of this run from those of others.
    pub session: [u8; 8],
    /// Bytes that may be received per second; `None`: no limit.
    pub max_download_rate: Option<u64>,
    /// Whether connections may be encrypted. Needs locked memory.
    pub encrypted: bool,
}

/// The running thread. Dropping it closes all connections and waits for it.
pub struct Sockets {
    commands: Option<Sender<Order>>,
    /// Memory of the commands that the thread has not done.
    backlog: Arc<AtomicUsize>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Sockets {
    /// Starts the thread `godwit-net`. The events of this network arrive in the inbox.
    pub fn start(config: SocketsConfig, listeners: Vec<Bound>) -> io::Result<(Self, Inbox)> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (outbox, inbox) = channel(Arc::clone(&waker), InboxLimits::PRODUCT);
        // Unbounded in number; bounded in bytes by `has_room`, and by what the node does before it
        // looks there.
        let (sender, commands) = unbounded();
        let backlog = Arc::new(AtomicUsize::new(0));
        let commands = Commands { receiver: commands, backlog: Arc::clone(&backlog) };
        let mut network = Network::new(poll, config, commands, outbox);
        network.listen(listeners)?;
        let thread =
            std::thread::Builder::new().name("godwit-net".into()).spawn(move || run(network))?;
        Ok((Self { commands: Some(sender), backlog, waker, thread: Some(thread) }, inbox))
    }

    /// Whether the thread keeps up with its commands. If not, the node should not add to them, for
    /// example by answering requests. There is no event when the thread has caught up.
    pub fn has_room(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) < COMMAND_BYTES
    }

    /// Sends commands to the thread, in order.
    pub fn send(&self, commands: impl IntoIterator<Item = NetCommand>) {
        self.queue(commands.into_iter().map(Order::Net));
    }

    /// Has connections to onion addresses go through this proxy from now on.
    pub fn use_onion_proxy(&self, proxy: SocketAddr) {
        self.queue([Order::OnionProxy(proxy)]);
    }

    fn queue(&self, orders: impl IntoIterator<Item = Order>) {
        let Some(sender) = &self.commands else { return };
        let mut any = false;
        for order in orders {
            any = true;
            self.backlog.fetch_add(order.cost(), Ordering::Relaxed);
            // The thread ends only when this sender is dropped, or by a panic, which [`Inbox::take`] finds.
            if sender.send(order).is_err() {
                return;
            }
        }
        if any {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            log::error!("The sockets' thread cannot be woken: {error}");
        }
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.commands = None;
        self.wake();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the sockets' thread panicked");
        }
    }
}

/// Runs the thread, on a locked stack if there are keys: what the ciphers leave in their stack
/// frames must not reach a swap file. Where that stack cannot be had any more, although it could when the
/// node started, there are no keys: connections are not encrypted.
fn run(mut network: Network) {
    if network.config.encrypted {
        if let Err(error) = leave_signals_to_other_threads() {
            log::warn!("The sockets' thread handles signals beside its keys: {error}");
        }
        let mut given = Some(network);
        let error = match run_on_secret_stack(|| given.take().map(Network::run)) {
            Ok(_) => return,
            Err(error) => error,
        };
        log::warn!(
            "The sockets' thread has no locked stack; connections are not encrypted: {error}"
        );
        let Some(left) = given else { return };
        network = left;
        network.transports.encrypt_nothing();
    }
    network.run();
}

struct Listener {
    bound: Bound,
    /// A connection may be waiting.
    ready: bool,
}

/// The listening sockets.
struct Accepting {
    listeners: Vec<Listener>,
    /// Nothing is accepted before: the system had no descriptor or memory for a connection.
    after: Instant,
    /// When the log may say so again.
    next_warning: Option<Instant>,
}

/// The state of the thread.
struct Network {
    poll: Poll,
    config: SocketsConfig,
    commands: Commands,
    out: Outbox,
    started: Instant,
    accepting: Accepting,
    connections: HashMap<Token, Connection>,
    by_peer: HashMap<PeerId, Token>,
    next_token: usize,
    /// Accepted connections that the node has not adopted or refused yet; each holds no more than a
    /// descriptor.
    undecided: HashMap<Token, (TcpStream, NetAddress)>,
    /// Connections that wait for a turn.
    ready: VecDeque<Token>,
    /// Connections that may not read at the moment.
    held: Vec<Token>,
    /// Nothing is read from a connection for which more bytes than this wait to be written.
    pause_above: usize,
    /// Deadlines of connections that are not open yet.
    deadlines: BTreeSet<(Instant, Token)>,
    download: Option<TokenBucket>,
    transports: Transports,
}

/// How a connection is opened.
struct Dial {
    peer: PeerId,
    target: Target,
    transport: Transport,
    /// It is an attempt in plain, after the encrypted one was refused.
    again: bool,
}

impl Network {
    fn new(poll: Poll, config: SocketsConfig, commands: Commands, out: Outbox) -> Self {
        let rate = config.max_download_rate;
        let second = Duration::from_secs(1);
        let transports = Transports::new(config.magic, config.pool.clone(), config.encrypted);
        Self {
            poll,
            config,
            commands,
            out,
            started: Instant::now(),
            accepting: Accepting {
                listeners: Vec::new(),
                after: Instant::now(),
                next_warning: None,
            },
            connections: HashMap::new(),
            by_peer: HashMap::new(),
            next_token: FIRST_CONNECTION,
            undecided: HashMap::new(),
            ready: VecDeque::new(),
            held: Vec::new(),
            pause_above: SEND_PAUSE,
            deadlines: BTreeSet::new(),
            download: rate.map(|rate| TokenBucket::new(Duration::ZERO, rate, rate, second)),
            transports,
        }
    }

    fn listen(&mut self, listeners: Vec<Bound>) -> io::Result<()> {
        for (n, mut bound) in listeners.into_iter().enumerate() {
            self.poll.registry().register(&mut bound.socket, Token(n + 1), Interest::READABLE)?;
            self.accepting.listeners.push(Listener { bound, ready: true });
        }
        Ok(())
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(SYSTEM_EVENTS);
        while self.round(&mut events) {}
    }

    /// Waits for events, and gives each connection concerned a turn; `false` when the node has
    /// ended.
    fn round(&mut self, events: &mut Events) -> bool {
        let timeout = self.timeout();
        match self.poll.poll(events, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                log::error!("Waiting for sockets failed: {error}");
                std::thread::sleep(FAILED_POLL_PAUSE);
            }
        }
        for event in &*events {
            self.note(event);
        }
        if !self.take_commands() {
            return false;
        }
        self.accept();
        self.end_late(Instant::now());
        self.ready.extend(self.held.drain(..));
        for _ in 0..self.ready.len() {
            let Some(token) = self.ready.pop_front() else { break };
            self.turn(token);
        }
        true
    }

    fn timeout(&mut self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let mut next = self.deadlines.first().map(|(deadline, _)| *deadline);
        let mut at = |moment: Instant| next = Some(next.map_or(moment, |next| next.min(moment)));
        if self.may_accept() {
            at(self.accepting.after);
        }
        if self.held_has_room()
            && let (Some(bucket), Some(rate)) = (&mut self.download, self.config.max_download_rate)
            && let Some(ready) = bucket.ready_at(now - self.started, READ_AT_LEAST.min(rate))
        {
            at(self.started + ready);
        }
        next.map(|next| next.saturating_duration_since(now))
    }

    /// Whether a connection that is held waits for nothing but its rate.
    fn held_has_room(&self) -> bool {
        let mut held = self.held.iter().filter_map(|token| self.connections.get(token));
        held.any(|connection| self.out.poll_room(connection.share(&self.out)))
    }

    fn note(&mut self, event: &mio::event::Event) {
        let token = event.token();
        if let Some(connection) = self.connections.get_mut(&token) {
            // Errors and hang-ups are noticed when the socket is used.
            let ended = event.is_error() || event.is_read_closed() || event.is_write_closed();
            connection.readable |= event.is_readable() || ended;
            connection.writable |= event.is_writable() || ended;
            enqueue(&mut self.ready, token, connection);
        } else if let Some(n) = token.0.checked_sub(1)
            && let Some(listener) = self.accepting.listeners.get_mut(n)
        {
            listener.ready = true;
        }
    }

    /// Does the commands that have arrived; `false` when the node has ended.
    fn take_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Order::Net(command)) => self.apply_command(command),
                Ok(Order::OnionProxy(proxy)) => self.config.proxies.onion = Some(proxy),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn apply_command(&mut self, command: NetCommand) {
        match command {
            NetCommand::Adopt { socket, peer } => self.adopt(socket, peer),
            NetCommand::Refuse { socket } => drop(self.undecided.remove(&token_of(socket))),
            NetCommand::Connect { peer, target, v2 } => {
                let transport = self.transports.outgoing(v2);
                self.connect(Dial { peer, target, transport, again: false });
            }
            NetCommand::Send { peer, command, payload } => self.queue(peer, command, payload),
            NetCommand::ReadOn { peer } => {
                let Some(token) = self.by_peer.get(&peer).copied() else { return };
                let Some(connection) = self.connections.get_mut(&token) else { return };
                connection.awaits_read_on = false;
                enqueue(&mut self.ready, token, connection);
            }
            NetCommand::PauseAbove { queued } => self.pause_above(queued),
            NetCommand::ExpectBlock { peer, expected } => {
                let Some(token) = self.by_peer.get(&peer).copied() else { return };
                let Some(connection) = self.connections.get_mut(&token) else { return };
                connection.limits.expects_block = expected;
                // It may have been paused.
                enqueue(&mut self.ready, token, connection);
            }
            NetCommand::ExpectCompact { peer, expected } => {
                let Some(token) = self.by_peer.get(&peer) else { return };
                let Some(connection) = self.connections.get_mut(token) else { return };
                connection.limits.expects_compact = expected;
            }
            NetCommand::Disconnect { peer, .. } => {
                if let Some(token) = self.by_peer.get(&peer) {
                    self.close(*token);
                }
            }
        }
    }

    fn pause_above(&mut self, queued: usize) {
        self.pause_above = queued;
        for (token, connection) in &mut self.connections {
            connection.pause_above = queued;
            // It may have been paused.
            enqueue(&mut self.ready, *token, connection);
        }
    }

    fn queue(&mut self, peer: PeerId, command: Command, payload: PooledStream) {
        // If there is no such connection, an event that says so is on its way to the node.
        let Some(token) = self.by_peer.get(&peer).copied() else { return };
        let Some(connection) = self.connections.get_mut(&token) else { return };
        connection.note_length(payload.len());
        connection.transport.send(command, payload);
        enqueue(&mut self.ready, token, connection);
    }

    fn adopt(&mut self, socket: SocketId, peer: PeerId) {
        let token = token_of(socket);
        let Some((stream, address)) = self.undecided.remove(&token) else {
            self.out.send(NetEvent::Closed { peer });
            return;
        };
        // Not before the node has adopted the connection: keys take time and locked memory.
        let transport = self.transports.incoming();
        keepalive::watch(&stream);
        let phase = Phase::Open;
        let connection =
            Connection::new(stream, phase, peer, Some(address), transport, self.pause_above);
        if let Err(error) = self.register(token, connection) {
            log::warn!("A connection cannot be watched: {error}");
            self.out.send(NetEvent::Closed { peer });
        } else if let Some(connection) = self.connections.get_mut(&token) {
            enqueue(&mut self.ready, token, connection);
        }
    }

    fn connect(&mut self, dial: Dial) {
        let token = self.take_token();
        let Dial { peer, target, transport, again } = dial;
        let failed = |out: &Outbox, why| {
            out.send(match again {
                true => NetEvent::Closed { peer },
                false => NetEvent::ConnectFailed { peer, why },
            });
        };
        let (session, counter) = (self.config.session, token.0 as u64);
        let Some(way) = route(&target, &self.config.proxies, session, counter) else {
            return failed(&self.out, ConnectFailure::Local);
        };
        let Route { first_hop, proxy, address } = way;
        let stream = match TcpStream::connect(first_hop) {
            Ok(stream) => stream,
            Err(_) if proxy.is_some() => return failed(&self.out, ConnectFailure::Local),
            Err(error) => return failed(&self.out, failure(&error)),
        };
        let phase = Phase::Connecting { proxy, deadline: Instant::now() + CONNECT_TIMEOUT };
        let mut connection =
            Connection::new(stream, phase, peer, address, transport, self.pause_above);
        connection.target = Some(target);
        connection.reported.connected = again;
        if let Err(error) = self.register(token, connection) {
            log::warn!("A connection cannot be watched: {error}");
            failed(&self.out, ConnectFailure::Local);
        }
    }

    /// Opens a connection again, in plain: the other side does not understand the encrypted
    /// protocol.
    fn retry_in_plain(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let (peer, target) = (connection.peer, connection.target.take());
        let limits = connection.limits;
        let plain = connection.transport.fall_back();
        self.close(token);
        let (Some(target), Some(transport)) = (target, plain) else { return };
        log::debug!("retrying with v1 transport protocol for peer={}", peer.0);
        self.connect(Dial { peer, target, transport, again: true });
        if let Some(token) = self.by_peer.get(&peer)
            && let Some(connection) = self.connections.get_mut(token)
        {
            connection.limits = limits;
        }
    }

    fn take_token(&mut self) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        token
    }

    fn register(&mut self, token: Token, mut connection: Connection) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut connection.stream, token, interest)?;
        if let Some(deadline) = connection.deadline() {
            self.deadlines.insert((deadline, token));
        }
        self.by_peer.insert(connection.peer, token);
        self.connections.insert(token, connection);
        Ok(())
    }

    /// Gives up connections whose deadline has passed.
    fn end_late(&mut self, now: Instant) {
        // Collected first: a connection that is opened meanwhile has a deadline later than `now`.
        let mut late = Vec::new();
        while self.deadlines.first().is_some_and(|(deadline, _)| *deadline <= now) {
            late.extend(self.deadlines.pop_first());
        }
        for (deadline, token) in late {
            let Some(connection) = self.connections.get(&token) else { continue };
            if connection.deadline() != Some(deadline) {
                continue;
            }
            if connection.transport_is_refused() {
                self.retry_in_plain(token);
            } else {
                connection.report_connect_failed(connection.late(), self.out.of(Share::Messages));
                self.close(token);
            }
        }
    }

    fn turn(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        connection.is_queued = false;
        let now = self.started.elapsed();
        let share = connection.share(&self.out);
        let most = if self.out.poll_room(share) { usize::MAX } else { 0 };
        let allowed = match &mut self.download {
            Some(bucket) => bucket.take_up_to(now, READ_AT_MOST.min(most as u64)) as usize,
            None => most,
        };
        let mut left_over = allowed;
        let deadline_before = connection.deadline();
        let proxy_deadline = Instant::now() + PROXY_TIMEOUT;
        let left = connection.turn(&mut left_over, proxy_deadline, self.out.of(share));
        if let Some(bucket) = &mut self.download {
            bucket.grant(left_over as u64);
        }
        if connection.deadline() != deadline_before
            && let Some(deadline) = connection.deadline()
        {
            self.deadlines.insert((deadline, token));
        }
        match left {
            TurnOutcome::Idle => {}
            TurnOutcome::More => enqueue(&mut self.ready, token, connection),
            TurnOutcome::Held => {
                connection.is_queued = true;
                self.held.push(token);
            }
            TurnOutcome::Refused => self.retry_in_plain(token),
            TurnOutcome::Over => self.close(token),
        }
    }

    /// Drops a connection without reporting it to the node.
    fn close(&mut self, token: Token) {
        let Some(mut connection) = self.connections.remove(&token) else { return };
        self.by_peer.remove(&connection.peer);
        if let Err(error) = self.poll.registry().deregister(&mut connection.stream) {
            log::debug!("a socket could not be deregistered: {error}");
        }
    }
}

/// Least bytes for which a held connection reads again, so that a low `-maxdownloadrate` is not
/// used up by reads of a few bytes.
const READ_AT_LEAST: u64 = 1 << 10;

/// Most bytes that are reserved for a turn under `-maxdownloadrate`.
const READ_AT_MOST: u64 = 64 << 10;

fn enqueue(ready: &mut VecDeque<Token>, token: Token, connection: &mut Connection) {
    if !connection.is_queued {
        connection.is_queued = true;
        ready.push_back(token);
    }
}

fn token_of(socket: SocketId) -> Token {
    Token(socket.0 as usize)
}
