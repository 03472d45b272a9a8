//! The optional indexes, beside bitcoind's.

use godwit::exit::Exit;
use godwit_primitives::{Block, OutPoint, TxOut, Txid};
use serde_json::{Value, json};

use super::super::FILTERS;
use super::super::chain::RecentChain;
use super::super::process::ForeignNode;
use super::super::{bitcoind, block, chain, wait_until};
use super::methods::assert_same;
use super::{Answering, RpcError};
use crate::node::Node;
use crate::running::Running;

const TXINDEX: &str = "-txindex";
const COIN_STATS: &str = "-coinstatsindex";

/// Waits until an index is at a height.
#[track_caller]
fn wait_for_index(godwit: &Answering<'_>, name: &str, height: u64) {
    wait_until("the index is there", || {
        let info = &godwit.call("getindexinfo", &json!([]))[name];
        info["synced"] == true && info["best_block_height"] == height
    });
}

/// Waits until an index is there in both nodes.
#[track_caller]
fn wait_for_both(godwit: &Answering<'_>, bitcoind: &ForeignNode, name: &str, height: u64) {
    wait_for_index(godwit, name, height);
    wait_until("bitcoind's index is there", || {
        bitcoind.rpc.call("getindexinfo", &json!([]))[name]["synced"] == true
    });
}

fn txids(block: &[u8]) -> Vec<Txid> {
    Block::from_bytes(block).expect("a block").view().txids().to_vec()
}

/// Every way to ask for the transactions of a block without naming it.
fn without_block(block: &[u8]) -> Vec<(&'static str, Value)> {
    let ask = |txid: String| {
        [
            ("getrawtransaction", json!([txid])),
            ("getrawtransaction", json!([txid, 1])),
            ("getrawtransaction", json!([txid, 2])),
            ("gettxoutproof", json!([[txid]])),
        ]
    };
    txids(block).iter().flat_map(|txid| ask(txid.to_string())).collect()
}

fn of_no_transaction(chain: &RecentChain) -> Vec<(&'static str, Value)> {
    let genesis = "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b";
    let known = txids(chain.tip())[0].to_string();
    vec![
        ("getrawtransaction", json!(["00".repeat(32)])),
        ("getrawtransaction", json!(["00".repeat(32), 2])),
        ("getrawtransaction", json!([genesis, 1])),
        ("getrawtransaction", json!([known, 1, "00".repeat(32)])),
        ("getrawtransaction", json!([known, 1, chain::hash(&chain.blocks[3])])),
        ("gettxoutproof", json!([["00".repeat(32)]])),
        ("gettxoutproof", json!([["00".repeat(32), known]])),
        ("getindexinfo", json!([])),
        ("getindexinfo", json!(["txindex"])),
        ("getindexinfo", json!(["coinstatsindex"])),
        ("getindexinfo", json!([1])),
    ]
}

#[test]
fn transactions_are_found_as_bitcoind_finds_them() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[TXINDEX]) else { return };
    let node = Node::new("regtest");
    let options = [TXINDEX.to_owned()];
    let mut godwit = Answering::with_chain(&node, chain, &options);
    let theirs = bitcoind.rpc.port();
    wait_for_both(&godwit, &bitcoind, "txindex", chain.height());
    assert_same(godwit.port, theirs, &of_no_transaction(chain));
    for block in chain.blocks.iter().step_by(13).chain(chain.blocks.last()) {
        assert_same(godwit.port, theirs, &without_block(block));
    }

    // A branch of empty blocks takes the place of the last three, and one more goes away again.
    let fork = chain.blocks.len() - 3;
    let mut branch = vec![chain.blocks[fork - 1].clone()];
    for height in (fork as u32 + 1..).take(4) {
        branch.push(block::on(branch.last().expect("it has a block"), height, 5, &[]));
    }
    for block in &branch[1..] {
        assert_same(godwit.port, theirs, &[("submitblock", json!([hex::encode(block)]))]);
    }
    let tip = chain::hash(&branch[4]);
    for block in chain.blocks[fork..].iter().chain(&branch[1..]) {
        assert_same(godwit.port, theirs, &without_block(block));
    }
    assert_same(godwit.port, theirs, &[("invalidateblock", json!([tip]))]);
    assert_same(godwit.port, theirs, &without_block(&branch[4]));
    assert_same(
        godwit.port,
        theirs,
        &[("getindexinfo", json!([])), ("reconsiderblock", json!([tip]))],
    );
    assert_same(godwit.port, theirs, &of_no_transaction(chain));

    // After a clean end, and after a kill with a block that came in between.
    godwit.running.terminate();
    let mut godwit = Answering::start(&node, &options);
    wait_for_index(&godwit, "txindex", chain.height() + 1);
    for block in chain.blocks[fork - 5..].iter().chain(&branch[1..]) {
        assert_same(godwit.port, theirs, &without_block(block));
    }
    let above = block::on(&branch[4], chain.summary.height + 2, 5, &[]);
    assert_same(godwit.port, theirs, &[("submitblock", json!([hex::encode(&above)]))]);
    assert_same(godwit.port, theirs, &without_block(&above));
    assert!(godwit.running.kill());
    let godwit = Answering::start(&node, &options);
    // It may have been killed before the block was durable.
    godwit.call("submitblock", &json!([hex::encode(&above)]));
    wait_for_index(&godwit, "txindex", chain.height() + 2);
    for block in chain.blocks.iter().rev().step_by(23).chain(&branch[1..]).chain([&above]) {
        assert_same(godwit.port, theirs, &without_block(block));
    }
    assert_same(godwit.port, theirs, &of_no_transaction(chain));
}

#[test]
fn filters_are_bitcoind_s() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[FILTERS]) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[FILTERS.to_owned()]);
    let theirs = bitcoind.rpc.port();
    let name = "basic block filter index";
    wait_for_both(&godwit, &bitcoind, name, chain.height());
    let filters = |blocks: &[Vec<u8>]| -> Vec<(&'static str, Value)> {
        blocks.iter().map(|block| ("getblockfilter", json!([chain::hash(block)]))).collect()
    };
    let others = [
        ("getblockfilter", json!([godwit.call("getblockhash", &json!([0]))])),
        ("getblockfilter", json!([chain.summary.tip, "basic"])),
        ("getblockfilter", json!([chain.summary.tip, "extended"])),
        ("getblockfilter", json!([chain.summary.tip, 1])),
        ("getblockfilter", json!(["00".repeat(32)])),
        ("getblockfilter", json!(["zz"])),
        ("getindexinfo", json!([])),
        ("getindexinfo", json!([name])),
    ];
    assert_same(godwit.port, theirs, &filters(&chain.blocks));
    assert_same(godwit.port, theirs, &others);
    // A branch takes the place of the last three blocks; of another one, only the header is known.
    let fork = chain.blocks.len() - 3;
    let mut branch = vec![chain.blocks[fork - 1].clone()];
    for height in (fork as u32 + 1..).take(4) {
        branch.push(block::on(branch.last().expect("it has a block"), height, 5, &[]));
    }
    for block in &branch[1..] {
        assert_same(godwit.port, theirs, &[("submitblock", json!([hex::encode(block)]))]);
    }
    let unconnected = block::on(chain.tip(), chain.summary.height + 1, 6, &[]);
    let header = json!([hex::encode(&unconnected[..80])]);
    assert_same(godwit.port, theirs, &[("submitheader", header)]);
    assert_same(godwit.port, theirs, &filters(&chain.blocks[fork - 2..]));
    assert_same(godwit.port, theirs, &filters(&[&branch[1..], &[unconnected]].concat()));
    assert_same(godwit.port, theirs, &others);
}

/// What the index has of a block, asked for by its hash.
fn of_blocks(blocks: &[Vec<u8>]) -> Vec<(&'static str, Value)> {
    let ask = |block: &Vec<u8>| ("gettxoutsetinfo", json!(["muhash", chain::hash(block)]));
    blocks.iter().map(ask).collect()
}

/// All heights, the tip, and what is refused.
fn of_heights(tip: u64) -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    for height in 0..=tip {
        all.push(("gettxoutsetinfo", json!(["muhash", height])));
        all.push(("gettxoutsetinfo", json!(["none", height])));
    }
    for hash in ["muhash", "none", "hash_serialized_3", "other"] {
        all.push(("gettxoutsetinfo", json!([hash])));
        for place in [json!(tip), json!(tip + 1), json!(-1), json!("00".repeat(32)), json!("zz")] {
            all.push(("gettxoutsetinfo", json!([hash, place])));
            all.push(("gettxoutsetinfo", json!([hash, place, true])));
            all.push(("gettxoutsetinfo", json!([hash, place, false])));
        }
        all.push(("gettxoutsetinfo", json!([hash, null, false])));
        all.push(("gettxoutsetinfo", json!([hash, null, 1])));
    }
    all.extend([
        ("gettxoutsetinfo", json!([])),
        ("getindexinfo", json!([])),
        ("getindexinfo", json!(["coinstatsindex"])),
    ]);
    all
}

/// A block that spends a coin to scripts of all kinds: some that nobody can satisfy, one of them beyond
/// the limit of length and one right at it. Fees are left, as `block::on` has it.
fn wasteful(chain: &RecentChain, parent: &[u8], height: u32) -> Vec<u8> {
    let (outpoint, satoshi) = chain.bare[0];
    let mut spend = block::spend(outpoint, satoshi - 20_000, Vec::new());
    for (value, script) in [
        (3_000, vec![0x6a]),
        (2_000, vec![0x51; 10_000]),
        (500, vec![0x51; 10_001]),
        (700, Vec::new()),
        (0, vec![0x6a, 1, 1]),
    ] {
        spend.outputs.push(TxOut { value, script_pubkey: script });
    }
    block::on(parent, height, 9, &[spend])
}

#[test]
fn the_coins_after_any_block_are_bitcoind_s() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[COIN_STATS]) else { return };
    let node = Node::new("regtest");
    let options = [COIN_STATS.to_owned()];
    let mut godwit = Answering::with_chain(&node, chain, &options);
    let theirs = bitcoind.rpc.port();
    let name = "coinstatsindex";
    wait_for_both(&godwit, &bitcoind, name, chain.height());
    assert_same(godwit.port, theirs, &of_heights(chain.height()));
    let submit = |block: &[u8]| ("submitblock", json!([hex::encode(block)]));

    // Three blocks on the tip, and then a branch of five, where another one spends that coin.
    let on_tip = |wasteful_at: u32, count: u32, nonce: u8| {
        let mut blocks = vec![chain.tip().to_vec()];
        for n in 1..=count {
            let (parent, height) = (&blocks[n as usize - 1], chain.summary.height + n);
            blocks.push(match n == wasteful_at {
                true => wasteful(chain, parent, height),
                false => block::on(parent, height, nonce, &[]),
            });
        }
        blocks.split_off(1)
    };
    let left = on_tip(1, 3, 4);
    assert_same(godwit.port, theirs, &[submit(&left[0])]);
    let info = godwit.call("gettxoutsetinfo", &json!(["none"]));
    let unspendables = &info["block_info"]["unspendables"];
    for (kind, satoshi) in [("scripts", 3_500), ("unclaimed_rewards", 13_800), ("bip30", 0)] {
        assert_eq!(unspendables[kind].as_f64(), Some(f64::from(satoshi) / 1e8), "{info}");
    }
    assert_same(godwit.port, theirs, &of_heights(chain.height() + 1));
    let branch = on_tip(2, 5, 5);
    for block in left[1..].iter().chain(&branch) {
        assert_same(godwit.port, theirs, &[submit(block)]);
    }
    let tip = chain.height() + 5;
    assert_same(godwit.port, theirs, &of_heights(tip));
    assert_same(godwit.port, theirs, &of_blocks(&[&left[..], &branch[..]].concat()));
    let unconnected = block::on(chain.tip(), chain.summary.height + 1, 6, &[]);
    let header = json!([hex::encode(&unconnected[..80])]);
    assert_same(godwit.port, theirs, &[("submitheader", header)]);
    assert_same(godwit.port, theirs, &of_blocks(&[unconnected]));
    let above = json!([chain::hash(&branch[4])]);
    assert_same(godwit.port, theirs, &[("invalidateblock", above.clone())]);
    assert_same(godwit.port, theirs, &of_heights(tip - 1));
    assert_same(godwit.port, theirs, &[("reconsiderblock", above)]);
    assert_same(godwit.port, theirs, &of_heights(tip));

    // After a clean end, and after a kill.
    for kills in [false, true] {
        match kills {
            true => assert!(godwit.running.kill()),
            false => _ = godwit.running.terminate(),
        }
        godwit = Answering::start(&node, &options);
        for block in &branch {
            // It may have been killed before they were durable.
            godwit.call("submitblock", &json!([hex::encode(block)]));
        }
        wait_for_index(&godwit, name, tip);
        assert_same(godwit.port, theirs, &of_heights(tip));
        // Bitcoin Core forgets none of those that were left, and godwit the latest thousand.
        assert_same(godwit.port, theirs, &of_blocks(&left));
    }
}

/// A branch is connected up to its bad end, and then left; and blocks of one height come and go.
#[test]
fn what_was_connected_for_a_moment_is_found_as_bitcoind_finds_it() {
    let chain = chain::recent();
    let options = [TXINDEX, FILTERS, COIN_STATS];
    let Some(bitcoind) = bitcoind::with_chain(chain, &options) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &options.map(str::to_owned));
    let theirs = bitcoind.rpc.port();
    for name in ["txindex", "coinstatsindex", "basic block filter index"] {
        wait_for_both(&godwit, &bitcoind, name, chain.height());
    }
    let fork = chain.blocks.len() - 5;
    let mut branch = vec![chain.blocks[fork - 1].clone()];
    for height in (fork as u32 + 1..).take(5) {
        branch.push(block::on(&branch[branch.len() - 1], height, 5, &[]));
    }
    let nowhere = OutPoint { txid: Txid::from_bytes([9; 32]), vout: 0 };
    let bad = block::spend(nowhere, 1_000, Vec::new());
    branch.push(block::on(&branch[5], chain.summary.height + 1, 5, &[bad]));
    let submit = |block: &[u8]| ("submitblock", json!([hex::encode(block)]));
    for block in &branch[1..] {
        assert_same(godwit.port, theirs, &[submit(block)]);
    }
    assert_same(godwit.port, theirs, &[("getbestblockhash", json!([]))]);
    let filter = |block: &Vec<u8>| ("getblockfilter", json!([chain::hash(block)]));
    let all_of = |blocks: &[Vec<u8>]| {
        let mut asked = of_blocks(blocks);
        asked.extend(blocks.iter().map(filter));
        asked.extend(blocks.iter().flat_map(|block| without_block(block)));
        asked
    };
    assert_same(godwit.port, theirs, &all_of(&branch[1..6]));
    assert_same(godwit.port, theirs, &[filter(&branch[6])]);
    for nonce in 11..20 {
        let block = block::on(chain.tip(), chain.summary.height + 1, nonce, &[]);
        let hash = json!([chain::hash(&block)]);
        assert_same(godwit.port, theirs, &[submit(&block), ("invalidateblock", hash)]);
        assert_same(godwit.port, theirs, &all_of(&[block]));
    }
    assert_same(godwit.port, theirs, &all_of(&chain.blocks[fork..]));
}

#[test]
fn without_an_index_a_transaction_is_found_by_its_block_alone() {
    let chain = chain::recent();
    let node = Node::new("regtest");
    let mut godwit = Answering::with_chain(&node, chain, &[TXINDEX.to_owned()]);
    wait_for_index(&godwit, "txindex", chain.height());
    let txid = txids(chain.tip())[0].to_string();
    assert!(godwit.call("getrawtransaction", &json!([txid])).is_string());
    godwit.running.terminate();
    // The index is turned off: its directory stays, and nobody asks it.
    let mut godwit = Answering::start(&node, &[]);
    let refused = godwit.rpc.try_call("getrawtransaction", &json!([txid]));
    assert!(matches!(refused, Err(RpcError::Refused(error)) if error["code"] == -5));
    assert_eq!(godwit.call("getindexinfo", &json!([])), json!({}));
    let above = block::on(chain.tip(), chain.summary.height + 1, 5, &[]);
    godwit.call("submitblock", &json!([hex::encode(&above)]));
    godwit.running.terminate();
    // Turned on again, it goes on from where it was. It follows without an RPC server as well.
    let mut running = Running::start(&node, &[&TXINDEX, &"-server=0", &"-connect=0", &"-listen=0"]);
    wait_until("the index is there", || {
        let line = format!("txindex is enabled at height {}", chain.height() + 1);
        running.log().0.contains(&line)
    });
    running.terminate();
    let mut godwit = Answering::start(&node, &["-txindex".to_owned(), "-reindex".to_owned()]);
    wait_for_index(&godwit, "txindex", chain.height() + 1);
    let txid = txids(&above)[0].to_string();
    assert!(godwit.call("getrawtransaction", &json!([txid])).is_string());
    godwit.running.terminate();
    node.run(&[&TXINDEX, &"-prune=550", &"-connect=0"]).expect(Exit::Configuration);
}
