//! Lookups in clean memtables, which the filters of their runs come before.

use godwit_fault_disk::Counted;

use super::super::clean::WrittenMemtables;
use super::super::fixtures::{Random, coin, outpoint};
use super::super::run::segment::Segment;
use super::*;

const COINS: u64 = 2_000;

/// A snapshot with other filters, or without some memtables.
fn changed(
    layers: &Layers,
    written: WrittenMemtables,
    change: impl Fn(&Segment) -> Segment + Copy,
) -> Layers {
    let changed =
        |segments: &Vec<Arc<Segment>>| segments.iter().map(|old| Arc::new(change(old))).collect();
    Layers {
        context: layers.context.clone(),
        epoch: layers.epoch.clone(),
        flushing: layers.flushing.clone(),
        written,
        partitions: layers.partitions.iter().map(changed).collect(),
    }
}

/// Spends and creates coins at random, seal after seal; returns those that there are.
fn fill(store: &mut UtxoStore, seals: u64, random: &mut Random) -> Vec<Option<Coin>> {
    let mut expected = vec![None; COINS as usize];
    for _ in 0..seals {
        for n in 0..COINS {
            match random.below(8) {
                0 if expected[n as usize].is_none() => {
                    let new = coin(random.next());
                    add(store, &outpoint(n), &new, true);
                    expected[n as usize] = Some(new);
                }
                1 => assert_eq!(store.spend(&outpoint(n)).unwrap(), expected[n as usize].take()),
                _ => {}
            }
        }
        commit(store);
        if random.below(3) == 0 {
            store.wait_merges().unwrap();
        }
    }
    expected
}

/// The answers, and how many come from runs: from memtables one after the other, and only then from runs.
fn in_turn(layers: &Layers, keys: &[HashedOutPoint]) -> (Vec<Option<Coin>>, usize) {
    let held = layers.written.hold();
    let bare = changed(layers, WrittenMemtables::default(), Segment::clone);
    let mut in_runs = 0;
    let answers = keys.iter().map(|key| {
        let mut known = held.tables().find_map(|table| table.coin(key));
        let mut found = Vec::new();
        if known.is_none() {
            in_runs += bare.get_many(&[*key], &mut found).unwrap();
            known = found.pop().flatten().map(KnownCoin::Unspent);
        }
        known.and_then(KnownCoin::unspent)
    });
    (answers.collect(), in_runs)
}

/// Memtables of fewer seals than there are, segments that were merged across the oldest of them, filters
/// that want of memory took.
#[test]
fn what_filters_lead_to_is_what_looking_into_every_memtable_finds() {
    let keys: Vec<HashedOutPoint> = (0..COINS).map(outpoint).collect();
    let (mut from_runs, mut across) = (0, 0);
    for seed in 0..24 {
        let mut random = Random(seed);
        let disk = FaultDisk::new();
        let mut store = open(&disk, &Manifest::empty((seed % 3) as u8, &hasher())).unwrap();
        let expected = fill(&mut store, 3 + seed % 9, &mut random);
        for _ in 0..random.below(4) {
            store.memtables.sealed_mut().drop_oldest_clean();
        }
        let layers = store.layers();
        let oldest = layers.written.hold().seals().last();
        let is_across = |segment: &Arc<Segment>| {
            oldest.is_some_and(|seal| segment.seals.oldest < seal && seal <= segment.seals.newest)
        };
        across += layers.partitions.iter().flatten().filter(|segment| is_across(segment)).count();
        let unfiltered = |segment: &Segment| Segment { filter: None, ..segment.clone() };
        for layers in [
            changed(&layers, layers.written.clone(), Segment::clone),
            changed(&layers, layers.written.clone(), unfiltered),
        ] {
            let (in_turn, mut found) = (in_turn(&layers, &keys), Vec::new());
            assert_eq!(in_turn.0, expected, "{seed}");
            let in_runs = layers.get_many(&keys, &mut found).unwrap();
            assert_eq!((&found, in_runs), (&expected, in_turn.1), "{seed}");
            from_runs += in_runs;
        }
    }
    assert!(from_runs > 1_000 && across > 10, "{from_runs}, {across}");
}

/// Otherwise each of many memtables costs each key a cache miss.
#[test]
fn a_memtable_is_not_looked_into_for_what_the_filter_of_its_run_does_not_let_pass() {
    let mut store = open(&FaultDisk::new(), &Manifest::empty(1, &hasher())).unwrap();
    (0..20).for_each(|n| add(&mut store, &outpoint(n), &coin(n), false));
    commit(&mut store);
    let keys: Vec<HashedOutPoint> = (0..20).map(outpoint).collect();
    let layers = store.layers();
    let emptied = |segment: &Segment| {
        let filter = segment.filter.as_ref().map(|filter| Arc::new(filter.emptied()));
        Segment { filter, ..segment.clone() }
    };
    let mut found = Vec::new();
    for (layers, there) in [
        (changed(&layers, layers.written.clone(), Segment::clone), true),
        (changed(&layers, layers.written.clone(), emptied), false),
    ] {
        assert_eq!(layers.get_many(&keys, &mut found), Ok(0), "no run is read");
        assert!(found.iter().all(|coin| coin.is_some() == there), "{found:?}");
    }
}

/// Three seals of ten coins each: too few for a merge, which would read.
fn three_seals(disk: &FaultDisk) -> UtxoStore {
    let mut store = open(disk, &Manifest::empty(1, &hasher())).unwrap();
    for n in 0..30 {
        add(&mut store, &outpoint(n), &coin(n), false);
        if n % 10 == 9 {
            commit(&mut store);
        }
    }
    store
}

/// A filter lets one absent key in eighty pass, of each of many runs.
#[test]
fn a_run_is_not_read_for_what_its_memtables_do_not_have() {
    let disk = FaultDisk::new();
    let mut store = three_seals(&disk);
    let absent: Vec<HashedOutPoint> = (100..200).map(outpoint).collect();
    let reads = |store: &UtxoStore| {
        let layers = store.layers();
        let unfiltered = |segment: &Segment| Segment { filter: None, ..segment.clone() };
        let mut layers = changed(&layers, layers.written.clone(), unfiltered);
        // Blocks are fetched while the newest is still being written.
        let mut tables = store.memtables.sealed().written_tables();
        layers.flushing = tables.next().map(|(_, table)| Arc::clone(table)).into_iter().collect();
        let (before, mut open) = (disk.count(Counted::Reads), (0..100).collect());
        let mut none = |n: u32, _: &[u8]| panic!("{n} is absent");
        let layers = Arc::new(layers).take_memtables(&absent, &mut open, &mut none);
        let found = layers.get_some_compressed(&absent, &mut open, &|| false, &mut none);
        assert_eq!((found, layers.flushing.len()), (Ok(0), 0));
        disk.count(Counted::Reads) - before
    };
    assert_eq!(reads(&store), 0);
    assert!(store.memtables.sealed_mut().drop_oldest_clean());
    assert!(reads(&store) > 0, "the oldest run alone may have them");
}

/// It is the newest that a reader holds, and not the newest of the runs.
#[test]
fn a_memtable_whose_newer_ones_are_gone_answers_for_no_run() {
    let mut store = three_seals(&FaultDisk::new());
    let layers = store.layers();
    let oldest =
        store.memtables.sealed().written_tables().last().map(|(_, table)| Arc::clone(table));
    assert!(oldest.is_some());
    for _ in 0..3 {
        assert!(store.memtables.sealed_mut().drop_oldest_clean());
    }
    let keys: Vec<HashedOutPoint> = (0..30).map(outpoint).collect();
    let mut found = Vec::new();
    assert_eq!(layers.get_many(&keys, &mut found), Ok(30), "all are in runs");
    assert_eq!(found, (0..30).map(|n| Some(coin(n))).collect::<Vec<_>>());
}
