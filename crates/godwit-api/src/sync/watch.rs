//! Makes sync reports of the facts that the node's thread hands in: rates, shares, what is left.

use std::collections::HashMap;
use std::time::Duration;

use godwit_chain::ChainStatus;

use super::ahead::{Schedule, Stretch};
use super::bottleneck::{Bottleneck, bottleneck};
use super::estimate::{Machine, Sample, Stages, Work, estimate, share_done};
use super::facts::{PeerFacts, SyncFacts};
use super::history::History;
use super::report::{PeerLine, Point, Repairs, Risk, SyncReport, SyncStage};

/// Seconds over which current rates are measured.
const CURRENT: f64 = 15.0;

/// After this long without the next block, the peer that it is asked of holds the sync up.
const LATE: Duration = Duration::from_secs(3);

/// Blocks that a node in step with the network may lack: those that are on their way.
const IN_STEP: u32 = 3;

/// What a second's bytes count in a peer's speed.
const NEW_SPEED: f64 = 0.2;

/// Shown until the end: rounding must not say that all is done.
const NEARLY_ALL: f64 = 0.9999;

/// See the module's documentation.
#[derive(Debug)]
pub struct SyncWatch {
    schedule: Schedule,
    machine: Machine,
    first: u32,
    history: History,
    starved: Duration,
    share: Option<f64>,
    best: u32,
    /// Of each peer the bytes that it had sent, and its speed.
    speeds: HashMap<u64, (u64, f64)>,
    /// The peer that the lowest block is asked of, its height, and since when.
    next_block: Option<(u64, u32, Duration)>,
    last: Duration,
}

impl SyncWatch {
    /// Of a run that begins at this height.
    pub fn new(schedule: Schedule, machine: Machine, first: u32) -> Self {
        Self {
            schedule,
            machine,
            first,
            history: History::default(),
            starved: Duration::ZERO,
            share: None,
            best: 0,
            speeds: HashMap::new(),
            next_block: None,
            last: Duration::ZERO,
        }
    }

    /// Nothing could be done for so long, because blocks were missing.
    pub fn starve(&mut self, time: Duration) {
        self.starved += time;
    }

    /// Takes what is now, and tells it.
    pub fn take(&mut self, facts: SyncFacts) -> SyncReport {
        let now = sample(&facts, self.starved);
        self.history.push(now);
        let past = self.history.last(CURRENT).unwrap_or_default();
        let missing = facts.best.height.saturating_sub(facts.tip.height);
        let stage = stage(facts.initial_download, missing, facts.peers.len());
        let at = Stretch {
            first: self.first,
            tip: facts.tip.height,
            best: facts.best.height,
            scripts_from: facts.verification.scripts_from,
        };
        let late = self.late_peer(&facts);
        let peers = self.peer_lines(facts.peers, facts.now);
        self.note_share(stage, &at);
        let samples = self.history.samples();
        let points = samples.windows(2).filter_map(|pair| Point::between(&pair[0], &pair[1]));
        let each = |value: f64| if past.at > 0.0 { value / past.at } else { 0.0 };
        SyncReport {
            stage,
            tip: facts.tip,
            best: facts.best,
            share: self.share,
            estimate: (stage == SyncStage::Blocks)
                .then(|| estimate(samples, &self.schedule.ahead(&at, samples), &self.machine))
                .flatten(),
            bottleneck: match stage {
                SyncStage::Synced => Bottleneck::Nothing,
                SyncStage::Connecting => Bottleneck::NoPeers,
                SyncStage::Headers => Bottleneck::Network,
                SyncStage::Blocks => bottleneck(&past, &self.machine, peers.len(), late),
            },
            blocks_per_second: each(past.blocks),
            bytes_per_second: each(past.work.bytes),
            risk: risk(&facts.status),
            written: facts.status.written,
            repairs: Repairs {
                coins: facts.repaired_coins,
                scrub: facts.status.scrub.repaired,
                blocks: facts.status.scrub.lost,
                left: facts.status.scrub.left,
            },
            memory: memory(&facts.status, facts.memory.peers),
            other_memory: facts.memory,
            verification: facts.verification,
            scripts: facts.status.scripts,
            bytes_on_disk: facts.bytes_on_disk,
            traffic: facts.traffic,
            transactions: facts.transactions,
            peers,
            now,
            points: points.collect(),
            unix: facts.unix,
        }
    }

    /// The share never falls, unless there is more to do than was known.
    fn note_share(&mut self, stage: SyncStage, at: &Stretch) {
        let samples = self.history.samples();
        let ahead = self.schedule.ahead(at, samples);
        let done = self.schedule.done(at, samples);
        let share = share_done(samples, &done, &ahead, &self.machine);
        let grew = at.best > self.best.saturating_add(self.best / 100);
        self.best = at.best;
        // What a node had done that was in step is no part of what it has to catch up with.
        let before = self.share.filter(|before| !grew && *before < 1.0).unwrap_or(0.0);
        self.share = match stage {
            SyncStage::Synced => Some(1.0),
            SyncStage::Blocks => Some(share.max(before).min(NEARLY_ALL)),
            SyncStage::Connecting | SyncStage::Headers => None,
        };
    }

    /// The peer of which the next block has been asked for long.
    fn late_peer(&mut self, facts: &SyncFacts) -> Option<u64> {
        let lowest = |peer: &PeerFacts| peer.lowest.map(|height| (height, peer.id));
        let (height, id) = facts.peers.iter().filter_map(lowest).min()?;
        let (_, _, since) = *self.next_block.insert(match self.next_block {
            Some(known) if (known.0, known.1) == (id, height) => known,
            _ => (id, height, facts.now),
        });
        (facts.now.saturating_sub(since) >= LATE).then_some(id)
    }

    fn peer_lines(&mut self, peers: Vec<PeerFacts>, now: Duration) -> Vec<PeerLine> {
        let passed = now.saturating_sub(self.last).as_secs_f64();
        self.last = now;
        let known = std::mem::take(&mut self.speeds);
        let mut lines = Vec::with_capacity(peers.len());
        for peer in peers {
            let (before, speed) = known.get(&peer.id).copied().unwrap_or((peer.received, 0.0));
            let current = match passed > 0.0 {
                true => peer.received.saturating_sub(before) as f64 / passed,
                false => speed,
            };
            let bytes_per_second = speed + NEW_SPEED * (current - speed);
            self.speeds.insert(peer.id, (peer.received, bytes_per_second));
            lines.push(PeerLine { peer, bytes_per_second });
        }
        lines
    }
}

/// Once the initial download has ended it does not begin again: it says nothing of a node that was away for
/// weeks since, which is not in step with the network before it has caught up.
fn stage(initial_download: bool, missing_blocks: u32, peers: usize) -> SyncStage {
    match missing_blocks {
        0..=IN_STEP if !initial_download => SyncStage::Synced,
        1.. => SyncStage::Blocks,
        0 if peers == 0 => SyncStage::Connecting,
        0 => SyncStage::Headers,
    }
}

fn sample(facts: &SyncFacts, starved: Duration) -> Sample {
    let ChainStatus { connected, times, scripts, .. } = &facts.status;
    let inputs = scripts.inputs;
    Sample {
        at: facts.now.as_secs_f64(),
        blocks: connected.blocks as f64,
        work: Work {
            fetched: (connected.bytes + facts.stored_ahead) as f64,
            bytes: connected.bytes as f64,
            coins: connected.coins as f64,
            scripts: (inputs.proven + inputs.unclaimed + inputs.unproven) as f64,
        },
        starved: starved.as_secs_f64(),
        processor: facts.processor.as_secs_f64(),
        scripts: (scripts.native_time + scripts.engine_time).as_secs_f64(),
        stages: Stages {
            accept: times.accept.as_secs_f64(),
            apply: times.apply.as_secs_f64(),
            flush: times.flush.as_secs_f64(),
            wait: times.wait.as_secs_f64(),
        },
    }
}

fn risk(status: &ChainStatus) -> Risk {
    let durable = status.verified_durable.height.min(status.tip.height);
    Risk {
        blocks: status.tip.height - durable,
        bytes: status.bytes_at_risk,
        durable,
        unwritten: status.unwritten_blocks,
        replay: status.replay.as_secs_f64(),
    }
}

fn memory(status: &ChainStatus, peers: u64) -> Vec<(&'static str, u64)> {
    let memory = &status.memory;
    let blocks = memory.receiving
        + (memory.near + memory.lookahead + memory.window) as u64
        + memory.appending;
    let coins = memory.coins;
    let indexes = (coins.filters + coins.indexes) as u64;
    vec![
        ("coins", (coins.total() as u64).saturating_sub(indexes)),
        ("coin_indexes", indexes),
        ("headers", memory.tree as u64),
        ("blocks", blocks),
        ("peers", peers),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_was_away_is_not_in_step_before_it_has_caught_up() {
        assert_eq!(stage(true, 0, 0), SyncStage::Connecting);
        assert_eq!(stage(true, 0, 1), SyncStage::Headers);
        assert_eq!(stage(true, 1, 1), SyncStage::Blocks);
        assert_eq!(stage(false, 0, 0), SyncStage::Synced);
        assert_eq!(stage(false, IN_STEP, 1), SyncStage::Synced, "they are on their way");
        assert_eq!(stage(false, IN_STEP + 1, 1), SyncStage::Blocks);
    }
}
