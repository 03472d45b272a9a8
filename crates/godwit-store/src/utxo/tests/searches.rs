//! Lookups that believe nothing of what memory holds of runs.

use super::super::clean::WrittenMemtables;
use super::super::fixtures::{Random, coin, long_coin, outpoint};
use super::super::run::segment::{BlockIndex, Segment};
use super::*;

const COINS: u64 = 4_000;

/// What memory holds of a segment, wrong.
fn forgetful(segment: &Arc<Segment>, what: u64) -> Arc<Segment> {
    let mut wrong = Segment::clone(segment);
    match what {
        // A filter that nothing passes.
        0 => wrong.filter = wrong.filter.map(|filter| Arc::new(filter.emptied())),
        // An index that leads to the wrong blocks.
        1 => wrong.index = Arc::new(BlockIndex::new(vec![u32::MAX; 4])),
        _ => (wrong.meta.min_key, wrong.meta.max_key) = (u64::MAX, 0),
    }
    Arc::new(wrong)
}

fn wrong_layers(layers: &Layers, what: u64) -> Layers {
    let partitions = layers.partitions.iter();
    Layers {
        context: layers.context.clone(),
        epoch: layers.epoch.clone(),
        flushing: layers.flushing.clone(),
        written: WrittenMemtables::default(),
        partitions: partitions
            .map(|segments| segments.iter().map(|segment| forgetful(segment, what)).collect())
            .collect(),
    }
}

/// A store with several runs, with tombstones over coins; the coins that it has, and those that were at each
/// outpoint last, also if they were spent.
fn filled(random: &mut Random) -> (UtxoStore, Vec<Option<Coin>>, Vec<Option<Coin>>) {
    let disk = FaultDisk::new();
    let manifest = Manifest::empty(2, &hasher());
    let mut store = open(&disk, &manifest).unwrap();
    let mut expected: Vec<Option<Coin>> = vec![None; COINS as usize];
    let mut last = expected.clone();
    for round in 0..5 {
        for n in 0..COINS {
            match random.below(4) {
                0 if expected[n as usize].is_none() => {
                    let new = if n == 17 { long_coin(n, 9_000) } else { coin(n) };
                    add(&mut store, &outpoint(n), &new, true);
                    last[n as usize] = Some(new.clone());
                    expected[n as usize] = Some(new);
                }
                1 => assert_eq!(store.spend(&outpoint(n)).unwrap(), expected[n as usize].take()),
                _ => {}
            }
        }
        if round < 4 {
            commit(&mut store);
        }
    }
    // The last one is sealed, and still in memory.
    store.rotate_blocking().unwrap();
    (store, expected, last)
}

#[test]
fn c15_a_search_finds_what_wrong_filters_and_indexes_hide() {
    let mut random = Random(5);
    // On a busy machine merges may be done by now: then once more.
    let is_layered = |(store, ..): &(UtxoStore, _, _)| {
        store.layers().partitions.iter().any(|segments| segments.len() > 1)
    };
    let mut stores = (0..20).map(|_| filled(&mut random));
    let (store, expected, last) = stores.find(is_layered).expect("several runs");
    let layers = store.layers();
    let keys: Vec<HashedOutPoint> = (0..COINS).map(outpoint).collect();
    let mut found = Vec::new();
    layers.get_many(&keys, &mut found).unwrap();
    assert_eq!(found, expected);
    for what in 0..3 {
        let wrong = wrong_layers(&layers, what);
        wrong.get_many(&keys, &mut found).unwrap();
        let missing = found.iter().zip(&expected).filter(|(found, good)| found != good).count();
        assert!(missing > 100, "{missing} answers are wrong");
        let mut searched: Vec<Searched> = Vec::new();
        // In parts, each behind the last.
        for part in keys.chunks(300) {
            wrong.search_many(part, &mut searched).unwrap();
        }
        for (n, (searched, expected)) in searched.into_iter().zip(&expected).enumerate() {
            assert_eq!(searched.newest, *expected, "{what}");
            // What was spent within one memtable has left no trace.
            assert!(searched.oldest.is_none() || searched.oldest == last[n], "{what}");
            assert!(expected.is_none() || searched.oldest == *expected, "{what}");
        }
    }
}
