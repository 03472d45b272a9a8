//! A cache of open files, so that reading thousands of block files and hundreds of runs needs few
//! descriptors.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use super::StoreFile;
use crate::error::StoreError;

/// Most files that are kept open for reading: block files, undo files, runs, and the files of an
/// import together. A UTXO set of the main network's size has 50 to 100 runs (a large one for each
/// of 16 partitions, and a few that partitions share), and the lookups of one block touch nearly
/// all of them.
pub(crate) const MAX_CACHED_FILES: usize = 128;

/// The most recently read files, by path.
#[derive(Default)]
pub(super) struct OpenFiles(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    files: HashMap<PathBuf, (StoreFile, u64)>,
    /// Counts uses: the file with the lowest count goes first.
    uses: u64,
}

impl OpenFiles {
    fn cached(&self) -> MutexGuard<'_, Cached> {
        // Consistent between any two operations on it, so a panicked holder leaves nothing half done.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The file at `path`, opened by `open` if it is not in the cache. The lock is held meanwhile:
    /// a file that is removed while it is being opened would otherwise be cached, and its space not
    /// be freed.
    pub(super) fn get(
        &self,
        path: &Path,
        open: impl FnOnce() -> Result<StoreFile, StoreError>,
    ) -> Result<StoreFile, StoreError> {
        let cached = &mut *self.cached();
        cached.uses += 1;
        if let Some((file, used)) = cached.files.get_mut(path) {
            *used = cached.uses;
            return Ok(file.clone());
        }
        // Room first, so that there is never one file too many.
        if cached.files.len() >= MAX_CACHED_FILES {
            let oldest = cached.files.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                cached.files.remove(&oldest);
            }
        }
        let file = open()?;
        cached.files.insert(path.to_owned(), (file.clone(), cached.uses));
        Ok(file)
    }

    /// Keeps another file open in place of the one at `path`, if that is kept open.
    pub(super) fn replace(&self, path: &Path, file: &StoreFile) {
        if let Some((kept, _)) = self.cached().files.get_mut(path) {
            *kept = file.clone();
        }
    }

    /// Drops a file that was removed or renamed. To be called afterwards: until then it may be
    /// opened again.
    pub(super) fn forget(&self, path: &Path) {
        self.cached().files.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::{Disk, OpenMode, StoreDisk};
    use godwit_fault_disk::FaultDisk;

    fn path(n: usize) -> PathBuf {
        PathBuf::from(format!("/kept/{n}"))
    }

    fn files(count: usize) -> StoreDisk {
        let disk = FaultDisk::new();
        disk.create_dir_all(Path::new("/kept")).unwrap();
        for n in 0..count {
            let file = disk.open(&path(n), OpenMode::ReadWrite).unwrap();
            file.write_all_at(0, &[n as u8]).unwrap();
        }
        StoreDisk::new(Arc::new(disk))
    }

    fn read(disk: &StoreDisk, n: usize) -> u8 {
        let mut byte = [0];
        disk.open_cached(&path(n)).unwrap().read_exact_at(0, &mut byte).unwrap();
        byte[0]
    }

    fn is_kept(disk: &StoreDisk, n: usize) -> bool {
        disk.cached.cached().files.contains_key(&path(n))
    }

    #[test]
    fn the_least_recently_read_file_goes_first() {
        let disk = files(MAX_CACHED_FILES + 2);
        (0..MAX_CACHED_FILES).for_each(|n| assert_eq!(read(&disk, n), n as u8));
        assert!((0..MAX_CACHED_FILES).all(|n| is_kept(&disk, n)), "as many as the limit are kept");
        read(&disk, 0);
        read(&disk, MAX_CACHED_FILES);
        assert!(is_kept(&disk, 0) && !is_kept(&disk, 1));
        read(&disk, MAX_CACHED_FILES + 1);
        assert!(is_kept(&disk, 0) && !is_kept(&disk, 2) && is_kept(&disk, 3));
        assert_eq!(disk.cached.cached().files.len(), MAX_CACHED_FILES);
    }

    #[test]
    fn a_file_that_is_removed_or_renamed_is_let_go() {
        let disk = files(4);
        (0..4).for_each(|n| assert_eq!(read(&disk, n), n as u8));
        disk.remove(&path(0)).unwrap();
        assert!(!is_kept(&disk, 0));
        assert!(disk.open_cached(&path(0)).is_err_and(|error| error.is_not_found()));
        disk.rename(&path(1), &path(2)).unwrap();
        assert!(!is_kept(&disk, 1) && !is_kept(&disk, 2));
        assert_eq!(read(&disk, 2), 1, "the file that now has the name");
        assert_eq!(read(&disk, 3), 3);
    }

    #[test]
    fn a_file_that_can_not_be_opened_is_not_kept() {
        let disk = files(1);
        for _ in 0..2 {
            assert!(disk.open_cached(&path(1)).is_err_and(|error| error.is_not_found()));
        }
        assert!(!is_kept(&disk, 1));
    }
}
