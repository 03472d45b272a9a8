//! Permissions that the operator gives to single peers (Core `net_permissions.{h,cpp}`, `-whitelist`,
//! `-whitebind`).

use std::fmt;
use std::net::SocketAddr;
use std::ops::{BitOr, BitOrAssign};
use std::str::FromStr;

use crate::bans::HostRange;
use crate::net_address::{Host, NetAddress};

/// What a peer may do that others may not. Some of them include others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions(u32);

impl Permissions {
    pub const NONE: Self = Self(0);
    /// Filters of BIP37, which godwit does not have: without effect.
    pub const BLOOM_FILTER: Self = Self(1 << 1);
    /// It may send and announce transactions, which are not looked at all the same.
    pub const RELAY: Self = Self(1 << 3);
    /// Its transactions would be relayed whatever is known of them: without effect beyond [`Self::RELAY`].
    pub const FORCE_RELAY: Self = Self(1 << 2 | Self::RELAY.0);
    /// It may ask for what is in the mempool (BIP35), where nothing is.
    pub const MEMPOOL: Self = Self(1 << 5);
    /// It gets headers before the chain has the minimum work, and old blocks above the upload target.
    pub const DOWNLOAD: Self = Self(1 << 6);
    /// Whatever it does, it is not banned, discouraged, evicted or cut off by an allowance.
    pub const NO_BAN: Self = Self(1 << 4 | Self::DOWNLOAD.0);
    /// It gets other addresses each time that it asks, and may tell as many as it likes.
    pub const ADDR: Self = Self(1 << 7);
    /// No permission was named: it gets those that are usual.
    const IMPLICIT: Self = Self(1 << 31);
    /// Those that are usual. Core adds `relay` unless it runs with `-blocksonly`.
    const USUAL: Self = Self(Self::NO_BAN.0 | Self::MEMPOOL.0);
    const ALL: Self = Self(
        Self::BLOOM_FILTER.0
            | Self::FORCE_RELAY.0
            | Self::NO_BAN.0
            | Self::MEMPOOL.0
            | Self::DOWNLOAD.0
            | Self::ADDR.0,
    );
    /// With their names, in the order in which Core lists them.
    const NAMED: [(&'static str, Self); 7] = [
        ("bloomfilter", Self::BLOOM_FILTER),
        ("noban", Self::NO_BAN),
        ("forcerelay", Self::FORCE_RELAY),
        ("relay", Self::RELAY),
        ("mempool", Self::MEMPOOL),
        ("download", Self::DOWNLOAD),
        ("addr", Self::ADDR),
    ];

    /// Whether all of `others` are among these.
    pub fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// As Core's `getpeerinfo` lists them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let has = move |(_, one): &(&str, Self)| self.contains(*one);
        Self::NAMED.into_iter().filter(has).map(|(name, _)| name)
    }

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "bloom" => Some(Self::BLOOM_FILTER),
            "all" => Some(Self::ALL),
            _ => Self::NAMED.into_iter().find(|(other, _)| *other == name).map(|(_, one)| one),
        }
    }

    /// With the usual ones in place of none that were named.
    fn granted(self) -> Self {
        match self.contains(Self::IMPLICIT) {
            true => Self(self.0 & !Self::IMPLICIT.0) | Self::USUAL,
            false => self,
        }
    }
}

impl BitOr for Permissions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Permissions {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// A value of `-whitelist` or `-whitebind` that means nothing. The words are Core's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionError {
    Unknown(String),
    /// The whole value.
    OnlyDirection(String),
    OutboundToSocket,
    Range(String),
    Address(String),
    /// The whole value.
    InvalidPort(String),
    NoPort(String),
}

impl fmt::Display for PermissionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "Invalid P2P permission: '{name}'"),
            Self::OnlyDirection(text) => {
                write!(f, "Only direction was set, no permissions: '{text}'")
            }
            Self::OutboundToSocket => f.write_str(
                "whitebind may only be used for incoming connections (\"out\" was passed)",
            ),
            Self::Range(text) => write!(f, "Invalid netmask specified in -whitelist: '{text}'"),
            Self::Address(text) => write!(f, "Cannot resolve -whitebind address: '{text}'"),
            Self::InvalidPort(text) => write!(f, "Invalid port specified in -whitebind: '{text}'"),
            Self::NoPort(text) => write!(f, "Need to specify a port with -whitebind: '{text}'"),
        }
    }
}

impl std::error::Error for PermissionError {}

/// What stands before the `@`, and the rest.
struct Granted<'a> {
    permissions: Permissions,
    /// Of peers that connect to this node, of those that the operator has it call, or of both.
    inbound: bool,
    manual: bool,
    to: &'a str,
}

fn granted(text: &str, of_socket: bool) -> Result<Granted<'_>, PermissionError> {
    let Some((names, to)) = text.split_once('@') else {
        let permissions = Permissions::IMPLICIT;
        return Ok(Granted { permissions, inbound: true, manual: false, to: text });
    };
    let (mut permissions, mut inbound, mut manual) = (Permissions::NONE, false, false);
    for name in names.split(',').filter(|name| !name.is_empty()) {
        match name {
            "in" => inbound = true,
            "out" if of_socket => return Err(PermissionError::OutboundToSocket),
            "out" => manual = true,
            _ => {
                permissions |= Permissions::from_name(name)
                    .ok_or_else(|| PermissionError::Unknown(name.to_owned()))?;
            }
        }
    }
    if (inbound || manual) && permissions == Permissions::NONE {
        return Err(PermissionError::OnlyDirection(text.to_owned()));
    }
    Ok(Granted { permissions, inbound: inbound || !manual, manual, to })
}

/// Which hosts have which permissions (`-whitelist`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whitelist {
    inbound: Vec<(HostRange, Permissions)>,
    manual: Vec<(HostRange, Permissions)>,
}

impl Whitelist {
    /// Adds `[permissions@]host[/bits]`. The directions `in` and `out` may stand among the permissions; they
    /// are for peers that connect to this node if neither does.
    ///
    /// # Errors
    ///
    /// When the text means nothing.
    pub fn add(&mut self, text: &str) -> Result<(), PermissionError> {
        let Granted { permissions, inbound, manual, to } = granted(text, false)?;
        let range = to.parse().map_err(|_| PermissionError::Range(to.to_owned()))?;
        if inbound {
            self.inbound.push((range, permissions));
        }
        if manual {
            self.manual.push((range, permissions));
        }
        Ok(())
    }

    /// Those of a peer that connected to a socket with permissions of its own.
    pub(crate) fn of_inbound(&self, host: &Host, of_socket: Permissions) -> Permissions {
        matching(&self.inbound, host, of_socket)
    }

    /// Those of a peer that the operator had called.
    pub(crate) fn of_manual(&self, host: &Host) -> Permissions {
        matching(&self.manual, host, Permissions::NONE)
    }
}

fn matching(list: &[(HostRange, Permissions)], host: &Host, first: Permissions) -> Permissions {
    let matching = list.iter().filter(|(range, _)| range.contains(host));
    matching.fold(first, |all, (_, permissions)| all | *permissions).granted()
}

/// How those who connect to a listening socket are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// By where they come from, and with these permissions for all of them.
    Direct(Permissions),
    /// Tor hands over who calls the onion service: the address from which they come is Tor's and tells
    /// nothing of them, so nothing is given or refused because of it.
    Onion,
}

/// An address to listen on, and what those who connect there may do (`-bind`, `-whitebind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    pub address: SocketAddr,
    pub permissions: Permissions,
}

impl From<SocketAddr> for Binding {
    /// Where nobody has permissions.
    fn from(address: SocketAddr) -> Self {
        Self { address, permissions: Permissions::NONE }
    }
}

impl FromStr for Binding {
    type Err = PermissionError;

    /// `[permissions@]address:port`.
    fn from_str(text: &str) -> Result<Self, PermissionError> {
        if has_invalid_port(text) {
            return Err(PermissionError::InvalidPort(text.to_owned()));
        }
        let Granted { permissions, to, .. } = granted(text, true)?;
        let address = NetAddress::parse(to, 0).ok().and_then(NetAddress::to_socket);
        let address = address.ok_or_else(|| PermissionError::Address(to.to_owned()))?;
        if address.port() == 0 {
            return Err(PermissionError::NoPort(to.to_owned()));
        }
        Ok(Self { address, permissions })
    }
}

/// Core looks at the port before it cuts off the permissions (`CheckHostPortOptions` in `init.cpp`): behind
/// those of an IPv6 address it finds none.
fn has_invalid_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_bracketed = text.starts_with('[') && host.ends_with(']');
    let is_ip6 = host.contains(':') && !is_bracketed;
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = digits && port.parse::<u16>().is_ok_and(|port| port != 0);
    !is_ip6 && !is_port
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        text.parse().expect(text)
    }

    fn names(permissions: Permissions) -> String {
        permissions.names().collect::<Vec<_>>().join(",")
    }

    fn whitelist(lines: &[&str]) -> Whitelist {
        let mut list = Whitelist::default();
        lines.iter().for_each(|line| list.add(line).expect(line));
        list
    }

    fn inbound(list: &Whitelist, from: &str) -> String {
        names(list.of_inbound(&host(from), Permissions::NONE))
    }

    /// Core `netbase_tests.cpp`, `netpermissions_test`, and what `getpeerinfo` shows of each.
    #[test]
    fn permissions_are_read_and_named_as_in_core() {
        for (text, expected) in [
            ("1.2.3.4", "noban,mempool,download"),
            ("@1.2.3.4", ""),
            (",@1.2.3.4", ""),
            (",,@1.2.3.4", ""),
            ("bloom@1.2.3.4", "bloomfilter"),
            ("bloomfilter@1.2.3.4", "bloomfilter"),
            ("noban@1.2.3.4", "noban,download"),
            ("noban,@1.2.3.4", "noban,download"),
            (",noban@1.2.3.4", "noban,download"),
            ("noban,noban@1.2.3.4", "noban,download"),
            ("bloom,noban@1.2.3.4", "bloomfilter,noban,download"),
            ("forcerelay@1.2.3.4", "forcerelay,relay"),
            ("mempool,noban,in@1.2.3.4", "noban,mempool,download"),
            ("all@1.2.3.4", "bloomfilter,noban,forcerelay,relay,mempool,download,addr"),
            ("addr,relay,in,out@1.2.3.4", "relay,addr"),
        ] {
            assert_eq!(inbound(&whitelist(&[text]), "1.2.3.4"), expected, "{text}");
            assert_eq!(inbound(&whitelist(&[text]), "1.2.3.5"), "", "{text}");
        }
    }

    #[test]
    fn each_direction_has_its_own() {
        let of = |text: &str| {
            let list = whitelist(&[text]);
            let manual = names(list.of_manual(&host("1.2.3.4")));
            (inbound(&list, "1.2.3.4"), manual)
        };
        let pair = |inbound: &str, manual: &str| (inbound.to_owned(), manual.to_owned());
        assert_eq!(of("addr@1.2.3.4"), pair("addr", ""));
        assert_eq!(of("in,addr@1.2.3.4"), pair("addr", ""));
        assert_eq!(of("out,addr@1.2.3.4"), pair("", "addr"));
        assert_eq!(of("in,addr,out@1.2.3.4"), pair("addr", "addr"));
    }

    #[test]
    fn the_permissions_of_all_ranges_and_of_the_socket_add_up() {
        let list =
            whitelist(&["addr@1.2.0.0/16", "relay@1.2.3.0/24", "1.2.3.4", "noban@[2a02::]/16"]);
        assert_eq!(inbound(&list, "1.2.9.9"), "addr");
        assert_eq!(inbound(&list, "1.2.3.9"), "relay,addr");
        assert_eq!(inbound(&list, "1.2.3.4"), "noban,relay,mempool,download,addr");
        assert_eq!(inbound(&list, "2a02::1"), "noban,download");
        assert_eq!(inbound(&list, "2a03::1"), "");
        let socket: Binding = "bloom@0.0.0.0:1".parse().expect("it is one");
        let both = list.of_inbound(&host("1.2.9.9"), socket.permissions);
        assert_eq!(names(both), "bloomfilter,addr");
        let usual: Binding = "0.0.0.0:1".parse().expect("it is one");
        let both = list.of_inbound(&host("9.9.9.9"), usual.permissions);
        assert_eq!(names(both), "noban,mempool,download");
    }

    #[test]
    fn what_means_nothing_is_refused_in_core_s_words() {
        for (text, expected) in [
            ("1.2.3.4/33", "Invalid netmask specified in -whitelist: '1.2.3.4/33'"),
            ("", "Invalid netmask specified in -whitelist: ''"),
            ("noban@", "Invalid netmask specified in -whitelist: ''"),
            ("all@a.example", "Invalid netmask specified in -whitelist: 'a.example'"),
            ("noban@1@2", "Invalid netmask specified in -whitelist: '1@2'"),
            ("oopsie@1.2.3.4", "Invalid P2P permission: 'oopsie'"),
            ("noban, addr@1.2.3.4", "Invalid P2P permission: ' addr'"),
            ("NoBan@1.2.3.4", "Invalid P2P permission: 'NoBan'"),
            ("in@1.2.3.4", "Only direction was set, no permissions: 'in@1.2.3.4'"),
            ("in,out@1.2.3.4", "Only direction was set, no permissions: 'in,out@1.2.3.4'"),
        ] {
            let error = Whitelist::default().add(text).expect_err(text);
            assert_eq!(error.to_string(), expected, "{text}");
        }
        for (text, expected) in [
            ("noban@1.2.3.4", "Need to specify a port with -whitebind: '1.2.3.4'"),
            ("[::1]", "Need to specify a port with -whitebind: '[::1]'"),
            ("noban@1.2.3.4:0", "Invalid port specified in -whitebind: 'noban@1.2.3.4:0'"),
            ("1.2.3.4:65536", "Invalid port specified in -whitebind: '1.2.3.4:65536'"),
            ("1.2.3.4:+1", "Invalid port specified in -whitebind: '1.2.3.4:+1'"),
            ("[::1]:x", "Invalid port specified in -whitebind: '[::1]:x'"),
            ("noban@[::1]:x", "Cannot resolve -whitebind address: '[::1]:x'"),
            ("noban@a.example:1", "Cannot resolve -whitebind address: 'a.example:1'"),
            ("noban@", "Cannot resolve -whitebind address: ''"),
            ("oopsie@1.2.3.4:1", "Invalid P2P permission: 'oopsie'"),
            ("in@1.2.3.4:1", "Only direction was set, no permissions: 'in@1.2.3.4:1'"),
            (
                "out@1.2.3.4:1",
                "whitebind may only be used for incoming connections (\"out\" was passed)",
            ),
        ] {
            let error = text.parse::<Binding>().expect_err(text);
            assert_eq!(error.to_string(), expected, "{text}");
        }
        let bind: Binding = "addr@[::1]:9".parse().expect("it is one");
        assert_eq!(bind.address.to_string(), "[::1]:9");
        assert_eq!(names(bind.permissions), "addr");
    }
}
