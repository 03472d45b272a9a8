//! Metrics in Prometheus's text format: those of the exporter that reads Bitcoin Core's RPC
//! (jvstein/bitcoin-prometheus-exporter), under the same names so that its dashboards work, and our own with
//! the prefix `godwit_`.

use std::fmt::{Display, Write};

use godwit_rpc::{Json, RpcError};

use crate::api::Api;
use crate::methods::{self, Call};
use crate::seam::{Seam, Snapshot};
use crate::sync::{Bottleneck, Connections, SyncReport, UnvalidatedHistory};

/// What `Content-Type` says.
pub(super) const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// As `getnetworkinfo` has them.
const VERSION: u32 = methods::VERSION;
const PROTOCOL: u32 = methods::PROTOCOL_VERSION;

const COIN: f64 = 1e8;

/// The format, as it grows.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a string takes all");
    }

    fn value(&mut self, name: &str, labels: &str, value: impl Display) {
        writeln!(self.0, "{name}{labels} {value}").expect("a string takes all");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.value(name, "", value);
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.value(name, "", value);
    }

    /// Several values, told apart by one label. Its values are words of ours.
    fn by<V: Display>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        label: &str,
        values: impl IntoIterator<Item = (impl Display, V)>,
    ) {
        self.family(name, kind, help);
        for (of, value) in values {
            self.value(name, &format!("{{{label}=\"{of}\"}}"), value);
        }
    }
}

/// What is asked of the methods that clients have: of the last block, and of the chain as a whole.
pub(super) struct Asked {
    /// Names as the exporter has them, and numbers as JSON writes them.
    latest: Vec<(&'static str, &'static str, String)>,
    hash_rates: Vec<(&'static str, String)>,
    /// Those of the outbox, which is in the place of a mempool.
    waiting: Vec<(&'static str, &'static str, String)>,
    branches: usize,
    bans: Vec<(String, String, String)>,
}

fn ask(api: &Api, node: &Seam, name: &str, args: &[Json]) -> Result<Json, RpcError> {
    let run = methods::handler(name).expect("a method of the table");
    let mut room = api.answers.room();
    run(&mut Call { api, node: node.clone(), args, room: &mut room, is_gone: &|| node.is_ending() })
}

/// The statistics of the last block, by `getblockstats`: those that the exporter asks for.
const LATEST: [(&str, &str, &str); 7] = [
    ("total_size", "bitcoin_latest_block_size", "Size of latest block in bytes"),
    ("txs", "bitcoin_latest_block_txs", "Number of transactions in latest block"),
    ("height", "bitcoin_latest_block_height", "Height or index of latest block"),
    ("total_weight", "bitcoin_latest_block_weight", "Weight of latest block according to BIP 141"),
    ("ins", "bitcoin_latest_block_inputs", "Number of inputs in transactions of latest block"),
    ("outs", "bitcoin_latest_block_outputs", "Number of outputs in transactions of latest block"),
    (
        "total_out",
        "bitcoin_latest_block_value",
        "Bitcoin value of all transactions in the latest block",
    ),
];

/// What waits to be in a block, by `getmempoolinfo`.
const WAITING: [(&str, &str, &str); 4] = [
    ("bytes", "bitcoin_mempool_bytes", "Size in bytes of the transactions sent here"),
    ("size", "bitcoin_mempool_size", "Number of transactions sent here and not in a block"),
    ("usage", "bitcoin_mempool_usage", "Memory usage of the transactions sent here"),
    (
        "unbroadcastcount",
        "bitcoin_mempool_unbroadcast",
        "Number of transactions waiting for acknowledgment",
    ),
];

impl Asked {
    /// Asks what takes more than the published snapshot. While the chain is downloaded, blocks are not
    /// read for it.
    pub(super) fn of(api: &Api, node: &Seam, snapshot: &Snapshot) -> Self {
        let hash: Json = snapshot.tip.hash.to_string().into();
        let stats = match snapshot.initial_download {
            true => None,
            false => ask(api, node, "getblockstats", &[hash]).ok(),
        };
        let number = |name: &str| stats.as_ref().and_then(|stats| stats.get(name)).map(Json::write);
        let in_coins = |name: &str, text: String| match name {
            "total_out" => text.parse().map_or(text, |value: f64| (value / COIN).to_string()),
            _ => text,
        };
        let latest = LATEST.into_iter().filter_map(|(name, metric, help)| {
            number(name).map(|text| (metric, help, in_coins(name, text)))
        });
        let fee = number("totalfee").and_then(|text| text.parse().ok()).map(|fee: f64| {
            (
                "bitcoin_latest_block_fee",
                "Total fee to process the latest block",
                (fee / COIN).to_string(),
            )
        });
        let rates = [("bitcoin_hashps_neg1", -1), ("bitcoin_hashps_1", 1), ("bitcoin_hashps", 120)];
        let rate = |(metric, blocks): (&'static str, i64)| {
            let rate = ask(api, node, "getnetworkhashps", &[blocks.into()]).ok()?;
            Some((metric, rate.write()))
        };
        let outbox = ask(api, node, "getmempoolinfo", &[]).ok();
        let waiting = WAITING.into_iter().filter_map(|(name, metric, help)| {
            Some((metric, help, outbox.as_ref()?.get(name)?.write()))
        });
        let tips = ask(api, node, "getchaintips", &[]);
        let bans = ask(api, node, "listbanned", &[]);
        let ban = |ban: &Json| {
            let text = |name: &str| ban.get(name).map(Json::write).unwrap_or_default();
            let address = ban.get("address").and_then(|at| at.as_text().ok()).unwrap_or_default();
            (address.to_owned(), text("ban_created"), text("banned_until"))
        };
        Self {
            latest: latest.chain(fee).collect(),
            waiting: waiting.collect(),
            hash_rates: rates.into_iter().filter_map(rate).collect(),
            branches: tips.iter().filter_map(|tips| tips.as_list().ok()).map(<[Json]>::len).sum(),
            bans: bans.iter().filter_map(|bans| bans.as_list().ok()).flatten().map(ban).collect(),
        }
    }
}

/// All of it.
pub(super) fn text(api: &Api, snapshot: &Snapshot, asked: &Asked, warnings: u64) -> String {
    let mut text = Text::default();
    exporters(&mut text, api, snapshot, asked, warnings);
    ours(&mut text, &snapshot.sync);
    text.0
}

fn exporters(text: &mut Text, api: &Api, snapshot: &Snapshot, asked: &Asked, warnings: u64) {
    let (tip, sync) = (&snapshot.tip, &snapshot.sync);
    let uptime = api.program.started.elapsed().as_secs();
    text.gauge("bitcoin_blocks", "Block height", tip.height);
    let difficulty = methods::difficulty(tip.header.bits);
    text.gauge("bitcoin_difficulty", "Difficulty", difficulty);
    connections(text, sync);
    for (name, value) in &asked.hash_rates {
        text.gauge(name, "Estimated network hash rate per second", value);
    }
    text.counter(
        "bitcoin_warnings_total",
        "Number of network or blockchain warnings detected",
        warnings,
    );
    text.gauge("bitcoin_uptime", "Number of seconds the Bitcoin daemon has been running", uptime);
    let locked = godwit_secret::process_stats();
    text.gauge("bitcoin_meminfo_used", "Number of bytes used", locked.used);
    text.gauge("bitcoin_meminfo_free", "Number of bytes available", locked.free);
    text.gauge("bitcoin_meminfo_total", "Number of bytes managed", locked.total);
    text.gauge("bitcoin_meminfo_locked", "Number of bytes locked", locked.locked);
    text.gauge("bitcoin_meminfo_chunks_used", "Number of allocated chunks", locked.chunks_used);
    text.gauge("bitcoin_meminfo_chunks_free", "Number of unused chunks", locked.chunks_free);
    for (name, help, value) in asked.waiting.iter().chain(&asked.latest) {
        text.gauge(name, help, value);
    }
    text.gauge("bitcoin_txcount", "Number of TX since the genesis block", sync.transactions);
    text.gauge("bitcoin_num_chaintips", "Number of known blockchain branches", asked.branches);
    text.gauge(
        "bitcoin_total_bytes_recv",
        "Total bytes received",
        sync.connections.traffic.received,
    );
    text.gauge("bitcoin_total_bytes_sent", "Total bytes sent", sync.connections.traffic.sent);
    for (name, help, until) in [
        ("bitcoin_ban_created", "Time the ban was created", false),
        ("bitcoin_banned_until", "Time the ban expires", true),
    ] {
        let value = |(address, from, to): &(String, String, String)| {
            let time = if until { to } else { from };
            (address.clone(), time.clone())
        };
        text.by((name, "gauge", help), "address", asked.bans.iter().map(value));
    }
    text.gauge("bitcoin_server_version", "The server version", VERSION);
    text.gauge("bitcoin_protocol_version", "The protocol version of the server", PROTOCOL);
    text.gauge(
        "bitcoin_size_on_disk",
        "Estimated size of the block and undo files",
        snapshot.bytes_on_disk,
    );
    let progress = format!("{:.8}", snapshot.progress);
    text.gauge(
        "bitcoin_verification_progress",
        "Estimate of verification progress [0..1]",
        progress,
    );
    text.gauge(
        "bitcoin_rpc_active",
        "Number of RPC calls being processed",
        api.active.list().len(),
    );
}

/// As `getnetworkinfo` counts them: also those that are no peers yet.
fn connections(text: &mut Text, sync: &SyncReport) {
    let Connections { inbound, outbound, .. } = sync.connections;
    text.gauge("bitcoin_peers", "Number of peers", inbound + outbound);
    text.gauge("bitcoin_conn_in", "Number of connections in", inbound);
    text.gauge("bitcoin_conn_out", "Number of connections out", outbound);
}

fn ours(text: &mut Text, sync: &SyncReport) {
    text.gauge("godwit_headers", "Height of the best header", sync.best.height);
    if let Some(share) = sync.share {
        text.gauge("godwit_sync_work_ratio", "Share of the sync's work that is done", share);
    }
    if let Some(estimate) = &sync.estimate {
        let bounds =
            [("expected", estimate.left), ("least", estimate.least), ("most", estimate.most)];
        let family = ("godwit_sync_left_seconds", "gauge", "Time left of the sync");
        text.by(family, "bound", bounds);
    }
    if let Some(UnvalidatedHistory { base, validated }) = sync.verification.unvalidated {
        let family =
            ("godwit_history_height", "gauge", "How far the history below a snapshot is validated");
        text.by(family, "block", [("validated", validated), ("snapshot", base)]);
    }
    let held_up = |kind: Bottleneck| (kind.name(), u8::from(kind.name() == sync.bottleneck.name()));
    let family = ("godwit_bottleneck", "gauge", "What holds the sync up is 1");
    text.by(family, "kind", Bottleneck::KINDS.map(held_up));
    let now = &sync.now;
    text.counter(
        "godwit_ibd_blocks_connected_total",
        "Blocks connected since the start",
        now.blocks,
    );
    text.counter("godwit_ibd_connected_bytes_total", "Their bytes", now.work.bytes);
    let stages = now.stages;
    let family = ("godwit_ibd_stage_seconds_total", "counter", "Where the connector's time went");
    let waited = (stages.wait - now.starved).max(0.0);
    let stages = [
        ("accept", stages.accept),
        ("apply", stages.apply),
        ("flush", stages.flush),
        ("wait", waited),
    ];
    text.by(family, "stage", stages);
    let family =
        ("godwit_ibd_stall_seconds_total", "counter", "Time in which nothing could be done");
    text.by(family, "reason", [("blocks_missing", now.starved)]);
    text.counter("godwit_processor_seconds_total", "Processor time of all threads", now.processor);
    text.counter("godwit_script_seconds_total", "Of these, scripts", now.scripts);
    let inputs = sync.scripts.inputs;
    let family = ("godwit_script_inputs_total", "counter", "Inputs whose scripts were verified");
    let ways =
        [("proven", inputs.proven), ("unclaimed", inputs.unclaimed), ("unproven", inputs.unproven)];
    text.by(family, "way", ways);
    let written = sync.written;
    let family = ("godwit_disk_bytes_written_total", "counter", "Bytes written since the start");
    let kinds =
        [("blocks", written.appended), ("coins", written.flushed), ("merges", written.merged)];
    text.by(family, "kind", kinds);
    power_cut(text, sync);
    memory(text, sync);
    let repairs = sync.repairs;
    let family = ("godwit_repairs_total", "counter", "Damages that were repaired");
    let kinds = [("coins", repairs.coins), ("scrub", repairs.scrub), ("blocks", repairs.blocks)];
    text.by(family, "kind", kinds);
    text.gauge("godwit_damages", "Damaged items that are not repaired", repairs.left);
    let family = ("godwit_peer_received_bytes_per_second", "gauge", "Speed of each peer");
    text.by(family, "id", sync.peers.iter().map(|line| (line.peer.id, line.bytes_per_second)));
}

fn memory(text: &mut Text, sync: &SyncReport) {
    text.by(("godwit_memory_bytes", "gauge", "Memory in use"), "kind", sync.memory.iter().copied());
    let others = &sync.other_memory;
    text.gauge("godwit_memory_budget_bytes", "-memory", others.budget);
    text.gauge("godwit_memory_locked_bytes", "Locked memory", others.locked);
    if let Some(resident) = others.resident {
        text.gauge("godwit_memory_resident_bytes", "Memory of the whole process", resident);
    }
}

fn power_cut(text: &mut Text, sync: &SyncReport) {
    let risk = &sync.risk;
    text.gauge("godwit_durable_height", "The last block that a power cut leaves", risk.durable);
    text.gauge("godwit_power_cut_blocks", "Blocks that a power cut would cost", risk.blocks);
    text.gauge(
        "godwit_power_cut_bytes",
        "Bytes of all blocks and undo records that it would",
        risk.bytes,
    );
    text.gauge(
        "godwit_replay_seconds",
        "Applying stored blocks again after a power cut",
        risk.replay,
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::documented::rows;
    use super::*;

    /// The metrics of a text, with the names of their labels, and their kinds.
    fn families(text: &str) -> BTreeSet<(String, String)> {
        let (mut found, mut kind) = (BTreeSet::new(), "");
        for line in text.lines() {
            if let Some(family) = line.strip_prefix("# TYPE ") {
                (_, kind) = family.split_once(' ').expect("a name and a kind");
            } else if !line.starts_with('#') {
                let name = line.split(['=', ' ']).next().expect("a name");
                let closed = if name.contains('{') { "}" } else { "" };
                found.insert((format!("{name}{closed}"), kind.to_owned()));
            }
        }
        found
    }

    #[test]
    fn every_metric_of_ours_is_in_the_documentation() {
        let mut text = Text::default();
        ours(&mut text, &crate::sync::report_of_all());
        assert_eq!(rows("metrics"), families(&text.0), "the table of metrics in docs/page.md");
    }

    #[test]
    fn connections_count_from_their_beginning() {
        let connections = Connections { inbound: 1, outbound: 2, ..Connections::default() };
        let mut text = Text::default();
        super::connections(&mut text, &SyncReport { connections, ..SyncReport::default() });
        let values: Vec<&str> = text.0.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(values, ["bitcoin_peers 3", "bitcoin_conn_in 1", "bitcoin_conn_out 2"]);
    }

    #[test]
    fn the_format_is_prometheus_s() {
        let mut text = Text::default();
        text.gauge("a", "What it is", 1);
        text.by(("b_total", "counter", "Two"), "kind", [("x", 0.5), ("y", 2.0)]);
        assert_eq!(
            text.0,
            "# HELP a What it is\n# TYPE a gauge\na 1\n# HELP b_total Two\n# TYPE b_total counter\n\
             b_total{kind=\"x\"} 0.5\nb_total{kind=\"y\"} 2\n"
        );
    }

    #[test]
    fn w2_no_text_of_a_peer_is_in_the_figures() {
        let mut sync = SyncReport::default();
        sync.peers.push(crate::sync::PeerLine {
            peer: crate::sync::PeerFacts {
                id: 7,
                address: "\"} 1\nevil 2".to_owned(),
                agent: "\"} 1\nevil 2".to_owned(),
                ..Default::default()
            },
            bytes_per_second: 1.5,
        });
        let mut text = Text::default();
        ours(&mut text, &sync);
        assert!(text.0.contains("godwit_peer_received_bytes_per_second{id=\"7\"} 1.5\n"));
        assert!(!text.0.contains("evil"));
    }
}
