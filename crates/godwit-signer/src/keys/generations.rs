//! The number of the last version of each key file that was seen here. It is kept outside of the file, so
//! that an older copy is noticed: somebody who restores one may mean well, but lacks the newer keys.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use godwit_keys::Mark;
use tempfile::NamedTempFile;

/// Name of the record in the data directory.
const FILE: &str = "key-generations";
/// Most files that are remembered; no person has more.
const MAX_FILES: usize = 10_000;

pub(crate) struct Generations {
    directory: PathBuf,
}

/// The numbers by the names of files, or why they cannot be read.
pub(crate) struct Remembered(io::Result<BTreeMap<String, u64>>);

/// What the record says about a version of the key file.
pub(crate) enum Age {
    /// No later version was here.
    Last,
    /// A later version was here, with this number.
    Older(u64),
    /// The record cannot be read, so a later version may have been here.
    Unknown(io::Error),
}

impl Generations {
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Reads the record. If this happens before a file is opened, the record has no number that another
    /// process gave the file afterwards.
    pub(crate) fn remembered(&self) -> Remembered {
        Remembered(self.read())
    }

    /// Remembers a version that was opened, and compares it with what was remembered before.
    pub(crate) fn opened(&self, mark: &Mark, before: Remembered) -> Age {
        let before = match before.0 {
            Ok(before) => before,
            Err(error) => return Age::Unknown(error),
        };
        self.remember(mark, false);
        match before.get(&name(mark)) {
            Some(seen) if *seen > mark.generation => Age::Older(*seen),
            _ => Age::Last,
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Remembers a version that was written. With `forget`, also if a later one was here.
    pub(crate) fn written(&self, mark: &Mark, forget: bool) {
        self.remember(mark, forget);
    }

    /// A record that cannot be written is worth no more than a line of the log.
    fn remember(&self, mark: &Mark, forget: bool) {
        if let Err(error) = self.update(mark, forget) {
            eprintln!(
                "godwit-signer: warning: {} cannot be kept ({error}): an older copy of the key file would \
                 not be told",
                self.path().display()
            );
        }
    }

    fn update(&self, mark: &Mark, forget: bool) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        // Only one process at a time reads and writes the record.
        let lock = File::open(&self.directory)?;
        lock.lock()?;
        let mut all = self.read()?;
        let seen = all.get(&name(mark)).copied();
        if seen.is_none_or(|seen| seen < mark.generation || forget && seen > mark.generation) {
            all.insert(name(mark), mark.generation);
            self.write(&all)?;
        }
        Ok(())
    }

    /// A file that cannot be read does not count as empty, and one with any other lines has lost some.
    fn read(&self) -> io::Result<BTreeMap<String, u64>> {
        let text = match fs::read_to_string(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let version = |line: &str| {
            let (name, generation) = line.split_once(' ')?;
            Some((name.to_owned(), generation.parse().ok()?))
        };
        let lines = text.lines().take(MAX_FILES).map(|line| {
            version(line)
                .ok_or_else(|| io::Error::other("a line of it is no version of a key file"))
        });
        lines.collect()
    }

    fn write(&self, all: &BTreeMap<String, u64>) -> io::Result<()> {
        let lines = all.iter().map(|(name, generation)| format!("{name} {generation}\n"));
        let mut unfinished = NamedTempFile::with_prefix_in(FILE, &self.directory)?;
        unfinished.write_all(lines.collect::<String>().as_bytes())?;
        unfinished.as_file().sync_all()?;
        unfinished.persist(self.path())?;
        Ok(())
    }
}

fn name(mark: &Mark) -> String {
    mark.id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tempfile::TempDir;

    use super::*;

    fn mark(id: u8, generation: u64) -> Mark {
        Mark { id: [id; 16], generation }
    }

    fn later(age: Age) -> Option<u64> {
        match age {
            Age::Last => None,
            Age::Older(number) => Some(number),
            Age::Unknown(error) => panic!("{error}"),
        }
    }

    #[test]
    fn an_older_copy_is_told() {
        let place = TempDir::new().expect("a directory");
        let directory = place.path().join("not there yet");
        let generations = || Generations::in_directory(&directory);
        let opened = |mark| later(generations().opened(&mark, generations().remembered()));
        assert_eq!(opened(mark(1, 5)), None);
        assert_eq!(opened(mark(1, 5)), None);
        assert_eq!(opened(mark(1, 4)), Some(5));
        assert_eq!(opened(mark(2, 1)), None, "another file");
        generations().written(&mark(1, 6), false);
        assert_eq!(opened(mark(1, 5)), Some(6));
        generations().written(&mark(1, 3), false);
        assert_eq!(opened(mark(1, 3)), Some(6), "nobody has said so");
        // Once a change is written to the older copy, that copy is the version that counts.
        generations().written(&mark(1, 3), true);
        assert_eq!(opened(mark(1, 3)), None);
        // Another process writes between reading the record and reading the file, or after both.
        let before = generations().remembered();
        generations().written(&mark(1, 4), false);
        assert_eq!(later(generations().opened(&mark(1, 3), before)), None);
        assert_eq!(opened(mark(1, 3)), Some(4), "it was not lowered");
        assert_eq!(fs::read_dir(&directory).expect("there").count(), 1, "nothing else is left");
    }

    #[test]
    fn what_cannot_be_read_is_not_forgotten() {
        let place = TempDir::new().expect("a directory");
        let generations = Generations::in_directory(place.path());
        generations.written(&mark(1, 5), false);
        let file = place.path().join(FILE);
        let readable = fs::read(&file).expect("there");
        for line in [&b"\xff\n"[..], b"\n", b"rubbish\n", b"01 x\n", b"01 -1\n"] {
            let strange = [&readable[..], line].concat();
            fs::write(&file, &strange).expect("it is ours");
            for generation in [1, 5, 6] {
                let age = generations.opened(&mark(1, generation), generations.remembered());
                assert!(matches!(age, Age::Unknown(_)), "{line:?}");
            }
            generations.written(&mark(1, 6), true);
            assert_eq!(fs::read(&file).expect("there"), strange, "it is left as it was");
        }
    }

    #[test]
    fn processes_at_once_lose_nothing() {
        let place = TempDir::new().expect("a directory");
        thread::scope(|scope| {
            for id in 0..8 {
                let generations = Generations::in_directory(place.path());
                scope.spawn(move || {
                    for generation in 1..=20 {
                        generations.written(&mark(id, generation), false);
                    }
                });
            }
        });
        let all = Generations::in_directory(place.path()).read().expect("there");
        assert_eq!((all.len(), all.values().min()), (8, Some(&20)));
    }
}
