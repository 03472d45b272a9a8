//! What the engine remembers of one peer. Every queue in it has a limit, named at its use.

use std::time::Duration;

use super::addresses::state::AddressState;
use super::fetch::state::FetchState;
use super::headers::allowance::useless_headers;
use super::headers::state::HeaderState;
use super::known_chain::KnownChain;
use super::memory::footprint::Footprint;
use super::serving::state::ServingState;
use crate::address_book::Source;
use crate::connection_kind::ConnectionKind;
use crate::message::Services;
use crate::net_address::NetAddress;
use crate::peer_id::PeerId;
use crate::rate_limit::TokenBucket;
use crate::target::Target;
use crate::time::Now;
use crate::transport::Protocol;

/// A connected peer. What one part alone needs to know is a type of that part.
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
    pub(super) known: KnownChain,
    pub(super) headers: HeaderState,
    pub(super) fetch: FetchState,
    pub(super) serving: ServingState,
    pub(super) addresses: AddressState,
    pub(super) flow: Flow,
    pub(super) allowances: Allowances,
}

/// What the peer has said of itself, and what it wants.
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
    /// It understands version 2 of compact blocks (Core `m_provides_cmpctblocks`).
    pub(super) provides_compact: bool,
    /// It wants new blocks announced in compact form (Core `m_requested_hb_cmpctblocks`).
    pub(super) wants_compact: bool,
    /// How it sees us.
    pub(super) local: Option<NetAddress>,
}

/// What flows on the connection.
#[derive(Debug)]
pub(super) struct Flow {
    /// Nothing that the peer sends is read before [`NetCommand::ReadOn`](super::NetCommand::ReadOn).
    pub(super) held: bool,
    /// Block payloads are kept by the transport.
    pub(super) expects_block: bool,
    /// What it holds of the driver's memory.
    pub(super) footprint: Footprint,
}

/// Pings and what they measure.
#[derive(Debug, Default)]
pub(super) struct Ping {
    /// The answer that is outstanding.
    pub(super) nonce: Option<u64>,
    pub(super) sent_at: Option<Duration>,
    /// Shortest round trip.
    pub(super) shortest: Option<Duration>,
}

/// How much more the peer may do of what costs us something and brings nothing.
pub(super) struct Allowances {
    /// Transactions announced or sent.
    pub(super) transactions: TokenBucket,
    /// Headers that were known, or that lead nowhere.
    pub(super) useless_headers: TokenBucket,
    /// Log lines at its expense.
    pub(super) log_lines: TokenBucket,
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
            ping: Ping::default(),
            known: KnownChain::default(),
            headers: HeaderState::default(),
            fetch: FetchState::default(),
            serving: ServingState::default(),
            addresses: AddressState::new(now),
            flow: Flow {
                held: false,
                expects_block: false,
                footprint: Footprint::new(now.monotonic),
            },
            allowances: Allowances {
                transactions: TokenBucket::inventory(now.monotonic),
                useless_headers: useless_headers(now.monotonic),
                log_lines: TokenBucket::peer_log(now.monotonic),
            },
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

    /// It may ask for transactions, and is told that there are none (Core `GetTxRelay`).
    pub(super) fn hears_of_transactions(&self) -> bool {
        let kind = !matches!(self.kind, ConnectionKind::BlockRelay | ConnectionKind::Feeler);
        kind && self.handshake.relay
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
            provides_compact: false,
            wants_compact: false,
            local: None,
        }
    }
}
