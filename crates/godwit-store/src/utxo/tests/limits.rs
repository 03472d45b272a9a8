//! Bounds: memory, segments, tombstones.

use godwit_primitives::ScriptBytes;

use super::super::budget::MAX_UNFLUSHED;
use super::super::fixtures::{Random, coin, hasher, outpoint};
use super::super::merge_policy::{MAX_SEGMENTS, STALL_SEGMENTS};
use super::*;
use crate::disk::RealDisk;

fn open_real(dir: &Path, config: UtxoConfig) -> UtxoStore {
    let disk = StoreDisk::new(Arc::new(RealDisk));
    UtxoStore::open(&disk, dir, hasher(), &Manifest::empty(2, &hasher()), config, &executor())
        .unwrap()
}

/// A set 20 times the memory: the budget holds at every step, with snapshots pinned and dropped,
/// filters shrunk and answers still right.
#[test]
fn the_smallest_budget_holds_at_every_step() {
    const CREATED: u64 = 1_200_000;
    let dir = tempfile::tempdir().unwrap();
    let mut store = open_real(dir.path(), CONFIG);
    let mut random = Random(4);
    let mut pins = Vec::new();
    let (mut peak, mut spent) = (0, 0);
    for n in 0..CREATED {
        store.poll().unwrap();
        if store.wants_rotation() {
            let seal = store.rotate_blocking().unwrap();
            if random.below(2) == 0 {
                store.wait_flushed(seal).unwrap();
            }
            let (id, _) = store.manifest(store.flushed());
            store.committed(id).unwrap();
            pins.push(store.layers().pin());
            pins.drain(..pins.len().saturating_sub(random.below(4) as usize));
        }
        add(&mut store, &outpoint(n), &coin(n), false);
        if n % 5 == 4 {
            spent += store.spend(&outpoint(n - random.below(5))).unwrap().iter().count() as u64;
        }
        let used = store.memory_used().total();
        assert!(used <= MIN_BUDGET as usize, "{:?} after {n}", store.memory_used());
        peak = peak.max(used);
    }
    let (shape, counters) = (store.shape(), store.counters());
    println!("peak {peak} bytes; {:?}; {counters:?}; {shape:?}", store.memory_used());
    assert!(counters.flushes > 20 && counters.merges > 3 && counters.uncovered > 0);
    let full = shape.entries * 10 / 8;
    assert!((store.memory_used().filters as u64) < full, "filters had to shrink");
    // Rotation waits at that many; what was sealed before is written all the same.
    assert!(shape.deepest < STALL_SEGMENTS + MAX_UNFLUSHED);
    let mut found = 0;
    let keys: Vec<HashedOutPoint> = (0..CREATED).map(outpoint).collect();
    let mut out = Vec::new();
    store.rotate_blocking().unwrap();
    for (batch, first) in keys.chunks(5000).zip((0..).step_by(5000)) {
        store.layers().get_many(batch, &mut out).unwrap();
        for (n, answer) in (first..).zip(&out) {
            assert!(answer.as_ref().is_none_or(|answer| *answer == coin(n)));
            found += answer.iter().count() as u64;
        }
    }
    assert_eq!(found, CREATED - spent);
}

/// While a merge has the memory, say.
#[test]
fn an_empty_memtable_is_not_rotated_for_want_of_memory() {
    let disk = StoreDisk::new(Arc::new(FaultDisk::new()));
    let minima =
        CacheMinima { budget: 64 << 10, active: 0, io_buffer: 4 << 10, arena_step: 4 << 10 };
    let config = UtxoConfig { budget: 0, minima };
    let manifest = Manifest::empty(0, &hasher());
    let mut store =
        UtxoStore::open(&disk, Path::new(DIR), hasher(), &manifest, config, &executor()).unwrap();
    assert!(!store.wants_rotation());
    for n in 0..3 {
        add(&mut store, &outpoint(n), &coin(n), false);
        assert!(store.wants_rotation());
        assert!(matches!(store.take(&outpoint(n)), Taken::Coin(_)));
        assert!(!store.wants_rotation(), "it is empty again");
        add(&mut store, &outpoint(n), &coin(n), false);
        assert!(store.wants_rotation());
        commit(&mut store);
        assert!(!store.wants_rotation());
    }
}

/// Its blocks were taken back. Nothing is written, and the memory is free.
#[test]
fn a_large_memtable_that_became_empty_is_replaced() {
    let mut store = open(&FaultDisk::new(), &Manifest::empty(0, &hasher())).unwrap();
    let fresh = store.memtables.active().memory();
    let seal = store.rotate().unwrap();
    for round in 0..2 {
        let mut coins = 0;
        while store.memtables.active().memory() < MIN_BUDGET as usize / 3 * 2 {
            add(&mut store, &outpoint(coins), &coin(coins), false);
            coins += 1;
        }
        assert!((0..coins).all(|n| matches!(store.take(&outpoint(n)), Taken::Coin(_))));
        assert!(store.memtables.active().is_empty());
        assert!(store.wants_rotation(), "{round}");
        assert_eq!(store.rotate().unwrap(), seal);
        assert!(!store.wants_rotation());
        assert_eq!((store.memtables.active().memory(), store.counters().flushes), (fresh, 0));
    }
}

#[test]
fn a_memtable_without_offsets_that_became_empty_is_replaced() {
    let mut store = open(&FaultDisk::new(), &Manifest::empty(0, &hasher())).unwrap();
    let seal = store.rotate().unwrap();
    add(&mut store, &outpoint(1), &coin(1), false);
    assert!(!store.wants_rotation());
    store.memtables.active_mut().fill_arena();
    assert!(store.wants_rotation());
    assert!(matches!(store.take(&outpoint(1)), Taken::Coin(_)));
    assert_eq!(store.rotate().unwrap(), seal);
    assert!(!store.wants_rotation(), "it would be wanted for ever");
    add(&mut store, &outpoint(2), &coin(2), false);
    assert!(commit(&mut store).seal > 0);
}

#[test]
fn a_tombstone_goes_only_with_the_oldest_segment() {
    let mut store = open(&FaultDisk::new(), &Manifest::empty(0, &hasher())).unwrap();
    (0..3000).for_each(|n| add(&mut store, &outpoint(n), &coin(n), false));
    commit(&mut store);
    let mut spent = 0..3000;
    let mut spend = |store: &mut UtxoStore, count: usize| {
        for n in spent.by_ref().take(count) {
            assert!(store.spend(&outpoint(n)).unwrap().is_some());
        }
        commit(store);
        store.wait_merges().unwrap();
    };
    (0..4).for_each(|_| spend(&mut store, 50));
    let shape = store.shape();
    assert_eq!((store.counters().merges, shape.segments), (1, 2), "the four small ones merged");
    assert_eq!((shape.entries, shape.tombstones), (3200, 200), "the oldest was not among them");
    assert_eq!(store.get(&outpoint(0)).unwrap(), None);
    (0..2).for_each(|_| spend(&mut store, 1400));
    let shape = store.shape();
    assert_eq!((shape.entries, shape.tombstones, shape.segments), (0, 0, 0), "all with the oldest");
    assert!((0..3000).all(|n| store.get(&outpoint(n)).unwrap().is_none()));
}

#[test]
fn files_of_merged_runs_go_with_the_commit_that_does_not_name_them() {
    let disk = FaultDisk::new();
    let files = || crate::disk::Disk::list(&disk, Path::new(DIR)).unwrap().len();
    let mut store = open(&disk, &Manifest::empty(1, &hasher())).unwrap();
    for round in 0..4 {
        (0..100).for_each(|n| add(&mut store, &outpoint(n + 100 * round), &coin(n), false));
        commit(&mut store);
    }
    store.wait_merges().unwrap();
    assert_eq!((store.counters().merges, files()), (1, 10), "inputs, output, their parity");
    let (id, manifest) = store.manifest(store.flushed());
    assert_eq!(manifest.runs.len(), 1);
    store.committed(id).unwrap();
    drop(store);
    assert_eq!(files(), 2);
    assert!(open(&disk, &manifest).unwrap().get(&outpoint(399)).unwrap().is_some());
}

/// What is flushed but not committed is not merged, since a commit may have to name it alone.
#[test]
fn merges_wait_for_commits_and_keep_segments_few() {
    let mut store = open(&FaultDisk::new(), &Manifest::empty(1, &hasher())).unwrap();
    for round in 0..40 {
        add(&mut store, &outpoint(round), &coin(round), false);
        let seal = store.rotate_blocking().unwrap();
        store.wait_flushed(seal).unwrap();
    }
    store.wait_merges().unwrap();
    assert_eq!((store.counters().merges, store.shape().runs), (0, 40));
    let (id, _) = store.manifest(store.flushed());
    store.committed(id).unwrap();
    store.wait_merges().unwrap();
    assert!(store.shape().deepest < MAX_SEGMENTS, "{:?}", store.shape());
}

#[test]
fn an_unspendable_output_is_no_coin() {
    let mut store = open(&FaultDisk::new(), &Manifest::empty(0, &hasher())).unwrap();
    let add = |store: &mut UtxoStore, n, script: &[u8]| {
        let script_pubkey = ScriptBytes::from_slice(script);
        let coin = Coin { value: 0, script_pubkey, height: 1, coinbase: false };
        store.add(&outpoint(n), &coin, false);
    };
    let returns = [&[0x6a][..], &[0x6a, 1, 2], &[0; 10_001]];
    for (n, script) in (0..).zip(returns) {
        add(&mut store, n, script);
        assert_eq!(store.take(&outpoint(n)), Taken::NotInMemory);
    }
    add(&mut store, 9, &[0; 10_000]);
    assert!(
        matches!(store.take(&outpoint(9)), Taken::Coin(coin) if coin.script_pubkey.len() == 10_000)
    );
}
