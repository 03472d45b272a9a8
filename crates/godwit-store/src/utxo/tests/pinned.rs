//! Blocks applied wholly from memory and fetched coins, with so little of it that answers are lost
//! between two blocks, against a store that reads each coin.

use super::super::fixtures::{Random, coin, hasher, long_coin, outpoint};
use super::*;
use proptest::prelude::*;

/// Memtables of about 200 coins, so that kept ones soon have to go.
const TINY: CacheMinima =
    CacheMinima { budget: 192 << 10, active: 80 << 10, io_buffer: 4 << 10, arena_step: 4 << 10 };
const OUTPOINTS: u64 = 3_000;

fn open_tiny() -> UtxoStore {
    let disk = StoreDisk::new(Arc::new(FaultDisk::new()));
    let config = UtxoConfig { budget: 0, minima: TINY };
    let manifest = Manifest::empty(1, &hasher());
    UtxoStore::open(&disk, Path::new(DIR), hasher(), &manifest, config, &executor()).unwrap()
}

/// A block: what it spends, then what it creates.
struct Block {
    spends: Vec<u64>,
    creates: Vec<(u64, Coin)>,
}

impl Block {
    fn new(random: &mut Random, version: u64) -> Self {
        let outpoints = |random: &mut Random, most: u64| {
            let count = random.below(most);
            let mut drawn: Vec<u64> = (0..count).map(|_| random.below(OUTPOINTS)).collect();
            drawn.sort_unstable();
            drawn.dedup();
            drawn
        };
        let spends = outpoints(random, 120);
        let creates = outpoints(random, 150).into_iter().map(|n| {
            let len = 1000 + random.below(4000) as usize;
            (n, if random.below(40) == 0 { long_coin(n, len) } else { coin(n ^ version << 20) })
        });
        Self { spends, creates: creates.collect() }
    }
}

/// Coins fetched before the block's turn.
struct Fetched {
    pin: EpochPin,
    coins: Vec<Option<Coin>>,
}

fn fetch(store: &UtxoStore, block: &Block) -> Fetched {
    let layers = store.layers();
    let keys: Vec<HashedOutPoint> = block.spends.iter().map(|n| outpoint(*n)).collect();
    let mut coins = Vec::new();
    layers.get_many(&keys, &mut coins).unwrap();
    Fetched { pin: layers.pin(), coins }
}

/// Applies a block without a read; what each of its inputs found.
fn apply(store: &mut UtxoStore, block: &Block, fetched: &Fetched) -> Option<Vec<Option<Coin>>> {
    store.pinned(&fetched.pin, |store| {
        let mut found = Vec::new();
        for (n, below) in block.spends.iter().zip(&fetched.coins) {
            let key = outpoint(*n);
            found.push(match store.take(&key) {
                Taken::Coin(coin) => Some(coin),
                Taken::Spent => None,
                Taken::NotInMemory => {
                    if below.is_some() {
                        store.spend_below(&key);
                    }
                    below.clone()
                }
            });
            assert!(store.covers(&fetched.pin), "no answer is lost within a block");
        }
        for (n, coin) in &block.creates {
            add(store, &outpoint(*n), coin, true);
            assert!(store.covers(&fetched.pin), "no answer is lost within a block");
        }
        found
    })
}

/// The same, reading each coin when it is spent.
fn apply_reading(store: &mut UtxoStore, block: &Block) -> Vec<Option<Coin>> {
    let spend = |n: &u64| store.spend(&outpoint(*n)).unwrap();
    let found = block.spends.iter().map(spend).collect();
    block.creates.iter().for_each(|(n, coin)| add(store, &outpoint(*n), coin, true));
    found
}

/// Brings what was fetched up to the newest seal.
fn update(store: &UtxoStore, block: &Block, fetched: &mut Fetched) {
    let Some(sealed) = sealed_since(store, &fetched.pin) else { return };
    let keys: Vec<HashedOutPoint> = block.spends.iter().map(|n| outpoint(*n)).collect();
    sealed.for_each_change(&keys, |n, coin| {
        fetched.coins[n] = coin.map(|coin| Coin::from_compressed(coin).unwrap());
    });
    fetched.pin = sealed.pin();
}

/// Blocks whose turn comes, with their coins.
type Line = std::collections::VecDeque<(Block, Fetched)>;

/// Whether what was fetched is brought up to every seal, and so never lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Updates {
    None,
    Each,
}

fn maintain(store: &mut UtxoStore, random: &mut Random, line: &mut Line, updates: Updates) {
    store.poll().unwrap();
    if store.wants_rotation() {
        let seal = store.rotate_blocking().unwrap();
        if updates == Updates::Each {
            for (block, fetched) in line {
                update(store, block, fetched);
                let expected = fetch(store, block);
                assert_eq!(fetched.coins, expected.coins);
                assert!(sealed_since(store, &fetched.pin).is_none(), "nothing is newer");
            }
        }
        if random.below(3) > 0 {
            store.wait_flushed(seal).unwrap();
        }
        let (id, _) = store.manifest(store.flushed());
        store.committed(id).unwrap();
    }
}

/// How often answers were lost and fetched again, and the fetching store's counters.
fn run(seed: u64, blocks: u64, updates: Updates) -> (u64, Counters) {
    let (mut fetching, mut reading) = (open_tiny(), open_tiny());
    let mut random = Random(seed);
    let mut line = Line::new();
    let mut refetched = 0;
    for version in 0..blocks {
        let block = Block::new(&mut random, version);
        let fetched = fetch(&fetching, &block);
        line.push_back((block, fetched));
        maintain(&mut fetching, &mut random, &mut line, updates);
        maintain(&mut reading, &mut random, &mut Line::new(), updates);
        if line.len() < 1 + random.below(6) as usize {
            continue;
        }
        let (block, fetched) = line.pop_front().unwrap();
        let found = apply(&mut fetching, &block, &fetched).unwrap_or_else(|| {
            refetched += 1;
            // The whole line, as the chain does.
            for (block, fetched) in &mut line {
                *fetched = fetch(&fetching, block);
            }
            let again = fetch(&fetching, &block);
            apply(&mut fetching, &block, &again).expect("nothing came between")
        });
        assert_eq!(found, apply_reading(&mut reading, &block));
        let used = fetching.memory_used();
        let most = usize::try_from(TINY.budget).unwrap();
        let dispensable = used.kept + used.clean;
        assert!(dispensable == 0 || used.total() <= most, "they go after the block: {used:?}");
    }
    for n in 0..OUTPOINTS {
        let key = outpoint(n);
        assert_eq!(fetching.get(&key).unwrap(), reading.get(&key).unwrap(), "coin {n}");
    }
    (refetched, fetching.counters())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_block_applied_from_fetched_coins_is_one_applied_with_reads(seed in any::<u64>()) {
        run(seed, 60, Updates::None);
        run(seed, 60, Updates::Each);
    }
}

/// The same with one long history, in which all that is to be tested does happen; the small memtables
/// are flushed and merged often.
#[test]
fn answers_that_were_lost_are_fetched_again() {
    let (refetched, counters) = run(7, 600, Updates::None);
    println!("{refetched} blocks were fetched again; {counters:?}");
    assert!(refetched > 3 && counters.uncovered > 3);
    assert!(counters.flushes > 50 && counters.merges > 5);
}

#[test]
fn answers_that_are_brought_up_to_each_seal_are_not_lost() {
    let (refetched, counters) = run(7, 600, Updates::Each);
    assert!(counters.flushes > 50 && counters.merges > 5, "{counters:?}");
    assert_eq!(refetched, 0);
}

/// Early writing must not empty the cache.
#[test]
fn coins_of_a_flushed_memtable_need_no_read_until_its_memory_is_needed() {
    let mut store = open(&FaultDisk::new(), &Manifest::empty(1, &hasher())).unwrap();
    for n in 0..20 {
        add(&mut store, &outpoint(n), &coin(n), false);
        if n % 10 == 9 {
            commit(&mut store);
        }
    }
    assert!(matches!(store.take(&outpoint(3)), Taken::NotInMemory), "no epoch needs it");
    let keys: Vec<HashedOutPoint> = (0..20).map(outpoint).collect();
    let in_runs = |store: &UtxoStore| {
        let mut coins = Vec::new();
        let in_runs = store.layers().get_many(&keys, &mut coins).unwrap();
        let right = (0..).zip(&coins).all(|(n, found)| found.as_ref() == Some(&coin(n)));
        assert!(right, "{coins:?}");
        in_runs
    };
    assert_eq!(in_runs(&store), 0);
    let (before, used) = (store.layers(), store.memory_used());
    assert!(used.clean > 0 && used.kept == 0, "{used:?}");
    assert!(store.memtables.sealed_mut().drop_oldest_clean());
    assert_eq!(in_runs(&store), 10);
    // A snapshot from before finds those that are left, and the others in its runs.
    let mut coins = Vec::new();
    assert_eq!(before.get_many(&keys, &mut coins), Ok(10));
    // The next memtable grows, and takes the memory.
    let mut n = 1_000;
    while store.memory_used().clean > 0 {
        add(&mut store, &outpoint(n), &coin(n), false);
        n += 1;
        assert!(store.memory_used().total() <= MIN_BUDGET as usize);
    }
    assert_eq!((in_runs(&store), store.counters().uncovered), (20, 0));
}

#[test]
fn what_is_no_longer_covered_is_not_begun() {
    let mut store = open_tiny();
    let pin = store.layers().pin();
    add(&mut store, &outpoint(1), &coin(1), false);
    commit(&mut store);
    assert_eq!(store.pinned(&pin, |_| 1), Some(1));
    assert!(sealed_since(&store, &pin).is_some());
    assert!(store.memtables.sealed_mut().drop_oldest_kept());
    assert_eq!(store.pinned(&pin, |_| 1), None);
    assert!(sealed_since(&store, &pin).is_none(), "what was sealed is not all there");
    let pin = store.layers().pin();
    assert_eq!(store.pinned(&pin, |store| store.take(&outpoint(1))), Some(Taken::NotInMemory));
}
