//! The addresses on which connections are accepted, and the onion service that leads there (Core `init.cpp`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use godwit_p2p::{AddressNetwork, Binding, NetAddress, Permissions};
use godwit_primitives::Params;

use super::draft::{ConnectionDraft, ListenDraft};
use super::values::{HostPort, OrOff};
use super::{Listening, TorOptions};

/// Tor's usual control port (Core `DEFAULT_TOR_CONTROL_PORT`).
const DEFAULT_CONTROL_PORT: u16 = 9051;

/// Whether only peers are connected to that the user named.
pub(super) fn is_alone(draft: &ConnectionDraft) -> bool {
    draft.connect.is_some() || draft.max_connections == Some(0)
}

/// An address that the table has found to be one of numbers.
pub(super) fn numeric(host_port: HostPort, port: u16) -> SocketAddr {
    host_port.socket_address(port).expect("the table takes nothing else here")
}

fn is_proxied(draft: &ConnectionDraft) -> bool {
    matches!(draft.proxy, Some(OrOff::Value(_)))
}

fn names_an_address(draft: &ConnectionDraft) -> bool {
    let draft = &draft.listening;
    !(draft.bind.is_empty() && draft.white_bind.is_empty() && draft.onion_bind.is_empty())
}

fn listens(draft: &ConnectionDraft) -> bool {
    let usual = names_an_address(draft) || !(is_alone(draft) || is_proxied(draft));
    draft.listening.on.unwrap_or(usual)
}

/// Whether Tor is to make an onion service.
pub(super) fn makes_onion_service(draft: &ConnectionDraft) -> bool {
    draft.tor.listen.unwrap_or(listens(draft))
}

/// Whether the router is asked for a port. What else than `-listen` turns listening off turns this off too;
/// in Core only where the option is not given, and then a port is forwarded at which nothing listens.
fn maps_port(draft: &ConnectionDraft) -> bool {
    draft.listening.natpmp && (listens(draft) || draft.listening.on == Some(false))
}

/// An option that was given and has no effect because nothing listens.
pub(super) fn useless_option(draft: &ConnectionDraft) -> Option<&'static str> {
    let ListenDraft { bind, onion_bind, .. } = &draft.listening;
    match names_an_address(draft) {
        _ if listens(draft) => None,
        true if bind.is_empty() && onion_bind.is_empty() => Some("whitebind"),
        true => Some("bind"),
        false if makes_onion_service(draft) => Some("listenonion"),
        false => maps_port(draft).then_some("natpmp"),
    }
}

/// Where to listen, if no option is useless.
pub(super) fn listening(draft: &ConnectionDraft, params: &Params) -> Listening {
    let (on, makes_service) = (listens(draft), makes_onion_service(draft));
    let (is_named, is_proxied) = (names_an_address(draft), is_proxied(draft));
    let natpmp = maps_port(draft);
    let draft = &draft.listening;
    let port = draft.port.unwrap_or(params.default_port);
    // Who connects to a socket for trusted peers could not be evicted (Core `GetListenPort`).
    let public = draft.white_bind.iter().find(|one| !one.permissions.contains(Permissions::NO_BAN));
    let named = draft.bind.iter().find_map(|address| address.port);
    let bind = draft.bind.iter().map(|address| Binding::from(numeric(address.clone(), port)));
    let told_port = named.or(public.map(|binding| binding.address.port())).unwrap_or(port);
    let with_port = |address: &NetAddress| match address.port {
        0 => NetAddress { port: told_port, ..*address },
        _ => *address,
    };
    let onion = draft.onion_bind.iter().map(|address| numeric(address.clone(), next(port)));
    let mut onion: Vec<SocketAddr> = onion.collect();
    // Not at an address of -bind, as in Core: those who come from Tor, from this machine perhaps, could have
    // permissions there that nobody meant to give to them.
    if onion.is_empty() && makes_service {
        onion.push(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), next(told_port)));
    }
    Listening {
        on,
        everywhere: !is_named,
        bind: bind.chain(draft.white_bind.iter().copied()).collect(),
        onion,
        port,
        told_port,
        external: draft.external.iter().map(with_port).collect(),
        // Who hides behind a proxy, or says himself where he is, has nothing found out.
        discover: draft.discover.unwrap_or(on && !is_proxied && draft.external.is_empty()),
        natpmp,
    }
}

/// The port for Tor, next to that for others.
fn next(port: u16) -> u16 {
    port.checked_add(1).unwrap_or(port - 1)
}

/// The service that Tor is asked for, if there is to be one.
pub(super) fn onion_service(draft: &ConnectionDraft, listening: &Listening) -> Option<TorOptions> {
    let first = listening.onion.first().filter(|_| makes_onion_service(draft))?;
    let tor = &draft.tor;
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_CONTROL_PORT);
    let control = tor.control.clone();
    let networks = &draft.only_networks;
    Some(TorOptions {
        control: control.map_or(local, |control| numeric(control, DEFAULT_CONTROL_PORT)),
        password: tor.password.clone(),
        target: callable(*first),
        asks_for_proxy: draft.onion.is_none(),
        reaches: networks.is_empty() || networks.contains(&AddressNetwork::Onion),
    })
}

/// Where a socket is called from this machine.
fn callable(bound: SocketAddr) -> SocketAddr {
    let local = match bound.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(local, bound.port())
}
