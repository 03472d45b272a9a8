//! Sockets that listen.

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
    if sockets.is_empty() {
        return Err(not_bound);
    }
    if !not_bound.0.is_empty() {
        log::warn!("The RPC server does not listen on {not_bound}");
    }
    Ok(sockets)
}

pub(super) fn listen(socket: Socket) -> io::Result<std::net::TcpListener> {
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
