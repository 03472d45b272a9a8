//! The messages that have a router forward a port to this machine: PCP (RFC 6887), or NAT-PMP (RFC 6886) for
//! an older router (Core `common/pcp.{h,cpp}`).
//!
//! Requests are encoded and answers decoded here; the node decides who sends them, when and how often. All
//! numbers are in network order. A packet that does not answer the request gives `None`, and the next one may
//! be the answer: any machine nearby can send packets.

mod refusal;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

pub use refusal::MappingRefusal;

use crate::net_address::{Host, NetAddress};

/// The port of both protocols at a router.
pub const PORT_MAPPING_PORT: u16 = 5351;
/// Bytes of the longest packet of PCP (RFC 6887, section 7).
pub const MAX_MAPPING_PACKET: usize = 1_100;
/// Bytes of the number by which an answer of PCP is known (Core `PCP_MAP_NONCE_SIZE`).
pub const MAPPING_NONCE_SIZE: usize = 12;

/// The request of NAT-PMP for the router's own address.
pub const NATPMP_ADDRESS_REQUEST: [u8; 2] = [NATPMP, NATPMP_ADDRESS];

const NATPMP: u8 = 0;
const NATPMP_ADDRESS: u8 = 0;
const NATPMP_MAP_TCP: u8 = 2;
/// Bytes of an answer that tells an error alone, of one with an address, and of one with a mapping.
const NATPMP_ERROR_SIZE: usize = 8;
const NATPMP_ADDRESS_SIZE: usize = 12;
const NATPMP_MAPPING_SIZE: usize = 16;
const NATPMP_REQUEST_SIZE: usize = 12;

const PCP: u8 = 2;
const PCP_MAP: u8 = 1;
/// Bytes of a request to map, and of its answer: 24 of a header and 36 of what is mapped.
const PCP_SIZE: usize = 60;
/// The number of TCP.
const TCP: u8 = 6;

/// Set in the operation of an answer.
const ANSWER: u8 = 0x80;
const SUCCESS: u16 = 0;
/// The version of the request is not known; the code of both protocols.
const UNSUPPORTED_VERSION: u8 = 1;

/// The protocol of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingProtocol {
    NatPmp,
    Pcp,
}

impl fmt::Display for MappingProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NatPmp => "natpmp",
            Self::Pcp => "pcp",
        })
    }
}

/// What a router forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub protocol: MappingProtocol,
    /// Where others call.
    pub external: NetAddress,
    /// Seconds until the router forgets it.
    pub lifetime: u32,
}

/// What a router is asked for: a TCP port, by the same number outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingRequest {
    /// By which answers are known, and later requests for the same mapping; random, and secret from other
    /// machines.
    pub nonce: [u8; MAPPING_NONCE_SIZE],
    /// The address of this machine from which the request is sent.
    pub client: IpAddr,
    /// The address that is wanted outside; the unspecified one for any.
    pub wanted: IpAddr,
    pub port: u16,
    /// Seconds.
    pub lifetime: u32,
}

impl MappingRequest {
    /// The request of PCP.
    pub fn pcp(&self) -> [u8; PCP_SIZE] {
        let mut packet = [0; PCP_SIZE];
        (packet[0], packet[1]) = (PCP, PCP_MAP);
        packet[4..8].copy_from_slice(&self.lifetime.to_be_bytes());
        packet[8..24].copy_from_slice(&wrapped(self.client));
        packet[24..36].copy_from_slice(&self.nonce);
        packet[36] = TCP;
        packet[40..42].copy_from_slice(&self.port.to_be_bytes());
        packet[42..44].copy_from_slice(&self.port.to_be_bytes());
        packet[44..60].copy_from_slice(&wrapped(self.wanted));
        packet
    }

    /// The answer to [`pcp`](Self::pcp), if the packet is one. Of a router that knows NAT-PMP alone it is
    /// [`MappingRefusal::OnlyNatPmp`].
    pub fn pcp_answer(&self, packet: &[u8]) -> Option<Result<Mapping, MappingRefusal>> {
        if packet.len() == NATPMP_ERROR_SIZE
            && packet[0] == NATPMP
            && packet[3] == UNSUPPORTED_VERSION
        {
            return Some(Err(MappingRefusal::OnlyNatPmp));
        }
        let packet: &[u8; PCP_SIZE] = packet.first_chunk()?;
        let is_answer = packet[..2] == [PCP, ANSWER | PCP_MAP]
            && packet[24..36] == self.nonce
            && packet[36] == TCP
            && number(packet, 40) == self.port;
        if !is_answer {
            return None;
        }
        let external = Host::from_legacy(array(packet, 44));
        Some(self.granted(MappingProtocol::Pcp, packet[3].into(), external, packet, 42, 4))
    }

    /// The request of NAT-PMP.
    pub fn natpmp(&self) -> [u8; NATPMP_REQUEST_SIZE] {
        let mut packet = [0; NATPMP_REQUEST_SIZE];
        (packet[0], packet[1]) = (NATPMP, NATPMP_MAP_TCP);
        packet[4..6].copy_from_slice(&self.port.to_be_bytes());
        packet[6..8].copy_from_slice(&self.port.to_be_bytes());
        packet[8..12].copy_from_slice(&self.lifetime.to_be_bytes());
        packet
    }

    /// The answer to [`natpmp`](Self::natpmp) of a router with this address, if the packet is one.
    pub fn natpmp_answer(
        &self,
        router: Ipv4Addr,
        packet: &[u8],
    ) -> Option<Result<Mapping, MappingRefusal>> {
        let packet: &[u8; NATPMP_MAPPING_SIZE] = packet.first_chunk()?;
        let is_answer =
            packet[..2] == [NATPMP, ANSWER | NATPMP_MAP_TCP] && number(packet, 8) == self.port;
        if !is_answer {
            return None;
        }
        let external = Host::Ipv4(router.octets());
        let code = number(packet, 2);
        Some(self.granted(MappingProtocol::NatPmp, code, external, packet, 10, 12))
    }

    /// What an answer grants that has the external port and the lifetime at these offsets.
    fn granted(
        &self,
        protocol: MappingProtocol,
        code: u16,
        external: Host,
        packet: &[u8],
        port_at: usize,
        lifetime_at: usize,
    ) -> Result<Mapping, MappingRefusal> {
        if code != SUCCESS {
            return Err(MappingRefusal::Code(protocol, code));
        }
        match number(packet, port_at) {
            0 => Err(MappingRefusal::NoPort),
            port => Ok(Mapping {
                protocol,
                external: NetAddress::new(external, port),
                lifetime: u32::from_be_bytes(array(packet, lifetime_at)),
            }),
        }
    }
}

/// The answer to [`NATPMP_ADDRESS_REQUEST`], if the packet is one.
pub fn natpmp_address(packet: &[u8]) -> Option<Result<Ipv4Addr, MappingRefusal>> {
    let packet: &[u8; NATPMP_ADDRESS_SIZE] = packet.first_chunk()?;
    if packet[..2] != [NATPMP, ANSWER | NATPMP_ADDRESS] {
        return None;
    }
    Some(match number(packet, 2) {
        SUCCESS => Ok(Ipv4Addr::from(array::<4>(packet, 8))),
        code => Err(MappingRefusal::Code(MappingProtocol::NatPmp, code)),
    })
}

/// An address as PCP has it: IPv4 in IPv6.
fn wrapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn array<const N: usize>(packet: &[u8], at: usize) -> [u8; N] {
    *packet[at..].first_chunk().expect("inside the packet")
}

fn number(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(packet, at))
}
