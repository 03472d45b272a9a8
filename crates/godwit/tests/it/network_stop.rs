//! A node that is told to stop at any moment of a sync, by either signal, and started again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::time::Duration;

use godwit::exit::Exit;
use godwit_sim::rng::Rng;
use rustix::process::Signal;

use crate::kill::{CACHE_MIB, Kept, Reference, print, reference, succeeds};
use crate::network_kill::LINE;
use crate::node::Node;
use crate::progress::Phase;
use crate::records;
use crate::running::{Moment, Running};
use crate::sync::{free_port, has_started, serve, stops_in_time, wait_until};

/// Kinds of moments, in the order in which a client meets them; each is met by both signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    /// The peer says nothing so far.
    BeforeHeaders,
    Random,
    In(Phase),
    /// Everything is there.
    AtTip,
}

/// A stretch of random moments between the phases, so that not all of them come at the start.
const MOMENTS: [When; 7] = [
    When::BeforeHeaders,
    When::Random,
    When::In(Phase::Flush),
    When::In(Phase::Commit),
    When::Random,
    When::Random,
    When::AtTip,
];

struct Client<'a> {
    node: Node,
    reference: &'a Reference,
    /// Of the server, and of a listener that says nothing.
    ports: [u16; 2],
    kept: Kept,
}

fn start(node: &Node, port: u16, more: Option<String>) -> Running<'_> {
    let mut words = ["-listen=0", "-par=1"].map(str::to_owned).to_vec();
    words.push(format!("-dbcache={CACHE_MIB}"));
    words.push(format!("-connect=127.0.0.1:{port}"));
    words.extend(more);
    let words: Vec<&dyn AsRef<OsStr>> = words.iter().map(|word| word as _).collect();
    Running::start(node, &words)
}

impl Client<'_> {
    /// Starts it, and stops it at such a moment: how long that took.
    fn stop(&mut self, when: When, signal: Signal, rng: &mut Rng) -> Duration {
        let [server, silent] = self.ports;
        let (port, line) = match when {
            When::BeforeHeaders => (silent, None),
            When::AtTip => (server, None),
            When::Random | When::In(_) => (server, Some(LINE.to_owned())),
        };
        let mut running = start(&self.node, port, line);
        has_started(&mut running);
        let tip = self.reference.stats["bestblock"].as_str().expect("a hash");
        match when {
            When::BeforeHeaders => {
                wait_until("it has a tip", || running.log().0.contains("Loaded "));
            }
            When::Random => {
                let delay = Duration::from_millis(rng.between(1, 2_000));
                assert!(running.wait_for(Moment::After(delay)), "a node has no end of its own");
            }
            When::In(phase) => {
                wait_until("it is in that phase", || running.log().is_in(phase));
            }
            When::AtTip => {
                wait_until("it is at the tip", || self.node.log().contains(tip));
            }
        }
        let (time, status) = running.stop(signal);
        let code = Some(Exit::Success.code().into());
        assert_eq!(status.code(), code, "{when:?}, {signal:?}: {}", self.node.log());
        let (blocks, undo) = (records::blocks(&self.node), records::undo_records(&self.node));
        self.kept.check(running.log(), blocks, undo);
        time
    }

    /// Lets it go on to the end.
    fn finish(mut self) {
        let height = self.reference.blocks;
        let mut running = start(&self.node, self.ports[0], Some(format!("-stopatheight={height}")));
        running.wait();
        let (blocks, undo) = (records::blocks(&self.node), records::undo_records(&self.node));
        self.kept.check(running.log(), blocks, undo);
        succeeds(&self.node, running);
        assert_eq!(self.node.stats(), self.reference.stats);
        assert_eq!((blocks.complete, blocks.torn), (height, 0), "each block is stored once");
    }
}

/// A stop that takes longer than eight seconds ends with another code.
#[test]
fn a_sync_that_is_told_to_stop_by_either_signal_ends_soon_at_any_moment_and_goes_on() {
    let reference = reference();
    let _serves_alone = reference.serve_alone();
    let port = free_port();
    let serving = serve(&reference.node, port);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let ports = [port, silent.local_addr().expect("it is bound").port()];
    let mut rng = Rng::new(13);
    let mut longest: BTreeMap<When, Duration> = BTreeMap::new();
    let (node, kept) = (Node::new("regtest"), Kept::default());
    let mut client = Client { node, reference, ports, kept };
    let mut stops = 0;
    for when in MOMENTS {
        for signal in [Signal::INT, Signal::TERM] {
            let time = client.stop(when, signal, &mut rng);
            let longest = longest.entry(when).or_default();
            *longest = time.max(*longest);
            stops += 1;
        }
    }
    client.finish();
    stops_in_time(serving);
    let mut text = format!("network stop test: {stops} stops, by SIGINT and SIGTERM in turn\n");
    for (when, time) in longest {
        let when = format!("{when:?}");
        writeln!(text, "  {when:<14} within {:>4} ms", time.as_millis()).expect("a string grows");
    }
    print(&text);
}
