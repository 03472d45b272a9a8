//! The methods, beside bitcoind's.

use std::collections::BTreeSet;

use godwit_primitives::sha256::sha256d;
use godwit_primitives::{OutPoint, Txid};
use serde_json::{Value, json};

use super::super::peer::Peer;
use super::super::rpc::Rpc;
use super::super::{bitcoind, block, chain, free_port, wait_until};
use super::arguments::{misfits, questions};
use super::differ::differences;
use super::http::{exchange, post};
use super::{Answering, RpcError};
use crate::node::Node;

/// Asks both and fails with all differences at once.
#[track_caller]
pub(super) fn assert_same(ours: u16, theirs: u16, asked: &[(&str, Value)]) {
    let found: Vec<String> = asked
        .iter()
        .flat_map(|(method, params)| differences(ours, theirs, method, params))
        .collect();
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn godwit_answers_as_bitcoind_does() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    // Of the log, it was started with more lines than usual.
    bitcoind.rpc.call("logging", &json!([[], ["all"]]));
    assert_same(ours, theirs, &questions(chain));
    assert_same(ours, theirs, &misfits());
    for keys in ["21", "2121"] {
        // Not a descriptor that godwit cannot read, of which nothing is compared.
        let key = "210279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
        let script = format!("51{}5{}ae", keys.replace("21", key), keys.len() / 2);
        let desc = |rpc: &Rpc| rpc.call("decodescript", &json!([script]))["segwit"]["desc"].clone();
        assert_eq!(desc(&godwit.rpc), desc(&bitcoind.rpc));
    }

    // Every transaction of the chain's end, in full and from its block.
    for height in chain.height() - 20..=chain.height() {
        let hash = chain::hash(&chain.blocks[height as usize - 1]);
        let block = godwit.call("getblock", &json!([hash, 1]));
        let txids = block["tx"].as_array().expect("a list").clone();
        let asked: Vec<(&str, Value)> = txids
            .iter()
            .flat_map(|txid| {
                [
                    ("getrawtransaction", json!([txid, 0, hash])),
                    ("getrawtransaction", json!([txid, 1, hash])),
                    ("getrawtransaction", json!([txid, 2, hash])),
                    ("gettxoutproof", json!([[txid], hash])),
                ]
            })
            .collect();
        assert_same(ours, theirs, &asked);
        let raw = godwit.call("getrawtransaction", &json!([txids[0], 0, hash]));
        let proof = godwit.call("gettxoutproof", &json!([txids, hash]));
        assert_same(
            ours,
            theirs,
            &[
                ("decoderawtransaction", json!([raw])),
                ("decoderawtransaction", json!([raw, true])),
                ("decoderawtransaction", json!([raw, false])),
                ("verifytxoutproof", json!([proof])),
            ],
        );
    }
}

#[test]
fn blocks_come_in_and_go_by_rpc_as_they_do_at_bitcoind() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    let after = || {
        vec![
            ("getblockcount", json!([])),
            ("getbestblockhash", json!([])),
            ("getchaintips", json!([])),
            ("getblockchaininfo", json!([])),
        ]
    };

    let honest = chain.honest_successor();
    let invalid = chain.invalid_taproot_spend();
    let mut unlinked = honest.clone();
    unlinked[4] ^= 1;
    let mut mutated = honest.clone();
    *mutated.last_mut().expect("a byte") ^= 1;
    let fork = block::on(&chain.blocks[chain.blocks.len() - 3], chain.summary.height - 1, 7, &[]);
    let submit = |block: &[u8]| ("submitblock", json!([hex::encode(block)]));
    for asked in [
        ("submitblock", json!(["00"])),
        ("submitblock", json!(["zz"])),
        submit(&invalid),
        submit(&invalid),
        submit(chain.tip()),
        submit(&fork),
        submit(&fork),
        // Without the coinbase's witness, which the node adds.
        submit(&block::without_reserved_value(&honest)),
        submit(&honest),
    ] {
        assert_same(ours, theirs, &[asked]);
        assert_same(ours, theirs, &after());
    }

    // Taken for invalid, and forgiven.
    let hash = |height: u64| chain::hash(&chain.blocks[height as usize - 1]);
    let deep = hash(chain.height() - 10);
    for asked in [
        ("invalidateblock", json!(["00".repeat(32)])),
        ("invalidateblock", json!([deep])),
        ("invalidateblock", json!([deep])),
        ("reconsiderblock", json!([deep])),
        ("reconsiderblock", json!([deep])),
    ] {
        assert_same(ours, theirs, &[asked]);
        assert_same(ours, theirs, &after());
    }
    assert_eq!(godwit.call("getbestblockhash", &json!([])), chain::hash(&honest));
}

/// Nobody sees the chain between two tips: neither who waits for a block nor who asks all the time.
#[test]
fn a_reorganisation_shows_no_tip_with_less_work() {
    const DEPTH: usize = 40;
    let chain = chain::recent();
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[]);
    let mut branch = vec![chain.blocks[chain.blocks.len() - 1 - DEPTH].clone()];
    let first = chain.summary.height - DEPTH as u32 + 1;
    for height in first..=chain.summary.height + 1 {
        let block = block::on(branch.last().expect("it has a block"), height, 9, &[]);
        branch.push(block);
    }
    let tip = chain::hash(branch.last().expect("it has a block"));
    let ask = |method: &str, params: Value| {
        let (port, body) = (godwit.port, json!({ "id": 1, "method": method, "params": params }));
        exchange(port, &post(&body.to_string())).expect("an answer").json()["result"].take()
    };
    let (waited, works) = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask("waitfornewblock", json!([0, chain.summary.tip])));
        let asking = scope.spawn(|| {
            let mut works = Vec::new();
            loop {
                let info = ask("getblockchaininfo", json!([]));
                works.push(info["chainwork"].as_str().expect("a text").to_owned());
                if info["bestblockhash"] == tip {
                    return works;
                }
            }
        });
        for block in &branch[1..] {
            godwit.call("submitblock", &json!([hex::encode(block)]));
        }
        (waiting.join().expect("it answers"), asking.join().expect("it answers"))
    });
    assert_eq!(waited["hash"], json!(tip));
    assert!(works.is_sorted(), "{works:?}");
}

/// As of bitcoind, peers hear of the end of a reorganisation alone, and nothing of a branch that turns out to
/// be invalid before it has more work than the tip.
#[test]
fn peers_hear_of_no_tip_with_less_work() {
    const DEPTH: usize = 40;
    let chain = chain::recent();
    let unspendable =
        block::spend(OutPoint { txid: Txid::from_bytes([7; 32]), vout: 0 }, 1, vec![]);
    // The last block but one of the first branch spends a coin that there is not.
    let branch = |nonce, is_invalid| {
        let mut branch = vec![chain.blocks[chain.blocks.len() - 1 - DEPTH].clone()];
        let first = chain.summary.height - DEPTH as u32 + 1;
        for height in first..=chain.summary.height + 1 {
            let spends: &[_] = match is_invalid && height == chain.summary.height {
                true => std::slice::from_ref(&unspendable),
                false => &[],
            };
            let parent = branch.last().expect("it has a block");
            branch.push(block::on(parent, height, nonce, spends));
        }
        branch.split_off(1)
    };
    let (invalid, valid) = (branch(8, true), branch(9, false));
    let tip = chain::hash(valid.last().expect("it has a block"));
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let port = free_port();
    let listen = ["-listen=1".to_owned(), format!("-bind=127.0.0.1:{port}")];
    let godwit = Answering::with_chain(&node, chain, &listen);
    for (rpc, port) in [(godwit.rpc, port), (bitcoind.rpc, bitcoind.port)] {
        let is_at = |hash: &str| rpc.call("getbestblockhash", &json!([])) == hash;
        wait_until("the chain is there", || is_at(&chain.summary.tip));
        let mut peer = Peer::connect(port, chain.summary.height);
        peer.announced();
        let submit = |block: &Vec<u8>| rpc.call("submitblock", &json!([hex::encode(block)]));
        invalid.iter().for_each(|block| drop(submit(block)));
        wait_until("it has come back", || {
            is_at(&chain.summary.tip)
                && rpc
                    .call("getchaintips", &json!([]))
                    .as_array()
                    .is_some_and(|tips| tips.iter().any(|tip| tip["status"] == "invalid"))
        });
        assert_eq!(peer.announced(), Vec::<[u8; 32]>::new());
        valid.iter().for_each(|block| drop(submit(block)));
        wait_until("the other branch is there", || is_at(&tip));
        let mut announced = Vec::new();
        wait_until("it is announced", || {
            announced.extend(peer.announced());
            !announced.is_empty()
        });
        let last = valid.last().expect("it has a block");
        assert_eq!(announced, [sha256d(&last[..80])]);
    }
}

#[test]
fn a_node_that_prunes_says_so_as_bitcoind_does() {
    let chain = chain::recent();
    let start = bitcoind::Start { chain: Some(chain), prune: true, ..bitcoind::Start::default() };
    let Some(bitcoind) = bitcoind::start(&start) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &["-prune=550".to_owned()]);
    let asked = [("getblockchaininfo", json!([])), ("getblock", json!([chain.summary.tip, 3]))];
    assert_same(godwit.port, bitcoind.rpc.port(), &asked);
    assert_eq!(godwit.call("getblockchaininfo", &json!([]))["pruned"], true);
}

#[test]
fn godwit_mines_blocks_that_bitcoind_takes() {
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let waiting = {
        let port = godwit.port;
        std::thread::spawn(move || {
            let body = json!({ "id": 1, "method": "waitforblockheight", "params": [111] });
            exchange(port, &post(&body.to_string())).expect("an answer").json()
        })
    };
    let address = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
    let assembled = || {
        let info = godwit.call("getmininginfo", &json!([]));
        ["currentblockweight", "currentblocktx"].map(|name| info[name].clone())
    };
    assert_eq!(assembled(), [Value::Null, Value::Null]);
    let mined = godwit.call("generatetoaddress", &json!([110, address]));
    assert_eq!(mined.as_array().map(Vec::len), Some(110));
    assert_eq!(assembled(), [json!(8_000), json!(0)]);
    let last = godwit.call("generatetodescriptor", &json!([1, "raw(51)#8lvh9jxk"]));
    assert_eq!(godwit.call("getbestblockhash", &json!([])), last[0]);
    assert_eq!(waiting.join().expect("it answers")["result"]["height"], 111);
    let only_made = godwit.call("generateblock", &json!([address, [], false]));
    assert_eq!(godwit.call("getblockcount", &json!([])), 111);
    let spent = godwit.call("getblock", &json!([last[0], 2]));
    assert_eq!(spent["tx"][0]["vout"][0]["scriptPubKey"]["desc"], "raw(51)#8lvh9jxk");
    let refused = godwit.rpc.try_call("generatetoaddress", &json!([1, "x"]));
    assert!(matches!(refused, Err(RpcError::Refused(error)) if error["code"] == -5));

    let Some(bitcoind) = bitcoind::start(&bitcoind::Start::default()) else { return };
    for height in 1..=111 {
        let hash = godwit.call("getblockhash", &json!([height]));
        let block = godwit.call("getblock", &json!([hash, 0]));
        assert_eq!(bitcoind.rpc.call("submitblock", &json!([block])), Value::Null);
    }
    assert_eq!(bitcoind.rpc.call("submitblock", &json!([only_made["hex"]])), Value::Null);
    assert_eq!(bitcoind.tip(), only_made["hash"].as_str().expect("a hash"));
}

/// More than are handed in at once, and others meanwhile: each block is built on the one before, whoever
/// mined that, and is there when its miner is answered.
#[test]
fn who_mines_beside_others_builds_upon_their_blocks() {
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let address = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
    let mine = |count: usize| {
        let mined = godwit.call("generatetoaddress", &json!([count, address]));
        let hashes: Vec<String> = serde_json::from_value(mined).expect("hashes");
        assert_eq!(hashes.len(), count);
        for hash in [&hashes[0], &hashes[count - 1]] {
            let header = godwit.call("getblockheader", &json!([hash]));
            assert!(header["confirmations"].as_i64() > Some(0), "{header}");
        }
        hashes
    };
    let counts = [600, 20, 1, 1, 300];
    let mined: Vec<String> = std::thread::scope(|scope| {
        let miners = counts.map(|count| scope.spawn(move || mine(count)));
        miners.into_iter().flat_map(|miner| miner.join().expect("it mines")).collect()
    });
    let height = counts.iter().sum::<usize>();
    assert_eq!(godwit.call("getblockcount", &json!([])), height);
    let hash_at = |height: usize| godwit.call("getblockhash", &json!([height]));
    let hash_at = |height| hash_at(height).as_str().map(str::to_owned).expect("a hash");
    let active: BTreeSet<String> = (1..=height).map(hash_at).collect();
    assert!(active == mined.into_iter().collect(), "a block was left");
    assert_eq!(godwit.call("getchaintips", &json!([])).as_array().map(Vec::len), Some(1));
}

#[test]
fn a_node_that_is_told_to_stop_answers_and_ends() {
    let node = Node::new("regtest");
    let mut godwit = Answering::start(&node, &[]);
    let waits = {
        let port = godwit.port;
        std::thread::spawn(move || {
            let body = json!({ "id": 1, "method": "waitfornewblock", "params": [] });
            exchange(port, &post(&body.to_string())).expect("an answer").json()
        })
    };
    wait_until("the call is under way", || {
        let info = godwit.call("getrpcinfo", &json!([]));
        info["active_commands"].as_array().is_some_and(|active| active.len() == 2)
    });
    assert_eq!(godwit.call("stop", &json!([])), "godwit stopping");
    assert_eq!(waits.join().expect("it answers")["result"]["height"], 0);
    assert!(godwit.running.wait().success());
}

#[test]
fn categories_of_the_log_are_turned_on_and_off_as_at_bitcoind() {
    let Some(bitcoind) = bitcoind::start(&bitcoind::Start::default()) else { return };
    let node = Node::new("regtest");
    let mut godwit = Answering::start(&node, &[]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    let asked: Vec<(&str, Value)> = [
        json!([[], ["all"]]),
        json!([]),
        json!([["net"]]),
        json!([["net", "rpc"], ["net"]]),
        json!([["all"], ["zmq", "http"]]),
        json!([["1"]]),
        json!([null, ["1"]]),
        json!([[""]]),
        json!([null, [""]]),
        json!([["libevent"]]),
        json!([["libevent", "net"], ["libevent"]]),
        json!([["LIBEVENT"]]),
        json!([["none"]]),
        json!([["0"]]),
        json!([["coindb", "nonsense", "tor"]]),
        json!([["leveldb"], ["nonsense"]]),
        json!([[1]]),
        json!([[["net"]]]),
        json!([["NET"]]),
        json!([null, null]),
        json!([]),
        json!([[], ["all"]]),
    ]
    .into_iter()
    .map(|params| ("logging", params))
    .collect();
    assert_same(ours, theirs, &asked);

    // A socket that nobody speaks on is a debugging line of this server, in its category and only then.
    let has_line = |godwit: &mut Answering<'_>| godwit.running.log().0.contains("[http] ");
    assert!(!has_line(&mut godwit));
    godwit.call("logging", &json!([["all"]]));
    wait_until("the log has debugging lines", || {
        drop(std::net::TcpStream::connect(("127.0.0.1", ours)));
        let unread = b"POST / HTTP/1.1\r\nHost: x\r\nbroken\r\n\r\n";
        drop(exchange(ours, unread));
        has_line(&mut godwit)
    });
}
