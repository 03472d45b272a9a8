//! The engine's configuration.

use std::sync::Arc;

use godwit_primitives::{Params, Work};
use godwit_stream::BufferPool;

use crate::net_address::NetAddress;
use crate::permissions::Whitelist;
use crate::services::Services;
use crate::target::{Reachable, Target};

/// Options of [`Peers`](super::Peers).
#[derive(Clone)]
pub struct PeersConfig {
    pub params: Arc<Params>,
    /// Services that the node offers: `WITNESS | NETWORK_LIMITED`, with `NETWORK` unless pruned.
    pub services: Services,
    /// User agent, as `/godwit:0.1.0/`; at most 256 bytes.
    pub user_agent: String,
    /// Headers of chains with less work are not stored (`-minimumchainwork`).
    pub minimum_chain_work: Work,
    /// Most inbound connections.
    pub max_inbound: usize,
    /// Outbound full connections (Core: 8).
    pub max_outbound_full: usize,
    /// Outbound block-relay connections (Core: 2).
    pub max_outbound_block_relay: usize,
    /// Connections at most that the engine chooses itself, feelers among them (`-maxconnections`); with 0
    /// there are only those of `connect_only` and `add_nodes`.
    pub max_automatic: usize,
    /// Port to advertise; `None` when the node does not listen.
    pub listen_port: Option<u16>,
    /// `-discover`: peers are told addresses that the operator did not name, those among them at which they
    /// see this node.
    pub discover: bool,
    /// `-connect`: the only peers to connect to; empty for `-connect=0`.
    pub connect_only: Option<Vec<Target>>,
    /// `-addnode`: peers to stay connected to.
    pub add_nodes: Vec<Target>,
    /// `-seednode`: peers that are asked for addresses and then disconnected.
    pub seed_nodes: Vec<Target>,
    /// Hosts of DNS seeds; empty for `-dnsseed=0` and with `-connect`.
    pub dns_seeds: Vec<String>,
    /// Addresses to use when no other source gives any; empty with `-connect`.
    pub fixed_seeds: Vec<NetAddress>,
    /// Host names go to a proxy unresolved (`-proxy`): no [`Action::Resolve`](super::Action::Resolve)
    /// is issued, and [`NetCommand::Connect`](super::NetCommand::Connect) carries [`Target::Name`].
    pub name_proxy: bool,
    /// Reachable networks: IPv4, IPv6, and those reached through proxies (`-onion`).
    pub reachable: Reachable,
    /// `-whitelist`: what single peers may do.
    pub whitelist: Whitelist,
    /// Bytes that may be uploaded per day before historical blocks are refused
    /// (`-maxuploadtarget`); `None`: no limit.
    pub max_upload_target: Option<u64>,
    /// Buffers for outgoing payloads.
    pub pool: BufferPool,
    /// The only source of the engine's randomness: the same seed and inputs give the same actions.
    pub seed: [u8; 32],
}
