//! Arguments, good and bad.

use serde_json::{Value, json};

use super::super::chain::{self, RecentChain};
use super::descriptors::of_descriptors;

/// A method and its arguments.
pub(super) type Asked = (&'static str, Value);

const NOTHING: [u8; 32] = [0; 32];

/// What is asked of both nodes; neither changes by it.
pub(super) fn questions(chain: &RecentChain) -> Vec<Asked> {
    [
        plain(),
        of_blocks(chain),
        of_windows(chain),
        of_outputs(chain),
        of_transactions(),
        of_spenders(),
        of_texts(),
        of_descriptors(),
        of_waits(chain),
    ]
    .concat()
}

/// Without arguments.
fn plain() -> Vec<Asked> {
    let mut all: Vec<Asked> = Vec::new();
    for method in [
        "getbestblockhash",
        "getblockchaininfo",
        "getblockcount",
        "getchaintips",
        "getdifficulty",
        "getmempoolinfo",
        "getrawmempool",
        "getmininginfo",
        "getnetworkinfo",
        "getpeerinfo",
        "getconnectioncount",
        "getindexinfo",
        "getdeploymentinfo",
        "getchaintxstats",
        "listbanned",
        "getaddednodeinfo",
        "getchainstates",
        "getnetworkhashps",
        "syncwithvalidationinterfacequeue",
    ] {
        all.push((method, json!([])));
    }
    all
}

/// Blocks, by hashes that are right and wrong.
fn of_blocks(chain: &RecentChain) -> Vec<Asked> {
    let height = chain.height();
    let hash = |height: u64| chain::hash(&chain.blocks[height as usize - 1]);
    let genesis = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206";
    let nothing = hex::encode(NOTHING);
    let (first, middle, tip) = (hash(1), hash(height / 2), hash(height));
    let mut all: Vec<Asked> = Vec::new();
    for height in
        [json!(0), json!(1), json!(height), json!(height + 1), json!(-1), json!(1.5), json!(1e3)]
    {
        all.push(("getblockhash", json!([height])));
        all.push(("getblockstats", json!([height])));
    }
    for hash in [
        genesis,
        &first,
        &middle,
        &tip,
        &nothing,
        "00",
        "zz",
        &"zz".repeat(32),
        &tip.to_uppercase(),
    ] {
        for verbosity in [
            json!(0),
            json!(1),
            json!(2),
            json!(3),
            json!(true),
            json!(false),
            json!(-1),
            json!(9),
            json!("1"),
            json!(null),
            json!(1.5),
        ] {
            all.push(("getblock", json!([hash, verbosity])));
        }
        for verbose in [json!(true), json!(false), json!(1), json!(null)] {
            all.push(("getblockheader", json!([hash, verbose])));
        }
        all.push(("getblock", json!([hash])));
        all.push(("getblockstats", json!([hash])));
        all.push(("getdeploymentinfo", json!([hash])));
        all.push(("getchaintxstats", json!([null, hash])));
        all.push(("gettxout", json!([hash, 0])));
    }
    for height in height.saturating_sub(12)..=height {
        all.push(("getblock", json!([hash(height), 3])));
        all.push(("getblockstats", json!([height])));
    }
    all
}

/// Heights and numbers of blocks.
fn of_windows(chain: &RecentChain) -> Vec<Asked> {
    let height = chain.height();
    let tip = chain::hash(chain.tip());
    let mut all: Vec<Asked> = Vec::new();
    for count in [0, 1, height - 1, height, height + 1] {
        all.push(("getchaintxstats", json!([count])));
        all.push(("getnetworkhashps", json!([count])));
        all.push(("getnetworkhashps", json!([1, count])));
    }
    all.push(("getchaintxstats", json!([-1])));
    all.push(("getnetworkhashps", json!([-1])));
    all.push(("getnetworkhashps", json!([-2])));
    all.push(("getblockstats", json!([tip, ["txs", "height", "totalfee"]])));
    all.push(("getblockstats", json!([tip, ["nonsense"]])));
    all.push(("getblockstats", json!([tip, [1]])));
    all.push(("getblockstats", json!([])));
    all
}

/// Outputs and proofs.
fn of_outputs(chain: &RecentChain) -> Vec<Asked> {
    let tip = chain::hash(chain.tip());
    let (taproot, bare) = (chain.taproot.0, chain.bare[0].0);
    let nothing = hex::encode(NOTHING);
    let mut all: Vec<Asked> = Vec::new();
    for outpoint in [taproot, bare] {
        let txid = outpoint.txid.to_string();
        all.push(("gettxout", json!([txid, outpoint.vout])));
        all.push(("gettxout", json!([txid, outpoint.vout, false])));
        all.push(("gettxout", json!([txid, 4_000_000])));
        all.push(("gettxoutproof", json!([[txid]])));
        all.push(("gettxoutproof", json!([[txid], tip])));
        all.push(("gettxoutproof", json!([[txid, txid]])));
        all.push(("getrawtransaction", json!([txid])));
        all.push(("gettxspendingprevout", json!([[{ "txid": txid, "vout": outpoint.vout }]])));
    }
    all.push(("gettxoutproof", json!([[]])));
    all.push(("gettxoutproof", json!([[nothing]])));
    all.push(("gettxoutproof", json!([[1]])));
    all.push(("gettxspendingprevout", json!([[]])));
    all.push(("gettxout", json!([bare.txid.to_string(), -1])));
    all.push(("verifytxoutproof", json!([""])));
    all.push(("verifytxoutproof", json!(["00"])));
    all.push(("verifytxoutproof", json!(["0g"])));
    // A tree of nothing, below a header with no root and below one with another.
    for header in ["00", "11"] {
        all.push(("verifytxoutproof", json!([header.repeat(80) + &"00".repeat(6)])));
    }
    for verbose in [json!([true]), json!([false, true]), json!([true, true]), json!([1])] {
        all.push(("getrawmempool", verbose));
    }
    all.push(("getmempoolentry", json!([nothing])));
    for hex in ["", "00", "zz", &hex::encode(&chain.blocks[0])] {
        all.push(("decoderawtransaction", json!([hex])));
        all.push(("submitheader", json!([hex])));
    }
    all
}

/// Transactions that can be read in two ways or in none, and fees.
fn of_transactions() -> Vec<Asked> {
    let mut all: Vec<Asked> = Vec::new();
    let plain =
        "0200000001000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f00000000\
                 00ffffffff01e8030000000000000151 00000000"
            .replace(' ', "");
    for hex in [
        // Without inputs: with one output, with none, and what looks like the marker of witnesses.
        "02000000000100e1f505000000000000000000",
        "02000000000000000000",
        "0200000000010000000000",
        "02000000000200e1f505000000000000e1f50500000000015100000000",
        "01000000000100000000000000000000000000",
        &plain,
        // Bytes too many.
        &format!("{plain}00"),
        "02000000000100e1f50500000000000000000000",
        "00000000000000000000ff",
    ] {
        for witness in [json!(null), json!(true), json!(false)] {
            all.push(("decoderawtransaction", json!([hex, witness])));
        }
        all.push(("decoderawtransaction", json!([hex])));
    }
    for (target, mode) in [
        (json!(0), json!(null)),
        (json!(1), json!(null)),
        (json!(6), json!("ECONOMICAL")),
        (json!(1008), json!("unset")),
        (json!(1009), json!(null)),
        (json!(6), json!("x")),
        (json!(0), json!("x")),
        (json!("6"), json!(null)),
        (json!(1.5), json!(null)),
    ] {
        all.push(("estimatesmartfee", json!([target, mode])));
    }
    all
}

/// Outputs of which it is asked who spends them.
fn of_spenders() -> Vec<Asked> {
    let mut all: Vec<Asked> = Vec::new();
    let nothing = hex::encode(NOTHING);
    for outputs in [
        json!([{ "txid": nothing }]),
        json!([{ "vout": 0 }]),
        json!([{ "txid": nothing, "vout": "0" }]),
        json!([{ "txid": 0, "vout": 0 }]),
        json!([{ "txid": nothing, "vout": 0, "x": 1 }]),
        json!([{ "txid": "00", "vout": 0 }]),
        json!([{ "txid": nothing, "vout": -1 }]),
        json!([{ "vout": 7, "txid": nothing }]),
        json!([1]),
        json!([[]]),
    ] {
        all.push(("gettxspendingprevout", json!([outputs])));
    }
    let one = json!([{ "txid": nothing, "vout": 0 }]);
    for options in [
        json!({}),
        json!({ "mempool_only": true }),
        json!({ "mempool_only": false }),
        json!({ "return_spending_tx": true }),
        json!({ "mempool_only": 1 }),
        json!({ "x": 1 }),
    ] {
        all.push(("gettxspendingprevout", json!([one, options])));
    }
    all.push(("gettxspendingprevout", json!({ "outputs": one, "mempool_only": false })));
    all.push(("gettxspendingprevout", json!({ "args": [one], "return_spending_tx": true })));
    all.push((
        "gettxspendingprevout",
        json!({ "outputs": one, "options": {}, "mempool_only": true }),
    ));
    all
}

/// Addresses and scripts.
fn of_texts() -> Vec<Asked> {
    let mut all: Vec<Asked> = Vec::new();
    for text in [
        "",
        "x",
        "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080",
        "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn",
        "2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc",
        "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
        "0OIl",
        "bcrt1pfeesnyr2tx",
        "bcrt1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqc8gma6",
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
        "bcrt1qqqqsyqcyq5rqwzqfpg9scrgwpugpzysnk7ysvv",
        &format!("bcrt1{}", "q".repeat(85)),
        &format!("bcrt1{}", "q".repeat(86)),
        &format!("bcrt1{}", "Q ".repeat(50)),
        "bcrt1Qqqqqqqqqqq",
        "bcrt1qqqqq\u{fc}qq q\u{7f}",
        "BCRT1QQQQQQQQQQq",
        "BCRT1QQQQQQQQQQ",
        "bcrt",
        "bcrtqqqqqqqqqq",
        "bcrt1qqqqq",
        "bcrt1qqqqqq",
        "bcrt1qqqqq1qqqq",
        "bcrt1qqqbqqqiqq",
        "BCRT1QQQBQQQIQQ",
        // One, two and three mistyped characters, of both codes.
        "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt08q",
        "bcrt1qw508d6qejxtdg5y5r3zarvary0c5xw7kygt08q",
        "bcrt1qw508d6qejxtdg5y5r3zarvary0c5xw7kygt0qq",
        "BCRT1QW508D6QEJXTDG5Y5R3ZARVARY0C5XW7KYGT080",
        "bcrt1pqxlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqc8gma6",
        "bcrt1pqxlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqc8gma7",
        "bcrt1pqxlxvlqemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqc8gma7",
    ] {
        all.push(("validateaddress", json!([text])));
    }
    for script in [
        "",
        "51",
        "6a",
        "6a0401020304",
        "zz",
        "4c",
        "76a914000000000000000000000000000000000000000088ac",
        "a914000000000000000000000000000000000000000087",
        "0014000102030405060708090a0b0c0d0e0f10111213",
        "51024e73",
        "5187",
        "522102c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee52102f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f952ae",
        "2102c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5ac",
        "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
        "5120ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "60020000",
        "ba51",
        "0000",
    ] {
        all.push(("decodescript", json!([script])));
    }
    all
}

/// Peers, waits and the program itself.
fn of_waits(chain: &RecentChain) -> Vec<Asked> {
    let (height, tip, nothing) = (chain.height(), chain::hash(chain.tip()), hex::encode(NOTHING));
    let mut all: Vec<Asked> = Vec::new();
    all.push(("getnodeaddresses", json!([-1])));
    all.push(("getnodeaddresses", json!([1, "moon"])));
    all.push(("disconnectnode", json!(["127.0.0.1:1"])));
    all.push(("disconnectnode", json!(["", 77])));
    all.push(("disconnectnode", json!([])));
    all.push(("disconnectnode", json!(["a", 1])));
    all.push(("addnode", json!(["127.0.0.1:1", "remove"])));
    all.push(("getaddednodeinfo", json!(["127.0.0.1:1"])));
    all.push(("waitforblockheight", json!([1])));
    all.push(("waitforblockheight", json!([height + 1, 20])));
    all.push(("waitforblock", json!([tip])));
    all.push(("waitforblock", json!([nothing, 20])));
    all.push(("waitforblock", json!([nothing, -1])));
    all.push(("waitfornewblock", json!([20])));
    all.push(("waitfornewblock", json!([0, nothing])));
    all.push(("getmemoryinfo", json!(["nonsense"])));
    all.push(("getinfo", json!([])));
    all.push(("help", json!(["nonsense"])));
    all.push(("echo", json!(["a", null])));
    all.push(("echo", json!([1, true, { "a": [] }, [null]])));
    all.push(("addnode", json!(["127.0.0.1", "add"])));
    all.push(("addnode", json!(["127.0.0.1", "add"])));
    all.push(("addnode", json!(["not a name!", "add", false])));
    all.push(("addnode", json!(["not a name!", "add"])));
    all.push(("addnode", json!(["127.0.0.1", "nonsense"])));
    all.push(("getaddednodeinfo", json!(["127.0.0.1"])));
    all.push(("getaddednodeinfo", json!(["not a name!"])));
    all.push(("getaddednodeinfo", json!(["127.0.0.1:18444"])));
    all.push(("getaddednodeinfo", json!([])));
    all.push(("addnode", json!(["127.0.0.1", "remove"])));
    all.push(("addnode", json!(["not a name!", "remove"])));
    all.push(("addnode", json!(["not a name!", "remove"])));
    all.push(("addnode", json!(["another name!", "onetry"])));
    // The same host with and without its port: addresses are compared, names are not.
    for (plain, with_port) in [
        ("host.invalid", "host.invalid:18444"),
        ("127.0.0.1", "127.0.0.1:18444"),
        ("::1", "[::1]:18444"),
    ] {
        all.push(("addnode", json!([plain, "add"])));
        all.push(("addnode", json!([with_port, "add"])));
        all.push(("getaddednodeinfo", json!([])));
        all.push(("addnode", json!([plain, "remove"])));
        all.push(("getaddednodeinfo", json!([])));
        all.push(("addnode", json!([with_port, "remove"])));
        all.push(("getaddednodeinfo", json!([])));
    }
    all.push(("getaddednodeinfo", json!([])));
    all.push(("getaddrmaninfo", json!([])));
    all.push(("echojson", json!([1, { "a": [] }])));
    all
}

/// For every method: too few arguments, too many, and all of one type after the other.
pub(super) fn misfits() -> Vec<Asked> {
    let mut all = Vec::new();
    for method in godwit_rpc::METHODS.iter().filter(|method| method.is_present()) {
        // These do something, answer what the program itself is, or are not in Bitcoin Core or not in a
        // bitcoind without libzmq, as the one here is built.
        const APART: [&str; 7] = [
            "stop",
            "rpc.discover",
            "echo",
            "echojson",
            "getrpcinfo",
            "getsyncstatus",
            "getzmqnotifications",
        ];
        if APART.contains(&method.name) {
            continue;
        }
        let most = method.params.len();
        let mut lists = vec![vec![json!(null); most + 1]];
        if method.required() > 0 {
            lists.push(Vec::new());
        }
        for value in [json!({}), json!([]), json!("x"), json!(true)] {
            // This would do something, and the answer to that names the directory.
            let is_apart = value == json!(true) && method.name == "setnetworkactive"
                || value == json!("x") && method.name == "loadtxoutset";
            if most > 0 && !is_apart {
                lists.push(vec![value; most]);
            }
        }
        all.extend(lists.into_iter().map(|list| (method.name, Value::from(list))));
        all.push((method.name, json!({ "nonsense": 1 })));
    }
    all
}
