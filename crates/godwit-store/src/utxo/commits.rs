//! Which run files a commit may name, and which ones are obsolete.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::manifest::Manifest;
use super::run::format::{BLOCK, RunId};

/// Id of a manifest that was handed out, until it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManifestId(u64);

struct Issued {
    id: ManifestId,
    seal: u64,
    runs: BTreeSet<RunId>,
}

/// Tracks run files from their writing to their removal.
pub(super) struct Commits {
    /// The seal of the durable manifest.
    seal: u64,
    /// Runs that the durable manifest names.
    durable: BTreeSet<RunId>,
    /// Manifests handed out since, oldest first: one of them may become durable at any moment.
    issued: VecDeque<Issued>,
    next: u64,
    /// Run files that were written and not removed, and their bytes.
    files: BTreeMap<RunId, u64>,
    /// Bytes of those that the durable manifest names and the next one would not.
    replaced: u64,
}

impl Commits {
    pub(super) fn new(manifest: &Manifest) -> Self {
        let bytes = |blocks| u64::from(blocks) * BLOCK as u64;
        let files: BTreeMap<RunId, u64> =
            manifest.runs.iter().map(|run| (run.id, bytes(run.blocks))).collect();
        let durable = files.keys().copied().collect();
        let (seal, issued) = (manifest.seal, VecDeque::new());
        Self { seal, durable, issued, next: 0, files, replaced: 0 }
    }

    /// The seal of the durable manifest; merges must not mix anything newer with what it names.
    pub(super) fn seal(&self) -> u64 {
        self.seal
    }

    pub(super) fn written(&mut self, run: RunId, bytes: u64) {
        self.files.insert(run, bytes);
    }

    /// Bytes of runs that stay for no other reason than that the durable manifest names them.
    pub(super) fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Notes that the store's runs are `current` by now. To be called behind each merge and commit.
    pub(super) fn note_current(&mut self, current: &BTreeSet<RunId>) {
        let replaced = self.durable.difference(current).filter_map(|run| self.files.get(run));
        self.replaced = replaced.sum();
    }

    pub(super) fn issue(&mut self, manifest: &Manifest) -> ManifestId {
        let id = ManifestId(self.next);
        self.next += 1;
        let runs = manifest.runs.iter().map(|run| run.id).collect();
        self.issued.push_back(Issued { id, seal: manifest.seal, runs });
        id
    }

    /// Notes that a manifest is durable. Manifests issued before it are then of no use.
    ///
    /// # Panics
    ///
    /// If it was not issued, or a later one is already durable.
    pub(super) fn committed(&mut self, id: ManifestId) {
        let place = self.issued.iter().position(|issued| issued.id == id);
        let place = place.expect("a manifest is committed once, in the order of issue");
        let issued = self.issued.drain(..=place).next_back().expect("it was found");
        (self.seal, self.durable) = (issued.seal, issued.runs);
    }

    /// Takes the files that neither the store nor any manifest that is or may become durable names.
    pub(super) fn take_obsolete(&mut self, in_use: &BTreeSet<RunId>) -> Vec<RunId> {
        let (durable, issued) = (&self.durable, &self.issued);
        let named = |run: &RunId| {
            in_use.contains(run)
                || durable.contains(run)
                || issued.iter().any(|issued| issued.runs.contains(run))
        };
        let files = std::mem::take(&mut self.files);
        let (kept, obsolete): (BTreeMap<_, _>, BTreeMap<_, _>) =
            files.into_iter().partition(|(run, _)| named(run));
        self.files = kept;
        obsolete.into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::UtxoHasher;
    use super::super::manifest::ManifestRun;
    use super::super::run::segment::SealRange;
    use super::*;

    fn manifest(seal: u64, runs: &[u64]) -> Manifest {
        let run = |id: &u64| ManifestRun {
            id: RunId(*id),
            blocks: 1,
            seals: SealRange { oldest: 1, newest: seal },
            partitions: 1,
        };
        let empty = Manifest::empty(0, &UtxoHasher::new([0; 16]));
        Manifest { seal, runs: runs.iter().map(run).collect(), ..empty }
    }

    fn ids(runs: &[u64]) -> BTreeSet<RunId> {
        runs.iter().copied().map(RunId).collect()
    }

    #[test]
    fn inputs_of_a_merge_live_until_no_manifest_can_name_them() {
        let mut commits = Commits::new(&manifest(2, &[1, 2]));
        let before = commits.issue(&manifest(3, &[1, 2, 3]));
        commits.written(RunId(3), 4096);
        commits.written(RunId(4), 4096);
        // Run 4 is the merge of 1 and 2.
        assert!(commits.take_obsolete(&ids(&[3, 4])).is_empty());
        let after = commits.issue(&manifest(3, &[3, 4]));
        commits.committed(before);
        assert_eq!(commits.seal(), 3);
        assert!(commits.take_obsolete(&ids(&[3, 4])).is_empty(), "durable names them");
        commits.committed(after);
        assert_eq!(commits.take_obsolete(&ids(&[3, 4])), [RunId(1), RunId(2)]);
        assert!(commits.take_obsolete(&ids(&[3, 4])).is_empty());
    }

    /// A merge of merges while a commit is on its way to the disk.
    #[test]
    fn what_an_issued_manifest_names_stays() {
        let mut commits = Commits::new(&manifest(2, &[1, 2]));
        commits.written(RunId(4), 4096);
        let first = commits.issue(&manifest(2, &[1, 2]));
        let second = commits.issue(&manifest(2, &[4]));
        commits.written(RunId(5), 4096);
        commits.committed(first);
        assert!(commits.take_obsolete(&ids(&[5])).is_empty(), "the second may be durable already");
        commits.committed(second);
        assert_eq!(commits.take_obsolete(&ids(&[5])), [RunId(1), RunId(2)]);
    }

    #[test]
    fn a_run_that_was_never_named_goes_once_it_is_not_in_use() {
        let mut commits = Commits::new(&manifest(0, &[]));
        commits.written(RunId(7), 4096);
        assert!(commits.take_obsolete(&ids(&[7])).is_empty());
        assert_eq!(commits.take_obsolete(&ids(&[])), [RunId(7)]);
    }
    /// A merge may have ended between the manifest and its commit.
    #[test]
    fn runs_that_the_durable_manifest_names_alone_are_counted() {
        let mut commits = Commits::new(&manifest(2, &[1, 2, 3]));
        assert_eq!(commits.replaced(), 0);
        commits.written(RunId(4), 5 * BLOCK as u64);
        commits.note_current(&ids(&[3, 4]));
        assert_eq!(commits.replaced(), 2 * BLOCK as u64);
        let again = commits.issue(&manifest(2, &[3, 4]));
        commits.written(RunId(5), 6 * BLOCK as u64);
        commits.note_current(&ids(&[5]));
        commits.committed(again);
        commits.note_current(&ids(&[5]));
        assert_eq!(commits.replaced(), 6 * BLOCK as u64, "3 and 4");
        let last = commits.issue(&manifest(2, &[5]));
        commits.committed(last);
        commits.note_current(&ids(&[5]));
        assert_eq!(commits.replaced(), 0);
    }
}
