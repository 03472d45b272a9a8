//! A bitcoind on regtest, asked through its bitcoin-cli.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// It ends with its owner.
pub(super) struct Core {
    programs: PathBuf,
    datadir: PathBuf,
    port: u16,
    child: Child,
}

/// `None`, and a line on stderr that starts with `SKIPPED: `, where they are not in the cache.
#[track_caller]
fn programs(place: &str, skipped: &str) -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let programs = home.join(".cache/godwit").join(place);
    if !programs.join("bitcoind").is_file() || !programs.join("bitcoin-cli").is_file() {
        godwit_testdata::skip(skipped);
        return None;
    }
    Some(programs)
}

impl Core {
    /// Of the version that godwit's engine is of; it has no wallet.
    #[track_caller]
    pub(super) fn start(datadir: &Path) -> Option<Self> {
        let skipped = "no bitcoind in the cache (`make interop` builds it)";
        Some(Self::run(programs("bitcoind/build/bin", skipped)?, datadir, &["-txindex=1"]))
    }

    /// 28.99, with its wallet. Regtest has no fees to estimate from.
    #[track_caller]
    pub(super) fn start_with_wallet(datadir: &Path) -> Option<Self> {
        let skipped = "no bitcoind with a wallet in the cache (`make interop` builds it)";
        let programs = programs("bitcoind-28.99/build/src", skipped)?;
        Some(Self::run(programs, datadir, &["-fallbackfee=0.0002"]))
    }

    fn run(programs: PathBuf, datadir: &Path, options: &[&str]) -> Self {
        fs::create_dir_all(datadir).expect("a temporary directory");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let child = Command::new(programs.join("bitcoind"))
            .args(["-chain=regtest", "-server=1", "-listen=0", "-connect=0"])
            .args(options)
            .args([format!("-datadir={}", datadir.display()), format!("-rpcport={port}")])
            .stdout(Stdio::null())
            .spawn()
            .expect("bitcoind starts");
        // It listens before it writes the cookie, and -rpcwait of bitcoin-cli waits for no cookie.
        let cookie = datadir.join("regtest/.cookie");
        let started = Instant::now();
        while !cookie.exists() && started.elapsed() < Duration::from_secs(120) {
            thread::sleep(Duration::from_millis(20));
        }
        Self { programs, datadir: datadir.to_owned(), port, child }
    }

    /// What the signer is given to ask it.
    pub(super) fn option(&self) -> String {
        format!("-node={}:{}", self.port, self.datadir.join("regtest/.cookie").display())
    }

    /// What a method answers. Text is passed as it is, all else as JSON.
    #[track_caller]
    pub(super) fn ask(&self, method: &str, arguments: &[Value]) -> Value {
        self.ask_with(&[], method, arguments)
    }

    /// What a wallet answers.
    #[track_caller]
    pub(super) fn ask_wallet(&self, wallet: &str, method: &str, arguments: &[Value]) -> Value {
        self.ask_with(&[&format!("-rpcwallet={wallet}")], method, arguments)
    }

    #[track_caller]
    fn ask_with(&self, options: &[&str], method: &str, arguments: &[Value]) -> Value {
        let arguments = arguments.iter().map(|argument| match argument {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let output = Command::new(self.programs.join("bitcoin-cli"))
            .args(["-chain=regtest", "-rpcwait", "-rpcwaittimeout=120"])
            .args([
                format!("-datadir={}", self.datadir.display()),
                format!("-rpcport={}", self.port),
            ])
            .args(options)
            .arg(method)
            .args(arguments)
            .output()
            .expect("bitcoin-cli starts");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{method}: {stderr}");
        serde_json::from_str(&stdout).unwrap_or_else(|_| Value::String(stdout.trim().to_owned()))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Nothing of it is kept.
        self.child.kill().expect("it is this process's child");
        self.child.wait().expect("a child can be waited for");
    }
}
