//! Whose files are in a directory: those of Bitcoin Core, or obfuscated ones, are left alone.

use std::path::Path;

use godwit_stream::Obfuscation;

use crate::block_files::file_number;
use crate::disk::{OpenMode, StoreDisk};
use crate::error::{Damage, StoreError};
use crate::names::XOR_FILE;
use crate::scan::read_obfuscation;

/// Core keeps `blocks/blk*.dat` under the same names and may be writing to them.
pub(crate) fn refuse_core_directory(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    for database in ["chainstate", "blocks/index"] {
        let path = dir.join(database);
        match disk.list(&path) {
            Ok(_) => return Err(StoreError::CoreDirectory { path }),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Tools that read Core's block files look for a key since Core 28; zero says "in the clear".
pub(crate) fn write_zero_obfuscation(
    disk: &StoreDisk,
    dir: &Path,
    magic: [u8; 4],
) -> Result<(), StoreError> {
    let path = dir.join(XOR_FILE);
    match read_obfuscation(disk, dir) {
        Ok(Some(Obfuscation::NONE)) => return Ok(()),
        Ok(Some(_)) if are_in_the_clear(disk, dir, magic)? => {
            log::warn!("{}: the key is damaged, and written again as zero.", path.display());
        }
        Ok(Some(_)) => return Err(StoreError::damaged(&path, 0, Damage::Format)),
        // A crash may have left it empty.
        Ok(None) | Err(StoreError::Damaged { .. }) => {}
        Err(error) => return Err(error),
    }
    let file = disk.open(&path, OpenMode::Truncate)?;
    file.write_all_at(0, &Obfuscation::NONE.key())?;
    file.sync()?;
    disk.sync_dir(dir)
}

/// Whether a block file begins with the magic itself, so that a key beside it can only be wrong.
fn are_in_the_clear(disk: &StoreDisk, dir: &Path, magic: [u8; 4]) -> Result<bool, StoreError> {
    for path in disk.list(dir)?.iter().filter(|path| file_number(path, "blk").is_some()) {
        let (file, mut start) = (disk.open(path, OpenMode::Read)?, [0; 4]);
        if file.file_len()? >= start.len() as u64 {
            file.read_exact_at(0, &mut start)?;
            if start == magic {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
