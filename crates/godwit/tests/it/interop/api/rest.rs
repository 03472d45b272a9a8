//! REST, beside bitcoind's: every resource in every format, with good and bad arguments.

use serde_json::{Value, json};

use super::super::chain::RecentChain;
use super::super::{bitcoind, block, chain, wait_until};
use super::Answering;
use super::differ::compare;
use super::http::{exchange, get};
use crate::node::Node;

/// A target, and what is sent with it.
pub(super) type Request = (String, Vec<u8>);

/// The method that tells the same, where its differences are meant to be.
fn method_of(target: &str) -> &'static str {
    match target {
        _ if target.starts_with("/rest/chaininfo") => "getblockchaininfo",
        _ if target.starts_with("/rest/deploymentinfo") => "getdeploymentinfo",
        _ if target.starts_with("/rest/mempool/info") => "getmempoolinfo",
        _ => "",
    }
}

/// Asks both nodes the same, and tells what is different.
fn differences(ours: u16, theirs: u16, (target, body): &Request) -> Vec<String> {
    let ask = |port| exchange(port, &get(target, body)).expect("an answer");
    let (ours, theirs) = (ask(ours), ask(theirs));
    let mut found = Vec::new();
    if (ours.status, &ours.kind) != (theirs.status, &theirs.kind) {
        let said = |answer: &super::http::Answer| format!("{} {}", answer.status, answer.kind);
        found.push(format!("{} instead of {}", said(&ours), said(&theirs)));
    }
    if ours.kind == "application/json" {
        compare(method_of(target), "", &ours.json(), &theirs.json(), &mut found);
        if ours.body.last() != theirs.body.last() {
            found.push("another end".to_owned());
        }
    } else if ours.body != theirs.body {
        let short =
            |body: &[u8]| String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        found.push(format!("{:?} instead of {:?}", short(&ours.body), short(&theirs.body)));
    }
    let sent = if body.is_empty() { "" } else { " with a body" };
    found.into_iter().map(|what| format!("{target}{sent}: {what}")).collect()
}

#[track_caller]
pub(super) fn assert_same(ours: u16, theirs: u16, asked: &[Request]) {
    let found: Vec<String> =
        asked.iter().flat_map(|request| differences(ours, theirs, request)).collect();
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

const FORMATS: [&str; 9] =
    ["", ".", ".bin", ".hex", ".json", ".xml", ".JSON", ".bin.hex", ".json?x"];

/// What is no hash of a block.
fn no_hashes() -> Vec<String> {
    let text = ["", "0", "x", "a/b", "%30", "../x", "1/2/3", "00-1"].map(str::to_owned);
    text.into_iter()
        .chain(["00".repeat(31), "00".repeat(33), "zz".repeat(32), "00".repeat(32)])
        .collect()
}

/// Everything that is asked by a hash, of these.
fn by_hash(hashes: &[String]) -> Vec<Request> {
    let resources = [
        "tx/",
        "block/",
        "block/notxdetails/",
        "headers/",
        "headers/1/",
        "spenttxouts/",
        "blockfilter/basic/",
        "blockfilterheaders/basic/",
        "blockfilterheaders/basic/3/",
        "blockfilter/x/",
        "deploymentinfo/",
        "deploymentinfo",
    ];
    let mut asked = Vec::new();
    for hash in hashes {
        for format in FORMATS {
            for resource in resources {
                asked.push(format!("/rest/{resource}{hash}{format}"));
            }
            let parts =
                ["?offset=0&size=1", "?offset=79&size=2", "?offset=1&size=99999999", "?size=1"];
            for query in parts {
                asked.push(format!("/rest/blockpart/{hash}{format}{query}"));
            }
        }
    }
    asked.into_iter().map(|target| (target, Vec::new())).collect()
}

/// What has arguments of its own.
fn others(hash: &str, size: usize) -> Vec<Request> {
    let mut asked = Vec::new();
    for format in FORMATS {
        for height in ["0", "1", "-0", "-1", "+1", "99999999", "2147483648", "", "x", "1 ", "1.5"] {
            let height = height.replace(' ', "%20");
            asked.push(format!("/rest/blockhashbyheight/{height}{format}"));
        }
        for rest in
            ["chaininfo", "chaininfox", "mempool/info", "mempool/contents", "mempool/", "mempool/x"]
        {
            asked.push(format!("/rest/{rest}{format}"));
        }
        for count in [
            "1",
            "5",
            "2000",
            "2001",
            "0",
            "",
            "x",
            "%31",
            "1&count=0",
            "1#",
            "%zz",
            "18446744073709551616",
        ] {
            let count = count.trim_end_matches('#');
            asked.push(format!("/rest/headers/{hash}{format}?count={count}"));
            asked.push(format!("/rest/headers/{count}/{hash}{format}"));
            asked.push(format!("/rest/blockfilterheaders/basic/{hash}{format}?count={count}"));
        }
        for (offset, length) in
            [(0, size), (0, size + 1), (size - 1, 1), (size, 1), (size, 0), (80, 1000)]
        {
            asked.push(format!("/rest/blockpart/{hash}{format}?offset={offset}&size={length}"));
            asked.push(format!("/rest/blockpart/{hash}{format}?size={length}&offset={offset}&x"));
        }
    }
    for query in [
        "?verbose=true",
        "?verbose=false",
        "?verbose=x",
        "?verbose=",
        "?mempool_sequence=true",
        "?mempool_sequence=x",
        "?verbose=false&mempool_sequence=true",
        "?verbose=false&mempool_sequence=false",
    ] {
        asked.push(format!("/rest/mempool/contents.json{query}"));
    }
    for query in [
        "?offset=-1&size=1",
        "?offset=&size=1",
        "?offset=1",
        "?offset=18446744073709551615&size=1",
        "?offset=1&size=18446744073709551615",
        "?offset=1&size=0",
    ] {
        asked.push(format!("/rest/blockpart/{hash}.bin{query}"));
    }
    for target in
        ["/rest", "/rest/", "/rest/x", "/rest/block", "/rest/TX/x", "//rest/chaininfo.json", "/x"]
    {
        asked.push(target.to_owned());
    }
    asked.into_iter().map(|target| (target, Vec::new())).collect()
}

/// Coins, by outpoints as paths name them and in a body.
fn coins(outpoints: &[(String, u32)]) -> Vec<Request> {
    let named = |count: usize| {
        let names =
            outpoints.iter().cycle().take(count).map(|(txid, vout)| format!("{txid}-{vout}"));
        names.collect::<Vec<_>>().join("/")
    };
    // With BIP64's first byte, and as bitcoind reads it.
    let body_behind = |first: &[u8], count: u8| {
        let mut body = [first, &[count]].concat();
        for (txid, vout) in outpoints.iter().cycle().take(count.into()) {
            let mut txid = hex::decode(txid).expect("an id");
            txid.reverse();
            body.extend(txid);
            body.extend(vout.to_le_bytes());
        }
        body
    };
    let mut asked = Vec::new();
    for format in FORMATS {
        for count in [1, 2, 7, 8, 9, 15, 16, 40] {
            asked.push((format!("/rest/getutxos/{}{format}", named(count)), Vec::new()));
            asked.push((
                format!("/rest/getutxos/checkmempool/{}{format}", named(count)),
                Vec::new(),
            ));
        }
        for path in [
            "",
            "/",
            "//",
            "/checkmempool",
            "/checkmempool/",
            "/x",
            "/x-1",
            "/x-1-1",
            "/checkmempoolx",
        ] {
            asked.push((format!("/rest/getutxos{path}{format}"), Vec::new()));
        }
        let counts = [0, 1, 2, 6, 7, 8, 15, 16, 100];
        let whole = [&[][..], &[1]].map(|first| counts.map(|count| body_behind(first, count)));
        let odd = [body_behind(&[], 3)[..40].to_vec(), vec![1], b"zz".to_vec(), b"\n".to_vec()];
        for sent in whole.into_iter().flatten().chain(odd) {
            let text = hex::encode(&sent).into_bytes();
            asked.push((format!("/rest/getutxos{format}"), text));
            asked.push((format!("/rest/getutxos/{}{format}", named(1)), sent.clone()));
            asked.push((format!("/rest/getutxos{format}"), sent));
        }
    }
    asked
}

/// Outputs of the last blocks, some of which are spent, and one that never was.
fn outpoints(chain: &RecentChain, godwit: &Answering<'_>) -> Vec<(String, u32)> {
    let mut outpoints = vec![("ab".repeat(32), 7)];
    for block in chain.blocks.iter().rev().step_by(7).take(12) {
        let block = godwit.call("getblock", &json!([chain::hash(block), 1]));
        let txid = block["tx"].as_array().and_then(|txids| txids.last()).and_then(Value::as_str);
        outpoints.extend([0, 1].map(|vout| (txid.expect("a transaction").to_owned(), vout)));
    }
    outpoints
}

#[test]
fn resources_are_answered_as_by_bitcoind() {
    answers_are_the_same(&[]);
}

#[test]
fn resources_of_the_indexes_are_answered_as_by_bitcoind() {
    answers_are_the_same(&["-txindex", "-blockfilterindex=basic"]);
}

/// Both with these options.
fn answers_are_the_same(options: &[&str]) {
    let chain = chain::recent();
    let start = bitcoind::Start { chain: Some(chain), options, ..bitcoind::Start::default() };
    let Some(bitcoind) = bitcoind::start(&start) else { return };
    let node = Node::new("regtest");
    let ours: Vec<String> =
        options.iter().chain(&["-rest=1"]).map(|option| (*option).to_owned()).collect();
    let godwit = Answering::with_chain(&node, chain, &ours);
    for rpc in [&godwit.rpc, &bitcoind.rpc] {
        wait_until("the indexes are there", || {
            let told = rpc.call("getindexinfo", &json!([]));
            let indexes = told.as_object().expect("an object");
            indexes.len() == options.len() && indexes.values().all(|index| index["synced"] == true)
        });
    }
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());

    // Beside the chain: a stale block, and a header without its block.
    let fork = block::on(&chain.blocks[chain.blocks.len() - 3], chain.summary.height - 1, 7, &[]);
    let unknown = block::on(chain.tip(), chain.summary.height + 1, 7, &[]);
    for rpc in [&godwit.rpc, &bitcoind.rpc] {
        rpc.call("submitblock", &json!([hex::encode(&fork)]));
        rpc.call("submitheader", &json!([hex::encode(&unknown[..80])]));
    }
    let genesis = godwit.call("getblockhash", &json!([0]));
    let mut hashes = no_hashes();
    hashes.extend([&fork[..], &unknown, chain.tip()].map(chain::hash));
    hashes.push(genesis.as_str().expect("a hash").to_owned());
    let largest = chain.blocks.iter().max_by_key(|block| block.len()).expect("a block");
    hashes.push(chain::hash(largest).to_uppercase());
    hashes.push(chain::hash(&chain.blocks[chain.blocks.len() - 30]));
    assert_same(ours, theirs, &by_hash(&hashes));
    assert_same(ours, theirs, &others(&chain::hash(largest), largest.len()));
    assert_same(ours, theirs, &coins(&outpoints(chain, &godwit)));

    // Of every block what electrs takes.
    let each = (0..=chain.height()).flat_map(|height| {
        let hash = godwit.call("getblockhash", &json!([height]));
        let hash = hash.as_str().expect("a hash").to_owned();
        [
            format!("/rest/blockhashbyheight/{height}.bin"),
            format!("/rest/headers/2000/{hash}.bin"),
            format!("/rest/block/{hash}.bin"),
            format!("/rest/spenttxouts/{hash}.bin"),
            format!("/rest/spenttxouts/{hash}.json"),
            format!("/rest/blockpart/{hash}.bin?offset=81&size=60"),
            format!("/rest/blockfilter/basic/{hash}.bin"),
            format!("/rest/blockfilterheaders/basic/{hash}.json?count=2000"),
        ]
    });
    assert_same(ours, theirs, &each.map(|target| (target, Vec::new())).collect::<Vec<_>>());

    let block = godwit.call("getblock", &json!([chain::hash(largest), 1]));
    let last = godwit.call("getblock", &json!([chain.summary.tip, 1]));
    let first = godwit.call("getblock", &json!([genesis, 1]));
    let txids = [block, last, first].into_iter().flat_map(|block| {
        block["tx"].as_array().expect("a list").iter().take(40).cloned().collect::<Vec<_>>()
    });
    let each = txids.flat_map(|txid| {
        let txid = txid.as_str().expect("an id").to_owned();
        FORMATS.map(|format| (format!("/rest/tx/{txid}{format}"), Vec::new()))
    });
    assert_same(ours, theirs, &each.collect::<Vec<_>>());
}

#[test]
fn without_the_option_there_are_no_resources() {
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let answer = exchange(godwit.port, &get("/rest/chaininfo.json", b"")).expect("an answer");
    assert_eq!((answer.status, answer.body.len()), (404, 0));
}
