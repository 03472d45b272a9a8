//! A process that runs the workloads with the memory policy it was built with: both ends of the line
//! between it and the program that started it. Each message is one line of JSON.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};

use super::{Counters, Epoch, Runner, Subject};

/// What a worker is asked.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// To say which policy it was built with.
    Policy,
    /// To prepare the inputs of the workload of that name and forget those of the last one.
    Prepare(String),
    /// To run so many iterations of what was prepared.
    Run(u64),
}

/// What a worker answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Full name of the allocator type behind the product's buffers.
    Policy(String),
    /// The workload is ready.
    Prepared {
        /// See [`Subject::unit`].
        unit: String,
        /// See [`Subject::units_per_iteration`].
        units_per_iteration: f64,
    },
    /// The iterations are done.
    Ran(Epoch),
    /// No workload has that name, or none was prepared.
    Unknown,
}

/// Why a worker is of no more use.
#[derive(Debug)]
pub enum WorkerError {
    /// It could not be started.
    Start(PathBuf, io::Error),
    /// It has gone: the last words are on stderr.
    Gone(PathBuf, io::Error),
    /// It did not answer what it was asked.
    Answer(PathBuf),
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Gone(path, error) => write!(f, "{} has ended: {error}", path.display()),
            Self::Answer(path) => write!(f, "{} did not answer its question", path.display()),
        }
    }
}

impl std::error::Error for WorkerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start(_, error) | Self::Gone(_, error) => Some(error),
            Self::Answer(_) => None,
        }
    }
}

/// A running worker. It ends when this is dropped.
pub struct Worker {
    path: PathBuf,
    child: Child,
    /// `None` only while it is dropped.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts the program at `path`.
    ///
    /// # Errors
    ///
    /// [`WorkerError::Start`].
    pub fn start(path: &Path, arguments: &[OsString]) -> Result<Self, WorkerError> {
        let failed = |error| WorkerError::Start(path.to_owned(), error);
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (requests, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(requests), Some(answers)) = (requests, answers) else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        let answers = BufReader::new(answers);
        Ok(Self { path: path.to_owned(), child, requests: Some(requests), answers })
    }

    /// Full name of the allocator type behind the worker's buffers.
    ///
    /// # Errors
    ///
    /// See [`WorkerError`].
    pub fn policy(&mut self) -> Result<String, WorkerError> {
        match self.ask(&Request::Policy)? {
            Answer::Policy(name) => Ok(name),
            _ => Err(WorkerError::Answer(self.path.clone())),
        }
    }

    /// Prepares a workload; its unit, and how many of them one iteration works through.
    ///
    /// # Errors
    ///
    /// See [`WorkerError`].
    pub fn prepare(&mut self, workload: &str) -> Result<(String, f64), WorkerError> {
        match self.ask(&Request::Prepare(workload.to_owned()))? {
            Answer::Prepared { unit, units_per_iteration } => Ok((unit, units_per_iteration)),
            _ => Err(WorkerError::Answer(self.path.clone())),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, WorkerError> {
        let gone = |error| WorkerError::Gone(self.path.clone(), error);
        let mut line = serde_json::to_string(request).map_err(|error| gone(error.into()))?;
        line.push('\n');
        if let Some(requests) = self.requests.as_mut() {
            requests.write_all(line.as_bytes()).map_err(gone)?;
        }
        line.clear();
        if self.answers.read_line(&mut line).map_err(gone)? == 0 {
            return Err(gone(io::ErrorKind::UnexpectedEof.into()));
        }
        serde_json::from_str(&line).map_err(|_| WorkerError::Answer(self.path.clone()))
    }
}

impl Runner for Worker {
    fn epoch(&mut self, iterations: u64) -> Result<Epoch, WorkerError> {
        match self.ask(&Request::Run(iterations))? {
            Answer::Ran(epoch) => Ok(epoch),
            _ => Err(WorkerError::Answer(self.path.clone())),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It ends when it has nothing more to read.
        self.requests = None;
        if let Err(error) = self.child.wait() {
            eprintln!("{}: {error}", self.path.display());
        }
    }
}

/// The worker's side: answers until there is nothing more to read. `prepare` gives the subject of a
/// workload's name.
///
/// # Errors
///
/// When the line breaks, or a request is none.
pub fn serve(
    requests: impl BufRead,
    mut answers: impl Write,
    policy: &str,
    prepare: impl Fn(&str) -> Option<Subject>,
) -> io::Result<()> {
    let mut counters = Counters::open().ok();
    let mut prepared = None;
    for line in requests.lines() {
        let answer = match serde_json::from_str(&line?)? {
            Request::Policy => Answer::Policy(policy.to_owned()),
            Request::Prepare(name) => {
                drop(prepared.take());
                prepared = prepare(&name);
                prepared.as_ref().map_or(Answer::Unknown, |subject| Answer::Prepared {
                    unit: subject.unit.to_owned(),
                    units_per_iteration: subject.units_per_iteration,
                })
            }
            Request::Run(iterations) => match prepared.as_mut() {
                Some(subject) => Answer::Ran(Epoch::run(subject, iterations, counters.as_mut())),
                None => Answer::Unknown,
            },
        };
        serde_json::to_writer(&mut answers, &answer)?;
        answers.write_all(b"\n")?;
        answers.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation() {
        let requests = "\"Policy\"\n{\"Run\":1}\n{\"Prepare\":\"x\"}\n{\"Prepare\":\"sum\"}\n\
                        {\"Run\":3}\n";
        let mut answers = Vec::new();
        let prepare = |name: &str| (name == "sum").then(|| Subject::new("op", 2.0, || ()));
        serve(requests.as_bytes(), &mut answers, "plain", prepare).unwrap();
        let answers = String::from_utf8(answers).unwrap();
        let answers: Vec<Answer> =
            answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(
            matches!(
                &answers[..],
                [
                    Answer::Policy(_),
                    Answer::Unknown,
                    Answer::Unknown,
                    Answer::Prepared { units_per_iteration: 2.0, .. },
                    Answer::Ran(Epoch { iterations: 3, .. }),
                ]
            ),
            "{answers:?}"
        );
    }

    #[test]
    fn what_is_no_request_ends_it() {
        assert!(serve(&b"hello\n"[..], &mut Vec::new(), "", |_| None).is_err());
    }
}
