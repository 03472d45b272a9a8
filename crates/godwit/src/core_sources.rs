//! Bitcoin Core's data directories as sources of an import: where their blocks are, and whether their coins
//! agree with those that result from the blocks.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_chain::Chain;
use godwit_handover::{Chainstate, CoinsRead, HandOverError, LevelDbError};
use godwit_primitives::{BlockHash, ReversedHex};
use godwit_program::options::network_dir;
use godwit_store::disk::{RealDisk, StoreDisk};
use godwit_store::scan::BlockFileScanner;
use godwit_store::{ChainPoint, StoreError};
use indicatif::MultiProgress;

use crate::exit::Exit;
use crate::failure::{Failure, Fatal};
use crate::input_file::{NotRegular, check_regular};
use crate::options::Config;
use crate::process::StopFlag;
use crate::progress::{AtRisk, Position, Progress, Stage};

/// A data directory of Bitcoin Core's that cannot be imported as one. `Display` is one line for the user,
/// with what can be imported instead.
#[derive(Debug)]
enum NotWhole {
    /// There is no `chainstate`.
    WithoutChainstate { dir: PathBuf, blocks: PathBuf },
    /// No block's coins can be read from it: a bitcoind was killed that had just begun to build it anew.
    Unreadable { error: HandOverError, blocks: PathBuf },
    /// Of the blocks only Core's index is there.
    BlocksElsewhere { blocks: PathBuf, elsewhere: PathBuf },
}

impl fmt::Display for NotWhole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithoutChainstate { dir, blocks } => write!(
                f,
                "{} has no chainstate; import {} for the blocks alone",
                dir.display(),
                blocks.display()
            ),
            Self::Unreadable { error, blocks } => {
                write!(f, "{error}; import {} for the blocks alone", blocks.display())
            }
            Self::BlocksElsewhere { blocks, elsewhere } => write!(
                f,
                "{} contains no blk*.dat file; if bitcoind runs with -blocksdir=DIR, import {}",
                blocks.display(),
                elsewhere.display()
            ),
        }
    }
}

impl Fatal for NotWhole {
    fn exit(&self) -> Exit {
        match self {
            Self::Unreadable { error, .. } => error.exit(),
            Self::WithoutChainstate { .. } | Self::BlocksElsewhere { .. } => Exit::Failure,
        }
    }
}

/// Where the network's directory may be of a data directory of Bitcoin Core: `path` may be that itself.
fn network_dirs(config: &Config, path: &Path) -> [PathBuf; 2] {
    [network_dir(path, config.params.network), path.to_owned()]
}

/// The network's directory of a data directory of Bitcoin Core that `path` is, or that is below it.
fn core_directory(config: &Config, path: &Path) -> Option<PathBuf> {
    let holds = |dir: &PathBuf| ["blocks", "chainstate"].iter().all(|name| dir.join(name).is_dir());
    network_dirs(config, path).into_iter().find(holds)
}

/// Where the blocks are of what was given to be imported.
pub(crate) fn blocks_of(config: &Config, path: &Path) -> Result<PathBuf, NotRegular> {
    check_regular(path)?;
    Ok(core_directory(config, path).map_or_else(|| followed(path), |dir| dir.join("blocks")))
}

/// What a link to a single file leads to: the key of a block file of Core's lies beside the file, unless the
/// link is itself in Core's directory, and the file is on another disk.
fn followed(path: &Path) -> PathBuf {
    let leads_on = path.is_symlink() && path.is_file() && !path.with_file_name("xor.dat").exists();
    // Standard input may lead to a file whose name nobody may follow.
    let found = leads_on.then(|| path.canonicalize().ok()).flatten();
    found.unwrap_or_else(|| path.to_owned())
}

/// Opens the block files at `path`, which [`blocks_of`] has told.
fn check_blocks(config: &Config, disk: &StoreDisk, path: &Path) -> Result<(), Failure> {
    let has_files = |dir: &Path| BlockFileScanner::open(disk, dir, config.params.magic).map(drop);
    let error = match has_files(path) {
        Err(error @ StoreError::NoBlockFiles { .. }) => error,
        other => return Ok(other?),
    };
    for dir in network_dirs(config, path) {
        let blocks = dir.join("blocks");
        if blocks.is_dir() && has_files(&blocks).is_ok() {
            return Err(NotWhole::WithoutChainstate { dir, blocks }.into());
        }
    }
    // Which stays where it is with -blocksdir.
    if path.join("index").is_dir() {
        let elsewhere = network_dir(Path::new("DIR"), config.params.network).join("blocks");
        return Err(NotWhole::BlocksElsewhere { blocks: path.to_owned(), elsewhere }.into());
    }
    Err(error.into())
}

/// Opens the coins of a network's directory of Core's.
fn open_chainstate(dir: &Path) -> Result<Chainstate, Failure> {
    Chainstate::open(&dir.join("chainstate")).map_err(|error| match error {
        HandOverError::Database(_, LevelDbError::Missing | LevelDbError::Corruption)
        | HandOverError::NoBestBlock(_)
        | HandOverError::BadRecord(_) => {
            NotWhole::Unreadable { error, blocks: dir.join("blocks") }.into()
        }
        error => error.into(),
    })
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

/// The sources of an import. No bitcoind can start on these directories meanwhile.
pub(crate) struct CoreSources {
    paths: Vec<PathBuf>,
    chainstates: Vec<(PathBuf, Chainstate)>,
}

impl CoreSources {
    /// Fails at once where a bitcoind runs or something is missing, and not after all blocks were validated.
    pub(crate) fn open(config: &Config, paths: &[PathBuf]) -> Result<Self, Failure> {
        let blocks = paths.iter().map(|path| blocks_of(config, path)).collect::<Result<_, _>>()?;
        let blocks = without_duplicates(blocks);
        // A name with a mistake in it is told before there is a data directory.
        let disk = StoreDisk::new(Arc::new(RealDisk));
        for path in &blocks {
            check_blocks(config, &disk, path)?;
        }
        let directories = paths.iter().filter_map(|path| core_directory(config, path)).collect();
        let mut chainstates = Vec::new();
        // One that is named twice would be in use the second time, by this process.
        for dir in without_duplicates(directories) {
            let chainstate = open_chainstate(&dir)?;
            warn_of_pruning(&dir.join("blocks"));
            chainstates.push((dir.join("chainstate"), chainstate));
        }
        Ok(Self { paths: blocks, chainstates })
    }

    /// Block files, and directories with block files.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The comparisons to make: each of Core's coin databases with godwit's own coins, if both are of the
    /// same block.
    pub(crate) fn own_coins(self, chain: &mut Chain) -> Result<Vec<Comparison>, Failure> {
        let (tip, mut own) = (chain.tip_point(), None);
        let mut comparisons = Vec::new();
        for (dir, chainstate) in self.chainstates {
            let best = chainstate.best_block();
            if best == tip.hash && own.is_none() {
                let (totals, muhash) = chain.coins_muhash()?;
                own = Some(Coins { count: totals.txouts, muhash });
            }
            let place = place(chain, &best);
            let own = own.filter(|_| best == tip.hash);
            comparisons.push(Comparison { dir, chainstate, place, tip, own });
        }
        Ok(comparisons)
    }
}

/// Where the block of Core's coins is, which need not be godwit's tip.
#[derive(Clone, Copy)]
enum Place {
    Unknown,
    /// At this height of another branch than godwit's.
    Beside(u32),
    /// At this height of the same branch.
    OnBranch(u32),
}

fn place(chain: &Chain, best: &BlockHash) -> Place {
    let (tree, tip) = (chain.tree(), chain.tip());
    let Some(id) = tree.find(best) else { return Place::Unknown };
    let (height, fork) = (tree.node(id).height, tree.fork(id, tip));
    if fork == id || fork == tip { Place::OnBranch(height) } else { Place::Beside(height) }
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
    place: Place,
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
        let Self { dir, chainstate, place, tip, own } = self;
        let Some(own) = own else {
            let best = chainstate.best_block();
            return Ok(Some(Compared { dir, tip, found: Found::OtherBlock { best, place } }));
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

/// The result of a comparison. `Display` is one line for the user.
pub(crate) struct Compared {
    dir: PathBuf,
    tip: ChainPoint,
    found: Found,
}

enum Found {
    /// Core's coins are those of another block than godwit's.
    OtherBlock {
        best: BlockHash,
        place: Place,
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
            Found::OtherBlock { best, place: Place::OnBranch(at) } => write!(
                f,
                "{dir}: Bitcoin Core's coins are those of block {best} at height {at}, and godwit's those at height \
                 {height}: not compared. An import into an empty directory with -stopatheight={at} compares them."
            ),
            Found::OtherBlock { best, place: Place::Beside(at) } => write!(
                f,
                "{dir}: Bitcoin Core's coins are those of block {best} at height {at} of another branch than godwit's: \
                 not compared. Perhaps invalidateblock was called in Bitcoin Core."
            ),
            Found::OtherBlock { best, place: Place::Unknown } => write!(
                f,
                "{dir}: Bitcoin Core's coins are those of block {best}, to which the blocks that were imported do not \
                 lead: not compared."
            ),
        }
    }
}
