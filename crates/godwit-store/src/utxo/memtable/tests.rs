use std::collections::HashMap;

use godwit_primitives::{OutPoint, Txid};
use proptest::prelude::*;

use super::super::arena::SMALL_STEP;
use super::super::compressed::CompressedCoins;
use super::super::fixtures::{Random, coin, hasher, long_coin, outpoint};
use super::*;

fn parts(coin: &Coin) -> CoinParts<'_> {
    let Coin { value, script_pubkey, height, coinbase } = coin;
    CoinParts { value: *value, script: script_pubkey, height: *height, coinbase: *coinbase }
}

fn add(table: &mut Memtable, n: u64, overwrite: bool) {
    table.add(&outpoint(n), parts(&coin(n)), overwrite);
}

/// Spends the coin if it is there.
fn take(table: &mut Memtable, key: &HashedOutPoint) -> Taken {
    let mut coins = CompressedCoins::default();
    match table.take(key, |coin| coins.push(coin)) {
        Probe::Unspent => Taken::Coin(coins.coin(0).expect("as it was encoded")),
        Probe::Spent => Taken::Spent,
        Probe::NotInMemory => Taken::NotInMemory,
    }
}

/// What a memtable may know of an outpoint.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    Fresh(Coin),
    Coin(Coin),
    Spent,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Add { n: u64, overwrite: bool, long: bool },
    Take(u64),
    SpendBelow(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0u64..40, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(n, overwrite, long)| Step::Add { n, overwrite, long }),
        4 => (0u64..40).prop_map(Step::Take),
        1 => (0u64..40).prop_map(Step::SpendBelow),
    ];
    prop::collection::vec(step, 1..300)
}

/// Bitcoin Core's `AddCoin` and `SpendCoin` on a map, with one change: overwriting an existing coin
/// ends its FRESH right.
fn apply(model: &mut HashMap<u64, Known>, step: Step, version: u64) -> Option<Taken> {
    match step {
        Step::Add { n, overwrite, long } => {
            let coin = coin_of_step(n, long, version);
            let fresh = !overwrite && !model.contains_key(&n);
            model.insert(n, if fresh { Known::Fresh(coin) } else { Known::Coin(coin) });
            None
        }
        Step::Take(n) => Some(match model.get(&n).cloned() {
            None => Taken::NotInMemory,
            Some(Known::Spent) => Taken::Spent,
            Some(Known::Fresh(coin)) => {
                model.remove(&n);
                Taken::Coin(coin)
            }
            Some(Known::Coin(coin)) => {
                model.insert(n, Known::Spent);
                Taken::Coin(coin)
            }
        }),
        Step::SpendBelow(n) => {
            model.entry(n).or_insert(Known::Spent);
            None
        }
    }
}

fn coin_of_step(n: u64, long: bool, version: u64) -> Coin {
    if long { long_coin(n, 100 + 97 * (version as usize % 102)) } else { coin(n ^ version << 20) }
}

proptest! {
    #[test]
    fn behaves_as_core_on_a_map(steps in steps()) {
        let (mut table, mut model) = (Memtable::new(SMALL_STEP), HashMap::new());
        for (version, step) in steps.into_iter().enumerate() {
            let version = version as u64;
            let known = match step {
                Step::Add { n, overwrite, long } => {
                    let coin = coin_of_step(n, long, version);
                    table.add(&outpoint(n), parts(&coin), overwrite);
                    None
                }
                Step::Take(n) => Some(take(&mut table, &outpoint(n))),
                Step::SpendBelow(n) => {
                    if table.get(&outpoint(n)).is_none() {
                        table.spend_below(&outpoint(n));
                    }
                    None
                }
            };
            prop_assert_eq!(known, apply(&mut model, step, version));
        }
        let coins = model.values().filter(|known| **known != Known::Spent).count();
        prop_assert_eq!((table.coins(), table.tombstones()), (coins, model.len() - coins));
        for n in 0..40 {
            let expected = model.get(&n).map(|known| match known {
                Known::Fresh(coin) | Known::Coin(coin) => KnownCoin::Unspent(coin.clone()),
                Known::Spent => KnownCoin::Absent,
            });
            prop_assert_eq!(table.coin(&outpoint(n)), expected);
        }
    }

    #[test]
    fn cursors_give_everything_in_order(count in 0u64..3000, bits in 0u32..=6) {
        let mut table = Memtable::new(SMALL_STEP);
        (0..count).for_each(|n| add(&mut table, n, false));
        let mut sorted: Vec<_> = (0..count).map(|n| (outpoint(n).key, outpoint(n).outpoint)).collect();
        sorted.sort_unstable();
        let mut seen = Vec::new();
        let counts = table.counts_by_prefix(bits);
        for (prefix, count) in counts.into_iter().enumerate() {
            let before = seen.len();
            let mut cursor = table.cursor(hasher(), prefix, bits);
            while let Some(keyed) = table.current(&cursor) {
                prop_assert_eq!(keyed.entry.outpoint().unwrap(), keyed.outpoint());
                prop_assert_eq!(keyed.key.checked_shr(64 - bits).unwrap_or(0), prefix as u64);
                seen.push((keyed.key, keyed.outpoint()));
                table.advance(&mut cursor);
            }
            prop_assert_eq!(seen.len() - before, count);
        }
        prop_assert_eq!(seen, sorted);
    }
}

/// Different outpoints under one key: what grinding the hash itself would give.
#[test]
fn equal_keys_are_told_apart() {
    let at = |n: u64| HashedOutPoint { key: 0x1234_5678_9abc_def0, ..outpoint(n) };
    let mut table = Memtable::new(SMALL_STEP);
    for n in 0..200 {
        table.add(&at(n), parts(&coin(n)), false);
    }
    for n in (0..200).step_by(2) {
        assert_eq!(take(&mut table, &at(n)), Taken::Coin(coin(n)));
    }
    for n in 0..200 {
        let expected = if n % 2 == 0 { None } else { Some(KnownCoin::Unspent(coin(n))) };
        assert_eq!(table.coin(&at(n)), expected);
    }
}

/// Slots order entries by 40 bits of the key; cursors do by all of it.
#[test]
fn keys_that_begin_alike_come_in_order() {
    let at = |vout| hasher().hash(OutPoint { txid: Txid::from_bytes([5; 32]), vout });
    let mut prefixes: Vec<(u64, u32)> = (0..4_000_000).map(|n| (at(n).key >> 24, n)).collect();
    prefixes.sort_unstable();
    let pairs: Vec<_> = prefixes.windows(2).filter(|pair| pair[0].0 == pair[1].0).collect();
    assert!(!pairs.is_empty());
    let keys = pairs.iter().flat_map(|pair| [at(pair[0].1), at(pair[1].1)]);
    let mut sorted: Vec<_> = keys.map(|key| (key.key, key.outpoint)).collect();
    sorted.sort_unstable();
    for falling in [false, true] {
        let mut table = Memtable::new(SMALL_STEP);
        let mut order = sorted.clone();
        if falling {
            order.reverse();
        }
        for (key, outpoint) in order {
            table.add(&HashedOutPoint { key, outpoint }, parts(&coin(1)), false);
        }
        let mut cursor = table.cursor(hasher(), 0, 0);
        for expected in &sorted {
            let keyed = table.current(&cursor).unwrap();
            assert_eq!((keyed.key, keyed.outpoint()), *expected);
            table.advance(&mut cursor);
        }
    }
}

#[test]
fn room_for_the_next_growth_is_counted() {
    let mut table = Memtable::new(SMALL_STEP);
    for n in 0..50_000 {
        let (before, counted) = (table.slot_bytes, table.growth_bytes);
        add(&mut table, n, false);
        // While a shard grows, its old and its new table are both there.
        let largest = table.shards.iter().map(Slots::memory_grown).max().unwrap();
        assert!(table.growth_bytes >= largest && table.slot_bytes <= before + counted, "{n}");
    }
}

/// An attacker can grind txids; 10^6 outpoints with 28 equal bytes must not cluster.
#[test]
fn ground_outpoints_keep_probes_short() {
    let mut table = Memtable::new(SMALL_STEP);
    for n in 0..1_000_000u32 {
        let mut txid = [0xab; 32];
        let place = if n % 2 == 0 { 0 } else { 28 };
        txid[place..place + 4].copy_from_slice(&(n / 8 * 2).to_le_bytes());
        let key = hasher().hash(OutPoint { txid: Txid::from_bytes(txid), vout: n / 2 % 4 });
        table.add(&key, parts(&coin(7)), false);
    }
    assert_eq!(table.coins(), 1_000_000);
    let longest = table.longest_probe();
    println!("longest probe of 10^6 ground outpoints: {longest} slots");
    assert!(longest < 400, "{longest}");
}

/// Creates and spends as the chain does: most coins die young, some pile up.
fn churn(table: &mut Memtable, created: u64, keep_one_in: u64) -> Vec<u64> {
    let mut random = Random(1);
    let (mut young, mut kept) = (Vec::new(), Vec::new());
    for n in 0..created {
        add(table, n, false);
        if random.below(keep_one_in) == 0 {
            kept.push(n);
        } else {
            young.push(n);
        }
        if young.len() > 20_000 {
            let victim = young.swap_remove(random.below(20_000) as usize);
            assert!(matches!(take(table, &outpoint(victim)), Taken::Coin(_)));
        }
    }
    kept.extend(young);
    kept
}

/// Places of scripts that nobody uses any more are taken by others.
#[test]
fn a_change_of_fashion_costs_little() {
    let mut table = Memtable::new(SMALL_STEP);
    let script = |len: usize| vec![0x51; len];
    let add = |table: &mut Memtable, n: u64, script: &[u8]| {
        table.add(
            &outpoint(n),
            CoinParts { value: 1, script, height: 900, coinbase: false },
            false,
        );
    };
    (0..100_000).for_each(|n| add(&mut table, n, &script(26)));
    let before = table.memory();
    for n in 0..100_000 {
        assert!(matches!(take(&mut table, &outpoint(n)), Taken::Coin(_)));
        add(&mut table, n + 100_000, &script(22));
    }
    assert!(table.memory() * 100 < before * 102, "{} after {before}", table.memory());
}

#[test]
fn a_live_coin_costs_at_most_80_bytes() {
    let mut table = Memtable::new(SMALL_STEP);
    let live = churn(&mut table, 3_000_000, 6);
    assert_eq!(table.coins(), live.len());
    // What is left of the last huge page is for the next ones.
    let per_coin = (table.memory() - table.spare_bytes()) as f64 / live.len() as f64;
    println!(
        "{} live coins of 3000000 created: {per_coin:.1} bytes a coin, {:.2} of them free places",
        live.len(),
        table.free_bytes() as f64 / live.len() as f64
    );
    assert!(per_coin <= 80.0, "{per_coin}");
}

/// Nanoseconds of processor time that this thread has used: unlike the clock, it does not count what
/// other processes on the machine take.
fn cpu_nanos() -> u64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    line.split(' ').next().unwrap().parse().unwrap()
}

fn measure(what: &str, count: usize, work: impl FnOnce()) {
    let start = cpu_nanos();
    work();
    println!("{what}: {} ns", (cpu_nanos() - start) / count as u64);
}

/// `cargo test --release -p godwit-store -- --ignored --nocapture memtable_speed`
#[test]
#[ignore = "a measurement"]
fn memtable_speed() {
    for count in [1_000_000, 5_000_000] {
        let mut keys: Vec<HashedOutPoint> = (0..count as u64).map(outpoint).collect();
        let coins: Vec<Coin> = (0..1000).map(coin).collect();
        let mut table = Memtable::new(SMALL_STEP);
        println!("{count} coins");
        measure("hash", count, || {
            let sum = keys.iter().fold(0, |sum, key| sum ^ hasher().key(&key.outpoint));
            std::hint::black_box(sum);
        });
        measure("add", count, || {
            for (key, coin) in keys.iter().zip(coins.iter().cycle()) {
                table.add(key, parts(coin), false);
            }
        });
        let mut warmed = Memtable::new(SMALL_STEP);
        measure("warm, then add", count, || {
            for (batch, coins) in keys.chunks(64).zip(coins.chunks_exact(64).cycle()) {
                warmed.warm(batch);
                for (key, coin) in batch.iter().zip(coins) {
                    warmed.add(key, parts(coin), false);
                }
            }
        });
        drop(warmed);
        println!("{:.1} bytes a coin", table.memory() as f64 / count as f64);
        let mut random = Random(3);
        for n in (1..keys.len()).rev() {
            keys.swap(n, random.below(n as u64 + 1) as usize);
        }
        measure("miss", count, || {
            for key in &keys {
                let absent = HashedOutPoint { key: !key.key, ..*key };
                assert!(table.get(&absent).is_none());
            }
        });
        measure("look up", count, || {
            for key in &keys {
                assert!(table.coin(key).is_some());
            }
        });
        let (first, second) = keys.split_at(keys.len() / 2);
        measure("take", first.len(), || {
            for key in first {
                assert_eq!(table.take(key, |coin| assert!(!coin.is_empty())), Probe::Unspent);
            }
        });
        measure("warm, then take", second.len(), || {
            for batch in second.chunks(64) {
                table.warm(batch);
                for key in batch {
                    assert_eq!(table.take(key, |coin| assert!(!coin.is_empty())), Probe::Unspent);
                }
            }
        });
        measure("warm, then add to freed places", count, || {
            for (batch, coins) in keys.chunks(64).zip(coins.chunks_exact(64).cycle()) {
                table.warm(batch);
                for (key, coin) in batch.iter().zip(coins) {
                    table.add(key, parts(coin), false);
                }
            }
        });
    }
}

/// More keys than are loaded at once, some asked for and some not, some there and some not.
#[test]
fn a_lookup_of_many_keys_answers_those_that_are_asked_for_in_order_and_leaves_the_others() {
    let mut table = Memtable::new(SMALL_STEP);
    (0..1000).filter(|n| n % 3 == 0).for_each(|n| add(&mut table, n, false));
    let keys: Vec<_> = (0..1000).map(outpoint).collect();
    let asked = || (0..1000u32).filter(|n| n % 2 == 0);
    let (mut open, mut found) = (asked().collect(), Vec::new());
    table.look_up(&keys, &mut open, |n, entry| {
        assert_eq!(entry.outpoint().unwrap(), keys[n as usize].outpoint);
        found.push(n);
        n % 5 == 0
    });
    assert_eq!(found, asked().filter(|n| n % 3 == 0).collect::<Vec<_>>());
    assert_eq!(open, asked().filter(|n| n % 3 != 0 || n % 5 == 0).collect::<Vec<_>>());
}
