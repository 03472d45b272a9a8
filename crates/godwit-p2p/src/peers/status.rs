//! What the engine tells about itself.

use std::time::Duration;

use super::{ConnectionKind, Peers};
use crate::message::Services;
use crate::{HeaderId, NetAddress, PeerId, Protocol};

/// Numbers for progress lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Peers that connected to us and said hello.
    pub inbound: usize,
    /// Peers that we connected to and that said hello.
    pub outbound: usize,
    /// Connections on their way, and those that have not said hello.
    pub connecting: usize,
    /// Height up to which the chain of a peer was looked at before its headers are stored, when such a
    /// look goes on.
    pub presync_height: Option<u32>,
    /// Blocks that were asked for and did not arrive so far.
    pub blocks_in_flight: usize,
    /// Hosts that misbehaved.
    pub discouraged: usize,
}

/// One peer.
#[derive(Clone, Copy, Debug)]
pub struct PeerInfo<'a> {
    /// Its name.
    pub peer: PeerId,
    /// What the connection is for.
    pub kind: ConnectionKind,
    /// Its address, if known.
    pub address: Option<NetAddress>,
    /// Both sides said hello.
    pub established: bool,
    /// What it calls itself; harmless characters only.
    pub user_agent: &'a str,
    /// Its protocol version, once it told.
    pub version: Option<i32>,
    /// What it offers.
    pub services: Services,
    /// How the connection is spoken.
    pub protocol: Protocol,
    /// When it connected, on the monotonic clock.
    pub connected_at: Duration,
    /// Shortest round trip so far.
    pub min_ping: Option<Duration>,
    /// The best block that it is known to have.
    pub best_known: Option<HeaderId>,
    /// Blocks that it was asked for and did not send so far.
    pub blocks_in_flight: usize,
}

impl Peers {
    /// Numbers for progress lines.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary {
            connecting: self.connecting.len(),
            blocks_in_flight: self.blocks_in_flight(),
            discouraged: self.discouraged.len(),
            ..Summary::default()
        };
        for peer in self.peers.values() {
            match (peer.established(), peer.inbound()) {
                (false, _) => summary.connecting += 1,
                (true, true) => summary.inbound += 1,
                (true, false) => summary.outbound += 1,
            }
            let height = peer.chain.presync.as_ref().map(|presync| presync.height());
            summary.presync_height = summary.presync_height.max(height);
        }
        summary
    }

    /// All connected peers, in the order in which they connected.
    pub fn peers(&self) -> impl Iterator<Item = PeerInfo<'_>> {
        self.peers.values().map(|peer| PeerInfo {
            peer: peer.id,
            kind: peer.kind,
            address: peer.address,
            established: peer.established(),
            user_agent: &peer.handshake.user_agent,
            version: peer.handshake.version,
            services: peer.handshake.services,
            protocol: peer.handshake.protocol,
            connected_at: peer.connected_at,
            min_ping: peer.ping.shortest,
            best_known: peer.chain.best_known,
            blocks_in_flight: self.downloads.in_flight(peer.id),
        })
    }
}
