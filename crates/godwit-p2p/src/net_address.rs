//! Where a node can be reached (BIP155, Core `netaddress.{h,cpp}`, `netgroup.cpp`).

mod class;
mod codec;
#[cfg(test)]
pub(crate) mod tests;
mod text;

pub use class::AddressNetwork;
pub(crate) use class::NetGroup;
pub use text::AddressParseError;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::services::Services;

/// A host of one of the networks of BIP155. Bytes are in network order.
///
/// Not every value is the address of a host: see [`is_valid`](Self::is_valid) and
/// [`is_routable`](Self::is_routable).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// An IPv4 address.
    Ipv4([u8; 4]),
    /// An IPv6 address, and not an IPv4 address in IPv6 form.
    Ipv6([u8; 16]),
    /// The public key of a Tor v3 onion service.
    OnionV3([u8; 32]),
    /// The hash of an I2P destination.
    I2p([u8; 32]),
    /// A CJDNS address.
    Cjdns([u8; 16]),
}

/// A host and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetAddress {
    pub host: Host,
    /// The TCP port.
    pub port: u16,
}

/// An address as peers gossip it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressEntry {
    /// When it was last seen, in seconds since 1970, as the sender says.
    pub time: u32,
    /// What it offers, as the sender says.
    pub services: Services,
    pub address: NetAddress,
}

const IPV4_IN_IPV6: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
/// Prefix of Tor v2 addresses, which no longer exist, in the form from before BIP155.
const TORV2_IN_IPV6: [u8; 6] = [0xfd, 0x87, 0xd8, 0x7e, 0xeb, 0x43];
/// Prefix of the names of DNS seeds in Core's address book.
const INTERNAL_IN_IPV6: [u8; 6] = [0xfd, 0x6b, 0x88, 0xc0, 0x87, 0x24];

impl Host {
    /// The unspecified IPv6 address.
    pub const UNSPECIFIED: Self = Self::Ipv6([0; 16]);

    /// From the sixteen bytes that encode IPv4 and IPv6 alike (Core `SetLegacyIPv6`). An embedded
    /// Tor v2 address becomes [`UNSPECIFIED`](Self::UNSPECIFIED).
    pub fn from_legacy(bytes: [u8; 16]) -> Self {
        if let Some(&[a, b, c, d]) = bytes.strip_prefix(&IPV4_IN_IPV6) {
            Self::Ipv4([a, b, c, d])
        } else if bytes.starts_with(&TORV2_IN_IPV6) {
            Self::UNSPECIFIED
        } else {
            Self::Ipv6(bytes)
        }
    }

    /// The sixteen bytes of the form from before BIP155; zeros for networks that it does not know.
    pub fn to_legacy(self) -> [u8; 16] {
        match self {
            Self::Ipv4(bytes) => Ipv4Addr::from(bytes).to_ipv6_mapped().octets(),
            Self::Ipv6(bytes) => bytes,
            Self::OnionV3(_) | Self::I2p(_) | Self::Cjdns(_) => [0; 16],
        }
    }

    /// Whether the form from before BIP155 can hold it.
    pub fn is_v1_compatible(self) -> bool {
        matches!(self, Self::Ipv4(_) | Self::Ipv6(_))
    }

    /// The address to give to a socket; `None` for onion and I2P, which need a proxy.
    pub fn to_ip(self) -> Option<IpAddr> {
        match self {
            Self::Ipv4(bytes) => Some(Ipv4Addr::from(bytes).into()),
            Self::Ipv6(bytes) | Self::Cjdns(bytes) => Some(Ipv6Addr::from(bytes).into()),
            Self::OnionV3(_) | Self::I2p(_) => None,
        }
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::Ipv4(address.octets()),
            IpAddr::V6(address) => Self::from_legacy(address.octets()),
        }
    }
}

impl NetAddress {
    /// A host and a port.
    pub const fn new(host: Host, port: u16) -> Self {
        Self { host, port }
    }

    /// The address to give to a socket; `None` for onion and I2P, which need a proxy.
    pub fn to_socket(self) -> Option<SocketAddr> {
        self.host.to_ip().map(|ip| SocketAddr::new(ip, self.port))
    }

    /// Whether it could be the address of a host (Core `IsValid`).
    pub fn is_valid(&self) -> bool {
        self.host.is_valid()
    }

    /// Whether it can be reached over its network from anywhere (Core `IsRoutable`).
    pub fn is_routable(&self) -> bool {
        self.host.is_routable()
    }

    /// Whether it is this machine (Core `IsLocal`).
    pub fn is_local(&self) -> bool {
        self.host.is_local()
    }

    /// The network over which it is reached (Core `GetNetwork`).
    pub fn network(&self) -> AddressNetwork {
        self.host.network()
    }
}

impl From<SocketAddr> for NetAddress {
    /// Without the scope of a link-local address.
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().into(), port: address.port() }
    }
}
