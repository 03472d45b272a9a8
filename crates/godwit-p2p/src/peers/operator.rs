//! The operator's view of the peers of a running node, and commands to them.

use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use godwit_primitives::BlockHash;

use super::Peers;
use super::addresses::state::PeerAddresses;
use super::peer::Peer;
use super::traffic::{Traffic, TrafficTotals};
use super::tx_relay::state::PeerTransactions;
use crate::address_book::AddressCount;
use crate::bans::{Ban, Bans, HostRange};
use crate::connection_kind::ConnectionKind;
use crate::download::heights_in_flight;
use crate::index::HeaderId;
use crate::net_address::{AddressEntry, AddressNetwork, Host, NetAddress};
use crate::own_addresses::{OwnAddressSource, OwnAddresses};
use crate::peer_id::PeerId;
use crate::permissions::Permissions;
use crate::presync::Presync;
use crate::rate_limit::UploadStatus;
use crate::services::Services;
use crate::target::{Reachable, Target};
use crate::transport::Protocol;

/// What the engine is told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeCommand {
    /// Ping every peer now.
    PingAll,
    Disconnect(PeerId),
    /// Stay connected to a peer.
    AddNode(Target),
    /// Do so no longer; a connection that stands stays.
    RemoveNode(Target),
    /// Let go of all peers of these hosts, and neither call them nor accept them until the ban ends.
    Ban(HostRange, Ban),
    /// End the ban of exactly these.
    Unban(HostRange),
    /// End all bans.
    ClearBans,
    /// Connect now, if the network is active; see [`Peers::refuses_try`].
    TryNode(Target),
    /// Ask a peer for a block, whatever the download is about. It is not blamed where none comes.
    FetchBlock(PeerId, BlockHash),
    /// This node can be called at an address, as the source says.
    AddOwnAddress(NetAddress, OwnAddressSource),
    /// It can be called at this host no longer.
    RemoveOwnAddress(Host),
    /// There is a proxy to onion addresses: peers are chosen there too.
    ReachOnion,
    /// See [`Event::NetworkActive`](super::Event::NetworkActive).
    SetNetworkActive(bool),
}

/// A connected peer.
#[derive(Clone, Debug)]
pub struct PeerInfo {
    pub id: PeerId,
    pub kind: ConnectionKind,
    /// Unknown for a name behind a proxy, and Tor's for who called the onion service.
    pub address: Option<NetAddress>,
    /// The network over which it is connected.
    pub network: AddressNetwork,
    /// The number of its autonomous system, by the map of the address book.
    pub system: Option<NonZeroU32>,
    /// What an outbound connection was opened to.
    pub target: Option<Target>,
    pub said: PeerSays,
    pub times: PeerTimes,
    pub traffic: Traffic,
    pub blocks: PeerBlocks,
    pub addresses: PeerAddresses,
    pub transactions: PeerTransactions,
    pub permissions: Permissions,
}

/// What it said in the handshake.
#[derive(Clone, Debug)]
pub struct PeerSays {
    /// Zero before its `version`.
    pub version: i32,
    pub services: Services,
    /// Only the characters that Bitcoin Core keeps of it.
    pub user_agent: String,
    /// Seconds by which its clock is ahead of ours.
    pub time_offset: i64,
    /// It wants transactions announced, over a connection that is not for blocks alone.
    pub relay: bool,
    pub protocol: Protocol,
    /// Our address as it sees it.
    pub local: Option<NetAddress>,
}

/// On the monotonic clock; zero for never.
#[derive(Clone, Copy, Debug)]
pub struct PeerTimes {
    pub connected: Duration,
    pub last_received: Duration,
    pub last_sent: Duration,
    pub last_block: Duration,
    /// Round trip of the last ping that was answered, and the shortest.
    pub last_ping: Option<Duration>,
    pub shortest_ping: Option<Duration>,
    /// How long the ping that is under way has been.
    pub ping_wait: Option<Duration>,
}

/// What is known of its chain.
#[derive(Clone, Debug)]
pub struct PeerBlocks {
    /// The best header that it is known to have.
    pub best_known: Option<HeaderId>,
    /// The last block of its chain up to which we have all, as of the last time when that chain had no less
    /// work than ours.
    pub common: Option<HeaderId>,
    /// Heights of the blocks that were requested of it.
    pub in_flight: Vec<u32>,
    /// We asked it for compact blocks, and it asked us.
    pub compact_to: bool,
    pub compact_from: bool,
    /// The height up to which its headers have shown their work, while they do (Core `GetPresyncHeight`).
    pub presynced: Option<u32>,
}

impl Peers {
    /// The connected peers, in the order of their ids.
    pub fn infos(&self) -> Vec<PeerInfo> {
        self.table.iter().map(|peer| self.info(peer)).collect()
    }

    /// Numbers of inbound and of outbound connections, with those whose handshake is not complete (Core
    /// `CConnman::GetNodeCount`).
    pub fn connection_counts(&self) -> (usize, usize) {
        let inbound = self.table.iter().filter(|peer| peer.inbound()).count();
        (inbound, self.table.iter().count() - inbound)
    }

    fn info(&self, peer: &Peer) -> PeerInfo {
        let handshake = &peer.handshake;
        let waits = peer.ping.nonce.and(peer.ping.sent_at);
        // Until then it is when the peer connected, for the deadlines.
        let has_received = peer.flow.traffic.bytes_received() > 0;
        PeerInfo {
            id: peer.id,
            kind: peer.kind,
            address: peer.address,
            network: peer.connected_through(),
            system: peer.address.and_then(|address| self.book.groups().system_of(address.host)),
            target: peer.target.clone(),
            said: PeerSays {
                version: handshake.version.unwrap_or(0),
                services: handshake.services,
                user_agent: handshake.user_agent.clone(),
                time_offset: handshake.time_offset,
                relay: peer.hears_of_transactions(),
                protocol: handshake.protocol,
                local: handshake.local,
            },
            times: PeerTimes {
                connected: peer.connected_at,
                last_received: if has_received { peer.last_received } else { Duration::ZERO },
                last_sent: peer.flow.traffic.last_sent,
                last_block: peer.fetch.last_block(),
                last_ping: peer.ping.last,
                shortest_ping: peer.ping.shortest,
                ping_wait: waits.map(|sent| self.now.monotonic.saturating_sub(sent)),
            },
            traffic: peer.flow.traffic.over(&handshake.protocol),
            blocks: PeerBlocks {
                best_known: peer.known.best(),
                common: peer.known.common(),
                in_flight: heights_in_flight(self.parts.fetch.downloads(), peer.id),
                compact_to: peer.fetch.is_selected(),
                compact_from: handshake.wants_compact,
                presynced: peer.headers.presync().map(Presync::height),
            },
            addresses: peer.addresses.info(),
            transactions: match peer.hears_of_transactions() {
                true => peer.serving.transactions.info(),
                false => PeerTransactions::default(),
            },
            permissions: peer.privileges.permissions,
        }
    }

    /// Seconds by which the clocks of outbound peers are ahead of ours, as a median.
    pub fn clock_offset(&self) -> i64 {
        self.parts.clock.median()
    }

    /// Bytes exchanged with all peers.
    pub fn total_traffic(&self) -> TrafficTotals {
        self.table.total_traffic()
    }

    /// The networks in which peers are chosen.
    pub fn reachable(&self) -> Reachable {
        self.config.reachable
    }

    /// The addresses at which this node can be called.
    pub fn own_addresses(&self) -> &OwnAddresses {
        &self.own
    }

    /// The hosts that are banned.
    pub fn bans(&self) -> &Bans {
        self.table.bans()
    }

    /// The peers of [`NodeCommand::AddNode`] and of the configuration.
    pub fn added_nodes(&self) -> Vec<Target> {
        self.parts.connections.added_nodes()
    }

    /// Whether [`NodeCommand::TryNode`] has no place for a peer: it is not connected, and there are
    /// [`MAX_TRIED_CONNECTIONS`](crate::MAX_TRIED_CONNECTIONS) that were tried.
    pub fn refuses_try(&self, target: &Target) -> bool {
        self.parts.connections.refuses_try(&self.table, target)
    }

    /// Addresses of some places of the book that are worth telling; `None` behind its end. Where an address
    /// is may change at any time.
    pub fn known_addresses(&self, places: Range<usize>) -> Option<Vec<AddressEntry>> {
        let mut known = self.book.worth_telling(self.now.unix, places)?;
        known.retain(|entry| !self.table.is_shunned(&entry.address.host));
        Some(known)
    }

    /// How many addresses the book has, by network; those without any are left out.
    pub fn address_counts(&self) -> Vec<AddressCount> {
        self.book.counts()
    }

    /// What is left of the upload target.
    pub fn upload(&self) -> UploadStatus {
        self.parts.serving.upload(self.now.monotonic)
    }

    /// The services that this node offers while its blocks are stored from height `lowest` to `tip`.
    pub fn services(&self, lowest: u32, tip: u32) -> Services {
        self.config.services.as_stored(lowest, tip)
    }
}
