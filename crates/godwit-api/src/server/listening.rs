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

pub(super) fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
