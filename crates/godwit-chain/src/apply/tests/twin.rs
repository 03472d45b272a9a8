//! Random blocks, good and bad, against a map of coins that does what Core does, one transaction after the
//! other; memtables are sealed and blocks taken back in between.

use godwit_consensus::{COINBASE_MATURITY, TxFacts, enforces_bip30};
use godwit_fault_disk::FaultDisk;
use godwit_primitives::coin::is_unspendable;
use godwit_primitives::merkle::merkle_root;
use godwit_primitives::{
    Block, BlockHash, BlockHeader, COIN, MerkleRoot, Transaction, TxIn, TxOut,
};
use godwit_sim::rng::Rng;
use godwit_store::utxo::Layers;

use super::*;
use crate::structure::WitnessCheck;

const FIRST_HEIGHT: u32 = 200;

fn hasher() -> UtxoHasher {
    UtxoHasher::new([1; 16])
}

/// Ten minutes a block.
fn median_time_past(height: u32) -> u32 {
    1_000_000 + 600 * height
}

fn rules(height: u32) -> BlockRules {
    let params = Params::new(Network::Regtest);
    assert!(enforces_bip30(height, &BlockHash::ZERO, &|_| BlockHash::ZERO, &params));
    BlockRules {
        height,
        flags: script_flags(height, &BlockHash::ZERO, &params),
        sequence_locks: params.is_active(Deployment::Csv, height),
        no_overwrite: true,
        prev_median_time_past: median_time_past(height - 1),
        params: Arc::new(params),
    }
}

/// Coins by outpoint.
#[derive(Clone, Debug, Default, PartialEq)]
struct Twin(HashMap<OutPoint, Coin>);

impl Twin {
    /// Core's `ConnectBlock` without scripts: the coins that the block spends.
    fn connect(&mut self, block: &Structured, rules: &BlockRules) -> Result<Vec<Coin>, Reject> {
        let mut after = self.clone();
        let (mut spent, mut fees, mut sigops) = (Vec::new(), 0, 0);
        for tx in block.view().txs() {
            let txid = tx.txid();
            if (0..tx.output_count() as u32)
                .any(|vout| self.0.contains_key(&OutPoint { txid, vout }))
            {
                return Err(Reject::new(RejectReason::Bip30));
            }
        }
        for (n, tx) in block.view().txs().enumerate() {
            let mut coins: Vec<Coin> = Vec::new();
            if n > 0 {
                for input in tx.inputs() {
                    let missing = Reject::new(RejectReason::InputsMissingOrSpent);
                    coins.push(after.0.get(&input.prevout).cloned().ok_or(missing)?);
                }
            }
            let views: Vec<CoinView<'_>> = coins.iter().map(CoinView::from).collect();
            let facts = TxFacts::of(tx);
            if n > 0 {
                fees = add_fee(fees, check_tx_inputs(tx, &facts, &views, rules.height)?)?;
                let prev = rules.prev_median_time_past;
                sequence_locks_met(tx, &facts, &views, rules.height, prev, &median_time_past)?;
            }
            sigops += sigop_cost(tx, &facts, &views, rules.flags);
            sigop_cost_within_limit(sigops)?;
            if n > 0 {
                tx.inputs().for_each(|input| drop(after.0.remove(&input.prevout)));
            }
            for (vout, output) in (0..).zip(tx.outputs()) {
                if !is_unspendable(output.script_pubkey) {
                    let coin = Coin {
                        value: output.value,
                        script_pubkey: output.script_pubkey.into(),
                        height: rules.height,
                        coinbase: n == 0,
                    };
                    after.0.insert(OutPoint { txid: tx.txid(), vout }, coin);
                }
            }
            spent.extend(coins);
        }
        let coinbase = TxFacts::of(block.view().tx(0));
        check_coinbase_amount(&coinbase, fees, rules.height, &rules.params)?;
        *self = after;
        Ok(spent)
    }
}

/// Makes blocks over the coins of a twin.
struct Maker {
    rng: Rng,
    /// Chance of each kind of fault, in a thousand.
    faults: u32,
    coinbases: Vec<Transaction>,
}

impl Maker {
    fn script(&mut self) -> Vec<u8> {
        match self.rng.below(40) {
            0..10 => {
                [&[0x76, 0xa9, 20][..], &[self.rng.below(9) as u8; 20], &[0x88, 0xac]].concat()
            }
            10..15 => [&[0xa9, 20][..], &[7; 20], &[0x87]].concat(),
            15..20 => vec![0x6a, 1, 1],
            20..22 => vec![0x51; 10_001],
            22..25 => vec![0x51; 60],
            25 if self.rng.chance(20 * self.faults) => vec![0xae; 600],
            _ => vec![0x51],
        }
    }

    fn coinbase(&mut self, height: u32) -> Transaction {
        if self.rng.chance(self.faults) && !self.coinbases.is_empty() {
            let again = self.rng.below(self.coinbases.len() as u64);
            return self.coinbases[again as usize].clone();
        }
        let script_sig = [&height.to_le_bytes()[..], &self.rng.next_u64().to_le_bytes()].concat();
        let value = if self.rng.chance(self.faults) { 100 * COIN } else { COIN };
        let input =
            TxIn { prevout: OutPoint::NULL, script_sig, sequence: u32::MAX, witness: vec![] };
        let mut outputs = vec![TxOut { value, script_pubkey: self.script() }];
        if self.rng.chance(300) {
            outputs.push(TxOut { value: 0, script_pubkey: self.script() });
        }
        let coinbase = Transaction { version: 1, inputs: vec![input], outputs, lock_time: 0 };
        self.coinbases.push(coinbase.clone());
        coinbase
    }

    /// The outpoint of a coin, most often one that there is.
    fn pick(&mut self, open: &mut Vec<(OutPoint, Coin)>, height: u32) -> (OutPoint, i64) {
        for _ in 0..20 {
            let Some(most) = open.len().checked_sub(1) else { break };
            let n = self.rng.between(0, most as u64) as usize;
            let (outpoint, coin) = open[n].clone();
            let mature = !coin.coinbase || coin.height + COINBASE_MATURITY <= height;
            let spendable = !is_unspendable(&coin.script_pubkey);
            if (mature && spendable) || self.rng.chance(self.faults) {
                if !self.rng.chance(self.faults) {
                    // Else it may be spent twice.
                    open.swap_remove(n);
                }
                return (outpoint, coin.value);
            }
        }
        let txid = godwit_primitives::Txid::from_bytes([self.rng.below(3) as u8; 32]);
        (OutPoint { txid, vout: self.rng.next_u64() as u32 }, COIN)
    }

    fn transaction(
        &mut self,
        open: &mut Vec<(OutPoint, Coin)>,
        height: u32,
    ) -> Option<Transaction> {
        let (mut inputs, mut value) = (Vec::<TxIn>::new(), 0);
        for _ in 0..self.rng.between(1, 3) {
            if open.is_empty() && !self.rng.chance(self.faults) {
                break;
            }
            let (prevout, amount) = self.pick(open, height);
            // `check_transaction` refuses twice the same.
            if inputs.iter().all(|input| input.prevout != prevout) {
                let sequence = match self.rng.below(10) {
                    0 => 0,
                    1 => 1 << 22,
                    2 if self.rng.chance(10 * self.faults) => 1 << 22 | 9,
                    3 if self.rng.chance(10 * self.faults) => 9,
                    _ => u32::MAX,
                };
                let script_sig = vec![1, self.rng.below(200) as u8];
                inputs.push(TxIn { prevout, script_sig, sequence, witness: vec![] });
                value += amount;
            }
        }
        if inputs.is_empty() {
            return None;
        }
        let mut outputs = Vec::new();
        for _ in 0..self.rng.between(1, 3) {
            let part = self.rng.below(value.max(1) as u64) as i64;
            value -= part;
            outputs.push(TxOut { value: part, script_pubkey: self.script() });
        }
        if self.rng.chance(self.faults) {
            outputs[0].value += 50 * COIN;
        }
        Some(Transaction { version: 2, inputs, outputs, lock_time: 0 })
    }

    fn block(&mut self, twin: &Twin, height: u32) -> Option<Arc<Structured>> {
        let mut open: Vec<(OutPoint, Coin)> =
            twin.0.iter().map(|(outpoint, coin)| (*outpoint, coin.clone())).collect();
        // In an order that depends on nothing but the seed.
        open.sort_unstable_by_key(|(outpoint, _)| *outpoint);
        let mut txs = vec![self.coinbase(height)];
        for n in 0..self.rng.below(12) as usize + 1 {
            let coinbase = n == 0;
            let tx =
                if coinbase { Some(txs[0].clone()) } else { self.transaction(&mut open, height) };
            let Some(tx) = tx else { continue };
            for (vout, output) in (0..).zip(&tx.outputs) {
                let script_pubkey = output.script_pubkey[..].into();
                let coin = Coin { value: output.value, script_pubkey, height, coinbase };
                // Several times: those of the block itself are the ones that are spent most often.
                let copies = if self.rng.chance(self.faults) { 2 } else { 1 };
                let outpoint = OutPoint { txid: tx.txid(), vout };
                open.extend(std::iter::repeat_n((outpoint, coin), copies));
            }
            if !coinbase {
                txs.push(tx);
            }
        }
        if txs.len() > 3 && self.rng.chance(5 * self.faults) {
            let (a, b) = (self.rng.between(1, txs.len() as u64 - 1), 1);
            txs.swap(a as usize, b);
        }
        if txs.len() > 1 && self.rng.chance(self.faults) {
            let again = self.rng.between(1, txs.len() as u64 - 1) as usize;
            txs.insert(1, txs[again].clone());
        }
        structured(&txs)
    }
}

/// `None`, if a transaction is repeated in the way that hides in the merkle root.
fn structured(txs: &[Transaction]) -> Option<Arc<Structured>> {
    let (root, _) = merkle_root(txs.iter().map(|tx| tx.txid().to_bytes()));
    let merkle_root = MerkleRoot::from_bytes(root);
    let (prev_blockhash, bits) = (BlockHash::ZERO, 0x207f_ffff);
    let header = BlockHeader { version: 4, prev_blockhash, merkle_root, time: 1, bits, nonce: 0 };
    let mut bytes: DataStream = DataStream::new();
    bytes.put(&header);
    bytes.write_compact_size(txs.len() as u64);
    txs.iter().for_each(|tx| bytes.put(tx));
    let hash = Block::from_bytes(bytes.as_slice()).expect("it decodes").hash();
    Structured::from_own_file(bytes.into(), hash, WitnessCheck::Skip, &hasher()).map(Arc::new)
}

struct Run {
    utxo: UtxoStore,
    twin: Twin,
    /// The blocks that can be taken back, each with the coins before it.
    applied: Vec<(Resolved, Twin)>,
    seen: Vec<OutPoint>,
    snapshot: Arc<Layers>,
    height: u32,
    verdicts: HashMap<&'static str, u32>,
    /// Times that what was found was brought up to a newer seal.
    updated: u64,
}

impl Run {
    fn new() -> Self {
        let disk = StoreDisk::new(Arc::new(FaultDisk::new()));
        let config = UtxoConfig { budget: 64 << 20, minima: CacheMinima::PRODUCT };
        let executor: Arc<dyn Executor> = Arc::new(Threads::default());
        let (manifest, dir) = (Manifest::empty(2, &hasher()), Path::new("/utxo"));
        let mut utxo = UtxoStore::open(&disk, dir, hasher(), &manifest, config, &executor).unwrap();
        let (mut twin, mut seen) = (Twin::default(), Vec::new());
        for n in 0..60u8 {
            let txid = godwit_primitives::Txid::from_bytes([100 + n; 32]);
            let outpoint = OutPoint { txid, vout: u32::from(n) };
            let coin = Coin {
                value: COIN,
                script_pubkey: vec![0x51; usize::from(n)].into(),
                height: 60 + u32::from(n),
                coinbase: n % 2 == 0,
            };
            utxo.add(&hasher().hash(outpoint), &coin, true);
            twin.0.insert(outpoint, coin);
            seen.push(outpoint);
        }
        let (snapshot, applied) = (utxo.layers(), Vec::new());
        let height = FIRST_HEIGHT;
        let verdicts = HashMap::new();
        Self { utxo, twin, applied, seen, snapshot, height, verdicts, updated: 0 }
    }

    fn prefetched(&mut self, block: &Structured, rng: &mut Rng) -> Prefetched {
        if rng.chance(500) || !self.utxo.covers(&self.snapshot.pin()) {
            self.snapshot = self.utxo.layers();
        }
        let mut found = Prefetched::nothing(self.snapshot.pin());
        if !self.snapshot.is_empty() {
            self.snapshot.get_compressed(block.spends(), &mut found.coins).unwrap();
            self.snapshot.contains_many(block.creates(), &mut found.outputs_exist).unwrap();
        }
        if rng.chance(500) {
            let was_sealed = sealed_since(&self.utxo, &found.pin).is_some();
            found.update(&self.utxo, block, true);
            assert!(sealed_since(&self.utxo, &found.pin).is_none());
            self.updated += u64::from(was_sealed);
        }
        found
    }

    fn give(&mut self, block: Arc<Structured>, rng: &mut Rng) {
        let (rules, before) = (rules(self.height), self.twin.clone());
        let prefetched = self.prefetched(&block, rng);
        let pin = prefetched.pin.clone();
        let expected = self.twin.connect(&block, &rules);
        self.seen.extend(block.creates().iter().map(|created| created.outpoint));
        let shared = Arc::clone(&block);
        let applied = self.utxo.pinned(&pin, |utxo| {
            apply(utxo, any_id(), shared, prefetched, rules, &median_time_past)
        });
        let resolved = applied.expect("it was just covered");
        let found = match resolved {
            Err(reject) => Err(reject),
            Ok(resolved) => match resolved.check() {
                Ok(()) => {
                    let spent = resolved.spent.decoded().to_vec();
                    self.applied.push((resolved, before));
                    self.height += 1;
                    Ok(spent)
                }
                Err(reject) => {
                    self.applied.push((resolved, before));
                    self.take_back(rng);
                    Err(reject)
                }
            },
        };
        assert_eq!(found, expected);
        let verdict = expected.err().map_or("valid", |reject| reject.reason.as_str());
        *self.verdicts.entry(verdict).or_default() += 1;
    }

    /// Applies a block that may overwrite.
    fn apply_over(&mut self, block: &Arc<Structured>) -> Resolved {
        let rules = BlockRules { no_overwrite: false, ..rules(self.height) };
        self.height += 1;
        let (block, found) = (Arc::clone(block), Prefetched::nothing(self.utxo.layers().pin()));
        apply(&mut self.utxo, any_id(), block, found, rules, &median_time_past)
            .expect("it spends nothing")
    }

    /// The last block, in one of the ways in which that is done.
    fn take_back(&mut self, rng: &mut Rng) {
        let Some((resolved, before)) = self.applied.pop() else { return };
        let Resolved { block, spent, rules, .. } = &resolved;
        let read = SpentCoins::from_records(spent.decoded());
        let mut created = CompressedCoins::default();
        let (spent, below) = match rng.chance(500) {
            true => (spent, Below::AsCreated { overwritten: None }),
            false => {
                self.utxo.layers().get_compressed(block.creates(), &mut created).unwrap();
                (&read, Below::Read(&created))
            }
        };
        let mismatch = Mismatch::Reported;
        assert!(unapply(&mut self.utxo, block, spent, rules.height, mismatch, below));
        self.twin = before;
    }

    fn compare(&self) {
        for outpoint in &self.seen {
            let coin = self.utxo.get(&hasher().hash(*outpoint)).unwrap();
            assert_eq!(coin.as_ref(), self.twin.0.get(outpoint), "{outpoint:?}");
        }
    }
}

#[test]
fn random_blocks_are_applied_as_the_twin_applies_them() {
    let mut verdicts: HashMap<&'static str, u32> = HashMap::new();
    let (mut inside, mut runs_read, mut updated) = (0, 0, 0);
    for seed in 0..60 {
        let (mut run, mut rng) = (Run::new(), Rng::new(1000 + seed));
        let mut maker = Maker { rng: Rng::new(seed), faults: 12, coinbases: Vec::new() };
        for _ in 0..60 {
            if let Some(block) = maker.block(&run.twin, run.height) {
                inside += block.inside().len();
                run.give(block, &mut rng);
            }
            if rng.chance(250) {
                let seal = run.utxo.rotate_blocking().unwrap();
                if rng.chance(500) {
                    run.utxo.wait_flushed(seal).unwrap();
                }
            }
            if rng.chance(80) {
                for _ in 0..rng.below(6) {
                    if !run.applied.is_empty() {
                        run.take_back(&mut rng);
                        run.height -= 1;
                    }
                }
            }
            run.compare();
        }
        runs_read += run.utxo.counters().flushes;
        updated += run.updated;
        run.verdicts
            .into_iter()
            .for_each(|(verdict, n)| *verdicts.entry(verdict).or_default() += n);
    }
    println!("{inside} coins inside, {runs_read} flushes, {verdicts:?}");
    assert!(inside > 1_000 && runs_read > 200 && updated > 100, "{updated} updated");
    let reasons = [
        "valid",
        "bad-txns-inputs-missingorspent",
        "bad-txns-premature-spend-of-coinbase",
        "bad-txns-in-belowout",
        "bad-txns-nonfinal",
        "bad-blk-sigops",
        "bad-cb-amount",
        "bad-txns-BIP30",
    ];
    for reason in reasons {
        let count = verdicts.get(reason).copied().unwrap_or_default();
        assert!(count >= if reason == "valid" { 500 } else { 3 }, "{reason}: {count}");
    }
}

/// B spends a coinbase from a run and is sealed; C above it has the same coinbase, which BIP30 allows by
/// then.
#[test]
fn a_coin_that_is_created_again_behind_a_seal_is_given_back_with_both_blocks() {
    for seed in 0..8 {
        let (mut run, mut rng) = (Run::new(), Rng::new(seed));
        let mut maker = Maker { rng: Rng::new(seed), faults: 0, coinbases: Vec::new() };
        let mut coinbases = Vec::new();
        // Often enough for the first memtables to leave memory.
        for n in 0..=COINBASE_MATURITY {
            let coinbase = loop {
                let coinbase = maker.coinbase(run.height);
                if !is_unspendable(&coinbase.outputs[0].script_pubkey) {
                    break coinbase;
                }
            };
            run.give(
                structured(std::slice::from_ref(&coinbase)).expect("one transaction"),
                &mut rng,
            );
            coinbases.push(coinbase);
            if n % 5 == 0 {
                let seal = run.utxo.rotate_blocking().unwrap();
                run.utxo.wait_flushed(seal).unwrap();
            }
        }
        let first = &coinbases[0];
        let spend = |vout| TxIn {
            prevout: OutPoint { txid: first.txid(), vout },
            script_sig: vec![1, 1],
            sequence: u32::MAX,
            witness: vec![],
        };
        let spendable = (0..).zip(&first.outputs);
        let inputs = spendable
            .filter(|(_, output)| !is_unspendable(&output.script_pubkey))
            .map(|(vout, _)| spend(vout))
            .collect();
        let outputs = vec![TxOut { value: 1, script_pubkey: vec![0x51] }];
        let spending = Transaction { version: 2, inputs, outputs, lock_time: 0 };
        let height = run.height;
        run.give(structured(&[maker.coinbase(height), spending]).expect("two"), &mut rng);
        let spent = &run.applied.last().expect("it was applied").0.spent;
        assert!(spent.below.contains(&true), "the coin was in memory");
        run.utxo.rotate_blocking().unwrap();
        run.give(structured(std::slice::from_ref(first)).expect("one transaction"), &mut rng);
        assert_eq!(run.height, height + 2, "both are valid");
        run.compare();
        for _ in 0..2 {
            run.take_back(&mut rng);
            run.compare();
        }
    }
}

/// As in the pairs of BIP30: the same coinbase in two blocks, the second of which is in the window.
#[test]
fn an_overwritten_coinbase_is_given_back_with_the_block_that_overwrote_it() {
    for (seals_first, seals_second) in [(false, false), (false, true), (true, false), (true, true)]
    {
        let mut run = Run::new();
        let seal = |run: &mut Run| {
            let seal = run.utxo.rotate_blocking().unwrap();
            run.utxo.wait_flushed(seal).unwrap();
        };
        let outputs = [1, 2].map(|n| TxOut { value: COIN, script_pubkey: vec![0x51; n] }).to_vec();
        let script_sig = vec![1, 2];
        let input =
            TxIn { prevout: OutPoint::NULL, script_sig, sequence: u32::MAX, witness: vec![] };
        let coinbase = Transaction { version: 1, inputs: vec![input], outputs, lock_time: 0 };
        let block = structured(&[coinbase]).expect("one transaction");
        let heights = |run: &Run| {
            let coin = |key| run.utxo.get(key).unwrap().map(|coin| (coin.height, coin.coinbase));
            block.creates().iter().map(coin).collect::<Vec<_>>()
        };
        let first = run.height;
        run.apply_over(&block);
        if seals_first {
            seal(&mut run);
        }
        assert_eq!(heights(&run), [Some((first, true)); 2]);
        let Resolved { spent, rules, .. } = run.apply_over(&block);
        if seals_second {
            seal(&mut run);
        }
        assert_eq!(heights(&run), [Some((first + 1, true)); 2]);
        let below = Below::AsCreated { overwritten: Some(first) };
        let mismatch = Mismatch::Reported;
        assert!(unapply(&mut run.utxo, &block, &spent, rules.height, mismatch, below));
        assert_eq!(heights(&run), [Some((first, true)); 2], "{seals_first} {seals_second}");
        seal(&mut run);
        assert_eq!(heights(&run), [Some((first, true)); 2], "{seals_first} {seals_second}");
    }
}

#[test]
fn the_repeats_of_bip30_overwrite_the_coinbases_of_known_heights() {
    let repeats = [
        (91_842, "00000000000a4d0a398161ffc163c503763b1f4360639393e0e4c8e300e0caec", 91_812),
        (91_880, "00000000000743f190a18c5577a3c2d2a1f610ae9601ac046a38084ccb7cd721", 91_722),
    ];
    for (height, hash, first) in repeats {
        let hash: BlockHash = hash.parse().expect("a hash");
        assert_eq!(overwritten_by(height, &hash), Some(first));
        assert_eq!(overwritten_by(height, &BlockHash::ZERO), None);
        assert_eq!(overwritten_by(first, &hash), None);
    }
}
