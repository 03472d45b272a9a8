//! Real chains from genesis through every rule but the scripts, over a map of coins.

use std::collections::HashMap;

use ethnum::U256;
use godwit_consensus::{
    MEDIAN_TIME_SPAN, PlaceFacts, PrevContext, Reject, RejectReason, TxFacts, add_fee, check_block,
    check_coinbase_amount, check_header, check_tx_inputs, contextual_check_block,
    contextual_check_header, enforces_bip30, is_bip30_repeat, median_time_past, script_flags,
    sequence_locks_met, signet_spend, sigop_cost, sigop_cost_within_limit,
};
use godwit_primitives::network::{Deployment, Params};
use godwit_primitives::work::block_proof;
use godwit_primitives::{
    Amount, Block, BlockHash, BlockHeader, BlockView, Coin, CoinView, OutPoint, TxView, Work,
};
use godwit_testdata::{read, shared_data};
use serde_json::Value;

use crate::{data, kernel};

pub(crate) type Coins = HashMap<OutPoint, Coin>;

/// Where a block is connected.
pub(crate) struct Place<'a> {
    pub(crate) height: u32,
    pub(crate) params: &'a Params,
    /// Whether outputs of the block may not exist yet.
    pub(crate) bip30: bool,
    pub(crate) prev_median_time_past: u32,
    pub(crate) median_time_past: &'a dyn Fn(u32) -> u32,
}

/// The rules over the coins that `block` spends, in Core's order; spends and creates coins. The fees.
pub(crate) fn connect(
    block: BlockView<'_>,
    place: &Place<'_>,
    coins: &mut Coins,
) -> Result<Amount, Reject> {
    if place.bip30 && outpoints(block).any(|outpoint| coins.contains_key(&outpoint)) {
        return Err(Reject::new(RejectReason::Bip30));
    }
    let flags = script_flags(place.height, &block.hash(), place.params);
    let (mut fees, mut sigops) = (0, 0);
    for tx in block.txs() {
        let spent = spend(tx, coins);
        let spent: Vec<CoinView<'_>> = spent.iter().map(CoinView::from).collect();
        let facts = TxFacts::of(tx);
        if !tx.is_coinbase() {
            fees = add_fee(fees, check_tx_inputs(tx, &facts, &spent, place.height)?)?;
            if place.params.is_active(Deployment::Csv, place.height) {
                let prev = place.prev_median_time_past;
                let time = place.median_time_past;
                sequence_locks_met(tx, &facts, &spent, place.height, prev, time)?;
            }
        }
        sigops += sigop_cost(tx, &facts, &spent, flags);
        sigop_cost_within_limit(sigops)?;
        create(tx, place.height, coins);
    }
    check_coinbase_amount(&TxFacts::of(block.tx(0)), fees, place.height, place.params)?;
    Ok(fees)
}

fn outpoints(block: BlockView<'_>) -> impl Iterator<Item = OutPoint> {
    block.txs().flat_map(|tx| {
        let txid = tx.txid();
        (0..tx.output_count() as u32).map(move |vout| OutPoint { txid, vout })
    })
}

/// The coins of the inputs up to the first that is missing.
fn spend(tx: TxView<'_>, coins: &mut Coins) -> Vec<Coin> {
    if tx.is_coinbase() {
        return vec![];
    }
    tx.inputs().map_while(|input| coins.remove(&input.prevout)).collect()
}

fn create(tx: TxView<'_>, height: u32, coins: &mut Coins) {
    for (vout, output) in tx.outputs().enumerate() {
        let script = output.script_pubkey;
        if script.first() == Some(&0x6a) || script.len() > 10_000 {
            continue;
        }
        let coin = Coin {
            value: output.value,
            script_pubkey: script.iter().copied().collect(),
            height,
            coinbase: tx.is_coinbase(),
        };
        coins.insert(OutPoint { txid: tx.txid(), vout: vout as u32 }, coin);
    }
}

struct Chain {
    params: Params,
    headers: Vec<BlockHeader>,
    hashes: Vec<BlockHash>,
    coins: Coins,
    work: Work,
}

impl Chain {
    fn new(params: Params) -> Self {
        Self {
            headers: vec![params.genesis],
            hashes: vec![params.genesis_hash],
            coins: Coins::new(),
            work: block_proof(params.genesis.bits),
            params,
        }
    }

    fn height(&self) -> u32 {
        self.headers.len() as u32 - 1
    }

    fn median_time_past(&self, height: u32) -> u32 {
        let below = &self.headers[..=height as usize];
        let from = below.len().saturating_sub(MEDIAN_TIME_SPAN);
        let times: Vec<u32> = below[from..].iter().map(|header| header.time).collect();
        median_time_past(&times)
    }

    fn add(&mut self, block: BlockView<'_>) -> Result<(), Reject> {
        let mut coins = std::mem::take(&mut self.coins);
        self.judge(block, &mut coins)?;
        self.coins = coins;
        self.headers.push(*block.header());
        self.hashes.push(block.hash());
        self.work += block_proof(block.header().bits);
        Ok(())
    }

    fn judge(&self, block: BlockView<'_>, coins: &mut Coins) -> Result<(), Reject> {
        let header = block.header();
        let hash = block.hash();
        assert_eq!(Some(&header.prev_blockhash), self.hashes.last());
        let median = |height: u32| self.median_time_past(height);
        let ancestor = |height: u32| self.headers[height as usize];
        let prev = PrevContext {
            height: self.height(),
            header: *self.headers.last().unwrap(),
            median_time_past: median(self.height()),
            ancestor: &ancestor,
        };
        check_header(&hash, header, &self.params)?;
        contextual_check_header(header, &prev, &self.params, i64::from(header.time))?;
        check_block(block, &self.params, kernel::verify_solution)?;
        contextual_check_block(block, &PlaceFacts::of(block), &prev, &self.params)?;
        let height = self.height() + 1;
        let ancestor_hash = |height: u32| self.hashes[height as usize];
        let place = Place {
            height,
            params: &self.params,
            bip30: enforces_bip30(height, &hash, &ancestor_hash, &self.params),
            prev_median_time_past: median(height - 1),
            median_time_past: &median,
        };
        assert!(!is_bip30_repeat(height, &hash));
        connect(block, &place, coins).map(drop)
    }

    /// Compares with what Core said after the same block.
    fn assert_golden(&self, golden: &Value) {
        let height = self.height();
        assert_eq!(golden["height"], height);
        assert_eq!(golden["hash"], self.hashes[height as usize].to_string());
        let work = U256::from_str_radix(golden["chainwork"].as_str().unwrap(), 16).unwrap();
        assert_eq!(work, self.work, "{height}");
        assert_eq!(golden["mediantime"], self.median_time_past(height), "{height}");
        assert_eq!(golden["txouts"], self.coins.len(), "{height}");
        let total: Amount = self.coins.values().map(|coin| coin.value).sum();
        assert_eq!(golden["total_amount_sat"], total, "{height}");
    }
}

fn blocks(name: &str) -> Option<Vec<Block>> {
    let file = shared_data()?.join("chains").join(name);
    let mut blocks = data::framed_blocks(&read(file));
    let genesis = data::params_of(name.split('_').next().unwrap()).genesis_hash;
    blocks.retain(|block| block.hash() != genesis);
    Some(blocks)
}

fn check_chain(name: &str, golden: &str, count: usize) {
    let Some(blocks) = blocks(name) else { return };
    assert_eq!(blocks.len(), count);
    let folder = shared_data().expect("there a line above").join("chains");
    let golden = read(folder.join(golden));
    let mut golden = std::str::from_utf8(&golden)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut chain = Chain::new(data::params_of(name.split('_').next().unwrap()));
    chain.assert_golden(&golden.next().unwrap());
    for block in &blocks {
        assert_eq!(chain.add(block.view()), Ok(()), "{}", chain.height() + 1);
        chain.assert_golden(&golden.next().unwrap());
    }
    println!("{name}: {count} blocks, {} coins", chain.coins.len());
}

#[test]
fn mainnet() {
    check_chain("mainnet_0_299.dat.zst", "golden_mainnet_0_299.jsonl.zst", 299);
}

#[test]
fn testnet3() {
    check_chain("testnet3_1_2500.dat.zst", "golden_testnet3_0_2500.jsonl.zst", 2_500);
}

#[test]
fn regtest() {
    check_chain("regtest_0_150.dat.zst", "golden_regtest_0_150.jsonl.zst", 150);
}

#[test]
fn signet_with_its_signatures() {
    check_chain("signet_0_60.dat.zst", "golden_signet_0_60.jsonl.zst", 60);
}

#[test]
fn both_branches_of_the_recorded_reorganisation() {
    let Some(folder) = shared_data() else { return };
    let json = data::json(folder.join("chains/regtest_reorg.json"));
    let branches: Vec<Vec<Block>> = match &json {
        Value::Array(branches) => branches.iter().collect::<Vec<_>>(),
        Value::Object(branches) => branches.values().collect(),
        other => panic!("{other}"),
    }
    .into_iter()
    .map(|branch| {
        let hex = branch.as_array().unwrap().iter().map(|block| block.as_str().unwrap());
        hex.map(|hex| Block::from_bytes(&hex::decode(hex).unwrap()).unwrap()).collect()
    })
    .collect();
    let fork = branches[1][0].header().prev_blockhash;
    let mut first = Chain::new(data::params_of("regtest"));
    let mut second = Chain::new(data::params_of("regtest"));
    for block in &branches[0] {
        assert_eq!(first.add(block.view()), Ok(()));
    }
    let shared = first.hashes.iter().position(|hash| *hash == fork).unwrap();
    for block in branches[0][..shared].iter().chain(&branches[1]) {
        assert_eq!(second.add(block.view()), Ok(()));
    }
    assert_eq!((first.height(), second.height()), (10, 16));
    let tip = "4572ac401b94915dde6c4957b706abdb13b5824b000cad7f6065ebd9aea6dad1";
    assert_eq!(second.hashes[16].to_string(), tip);
}

/// A signature over another block, and one with any byte changed, are refused.
#[test]
fn signet_solutions_sign_their_own_block() {
    let Some(blocks) = blocks("signet_0_60.dat.zst") else { return };
    let params = data::params_of("signet");
    let challenge = params.signet_challenge.as_deref().unwrap();
    let spends: Vec<_> =
        blocks.iter().map(|block| signet_spend(block.view(), challenge).unwrap()).collect();
    for (spend, other) in spends.iter().zip(&spends[1..]) {
        assert!(kernel::verify_solution(spend));
        let mut forged = spend.clone();
        // The outpoint that `to_sign` spends is the hash over the signed block.
        forged.to_sign[5..37].copy_from_slice(&other.to_sign[5..37]);
        assert_ne!(forged.to_sign, spend.to_sign);
        assert!(!kernel::verify_solution(&forged));
    }
}
