//! Real chains against what Bitcoin Core said of every height.

use std::collections::HashMap;
use std::path::Path;

use godwit_chain::{Chain, Connected, Event, Totals, insert_coin, remove_coin};
use godwit_primitives::muhash::MuHash3072;
use godwit_primitives::network::Network;
use godwit_primitives::{Block, BlockView, Coin, OutPoint, ReversedHex, coin};
use godwit_testdata::{read, shared_data};
use serde_json::Value;

use crate::datadir::{import_file, open, records, submit};

/// The coins and their statistics kept by adding and removing what each block creates and spends:
/// independent of the coins store.
#[derive(Clone)]
struct Running {
    coins: HashMap<OutPoint, Coin>,
    muhash: MuHash3072,
    totals: Totals,
}

impl Running {
    fn new() -> Self {
        Self { coins: HashMap::new(), muhash: MuHash3072::new(), totals: Totals::default() }
    }

    fn connect(&mut self, block: BlockView<'_>, height: u32) {
        for (n, tx) in block.txs().enumerate() {
            if n > 0 {
                tx.inputs().for_each(|input| self.spend(&input.prevout));
            }
            for (vout, output) in tx.outputs().enumerate() {
                if coin::is_unspendable(output.script_pubkey) {
                    continue;
                }
                let outpoint = OutPoint { txid: tx.txid(), vout: vout as u32 };
                let coin = Coin {
                    value: output.value,
                    script_pubkey: output.script_pubkey.into(),
                    height,
                    coinbase: n == 0,
                };
                self.create(outpoint, coin);
            }
        }
    }

    fn spend(&mut self, outpoint: &OutPoint) {
        let coin = self.coins.remove(outpoint).expect("it was created before");
        remove_coin(&mut self.muhash, outpoint, &coin);
        self.totals.txouts -= 1;
        self.totals.bogosize -= coin::bogo_size(coin.script_pubkey.len());
        self.totals.total_amount -= coin.value;
    }

    fn create(&mut self, outpoint: OutPoint, coin: Coin) {
        insert_coin(&mut self.muhash, &outpoint, &coin);
        self.totals.txouts += 1;
        self.totals.bogosize += coin::bogo_size(coin.script_pubkey.len());
        self.totals.total_amount += coin.value;
        self.coins.insert(outpoint, coin);
    }
}

fn golden(dir: &Path, name: &str) -> Vec<Value> {
    let text = read(dir.join("chains").join(name));
    let lines = String::from_utf8(text).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn check_height(chain: &Chain, connected: &Connected, running: &Running, golden: &Value) {
    let id = chain.tree().find(&connected.point.hash).unwrap();
    let node = chain.tree().node(id);
    let height = connected.point.height;
    assert_eq!(golden["height"], height);
    assert_eq!(golden["hash"], node.hash.to_string());
    assert_eq!(golden["chainwork"], format!("{:064x}", chain.tree().chain_work(id)));
    assert_eq!(golden["mediantime"], chain.tree().median_time_past(id), "height {height}");
    assert_eq!(golden["ntx"], node.tx_count, "height {height}");
    assert_eq!(golden["txouts"], running.totals.txouts, "height {height}");
    assert_eq!(golden["bogosize"], running.totals.bogosize, "height {height}");
    assert_eq!(golden["total_amount_sat"], running.totals.total_amount, "height {height}");
    let muhash = ReversedHex(&running.muhash.clone().finalize()).to_string();
    assert_eq!(golden["muhash"], muhash, "height {height}");
}

/// Imports the chain with scripts on and compares every height; then the store's own statistics.
fn agrees_with_core(chain_file: &str, golden_file: &str, network: Network) {
    let Some(dir) = shared_data() else { return };
    let golden = golden(&dir, golden_file);
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("chain.dat");
    let bytes = read(dir.join("chains").join(chain_file));
    std::fs::write(&file, &bytes).unwrap();
    let blocks = records(&bytes).into_iter().map(|block| Block::from_bytes(block).unwrap());
    let blocks: HashMap<_, _> = blocks.map(|block| (block.hash(), block)).collect();
    let mut chain = open(&temp.path().join("datadir"), network);
    let mut running = Running::new();
    let mut heights = 0;
    let (_, bad) = import_file(&mut chain, &file, |chain, event| {
        let Event::Connected(connected) = event else { panic!("only connects") };
        heights += 1;
        assert_eq!(connected.point.height, heights);
        running.connect(blocks[&connected.point.hash].view(), heights);
        check_height(chain, &connected, &running, &golden[heights as usize]);
    });
    assert_eq!(bad, []);
    let last = golden.last().unwrap();
    assert_eq!(last["height"], heights);
    let stats = chain.utxo_stats().unwrap();
    assert_eq!(stats.totals, running.totals);
    assert_eq!(last["muhash"], ReversedHex(&stats.muhash).to_string());
    known_hash_serialized(
        &dir,
        chain_file,
        heights,
        &ReversedHex(&stats.hash_serialized).to_string(),
    );
}

fn known_hash_serialized(dir: &Path, chain_file: &str, height: u32, hash: &str) {
    let known = std::fs::read(dir.join("utxo/known_utxo_hashes.json")).unwrap();
    let known: Value = serde_json::from_slice(&known).unwrap();
    let network = chain_file.split('_').next().unwrap();
    let Some(entries) = known[network].as_array() else { return };
    let entry = entries.iter().find(|entry| entry["height"] == height);
    assert_eq!(entry.expect("the tip's hash is known")["txoutset_hash"], hash);
}

#[test]
fn testnet3_agrees_with_core_at_every_height() {
    let (chain, golden) = ("testnet3_1_2500.dat.zst", "golden_testnet3_0_2500.jsonl.zst");
    agrees_with_core(chain, golden, Network::Testnet3);
}

#[test]
fn mainnet_agrees_with_core_at_every_height() {
    let (chain, golden) = ("mainnet_0_299.dat.zst", "golden_mainnet_0_299.jsonl.zst");
    agrees_with_core(chain, golden, Network::Main);
}

#[test]
fn signet_agrees_with_core_at_every_height() {
    let (chain, golden) = ("signet_0_60.dat.zst", "golden_signet_0_60.jsonl.zst");
    agrees_with_core(chain, golden, Network::Signet);
}

#[test]
fn regtest_agrees_with_core_at_every_height() {
    let (chain, golden) = ("regtest_0_150.dat.zst", "golden_regtest_0_150.jsonl.zst");
    agrees_with_core(chain, golden, Network::Regtest);
}

/// Every height where `hash_serialized_3` is known, by the store.
#[test]
fn hash_serialized_agrees_with_core_where_it_is_known() {
    let Some(dir) = shared_data() else { return };
    let known: Value =
        serde_json::from_slice(&std::fs::read(dir.join("utxo/known_utxo_hashes.json")).unwrap())
            .unwrap();
    for (name, file, network) in [
        ("testnet3", "testnet3_1_2500.dat.zst", Network::Testnet3),
        ("mainnet", "mainnet_0_299.dat.zst", Network::Main),
        ("signet", "signet_0_60.dat.zst", Network::Signet),
    ] {
        let Some(entries) = known[name].as_array() else { continue };
        let temp = tempfile::tempdir().unwrap();
        let mut chain = open(temp.path(), network);
        let file = read(dir.join("chains").join(file));
        for block in records(&file) {
            submit(&mut chain, block);
            let height = chain.tip_point().height;
            let Some(entry) = entries.iter().find(|entry| entry["height"] == height) else {
                continue;
            };
            let stats = chain.utxo_stats().unwrap();
            assert_eq!(entry["base_hash"], stats.tip.hash.to_string());
            assert_eq!(
                entry["txoutset_hash"],
                ReversedHex(&stats.hash_serialized).to_string(),
                "{name} {height}"
            );
            assert_eq!(entry["coins_written"], stats.totals.txouts);
        }
    }
}

#[test]
fn regtest_reorganisation_ends_where_core_ends() {
    let Some(dir) = shared_data() else { return };
    let branches: Vec<Vec<String>> =
        serde_json::from_slice(&std::fs::read(dir.join("chains/regtest_reorg.json")).unwrap())
            .unwrap();
    let temp = tempfile::tempdir().unwrap();
    let mut chain = open(temp.path(), Network::Regtest);
    for block in branches.iter().flatten() {
        submit(&mut chain, &hex::decode(block).unwrap());
    }
    let stats = chain.utxo_stats().unwrap();
    assert_eq!(stats.tip.height, 16);
    assert_eq!(
        stats.tip.hash.to_string(),
        "4572ac401b94915dde6c4957b706abdb13b5824b000cad7f6065ebd9aea6dad1"
    );
    assert_eq!(
        ReversedHex(&stats.hash_serialized).to_string(),
        "ceb663e5d8980fc70aee6893d3ba0027062ceab9202d8e82fbbb7d8ca6e71002"
    );
    assert_eq!(
        ReversedHex(&stats.muhash).to_string(),
        "5289e6b512d21dbcb52ee10b28b8995d94066bb4a28c255b697e74640ee84c13"
    );
}
