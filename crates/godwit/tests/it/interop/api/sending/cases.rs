//! Good transactions, and one for each reason to refuse one.

use std::collections::BTreeSet;

use godwit_primitives::{OutPoint, Transaction, Txid};
use serde_json::{Value, json};

use super::super::super::rpc::Rpc;
use super::Both;
use super::transactions::{CoinHere, TRUE, Tx, to_true};

/// Bytes of a public key that is one.
const KEY: [u8; 33] = [
    0x02, 0x79, 0xbe, 0x66, 0x7e, 0xf9, 0xdc, 0xbb, 0xac, 0x55, 0xa0, 0x62, 0x95, 0xce, 0x87, 0x0b,
    0x07, 0x02, 0x9b, 0xfc, 0xdb, 0x2d, 0xce, 0x28, 0xd9, 0x59, 0xf2, 0x81, 0x5b, 0x16, 0xf8, 0x17,
    0x98,
];

const P2SH_TRUE: [u8; 23] = [
    0xa9, 20, 0xda, 0x17, 0x45, 0xe9, 0xb5, 0x49, 0xbd, 0x0b, 0xfa, 0x1a, 0x56, 0x99, 0x71, 0xc7,
    0x7e, 0xba, 0x30, 0xcd, 0x5a, 0x4b, 0x87,
];

type Change = fn(&mut Transaction);

/// What is wrong with a transaction that would else be good, and what makes it so.
const CHANGES: &[(&str, Change)] = &[
    ("version 0", |tx| tx.version = 0),
    ("version 4", |tx| tx.version = 4),
    ("a negative version", |tx| tx.version = u32::MAX),
    ("no output", |tx| tx.outputs.clear()),
    ("a negative output", |tx| tx.outputs[0].value = -1),
    ("too large an output", |tx| tx.outputs[0].value = 2_100_000_000_000_001),
    ("too large a sum", |tx| {
        tx.outputs[0].value = 2_100_000_000_000_000;
        tx.outputs.push(tx.outputs[0].clone());
    }),
    ("an input twice", |tx| tx.inputs.push(tx.inputs[0].clone())),
    ("a null outpoint beside another", |tx| {
        tx.inputs.push(tx.inputs[0].clone());
        tx.inputs[1].prevout = OutPoint::NULL;
    }),
    ("a coinbase", |tx| {
        tx.inputs[0].prevout = OutPoint::NULL;
        tx.inputs[0].script_sig = vec![1, 2, 3];
    }),
    ("a coinbase with a long script", |tx| {
        tx.inputs[0].prevout = OutPoint::NULL;
        tx.inputs[0].script_sig = vec![0; 101];
    }),
    ("too much weight", |tx| {
        let output = tx.outputs[0].clone();
        tx.outputs.extend(std::iter::repeat_n(output, 2_400));
    }),
    ("an input script that is too long", |tx| {
        tx.inputs[0].script_sig = [&[0x4d, 0x70, 0x06][..], &[0; 0x670]].concat();
    }),
    ("an input script that does something", |tx| tx.inputs[0].script_sig = vec![0x61]),
    ("an unknown kind of output", |tx| tx.outputs[0].script_pubkey = vec![0x75, 0x51]),
    ("an empty output script", |tx| tx.outputs[0].script_pubkey = Vec::new()),
    ("one of four keys", |tx| {
        let keys = std::iter::repeat_n([&[33][..], &KEY].concat(), 4).flatten();
        let script: Vec<u8> = [0x51].into_iter().chain(keys).chain([0x54, 0xae]).collect();
        tx.outputs[0].script_pubkey = script;
    }),
    ("two outputs of dust", |tx| {
        let mut dust = tx.outputs[0].clone();
        dust.value = 329;
        tx.outputs.extend([dust.clone(), dust]);
    }),
    ("dust and a fee", |tx| {
        let mut dust = tx.outputs[0].clone();
        dust.value = 329;
        tx.outputs.push(dust);
    }),
    ("64 bytes", |tx| {
        tx.outputs[0].script_pubkey = vec![0x6a, 2, 1, 1];
        tx.outputs[0].value = 0;
    }),
    ("a height to come", |tx| tx.lock_time = 1_000_000),
    ("a time to come", |tx| tx.lock_time = u32::MAX),
    ("an age in blocks to come", |tx| tx.inputs[0].sequence = 0xffff),
    ("an age in time to come", |tx| tx.inputs[0].sequence = 0x0040_ffff),
    ("an unknown coin", |tx| tx.inputs[0].prevout.txid = Txid::from_bytes([7; 32])),
    ("an output that its transaction has not", |tx| tx.inputs[0].prevout.vout = 9),
    ("more out than in", |tx| tx.outputs[0].value = 5_000_000_001),
    ("no fee", |tx| tx.outputs[0].value = 5_000_000_000),
    ("a satoshi too little", |tx| tx.outputs[0].value = 5_000_000_000 - 9),
    ("another script than the hash's", |tx| tx.inputs[0].witness = vec![vec![0x52]]),
    ("no witness", |tx| tx.inputs[0].witness.clear()),
    ("an empty script of a witness", |tx| tx.inputs[0].witness = vec![Vec::new()]),
    ("something left on the stack", |tx| tx.inputs[0].witness.insert(0, vec![1])),
    ("a long item of a witness", |tx| tx.inputs[0].witness.insert(0, vec![1; 81])),
    ("an input script beside a witness", |tx| tx.inputs[0].script_sig = vec![0x51]),
];

/// Each by itself.
pub(super) fn alone(both: &mut Both<'_>) -> Vec<String> {
    let mut found = Vec::new();
    // The median time past below the first ones is that of the genesis block.
    let coin = (0..20).map(|_| both.coins.take()).last().expect("twenty");
    for (what, change) in CHANGES {
        let tx = Tx::spending(coin).paying(1_000).with(*change);
        both.try_and_send(what, &tx, &mut found);
    }
    let young = Tx::spending(both.coins.young()).paying(1_000);
    both.try_and_send("a young coinbase", &young, &mut found);
    kinds(both, &mut found);
    let good = Tx::spending(coin).paying(1_000);
    both.try_and_send("a good one", &good, &mut found);
    both.try_and_send("the same again", &good, &mut found);
    let other = good.clone().with(|tx| tx.inputs[0].witness.insert(0, vec![1]));
    both.try_and_send("the same with another witness", &other, &mut found);
    let child = Tx::spending(good.output(0)).paying(2_000);
    both.try_and_send("its child", &child, &mut found);
    let locked = child.clone().with(|tx| tx.inputs[0].sequence = 1);
    both.try_and_send("a child that has to wait a block", &locked, &mut found);
    replaced(both, coin, &child, &mut found);
    beside_something_cheap(both, &mut found);
    confirmed(both, &mut found);
    brood(both, &mut found);
    found
}

/// Replacements that spend from a large transaction that pays little.
fn beside_something_cheap(both: &mut Both<'_>, found: &mut Vec<String>) {
    let cheap = (0..93)
        .fold(Tx::spending(both.coins.take()), |tx, _| tx.with_output(1_000, &to_true()))
        .paying(1_000);
    let (coin, other) = (both.coins.take(), both.coins.take());
    // All of the 1,000 satoshi of its output are left to the miner.
    let spending = |coin, n| Tx::spending(coin).with_input(cheap.output(n));
    for (what, tx) in [
        ("something large and cheap", cheap.clone()),
        ("what will be replaced", Tx::spending(coin).paying(1_000)),
        ("a replacement that spends something large and cheap", spending(coin, 1).paying(1_100)),
        ("one that pays for both", spending(coin, 1).paying(60_000)),
        ("a child of something large and cheap", spending(other, 2).paying(2_000)),
        ("a better one", spending(other, 2).paying(5_000)),
    ] {
        both.try_and_send(what, &tx, found);
    }
}

/// Many that spend from one, and what nobody can spend.
fn brood(both: &mut Both<'_>, found: &mut Vec<String>) {
    let parent = (0..8)
        .fold(Tx::spending(both.coins.take()), |tx, _| tx.with_output(10_000, &to_true()))
        .with_output(0, &[0x6a, 1, 7])
        .paying(2_000);
    both.try_and_send("a parent of many", &parent, found);
    for n in 1..=8 {
        let child = Tx::spending(parent.output(n)).paying(1_000);
        both.try_and_send("one of many children", &child, found);
    }
    let lost = Tx::spending(parent.output(0)).with_input(parent.output(9)).paying(1_000);
    let lost = lost.with(|tx| tx.inputs[1].witness.clear());
    both.try_and_send("spending what nobody can spend", &lost, found);
}

/// Outputs of several kinds in a block, and what spends them.
fn kinds(both: &mut Both<'_>, found: &mut Vec<String>) {
    let anchor = [0x51, 2, 0x4e, 0x73];
    let unknown_witness = [&[0x52, 32][..], &[9; 32]].concat();
    let from = Tx::spending(both.coins.take())
        .paying(10_000)
        .with_output(10_000, &[0x75, 0x51])
        .with_output(10_000, &P2SH_TRUE)
        .with_output(10_000, &anchor)
        .with_output(10_000, &unknown_witness)
        .with_output(10_000, &TRUE);
    both.mine_with(&[&from]);
    let bare = |n: usize| {
        Tx::spending(from.output(n)).paying(1_000).with(|tx| tx.inputs[0].witness.clear())
    };
    let with_script =
        |n: usize, script: &[u8]| bare(n).with(|tx| tx.inputs[0].script_sig = script.to_vec());
    let with_witness = |n: usize| bare(n).with(|tx| tx.inputs[0].witness = vec![vec![1]]);
    for (what, tx) in [
        ("spending an unknown kind", bare(1)),
        ("spending P2SH without a script", bare(2)),
        ("spending P2SH with another script", with_script(2, &[1, 0x52])),
        ("spending P2SH with a push that is not minimal", with_script(2, &[0x4c, 1, 0x51])),
        (
            "spending P2SH with a witness",
            with_script(2, &[1, 0x51]).with(|tx| {
                tx.inputs[0].witness = vec![vec![1]];
            }),
        ),
        ("spending P2SH", with_script(2, &[1, 0x51])),
        ("spending an anchor with a witness", with_witness(3)),
        ("spending an anchor", bare(3)),
        ("spending a witness program to come", with_witness(4)),
        ("spending a bare OP_TRUE", bare(5)),
    ] {
        both.try_and_send(what, &tx, found);
    }
}

/// Replacements of a transaction with a child: together they pay 3,000.
fn replaced(both: &Both<'_>, coin: CoinHere, child: &Tx, found: &mut Vec<String>) {
    for (what, tx) in [
        ("a replacement for less", Tx::spending(coin).paying(2_999)),
        ("a replacement for nothing more", Tx::spending(coin).paying(3_000)),
        ("a replacement for a satoshi too little", Tx::spending(coin).paying(3_009)),
        (
            "a replacement that spends what it replaces",
            Tx::spending(coin).with_input(child.output(0)).paying(90_000),
        ),
        (
            "a replacement with a lower rate",
            (0..90)
                .fold(Tx::spending(coin), |tx, _| tx.with_output(1_000, &to_true()))
                .paying(4_000),
        ),
        ("a replacement", Tx::spending(coin).paying(3_100)),
        ("what was replaced", Tx::spending(coin).paying(1_000)),
    ] {
        both.try_and_send(what, &tx, found);
    }
}

/// What is in a block is not taken again.
fn confirmed(both: &mut Both<'_>, found: &mut Vec<String>) {
    let tx = Tx::spending(both.coins.take()).paying(1_000);
    both.try_and_send("one that will be confirmed", &tx, found);
    both.mine_with(&[&tx]);
    both.try_and_send("a confirmed one", &tx, found);
    let again = Tx::spending(CoinHere { value: tx.output(0).value + 1_000, ..coin_of(&tx) });
    both.try_and_send("a spent coin", &again.paying(5_000), found);
}

fn coin_of(tx: &Tx) -> CoinHere {
    CoinHere { outpoint: tx.0.inputs[0].prevout, value: 0 }
}

fn hexes(txs: &[&Tx]) -> Value {
    json!(txs.iter().map(|tx| tx.hex()).collect::<Vec<_>>())
}

/// Several at once.
pub(super) fn together(both: &mut Both<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut family = |parent_fee: i64, child_fee: i64| {
        let parent = Tx::spending(both.coins.take()).paying(parent_fee);
        let child = Tx::spending(parent.output(0)).paying(child_fee);
        (parent, child)
    };
    let (parent, child) = family(1_000, 1_000);
    let (free, sponsor) = family(0, 3_000);
    let (poor, miser) = family(0, 5);
    let (third, fourth) = family(1_000, 1_000);
    let (heir, late) = family(1_000, 1_000);
    let stranger =
        Tx::spending(CoinHere { value: 5_000_000_000, ..coin_of(&parent) }).paying(2_000);
    let broken = child.clone().with(|tx| tx.inputs[0].witness = vec![vec![0x52]]);
    let grandchild = Tx::spending(child.output(0)).paying(1_000);
    let adult = Tx::spending(heir.output(0)).with(|tx| tx.version = 3).paying(1_000);
    let truc = third.clone().with(|tx| tx.version = 3);
    let of_truc = Tx::spending(truc.output(0)).paying(1_000);
    let ephemeral = free.clone().with_output(0, &[0x51, 2, 0x4e, 0x73]);
    let spender = Tx::spending(ephemeral.output(0)).paying(3_000);
    let spends_dust = spender.clone().with_input(ephemeral.output(1)).with(|tx| {
        tx.inputs[1].witness.clear();
    });
    for package in [
        hexes(&[&parent, &child]),
        hexes(&[&child, &parent]),
        hexes(&[&parent, &parent]),
        hexes(&[&parent, &stranger]),
        hexes(&[&parent, &third]),
        hexes(&[&parent, &broken]),
        hexes(&[&broken, &parent]),
        hexes(&[&free, &sponsor]),
        hexes(&[&ephemeral, &spender]),
        hexes(&[&parent, &child, &grandchild]),
        hexes(&[&late]),
        json!([]),
        hexes(&[&parent; 26]),
        json!(["00"]),
        json!([1]),
    ] {
        found.extend(both.differences("testmempoolaccept", &json!([package])));
        // It might be taken in part.
        let is_refused = package.as_array().is_some_and(|all| all.len() != 2);
        if is_refused && package != hexes(&[&late]) {
            found.extend(both.differences("submitpackage", &json!([package])));
        }
    }
    let submitted = [
        hexes(&[&child, &parent]),
        hexes(&[&parent, &parent]),
        hexes(&[&parent, &third]),
        hexes(&[&poor, &miser]),
        hexes(&[&ephemeral, &spender]),
        hexes(&[&ephemeral, &spends_dust]),
        hexes(&[&parent, &broken]),
        hexes(&[&parent, &child]),
        hexes(&[&parent, &child]),
        hexes(&[&third]),
        hexes(&[&third, &fourth]),
        hexes(&[&late]),
        hexes(&[&heir, &late]),
    ];
    of_version_3(both, &[hexes(&[&truc, &of_truc]), hexes(&[&heir, &adult])]);
    submit(both, &submitted, &mut found);
    replacing(both, &mut found);
    found
}

/// Members that replace what waits, and each other.
fn replacing(both: &mut Both<'_>, found: &mut Vec<String>) {
    let [coin, of_grand, of_other, of_last] = std::array::from_fn(|_| both.coins.take());
    let host = Tx::spending(coin).paying(1_000);
    let with_fee = |fee| Tx::spending(host.output(0)).paying(fee);
    let (guest, poor, better) = (with_fee(1_000), with_fee(1_005), with_fee(3_000));
    // The first parent replaces `other`, and leaves for the second one, which replaces what it spends from.
    let [grand, other] = [of_grand, of_other].map(|coin| Tx::spending(coin).paying(1_000));
    let first = Tx::spending(grand.output(0)).with_input(of_other).paying(3_000);
    let first = first.with(|tx| tx.outputs[0].value += of_other.value);
    let second = Tx::spending(of_grand).paying(9_000);
    let child = |one: &Tx, two: &Tx| {
        let tx = Tx::spending(one.output(0)).with_input(two.output(0)).paying(1_000);
        tx.with(|tx| tx.outputs[0].value += two.output(0).value)
    };
    // Likewise, where the first parent is there.
    let last = Tx::spending(of_last).paying(1_000);
    let there = Tx::spending(last.output(0)).paying(1_000);
    let leaves = Tx::spending(of_last).paying(9_000);
    let submitted = [
        hexes(&[&host, &guest]),
        hexes(&[&host, &poor]),
        hexes(&[&host, &better]),
        hexes(&[&host, &host, &better]),
        hexes(&[&grand]),
        hexes(&[&other]),
        hexes(&[&first, &second, &child(&first, &second)]),
        hexes(&[&last]),
        hexes(&[&there]),
        hexes(&[&there, &leaves, &child(&there, &leaves)]),
    ];
    submit(both, &submitted, found);
}

/// In a package bitcoind refuses all of it for a rule about version 3, godwit the one that breaks it.
fn of_version_3(both: &Both<'_>, packages: &[Value]) {
    for package in packages {
        let asked = json!([package]);
        let ours = both.godwit.call("testmempoolaccept", &asked);
        let theirs = both.bitcoind.rpc.call("testmempoolaccept", &asked);
        assert_eq!(ours[1]["reject-reason"], "TRUC-violation", "{ours} {theirs}");
        assert_eq!(ours[1]["reject-details"], theirs[1]["package-error"]);
    }
}

/// One after the other, and what is left after each.
fn submit(both: &Both<'_>, packages: &[Value], found: &mut Vec<String>) {
    for package in packages {
        found.extend(both.differences("submitpackage", &json!([package])));
        let waiting = |rpc: &Rpc| {
            let list = rpc.call("getrawmempool", &json!([]));
            let txids = list.as_array().into_iter().flatten();
            txids.map(Value::to_string).collect::<BTreeSet<_>>()
        };
        // bitcoind's are in the order in which they would be mined.
        if waiting(&both.godwit.rpc) != waiting(&both.bitcoind.rpc) {
            found.push(format!("other transactions wait after {package}"));
        }
    }
}

/// What is told of those that wait.
pub(super) fn pool(both: &Both<'_>) -> Vec<String> {
    let mut found = both.differences("getmempoolinfo", &json!([]));
    found.extend(both.differences("getmininginfo", &json!([])));
    let waiting = both.godwit.call("getrawmempool", &json!([]));
    let waiting: Vec<&str> =
        waiting.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(waiting.len() > 5, "{waiting:?}");
    for txid in waiting {
        found.extend(both.differences("getmempoolentry", &json!([txid])));
        let json = both.godwit.call("getrawtransaction", &json!([txid, 1]));
        for verbosity in 0..=2 {
            found.extend(both.differences("getrawtransaction", &json!([txid, verbosity])));
        }
        for of_pool in [true, false] {
            found.extend(both.differences("gettxout", &json!([txid, 0, of_pool])));
            for input in json["vin"].as_array().into_iter().flatten() {
                let spent = json!([input["txid"], input["vout"], of_pool]);
                found.extend(both.differences("gettxout", &spent));
            }
        }
        let input = json!({ "txid": json["vin"][0]["txid"], "vout": json["vin"][0]["vout"] });
        for options in
            [json!({}), json!({ "return_spending_tx": true }), json!({ "mempool_only": false })]
        {
            let asked = json!([[input.clone(), { "txid": txid, "vout": 77 }], options.clone()]);
            found.extend(both.differences("gettxspendingprevout", &asked));
            found.extend(
                both.differences("gettxspendingprevout", &json!([[input.clone()], options])),
            );
        }
    }
    found.extend(activity(both));
    found
}

/// What blocks and what waits do with the script of all coins; the latter in each node's own order.
fn activity(both: &Both<'_>) -> Vec<String> {
    let tip = both.godwit.call("getbestblockhash", &json!([]));
    let objects = [format!("addr({})", both.coins.address)];
    let mut counts = Vec::new();
    for params in [
        json!([[], objects]),
        json!([[tip], objects, true]),
        json!([[tip], objects, null]),
        json!([[tip], objects, false]),
        json!([[], ["raw(51)"]]),
    ] {
        let of = |rpc: &Rpc| {
            let answer = rpc.call("getdescriptoractivity", &params);
            let events = answer["activity"].as_array().expect("a list").iter();
            let mut events: Vec<String> = events.map(ToString::to_string).collect();
            events.sort();
            events
        };
        let (ours, theirs) = (of(&both.godwit.rpc), of(&both.bitcoind.rpc));
        counts.push(ours.len());
        if ours != theirs {
            return vec![format!("getdescriptoractivity {params}: {ours:?} instead of {theirs:?}")];
        }
    }
    assert!(counts[0] > 10 && counts[1] > counts[0] && counts[3] < counts[0], "{counts:?}");
    Vec::new()
}

/// Limits that the caller sets, and arguments that are none.
pub(super) fn arguments(both: &mut Both<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let coin = both.coins.take();
    let dear = Tx::spending(coin).paying(2_000_000);
    let burnt = Tx::spending(coin).paying(1_000).with_output(70_000, &[0x6a, 1, 7]);
    let rates = [
        json!(0),
        json!("0"),
        json!(0.1),
        json!("0.1"),
        json!(1),
        json!(0.99999999),
        json!(-1),
        json!("x"),
        json!(""),
        json!(true),
        json!([]),
        json!(1e-9),
        json!("1e-8"),
        json!("0e-9"),
        json!("0e10"),
        json!(22_000_000),
        json!(null),
    ];
    for rate in &rates {
        let what = json!([[dear.hex()], rate]);
        found.extend(both.differences("testmempoolaccept", &what));
        if rate != &json!(0) && rate != &json!("0") {
            for tx in [&dear.hex(), "00"] {
                if rate.as_f64().is_none_or(|rate| rate < 0.99) && rate != "0.1" {
                    found.extend(both.differences("sendrawtransaction", &json!([tx, rate])));
                }
            }
        }
        found.extend(both.differences("submitpackage", &json!([["00"], rate])));
        found.extend(both.differences("submitpackage", &json!([["00"], null, rate])));
    }
    for most in [json!(0), json!(0.0006), json!("0.00069999"), json!(-1), json!("x"), json!({})] {
        found.extend(both.differences("sendrawtransaction", &json!([burnt.hex(), null, most])));
        found.extend(both.differences("submitpackage", &json!([[burnt.hex()], null, most])));
    }
    for method in ["sendrawtransaction", "testmempoolaccept", "submitpackage"] {
        for params in [
            json!([]),
            json!([1]),
            json!([null]),
            json!([""]),
            json!(["x"]),
            json!([[]]),
            json!([{}]),
            json!(["00", 0, 0, 0]),
            json!([["zz"]]),
            json!([[""]]),
            json!([[null]]),
        ] {
            found.extend(both.differences(method, &params));
        }
    }
    let sent = [json!([burnt.hex(), null, 0.0007]), json!([burnt.hex(), null, "0.0007"])];
    found.extend(sent.iter().flat_map(|sent| both.differences("sendrawtransaction", sent)));
    found
}
