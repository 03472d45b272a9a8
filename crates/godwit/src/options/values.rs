//! Parses the values of the node's options. `None` means that the text is no such value: the
//! option's table entry says what was expected.

use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use godwit_chain::{BackendKind, ScriptEngine};
use godwit_p2p::AddressNetwork;
use godwit_primitives::network::Deployment;
use godwit_primitives::{BlockHash, ReversedHex, Work};
use godwit_program::options::values as plain;

/// Core keeps activation heights in an `int` and reserves its largest value.
const MAX_ACTIVATION_HEIGHT: u32 = i32::MAX as u32 - 1;

/// Most digits of an amount of chain work, which has 256 bits.
const WORK_DIGITS: usize = 64;

/// Longest host name (RFC 1035).
const MAX_HOST_NAME: usize = 253;

/// A `hash_serialized_3` of a UTXO set: 32 bytes as the hash function gives them; as text reversed,
/// as Core prints it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UtxoHash(pub [u8; 32]);

impl fmt::Debug for UtxoHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&ReversedHex(&self.0), f)
    }
}

/// A host, by name or address, and its port if one was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// An IP address, an onion address or a name; without brackets.
    pub host: String,
    /// Never 0.
    pub port: Option<u16>,
}

impl HostPort {
    /// Whether the host is an address that only this machine reaches.
    pub(super) fn is_loopback(&self) -> bool {
        self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }

    /// As a socket address; `None` where the host is no IP address.
    pub(super) fn socket_address(&self, default_port: u16) -> Option<SocketAddr> {
        let address: IpAddr = self.host.parse().ok()?;
        Some(SocketAddr::new(address, self.port.unwrap_or(default_port)))
    }
}

/// A value of an option that `0` switches off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrOff<T> {
    Off,
    Value(T),
}

impl<T> OrOff<T> {
    /// `0`, or what `parse` takes.
    pub(super) fn parse(text: &OsStr, parse: fn(&OsStr) -> Option<T>) -> Option<Self> {
        if text == "0" { Some(Self::Off) } else { parse(text).map(Self::Value) }
    }

    pub(super) fn value(self) -> Option<T> {
        match self {
            Self::Off => None,
            Self::Value(value) => Some(value),
        }
    }
}

/// The file of a map of autonomous systems, or none. In Core, 1 is the map that a program was built with.
pub(super) fn asmap(text: &OsStr) -> Result<OrOff<PathBuf>, String> {
    if text.is_empty() || text == "1" {
        return Err("Embedded asmap data not available, name a file".to_owned());
    }
    Ok(if text == "0" { OrOff::Off } else { OrOff::Value(PathBuf::from(text)) })
}

/// A block hash as Core prints it, perhaps behind `0x` (Core `FromUserHex`, which takes fewer digits too).
pub(super) fn block_hash(text: &OsStr) -> Option<BlockHash> {
    without_0x(text.to_str()?).parse().ok()
}

fn without_0x(digits: &str) -> &str {
    digits.strip_prefix("0x").unwrap_or(digits)
}

pub(super) fn utxo_hash(text: &OsStr) -> Option<UtxoHash> {
    let hash: BlockHash = text.to_str()?.parse().ok()?;
    Some(UtxoHash(hash.to_bytes()))
}

/// `NAME@HEIGHT`.
pub(super) fn activation(text: &OsStr) -> Option<(Deployment, u32)> {
    let (name, height) = text.to_str()?.split_once('@')?;
    let height = plain::digits(height).filter(|height| *height <= MAX_ACTIVATION_HEIGHT)?;
    Some((name.parse().ok()?, height))
}

pub(super) fn script_engine(text: &OsStr) -> Option<ScriptEngine> {
    match text.to_str()? {
        "native" => Some(ScriptEngine::Native { lanes: None }),
        "core" => Some(ScriptEngine::Core),
        _ => None,
    }
}

/// Lanes of vector registers that this processor has, or the engine of a processor without any.
pub(super) fn lanes(text: &OsStr) -> Option<ScriptEngine> {
    let lanes = match text.to_str()? {
        "ifma" => BackendKind::Ifma512,
        "avx512" => BackendKind::Avx512,
        "avx2" => BackendKind::Avx2,
        "neon" => BackendKind::Neon,
        "none" => return Some(ScriptEngine::Core),
        _ => return None,
    };
    ScriptEngine::with_lanes(lanes)
}

/// `host`, `host:port`, `[address]:port` or an IPv6 address alone.
pub(super) fn host_port(text: &OsStr) -> Option<HostPort> {
    let text = text.to_str()?;
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']')?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
            (host.parse::<std::net::Ipv6Addr>().is_ok().then_some(host)?, port)
        }
        None => match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                (text.parse::<std::net::Ipv6Addr>().is_ok().then_some(text)?, None)
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    if host.is_empty() || host.len() > MAX_HOST_NAME || !host.chars().all(in_name) {
        return None;
    }
    let port = match port {
        Some(port) => Some(plain::port(OsStr::new(port))?),
        None => None,
    };
    Some(HostPort { host: host.to_owned(), port })
}

/// Any text but none.
pub(super) fn named(text: &OsStr) -> Option<&str> {
    text.to_str().filter(|text| !text.is_empty())
}

/// As [`host_port`], but the host is an IP address.
pub(super) fn ip_port(text: &OsStr) -> Option<HostPort> {
    host_port(text).filter(|host_port| host_port.host.parse::<IpAddr>().is_ok())
}

/// A network that this node can reach, in letters of either case (Core `ParseNetwork`).
pub(super) fn network(text: &OsStr) -> Option<AddressNetwork> {
    let reached = [AddressNetwork::Ipv4, AddressNetwork::Ipv6, AddressNetwork::Onion];
    let text = text.to_str()?;
    reached.into_iter().find(|network| text.eq_ignore_ascii_case(network.name()))
}

/// A number of bytes with an optional unit: k, m, g, t are powers of 1000, K, M, G, T of 1024 (Core
/// `ParseByteUnits`). Without a unit `default` is meant.
pub(super) fn bytes(text: &OsStr, default: u64) -> Option<u64> {
    let text = text.to_str()?;
    let unit = match text.chars().next_back()? {
        'k' => Some(1000),
        'K' => Some(1 << 10),
        'm' => Some(1_000_000),
        'M' => Some(1 << 20),
        'g' => Some(1_000_000_000),
        'G' => Some(1 << 30),
        't' => Some(1_000_000_000_000),
        'T' => Some(1 << 40),
        _ => None,
    };
    let digits = if unit.is_some() { &text[..text.len() - 1] } else { text };
    plain::digits::<u64>(digits)?.checked_mul(unit.unwrap_or(default))
}

/// An amount of chain work in up to 64 hexadecimal digits.
pub(super) fn work(text: &OsStr) -> Option<Work> {
    let digits = without_0x(text.to_str()?);
    let is_long = digits.len() > WORK_DIGITS || digits.is_empty();
    let is_plain = !is_long && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_plain { Work::from_str_radix(digits, 16).ok() } else { None }
}

/// At least one byte, two hexadecimal digits each.
pub(super) fn hex(text: &OsStr) -> Option<Vec<u8>> {
    let digits = text.to_str()?.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    digits.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";

    fn os(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    #[test]
    fn hosts_and_ports() {
        let parsed = |text| host_port(os(text)).map(|HostPort { host, port }| (host, port));
        for (text, host, port) in [
            ("seed.example", "seed.example", None),
            ("seed.example:1", "seed.example", Some(1)),
            ("1.2.3.4:65535", "1.2.3.4", Some(65535)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[::1]:18444", "::1", Some(18444)),
        ] {
            assert_eq!(parsed(text), Some((host.to_owned(), port)), "{text}");
        }
        let long = "a".repeat(MAX_HOST_NAME + 1);
        for text in [
            "", ":1", "a:", "a:0", "a:65536", "a:+1", "[::1]:+1", "a:b", "[::1", "[::1]1", "[a]:1",
            "::g", "a b", "a/b", &long,
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
        assert!(ip_port(os("a:1")).is_none() && ip_port(os("[::]:1")).is_some());
        let address = |text| ip_port(os(text)).and_then(|ip| ip.socket_address(7));
        assert_eq!(address("0.0.0.0").map(|address| address.to_string()), Some("0.0.0.0:7".into()));
        assert_eq!(address("[::1]:8").map(|address| address.to_string()), Some("[::1]:8".into()));
    }

    #[test]
    fn networks() {
        let parsed = |text| network(os(text));
        assert_eq!(parsed("ipv4"), Some(AddressNetwork::Ipv4));
        assert_eq!(parsed("IPv6"), Some(AddressNetwork::Ipv6));
        assert_eq!(parsed("ONION"), Some(AddressNetwork::Onion));
        for text in
            ["", "i2p", "cjdns", "tor", "ipv", "ipv44", "not_publicly_routable", "ipv4,ipv6"]
        {
            assert_eq!(parsed(text), None, "{text:?}");
        }
    }

    #[test]
    fn byte_units() {
        let parsed = |text| bytes(os(text), 1 << 20);
        assert_eq!([parsed("0"), parsed("2"), parsed("3k")], [Some(0), Some(2 << 20), Some(3000)]);
        assert_eq!(
            [parsed("1K"), parsed("1g"), parsed("1T")].map(Option::unwrap),
            [1 << 10, 1_000_000_000, 1 << 40]
        );
        for text in ["", "k", "1kk", "-1", "+1", "+1M", "1.5M", "1b", "16777216T", "é"] {
            assert_eq!(parsed(text), None, "{text:?}");
        }
    }

    #[test]
    fn chain_work() {
        let parsed = |text: &str| work(os(text));
        assert_eq!(
            [parsed("0"), parsed("0x1f"), parsed("FF")].map(Option::unwrap),
            [Work::new(0), Work::new(31), Work::new(255)]
        );
        assert_eq!(parsed(&"f".repeat(64)), Some(Work::MAX));
        let too_long = ["f", "0"].map(|digit| digit.repeat(65));
        for text in ["", "0x", "-1", "+1", "g", &too_long[0], &too_long[1]] {
            assert_eq!(parsed(text), None, "{text:?}");
        }
    }

    #[test]
    fn hashes() {
        let genesis: BlockHash = HASH.parse().expect("64 digits");
        let hash_or_zero = |text: &OsStr| OrOff::parse(text, block_hash);
        assert_eq!(hash_or_zero(os(HASH)), Some(OrOff::Value(genesis)));
        assert_eq!(hash_or_zero(os(&format!("0x{HASH}"))), Some(OrOff::Value(genesis)));
        assert_eq!(hash_or_zero(os("0")), Some(OrOff::Off));
        let twice = format!("0x0x{HASH}");
        for text in
            ["", "1", "00", "0x", &HASH[1..], &format!("{HASH}0"), &HASH.replace('f', "g"), &twice]
        {
            assert_eq!(hash_or_zero(os(text)), None, "{text:?}");
        }
        let utxo = utxo_hash(os(HASH)).expect("64 digits");
        assert_eq!((utxo.0[0], format!("{utxo:?}").as_str()), (0x6f, HASH));
        assert_eq!(utxo_hash(os("0")), None);
    }

    #[test]
    fn activations() {
        assert_eq!(activation(os("segwit@0")), Some((Deployment::Segwit, 0)));
        assert_eq!(activation(os("csv@2147483646")), Some((Deployment::Csv, 2_147_483_646)));
        for text in
            ["csv@2147483647", "csv@-1", "csv@+5", "csv@", "csv", "@1", "taproot@1", "csv@1@2"]
        {
            assert_eq!(activation(os(text)), None, "{text:?}");
        }
    }

    #[test]
    fn hex_bytes() {
        assert_eq!(hex(os("51fF00")), Some(vec![0x51, 0xff, 0x00]));
        for text in ["", "5", "51f", "5g", "0x51", "+1"] {
            assert_eq!(hex(os(text)), None, "{text:?}");
        }
    }
}
