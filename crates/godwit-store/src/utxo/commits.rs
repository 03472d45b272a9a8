//! Which run files a commit may name, and which ones are obsolete.

use std::collections::{BTreeSet, VecDeque};

use super::manifest::Manifest;
use super::run::format::RunId;

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
    /// Run files that were written and not removed.
    files: BTreeSet<RunId>,
}

impl Commits {
    pub(super) fn new(manifest: &Manifest) -> Self {
        let durable: BTreeSet<RunId> = manifest.runs.iter().map(|run| run.id).collect();
        let files = durable.clone();
        Self { seal: manifest.seal, durable, issued: VecDeque::new(), next: 0, files }
    }

    /// The seal of the durable manifest; merges must not mix anything newer with what it names.
    pub(super) fn seal(&self) -> u64 {
        self.seal
    }

    pub(super) fn written(&mut self, run: RunId) {
        self.files.insert(run);
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
        let (kept, obsolete) = self.files.iter().copied().partition(named);
        self.files = kept;
        Vec::from_iter::<BTreeSet<RunId>>(obsolete)
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
        commits.written(RunId(3));
        commits.written(RunId(4));
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
        commits.written(RunId(4));
        let first = commits.issue(&manifest(2, &[1, 2]));
        let second = commits.issue(&manifest(2, &[4]));
        commits.written(RunId(5));
        commits.committed(first);
        assert!(commits.take_obsolete(&ids(&[5])).is_empty(), "the second may be durable already");
        commits.committed(second);
        assert_eq!(commits.take_obsolete(&ids(&[5])), [RunId(1), RunId(2)]);
    }

    #[test]
    fn a_run_that_was_never_named_goes_once_it_is_not_in_use() {
        let mut commits = Commits::new(&manifest(0, &[]));
        commits.written(RunId(7));
        assert!(commits.take_obsolete(&ids(&[7])).is_empty());
        assert_eq!(commits.take_obsolete(&ids(&[])), [RunId(7)]);
    }
}
