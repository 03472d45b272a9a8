//! Values of the node's options as given, before they are checked against each other.

use std::path::PathBuf;

use godwit_chain::ScriptEngine;
use godwit_p2p::{AddressNetwork, Binding, NetAddress, Whitelist};
use godwit_primitives::network::Deployment;
use godwit_primitives::{BlockHash, Work};

use super::rpc::{PlainPassword, RpcDraft};
use super::values::{HostPort, OrOff, UtxoHash};
use super::zmq::ZmqDraft;
use super::{IndexOptions, TrafficLimits};

/// `None` is "not given".
#[derive(Default)]
pub(super) struct Draft {
    pub(super) memory: MemoryDraft,
    pub(super) par: Option<i32>,
    pub(super) assume_valid: Option<OrOff<BlockHash>>,
    pub(super) scripts: ScriptsDraft,
    /// 0: none.
    pub(super) flush_interval: Option<u64>,
    pub(super) stop_at_height: Option<u32>,
    pub(super) files: FilesDraft,
    pub(super) verdicts: Option<PathBuf>,
    pub(super) utxo_hash: Option<UtxoHash>,
    pub(super) connections: ConnectionDraft,
    pub(super) rpc: RpcDraft,
    pub(super) zmq: ZmqDraft,
    pub(super) minimum_chain_work: Option<Work>,
    pub(super) signet_challenge: Option<Vec<u8>>,
    pub(super) activation_heights: Vec<(Deployment, u32)>,
    pub(super) tests: TestsDraft,
}

/// What `-test` names.
#[derive(Clone, Copy, Default)]
pub(super) struct TestsDraft {
    pub(super) bip94: bool,
    pub(super) bip34: bool,
}

/// The part of the draft that concerns scripts.
#[derive(Clone, Copy, Default)]
pub(super) struct ScriptsDraft {
    pub(super) engine: Option<ScriptEngine>,
    /// The engine with the lanes that were named.
    pub(super) lanes: Option<ScriptEngine>,
    /// 0: nothing is cross-checked.
    pub(super) crosscheck: Option<u32>,
}

/// The part of the draft that concerns the files of the data directory.
#[derive(Clone, Default)]
pub(super) struct FilesDraft {
    pub(super) prune_mib: Option<u64>,
    pub(super) scrub: Option<bool>,
    pub(super) reindex: bool,
    pub(super) reindex_chainstate: bool,
    pub(super) repair: bool,
    pub(super) audit: bool,
    pub(super) indexes: IndexOptions,
    pub(super) hand_over_to: Option<PathBuf>,
    pub(super) handed_over: bool,
}

/// The part of the draft that concerns memory, in MiB.
#[derive(Clone, Copy, Default)]
pub(super) struct MemoryDraft {
    pub(super) total: Option<u64>,
    pub(super) coins: Option<u64>,
}

/// The part of the draft that concerns where connections are accepted, and what others are told of it.
#[derive(Default)]
pub(super) struct ListenDraft {
    pub(super) on: Option<bool>,
    pub(super) bind: Vec<HostPort>,
    pub(super) white_bind: Vec<Binding>,
    /// `-bind=…=onion`.
    pub(super) onion_bind: Vec<HostPort>,
    /// Port 0: the one that others are told.
    pub(super) external: Vec<NetAddress>,
    pub(super) discover: Option<bool>,
    pub(super) natpmp: bool,
    pub(super) port: Option<u16>,
}

/// The part of the draft that concerns the onion service.
#[derive(Default)]
pub(super) struct TorDraft {
    pub(super) listen: Option<bool>,
    pub(super) control: Option<HostPort>,
    pub(super) password: Option<PlainPassword>,
}

/// The part of the draft that concerns seeds.
#[derive(Clone, Copy, Default)]
pub(super) struct SeedsDraft {
    pub(super) dns: Option<bool>,
    pub(super) fixed: Option<bool>,
}

/// The part of the draft that concerns peers.
#[derive(Default)]
pub(super) struct ConnectionDraft {
    pub(super) listening: ListenDraft,
    pub(super) tor: TorDraft,
    pub(super) max_connections: Option<u32>,
    pub(super) network_active: Option<bool>,
    /// Empty: no automatic connections.
    pub(super) connect: Option<Vec<HostPort>>,
    pub(super) add_nodes: Vec<HostPort>,
    pub(super) seed_nodes: Vec<HostPort>,
    pub(super) seeds: SeedsDraft,
    /// Empty: all networks.
    pub(super) only_networks: Vec<AddressNetwork>,
    pub(super) proxy: Option<OrOff<HostPort>>,
    pub(super) onion: Option<OrOff<HostPort>>,
    pub(super) v2_transport: Option<bool>,
    pub(super) allow_unlocked_secrets: Option<bool>,
    pub(super) whitelist: Whitelist,
    /// 0: no limit.
    pub(super) traffic: TrafficLimits,
    pub(super) asmap: Option<OrOff<PathBuf>>,
}
