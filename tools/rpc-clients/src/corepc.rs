//! `corepc-client`, as for Bitcoin Core 31: each reply is read into the type for that version, and that
//! into the model of all versions where there is one.

#![allow(deprecated)] // 0.18 names corepc-regtest-client as its successor; people still build on this one.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::thread;
use std::time::{Duration, Instant};

use bitcoin::hashes::Hash;
use bitcoin::{Amount, Block, BlockHash, OutPoint, Transaction};
use corepc_client::client_sync::Auth;
use corepc_client::client_sync::v31::{AddNodeCommand, Client, FeeEstimateMode, SetBanCommand};
use corepc_client::types::model;

use crate::{Node, anyone, somebody, spend};

/// What failed, and what was called.
#[derive(Default)]
struct Calls {
    failures: RefCell<Vec<&'static str>>,
    called: RefCell<BTreeSet<&'static str>>,
}

impl Calls {
    fn take<T, E: Display>(&self, method: &'static str, result: Result<T, E>) -> Option<T> {
        self.called.borrow_mut().insert(method);
        let failed = |error: E| {
            // At once, as what goes on without the reply may panic.
            eprintln!("{method}: {error}");
            self.failures.borrow_mut().push(method);
        };
        result.map_err(failed).ok()
    }

    /// Bitcoin Core took this field out of the reply after 31, and godwit has what Core has now: the type
    /// refuses the reply for this field, and for nothing before it.
    fn lacks<T, E: Debug>(&self, method: &'static str, field: &str, result: Result<T, E>) {
        self.called.borrow_mut().insert(method);
        let error = result.err().map(|error| format!("{error:?}")).unwrap_or_default();
        assert!(error.contains(&format!("missing field `{field}`")), "{method}: {error}");
    }

    /// Prints what was called, and fails if anything did.
    fn end(self) {
        for method in self.called.take() {
            println!("called {method}");
        }
        let failures = self.failures.take();
        assert!(failures.is_empty(), "failures: {failures:?}");
    }
}

/// A reply as it is typed.
macro_rules! typed {
    ($calls:expr, $method:literal, $reply:expr) => {
        $calls.take($method, $reply.map_err(|error| format!("{error:?}")))
    };
}

/// A reply in the model of all versions.
macro_rules! model {
    ($calls:expr, $method:literal, $reply:expr) => {
        typed!($calls, $method, $reply).and_then(|reply| {
            $calls.take($method, reply.into_model().map_err(|error| format!("model: {error:?}")))
        })
    };
}

fn client(node: &Node) -> Client {
    let auth = Auth::UserPass(node.user.clone(), node.password.clone());
    Client::new_with_auth(&node.url, auth).expect("a client")
}

/// On a node with `-txindex`, `-blockfilterindex`, a ZeroMQ publisher, one peer, and what Core brings back
/// with `-deprecatedrpc` (`bip125`, `fullrbf`), still without blocks.
pub(crate) fn every_method(node: &Node) {
    let calls = Calls::default();
    let client = client(node);
    check_version(&client);
    mining(&calls, &client);
    let coin = coins(&client)[0];
    // As it is, and after a reorganisation.
    for _ in 0..2 {
        wait_for_indexes(&client);
        chain(&calls, &client);
        blocks(&calls, &client);
        searches(&calls, &client);
        transactions(&calls, &client);
        branches(&calls, &client);
    }
    sending(&calls, &client, coin);
    util(&calls, &client);
    network(&calls, &client);
    waiting(&calls, &client, node);
    let snapshot = format!("{}/utxo.dat", node.directory);
    let dumped = model!(calls, "dumptxoutset", client.dump_tx_out_set(&snapshot, "latest"));
    assert_eq!(dumped.map(|dumped| dumped.base_hash), client.best_block_hash().ok());
    typed!(calls, "stop", client.stop());
    calls.end();
}

/// On a node with `-prune=1` and 1,200 blocks.
pub(crate) fn of_a_pruned_node(node: &Node) {
    let calls = Calls::default();
    let client = client(node);
    let info = model!(calls, "getblockchaininfo", client.get_blockchain_info()).expect("an answer");
    assert!(info.pruned);
    typed!(calls, "pruneblockchain", client.prune_blockchain(800));
    calls.end();
}

/// 31, or Core's branch towards 32, so that the same calls can be tried on a bitcoind.
fn check_version(client: &Client) {
    let version = client.server_version().expect("a version");
    assert!([310_000, 310_100, 319_900].contains(&version), "{version}");
}

fn tip(client: &Client) -> BlockHash {
    client.best_block_hash().expect("a hash")
}

fn wait_for_indexes(client: &Client) {
    let started = Instant::now();
    let height = client.get_block_count().expect("a height").0;
    let is_behind = || {
        let info = client.get_index_info().expect("indexes").0;
        info.len() != 2 || info.values().any(|index| u64::from(index.best_block_height) != height)
    };
    while is_behind() {
        assert!(started.elapsed() < Duration::from_secs(60), "the indexes are behind");
        thread::sleep(Duration::from_millis(20));
    }
}

fn mining(calls: &Calls, client: &Client) {
    let mined = model!(calls, "generatetoaddress", client.generate_to_address(105, &anyone()));
    assert_eq!(mined.map(|mined| mined.len()), Some(105));
    let descriptor = client.get_descriptor_info("raw(51)").expect("a descriptor").descriptor;
    let mined =
        model!(calls, "generatetodescriptor", client.generate_to_descriptor(5, &descriptor));
    assert_eq!(mined.map(|mined| mined.len()), Some(5));
    let made = model!(calls, "generateblock", client.generate_block(&descriptor, &[], false));
    let block: Block = made.and_then(|made| made.hex).expect("a block");
    typed!(calls, "submitheader", client.submit_header(&block.header));
    typed!(calls, "submitblock", client.submit_block(&block));
    assert_eq!(tip(client), block.block_hash());
    model!(calls, "getmininginfo", client.get_mining_info());
    typed!(calls, "getnetworkhashps", client.get_network_hash_ps());
}

/// Outputs of the first blocks, which anyone may spend.
fn coins(client: &Client) -> [(OutPoint, Amount); 2] {
    [1, 2].map(|height| {
        let hash = client.get_block_hash(height).expect("a block").block_hash().expect("a hash");
        let coinbase = client.get_block(hash).expect("a block").txdata[0].clone();
        (OutPoint::new(coinbase.compute_txid(), 0), coinbase.output[0].value)
    })
}

fn chain(calls: &Calls, client: &Client) {
    let best = model!(calls, "getbestblockhash", client.get_best_block_hash()).map(|best| best.0);
    assert_eq!(best, Some(tip(client)));
    let count = typed!(calls, "getblockcount", client.get_block_count()).expect("a height").0;
    let info = model!(calls, "getblockchaininfo", client.get_blockchain_info()).expect("an answer");
    assert_eq!((u64::from(info.blocks), Some(info.best_block_hash)), (count, best));
    let states = model!(calls, "getchainstates", client.get_chain_states()).expect("an answer");
    assert_eq!(states.chain_states.len(), 1);
    model!(calls, "getchaintips", client.get_chain_tips());
    model!(calls, "getchaintxstats", client.get_chain_tx_stats());
    typed!(calls, "getdifficulty", client.get_difficulty());
    model!(calls, "getdeploymentinfo", client.get_deployment_info_tip());
    model!(calls, "getdeploymentinfo", client.get_deployment_info(&tip(client)));
    typed!(calls, "verifychain", client.verify_chain()).map(|whole| assert!(whole.0));
    let set = model!(calls, "gettxoutsetinfo", client.get_tx_out_set_info()).expect("an answer");
    assert_eq!((u64::from(set.height), Some(set.best_block)), (count, best));
    typed!(calls, "getmemoryinfo", client.get_memory_info());
    typed!(calls, "getrpcinfo", client.get_rpc_info());
    typed!(calls, "help", client.help());
    calls.lacks("logging", "libevent", client.logging());
    typed!(calls, "uptime", client.uptime());
    let index = typed!(calls, "getindexinfo", client.get_index_info()).expect("an answer");
    assert!(index.0["txindex"].synced);
    let zmq = typed!(calls, "getzmqnotifications", client.get_zmq_notifications());
    assert_eq!(zmq.map(|zmq| zmq.len()), Some(1));
    typed!(
        calls,
        "syncwithvalidationinterfacequeue",
        client.sync_with_validation_interface_queue()
    );
}

fn blocks(calls: &Calls, client: &Client) {
    let best = tip(client);
    let hash = model!(calls, "getblockhash", client.get_block_hash(110)).expect("a hash").0;
    let header = model!(calls, "getblockheader", client.get_block_header(&best)).expect("a header");
    assert_eq!(header.0.block_hash(), best);
    model!(calls, "getblockheader", client.get_block_header_verbose(&hash));
    let block = model!(calls, "getblock", client.get_block_verbose_zero(best)).expect("a block");
    assert_eq!(block.0.block_hash(), best);
    let one = model!(calls, "getblock", client.get_block_verbose_one(best)).expect("a block");
    assert_eq!(one.tx, block.0.txdata.iter().map(Transaction::compute_txid).collect::<Vec<_>>());
    model!(calls, "getblock", client.get_block_verbose_two(best));
    model!(calls, "getblock", client.get_block_verbose_three(best));
    model!(calls, "getblockfilter", client.get_block_filter(best));
    model!(calls, "getblockstats", client.get_block_stats_by_height(110, None));
    model!(calls, "getblockstats", client.get_block_stats_by_block_hash(&best, None));
    typed!(calls, "preciousblock", client.precious_block(best));
}

fn searches(calls: &Calls, client: &Client) {
    let object = format!("addr({})", anyone());
    assert!(typed!(calls, "scantxoutset", client.scan_tx_out_set_status()).flatten().is_none());
    typed!(calls, "scantxoutset", client.scan_tx_out_set_abort());
    let found = model!(calls, "scantxoutset", client.scan_tx_out_set_start(&[&object]));
    assert_eq!(found.map(|found| (found.success, found.unspents.len())), Some((true, 105)));
    assert!(typed!(calls, "scanblocks", client.scan_blocks_status()).flatten().is_none());
    typed!(calls, "scanblocks", client.scan_blocks_abort());
    let found = model!(calls, "scanblocks", client.scan_blocks_start(&[&object]));
    let found = found.expect("an answer").relevant_blocks;
    assert!(found.len() >= 105, "{}", found.len());
    model!(calls, "getdescriptoractivity", client.get_descriptor_activity(&found[..3], &[&object]))
        .map(|activity| assert_eq!(activity.activity.len(), 3));
}

fn transactions(calls: &Calls, client: &Client) {
    let [(coin, value), _] = coins(client);
    let raw = model!(calls, "getrawtransaction", client.get_raw_transaction(coin.txid));
    let raw = raw.expect("a transaction").0;
    assert_eq!(raw.compute_txid(), coin.txid);
    model!(calls, "getrawtransaction", client.get_raw_transaction_verbose(coin.txid));
    let decoded = model!(calls, "decoderawtransaction", client.decode_raw_transaction(&raw));
    assert_eq!(decoded.map(|decoded| decoded.0), Some(raw));
    model!(calls, "decodescript", client.decode_script("51"));
    let output = model!(calls, "gettxout", client.get_tx_out(coin.txid, 0)).expect("unspent");
    assert_eq!((output.tx_out.value, output.coinbase), (value, true));
    let proof = typed!(calls, "gettxoutproof", client.get_tx_out_proof(&[coin.txid]));
    let proof = proof.expect("a proof");
    let proved = model!(calls, "verifytxoutproof", client.verify_tx_out_proof(&proof));
    assert_eq!(proved.map(|proved| proved.0), Some(vec![coin.txid]));
}

/// Three blocks are left for four others.
fn branches(calls: &Calls, client: &Client) {
    let left = tip(client);
    let height = client.get_block_count().expect("a height").0;
    let first = client.get_block_hash(height - 2).expect("a hash").block_hash().expect("a hash");
    typed!(calls, "invalidateblock", client.invalidate_block(first));
    // The second time the first branch is taken up, which is one block shorter.
    assert!(client.get_block_count().expect("a height").0 < height);
    client.generate_to_address(4, &somebody(2)).expect("blocks");
    let other = tip(client);
    let status_of_left = || {
        let tips = model!(calls, "getchaintips", client.get_chain_tips()).expect("tips").0;
        tips.iter().find(|end| end.hash == left).map(|end| end.status)
    };
    assert_eq!(status_of_left(), Some(model::ChainTipsStatus::Invalid));
    typed!(calls, "reconsiderblock", client.reconsider_block(first));
    assert_eq!(tip(client), other);
    assert_eq!(status_of_left(), Some(model::ChainTipsStatus::ValidFork));
}

fn sending(calls: &Calls, client: &Client, (coin, value): (OutPoint, Amount)) {
    let parent = spend(coin, value);
    let child = spend(OutPoint::new(parent.compute_txid(), 0), parent.output[0].value);
    let txids = [&parent, &child].map(Transaction::compute_txid);
    let tried = model!(
        calls,
        "testmempoolaccept",
        client.test_mempool_accept(std::slice::from_ref(&parent))
    );
    assert!(tried.expect("an answer").results[0].allowed);
    let sent = model!(calls, "sendrawtransaction", client.send_raw_transaction(&parent));
    assert_eq!(sent.map(|sent| sent.0), Some(txids[0]));
    let package = [parent.clone(), child.clone()];
    let package = model!(calls, "submitpackage", client.submit_package(&package, None, None));
    assert_eq!(package.expect("an answer").package_msg, "success");
    model!(calls, "getmempoolentry", client.get_mempool_entry(txids[0]));
    model!(calls, "getmempoolinfo", client.get_mempool_info());
    let all = model!(calls, "getrawmempool", client.get_raw_mempool()).expect("a list").0;
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(txids));
    model!(calls, "getrawmempool", client.get_raw_mempool_verbose());
    model!(calls, "getrawmempool", client.get_raw_mempool_sequence());
    let spent = model!(calls, "gettxspendingprevout", client.get_tx_spending_prevout(&[coin]));
    assert_eq!(spent.expect("an answer").0[0].spending_txid, Some(txids[0]));
    // In a block, and out of it again.
    let raw = [&parent, &child].map(|tx| bitcoin::consensus::encode::serialize_hex(tx));
    let mined =
        model!(calls, "generateblock", client.generate_block(&somebody(3).to_string(), &raw, true));
    let mined = mined.expect("a block").hash;
    assert_eq!(client.get_block(mined).expect("a block").txdata.len(), 3);
    let output = model!(calls, "gettxout", client.get_tx_out(txids[1], 0)).expect("unspent");
    assert_eq!(output.confirmations, 1);
    let stats = model!(calls, "getblockstats", client.get_block_stats_by_block_hash(&mined, None));
    assert_eq!(stats.map(|stats| stats.total_fee), Some(Some(Amount::from_sat(2_000))));
    model!(calls, "getblock", client.get_block_verbose_two(mined));
    model!(calls, "getblock", client.get_block_verbose_three(mined));
}

fn util(calls: &Calls, client: &Client) {
    let key = TEST_KEY;
    let checked = |descriptor: &str| {
        let info = typed!(calls, "getdescriptorinfo", client.get_descriptor_info(descriptor));
        info.expect("a descriptor")
    };
    let single = checked(&format!("wpkh({key}/0/1)")).descriptor;
    let derived = model!(calls, "deriveaddresses", client.derive_addresses(&single));
    assert_eq!(derived.map(|derived| derived.addresses.len()), Some(1));
    let branches = checked(&format!("wpkh({key}/<0;1>/*)"));
    let multipath = format!("wpkh({key}/<0;1>/*)#{}", branches.checksum);
    let derived =
        model!(calls, "deriveaddresses", client.derive_addresses_multipath(&multipath, (0, 2)));
    assert!(derived.is_some());
    let address = model!(calls, "validateaddress", client.validate_address(&anyone()));
    assert!(address.is_some_and(|address| address.is_valid));
    model!(calls, "estimatesmartfee", client.estimate_smart_fee(6));
    model!(
        calls,
        "estimatesmartfee",
        client.estimate_smart_fee_with_mode(6, FeeEstimateMode::Economical)
    );
}

/// BIP32's second test vector.
const TEST_KEY: &str = "tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB9jusQ46QzG87VKp";

fn network(calls: &Calls, client: &Client) {
    let info = model!(calls, "getnetworkinfo", client.get_network_info()).expect("an answer");
    assert!(info.subversion.starts_with("/Satoshi:31."));
    let count = typed!(calls, "getconnectioncount", client.get_connection_count());
    assert_eq!(count.map(|count| count.0), Some(1));
    let peers = typed!(calls, "getpeerinfo", client.get_peer_info()).expect("peers").0;
    assert_eq!(peers.len(), 1);
    typed!(calls, "getnettotals", client.get_net_totals());
    typed!(calls, "getaddrmaninfo", client.get_addr_man_info());
    typed!(calls, "getnodeaddresses", client.get_node_addresses());
    typed!(calls, "ping", client.ping());
    // A block that neither has.
    let made = client.generate_block(&anyone().to_string(), &[], false).expect("a block");
    let block = made.into_model().expect("a block").hex.expect("a block");
    client.submit_header(&block.header).expect("taken");
    let from = client.get_block_from_peer(block.block_hash(), peers[0].id);
    typed!(calls, "getblockfrompeer", from);
    typed!(calls, "setban", client.set_ban("192.0.2.0/24", SetBanCommand::Add));
    let banned = typed!(calls, "listbanned", client.list_banned());
    assert_eq!(banned.map(|banned| banned.0.len()), Some(1));
    typed!(calls, "setban", client.set_ban("192.0.2.0/24", SetBanCommand::Remove));
    typed!(calls, "clearbanned", client.clear_banned());
    let absent = "127.0.0.1:1";
    typed!(calls, "addnode", client.add_node(absent, AddNodeCommand::Add));
    let added = typed!(calls, "getaddednodeinfo", client.get_added_node_info());
    assert!(added.is_some_and(|added| added.0.iter().any(|node| node.added_node == absent)));
    typed!(calls, "addnode", client.add_node(absent, AddNodeCommand::Remove));
    typed!(calls, "addnode", client.add_node(absent, AddNodeCommand::OneTry));
    typed!(calls, "disconnectnode", client.disconnect_node(&peers[0].address));
    typed!(calls, "setnetworkactive", client.set_network_active(false));
    typed!(calls, "setnetworkactive", client.set_network_active(true));
}

fn waiting(calls: &Calls, client: &Client, node: &Node) {
    let best = tip(client);
    let known = model!(calls, "waitforblock", client.wait_for_block(&best)).expect("an answer");
    assert_eq!(known.hash, best);
    let known =
        model!(calls, "waitforblockheight", client.wait_for_block_height(u64::from(known.height)));
    assert_eq!(known.map(|known| known.hash), Some(best));
    let next = thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let client = self::client(node);
            client.wait_for_new_block().map(|new| new.into_model().expect("a model"))
        });
        let started = Instant::now();
        let waits_now = || {
            let info = client.get_rpc_info().expect("an answer");
            info.active_commands.iter().any(|command| command.method == "waitfornewblock")
        };
        while !waits_now() {
            assert!(started.elapsed() < Duration::from_secs(60), "nobody waits");
            thread::sleep(Duration::from_millis(10));
        }
        client.generate_to_address(1, &somebody(4)).expect("a block");
        waits.join().expect("an answer")
    });
    let next = typed!(calls, "waitfornewblock", next).expect("an answer");
    assert_eq!(next.hash, tip(client));
    assert_ne!(next.hash, BlockHash::all_zeros());
}
