//! Classifies addresses: the network of an address, and whether it is local or routable.

use std::num::NonZeroU32;

use super::{Host, INTERNAL_IN_IPV6, NetAddress};

/// A network, with the numbers that Core hashes into groups (Core `Network`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AddressNetwork {
    /// Addresses that lead nowhere outside their own machine or site.
    Unroutable = 0,
    Ipv4 = 1,
    Ipv6 = 2,
    Onion = 3,
    I2p = 4,
    Cjdns = 5,
}

impl AddressNetwork {
    /// The name that Core's `-onlynet` and RPC use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unroutable => "not_publicly_routable",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Onion => "onion",
            Self::I2p => "i2p",
            Self::Cjdns => "cjdns",
        }
    }
}

/// Most bytes of a group: network, four whole bytes, one in part.
const MAX_GROUP: usize = 6;

/// A group of addresses, as Core hashes it into bucket numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NetGroup {
    bytes: [u8; MAX_GROUP],
    len: u8,
}

impl NetGroup {
    /// The network's number, then the bits that the group shares, ones behind them, or the number of its
    /// autonomous system.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }

    /// The group of an autonomous system: of its addresses of IPv4 and of IPv6.
    pub(crate) fn of_system(system: NonZeroU32) -> Self {
        Self::new(AddressNetwork::Ipv6, &system.get().to_le_bytes(), 32)
    }

    /// The first `bits` bits of `address`.
    fn new(network: AddressNetwork, address: &[u8], bits: usize) -> Self {
        let mut bytes = [0; MAX_GROUP];
        bytes[0] = network as u8;
        let len = bits.div_ceil(8);
        bytes[1..=len].copy_from_slice(&address[..len]);
        if !bits.is_multiple_of(8) {
            bytes[len] |= 0xff >> (bits % 8);
        }
        Self { bytes, len: len as u8 + 1 }
    }
}

impl Host {
    /// Whether it could be the address of a host (Core `IsValid`).
    pub fn is_valid(self) -> bool {
        match self {
            Self::Ipv4(bytes) => bytes != [0; 4] && bytes != [255; 4],
            Self::Ipv6(bytes) => {
                let documentation = bytes.starts_with(&[0x20, 0x01, 0x0d, 0xb8]);
                bytes != [0; 16] && !documentation && !bytes.starts_with(&INTERNAL_IN_IPV6)
            }
            Self::OnionV3(_) | Self::I2p(_) => true,
            Self::Cjdns(bytes) => bytes[0] == 0xfc,
        }
    }

    /// Whether it can be reached over its network from anywhere (Core `IsRoutable`).
    pub fn is_routable(self) -> bool {
        let reserved = match self {
            Self::Ipv4(bytes) => is_reserved_ipv4(bytes),
            Self::Ipv6(bytes) => is_reserved_ipv6(bytes),
            Self::OnionV3(_) | Self::I2p(_) | Self::Cjdns(_) => false,
        };
        self.is_valid() && !reserved && !self.is_local()
    }

    /// Whether it is this machine (Core `IsLocal`).
    pub fn is_local(self) -> bool {
        match self {
            Self::Ipv4(bytes) => bytes[0] == 127 || bytes[0] == 0,
            Self::Ipv6(bytes) => u128::from_be_bytes(bytes) == 1,
            Self::OnionV3(_) | Self::I2p(_) | Self::Cjdns(_) => false,
        }
    }

    /// The network over which it is reached (Core `GetNetwork`).
    pub fn network(self) -> AddressNetwork {
        if !self.is_routable() {
            return AddressNetwork::Unroutable;
        }
        match self {
            Self::Ipv4(_) => AddressNetwork::Ipv4,
            Self::Ipv6(_) => AddressNetwork::Ipv6,
            Self::OnionV3(_) => AddressNetwork::Onion,
            Self::I2p(_) => AddressNetwork::I2p,
            Self::Cjdns(_) => AddressNetwork::Cjdns,
        }
    }

    /// As [`network`](Self::network), but IPv4 for IPv6 addresses that stand for an IPv4 address
    /// (Core `GetNetClass`).
    pub fn network_class(self) -> AddressNetwork {
        match self.linked_ipv4() {
            Some(_) => AddressNetwork::Ipv4,
            None => self.network(),
        }
    }

    /// The IPv4 address that it is or stands for, if it is routable (Core `GetLinkedIPv4`).
    pub fn linked_ipv4(self) -> Option<[u8; 4]> {
        if !self.is_routable() {
            return None;
        }
        let bytes = match self {
            Self::Ipv4(bytes) => return Some(bytes),
            Self::Ipv6(bytes) => bytes,
            Self::OnionV3(_) | Self::I2p(_) | Self::Cjdns(_) => return None,
        };
        let at = |start: usize| *bytes[start..].first_chunk().expect("inside the address");
        if is_rfc6052(bytes) || is_rfc6145(bytes) {
            Some(at(12))
        } else if is_rfc3964(bytes) {
            Some(at(2))
        } else if is_rfc4380(bytes) {
            Some(at(12).map(|byte: u8| !byte))
        } else {
            None
        }
    }

    /// IPv6 through IPv4, for hosts behind a NAT (Teredo, RFC4380).
    pub(crate) fn is_teredo(self) -> bool {
        matches!(self, Self::Ipv6(bytes) if is_rfc4380(bytes))
    }

    /// IPv6 that a gateway translates from or to IPv4, or that is sent through it (6to4, NAT64, SIIT).
    pub(crate) fn is_tunnelled(self) -> bool {
        let Self::Ipv6(bytes) = self else { return false };
        is_rfc3964(bytes) || is_rfc6052(bytes) || is_rfc6145(bytes)
    }

    /// What it shares with addresses that the same operator can easily have (Core
    /// `NetGroupManager::GetGroup` without asmap): /16 of IPv4, /32 of IPv6 (he.net: /36), 4 bits
    /// of onion and I2P, 4 bits of CJDNS behind its constant byte. What is not routable is one
    /// group.
    pub(crate) fn prefix_group(self) -> NetGroup {
        let network = self.network_class();
        if let Some(ipv4) = self.linked_ipv4() {
            return NetGroup::new(network, &ipv4, 16);
        }
        match self {
            _ if !self.is_routable() => NetGroup::new(network, &[], 0),
            Self::Ipv4(bytes) => NetGroup::new(network, &bytes, 16),
            Self::OnionV3(bytes) | Self::I2p(bytes) => NetGroup::new(network, &bytes, 4),
            Self::Cjdns(bytes) => NetGroup::new(network, &bytes, 12),
            Self::Ipv6(bytes) => {
                let he_net = bytes.starts_with(&[0x20, 0x01, 0x04, 0x70]);
                NetGroup::new(network, &bytes, if he_net { 36 } else { 32 })
            }
        }
    }
}

impl NetAddress {
    /// Bytes that name it, as Core hashes them (`CService::GetKey`): the address, sixteen bytes for
    /// IPv4 and IPv6, then the port, most significant byte first.
    pub fn key(&self) -> Vec<u8> {
        let port = self.port.to_be_bytes();
        match self.host {
            Host::Ipv4(_) | Host::Ipv6(_) => [&self.host.to_legacy()[..], &port].concat(),
            Host::OnionV3(bytes) | Host::I2p(bytes) => [&bytes[..], &port].concat(),
            Host::Cjdns(bytes) => [&bytes[..], &port].concat(),
        }
    }
}

fn is_reserved_ipv4([a, b, c, _]: [u8; 4]) -> bool {
    match (a, b, c) {
        (10, _, _) | (192, 168, _) | (172, 16..=31, _) => true, // RFC1918: private
        (198, 18 | 19, _) => true,                              // RFC2544: tests
        (169, 254, _) => true,                                  // RFC3927: link-local
        (100, 64..=127, _) => true,                             // RFC6598: carrier NAT
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => true,   // RFC5737: documentation
        _ => false,
    }
}

fn is_reserved_ipv6(bytes: [u8; 16]) -> bool {
    let link_local = bytes.starts_with(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0]); // RFC4862
    let unique_local = bytes[0] & 0xfe == 0xfc; // RFC4193
    // RFC4843, RFC7343
    let orchid = bytes.starts_with(&[0x20, 0x01, 0]) && matches!(bytes[3] & 0xf0, 0x10 | 0x20);
    link_local || unique_local || orchid
}

/// 6to4.
fn is_rfc3964(bytes: [u8; 16]) -> bool {
    bytes.starts_with(&[0x20, 0x02])
}

/// Teredo.
fn is_rfc4380(bytes: [u8; 16]) -> bool {
    bytes.starts_with(&[0x20, 0x01, 0, 0])
}

/// NAT64.
fn is_rfc6052(bytes: [u8; 16]) -> bool {
    bytes.starts_with(&[0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// SIIT.
fn is_rfc6145(bytes: [u8; 16]) -> bool {
    bytes.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0])
}
