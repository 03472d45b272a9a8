//! How two nodes introduce themselves: `version`, the messages between, `verack`.
//!
//! Source: Core `net_processing.cpp`, `ProcessMessage` and `PushNodeVersion`.

use std::time::Duration;

use data_encoding::HEXLOWER;
use log::{debug, info};

use super::{DisconnectReason, Peers, View};
use crate::connection_kind::ConnectionKind;
use crate::frame::Command;
use crate::message::{Message, Services, Version, VersionAddress};
use crate::net_address::Host;
use crate::net_address::NetAddress;
use crate::peer_id::PeerId;
use crate::time::Now;
use crate::transport::Protocol;

/// What this node speaks. Core's 70017 adds `feature`, of which there is none so far.
pub(super) const PROTOCOL_VERSION: i32 = 70_016;
/// Peers below it are left (Core `MIN_PEER_PROTO_VERSION`).
const MIN_PEER_VERSION: i32 = 31_800;
/// `sendheaders` exists from here on (BIP130).
pub(super) const SENDHEADERS_VERSION: i32 = 70_012;
/// `sendcmpct` exists from here on (BIP152).
const COMPACT_BLOCKS_VERSION: i32 = 70_014;
/// `wtxidrelay` exists from here on (BIP339); `sendaddrv2` is only sent to such peers, since older
/// ones may not take unknown messages (BIP155).
const WTXID_RELAY_VERSION: i32 = 70_016;
/// The version of compact blocks that is spoken: with witness.
pub(super) const COMPACT_BLOCKS: u64 = 2;

/// From connecting to `verack` (Core `DEFAULT_PEER_CONNECT_TIMEOUT`).
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// A pruned peer will do while our tip is not older than so many blocks (Core
/// `NODE_NETWORK_LIMITED_ALLOW_CONN_BLOCKS`).
const LIMITED_PEER_DEPTH: i64 = 144;

/// What two users can compare to know that nobody sits between them; as Core's `getpeerinfo`.
fn named(protocol: &Protocol) -> String {
    match protocol {
        Protocol::V2 { session_id } => format!(", session_id={}", HEXLOWER.encode(session_id)),
        Protocol::V1 | Protocol::Detecting => String::new(),
    }
}

impl Peers {
    pub(super) fn send_version(&mut self, view: View<'_>, id: PeerId) {
        let Some(peer) = self.peers.get(&id) else { return };
        let unspecified = NetAddress::new(Host::UNSPECIFIED, 0);
        let theirs = peer
            .address
            .filter(|address| address.is_routable() && address.host.is_v1_compatible())
            .unwrap_or(unspecified);
        let height = view.index.get(view.index.tip()).height;
        let version = Version {
            version: PROTOCOL_VERSION,
            services: self.config.services,
            timestamp: view.now.unix,
            receiver: VersionAddress { services: Services::NONE, address: theirs },
            sender: VersionAddress { services: self.config.services, address: unspecified },
            nonce: peer.handshake.nonce,
            user_agent: self.config.user_agent.clone(),
            start_height: i32::try_from(height).unwrap_or(i32::MAX),
            relay: false,
        };
        self.send(view.now, id, &Message::Version(Box::new(version)));
    }

    pub(super) fn on_version(&mut self, view: View<'_>, id: PeerId, version: &Version) {
        let now = view.now;
        let Some(peer) = self.peers.get(&id) else { return };
        if peer.handshake.version.is_some() {
            return debug!("peer={}: redundant version message", id.0);
        }
        if let Some(why) = self.unfit(view, id, version) {
            return self.disconnect(now, id, why);
        }
        let peer = self.peers.get_mut(&id).expect("it was found");
        let common = version.version.min(PROTOCOL_VERSION);
        let handshake = &mut peer.handshake;
        handshake.version = Some(version.version);
        handshake.common_version = common;
        handshake.services = version.services;
        handshake.user_agent.clone_from(&version.user_agent);
        handshake.start_height = version.start_height;
        handshake.relay = version.relay;
        handshake.local = Some(version.receiver.address);
        let (inbound, kind, address) = (peer.inbound(), peer.kind, peer.address);
        debug!(
            "peer={}: {} version {}, blocks={}, services {}",
            id.0, version.user_agent, version.version, version.start_height, version.services
        );
        if inbound {
            self.send_version(view, id);
        }
        if common >= WTXID_RELAY_VERSION {
            self.send(now, id, &Message::WtxidRelay);
            self.send(now, id, &Message::SendAddrV2);
        }
        self.send(now, id, &Message::Verack);
        if !inbound {
            if self.set_up_address_relay(id) {
                self.ask_for_addresses(now, id);
            }
            if let Some(address) = address {
                self.book.good(now.unix, &address);
            }
        }
        if kind == ConnectionKind::Feeler {
            self.disconnect(now, id, DisconnectReason::FeelerDone);
        }
    }

    /// Why a peer that says this of itself is of no use.
    fn unfit(&mut self, view: View<'_>, id: PeerId, version: &Version) -> Option<DisconnectReason> {
        let peer = self.peers.get(&id)?;
        if let (false, Some(address)) = (peer.inbound(), peer.address) {
            self.book.set_services(&address, version.services);
        }
        let expects_services = matches!(
            peer.kind,
            ConnectionKind::OutboundFull | ConnectionKind::BlockRelay | ConnectionKind::AddrFetch
        );
        if expects_services && !self.has_desirable_services(view, version.services) {
            return Some(DisconnectReason::MissingServices);
        }
        if version.version < MIN_PEER_VERSION {
            return Some(DisconnectReason::ObsoleteVersion(version.version));
        }
        // Only a connection on its way can meet itself: nonces of finished ones are no secret.
        let own = |other: &super::Peer| {
            !other.inbound() && !other.established() && other.handshake.nonce == version.nonce
        };
        if peer.inbound() && self.peers.values().any(own) {
            return Some(DisconnectReason::SelfConnection);
        }
        None
    }

    /// Whether an outbound peer that offers this is worth a connection (Core
    /// `HasAllDesirableServiceFlags`).
    pub(super) fn has_desirable_services(&self, view: View<'_>, services: Services) -> bool {
        services.contains(Services::NETWORK | Services::WITNESS)
            || (services.contains(Services::NETWORK_LIMITED | Services::WITNESS)
                && self.near_tip(view))
    }

    /// Pruned peers have all the blocks that are missing here.
    pub(super) fn near_tip(&self, view: View<'_>) -> bool {
        let tip = view.index.get(view.index.tip()).header;
        let behind = view.now.unix.saturating_sub(i64::from(tip.time));
        behind / i64::from(self.config.params.pow_target_spacing) < LIMITED_PEER_DEPTH
    }

    pub(super) fn on_verack(&mut self, view: View<'_>, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.handshake.established {
            return debug!("peer={}: redundant verack message", id.0);
        }
        peer.handshake.established = true;
        let handshake = &peer.handshake;
        let (kind, common) = (peer.kind, handshake.common_version);
        let line = format!(
            "New {kind} peer connected: transport: {}, version: {}, blocks={}, {}, peer={}{}",
            handshake.protocol,
            handshake.version.unwrap_or(0),
            handshake.start_height,
            handshake.user_agent,
            id.0,
            named(&handshake.protocol)
        );
        // Inbound connections can be made by anybody, at any rate; outbound peers that are let go of
        // are replaced.
        if kind == ConnectionKind::Inbound || !self.log_lines.take(view.now.monotonic, 1) {
            debug!("{line}")
        } else {
            info!("{line}")
        }
        if common >= COMPACT_BLOCKS_VERSION {
            let message = Message::SendCmpct { announce: false, version: COMPACT_BLOCKS };
            self.send(view.now, id, &message);
        }
        self.start_downloads(view.now, id);
        self.attend(view, id);
    }

    /// A message that is only allowed before `verack`; true when it came in time.
    pub(super) fn negotiates(&mut self, now: Now, id: PeerId, command: Command) -> bool {
        let late = self.peers.get(&id).is_none_or(|peer| peer.established());
        if late {
            self.disconnect(now, id, DisconnectReason::NegotiatedTooLate(command));
        }
        !late
    }

    pub(super) fn on_sendaddrv2(&mut self, now: Now, id: PeerId) {
        if self.negotiates(now, id, Command::SENDADDRV2)
            && let Some(peer) = self.peers.get_mut(&id)
        {
            peer.handshake.wants_addrv2 = true;
        }
    }
}
