//! Binds listening sockets, and accepts peers on them as far as the node keeps up.

use godwit_p2p::{Binding, Entrance, NetEvent, SocketId};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::Network;

/// Connections that the system holds until they are accepted (Core: `SOMAXCONN`, which was 128 for
/// a long time).
const BACKLOG: i32 = 128;

/// How long accepting pauses after the system had no descriptor or memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Shortest time between two log lines about that.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Most accepted connections that the node has not adopted or refused yet. Further ones wait in the
/// system.
pub(super) const MAX_UNDECIDED: usize = 32;

/// An address that could not be listened on.
#[derive(Debug)]
pub struct BindError {
    pub address: SocketAddr,
    pub entrance: Entrance,
    pub error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BindError { address, entrance, error } = self;
        match (error.kind(), entrance) {
            (_, Entrance::Onion) => write!(
                f,
                "cannot listen on {address} for Tor: {error}; choose another port with -port or -bind=…=onion, or \
                 say -listenonion=0"
            ),
            (io::ErrorKind::AddrInUse, _) => write!(
                f,
                "cannot listen on {address}: the port is in use, perhaps by another node; choose \
                 one with -port or -bind, or say -listen=0"
            ),
            _ => write!(f, "cannot listen on {address}: {error}"),
        }
    }
}

impl std::error::Error for BindError {}

/// A listening socket, and how those are treated who connect there.
pub struct Bound {
    pub socket: TcpListener,
    pub entrance: Entrance,
}

/// Listens on `bindings`.
pub fn bind(bindings: &[Binding]) -> Result<Vec<Bound>, BindError> {
    bindings.iter().copied().map(bind_one).collect()
}

/// Listens on `port` of all IPv4 and IPv6 addresses, where lacking IPv6 is no error.
pub fn bind_everywhere(port: u16) -> Result<Vec<Bound>, BindError> {
    let any = |ip| Binding::from(SocketAddr::new(ip, port));
    let mut listeners = vec![bind_one(any(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))?];
    match bind_one(any(IpAddr::V6(Ipv6Addr::UNSPECIFIED))) {
        Ok(listener) => listeners.push(listener),
        Err(error) if error.error.kind() == io::ErrorKind::AddrInUse => return Err(error),
        Err(error) => log::info!("Not listening on IPv6: {}", error.error),
    }
    Ok(listeners)
}

/// Listens where Tor hands over those who call the onion service.
pub fn bind_for_onion(addresses: &[SocketAddr]) -> Result<Vec<Bound>, BindError> {
    addresses.iter().map(|address| listen(*address, Entrance::Onion)).collect()
}

fn bind_one(Binding { address, permissions }: Binding) -> Result<Bound, BindError> {
    listen(address, Entrance::Direct(permissions))
}

fn listen(address: SocketAddr, entrance: Entrance) -> Result<Bound, BindError> {
    let bound = || -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // Otherwise the port stays taken for minutes after a stop.
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from_std(socket.into()))
    };
    let socket = bound().map_err(|error| BindError { address, entrance, error })?;
    let local = socket.local_addr().unwrap_or(address);
    log::info!("Bound to {local}");
    Ok(Bound { socket, entrance })
}

impl Network {
    /// Whether a connection may be waiting that could be accepted now.
    pub(super) fn may_accept(&self) -> bool {
        self.undecided.len() < MAX_UNDECIDED && self.accepting.listeners.iter().any(|of| of.ready)
    }

    pub(super) fn accept(&mut self) {
        for n in 0..self.accepting.listeners.len() {
            while self.accepting.listeners[n].ready
                && self.undecided.len() < MAX_UNDECIDED
                && Instant::now() >= self.accepting.after
            {
                let Bound { socket, entrance } = &self.accepting.listeners[n].bound;
                let entrance = *entrance;
                match accept(socket) {
                    Accepted::Connection { stream, address, called } => {
                        self.accepted(stream, address, called, entrance);
                    }
                    Accepted::Nobody => self.accepting.listeners[n].ready = false,
                    Accepted::Gone => {}
                    Accepted::Exhausted(error) => self.pause_accepting(&error),
                }
            }
        }
    }

    fn accepted(
        &mut self,
        stream: TcpStream,
        address: SocketAddr,
        called: SocketAddr,
        entrance: Entrance,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            log::debug!("no delay cannot be set: {error}");
        }
        let (token, address) = (self.take_token(), address.into());
        self.undecided.insert(token, (stream, address));
        let socket = SocketId(token.0 as u64);
        self.out.send(NetEvent::Inbound { socket, address, called: called.into(), entrance });
    }

    fn pause_accepting(&mut self, error: &io::Error) {
        let now = Instant::now();
        self.accepting.after = now + ACCEPT_PAUSE;
        if self.accepting.next_warning.is_none_or(|next| next <= now) {
            self.accepting.next_warning = Some(now + WARNING_INTERVAL);
            log::warn!("Connections cannot be accepted at the moment: {error}");
        }
    }
}

/// Result of an attempt to accept a connection.
enum Accepted {
    Connection {
        stream: TcpStream,
        /// The other end.
        address: SocketAddr,
        /// This end: the listener's address may stand for all of this machine.
        called: SocketAddr,
    },
    /// No connection waits.
    Nobody,
    /// The connection that waited is gone; the next one can be accepted at once.
    Gone,
    /// The system lacks descriptors or memory. The connection keeps waiting, so accepting again at
    /// once would fail again, for ever: accepting has to pause.
    Exhausted(io::Error),
}

fn accept(listener: &TcpListener) -> Accepted {
    let accepted = || -> io::Result<Accepted> {
        let (stream, address) = listener.accept()?;
        let called = stream.local_addr()?;
        Ok(Accepted::Connection { stream, address, called })
    };
    match accepted() {
        Ok(accepted) => accepted,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Accepted::Nobody,
        Err(error) if is_exhausted(&error) => Accepted::Exhausted(error),
        Err(error) => {
            log::debug!("a connection could not be accepted: {error}");
            Accepted::Gone
        }
    }
}

/// Whether a socket call failed for want of descriptors or memory, which says nothing about the
/// other side.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    let of = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].into_iter().any(of)
}
