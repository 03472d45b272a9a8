//! The engine: everything that a node says to its peers, and why.
//!
//! [`Peers`] owns the state of all connections. The driver tells it what happened (a frame came, a
//! block was judged, time passed) and does what it answers ([`Action`]). One event is handed in at a
//! time; after each the driver takes the actions and does them in order.

mod action;
mod addresses;
mod announcements;
mod blocks;
mod compact_relay;
mod config;
mod connection;
mod connections;
mod eviction;
mod fault;
mod handshake;
mod header_sync;
mod headers;
mod input;
mod known;
mod ping;
mod serving;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use godwit_consensus::Reject;
use godwit_primitives::BlockHash;
use godwit_stream::{DataStream, PooledStream};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub use action::{Action, BlockJudgement, HeaderFault, ReadId};
pub use config::PeersConfig;
pub use fault::{DisconnectReason, Misbehaviour};
pub use serving::{SEND_PAUSE, SEND_QUEUE_MAX};
pub use status::Summary;

use addresses::AddressAnswers;
use blocks::BlockSources;
use compact_relay::{PendingAnnouncement, RecentBlock};
use connection::{Attempt, Peer};
use connections::AskedSeeds;
use eviction::TipWatch;
use headers::USELESS_BURST;

use crate::address_book::AddressBook;
use crate::discourage::Discouraged;
use crate::download::Downloads;
use crate::frame::{Command, FRAME_HEADER_SIZE, Frame};
use crate::index::{HeaderId, HeaderIndex};
use crate::message::Message;
use crate::net_address::NetAddress;
use crate::peer_id::PeerId;
use crate::rate_limit::{TokenBucket, UploadTarget};
use crate::slots::{Slots, SlotsConfig};
use crate::spent::SpentAllowances;
use crate::time::Now;
use crate::transport::Protocol;
use crate::transport::{Discard, TransportError};

/// The longest time without a look at all peers (Core's message handler: 100 ms).
const MAINTENANCE_INTERVAL: Duration = Duration::from_millis(500);

/// The state of all connections: everything that a node says to its peers, and why. The driver tells it
/// what happened (a frame came, a block was judged, time passed) and does what it answers ([`Action`]).
///
/// What one peer can make it keep is bounded: `docs/limits.md` lists each queue.
pub struct Peers {
    config: PeersConfig,
    rng: StdRng,
    actions: VecDeque<Action>,
    peers: BTreeMap<PeerId, Peer>,
    /// On their way; no more than there are slots.
    connecting: BTreeMap<PeerId, Attempt>,
    downloads: Downloads,
    book: AddressBook,
    discouraged: Discouraged,
    /// Of headers that bring nothing.
    spent_headers: SpentAllowances,
    slots: Slots,
    upload: UploadTarget,
    sources: BlockSources,
    /// Peers asked to announce by compact blocks, the longest unused first.
    high_bandwidth: VecDeque<PeerId>,
    recent_block: Option<Box<RecentBlock>>,
    pending_announcement: Option<PendingAnnouncement>,
    address_answers: AddressAnswers,
    asked_seeds: AskedSeeds,
    tip_watch: TipWatch,
    /// The block for which an `inv` made us ask a peer with which no sync had begun.
    last_inv_follow_up: Option<BlockHash>,
    /// Times in a row that a race for headers showed the line to be slow.
    header_races: u32,
    tip: HeaderId,
    initial_download: bool,
    network_active: bool,
    log_lines: TokenBucket,
    address_key: [u8; 16],
    group_key: [u8; 16],
    last_peer: u64,
    last_read: u64,
    next_maintenance: Duration,
    now: Now,
}

/// The moment and the chain that an event is seen with.
#[derive(Clone, Copy)]
struct View<'a> {
    now: Now,
    index: &'a dyn HeaderIndex,
}

impl Peers {
    /// An engine without peers. `book`: the addresses of earlier runs, or an empty one. Until
    /// [`tip_changed`](Self::tip_changed) says otherwise the initial download is under way.
    pub fn new(config: PeersConfig, book: AddressBook, now: Now, index: &dyn HeaderIndex) -> Self {
        let mut rng = StdRng::from_seed(config.seed);
        let slots = SlotsConfig {
            max_full: config.max_outbound_full,
            max_block_relay: config.max_outbound_block_relay,
            reachable: config.reachable,
            connect_only: config.connect_only.clone(),
            add_nodes: config.add_nodes.clone(),
            seed_nodes: config.seed_nodes.clone(),
            dns_seeds: config.dns_seeds.clone(),
            fixed_seeds: !config.fixed_seeds.is_empty(),
        };
        Self {
            slots: Slots::new(slots, now, rng.random()),
            discouraged: Discouraged::new(rng.random()),
            spent_headers: SpentAllowances::new(USELESS_BURST),
            address_key: rng.random(),
            group_key: rng.random(),
            downloads: Downloads::new(&config.params, config.minimum_chain_work),
            upload: UploadTarget::new(config.max_upload_target),
            rng,
            book,
            actions: VecDeque::new(),
            peers: BTreeMap::new(),
            connecting: BTreeMap::new(),
            sources: BlockSources::default(),
            high_bandwidth: VecDeque::new(),
            recent_block: None,
            pending_announcement: None,
            address_answers: AddressAnswers::new(),
            asked_seeds: AskedSeeds::new(),
            tip_watch: TipWatch::new(now),
            last_inv_follow_up: None,
            header_races: 0,
            tip: index.tip(),
            initial_download: true,
            network_active: true,
            log_lines: TokenBucket::log(now.monotonic),
            last_peer: 0,
            last_read: 0,
            next_maintenance: now.monotonic,
            now,
            config,
        }
    }

    // ---- connections

    /// Somebody connected. `None`: close the socket at once; there is no place, or the address is
    /// discouraged. Room may be made for it by an [`Action::Disconnect`] of another.
    pub fn accept_inbound(
        &mut self,
        now: Now,
        index: &dyn HeaderIndex,
        address: NetAddress,
    ) -> Option<PeerId> {
        let view = self.view(now, index);
        self.accept(view, address)
    }

    /// An [`Action::Connect`] succeeded; through a proxy: the proxy said so. `address`: to whom,
    /// when it is known; not for a name that a proxy resolved.
    pub fn connected(
        &mut self,
        now: Now,
        index: &dyn HeaderIndex,
        peer: PeerId,
        address: Option<NetAddress>,
    ) {
        let view = self.view(now, index);
        self.open(view, peer, address);
    }

    /// An [`Action::Connect`] failed. `local`: through our own network or proxy, so that it tells
    /// nothing about the address.
    pub fn connect_failed(&mut self, now: Now, peer: PeerId, local: bool) {
        self.attempt_failed(now, peer, local);
    }

    /// How the connection is spoken; told before the peer's first message.
    pub fn speaks(&mut self, peer: PeerId, protocol: Protocol) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.handshake.protocol = protocol;
        }
    }

    /// The connection ended, by the other side or by a failure.
    pub fn closed(&mut self, now: Now, peer: PeerId) {
        if self.forget(now, peer).is_some() {
            log::debug!("peer={}: connection closed", peer.0);
        }
    }

    /// The bytes of a peer can not be read as messages; it is disconnected.
    pub fn transport_failed(&mut self, now: Now, peer: PeerId, error: &TransportError) {
        let why = match error {
            TransportError::Io(_) => DisconnectReason::Io,
            TransportError::WrongMagic(_) => DisconnectReason::WrongMagic,
            TransportError::TooLarge { command, .. } => DisconnectReason::Oversized(*command),
            TransportError::NoTerminator
            | TransportError::WrongTag
            | TransportError::PacketTooLarge(_) => DisconnectReason::Undecryptable,
        };
        self.disconnect(now, peer, why);
    }

    // ---- from the wire

    /// A message arrived.
    pub fn frame(&mut self, now: Now, index: &dyn HeaderIndex, peer: PeerId, frame: Frame) {
        let view = self.view(now, index);
        self.receive(view, peer, frame);
    }

    /// Bytes of a `block` or `headers` payload arrived, before the message is complete or with it.
    /// Told before [`frame`](Self::frame) and altogether the payload's length: rates are measured by
    /// it.
    pub fn arriving(&mut self, now: Now, peer: PeerId, command: Command, bytes: usize) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        state.last_received = now.monotonic;
        if command == Command::HEADERS {
            state.chain.arriving = state.chain.arriving.saturating_add(bytes as u64);
        } else {
            self.downloads.bytes_received(peer, now, bytes as u64);
        }
    }

    /// The transport dropped a message.
    pub fn discarded(
        &mut self,
        now: Now,
        index: &dyn HeaderIndex,
        peer: PeerId,
        discard: &Discard,
    ) {
        let view = self.view(now, index);
        self.receive_discard(view, peer, discard);
    }

    /// Bytes that were written to the peer since the last such report, message headers included. How
    /// much is still queued is reckoned from that and from what was sent, so that a report that is
    /// late takes nothing off that was queued after it.
    pub fn sent(&mut self, now: Now, index: &dyn HeaderIndex, peer: PeerId, bytes: usize) {
        let view = self.view(now, index);
        self.upload.record(now.monotonic, bytes as u64);
        self.note_sent(view, peer, bytes);
    }

    // ---- answers of the chain

    /// Answer to [`Action::SubmitHeaders`]: the last of them, taken now or before; or why one was
    /// refused.
    pub fn headers_judged(
        &mut self,
        now: Now,
        index: &dyn HeaderIndex,
        peer: PeerId,
        result: Result<HeaderId, HeaderFault>,
    ) {
        let view = self.view(now, index);
        self.judge_headers(view, peer, result);
    }

    /// Answer to [`Action::SubmitBlock`].
    pub fn block_judged(
        &mut self,
        now: Now,
        index: &dyn HeaderIndex,
        hash: BlockHash,
        judgement: BlockJudgement,
    ) {
        let view = self.view(now, index);
        self.judge_block(view, hash, judgement);
    }

    /// A stored block turned out invalid when it was connected.
    pub fn block_invalid(
        &mut self,
        now: Now,
        index: &dyn HeaderIndex,
        hash: BlockHash,
        reject: Reject,
    ) {
        let view = self.view(now, index);
        self.block_refused(view, hash, reject);
    }

    /// The index has another tip, or the initial download ended (or, in theory, began again). Once
    /// for several blocks is enough.
    pub fn tip_changed(&mut self, now: Now, index: &dyn HeaderIndex, initial_block_download: bool) {
        let view = self.view(now, index);
        self.initial_download = initial_block_download;
        let old = std::mem::replace(&mut self.tip, index.tip());
        if old == self.tip {
            return;
        }
        self.tip_watch.tip_changed(now);
        let tip = index.get(self.tip);
        let sender = self.sources.get(&tip.hash);
        self.sources.forget_below(tip.height);
        self.drop_old_partials(view);
        if initial_block_download {
            return;
        }
        if let Some(sender) = sender
            && self.blocks_in_flight() == 0
        {
            self.select_high_bandwidth(now, sender.peer);
        }
        self.announce_tip(view, old, self.tip);
    }

    /// Answer to [`Action::ReadBlock`]: the bytes of the block; `None` when they can not be had.
    pub fn block_read(
        &mut self,
        now: Now,
        index: &dyn HeaderIndex,
        request: ReadId,
        bytes: Option<PooledStream>,
    ) {
        let view = self.view(now, index);
        if self.pending_announcement.as_ref().is_some_and(|pending| pending.read == request) {
            self.announcement_read(view, bytes);
        } else {
            self.block_served(view, request, bytes);
        }
    }

    /// Answer to [`Action::Resolve`]; no addresses when it failed. Their ports do not matter.
    pub fn resolved(&mut self, now: Now, host: &str, addresses: &[NetAddress]) {
        self.on_resolved(now, host, addresses);
    }

    // ---- time

    /// Everything that is due. To be called at [`next_wakeup`](Self::next_wakeup) and after other
    /// events. `room`: bytes of blocks that the chain can take beyond those that were handed to it;
    /// what was requested is counted here.
    pub fn tick(&mut self, now: Now, index: &dyn HeaderIndex, room: u64) {
        let view = self.view(now, index);
        if now.monotonic >= self.next_maintenance {
            self.next_maintenance = now.monotonic + MAINTENANCE_INTERVAL;
            for id in self.peers.keys().copied().collect::<Vec<_>>() {
                self.attend(view, id);
            }
            self.watch_tip(view);
            self.open_connections(view);
        }
        self.download_blocks(view, room);
    }

    /// When [`tick`](Self::tick) is due at the latest, on the monotonic clock.
    pub fn next_wakeup(&self) -> Duration {
        let downloads = self.downloads.next_wakeup(self.now).unwrap_or(Duration::MAX);
        self.next_maintenance.min(downloads)
    }

    /// What is to be done, in this order. Empty afterwards.
    pub fn take_actions(&mut self) -> VecDeque<Action> {
        std::mem::take(&mut self.actions)
    }

    /// False disconnects everybody and opens nothing any more (`-networkactive`). Connections on
    /// their way are ended by [`Action::Disconnect`], too.
    pub fn set_network_active(&mut self, now: Now, index: &dyn HeaderIndex, active: bool) {
        let view = self.view(now, index);
        self.set_active(view, active);
    }

    /// The known addresses, to be written to disk now and then (Core: every 15 minutes) and at the
    /// end.
    pub fn address_book(&self) -> &AddressBook {
        &self.book
    }

    // ---- for all parts

    fn view<'a>(&mut self, now: Now, index: &'a dyn HeaderIndex) -> View<'a> {
        self.now = now;
        View { now, index }
    }

    /// Everything that is due for one peer (Core `SendMessages`).
    fn attend(&mut self, view: View<'_>, id: PeerId) {
        self.update_availability(view, id);
        if self.attend_lifetime(view, id)
            && self.attend_ping(view.now, id)
            && self.attend_header_timeouts(view, id)
            && self.attend_chain_sync(view, id)
        {
            self.attend_addresses(view, id);
            self.attend_sendheaders(view, id);
            self.attend_header_sync(view, id);
        }
    }

    /// Peers that said hello, in the order of their names.
    fn established(&self) -> Vec<PeerId> {
        self.peers.values().filter(|peer| peer.established()).map(|peer| peer.id).collect()
    }

    fn send(&mut self, now: Now, id: PeerId, message: &Message) {
        // Not a pooled buffer: those have the size of a block, and this may wait for long.
        let mut payload = DataStream::new();
        message.encode(&mut payload);
        self.send_payload(now, id, message.command(), payload.into());
    }

    /// Queues a message, or lets the peer go when it does not read.
    fn send_payload(&mut self, now: Now, id: PeerId, command: Command, payload: PooledStream) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let queued = peer.serving.queued.saturating_add(FRAME_HEADER_SIZE + payload.len());
        if queued > SEND_QUEUE_MAX {
            return self.disconnect(now, id, DisconnectReason::SendQueueFull);
        }
        peer.serving.queued = queued;
        self.actions.push_back(Action::Send { peer: id, command, payload });
    }

    /// Whether a line at the expense of this peer may be logged.
    fn may_log(&mut self, now: Now, id: PeerId) -> bool {
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        peer.log_lines.take(now.monotonic, 1) && self.log_lines.take(now.monotonic, 1)
    }

    fn next_peer_id(&mut self) -> PeerId {
        self.last_peer += 1;
        PeerId(self.last_peer)
    }

    fn next_read_id(&mut self) -> ReadId {
        self.last_read += 1;
        ReadId(self.last_read)
    }
}
