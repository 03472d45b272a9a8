//! `godwit verify` for the optional indexes: reads all of them from end to end, because a start reads little,
//! and a damaged place may go unnoticed for years. Without a repair nothing is changed; a repair removes the
//! files of a damaged index if all blocks are stored, and the next start builds it again.

use std::path::{Path, PathBuf};

use godwit_primitives::BlockHash;
use godwit_store::StoreError;
use godwit_store::disk::{OpenMode, StoreDisk};

use crate::reading::{IndexDamage, IndexRemedy, IndexWatch, Part, Reading};
use crate::records::Records;
use crate::{coin_stats, filters, txindex};

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
        // A link to a disk that is not mounted is no missing directory.
        files(&disk, self.dir)?;
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
        let mut reading = Reading::new(disk, self.lowest, watch, total);
        for (dir, inspect) in &there {
            inspect(dir, self.genesis, &mut reading)?;
            self.tell(dir, &mut reading)?;
        }
        reading.end();
        Ok(there.len())
    }

    /// Tells what was found of an index, and repairs it.
    fn tell(&self, dir: &Path, reading: &mut Reading<'_>) -> Result<(), StoreError> {
        let (found, can_rebuild) = (reading.take_found(), self.lowest == 0);
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
            reading.tell(IndexDamage { error, remedy });
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
