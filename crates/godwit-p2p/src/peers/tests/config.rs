//! The engine's configuration in these tests.

use std::sync::Arc;

use godwit_primitives::{Network, Params, Work};
use godwit_stream::{BufferPool, PoolLimits};

use super::harness::FULL;
use crate::{PeersConfig, Reachable, Whitelist};

/// Of a node that does not listen and knows nobody.
pub(super) fn config() -> PeersConfig {
    let limits = PoolLimits { buffers: 0, buffer_bytes: 0, total_bytes: 0 };
    PeersConfig {
        params: Arc::new(Params::new(Network::Regtest)),
        services: FULL,
        user_agent: "/godwit:0.0.0/".into(),
        minimum_chain_work: Work::ZERO,
        max_inbound: 100,
        max_outbound_full: 8,
        max_outbound_block_relay: 2,
        max_automatic: 125,
        listen_port: None,
        discover: true,
        connect_only: None,
        add_nodes: Vec::new(),
        seed_nodes: Vec::new(),
        dns_seeds: Vec::new(),
        fixed_seeds: Vec::new(),
        name_proxy: false,
        reachable: Reachable::CLEARNET,
        whitelist: Whitelist::default(),
        max_upload_target: None,
        pool: BufferPool::new(limits),
        seed: [7; 32],
    }
}
