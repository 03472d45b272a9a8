//! Finds out whose files are in a directory: those of another program or network are left alone.

use std::path::{Path, PathBuf};

use godwit_stream::Obfuscation;

use super::DATABASE_FILE;
use crate::block_files::{file_number, has_files, may_be_own, may_be_own_undo};
use crate::control::{Control, Slot};
use crate::disk::{OpenMode, StoreDisk};
use crate::error::StoreError;
use crate::names::{BLOCKS_DIR, CORE_BLOCKS_LOCK, XOR_FILE};
use crate::scan::read_obfuscation;
use crate::undo::has_undo_record;

/// Core keeps `blocks/blk*.dat` under the same names and may be writing to them. Its databases are elsewhere
/// where its option `-blocksdir` names the directory: then a lock file of its own is beside the files
/// (`init.cpp`, `LockDirectories`).
///
/// # Errors
///
/// [`StoreError::CoreDirectory`], or [`StoreError::CoreStarted`] where godwit's own files are there too: Core
/// may be running all the same.
pub(crate) fn refuse_core_directory(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    for database in ["chainstate", "blocks/index"] {
        let path = dir.join(database);
        match disk.list(&path) {
            Ok(_) if is_unknown(disk, dir)? => return Err(StoreError::CoreDirectory { path }),
            Ok(_) => return Err(StoreError::CoreStarted { path, dir: dir.to_owned() }),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let (blocks_dir, path) = (dir.join(BLOCKS_DIR), dir.join(CORE_BLOCKS_LOCK));
    match !disk.is_missing(&path)? && has_files(disk, &blocks_dir)? && is_unknown(disk, dir)? {
        true => Err(StoreError::CoreDirectory { path }),
        false => Ok(()),
    }
}

/// Whether neither database nor control file tells that godwit has used a directory.
fn is_unknown(disk: &StoreDisk, dir: &Path) -> Result<bool, StoreError> {
    let is_absent = |(_, slot): &(PathBuf, Slot)| matches!(slot, Slot::Missing);
    Ok(disk.is_missing(&dir.join(DATABASE_FILE))?
        && Control::both(disk, dir)?.iter().all(is_absent))
}

/// For a directory of which neither database nor control file tells that godwit wrote its files: they have
/// to tell it themselves, or would be cut off as torn. Changes nothing.
///
/// # Errors
///
/// [`StoreError::ForeignFile`] for the first one that does not.
pub(super) fn refuse_foreign_files(
    disk: &StoreDisk,
    blocks_dir: &Path,
    magic: [u8; 4],
) -> Result<(), StoreError> {
    let mut paths = disk.list(blocks_dir)?;
    paths.sort_unstable();
    for path in paths {
        let is_of_blocks = file_number(&path, "blk").is_some();
        if !is_of_blocks && file_number(&path, "rev").is_none() {
            continue;
        }
        let file = disk.open(&path, OpenMode::Read)?;
        let is_own = match is_of_blocks {
            true => may_be_own(&file, magic)?,
            false => may_be_own_undo(&file, magic)? || has_undo_record(&file, magic)?,
        };
        if !is_own {
            return Err(StoreError::ForeignFile { path });
        }
    }
    Ok(())
}

/// Refuses block files that the key beside them may have changed: asked before anything is given up that is
/// to be made again from them.
///
/// # Errors
///
/// [`StoreError::ObfuscatedFiles`]; a failed system call.
pub(crate) fn refuse_obfuscated_files(
    disk: &StoreDisk,
    dir: &Path,
    magic: [u8; 4],
) -> Result<(), StoreError> {
    match read_obfuscation(disk, dir) {
        Ok(None | Some(Obfuscation::NONE)) => Ok(()),
        // A crash may have left it empty.
        Ok(Some(_)) | Err(StoreError::Damaged { .. }) => match may_be_obfuscated(disk, dir, magic)?
        {
            true => Err(StoreError::ObfuscatedFiles { key: dir.join(XOR_FILE) }),
            false => Ok(()),
        },
        Err(error) => Err(error),
    }
}

/// Tools that read Core's block files look for a key since Core 28; zero says "in the clear".
pub(crate) fn write_zero_obfuscation(
    disk: &StoreDisk,
    dir: &Path,
    magic: [u8; 4],
) -> Result<(), StoreError> {
    refuse_obfuscated_files(disk, dir, magic)?;
    let path = dir.join(XOR_FILE);
    match read_obfuscation(disk, dir) {
        Ok(Some(Obfuscation::NONE)) => return Ok(()),
        Ok(None) => {}
        Ok(Some(_)) | Err(StoreError::Damaged { .. }) => {
            log::warn!("{}: the key is damaged, and written again as zero.", path.display());
        }
        Err(error) => return Err(error),
    }
    let file = disk.open(&path, OpenMode::Truncate)?;
    file.write_all_at(0, &Obfuscation::NONE.key())?;
    file.sync()?;
    disk.sync_dir(dir)
}

/// Whether there are blocks, and none of their files begins with the magic itself, so that a key beside it
/// could only be wrong.
fn may_be_obfuscated(disk: &StoreDisk, dir: &Path, magic: [u8; 4]) -> Result<bool, StoreError> {
    let mut has_blocks = false;
    for path in disk.list(dir)?.iter().filter(|path| file_number(path, "blk").is_some()) {
        let (file, mut start) = (disk.open(path, OpenMode::Read)?, [0; 4]);
        if file.file_len()? >= start.len() as u64 {
            file.read_exact_at(0, &mut start)?;
            if start == magic {
                return Ok(false);
            }
            has_blocks = true;
        }
    }
    Ok(has_blocks)
}

#[cfg(test)]
mod tests;
