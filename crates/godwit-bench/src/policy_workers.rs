//! The three programs that differ in nothing but the memory policy they were built with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::harness::Worker;
use crate::suite_error::SuiteError;
use crate::workloads::policy::{self, Policy};

/// Name of the program in each policy's folder.
const PROGRAM: &str = "policy-worker";

/// A running worker whose policy was looked at.
pub struct PolicyWorker {
    /// What it does with the memory of streams.
    pub policy: Policy,
    pub path: PathBuf,
    /// The line to it.
    pub process: Worker,
}

impl PolicyWorker {
    /// Starts the workers in the three folders of `folder`.
    ///
    /// # Errors
    ///
    /// [`SuiteError::Policy`] when one of them has another policy than its folder says, by the
    /// allocator type that its streams use and by the function that wipes, which must be in the
    /// program of one policy and no other.
    pub fn start_all(folder: &Path, block: &Path, datadir: &Path) -> Result<Vec<Self>, SuiteError> {
        Policy::ALL.into_iter().map(|policy| Self::start(policy, folder, block, datadir)).collect()
    }

    fn start(
        policy: Policy,
        folder: &Path,
        block: &Path,
        datadir: &Path,
    ) -> Result<Self, SuiteError> {
        let path = folder.join(policy.name()).join(PROGRAM);
        let wipes = policy::wipes(&path).map_err(|e| SuiteError::File(path.clone(), e))?;
        let own = datadir.join(policy.name());
        let mut process = Worker::start(&path, &input_options(block, &own))?;
        let allocator = process.policy()?;
        let expected = Some(policy == Policy::ZeroAfterFree);
        if Policy::of_type(&allocator) != Some(policy) || wipes != expected {
            return Err(SuiteError::Policy { path, allocator, wipes });
        }
        Ok(Self { policy, path, process })
    }

    /// Name of its line in every benchmark.
    pub fn line(&self) -> String {
        format!("godwit, {}", self.policy.name())
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
