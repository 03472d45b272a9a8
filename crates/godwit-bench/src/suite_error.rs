//! Reasons for which a run of the suite has no result.

use std::fmt;
use std::io;
use std::path::PathBuf;

use godwit_secret::LockError;

use crate::harness::WorkerError;

/// See the module's documentation.
#[derive(Debug)]
pub enum SuiteError {
    /// A file or directory.
    File(PathBuf, io::Error),
    Worker(WorkerError),
    /// A worker was not built with the policy that its folder says.
    Policy {
        path: PathBuf,
        /// The allocator type that its streams use.
        allocator: String,
        /// Whether it has the function that wipes; `None` where its symbols are stripped.
        wipes: Option<bool>,
    },
    /// The bytes are no block, or more than one.
    Block(PathBuf),
    /// No benchmark or line has that name.
    NoLine(String),
    /// No memory can be locked for the benchmarks of secrets.
    Locked(LockError),
}

impl fmt::Display for SuiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Worker(error) => error.fmt(f),
            Self::Policy { path, allocator, wipes } => {
                let wipes = match wipes {
                    Some(true) => "it has the function that wipes",
                    Some(false) => "it does not have the function that wipes",
                    None => "its symbols are stripped",
                };
                write!(f, "{}: its streams use {allocator}, {wipes}", path.display())
            }
            Self::Block(path) => write!(f, "{}: not one serialised block", path.display()),
            Self::NoLine(name) => write!(f, "nothing is called {name}"),
            Self::Locked(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SuiteError {}

impl From<LockError> for SuiteError {
    fn from(error: LockError) -> Self {
        Self::Locked(error)
    }
}

impl From<WorkerError> for SuiteError {
    fn from(error: WorkerError) -> Self {
        Self::Worker(error)
    }
}
