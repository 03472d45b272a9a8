//! Checks of the indexes that keep one entry for each block, written once for both of them.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use godwit_chain::{Chain, lowest_for_indexes};
use godwit_fault_disk::FaultDisk;
use godwit_index::{
    BlockFilter, CoinStats, CoinStatsIndex, CoinStatsIndexWriter, FilterIndex, FilterIndexWriter,
    Follower, INDEXES_DIR, Index, IndexError, Status,
};
use godwit_store::ChainPoint;
use godwit_store::disk::StoreDisk;

use crate::beside::{
    BLOCKS, DIR, branch, chain_of, flip_in_each_file, follow, kill_at_any_operation, points,
    settle, submit,
};

/// The readers' side of such an index.
pub(crate) trait PerBlock: Sized {
    type Writer: Index;
    type Entry: Debug + PartialEq;
    /// Files of an index that was closed.
    const FILES: usize;

    fn open(disk: &StoreDisk, dir: &Path, chain: &Chain) -> Result<Self::Writer, IndexError>;

    /// The index of a data directory on this disk.
    fn writer(disk: &FaultDisk, chain: &Chain) -> Result<Self::Writer, IndexError> {
        let store = StoreDisk::new(Arc::new(disk.clone()));
        Self::open(&store, &Path::new(DIR).join(INDEXES_DIR), chain)
    }

    fn of(writer: &Self::Writer) -> Arc<Self>;
    fn state(&self) -> &Status;
    /// `None` for a block that the index has not seen.
    fn entry(&self, block: ChainPoint) -> Result<Option<Self::Entry>, IndexError>;
}

impl PerBlock for FilterIndex {
    type Writer = FilterIndexWriter;
    type Entry = BlockFilter;
    const FILES: usize = 3;

    fn open(disk: &StoreDisk, dir: &Path, chain: &Chain) -> Result<FilterIndexWriter, IndexError> {
        FilterIndexWriter::open(disk, dir, chain.params().genesis_hash, lowest_for_indexes(chain))
    }

    fn of(writer: &FilterIndexWriter) -> Arc<Self> {
        writer.reader()
    }

    fn state(&self) -> &Status {
        self.status()
    }

    fn entry(&self, block: ChainPoint) -> Result<Option<BlockFilter>, IndexError> {
        self.filter(block)
    }
}

impl PerBlock for CoinStatsIndex {
    type Writer = CoinStatsIndexWriter;
    type Entry = CoinStats;
    const FILES: usize = 2;

    fn open(
        disk: &StoreDisk,
        dir: &Path,
        chain: &Chain,
    ) -> Result<CoinStatsIndexWriter, IndexError> {
        CoinStatsIndexWriter::open(disk, dir, chain.params(), lowest_for_indexes(chain))
    }

    fn of(writer: &CoinStatsIndexWriter) -> Arc<Self> {
        writer.reader()
    }

    fn state(&self) -> &Status {
        self.status()
    }

    fn entry(&self, block: ChainPoint) -> Result<Option<CoinStats>, IndexError> {
        self.stats(block)
    }
}

pub(crate) fn follower<R: PerBlock>(
    disk: &FaultDisk,
    chain: &Chain,
) -> (Follower<R::Writer>, Arc<R>) {
    let writer = R::writer(disk, chain).expect("it opens");
    let reader = R::of(&writer);
    (Follower::new(writer), reader)
}

/// A disk with an index that has followed the chain and was closed.
pub(crate) fn closed<R: PerBlock>(chain: &Chain) -> FaultDisk {
    let disk = FaultDisk::new();
    let (mut follower, _) = follower::<R>(&disk, chain);
    follow(chain, &mut follower).expect("no fault");
    follower.close().expect("no fault");
    disk
}

/// The entries of `blocks`, the first of which has height `first`; each must be there.
pub(crate) fn entries<R: PerBlock>(index: &R, first: u32, blocks: &[Vec<u8>]) -> Vec<R::Entry> {
    let read = |block| index.entry(block).expect("it can be read").expect("it is there");
    points(first, blocks).map(read).collect()
}

/// The entries of an index that follows a chain of these blocks without faults, from height 1.
pub(crate) fn expected<R: PerBlock>(blocks: &[Vec<u8>]) -> Vec<R::Entry> {
    let chain = chain_of(&FaultDisk::new(), blocks);
    let (mut fresh, reader) = follower::<R>(&FaultDisk::new(), &chain);
    follow(&chain, &mut fresh).expect("no fault");
    let found = entries(&*reader, 1, blocks);
    chain.close().expect("no fault");
    found
}

/// Kills the index at each operation while it follows a reorganisation: what is opened afterwards has to end
/// as a fresh one does. Returns how many operations failed.
pub(crate) fn survives_kills<R: PerBlock>() -> u64 {
    let mut chain = chain_of(&FaultDisk::new(), &BLOCKS[..150]);
    let start = closed::<R>(&chain);
    let end = branch(&BLOCKS, 140, 15, 0);
    end.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    let blocks = [&BLOCKS[..140], &end[..]].concat();
    let fresh = expected::<R>(&blocks);
    let is_whole = |disk: &FaultDisk, moment: &str| {
        let (mut again, reader) = follower::<R>(disk, &chain);
        follow(&chain, &mut again).expect("no fault any more");
        assert_eq!(entries(&*reader, 1, &blocks), fresh, "{moment}");
        assert_eq!(reader.state().best(), Some(chain.tip_point()));
    };
    let failed = kill_at_any_operation(&start, &[&chain], |disk| R::writer(disk, &chain), is_whole);
    chain.close().expect("no fault");
    failed
}

/// Damages each file in turn: the index gives a right entry, none or an error, and is built again.
pub(crate) fn is_built_again_after_damage<R: PerBlock>() {
    let chain = chain_of(&FaultDisk::new(), &BLOCKS);
    let fresh = expected::<R>(&BLOCKS);
    flip_in_each_file(&closed::<R>(&chain), R::FILES, |disk, place| {
        let (mut again, reader) = follower::<R>(disk, &chain);
        for (block, fresh) in points(1, &BLOCKS).zip(&fresh) {
            match reader.entry(block) {
                Ok(found) => assert!(found.is_none_or(|found| found == *fresh), "{place}"),
                Err(error) => assert!(error.is_damage(), "{error}"),
            }
        }
        follow(&chain, &mut again).expect("it is built again");
        assert_eq!(entries(&*reader, 1, &BLOCKS), fresh, "{place}");
    });
    chain.close().expect("no fault");
}
