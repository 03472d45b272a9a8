//! The two programs and their command lines.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::node::{Node, UtxoSet};

/// Script threads, for both (`-par`): all cores of the machine that the bars were set on.
const SCRIPT_THREADS: u32 = 2;

/// What `bitcoind` gets besides what both get. The mempool limit is the lowest it takes: unused
/// mempool memory is lent to its coins cache, 300 MB by default, so that no `-dbcache` would be
/// small.
const BITCOIND_OPTIONS: &[&str] = &[
    // Checks of regtest alone, for tests.
    "-checkblockindex=0",
    "-checkmempool=0",
    "-maxmempool=5",
    "-fixedseeds=0",
    "-server=0",
    "-printtoconsole=0",
];

/// What it gets for an import: no connection is made or taken.
const BITCOIND_IMPORT: &[&str] =
    &["-stopafterblockimport", "-connect=0", "-listen=0", "-dnsseed=0"];

/// What it gets as a peer of this benchmark besides what both get.
const BITCOIND_PEER: &[&str] = &["-natpmp=0", "-listenonion=0"];

/// Lies beside a bitcoind that was built from changed source: the change.
const CHANGE: &str = "rival.diff";

/// `-dbcache` in MiB of a server. It reads blocks, not coins.
const SERVER_MIB: u64 = 4;

/// Seconds that `bitcoind` gets until it answers.
const RPC_WAIT: u32 = 300;

/// What a program works with, whatever the blocks come from.
#[derive(Clone, Copy, Debug)]
pub struct NodeSettings<'a> {
    /// An empty directory.
    pub datadir: &'a Path,
    /// `-dbcache` in MiB.
    pub dbcache: u64,
    /// `-assumevalid`: a block hash, or `0`.
    pub assumevalid: &'a str,
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `godwit`.
    pub godwit: PathBuf,
    /// `bitcoind`; `bitcoin-cli` lies beside it.
    pub bitcoind: PathBuf,
    /// What `godwit` gets besides where it is measured.
    pub godwit_options: Vec<String>,
    /// What `bitcoind` gets behind everything else where it is measured. Of an option that is given twice it
    /// takes the last one.
    pub bitcoind_options: Vec<String>,
    /// Whether each output is looked up before it is created (BIP30), as on regtest, and not as on main:
    /// `bitcoind` is then built from unchanged source.
    pub probes: bool,
}

impl Programs {
    pub fn path(&self, node: Node) -> &Path {
        match node {
            Node::Godwit => &self.godwit,
            Node::Bitcoind => &self.bitcoind,
        }
    }

    fn command(&self, node: Node, word: Option<&str>, settings: &NodeSettings<'_>) -> Command {
        let mut command = Command::new(self.path(node));
        command.args(word).arg("-chain=regtest").arg(option("datadir", settings.datadir));
        command.arg(format!("-par={SCRIPT_THREADS}"));
        command.arg(format!("-dbcache={}", settings.dbcache));
        command.arg(format!("-assumevalid={}", settings.assumevalid));
        if node == Node::Godwit && !self.probes {
            command.arg("-test=bip34");
        }
        command
    }

    /// The command that imports a block file and ends when its coins are durable.
    pub fn import(&self, node: Node, settings: &NodeSettings<'_>, chain: &Path) -> Command {
        match node {
            Node::Godwit => {
                let mut command = self.command(node, Some("import"), settings);
                command.args(&self.godwit_options).arg(chain);
                command
            }
            Node::Bitcoind => {
                let mut command = self.command(node, None, settings);
                command.args(BITCOIND_OPTIONS).args(BITCOIND_IMPORT);
                command.arg(option("loadblock", chain)).args(&self.bitcoind_options);
                command
            }
        }
    }

    /// The command that downloads a chain of `height` blocks from peers on these ports and ends when
    /// its coins are durable.
    pub fn sync(
        &self,
        node: Node,
        settings: &NodeSettings<'_>,
        ports: &[u16],
        height: u32,
    ) -> Command {
        let mut command = self.command(node, None, settings);
        match node {
            Node::Godwit => command.args(&self.godwit_options),
            Node::Bitcoind => {
                command.args(BITCOIND_OPTIONS).args(BITCOIND_PEER).args(&self.bitcoind_options)
            }
        };
        command.args(["-dnsseed=0", "-listen=0", "-server=0"]);
        command.args(ports.iter().map(|port| format!("-connect=127.0.0.1:{port}")));
        command.arg(format!("-stopatheight={height}"));
        command
    }

    /// The command of a server of the chain in a data directory; it runs until it is told to stop.
    pub fn serve(&self, node: Node, datadir: &Path, port: u16) -> Command {
        let settings = NodeSettings { datadir, dbcache: SERVER_MIB, assumevalid: "0" };
        let mut command = self.command(node, None, &settings);
        match node {
            Node::Bitcoind => command.args(BITCOIND_OPTIONS).args(BITCOIND_PEER),
            Node::Godwit => command.arg("-listenonion=0"),
        };
        command.args(["-dnsseed=0", "-connect=0", "-listen=1", "-server=0"]);
        command.arg(format!("-bind=127.0.0.1:{port}"));
        command
    }

    /// What was changed in `bitcoind`'s source before it was built, as a diff; empty where nothing was.
    pub fn change(&self) -> Result<String, Failure> {
        let path = self.bitcoind.with_file_name(CHANGE);
        match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(|error| Failure::File(path, error)),
        }
    }

    /// First line of what `-version` prints.
    pub fn version(&self, node: Node) -> Result<String, Failure> {
        let path = self.path(node);
        let output = Command::new(path).arg("-version").output();
        let output = output.map_err(|error| Failure::Start(path.to_owned(), error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// The coins in a data directory. Not timed: `bitcoind` has to be started again for it.
    pub fn utxo_set(&self, node: Node, datadir: &Path) -> Result<UtxoSet, Failure> {
        match node {
            Node::Godwit => {
                let mut command = Command::new(&self.godwit);
                command.args(["utxo", "stats", "-chain=regtest"]);
                let stats = answer(command.arg(option("datadir", datadir)), datadir)?;
                UtxoSet::of_godwit(stats)
                    .map_err(|error| Failure::Answer(self.godwit.clone(), error))
            }
            Node::Bitcoind => self.ask_bitcoind(datadir, "muhash"),
        }
    }

    /// The coins in a data directory of `bitcoind`, with the hash that it computes fastest.
    pub fn serialized_set(&self, datadir: &Path) -> Result<UtxoSet, Failure> {
        self.ask_bitcoind(datadir, "hash_serialized_3")
    }

    fn ask_bitcoind(&self, datadir: &Path, hash: &str) -> Result<UtxoSet, Failure> {
        let port = free_port().map_err(|error| Failure::Start(self.bitcoind.clone(), error))?;
        let cli = |words: &[&str]| {
            let mut command = Command::new(self.bitcoind.with_file_name("bitcoin-cli"));
            command.args(["-chain=regtest", "-rpcwait", "-rpcclienttimeout=0"]);
            command.arg(format!("-rpcwaittimeout={RPC_WAIT}"));
            command.arg(format!("-rpcport={port}")).arg(option("datadir", datadir)).args(words);
            command
        };
        let mut command = Command::new(&self.bitcoind);
        command.args(["-chain=regtest", "-connect=0", "-listen=0", "-printtoconsole=0"]);
        command.args(["-server=1", "-checkblockindex=0"]);
        command.arg(format!("-rpcport={port}")).arg(option("datadir", datadir));
        let server = Daemon::spawn(&mut command)?;
        let set = answer(&mut cli(&["gettxoutsetinfo", hash]), datadir)?;
        finish(&mut cli(&["stop"]), datadir)?;
        server.wait()?;
        Ok(set)
    }
}

pub(crate) fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from(format!("-{name}="));
    text.push(path);
    text
}

/// A port that nobody listened on a moment ago.
pub(crate) fn free_port() -> std::io::Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr().map(|address| address.port())
}

/// Runs a command to its end; what it says on standard error is kept beside the data directory.
pub(crate) fn finish(command: &mut Command, datadir: &Path) -> Result<Vec<u8>, Failure> {
    let program = PathBuf::from(command.get_program());
    let words = last_words(datadir);
    let file = File::create(&words).map_err(|error| Failure::File(words.clone(), error))?;
    let output = command.stderr(Stdio::from(file)).output();
    let output = output.map_err(|error| Failure::Start(program.clone(), error))?;
    if !output.status.success() {
        return Err(Failure::Exit(program, output.status, words));
    }
    Ok(output.stdout)
}

fn answer<T: DeserializeOwned>(command: &mut Command, datadir: &Path) -> Result<T, Failure> {
    let stdout = finish(command, datadir)?;
    serde_json::from_slice(&stdout)
        .map_err(|error| Failure::Answer(command.get_program().into(), error))
}

/// The file beside a data directory that has what a program said on standard error.
pub fn last_words(datadir: &Path) -> PathBuf {
    datadir.with_extension("stderr")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_get_the_same_limits() {
        let programs = Programs {
            godwit: "g".into(),
            bitcoind: "/b/bitcoind".into(),
            godwit_options: vec!["-lanes=avx2".into()],
            bitcoind_options: vec!["-par=3".into()],
            probes: false,
        };
        let settings = NodeSettings { datadir: Path::new("/tmp/d"), dbcache: 7, assumevalid: "0" };
        for node in [Node::Godwit, Node::Bitcoind] {
            let import = programs.import(node, &settings, Path::new("c.dat"));
            let sync = programs.sync(node, &settings, &[5, 6], 9);
            let words = |command: &Command| -> Vec<String> {
                command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
            };
            let (import, sync) = (words(&import), words(&sync));
            let shared =
                ["-chain=regtest", "-datadir=/tmp/d", "-par=2", "-dbcache=7", "-assumevalid=0"];
            for word in shared {
                assert!(import.iter().any(|found| found == word), "{node}: {word}");
                assert!(sync.iter().any(|found| found == word), "{node}: {word}");
            }
            assert!(import.iter().any(|word| word.ends_with("c.dat")), "{node}");
            for words in [&import, &sync] {
                let place = |option: &str| words.iter().position(|word| word == option);
                let own = node == Node::Bitcoind;
                assert_eq!(place("-par=3") > place("-par=2"), own, "{node}: the last one counts");
                assert_eq!(place("-checkmempool=0").is_some(), own, "{node}");
                assert_eq!(place("-lanes=avx2").is_some(), !own, "{node}");
                // bitcoind is built so.
                assert_eq!(place("-test=bip34").is_some(), !own, "{node}");
            }
            let peers = sync.iter().filter(|word| word.starts_with("-connect="));
            assert_eq!(peers.count(), 2, "{node}");
            assert_eq!(sync.last().unwrap(), "-stopatheight=9");
        }
    }

    #[test]
    fn amounts_keep_their_places() {
        let text = r#"{"height":1,"bestblock":"aa","txouts":2,"bogosize":3,"muhash":"bb",
            "total_amount":0.10000000,"transactions":4}"#;
        let set: UtxoSet = serde_json::from_str(text).unwrap();
        assert_eq!(set.total_amount.to_string(), "0.10000000");
    }
}
