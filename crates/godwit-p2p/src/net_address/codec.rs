//! The two wire forms: the fixed one, and that of BIP155.

use godwit_stream::{DataStream, DecodeError, SpanReader, compact_size_len};

use super::{AddressEntry, Host, IPV4_IN_IPV6, NetAddress, TORV2_IN_IPV6};
use crate::message::MessageError;
use crate::services::Services;

/// Longest address of any network in BIP155, in bytes.
const MAX_ADDRV2: u64 = 512;

/// The numbers of the networks in BIP155. Number 3 was Tor v2.
mod network_id {
    pub(super) const IPV4: u8 = 1;
    pub(super) const IPV6: u8 = 2;
    pub(super) const TORV3: u8 = 4;
    pub(super) const I2P: u8 = 5;
    pub(super) const CJDNS: u8 = 6;
}

impl NetAddress {
    /// Sixteen bytes, then the port, most significant byte first.
    pub fn encode_v1(&self, out: &mut DataStream) {
        out.write(&self.host.to_legacy());
        out.write(&self.port.to_be_bytes());
    }

    /// What [`encode_v1`](Self::encode_v1) writes.
    pub fn decode_v1(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { host: Host::from_legacy(reader.array()?), port: decode_port(reader)? })
    }

    /// Network, length, address, then the port, most significant byte first (BIP155).
    pub fn encode_v2(&self, out: &mut DataStream) {
        let (network, bytes) = match &self.host {
            Host::Ipv4(bytes) => (network_id::IPV4, &bytes[..]),
            Host::Ipv6(bytes) => (network_id::IPV6, &bytes[..]),
            Host::OnionV3(bytes) => (network_id::TORV3, &bytes[..]),
            Host::I2p(bytes) => (network_id::I2P, &bytes[..]),
            Host::Cjdns(bytes) => (network_id::CJDNS, &bytes[..]),
        };
        out.write_u8(network);
        out.write_compact_size(bytes.len() as u64);
        out.write(bytes);
        out.write(&self.port.to_be_bytes());
    }

    /// What [`encode_v2`](Self::encode_v2) writes; `None` for a network that this software does not
    /// know and for IPv4 or Tor v2 in IPv6 form, which BIP155 forbids.
    pub fn decode_v2(reader: &mut SpanReader<'_>) -> Result<Option<Self>, MessageError> {
        let network = reader.u8()?;
        let length = reader.compact_size()?;
        let wrong = MessageError::AddressLength { network, length };
        if length > MAX_ADDRV2 {
            return Err(wrong);
        }
        let bytes = &mut SpanReader::new(match known_length(network) {
            Some(known) if known != length => return Err(wrong),
            _ => reader.bytes(length as usize)?,
        });
        let port = decode_port(reader)?;
        let host = match network {
            network_id::IPV4 => Host::Ipv4(bytes.array()?),
            network_id::IPV6 => {
                let bytes = bytes.array()?;
                if bytes.starts_with(&IPV4_IN_IPV6) || bytes.starts_with(&TORV2_IN_IPV6) {
                    return Ok(None);
                }
                Host::Ipv6(bytes)
            }
            network_id::TORV3 => Host::OnionV3(bytes.array()?),
            network_id::I2P => Host::I2p(bytes.array()?),
            network_id::CJDNS => Host::Cjdns(bytes.array()?),
            _ => return Ok(None),
        };
        Ok(Some(Self { host, port }))
    }
}

fn known_length(network: u8) -> Option<u64> {
    match network {
        network_id::IPV4 => Some(4),
        network_id::IPV6 | network_id::CJDNS => Some(16),
        network_id::TORV3 | network_id::I2P => Some(32),
        _ => None,
    }
}

fn decode_port(reader: &mut SpanReader<'_>) -> Result<u16, DecodeError> {
    reader.array().map(u16::from_be_bytes)
}

impl AddressEntry {
    /// Size of the form from before BIP155, in bytes: time 4, services 8, address 16, port 2.
    pub const V1_SIZE: usize = 30;
    /// Least size of the form of BIP155, in bytes: time 4, services 1, network 1, length 1, port 2.
    pub const V2_MIN_SIZE: usize = 9;
    /// Greatest size of the form of BIP155, in bytes.
    pub const V2_MAX_SIZE: usize =
        4 + 9 + 1 + compact_size_len(MAX_ADDRV2) + MAX_ADDRV2 as usize + 2;

    /// The form of `addr`.
    pub fn encode_v1(&self, out: &mut DataStream) {
        out.write_u32(self.time);
        out.write_u64(self.services.0);
        self.address.encode_v1(out);
    }

    /// What [`encode_v1`](Self::encode_v1) writes.
    pub fn decode_v1(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let time = reader.u32()?;
        let services = Services(reader.u64()?);
        Ok(Self { time, services, address: NetAddress::decode_v1(reader)? })
    }

    /// The form of `addrv2`: services as a compact size, address as in BIP155.
    pub fn encode_v2(&self, out: &mut DataStream) {
        out.write_u32(self.time);
        out.write_compact_size(self.services.0);
        self.address.encode_v2(out);
    }

    /// What [`encode_v2`](Self::encode_v2) writes; `None` as for [`NetAddress::decode_v2`].
    pub fn decode_v2(reader: &mut SpanReader<'_>) -> Result<Option<Self>, MessageError> {
        let entry = Self::decode_v2_head(reader)?;
        let address = NetAddress::decode_v2(reader)?;
        Ok(address.map(|address| Self { address, ..entry }))
    }

    /// The same as peers tell it: with [`Host::UNSPECIFIED`] where the address is `None`. It is of no use,
    /// but it counts for how many a peer tells (Core `UnserializeV2Stream`).
    pub(crate) fn decode_v2_told(reader: &mut SpanReader<'_>) -> Result<Self, MessageError> {
        let entry = Self::decode_v2_head(reader)?;
        let address = NetAddress::decode_v2(reader)?.unwrap_or(entry.address);
        Ok(Self { address, ..entry })
    }

    /// What is in front of the address.
    fn decode_v2_head(reader: &mut SpanReader<'_>) -> Result<Self, MessageError> {
        let time = reader.u32()?;
        let services = Services(reader.compact_size_any()?);
        Ok(Self { time, services, address: NetAddress::new(Host::UNSPECIFIED, 0) })
    }
}
