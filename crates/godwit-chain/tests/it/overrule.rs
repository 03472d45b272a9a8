//! The operator overrules verdicts: `invalidateblock` and `reconsiderblock`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use godwit_chain::{Chain, OverruleError, UtxoStats, Verdict};
use godwit_consensus::RejectReason;
use godwit_fault_disk::{FaultDisk, Survival};
use godwit_primitives::BlockHash;
use godwit_primitives::network::{Network, Params};
use godwit_sim::rng::Rng;

use crate::datadir::{clock, options, small_chain, submit};
use crate::pruned_branches::{block_paying, empty_block};
use crate::pruning::{BLOCKS, DIR, ONE_BLOCK, STATS, hash, header, open, stats_of, submit_all};

/// As much as fits, so that blocks of one file are connected in any order.
const FILE_SIZE: u32 = 1 << 20;

static BASE: LazyLock<Vec<Vec<u8>>> = LazyLock::new(small_chain);

/// A block of the naive twin, which keeps all of a chain that it was told.
struct Block {
    bytes: Vec<u8>,
    hash: BlockHash,
    /// Its number in the twin.
    parent: Option<usize>,
    height: u32,
    failed: bool,
}

/// Blocks in the order in which they were stored. All have the same work.
struct Twin {
    blocks: Vec<Block>,
}

impl Twin {
    fn new() -> Self {
        let base = BASE.iter().zip(0..).map(|(bytes, n): (_, usize)| Block {
            bytes: bytes.clone(),
            hash: hash(bytes),
            parent: n.checked_sub(1),
            height: n as u32 + 1,
            failed: false,
        });
        Self { blocks: base.collect() }
    }

    /// From the block down to the first one.
    fn line(&self, n: usize) -> Vec<usize> {
        std::iter::successors(Some(n), |n| self.blocks[*n].parent).collect()
    }

    fn invalidate(&mut self, n: usize) {
        for other in n..self.blocks.len() {
            self.blocks[other].failed |= self.line(other).contains(&n);
        }
    }

    fn reconsider(&mut self, n: usize) {
        let below = self.line(n);
        for other in 0..self.blocks.len() {
            if below.contains(&other) || self.line(other).contains(&n) {
                self.blocks[other].failed = false;
            }
        }
    }

    /// The tip: of most work, the first of equals. `None` is genesis.
    fn best(&self) -> Option<usize> {
        let valid = (0..self.blocks.len()).rev().filter(|n| !self.blocks[*n].failed);
        valid.max_by_key(|n| self.blocks[*n].height)
    }

    /// The blocks of the best chain, first to last.
    fn best_chain(&self) -> Vec<Vec<u8>> {
        let line = self.best().map(|best| self.line(best)).unwrap_or_default();
        line.iter().rev().map(|n| self.blocks[*n].bytes.clone()).collect()
    }
}

/// What a fresh sync of each chain gives.
#[derive(Default)]
struct Fresh {
    stats: HashMap<BlockHash, UtxoStats>,
}

impl Fresh {
    fn stats(&mut self, blocks: &[Vec<u8>]) -> UtxoStats {
        let tip = hash(blocks.last().expect("the base is long"));
        *self.stats.entry(tip).or_insert_with(|| stats_of(blocks))
    }
}

fn agrees(chain: &mut Chain, twin: &Twin, what: &str) {
    chain.settle(clock()).unwrap();
    let expected = twin.best().map(|best| twin.blocks[best].hash);
    let tip = (chain.tip_point().height > 0).then(|| chain.tip_point().hash);
    assert_eq!(tip, expected, "{what}");
    for block in &twin.blocks {
        let id = chain.tree().find(&block.hash).unwrap();
        assert_eq!(chain.tree().node(id).failed, block.failed, "{what}, height {}", block.height);
    }
    assert_eq!(Some(chain.tree().node(chain.tree().best_header()).hash), expected, "{what}");
    chain.take_events();
}

/// A block on one of the last blocks, as the chain and the twin see it.
fn add_block(chain: &mut Chain, twin: &mut Twin, rng: &mut Rng) {
    let first = BASE.len() - 12;
    let parent = first + rng.below((twin.blocks.len() - first) as u64) as usize;
    let before = &twin.blocks[parent];
    // Another time for each, so that each makes a coin of its own.
    let time = header(&before.bytes).time + 1 + twin.blocks.len() as u32;
    let bytes = empty_block(before.hash, before.height + 1, time);
    let verdict = submit(chain, &bytes);
    if before.failed {
        assert!(matches!(verdict, Verdict::Rejected(_)), "{verdict:?}");
        return;
    }
    let (hash, height) = (hash(&bytes), before.height + 1);
    twin.blocks.push(Block { bytes, hash, parent: Some(parent), height, failed: false });
    let connected = twin.best() == Some(twin.blocks.len() - 1);
    assert_eq!(verdict == Verdict::Connected, connected, "{verdict:?}");
}

#[test]
fn the_tip_is_that_of_the_best_chain_without_what_was_invalidated() {
    let mut fresh = Fresh::default();
    let (mut lower, mut ends) = (0, 0);
    for seed in 0..24 {
        let mut rng = Rng::new(seed);
        let disk = FaultDisk::new();
        let mut chain = open(&disk, None, FILE_SIZE);
        submit_all(&mut chain, &BASE);
        let mut twin = Twin::new();
        for step in 0..40 {
            let what = format!("seed {seed}, step {step}");
            let before = chain.tip_point().height;
            let recent = BASE.len() - 14;
            let any = recent + rng.below((twin.blocks.len() - recent) as u64) as usize;
            match rng.below(10) {
                0..=4 => add_block(&mut chain, &mut twin, &mut rng),
                5 | 6 => {
                    chain.invalidate_block(&twin.blocks[any].hash).unwrap();
                    twin.invalidate(any);
                }
                7 | 8 => {
                    chain.reconsider_block(&twin.blocks[any].hash).unwrap();
                    twin.reconsider(any);
                }
                _ => {
                    ends += 1;
                    // The last word is durable, whether or not the chain has left what failed.
                    match rng.below(3) {
                        0 => chain.close().unwrap(),
                        1 => {
                            chain.flush().unwrap();
                            drop(chain);
                        }
                        _ => {
                            chain.flush().unwrap();
                            drop(chain);
                            disk.crash(Survival::Nothing);
                        }
                    }
                    chain = open(&disk, None, FILE_SIZE);
                }
            }
            agrees(&mut chain, &twin, &what);
            lower += u32::from(chain.tip_point().height < before);
            if rng.chance(250) {
                let expected = fresh.stats(&twin.best_chain());
                assert_eq!(chain.utxo_stats().unwrap(), expected, "{what}");
            }
        }
        let expected = fresh.stats(&twin.best_chain());
        assert_eq!(chain.utxo_stats().unwrap(), expected, "seed {seed}");
    }
    assert!(lower > 40 && ends > 40, "{lower} times a lower tip, {ends} ends");
}

#[test]
fn a_chain_can_be_left_down_to_genesis_and_taken_again() {
    let expected = stats_of(&BASE);
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, FILE_SIZE);
    submit_all(&mut chain, &BASE);
    let first = hash(&BASE[0]);
    chain.invalidate_block(&first).unwrap();
    // At once, with nothing disconnected.
    chain.close().unwrap();
    let mut chain = open(&disk, None, FILE_SIZE);
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip(), chain.tree().genesis());
    assert_eq!(chain.utxo_stats().unwrap().totals.txouts, 0);
    chain.close().unwrap();
    let mut chain = open(&disk, None, FILE_SIZE);
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip(), chain.tree().genesis());
    // By any block of it.
    chain.reconsider_block(&hash(&BASE[BASE.len() / 2])).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.utxo_stats().unwrap(), expected);
    assert_eq!(chain.status().scripts.inputs.proven, 0, "they had passed before");
}

#[test]
fn genesis_and_unknown_blocks_are_refused() {
    let mut chain = open(&FaultDisk::new(), None, FILE_SIZE);
    submit_all(&mut chain, &BASE[..3]);
    let unknown = hash(&BASE[7]);
    let genesis = chain.tree().node(chain.tree().genesis()).hash;
    assert!(matches!(chain.invalidate_block(&genesis), Err(OverruleError::Genesis)));
    assert!(
        matches!(chain.invalidate_block(&unknown), Err(OverruleError::Unknown(h)) if h == unknown)
    );
    assert!(
        matches!(chain.reconsider_block(&unknown), Err(OverruleError::Unknown(h)) if h == unknown)
    );
    // Nothing to reconsider is no error, as in Core.
    chain.reconsider_block(&genesis).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip_point().hash, hash(&BASE[2]));
}

/// A block that truly breaks a rule fails again.
#[test]
fn reconsidering_a_block_verifies_what_had_never_been_connected() {
    let mut chain = open(&FaultDisk::new(), None, FILE_SIZE);
    let (last, below) = BASE.split_last().unwrap();
    submit_all(&mut chain, below);
    let parent = header(below.last().unwrap());
    let height = BASE.len() as u32;
    let bad = block_paying(51 * 100_000_000, parent.block_hash(), height, parent.time + 1);
    let verdict = submit(&mut chain, &bad);
    assert!(matches!(verdict, Verdict::Rejected(reject) if reject.to_string() == "bad-cb-amount"));
    for _ in 0..2 {
        chain.reconsider_block(&hash(&bad)).unwrap();
        chain.settle(clock()).unwrap();
        let id = chain.tree().find(&hash(&bad)).unwrap();
        assert!(chain.tree().node(id).failed);
        assert_eq!(chain.tip_point().hash, parent.block_hash());
    }
    assert_eq!(submit(&mut chain, last), Verdict::Connected);
}

#[test]
fn a_block_below_what_is_kept_cannot_be_invalidated() {
    let disk = FaultDisk::new();
    let mut chain = open(&disk, Some(1), ONE_BLOCK);
    submit_all(&mut chain, &BLOCKS);
    chain.flush().unwrap();
    let lowest = chain.prune_height();
    assert!(lowest > 2);
    let at = |height: u32| hash(&BLOCKS[height as usize - 1]);
    let refused = chain.invalidate_block(&at(lowest - 1));
    let text = refused.as_ref().unwrap_err().to_string();
    assert!(
        matches!(refused, Err(OverruleError::BelowPruned { fork, lowest: l })
            if (fork, l) == (lowest - 2, lowest)),
        "{text}"
    );
    assert!(text.contains(&format!("height {lowest}")), "{text}");
    chain.settle(clock()).unwrap();
    assert_eq!(chain.utxo_stats().unwrap(), *STATS, "nothing has changed");
    let id = chain.tree().find(&at(lowest - 1)).unwrap();
    assert!(!chain.tree().node(id).failed && !chain.tree().node(chain.tip()).failed);

    chain.invalidate_block(&at(lowest)).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip_point().hash, at(lowest - 1));
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS[..lowest as usize - 1]));
    chain.reconsider_block(&at(lowest)).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.utxo_stats().unwrap(), *STATS);
}

/// As on mainnet. The block spends nothing, so that its second look has nothing to search for.
#[test]
fn c15_a_block_that_pays_too_much_fails_where_bip34_implies_bip30() {
    let base = &*BASE;
    let mut params = Params::new(Network::Regtest);
    params.bip34_hash = Some(hash(&base[params.bip34_height as usize - 1]));
    let disk = Arc::new(FaultDisk::new());
    let options = options(params);
    let mut chain = Chain::open(disk, DIR.into(), options, [7; 16], clock()).unwrap();
    submit_all(&mut chain, base);
    let last = header(base.last().unwrap());
    let height = base.len() as u32 + 1;
    let block = block_paying(21_000_000 * 100_000_000, last.block_hash(), height, last.time + 1);
    let Verdict::Rejected(reject) = submit(&mut chain, &block) else { panic!("it pays too much") };
    assert_eq!(reject.reason, RejectReason::BadCbAmount);
    assert_eq!(chain.tip_point().hash, last.block_hash());
}
