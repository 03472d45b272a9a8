//! What people look at: the status page, `godwit status`, figures for Prometheus.

mod browser;

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use godwit::exit::Exit;
use serde_json::Value;

use crate::node::Node;
use crate::running::Running;
use crate::sync::{free_port, wait_until, with_small_chain};

/// The page as it is served.
const PAGE: &str = include_str!("../../../godwit-api/src/server/pages/page.html");

/// A node that shows page and figures.
struct Shown<'a> {
    running: Running<'a>,
    rpc: u16,
    web: u16,
    metrics: u16,
}

impl<'a> Shown<'a> {
    fn start(node: &'a Node) -> Self {
        let [rpc, web, metrics] = [free_port(), free_port(), free_port()];
        let options = [
            format!("-rpcport={rpc}"),
            format!("-web=127.0.0.1:{web}"),
            format!("-metrics=127.0.0.1:{metrics}"),
        ];
        let running = Running::start(
            node,
            &[&"-connect=0", &"-listen=0", &options[0], &options[1], &options[2]],
        );
        let shown = Self { running, rpc, web, metrics };
        wait_until("the node answers", || {
            let ready = TcpStream::connect(("127.0.0.1", web)).is_ok();
            ready && shown.status()["blocks"].is_u64()
        });
        shown
    }

    /// The names of its threads.
    fn threads(&self) -> Vec<String> {
        let tasks = format!("/proc/{}/task", self.running.pid().as_raw_nonzero());
        let name = |task: io::Result<fs::DirEntry>| {
            // A thread may end meanwhile.
            fs::read_to_string(task.ok()?.path().join("comm")).ok()
        };
        let names = fs::read_dir(tasks).expect("the node runs").filter_map(name);
        names.map(|name| name.trim_end().to_owned()).collect()
    }

    fn status(&self) -> Value {
        let (status, _, body) = answer(self.web, "GET /status.json", &["Host: localhost"]);
        assert_eq!(status, 200);
        serde_json::from_str(&body).expect("JSON")
    }
}

/// Status, head and body.
pub(crate) fn ask(port: u16, what: &str, headers: &[&str]) -> io::Result<(u16, String, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let headers = headers.join("\r\n");
    let request = format!("{what} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.expect("a status"), head.to_ascii_lowercase(), body.to_owned()))
}

/// The same of a server that is there.
fn answer(port: u16, what: &str, headers: &[&str]) -> (u16, String, String) {
    ask(port, what, headers).expect("somebody listens and answers")
}

#[test]
fn w1_the_page_is_for_this_machine_alone_and_says_nothing_to_pages_of_others() {
    let node = with_small_chain();
    let shown = Shown::start(&node);
    let (status, head, body) = answer(shown.web, "GET /", &["Host: localhost:1"]);
    assert_eq!((status, body.as_str()), (200, PAGE));
    for header in [
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
        "cross-origin-resource-policy: same-origin",
        "cache-control: no-store",
    ] {
        assert!(head.contains(header), "{header} in {head}");
    }
    for (port, path) in [(shown.web, "/"), (shown.web, "/status.json"), (shown.metrics, "/metrics")]
    {
        let status = |headers: &[&str]| answer(port, &format!("GET {path}"), headers).0;
        assert_eq!(status(&["Host: 127.0.0.1"]), 200);
        assert_eq!(status(&["Host: attacker.example"]), 403, "{path}");
        assert_eq!(status(&["Host: localhost", "Origin: http://attacker.example"]), 403);
        assert_eq!(status(&["Host: localhost", "Sec-Fetch-Site: cross-site"]), 403);
        let (refused, head, _) = answer(port, &format!("POST {path}"), &["Host: localhost"]);
        assert!(refused == 405 && head.contains("\r\nallow: get, head"), "{head}");
        assert_eq!(answer(port, "GET /etc/passwd", &["Host: localhost"]).0, 404);
    }
}

#[test]
fn a_page_where_others_reach_it_or_without_a_server_is_refused() {
    let node = Node::new("regtest");
    let refused = |words: &[&str], why: &str| {
        let mut command = node.command(&[&"-rpcport=1"]);
        let ended = command.args(words).output().expect("the program starts");
        assert_eq!(ended.status.code(), Some(Exit::Configuration.code().into()));
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(error.contains(why), "{error}");
    };
    refused(&["-web=0.0.0.0:8338"], "an address of this machine alone");
    refused(&["-web=192.168.1.7"], "an address of this machine alone");
    refused(&["-web", "-server=0"], "-web");
    refused(&["-metrics=nonsense:x"], "an IP address");
}

#[test]
fn a_running_node_says_how_it_is() {
    let node = with_small_chain();
    let port = free_port();
    let option = format!("-rpcport={port}");
    let nobody = node.run(&[&"status", &option]).expect(Exit::Failure);
    assert!(nobody.stderr.contains(": no node runs there"), "{nobody:?}");
    assert_eq!(nobody.stderr.lines().count(), 1, "{nobody:?}");
    let shown = Shown::start(&node);
    let option = format!("-rpcport={}", shown.rpc);
    let said = node.run(&[&"status", &option]).expect(Exit::Success);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{said:?}");
    let height = shown.status()["blocks"].as_u64().expect("a height");
    assert!(height > 0 && lines[0].contains("block"), "{said:?}");
    assert!(lines[2].contains("A power cut costs 0 blocks"), "{said:?}");
    let json = node.run(&[&"status", &option, &"-json"]).expect(Exit::Success).json();
    assert_eq!(json["blocks"].as_u64(), Some(height));
    assert_eq!(json["chain"], "regtest");
    for fact in ["stage", "bottleneck", "power_cut", "memory", "verification", "points"] {
        assert!(!json[fact].is_null(), "{fact}");
    }
    assert!(json["percent"].is_null(), "no peer has told what there is to do: {json}");
}

/// What the exporter for Bitcoin Core exports and a node without mempool and wallet can know, whatever it
/// is at.
const EXPORTED: [&str; 27] = [
    "bitcoin_blocks",
    "bitcoin_difficulty",
    "bitcoin_peers",
    "bitcoin_conn_in",
    "bitcoin_conn_out",
    "bitcoin_hashps",
    "bitcoin_hashps_1",
    "bitcoin_hashps_neg1",
    "bitcoin_warnings_total",
    "bitcoin_uptime",
    "bitcoin_meminfo_used",
    "bitcoin_meminfo_free",
    "bitcoin_meminfo_total",
    "bitcoin_meminfo_locked",
    "bitcoin_meminfo_chunks_used",
    "bitcoin_meminfo_chunks_free",
    "bitcoin_mempool_bytes",
    "bitcoin_mempool_size",
    "bitcoin_mempool_usage",
    "bitcoin_mempool_unbroadcast",
    "bitcoin_txcount",
    "bitcoin_num_chaintips",
    "bitcoin_total_bytes_recv",
    "bitcoin_total_bytes_sent",
    "bitcoin_size_on_disk",
    "bitcoin_verification_progress",
    "bitcoin_rpc_active",
];

#[test]
fn prometheus_reads_the_figures_and_finds_the_exporters_names() {
    let node = with_small_chain();
    let shown = Shown::start(&node);
    let (status, head, text) = answer(shown.metrics, "GET /metrics", &["Host: localhost"]);
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    for name in EXPORTED {
        assert!(text.contains(&format!("\n{name} ")), "{name} in\n{text}");
    }
    let value = |name: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        line.and_then(|line| line.split(' ').nth(1)?.parse::<f64>().ok()).unwrap_or(f64::NAN)
    };
    let height = shown.status()["blocks"].as_f64().expect("a height");
    assert_eq!([value("bitcoin_blocks"), value("godwit_durable_height")], [height, height]);
    // What a library would have called it says nothing in `top`.
    let threads = shown.threads();
    let of_metrics = |name: &String| name == "godwit-metrics";
    assert!(threads.iter().any(of_metrics), "it waits for the next request: {threads:?}");
    assert!(!threads.iter().any(|name| name.starts_with("tokio")), "{threads:?}");
    let Ok(mut promtool) = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    else {
        godwit_testdata::skip("no promtool here (Debian's package prometheus)");
        return;
    };
    promtool.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    let said = promtool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    // Names of the exporter that Prometheus would not have chosen.
    let ours: Vec<&str> =
        said.lines().filter(|line| !line.starts_with("bitcoin_") && !line.is_empty()).collect();
    assert!(ours.is_empty(), "{said}");
}
