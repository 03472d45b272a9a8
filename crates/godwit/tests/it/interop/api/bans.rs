//! Bans, beside bitcoind's.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::super::rpc::Rpc;
use super::super::{bitcoind, wait_until};
use super::Answering;
use super::methods::assert_same;
use crate::node::Node;

const ONION: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";

/// What is done, one after the other; the list is compared behind each.
fn steps(now: u64) -> Vec<Value> {
    let add = |subnet: &str| json!([subnet, "add"]);
    let mut all: Vec<Value> = [
        "10.1.2.3",
        "10.1.2.3",
        "10.1.2.3/32",
        "10.1.2.3/24",
        "10.1.2.4",
        "11.0.0.0/255.0.0.0",
        "11.0.0.0/255.0.255.0",
        "12.0.0.0/33",
        "12.0.0.0/",
        "12.0.0.0/x",
        "12.0.0.0/-1",
        "",
        "x",
        "::1",
        "2a02:ab::ff/33",
        "2a02:ab::ff/ffff::",
        "2a02::/129",
        "::ffff:13.0.0.1/16",
        "0.0.0.0",
        "::",
        "255.255.255.255",
        "2001:db8::1",
        "0.0.0.0/0",
        ONION,
        "fc00::1",
        "9.9.9.9:80",
        "localhost",
    ]
    .map(add)
    .to_vec();
    all.push(json!([format!("{ONION}/8"), "add"]));
    for time in [json!(1000), json!(0), json!(-5), json!(null), json!(1.5), json!("1")] {
        let subnet = format!("77.{}.0.0/16", all.len());
        all.push(json!([subnet, "add", time]));
        all.push(json!([subnet, "add", time, true]));
    }
    all.push(json!(["78.0.0.0/8", "add", now + 1000, true]));
    all.push(json!(["79.0.0.0/8", "add", now - 1000, true]));
    for subnet in
        ["10.1.2.3", "10.1.2.3", "10.1.2.0/24", "10.1.2.9/24", "11.0.0.1", "11.1.1.1/8", "x"]
    {
        all.push(json!([subnet, "remove"]));
    }
    all.push(json!(["10.0.0.1", "nonsense"]));
    all.push(json!(["x", "nonsense"]));
    all.push(json!(["10.0.0.1"]));
    all
}

#[test]
fn hosts_are_banned_as_bitcoind_bans_them_and_stay_so() {
    let Some(mut bitcoind) = bitcoind::start(&bitcoind::Start::default()) else { return };
    let node = Node::new("regtest");
    let mut godwit = Answering::start(&node, &[]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is not 1970");
    for step in steps(now.as_secs()) {
        assert_same(ours, theirs, &[("setban", step), ("listbanned", json!([]))]);
    }
    let banned = godwit.call("listbanned", &json!([]));
    let count = banned.as_array().expect("a list").len();
    assert!(count > 10, "{banned}");
    for ban in banned.as_array().expect("a list") {
        let seconds = |name: &str| ban[name].as_i64().expect("seconds");
        let duration = seconds("banned_until") - seconds("ban_created");
        assert_eq!(seconds("ban_duration"), duration, "{ban}");
        assert!((duration - 5..=duration + 5).contains(&seconds("time_remaining")), "{ban}");
    }
    // Where the end is given, both take it as it is.
    for port in [ours, theirs] {
        let banned = Rpc::new(port).call("listbanned", &json!([]));
        let bans = banned.as_array().expect("a list");
        let given = bans.iter().find(|ban| ban["address"] == "78.0.0.0/8").expect("it is banned");
        assert_eq!(given["banned_until"], now.as_secs() + 1000);
    }
    // Each is written when it is made.
    let file =
        std::fs::read_to_string(node.network_dir().join("banlist.json")).expect("it is there");
    assert_eq!(file.matches("banned_until").count(), count);
    assert!(godwit.running.terminate().1.success());
    drop(godwit);
    bitcoind.restart();
    let godwit = Answering::start(&node, &[]);
    assert_same(godwit.port, theirs, &[("listbanned", json!([]))]);
    assert_eq!(godwit.call("listbanned", &json!([])).as_array().map(Vec::len), Some(count));
    let clear = [("clearbanned", json!([])), ("listbanned", json!([]))];
    assert_same(godwit.port, theirs, &clear);
    wait_until("the file is empty", || {
        let file = std::fs::read_to_string(node.network_dir().join("banlist.json"));
        file.is_ok_and(|file| !file.contains("banned_until"))
    });
}

/// Bans that cannot be read at a start stay in a file, also if others are made meanwhile.
#[test]
fn a_list_that_cannot_be_read_is_kept_when_it_is_replaced() {
    let node = Node::new("regtest");
    std::fs::create_dir_all(node.network_dir()).expect("a directory");
    // The first page of a process is not there: that is an I/O error.
    let list = node.network_dir().join("banlist.json");
    std::os::unix::fs::symlink("/proc/self/mem", &list).expect("a link");
    let godwit = Answering::start(&node, &[]);
    assert!(list.is_symlink(), "it stays");
    assert_eq!(godwit.call("setban", &json!(["10.1.2.3", "add"])), Value::Null);
    assert!(list.with_extension("json.bak").is_symlink(), "it is kept");
    assert!(std::fs::read_to_string(&list).expect("a new one").contains("10.1.2.3"));
}
