//! Hosts that the operator has banned: for a time, connections to them are not opened and connections from
//! them are not accepted (Core `banman.{h,cpp}`, `netaddress.cpp` `CSubNet`).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::net_address::{AddressParseError, Host};

/// Bans at most.
pub const MAX_BANS: usize = 10_000;

/// Hosts of one network with the same first bits. Of networks whose addresses are keys, it is one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostRange {
    /// The first of them.
    first: Host,
    bits: u8,
}

/// When a ban began and when it ends, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    pub created: i64,
    pub until: i64,
}

/// The bans that are in force.
#[derive(Clone, Debug, Default)]
pub struct Bans {
    bans: BTreeMap<HostRange, Ban>,
    /// No ban ends earlier.
    earliest: i64,
}

/// Bits of the addresses of a network that has ranges.
fn address_bits(host: &Host) -> Option<u8> {
    match host {
        Host::Ipv4(_) => Some(32),
        Host::Ipv6(_) => Some(128),
        Host::OnionV3(_) | Host::I2p(_) | Host::Cjdns(_) => None,
    }
}

/// The bytes without those behind the first bits.
fn masked<const N: usize>(bytes: [u8; N], bits: u8) -> [u8; N] {
    let of_byte = |n: usize| usize::from(bits).saturating_sub(8 * n).min(8) as u32;
    std::array::from_fn(|n| bytes[n] & !0xff_u8.checked_shr(of_byte(n)).unwrap_or(0))
}

impl HostRange {
    pub fn of_host(host: Host) -> Self {
        Self { first: host, bits: address_bits(&host).unwrap_or(0) }
    }

    /// The hosts with the first bits of this one; `None` where there are none.
    pub fn new(host: Host, bits: u8) -> Option<Self> {
        let most = address_bits(&host)?;
        let first = match host {
            Host::Ipv4(bytes) => Host::Ipv4(masked(bytes, bits)),
            Host::Ipv6(bytes) => Host::Ipv6(masked(bytes, bits)),
            other => other,
        };
        (bits <= most).then_some(Self { first, bits })
    }

    /// The host, if it is one alone.
    pub fn host(&self) -> Option<Host> {
        let is_whole = address_bits(&self.first).is_none_or(|bits| bits == self.bits);
        is_whole.then_some(self.first)
    }

    /// Whether a host is one of them.
    pub fn contains(&self, host: &Host) -> bool {
        match address_bits(host) {
            Some(_) => Self::new(*host, self.bits) == Some(*self),
            None => self.first == *host,
        }
    }
}

/// The bits of a mask: ones and behind them zeros.
fn mask_bits(mask: Host) -> Option<u8> {
    let bits = match mask {
        Host::Ipv4(bytes) => u128::from(u32::from_be_bytes(bytes)) << 96,
        Host::Ipv6(bytes) => u128::from_be_bytes(bytes),
        _ => return None,
    };
    let ones = bits.leading_ones();
    (ones + bits.trailing_zeros() >= u128::BITS).then_some(ones as u8)
}

impl FromStr for HostRange {
    type Err = AddressParseError;

    /// A host, in brackets or not, or one with the number of bits or a mask behind a slash.
    fn from_str(text: &str) -> Result<Self, AddressParseError> {
        let host = |text: &str| {
            let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
            inside.unwrap_or(text).parse::<Host>()
        };
        let Some((first, mask)) = text.rsplit_once('/') else {
            return Ok(Self::of_host(host(text)?));
        };
        let host = host(first)?;
        let digits = mask.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match mask.parse::<u8>() {
            Ok(bits) if digits => bits,
            _ => {
                let mask: Host = mask.parse()?;
                let same = std::mem::discriminant(&mask) == std::mem::discriminant(&host);
                mask_bits(mask).filter(|_| same).ok_or(AddressParseError)?
            }
        };
        Self::new(host, bits).ok_or(AddressParseError)
    }
}

impl fmt::Display for HostRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match address_bits(&self.first) {
            Some(_) => write!(f, "{}/{}", self.first, self.bits),
            None => self.first.fmt(f),
        }
    }
}

impl Bans {
    /// Bans a range, unless it is banned for longer or there are too many; whether it is banned now.
    pub fn add(&mut self, range: HostRange, ban: Ban) -> bool {
        if !self.bans.contains_key(&range) && self.bans.len() >= MAX_BANS {
            return false;
        }
        let known = self.bans.entry(range).or_insert(ban);
        if known.until < ban.until {
            *known = ban;
        }
        self.earliest = if self.bans.len() == 1 { ban.until } else { self.earliest.min(ban.until) };
        true
    }

    /// Forgets the ban of exactly this range; whether there was one.
    pub fn remove(&mut self, range: &HostRange) -> bool {
        self.bans.remove(range).is_some()
    }

    pub fn clear(&mut self) {
        self.bans.clear();
    }

    /// Forgets those that are over. `now` is in seconds since 1970.
    pub fn sweep(&mut self, now: i64) {
        if self.bans.is_empty() || now <= self.earliest {
            return;
        }
        self.bans.retain(|_, ban| ban.until >= now);
        self.earliest = self.bans.values().map(|ban| ban.until).min().unwrap_or(i64::MAX);
    }

    /// Whether exactly this range is banned.
    pub fn has(&self, range: &HostRange) -> bool {
        self.bans.contains_key(range)
    }

    /// Whether a host is banned, by itself or with others: one look-up for each length of a range.
    pub fn contains(&self, host: &Host) -> bool {
        if self.bans.is_empty() {
            return false;
        }
        match address_bits(host) {
            None => self.has(&HostRange::of_host(*host)),
            Some(most) => (0..=most)
                .any(|bits| HostRange::new(*host, bits).is_some_and(|range| self.has(&range))),
        }
    }

    /// All of them, by network and address.
    pub fn iter(&self) -> impl Iterator<Item = (HostRange, Ban)> {
        self.bans.iter().map(|(range, ban)| (*range, *ban))
    }

    pub fn len(&self) -> usize {
        self.bans.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bans.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONION: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";

    fn range(text: &str) -> HostRange {
        text.parse().expect(text)
    }

    fn host(text: &str) -> Host {
        text.parse().expect(text)
    }

    #[test]
    fn ranges_are_read_and_written_as_core_does() {
        for (text, written) in [
            ("1.2.3.4", "1.2.3.4/32"),
            ("1.2.3.4/24", "1.2.3.0/24"),
            ("1.2.3.4/255.255.0.0", "1.2.0.0/16"),
            ("1.2.3.4/0.0.0.0", "0.0.0.0/0"),
            ("1.2.3.4/255.255.255.255", "1.2.3.4/32"),
            ("::1", "::1/128"),
            ("[::1]", "::1/128"),
            ("[2a02::]/16", "2a02::/16"),
            ("2a02:ab::ff/33", "2a02:ab::/33"),
            ("2a02:ab::ff/ffff::", "2a02::/16"),
            ("::ffff:1.2.3.4/8", "1.0.0.0/8"),
            (ONION, ONION),
        ] {
            assert_eq!(range(text).to_string(), written, "{text}");
        }
        for text in [
            "[::1",
            "",
            "a",
            "/",
            "1.2.3",
            "1.2.3.4/",
            "1.2.3.4/33",
            "1.2.3.4/-1",
            "1.2.3.4/+8",
            "1.2.3.4/x",
            "::1/129",
            "1.2.3.4/255.0.255.0",
            "1.2.3.4/ffff::",
            "::1/255.0.0.0",
            "1.2.3.4/8/8",
        ] {
            assert!(text.parse::<HostRange>().is_err(), "{text}");
        }
        assert!(format!("{ONION}/8").parse::<HostRange>().is_err());
    }

    #[test]
    fn a_host_is_banned_alone_and_with_others() {
        let mut bans = Bans::default();
        let ban = Ban { created: 10, until: 20 };
        for text in ["10.1.2.3", "11.0.0.0/8", "2a02::/20", ONION] {
            assert!(bans.add(range(text), ban));
        }
        for banned in ["10.1.2.3", "11.255.0.1", "2a02:fff::", ONION] {
            assert!(bans.contains(&host(banned)), "{banned}");
        }
        for other in ["10.1.2.4", "12.0.0.0", "2a02:1000::", "::10.1.2.3"] {
            assert!(!bans.contains(&host(other)), "{other}");
        }
        assert!(bans.has(&range("11.9.9.9/8")) && !bans.has(&range("11.0.0.0/9")));
        assert!(bans.remove(&range("11.0.0.0/8")) && !bans.remove(&range("11.0.0.0/8")));
        assert!(!bans.contains(&host("11.255.0.1")));
    }

    #[test]
    fn a_ban_ends_when_its_time_is_over_and_none_is_shortened() {
        let mut bans = Bans::default();
        let (one, two) = (range("1.0.0.0/8"), range("2.0.0.0/8"));
        bans.add(one, Ban { created: 10, until: 30 });
        bans.add(one, Ban { created: 11, until: 20 });
        bans.add(two, Ban { created: 10, until: 20 });
        bans.sweep(20);
        assert_eq!(bans.len(), 2);
        bans.sweep(21);
        assert_eq!(bans.iter().collect::<Vec<_>>(), [(one, Ban { created: 10, until: 30 })]);
        bans.sweep(30);
        assert!(bans.has(&one));
        bans.sweep(31);
        assert!(bans.is_empty());
        bans.add(two, Ban { created: 31, until: 32 });
        bans.sweep(33);
        assert!(bans.is_empty(), "the earliest is that of those that are there");
    }

    #[test]
    fn there_are_so_many_bans_and_no_more() {
        let mut bans = Bans::default();
        let ban = Ban { created: 0, until: 9 };
        let nth = |n: u32| HostRange::of_host(Host::Ipv4(n.to_be_bytes()));
        assert!((0..MAX_BANS as u32).all(|n| bans.add(nth(n), ban)));
        assert!(!bans.add(nth(MAX_BANS as u32), ban) && bans.add(nth(0), ban));
        assert_eq!(bans.len(), MAX_BANS);
    }
}
