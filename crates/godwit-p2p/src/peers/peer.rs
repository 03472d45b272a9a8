//! What the engine remembers of one peer. Every queue in it has a limit, named at its use.

use std::time::Duration;

use super::addresses::state::AddressState;
use super::fetch::state::FetchState;
use super::headers::allowance::useless_headers;
use super::headers::state::HeaderState;
use super::known_chain::KnownChain;
use super::memory::footprint::Footprint;
use super::serving::state::ServingState;
use super::traffic::Traffic;
use crate::address_book::Source;
use crate::connection_kind::ConnectionKind;
use crate::net_address::{AddressNetwork, Host, NetAddress};
use crate::peer_id::PeerId;
use crate::permissions::Permissions;
use crate::rate_limit::TokenBucket;
use crate::services::Services;
use crate::target::Target;
use crate::time::Now;
use crate::transport::Protocol;

/// A connected peer. What only one part needs is in a type of that part.
pub(super) struct Peer {
    pub(super) id: PeerId,
    pub(super) kind: ConnectionKind,
    /// The other end of the connection. Unknown for a name behind a proxy, and Tor's for who called the onion
    /// service: what a host is given or refused goes by [`known_host`](Self::known_host).
    pub(super) address: Option<NetAddress>,
    /// What an outbound connection was opened to.
    pub(super) target: Option<Target>,
    pub(super) connected_at: Duration,
    pub(super) last_received: Duration,
    pub(super) privileges: Privileges,
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

/// What the peer may do and how it is treated, by where it comes from; decided when it connects.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Privileges {
    pub(super) permissions: Permissions,
    /// Its address was discouraged.
    pub(super) prefer_evict: bool,
    /// It called the onion service.
    pub(super) through_onion: bool,
}

/// What the peer said in the handshake.
#[derive(Debug)]
pub(super) struct Handshake {
    /// When it began, or the peer's `version` came, in line time.
    pub(super) begun: Duration,
    /// Nonce of our `version`, to recognise a connection to ourselves.
    pub(super) nonce: u64,
    /// The peer's protocol version, once it sent its `version`.
    pub(super) version: Option<i32>,
    /// The lower of both protocol versions.
    pub(super) common_version: i32,
    pub(super) services: Services,
    /// Only the characters that Bitcoin Core keeps of it.
    pub(super) user_agent: String,
    pub(super) start_height: i32,
    /// Seconds by which its clock is ahead of ours.
    pub(super) time_offset: i64,
    /// It wants transactions announced: its `version` says so.
    pub(super) relay: bool,
    /// The protocol of the connection.
    pub(super) protocol: Protocol,
    /// `verack` arrived: the handshake is complete.
    pub(super) established: bool,
    /// It understands `addrv2`.
    pub(super) wants_addrv2: bool,
    /// It wants blocks announced by headers.
    pub(super) prefers_headers: bool,
    /// It understands version 2 of compact blocks (Core `m_provides_cmpctblocks`).
    pub(super) provides_compact: bool,
    /// It wants new blocks announced in compact form (Core `m_requested_hb_cmpctblocks`).
    pub(super) wants_compact: bool,
    /// Our address as the peer sees it.
    pub(super) local: Option<NetAddress>,
}

/// The connection's flow control and memory.
#[derive(Debug)]
pub(super) struct Flow {
    /// Nothing is read from the peer before [`NetCommand::ReadOn`](super::NetCommand::ReadOn).
    pub(super) held: bool,
    /// The transport keeps block payloads from the peer.
    pub(super) expects_block: bool,
    /// The memory that it holds in the driver.
    pub(super) footprint: Footprint,
    pub(super) traffic: Traffic,
}

/// Pings and the round trips that they measure.
#[derive(Debug, Default)]
pub(super) struct Ping {
    /// Nonce of the ping that was not answered yet.
    pub(super) nonce: Option<u64>,
    pub(super) sent_at: Option<Duration>,
    /// The last round trip, and the shortest.
    pub(super) last: Option<Duration>,
    pub(super) shortest: Option<Duration>,
}

/// Rate limits of what costs us something and is of no use to us.
pub(super) struct Allowances {
    /// Transactions announced or sent, and, of a peer that we chose, whatever else is announced.
    pub(super) announcements: TokenBucket,
    /// Headers that were known, or have too little work.
    pub(super) useless_headers: TokenBucket,
    /// Log lines about the peer.
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
            privileges: Privileges::default(),
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
                traffic: Traffic::default(),
            },
            allowances: Allowances {
                announcements: TokenBucket::inventory(now.monotonic),
                useless_headers: useless_headers(now.monotonic),
                log_lines: TokenBucket::peer_log(now.monotonic),
            },
        }
    }

    pub(super) fn inbound(&self) -> bool {
        self.kind == ConnectionKind::Inbound
    }

    /// Whether it is an outbound peer that we chose ourselves (Core `IsOutboundOrBlockRelayConn`).
    pub(super) fn automatic_outbound(&self) -> bool {
        matches!(self.kind, ConnectionKind::OutboundFull | ConnectionKind::BlockRelay)
    }

    /// Whether it is an outbound peer that is asked for headers and blocks.
    pub(super) fn lasting_outbound(&self) -> bool {
        self.automatic_outbound() || self.kind == ConnectionKind::Manual
    }

    /// Whether the operator gave it all these permissions.
    pub(super) fn may(&self, permissions: Permissions) -> bool {
        self.privileges.permissions.contains(permissions)
    }

    /// The network over which it is connected (Core `ConnectedThroughNetwork`).
    pub(super) fn connected_through(&self) -> AddressNetwork {
        match self.address {
            _ if self.privileges.through_onion => AddressNetwork::Onion,
            Some(address) => address.host.network_class(),
            None => AddressNetwork::Unroutable,
        }
    }

    /// Where it is, as far as that is known.
    pub(super) fn known_host(&self) -> Option<Host> {
        self.address.filter(|_| !self.privileges.through_onion).map(|address| address.host)
    }

    pub(super) fn established(&self) -> bool {
        self.handshake.established
    }

    /// The source of addresses that it sends: its host, or its name where a proxy resolved it.
    pub(super) fn source(&self) -> Option<Source> {
        match (self.address, &self.target) {
            (Some(address), _) => Some(Source::Host(address.host)),
            (None, Some(Target::Name { host, .. })) => Some(Source::name(host)),
            (None, _) => None,
        }
    }

    /// Whether it has blocks (Core `CanServeBlocks`).
    pub(super) fn serves_blocks(&self) -> bool {
        let services = self.handshake.services;
        services.contains(Services::NETWORK) || services.contains(Services::NETWORK_LIMITED)
    }

    /// Whether it may ask for transactions, and is answered (Core `GetTxRelay`).
    pub(super) fn hears_of_transactions(&self) -> bool {
        let kind = !matches!(self.kind, ConnectionKind::BlockRelay | ConnectionKind::Feeler);
        kind && self.handshake.relay
    }

    /// Whether it has only recent blocks (Core `IsLimitedPeer`).
    pub(super) fn limited(&self) -> bool {
        self.serves_blocks() && !self.handshake.services.contains(Services::NETWORK)
    }

    /// Whether headers and blocks are requested from it before others (Core `fPreferredDownload`).
    pub(super) fn preferred(&self) -> bool {
        let is_known = !self.inbound() || self.may(Permissions::NO_BAN);
        is_known && self.kind != ConnectionKind::AddrFetch && self.serves_blocks()
    }
}

impl Handshake {
    fn new(nonce: u64) -> Self {
        Self {
            begun: Duration::ZERO,
            nonce,
            version: None,
            common_version: 0,
            services: Services::NONE,
            user_agent: String::new(),
            start_height: -1,
            time_offset: 0,
            relay: false,
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
