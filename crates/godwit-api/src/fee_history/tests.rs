use godwit_primitives::{
    Block, BlockHash, BlockHeader, Coin, MerkleRoot, OutPoint, Transaction, TxIn, TxOut, Txid,
};
use godwit_stream::DataStream;

use super::*;

const MODES: [Mode; 2] = [Mode::Economical, Mode::Conservative];

fn rate(prices: &[Price], target: usize, mode: Mode) -> Option<Amount> {
    estimate(prices, target, mode).map(|estimate| estimate.rate)
}

#[test]
fn few_blocks_say_nothing() {
    for mode in MODES {
        assert_eq!(estimate(&[Price::Rate(5_000); LEAST_BLOCKS - 1], 6, mode), None);
        assert_eq!(estimate(&[], 6, mode), None);
        let found = Some(Estimate { rate: 5_000, target: 6 });
        assert_eq!(estimate(&[Price::Rate(5_000); LEAST_BLOCKS], 6, mode), found);
    }
}

#[test]
fn a_target_is_within_what_the_blocks_can_tell() {
    for (blocks, asked, answered) in [
        (12, 1, 2),
        (12, 2, 2),
        (12, 6, 6),
        (12, 7, 6),
        (13, 1008, 6),
        (DEPTH, 1008, DEPTH / 2),
        (2 * DEPTH, 1008, DEPTH / 2),
    ] {
        let prices = vec![Price::Rate(3_000); blocks];
        let found = estimate(&prices, asked, Mode::Economical).expect("there are enough");
        assert_eq!((found.rate, found.target), (3_000, answered), "{blocks}, {asked}");
    }
}

#[test]
fn room_costs_the_least_and_nothing_is_below_that() {
    for mode in MODES {
        for price in [Price::Least, Price::Unknown, Price::Rate(3), Price::Rate(100)] {
            assert_eq!(rate(&[price; 50], 2, mode), Some(100), "{price:?}");
        }
        assert_eq!(rate(&[Price::Rate(101); 50], 2, mode), Some(101));
    }
}

#[test]
fn a_block_without_transactions_is_no_room_where_others_are_full() {
    // Every third one is empty.
    let full: Vec<Price> =
        (0..DEPTH).map(|n| if n % 3 == 0 { Price::Unknown } else { Price::Rate(20_000) }).collect();
    for mode in MODES {
        for target in [2, 6, 70] {
            assert_eq!(rate(&full, target, mode), Some(20_000), "{target}");
        }
    }
    // One full block among empty ones tells what it tells, if it is within reach.
    let mut lone = vec![Price::Unknown; 12];
    lone[5] = Price::Rate(7_000);
    assert_eq!(rate(&lone, 2, Mode::Economical), None);
    lone[3] = Price::Least;
    assert_eq!(rate(&lone, 6, Mode::Economical), Some(7_000));
}

/// The newest first: dear now, and cheap before.
#[test]
fn what_is_recent_decides_and_who_is_careful_looks_farther() {
    let dear_now: Vec<Price> =
        (0..DEPTH).map(|n| Price::Rate(if n < RECENT { 50_000 } else { 1_000 })).collect();
    let cheap_now: Vec<Price> =
        (0..DEPTH).map(|n| Price::Rate(if n < RECENT { 1_000 } else { 50_000 })).collect();
    assert_eq!(rate(&dear_now, 6, Mode::Economical), Some(50_000));
    assert_eq!(rate(&dear_now, 6, Mode::Conservative), Some(50_000));
    assert_eq!(rate(&cheap_now, 6, Mode::Economical), Some(1_000));
    assert_eq!(rate(&cheap_now, 6, Mode::Conservative), Some(50_000));
}

/// Of 23 places, 20 are 85 percent and 22 are 95.
#[test]
fn it_is_enough_from_nearly_all_moments() {
    let at = |dear: usize| {
        // Pairs of dear blocks, apart: each makes one moment dear.
        let mut prices = [Price::Rate(1_000); RECENT];
        for pair in 0..dear {
            prices[4 * pair] = Price::Rate(9_000);
            prices[4 * pair + 1] = Price::Rate(9_000);
        }
        MODES.map(|mode| rate(&prices, 2, mode).expect("there are enough"))
    };
    assert_eq!(at(0), [1_000, 1_000]);
    assert_eq!(at(1), [1_000, 1_000]);
    assert_eq!(at(2), [1_000, 9_000]);
    assert_eq!(at(3), [1_000, 9_000]);
    assert_eq!(at(4), [9_000, 9_000]);
}

/// On any prices: who waits longer pays no more, and who is careful no less.
#[test]
fn patience_never_costs_and_care_never_pays() {
    let mut seed = 1_u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed >> 33
    };
    for _ in 0..20 {
        let count = LEAST_BLOCKS + random() as usize % DEPTH;
        let prices: Vec<Price> = (0..count)
            .map(|_| match random() % 8 {
                0 => Price::Unknown,
                1 => Price::Least,
                _ => Price::Rate(random() as i64 % 100_000),
            })
            .collect();
        let all = MODES.map(|mode| {
            let of = |target| rate(&prices, target, mode).unwrap_or(Amount::MAX);
            let rates: Vec<Amount> = (1..=80).map(of).collect();
            assert!(rates.is_sorted_by(|before, after| before >= after), "{rates:?}");
            rates
        });
        assert!(all[0].iter().zip(&all[1]).all(|(economical, careful)| economical <= careful));
    }
}

/// A transaction of one input and one output, with so many bytes and such a fee, and the coin that it spends.
fn spending(prevout: OutPoint, size: usize, fee: Amount) -> (Transaction, Coin) {
    const VALUE: Amount = 10_000_000;
    let input = TxIn { prevout, script_sig: Vec::new(), sequence: u32::MAX, witness: Vec::new() };
    // Beside the script, with a prefix of three bytes for its length, there are 62.
    let output = TxOut { value: VALUE - fee, script_pubkey: vec![0x51; size - 62] };
    let tx = Transaction { version: 2, inputs: vec![input], outputs: vec![output], lock_time: 0 };
    let script_pubkey = vec![0x51].as_slice().into();
    (tx, Coin { value: VALUE, script_pubkey, height: 1, coinbase: false })
}

fn unrelated(n: u32) -> OutPoint {
    OutPoint { txid: Txid::from_bytes([9; 32]), vout: n }
}

fn price_of(all: &[(Transaction, Coin)]) -> Price {
    let header = BlockHeader {
        version: 1,
        prev_blockhash: BlockHash::from_bytes([0; 32]),
        merkle_root: MerkleRoot::from_bytes([0; 32]),
        time: 0,
        bits: 0,
        nonce: 0,
    };
    let mut bytes: DataStream = DataStream::new();
    bytes.put(&header);
    bytes.write_compact_size(1 + all.len() as u64);
    bytes.put(&spending(OutPoint::NULL, 400, 0).0);
    all.iter().for_each(|(tx, _)| bytes.put(tx));
    let block = Block::from_bytes(bytes.as_slice()).expect("a block");
    price(block.view(), all.iter().map(|(_, coin)| std::slice::from_ref(coin)))
}

#[test]
fn the_price_of_a_block_is_what_nine_tenths_of_a_full_one_paid() {
    // A thousand of 1,000 bytes and 4,000 units of weight are more than is full.
    let full = |count: u32| -> Vec<_> {
        (0..count).map(|n| spending(unrelated(n), 1_000, 1_000 + Amount::from(n))).collect()
    };
    assert_eq!(price_of(&[]), Price::Unknown);
    assert_eq!(price_of(&full(1)), Price::Least);
    assert_eq!(price_of(&full(949)), Price::Least);
    assert_eq!(price_of(&full(950)), Price::Rate(1_095));
    let mut blocks = full(990);
    assert_eq!(price_of(&blocks), Price::Rate(1_099));
    // Whom a child pays for, and that child, say nothing, however little or much they pay.
    for n in 0..200 {
        let (cheap, coin) = spending(unrelated(n), 1_000, 0);
        let child = OutPoint { txid: cheap.txid(), vout: 0 };
        blocks[n as usize] = (cheap, coin);
        blocks[700 + n as usize] = spending(child, 1_000, 900_000);
    }
    // What is left pays from 1,200 to 1,699 and from 1,900 to 1,989.
    assert_eq!(price_of(&blocks), Price::Rate(1_259));
}
