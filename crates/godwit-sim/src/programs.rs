//! Runs godwit's programs as a user does, for tests of whole programs.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use godwit_program::Exit;
use godwit_program::options::network_dir;
use rustix::process::geteuid;
use serde_json::Value;
use tempfile::TempDir;

/// `nobody`, who has no privilege to lock memory or to read others' memory.
pub const NOBODY: u32 = 65534;
/// How long anything may take before a test gives up. No result depends on it.
pub const LIMIT: Duration = Duration::from_secs(180);
/// Interval between two checks.
pub const POLL: Duration = Duration::from_millis(5);

/// A program and a data directory of its own.
pub struct Datadir {
    program: PathBuf,
    temp: TempDir,
    chain: &'static str,
}

impl Datadir {
    /// `chain` is a value of `-chain`. The node's data directory is empty; those of other programs do not
    /// exist yet.
    pub fn new(program: &str, chain: &'static str) -> Self {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let new = Self { program: program.into(), temp, chain };
        if new.program.ends_with("godwit") {
            fs::create_dir(new.datadir()).expect("a directory");
        }
        new
    }

    /// A path beside the data directory, for input and output of commands.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    pub fn datadir(&self) -> PathBuf {
        self.beside("datadir")
    }

    /// The network's part of the data directory.
    pub fn network_dir(&self) -> PathBuf {
        network_dir(&self.datadir(), self.chain.parse().expect("a network"))
    }

    /// A command on the data directory.
    pub fn command(&self, words: &[&dyn AsRef<OsStr>]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words.iter().map(AsRef::<OsStr>::as_ref));
        let mut datadir = OsString::from("-datadir=");
        datadir.push(self.datadir());
        command.arg(format!("-chain={}", self.chain)).arg(datadir);
        // Many nodes run at the same time, and few are asked anything. The port for Tor is the next one's.
        let words = || words.iter().map(|word| word.as_ref().to_string_lossy());
        let is_node = self.program.ends_with("godwit") && words().all(|word| word.starts_with('-'));
        let has = |option: &str| words().any(|word| word.starts_with(option));
        if is_node && !has("-rpc") {
            command.arg("-server=0");
        }
        if is_node && !has("-listenonion") {
            command.arg("-listenonion=0");
        }
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, words: &[&dyn AsRef<OsStr>]) -> Ended {
        Ended::of(self.command(words).output().expect("the program starts"))
    }

    /// Runs a command to its end with this on its standard input.
    pub fn run_with_input(&self, words: &[&dyn AsRef<OsStr>], input: &str) -> Ended {
        Ended::with_input(self.command(words), input)
    }
}

/// The result of a command.
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Ended {
    /// From the output that `std` collected.
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program prints text");
        let Output { status, stdout, stderr } = output;
        Self { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Runs a command to its end with this on its standard input.
    pub fn with_input(mut command: Command, input: &str) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("it is a pipe");
        // Some tests want a program that ends before it has read everything.
        match stdin.write_all(input.as_bytes()) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::BrokenPipe),
            Ok(()) => drop(stdin),
        }
        Self::of(child.wait_with_output().expect("it ends"))
    }

    /// Expects an exit code.
    #[track_caller]
    pub fn expect(self, exit: Exit) -> Self {
        assert_eq!(self.code, Some(exit.code().into()), "expected {exit:?}: {self:?}");
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
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

/// A directory and programs that an unprivileged user can use.
pub struct UnprivilegedPlace {
    directory: TempDir,
}

impl UnprivilegedPlace {
    /// A place without a program.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        // The directory would otherwise belong to the tests' user alone, who may be root.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("it is ours");
        Self { directory }
    }

    /// A place with a copy of `program`.
    pub fn with_program(program: &str) -> Self {
        let place = Self::new();
        place.program(Path::new(program));
        place
    }

    /// The path of a file that is or will be in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Copies `program`, which may be in a place that only root can reach.
    pub fn program(&self, program: &Path) -> PathBuf {
        let copy = self.path(program.file_name().and_then(OsStr::to_str).expect("a name"));
        if fs::hard_link(program, &copy).is_err() {
            fs::copy(program, &copy).expect("there is room for a copy");
        }
        copy
    }

    /// Copies a file so that the user may read it.
    pub fn give(&self, file: &Path) -> PathBuf {
        let copy = self.path(file.file_name().and_then(OsStr::to_str).expect("a name"));
        fs::copy(file, &copy).expect("there is room for a copy");
        fs::set_permissions(&copy, Permissions::from_mode(0o644)).expect("it is ours");
        copy
    }

    /// Runs `program` without privileges, behind `prefix`: words of a shell.
    pub fn command(&self, prefix: &str, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!("{prefix} exec \"$0\" \"$@\"")).arg(program);
        command.current_dir(self.directory.path()).env("TMPDIR", self.directory.path());
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

impl Default for UnprivilegedPlace {
    fn default() -> Self {
        Self::new()
    }
}

/// Waits until `holds` returns true, and returns how long that took.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        thread::sleep(POLL);
    }
    started.elapsed()
}

/// A port of the loopback interface that nobody listens on and that this process gave to no other
/// program. They lie below those that Linux takes for outgoing connections.
pub fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const RANGE: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % u32::from(RANGE)) as u16;
    for _ in 0..RANGE {
        let offset = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % RANGE;
        if TcpListener::bind(("127.0.0.1", FIRST + offset)).is_ok() {
            return FIRST + offset;
        }
    }
    panic!("no free port");
}
