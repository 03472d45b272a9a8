//! What the engine remembers of one peer. Every queue in it has a limit, named at its use.

use std::collections::VecDeque;
use std::time::Duration;

use godwit_primitives::BlockHash;

use super::addresses::AddressRelay;
use super::compact_relay::CompactState;
use super::headers::useless_headers;
use super::serving::Serving;
use crate::address_book::Source;
use crate::connection_kind::ConnectionKind;
use crate::index::HeaderId;
use crate::message::Services;
use crate::net_address::NetAddress;
use crate::peer_id::PeerId;
use crate::presync::Presync;
use crate::rate_limit::TokenBucket;
use crate::target::Target;
use crate::time::Now;
use crate::transport::Protocol;

/// A connection that is being opened.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) target: Target,
    pub(super) kind: ConnectionKind,
    /// Where to, once it is known.
    pub(super) address: Option<NetAddress>,
    /// For our `version`.
    pub(super) nonce: u64,
    /// A failure counts against the address.
    pub(super) count_failure: bool,
    /// The name is being looked up.
    pub(super) resolving: bool,
}

/// A connected peer.
pub(super) struct Peer {
    pub(super) id: PeerId,
    pub(super) kind: ConnectionKind,
    /// Unknown for a name behind a proxy.
    pub(super) address: Option<NetAddress>,
    /// What was asked for, of an outbound connection.
    pub(super) target: Option<Target>,
    pub(super) connected_at: Duration,
    pub(super) last_received: Duration,
    /// Its address was discouraged when it connected.
    pub(super) prefer_evict: bool,
    pub(super) handshake: Handshake,
    pub(super) ping: Ping,
    pub(super) chain: ChainState,
    pub(super) addresses: AddressRelay,
    pub(super) serving: Serving,
    pub(super) compact: CompactState,
    /// Block payloads are kept by the transport.
    pub(super) expects_block: bool,
    /// When it last gave a block that was stored; zero for never.
    pub(super) last_block: Duration,
    /// Announced or sent transactions.
    pub(super) transactions: TokenBucket,
    /// Headers that were known, or that lead nowhere.
    pub(super) useless_headers: TokenBucket,
    /// Log lines at its expense.
    pub(super) log_lines: TokenBucket,
}

/// How far the two sides have introduced themselves.
#[derive(Debug)]
pub(super) struct Handshake {
    /// In our `version`, to recognise ourselves.
    pub(super) nonce: u64,
    /// The peer's protocol version, once it told.
    pub(super) version: Option<i32>,
    /// The lower of both protocol versions.
    pub(super) common_version: i32,
    pub(super) services: Services,
    /// Sanitised.
    pub(super) user_agent: String,
    pub(super) start_height: i32,
    /// It wants transactions announced. It never gets any.
    pub(super) relay: bool,
    /// How the connection is spoken.
    pub(super) protocol: Protocol,
    /// `verack` came: both sides are ready.
    pub(super) established: bool,
    /// It understands `addrv2`.
    pub(super) wants_addrv2: bool,
    /// It wants blocks announced by headers.
    pub(super) prefers_headers: bool,
    /// We asked it to announce blocks by headers.
    pub(super) sent_sendheaders: bool,
    /// How it sees us.
    pub(super) local: Option<NetAddress>,
}

/// Pings and what they measure.
#[derive(Debug)]
pub(super) struct Ping {
    /// The answer that is outstanding.
    pub(super) nonce: Option<u64>,
    pub(super) sent_at: Option<Duration>,
    /// Shortest round trip.
    pub(super) shortest: Option<Duration>,
}

/// What is known of the peer's chain.
pub(super) struct ChainState {
    /// The best block that it announced (Core `pindexBestKnownBlock`).
    pub(super) best_known: Option<HeaderId>,
    /// The last block that it announced and nobody knows (Core `hashLastUnknownBlock`).
    pub(super) last_unknown: Option<BlockHash>,
    /// The best header that we sent or announced to it (Core `pindexBestHeaderSent`).
    pub(super) best_sent: Option<HeaderId>,
    pub(super) sync: HeaderSync,
    /// When `getheaders` was sent that has no answer so far.
    pub(super) getheaders_sent: Option<Duration>,
    /// When `getheaders` was sent last, answered or not.
    pub(super) last_getheaders: Duration,
    /// How long its last full answer to `getheaders` took.
    pub(super) answer_time: Option<Duration>,
    /// And the longest one since its sync was begun.
    pub(super) slowest_answer: Duration,
    /// By how much its answers were late since its sync was begun, together.
    pub(super) lost_time: Duration,
    /// Bytes of the `headers` message that is under way.
    pub(super) arriving: u64,
    pub(super) presync: Option<Box<Presync>>,
    /// An `inv` made us ask it for headers before the sync with it began.
    pub(super) inv_triggered: bool,
    /// Headers that are with the driver; one answer each. The driver answers before the next event,
    /// so there is hardly ever more than one.
    pub(super) submissions: VecDeque<Submission>,
    /// When it last gave a new header with more work than our tip; zero for never.
    pub(super) last_announcement: Duration,
    pub(super) chain_sync: ChainSync,
}

/// How far the header sync with a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderSync {
    /// It was not begun (Core: `fSyncStarted` false).
    Idle,
    /// Under way; as long as one is, no other is begun for headers that are far behind.
    Running {
        /// When it is taken for slow, however much it delivers.
        deadline: Duration,
    },
    /// It takes too long: others are begun beside it.
    Slow,
    /// It was begun and another one is better: asked again when it is its turn.
    Resting,
    /// The peer told all that it has.
    CaughtUp,
}

impl HeaderSync {
    /// Nothing is under way, and there may be more to learn.
    pub(super) fn may_begin(self) -> bool {
        matches!(self, Self::Idle | Self::Resting)
    }
}

/// Headers that were handed to the driver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Submission {
    /// The message had as many headers as fit: there may be more.
    pub(super) full: bool,
    /// The last one was not known before.
    pub(super) new: bool,
    /// A pre-sync goes on, and asks for more itself.
    pub(super) presyncing: bool,
    pub(super) via_compact_block: bool,
}

/// Core `ChainSyncTimeoutState`: an outbound peer must catch up with our tip.
#[derive(Debug, Default)]
pub(super) struct ChainSync {
    pub(super) deadline: Option<Duration>,
    /// A header with the work that the peer has to show.
    pub(super) work_header: Option<HeaderId>,
    pub(super) sent_getheaders: bool,
    /// How far a pre-sync had come when the deadline was moved last, and how often it was moved.
    pub(super) presync_height: u32,
    pub(super) extensions: u32,
    /// Never evicted for its chain.
    pub(super) protected: bool,
}

impl Peer {
    pub(super) fn new(id: PeerId, kind: ConnectionKind, nonce: u64, now: Now) -> Self {
        Self {
            id,
            kind,
            address: None,
            target: None,
            connected_at: now.monotonic,
            last_received: now.monotonic,
            prefer_evict: false,
            handshake: Handshake::new(nonce),
            ping: Ping { nonce: None, sent_at: None, shortest: None },
            chain: ChainState::new(),
            addresses: AddressRelay::new(now),
            serving: Serving::default(),
            compact: CompactState::default(),
            expects_block: false,
            last_block: Duration::ZERO,
            transactions: TokenBucket::inventory(now.monotonic),
            useless_headers: useless_headers(now.monotonic),
            log_lines: TokenBucket::peer_log(now.monotonic),
        }
    }

    pub(super) fn inbound(&self) -> bool {
        self.kind == ConnectionKind::Inbound
    }

    /// Outbound and chosen by us (Core `IsOutboundOrBlockRelayConn`).
    pub(super) fn automatic_outbound(&self) -> bool {
        matches!(self.kind, ConnectionKind::OutboundFull | ConnectionKind::BlockRelay)
    }

    pub(super) fn established(&self) -> bool {
        self.handshake.established
    }

    /// Who it is that tells addresses: its name where a proxy resolved that.
    pub(super) fn source(&self) -> Option<Source> {
        match (self.address, &self.target) {
            (Some(address), _) => Some(Source::Host(address.host)),
            (None, Some(Target::Name { host, .. })) => Some(Source::name(host)),
            (None, _) => None,
        }
    }

    /// It has blocks (Core `CanServeBlocks`).
    pub(super) fn serves_blocks(&self) -> bool {
        let services = self.handshake.services;
        services.contains(Services::NETWORK) || services.contains(Services::NETWORK_LIMITED)
    }

    /// It has only recent blocks (Core `IsLimitedPeer`).
    pub(super) fn limited(&self) -> bool {
        self.serves_blocks() && !self.handshake.services.contains(Services::NETWORK)
    }

    /// Headers and blocks are rather asked of it than of others (Core `fPreferredDownload`).
    pub(super) fn preferred(&self) -> bool {
        !self.inbound() && self.kind != ConnectionKind::AddrFetch && self.serves_blocks()
    }
}

impl Handshake {
    fn new(nonce: u64) -> Self {
        Self {
            nonce,
            version: None,
            common_version: 0,
            services: Services::NONE,
            user_agent: String::new(),
            start_height: -1,
            relay: true,
            protocol: Protocol::Detecting,
            established: false,
            wants_addrv2: false,
            prefers_headers: false,
            sent_sendheaders: false,
            local: None,
        }
    }
}

impl ChainState {
    fn new() -> Self {
        Self {
            best_known: None,
            last_unknown: None,
            best_sent: None,
            sync: HeaderSync::Idle,
            getheaders_sent: None,
            last_getheaders: Duration::ZERO,
            answer_time: None,
            slowest_answer: Duration::ZERO,
            lost_time: Duration::ZERO,
            arriving: 0,
            presync: None,
            inv_triggered: false,
            submissions: VecDeque::new(),
            last_announcement: Duration::ZERO,
            chain_sync: ChainSync::default(),
        }
    }
}
