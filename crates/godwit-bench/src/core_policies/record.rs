//! The records of a journal: the programs that were measured, and each sync.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::chain_summary::ChainSummary;
use crate::failure::Failure;
use crate::ibd::sample::Sample;
use crate::machine::Machine;
use crate::node::Node;
use crate::programs::Programs;

use super::policy::{LINK_ORDERS, Policy, program};

/// What the runs of a journal have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncHead {
    /// Where and when it began.
    pub machine: Machine,
    pub build: Build,
    pub chain: ChainSummary,
    /// `-dbcache` in MiB of each case.
    pub dbcache: BTreeMap<String, u64>,
}

/// The programs that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Build {
    /// What `bitcoind -version` says.
    pub version: String,
    /// What was changed in the source for each policy, as diffs.
    pub changes: BTreeMap<Policy, String>,
    /// What the comparison of the callers' code found.
    pub callers: String,
    /// Bytes and time of the build of each program.
    pub programs: BTreeMap<String, (u64, u64)>,
}

/// One sync.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncRun {
    /// Name of the case.
    pub case: String,
    pub round: usize,
    pub policy: Policy,
    pub sample: Sample,
    /// Hash of the coins that it ended with.
    pub coins: String,
}

/// The file of a Core's syncs in a directory of journals.
pub fn sync_journal(core: &str) -> String {
    format!("{core}-sync.jsonl")
}

impl Build {
    /// Of what lies in a directory of programs for these policies.
    pub fn of(programs: &Path, name: &str, policies: &[Policy]) -> Result<Self, Failure> {
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|error| Failure::File(path.to_owned(), error))
        };
        let mut build = Self {
            version: bitcoind(Path::new(""), programs, Policy::AsIs, 0).version(Node::Bitcoind)?,
            changes: BTreeMap::new(),
            callers: read(&programs.join("callers.txt"))?,
            programs: BTreeMap::new(),
        };
        for policy in policies.iter().copied() {
            build.changes.insert(policy, read(&program(programs, policy, 0, "rival.diff"))?);
            for order in 0..LINK_ORDERS {
                let path = program(programs, policy, order, name);
                let failed = |error| Failure::File(path.clone(), error);
                let metadata = fs::metadata(&path).map_err(failed)?;
                let built = metadata.modified().map_err(failed)?;
                let built = built.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let about = (metadata.len(), built.as_secs());
                build.programs.insert(format!("{policy}-{}", order + 1), about);
            }
        }
        Ok(build)
    }

    /// What is compared, the one that ships first.
    pub fn policies(&self) -> Vec<Policy> {
        self.changes.keys().copied().collect()
    }
}

impl SyncHead {
    /// Whether runs under the two can be compared. A chain that was moved in time is the same work.
    pub fn continues(before: &Self, now: &Self) -> bool {
        let work = |head: &Self| {
            let ChainSummary { plan, seed, height, bytes, txouts, .. } = &head.chain;
            (plan.clone(), *seed, *height, *bytes, *txouts)
        };
        before.build == now.build && work(before) == work(now) && before.dbcache == now.dbcache
    }
}

/// One of the programs, and the `godwit` that serves it.
pub fn bitcoind(godwit: &Path, programs: &Path, policy: Policy, order: usize) -> Programs {
    let bitcoind = program(programs, policy, order, "bitcoind");
    Programs {
        godwit: godwit.to_owned(),
        bitcoind,
        godwit_options: vec![],
        bitcoind_options: vec![],
        probes: false,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A head of nothing in particular.
    pub(crate) fn head() -> SyncHead {
        let other = crate::ibd::results::tests::results(&[[1.0; 3]]);
        let programs = [("as-is-1".to_owned(), (10, 20))].into();
        let change = |policy| (policy, if policy == Policy::Plain { "-a\n+b\n" } else { "" });
        let changes = Policy::ALL.map(change).map(|(policy, text)| (policy, text.to_owned()));
        let changes = changes.into();
        let build =
            Build { version: "Core v0".into(), changes, callers: "net.cpp.o: 0".into(), programs };
        let dbcache = [("files".to_owned(), 450)].into();
        SyncHead { machine: other.machine, build, chain: other.chain, dbcache }
    }

    #[test]
    fn runs_of_other_programs_or_another_chain_are_not_gone_on_with() {
        let before = head();
        let continues = |change: fn(&mut SyncHead)| {
            let mut now = before.clone();
            change(&mut now);
            SyncHead::continues(&before, &now)
        };
        assert!(continues(|_| ()));
        assert!(continues(|head| head.chain.tip = "moved in time".into()));
        assert!(continues(|head| head.machine.load = "9".into()));
        assert!(!continues(|head| head.chain.txouts += 1));
        assert!(!continues(|head| head.build.programs.clear()));
        assert!(!continues(|head| head.dbcache.clear()));
    }
}
