//! The number of the last version of each key file that was seen here. It is kept outside of the file, so
//! that a copy from before is told: who puts one back may mean well, and lacks keys.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use godwit_keys::Mark;

/// Its name in the data directory.
const FILE: &str = "key-generations";
/// Most files that are remembered; more are no record of a person's.
const MAX_FILES: usize = 10_000;

pub(crate) struct Generations {
    path: PathBuf,
}

impl Generations {
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self { path: directory.join(FILE) }
    }

    /// Remembers a version that was opened; the number of a later one, if there was one.
    pub(crate) fn raise(&self, mark: &Mark) -> Option<u64> {
        let seen = self.read().get(&name(mark)).copied().unwrap_or(0);
        if seen < mark.generation {
            self.set(mark);
        }
        (seen > mark.generation).then_some(seen)
    }

    /// Remembers a version that was written, whatever came before. What cannot be remembered is not worth
    /// more than a line.
    pub(crate) fn set(&self, mark: &Mark) {
        let mut all = self.read();
        all.insert(name(mark), mark.generation);
        if let Err(error) = self.write(&all) {
            eprintln!(
                "godwit-signer: warning: {} cannot be written ({error}): an older copy of the key file \
                 would not be told",
                self.path.display()
            );
        }
    }

    /// Lines that say nothing are passed over.
    fn read(&self) -> BTreeMap<String, u64> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            let (name, generation) = line.split_once(' ')?;
            Some((name.to_owned(), generation.parse().ok()?))
        });
        lines.take(MAX_FILES).collect()
    }

    fn write(&self, all: &BTreeMap<String, u64>) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        let lines = all.iter().map(|(name, generation)| format!("{name} {generation}\n"));
        let unfinished = self.path.with_extension("unfinished");
        fs::write(&unfinished, lines.collect::<String>())?;
        fs::File::open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, &self.path)
    }
}

fn name(mark: &Mark) -> String {
    mark.id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn an_older_copy_is_told() {
        let place = TempDir::new().expect("a directory");
        let directory = place.path().join("not there yet");
        let generations = || Generations::in_directory(&directory);
        let mark = |id, generation| Mark { id: [id; 16], generation };
        assert_eq!(generations().raise(&mark(1, 5)), None);
        assert_eq!(generations().raise(&mark(1, 5)), None);
        assert_eq!(generations().raise(&mark(1, 4)), Some(5));
        assert_eq!(generations().raise(&mark(2, 1)), None, "another file");
        generations().set(&mark(1, 6));
        assert_eq!(generations().raise(&mark(1, 5)), Some(6));
        // Written on, the older copy is the one that counts.
        generations().set(&mark(1, 3));
        assert_eq!(generations().raise(&mark(1, 3)), None);
        fs::write(directory.join(FILE), "rubbish\n\n01 x\n").expect("it is ours");
        assert_eq!(generations().raise(&mark(1, 1)), None);
    }
}
