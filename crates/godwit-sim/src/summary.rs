//! Summary of a generated chain's content.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Upper ends of the classes in which spend ages are counted; the last class has none.
pub const AGE_CLASSES: [u32; 6] = [0, 1, 6, 20, 144, 1008];

/// Counts over transactions other than coinbases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    pub txs: u64,
    pub inputs: u64,
    pub outputs: u64,
    /// Outputs that carry data and can never be spent.
    pub op_returns: u64,
    pub ecdsa_signatures: u64,
    pub schnorr_signatures: u64,
    /// Satoshi paid in fees.
    pub fees: u64,
    /// Spent coins by age in blocks, in the classes of [`AGE_CLASSES`].
    pub spend_ages: [u64; AGE_CLASSES.len() + 1],
    /// Inputs by type of the spent output.
    pub input_types: BTreeMap<String, u64>,
    /// Spendable outputs by type.
    pub output_types: BTreeMap<String, u64>,
}

impl Counts {
    /// Counts a spent coin of that age.
    pub fn add_age(&mut self, age: u32) {
        let class = AGE_CLASSES.iter().position(|limit| age <= *limit);
        self.spend_ages[class.unwrap_or(AGE_CLASSES.len())] += 1;
    }

    /// Adds the counts of another part of the chain.
    pub fn add(&mut self, other: &Counts) {
        self.txs += other.txs;
        self.inputs += other.inputs;
        self.outputs += other.outputs;
        self.op_returns += other.op_returns;
        self.ecdsa_signatures += other.ecdsa_signatures;
        self.schnorr_signatures += other.schnorr_signatures;
        self.fees += other.fees;
        for (mine, theirs) in self.spend_ages.iter_mut().zip(other.spend_ages) {
            *mine += theirs;
        }
        add_map(&mut self.input_types, &other.input_types);
        add_map(&mut self.output_types, &other.output_types);
    }

    /// Share of spent coins that were at most as old as each class says, in percent.
    pub fn spend_age_percent(&self) -> Vec<(u32, f64)> {
        let mut sum = 0;
        AGE_CLASSES
            .iter()
            .zip(self.spend_ages)
            .map(|(limit, count)| {
                sum += count;
                (*limit, round_percent(sum, self.inputs))
            })
            .collect()
    }
}

fn add_map(into: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (name, count) in from {
        *into.entry(name.clone()).or_default() += count;
    }
}

fn round_percent(part: u64, whole: u64) -> f64 {
    (part as f64 * 1000.0 / whole.max(1) as f64).round() / 10.0
}

/// One stretch of blocks of the same kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StretchSummary {
    /// Name of the recipe.
    pub name: String,
    /// Height of its first block.
    pub first_height: u32,
    /// Number of its blocks.
    pub blocks: u32,
    /// Bytes of its blocks.
    pub bytes: u64,
    /// Weight of its blocks.
    pub weight: u64,
    /// Counts over its transactions.
    pub counts: Counts,
    /// Spent coins at most so many blocks old, in percent.
    pub spend_age_percent: Vec<(u32, f64)>,
}

/// A whole generated chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the plan.
    pub plan: String,
    /// Seed it was generated from.
    pub seed: u64,
    /// Height of the last block, which is also the number of blocks in the file.
    pub height: u32,
    /// Hash of the last block, as Bitcoin Core prints it.
    pub tip: String,
    /// Timestamp of the last block.
    pub tip_time: u32,
    /// Hash of the last block before the empty tail: what `-assumevalid` names.
    pub last_busy_block: String,
    pub last_busy_height: u32,
    /// Bytes of all blocks, without the framing.
    pub bytes: u64,
    /// Counts over all transactions but coinbases.
    pub counts: Counts,
    /// Spent coins at most so many blocks old, in percent.
    pub spend_age_percent: Vec<(u32, f64)>,
    /// The stretches in order.
    pub stretches: Vec<StretchSummary>,
    /// Unspent outputs at the tip, counted by the naive reference.
    pub txouts: u64,
    /// Their value in satoshi.
    pub total_amount: u64,
    /// Their `bogosize` (Bitcoin Core's `gettxoutsetinfo`).
    pub bogosize: u64,
}
