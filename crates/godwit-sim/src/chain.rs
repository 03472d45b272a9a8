//! Generation of whole chains, block by block in height order.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::{fmt, thread};

use bitcoin::hashes::Hash;
use bitcoin::{OutPoint, ScriptBuf};

use crate::assemble::{self, Assembled};
use crate::keys::KeyRing;
use crate::lane::{Budget, Lane, LanePart};
use crate::lock::{self, Coin, Lock, Locking};
use crate::miner::{self, Tip};
use crate::plan::{ChainPlan, START_TIME, Stretch};
use crate::reference::{ReferenceError, ReferenceUtxo};
use crate::rng::Rng;
use crate::summary::{StretchSummary, Summary};

/// Changes whenever the same plan and seed give another chain; part of cached file names.
pub const GENERATOR_VERSION: u32 = 1;

/// The same on every machine: another number of lanes makes another chain.
const LANES: u64 = 4;
const ASSEMBLER_RING: u64 = LANES;
/// Blocks that a lane may be ahead of the assembler.
const LANE_LEAD: usize = 3;
/// Weight that header, transaction count and coinbase need.
const BLOCK_OVERHEAD: u64 = 2_000;
const SIGOP_BUDGET: u64 = 79_000;

/// A finished block on its way to the sink.
#[derive(Clone, Copy, Debug)]
pub struct GeneratedBlock<'a> {
    /// Height; the genesis block is not generated, so the first is 1.
    pub height: u32,
    /// Hash in internal byte order.
    pub hash: [u8; 32],
    /// Consensus serialisation with witnesses.
    pub bytes: &'a [u8],
}

/// Why a chain could not be generated.
#[derive(Debug)]
pub enum GenerateError {
    /// The sink or the file failed.
    Io(io::Error),
    /// The generator contradicts itself.
    Reference(ReferenceError),
    /// A cached summary cannot be read or written.
    Summary(serde_json::Error),
    /// The thread of a lane ended early.
    LaneStopped,
}

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GenerateError::Io(error) => write!(f, "writing the chain: {error}"),
            GenerateError::Reference(error) => write!(f, "generated an invalid block: {error}"),
            GenerateError::Summary(error) => write!(f, "chain summary: {error}"),
            GenerateError::LaneStopped => write!(f, "a generator thread stopped early"),
        }
    }
}

impl std::error::Error for GenerateError {}

impl From<io::Error> for GenerateError {
    fn from(error: io::Error) -> GenerateError {
        GenerateError::Io(error)
    }
}

/// Generates the blocks of a plan in height order.
pub fn generate(
    plan: &ChainPlan,
    sink: impl FnMut(GeneratedBlock<'_>) -> io::Result<()>,
) -> Result<Summary, GenerateError> {
    thread::scope(|scope| {
        let mut assembler = Assembler::new(plan, sink);
        let coinbases = assembler.mine_empty_prefix()?;
        let lanes: Vec<Receiver<LanePart>> = (0u64..)
            .zip(coinbases)
            .map(|(number, coins)| {
                let (sender, receiver) = sync_channel(LANE_LEAD);
                // A send fails only when the assembler has stopped; then the lane stops too.
                scope
                    .spawn(move || run_lane(plan, number, coins, |part| sender.send(part).is_ok()));
                receiver
            })
            .collect();
        for stretch in &plan.stretches {
            assembler.mine_stretch(stretch, &lanes)?;
        }
        assembler.mine_tail()?;
        Ok(assembler.into_summary())
    })
}

fn run_lane(
    plan: &ChainPlan,
    number: u64,
    coinbases: Vec<Coin>,
    mut deliver: impl FnMut(LanePart) -> bool,
) {
    let keys = KeyRing::new(plan.seed, number);
    let rng = Rng::new(plan.seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut lane = Lane::new(keys, rng, plan.maturing + 1, coinbases);
    let budget = Budget {
        weight: (plan.block_weight - BLOCK_OVERHEAD) / LANES,
        sigop_cost: SIGOP_BUDGET / LANES,
    };
    for stretch in &plan.stretches {
        let (blocks, _) = shape(stretch);
        for block in 0..blocks {
            let part = match stretch {
                Stretch::FanOut(fan_out) => lane.fan_out(fan_out, block == 0, budget),
                Stretch::Mix(recipe, _) => lane.mix(recipe, budget),
            };
            if !deliver(part) {
                return;
            }
        }
    }
}

fn shape(stretch: &Stretch) -> (u32, &'static str) {
    match stretch {
        Stretch::FanOut(fan_out) => (fan_out.blocks, "fan-out"),
        Stretch::Mix(recipe, blocks) => (*blocks, recipe.name),
    }
}

struct Assembler<'a, S> {
    plan: &'a ChainPlan,
    sink: S,
    keys: KeyRing,
    tip: Tip,
    utxo: ReferenceUtxo,
    summary: Summary,
}

impl<'a, S: FnMut(GeneratedBlock<'_>) -> io::Result<()>> Assembler<'a, S> {
    fn new(plan: &'a ChainPlan, sink: S) -> Self {
        Assembler {
            plan,
            sink,
            keys: KeyRing::new(plan.seed, ASSEMBLER_RING),
            tip: miner::genesis_tip(),
            utxo: ReferenceUtxo::new(),
            summary: Summary { plan: plan.name.to_owned(), seed: plan.seed, ..Summary::default() },
        }
    }

    /// Mines the blocks whose coinbases the fan-outs split; returns each lane's, the earliest
    /// last, since lanes take from the end.
    fn mine_empty_prefix(&mut self) -> Result<Vec<Vec<Coin>>, GenerateError> {
        let rings: Vec<KeyRing> =
            (0..LANES).map(|lane| KeyRing::new(self.plan.seed, lane)).collect();
        let mut coins: Vec<Vec<Coin>> = rings.iter().map(|_| Vec::new()).collect();
        let owned = self.fan_out_blocks() * LANES as u32;
        for height in 1..=self.plan.maturing {
            if height > owned {
                self.mine_empty()?;
                continue;
            }
            let owner = (u64::from(height - 1) % LANES) as usize;
            let key = coinbase_key(height);
            let Locking { script_pubkey, revealed } =
                lock::locking(&rings[owner], Lock::P2pkh, key);
            let value = miner::subsidy(height);
            let coinbase = miner::coinbase(height, 0, value, script_pubkey.clone());
            self.mine(script_pubkey.clone(), &[])?;
            coins[owner].push(Coin {
                outpoint: OutPoint { txid: coinbase.compute_txid(), vout: 0 },
                value,
                height,
                lock: Lock::P2pkh,
                key,
                script_pubkey,
                revealed,
            });
        }
        coins.iter_mut().for_each(|lane| lane.reverse());
        Ok(coins)
    }

    fn fan_out_blocks(&self) -> u32 {
        let fan_outs = self.plan.stretches.iter().filter(|s| matches!(s, Stretch::FanOut(_)));
        fan_outs.map(|stretch| shape(stretch).0).sum()
    }

    fn mine_stretch(
        &mut self,
        stretch: &Stretch,
        lanes: &[Receiver<LanePart>],
    ) -> Result<(), GenerateError> {
        let (blocks, name) = shape(stretch);
        let mut totals = StretchSummary {
            name: name.to_owned(),
            first_height: self.tip.height + 1,
            blocks,
            ..StretchSummary::default()
        };
        for _ in 0..blocks {
            let parts = lanes
                .iter()
                .map(|lane| lane.recv().map_err(|_| GenerateError::LaneStopped))
                .collect::<Result<Vec<LanePart>, _>>()?;
            let payout = self.payout();
            let block = self.mine(payout, &parts)?;
            totals.bytes += block.bytes.len() as u64;
            totals.weight += block.weight;
            parts.iter().for_each(|part| totals.counts.add(&part.counts));
        }
        totals.spend_age_percent = totals.counts.spend_age_percent();
        self.summary.counts.add(&totals.counts);
        self.summary.stretches.push(totals);
        Ok(())
    }

    fn mine_tail(&mut self) -> Result<(), GenerateError> {
        self.summary.last_busy_block = self.tip.hash.to_string();
        self.summary.last_busy_height = self.tip.height;
        (0..self.plan.empty_tail).try_for_each(|_| self.mine_empty())
    }

    fn mine_empty(&mut self) -> Result<(), GenerateError> {
        let payout = self.payout();
        self.mine(payout, &[]).map(drop)
    }

    fn payout(&self) -> ScriptBuf {
        lock::script_pubkey(&self.keys, Lock::P2wpkh, coinbase_key(self.tip.height + 1))
    }

    fn mine(&mut self, payout: ScriptBuf, parts: &[LanePart]) -> Result<Assembled, GenerateError> {
        let time = self.plan.start_time + miner::BLOCK_SPACING * (self.tip.height + 1);
        let block = assemble::block(&self.tip, time, payout, parts);
        self.tip = block.tip;
        self.utxo.connect(&block.bytes, block.tip.height).map_err(GenerateError::Reference)?;
        self.summary.bytes += block.bytes.len() as u64;
        (self.sink)(GeneratedBlock {
            height: block.tip.height,
            hash: block.tip.hash.to_byte_array(),
            bytes: &block.bytes,
        })?;
        Ok(block)
    }

    fn into_summary(self) -> Summary {
        Summary {
            height: self.tip.height,
            tip: self.tip.hash.to_string(),
            tip_time: self.tip.time,
            spend_age_percent: self.summary.counts.spend_age_percent(),
            txouts: self.utxo.txouts(),
            total_amount: self.utxo.total_amount(),
            bogosize: self.utxo.bogosize(),
            ..self.summary
        }
    }
}

/// Keys of coinbases are numbered by height, far above the keys of other coins.
fn coinbase_key(height: u32) -> u64 {
    (1 << 40) + u64::from(height)
}

/// The blocks of a plan that is known to be sound, in height order.
pub fn generated(plan: &ChainPlan) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    generate(plan, |block| {
        blocks.push(block.bytes.to_vec());
        Ok(())
    })
    .expect("the plan is sound");
    blocks
}

/// Writes the chain to a block file of Bitcoin Core's framing (magic, length, block), without the
/// genesis block. `progress` hears the height after each block.
pub fn write_dat(
    plan: &ChainPlan,
    path: &Path,
    mut progress: impl FnMut(u32),
) -> Result<Summary, GenerateError> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let summary = generate(plan, |block| {
        miner::write_record(&mut file, block.bytes)?;
        progress(block.height);
        Ok(())
    })?;
    file.flush()?;
    Ok(summary)
}

/// A chain file that is made once.
#[derive(Clone, Debug)]
pub struct CachedChain {
    /// The block file.
    pub path: PathBuf,
    /// What is in it.
    pub summary: Summary,
}

/// The plan's chain file in `directory`, generated if it is not there yet. The summary lies beside
/// it with the ending `.json`, and is written last: without it the file counts as unfinished.
pub fn cached_dat(
    plan: &ChainPlan,
    directory: &Path,
    progress: impl FnMut(u32),
) -> Result<CachedChain, GenerateError> {
    let moved = match plan.start_time {
        START_TIME => String::new(),
        start_time => format!("-from{start_time}"),
    };
    let name = format!("{}-seed{}{moved}-v{GENERATOR_VERSION}", plan.name, plan.seed);
    let path = directory.join(format!("{name}.dat"));
    let summary_path = directory.join(format!("{name}.json"));
    match fs::read(&summary_path) {
        Ok(json) => {
            let summary = serde_json::from_slice(&json).map_err(GenerateError::Summary)?;
            return Ok(CachedChain { path, summary });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    fs::create_dir_all(directory)?;
    // Two processes may generate the same chain; each renames a whole file into place.
    let own = format!("{name}.{}.tmp", std::process::id());
    let unfinished = directory.join(&own);
    let summary = write_dat(plan, &unfinished, progress)?;
    fs::rename(&unfinished, &path)?;
    let json = serde_json::to_vec_pretty(&summary).map_err(GenerateError::Summary)?;
    fs::write(&unfinished, json)?;
    fs::rename(&unfinished, &summary_path)?;
    Ok(CachedChain { path, summary })
}
