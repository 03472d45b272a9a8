//! The engine: decides everything that a node says to its peers.
//!
//! [`Peers`] owns the state of all connections. The driver hands it one [`Event`] at a time (a
//! frame arrived, a block was judged, time passed), and after each takes the [`Action`]s and does
//! them in order.
//!
//! ```text
//!             Peers          one entrance, one way out
//!               |
//!             Parts          router.rs: which part an event concerns, in which order
//!    __________/|\____________________________________
//!   |         |        |         |        |           |
//! Connections Headers BlockFetch BlockRelay Serving AddressGossip   (and handshake, ping, lifetime)
//!   |_________|________|_________|________|___________|
//!               |
//!            Context         now, chain, configuration, PeerTable, AddressBook, OwnAddresses,
//!                            SharedMemory, Line, Outbox
//! ```
//!
//! A part has its own fields; what it remembers of one peer is a type of its own inside
//! [`Peer`](peer::Peer). Parts do not call each other.

mod action;
mod addresses;
mod clock_watch;
mod config;
mod connections;
mod context;
mod event;
mod fetch;
mod handshake;
mod headers;
mod known_chain;
mod lifetime;
mod line;
mod memory;
mod misbehaviour;
mod operator;
mod outbox;
mod peer;
mod ping;
mod reading;
mod relay;
mod router;
mod send_limits;
mod serving;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod traffic;
mod tx_relay;

use std::collections::VecDeque;
use std::time::Duration;

use godwit_primitives::{BlockHash, BlockView, Txid};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub use action::{
    Action, ChainRequest, FILTER_BYTES, FilterBlock, FilterRead, NetCommand, ReadId, SocketId,
};
pub use addresses::state::PeerAddresses;
pub use config::PeersConfig;
pub use event::{ChainEvent, ConnectFailure, Event, NetEvent, RefusedHeader};
pub use memory::account::{CONNECTIONS_MEMORY, PEER_MEMORY};
pub use misbehaviour::{DisconnectReason, Misbehaviour};
pub use operator::{NodeCommand, PeerBlocks, PeerInfo, PeerSays, PeerTimes};
pub use send_limits::{SEND_PAUSE, SEND_QUEUE_MAX};
pub use status::Summary;
pub use traffic::{Traffic, TrafficTotals};
pub use tx_relay::state::PeerTransactions;

use addresses::AddressGossip;
use clock_watch::ClockWatch;
use connections::Connections;
use context::Context;
use fetch::BlockFetch;
use headers::Headers;
use line::Line;
use memory::account::SharedMemory;
use outbox::Outbox;
use peer::Peer;
use reading::excuse_silence;
use relay::BlockRelay;
use router::Parts;
use serving::Serving;
use table::PeerTable;

use crate::address_book::AddressBook;
use crate::anchors::Anchors;
use crate::connection_kind::ConnectionKind;
use crate::index::HeaderIndex;
use crate::net_address::AddressEntry;
use crate::own_addresses::OwnAddresses;
use crate::slots::{Slots, SlotsConfig};
use crate::time::Now;
use crate::tx_outbox::{OutboxChange, OutboxFull, OutboxTx, TxOutbox};

/// Longest time between two looks at all peers (Core's message handler: 100 ms).
const MAINTENANCE_INTERVAL: Duration = Duration::from_millis(500);

/// The engine; see the module's documentation.
///
/// The memory that a peer can make it hold is bounded: `docs/limits.md` lists each queue.
pub struct Peers {
    config: PeersConfig,
    rng: StdRng,
    table: PeerTable,
    book: AddressBook,
    own: OwnAddresses,
    memory: SharedMemory,
    line: Line,
    out: Outbox,
    tx_outbox: TxOutbox,
    parts: Parts,
    initial_download: bool,
    next_maintenance: Duration,
    now: Now,
}

impl Peers {
    /// An engine without peers. `book` has the addresses of earlier runs, or is empty. Until
    /// [`ChainEvent::TipChanged`] says otherwise, the initial download is under way.
    pub fn new(config: PeersConfig, book: AddressBook, now: Now, index: &dyn HeaderIndex) -> Self {
        let mut rng = StdRng::from_seed(config.seed);
        let slots = SlotsConfig {
            max_full: config.max_outbound_full,
            max_block_relay: config.max_outbound_block_relay,
            max_automatic: config.max_automatic,
            connect_only: config.connect_only.clone(),
            add_nodes: config.add_nodes.clone(),
            seed_nodes: config.seed_nodes.clone(),
            dns_seeds: config.dns_seeds.clone(),
            fixed_seeds: !config.fixed_seeds.is_empty(),
        };
        // In this order: runs of the same seed are compared between versions.
        let slots = Slots::new(slots, now, rng.random());
        let table = PeerTable::new(rng.random());
        let addresses = AddressGossip::new(rng.random());
        let connections = Connections::new(slots, rng.random(), now);
        let parts = Parts {
            connections,
            headers: Headers::default(),
            fetch: BlockFetch::new(&config.params, config.minimum_chain_work),
            relay: BlockRelay::new(index.tip()),
            serving: Serving::new(config.max_upload_target),
            addresses,
            clock: ClockWatch::default(),
        };
        Self {
            own: OwnAddresses::new(config.discover),
            config,
            rng,
            table,
            book,
            memory: SharedMemory::default(),
            line: Line::new(now),
            out: Outbox::new(now),
            tx_outbox: TxOutbox::default(),
            parts,
            initial_download: true,
            next_maintenance: now.monotonic,
            now,
        }
    }

    /// Calls these addresses before those of the book, each once. To be told before the first event.
    pub fn call_first(&mut self, anchors: &Anchors) {
        self.parts.connections.call_first(anchors);
    }

    /// Handles an event. The actions that follow are taken with [`Self::take_actions`].
    pub fn handle(&mut self, now: Now, index: &dyn HeaderIndex, event: impl Into<Event>) {
        let event = event.into();
        self.now = now;
        self.line.advance(now);
        if let Event::Chain(ChainEvent::TipChanged { initial_download }) = event {
            self.initial_download = initial_download;
        }
        if let Event::Operator(NodeCommand::ReachOnion) = event {
            self.config.reachable.onion = true;
        }
        let (parts, mut cx) = self.lend(index);
        match event {
            Event::Net(event) => parts.on_net(&mut cx, event),
            Event::Chain(event) => parts.on_chain(&mut cx, event),
            Event::NetworkActive(active) => parts.set_active(&mut cx, active),
            Event::Operator(command) => parts.on_operator(&mut cx, command),
            Event::Tick { room } => self.tick(index, room),
        }
        let (parts, mut cx) = self.lend(index);
        parts.keep_budget(&mut cx);
    }

    fn tick(&mut self, index: &dyn HeaderIndex, room: u64) {
        let due = self.now.monotonic >= self.next_maintenance;
        if due {
            self.next_maintenance = self.now.monotonic + MAINTENANCE_INTERVAL;
        }
        self.table.bans_mut().sweep(self.now.unix);
        let (parts, mut cx) = self.lend(index);
        if room == 0 {
            excuse_silence(&mut cx);
            cx.line.excuse(cx.now);
        }
        if due {
            parts.maintain(&mut cx);
        }
        parts.serve_ready(&mut cx);
        parts.download(&mut cx, room);
        parts.serve_waiting(&mut cx);
    }

    /// Latest time for the next [`Event::Tick`], on the monotonic clock.
    pub fn next_wakeup(&self) -> Duration {
        if self.parts.serving.has_ready(&self.memory, &self.table) {
            return self.now.monotonic;
        }
        let downloads = self.parts.fetch.downloads().next_wakeup(self.now);
        self.next_maintenance.min(downloads.unwrap_or(Duration::MAX))
    }

    /// Takes the actions, which are to be done in this order.
    pub fn take_actions(&mut self) -> VecDeque<Action> {
        self.out.take()
    }

    /// Numbers for progress lines.
    pub fn summary(&self) -> Summary {
        let established = || self.table.iter().filter(|peer| peer.established());
        let inbound = established().filter(|peer| peer.inbound()).count();
        Summary {
            inbound,
            outbound: established().count() - inbound,
            blocks_in_flight: self.parts.fetch.in_flight(&self.table),
            silent_since: self.line.silent_since(),
        }
    }

    /// Memory that all connections together make this node hold, in bytes. After each event it is at most
    /// [`CONNECTIONS_MEMORY`], and without what this node asked for at most [`PEER_MEMORY`].
    pub fn memory(&self) -> usize {
        self.memory.total(&self.table)
    }

    /// Transactions that users of this node sent.
    pub fn outbox(&self) -> &TxOutbox {
        &self.tx_outbox
    }

    /// Takes the outbox of an earlier run. To be told before the first event.
    pub fn restore_outbox(&mut self, outbox: TxOutbox) {
        self.tx_outbox = outbox;
    }

    /// Announces these transactions from now on, in place of `replaced` and what depends on them.
    ///
    /// # Errors
    ///
    /// There is no room, and nothing has changed.
    pub fn send_transactions(
        &mut self,
        txs: Vec<OutboxTx>,
        replaced: &[Txid],
    ) -> Result<(), OutboxFull> {
        let changes = self.tx_outbox.put(txs, replaced)?;
        self.tell_changes(changes);
        Ok(())
    }

    fn tell_changes(&mut self, changes: Vec<OutboxChange>) {
        changes.into_iter().for_each(|change| self.out.push(change));
    }

    /// Announces one of the outbox again.
    pub fn announce_again(&mut self, txid: &Txid) {
        self.tx_outbox.announce_again(txid);
    }

    /// A block was connected to the tip. Told for each while the outbox is not empty.
    pub fn note_block(&mut self, hash: BlockHash, height: u32, block: BlockView<'_>) {
        let changes = self.tx_outbox.note_block(hash, height, block);
        self.tell_changes(changes);
    }

    /// The tip was disconnected, which had this coinbase.
    pub fn note_block_left(&mut self, hash: &BlockHash, coinbase: &Txid) {
        self.tx_outbox.note_left(hash, coinbase);
    }

    /// The chain is no longer on its way from a tip that was disconnected to a better one: what blocks had on
    /// the one branch alone is told of as waiting again, or as forgotten where it spends their coinbases.
    pub fn note_settled(&mut self) {
        let changes = self.tx_outbox.note_settled();
        self.tell_changes(changes);
    }

    /// The address book, to be written to disk at intervals (Core: 15 minutes) and at the end.
    pub fn address_book(&self) -> &AddressBook {
        &self.book
    }

    /// Whom to call first at the next start: the block-relay peers that stayed longest, or full ones
    /// where there are none. To be written to disk with the address book.
    pub fn anchors(&self) -> Anchors {
        let of = |kind| {
            let lasting = move |peer: &&Peer| peer.kind == kind && peer.established();
            let mut peers: Vec<&Peer> = self.table.iter().filter(lasting).collect();
            peers.sort_by_key(|peer| peer.connected_at);
            let time = u32::try_from(self.now.unix).unwrap_or(0);
            let entry = |peer: &Peer| {
                let services = peer.handshake.services;
                peer.address.map(|address| AddressEntry { time, services, address })
            };
            Anchors::new(peers.into_iter().filter_map(entry))
        };
        let block_relay = of(ConnectionKind::BlockRelay);
        if block_relay.is_empty() { of(ConnectionKind::OutboundFull) } else { block_relay }
    }

    fn lend<'a>(&'a mut self, index: &'a dyn HeaderIndex) -> (&'a mut Parts, Context<'a>) {
        let context = Context {
            now: self.now,
            index,
            config: &self.config,
            initial_download: self.initial_download,
            rng: &mut self.rng,
            table: &mut self.table,
            book: &mut self.book,
            own: &mut self.own,
            memory: &mut self.memory,
            line: &mut self.line,
            out: &mut self.out,
            tx_outbox: &mut self.tx_outbox,
        };
        (&mut self.parts, context)
    }
}
