//! Loads that come to nothing: coins that are refused, kills and signals.

use std::fs;
use std::time::{Duration, Instant};

use godwit_chain::SnapshotHeader;
use rustix::process::Signal;

use super::*;

/// What a process holds: its threads by name, and how many files it has open.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    threads: Vec<String>,
    files: usize,
}

impl Held {
    fn by(answering: &Answering<'_>) -> Self {
        let pid = answering.running.pid().as_raw_pid();
        let entries = |of: &str| {
            let entries = fs::read_dir(format!("/proc/{pid}/{of}")).expect("it runs");
            entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
        };
        let name = |task: PathBuf| fs::read_to_string(task.join("comm")).unwrap_or_default();
        let mut threads: Vec<String> = entries("task").into_iter().map(name).collect();
        threads.sort_unstable();
        Self { threads, files: entries("fd").len() }
    }

    /// What it holds at rest, when the connection of the last question is closed, too: the same for a second.
    fn at_rest(answering: &Answering<'_>) -> Self {
        let (mut held, mut since) = (Self::by(answering), Instant::now());
        wait_until("it holds the same for a second", || {
            let now = Self::by(answering);
            if now != held {
                (held, since) = (now, Instant::now());
            }
            since.elapsed() > Duration::from_secs(1)
        });
        held
    }
}

/// The snapshot with coins that are none, and what Core says of them.
fn bad_coins() -> [(Vec<u8>, &'static str); 6] {
    let good = &*SNAPSHOT;
    // Each of these coins has a transaction of its own: txid, 1, output 0, code, amount, script.
    let (head, first) = (SnapshotHeader::SIZE, SnapshotHeader::SIZE + 32);
    assert_eq!(good[first..first + 2], [1, 0]);
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    [
        (
            good[..good.len() - 1].to_vec(),
            "Bad snapshot format or truncated snapshot after deserializing 199 coins",
        ),
        (
            good[..head].to_vec(),
            "Bad snapshot format or truncated snapshot after deserializing 0 coins",
        ),
        (
            [&good[..], &[0]].concat(),
            "Bad snapshot - coins left over after deserializing 200 coins",
        ),
        (
            changed(first, &[201]),
            "Mismatch in coins count in snapshot metadata and actual snapshot data",
        ),
        // One coin less than there are: bytes are left.
        (
            changed(43, &199_u64.to_le_bytes()),
            "Bad snapshot - coins left over after deserializing 199 coins",
        ),
        // The largest height that a code of two bytes can say.
        (changed(first + 2, &[0xff, 0x7f]), "Bad snapshot data after deserializing 0 coins"),
    ]
}

#[test]
fn coins_that_are_refused_leave_the_node_as_it_was() {
    let node = Node::new("regtest");
    with_headers(&node, BASE as usize);
    let (donor, port) = (Node::new("regtest"), free_port());
    let blocks = donor.beside("chain.dat");
    write_dat(&blocks, &CHAIN[..BEFORE as usize]);
    donor.import(&blocks);
    let _serving = serve(&donor, port);
    let mut godwit = Answering::start(&node, &[]);
    godwit.call("addnode", &json!([format!("127.0.0.1:{port}"), "add"]));
    // Connections count before their handshake.
    let is_connected =
        || godwit.call("getpeerinfo", &json!([]))[0]["bytesrecv_per_msg"]["verack"].is_number();
    wait_until("the peer is connected", is_connected);

    let before = Held::at_rest(&godwit);
    let path = node.network_dir().join("bad.dat");
    let mut pauses = 0;
    for (bytes, why) in bad_coins() {
        fs::write(&path, bytes).expect("a file");
        let text =
            format!("Unable to load UTXO snapshot: Population failed: {why}. ({})", path.display());
        refuses(&godwit, "bad.dat", -32603, &text);
        pauses += 1;
        assert_eq!(node.log().matches("The node pauses to load").count(), pauses, "{why}");
        assert_eq!(godwit.call("getblockcount", &json!([])), BEFORE, "{why}");
        assert_eq!(states(&godwit), [(BEFORE, true)], "{why}");
    }
    let mut other = SNAPSHOT.clone();
    let last = other.len() - 1;
    other[last] ^= 1;
    fs::write(&path, &other).expect("a file");
    let said = load(&godwit, "bad.dat");
    let Err(RpcError::Refused(error)) = said else { panic!("{said:?}") };
    let text = error["message"].as_str().expect("a text");
    let expected = format!(
        "Unable to load UTXO snapshot: Population failed: Bad snapshot content hash: expected {COINS_HASH}, got "
    );
    assert!(text.starts_with(&expected), "{text}");

    // It runs as before, with its peer, and takes a good one.
    wait_until("the peer is connected again", is_connected);
    // Nothing of the runs before is left.
    wait_until("it has as many threads and files", || Held::by(&godwit) == before);
    assert_eq!(load(&godwit, "snapshot.dat").expect("a good snapshot"), result_of(&node));
    assert_eq!(states(&godwit), [(0, true), (BASE, false)]);
    assert!(godwit.running.terminate().1.success());
}

/// Killed, or told to stop, at some moment of the pause: the directory opens with the old coins or the loaded
/// ones, and the caller of a node that was told to stop is answered.
#[test]
fn a_load_that_is_killed_or_stopped_leaves_the_old_coins_or_the_loaded_ones() {
    let mut outcomes = [0, 0];
    let (pauses, loaded) = ("The node pauses to load", "Coins up to height 200 are assumed");
    let moments = [0, 1, 4, 15, 40, 80, 150].map(|millis| (pauses, millis));
    for (line, millis) in moments.into_iter().chain([0, 3, 20].map(|millis| (loaded, millis))) {
        for signal in [Signal::KILL, Signal::TERM, Signal::INT] {
            let node = Node::new("regtest");
            with_headers(&node, BASE as usize);
            let mut godwit = Answering::start(&node, &[]);
            let rpc = godwit.rpc;
            let said = thread::scope(|scope| {
                let call =
                    scope.spawn(move || rpc.try_call("loadtxoutset", &json!(["snapshot.dat"])));
                wait_until(line, || node.log().contains(line));
                thread::sleep(Duration::from_millis(millis));
                let (_, status) = godwit.running.stop(signal);
                assert!(signal == Signal::KILL || status.success(), "{line} + {millis}: {status}");
                call.join().expect("it ends")
            });
            let stats = node.stats();
            let is_loaded = stats["height"] == BASE;
            assert!(is_loaded || stats["height"] == BEFORE, "{stats}");
            assert_eq!(stats["assumed_below"], if is_loaded { json!(BASE) } else { Value::Null });
            match said {
                Ok(result) => assert_eq!((result, is_loaded), (result_of(&node), true)),
                Err(RpcError::Refused(error)) => {
                    let text = error["message"].as_str().expect("a text");
                    assert!(text.contains("Aborting after an interrupt was requested"), "{text}");
                    assert!(!is_loaded, "{text}");
                }
                // What is killed answers nobody.
                Err(error) => assert_eq!(signal, Signal::KILL, "{error:?}"),
            }
            outcomes[usize::from(is_loaded)] += 1;
            let mut godwit = Answering::start(&node, &[]);
            assert_eq!(godwit.call("getblockcount", &json!([])), stats["height"]);
            assert!(godwit.running.terminate().1.success());
        }
    }
    let [old, loaded] = outcomes;
    println!("the old coins {old} times, the loaded ones {loaded} times");
    assert!(old > 0 && loaded > 0, "the moments are of the load: {outcomes:?}");
}
