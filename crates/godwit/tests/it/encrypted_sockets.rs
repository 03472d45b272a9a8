//! The encrypted transport on real sockets, and where there is no memory for its keys.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command as Process, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use godwit::node::sockets::{Inbox, Proxies, Sockets, SocketsConfig, bind};
use godwit_p2p::{Command, NetAddress, NetCommand, NetEvent, PeerId, Protocol, Target};
use godwit_stream::{BufferPool, DataStream, PoolLimits};

const MAGIC: [u8; 4] = [1, 2, 3, 4];
const PEER: PeerId = PeerId(7);

/// A user who may lock no more memory than the limit says.
const NOBODY: u32 = 65_534;

struct Net {
    sockets: Sockets,
    inbox: Inbox,
    address: SocketAddr,
}

fn start(encrypted: bool) -> Net {
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let listeners = bind(&[any.into()]).expect("a free port");
    let address = listeners[0].socket.local_addr().expect("it is bound");
    let limits = PoolLimits { buffers: 4, buffer_bytes: 4_000_000, total_bytes: 16_000_000 };
    let config = SocketsConfig {
        magic: MAGIC,
        pool: BufferPool::new(limits),
        proxies: Proxies::default(),
        session: [9; 8],
        max_download_rate: None,
        encrypted,
    };
    let (sockets, inbox) = Sockets::start(config, listeners).expect("a thread");
    Net { sockets, inbox, address }
}

impl Net {
    /// The next event that is not about bytes that went out or come in.
    fn event(&self) -> NetEvent {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            match self.inbox.take() {
                Some(
                    NetEvent::Sent { .. } | NetEvent::Arriving { .. } | NetEvent::Receiving { .. },
                ) => {}
                Some(event) => return event,
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("no event in a minute");
    }

    fn connect(&self, address: SocketAddr) {
        let target = Target::Address(NetAddress::from(address));
        self.sockets.send([NetCommand::Connect { peer: PEER, target, v2: true }]);
        assert!(matches!(self.event(), NetEvent::Connected { peer: PEER, .. }));
    }

    fn adopt(&self) {
        let NetEvent::Inbound { socket, .. } = self.event() else { panic!("an inbound peer") };
        self.sockets.send([NetCommand::Adopt { socket, peer: PEER }]);
    }

    fn send(&self, command: Command, payload: &[u8]) {
        let payload = DataStream::from(payload).into();
        self.sockets.send([NetCommand::Send { peer: PEER, command, payload }]);
    }

    fn expect_protocol(&self) -> Protocol {
        let event = self.event();
        let NetEvent::Protocol { peer: PEER, protocol } = event else { panic!("{event:?}") };
        protocol
    }

    fn expect_message(&self, command: Command, payload: &[u8]) {
        let event = self.event();
        let NetEvent::Frame { peer: PEER, frame } = event else { panic!("{event:?}") };
        assert_eq!((frame.command, frame.payload.unread() == payload), (command, true));
    }
}

#[test]
fn messages_cross_encrypted() {
    let (ours, theirs) = (start(true), start(true));
    ours.connect(theirs.address);
    ours.send(Command::VERSION, &[1; 100]);
    theirs.adopt();
    let Protocol::V2 { session_id } = theirs.expect_protocol() else { panic!("encrypted") };
    theirs.expect_message(Command::VERSION, &[1; 100]);
    let block = vec![3; 2_000_000];
    theirs.send(Command::PONG, &[2; 8]);
    assert_eq!(ours.expect_protocol(), Protocol::V2 { session_id });
    ours.expect_message(Command::PONG, &[2; 8]);
    ours.sockets.send([NetCommand::ExpectBlock { peer: PEER, expected: true }]);
    ours.send(Command::PING, &[5; 8]);
    theirs.expect_message(Command::PING, &[5; 8]);
    theirs.send(Command::BLOCK, &block);
    ours.expect_message(Command::BLOCK, &block);
}

#[test]
fn either_side_may_lack_it() {
    for (caller, called) in [(true, false), (false, true)] {
        let (ours, theirs) = (start(caller), start(called));
        ours.connect(theirs.address);
        ours.send(Command::VERSION, &[1; 100]);
        theirs.adopt();
        if caller {
            // It understands nothing, and leaves; the second connection is in plain.
            assert_eq!(theirs.expect_protocol(), Protocol::V1);
            let nonsense = theirs.event();
            assert!(matches!(nonsense, NetEvent::TransportFailed { .. }), "{nonsense:?}");
            theirs.sockets.send([NetCommand::Disconnect {
                peer: PEER,
                why: godwit_p2p::DisconnectReason::WrongMagic,
            }]);
            theirs.adopt();
        }
        assert_eq!(theirs.expect_protocol(), Protocol::V1);
        theirs.expect_message(Command::VERSION, &[1; 100]);
        theirs.send(Command::VERACK, &[]);
        assert_eq!(ours.expect_protocol(), Protocol::V1);
        ours.expect_message(Command::VERACK, &[]);
    }
}

#[test]
fn who_closes_and_is_gone_is_told_once() {
    let net = start(true);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    net.connect(listener.local_addr().expect("it is bound"));
    let (mut stream, _) = listener.accept().expect("it connects");
    let mut key = [0; 64];
    stream.read_exact(&mut key).expect("a key");
    // The listener first: else the attempt in plain may still reach it.
    drop((listener, stream));
    assert!(matches!(net.event(), NetEvent::Closed { peer: PEER }));
    thread::sleep(Duration::from_millis(50));
    assert!(net.inbox.take().is_none());
}

/// As a user who may lock nothing: one line that names the limit, and the node runs.
#[test]
fn a_node_without_locked_memory_says_so_once_and_runs_in_plain() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| temp.path().join(name);
    // Where that user can reach it.
    fs::copy(env!("CARGO_BIN_EXE_godwit"), path("godwit")).expect("room for the program");
    for (place, mode) in [(temp.path().to_owned(), 0o777), (path("godwit"), 0o755)] {
        fs::set_permissions(place, fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    for (option, line) in [
        ("-allowunlockedsecrets=0", Some("Connections are not encrypted (v1 transport only)")),
        ("-allowunlockedsecrets=1", None),
    ] {
        fs::create_dir(path(option)).expect("a directory");
        let everybodys = fs::Permissions::from_mode(0o777);
        fs::set_permissions(path(option), everybodys).expect("it is ours");
        let mut command = Process::new("sh");
        command.args(["-c", "ulimit -l 0 && exec \"$@\"", "sh"]).arg(path("godwit"));
        command.arg("-regtest").arg(format!("-datadir={}", path(option).display()));
        // It makes its password all the same.
        let port = crate::sync::free_port();
        command.arg(format!("-rpcport={port}"));
        command.args(["-connect=0", "-listen=0", "-stopatheight=1", option]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if rustix::process::getuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let mut child = command.current_dir(temp.path()).spawn().expect("a shell");
        let log = path(option).join("regtest").join(godwit::log_format::LOG_FILE);
        let end = Instant::now() + Duration::from_secs(60);
        let seen = loop {
            let text = fs::read_to_string(&log).unwrap_or_default();
            if text.contains("Using at most") || Instant::now() > end {
                break text;
            }
            thread::sleep(Duration::from_millis(5));
        };
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::TERM,
        )
        .expect("it runs");
        assert!(child.wait().expect("it ends").success(), "{seen}");
        let text = fs::read_to_string(&log).expect("a log");
        let said = text.matches("not encrypted").count();
        assert_eq!(said, usize::from(line.is_some()), "{option}: {text}");
        assert!(line.is_none_or(|line| text.contains(line)), "{text}");
        assert!(line.is_none() || text.contains("RLIMIT_MEMLOCK"), "{text}");
    }
}
