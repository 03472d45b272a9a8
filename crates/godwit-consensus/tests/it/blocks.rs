//! Single real blocks: by themselves, in their place, and over the coins that they spend.

use std::collections::HashMap;

use godwit_consensus::{
    PlaceFacts, PrevContext, Reject, RejectReason, TxFacts, check_block, check_coinbase_amount,
    contextual_check_block, enforces_bip30,
};
use godwit_primitives::network::Params;
use godwit_primitives::{Block, BlockHash, BlockHeader, Coin, OutPoint};
use godwit_testdata::{read, shared_data};
use serde_json::Value;

use crate::chains::{Coins, Place, connect};
use crate::data;

/// One entry of `blocks/index.json`.
pub(crate) struct RealBlock {
    pub(crate) name: String,
    pub(crate) params: Params,
    pub(crate) block: Block,
    pub(crate) height: Option<u32>,
    pub(crate) spent: Option<Spent>,
    entry: Value,
}

/// The outputs that a block spends and does not create.
#[derive(Clone, Default)]
pub(crate) struct Spent {
    pub(crate) coins: Coins,
    /// Median time past by height, for the blocks before those that created them.
    pub(crate) times: HashMap<u32, u32>,
}

impl Spent {
    fn read(file: &[u8]) -> Self {
        let mut spent = Self::default();
        for line in std::str::from_utf8(file).unwrap().lines().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            // `-`: the source did not say.
            let height = fields[4].parse().unwrap_or(0);
            if let Ok(time) = fields[6].parse::<u32>() {
                spent.times.insert(u32::saturating_sub(height, 1), time);
            }
            let coin = Coin {
                value: fields[2].parse().unwrap(),
                script_pubkey: hex::decode(fields[3]).unwrap().into_iter().collect(),
                height,
                coinbase: fields[5] == "1",
            };
            let outpoint =
                OutPoint { txid: fields[0].parse().unwrap(), vout: fields[1].parse().unwrap() };
            spent.coins.insert(outpoint, coin);
        }
        spent
    }
}

/// All single blocks of the shared data.
pub(crate) fn real_blocks() -> Option<Vec<RealBlock>> {
    let folder = shared_data()?.join("blocks");
    let index = data::json(folder.join("index.json"));
    let read = |entry: &Value| {
        let name = entry["file"].as_str().unwrap().to_owned();
        let bytes = read(folder.join(&name));
        let prevouts = entry["prevouts_file"].as_str();
        RealBlock {
            params: data::params_of(entry["network"].as_str().unwrap()),
            block: Block::from_bytes(&bytes).unwrap(),
            height: entry["height"].as_u64().map(|height| height as u32),
            spent: prevouts.map(|file| Spent::read(&read(folder.join(file)))),
            entry: entry.clone(),
            name,
        }
    };
    Some(index.as_array().unwrap().iter().map(read).collect())
}

/// The phase in a block's place, below which nothing is known: its own time is the latest that the
/// median time past of its predecessor can be.
pub(crate) fn check_in_place(block: &Block, height: u32, params: &Params) -> Result<(), Reject> {
    let header: BlockHeader = *block.header();
    let ancestor = |_: u32| header;
    let prev = PrevContext {
        height: height - 1,
        header,
        median_time_past: header.time,
        ancestor: &ancestor,
    };
    contextual_check_block(block.view(), &PlaceFacts::of(block.view()), &prev, params)
}

/// [`connect`] over the coins that were read, with the same latest time.
pub(crate) fn connect_in_place(
    block: &Block,
    height: u32,
    params: &Params,
    spent: &mut Spent,
) -> Result<i64, Reject> {
    let time = block.header().time;
    let times = &spent.times;
    let median = |asked: u32| match asked.checked_add(1) == Some(height) {
        true => time,
        false => times.get(&asked).copied().unwrap_or(0),
    };
    let known = |_: u32| params.bip34_hash.unwrap_or(BlockHash::ZERO);
    let place = Place {
        height,
        params,
        bip30: enforces_bip30(height, &block.hash(), &known, params),
        prev_median_time_past: time,
        median_time_past: &median,
    };
    connect(block.view(), &place, &mut spent.coins)
}

#[test]
fn every_block_keeps_the_rules_that_need_no_coins() {
    let Some(blocks) = real_blocks() else { return };
    assert_eq!(blocks.len(), 34);
    for real in &blocks {
        let view = real.block.view();
        assert_eq!(real.entry["hash"], view.hash().to_string(), "{}", real.name);
        assert_eq!(real.entry["weight"], view.weight(), "{}", real.name);
        let result = check_block(view, &real.params, |_| unreachable!("no signet block"));
        assert_eq!(result, Ok(()), "{}", real.name);
        let Some(height) = real.height else { continue };
        // Without its witnesses a block with a commitment is not whole.
        let stripped = real.name.contains("stripped");
        let expected = match stripped {
            true => Err(Reject::new(RejectReason::BadWitnessNonceSize)),
            false => Ok(()),
        };
        assert_eq!(check_in_place(&real.block, height, &real.params), expected, "{}", real.name);
    }
}

#[test]
fn every_block_with_prevouts_connects_with_its_fees() {
    let Some(blocks) = real_blocks() else { return };
    let mut connected = 0;
    for real in blocks {
        let (Some(height), Some(mut spent)) = (real.height, real.spent) else { continue };
        let before = spent.coins.len();
        let fees = connect_in_place(&real.block, height, &real.params, &mut spent);
        let Some(expected) = real.entry["fees_sat"].as_i64() else {
            assert!(fees.is_ok(), "{}", real.name);
            continue;
        };
        assert_eq!(fees, Ok(expected), "{}", real.name);
        let coinbase = TxFacts::of(real.block.view().tx(0));
        let subsidy = real.entry["subsidy_sat"].as_i64().unwrap();
        let left = expected + subsidy - real.entry["coinbase_value_sat"].as_i64().unwrap();
        let claim = |fees| check_coinbase_amount(&coinbase, fees, height, &real.params);
        assert_eq!(claim(expected - left), Ok(()), "{}", real.name);
        let too_much = Err(Reject::new(RejectReason::BadCbAmount));
        assert_eq!(claim(expected - left - 1), too_much, "{}", real.name);
        connected += 1;
        println!("{}: {before} coins, {expected} satoshi of fees", real.name);
    }
    assert_eq!(connected, 18);
}
