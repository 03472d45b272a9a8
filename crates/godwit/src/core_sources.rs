//! Data directories of Bitcoin Core that are imported: where their blocks are, and whether their coins are
//! those that the blocks give.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_chain::Chain;
use godwit_handover::{Chainstate, CoinsRead, HandOverError};
use godwit_primitives::{BlockHash, ReversedHex};
use godwit_program::options::network_dir;
use godwit_store::ChainPoint;
use godwit_store::disk::{RealDisk, StoreDisk};
use godwit_store::scan::BlockFileScanner;
use indicatif::MultiProgress;

use crate::failure::Failure;
use crate::input_file::{NotRegular, check_regular};
use crate::options::Config;
use crate::process::StopFlag;
use crate::progress::{AtRisk, Position, Progress, Stage};

/// The network's directory of a data directory of Bitcoin Core that `path` is, or that is below it.
fn core_directory(config: &Config, path: &Path) -> Option<PathBuf> {
    let holds = |dir: &PathBuf| ["blocks", "chainstate"].iter().all(|name| dir.join(name).is_dir());
    [network_dir(path, config.params.network), path.to_owned()].into_iter().find(holds)
}

/// Where the blocks are of what was given to be imported.
pub(crate) fn blocks_of(config: &Config, path: &Path) -> Result<PathBuf, NotRegular> {
    check_regular(path)?;
    Ok(core_directory(config, path).map_or_else(|| path.to_owned(), |dir| dir.join("blocks")))
}

/// The first of those that are the same, by whatever name.
fn without_duplicates(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut known = HashSet::new();
    // What cannot be resolved is told when it is opened.
    paths.retain(|path| known.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    paths
}

/// A user of Core may not remember that it was pruned, and would see hundreds of blocks without parent.
fn warn_of_pruning(blocks: &Path) {
    if !blocks.join("blk00000.dat").exists() {
        log::warn!(
            "{} has no blk00000.dat: Bitcoin Core has pruned it. Blocks whose parents are missing cannot be imported.",
            blocks.display()
        );
    }
}

/// What was given to be imported. No bitcoind starts on these directories meanwhile.
pub(crate) struct CoreSources {
    paths: Vec<PathBuf>,
    chainstates: Vec<(PathBuf, Chainstate)>,
}

impl CoreSources {
    /// Fails at once where a bitcoind runs or something is missing, and not after all blocks were validated.
    pub(crate) fn open(config: &Config, paths: &[PathBuf]) -> Result<Self, Failure> {
        let blocks = paths.iter().map(|path| blocks_of(config, path)).collect::<Result<_, _>>()?;
        let directories = paths.iter().filter_map(|path| core_directory(config, path)).collect();
        let mut chainstates = Vec::new();
        // One that is named twice would be in use the second time, by this process.
        for dir in without_duplicates(directories) {
            let dir = dir.join("chainstate");
            let chainstate = Chainstate::open(&dir)?;
            warn_of_pruning(&dir.with_file_name("blocks"));
            chainstates.push((dir, chainstate));
        }
        let paths = without_duplicates(blocks);
        // A name with a mistake in it is told before there is a data directory.
        let disk = StoreDisk::new(Arc::new(RealDisk));
        for path in &paths {
            BlockFileScanner::open(&disk, path, config.params.magic)?;
        }
        Ok(Self { paths, chainstates })
    }

    /// Block files, and directories with block files.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// What godwit has to be compared with: its own coins, if they are of the same block.
    pub(crate) fn own_coins(self, chain: &mut Chain) -> Result<Vec<Comparison>, Failure> {
        let (tip, mut own) = (chain.tip_point(), None);
        let mut comparisons = Vec::new();
        for (dir, chainstate) in self.chainstates {
            let best = chainstate.best_block();
            if best == tip.hash && own.is_none() {
                let (totals, muhash) = chain.coins_muhash()?;
                own = Some(Coins { count: totals.txouts, muhash });
            }
            let height = chain.tree().find(&best).map(|id| chain.tree().node(id).height);
            let own = own.filter(|_| best == tip.hash);
            comparisons.push(Comparison { dir, chainstate, height, tip, own });
        }
        Ok(comparisons)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Coins {
    count: u64,
    /// As it is hashed.
    muhash: [u8; 32],
}

impl fmt::Display for Coins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} coins with MuHash {}", self.count, ReversedHex(&self.muhash))
    }
}

/// One directory's coins, and godwit's.
pub(crate) struct Comparison {
    dir: PathBuf,
    chainstate: Chainstate,
    /// Of Core's tip, if godwit knows it.
    height: Option<u32>,
    tip: ChainPoint,
    own: Option<Coins>,
}

impl Comparison {
    /// Reads Core's coins; `None` if the user ends it.
    pub(crate) fn with_core(
        self,
        threads: usize,
        bars: &MultiProgress,
        stop: &StopFlag,
    ) -> Result<Option<Compared>, Failure> {
        let Self { dir, chainstate, height, tip, own } = self;
        let Some(own) = own else {
            let best = chainstate.best_block();
            return Ok(Some(Compared { dir, tip, found: Found::OtherBlock { best, height } }));
        };
        let mut progress = Progress::start(bars);
        let read = chainstate.read(threads, stop.shared(), &mut |done, total| {
            progress.update(Position {
                stage: Stage::ReadingCore,
                blocks: 0,
                bytes: 0,
                done,
                total,
                at_risk: AtRisk::default(),
            });
        });
        progress.finish();
        match read {
            Ok(CoinsRead { coins, muhash, .. }) => {
                let core = Coins { count: coins, muhash };
                Ok(Some(Compared { dir, tip, found: Found::Coins { own, core } }))
            }
            Err(HandOverError::Stopped) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// What came of a comparison. `Display` is one line for the user.
pub(crate) struct Compared {
    dir: PathBuf,
    tip: ChainPoint,
    found: Found,
}

enum Found {
    /// Core's coins are those of another block than godwit's.
    OtherBlock {
        best: BlockHash,
        height: Option<u32>,
    },
    Coins {
        own: Coins,
        core: Coins,
    },
}

impl Compared {
    pub(crate) fn are_equal(&self) -> bool {
        matches!(&self.found, Found::Coins { own, core } if own == core)
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dir, height) = (self.dir.display(), self.tip.height);
        match &self.found {
            Found::Coins { own, core } if own == core => {
                write!(
                    f,
                    "{dir}: Bitcoin Core's coins at height {height} are those of godwit: {own}."
                )
            }
            Found::Coins { own, core } => write!(
                f,
                "{dir}: Bitcoin Core's coins at height {height} differ: it has {core}, and its blocks give {own}."
            ),
            Found::OtherBlock { best, height: Some(at) } => write!(
                f,
                "{dir}: Bitcoin Core's coins are those of block {best} at height {at}, and godwit's those at height \
                 {height}: not compared. An import into an empty directory with -stopatheight={at} compares them."
            ),
            Found::OtherBlock { best, height: None } => write!(
                f,
                "{dir}: Bitcoin Core's coins are those of block {best}, to which the blocks that were imported do not \
                 lead: not compared."
            ),
        }
    }
}
