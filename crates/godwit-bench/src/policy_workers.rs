//! The three programs that differ in nothing but the memory policy they were built with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::harness::{Epoch, Runner, Worker, WorkerError};
use crate::suite_error::SuiteError;
use crate::workloads::policy::{self, Policy};

/// Name of the program in each policy's folder.
const PROGRAM: &str = "policy-worker";

/// A worker whose policy was looked at.
pub struct PolicyWorker {
    /// What it does with the memory of streams.
    pub policy: Policy,
    pub path: PathBuf,
    options: [OsString; 2],
}

impl PolicyWorker {
    /// The workers in the three folders of `folder`, each started once.
    ///
    /// # Errors
    ///
    /// [`SuiteError::Policy`] when one of them has another policy than its folder says, by the
    /// allocator type that its streams use and by the function that wipes, which must be in the
    /// program of one policy and no other.
    pub fn find_all(folder: &Path, block: &Path, datadir: &Path) -> Result<Vec<Self>, SuiteError> {
        Policy::ALL.into_iter().map(|policy| Self::find(policy, folder, block, datadir)).collect()
    }

    fn find(
        policy: Policy,
        folder: &Path,
        block: &Path,
        datadir: &Path,
    ) -> Result<Self, SuiteError> {
        let path = folder.join(policy.name()).join(PROGRAM);
        let wipes = policy::wipes(&path).map_err(|e| SuiteError::File(path.clone(), e))?;
        let options = input_options(block, &datadir.join(policy.name()));
        let allocator = Worker::start(&path, &options)?.policy()?;
        let expected = Some(policy == Policy::ZeroAfterFree);
        if Policy::of_type(&allocator) != Some(policy) || wipes != expected {
            return Err(SuiteError::Policy { path, allocator, wipes });
        }
        Ok(Self { policy, path, options })
    }

    /// Name of its line in every benchmark.
    pub fn line(&self) -> String {
        format!("godwit, {}", self.policy.name())
    }

    /// A new process with the workload prepared; its unit, and how many of them one iteration works
    /// through.
    ///
    /// # Errors
    ///
    /// See [`WorkerError`].
    pub fn prepared(&self, workload: &str) -> Result<(Worker, String, f64), WorkerError> {
        let mut process = Worker::start(&self.path, &self.options)?;
        let (unit, units_per_iteration) = process.prepare(workload)?;
        Ok((process, unit, units_per_iteration))
    }
}

/// Each epoch in a process of its own, behind one that is not timed: where a process happens to have its
/// code and data in memory differs from epoch to epoch then, and is not taken for its policy's doing.
pub struct NewProcess<'a> {
    worker: &'a PolicyWorker,
    workload: &'a str,
}

impl<'a> NewProcess<'a> {
    /// Runs `workload` in processes of `worker`.
    pub fn each_epoch(worker: &'a PolicyWorker, workload: &'a str) -> Self {
        Self { worker, workload }
    }
}

impl Runner for NewProcess<'_> {
    fn epoch(&mut self, iterations: u64) -> Result<Epoch, WorkerError> {
        let (mut process, ..) = self.worker.prepared(self.workload)?;
        process.epoch(iterations)?;
        process.epoch(iterations)
    }
}

/// The options that give a worker the same input.
pub(crate) fn input_options(block: &Path, datadir: &Path) -> [OsString; 2] {
    let option = |name: &str, path: &Path| {
        let mut option = OsString::from(name);
        option.push(path);
        option
    };
    [option("-block=", block), option("-datadir=", datadir)]
}
