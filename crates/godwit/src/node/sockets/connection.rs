//! One connection: being opened, at a proxy, open.

use std::io::{self, Read, Write as _};
use std::time::{Duration, Instant};

use godwit_p2p::{
    Command, ConnectFailure, NetAddress, NetEvent, PeerId, Protocol, Receive, ReceiveLimits,
    Socks5, Target, Transport, TransportError, Write,
};
use mio::net::TcpStream;

use super::inbox::{LastBlock, Outbox, PeerOutbox, Share};
use super::keepalive;
use super::listen::is_exhausted;

/// Bytes read from a connection before the next one has its turn; each message or packet costs
/// `PACKET_COST` beside its bytes.
pub(super) const READ_TURN: usize = 256 << 10;

/// Bytes written to a connection before the next one has its turn.
const WRITE_TURN: usize = 256 << 10;

/// How long a peer that was offered an encrypted connection may be silent before it is tried in
/// plain. Core waits for the timeout of the handshake, 60 s.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The phase of a connection.
pub(super) enum Phase {
    /// The system is connecting. To a proxy, if there is a `proxy` handshake to do afterwards.
    Connecting { proxy: Option<Socks5>, deadline: Instant },
    /// Talking to the proxy.
    Proxy { handshake: Socks5, deadline: Instant },
    /// Messages can flow.
    Open,
    /// The peer does not speak the protocol; nothing more is read from it.
    Failed,
}

/// How a connection's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnOutcome {
    /// There is nothing to do until the system reports something.
    Idle,
    /// There is more to do at once.
    More,
    /// There may be more to read, but the allowance is used up.
    Held,
    /// The other side closed an encrypted connection without sending anything: it is to be tried in
    /// plain.
    Refused,
    /// The connection is over, and the node was told.
    Over,
}

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) phase: Phase,
    pub(super) peer: PeerId,
    /// The other side's address, if known.
    pub(super) address: Option<NetAddress>,
    /// Target of a connection that we opened.
    pub(super) target: Option<Target>,
    pub(super) transport: Transport,
    /// Deadline for the answer to our public key.
    answer_by: Option<Instant>,
    /// Which large messages are accepted from it.
    pub(super) limits: ReceiveLimits,
    /// Nothing is read until the node has served the peer's request.
    pub(super) awaits_read_on: bool,
    /// Nothing is read while more bytes than this wait to be written.
    pub(super) pause_above: usize,
    /// The system reported that it is readable, and no read has found otherwise.
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// It is in the queue for a turn.
    pub(super) is_queued: bool,
    /// A large message was sent, and its reader may be busy.
    waits_for_reader: bool,
    pub(super) reported: Reported,
    last_block: LastBlock,
}

/// What was last reported to the node about a connection.
#[derive(Default)]
pub(super) struct Reported {
    /// That it is connected.
    pub(super) connected: bool,
    /// Which protocol it speaks.
    protocol: bool,
    /// Bytes of the message under way.
    arrived: usize,
    /// Memory of the message under way.
    memory: usize,
    /// Bytes that were sent, since the start.
    sent: u64,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        phase: Phase,
        peer: PeerId,
        address: Option<NetAddress>,
        transport: Transport,
        pause_above: usize,
    ) -> Self {
        // An accepted connection is ready from the start: the system reports changes only.
        let ready = matches!(phase, Phase::Open);
        Self {
            stream,
            phase,
            peer,
            address,
            target: None,
            transport,
            answer_by: None,
            limits: ReceiveLimits::default(),
            awaits_read_on: false,
            pause_above,
            readable: ready,
            writable: ready,
            is_queued: false,
            waits_for_reader: false,
            reported: Reported::default(),
            last_block: LastBlock::default(),
        }
    }

    /// The part of the node's inbox that its events take.
    pub(super) fn share(&self, out: &Outbox) -> Share {
        self.last_block.share(&self.limits, &self.transport, out)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Connecting { deadline, .. } | Phase::Proxy { deadline, .. } => Some(deadline),
            Phase::Open => self.answer_by.filter(|_| self.transport.total_received() == 0),
            Phase::Failed => None,
        }
    }

    /// Whether the other end of a closed connection seems not to understand the encrypted protocol.
    pub(super) fn transport_is_refused(&self) -> bool {
        self.target.is_some() && self.transport.looks_refused()
    }

    /// Whether the connection to the proxy is still being opened.
    fn reaches_proxy(&self) -> bool {
        matches!(self.phase, Phase::Connecting { proxy: Some(_), .. })
    }

    /// A message of this length is sent.
    pub(super) fn note_length(&mut self, length: usize) {
        if length > keepalive::TAKEN_AT_ONCE && !self.waits_for_reader {
            self.waits_for_reader = true;
            keepalive::wait_for_reader(&self.stream);
        }
    }

    /// Does what can be done without waiting. `allowance` is the number of bytes that may be read;
    /// those read are subtracted.
    pub(super) fn turn(
        &mut self,
        allowance: &mut usize,
        proxy_deadline: Instant,
        out: PeerOutbox<'_>,
    ) -> TurnOutcome {
        if let Phase::Connecting { .. } = self.phase
            && let Some(left) = self.finish_connecting(proxy_deadline, out)
        {
            return left;
        }
        if let Phase::Proxy { .. } = self.phase
            && let Some(left) = self.proxy_turn(out)
        {
            return left;
        }
        let peer = self.peer;
        let wrote = self.write_turn();
        self.report_sent(peer, out);
        if wrote == TurnOutcome::Over {
            return self.closed(peer, out);
        }
        let read = match self.phase {
            Phase::Failed => TurnOutcome::Idle,
            _ => self.read_turn(peer, allowance, out),
        };
        // The handshake may have answered what was read.
        let answers = self.writable && self.transport.wants_write();
        match (read, wrote) {
            (TurnOutcome::Idle, TurnOutcome::More) => TurnOutcome::More,
            (TurnOutcome::Idle, _) if answers => TurnOutcome::More,
            (read, _) => read,
        }
    }

    /// `None` when it is connected and the turn goes on.
    fn finish_connecting(
        &mut self,
        proxy_deadline: Instant,
        out: PeerOutbox<'_>,
    ) -> Option<TurnOutcome> {
        if !self.writable {
            return Some(TurnOutcome::Idle);
        }
        let result = match self.stream.take_error() {
            Ok(None) => self.stream.peer_addr().map(|_| ()),
            Ok(Some(error)) | Err(error) => Err(error),
        };
        match result {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                self.writable = false;
                return Some(TurnOutcome::Idle);
            }
            Err(error) => return Some(self.connect_failed(&error, out)),
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Open);
        match phase {
            Phase::Connecting { proxy: Some(handshake), .. } => {
                self.phase = Phase::Proxy { handshake, deadline: proxy_deadline };
            }
            _ => self.connected(out),
        }
        None
    }

    fn connected(&mut self, out: PeerOutbox<'_>) {
        // Messages are written whole; waiting for more to send would only add latency.
        if let Err(error) = self.stream.set_nodelay(true) {
            log::debug!("no delay cannot be set: {error}");
        }
        keepalive::watch(&self.stream);
        // To be tried, not waited for: the system reports changes only.
        (self.readable, self.writable) = (true, true);
        if self.transport.protocol() == Protocol::Detecting {
            self.answer_by = Some(Instant::now() + ANSWER_TIMEOUT);
        }
        if !self.reported.connected {
            self.reported.connected = true;
            out.send(NetEvent::Connected { peer: self.peer, address: self.address });
        }
    }

    fn connect_failed(&mut self, error: &io::Error, out: PeerOutbox<'_>) -> TurnOutcome {
        let why = if self.reaches_proxy() { ConnectFailure::Local } else { failure(error) };
        self.report_connect_failed(why, out);
        TurnOutcome::Over
    }

    /// Whose fault it is that the deadline has passed.
    pub(super) fn late(&self) -> ConnectFailure {
        match &self.phase {
            Phase::Connecting { proxy: None, .. } => ConnectFailure::Unanswered,
            Phase::Proxy { handshake, .. } if handshake.awaits_destination() => {
                ConnectFailure::Unanswered
            }
            _ => ConnectFailure::Local,
        }
    }

    pub(super) fn report_connect_failed(&self, why: ConnectFailure, out: PeerOutbox<'_>) {
        let peer = self.peer;
        out.send(match self.reported.connected {
            true => NetEvent::Closed { peer },
            false => NetEvent::ConnectFailed { peer, why },
        });
    }

    /// `None` when the proxy has connected us and the turn goes on.
    fn proxy_turn(&mut self, out: PeerOutbox<'_>) -> Option<TurnOutcome> {
        let Phase::Proxy { handshake, .. } = &mut self.phase else { return None };
        let failure = match talk_to_proxy(handshake, &mut self.stream) {
            Ok(ProxyProgress::Connected) => {
                self.phase = Phase::Open;
                self.connected(out);
                return None;
            }
            Ok(ProxyProgress::Waiting) => {
                (self.readable, self.writable) = (false, false);
                return Some(TurnOutcome::Idle);
            }
            Err(failure) => failure,
        };
        self.report_connect_failed(failure, out);
        Some(TurnOutcome::Over)
    }

    fn write_turn(&mut self) -> TurnOutcome {
        if !self.writable || self.transport.queued_bytes() == 0 {
            return TurnOutcome::Idle;
        }
        match self.transport.write(&mut self.stream, WRITE_TURN) {
            Ok(Write::Done) => TurnOutcome::Idle,
            Ok(Write::Pending) => {
                self.writable = false;
                TurnOutcome::Idle
            }
            Ok(Write::BudgetUsed) => TurnOutcome::More,
            Ok(Write::Closed) | Err(_) => TurnOutcome::Over,
        }
    }

    fn report_sent(&mut self, peer: PeerId, out: PeerOutbox<'_>) {
        let sent = self.transport.total_sent_plain();
        let bytes = (sent - self.reported.sent) as usize;
        if bytes > 0 {
            self.reported.sent = sent;
            out.send(NetEvent::Sent { peer, bytes });
        }
    }

    fn read_turn(
        &mut self,
        peer: PeerId,
        allowance: &mut usize,
        out: PeerOutbox<'_>,
    ) -> TurnOutcome {
        let left = self.read_messages(peer, allowance, out);
        if let Some((command, received, _)) = self.transport.incoming()
            && (command == Command::HEADERS || is_of_block(command) && self.limits.expects_block)
        {
            self.report_arrival(peer, command, received, out);
        }
        let memory = self.transport.buffered_bytes();
        if self.reported.memory != memory
            && !matches!(left, TurnOutcome::Over | TurnOutcome::Refused)
        {
            self.reported.memory = memory;
            out.send(NetEvent::Receiving { peer, memory });
        }
        left
    }

    fn read_messages(
        &mut self,
        peer: PeerId,
        allowance: &mut usize,
        out: PeerOutbox<'_>,
    ) -> TurnOutcome {
        let mut turn = READ_TURN;
        // A peer that does not take answers may send no more requests. But of two nodes that send
        // each other blocks, not both may stop reading: one that waits for a block reads on, within
        // `SEND_QUEUE_MAX`.
        while self.readable
            && !self.awaits_read_on
            && (self.limits.expects_block || self.transport.unwritten_bytes() <= self.pause_above)
        {
            if *allowance == 0 {
                return TurnOutcome::Held;
            }
            if turn == 0 {
                return TurnOutcome::More;
            }
            let before = (self.transport.total_received(), self.transport.total_cost());
            let received =
                self.transport.receive(&mut self.stream, &self.limits, turn.min(*allowance));
            let bytes = (self.transport.total_received() - before.0) as usize;
            turn = turn.saturating_sub((self.transport.total_cost() - before.1) as usize);
            *allowance = allowance.saturating_sub(bytes);
            self.report_protocol(peer, out);
            match received {
                Ok(Receive::Frame(frame)) => {
                    self.reported.memory = 0;
                    if is_of_block(frame.command) || frame.command == Command::HEADERS {
                        self.report_arrival(peer, frame.command, frame.payload.len(), out);
                        self.reported.arrived = 0;
                    }
                    self.awaits_read_on = frame.command.stops_reading();
                    self.last_block.send_frame(peer, frame, out);
                }
                Ok(Receive::Discarded(discard)) => {
                    (self.reported.arrived, self.reported.memory) = (0, 0);
                    out.send(NetEvent::Discarded { peer, discard });
                }
                Ok(Receive::BudgetUsed) => {}
                Ok(Receive::Pending) => self.readable = false,
                Ok(Receive::Closed) | Err(TransportError::Io(_)) => {
                    return self.closed(peer, out);
                }
                Err(error) => {
                    self.phase = Phase::Failed;
                    out.send(NetEvent::TransportFailed { peer, error });
                    return TurnOutcome::Idle;
                }
            }
        }
        TurnOutcome::Idle
    }

    /// Reports the protocol, once it is known and before the first message.
    fn report_protocol(&mut self, peer: PeerId, out: PeerOutbox<'_>) {
        let protocol = self.transport.protocol();
        if !self.reported.protocol && protocol != Protocol::Detecting {
            self.reported.protocol = true;
            out.send(NetEvent::Protocol { peer, protocol });
        }
    }

    fn closed(&self, peer: PeerId, out: PeerOutbox<'_>) -> TurnOutcome {
        if self.transport_is_refused() {
            return TurnOutcome::Refused;
        }
        out.send(NetEvent::Closed { peer });
        TurnOutcome::Over
    }

    fn report_arrival(
        &mut self,
        peer: PeerId,
        command: Command,
        received: usize,
        out: PeerOutbox<'_>,
    ) {
        let bytes = received.saturating_sub(self.reported.arrived);
        if bytes > 0 {
            self.reported.arrived = received;
            out.send(NetEvent::Arriving { peer, command, bytes });
        }
    }
}

/// A block, or what was missing of one: as good as all of it, since there is no mempool.
fn is_of_block(command: Command) -> bool {
    command == Command::BLOCK || command == Command::BLOCKTXN
}

/// What a failed direct connection tells about the other side.
pub(super) fn failure(error: &io::Error) -> ConnectFailure {
    use io::ErrorKind::{AddrNotAvailable, NetworkDown, NetworkUnreachable, PermissionDenied};
    use io::ErrorKind::{HostUnreachable, TimedOut};
    match error.kind() {
        AddrNotAvailable | NetworkUnreachable => ConnectFailure::NoRoute,
        NetworkDown | PermissionDenied => ConnectFailure::Local,
        _ if is_exhausted(error) => ConnectFailure::Local,
        // A router says so: one near the other side, or our own whose line is down.
        HostUnreachable | TimedOut => ConnectFailure::Unanswered,
        _ => ConnectFailure::Refused,
    }
}

/// How far a proxy is with a connection.
enum ProxyProgress {
    /// The proxy has to answer, or to take what is written.
    Waiting,
    Connected,
}

/// Continues the handshake as far as the proxy answers. A proxy that ends or breaks it is at fault
/// itself; one that says that it cannot connect, is not.
fn talk_to_proxy(
    handshake: &mut Socks5,
    stream: &mut TcpStream,
) -> Result<ProxyProgress, ConnectFailure> {
    loop {
        if !handshake.outgoing().is_empty() {
            match stream.write(handshake.outgoing()) {
                Ok(sent) => handshake.sent(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(ProxyProgress::Waiting);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(ConnectFailure::Local),
            }
            continue;
        }
        if handshake.is_connected() {
            return Ok(ProxyProgress::Connected);
        }
        let mut answer = [0; 512];
        // What follows the handshake is the peer's, and stays in the socket.
        let wanted = handshake.wanted().min(answer.len());
        match stream.read(&mut answer[..wanted]) {
            Ok(0) => return Err(ConnectFailure::Local),
            Ok(count) => {
                handshake.receive(&answer[..count]).map_err(|error| {
                    match error.is_destination() {
                        true => ConnectFailure::Refused,
                        false => ConnectFailure::Local,
                    }
                })?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(ProxyProgress::Waiting);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(ConnectFailure::Local),
        }
    }
}
