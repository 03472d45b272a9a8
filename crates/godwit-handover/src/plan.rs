//! Plans a hand-over from the source's index alone, without changing anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use godwit_primitives::BlockHash;
use godwit_primitives::network::{Deployment, Params};
use godwit_store::inspect::{Inspection, NamedFile};
use godwit_store::utxo::CoinsInspection;
use godwit_store::{BlockChecksum, BlockPosition, BlockRecord, ChainPoint, UndoPosition};

use crate::error::HandOverError;
use crate::line::Links;
use crate::record::{FileInfo, MAX_INDEX_RECORD};

/// Magic and length before a block.
pub(crate) const FRAME: u32 = 8;

/// How a file gets into the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As a second name of the same file.
    Shared,
    /// As a copy, because Core will write to the file.
    Copied,
}

/// A file of blocks or undo records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFile {
    pub(crate) from: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) way: Way,
}

/// A block of the last file, and the position of its undo record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopiedBlock {
    pub(crate) hash: BlockHash,
    pub(crate) prev: BlockHash,
    pub(crate) at: BlockPosition,
    /// `None` if an old godwit stored the block.
    pub(crate) checksum: Option<BlockChecksum>,
    pub(crate) undo: Option<UndoPosition>,
}

/// See the module's documentation.
pub struct Plan {
    tip: ChainPoint,
    pruned: bool,
    pub(crate) files: Vec<PlannedFile>,
    pub(crate) infos: BTreeMap<u32, FileInfo>,
    /// Number of the file to which Core will append.
    pub(crate) last: u32,
    /// Position of the genesis block, which godwit does not store and Core needs.
    pub(crate) genesis: BlockPosition,
    pub(crate) headers: u64,
    /// All blocks of the last file.
    pub(crate) copied: Vec<CopiedBlock>,
    coin_bytes: u64,
}

impl Plan {
    /// Plans to hand over the state of the last commit.
    ///
    /// # Errors
    ///
    /// [`HandOverError::NothingStored`], [`HandOverError::Assumed`], [`HandOverError::ShortFile`],
    /// [`HandOverError::BeyondReach`], [`HandOverError::Incomplete`]; failed reads.
    pub fn new(
        inspection: &Inspection,
        coins: &CoinsInspection,
        params: &Params,
    ) -> Result<Self, HandOverError> {
        let state = inspection.state();
        if let Some(assumed) = state.assumed {
            return Err(HandOverError::Assumed(assumed.base.height));
        }
        let nothing = || HandOverError::NothingStored(inspection.dir().to_owned());
        let tip = state.utxo_tip.ok_or_else(nothing)?;
        let (blocks, undo) = (inspection.block_files()?, inspection.undo_files()?);
        let last = blocks.last().ok_or_else(nothing)?;
        let mut links = Links::new(!inspection.has_whole_history());
        let mut counted = Counted::of(inspection, last.number, &mut links)?;
        links.check(tip, params.genesis_hash)?;
        let genesis = genesis_after(last, params)?;
        let (last, infos) = (last.number, &mut counted.infos);
        infos.entry(last).or_default().add(0, params.genesis.time);
        for file in &blocks {
            let size = u32::try_from(file.committed).map_err(|_| beyond(file))?;
            infos.entry(file.number).or_default().size = size;
        }
        for file in &undo {
            let size = u32::try_from(file.committed).map_err(|_| beyond(file))?;
            infos.entry(file.number).or_default().undo_size = size;
        }
        infos.entry(last).or_default().size = genesis.offset + genesis.len;
        let way = |number: u32, is_undo: bool| match number == last
            || is_undo && counted.without_undo.contains(&number)
        {
            true => Way::Copied,
            false => Way::Shared,
        };
        let blocks = blocks.iter().map(|file| planned(file, way(file.number, false)));
        let undo = undo.iter().map(|file| planned(file, way(file.number, true)));
        let files = blocks.chain(undo).collect::<Result<Vec<_>, HandOverError>>()?;
        let Counted { infos, headers, pruned, copied, .. } = counted;
        let coin_bytes = coins.bytes();
        Ok(Self { tip, pruned, files, infos, last, genesis, headers, copied, coin_bytes })
    }

    /// The block whose coins Core will start with.
    pub fn tip(&self) -> ChainPoint {
        self.tip
    }

    /// Whether some blocks are no longer stored.
    pub fn is_pruned(&self) -> bool {
        self.pruned
    }

    /// Bytes of the files that both directories will share.
    pub fn shared_bytes(&self) -> u64 {
        self.bytes(Way::Shared)
    }

    /// Bytes of all block and undo files.
    pub fn stored_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn bytes(&self, way: Way) -> u64 {
        self.files.iter().filter(|file| file.way == way).map(|file| file.bytes).sum()
    }

    /// Bytes that the hand-over needs while it runs, as if all files were on one file system: the copies,
    /// Core's two databases and, until the coins are written, the files in which they are sorted. Less than
    /// half of that remains afterwards.
    pub fn needed_bytes(&self) -> u64 {
        /// Bytes of LevelDB's logs and tables besides the records.
        const DATABASES: u64 = 96 << 20;
        // A run of coins has a filter, as a table has, and pages that are not full.
        let coins = self.coin_bytes + self.coin_bytes / 8;
        let index = self.headers * (MAX_INDEX_RECORD + 33);
        self.bytes(Way::Copied) + index + 2 * coins + DATABASES
    }
}

fn beyond(file: &NamedFile) -> HandOverError {
    HandOverError::BeyondReach(file.path.clone())
}

fn planned(file: &NamedFile, way: Way) -> Result<PlannedFile, HandOverError> {
    match file.there() == file.committed {
        true => Ok(PlannedFile { from: file.path.clone(), bytes: file.committed, way }),
        false => Err(HandOverError::ShortFile(file.path.clone())),
    }
}

/// Puts the genesis block behind all blocks of the last file, which is copied anyway.
fn genesis_after(last: &NamedFile, params: &Params) -> Result<BlockPosition, HandOverError> {
    let len = params.genesis_block().len() as u32;
    let end = u32::try_from(last.committed).ok();
    let offset = end.and_then(|end| end.checked_add(FRAME)).ok_or_else(|| beyond(last))?;
    offset.checked_add(len).ok_or_else(|| beyond(last))?;
    Ok(BlockPosition { file: last.number, offset, len })
}

/// Whether a block is at or above the height from which on Core marks received blocks as received with
/// witnesses.
pub(crate) fn has_segwit(params: &Params, height: u32) -> bool {
    params.is_active(Deployment::Segwit, height)
}

/// What the index says about each file.
#[derive(Default)]
struct Counted {
    infos: BTreeMap<u32, FileInfo>,
    /// Files with a block that has no undo record yet; Core writes one when it connects the block.
    without_undo: BTreeSet<u32>,
    headers: u64,
    pruned: bool,
    copied: Vec<CopiedBlock>,
}

impl Counted {
    fn of(inspection: &Inspection, last: u32, links: &mut Links) -> Result<Self, HandOverError> {
        let mut counted = Self::default();
        inspection.for_each_block(|hash, block| {
            counted.headers += 1;
            links.add(hash, &block);
            match block.position {
                Some(at) => {
                    counted.infos.entry(at.file).or_default().add(block.height, block.header.time);
                    if block.undo.is_none() {
                        counted.without_undo.insert(at.file);
                    }
                    if at.file == last {
                        let BlockRecord { checksum, undo, header, .. } = block;
                        let prev = header.prev_blockhash;
                        counted.copied.push(CopiedBlock { hash, prev, at, checksum, undo });
                    }
                }
                None => counted.pruned |= block.tx_count > 0,
            }
            Ok(())
        })?;
        Ok(counted)
    }
}
