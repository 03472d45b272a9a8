//! Tests, before anything is stored, whether a file system does what the store relies on, as far as that can
//! be tried out.

use std::path::Path;

use rustix::io::Errno;

use super::{OpenMode, StoreDisk};
use crate::error::StoreError;

/// Tries the file system of `dir`, an existing directory in which nothing is stored yet.
///
/// # Errors
///
/// [`StoreError::UnsuitableFileSystem`]; a failed system call.
pub(crate) fn probe(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    let (path, new) = (dir.join(".probe"), dir.join(".probe.new"));
    if let Err(error) = try_names(disk, dir, &path, &new) {
        // Past the latch, which the first failure has closed. It is the failure that is told.
        [&path, &new].into_iter().for_each(|path| _ = disk.disk.remove(path));
        return Err(error);
    }
    disk.remove(&path)?;
    disk.sync_dir(dir).map_err(|error| unless_unsuitable(error, dir))
}

fn try_names(disk: &StoreDisk, dir: &Path, path: &Path, new: &Path) -> Result<(), StoreError> {
    let does_not_replace = || unsuitable(dir, "does not replace a file by renaming another one");
    // A bit that flips once on its way says nothing about the file system.
    for _ in 0..2 {
        for (path, bytes) in [(path, b"old"), (new, b"new")] {
            let file = disk.open(path, OpenMode::Truncate)?;
            file.write_all_at(0, bytes)?;
            file.sync()?;
        }
        // Both files were just written there: it is their names that are refused.
        disk.rename(new, path).map_err(|error| {
            match says(&error, &[Errno::EXIST, Errno::PERM]) {
                true => does_not_replace(),
                false => error,
            }
        })?;
        let mut found = [0; 3];
        disk.open(path, OpenMode::Read)?.read_exact_at(0, &mut found)?;
        if disk.is_missing(new)? && found == *b"new" {
            return Ok(());
        }
    }
    Err(does_not_replace())
}

/// What a directory that cannot be made durable says of its file system.
pub(crate) fn unless_unsuitable(error: StoreError, dir: &Path) -> StoreError {
    match says(&error, &[Errno::INVAL, Errno::NOTSUP, Errno::NOSYS]) {
        true => unsuitable(dir, "cannot make the names of files durable"),
        false => error,
    }
}

fn says(error: &StoreError, errnos: &[Errno]) -> bool {
    let StoreError::Io(failure) = error else { return false };
    let is_one = |code: i32| errnos.iter().any(|errno| errno.raw_os_error() == code);
    failure.os_error.is_some_and(is_one)
}

fn unsuitable(dir: &Path, lacks: &'static str) -> StoreError {
    StoreError::UnsuitableFileSystem { dir: dir.to_owned(), lacks }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use godwit_fault_disk::{FaultDisk, forward_disk};

    use super::*;
    use crate::disk::{Disk, DiskFile};
    use crate::error::NetworkId;
    use crate::fixtures::MAGIC;
    use crate::store::{BLOCK_BUFFERS, Rebuild, Store, StoreOptions};

    /// What a file system lacks.
    #[derive(Clone, Copy, Debug)]
    enum Lack {
        Nothing,
        SyncDir(Errno),
        /// A rename fails where there is a file of the new name.
        Replacing(Errno),
        /// A rename leaves the old name too, as one that copies does for a moment.
        Moving,
    }

    #[derive(Clone)]
    struct Lacking(FaultDisk, Lack);

    impl Disk for Lacking {
        forward_disk!(0: remove, list, free_bytes, try_lock);

        fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
            self.0.open(path, mode)
        }

        fn create_dir_all(&self, path: &Path) -> io::Result<()> {
            self.0.create_dir_all(path)?;
            self.sync_dir(path)
        }

        fn sync_dir(&self, path: &Path) -> io::Result<()> {
            match self.1 {
                Lack::SyncDir(errno) => Err(errno.into()),
                _ => self.0.sync_dir(path),
            }
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            let old = self.0.contents(from);
            match self.1 {
                Lack::Replacing(errno) if self.0.contents(to).is_some() => Err(errno.into()),
                Lack::Moving => {
                    self.0.overwrite(to, old.expect("a file"));
                    Ok(())
                }
                _ => self.0.rename(from, to),
            }
        }
    }

    fn open(fault: &FaultDisk, lack: Lack) -> Result<(), StoreError> {
        let options = StoreOptions {
            dir: "/node".into(),
            network: NetworkId { magic: MAGIC, genesis: [9; 32] },
            new_hash_key: [3; 16],
            buffers: BLOCK_BUFFERS,
            rebuild: Rebuild::Nothing,
            stop: Arc::default(),
        };
        Store::open(Arc::new(Lacking(fault.clone(), lack)), options).map(drop)
    }

    #[test]
    fn c9_a_file_system_without_durable_names_or_replacing_renames_is_refused_in_one_line() {
        let lacks = [
            Lack::SyncDir(Errno::INVAL),
            Lack::SyncDir(Errno::NOTSUP),
            Lack::Replacing(Errno::EXIST),
            Lack::Replacing(Errno::PERM),
            Lack::Moving,
        ];
        for lack in lacks {
            let disk = FaultDisk::new();
            let error = open(&disk, lack).expect_err("it is refused");
            let is_told = matches!(&error, StoreError::UnsuitableFileSystem { dir, .. }
                if dir == Path::new("/node"));
            assert!(is_told, "{lack:?}: {error}");
            assert!(!error.to_string().contains('\n') && error.to_string().contains("/node"));
            assert!(disk.contents(Path::new("/node/godwit.redb")).is_none(), "nothing is begun");
            let names = disk.list(Path::new("/node")).unwrap_or_default();
            assert!(
                names.iter().all(|name| !name.to_str().unwrap().contains("probe")),
                "{names:?}"
            );
            open(&disk, Lack::Nothing).expect("another file system");
        }
        let disk = FaultDisk::new();
        let error = open(&disk, Lack::SyncDir(Errno::IO)).expect_err("a failing disk");
        assert!(matches!(error, StoreError::Io(_)), "{error}");
        let error = open(&disk, Lack::Replacing(Errno::IO)).expect_err("a failing disk");
        assert!(matches!(error, StoreError::Io(_)), "{error}");
        let names = disk.list(Path::new("/node")).expect("a directory");
        assert!(names.iter().all(|name| !name.to_str().unwrap().contains("probe")), "{names:?}");
    }

    /// A directory that was moved there is not tried, but synced.
    #[test]
    fn c9_nothing_is_left_of_the_trial_and_a_directory_that_is_there_is_not_tried_again() {
        let disk = FaultDisk::new();
        open(&disk, Lack::Nothing).expect("a new directory");
        let names = disk.list(Path::new("/node")).expect("a directory");
        assert!(names.iter().all(|name| !name.to_str().unwrap().contains("probe")), "{names:?}");
        open(&disk, Lack::Replacing(Errno::EXIST)).expect("nothing is renamed any more");
        let error = open(&disk, Lack::SyncDir(Errno::INVAL)).expect_err("names are not durable");
        assert!(matches!(error, StoreError::UnsuitableFileSystem { .. }), "{error}");
    }
}
