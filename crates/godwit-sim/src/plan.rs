//! Shapes of generated chains.
//!
//! The mixes follow what real blocks of three eras showed (heights 361,582 to 866,342: inputs and
//! outputs per transaction, script types, ages of the spent coins) and the aggregate statistics
//! of the whole chain; rounded, since the point is the load, not the history.

use crate::lock::Lock;
use crate::miner::{self, BLOCK_SPACING};

/// A part of a weighted list of ranges: weight, then lowest and highest number.
pub type Spread = &'static [(u32, (u32, u32))];

/// Where the coins of a block's transactions come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// By age, from coins made in earlier blocks or in the same one.
    Ages,
    /// Bare coins of the fan-out: small inputs without signatures.
    Bare,
    /// The very large inscriptions that the fan-out committed to.
    Giants,
}

/// The statistics of one kind of block.
#[derive(Debug)]
pub struct Recipe {
    /// Name in summaries.
    pub name: &'static str,
    /// Inputs of a transaction.
    pub inputs: Spread,
    /// Outputs of a transaction.
    pub outputs: Spread,
    /// Types of new outputs by weight. The numbers in [`Lock`] are filled in when one is made.
    pub locks: &'static [(u32, Lock)],
    /// Of 1,000 inputs, those that spend an output of the same block.
    pub intra_block: u32,
    /// Ages of the other spent coins: of 1,000, so many are at most that many blocks old. What is
    /// missing to 1,000 is taken from all older coins.
    pub ages: &'static [(u32, u32)],
    /// Of 1,000 outputs, those that carry data instead of value.
    pub op_return: u32,
    /// Of 1,000 spendable outputs, those that nobody ever spends; they are worth little.
    pub never_spent: u32,
    /// Origin of the coins.
    pub source: Source,
}

/// Blocks that turn coinbases into the many coins of a history that is not generated.
#[derive(Debug)]
pub struct FanOut {
    /// Number of blocks.
    pub blocks: u32,
    /// Types of the coins by weight.
    pub locks: &'static [(u32, Lock)],
    /// Bare coins that each transaction makes for [`Source::Bare`].
    pub bare: u32,
    /// Content bytes of an inscription for [`Source::Giants`] in each lane; 0 for none.
    pub giant: u32,
}

/// A stretch of blocks.
#[derive(Debug)]
pub enum Stretch {
    /// Coinbases are split.
    FanOut(FanOut),
    /// That many blocks of a recipe.
    Mix(&'static Recipe, u32),
}

/// A whole chain.
#[derive(Debug)]
pub struct ChainPlan {
    /// Name on the command line and in file names.
    pub name: &'static str,
    /// Everything random follows from it.
    pub seed: u64,
    /// Timestamp of block 0 of the regular spacing; block n comes 600 n seconds later.
    pub start_time: u32,
    /// Empty blocks before the first stretch; their coinbases are what the fan-outs split.
    pub maturing: u32,
    /// The blocks with transactions.
    pub stretches: Vec<Stretch>,
    /// Weight that these blocks are filled up to.
    pub block_weight: u64,
    /// Empty blocks at the end.
    pub empty_tail: u32,
}

/// Stretches of the benchmark's chain before the fan-out of its last era.
const LAST_ERA: usize = 4;

/// Timestamps start in November 2023: past for every machine that runs this.
pub(crate) const START_TIME: u32 = 1_700_000_000;

impl ChainPlan {
    /// A chain for tests: small blocks, every script type, made in about a second.
    pub fn small(seed: u64) -> ChainPlan {
        ChainPlan {
            name: "small",
            seed,
            start_time: START_TIME,
            maturing: 116,
            stretches: vec![
                Stretch::FanOut(FanOut { blocks: 1, locks: OLD_COINS, bare: 10, giant: 2_000 }),
                Stretch::Mix(&PRE_SEGWIT, 12),
                Stretch::FanOut(FanOut { blocks: 1, locks: SEGWIT_COINS, bare: 10, giant: 2_000 }),
                Stretch::Mix(&SEGWIT, 16),
                Stretch::FanOut(FanOut { blocks: 1, locks: MODERN_COINS, bare: 10, giant: 2_000 }),
                Stretch::Mix(&MODERN, 16),
                Stretch::Mix(&SWEEP, 1),
                Stretch::Mix(&GIANT_INSCRIPTIONS, 1),
            ],
            block_weight: 120_000,
            empty_tail: 5,
        }
    }

    /// The demo's chain: blocks of 15 % of full weight.
    pub fn demo(seed: u64) -> ChainPlan {
        ChainPlan {
            name: "demo",
            seed,
            start_time: START_TIME,
            maturing: 140,
            stretches: vec![
                Stretch::FanOut(FanOut { blocks: 3, locks: OLD_COINS, bare: 200, giant: 100_000 }),
                Stretch::Mix(&PRE_SEGWIT, 45),
                Stretch::FanOut(FanOut { blocks: 3, locks: SEGWIT_COINS, bare: 0, giant: 0 }),
                Stretch::Mix(&SEGWIT, 90),
                Stretch::FanOut(FanOut { blocks: 3, locks: MODERN_COINS, bare: 0, giant: 0 }),
                Stretch::Mix(&MODERN, 60),
                Stretch::Mix(&SWEEP, 1),
                Stretch::Mix(&GIANT_INSCRIPTIONS, 1),
            ],
            block_weight: 600_000,
            empty_tail: 20,
        }
    }

    /// The benchmark's chain: 550 full blocks in mainnet's byte proportion of the eras (about
    /// 17 % before segwit, 44 % from 2017 to 2022, 39 % later), one block of small old inputs,
    /// one of inscriptions, and 2,100 empty blocks, so that two weeks of work lie above.
    pub fn benchmark(seed: u64) -> ChainPlan {
        ChainPlan {
            name: "benchmark",
            seed,
            start_time: START_TIME,
            maturing: 260,
            stretches: vec![
                Stretch::FanOut(FanOut { blocks: 13, locks: OLD_COINS, bare: 500, giant: 970_000 }),
                Stretch::Mix(&PRE_SEGWIT, 124),
                Stretch::FanOut(FanOut { blocks: 13, locks: SEGWIT_COINS, bare: 0, giant: 0 }),
                Stretch::Mix(&SEGWIT, 256),
                Stretch::FanOut(FanOut { blocks: 13, locks: MODERN_COINS, bare: 0, giant: 0 }),
                Stretch::Mix(&MODERN, 170),
                Stretch::Mix(&SWEEP, 1),
                Stretch::Mix(&GIANT_INSCRIPTIONS, 1),
            ],
            block_weight: crate::miner::MAX_BLOCK_WEIGHT,
            empty_tail: 2_100,
        }
    }

    /// A third of the benchmark's chain in the same proportions, for comparisons that need many rounds
    /// more than long ones.
    pub fn third(seed: u64) -> ChainPlan {
        let fan_out =
            |locks, bare, giant| Stretch::FanOut(FanOut { blocks: 5, locks, bare, giant });
        ChainPlan {
            name: "third",
            maturing: 160,
            stretches: vec![
                fan_out(OLD_COINS, 500, 970_000),
                Stretch::Mix(&PRE_SEGWIT, 41),
                fan_out(SEGWIT_COINS, 0, 0),
                Stretch::Mix(&SEGWIT, 85),
                fan_out(MODERN_COINS, 0, 0),
                Stretch::Mix(&MODERN, 57),
                Stretch::Mix(&SWEEP, 1),
                Stretch::Mix(&GIANT_INSCRIPTIONS, 1),
            ],
            ..ChainPlan::benchmark(seed)
        }
    }

    /// The benchmark's chain with 1,100 empty blocks before the last era, so that this one spends coins
    /// older than a week as well, as blocks of the main chain do.
    pub fn aged(seed: u64) -> ChainPlan {
        let ChainPlan { mut stretches, .. } = ChainPlan::benchmark(seed);
        stretches.insert(LAST_ERA, Stretch::Mix(&EMPTY, 1_100));
        ChainPlan { name: "aged", stretches, ..ChainPlan::benchmark(seed) }
    }

    /// The benchmark's chain with four times as many blocks of each era, for tests in which something has to
    /// happen often during one import.
    pub fn long(seed: u64) -> ChainPlan {
        let ChainPlan { mut stretches, .. } = ChainPlan::benchmark(seed);
        for stretch in &mut stretches {
            if let Stretch::Mix(_, blocks) = stretch
                && *blocks > 1
            {
                *blocks *= 4;
            }
        }
        ChainPlan { name: "long", stretches, ..ChainPlan::benchmark(seed) }
    }

    /// The kill tests' chain: a million coins at the end, most of them cheap to make, that grow
    /// beside twenty seconds of script checks, and late blocks that spend many old ones at once.
    pub fn kills(seed: u64) -> ChainPlan {
        const ERAS: u32 = 26;
        let coins = || FanOut { blocks: 2, locks: MODERN_COINS, bare: 4_500, giant: 0 };
        let era = |n: u32| {
            let sweeps = u32::from(n >= ERAS / 2);
            let blocks = [Stretch::FanOut(coins()), Stretch::Mix(&SEGWIT, 2)];
            blocks.into_iter().chain([Stretch::Mix(&SWEEP, sweeps)])
        };
        ChainPlan {
            name: "kills",
            seed,
            start_time: START_TIME,
            maturing: 4 * 2 * ERAS + 100,
            stretches: (0..ERAS).flat_map(era).collect(),
            block_weight: 2_000_000,
            empty_tail: 5,
        }
    }

    /// The plan with this name.
    pub fn by_name(name: &str, seed: u64) -> Option<ChainPlan> {
        match name {
            "small" => Some(ChainPlan::small(seed)),
            "demo" => Some(ChainPlan::demo(seed)),
            "kills" => Some(ChainPlan::kills(seed)),
            "benchmark" => Some(ChainPlan::benchmark(seed)),
            "aged" => Some(ChainPlan::aged(seed)),
            "third" => Some(ChainPlan::third(seed)),
            "long" => Some(ChainPlan::long(seed)),
            _ => None,
        }
    }

    /// The same plan with timestamps moved so that the last block's is `time`, seconds since 1970:
    /// some nodes serve nothing while their tip is a day old. `None` when the first block would not
    /// be later than regtest's genesis block.
    pub fn ending_at(self, time: u32) -> Option<ChainPlan> {
        let start_time = time.checked_sub(BLOCK_SPACING.checked_mul(self.height())?)?;
        (start_time >= miner::genesis_tip().time).then_some(ChainPlan { start_time, ..self })
    }

    /// Height of the last block.
    pub fn height(&self) -> u32 {
        self.maturing + self.busy_blocks() + self.empty_tail
    }

    /// Blocks with transactions.
    pub fn busy_blocks(&self) -> u32 {
        self.stretches
            .iter()
            .map(|stretch| match stretch {
                Stretch::FanOut(fan_out) => fan_out.blocks,
                Stretch::Mix(_, blocks) => *blocks,
            })
            .sum()
    }
}

/// 2009 to 2017: P2PKH and 2-of-3 P2SH, a few transactions with hundreds of inputs, whose legacy
/// signature hashes are quadratic.
static PRE_SEGWIT: Recipe = Recipe {
    name: "pre-segwit",
    inputs: &[
        (720, (1, 1)),
        (150, (2, 2)),
        (85, (3, 6)),
        (35, (7, 20)),
        (9, (21, 60)),
        (1, (200, 400)),
    ],
    outputs: &[(150, (1, 1)), (745, (2, 2)), (70, (3, 6)), (36, (7, 24)), (3, (25, 80))],
    locks: &[
        (780, Lock::P2pkh),
        (185, Lock::P2shMultisig),
        (12, Lock::P2pk),
        (8, Lock::BareMultisig),
        (15, Lock::Csv(1)),
    ],
    intra_block: 55,
    ages: &[(190, 1), (290, 6), (430, 20), (720, 144)],
    op_return: 10,
    never_spent: 50,
    source: Source::Ages,
};

/// 2017 to 2022: nested and native segwit v0 beside the older types.
pub static SEGWIT: Recipe = Recipe {
    name: "segwit",
    inputs: &[(740, (1, 1)), (130, (2, 2)), (80, (3, 6)), (40, (7, 24)), (10, (25, 120))],
    outputs: &[(150, (1, 1)), (730, (2, 2)), (80, (3, 6)), (25, (7, 30)), (7, (31, 120))],
    locks: &[
        (340, Lock::P2shP2wpkh),
        (290, Lock::P2wpkh),
        (180, Lock::P2pkh),
        (110, Lock::P2shMultisig),
        (45, Lock::P2wshMultisig),
        (10, Lock::P2trKey),
        (8, Lock::Cltv(0)),
        (8, Lock::Csv(1)),
        (2, Lock::LargeScript),
        (2, Lock::BareMultisig),
        (5, Lock::P2pk),
    ],
    intra_block: 55,
    ages: &[(280, 1), (360, 6), (450, 20), (710, 144)],
    op_return: 30,
    never_spent: 50,
    source: Source::Ages,
};

/// 2023 and later: taproot, data outputs, inscriptions, long chains inside a block.
static MODERN: Recipe = Recipe {
    name: "modern",
    inputs: &[(810, (1, 1)), (100, (2, 2)), (60, (3, 6)), (25, (7, 20)), (5, (21, 100))],
    outputs: &[(200, (1, 1)), (600, (2, 2)), (160, (3, 4)), (30, (5, 20)), (10, (21, 60))],
    locks: &[
        (545, Lock::P2wpkh),
        (270, Lock::P2trKey),
        (70, Lock::P2pkh),
        (40, Lock::P2shP2wpkh),
        (20, Lock::P2trScript),
        (12, Lock::P2wshMultisig),
        (10, Lock::P2shMultisig),
        (16, Lock::Inscription(0)),
        (4, Lock::Cltv(0)),
        (4, Lock::Csv(1)),
        (1, Lock::LargeScript),
        (2, Lock::P2pk),
    ],
    intra_block: 500,
    ages: &[(80, 1), (160, 6), (280, 20), (550, 144)],
    op_return: 400,
    never_spent: 50,
    source: Source::Ages,
};

/// Block 367,891 and the 20,817-input block: many old inputs without signatures.
static SWEEP: Recipe = Recipe {
    name: "sweep",
    inputs: &[(1, (40, 60))],
    outputs: &[(1, (1, 2))],
    locks: &[(1, Lock::P2pkh)],
    intra_block: 0,
    ages: &[],
    op_return: 0,
    never_spent: 0,
    source: Source::Bare,
};

/// Blocks without transactions, in which coins only grow older.
static EMPTY: Recipe = Recipe {
    name: "empty",
    inputs: &[(1, (0, 0))],
    outputs: &[(1, (1, 1))],
    locks: &[(1, Lock::P2pkh)],
    intra_block: 0,
    ages: &[],
    op_return: 0,
    never_spent: 0,
    source: Source::Bare,
};

/// A block that is nearly all witness.
pub static GIANT_INSCRIPTIONS: Recipe = Recipe {
    name: "giant-inscriptions",
    inputs: &[(1, (1, 1))],
    outputs: &[(1, (1, 1))],
    locks: &[(1, Lock::P2trKey)],
    intra_block: 0,
    ages: &[],
    op_return: 0,
    never_spent: 0,
    source: Source::Giants,
};

/// What the fan-out before the first era makes.
pub const OLD_COINS: &[(u32, Lock)] =
    &[(820, Lock::P2pkh), (160, Lock::P2shMultisig), (15, Lock::P2pk), (5, Lock::BareMultisig)];

const SEGWIT_COINS: &[(u32, Lock)] = &[
    (380, Lock::P2shP2wpkh),
    (320, Lock::P2wpkh),
    (150, Lock::P2pkh),
    (100, Lock::P2shMultisig),
    (50, Lock::P2wshMultisig),
];

const MODERN_COINS: &[(u32, Lock)] = &[
    (560, Lock::P2wpkh),
    (330, Lock::P2trKey),
    (60, Lock::P2pkh),
    (30, Lock::P2trScript),
    (20, Lock::P2wshMultisig),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_has_the_benchmarks_stretches_each_a_third_as_long() {
        let blocks = |plan: ChainPlan| {
            let of = |stretch: &Stretch| match stretch {
                Stretch::FanOut(fan_out) => ("fan-out", fan_out.blocks),
                Stretch::Mix(recipe, blocks) => (recipe.name, *blocks),
            };
            plan.stretches.iter().map(of).collect::<Vec<_>>()
        };
        let (third, whole) = (blocks(ChainPlan::third(1)), blocks(ChainPlan::benchmark(1)));
        assert_eq!(third.len(), whole.len());
        for ((name, short), (of, long)) in third.into_iter().zip(whole) {
            assert_eq!(name, of);
            assert!(short == long || short.abs_diff(long / 3) <= 1, "{name}: {short} of {long}");
        }
    }
}
