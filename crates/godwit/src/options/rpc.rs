//! Options of the RPC server.

use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use godwit_api::{CookiePermissions, Deprecated, RpcAuth, Subnet, Whitelist};
use godwit_primitives::Network;

use super::values::{HostPort, OrOff};

/// Defaults of Core's (`httpserver.h`).
const DEFAULT_THREADS: usize = 16;
const DEFAULT_QUEUE: usize = 64;
const DEFAULT_TIMEOUT: u64 = 30;

/// How to answer JSON-RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcOptions {
    /// Where to listen.
    pub addresses: Vec<SocketAddr>,
    /// `-rpcallowip`.
    pub allowed: Vec<Subnet>,
    /// `-rpcauth`.
    pub auth: Vec<RpcAuth>,
    /// `-rpcuser` and `-rpcpassword`.
    pub login: Option<(String, PlainPassword)>,
    pub cookie: Cookie,
    /// `-rpcwhitelist` and `-rpcwhitelistdefault`.
    pub whitelist: Whitelist,
    /// `-rest`.
    pub rest: bool,
    /// `-deprecatedrpc`.
    pub deprecated: Deprecated,
    /// `-rpcthreads`.
    pub threads: usize,
    /// `-rpcworkqueue`.
    pub queue: usize,
    /// `-rpcservertimeout`.
    pub timeout: Option<Duration>,
    /// `-web`.
    pub web: Option<SocketAddr>,
    /// `-metrics`.
    pub metrics: Option<SocketAddr>,
    /// Options without effect, for the log.
    pub remarks: Vec<&'static str>,
}

/// `-rpccookiefile` and `-rpccookieperms`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// None is written.
    Off,
    /// As given, from the network's directory.
    File(PathBuf, CookiePermissions),
}

/// A password as the user wrote it: it stands in the command line or in a file, and so in plain memory.
#[derive(Clone, PartialEq, Eq)]
pub struct PlainPassword(String);

impl PlainPassword {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PlainPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainPassword(..)")
    }
}

/// Values as given; `None` is "not given".
#[derive(Default)]
pub(super) struct RpcDraft {
    pub(super) server: Option<bool>,
    pub(super) port: Option<u16>,
    pub(super) bind: Vec<HostPort>,
    pub(super) allowed: Vec<Subnet>,
    pub(super) auth: Vec<RpcAuth>,
    pub(super) user: Option<String>,
    pub(super) password: Option<PlainPassword>,
    pub(super) cookie_file: Option<OrOff<PathBuf>>,
    pub(super) cookie_permissions: Option<CookiePermissions>,
    pub(super) whitelist: WhitelistDraft,
    pub(super) rest: Option<bool>,
    pub(super) deprecated: Vec<String>,
    pub(super) threads: Option<usize>,
    pub(super) queue: Option<usize>,
    pub(super) timeout: Option<u64>,
    pub(super) pages: PagesDraft,
}

/// The part of the draft that concerns what users may call.
#[derive(Default)]
pub(super) struct WhitelistDraft {
    pub(super) lines: Vec<String>,
    pub(super) default: Option<bool>,
}

/// The part of the draft that concerns what people are told of a sync.
#[derive(Default)]
pub(super) struct PagesDraft {
    pub(super) web: Option<Place>,
    pub(super) metrics: Option<Place>,
    /// Of the command `status`.
    pub(super) json: bool,
}

/// Where something that is switched on listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Off,
    /// At the address that is known for it.
    Usual,
    At(HostPort),
}

impl Place {
    pub(super) fn parse(
        text: &OsStr,
        parse: impl FnOnce(&OsStr) -> Option<HostPort>,
    ) -> Option<Self> {
        match text.to_str()? {
            "0" => Some(Self::Off),
            "1" => Some(Self::Usual),
            _ => parse(text).map(Self::At),
        }
    }

    fn address(self, usual: u16) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::Usual => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), usual)),
            Self::At(place) => place.socket_address(usual),
        }
    }
}

/// The page's port, and that of Prometheus exporters for Bitcoin nodes.
const WEB_PORT: u16 = 8338;
const METRICS_PORT: u16 = 9332;

/// How to ask a node that runs on the same data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskOptions {
    pub port: u16,
    /// `-rpcuser` and `-rpcpassword`.
    pub login: Option<(String, PlainPassword)>,
    /// `-rpccookiefile`, from the network's directory; `None` if it is switched off.
    pub cookie: Option<PathBuf>,
    /// `-json`.
    pub json: bool,
}

/// The options of a program that asks.
pub(super) fn resolve_asking(draft: RpcDraft, network: Network) -> AskOptions {
    let password = draft.password.filter(|password| !password.text().is_empty());
    AskOptions {
        port: draft.port.unwrap_or(default_port(network)),
        login: password.map(|password| (draft.user.unwrap_or_default(), password)),
        cookie: match draft.cookie_file {
            Some(OrOff::Off) => None,
            Some(OrOff::Value(path)) => Some(path),
            None => Some(PathBuf::from(COOKIE_FILE)),
        },
        json: draft.pages.json,
    }
}

/// In the network's directory, unless `-rpccookiefile` says otherwise.
const COOKIE_FILE: &str = ".cookie";

/// The port of a network (Core `chainparamsbase.cpp`).
pub(super) fn default_port(network: Network) -> u16 {
    match network {
        Network::Main => 8332,
        Network::Testnet3 => 18332,
        Network::Testnet4 => 48332,
        Network::Signet => 38332,
        Network::Regtest => 18443,
    }
}

/// Where to listen. Nobody is to open the server to others by accident: that takes both options (Core).
fn addresses(
    RpcDraft { bind, allowed, .. }: &RpcDraft,
    port: u16,
    remarks: &mut Vec<&'static str>,
) -> Vec<SocketAddr> {
    match (bind.is_empty(), allowed.is_empty()) {
        (false, false) => {
            let numeric = |host: &HostPort| {
                host.socket_address(port).expect("the table takes nothing else here")
            };
            return bind.iter().map(numeric).collect();
        }
        (false, true) => remarks.push(
            "-rpcbind has no effect without -rpcallowip: the server listens on this machine alone",
        ),
        (true, false) => remarks.push(
            "-rpcallowip has no effect without -rpcbind: only this machine can reach the server",
        ),
        (true, true) => {}
    }
    let own = [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)];
    own.map(|address| SocketAddr::new(address, port)).to_vec()
}

/// The options of the server; `None` where there is to be none.
pub(super) fn resolve(draft: RpcDraft, network: Network) -> Option<RpcOptions> {
    if !draft.server.unwrap_or(true) {
        return None;
    }
    let port = draft.port.unwrap_or(default_port(network));
    let mut remarks = Vec::new();
    let addresses = addresses(&draft, port, &mut remarks);
    let password = draft.password.filter(|password| !password.text().is_empty());
    if password.is_some() {
        remarks.push(
            "-rpcpassword is readable where it stands; the cookie or -rpcauth keep a password secret",
        );
    }
    let mut deprecated = Deprecated::default();
    let unknown = draft.deprecated.iter().filter(|name| !deprecated.bring_back(name)).count();
    if unknown > 0 {
        remarks
            .push("-deprecatedrpc knows bip125, fullrbf and warnings: other values have no effect");
    }
    let cookie = match draft.cookie_file {
        _ if password.is_some() => Cookie::Off,
        Some(OrOff::Off) => Cookie::Off,
        Some(OrOff::Value(path)) => {
            Cookie::File(path, draft.cookie_permissions.unwrap_or_default())
        }
        None => {
            Cookie::File(PathBuf::from(COOKIE_FILE), draft.cookie_permissions.unwrap_or_default())
        }
    };
    Some(RpcOptions {
        addresses,
        allowed: draft.allowed,
        auth: draft.auth,
        login: password.map(|password| (draft.user.unwrap_or_default(), password)),
        cookie,
        whitelist: Whitelist::new(&draft.whitelist.lines, draft.whitelist.default),
        rest: draft.rest.unwrap_or(false),
        deprecated,
        threads: draft.threads.unwrap_or(DEFAULT_THREADS),
        queue: draft.queue.unwrap_or(DEFAULT_QUEUE),
        timeout: Some(draft.timeout.unwrap_or(DEFAULT_TIMEOUT))
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs),
        web: draft.pages.web.and_then(|place| place.address(WEB_PORT)),
        metrics: draft.pages.metrics.and_then(|place| place.address(METRICS_PORT)),
        remarks,
    })
}
