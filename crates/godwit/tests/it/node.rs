//! A data directory and the program that works on it.

use std::fs;
use std::ops::Deref;
use std::path::Path;

use godwit::exit::Exit;
use godwit::log_format::LOG_FILE;
use godwit_sim::programs::Datadir;
pub(crate) use godwit_sim::programs::Ended;
use serde_json::Value;

/// The program with a data directory of its own.
pub(crate) struct Node(Datadir);

impl Deref for Node {
    type Target = Datadir;

    fn deref(&self) -> &Datadir {
        &self.0
    }
}

impl Node {
    /// `chain` as `-chain` takes it. The data directory is empty.
    pub(crate) fn new(chain: &'static str) -> Self {
        Self(Datadir::new(env!("CARGO_BIN_EXE_godwit"), chain))
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
