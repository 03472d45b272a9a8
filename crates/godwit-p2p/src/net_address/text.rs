//! Addresses as people write them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use sha3::{Digest, Sha3_256};

use super::{Host, NetAddress};

/// Version of the onion services in [`Host::OnionV3`].
const ONION_VERSION: u8 = 3;
const ONION_SUFFIX: &str = ".onion";
const I2P_SUFFIX: &str = ".b32.i2p";

/// Text that is no address: a host name, for instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressParseError;

impl fmt::Display for AddressParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an IP, onion or I2P address")
    }
}

impl std::error::Error for AddressParseError {}

/// First two bytes of the hash that an onion address carries (Tor `rend-spec-v3`).
fn onion_checksum(key: &[u8; 32]) -> [u8; 2] {
    let mut hasher = Sha3_256::new();
    hasher.update(b".onion checksum");
    hasher.update(key);
    hasher.update([ONION_VERSION]);
    let hash: [u8; 32] = hasher.finalize().into();
    [hash[0], hash[1]]
}

fn base32(bytes: &[u8]) -> String {
    BASE32_NOPAD.encode(bytes).to_ascii_lowercase()
}

/// As Core's `ToStringAddr`, without the scope of a link-local address.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipv4(bytes) => Ipv4Addr::from(*bytes).fmt(f),
            Self::Ipv6(bytes) | Self::Cjdns(bytes) => Ipv6Addr::from(*bytes).fmt(f),
            Self::OnionV3(key) => {
                let mut bytes = [0; 35];
                bytes[..32].copy_from_slice(key);
                bytes[32..34].copy_from_slice(&onion_checksum(key));
                bytes[34] = ONION_VERSION;
                write!(f, "{}{ONION_SUFFIX}", base32(&bytes))
            }
            Self::I2p(hash) => write!(f, "{}{I2P_SUFFIX}", base32(hash)),
        }
    }
}

impl FromStr for Host {
    type Err = AddressParseError;

    /// IPv4, IPv6 without brackets, onion or I2P. An address in CJDNS' range is read as IPv6, as in
    /// Core.
    fn from_str(text: &str) -> Result<Self, AddressParseError> {
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Ipv4(address.octets()));
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Self::from_legacy(address.octets()));
        }
        onion(text).or_else(|| i2p(text)).ok_or(AddressParseError)
    }
}

fn onion(text: &str) -> Option<Host> {
    let bytes: [u8; 35] = decode_base32(text.strip_suffix(ONION_SUFFIX)?)?;
    let key = *bytes.first_chunk().expect("35 bytes");
    let checked = bytes[32..34] == onion_checksum(&key) && bytes[34] == ONION_VERSION;
    checked.then_some(Host::OnionV3(key))
}

fn i2p(text: &str) -> Option<Host> {
    let (name, suffix) = text.split_at_checked(text.len().checked_sub(I2P_SUFFIX.len())?)?;
    if !suffix.eq_ignore_ascii_case(I2P_SUFFIX) {
        return None;
    }
    decode_base32(name).map(Host::I2p)
}

fn decode_base32<const N: usize>(text: &str) -> Option<[u8; N]> {
    // The right length for N bytes, so that hostile text costs nothing.
    if text.len() != (N * 8).div_ceil(5) {
        return None;
    }
    BASE32_NOPAD.decode(text.to_ascii_uppercase().as_bytes()).ok()?.try_into().ok()
}

impl NetAddress {
    /// A host with or without port; IPv6 with a port needs brackets (Core `SplitHostPort`).
    pub fn parse(text: &str, default_port: u16) -> Result<Self, AddressParseError> {
        let (host, port) = split_port(text)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Ok(Self { host: host.parse()?, port: port.unwrap_or(default_port) })
    }
}

/// The host, in brackets or not, and the port.
fn split_port(text: &str) -> Result<(&str, Option<u16>), AddressParseError> {
    match text.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => {
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let port = if digits { port.parse().ok() } else { None };
            Ok((host, Some(port.ok_or(AddressParseError)?)))
        }
        _ => Ok((text, None)),
    }
}

/// As Core's `ToStringAddrPort`.
impl fmt::Display for NetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Host::Ipv6(_) | Host::Cjdns(_) => write!(f, "[{}]:{}", self.host, self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for NetAddress {
    type Err = AddressParseError;

    fn from_str(text: &str) -> Result<Self, AddressParseError> {
        match split_port(text)? {
            (_, None) => Err(AddressParseError),
            (_, Some(port)) => Self::parse(text, port),
        }
    }
}
