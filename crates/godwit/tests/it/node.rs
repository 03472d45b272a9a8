//! A data directory and the program that works on it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use godwit::exit::Exit;
use godwit::log_format::LOG_FILE;
use serde_json::Value;
use tempfile::TempDir;

/// A data directory of its own.
pub(crate) struct Node {
    temp: TempDir,
    chain: &'static str,
}

impl Node {
    /// `chain` as `-chain` takes it. The data directory does not exist yet.
    pub(crate) fn new(chain: &'static str) -> Self {
        Self { temp: tempfile::tempdir().expect("a temporary directory"), chain }
    }

    /// A path beside the data directory, for input and output of commands.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// The data directory.
    pub(crate) fn datadir(&self) -> PathBuf {
        self.beside("datadir")
    }

    /// The network's part of the data directory.
    pub(crate) fn network_dir(&self) -> PathBuf {
        match self.chain {
            "main" => self.datadir(),
            "test" => self.datadir().join("testnet3"),
            other => self.datadir().join(other),
        }
    }

    /// A command on the data directory.
    pub(crate) fn command(&self, words: &[&dyn AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_godwit"));
        command.args(words.iter().map(AsRef::<OsStr>::as_ref));
        let mut datadir = OsString::from("-datadir=");
        datadir.push(self.datadir());
        command.arg(format!("-chain={}", self.chain)).arg(datadir);
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, words: &[&dyn AsRef<OsStr>]) -> Ended {
        Ended::of(self.command(words).output().expect("the program starts"))
    }

    /// Runs a command to its end with this on its standard input.
    pub(crate) fn run_with_input(&self, words: &[&dyn AsRef<OsStr>], input: &str) -> Ended {
        let mut command = self.command(words);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("it is a pipe");
        // A program that ends before it has read everything is what some tests want.
        match stdin.write_all(input.as_bytes()) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::BrokenPipe),
            Ok(()) => drop(stdin),
        }
        Ended::of(child.wait_with_output().expect("it ends"))
    }

    /// Imports one file or directory and expects success.
    pub(crate) fn import(&self, path: &Path) -> Ended {
        self.run(&[&"import", &path]).expect(Exit::Success)
    }

    /// What `utxo stats` says.
    pub(crate) fn stats(&self) -> Value {
        self.run(&[&"utxo", &"stats"]).expect(Exit::Success).json()
    }

    /// The log of all runs so far; empty before the first.
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(self.network_dir().join(LOG_FILE)).unwrap_or_default();
        String::from_utf8(bytes).expect("the log is text")
    }
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program prints text");
        let Output { status, stdout, stderr } = output;
        Self { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Expects an exit code.
    #[track_caller]
    pub(crate) fn expect(self, exit: Exit) -> Self {
        assert_eq!(self.code, Some(exit.code().into()), "expected {exit:?}: {self:?}");
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Without the line of each block.
impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "exit code {:?}, standard output:", self.code)?;
        let others = self.stdout.lines().filter(|line| !line.contains(" UpdateTip: "));
        others.into_iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "standard error:\n{}", self.stderr)
    }
}
