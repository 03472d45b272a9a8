//! The node's state, once a second: plain numbers, and what follows from them.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use godwit_api::{
    Connections, Machine, MemoryFacts, PeerFacts, Schedule, SyncFacts, SyncReport, SyncWatch, Tip,
    UnvalidatedHistory, Verification,
};
use godwit_chain::{BackendKind, NodeId, ScriptEngine, StoredData, history, scripts_from};
use godwit_p2p::{ConnectionKind, MAX_WINDOW_BLOCKS, Now, PeerInfo, Target};
use godwit_primitives::Network;

use super::core::NodeCore;
use crate::memory::{self, MemoryPlan};
use crate::options::{Config, NodeOptions};
use crate::process::resident_memory;
use crate::processor_time;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub(super) struct Overview {
    watch: SyncWatch,
    report: Arc<SyncReport>,
    budget: u64,
    next: Duration,
}

impl Overview {
    pub(super) fn new(config: &Config, options: &NodeOptions, core: &NodeCore, now: Now) -> Self {
        let schedule = match config.params.network {
            Network::Main => Schedule::Main,
            _ => Schedule::LikeTheLast,
        };
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let processors = cores.min(options.script_threads.get().max(2)) as f64;
        let machine = Machine { processors, script: script_price(config.scripts.engine) };
        let watch = SyncWatch::new(schedule, machine, core.chain().tip_point().height);
        let budget = MemoryPlan::of(config, memory::available()).total;
        let mut overview = Self { watch, report: Arc::default(), budget, next: Duration::ZERO };
        overview.look(now, core, 0);
        overview
    }

    /// The chain rested for so long: blocks were missing, or nothing was to be done. History below a snapshot
    /// may have waited for jobs meanwhile.
    pub(super) fn note_rest(&mut self, core: &NodeCore, time: Duration) {
        if lacks_blocks(core) {
            self.watch.starve(time);
        } else if history(core.chain()).is_none() {
            self.watch.idle(time);
        }
    }

    /// Looks at the node, if it is time to. `answers` are the bytes of those to programs.
    pub(super) fn look(&mut self, now: Now, core: &NodeCore, answers: u64) {
        if now.monotonic >= self.next {
            self.next = now.monotonic + INTERVAL;
            let memory = MemoryFacts {
                peers: core.peers().memory() as u64,
                answers,
                locked: godwit_secret::process_stats().locked as u64,
                resident: resident_memory(),
                budget: self.budget,
            };
            self.report = Arc::new(self.watch.take(facts(core, now, memory)));
        }
    }

    /// As of the last look.
    pub(super) fn report(&self) -> &Arc<SyncReport> {
        &self.report
    }
}

/// Whether blocks are to come: those of known headers, or all that the initial download has not heard of.
fn lacks_blocks(core: &NodeCore) -> bool {
    let (tree, tip) = (core.chain().tree(), core.chain().tip_point());
    core.is_initial_download() || tree.node(tree.best_header()).height > tip.height
}

/// Processor seconds that a script takes about, until they are measured: rather too much, those of the
/// slower machines and older commits in `docs/scale.md`.
fn script_price(engine: ScriptEngine) -> f64 {
    let ScriptEngine::Native { lanes } = engine else { return 49.4e-6 };
    let fastest = || {
        BackendKind::BY_SPEED.into_iter().find(|lanes| ScriptEngine::with_lanes(*lanes).is_some())
    };
    match lanes.or_else(fastest) {
        Some(BackendKind::Ifma512) => 11.2e-6,
        Some(BackendKind::Avx512) => 22e-6,
        Some(BackendKind::Avx2) => 31.7e-6,
        _ => 49.4e-6,
    }
}

fn peer(info: PeerInfo) -> Option<PeerFacts> {
    // Before its `version` it is nobody yet.
    (info.said.version != 0).then(|| PeerFacts {
        id: info.id.0,
        address: match (&info.target, info.address) {
            (_, Some(address)) => address.to_string(),
            (Some(Target::Address(address)), None) => address.to_string(),
            (Some(Target::Name { host, port }), None) => format!("{host}:{port}"),
            (None, None) => String::new(),
        },
        agent: info.said.user_agent,
        inbound: info.kind == ConnectionKind::Inbound,
        received: info.traffic.bytes_received(),
        in_flight: info.blocks.in_flight.len() as u32,
        lowest: info.blocks.in_flight.iter().min().copied(),
    })
}

fn facts(core: &NodeCore, now: Now, memory: MemoryFacts) -> SyncFacts {
    let (chain, tree) = (core.chain(), core.chain().tree());
    let (inbound, outbound) = core.peers().connection_counts();
    let tip = |id: NodeId| Tip { height: tree.node(id).height, time: tree.node(id).header.time };
    SyncFacts {
        now: now.monotonic,
        unix: now.unix,
        tip: tip(chain.tip()),
        best: tip(tree.best_header()),
        status: *chain.status(),
        stored_ahead: chain.stored_ahead(MAX_WINDOW_BLOCKS as u32),
        initial_download: core.is_initial_download(),
        verification: Verification {
            scripts_from: scripts_from(chain),
            unvalidated: UnvalidatedHistory::of(chain),
        },
        warnings: core.warnings(),
        processor: processor_time::of_process(),
        repaired_coins: chain.utxo().counters().repaired_blocks,
        memory,
        bytes_on_disk: StoredData::of(chain).bytes_on_disk(),
        transactions: tree.node(chain.tip()).chain_tx_count,
        connections: Connections { inbound, outbound, traffic: core.peers().total_traffic() },
        peers: core.peers().infos().into_iter().filter_map(peer).collect(),
    }
}
