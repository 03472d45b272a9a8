//! Reasons for which a benchmark ends without a result.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::node::{Node, UtxoSet};

/// See the module's documentation.
#[derive(Debug)]
pub enum Failure {
    /// A file or directory.
    File(PathBuf, io::Error),
    /// A file that is not the JSON it should be.
    Json(PathBuf, serde_json::Error),
    /// A program that could not be started or watched.
    Start(PathBuf, io::Error),
    /// A program that failed; the file has its last words.
    Exit(PathBuf, ExitStatus, PathBuf),
    /// A program that did not print the JSON it should.
    Answer(PathBuf, serde_json::Error),
    /// The chain is too short above its last full block for `-assumevalid`.
    TooShort,
    /// The chain's last block is so old that bitcoind would take itself for far behind, and ask one
    /// peer alone.
    TooOld,
    /// A server that does not listen.
    NotListening(PathBuf),
    /// A log does not say that scripts were switched as the case wants it.
    Scripts(Node, PathBuf),
    /// A file of call paths that has another form.
    Folded(PathBuf),
    /// A journal that runs with other programs or another chain were written to.
    OtherRun(PathBuf),
    /// A benchmark that did not print what it should.
    Benchmark(PathBuf),
    /// The programs ended with different coins.
    Disagree(Box<(UtxoSet, UtxoSet)>),
    /// The programs agree, but not with the generator's count of coins.
    NotTheChain(Box<UtxoSet>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Json(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Start(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Exit(path, status, words) => {
                write!(f, "{} failed with {status}; see {}", path.display(), words.display())
            }
            Self::Answer(path, error) => {
                write!(f, "{} did not print its result: {error}", path.display())
            }
            Self::TooShort => f.write_str(
                "too few blocks lie above the chain's last full one for -assumevalid to apply",
            ),
            Self::TooOld => f.write_str(
                "the chain's last block is more than 18 hours old; `godwit-sim restamp` moves it",
            ),
            Self::NotListening(datadir) => {
                write!(f, "the server in {} does not listen", datadir.display())
            }
            Self::Scripts(node, log) => {
                let log = log.display();
                write!(f, "{node} did not run scripts where the case wants it; see {log}")
            }
            Self::Folded(path) => {
                write!(f, "{}: not lines of call paths with their counts", path.display())
            }
            Self::OtherRun(path) => {
                let path = path.display();
                write!(
                    f,
                    "{path} is of other programs or another chain; move it away to begin anew"
                )
            }
            Self::Benchmark(path) => {
                write!(f, "{} did not print its times", path.display())
            }
            Self::Disagree(sets) => {
                write!(f, "the programs disagree: godwit {}, bitcoind {}", sets.0, sets.1)
            }
            Self::NotTheChain(set) => {
                write!(f, "a program ended with {set}, which the summary does not say")
            }
        }
    }
}

impl std::error::Error for Failure {}
