//! The parts of the engine, and which of them an event concerns, in which order.
//!
//! This module alone knows all parts: they know the [`Context`] but not each other. What one part
//! finds out for another comes back here as a value.

use godwit_consensus::ResultClass;
use godwit_primitives::{BlockHash, money_range};
use log::debug;

use super::addresses::AddressGossip;
use super::clock_watch::ClockWatch;
use super::connections::Connections;
use super::context::Context;
use super::event::{ChainEvent, NetEvent};
use super::fetch::{BlockFetch, Compact};
use super::headers::{FetchStatus, Headers, work_threshold};
use super::memory::{keep_budget, make_room};
use super::misbehaviour::{DisconnectReason, Misbehaviour};
use super::operator::NodeCommand;
use super::peer::Peer;
use super::relay::BlockRelay;
use super::serving::{Serving, on_getblocks, on_getheaders};
use super::{handshake, lifetime, line, ping, reading, tx_relay};
use crate::connection_kind::ConnectionKind;
use crate::frame::{Command, FRAME_HEADER_SIZE, Frame};
use crate::inventory::{Inventory, InventoryKind};
use crate::message::{CompactBlock, Message, MessageError, Version};
use crate::peer_id::PeerId;
use crate::permissions::Permissions;
use crate::transport::{Discard, DiscardReason, TransportError};

/// Bytes of transactions that cost a peer's allowance as much as one announced transaction.
const BYTES_PER_ENTRY: usize = Inventory::SIZE;

/// The parts of the engine.
pub(super) struct Parts {
    pub(super) connections: Connections,
    pub(super) headers: Headers,
    pub(super) fetch: BlockFetch,
    pub(super) relay: BlockRelay,
    pub(super) serving: Serving,
    pub(super) addresses: AddressGossip,
    pub(super) clock: ClockWatch,
}

impl Parts {
    pub(super) fn on_net(&mut self, cx: &mut Context<'_>, event: NetEvent) {
        match event {
            NetEvent::Inbound { socket, address, called, entrance } => {
                self.connections.on_inbound(cx, socket, address, called, entrance)
            }
            NetEvent::Connected { peer, address } => {
                if self.connections.on_connected(cx, peer, address) {
                    line::watch::heard_from(cx, peer);
                    handshake::send_version(cx, peer);
                }
            }
            NetEvent::ConnectFailed { peer, why } => self.connections.on_failed(cx, peer, why),
            NetEvent::Protocol { peer, protocol } => {
                if let Some(peer) = cx.table.get_mut(peer) {
                    peer.handshake.protocol = protocol;
                }
            }
            NetEvent::Frame { peer, frame } => {
                line::watch::heard_from(cx, peer);
                reading::hold(cx, peer, frame.command);
                self.on_frame(cx, peer, frame);
                reading::read_on(cx, peer);
            }
            NetEvent::Receiving { peer, memory } => {
                line::watch::heard_from(cx, peer);
                if let Some(peer) = cx.table.get_mut(peer) {
                    peer.flow.footprint.set_receiving(cx.now.monotonic, memory);
                }
            }
            NetEvent::Arriving { peer, command, bytes } => {
                line::watch::heard_from(cx, peer);
                self.on_bytes(cx, peer, command, bytes);
            }
            NetEvent::Discarded { peer, discard } => {
                line::watch::heard_from(cx, peer);
                self.on_discarded(cx, peer, &discard);
            }
            NetEvent::TransportFailed { peer, error } => cx.disconnect(peer, broken(&error)),
            NetEvent::Closed { peer } => {
                if cx.forget(peer).is_some() {
                    debug!("peer={}: connection closed", peer.0);
                }
            }
            NetEvent::Sent { peer, bytes } => {
                self.serving.on_sent(cx, self.relay.recent(), peer, bytes);
            }
            NetEvent::Resolved { host, addresses } => {
                self.connections.on_resolved(cx, &host, &addresses);
            }
        }
        self.forget_departed(cx);
    }

    pub(super) fn on_chain(&mut self, cx: &mut Context<'_>, event: ChainEvent) {
        match event {
            ChainEvent::HeadersJudged { peer, result } => {
                if result.is_err_and(|refused| refused.reject.class == ResultClass::TimeFuture) {
                    self.clock.header_has_to_wait(cx.now);
                }
                self.headers.on_judged(cx, peer, result);
            }
            ChainEvent::BlockJudged { hash, verdict } => {
                self.fetch.on_judged(cx, hash, verdict);
            }
            ChainEvent::BlockInvalid { hash, reject } => self.fetch.on_refused(cx, hash, reject),
            ChainEvent::BlockLost { hash } => self.fetch.on_lost(hash),
            ChainEvent::TipChanged { .. } => self.on_tip(cx),
            ChainEvent::BlockRead { request, bytes } => {
                cx.memory.end_read(request);
                if self.relay.waits_for(request) {
                    self.relay.on_read(cx, bytes);
                } else {
                    self.serving.on_read(cx, self.relay.recent(), request, bytes);
                }
                self.forget_departed(cx);
                self.serving.serve_waiting(cx, self.relay.recent());
            }
            ChainEvent::FiltersRead { request, data } => {
                cx.memory.end_read(request);
                self.serving.on_filters(cx, self.relay.recent(), request, data.as_ref());
                self.forget_departed(cx);
                self.serving.serve_waiting(cx, self.relay.recent());
            }
        }
        self.forget_departed(cx);
    }

    fn on_tip(&mut self, cx: &mut Context<'_>) {
        let new = cx.index.tip();
        let Some(old) = self.relay.set_tip(new) else { return };
        self.connections.on_tip(cx.now);
        self.fetch.on_tip(cx);
        if !cx.initial_download {
            self.relay.announce(cx, old, new);
        }
    }

    /// Does everything that is due by the clock.
    pub(super) fn maintain(&mut self, cx: &mut Context<'_>) {
        for id in cx.table.ids() {
            self.maintain_peer(cx, id);
            self.forget_departed(cx);
        }
        let downloads = self.fetch.downloads();
        line::watch::maintain(cx, |peer| downloads.in_flight(peer) > 0);
        self.forget_departed(cx);
        tx_relay::maintain(cx);
        self.forget_departed(cx);
        self.make_room_for_waiting(cx);
        self.connections.watch_tip(cx, self.fetch.downloads());
        self.forget_departed(cx);
        self.connections.open_connections(cx);
        self.addresses.watch_map(cx);
    }

    /// Goes on serving peers that have more requests than are looked up at once.
    pub(super) fn serve_ready(&mut self, cx: &mut Context<'_>) {
        self.serving.serve_ready(cx, self.relay.recent());
        self.forget_departed(cx);
    }

    /// Requests the blocks that are wanted next.
    pub(super) fn download(&mut self, cx: &mut Context<'_>, room: u64) {
        self.fetch.download(cx, room);
        self.forget_departed(cx);
    }

    /// Reads blocks for peers that wait for them, as far as there is memory.
    pub(super) fn serve_waiting(&mut self, cx: &mut Context<'_>) {
        self.serving.serve_waiting(cx, self.relay.recent());
        self.forget_departed(cx);
    }

    /// Disconnects peers while all together hold too much.
    pub(super) fn keep_budget(&mut self, cx: &mut Context<'_>) {
        keep_budget(cx);
        self.forget_departed(cx);
    }

    /// While a peer waits for memory, disconnects peers that hold it unfairly.
    fn make_room_for_waiting(&mut self, cx: &mut Context<'_>) {
        while self.serving.has_waiting() && make_room(cx) {
            self.forget_departed(cx);
        }
    }

    pub(super) fn set_active(&mut self, cx: &mut Context<'_>, active: bool) {
        self.connections.set_active(cx, active);
        self.forget_departed(cx);
    }

    /// Does what the operator says.
    pub(super) fn on_operator(&mut self, cx: &mut Context<'_>, command: NodeCommand) {
        match command {
            NodeCommand::PingAll => {
                cx.table.established().into_iter().for_each(|id| ping::ask(cx, id))
            }
            NodeCommand::Disconnect(id) => cx.disconnect(id, DisconnectReason::ByOperator),
            NodeCommand::AddNode(target) => self.connections.add_node(&target),
            NodeCommand::RemoveNode(target) => self.connections.remove_node(&target),
            NodeCommand::Ban(range, ban) => {
                if cx.table.bans_mut().add(range, ban) {
                    let in_range =
                        |peer: &&Peer| peer.known_host().is_some_and(|host| range.contains(&host));
                    let banned: Vec<PeerId> =
                        cx.table.iter().filter(in_range).map(|peer| peer.id).collect();
                    for id in banned {
                        cx.disconnect(id, DisconnectReason::ByOperator);
                    }
                }
            }
            NodeCommand::Unban(range) => {
                cx.table.bans_mut().remove(&range);
            }
            NodeCommand::ClearBans => cx.table.bans_mut().clear(),
            NodeCommand::TryNode(target) => self.connections.try_node(cx, target),
            NodeCommand::FetchBlock(peer, hash) => self.fetch.ask_for(cx, peer, hash),
            NodeCommand::AddOwnAddress(address, source) => {
                cx.own.add(address, source, cx.config.reachable);
            }
            NodeCommand::RemoveOwnAddress(host) => {
                cx.own.remove(&host);
            }
            // The configuration has changed, and everybody asks that.
            NodeCommand::ReachOnion => {}
            NodeCommand::SetNetworkActive(active) => self.set_active(cx, active),
        }
        self.forget_departed(cx);
    }

    /// Has the parts forget peers that left meanwhile.
    fn forget_departed(&mut self, cx: &mut Context<'_>) {
        for id in cx.table.take_departed() {
            self.fetch.forget(cx, id);
            self.serving.forget(id);
        }
    }

    /// Does everything that is due for one peer (Core `SendMessages`).
    fn maintain_peer(&mut self, cx: &mut Context<'_>, id: PeerId) {
        let Some(peer) = cx.table.get_mut(id) else { return };
        peer.known.update(cx.index);
        let fetch = FetchStatus {
            in_flight: self.fetch.in_flight(cx.table),
            usual_rate: self.fetch.downloads().usual_rate(),
        };
        if lifetime::maintain(cx, id)
            && ping::maintain(cx, id)
            && self.headers.enforce_progress(cx, &fetch, id)
        {
            self.addresses.maintain(cx, id);
            self.headers.maintain(cx, &fetch, id);
        }
    }

    fn on_bytes(&mut self, cx: &mut Context<'_>, id: PeerId, command: Command, bytes: usize) {
        let Some(peer) = cx.table.get_mut(id) else { return };
        peer.last_received = cx.now.monotonic;
        peer.flow.footprint.moved(cx.now.monotonic, bytes);
        if command == Command::HEADERS {
            self.headers.on_bytes(cx, id, bytes);
            self.fetch.on_header_bytes(id);
        } else {
            self.fetch.on_bytes(cx, id, bytes);
        }
    }

    fn on_frame(&mut self, cx: &mut Context<'_>, id: PeerId, frame: Frame) {
        cx.table.note_received(FRAME_HEADER_SIZE + frame.payload.len());
        let Some(peer) = cx.table.get_mut(id) else { return };
        peer.last_received = cx.now.monotonic;
        peer.flow.footprint.received(cx.now.monotonic, frame.command, frame.payload.len());
        peer.flow.traffic.note_received(frame.command, frame.payload.len(), true);
        peer.headers.message_ended();
        let introduced = peer.handshake.version.is_some();
        let established = peer.established();
        if frame.command == Command::BLOCK {
            if established {
                let unrequested = self.fetch.on_block(cx, id, frame.payload);
                self.on_unrequested(cx, id, unrequested);
            }
            return;
        }
        match Message::decode(frame.command, frame.payload.unread()) {
            Ok(Some(Message::Version(version))) => self.on_version(cx, id, &version),
            // As in Core, one that is cut or comes before `version` is ignored.
            Ok(Some(Message::SendCmpct { .. }))
                if introduced && frame.payload.unread().first() > Some(&1) =>
            {
                cx.misbehave(id, Misbehaviour::ForbiddenValue(frame.command));
            }
            Ok(Some(message)) if introduced => self.on_message(cx, id, message, established),
            Ok(Some(message)) => {
                debug!("peer={}: {} before version", id.0, message.command());
            }
            Ok(None) => {}
            Err(error) => on_undecodable(cx, id, frame.command, error),
        }
    }

    /// Before `verack`, messages that do not negotiate are ignored.
    fn on_message(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        message: Message,
        established: bool,
    ) {
        let recent = self.relay.recent();
        match message {
            Message::Version(_) => {}
            Message::Verack => self.on_verack(cx, id),
            Message::WtxidRelay => handshake::on_wtxidrelay(cx, id),
            Message::SendAddrV2 => handshake::on_sendaddrv2(cx, id),
            Message::SendHeaders => handshake::on_sendheaders(cx, id),
            Message::SendCmpct { announce, version } => {
                handshake::on_sendcmpct(cx, id, announce, version);
            }
            other if !established => {
                debug!("peer={}: {} before verack", id.0, other.command());
            }
            Message::FeeFilter(rate) => {
                // Core ignores a rate that no transaction can have.
                if let Some(peer) = cx.table.get_mut(id).filter(|_| money_range(rate)) {
                    peer.serving.transactions.least_fee = rate;
                }
            }
            Message::Ping(nonce) => ping::on_ping(cx, id, nonce),
            Message::Pong(nonce) => ping::on_pong(cx, id, nonce),
            Message::GetAddr => self.addresses.on_getaddr(cx, id),
            Message::Addr(entries) | Message::AddrV2(entries) => {
                self.addresses.on_addresses(cx, id, entries);
            }
            Message::Inv(entries) => self.on_inv(cx, id, &entries),
            Message::GetData(entries) => self.serving.on_getdata(cx, recent, id, &entries),
            Message::NotFound(entries) => self.fetch.on_notfound(cx, id, &entries),
            Message::GetHeaders(locator) => on_getheaders(cx, id, &locator),
            Message::GetBlocks(locator) => on_getblocks(cx, id, &locator),
            Message::Headers(headers) => self.headers.on_headers(cx, id, headers),
            Message::CmpctBlock(block) => self.on_compact(cx, id, block),
            Message::GetBlockTxn(request) => {
                self.serving.on_getblocktxn(cx, recent, id, request);
            }
            Message::GetFilters(request) => {
                self.serving.on_getfilters(cx, recent, id, &request);
            }
            Message::BlockTxn(answer) => {
                let unrequested = self.fetch.on_blocktxn(cx, id, &answer);
                self.on_unrequested(cx, id, unrequested);
            }
        }
    }

    fn on_version(&mut self, cx: &mut Context<'_>, id: PeerId, version: &Version) {
        if !handshake::on_version(cx, id, version) {
            return;
        }
        let Some(peer) = cx.table.get(id) else { return };
        let (inbound, kind, address) = (peer.inbound(), peer.kind, peer.address);
        if !inbound {
            self.clock.note(cx.now, version.timestamp);
            if self.addresses.set_up(cx, id) {
                self.addresses.ask(cx, id);
            }
            if let Some(address) = address {
                cx.book.good(cx.now.unix, &address);
            }
        }
        if kind == ConnectionKind::Feeler {
            cx.disconnect(id, DisconnectReason::FeelerDone);
        }
    }

    fn on_verack(&mut self, cx: &mut Context<'_>, id: PeerId) {
        if handshake::on_verack(cx, id) {
            self.fetch.start(cx, id);
            self.maintain_peer(cx, id);
            self.relay.announce_missed(cx, id);
        }
    }

    /// Our `version` said that we want no transactions: announcements are ignored within an allowance. Whom
    /// we chose has no more for blocks, of which there are not as many, and for unknown kinds: seed 45889 of
    /// the simulated companies has an outbound peer that fills a line of 31 kB/s with them, and keeps its
    /// place with two small blocks a minute.
    fn on_inv(&mut self, cx: &mut Context<'_>, id: PeerId, entries: &[Inventory]) {
        let transactions = entries.iter().filter(|entry| entry.kind.is_transaction()).count();
        let others = entries.len() - transactions;
        if transactions > 0 && !charge_transactions(cx, id, transactions as u64) {
            return;
        }
        let is_chosen = cx.table.get(id).is_some_and(Peer::automatic_outbound);
        if is_chosen && !charge(cx, id, others as u64, DisconnectReason::TooManyAnnouncements) {
            return;
        }
        let blocks = entries.iter().filter(|entry| entry.kind == InventoryKind::BLOCK);
        self.headers.on_announced(cx, id, blocks.map(Inventory::block_hash));
    }

    fn on_compact(&mut self, cx: &mut Context<'_>, id: PeerId, block: CompactBlock) {
        let least_work = work_threshold(cx);
        match self.fetch.on_compact(cx, id, block, least_work) {
            Compact::Ignored => {}
            Compact::Unconnected => self.headers.on_unconnected(cx, id),
            Compact::Header(header) => self.headers.on_compact_header(cx, id, header),
        }
    }

    /// A block that was not in flight. It was discarded (nothing unrequested is kept), but tells as
    /// much as an `inv`. Core accepts it if its header connects.
    fn on_unrequested(&mut self, cx: &mut Context<'_>, id: PeerId, hash: Option<BlockHash>) {
        if let Some(hash) = hash {
            debug!("peer={}: unrequested block {hash}", id.0);
            self.headers.on_announced(cx, id, std::iter::once(hash));
        }
    }

    /// Unknown messages are ignored, except requests for what this node does not offer, and
    /// transactions beyond an allowance.
    fn on_discarded(&mut self, cx: &mut Context<'_>, id: PeerId, discard: &Discard) {
        cx.table.note_received(FRAME_HEADER_SIZE + discard.bytes);
        let Some(peer) = cx.table.get_mut(id) else { return };
        peer.last_received = cx.now.monotonic;
        peer.flow.footprint.received(cx.now.monotonic, discard.command, discard.bytes);
        // Damaged bytes may have damaged the name.
        let is_known = !matches!(
            discard.why,
            DiscardReason::Unknown | DiscardReason::InvalidCommand | DiscardReason::WrongChecksum
        );
        peer.flow.traffic.note_received(discard.command, discard.bytes, is_known);
        peer.headers.message_ended();
        if !peer.established() {
            return;
        }
        let may_ask_for_mempool = peer.may(Permissions::MEMPOOL) || peer.may(Permissions::NO_BAN);
        match (discard.command, discard.why) {
            (Command::BLOCK, DiscardReason::WrongChecksum) => self.fetch.on_corrupt(cx, id),
            (Command::BLOCK, DiscardReason::UnexpectedBlock) => {
                self.on_unrequested(cx, id, discard.block);
            }
            (_, DiscardReason::WrongChecksum | DiscardReason::InvalidCommand) => {}
            // It may have been sent before the peer knew that we do not want it.
            (Command::CMPCTBLOCK, _) if !cx.initial_download => {
                self.headers.on_unconnected(cx, id);
            }
            (Command::TX, _) => {
                let entries = 1 + (discard.bytes / BYTES_PER_ENTRY) as u64;
                charge_transactions(cx, id, entries);
            }
            // Nothing is in it.
            (Command::MEMPOOL, _) if may_ask_for_mempool => {}
            (
                command @ (Command::MEMPOOL
                | Command::FILTERLOAD
                | Command::FILTERADD
                | Command::FILTERCLEAR),
                _,
            ) => cx.disconnect(id, DisconnectReason::NotOffered(command)),
            (
                _,
                DiscardReason::Unknown | DiscardReason::UnexpectedBlock | DiscardReason::TooLong,
            ) => {}
        }
    }
}

/// What Core does about messages that do not decode: most are ignored.
fn on_undecodable(cx: &mut Context<'_>, id: PeerId, command: Command, error: MessageError) {
    let established = cx.table.get(id).is_some_and(|peer| peer.established());
    match error {
        _ if !established => {}
        MessageError::TooMany { command: Command::GETHEADERS | Command::GETBLOCKS, .. } => {
            cx.disconnect(id, DisconnectReason::LocatorTooLong);
        }
        // Core asks for so little that it ignores so many; those that are there were discarded on arrival.
        MessageError::TooMany { command: Command::NOTFOUND, .. } => {
            debug!("peer={}: ignoring {command}: {error}", id.0);
        }
        MessageError::TooMany { command, .. } => {
            cx.misbehave(id, Misbehaviour::TooManyEntries(command));
        }
        MessageError::InvalidCompactBlock => {
            cx.misbehave(id, Misbehaviour::InvalidCompactBlock);
        }
        MessageError::Malformed(_) if command == Command::PONG => {
            // A known mistake of other software: the wait for the answer ends.
            ping::on_pong(cx, id, 0);
        }
        MessageError::Malformed(_)
        | MessageError::UserAgentTooLong
        | MessageError::AddressLength { .. }
        | MessageError::PositionTooLarge => {
            debug!("peer={}: ignoring {command}: {error}", id.0);
        }
    }
}

/// Charges the peer's allowance for transactions; false when it was disconnected.
fn charge_transactions(cx: &mut Context<'_>, id: PeerId, entries: u64) -> bool {
    let is_free = cx.table.get(id).is_some_and(|peer| peer.may(Permissions::RELAY));
    is_free || charge(cx, id, entries, DisconnectReason::UnwantedTransactions)
}

/// Charges the peer's allowance for announcements; false when it was disconnected, which `reason` is for.
fn charge(cx: &mut Context<'_>, id: PeerId, entries: u64, reason: DisconnectReason) -> bool {
    let Some(peer) = cx.table.get_mut(id) else { return false };
    let within = peer.may(Permissions::NO_BAN)
        || peer.allowances.announcements.take(cx.now.monotonic, entries);
    if !within {
        cx.disconnect(id, reason);
    }
    within
}

/// Why a peer whose bytes cannot be read as messages is disconnected.
fn broken(error: &TransportError) -> DisconnectReason {
    match error {
        TransportError::Io(_) => DisconnectReason::Io,
        TransportError::WrongMagic(_) => DisconnectReason::WrongMagic,
        TransportError::TooLarge { command, .. } => DisconnectReason::Oversized(*command),
        TransportError::NoTerminator
        | TransportError::WrongTag
        | TransportError::PacketTooLarge(_) => DisconnectReason::Undecryptable,
    }
}
