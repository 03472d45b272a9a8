//! The state that all parts of the engine share while an event is handled: time, chain, peers, and the
//! actions so far.

use godwit_primitives::TxView;
use godwit_stream::{DataStream, PooledStream};
use log::{debug, info, warn};
use rand::rngs::StdRng;

use super::action::NetCommand;
use super::config::PeersConfig;
use super::line::Line;
use super::memory::account::SharedMemory;
use super::memory::footprint::Kind;
use super::misbehaviour::{DisconnectReason, Misbehaviour};
use super::outbox::Outbox;
use super::peer::Peer;
use super::send_limits::SEND_QUEUE_MAX;
use super::table::PeerTable;
use crate::address_book::AddressBook;
use crate::connection_kind::ConnectionKind;
use crate::frame::{Command, FRAME_HEADER_SIZE};
use crate::index::{HeaderId, HeaderIndex};
use crate::inventory::{Inventory, InventoryKind};
use crate::message::Message;
use crate::own_addresses::OwnAddresses;
use crate::peer_id::PeerId;
use crate::permissions::Permissions;
use crate::services::Services;
use crate::time::Now;
use crate::transport::message_memory;
use crate::tx_outbox::TxOutbox;

/// While the tip is younger than this many block spacings, announced blocks are requested directly
/// (Core `CanDirectFetch`).
const RECENT_SPACINGS: i64 = 20;

/// A pruned peer will do while our tip is at most this many block spacings old (Core
/// `NODE_NETWORK_LIMITED_ALLOW_CONN_BLOCKS`).
const LIMITED_PEER_DEPTH: i64 = 144;

/// Lent to a part for one event.
pub(super) struct Context<'a> {
    pub(super) now: Now,
    pub(super) index: &'a dyn HeaderIndex,
    pub(super) config: &'a PeersConfig,
    pub(super) initial_download: bool,
    /// One for all parts, so that the same seed and events give the same actions.
    pub(super) rng: &'a mut StdRng,
    pub(super) table: &'a mut PeerTable,
    pub(super) book: &'a mut AddressBook,
    pub(super) own: &'a mut OwnAddresses,
    pub(super) memory: &'a mut SharedMemory,
    pub(super) line: &'a mut Line,
    pub(super) out: &'a mut Outbox,
    pub(super) tx_outbox: &'a mut TxOutbox,
}

impl Context<'_> {
    pub(super) fn send(&mut self, id: PeerId, message: &Message) {
        self.queue(id, Kind::Unscheduled, message.command(), encoded(message));
    }

    /// Sends an answer for which a block was read.
    pub(super) fn send_block(&mut self, id: PeerId, command: Command, payload: PooledStream) {
        self.queue(id, Kind::Block, command, payload);
    }

    /// Sends a transaction, with its witness or without.
    pub(super) fn send_transaction(&mut self, id: PeerId, tx: TxView<'_>, with_witness: bool) {
        let mut payload: DataStream = DataStream::new();
        match with_witness {
            true => payload.write(tx.bytes()),
            false => tx.to_owned().encode_stripped(&mut payload),
        }
        self.queue(id, Kind::Unscheduled, Command::TX, payload.into());
    }

    /// Queues a message, or disconnects the peer if it does not read.
    fn queue(&mut self, id: PeerId, kind: Kind, command: Command, payload: PooledStream) {
        let Some(peer) = self.table.get_mut(id) else { return };
        // It may wait for long.
        let payload = payload.in_proportion();
        let (length, bytes) = (payload.len(), FRAME_HEADER_SIZE + payload.len());
        if peer.flow.footprint.queued() + bytes > SEND_QUEUE_MAX {
            return self.disconnect(id, DisconnectReason::SendQueueFull);
        }
        let memory = message_memory(&payload);
        peer.flow.footprint.push(self.now.monotonic, kind, bytes, memory);
        peer.flow.traffic.note_sent(self.now.monotonic, command, length);
        self.table.note_sent(bytes);
        self.out.push(NetCommand::Send { peer: id, command, payload });
    }

    /// The clocks by which peers' answers are judged.
    pub(super) fn judged(&self) -> Now {
        Now { monotonic: self.line.time(), unix: self.now.unix }
    }

    pub(super) fn announce_inv(&mut self, id: PeerId, tip: HeaderId) {
        let entry = Inventory::block(InventoryKind::BLOCK, self.index.get(tip).hash);
        self.send(id, &Message::Inv(vec![entry]));
    }

    /// Records that the header was sent or announced to the peer.
    pub(super) fn set_sent(&mut self, id: PeerId, header: HeaderId) {
        if let Some(peer) = self.table.get_mut(id) {
            peer.known.set_sent(header);
        }
    }

    /// Ends a connection: forgets the peer and has the driver close the socket.
    pub(super) fn disconnect(&mut self, id: PeerId, why: DisconnectReason) {
        let Some(peer) = self.forget(id) else { return };
        // An outbound peer that is disconnected is replaced, perhaps by one with the same fault:
        // hence the limit of log lines.
        let quiet = peer.inbound() || !peer.established();
        if quiet || !self.out.take_log_line(self.now) {
            debug!("disconnecting {} peer={}: {why}", peer.kind, id.0);
        } else {
            info!("disconnecting {} peer={}: {why}", peer.kind, id.0);
        }
        self.out.push(NetCommand::Disconnect { peer: id, why });
    }

    /// Removes a peer that is no longer connected. Its requests will go to other peers.
    pub(super) fn forget(&mut self, id: PeerId) -> Option<Peer> {
        let peer = self.table.remove(self.now, id)?;
        // Not for block-relay peers: the book is gossiped, and would reveal the link.
        if peer.established()
            && peer.kind != ConnectionKind::BlockRelay
            && !peer.inbound()
            && let Some(address) = peer.address
        {
            self.book.connected(self.now.unix, &address);
        }
        Some(peer)
    }

    /// Disconnects the peer and discourages its address; except peers that the operator chose or trusts, and
    /// local addresses and that of Tor, which many peers can share (Core `MaybeDiscourageAndDisconnect`).
    pub(super) fn misbehave(&mut self, id: PeerId, what: Misbehaviour) {
        let Some(peer) = self.table.get(id) else { return };
        let (kind, host) = (peer.kind, peer.known_host());
        if peer.may(Permissions::NO_BAN) {
            if self.take_log_line(id) {
                warn!("Not punishing noban peer {}: {what}", id.0);
            }
            return;
        }
        if kind == ConnectionKind::Manual {
            if self.take_log_line(id) {
                warn!("Not punishing manually connected peer {}: {what}", id.0);
            }
            return;
        }
        if self.take_log_line(id) {
            info!("Misbehaving: peer={}: {what}", id.0);
        }
        self.disconnect(id, DisconnectReason::Misbehaved(what));
        let Some(host) = host.filter(|host| !host.is_local()) else { return };
        self.table.discourage(&host);
        let shares = |peer: &&Peer| {
            let is_spared = peer.kind == ConnectionKind::Manual || peer.may(Permissions::NO_BAN);
            peer.known_host() == Some(host) && !is_spared
        };
        let sharing: Vec<PeerId> = self.table.iter().filter(shares).map(|peer| peer.id).collect();
        for other in sharing {
            self.disconnect(other, DisconnectReason::SharesDiscouragedAddress);
        }
    }

    /// Spends a log line of this peer's allowance and of the common one; false when either is used
    /// up.
    pub(super) fn take_log_line(&mut self, id: PeerId) -> bool {
        let Some(peer) = self.table.get_mut(id) else { return false };
        peer.allowances.log_lines.take(self.now.monotonic, 1) && self.out.take_log_line(self.now)
    }

    /// Whether the tip is so young that announced blocks are requested directly (Core
    /// `CanDirectFetch`).
    pub(super) fn tip_is_recent(&self) -> bool {
        let spacing = i64::from(self.config.params.pow_target_spacing);
        self.tip_time() > self.now.unix.saturating_sub(RECENT_SPACINGS * spacing)
    }

    /// Whether pruned peers have all blocks that are missing here.
    pub(super) fn near_tip(&self) -> bool {
        let behind = self.now.unix.saturating_sub(self.tip_time());
        behind / i64::from(self.config.params.pow_target_spacing) < LIMITED_PEER_DEPTH
    }

    fn tip_time(&self) -> i64 {
        i64::from(self.index.get(self.index.tip()).header.time)
    }

    /// What we offer now.
    pub(super) fn services(&self) -> Services {
        let tip = self.index.get(self.index.tip()).height;
        self.config.services.as_stored(self.index.prune_height(), tip)
    }

    /// Whether an outbound peer with these services is worth a connection (Core
    /// `HasAllDesirableServiceFlags`).
    pub(super) fn has_desirable_services(&self, services: Services) -> bool {
        services.contains(Services::NETWORK | Services::WITNESS)
            || (services.contains(Services::NETWORK_LIMITED | Services::WITNESS) && self.near_tip())
    }
}

/// The payload of a message. Not in a pooled buffer: those have the size of a block, and it may wait for
/// long.
pub(super) fn encoded(message: &Message) -> PooledStream {
    let mut payload = DataStream::new();
    message.encode(&mut payload);
    payload.into()
}
