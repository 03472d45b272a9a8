//! Rounds of a comparison: one run of each program, and the ratio of their times.

use serde::Serialize;

use crate::case::Case;
use crate::datadir::DiskUse;
use crate::failure::Failure;
use crate::interval::Interval;
use crate::measured::Measured;
use crate::node::{Node, UtxoSet};
use crate::node_log::LogFacts;
use crate::spread::Spread;

/// One import or sync by one program.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// What the process took.
    #[serde(flatten)]
    pub measured: Measured,
    /// Seconds that the file system needed afterwards to have everything on disk.
    pub sync_seconds: f64,
    /// Seconds of processor time of the servers meanwhile, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_seconds: Option<f64>,
    /// What it left on disk.
    pub disk: DiskUse,
    /// What its log says.
    pub log: LogFacts,
}

/// One run by each program, one right after the other.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// Who went first.
    pub first: Node,
    pub godwit: Run,
    /// `bitcoind`'s.
    pub bitcoind: Run,
}

/// Runs each program once in round `n`, from 0: who goes first, then what godwit's run and bitcoind's gave.
/// They alternate in going first: what the first leaves behind for the second, in the processor or on the
/// disk, then cancels out.
pub(crate) fn in_turn<T>(
    n: usize,
    mut run: impl FnMut(Node) -> Result<T, Failure>,
) -> Result<(Node, T, T), Failure> {
    if n.is_multiple_of(2) {
        let godwit = run(Node::Godwit)?;
        return Ok((Node::Godwit, godwit, run(Node::Bitcoind)?));
    }
    let bitcoind = run(Node::Bitcoind)?;
    Ok((Node::Bitcoind, run(Node::Godwit)?, bitcoind))
}

/// `bitcoind`'s figure over godwit's in the same round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Median and range of the rounds.
    #[serde(flatten)]
    pub spread: Spread,
    /// Estimate and 95 % interval; none of fewer than six rounds.
    pub interval: Option<Interval>,
}

impl Ratio {
    /// Over the rounds; `None` of none.
    pub fn of(rounds: &[Round], value: fn(&Measured) -> f64) -> Option<Self> {
        let ratios: Vec<f64> = rounds.iter().map(|round| round.ratio(value)).collect();
        let spread = Spread::of(ratios.iter().copied())?;
        Some(Self { spread, interval: Interval::of_ratios(&ratios) })
    }
}

impl Round {
    /// `bitcoind`'s figure over godwit's.
    pub fn ratio(&self, value: fn(&Measured) -> f64) -> f64 {
        value(&self.bitcoind.measured) / value(&self.godwit.measured)
    }

    /// The run of one of the programs.
    pub fn by(&self, node: Node) -> &Run {
        match node {
            Node::Godwit => &self.godwit,
            Node::Bitcoind => &self.bitcoind,
        }
    }
}

/// All rounds of one case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseResult {
    pub case: Case,
    /// `-dbcache` in MiB.
    pub dbcache: u64,
    /// `-assumevalid`.
    pub assumevalid: String,
    /// What `godwit` gets besides.
    pub godwit_options: Vec<String>,
    /// What `bitcoind` gets besides.
    pub bitcoind_options: Vec<String>,
    /// Of the time from start to exit.
    pub ratio: Ratio,
    /// Of processor time.
    pub processor: Ratio,
    /// The coins that both ended with after the first round.
    pub set: UtxoSet,
    pub rounds: Vec<Round>,
}
