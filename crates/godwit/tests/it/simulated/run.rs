//! One run: a company, a node, and what must be true at the end.

use std::hash::Hasher;
use std::time::Duration;

use godwit_chain::BlockMemory;
use godwit_fault_disk::Survival;
use godwit_p2p::DisconnectReason;
use godwit_primitives::BlockHash;
use godwit_sim::network::{Mix, PeerPlan, faulty_mix, mix};
use godwit_sim::rng::Rng;

use super::driver::{Disconnected, Discovery, Driver, NodePlan, Peak};
use super::scenarios::node;
use super::worlds::Stage;

/// Longest that a synchronisation may take, in simulated time.
pub(super) const LIMIT: Duration = Duration::from_secs(12 * 3_600);

/// The first is what a block may turn out to take, before the node has seen one: with less it would ask
/// for none. The second is so little that most chains of the runs do not fit.
pub(super) const BLOCK_MEMORY: BlockMemory = BlockMemory {
    receiving: 1_000_000,
    waiting: 200_000,
    window: 64 << 20,
    importing: 96 << 20,
    idle_buffers: 32 << 20,
};

/// Of every five nodes two have a chain that is slower than their peers.
pub(super) fn turn(seed: u64) -> Duration {
    let rng = &mut Rng::new(seed ^ 0x7475_726e);
    match rng.chance(400) {
        true => Duration::from_millis(rng.log_between(10, 10_000)),
        false => Duration::ZERO,
    }
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// Simulated time until the tip was the best.
    pub(super) took: Duration,
    pub(super) peak: Peak,
    pub(super) disconnected: usize,
    pub(super) log_bytes: usize,
    /// Of everything that went over the network.
    pub(super) digest: u64,
}

/// The run of a seed.
pub(super) fn run_seed(seed: u64) -> Outcome {
    run_company(seed, mix(seed, &Stage::of_seed(seed).world))
}

/// The run of a seed in which the node is not killed.
pub(super) fn run_undisturbed(seed: u64) -> Outcome {
    let company = mix(seed, &Stage::of_seed(seed).world);
    run_company(seed, Mix { kills: Vec::new(), ..company })
}

/// The run of a seed in which links and the node's own line fail.
pub(super) fn run_faulty(seed: u64) -> Outcome {
    let company = faulty_mix(seed, &Stage::of_seed(seed).world);
    run_company(seed, company)
}

fn run_company(seed: u64, company: Mix) -> Outcome {
    let stage = Stage::of_seed(seed);
    let rng = &mut Rng::new(seed ^ 0x6e6f_6465);
    let discovery = discovery(rng);
    let plan = NodePlan {
        discovery,
        max_inbound: company.peers.len().max(20),
        v2: seed % 2 == 1,
        block_memory: BLOCK_MEMORY,
        turn: turn(seed),
        ..node(seed, discovery)
    };
    run_mix(stage, plan, company, rng)
}

fn run_mix(stage: &'static Stage, plan: NodePlan, company: Mix, rng: &mut Rng) -> Outcome {
    let mut driver = Driver::new(stage, plan, company.line, company.peers);
    let last_fault = company.faults.iter().map(|fault| fault.at + fault.lasts).max();
    driver.crowd.plan_faults(company.faults);
    let best = stage.world.best.tip().hash;
    for at in company.kills {
        if driver.run(at, |driver| tip(driver) == best) {
            break;
        }
        driver.kill(survival(rng));
    }
    if !driver.run(LIMIT, |driver| tip(driver) == best) {
        driver.fail("the best chain was not reached");
    }
    let took = driver.crowd.now();
    // What follows the last block: announcements, late answers, punishments.
    let end = took.max(company.settled).max(last_fault.unwrap_or_default());
    let end = end + Duration::from_secs(60);
    driver.run(end, |_| false);
    check(&mut driver, stage);
    Outcome {
        took,
        peak: driver.peak,
        disconnected: driver.disconnected.len(),
        log_bytes: driver.log_bytes,
        digest: driver.digest.finish(),
    }
}

/// A way to hear of peers.
pub(super) fn discovery(rng: &mut Rng) -> Discovery {
    let discoveries = [Discovery::Seed, Discovery::Fixed, Discovery::AddNode, Discovery::Connect];
    discoveries[rng.below(4) as usize]
}

pub(super) fn survival(rng: &mut Rng) -> Survival {
    match rng.below(4) {
        0 => Survival::All,
        1 => Survival::Nothing,
        _ => Survival::Part(rng.next_u64()),
    }
}

/// The node's tip.
pub(super) fn tip(driver: &mut Driver) -> BlockHash {
    driver.core().chain().tip_point().hash
}

/// The right tip and coins, and no honest peer was punished.
pub(super) fn check(driver: &mut Driver, stage: &Stage) {
    if tip(driver) != stage.world.best.tip().hash {
        driver.fail("the tip was left again");
    }
    driver.executor.disarm();
    let stats = driver.core().chain_mut().utxo_stats();
    let stats = stats.unwrap_or_else(|error| driver.fail(&format!("statistics: {error}")));
    if stats.muhash != stage.muhash {
        driver.fail("the coins are wrong");
    }
    let mut honest = driver.disconnected.iter().filter(|gone| gone.peer.conduct.honest);
    if let Some(gone) = honest.find(|gone| !is_fair(gone, stage)) {
        driver.fail(&format!("honest {} was punished: {}", gone.peer.address, gone.why));
    }
    let honest = |plan: &&PeerPlan| plan.conduct.honest;
    if let Some(plan) = driver.refused.iter().find(honest) {
        driver.fail(&format!("honest {} was turned away", plan.address));
    }
}

/// Longest that headers are on their way, which the peer had when they left it: 162,003 bytes take four
/// seconds on the slowest link, and may have others before them. (Seed 1139 of the runs with kills: the
/// peer's chain grew while they were.)
const HEADERS_UNDER_WAY: Duration = Duration::from_secs(10);

/// Whether an honest peer may be let go for that: its place was needed, the connection had done what it
/// was for, or the peer has in truth what the node says of its chain. Nothing else is fair, neither a fault
/// nor that it was too slow: no link of a run, nor the node's own line, is slower than the deadlines. A
/// connection that is dead, or a peer whose own link failed, may be given up, but never blamed.
fn is_fair(gone: &Disconnected, stage: &Stage) -> bool {
    if gone.excused {
        return !gone.misbehaved() && gone.why != DisconnectReason::SharesDiscouragedAddress;
    }
    let chain = gone.peer.conduct.view.at(gone.at);
    match gone.why {
        DisconnectReason::Extra
        | DisconnectReason::Evicted
        | DisconnectReason::FeelerDone
        | DisconnectReason::AddrFetchDone => true,
        DisconnectReason::StaleChain => chain.tip().hash != stage.world.best.tip().hash,
        DisconnectReason::LittleWork => {
            let sent = gone.peer.conduct.view.at(gone.at.saturating_sub(HEADERS_UNDER_WAY));
            chain.height().min(sent.height()) < stage.world.minimum_height
        }
        _ => false,
    }
}
