//! Makes sync reports from the facts that the node's thread hands in: rates, shares, the time left.

use std::collections::HashMap;
use std::time::Duration;

use godwit_chain::{ChainMemory, ChainStatus};

use super::ahead::{Schedule, Stretch};
use super::bottleneck::{Bottleneck, bottleneck};
use super::estimate::{
    Machine, Sample, Stages, Work, estimate, is_settled, share_done, share_of_bytes,
};
use super::facts::{MemoryFacts, PeerFacts, SyncFacts};
use super::history::History;
use super::report::{PeerLine, Point, Repairs, Risk, SyncReport, SyncStage};

/// Seconds over which current rates are measured.
const CURRENT: f64 = 15.0;

/// After this long without the next block, the peer that it is asked of holds the sync up.
const LATE: Duration = Duration::from_secs(3);

/// Blocks that a node in step with the network may lack: those that are on their way.
const IN_STEP: u32 = 3;

/// For so long; then they are not.
const ON_THEIR_WAY: Duration = Duration::from_secs(60);

/// The weight of the last second's bytes in a peer's speed.
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
    idle: Duration,
    share: Option<f64>,
    /// It is by what work costs, no longer by bytes.
    is_by_costs: bool,
    best: u32,
    /// For each peer, the bytes that it had sent and its speed.
    speeds: HashMap<u64, (u64, f64)>,
    /// The peer that the lowest block is asked of, its height, and since when.
    next_block: Option<(u64, u32, Duration)>,
    /// The height of the tip, and since when blocks above it are missing.
    lacking: Option<(u32, Duration)>,
    last: Duration,
}

impl SyncWatch {
    /// The watch of a run that begins at height `first`.
    pub fn new(schedule: Schedule, machine: Machine, first: u32) -> Self {
        Self {
            schedule,
            machine,
            first,
            history: History::default(),
            starved: Duration::ZERO,
            idle: Duration::ZERO,
            share: None,
            is_by_costs: false,
            best: 0,
            speeds: HashMap::new(),
            next_block: None,
            lacking: None,
            last: Duration::ZERO,
        }
    }

    /// Nothing could be done for so long, because blocks were missing.
    pub fn starve(&mut self, time: Duration) {
        self.starved += time;
    }

    /// Nothing was to be done for so long.
    pub fn idle(&mut self, time: Duration) {
        self.idle += time;
    }

    /// Takes the facts of this moment, and returns the report.
    pub fn take(&mut self, facts: SyncFacts) -> SyncReport {
        let now = sample(&facts, self.starved, self.idle);
        self.history.push(now);
        let past = self.history.last(CURRENT).unwrap_or_default();
        let missing = facts.best.height.saturating_sub(facts.tip.height);
        let lacks_for_long = self.note_lacking(facts.tip.height, missing, facts.now);
        let follows = !facts.initial_download && !lacks_for_long;
        let stage = stage(follows, missing, facts.peers.len());
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
                // Of a new block it would not hear.
                SyncStage::Synced if peers.is_empty() => Bottleneck::NoPeers,
                SyncStage::Synced => Bottleneck::Nothing,
                SyncStage::Connecting => Bottleneck::NoPeers,
                SyncStage::Headers => Bottleneck::Headers,
                SyncStage::Blocks => bottleneck(&past, &self.machine, peers.len(), late),
            },
            blocks_per_second: each(past.blocks),
            bytes_per_second: each(past.work.bytes),
            risk: risk(&facts.status),
            written: facts.status.written,
            repairs: Repairs {
                coins: facts.repaired_coins,
                scrub: facts.status.scrub.repaired,
                blocks: facts.status.damaged.rewritten,
                left: facts.status.scrub.left + facts.status.damaged.lost,
            },
            memory: memory(&facts.status.memory, &facts.memory),
            other_memory: facts.memory,
            verification: facts.verification,
            warnings: facts.warnings,
            scripts: facts.status.scripts,
            bytes_on_disk: facts.bytes_on_disk,
            transactions: facts.transactions,
            connections: facts.connections,
            peers,
            now,
            points: points.collect(),
            unix: facts.unix,
        }
    }

    /// The share never falls, unless there is more to do than was known, or what the work costs becomes
    /// known. Where earlier runs did much, that is so once and for all when it is settled: what the first
    /// seconds say of all that was done before would hold the share up for hours.
    fn note_share(&mut self, stage: SyncStage, at: &Stretch) {
        let samples = self.history.samples();
        let ahead = self.schedule.ahead(at, samples);
        let done = self.schedule.done(at, samples);
        let by_costs = (at.first == 0 || is_settled(samples))
            .then(|| share_done(samples, &done, &ahead, &self.machine))
            .flatten();
        let grew = at.best > self.best.saturating_add(self.best / 100);
        self.best = at.best;
        let is_corrected = by_costs.is_some() && !self.is_by_costs;
        self.is_by_costs |= by_costs.is_some();
        // What a node had done that was in step is no part of what it has to catch up with.
        let keeps = |before: &f64| !grew && !is_corrected && *before < 1.0;
        let before = self.share.filter(keeps).unwrap_or(0.0);
        let share = by_costs.unwrap_or_else(|| share_of_bytes(&done, &ahead));
        self.share = match stage {
            SyncStage::Synced => Some(1.0),
            SyncStage::Blocks => Some(share.max(before).min(NEARLY_ALL)),
            SyncStage::Connecting | SyncStage::Headers => None,
        };
    }

    /// Notes since when blocks above the tip are missing; whether that is long.
    fn note_lacking(&mut self, tip: u32, missing: u32, now: Duration) -> bool {
        let known = self.lacking.filter(|(height, _)| *height == tip);
        self.lacking = (missing > 0).then(|| known.unwrap_or((tip, now)));
        self.lacking.is_some_and(|(_, since)| now.saturating_sub(since) >= ON_THEIR_WAY)
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
fn stage(follows: bool, missing_blocks: u32, peers: usize) -> SyncStage {
    match missing_blocks {
        0..=IN_STEP if follows => SyncStage::Synced,
        1.. => SyncStage::Blocks,
        0 if peers == 0 => SyncStage::Connecting,
        0 => SyncStage::Headers,
    }
}

fn sample(facts: &SyncFacts, starved: Duration, idle: Duration) -> Sample {
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
            // A node with nothing to do waits for nothing.
            wait: times.wait.saturating_sub(idle).as_secs_f64(),
        },
    }
}

/// Blocks that would be lost are no stored blocks: of those whose coins are not on disk only the others are
/// applied again.
fn risk(status: &ChainStatus) -> Risk {
    let durable = status.verified_durable.height.min(status.tip.height);
    let unwritten = status.unwritten_blocks;
    let replay_blocks = durable.saturating_sub(status.coins_durable.height).min(unwritten);
    let share = f64::from(replay_blocks) / f64::from(unwritten.max(1));
    Risk {
        blocks: status.tip.height - durable,
        bytes: status.bytes_at_risk,
        durable,
        replay_blocks,
        replay: status.replay.as_secs_f64() * share,
    }
}

fn memory(memory: &ChainMemory, others: &MemoryFacts) -> Vec<(&'static str, u64)> {
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
        ("peers", others.peers),
        ("answers", others.answers),
    ]
}

/// Of a sync of which everything is known that can be.
#[cfg(test)]
pub(crate) fn report_of_all() -> SyncReport {
    use super::facts::{UnvalidatedHistory, Verification};
    let peer = PeerFacts { id: 7, ..PeerFacts::default() };
    SyncReport {
        share: Some(0.5),
        estimate: Some(super::estimate::Estimate { left: 60.0, least: 30.0, most: 90.0 }),
        bottleneck: Bottleneck::Peer(7),
        memory: memory(&ChainMemory::default(), &MemoryFacts::default()),
        other_memory: MemoryFacts { resident: Some(0), ..MemoryFacts::default() },
        verification: Verification {
            scripts_from: 1,
            unvalidated: Some(UnvalidatedHistory { base: 1, validated: 0 }),
        },
        peers: vec![PeerLine { peer, bytes_per_second: 0.0 }],
        ..SyncReport::default()
    }
}

#[cfg(test)]
mod tests {
    use godwit_primitives::BlockHash;
    use godwit_store::ChainPoint;

    use godwit_chain::DamagedBlocks;

    use super::*;
    use crate::sync::facts::{Connections, Tip, Verification};

    #[test]
    fn a_node_that_was_away_is_not_in_step_before_it_has_caught_up() {
        assert_eq!(stage(false, 0, 0), SyncStage::Connecting);
        assert_eq!(stage(false, 0, 1), SyncStage::Headers);
        assert_eq!(stage(false, 1, 1), SyncStage::Blocks);
        assert_eq!(stage(true, 0, 0), SyncStage::Synced);
        assert_eq!(stage(true, IN_STEP, 1), SyncStage::Synced, "they are on their way");
        assert_eq!(stage(false, IN_STEP, 1), SyncStage::Blocks, "they do not come");
        assert_eq!(stage(true, IN_STEP + 1, 1), SyncStage::Blocks);
    }

    const MACHINE: Machine = Machine { processors: 4.0, script: 22e-6 };

    /// Of a chain with such a tip, all of which is on disk.
    fn status(height: u32) -> ChainStatus {
        let point = ChainPoint { hash: BlockHash::default(), height };
        ChainStatus {
            tip: point,
            best_header: point,
            verified_durable: point,
            coins_durable: point,
            bytes_at_risk: 0,
            unwritten_blocks: 0,
            replay: Duration::ZERO,
            written: Default::default(),
            memory: ChainMemory::default(),
            times: Default::default(),
            scripts: Default::default(),
            connected: Default::default(),
            refetched: 0,
            scrub: Default::default(),
            damaged: DamagedBlocks::default(),
            history: None,
        }
    }

    /// Of a node that has caught up but for so many blocks, with one peer.
    fn facts(second: u64, height: u32, missing: u32) -> SyncFacts {
        let lowest = (missing > 0).then_some(height + 1);
        let peer = PeerFacts { id: 7, in_flight: missing, lowest, ..PeerFacts::default() };
        SyncFacts {
            now: Duration::from_secs(second),
            unix: 0,
            tip: Tip { height, time: 0 },
            best: Tip { height: height + missing, time: 0 },
            status: status(height),
            stored_ahead: 0,
            initial_download: false,
            verification: Verification::default(),
            warnings: Vec::new(),
            processor: Duration::ZERO,
            repaired_coins: 0,
            memory: MemoryFacts::default(),
            bytes_on_disk: 0,
            transactions: 0,
            connections: Connections::default(),
            peers: vec![peer],
        }
    }

    fn watch() -> SyncWatch {
        SyncWatch::new(Schedule::LikeTheLast, MACHINE, 0)
    }

    #[test]
    fn a_node_with_nothing_to_do_waits_for_nothing() {
        let mut watch = watch();
        let mut report = SyncReport::default();
        for second in 0..=20 {
            let mut facts = facts(second, 300, 0);
            facts.status.times.wait = Duration::from_secs(second);
            report = watch.take(facts);
            watch.idle(Duration::from_secs(1));
        }
        assert_eq!(report.now.stages.wait, 0.0);
        assert!(report.points.len() == 20, "{:?}", report.points);
        assert!(report.points.iter().all(|point| point.stages.wait == 0.0), "{:?}", report.points);
    }

    #[test]
    fn blocks_that_do_not_come_for_a_minute_are_not_on_their_way() {
        let mut watch = watch();
        let stages: Vec<SyncStage> = (0..=70)
            .map(|second| watch.take(facts(second, 300, u32::from(second >= 5))).stage)
            .collect();
        assert!(stages[..65].iter().all(|stage| *stage == SyncStage::Synced), "{stages:?}");
        assert!(stages[65..].iter().all(|stage| *stage == SyncStage::Blocks), "{stages:?}");
        // The next one has its own time.
        assert_eq!(watch.take(facts(71, 301, 1)).stage, SyncStage::Synced);
        assert_eq!(watch.take(facts(132, 301, 0)).stage, SyncStage::Synced);
    }

    #[test]
    fn what_is_waited_for_without_blocks_is_named() {
        let mut watch = watch();
        assert_eq!(watch.take(facts(0, 300, 0)).bottleneck, Bottleneck::Nothing);
        let alone = SyncFacts { peers: Vec::new(), ..facts(1, 300, 0) };
        assert_eq!(watch.take(alone).bottleneck, Bottleneck::NoPeers);
        let starts = SyncFacts { initial_download: true, ..facts(2, 300, 0) };
        let report = watch.take(starts);
        assert_eq!((report.stage, report.bottleneck), (SyncStage::Headers, Bottleneck::Headers));
    }

    #[test]
    fn blocks_that_would_be_lost_are_not_counted_as_stored() {
        let at = |height| ChainPoint { hash: BlockHash::default(), height };
        let cut = |unwritten_blocks, replay, verified, coins| {
            risk(&ChainStatus {
                verified_durable: at(verified),
                coins_durable: at(coins),
                unwritten_blocks,
                replay: Duration::from_secs(replay),
                ..status(1_100)
            })
        };
        let Risk { blocks, durable, replay_blocks, replay, .. } = cut(800, 16, 500, 300);
        assert_eq!((blocks, durable, replay_blocks, replay), (600, 500, 200, 4.0));
        for (unwritten, seconds) in [(50, 5), (0, 0)] {
            let Risk { blocks, replay_blocks, replay, .. } =
                cut(unwritten, seconds, 1_100, 1_100 - unwritten);
            assert_eq!((blocks, replay_blocks, replay), (0, unwritten, seconds as f64));
        }
    }

    #[test]
    fn damage_counts_until_it_is_repaired_whoever_found_it() {
        let repairs = |lost, rewritten| {
            let mut facts = facts(0, 300, 0);
            (facts.status.damaged.lost, facts.status.damaged.rewritten, facts.status.scrub.left) =
                (lost, rewritten, 2);
            let Repairs { blocks, left, .. } = watch().take(facts).repairs;
            (blocks, left)
        };
        assert_eq!([repairs(1, 0), repairs(0, 1)], [(0, 3), (1, 2)]);
    }

    #[test]
    fn answers_are_memory_that_is_in_use() {
        let memory = MemoryFacts { peers: 2, answers: 3, ..MemoryFacts::default() };
        let report = watch().take(SyncFacts { memory, ..facts(0, 300, 0) });
        assert_eq!(report.memory[4..], [("peers", 2), ("answers", 3)]);
    }

    /// After so many seconds, with so many blocks like main's, that many of which ran their scripts.
    fn connected(at: f64, blocks: f64, with_scripts: f64) -> Sample {
        let bytes = blocks * 1.6e6;
        let (coins, scripts) = (bytes * 8.9e-3, with_scripts * 1.6e6 * 4.3e-3);
        let script_time = scripts * MACHINE.script;
        Sample {
            at,
            blocks,
            work: Work { fetched: bytes, bytes, coins, scripts },
            processor: bytes * 8.3e-9 + script_time,
            scripts: script_time,
            stages: Stages { apply: coins * 0.32e-6, ..Stages::default() },
            ..Sample::default()
        }
    }

    fn share_at(watch: &mut SyncWatch, sample: Sample, at: Stretch) -> f64 {
        watch.history.push(sample);
        watch.note_share(SyncStage::Blocks, &at);
        watch.share.expect("what there is to do is known")
    }

    #[test]
    fn a_restart_takes_the_share_up_where_it_was() {
        let mut watch = SyncWatch::new(Schedule::LikeTheLast, MACHINE, 532);
        for second in 0..=240u32 {
            let (tip, blocks) = (532 + second * 10, f64::from(second * 10));
            let at = Stretch { first: 532, tip, best: 2_951, scripts_from: 0 };
            let share = share_at(&mut watch, connected(f64::from(second), blocks, blocks), at);
            let by_blocks = f64::from(tip) / 2_951.0;
            assert!((share - by_blocks.min(NEARLY_ALL)).abs() < 1e-6, "{second}: {share}");
        }
    }

    #[test]
    fn scripts_that_are_still_to_come_correct_the_share_of_a_restart_once() {
        let mut watch = SyncWatch::new(Schedule::Main, MACHINE, 800_000);
        let mut shares = Vec::new();
        for second in 0..=600u32 {
            // For ten seconds peers are few.
            let slow = second.min(10);
            let blocks = slow + (second - slow) * 40;
            let tip = 800_000 + blocks;
            let at = Stretch { first: 800_000, tip, best: 977_000, scripts_from: 938_344 };
            let sample = connected(f64::from(second), f64::from(blocks), 0.0);
            let sample = Sample { starved: f64::from(slow) * 0.9, ..sample };
            shares.push(share_at(&mut watch, sample, at));
        }
        let (by_bytes, by_costs) = shares.split_at(120);
        assert!(by_bytes.iter().all(|share| (0.63..0.65).contains(share)), "{by_bytes:?}");
        // The last twelfth of the bytes takes nearly half of the time.
        assert!(by_costs.iter().all(|share| (0.36..0.45).contains(share)), "{by_costs:?}");
        assert!(by_bytes.is_sorted() && by_costs.is_sorted(), "{shares:?}");
    }

    #[test]
    fn of_a_sync_from_the_beginning_the_share_is_by_costs_at_once() {
        let mut watch = SyncWatch::new(Schedule::LikeTheLast, MACHINE, 0);
        let at = |tip| Stretch { first: 0, tip, best: 1_000, scripts_from: 501 };
        assert_eq!(share_at(&mut watch, connected(0.0, 0.0, 0.0), at(0)), 0.0);
        let share = share_at(&mut watch, connected(2.0, 20.0, 0.0), at(20));
        assert!(share > 0.0 && share < 0.01, "{share}");
        // Blocks that came before the first look say nothing of those to come.
        let mut late = SyncWatch::new(Schedule::LikeTheLast, MACHINE, 0);
        assert_eq!(share_at(&mut late, connected(0.0, 20.0, 0.0), at(20)), 0.02);
    }
}
