//! What `godwit verify` reads of the optional indexes: all of them, from end to end. A start reads little,
//! and nobody may ask for a damaged place in years. Nothing is changed, unless it is to repair: then the
//! files of an index that is damaged go, if all blocks are there, and the next start builds it again.

use std::fmt;
use std::path::{Path, PathBuf};

use godwit_primitives::BlockHash;
use godwit_store::StoreError;
use godwit_store::disk::{OpenMode, StoreDisk};

use crate::error::IndexError;
use crate::records::Records;
use crate::{coin_stats, filters, txindex};

/// Damage of an index that an inspection found.
#[derive(Debug)]
pub struct IndexDamage {
    /// Names the file and the first place in it.
    pub error: IndexError,
    pub remedy: IndexRemedy,
}

/// What helps against damage of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexRemedy {
    /// Its files were removed just now.
    Removed,
    /// A repair, or the node, once it reads what is damaged.
    Rebuild,
    /// The next start cuts off the records of blocks that reorganisations have left, from there on.
    CutOff,
    /// Blocks that it would be built again from are deleted.
    Download,
}

impl fmt::Display for IndexDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { error, remedy } = self;
        let remedy = match remedy {
            IndexRemedy::Removed => {
                "repaired: this index was removed, and the next start with it builds it again"
            }
            IndexRemedy::Rebuild => {
                "`godwit verify -repair` removes this index, and the next start with it builds it again; \
                 otherwise the node does so once it reads this place"
            }
            IndexRemedy::CutOff => {
                "the next start with this index cuts the file off there: some blocks that reorganisations \
                 left are not found any more"
            }
            IndexRemedy::Download => {
                "blocks that this index would be built again from are deleted: leave it out, or download the \
                 chain again (-reindex)"
            }
        };
        write!(f, "{error}; {remedy}")
    }
}

/// Who follows an inspection of indexes.
pub trait IndexWatch {
    fn found(&mut self, damage: IndexDamage);
    /// `done` of `total` bytes are read.
    fn progress(&mut self, done: u64, total: u64);
    /// Whether it is to end; then it does with [`StoreError::Stopped`].
    fn is_stopped(&self) -> bool;
}

/// The indexes of a network's directory, which no other process uses meanwhile.
#[derive(Clone, Copy)]
pub struct IndexInspection<'a> {
    pub disk: &'a StoreDisk,
    /// The directory of the indexes.
    pub dir: &'a Path,
    pub genesis: BlockHash,
    /// Blocks below this height are deleted. With 0 none are, and an index can be built again.
    pub lowest: u32,
    pub repair: bool,
}

/// Reads all files of an index.
type Inspect = fn(&Path, BlockHash, &mut Reading<'_>) -> Result<(), StoreError>;

const INDEXES: [(&str, Inspect); 3] = [
    (txindex::DIR, txindex::inspect),
    (filters::DIR, filters::inspect),
    (coin_stats::DIR, coin_stats::inspect),
];

impl IndexInspection<'_> {
    /// Reads all indexes that there are, whatever the options name, and returns how many.
    ///
    /// # Errors
    ///
    /// A failed system call, and [`StoreError::Stopped`]; damage is none.
    pub fn run(&self, watch: &mut dyn IndexWatch) -> Result<usize, StoreError> {
        let disk = self.disk.apart();
        let (mut there, mut total) = (Vec::new(), 0);
        for (name, inspect) in INDEXES {
            let dir = self.dir.join(name);
            let files = files(&disk, &dir)?;
            for path in &files {
                total += disk.open(path, OpenMode::Read)?.file_len()?;
            }
            if !files.is_empty() {
                there.push((dir, inspect));
            }
        }
        let mut reading =
            Reading { disk, lowest: self.lowest, watch, done: 0, total, found: Vec::new() };
        for (dir, inspect) in &there {
            inspect(dir, self.genesis, &mut reading)?;
            self.tell(dir, &mut reading)?;
        }
        if total > 0 {
            reading.watch.progress(total, total);
        }
        Ok(there.len())
    }

    /// Tells what was found of an index, and repairs it.
    fn tell(&self, dir: &Path, reading: &mut Reading<'_>) -> Result<(), StoreError> {
        let (found, can_rebuild) = (std::mem::take(&mut reading.found), self.lowest == 0);
        let is_removed =
            self.repair && can_rebuild && found.iter().any(|(_, part)| *part == Part::Index);
        if is_removed {
            Records::remove_all(&reading.disk, dir)?;
        }
        for (error, part) in found {
            let remedy = match part {
                _ if is_removed => IndexRemedy::Removed,
                Part::LeftBlocks => IndexRemedy::CutOff,
                Part::Index if can_rebuild => IndexRemedy::Rebuild,
                Part::Index => IndexRemedy::Download,
            };
            reading.watch.found(IndexDamage { error, remedy });
        }
        Ok(())
    }
}

/// The files of a directory; none where it is not there.
fn files(disk: &StoreDisk, dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    match disk.list(dir) {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        listed => listed,
    }
}

/// What damage concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Index,
    /// Nothing but records of blocks that reorganisations have left, which no block brings back.
    LeftBlocks,
}

/// What is read of an index, and what of it is damaged.
pub(crate) struct Reading<'a> {
    pub(crate) disk: StoreDisk,
    /// Blocks below this height are deleted.
    pub(crate) lowest: u32,
    watch: &'a mut dyn IndexWatch,
    done: u64,
    total: u64,
    found: Vec<(IndexError, Part)>,
}

impl Reading<'_> {
    /// So many bytes more were read.
    pub(crate) fn add(&mut self, bytes: u64) -> Result<(), StoreError> {
        if self.watch.is_stopped() {
            return Err(StoreError::Stopped);
        }
        self.done += bytes;
        // The end is told once.
        if self.done < self.total {
            self.watch.progress(self.done, self.total);
        }
        Ok(())
    }

    /// Notes what of this is damaged; then it is `None`. An index of another version is none that this
    /// program could judge: a start builds it again.
    pub(crate) fn note<T>(&mut self, read: Result<T, IndexError>) -> Result<Option<T>, StoreError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(IndexError::Store(error)) if !error.is_rotten() => Err(error),
            Err(IndexError::OtherVersion { .. }) => Ok(None),
            Err(error) => {
                self.found.push((error, Part::Index));
                Ok(None)
            }
        }
    }

    /// Records of blocks that reorganisations have left do not hold.
    pub(crate) fn note_left_blocks(&mut self, error: IndexError) {
        self.found.push((error, Part::LeftBlocks));
    }
}
