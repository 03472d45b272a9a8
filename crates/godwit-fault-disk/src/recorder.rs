//! Records the operations on a disk, by any number of threads, and makes the states that a power cut could
//! have left on it. In these, directories that were made always exist, and at most the first half of a write
//! that had not ended is there.
//!
//! Each operation has two instants, its beginning and its end, which it shares with no other. A sync makes
//! durable what had ended before the sync began; the cut decides what remains of the rest in each file and
//! directory ([`Survival`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_disk::{Disk, DiskFile, OpenMode};

use crate::change::{Change, NameChange};
use crate::inline::Span;
use crate::random::SplitMix;
use crate::timeline::{Inode, Names};
use crate::{FaultDisk, State, Survival, forward_disk, forward_file};

/// Wraps another disk, which is empty in the directories that are used, and records its changes; clones
/// record together.
#[derive(Clone)]
pub struct Recorder {
    disk: Arc<dyn Disk>,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    /// Number of instants so far.
    clock: AtomicU64,
    recorded: Mutex<Recorded>,
}

#[derive(Clone, Default)]
struct Recorded {
    /// The file at each path now.
    names: BTreeMap<PathBuf, usize>,
    inodes: usize,
    dirs: BTreeSet<PathBuf>,
    steps: Vec<(Span, Step)>,
}

#[derive(Clone)]
enum Step {
    Change(usize, Change),
    Sync(usize),
    Name(NameChange),
    SyncDir(PathBuf),
}

/// The operations recorded up to an instant.
pub struct Recording(Recorded);

impl Log {
    fn tick(&self) -> Duration {
        Duration::from_nanos(self.clock.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs an operation and records it as a step.
    fn run<T>(&self, call: impl FnOnce() -> io::Result<T>, step: Step) -> io::Result<T> {
        let from = self.tick();
        let done = call()?;
        let to = self.tick();
        self.recorded().steps.push((span(from, to), step));
        Ok(done)
    }
}

fn span(from: Duration, to: Duration) -> Span {
    Span { from, to, job: 0, clock: Duration::ZERO }
}

impl Recorded {
    /// Records a change of names that takes place between two instants.
    fn rename(&mut self, log: &Log, change: NameChange) {
        change.apply(&mut self.names);
        self.steps.push((span(log.tick(), log.tick()), Step::Name(change)));
    }
}

impl Recorder {
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, log: Arc::default() }
    }

    /// The last instant: operations that ended before are recorded with an earlier one.
    pub fn instant(&self) -> u64 {
        self.log.clock.load(Ordering::SeqCst)
    }

    /// What was recorded so far.
    pub fn recording(&self) -> Recording {
        Recording(self.log.recorded().clone())
    }
}

impl Recording {
    /// Instants at which something became durable, or a file got or lost a name.
    pub fn turning_points(&self) -> Vec<u64> {
        let turns = |step: &Step| !matches!(step, Step::Change(..));
        let steps = self.0.steps.iter().filter(|(_, step)| turns(step));
        steps.map(|(span, _)| span.to.as_nanos() as u64).collect()
    }

    /// The disk after a power cut right after an instant.
    pub fn cut(&self, at: u64, survival: Survival) -> FaultDisk {
        let at = Duration::from_nanos(at);
        let mut inodes = vec![Inode::default(); self.0.inodes];
        let mut names = Names::default();
        for (span, step) in self.0.steps.iter().filter(|(span, _)| span.from <= at) {
            match step.clone() {
                Step::Change(inode, change) => inodes[inode].plan_change(*span, change),
                Step::Sync(inode) => inodes[inode].plan_sync(*span),
                Step::Name(change) => names.plan_change(*span, change),
                Step::SyncDir(path) => names.plan_sync_dir(*span, path),
            }
        }
        let mut random = SplitMix(if let Survival::Part(seed) = survival { seed } else { 0 });
        for inode in &mut inodes {
            inode.crash(at, survival, &mut random);
        }
        names.crash(at, survival, &mut random);
        let state = State { inodes, names, dirs: self.0.dirs.clone(), ..State::default() };
        FaultDisk(Arc::new(Mutex::new(state)))
    }
}

impl Disk for Recorder {
    forward_disk!(disk: list, free_bytes, try_lock);

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        // Names change one after the other.
        let mut recorded = self.log.recorded();
        let file = self.disk.open(path, mode)?;
        let inode = match recorded.names.get(path).copied() {
            Some(inode) => inode,
            // The file is not one of the recorded disk.
            None if mode == OpenMode::Read => return Ok(file),
            None => {
                let inode = recorded.inodes;
                recorded.inodes += 1;
                recorded.rename(&self.log, NameChange::Link(path.to_owned(), inode));
                inode
            }
        };
        if mode == OpenMode::Truncate {
            let span = span(self.log.tick(), self.log.tick());
            recorded.steps.push((span, Step::Change(inode, Change::SetLen(0))));
        }
        Ok(Arc::new(RecordedFile { file, inode, log: Arc::clone(&self.log) }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)?;
        self.log.recorded().dirs.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.log.run(|| self.disk.sync_dir(path), Step::SyncDir(path.to_owned()))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut recorded = self.log.recorded();
        self.disk.rename(from, to)?;
        if from.parent() == to.parent() {
            recorded.rename(&self.log, NameChange::Rename(from.to_owned(), to.to_owned()));
        } else if let Some(inode) = recorded.names.get(from).copied() {
            recorded.rename(&self.log, NameChange::Link(to.to_owned(), inode));
            recorded.rename(&self.log, NameChange::Unlink(from.to_owned()));
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut recorded = self.log.recorded();
        self.disk.remove(path)?;
        recorded.rename(&self.log, NameChange::Unlink(path.to_owned()));
        Ok(())
    }
}

struct RecordedFile {
    file: Arc<dyn DiskFile>,
    inode: usize,
    log: Arc<Log>,
}

impl RecordedFile {
    fn change(&self, call: impl FnOnce() -> io::Result<()>, change: Change) -> io::Result<()> {
        self.log.run(call, Step::Change(self.inode, change))
    }
}

impl DiskFile for RecordedFile {
    forward_file!(file: read_exact_at, read_or_fetch_at, read_stream_at, file_len);

    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let change = Change::Write(offset, data.to_vec());
        self.change(|| self.file.write_all_at(offset, data), change)
    }

    fn sync(&self) -> io::Result<()> {
        self.log.run(|| self.file.sync(), Step::Sync(self.inode))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|| self.file.set_len(len), Change::SetLen(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: &str = "/d";

    fn recorder() -> Recorder {
        let recorder = Recorder::new(Arc::new(FaultDisk::new()));
        recorder.create_dir_all(Path::new(DIR)).unwrap();
        recorder
    }

    fn file(disk: &dyn Disk, name: &str) -> Arc<dyn DiskFile> {
        disk.open(&Path::new(DIR).join(name), OpenMode::ReadWrite).unwrap()
    }

    fn contents(disk: &FaultDisk, name: &str) -> Option<String> {
        let bytes = disk.contents(&Path::new(DIR).join(name))?;
        Some(String::from_utf8(bytes).unwrap())
    }

    /// The content of `a` and `b` after cuts at any instant.
    fn states(recorder: &Recorder) -> BTreeSet<[Option<String>; 2]> {
        let recording = recorder.recording();
        let cuts = (0..=recorder.instant()).flat_map(|at| (0..64).map(move |seed| (at, seed)));
        let disks = cuts.map(|(at, seed)| recording.cut(at, Survival::Part(seed)));
        disks.map(|disk| ["a", "b"].map(|name| contents(&disk, name))).collect()
    }

    #[test]
    fn files_are_written_apart_and_a_sync_comes_between() {
        let recorder = recorder();
        let (a, b) = (file(&recorder, "a"), file(&recorder, "b"));
        recorder.sync_dir(Path::new(DIR)).unwrap();
        let named = recorder.instant();
        a.write_all_at(0, b"1").unwrap();
        b.write_all_at(0, b"1").unwrap();
        let found = states(&recorder);
        for first in [0, 1] {
            // Either may survive without the other, whichever was written first.
            let mut state = [Some(String::new()), Some(String::new())];
            state[first] = Some("1".to_owned());
            assert!(found.contains(&state), "{found:?}");
        }
        a.sync().unwrap();
        let synced = recorder.instant();
        let recording = recorder.recording();
        for survival in [Survival::Nothing, Survival::Part(1), Survival::Part(2)] {
            let disk = recording.cut(synced, survival);
            assert_eq!(contents(&disk, "a").as_deref(), Some("1"), "{survival:?}");
        }
        let disk = recording.cut(named, Survival::All);
        assert_eq!(contents(&disk, "a").as_deref(), Some(""), "before the write");
        let all = recording.cut(synced, Survival::All);
        assert_eq!(contents(&all, "b").as_deref(), Some("1"));
    }

    #[test]
    fn names_wait_for_the_directory() {
        let recorder = recorder();
        let a = file(&recorder, "a");
        a.write_all_at(0, b"1").unwrap();
        a.sync().unwrap();
        let [old, new] = ["a", "b"].map(|name| Path::new(DIR).join(name));
        recorder.sync_dir(Path::new(DIR)).unwrap();
        let before = recorder.instant();
        recorder.rename(&old, &new).unwrap();
        let renamed = recorder.instant();
        recorder.sync_dir(Path::new(DIR)).unwrap();
        let recording = recorder.recording();
        let names = |at, survival| {
            let disk = recording.cut(at, survival);
            ["a", "b"].map(|name| contents(&disk, name).is_some())
        };
        assert_eq!(names(before, Survival::All), [true, false]);
        assert_eq!(names(renamed, Survival::Nothing), [true, false]);
        assert_eq!(names(renamed, Survival::All), [false, true]);
        assert_eq!(names(recorder.instant(), Survival::Nothing), [false, true]);
        assert!(recording.turning_points().contains(&renamed));
    }
}
