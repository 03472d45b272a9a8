//! The thread's rounds one by one, and on a clock of the test.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{self, SocketAddr};
use std::thread;

use godwit_p2p::{DisconnectReason, FRAME_HEADER_SIZE, PACKET_COST, Protocol};
use godwit_primitives::sha256::sha256d;
use godwit_stream::{DataStream, PoolLimits};

use super::connection::{ANSWER_TIMEOUT, READ_TURN};
use super::listen::MAX_UNDECIDED;
use super::*;

const MAGIC: [u8; 4] = [1, 2, 3, 4];
const PEER: PeerId = PeerId(7);

/// A network without a thread.
struct Stepped {
    network: Network,
    commands: Sender<Order>,
    inbox: Inbox,
    waker: Arc<Waker>,
    address: SocketAddr,
    seen: VecDeque<NetEvent>,
}

fn config(encrypted: bool) -> SocketsConfig {
    let limits = PoolLimits { buffers: 1, buffer_bytes: 1 << 20, total_bytes: 1 << 20 };
    SocketsConfig {
        magic: MAGIC,
        pool: BufferPool::new(limits),
        proxies: Proxies::default(),
        session: [9; 8],
        max_download_rate: None,
        encrypted,
    }
}

fn start(encrypted: bool) -> Stepped {
    let poll = Poll::new().expect("a poll");
    let waker = Arc::new(Waker::new(poll.registry(), WAKER).expect("a waker"));
    let (outbox, inbox) = channel(Arc::clone(&waker), InboxLimits::PRODUCT);
    let config = config(encrypted);
    let (commands, receiver) = unbounded();
    let receiver = Commands { receiver, backlog: Arc::new(AtomicUsize::new(0)) };
    let mut network = Network::new(poll, config, receiver, outbox);
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let listeners = bind(&[any.into()]).expect("a free port");
    let address = listeners[0].socket.local_addr().expect("it is bound");
    network.listen(listeners).expect("it can be watched");
    Stepped { network, commands, inbox, waker, address, seen: VecDeque::new() }
}

/// With encrypted connections; `None` and a line where the system locks no memory.
fn start_encrypted() -> Option<Stepped> {
    if let Err(error) = check_locked_memory() {
        godwit_testdata::skip(&format!("no locked memory: {error}"));
        return None;
    }
    Some(start(true))
}

impl Stepped {
    /// Rounds until something holds.
    #[track_caller]
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        let mut events = Events::with_capacity(SYSTEM_EVENTS);
        while !holds(self) {
            assert!(Instant::now() < end, "not in a minute: {what}");
            // A round never waits.
            self.waker.wake().expect("it can be woken");
            assert!(self.network.round(&mut events), "nobody let go of the commands");
            while let Some(event) = self.inbox.take() {
                self.seen.push_back(event);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[track_caller]
    fn event(&mut self) -> NetEvent {
        self.until("an event", |net| !net.seen.is_empty());
        self.seen.pop_front().expect("there is one")
    }

    fn send(&self, command: NetCommand) {
        self.commands.send(Order::Net(command)).expect("it is received");
    }

    /// A connection that waits for the node's answer.
    fn call(&mut self) -> (net::TcpStream, SocketId) {
        let stream = net::TcpStream::connect(self.address).expect("it listens");
        let NetEvent::Inbound { socket, .. } = self.event() else { panic!("an inbound peer") };
        (stream, socket)
    }

    /// A connection that is opened encrypted, and its other end, which has the key.
    fn offer(&mut self, listener: &net::TcpListener) -> net::TcpStream {
        let address = listener.local_addr().expect("it is bound").into();
        let target = Target::Address(address);
        self.send(NetCommand::Connect { peer: PEER, target, v2: true });
        let payload = DataStream::from(&[1; 100][..]).into();
        self.send(NetCommand::Send { peer: PEER, command: Command::VERSION, payload });
        let event = self.event();
        assert!(matches!(event, NetEvent::Connected { peer: PEER, .. }), "{event:?}");
        let (mut stream, _) = listener.accept().expect("it connects");
        self.until("the key is sent", |net| net.connection().transport.queued_bytes() < 200);
        stream.read_exact(&mut [0; 64]).expect("a key");
        stream
    }

    fn token(&self) -> Token {
        self.network.by_peer[&PEER]
    }

    fn connection(&mut self) -> &mut Connection {
        let token = self.token();
        self.network.connections.get_mut(&token).expect("it is there")
    }
}

#[test]
fn nobody_gets_keys_before_the_node_has_a_place_for_the_connection() {
    let Some(mut net) = start_encrypted() else { return };
    let (_taken, taken) = net.call();
    let (mut refused, other) = net.call();
    // What waits is a socket and an address.
    assert_eq!((net.network.undecided.len(), net.network.connections.len()), (2, 0));
    net.send(NetCommand::Refuse { socket: other });
    net.send(NetCommand::Adopt { socket: taken, peer: PEER });
    net.until("both are decided", |net| net.network.undecided.is_empty());
    assert_eq!(net.network.connections.len(), 1);
    assert_eq!(net.connection().transport.protocol(), Protocol::Detecting);
    assert_eq!(refused.read(&mut [0; 1]).expect("an orderly end"), 0);
    net.send(NetCommand::Disconnect { peer: PEER, why: DisconnectReason::Evicted });
    net.until("it is closed", |net| net.network.connections.is_empty());
    assert!(net.network.by_peer.is_empty() && net.seen.is_empty());
}

#[test]
fn who_is_gone_before_the_node_decides_is_told_of_once() {
    let mut net = start(false);
    let (stream, socket) = net.call();
    drop(stream);
    net.send(NetCommand::Adopt { socket, peer: PEER });
    assert!(matches!(net.event(), NetEvent::Protocol { peer: PEER, .. }));
    assert!(matches!(net.event(), NetEvent::Closed { peer: PEER }));
    net.until("it is closed", |net| net.network.connections.is_empty());
    net.send(NetCommand::Adopt { socket, peer: PeerId(8) });
    assert!(matches!(net.event(), NetEvent::Closed { peer: PeerId(8) }));
    assert!(net.seen.is_empty());
}

#[test]
fn no_more_connections_wait_for_the_node_than_it_may_leave_undecided() {
    let mut net = start(false);
    let address = net.address;
    let connect = |_| net::TcpStream::connect(address).expect("the system accepts");
    let _waiting: Vec<net::TcpStream> = (0..=MAX_UNDECIDED).map(connect).collect();
    net.until("as many as may", |net| net.seen.len() >= MAX_UNDECIDED);
    for _ in 0..10 {
        let mut once = true;
        net.until("a round", |_| !std::mem::take(&mut once));
    }
    assert_eq!((net.seen.len(), net.network.undecided.len()), (MAX_UNDECIDED, MAX_UNDECIDED));
    let Some(NetEvent::Inbound { socket, .. }) = net.seen.pop_front() else { panic!("inbound") };
    net.send(NetCommand::Refuse { socket });
    net.until("the last one", |net| net.seen.len() == MAX_UNDECIDED);
    assert_eq!(net.network.undecided.len(), MAX_UNDECIDED);
}

#[test]
fn b16_who_is_silent_for_half_a_minute_is_tried_again_in_plain() {
    let Some(mut net) = start_encrypted() else { return };
    let before = Instant::now();
    let listener = net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut silent = net.offer(&listener);
    let (token, deadline) = (net.token(), net.connection().deadline().expect("it has to answer"));
    assert!(deadline >= before + ANSWER_TIMEOUT && deadline <= Instant::now() + ANSWER_TIMEOUT);
    net.network.end_late(deadline - Duration::from_nanos(1));
    assert_eq!(net.token(), token);
    net.network.end_late(deadline);
    assert_ne!(net.token(), token);
    silent.read_to_end(&mut Vec::new()).expect("garbage and an orderly end");
    let (mut plain, _) = listener.accept().expect("it connects once more");
    net.until("the message is sent", |net| net.connection().transport.total_sent_plain() == 124);
    let mut message = [0; 124];
    plain.read_exact(&mut message).expect("a message");
    assert_eq!(
        (&message[..4], &message[4..11], &message[24..]),
        (&MAGIC[..], &b"version"[..], &[1; 100][..])
    );
    // The node sees one connection throughout.
    net.until("it is told", |net| {
        net.seen.retain(|event| !matches!(event, NetEvent::Sent { .. }));
        !net.seen.is_empty()
    });
    let protocol = net.seen.pop_front();
    assert!(matches!(protocol, Some(NetEvent::Protocol { peer: PEER, protocol: Protocol::V1 })));
    assert!(net.seen.is_empty(), "{:?}", net.seen);
    assert_eq!((net.network.connections.len(), net.connection().deadline()), (1, None));
}

#[test]
fn b16_who_has_answered_with_a_byte_may_take_longer() {
    let Some(mut net) = start_encrypted() else { return };
    let listener = net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut slow = net.offer(&listener);
    let (token, deadline) = (net.token(), net.connection().deadline().expect("it has to answer"));
    slow.write_all(&[0]).expect("it is read");
    net.until("the byte is there", |net| net.connection().transport.total_received() == 1);
    assert_eq!(net.connection().deadline(), None);
    net.network.end_late(deadline + ANSWER_TIMEOUT);
    assert_eq!((net.token(), net.network.deadlines.is_empty()), (token, true));
}

fn message(command: Command, payload: &[u8]) -> Vec<u8> {
    let mut frame = MAGIC.to_vec();
    frame.extend(command.to_bytes());
    frame.extend((payload.len() as u32).to_le_bytes());
    frame.extend(&sha256d(payload)[..4]);
    frame.extend(payload);
    frame
}

fn empty(command: Command) -> Vec<u8> {
    message(command, &[])
}

#[test]
fn nothing_is_read_behind_a_getdata_before_the_node_wants_to_go_on() {
    let commands = [Command::PING, Command::GETDATA, Command::PING, Command::GETBLOCKTXN];
    let frames = commands.map(empty).concat();
    let mut net = start(false);
    let (mut stream, socket) = net.call();
    net.send(NetCommand::Adopt { socket, peer: PEER });
    // Together in the buffers of the system.
    stream.write_all(&frames.repeat(2)).expect("the buffers take it");
    assert!(matches!(net.event(), NetEvent::Protocol { .. }));
    let expect = |net: &mut Stepped, expected: &[Command]| {
        for command in expected {
            let NetEvent::Frame { frame, .. } = net.event() else { panic!("{command}") };
            assert_eq!(frame.command, *command);
        }
        let mut rounds = 0..20;
        net.until("some rounds later", |_| rounds.next().is_none());
        assert!(net.seen.is_empty(), "{:?}", net.seen);
    };
    expect(&mut net, &commands[..2]);
    // Other commands change nothing.
    net.send(NetCommand::ExpectBlock { peer: PEER, expected: true });
    expect(&mut net, &[]);
    net.send(NetCommand::ReadOn { peer: PEER });
    expect(&mut net, &commands[2..]);
    net.send(NetCommand::ReadOn { peer: PEER });
    expect(&mut net, &commands[..2]);
    // What is to be sent is sent all the same.
    let payload = DataStream::from(&[1; 100][..]).into();
    net.send(NetCommand::Send { peer: PEER, command: Command::BLOCK, payload });
    assert!(matches!(net.event(), NetEvent::Sent { bytes: 124, .. }));
    expect(&mut net, &[]);
}

#[test]
fn a_block_whose_request_is_withdrawn_takes_no_room_of_peers_that_owe_none() {
    let mut net = start(false);
    let (mut stream, socket) = net.call();
    net.send(NetCommand::Adopt { socket, peer: PEER });
    net.send(NetCommand::ExpectBlock { peer: PEER, expected: true });
    net.until("it is adopted", |net| net.network.by_peer.contains_key(&PEER));
    net.until("a block is expected", |net| net.connection().limits.expects_block);
    let share = |net: &Stepped| net.network.connections[&net.token()].share(&net.network.out);
    let block = message(Command::BLOCK, &[7; 1_000]);
    stream.write_all(&block[..100]).expect("the buffers take it");
    net.until("it arrives", |net| net.connection().transport.incoming().is_some());
    net.send(NetCommand::ExpectBlock { peer: PEER, expected: false });
    net.until("none is expected", |net| !net.connection().limits.expects_block);
    assert_eq!(share(&net), Share::Blocks);
    stream.write_all(&block[100..]).expect("the buffers take it");
    let is_frame = |event: &NetEvent| matches!(event, NetEvent::Frame { .. });
    net.until("it is taken", |net| net.seen.iter().any(is_frame));
    assert_eq!(share(&net), Share::Messages);
}

#[test]
fn a_block_that_is_discarded_takes_no_room_of_peers_that_owe_one() {
    let mut net = start(false);
    let (mut stream, socket) = net.call();
    net.send(NetCommand::Adopt { socket, peer: PEER });
    let block = message(Command::BLOCK, &[7; 1_000]);
    stream.write_all(&block[..100]).expect("the buffers take it");
    net.until("it is adopted", |net| net.network.by_peer.contains_key(&PEER));
    net.until("it arrives", |net| net.connection().transport.incoming().is_some());
    // Requested too late, and no longer.
    for expected in [true, false] {
        net.send(NetCommand::ExpectBlock { peer: PEER, expected });
        net.until("it is told", |net| net.connection().limits.expects_block == expected);
    }
    let share = net.network.connections[&net.token()].share(&net.network.out);
    assert_eq!(share, Share::Messages);
    stream.write_all(&block[100..]).expect("the buffers take it");
    let is_discard = |event: &NetEvent| matches!(event, NetEvent::Discarded { .. });
    net.until("it is dropped", |net| net.seen.iter().any(is_discard));
}

#[test]
fn a_turn_ends_after_so_many_messages_however_short_they_are() {
    const COST: usize = FRAME_HEADER_SIZE + PACKET_COST;
    const A_TURN: usize = READ_TURN.div_ceil(COST);
    let frame = empty(Command::VERACK);
    for (sent, left) in [
        (A_TURN - 1, TurnOutcome::Idle),
        (A_TURN, TurnOutcome::More),
        (A_TURN + 9, TurnOutcome::More),
    ] {
        let mut net = start(false);
        let (mut stream, socket) = net.call();
        net.send(NetCommand::Adopt { socket, peer: PEER });
        net.until("it is adopted", |net| net.network.by_peer.contains_key(&PEER));
        stream.write_all(&frame.repeat(sent)).expect("the buffers take it");
        let Stepped { network, inbox, .. } = &mut net;
        let connection = network.connections.values_mut().next().expect("it was adopted");
        let mut bytes = vec![0; frame.len() * sent];
        while connection.stream.peek(&mut bytes).unwrap_or(0) < bytes.len() {
            thread::sleep(Duration::from_millis(1));
        }
        connection.readable = true;
        let mut turn = || {
            connection.turn(
                &mut usize::MAX.clone(),
                Instant::now(),
                network.out.of(Share::Messages),
            )
        };
        assert_eq!(turn(), left);
        let messages = || {
            let events = std::iter::from_fn(|| inbox.take());
            events.filter(|event| matches!(event, NetEvent::Frame { .. })).count()
        };
        assert_eq!(messages(), sent.min(A_TURN));
        assert_eq!((turn(), messages()), (TurnOutcome::Idle, sent.saturating_sub(A_TURN)));
    }
}

#[test]
fn a_node_whose_sockets_do_not_keep_up_has_no_room() {
    const LENGTH: usize = 1 << 20;
    let mut net = start(false);
    let backlog = Arc::clone(&net.network.commands.backlog);
    let (commands, waker) = (Some(net.commands.clone()), Arc::clone(&net.waker));
    let sockets = Sockets { commands, backlog, waker, thread: None };
    for sent in 1..=COMMAND_BYTES / LENGTH {
        assert!(sockets.has_room(), "{sent}");
        let payload = DataStream::from(&[7; LENGTH][..]).into();
        sockets.send([NetCommand::Send { peer: PEER, command: Command::BLOCK, payload }]);
    }
    assert!(!sockets.has_room());
    net.until("they are taken", |_| sockets.has_room());
    assert_eq!(sockets.backlog.load(Ordering::Relaxed), 0);
}

/// A handler would put registers with parts of keys behind what is wiped of the thread's stack.
#[test]
fn a_thread_with_keys_handles_no_signal() {
    if let Err(error) = check_locked_memory() {
        godwit_testdata::skip(&format!("no locked memory: {error}"));
        return;
    }
    let config = config(true);
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let listeners = bind(&[any.into()]).expect("a free port");
    let address = listeners[0].socket.local_addr().expect("it is bound");
    let (sockets, inbox) = Sockets::start(config, listeners).expect("a thread");
    // It runs when it accepts.
    let _caller = net::TcpStream::connect(address).expect("it listens");
    let end = Instant::now() + Duration::from_secs(60);
    while inbox.take().is_none() {
        assert!(Instant::now() < end, "not in a minute: a connection");
        thread::sleep(Duration::from_millis(1));
    }
    let mut seen = 0;
    for task in std::fs::read_dir("/proc/self/task").expect("threads") {
        let path = task.expect("a thread").path();
        let of = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
        if of("comm").trim() == "godwit-net" {
            let status = of("status");
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
            let blocked = u64::from_str_radix(blocked.expect("a line").trim(), 16);
            let blocked = blocked.expect("hexadecimal digits");
            // SIGINT and SIGTERM.
            assert_eq!((blocked >> 1 & 1, blocked >> 14 & 1), (1, 1), "{blocked:x}");
            seen += 1;
        }
    }
    assert_eq!(seen, 1);
    drop(sockets);
}
