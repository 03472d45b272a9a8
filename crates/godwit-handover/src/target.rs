//! The directory that becomes Core's.
//!
//! Everything is made in a directory of its own inside, under a name that no bitcoind looks for, made
//! durable there, and then renamed. So bitcoind finds nothing, all of it, or between the last two renames
//! the blocks alone, whose coins it then makes itself. A directory of that name says that a hand-over was
//! begun and not ended; the next one removes what it left, and begins anew.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_store::disk::{Disk, RealDisk};

use crate::error::HandOverError;

const UNFINISHED: &str = "hand-over.unfinished";
pub(crate) const BLOCKS: &str = "blocks";
pub(crate) const CHAINSTATE: &str = "chainstate";
/// What Core leaves behind wherever it was started.
const LOCK_OF_CORE: &str = ".lock";
/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// A target on which a hand-over has begun.
pub(crate) struct Target {
    dir: PathBuf,
    /// What was there before: `dir` itself, or a directory above it.
    made_in: PathBuf,
    /// The source has noted that it was handed over here.
    is_noted: Cell<bool>,
}

impl Target {
    /// Begins a hand-over in `dir`, the network's directory below Core's data directory, which is made if
    /// it is not there. `blocks` is where the source's block files are, or a link to it.
    ///
    /// # Errors
    ///
    /// [`HandOverError::NotEmpty`], [`HandOverError::Started`], [`HandOverError::OtherFileSystem`]; failed
    /// system calls.
    pub(crate) fn begin(dir: &Path, blocks: &Path) -> Result<Self, HandOverError> {
        let device = |path: &Path| fs::metadata(path).map_err(HandOverError::io(path));
        // Before anything is made.
        let made_in = dir.ancestors().find(|path| path.exists()).unwrap_or(dir);
        if device(made_in)?.dev() != device(blocks)?.dev() {
            let (target, source) = (dir.to_owned(), blocks.to_owned());
            return Err(HandOverError::OtherFileSystem { target, source });
        }
        make_dir(dir)?;
        let target =
            Self { dir: dir.to_owned(), made_in: made_in.to_owned(), is_noted: Cell::new(false) };
        target.clear()?;
        make_dir(&target.inside(BLOCKS))?;
        Ok(target)
    }

    /// Removes what a hand-over has left that did not end.
    pub(crate) fn clear(&self) -> Result<(), HandOverError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(HandOverError::io(&self.dir))? {
            names.push(entry.map_err(HandOverError::io(&self.dir))?.file_name());
        }
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        match (names.is_empty(), has(UNFINISHED)) {
            (true, _) => return Ok(()),
            (false, false) => return Err(HandOverError::NotEmpty(self.dir.clone())),
            (false, true) if has(LOCK_OF_CORE) => {
                return Err(HandOverError::Started(self.dir.clone()));
            }
            (false, true) => {}
        }
        if names.iter().any(|name| ![UNFINISHED, BLOCKS, CHAINSTATE].map(Into::into).contains(name))
        {
            return Err(HandOverError::NotEmpty(self.dir.clone()));
        }
        // The mark goes last.
        for name in [CHAINSTATE, BLOCKS, UNFINISHED] {
            let path = self.dir.join(name);
            match fs::remove_dir_all(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other.map_err(HandOverError::io(&path))?,
            }
        }
        Ok(())
    }

    /// Removes all that was made, for a hand-over that has failed. What cannot be removed tells the user less
    /// than that failure: the next hand-over meets it. Nothing once the source has its note: it starts no
    /// more, and what is here is whole but for a name.
    pub(crate) fn abandon(&self) {
        if !self.is_noted.get() && self.clear().is_ok() {
            let made = self.dir.ancestors().take_while(|dir| *dir != self.made_in);
            for dir in made {
                // One into which others have put something stays, and those above it.
                if fs::remove_dir(dir).is_err() {
                    break;
                }
            }
        }
    }

    /// A path below what is being made.
    pub(crate) fn inside(&self, name: &str) -> PathBuf {
        self.dir.join(UNFINISHED).join(name)
    }

    /// Bytes that are free on the file system.
    pub(crate) fn free_bytes(&self) -> Result<u64, HandOverError> {
        RealDisk.free_bytes(&self.dir).map_err(HandOverError::io(&self.dir))
    }

    /// Gives a file of the source a second name among the blocks. Of a link it is the file that gets one: a
    /// second link would be lost with the file's first name, and a relative one leads nowhere from here.
    pub(crate) fn share(&self, from: &Path) -> Result<(), HandOverError> {
        let to = self.inside(BLOCKS).join(from.file_name().unwrap_or_default());
        let file = fs::canonicalize(from).map_err(HandOverError::io(from))?;
        match fs::hard_link(&file, &to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                Err(HandOverError::OtherFileSystem { target: self.dir.clone(), source: file })
            }
            other => other.map_err(HandOverError::io(&to)),
        }
    }

    /// Copies the first `bytes` of a file among the blocks, and appends `more`.
    pub(crate) fn copy(
        &self,
        from: &Path,
        bytes: u64,
        more: &[u8],
        stop: &AtomicBool,
    ) -> Result<(), HandOverError> {
        let to = self.inside(BLOCKS).join(from.file_name().unwrap_or_default());
        let mut source = File::open(from).map_err(HandOverError::io(from))?.take(bytes);
        let mut target = create(&to)?;
        let (mut buffer, mut copied) = (vec![0; COPY_BYTES], 0);
        loop {
            let read = source.read(&mut buffer).map_err(HandOverError::io(from))?;
            if read == 0 {
                break;
            }
            target.write_all(&buffer[..read]).map_err(HandOverError::io(&to))?;
            copied += read as u64;
            if stop.load(Ordering::Relaxed) {
                return Err(HandOverError::Stopped);
            }
        }
        if copied < bytes {
            return Err(HandOverError::ShortFile(from.to_owned()));
        }
        target.write_all(more).map_err(HandOverError::io(&to))
    }

    /// Writes a small file among the blocks.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), HandOverError> {
        let path = self.inside(BLOCKS).join(name);
        create(&path)?.write_all(bytes).map_err(HandOverError::io(&path))
    }

    /// Makes everything durable, calls `before`, and gives it the names that Core looks for.
    pub(crate) fn complete(
        &self,
        before: impl FnOnce() -> Result<(), HandOverError>,
    ) -> Result<(), HandOverError> {
        sync_tree(&self.dir.join(UNFINISHED))?;
        before()?;
        self.is_noted.set(true);
        // Blocks without coins are what Core makes the coins from; coins without their blocks it refuses.
        for name in [BLOCKS, CHAINSTATE] {
            let path = self.dir.join(name);
            fs::rename(self.inside(name), &path).map_err(HandOverError::io(&path))?;
            // Or a power cut might keep the second name alone.
            sync_dir(&self.dir)?;
        }
        let unfinished = self.dir.join(UNFINISHED);
        fs::remove_dir(&unfinished).map_err(HandOverError::io(&unfinished))?;
        sync_dir(&self.dir)
    }
}

/// Checks that no target is in a source or the other way round, whatever names lead there: who deletes the
/// source, as most will, must not delete what was made.
///
/// # Errors
///
/// [`HandOverError::NotApart`]; failed system calls.
pub fn check_apart(targets: [&Path; 2], sources: [&Path; 2]) -> Result<(), HandOverError> {
    for target in targets {
        let there = target.ancestors().find(|path| path.exists());
        if let Some(other) = there.filter(|path| !path.is_dir()) {
            return Err(HandOverError::NoDirectory(other.to_owned()));
        }
        let target = resolved(target)?;
        for source in sources {
            let source = resolved(source)?;
            if target.starts_with(&source) || source.starts_with(&target) {
                return Err(HandOverError::NotApart { target, source });
            }
        }
    }
    Ok(())
}

/// The canonical path that a directory has, or will have once it and those above it are made.
fn resolved(path: &Path) -> Result<PathBuf, HandOverError> {
    let parent = match (fs::canonicalize(path), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => parent,
        (other, _) => return other.map_err(HandOverError::io(path)),
    };
    let above = match parent.as_os_str().is_empty() {
        true => resolved(Path::new("."))?,
        false => resolved(parent)?,
    };
    let joined = match path.components().next_back() {
        Some(Component::Normal(name)) => above.join(name),
        // It has no links, since it is not there yet.
        _ => above.parent().map_or_else(|| above.clone(), Path::to_owned),
    };
    match fs::canonicalize(&joined) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(joined),
        other => other.map_err(HandOverError::io(&joined)),
    }
}

/// Makes a directory and those above it that are missing, durably: who is told that all is done deletes the
/// source.
fn make_dir(dir: &Path) -> Result<(), HandOverError> {
    RealDisk.create_dir_all(dir).map_err(HandOverError::io(dir))
}

fn create(path: &Path) -> Result<File, HandOverError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path).map_err(HandOverError::io(path))
}

fn sync_dir(dir: &Path) -> Result<(), HandOverError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(HandOverError::io(dir))
}

/// Syncs all files below a directory, and the directories.
fn sync_tree(dir: &Path) -> Result<(), HandOverError> {
    for entry in fs::read_dir(dir).map_err(HandOverError::io(dir))? {
        let path = entry.map_err(HandOverError::io(dir))?.path();
        match path.is_dir() {
            true => sync_tree(&path)?,
            false => sync_dir(&path)?,
        }
    }
    sync_dir(dir)
}

/// The file that tells godwit that another program has files of this directory as well.
pub const HANDED_OVER: &str = "handed-over";

/// Notes in the source that `target` has files of it, durably.
pub(crate) fn note(source: &Path, target: &Path) -> Result<(), HandOverError> {
    let path = source.join(HANDED_OVER);
    let mut text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        other => other.map_err(HandOverError::io(&path))?,
    };
    let line = [target.as_os_str().as_encoded_bytes(), b"\n"].concat();
    if !text.ends_with(&line) {
        text.extend(line);
    }
    let new = source.join(format!("{HANDED_OVER}.new"));
    fs::write(&new, text).map_err(HandOverError::io(&new))?;
    sync_dir(&new)?;
    fs::rename(&new, &path).map_err(HandOverError::io(&path))?;
    sync_dir(source)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_target_is_new_or_empty_or_unfinished() {
        let temp = tempfile::tempdir().unwrap();
        let source = temp.path();
        let dir = temp.path().join("core/regtest");
        Target::begin(&dir, source).unwrap();
        assert_eq!(names(&dir), [UNFINISHED]);

        // As left between the two renames.
        fs::create_dir(dir.join(BLOCKS)).unwrap();
        fs::write(dir.join(BLOCKS).join("blk00000.dat"), b"x").unwrap();
        Target::begin(&dir, source).unwrap();
        assert_eq!(names(&dir), [UNFINISHED]);

        for other in ["settings.json", LOCK_OF_CORE] {
            fs::write(dir.join(other), b"").unwrap();
            let error = Target::begin(&dir, source).map(drop).unwrap_err();
            match other {
                LOCK_OF_CORE => assert!(matches!(error, HandOverError::Started(_)), "{error}"),
                _ => assert!(matches!(error, HandOverError::NotEmpty(_)), "{error}"),
            }
            assert_eq!(names(&dir).len(), 2, "nothing is removed");
            fs::remove_file(dir.join(other)).unwrap();
        }
        fs::remove_dir_all(dir.join(UNFINISHED)).unwrap();
        fs::create_dir(dir.join(BLOCKS)).unwrap();
        let error = Target::begin(&dir, source).map(drop).unwrap_err();
        assert!(matches!(error, HandOverError::NotEmpty(_)), "{error}");
    }

    #[test]
    fn files_are_shared_or_copied_and_get_their_names_at_the_end() {
        let temp = tempfile::tempdir().unwrap();
        let (source, dir) = (temp.path().join("source"), temp.path().join("core"));
        fs::create_dir(&source).unwrap();
        let (first, last) = (source.join("blk00000.dat"), source.join("blk00001.dat"));
        fs::write(&first, [1; 10]).unwrap();
        fs::write(&last, [2; 10]).unwrap();
        let target = Target::begin(&dir, &source).unwrap();
        target.share(&first).unwrap();
        let stop = AtomicBool::new(false);
        let error = target.copy(&last, 11, &[], &stop).unwrap_err();
        assert!(matches!(error, HandOverError::ShortFile(_)), "{error}");
        fs::remove_file(target.inside(BLOCKS).join("blk00001.dat")).unwrap();
        target.copy(&last, 7, b"more", &stop).unwrap();
        fs::create_dir(target.inside(CHAINSTATE)).unwrap();
        let mut called = false;
        target
            .complete(|| {
                called = true;
                assert_eq!(names(&dir), [UNFINISHED], "nothing has its name before");
                Ok(())
            })
            .unwrap();
        assert!(called);
        assert_eq!(names(&dir), [BLOCKS, CHAINSTATE]);
        let path = |name: &str| dir.join(BLOCKS).join(name);
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        assert_eq!(inode(&path("blk00000.dat")), inode(&first));
        assert_ne!(inode(&path("blk00001.dat")), inode(&last));
        assert_eq!(fs::read(path("blk00001.dat")).unwrap(), [&[2; 7][..], b"more"].concat());
    }

    /// As `/home` is on many machines: it may be walked through, and not be read.
    #[test]
    fn what_is_above_a_target_that_was_there_need_not_be_readable() {
        let temp = tempfile::tempdir().unwrap();
        let above = temp.path().join("above");
        let (source, dir) = (temp.path().join("source"), above.join("core"));
        fs::create_dir(&source).unwrap();
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&above, fs::Permissions::from_mode(0o100)).unwrap();
        let target = Target::begin(&dir, &source).unwrap();
        fs::create_dir(target.inside(CHAINSTATE)).unwrap();
        let completed = target.complete(|| Ok(()));
        // Or the temporary directory could not be removed.
        fs::set_permissions(&above, fs::Permissions::from_mode(0o700)).unwrap();
        completed.unwrap();
        assert_eq!(names(&dir), [BLOCKS, CHAINSTATE]);
    }

    #[test]
    fn of_a_linked_file_the_file_is_shared() {
        let temp = tempfile::tempdir().unwrap();
        let (source, old, dir) =
            (temp.path().join("source"), temp.path().join("old"), temp.path().join("core"));
        for dir in [&source, &old] {
            fs::create_dir(dir).unwrap();
        }
        let target = Target::begin(&dir, &source).unwrap();
        let absolute = old.join("blk00001.dat");
        for (name, to) in
            [("blk00000.dat", Path::new("../old/blk00000.dat")), ("blk00001.dat", &absolute)]
        {
            fs::write(old.join(name), name).unwrap();
            std::os::unix::fs::symlink(to, source.join(name)).unwrap();
            target.share(&source.join(name)).unwrap();
            let shared = fs::symlink_metadata(target.inside(BLOCKS).join(name)).unwrap();
            assert!(shared.is_file(), "{name}");
            assert_eq!(shared.ino(), fs::metadata(old.join(name)).unwrap().ino());
        }
    }

    /// A link leads there, of all blocks or of a file.
    #[test]
    fn a_target_lies_on_the_file_system_of_the_block_files() {
        let temp = tempfile::tempdir().unwrap();
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
        if device(other.path()) == device(temp.path()) {
            return;
        }
        let (blocks, here) = (temp.path().join("blocks"), temp.path().join("new/core"));
        std::os::unix::fs::symlink(other.path(), &blocks).unwrap();
        let refused = |error: HandOverError| {
            assert!(matches!(error, HandOverError::OtherFileSystem { .. }), "{error}");
        };
        refused(Target::begin(&here, &blocks).map(drop).unwrap_err());
        assert_eq!(names(temp.path()), ["blocks"], "nothing is made");
        let file = other.path().join("blk00000.dat");
        fs::write(&file, b"x").unwrap();
        let target = Target::begin(&other.path().join("core"), &blocks).unwrap();
        target.share(&blocks.join("blk00000.dat")).unwrap();
        fs::remove_file(&blocks).unwrap();
        fs::create_dir(&blocks).unwrap();
        std::os::unix::fs::symlink(&file, blocks.join("blk00000.dat")).unwrap();
        let target = Target::begin(&here, &blocks).unwrap();
        refused(target.share(&blocks.join("blk00000.dat")).unwrap_err());
    }

    #[test]
    fn what_is_abandoned_leaves_nothing_but_what_was_there() {
        let temp = tempfile::tempdir().unwrap();
        let begin = |dir: &Path| {
            let target = Target::begin(dir, temp.path()).unwrap();
            fs::create_dir(dir.join(BLOCKS)).unwrap();
            target.write("xor.dat", &[0; 8]).unwrap();
            target
        };
        begin(&temp.path().join("new/deep/regtest")).abandon();
        assert!(names(temp.path()).is_empty());
        let there = temp.path().join("there");
        fs::create_dir(&there).unwrap();
        begin(&there).abandon();
        assert!(names(&there).is_empty());
        let target = begin(&there.join("regtest"));
        fs::write(there.join("bitcoin.conf"), b"").unwrap();
        target.abandon();
        assert_eq!(names(&there), ["bitcoin.conf"]);
        let target = begin(&there.join("new/regtest"));
        fs::write(there.join("new/bitcoin.conf"), b"").unwrap();
        target.abandon();
        assert_eq!(names(&there.join("new")), ["bitcoin.conf"], "it has come meanwhile");
    }

    #[test]
    fn a_target_lies_beside_its_source() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        let (datadir, network) = (root.join("godwit"), root.join("godwit/regtest"));
        fs::create_dir_all(&network).unwrap();
        fs::create_dir(root.join("core")).unwrap();
        std::os::unix::fs::symlink(&network, root.join("link")).unwrap();
        std::os::unix::fs::symlink(&network, root.join("core/regtest")).unwrap();
        let check = |to: &str| {
            let to = root.join(to);
            check_apart([&to, &to.join("regtest")], [&datadir, &network])
        };
        for apart in ["new", "new/deep", "godwit2", "none/../new"] {
            check(apart).unwrap();
        }
        let inside = ["godwit", "godwit/new", "godwit/new/deep", "godwit/regtest/core", "link/new"];
        let hidden = ["none/../godwit/new", "godwit2/../link/new", "core"];
        for to in inside.iter().chain(&hidden).chain(&["", "."]) {
            let error = check(to).unwrap_err();
            assert!(matches!(error, HandOverError::NotApart { .. }), "{to}: {error}");
        }
        assert_eq!(names(root), ["core", "godwit", "link"], "nothing is made");
    }

    #[test]
    fn each_target_is_noted() {
        let temp = tempfile::tempdir().unwrap();
        let read = || fs::read_to_string(temp.path().join(HANDED_OVER)).unwrap();
        note(temp.path(), Path::new("/one")).unwrap();
        note(temp.path(), Path::new("/one")).unwrap();
        assert_eq!(read(), "/one\n");
        note(temp.path(), Path::new("/two")).unwrap();
        assert_eq!(read(), "/one\n/two\n");
    }
}
