//! Everything that happens to a store, in any order, against a map.

use std::collections::BTreeMap;

use godwit_fault_disk::Survival;
use godwit_primitives::Coin;
use godwit_stream::{DataStream, Decode, SpanReader};
use proptest::prelude::*;

use super::super::fixtures::{Random, coin, hasher, long_coin, outpoint};
use super::*;

/// Outpoints in play: few, so that each is created, spent and created again many times.
const OUTPOINTS: u64 = 48;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Connects a block of up to this many changes.
    Connect(u8),
    /// Disconnects some blocks; then connects this many of them again.
    Reorganise {
        back: u8,
        again: u8,
    },
    /// Reads some coins as a prefetch worker does and keeps the answers.
    Prefetch,
    /// Forgets the oldest kept answers.
    Forget,
    /// Takes some blocks back as the connector does those of its window: without a read.
    TakeBack {
        back: u8,
    },
    Rotate,
    Poll,
    WaitFlushed,
    WaitMerges,
    /// Hands out a manifest of a random flushed seal; it is durable at once, confirmed or not.
    Commit {
        confirm: bool,
    },
    /// The process dies and starts again at the durable manifest.
    Reopen,
    /// What want of memory does.
    DropKept,
    /// Compares everything.
    Check,
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let step = prop_oneof![
        12 => (1u8..12).prop_map(Step::Connect),
        3 => (1u8..5, 0u8..5).prop_map(|(back, again)| Step::Reorganise { back, again }),
        3 => (1u8..5).prop_map(|back| Step::TakeBack { back }),
        4 => Just(Step::Prefetch),
        2 => Just(Step::Forget),
        5 => Just(Step::Rotate),
        3 => Just(Step::Poll),
        3 => Just(Step::WaitFlushed),
        2 => Just(Step::WaitMerges),
        5 => prop::bool::weighted(0.8).prop_map(|confirm| Step::Commit { confirm }),
        1 => Just(Step::Reopen),
        1 => Just(Step::DropKept),
        2 => Just(Step::Check),
    ];
    prop::collection::vec((step, any::<u64>()), 1..120)
}

type Coins = BTreeMap<u64, Coin>;

#[derive(Clone, Debug)]
enum Change {
    Created { n: u64, coin: Coin, overwrite: bool },
    Spent { n: u64, coin: Coin },
}

/// Answers of an older snapshot.
struct Prefetched {
    pin: EpochPin,
    coins: BTreeMap<u64, Option<Coin>>,
}

struct World {
    disk: FaultDisk,
    store: UtxoStore,
    coins: Coins,
    blocks: Vec<Vec<Change>>,
    /// State at each seal that may become a commit.
    seals: BTreeMap<SealId, (Coins, Vec<Vec<Change>>)>,
    durable: (Vec<u8>, Coins, Vec<Vec<Change>>),
    prefetched: Vec<Prefetched>,
    version: u64,
    /// How often an older snapshot decided, so that the test can tell that it tests this.
    decided: u64,
    /// How often a coin that was taken back was in no memtable any more.
    not_in_memory: u64,
}

fn encoded(manifest: &Manifest) -> Vec<u8> {
    let mut out = DataStream::new();
    out.put(manifest);
    out.as_slice().to_vec()
}

/// The coins after a block; `None` if it does not fit.
fn applied(coins: &Coins, block: &[Change]) -> Option<Coins> {
    let mut coins = coins.clone();
    for change in block {
        let fits = match change {
            Change::Created { n, coin, overwrite } => {
                coins.insert(*n, coin.clone()).is_none() || *overwrite
            }
            Change::Spent { n, coin } => coins.remove(n).as_ref() == Some(coin),
        };
        fits.then_some(())?;
    }
    Some(coins)
}

impl World {
    fn new(partition_bits: u8) -> Self {
        let disk = FaultDisk::new();
        let manifest = Manifest::empty(partition_bits, &hasher());
        Self {
            store: open(&disk, &manifest).unwrap(),
            disk,
            coins: Coins::new(),
            blocks: Vec::new(),
            seals: BTreeMap::new(),
            durable: (encoded(&manifest), Coins::new(), Vec::new()),
            prefetched: Vec::new(),
            version: 0,
            decided: 0,
            not_in_memory: 0,
        }
    }

    /// Spends as the connector does: memory, then an older answer, then the runs.
    fn spend(&mut self, n: u64, random: &mut Random) -> Option<Coin> {
        let key = outpoint(n);
        match self.store.take(&key) {
            Taken::Coin(coin) => Some(coin),
            Taken::Spent => None,
            Taken::NotInMemory => {
                let usable =
                    |it: &&Prefetched| it.coins.contains_key(&n) && self.store.covers(&it.pin);
                let usable: Vec<_> = self.prefetched.iter().filter(usable).collect();
                if usable.is_empty() || random.below(4) == 0 {
                    return self.store.spend(&key).unwrap();
                }
                let answer = usable[random.below(usable.len() as u64) as usize].coins[&n].clone();
                self.decided += 1;
                if answer.is_some() {
                    self.store.spend_below(&key);
                }
                answer
            }
        }
    }

    fn exists(&self, n: u64) -> bool {
        let key = outpoint(n);
        match self.store.probe(&key) {
            Probe::Unspent => true,
            Probe::Spent => false,
            Probe::NotInMemory => {
                let mut out = Vec::new();
                self.store.layers().contains_many(&[key], &mut out).unwrap();
                out[0]
            }
        }
    }

    fn apply(&mut self, change: &Change, random: &mut Random) {
        match change {
            Change::Created { n, coin, overwrite } => {
                assert_eq!(self.exists(*n), self.coins.contains_key(n));
                add(&mut self.store, &outpoint(*n), coin, *overwrite);
                self.coins.insert(*n, coin.clone());
            }
            Change::Spent { n, coin } => {
                assert_eq!(self.spend(*n, random).as_ref(), Some(coin));
                assert_eq!(self.coins.remove(n).as_ref(), Some(coin));
            }
        }
    }

    fn new_change(&mut self, random: &mut Random) -> Change {
        let n = random.below(OUTPOINTS);
        self.version += 1;
        let coin = match random.below(20) {
            0 => long_coin(n, 3000 + random.below(7001) as usize),
            _ => coin(n ^ self.version << 20),
        };
        // Creating over an existing coin is what BIP30's exceptions do.
        match self.coins.get(&n) {
            Some(existing) if random.below(8) > 0 => Change::Spent { n, coin: existing.clone() },
            Some(_) => Change::Created { n, coin, overwrite: true },
            None => Change::Created { n, coin, overwrite: random.below(4) == 0 },
        }
    }

    fn connect(&mut self, count: u8, random: &mut Random) {
        let mut block = Vec::new();
        for _ in 0..count {
            let absent = random.below(OUTPOINTS);
            if !self.coins.contains_key(&absent) && random.below(6) == 0 {
                assert_eq!(self.spend(absent, random), None);
            }
            let change = self.new_change(random);
            self.apply(&change, random);
            block.push(change);
        }
        self.blocks.push(block);
    }

    fn disconnect(&mut self, block: &[Change], random: &mut Random) {
        for change in block.iter().rev() {
            match change {
                // A coin that was overwritten stays lost, as in Core.
                Change::Created { n, .. } => {
                    assert_eq!(self.spend(*n, random), self.coins.remove(n));
                }
                Change::Spent { n, coin } => {
                    let overwrite = self.exists(*n) || random.below(2) == 0;
                    add(&mut self.store, &outpoint(*n), coin, overwrite);
                    self.coins.insert(*n, coin.clone());
                }
            }
        }
    }

    fn reorganise(&mut self, back: u8, again: u8, random: &mut Random) {
        let keep = self.blocks.len().saturating_sub(usize::from(back));
        let undone = self.blocks.split_off(keep);
        for block in undone.iter().rev() {
            self.disconnect(block, random);
        }
        // Overwritten coins are lost, so that a block may not apply again.
        for block in undone.into_iter().take(usize::from(again)) {
            if applied(&self.coins, &block).is_none() {
                break;
            }
            block.iter().for_each(|change| self.apply(change, random));
            self.blocks.push(block);
        }
    }

    fn take_back(&mut self, back: u8) {
        let keep = self.blocks.len().saturating_sub(usize::from(back));
        for change in self.blocks.split_off(keep).iter().flatten().rev() {
            match change {
                Change::Created { n, .. } => {
                    let (key, coin) = (outpoint(*n), self.coins.remove(n));
                    let taken = match self.store.take(&key) {
                        Taken::Coin(coin) => Some(coin),
                        // One that was overwritten stays lost.
                        Taken::Spent => None,
                        // Nor does it harm to mark it as spent once more.
                        Taken::NotInMemory => {
                            let below = self.store.get(&key).unwrap();
                            self.not_in_memory += u64::from(below.is_some());
                            self.store.spend_below(&key);
                            below
                        }
                    };
                    assert_eq!(taken, coin, "coin {n}");
                }
                Change::Spent { n, coin } => {
                    add(&mut self.store, &outpoint(*n), coin, true);
                    self.coins.insert(*n, coin.clone());
                }
            }
        }
    }

    fn prefetch(&mut self, random: &mut Random) {
        let layers = self.store.reader().current();
        let wanted: Vec<u64> = (0..OUTPOINTS).filter(|_| random.below(3) > 0).collect();
        let keys: Vec<HashedOutPoint> = wanted.iter().map(|n| outpoint(*n)).collect();
        let (mut coins, mut exist) = (Vec::new(), Vec::new());
        layers.get_many(&keys, &mut coins).unwrap();
        layers.contains_many(&keys, &mut exist).unwrap();
        assert!(coins.iter().map(Option::is_some).eq(exist));
        let coins = wanted.into_iter().zip(coins).collect();
        self.prefetched.push(Prefetched { pin: layers.pin(), coins });
    }

    fn commit(&mut self, confirm: bool, random: &mut Random) {
        let flushed = self.store.flushed();
        let ready: Vec<SealId> = self.seals.range(..=flushed).map(|(seal, _)| *seal).collect();
        let Some(last) = ready.len().checked_sub(1) else { return };
        let seal = ready[last - random.below(last.min(2) as u64 + 1) as usize];
        let (coins, blocks) = self.seals[&seal].clone();
        let (id, manifest) = self.store.manifest(seal);
        self.durable = (encoded(&manifest), coins, blocks);
        self.seals = self.seals.split_off(&seal);
        if confirm {
            self.store.committed(id).unwrap();
        }
    }

    fn reopen(&mut self, random: &mut Random) {
        let (manifest, coins, blocks) = self.durable.clone();
        let survival = match random.below(3) {
            0 => Survival::All,
            1 => Survival::Nothing,
            _ => Survival::Part(random.next()),
        };
        let manifest = Manifest::decode(&mut SpanReader::new(&manifest)).unwrap();
        if random.below(2) == 0 {
            // A clean end; otherwise the dead process's handles just fail from now on.
            self.store = open(&FaultDisk::new(), &Manifest::empty(0, &hasher())).unwrap();
        }
        self.disk.crash(survival);
        self.store = open(&self.disk, &manifest).unwrap();
        (self.coins, self.blocks) = (coins, blocks);
        self.seals.clear();
        self.prefetched.clear();
        self.check();
    }

    fn check(&mut self) {
        let keys: Vec<HashedOutPoint> = (0..OUTPOINTS).map(outpoint).collect();
        for (n, key) in (0..).zip(&keys) {
            assert_eq!(self.store.get(key).unwrap().as_ref(), self.coins.get(&n), "coin {n}");
        }
        let used = self.store.memory_used();
        assert!(used.total() <= MIN_BUDGET as usize, "{used:?}");
    }

    fn check_scan(&mut self) {
        self.store.rotate_blocking().unwrap();
        let layers = self.store.layers();
        let mut scan = layers.scan().unwrap();
        let mut seen = BTreeMap::new();
        while let Some(entry) = scan.next().unwrap() {
            assert!(seen.insert(entry.outpoint, entry.coin().unwrap()).is_none());
        }
        let of_model = |(n, coin): (&u64, &Coin)| (outpoint(*n).outpoint, coin.clone());
        assert_eq!(seen, self.coins.iter().map(of_model).collect());
    }

    fn step(&mut self, step: Step, random: &mut Random) {
        match step {
            Step::Connect(count) => self.connect(count, random),
            Step::Reorganise { back, again } => self.reorganise(back, again, random),
            Step::TakeBack { back } => self.take_back(back),
            Step::Prefetch => self.prefetch(random),
            Step::Forget => {
                let forgotten = random.below(self.prefetched.len() as u64 + 1) as usize;
                self.prefetched.drain(..forgotten);
            }
            Step::Rotate => {
                let seal = self.store.rotate_blocking().unwrap();
                self.seals.insert(seal, (self.coins.clone(), self.blocks.clone()));
            }
            Step::Poll => self.store.poll().unwrap(),
            Step::WaitFlushed => {
                let newest = self.seals.keys().next_back().copied();
                newest.into_iter().for_each(|seal| self.store.wait_flushed(seal).unwrap());
            }
            Step::WaitMerges => self.store.wait_merges().unwrap(),
            Step::Commit { confirm } => self.commit(confirm, random),
            Step::Reopen => self.reopen(random),
            Step::DropKept => {
                match random.below(2) {
                    0 => self.store.memtables.sealed_mut().drop_oldest_clean(),
                    _ => self.store.memtables.sealed_mut().drop_oldest_kept(),
                };
            }
            Step::Check => {
                self.check();
                self.check_scan();
            }
        }
    }
}

fn run(partition_bits: u8, steps: Vec<(Step, u64)>) -> (u64, u64, Counters) {
    let mut world = World::new(partition_bits);
    for (step, seed) in steps {
        world.step(step, &mut Random(seed));
    }
    world.check();
    world.check_scan();
    (world.decided, world.not_in_memory, world.store.counters())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn any_history_leaves_the_coins_of_a_map(bits in 0u8..=3, steps in steps()) {
        run(bits, steps);
    }
}

/// The same with one long history, in which all that is to be tested does happen.
#[test]
fn a_long_history_has_merges_and_old_answers() {
    let mut random = Random(5);
    let mut steps = Vec::new();
    for _ in 0..4000 {
        let step = match random.below(24) {
            0..10 => Step::Connect(8),
            10 => Step::Reorganise { back: 3, again: 2 },
            11 => Step::TakeBack { back: 5 },
            12..15 => Step::Prefetch,
            15 => Step::Forget,
            16..19 => Step::Rotate,
            19 => Step::WaitFlushed,
            20..22 => Step::Commit { confirm: true },
            22 => Step::WaitMerges,
            _ => Step::Poll,
        };
        steps.push((step, random.next()));
    }
    let (decided, not_in_memory, counters) = run(2, steps);
    println!(
        "{decided} times an older snapshot decided, {not_in_memory} times what was taken back was in no memtable; \
         {counters:?}"
    );
    assert!(decided > 100 && counters.merges > 10 && counters.flushes > 100);
    assert!(not_in_memory > 20);
}
