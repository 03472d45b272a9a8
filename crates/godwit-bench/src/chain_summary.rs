//! The summary of a chain, which its generator wrote beside it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::node::UtxoSet;
use crate::node_log::LogFacts;

/// The parts of `godwit-sim`'s summary that a report needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainSummary {
    /// Name of the plan.
    pub plan: String,
    /// Seed it was generated from.
    pub seed: u64,
    /// Height of the last block.
    pub height: u32,
    /// Hash of the last block.
    pub tip: String,
    /// Hash of the last block before the empty ones at the end.
    pub last_busy_block: String,
    pub last_busy_height: u32,
    /// Stretches of blocks with transactions.
    pub stretches: Vec<Stretch>,
    /// Timestamp of the last block.
    pub tip_time: u32,
    /// Bytes of all blocks.
    pub bytes: u64,
    /// Counts over all transactions but coinbases.
    pub counts: Counts,
    /// Spent coins at most so many blocks old, in percent.
    pub spend_age_percent: Vec<(u32, f64)>,
    /// Unspent outputs at the tip, by the generator's naive reference.
    pub txouts: u64,
    /// Their value in satoshi.
    pub total_amount: u64,
    /// Their `bogosize`.
    pub bogosize: u64,
}

/// Blocks of the same kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// Name of the mix.
    #[serde(default)]
    pub name: String,
    /// Number of blocks.
    #[serde(default)]
    pub blocks: u32,
    /// Counts over their transactions but coinbases.
    #[serde(default)]
    pub counts: Counts,
    /// Spent coins at most so many blocks old, in percent.
    #[serde(default)]
    pub spend_age_percent: Vec<(u32, f64)>,
    /// Height of the first one.
    pub first_height: u32,
}

/// Counts over transactions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    pub txs: u64,
    pub inputs: u64,
    pub outputs: u64,
    /// Outputs that carry data.
    pub op_returns: u64,
    pub ecdsa_signatures: u64,
    pub schnorr_signatures: u64,
    /// Inputs by type of the spent output.
    pub input_types: BTreeMap<String, u64>,
}

/// Ages in blocks up to which spent coins are counted: the generator's classes and two more.
pub const AGES: [u32; 8] = [0, 1, 6, 20, 144, 1008, 4320, 52_560];

/// Blocks worth two weeks: with so many above it, a block is old enough for `-assumevalid`.
const TWO_WEEKS: u32 = 2016;

impl ChainSummary {
    /// The whole path of a chain's file, and the summary beside it.
    pub fn of_file(chain: &Path) -> Result<(PathBuf, Self), Failure> {
        let file = chain.canonicalize().map_err(|error| Failure::File(chain.to_owned(), error))?;
        let summary = Self::beside(&file)?;
        Ok((file, summary))
    }

    /// Reads the summary that lies beside the chain.
    fn beside(chain: &Path) -> Result<Self, Failure> {
        let path = chain.with_extension("json");
        let file = File::open(&path).map_err(|error| Failure::File(path.clone(), error))?;
        serde_json::from_reader(io::BufReader::new(file))
            .map_err(|error| Failure::Json(path, error))
    }

    /// Whether these are the chain's coins at its tip.
    pub fn describes(&self, set: &UtxoSet) -> bool {
        let Self { height, tip, txouts, bogosize, total_amount, .. } = self;
        let amount = format!("{}.{:08}", total_amount / 100_000_000, total_amount % 100_000_000);
        (set.height, &set.bestblock, set.txouts, set.bogosize) == (*height, tip, *txouts, *bogosize)
            && set.total_amount.to_string() == amount
    }

    /// Whether a log shows that the scripts of all blocks with transactions were run, or of none of
    /// them (`-assumevalid`), and afterwards again.
    pub fn ran_scripts(&self, scripts: bool, log: &LogFacts) -> bool {
        let first = self.stretches.first().map_or(1, |stretch| stretch.first_height);
        let busy = first..=self.last_busy_height;
        busy.into_iter().all(|height| log.ran_scripts_of(height) == scripts)
            && log.ran_scripts_of(self.last_busy_height + 1)
    }

    /// Whether nodes take the tip for recent (within 24 hours), now and for the next six hours.
    pub fn is_recent(&self) -> bool {
        const MAX_AGE: Duration = Duration::from_secs(18 * 60 * 60);
        let tip = SystemTime::UNIX_EPOCH + Duration::from_secs(self.tip_time.into());
        tip.elapsed().is_ok_and(|age| age < MAX_AGE)
    }

    /// Whether `-assumevalid` with the last full block switches the scripts of all full blocks off.
    pub fn allows_assumevalid(&self) -> bool {
        self.height - self.last_busy_height > TWO_WEEKS
    }
}
