//! Debian's Prometheus reads godwit's figures, and finds in them what the dashboard asks for.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Instant;

use serde_json::Value;

use super::super::api::http::{exchange, get};
use super::super::process::{Place, Program, cached};
use super::super::{LIMIT, POLL, free_port, wait_until};
use super::Backend;
use crate::node::Node;

const DASHBOARD: &str = include_str!("../../../../../../contrib/grafana/godwit.json");

/// How long a sync still takes: a node that is in step with the network has no such series.
const WHILE_SYNCING: &str = "godwit_sync_left_seconds";

/// Every query of the dashboard, as Grafana fills it in.
fn queries(instance: &str) -> BTreeSet<String> {
    fn collect(value: &Value, all: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                all.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| collect(value, all));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, all)),
            _ => {}
        }
    }
    let mut all = BTreeSet::new();
    collect(&serde_json::from_str(DASHBOARD).expect("JSON"), &mut all);
    let fill = |query: &String| {
        let query = query.replace("$instance", instance);
        query.replace("$__rate_interval", "1m").replace("$__range", "1m")
    };
    all.iter().map(fill).collect()
}

/// What Prometheus has for a query; nothing while it does not answer.
fn series(port: u16, query: &str) -> Vec<Value> {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02x}"),
    };
    let query: String = query.bytes().map(escape).collect();
    if TcpStream::connect(("127.0.0.1", port)).is_err() {
        return Vec::new();
    }
    let answer = exchange(port, &get(&format!("/api/v1/query?query={query}"), b""));
    let answer = answer.map_or(Value::Null, |answer| answer.json());
    answer["data"]["result"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_figure_of_the_dashboard_is_what_it_is_now() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let figures = panels.filter(|panel| panel["type"] == "stat");
    let targets: Vec<&Value> =
        figures.flat_map(|panel| panel["targets"].as_array().expect("targets")).collect();
    assert!(targets.len() > 5, "{targets:?}");
    // Of a range, the last value is shown that there was: the time left for hours behind the end of a sync.
    for target in targets {
        assert!(target["instant"] == true && target["range"] == false, "{target}");
    }
}

#[test]
fn prometheus_has_all_that_the_dashboard_asks_for() {
    let Some(program) = cached("prometheus", "prometheus/prometheus") else { return };
    let node = Node::new("regtest");
    let metrics = format!("127.0.0.1:{}", free_port());
    let mut backend = Backend::start(&node, &[format!("-metrics={metrics}")]);
    let place = Place::new();
    let file = place.path("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 200ms\nscrape_configs:\n  - job_name: godwit\n    static_configs:\n      \
         - targets: [\"{metrics}\"]\n"
    );
    fs::write(&file, text).expect("a temporary file");
    let mut command = Command::new(program);
    command.arg(format!("--config.file={}", file.display()));
    command.arg(format!("--storage.tsdb.path={}", place.path("data").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{}", place.port));
    let _prometheus = Program::start_saying(command, place.path("said"));

    let mut missing = queries(&metrics);
    assert!(missing.len() > 15, "{missing:?}");
    let syncing = missing.len();
    missing.retain(|query| !query.starts_with(WHILE_SYNCING));
    assert_eq!(syncing - missing.len(), 2, "the rest of {WHILE_SYNCING}");
    let started = Instant::now();
    while !missing.is_empty() {
        missing.retain(|query| series(place.port, query).is_empty());
        assert!(started.elapsed() < LIMIT, "no series for {missing:#?}");
        thread::sleep(POLL);
    }

    // Its figures are of the chain as it is, through a reorganisation and a restart.
    let shows_the_tip = |backend: &Backend<'_>| {
        let height = backend.tip().0.to_string();
        wait_until("Prometheus has the height", || {
            let shown = series(place.port, &format!("bitcoin_blocks{{instance=\"{metrics}\"}}"));
            shown.len() == 1 && shown[0]["value"][1] == height
        });
    };
    shows_the_tip(&backend);
    backend.mine(&[]);
    shows_the_tip(&backend);
    backend.replace(1, &[&[], &[], &[]]);
    shows_the_tip(&backend);
    backend.restart();
    backend.mine(&[]);
    shows_the_tip(&backend);
}
