//! The chains of the runs, made once, and what is unspent at the end of the best.

use std::sync::{Arc, OnceLock};

use godwit_chain::insert_coin;
use godwit_primitives::muhash::MuHash3072;
use godwit_primitives::network::{Network, Params};
use godwit_primitives::{Amount, Coin, OutPoint, ScriptBytes, Txid, Work};
use godwit_sim::chain::generated;
use godwit_sim::lock::Lock;
use godwit_sim::network::{Branch, World};
use godwit_sim::plan::{ChainPlan, FanOut, Recipe, Source, Stretch};
use godwit_sim::reference::ReferenceUtxo;

/// Work of a block of regtest.
const BLOCK_WORK: u32 = 2;

/// Bytes for the disk, and few signatures to check: much of it is what inscriptions hold.
static LIGHT: Recipe = Recipe {
    name: "few signatures",
    inputs: &[(1, (1, 2))],
    outputs: &[(1, (2, 8))],
    locks: &[(2, Lock::P2wpkh), (1, Lock::P2trKey), (1, Lock::Inscription(0))],
    intra_block: 100,
    ages: &[(200, 1), (400, 6), (700, 20)],
    op_return: 30,
    never_spent: 50,
    source: Source::Ages,
};

/// Old coins that are spent without a signature.
static OLD_COINS: Recipe =
    Recipe { inputs: &[(1, (40, 60))], outputs: &[(1, (1, 2))], source: Source::Bare, ..LIGHT };

/// A world with the network parameters and the result that go with it.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) params: Arc<Params>,
    /// MuHash of the coins after the best chain, by the naive reference.
    pub(super) muhash: [u8; 32],
    /// The most that the buffer of a block takes while it is decoded.
    pub(super) largest_buffer: u64,
}

/// The chain copies a block out of a buffer that is more than four times its size. A mutated block
/// repeats some of its transactions.
fn largest_buffer(world: &World) -> u64 {
    let branches = world.stale.iter().chain(&world.invalid).chain([&world.best]);
    let sizes = branches.flat_map(|branch| branch.blocks()).map(|block| block.bytes.len());
    4 * 2 * sizes.max().expect("genesis is there") as u64
}

impl Stage {
    fn new(world: World) -> Self {
        let mut params = Params::new(Network::Regtest);
        params.minimum_chain_work = Work::from(BLOCK_WORK * world.minimum_height);
        let (muhash, largest_buffer) = (muhash(&world.best), largest_buffer(&world));
        Self { world, params: Arc::new(params), muhash, largest_buffer }
    }

    /// The world whose best chain is a reorganisation away.
    pub(super) fn reorganising() -> &'static Self {
        static STAGE: OnceLock<Stage> = OnceLock::new();
        STAGE.get_or_init(|| Self::new(World::reorganising()))
    }

    /// The world of all script types.
    pub(super) fn mixed() -> &'static Self {
        static STAGE: OnceLock<Stage> = OnceLock::new();
        STAGE.get_or_init(|| Self::new(World::mixed()))
    }

    /// The world of more than 2,000 headers.
    pub(super) fn long() -> &'static Self {
        static STAGE: OnceLock<Stage> = OnceLock::new();
        STAGE.get_or_init(|| Self::new(World::long()))
    }

    /// A chain of 5 MB with large blocks, and nothing besides.
    pub(super) fn heavy() -> &'static Self {
        static STAGE: OnceLock<Stage> = OnceLock::new();
        STAGE.get_or_init(|| Self::plain("heavy", 400_000, 1_000))
    }

    /// A chain of 1 MB, and nothing besides, for many runs.
    pub(super) fn light() -> &'static Self {
        static STAGE: OnceLock<Stage> = OnceLock::new();
        STAGE.get_or_init(|| Self::plain("light", 80_000, 200))
    }

    /// With few signatures: what is looked at here is the disk, and checking those of a usual mix took two
    /// thirds of the time.
    fn plain(name: &'static str, block_weight: u64, bare: u32) -> Self {
        let coins = || FanOut { blocks: 1, locks: LIGHT.locks, bare, giant: 0 };
        let era =
            || [Stretch::FanOut(coins()), Stretch::Mix(&LIGHT, 4), Stretch::Mix(&OLD_COINS, 4)];
        let stretches = (0..5).flat_map(|_| era()).collect();
        let plan = ChainPlan { empty_tail: 3, block_weight, stretches, ..ChainPlan::small(5) };
        let best = Arc::new(Branch::genesis().extended(generated(&plan)));
        let (stale, invalid) = (Vec::new(), Vec::new());
        Self::new(World { name, best, stale, invalid, minimum_height: 0 })
    }

    /// The world of a seed.
    pub(super) fn of_seed(seed: u64) -> &'static Self {
        match seed % 10 {
            0..5 => Self::reorganising(),
            5..9 => Self::mixed(),
            _ => Self::long(),
        }
    }

    /// The nodes' clock at the start: an hour after the last block.
    pub(super) fn unix_start(&self) -> i64 {
        i64::from(self.world.best.tip().header.time) + 3_600
    }
}

/// MuHash of the coins after a chain.
pub(super) fn muhash(branch: &Branch) -> [u8; 32] {
    let mut utxo = ReferenceUtxo::new();
    for (height, block) in (0u32..).zip(branch.blocks()).skip(1) {
        utxo.connect(&block.bytes, height).expect("a valid chain");
    }
    let mut muhash = MuHash3072::new();
    for ((txid, vout), coin) in utxo.iter() {
        let outpoint = OutPoint { txid: Txid::from_bytes(*txid), vout: *vout };
        let coin = Coin {
            value: coin.value as Amount,
            script_pubkey: ScriptBytes::from_slice(&coin.script_pubkey),
            height: coin.height,
            coinbase: coin.coinbase,
        };
        insert_coin(&mut muhash, &outpoint, &coin);
    }
    muhash.finalize()
}
