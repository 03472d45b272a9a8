//! From frames to what they mean.

use log::debug;

use super::addresses::ADDR_FETCH_TIMEOUT;
use super::fault::Misbehaviour;
use super::handshake::{HANDSHAKE_TIMEOUT, SENDHEADERS_VERSION};
use super::ping::TIMEOUT_INTERVAL;
use super::{DisconnectReason, Peers, View};
use crate::connection_kind::ConnectionKind;
use crate::frame::{Command, Frame};
use crate::message::{Message, MessageError};
use crate::peer_id::PeerId;
use crate::time::Now;
use crate::transport::{Discard, DiscardReason};

impl Peers {
    pub(super) fn receive(&mut self, view: View<'_>, id: PeerId, frame: Frame) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.last_received = view.now.monotonic;
        peer.chain.arriving = 0;
        let introduced = peer.handshake.version.is_some();
        let established = peer.established();
        if frame.command == Command::BLOCK {
            if established {
                self.on_block(view, id, frame.payload);
            }
            return;
        }
        if frame.command == Command::SENDCMPCT && frame.payload.unread().first() > Some(&1) {
            return self.misbehave(view.now, id, Misbehaviour::ForbiddenValue(frame.command));
        }
        match Message::decode(frame.command, frame.payload.unread()) {
            Ok(Some(Message::Version(version))) => self.on_version(view, id, &version),
            Ok(Some(message)) if introduced => self.act(view, id, message, established),
            Ok(Some(message)) => {
                debug!("peer={}: {} before version", id.0, message.command());
            }
            Ok(None) => {}
            Err(error) => self.undecodable(view.now, id, frame.command, error),
        }
    }

    /// Messages before `verack` are those that negotiate; others are ignored until then.
    fn act(&mut self, view: View<'_>, id: PeerId, message: Message, established: bool) {
        let now = view.now;
        match message {
            Message::Version(_) => {}
            Message::Verack => self.on_verack(view, id),
            // Transactions are never announced.
            Message::WtxidRelay => drop(self.negotiates(now, id, Command::WTXIDRELAY)),
            Message::SendAddrV2 => self.on_sendaddrv2(now, id),
            Message::SendHeaders => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.handshake.prefers_headers = true;
                }
            }
            Message::SendCmpct { announce, version } => self.on_sendcmpct(id, announce, version),
            other if !established => {
                debug!("peer={}: {} before verack", id.0, other.command());
            }
            // Transactions are never announced.
            Message::FeeFilter(_) => {}
            Message::Ping(nonce) => self.on_ping(now, id, nonce),
            Message::Pong(nonce) => self.on_pong(now, id, nonce),
            Message::GetAddr => self.on_getaddr(view, id),
            Message::Addr(entries) | Message::AddrV2(entries) => {
                self.on_addresses(view, id, entries);
            }
            Message::Inv(entries) => self.on_inv(view, id, &entries),
            Message::GetData(entries) => self.on_getdata(view, id, &entries),
            Message::NotFound(entries) => self.on_notfound(view, id, &entries),
            Message::GetHeaders(locator) => self.on_getheaders(view, id, &locator),
            Message::GetBlocks(locator) => self.on_getblocks(view, id, &locator),
            Message::Headers(headers) => self.on_headers(view, id, headers),
            Message::CmpctBlock(block) => self.on_cmpctblock(view, id, block),
            Message::GetBlockTxn(request) => self.on_getblocktxn(view, id, request),
            Message::BlockTxn(answer) => self.on_blocktxn(view, id, &answer),
        }
    }

    /// What Core makes of a message that it can not read: most are ignored.
    fn undecodable(&mut self, now: Now, id: PeerId, command: Command, error: MessageError) {
        let established = self.peers.get(&id).is_some_and(|peer| peer.established());
        match error {
            _ if !established => {}
            MessageError::TooMany { command: Command::GETHEADERS | Command::GETBLOCKS, .. } => {
                self.disconnect(now, id, DisconnectReason::LocatorTooLong);
            }
            MessageError::TooMany { command, .. } => {
                self.misbehave(now, id, Misbehaviour::TooManyEntries(command));
            }
            MessageError::InvalidCompactBlock => {
                self.misbehave(now, id, Misbehaviour::InvalidCompactBlock);
            }
            MessageError::Malformed(_) if command == Command::PONG => {
                // A known mistake of other software: the waiting ends.
                self.on_pong(now, id, 0);
            }
            MessageError::Malformed(_)
            | MessageError::UserAgentTooLong
            | MessageError::AddressLength { .. }
            | MessageError::PositionTooLarge => {
                debug!("peer={}: ignoring {command}: {error}", id.0);
            }
        }
    }

    /// Messages without a meaning are ignored, but for those that ask for what is not offered, and for
    /// transactions beyond an allowance.
    pub(super) fn receive_discard(&mut self, view: View<'_>, id: PeerId, discard: &Discard) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.last_received = view.now.monotonic;
        peer.chain.arriving = 0;
        if !peer.established() {
            return;
        }
        match (discard.command, discard.why) {
            (Command::BLOCK, DiscardReason::WrongChecksum) => self.on_corrupt_block(view, id),
            (Command::BLOCK, DiscardReason::UnexpectedBlock) => {
                if let Some(hash) = discard.block {
                    self.on_unrequested_block(view, id, hash);
                }
            }
            (_, DiscardReason::WrongChecksum | DiscardReason::InvalidCommand) => {}
            // It may have been sent before the peer knew that it shall not.
            (Command::CMPCTBLOCK, _) if !self.initial_download => {
                self.ask_for_newer_headers(view, id);
            }
            (Command::TX, _) => self.on_discarded_transaction(view, id, discard),
            (
                command @ (Command::MEMPOOL
                | Command::FILTERLOAD
                | Command::FILTERADD
                | Command::FILTERCLEAR
                | Command::GETCFILTERS
                | Command::GETCFHEADERS
                | Command::GETCFCHECKPT),
                _,
            ) => self.disconnect(view.now, id, DisconnectReason::NotOffered(command)),
            (_, DiscardReason::Unknown | DiscardReason::UnexpectedBlock) => {}
        }
    }

    /// The handshake, an address fetch and silence have their time; false when the peer was let go, or
    /// has not said hello yet.
    pub(super) fn attend_lifetime(&mut self, view: View<'_>, id: PeerId) -> bool {
        let now = view.now.monotonic;
        let Some(peer) = self.peers.get(&id) else { return false };
        let age = now.saturating_sub(peer.connected_at);
        let why = if !peer.established() && age > HANDSHAKE_TIMEOUT {
            DisconnectReason::HandshakeTimeout
        } else if now.saturating_sub(peer.last_received) > TIMEOUT_INTERVAL {
            DisconnectReason::Idle
        } else if peer.kind == ConnectionKind::AddrFetch && age > ADDR_FETCH_TIMEOUT {
            DisconnectReason::AddrFetchDone
        } else {
            return peer.established();
        };
        self.disconnect(view.now, id, why);
        false
    }

    /// Headers are only announced to us when we have a chain to connect them to (Core
    /// `MaybeSendSendHeaders`).
    pub(super) fn attend_sendheaders(&mut self, view: View<'_>, id: PeerId) {
        let minimum = self.config.minimum_chain_work;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let best = peer.chain.best_known.map(|best| view.index.get(best).chain_work);
        let handshake = &mut peer.handshake;
        if !handshake.sent_sendheaders
            && handshake.common_version >= SENDHEADERS_VERSION
            && best.is_some_and(|work| work > minimum)
        {
            handshake.sent_sendheaders = true;
            self.send(view.now, id, &Message::SendHeaders);
        }
    }
}
