//! The progress and the findings of an index's inspection, and the trait of their receiver.

use std::fmt;

use godwit_store::StoreError;
use godwit_store::disk::StoreDisk;

use crate::error::IndexError;

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

/// What damage concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
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

impl<'a> Reading<'a> {
    /// Of `total` bytes.
    pub(crate) fn new(
        disk: StoreDisk,
        lowest: u32,
        watch: &'a mut dyn IndexWatch,
        total: u64,
    ) -> Self {
        Self { disk, lowest, watch, done: 0, total, found: Vec::new() }
    }

    /// All bytes are read.
    pub(crate) fn end(&mut self) {
        if self.total > 0 {
            self.watch.progress(self.total, self.total);
        }
    }

    /// What was found since the last call.
    pub(crate) fn take_found(&mut self) -> Vec<(IndexError, Part)> {
        std::mem::take(&mut self.found)
    }

    pub(crate) fn tell(&mut self, damage: IndexDamage) {
        self.watch.found(damage);
    }

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
