//! Programs of others: where they are, and their processes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::rpc::{Rpc, RpcError};
use super::{free_port, say, wait_until};

/// Lines of a log that are shown when a test fails.
const LAST_LINES: usize = 40;

/// A program in the cache of `make interop`. `None`, and a line on stderr that starts with
/// `SKIPPED: `, where it is not.
#[track_caller]
pub(super) fn cached(name: &str, path: &str) -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let program = home.join(".cache/godwit").join(path);
    if program.is_file() {
        return Some(program);
    }
    godwit_testdata::skip(&format!("no {name} in the cache (`make interop` builds it)"));
    None
}

/// A program of others, running. It ends with its owner.
pub(super) struct Program {
    command: Command,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// `log` is where it will write.
    pub(super) fn start(mut command: Command, log: PathBuf) -> Self {
        let child = command.spawn().expect("the program starts");
        Self { command, child, log }
    }

    /// All that it says goes to its log.
    pub(super) fn start_saying(mut command: Command, log: PathBuf) -> Self {
        let said = fs::File::create(&log).expect("a temporary file");
        let errors = said.try_clone().expect("a descriptor");
        command.stdin(Stdio::null()).stdout(said).stderr(errors);
        Self::start(command, log)
    }

    pub(super) fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Waits for its end; whether it says that all went well.
    #[track_caller]
    pub(super) fn succeeds(&mut self) -> bool {
        wait_until("the program ends", || !self.is_alive());
        self.child.wait().expect("it ended").success()
    }

    /// Ends it at once.
    pub(super) fn kill(&mut self) {
        self.child.kill().expect("it is this process's child");
        self.child.wait().expect("a child can be waited for");
    }

    /// Starts it again, after its end, with what it has.
    pub(super) fn start_again(&mut self) {
        assert!(!self.is_alive(), "it ended");
        self.child = self.command.spawn().expect("the program starts");
    }

    /// Whether its log has this text.
    pub(super) fn logged(&self, text: &str) -> bool {
        fs::read(&self.log).is_ok_and(|log| String::from_utf8_lossy(&log).contains(text))
    }
}

/// A test that fails shows the end of the log, and no test leaves a process behind.
impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!("end of {}:\n{}", self.log.display(), last_lines(&self.log)));
        }
        if self.is_alive() {
            self.kill();
        }
    }
}

/// A foreign node on regtest with an RPC server. It ends with its owner.
pub(super) struct ForeignNode {
    pub(super) rpc: Rpc,
    /// Where it listens for peers.
    pub(super) port: u16,
    program: Program,
    temp: TempDir,
}

/// What a node is started with.
pub(super) struct Place {
    pub(super) temp: TempDir,
    pub(super) port: u16,
    pub(super) rpc_port: u16,
}

impl Place {
    pub(super) fn new() -> Self {
        let temp = tempfile::tempdir().expect("a temporary directory");
        Self { temp, port: free_port(), rpc_port: free_port() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }
}

impl ForeignNode {
    /// Starts a node and waits until it answers. `log` is where it will write.
    pub(super) fn start(place: Place, log: PathBuf, mut command: Command) -> Self {
        let said = fs::File::create(place.path("stderr")).expect("a temporary file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let program = Program::start(command, log);
        let Place { temp, port, rpc_port } = place;
        let mut node = Self { rpc: Rpc::new(rpc_port), port, program, temp };
        node.wait_for_answer();
        node
    }

    fn wait_for_answer(&mut self) {
        let rpc = self.rpc;
        wait_until("the node answers", || {
            assert!(self.program.is_alive(), "the node ended: {}", last_words(self.temp.path()));
            match rpc.try_call("getblockcount", &serde_json::json!([])) {
                Ok(_) => true,
                Err(RpcError::Unreachable(_)) => false,
                // bitcoind's code for a node that is warming up.
                Err(RpcError::Refused(error)) if error["code"] == -28 => false,
                Err(error) => panic!("{error:?}"),
            }
        });
    }

    /// A place in its directory.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// Ends it in an orderly way.
    pub(super) fn stop(&mut self) {
        self.rpc.call("stop", &serde_json::json!([]));
        wait_until("the node ends", || !self.program.is_alive());
    }

    /// Ends it in an orderly way, and starts it again with what it has.
    pub(super) fn restart(&mut self) {
        self.stop();
        self.program.start_again();
        self.wait_for_answer();
    }

    pub(super) fn height(&self) -> u64 {
        let height = self.rpc.call("getblockcount", &serde_json::json!([]));
        height.as_u64().expect("a height is a number")
    }

    /// Hash of the last block.
    pub(super) fn tip(&self) -> String {
        let hash = self.rpc.call("getbestblockhash", &serde_json::json!([]));
        hash.as_str().expect("a hash is a string").to_owned()
    }

    /// What `submitblock` says: nothing about a block that was accepted.
    pub(super) fn submit(&self, block: &[u8]) -> Option<String> {
        let answer = self.rpc.call("submitblock", &serde_json::json!([hex::encode(block)]));
        answer.as_str().map(str::to_owned)
    }

    /// Whether its log has this text.
    pub(super) fn logged(&self, text: &str) -> bool {
        self.program.logged(text)
    }
}

fn last_words(directory: &Path) -> String {
    last_lines(&directory.join("stderr"))
}

fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}
