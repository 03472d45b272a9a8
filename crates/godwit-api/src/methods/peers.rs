//! `getpeerinfo`, `ping`, `addnode`, `disconnectnode`, and methods about the address book.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::Duration;

use data_encoding::HEXLOWER;
use godwit_p2p::{
    AddressCount, AddressEntry, HeaderId, Host, NetAddress, NodeCommand, Now, PeerId, PeerInfo,
    Protocol, Services, Target,
};
use godwit_primitives::Params;
use godwit_rpc::{Json, RpcError, code, find, help_of};

use super::network::{NETWORKS, network_name, services, services_hex, services_names};
use super::{Call, parse};
use crate::added_names::{Added, named, too_many_nodes};
use crate::seam::NodeState;

/// A moment of the monotonic clock in seconds since 1970; zero stays zero.
fn unix(now: Now, moment: Duration) -> Json {
    let ago = now.monotonic.saturating_sub(moment).as_secs() as i64;
    if moment == Duration::ZERO { 0.into() } else { (now.unix - ago).into() }
}

fn seconds(time: Duration) -> Json {
    Json::real(time.as_micros() as f64 / 1e6)
}

fn name_of(peer: &PeerInfo) -> String {
    match (&peer.target, peer.address) {
        (Some(target), _) => named(target),
        (None, Some(address)) => address.to_string(),
        (None, None) => String::new(),
    }
}

/// Heights of the last header and the last block that we share with a peer; -1 for unknown.
fn shared(node: &dyn NodeState, peer: &PeerInfo) -> (i64, i64) {
    let tree = node.chain().tree();
    let height = |id: HeaderId| i64::from(tree.node(tree.at(id.0)).height);
    let [headers, blocks] =
        [peer.blocks.best_known, peer.blocks.common].map(|id| id.map_or(-1, height));
    (headers, blocks)
}

fn peer_json(now: Now, peer: &PeerInfo, (headers, blocks): (i64, i64)) -> Json {
    let (said, times) = (&peer.said, &peer.times);
    let mut json = Json::object([("id", peer.id.0.into()), ("addr", name_of(peer).into())]);
    if let Some(local) = said.local.filter(NetAddress::is_valid) {
        json.push("addrlocal", local.to_string());
    }
    json.push("network", network_name(peer.network));
    if let Some(system) = peer.system {
        json.push("mapped_as", system.get());
    }
    json.push("services", services_hex(said.services));
    json.push("servicesnames", services_names(said.services));
    json.push("relaytxes", said.relay);
    json.push("last_inv_sequence", peer.transactions.told_before);
    json.push("inv_to_send", peer.transactions.to_tell);
    json.push("lastsend", unix(now, times.last_sent));
    json.push("lastrecv", unix(now, times.last_received));
    // None is requested of anybody.
    json.push("last_transaction", 0);
    json.push("last_block", unix(now, times.last_block));
    json.push("bytessent", peer.traffic.bytes_sent());
    json.push("bytesrecv", peer.traffic.bytes_received());
    json.push("conntime", unix(now, times.connected));
    json.push("timeoffset", said.time_offset);
    if let Some(ping) = times.last_ping {
        json.push("pingtime", seconds(ping));
    }
    if let Some(ping) = times.shortest_ping {
        json.push("minping", seconds(ping));
    }
    if let Some(wait) = times.ping_wait {
        json.push("pingwait", seconds(wait));
    }
    json.push("version", said.version);
    json.push("subver", said.user_agent.as_str());
    json.push("inbound", peer.kind == godwit_p2p::ConnectionKind::Inbound);
    json.push("bip152_hb_to", peer.blocks.compact_to);
    json.push("bip152_hb_from", peer.blocks.compact_from);
    json.push("presynced_headers", peer.blocks.presynced.map_or(-1, i64::from));
    json.push("synced_headers", headers);
    json.push("synced_blocks", blocks);
    json.push("inflight", peer.blocks.in_flight.iter().copied().collect::<Json>());
    json.push("addr_relay_enabled", peer.addresses.are_exchanged);
    json.push("addr_processed", peer.addresses.processed);
    json.push("addr_rate_limited", peer.addresses.rate_limited);
    json.push("permissions", peer.permissions.names().collect::<Json>());
    json.push("minfeefilter", Json::amount(peer.transactions.least_fee));
    for (name, bytes) in [
        ("bytessent_per_msg", peer.traffic.sent_by_command()),
        ("bytesrecv_per_msg", peer.traffic.received_by_command()),
    ] {
        let mut by_command = Json::Object(Vec::new());
        bytes.into_iter().for_each(|(command, bytes)| by_command.push(command, bytes));
        json.push(name, by_command);
    }
    json.push("connection_type", peer.kind.to_string());
    let (transport, session) = match &said.protocol {
        Protocol::Detecting => ("detecting", String::new()),
        Protocol::V1 => ("v1", String::new()),
        Protocol::V2 { session_id } => ("v2", HEXLOWER.encode(session_id)),
    };
    json.push("transport_protocol_type", transport);
    json.push("session_id", session);
    json
}

pub(super) fn infos(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let (now, peers) = call.node.ask(|node| {
        let peers = node.peers().infos();
        let with_heights = peers.into_iter().map(|peer| {
            let heights = shared(node, &peer);
            (peer, heights)
        });
        (node.now(), with_heights.collect::<Vec<_>>())
    })?;
    Ok(peers.iter().map(|(peer, heights)| peer_json(now, peer, *heights)).collect())
}

pub(super) fn ping(call: &mut Call<'_>) -> Result<Json, RpcError> {
    call.node.ask(|node| node.command(NodeCommand::PingAll))?;
    Ok(Json::Null)
}

/// An address, or a name, perhaps with a port.
fn target(text: &str, params: &Params) -> Option<Target> {
    let port = params.default_port;
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Some(Target::Address(NetAddress::new(Host::from(ip), port)));
    }
    for text in [text.to_owned(), format!("{text}:{port}")] {
        if let Ok(address) = text.parse::<NetAddress>() {
            return Some(Target::Address(address));
        }
    }
    let (host, port) = match text.rsplit_once(':') {
        // As Core's `SplitHostPort`.
        Some((host, port)) => {
            let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
            (host, port.parse().ok().filter(|port| is_number && *port > 0)?)
        }
        None => (text, port),
    };
    let is_name = |host: &str| {
        !host.is_empty()
            && host.len() <= 255
            && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    is_name(host).then(|| Target::Name { host: host.to_owned(), port })
}

pub(super) fn add_node(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let (name, command) = (call.arg(0).as_text()?, call.arg(1).as_text()?);
    if !matches!(command, "add" | "remove" | "onetry") {
        let help = find("addnode").map(help_of).unwrap_or_default();
        return Err(RpcError::new(code::MISC_ERROR, help));
    }
    let encrypted = parse::flag(call.arg(2), false)?;
    let (services, added) = call.node.ask(|node| (services(node), node.peers().added_nodes()))?;
    if encrypted && !services.contains(Services::P2P_V2) {
        let text = "Error: v2transport requested but not enabled (see -v2transport)";
        return Err(RpcError::new(code::INVALID_PARAMETER, text));
    }
    let target = target(name, call.node.params());
    let known = call.api.added.with(added);
    match command {
        "onetry" => {
            if let Some(target) = target {
                try_node(call, target)?;
            }
        }
        "add" => {
            // Addresses are compared with their ports, and names as they are written (Core
            // `CConnman::AddNode`). How those of the configuration were written is not kept.
            let is_address = matches!(target, Some(Target::Address(_)));
            let same = |added: &Added| {
                let is_compared = || is_address || !call.api.added.has(&added.name);
                let is_same = target.is_some() && added.target == target;
                added.name == name || (is_same && is_compared())
            };
            if known.iter().any(same) {
                return Err(RpcError::new(code::NODE_ALREADY_ADDED, "Error: Node already added"));
            }
            call.api.added.add(Added { name: name.to_owned(), target: target.clone() })?;
            if let Some(target) = target {
                let is_added = call.node.ask(move |node| {
                    node.command(NodeCommand::AddNode(target.clone()));
                    node.peers().added_nodes().contains(&target)
                })?;
                if !is_added {
                    call.api.added.remove(name);
                    return Err(too_many_nodes());
                }
            }
        }
        _ => {
            let Some(added) = call.api.added.find(&known, name, target.as_ref()) else {
                let text = "Error: Node could not be removed. It has not been added previously.";
                return Err(RpcError::new(code::NODE_NOT_ADDED, text));
            };
            // It stays where another name of it was added, too.
            let is_other = |other: &Added| other.name != added.name && other.target == added.target;
            if let Some(target) = added.target.clone()
                && !known.iter().any(is_other)
            {
                call.node.ask(move |node| node.command(NodeCommand::RemoveNode(target)))?;
            }
            call.api.added.remove(name);
        }
    }
    Ok(Json::Null)
}

fn try_node(call: &Call<'_>, target: Target) -> Result<(), RpcError> {
    let is_refused = call.node.ask(move |node| {
        let is_refused = node.peers().refuses_try(&target);
        node.command(NodeCommand::TryNode(target));
        is_refused
    })?;
    if is_refused {
        let text = "Error: Too many connections of onetry are open or being opened";
        return Err(RpcError::new(code::LIMIT_EXCEEDED, text));
    }
    Ok(())
}

pub(super) fn added_nodes(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let (added, peers) =
        call.node.ask(|node| (node.peers().added_nodes(), node.peers().infos()))?;
    let mut added = call.api.added.with(added);
    if !call.arg(0).is_null() {
        let name = call.arg(0).as_text()?;
        let target = target(name, call.node.params());
        let Some(found) = call.api.added.find(&added, name, target.as_ref()) else {
            return Err(RpcError::new(code::NODE_NOT_ADDED, "Error: Node has not been added."));
        };
        added = vec![Added { name: name.to_owned(), target: found.target.clone() }];
    }
    let node = |added: &Added| {
        let is_it = |peer: &&PeerInfo| match &added.target {
            None => false,
            Some(Target::Address(address)) if peer.address == Some(*address) => true,
            target => peer.target == *target,
        };
        let address = |peer: &PeerInfo| {
            let inbound = peer.kind == godwit_p2p::ConnectionKind::Inbound;
            Json::object([
                ("address", peer.address.map_or_else(|| name_of(peer), |at| at.to_string()).into()),
                ("connected", if inbound { "inbound" } else { "outbound" }.into()),
            ])
        };
        let addresses: Vec<Json> = peers.iter().filter(is_it).map(address).collect();
        Json::object([
            ("addednode", added.name.as_str().into()),
            ("connected", (!addresses.is_empty()).into()),
            ("addresses", Json::List(addresses)),
        ])
    };
    Ok(added.iter().map(node).collect())
}

/// Core's number for parameters that exclude each other here.
const INVALID_PARAMS: i32 = -32602;

pub(super) fn disconnect(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let address = match call.arg(0) {
        Json::Null => None,
        address => Some(address.as_text()?.to_owned()),
    };
    let id: Option<i64> = match call.arg(1) {
        Json::Null => None,
        id => Some(id.as_integer()?),
    };
    let is_meant: Box<dyn Fn(&PeerInfo) -> bool + Send> = match (address, id) {
        (Some(address), None) => Box::new(move |peer| name_of(peer) == address),
        (None, Some(id)) => Box::new(move |peer| i64::try_from(peer.id.0) == Ok(id)),
        (Some(address), Some(id)) if address.is_empty() => {
            Box::new(move |peer| i64::try_from(peer.id.0) == Ok(id))
        }
        _ => {
            let text = "Only one of address and nodeid should be provided.";
            return Err(RpcError::new(INVALID_PARAMS, text));
        }
    };
    let found = call.node.change(move |node| {
        let meant = node.peers().infos().into_iter().filter(|peer| is_meant(peer));
        let ids: Vec<PeerId> = meant.map(|peer| peer.id).collect();
        ids.iter().for_each(|id| node.command(NodeCommand::Disconnect(*id)));
        !ids.is_empty()
    })?;
    match found {
        true => Ok(Json::Null),
        false => Err(RpcError::new(code::NODE_NOT_CONNECTED, "Node not found in connected nodes")),
    }
}

/// Addresses of one answer at most.
const MAX_ADDRESSES: usize = 100_000;

/// Memory of what is told of an address, as values and as text.
const PER_ADDRESS: usize = 700;

/// Places of the address book that are looked at with one question: each may be of a banned range.
const PLACES_AT_ONCE: usize = 500;

/// All addresses that are worth telling, each once, also if one moves meanwhile.
fn known_addresses(call: &Call<'_>) -> Result<Vec<AddressEntry>, RpcError> {
    let (mut known, mut seen) = (Vec::new(), HashSet::new());
    for first in (0..MAX_ADDRESSES).step_by(PLACES_AT_ONCE) {
        let places = first..first + PLACES_AT_ONCE;
        let Some(more) = call.node.ask(move |node| node.peers().known_addresses(places))? else {
            break;
        };
        known.extend(more.into_iter().filter(|entry| seen.insert(entry.address)));
    }
    Ok(known)
}

pub(super) fn addresses(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let count: i32 = parse::integer(call.arg(0), 1)?;
    let refused = |text: String| RpcError::new(code::INVALID_PARAMETER, text);
    let Ok(count) = usize::try_from(count) else {
        return Err(refused("Address count out of range".to_owned()));
    };
    let network = match call.arg(1) {
        Json::Null => None,
        name => {
            let name = name.as_text()?;
            let found =
                NETWORKS.into_iter().find(|known| network_name(*known).eq_ignore_ascii_case(name));
            Some(found.ok_or_else(|| refused(format!("Network not recognized: {name}")))?)
        }
    };
    let known = known_addresses(call)?;
    let most = if count == 0 { MAX_ADDRESSES } else { count };
    let of_network =
        |entry: &&AddressEntry| network.is_none_or(|network| entry.address.network() == network);
    let mut wanted: Vec<&AddressEntry> = known.iter().filter(of_network).collect();
    // In an order of their own for each answer.
    let order = RandomState::new();
    wanted.sort_by_cached_key(|entry| order.hash_one(entry.address.to_string()));
    let json = |entry: &AddressEntry| {
        let text = entry.address.to_string();
        let host = text.rsplit_once(':').map_or(&*text, |(host, _)| host);
        Json::object([
            ("time", entry.time.into()),
            ("services", entry.services.0.into()),
            ("address", host.trim_matches(['[', ']']).into()),
            ("port", entry.address.port.into()),
            ("network", network_name(entry.address.network()).into()),
        ])
    };
    call.room.grow(wanted.len().min(most) * PER_ADDRESS)?;
    Ok(wanted.into_iter().take(most).map(json).collect())
}

/// How many addresses are known, by network.
pub(super) fn address_counts(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let counts = call.node.ask(|node| node.peers().address_counts())?;
    let json = |(new, tried): (usize, usize)| {
        Json::object([
            ("new", new.into()),
            ("tried", tried.into()),
            ("total", (new + tried).into()),
        ])
    };
    let mut all = (0, 0);
    let mut answer = Json::Object(Vec::new());
    for network in NETWORKS {
        let of = |counted: &AddressCount| counted.network == network;
        let found = counts.iter().find(|counted| of(counted)).copied();
        let (new, tried) = found.map_or((0, 0), |counted| (counted.new, counted.tried));
        all = (all.0 + new, all.1 + tried);
        answer.push(network_name(network), json((new, tried)));
    }
    answer.push("all_networks", json(all));
    Ok(answer)
}
