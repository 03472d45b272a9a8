//! Binds the listening sockets.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the system keeps for us to accept.
const BACKLOG: i32 = 128;

/// Addresses that could not be listened on, with the reasons.
#[derive(Debug, Default)]
pub struct NotBound(pub(super) Vec<(SocketAddr, io::Error)>);

impl NotBound {
    pub(super) fn one(address: SocketAddr, error: io::Error) -> Self {
        Self(vec![(address, error)])
    }

    /// One that there is is enough; of the others it warns.
    fn unless_any<T>(self, found: Vec<T>) -> Result<Vec<T>, Self> {
        if found.is_empty() {
            return Err(self);
        }
        if !self.0.is_empty() {
            log::warn!("The RPC server does not listen on {self}");
        }
        Ok(found)
    }
}

impl fmt::Display for NotBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (address, error)) in self.0.iter().enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            write!(f, "{comma}{address}: {error}")?;
        }
        Ok(())
    }
}

/// Takes an address, and refuses connections until it [listens](listen).
pub(super) fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Binds every address that it can.
pub(super) fn bind_all(addresses: &[SocketAddr]) -> Result<Vec<(SocketAddr, Socket)>, NotBound> {
    let (mut sockets, mut not_bound) = (Vec::new(), NotBound::default());
    for address in addresses {
        match bind(*address) {
            Ok(socket) => {
                log::info!("Binding RPC on address {} port {}", address.ip(), address.port());
                if address.ip().is_unspecified() {
                    log::warn!(
                        "The RPC server is not safe to expose to untrusted networks such as the public \
                         internet"
                    );
                }
                sockets.push((*address, socket));
            }
            Err(error) => not_bound.0.push((*address, error)),
        }
    }
    not_bound.unless_any(sockets)
}

/// Listens on every address that it can: of those that overlap, as 0.0.0.0 and 127.0.0.1 do, all are bound
/// and the first one listens.
pub(super) fn listen_all(
    sockets: Vec<(SocketAddr, Socket)>,
) -> Result<Vec<std::net::TcpListener>, NotBound> {
    let (mut listeners, mut not_bound) = (Vec::new(), NotBound::default());
    for (address, socket) in sockets {
        match listen(socket) {
            Ok(listener) => listeners.push(listener),
            Err(error) => not_bound.0.push((address, error)),
        }
    }
    not_bound.unless_any(listeners)
}

pub(super) fn listen(socket: Socket) -> io::Result<std::net::TcpListener> {
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
