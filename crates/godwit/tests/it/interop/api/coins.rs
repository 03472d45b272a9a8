//! All coins of a running node, beside bitcoind's.

use serde_json::{Value, json};

use super::super::rpc::Rpc;
use super::super::{bitcoind, block, chain};
use super::Answering;
use super::descriptors::{EXTENDED, KEY, OTHER, functions, keys, texts};
use super::methods::assert_same;
use crate::node::Node;

/// What is asked of the coins after each change of the chain.
fn of_the_set() -> Vec<(&'static str, Value)> {
    let mut all: Vec<(&str, Value)> = vec![("gettxoutsetinfo", json!([]))];
    for hash in ["none", "muhash", "hash_serialized_3"] {
        all.push(("gettxoutsetinfo", json!([hash])));
        all.push(("gettxoutsetinfo", json!([hash, null, false])));
    }
    all
}

/// Descriptors of every kind, some with two ways to the same script.
fn wanted() -> Vec<Value> {
    let mut all: Vec<Value> =
        [functions(), keys(), texts()].concat().iter().map(|text| json!(text)).collect();
    let x = |key: &str| key[2..].to_owned();
    let (key, other) = (x(KEY), x(OTHER));
    for text in [
        format!("tr({key},{{pk({KEY}),pk({KEY})}})"),
        format!("tr({key},{{pk({OTHER}),pk({KEY})}})"),
        format!("tr({key},{{multi_a(1,{KEY},{OTHER}),{{pk({other}),pk({key})}}}})"),
        format!(
            "tr({key},{{{{pk({key}),{{pk({KEY}),pk({OTHER})}}}},{{pk({other}),pk({EXTENDED}/1)}}}})"
        ),
        format!("tr({key},{{{{pk({KEY}),pk({OTHER})}},{{pk({OTHER}),pk({KEY})}}}})"),
        format!("tr([d34db33f/1]{key},pk({key}))"),
        format!("multi(1,[d34db33f/1']{KEY},{KEY})"),
        format!("wsh(sortedmulti(1,{OTHER},{EXTENDED}/1/*))"),
    ] {
        all.push(json!(text));
    }
    for range in [
        json!(3),
        json!([2, 4]),
        json!([4, 2]),
        json!(-1),
        json!("x"),
        json!(null),
        json!([0, 1_000_000]),
    ] {
        all.push(json!({ "desc": format!("wpkh({EXTENDED}/0/*)"), "range": range }));
        all.push(json!({ "desc": "raw(51)", "range": range }));
    }
    all.extend([
        json!({}),
        json!({ "desc": 1 }),
        json!({ "desc": null }),
        json!(1),
        json!([]),
        json!(null),
    ]);
    all
}

/// Blocks that pay to the scripts of all descriptors that there are scripts of.
fn pay(godwit: &Answering<'_>, theirs: u16) {
    for object in wanted() {
        let Some(text) = object.as_str() else { continue };
        let Ok(info) = godwit.rpc.try_call("getdescriptorinfo", &json!([text])) else { continue };
        let descriptor = &info["descriptor"];
        let params = match info["isrange"] == true {
            true => json!([descriptor, [0, 1]]),
            false => json!([descriptor]),
        };
        let addresses = godwit.rpc.try_call("deriveaddresses", &params).unwrap_or_default();
        let mut mined = Vec::new();
        for address in addresses.as_array().into_iter().flatten() {
            // With several paths, a list for each.
            let list = address.as_array().cloned().unwrap_or_else(|| vec![address.clone()]);
            for address in list {
                mined.push(godwit.call("generatetoaddress", &json!([1, address])));
            }
        }
        // Scripts without addresses.
        if info["isrange"] == false {
            let made = godwit.rpc.try_call("generatetodescriptor", &json!([1, descriptor]));
            mined.extend(made.ok());
        }
        for hashes in mined {
            let block = godwit.call("getblock", &json!([hashes[0], 0]));
            let submitted = Rpc::new(theirs).call("submitblock", &json!([block]));
            assert_eq!(submitted, Value::Null);
        }
    }
}

#[test]
fn outputs_of_descriptors_are_found_as_bitcoind_finds_them() {
    let Some(bitcoind) = bitcoind::start(&bitcoind::Start::default()) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    pay(&godwit, theirs);
    let mut asked: Vec<(&str, Value)> = Vec::new();
    for object in wanted() {
        asked.push(("scantxoutset", json!(["start", [object]])));
    }
    let several = json!([format!("combo({KEY})"), format!("wpkh({KEY})"), format!("pk({OTHER})")]);
    for params in [
        json!(["start", several]),
        json!(["start", []]),
        json!(["start"]),
        json!(["start", null]),
        json!(["status"]),
        json!(["status", []]),
        json!(["abort"]),
        json!(["nonsense"]),
        json!([""]),
    ] {
        asked.push(("scantxoutset", params));
    }
    assert_same(ours, theirs, &asked);
    let all = godwit.call("scantxoutset", &json!(["start", [format!("combo({KEY})")]]));
    assert!(all["unspents"].as_array().expect("a list").len() > 3, "{all}");
}

fn misuse(tip: &str) -> Vec<(&'static str, Value)> {
    let mut all: Vec<(&str, Value)> = Vec::new();
    for hash in ["", "MUHASH", "hash_serialized_2", "none "] {
        all.push(("gettxoutsetinfo", json!([hash])));
    }
    for block in [json!(0), json!(-1), json!(1_000_000), json!(tip), json!("x"), json!([])] {
        all.push(("gettxoutsetinfo", json!(["muhash", block])));
        all.push(("gettxoutsetinfo", json!(["hash_serialized_3", block])));
        all.push(("gettxoutsetinfo", json!(["none", block, false])));
    }
    all
}

#[test]
fn the_coins_are_counted_as_bitcoind_counts_them() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    let submit = |block: &[u8]| ("submitblock", json!([hex::encode(block)]));
    assert_same(ours, theirs, &of_the_set());
    assert_same(ours, theirs, &misuse(&chain.summary.tip));
    assert_eq!(godwit.call("gettxoutsetinfo", &json!(["muhash"]))["muhash"], chain.muhash);

    // A block that spends, and a branch that takes it back.
    assert_same(ours, theirs, &[submit(&chain.honest_successor())]);
    assert_same(ours, theirs, &of_the_set());
    let mut branch = vec![chain.blocks[chain.blocks.len() - 13].clone()];
    for height in chain.summary.height - 11..=chain.summary.height + 2 {
        let block = block::on(branch.last().expect("it has a block"), height, 5, &[]);
        assert_same(ours, theirs, &[submit(&block)]);
        branch.push(block);
    }
    let tip = chain::hash(branch.last().expect("it has a block"));
    assert_eq!(godwit.call("getbestblockhash", &json!([])), tip);
    assert_same(ours, theirs, &of_the_set());
    assert_same(ours, theirs, &[("invalidateblock", json!([tip]))]);
    assert_same(ours, theirs, &of_the_set());

    // Two at once, while blocks come in: each is of one block.
    let all: Vec<Value> = std::thread::scope(|scope| {
        let ask = || godwit.call("gettxoutsetinfo", &json!(["muhash"]));
        let asking: Vec<_> = (0..2).map(|_| scope.spawn(ask)).collect();
        godwit.call("generatetodescriptor", &json!([5, "raw(51)"]));
        asking.into_iter().map(|asks| asks.join().expect("it answers")).collect()
    });
    let now = godwit.call("gettxoutsetinfo", &json!(["muhash"]));
    for info in all {
        let more = |name: &str| now[name].as_u64().zip(info[name].as_u64()).map(|(a, b)| a - b);
        assert_eq!(more("height"), more("txouts"), "a coinbase each");
        let hash = godwit.call("getblockhash", &json!([info["height"]]));
        assert_eq!(hash, info["bestblock"]);
    }
}
