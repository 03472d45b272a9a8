//! The handshake: `version`, the messages that negotiate, `verack`.
//!
//! Source: Core `net_processing.cpp`, `ProcessMessage` and `PushNodeVersion`.

use data_encoding::HEXLOWER;
use log::{debug, info};

use super::context::Context;
use super::misbehaviour::DisconnectReason;
use super::peer::Peer;
use crate::compact::COMPACT_BLOCKS;
use crate::connection_kind::ConnectionKind;
use crate::frame::Command;
use crate::message::{Message, Version, VersionAddress};
use crate::net_address::{Host, NetAddress};
use crate::peer_id::PeerId;
use crate::services::Services;
use crate::transport::Protocol;

/// This node's protocol version. Core's 70017 adds `feature`, but no feature exists yet.
const PROTOCOL_VERSION: i32 = 70_016;
/// Peers with a lower version are disconnected (Core `MIN_PEER_PROTO_VERSION`).
const MIN_PEER_VERSION: i32 = 31_800;
/// First version with `sendcmpct` (BIP152).
const COMPACT_BLOCKS_VERSION: i32 = 70_014;
/// First version with `wtxidrelay` (BIP339). `sendaddrv2` is sent to such peers alone, since older
/// ones may not tolerate unknown messages (BIP155).
const WTXID_RELAY_VERSION: i32 = 70_016;
/// The session id, which two users can compare to exclude a man in the middle; in the form of
/// Core's `getpeerinfo`.
fn named(protocol: &Protocol) -> String {
    match protocol {
        Protocol::V2 { session_id } => format!(", session_id={}", HEXLOWER.encode(session_id)),
        Protocol::V1 | Protocol::Detecting => String::new(),
    }
}

pub(super) fn send_version(cx: &mut Context<'_>, id: PeerId) {
    let Some(peer) = cx.table.get(id) else { return };
    let unspecified = NetAddress::new(Host::UNSPECIFIED, 0);
    // Who called the onion service is not told where Tor runs.
    let told = |address: &NetAddress| {
        peer.known_host().is_some() && address.is_routable() && address.host.is_v1_compatible()
    };
    let theirs = peer.address.filter(told).unwrap_or(unspecified);
    let height = cx.index.get(cx.index.tip()).height;
    let services = cx.services();
    let version = Version {
        version: PROTOCOL_VERSION,
        services,
        timestamp: cx.now.unix,
        receiver: VersionAddress { services: Services::NONE, address: theirs },
        sender: VersionAddress { services, address: unspecified },
        nonce: peer.handshake.nonce,
        user_agent: cx.config.user_agent.clone(),
        start_height: i32::try_from(height).unwrap_or(i32::MAX),
        relay: false,
    };
    cx.send(id, &Message::Version(Box::new(version)));
}

/// Handles the peer's `version` and answers it; false when it was not the first one, or the peer
/// was disconnected for it.
pub(super) fn on_version(cx: &mut Context<'_>, id: PeerId, version: &Version) -> bool {
    let Some(peer) = cx.table.get(id) else { return false };
    if peer.handshake.version.is_some() {
        debug!("peer={}: redundant version message", id.0);
        return false;
    }
    if let Some(why) = unfit(cx, id, version) {
        cx.disconnect(id, why);
        return false;
    }
    let peer = cx.table.get_mut(id).expect("it was found");
    let common = version.version.min(PROTOCOL_VERSION);
    let handshake = &mut peer.handshake;
    handshake.begun = cx.line.time();
    handshake.version = Some(version.version);
    handshake.common_version = common;
    handshake.services = version.services;
    handshake.user_agent.clone_from(&version.user_agent);
    handshake.start_height = version.start_height;
    handshake.time_offset = version.timestamp.saturating_sub(cx.now.unix);
    handshake.relay = version.relay;
    handshake.local = Some(version.receiver.address);
    let inbound = peer.inbound();
    if inbound {
        cx.own.note_seen(&version.receiver.address);
    }
    debug!(
        "peer={}: {} version {}, blocks={}, services {}",
        id.0, version.user_agent, version.version, version.start_height, version.services
    );
    if inbound {
        send_version(cx, id);
    }
    if common >= WTXID_RELAY_VERSION {
        cx.send(id, &Message::WtxidRelay);
        cx.send(id, &Message::SendAddrV2);
    }
    cx.send(id, &Message::Verack);
    cx.table.contains(id)
}

/// Why a peer with this `version` is disconnected, if it is.
fn unfit(cx: &mut Context<'_>, id: PeerId, version: &Version) -> Option<DisconnectReason> {
    let peer = cx.table.get(id)?;
    if let (false, Some(address)) = (peer.inbound(), peer.address) {
        cx.book.set_services(&address, version.services);
    }
    let expects_services = matches!(
        peer.kind,
        ConnectionKind::OutboundFull | ConnectionKind::BlockRelay | ConnectionKind::AddrFetch
    );
    if expects_services && !cx.has_desirable_services(version.services) {
        return Some(DisconnectReason::MissingServices);
    }
    if version.version < MIN_PEER_VERSION {
        return Some(DisconnectReason::ObsoleteVersion(version.version));
    }
    // Only a connection whose handshake is under way can be to ourselves: nonces of completed
    // handshakes are no secret.
    let own = |other: &Peer| {
        !other.inbound() && !other.established() && other.handshake.nonce == version.nonce
    };
    if peer.inbound() && cx.table.iter().any(own) {
        return Some(DisconnectReason::SelfConnection);
    }
    None
}

/// The handshake is complete; false when it was before.
pub(super) fn on_verack(cx: &mut Context<'_>, id: PeerId) -> bool {
    let Some(peer) = cx.table.get_mut(id) else { return false };
    if peer.handshake.established {
        debug!("peer={}: redundant verack message", id.0);
        return false;
    }
    peer.handshake.established = true;
    let handshake = &peer.handshake;
    let (kind, common) = (peer.kind, handshake.common_version);
    let system = peer.address.and_then(|address| cx.book.groups().system_of(address.host));
    let system = system.map_or_else(String::new, |system| format!(", mapped_as={system}"));
    let line = format!(
        "New {kind} peer connected: transport: {}, version: {}, blocks={}, {}, peer={}{}{system}",
        handshake.protocol,
        handshake.version.unwrap_or(0),
        handshake.start_height,
        handshake.user_agent,
        id.0,
        named(&handshake.protocol)
    );
    // Inbound connections can be made at any rate, and outbound peers that are disconnected are
    // replaced: hence the limit of log lines.
    if kind == ConnectionKind::Inbound || !cx.out.take_log_line(cx.now) {
        debug!("{line}")
    } else {
        info!("{line}")
    }
    if common >= COMPACT_BLOCKS_VERSION {
        let message = Message::SendCmpct { announce: false, version: COMPACT_BLOCKS };
        cx.send(id, &message);
    }
    true
}

/// A message that is only allowed before `verack`; disconnects the peer and returns false if it
/// came later.
fn require_before_verack(cx: &mut Context<'_>, id: PeerId, command: Command) -> bool {
    let late = cx.table.get(id).is_none_or(|peer| peer.established());
    if late {
        cx.disconnect(id, DisconnectReason::NegotiatedTooLate(command));
    }
    !late
}

pub(super) fn on_sendaddrv2(cx: &mut Context<'_>, id: PeerId) {
    if require_before_verack(cx, id, Command::SENDADDRV2)
        && let Some(peer) = cx.table.get_mut(id)
    {
        peer.handshake.wants_addrv2 = true;
    }
}

/// Of a peer that has not heard `wtxidrelay` of us it counts for nothing.
pub(super) fn on_wtxidrelay(cx: &mut Context<'_>, id: PeerId) {
    if require_before_verack(cx, id, Command::WTXIDRELAY)
        && let Some(peer) = cx.table.get_mut(id)
        && peer.handshake.common_version >= WTXID_RELAY_VERSION
    {
        peer.serving.transactions.by_wtxid = true;
    }
}

pub(super) fn on_sendheaders(cx: &mut Context<'_>, id: PeerId) {
    if let Some(peer) = cx.table.get_mut(id) {
        peer.handshake.prefers_headers = true;
    }
}

pub(super) fn on_sendcmpct(cx: &mut Context<'_>, id: PeerId, announce: bool, version: u64) {
    if version == COMPACT_BLOCKS
        && let Some(peer) = cx.table.get_mut(id)
    {
        peer.handshake.provides_compact = true;
        peer.handshake.wants_compact = announce;
    }
}
