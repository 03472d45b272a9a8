//! The shipped node and the keys of its connections, from outside.
//!
//! It cannot be told to stand still, so it is searched while it works: a key that it uses at that
//! moment may lie in the memory for secrets twice, on the secret stack too.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};

use godwit::log_format::LOG_FILE;
use godwit_p2p::{Command as Message, Receive, ReceiveLimits, Transport, V2Secrets};
use godwit_secret::SecretArray;
use godwit_secret::residue::{Finding, Needle, ScanError, scan_file, scan_other};
use godwit_sim::programs::{NOBODY, UnprivilegedPlace};
use godwit_stream::{BufferPool, DataStream, PoolLimits};
use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::sync::{free_port, wait_until};

const UNREADABLE: &str = "a process cannot read its child's memory here";
/// Regtest's magic.
const REGTEST: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
/// More packets than a key is used for, which are 224.
const PINGS: u64 = 300;
/// What a node has of each connection, for as long as this lasts.
const KEYS: [&str; 4] = [
    "key of lengths received",
    "key of lengths sent",
    "key of packets received",
    "key of packets sent",
];

/// A node of an unprivileged user that listens and connects to nobody.
struct Serving {
    place: UnprivilegedPlace,
    child: Child,
    port: u16,
}

impl Serving {
    /// `prefix` as [`UnprivilegedPlace::command`] takes it.
    fn start(prefix: &str, options: &[&str]) -> Self {
        let place = UnprivilegedPlace::with_program(env!("CARGO_BIN_EXE_godwit"));
        let port = free_port();
        let mut command = place.command(prefix, &place.path("godwit"));
        fs::create_dir(place.path("datadir")).expect("a directory");
        let everybodys = fs::Permissions::from_mode(0o777);
        fs::set_permissions(place.path("datadir"), everybodys).expect("it is ours");
        command.arg("-regtest").arg(format!("-datadir={}", place.path("datadir").display()));
        command
            .args(["-noconnect", "-server=0", "-listenonion=0"])
            .arg(format!("-bind=127.0.0.1:{port}"));
        command.args(options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("the program starts");
        let serving = Self { place, child, port };
        let bound = format!("Bound to 127.0.0.1:{port}");
        wait_until("it listens", || serving.log().contains(&bound));
        serving
    }

    fn log(&self) -> String {
        let path = self.place.path("datadir/regtest").join(LOG_FILE);
        fs::read_to_string(path).unwrap_or_default()
    }

    fn search(&self, needles: &[Needle]) -> Result<Vec<Finding>, ScanError> {
        scan_other(self.child.id(), needles).map(|report| report.findings)
    }

    /// The user to whom the system says that the process belongs: root, if it is not dumpable.
    fn owner(&self) -> u32 {
        fs::metadata(self.about("maps")).expect("it runs").uid()
    }

    /// What the system tells of the process.
    fn about(&self, what: &str) -> PathBuf {
        format!("/proc/{}/{what}", self.child.id()).into()
    }

    fn end(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).expect("a child is signalled");
        self.child.wait().expect("a child can be waited for")
    }
}

/// A test that fails leaves no process behind.
impl Drop for Serving {
    fn drop(&mut self) {
        if self.child.try_wait().expect("a child can be waited for").is_none() {
            self.end(Signal::KILL);
        }
    }
}

/// The test's side of a connection to a node.
struct Peer {
    stream: TcpStream,
    transport: Transport,
}

impl Peer {
    /// Says hello in the encrypted protocol.
    fn encrypted(node: &Serving) -> Self {
        let key = SecretArray::random().expect("locked memory");
        let secrets = V2Secrets { key, encoding: [7; 32], garbage: vec![9; 100] };
        let transport = Transport::new_v2_initiator(REGTEST, pool(), secrets);
        Self::connect(node, transport.expect("locked memory"))
    }

    /// In the protocol that is not encrypted.
    fn plain(node: &Serving) -> Self {
        Self::connect(node, Transport::new_v1(REGTEST, pool()))
    }

    fn connect(node: &Serving, transport: Transport) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", node.port)).expect("the node listens");
        stream.set_nonblocking(true).expect("a socket");
        let mut peer = Self { stream, transport };
        peer.send(Message::VERSION, &version());
        peer.expect(Message::VERSION);
        peer.send(Message::VERACK, &[]);
        peer.expect(Message::VERACK);
        peer
    }

    fn send(&mut self, command: Message, payload: &[u8]) {
        self.transport.send(command, DataStream::from(payload).into());
    }

    /// Lets messages pass until one with this command comes.
    fn expect(&mut self, command: Message) {
        let limits = ReceiveLimits { expects_block: false, expects_compact: false };
        wait_until(&format!("{command} comes"), || {
            self.transport.write(&mut self.stream, usize::MAX).expect("the node reads");
            loop {
                match self.transport.receive(&mut self.stream, &limits, usize::MAX) {
                    Ok(Receive::Frame(frame)) if frame.command == command => return true,
                    Ok(Receive::Pending) => return false,
                    Ok(Receive::Closed) => panic!("the node has closed the connection"),
                    Ok(_) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }

    /// Pings until the keys of both directions were replaced.
    fn outlive_keys(&mut self) {
        for nonce in 0..PINGS {
            self.send(Message::PING, &nonce.to_le_bytes());
        }
        for _ in 0..PINGS {
            self.expect(Message::PONG);
        }
    }

    fn needles(&self) -> Vec<Needle> {
        self.transport.needles().expect("locked memory")
    }
}

fn pool() -> BufferPool {
    BufferPool::new(PoolLimits { buffers: 4, buffer_bytes: 4_000_000, total_bytes: 16_000_000 })
}

/// Protocol version, services, time, two addresses, nonce, user agent, height, relay.
fn version() -> Vec<u8> {
    let mut payload = 70_016u32.to_le_bytes().to_vec();
    payload.extend([0; 8 + 8 + 26 + 26]);
    payload.extend([7; 8]);
    payload.extend([0; 1 + 4 + 1]);
    payload
}

/// All keys of a connection are there, and none outside of the memory for secrets.
#[track_caller]
fn has_keys_in_locked_memory_alone(findings: &[Finding]) {
    assert!(findings.iter().all(|found| found.protected), "{findings:?}");
    let found: BTreeSet<&str> = findings.iter().map(|found| found.needle.as_str()).collect();
    assert!(KEYS.iter().all(|key| found.contains(key)), "{findings:?}");
}

#[test]
fn a_node_has_the_keys_of_a_connection_in_locked_memory_alone() {
    let mut node = Serving::start("", &[]);
    let mut peer = Peer::encrypted(&node);
    let first = peer.needles();
    let before = match node.search(&first) {
        Ok(before) => before,
        Err(error) => return godwit_testdata::skip(&format!("{UNREADABLE}: {error}")),
    };
    has_keys_in_locked_memory_alone(&before);

    peer.outlive_keys();
    let second = peer.needles();
    assert_eq!(node.search(&first).expect("as before"), [], "keys that were replaced");
    has_keys_in_locked_memory_alone(&node.search(&second).expect("as before"));

    drop(peer);
    wait_until("the keys are gone", || node.search(&second).expect("as before").is_empty());
    assert!(node.end(Signal::TERM).success(), "{}", node.log());
    let log = node.place.path("datadir/regtest").join(LOG_FILE);
    for needles in [&first, &second] {
        assert_eq!(scan_file(&log, needles).expect("a log").findings, []);
    }
}

#[test]
fn a_node_that_encrypts_is_not_dumpable_and_leaves_no_core_dump() {
    let mut node = Serving::start("ulimit -c unlimited || true;", &[]);
    drop(Peer::encrypted(&node));
    assert_eq!(node.owner(), 0);
    let limits = fs::read_to_string(node.about("limits")).expect("it runs");
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size"));
    let core: Vec<_> = core.expect("there is one").split_whitespace().collect();
    assert_eq!(core, ["0", "0", "bytes"]);
    let status = node.end(Signal::ABORT);
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()));
    assert!(!status.core_dumped());
}

#[test]
fn a_node_that_does_not_encrypt_is_dumpable() {
    let mut node = Serving::start("", &["-v2transport=0"]);
    drop(Peer::plain(&node));
    let user = if geteuid().is_root() { NOBODY } else { geteuid().as_raw() };
    assert_eq!(node.owner(), user);
    assert!(node.end(Signal::TERM).success(), "{}", node.log());
}

/// Its owner may read little of what the system tells of a process that is not dumpable.
#[test]
fn a_node_that_is_not_dumpable_still_reads_about_itself() {
    let mut node = Serving::start("", &[]);
    drop(Peer::encrypted(&node));
    assert_eq!(node.owner(), 0);
    assert!(node.end(Signal::TERM).success(), "{}", node.log());
    let log = node.log();
    assert!(log.contains("Peak memory "), "{log}");
    assert!(!log.contains("[warning]") && !log.contains("[error]"), "{log}");
}

#[test]
fn a_node_that_is_traced_encrypts_only_if_that_is_accepted() {
    let traced = "exec strace -D -f -o /dev/null -e trace=none \"$0\" \"$@\";";
    let probe =
        UnprivilegedPlace::new().command(traced, "true".as_ref()).output().expect("a shell");
    if !probe.status.success() {
        godwit_testdata::skip("there is no strace, or it may not trace");
        return;
    }
    let node = Serving::start(traced, &[]);
    drop(Peer::plain(&node));
    let refusal =
        "Connections are not encrypted (v1 transport only): this process may not hold keys";
    for part in [refusal, " traces it; -allowunlockedsecrets accepts that"] {
        wait_until(part, || node.log().contains(part));
    }
    let node = Serving::start(traced, &["-allowunlockedsecrets"]);
    drop(Peer::encrypted(&node));
    let warning = "[warning] others may read the keys of this process: ";
    wait_until(warning, || node.log().contains(warning));
}
