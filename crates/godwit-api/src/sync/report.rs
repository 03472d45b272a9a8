//! The sync report: what page, metrics and `getsyncstatus` show.

use godwit_chain::{BytesWritten, ScriptTotals};
use godwit_rpc::Json;

use super::bottleneck::Bottleneck;
use super::estimate::{Estimate, Sample, Stages};
use super::facts::{Connections, MemoryFacts, PeerFacts, Tip, UnvalidatedHistory, Verification};

/// The stage of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncStage {
    /// There is no peer yet.
    #[default]
    Connecting,
    Headers,
    Blocks,
    Synced,
}

impl SyncStage {
    /// One word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Headers => "headers",
            Self::Blocks => "blocks",
            Self::Synced => "synced",
        }
    }
}

/// A sync at one moment.
#[derive(Clone, Debug, Default)]
pub struct SyncReport {
    pub stage: SyncStage,
    pub tip: Tip,
    pub best: Tip,
    /// The share of all work that is done, from 0 to 1; 1 only at the end. `None` while the total is unknown.
    pub share: Option<f64>,
    pub estimate: Option<Estimate>,
    pub bottleneck: Bottleneck,
    /// Rates over the last seconds.
    pub blocks_per_second: f64,
    pub bytes_per_second: f64,
    pub risk: Risk,
    pub written: BytesWritten,
    pub repairs: Repairs,
    pub memory: Vec<(&'static str, u64)>,
    pub other_memory: MemoryFacts,
    pub verification: Verification,
    /// The warnings of Bitcoin Core that apply.
    pub warnings: Vec<String>,
    pub scripts: ScriptTotals,
    /// Bytes of block and undo files.
    pub bytes_on_disk: u64,
    /// Transactions of the chain up to the tip.
    pub transactions: u64,
    pub connections: Connections,
    pub peers: Vec<PeerLine>,
    /// Cumulative, since the start of the run.
    pub now: Sample,
    /// The run so far in fewer than 240 parts, the oldest first: they get longer with it.
    pub points: Vec<Point>,
    /// Seconds since 1970 (UTC).
    pub unix: i64,
}

/// The cost of a power cut at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Risk {
    /// Blocks to be fetched and verified again.
    pub blocks: u32,
    /// Bytes of blocks, those included that wait for earlier ones, and of undo records.
    pub bytes: u64,
    /// The last block that is durable.
    pub durable: u32,
    /// Blocks that are left and would be applied again, and how long that is expected to take.
    pub replay_blocks: u32,
    pub replay: f64,
}

/// Repairs since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Blocks of runs, from parity.
    pub coins: u64,
    /// Repairs by the scrub, from stored data.
    pub scrub: u64,
    /// Blocks that were fetched and written again.
    pub blocks: u64,
    /// Damaged items that are not repaired.
    pub left: u64,
}

/// A peer, and the speed at which it delivers blocks.
#[derive(Clone, Debug)]
pub struct PeerLine {
    pub peer: PeerFacts,
    pub bytes_per_second: f64,
}

/// A part of the run, for plots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its end, in seconds since the start of the run.
    pub at: f64,
    pub blocks_per_second: f64,
    pub bytes_per_second: f64,
    /// Shares of the connector's time, and that in which blocks were missing.
    pub stages: Stages,
    pub starved: f64,
}

impl Point {
    /// Between two samples; `None` if no time lies between them.
    pub(super) fn between(from: &Sample, to: &Sample) -> Option<Self> {
        let past = to.since(from);
        let each = |seconds: f64| (seconds / past.at).clamp(0.0, 1.0);
        let Stages { accept, apply, flush, wait } = past.stages;
        (past.at > 0.0).then(|| Self {
            at: to.at,
            blocks_per_second: past.blocks / past.at,
            bytes_per_second: past.work.bytes / past.at,
            stages: Stages {
                accept: each(accept),
                apply: each(apply),
                flush: each(flush),
                wait: each(wait - past.starved),
            },
            starved: each(past.starved),
        })
    }
}

/// Rounds to `digits` decimals: nobody reads more, and a browser loads the text every second.
fn short(value: f64, digits: i32) -> Json {
    let tens = 10f64.powi(digits);
    Json::real((value * tens).round() / tens)
}

fn point_json(point: &Point) -> Json {
    let Stages { accept, apply, flush, wait } = point.stages;
    let shares = [accept, apply, flush, wait, point.starved];
    let rates =
        [short(point.at, 1), short(point.blocks_per_second, 2), short(point.bytes_per_second, 0)];
    rates.into_iter().chain(shares.map(|share| short(share, 3))).collect()
}

fn peer_json(line: &PeerLine) -> Json {
    let PeerLine { peer, bytes_per_second } = line;
    Json::object([
        ("id", peer.id.into()),
        ("addr", peer.address.as_str().into()),
        ("subver", peer.agent.as_str().into()),
        ("inbound", peer.inbound.into()),
        ("bytes_per_second", short(*bytes_per_second, 0)),
        ("bytesrecv", peer.received.into()),
        ("inflight", peer.in_flight.into()),
    ])
}

fn seconds_json(estimate: &Estimate) -> Json {
    Json::object([
        ("seconds", short(estimate.left, 0)),
        ("least", short(estimate.least, 0)),
        ("most", short(estimate.most, 0)),
    ])
}

fn bottleneck_json(bottleneck: Bottleneck) -> Json {
    let mut json =
        Json::object([("kind", bottleneck.name().into()), ("text", bottleneck.sentence().into())]);
    if let Bottleneck::Peer(id) = bottleneck {
        json.push("peer", id);
    }
    json
}

fn risk_json(risk: &Risk) -> Json {
    Json::object([
        ("blocks", risk.blocks.into()),
        ("bytes", risk.bytes.into()),
        ("durable", risk.durable.into()),
        ("replay_blocks", risk.replay_blocks.into()),
        ("replay_seconds", short(risk.replay, 1)),
    ])
}

fn verification_json(verification: &Verification, scripts: &ScriptTotals) -> Json {
    let inputs = scripts.inputs;
    let scripts_run = inputs.proven + inputs.unclaimed + inputs.unproven;
    let mut json = Json::object([
        ("scripts_from", verification.scripts_from.into()),
        ("scripts_run", scripts_run.into()),
    ]);
    if let Some(UnvalidatedHistory { base, validated }) = verification.unvalidated {
        json.push("snapshot", base);
        json.push("validated", validated);
    }
    json
}

/// The measurements since the start of the run, in seconds.
fn times_json(now: &Sample) -> Json {
    let Stages { accept, apply, flush, wait } = now.stages;
    let waited = (wait - now.starved).max(0.0);
    Json::object([
        ("accept", short(accept, 2)),
        ("apply", short(apply, 2)),
        ("flush", short(flush, 2)),
        ("wait", short(waited, 2)),
        ("starved", short(now.starved, 2)),
        ("processor", short(now.processor, 2)),
        ("scripts", short(now.scripts, 2)),
    ])
}

/// As `getsyncstatus` and the page have it.
pub(crate) fn sync_json(report: &SyncReport, chain: &'static str, version: &'static str) -> Json {
    let SyncReport { written, repairs, now, .. } = report;
    let memory = report.memory.iter().map(|(name, bytes)| ((*name).into(), (*bytes).into()));
    let written = [
        ("blocks", written.appended.into()),
        ("coins", written.flushed.into()),
        ("merges", written.merged.into()),
    ];
    let repairs = [
        ("coins", repairs.coins.into()),
        ("scrub", repairs.scrub.into()),
        ("blocks", repairs.blocks.into()),
        ("left", repairs.left.into()),
    ];
    let connected = [
        ("blocks", short(now.blocks, 0)),
        ("bytes", short(now.work.bytes, 0)),
        ("coins", short(now.work.coins, 0)),
    ];
    Json::object([
        ("chain", chain.into()),
        ("version", version.into()),
        ("stage", report.stage.name().into()),
        ("blocks", report.tip.height.into()),
        ("headers", report.best.height.into()),
        ("time", report.tip.time.into()),
        ("now", report.unix.into()),
        ("warnings", report.warnings.iter().map(String::as_str).collect()),
        ("percent", report.share.map_or(Json::Null, |share| short(share * 100.0, 2))),
        ("left", report.estimate.as_ref().map_or(Json::Null, seconds_json)),
        ("bottleneck", bottleneck_json(report.bottleneck)),
        ("blocks_per_second", short(report.blocks_per_second, 2)),
        ("bytes_per_second", short(report.bytes_per_second, 0)),
        ("stored_ahead", short(now.work.stored_ahead(), 0)),
        ("power_cut", risk_json(&report.risk)),
        ("verification", verification_json(&report.verification, &report.scripts)),
        ("written", Json::object(written)),
        ("repairs", Json::object(repairs)),
        ("memory", Json::Object(memory.collect())),
        ("memory_locked", report.other_memory.locked.into()),
        ("memory_resident", report.other_memory.resident.map_or(Json::Null, Json::from)),
        ("memory_budget", report.other_memory.budget.into()),
        ("size_on_disk", report.bytes_on_disk.into()),
        ("bytesrecv", report.connections.traffic.received.into()),
        ("bytessent", report.connections.traffic.sent.into()),
        ("seconds", short(now.at, 1)),
        ("connected", Json::object(connected)),
        ("times", times_json(now)),
        ("peers", report.peers.iter().map(peer_json).collect()),
        ("points", report.points.iter().map(point_json).collect()),
        ("lines", report.lines().into_iter().map(Json::from).collect()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_of_a_peer_is_a_text_of_json() {
        let agent = "\"},<img src=x>\u{202e}\u{0}\\";
        let peer = PeerFacts {
            id: 1,
            address: agent.to_owned(),
            agent: agent.to_owned(),
            inbound: true,
            received: 5,
            in_flight: 2,
            lowest: None,
        };
        let peers = vec![PeerLine { peer, bytes_per_second: 1.26 }];
        let text = sync_json(&SyncReport { peers, ..SyncReport::default() }, "main", "1").write();
        let json = Json::parse(text.as_bytes()).expect("JSON");
        let peer = &json.get("peers").and_then(|peers| peers.as_list().ok()).expect("peers")[0];
        assert_eq!(peer.get("subver").and_then(|text| text.as_text().ok()), Some(agent));
        assert_eq!(peer.get("bytes_per_second").map(Json::write), Some("1".to_owned()));
    }

    #[test]
    fn a_point_is_what_lies_between_two_samples() {
        let stages = Stages { accept: 1.0, apply: 2.0, flush: 0.0, wait: 6.0 };
        let to = Sample { at: 10.0, blocks: 50.0, starved: 4.0, stages, ..Sample::default() };
        let point = Point::between(&Sample::default(), &to).expect("time has passed");
        assert_eq!((point.blocks_per_second, point.starved), (5.0, 0.4));
        assert_eq!(point.stages, Stages { accept: 0.1, apply: 0.2, flush: 0.0, wait: 0.2 });
        assert_eq!(Point::between(&to, &to), None);
    }
}
