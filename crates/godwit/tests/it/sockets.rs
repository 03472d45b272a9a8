//! The thread that owns the sockets, without a node behind it: plain sockets of this test are the
//! peers, the proxy and the flood.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use godwit::node::sockets::{INBOX_BYTES, Inbox, Proxies, Sockets, SocketsConfig, bind};
use godwit_p2p::{
    Command, ConnectFailure, Discard, DiscardReason, DisconnectReason, FRAME_HEADER_SIZE, Frame,
    NetAddress, NetCommand, NetEvent, PeerId, Protocol, Target,
};
use godwit_primitives::BlockHash;
use godwit_primitives::sha256::sha256d;
use godwit_stream::{BufferPool, DataStream, PoolLimits, PooledStream};

use crate::sync::wait_until;

const MAGIC: [u8; 4] = [1, 2, 3, 4];
const PEER: PeerId = PeerId(7);

struct Net {
    sockets: Sockets,
    inbox: Inbox,
    address: SocketAddr,
}

fn start_with(proxies: Proxies, max_download_rate: Option<u64>) -> Net {
    start_at("127.0.0.1:0", proxies, max_download_rate)
}

fn start_at(address: &str, proxies: Proxies, max_download_rate: Option<u64>) -> Net {
    let any: SocketAddr = address.parse().expect("an address");
    let listeners = bind(&[any.into()]).expect("a free port");
    let address = listeners[0].socket.local_addr().expect("it is bound");
    let limits = PoolLimits { buffers: 4, buffer_bytes: 4_000_000, total_bytes: 16_000_000 };
    let config = SocketsConfig {
        magic: MAGIC,
        pool: BufferPool::new(limits),
        proxies,
        session: [9; 8],
        max_download_rate,
        encrypted: false,
    };
    let (sockets, inbox) = Sockets::start(config, listeners).expect("a thread");
    Net { sockets, inbox, address }
}

fn start() -> Net {
    start_with(Proxies::default(), None)
}

impl Net {
    fn event_or_memory(&self) -> NetEvent {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            match self.inbox.take() {
                Some(NetEvent::Protocol { protocol, .. }) => assert_eq!(protocol, Protocol::V1),
                Some(event) => return event,
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("no event in a minute");
    }

    /// The next event that is not about the memory of half a message.
    fn event(&self) -> NetEvent {
        loop {
            match self.event_or_memory() {
                NetEvent::Receiving { .. } => {}
                event => return event,
            }
        }
    }

    /// The next event that is not about bytes that were sent.
    fn event_but_sent(&self) -> NetEvent {
        loop {
            match self.event() {
                NetEvent::Sent { .. } => {}
                event => return event,
            }
        }
    }

    /// A connection to the listener, taken as [`PEER`].
    fn adopted(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        let NetEvent::Inbound { socket, address, .. } = self.event() else {
            panic!("an inbound peer")
        };
        assert_eq!(address, NetAddress::from(stream.local_addr().expect("connected")));
        self.sockets.send([NetCommand::Adopt { socket, peer: PEER }]);
        stream
    }

    /// Has blocks of [`PEER`] expected, and waits until the thread knows: it then sends what it is told to
    /// send behind that.
    fn expect_blocks(&self, stream: &mut TcpStream) {
        let ping = payload(&[4; 8]);
        self.sockets.send([
            NetCommand::ExpectBlock { peer: PEER, expected: true },
            NetCommand::Send { peer: PEER, command: Command::PING, payload: ping },
        ]);
        let expected = frame("ping", &[4; 8]);
        let mut received = vec![0; expected.len()];
        stream.read_exact(&mut received).expect("it is sent");
        assert!(received == expected);
        let NetEvent::Sent { peer: PEER, bytes } = self.event() else { panic!("bytes sent") };
        assert_eq!(bytes, expected.len());
    }
}

fn frame(command: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(Command::new(command).to_bytes());
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(&sha256d(payload)[..4]);
    bytes.extend(payload);
    bytes
}

fn payload(bytes: &[u8]) -> PooledStream {
    DataStream::from(bytes).into()
}

#[test]
fn messages_pass_both_ways_and_an_end_is_told() {
    let net = start();
    let mut stream = net.adopted();
    stream.write_all(&frame("ping", &[5; 8])).expect("it is read");
    let NetEvent::Frame { peer, frame: Frame { command, payload: got } } = net.event() else {
        panic!("a message")
    };
    assert_eq!((peer, command, got.as_slice()), (PEER, Command::PING, &[5; 8][..]));
    let long = vec![3; 300_000];
    let send =
        |command, bytes: &[u8]| NetCommand::Send { peer: PEER, command, payload: payload(bytes) };
    net.sockets.send([send(Command::PONG, &[6; 8]), send(Command::BLOCK, &long)]);
    let expected = [frame("pong", &[6; 8]), frame("block", &long)].concat();
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).expect("they are sent");
    assert!(received == expected);
    let mut written = 0;
    while written < expected.len() {
        let NetEvent::Sent { peer, bytes } = net.event() else { panic!("bytes sent") };
        written += bytes;
        assert!(peer == PEER && bytes > 0 && written <= expected.len());
    }
    drop(stream);
    assert!(matches!(net.event_but_sent(), NetEvent::Closed { peer: PEER }));
}

#[test]
fn the_address_that_was_called_is_told_where_all_of_the_machine_are_listened_on() {
    let net = start_at("0.0.0.0:0", Proxies::default(), None);
    for host in ["127.0.0.1", "127.0.0.2"] {
        let at: SocketAddr = format!("{host}:{}", net.address.port()).parse().expect("an address");
        let _stream = TcpStream::connect(at).expect("it listens");
        let NetEvent::Inbound { called, .. } = net.event() else { panic!("an inbound peer") };
        assert_eq!(called, NetAddress::from(at));
    }
}

#[test]
fn what_the_node_ends_is_closed_without_a_word() {
    let net = start();
    let mut stream = net.adopted();
    let why = DisconnectReason::Evicted;
    net.sockets.send([NetCommand::Disconnect { peer: PEER, why }]);
    assert_eq!(stream.read(&mut [0; 1]).expect("an orderly end"), 0);
    let mut refused = TcpStream::connect(net.address).expect("it listens");
    let NetEvent::Inbound { socket, .. } = net.event() else { panic!("an inbound peer") };
    net.sockets.send([NetCommand::Refuse { socket }]);
    assert_eq!(refused.read(&mut [0; 1]).expect("an orderly end"), 0);
    assert!(net.inbox.take().is_none());
    let mut open = net.adopted();
    drop(net);
    assert!(matches!(open.read(&mut [0; 1]), Ok(0) | Err(_)), "the end closes everything");
}

#[test]
fn a_block_is_kept_only_when_it_is_expected_and_its_bytes_are_counted() {
    let net = start();
    let mut stream = net.adopted();
    let block = vec![8; 1_500_000];
    stream.write_all(&frame("block", &block)).expect("it is read");
    let NetEvent::Discarded { discard, .. } = net.event() else { panic!("it is dropped") };
    let why = DiscardReason::UnexpectedBlock;
    let named = Some(BlockHash::from_bytes(sha256d(&block[..80])));
    let expected = Discard { command: Command::BLOCK, bytes: block.len(), why, block: named };
    assert_eq!(discard, expected);
    net.expect_blocks(&mut stream);
    stream.write_all(&frame("block", &block)).expect("it is read");
    let mut counted = 0;
    loop {
        match net.event() {
            NetEvent::Arriving { peer: PEER, command: Command::BLOCK, bytes } => counted += bytes,
            NetEvent::Frame { frame, .. } => {
                assert_eq!((frame.payload.len(), counted), (block.len(), block.len()));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn headers_are_told_of_while_they_arrive() {
    let net = start();
    let mut stream = net.adopted();
    let bytes = frame("headers", &[0; 162_003]);
    stream.write_all(&bytes[..80_000]).expect("it is read");
    let mut counted = 0;
    while counted < 80_000 - FRAME_HEADER_SIZE {
        let NetEvent::Arriving { peer: PEER, command: Command::HEADERS, bytes } = net.event()
        else {
            panic!("a part")
        };
        counted += bytes;
    }
    stream.write_all(&bytes[80_000..]).expect("it is read");
    loop {
        match net.event() {
            NetEvent::Arriving { bytes, .. } => counted += bytes,
            NetEvent::Frame { frame, .. } => {
                assert_eq!((frame.payload.len(), counted), (162_003, 162_003));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_memory_of_half_a_message_is_told_until_it_is_complete() {
    let net = start();
    let mut stream = net.adopted();
    let bytes = frame("inv", &[0; 1_000_003]);
    stream.write_all(&bytes[..600_000]).expect("it is read");
    let mut told = 0;
    while told < 600_000 - FRAME_HEADER_SIZE {
        let NetEvent::Receiving { peer: PEER, memory } = net.event_or_memory() else {
            panic!("memory")
        };
        assert!(memory > told && memory <= 1_200_000, "{memory} after {told}");
        told = memory;
    }
    stream.write_all(&bytes[600_000..]).expect("it is read");
    loop {
        match net.event_or_memory() {
            NetEvent::Receiving { memory, .. } => assert!(memory > told),
            NetEvent::Frame { frame, .. } => {
                assert_eq!((frame.command, frame.payload.len()), (Command::INV, 1_000_003));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    // Of a whole one there was nothing to tell.
    stream.write_all(&frame("ping", &[5; 8])).expect("it is read");
    assert!(matches!(net.event_or_memory(), NetEvent::Frame { .. }));
}

#[test]
fn another_protocol_is_told_and_not_read_on() {
    let net = start();
    let mut stream = net.adopted();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    assert!(matches!(net.event(), NetEvent::TransportFailed { peer: PEER, .. }));
    stream.write_all(&frame("ping", &[5; 8])).expect("the buffer takes it");
    thread::sleep(Duration::from_millis(50));
    assert!(net.inbox.take().is_none());
}

#[test]
fn connections_that_are_asked_for_come_about_or_fail() {
    let net = start();
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = NetAddress::from(other.local_addr().expect("it is bound"));
    net.sockets.send([NetCommand::Connect {
        peer: PEER,
        target: Target::Address(address),
        v2: true,
    }]);
    let (mut stream, _) = other.accept().expect("it connects");
    let NetEvent::Connected { peer: PEER, address: told } = net.event() else {
        panic!("connected")
    };
    assert_eq!(told, Some(address));
    stream.write_all(&frame("verack", &[])).expect("it is read");
    assert!(matches!(net.event(), NetEvent::Frame { peer: PEER, .. }));

    drop(other);
    let connect = |target| NetCommand::Connect { peer: PeerId(8), target, v2: false };
    net.sockets.send([connect(Target::Address(address))]);
    let refused = net.event();
    assert!(matches!(
        refused,
        NetEvent::ConnectFailed { peer: PeerId(8), why: ConnectFailure::Refused }
    ));
    let name = Target::Name { host: "a.example".into(), port: 1 };
    net.sockets.send([connect(name)]);
    assert!(matches!(
        net.event(),
        NetEvent::ConnectFailed { peer: PeerId(8), why: ConnectFailure::Local }
    ));
}

/// A proxy that wants no name and no password, answers with a code, and then echoes.
fn proxy(answer: u8) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it connects");
        let mut hello = [0; 2];
        stream.read_exact(&mut hello).expect("a greeting");
        let mut methods = vec![0; hello[1].into()];
        stream.read_exact(&mut methods).expect("methods");
        stream.write_all(&[5, 0]).expect("it is read");
        let mut request = [0; 5];
        stream.read_exact(&mut request).expect("a request");
        let mut rest = vec![0; usize::from(request[4]) + 2];
        stream.read_exact(&mut rest).expect("host and port");
        // In pieces, and with a byte of the peer behind it.
        let reply = [5, answer, 0, 1, 127, 0, 0, 1, 0, 9];
        for byte in reply {
            stream.write_all(&[byte]).expect("it is read");
            thread::sleep(Duration::from_millis(2));
        }
        let mut buffer = [0; 1000];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..count]).expect("it is read");
        }
    });
    address
}

#[test]
fn a_proxy_connects_to_names_and_says_whose_fault_a_failure_is() {
    let target = || Target::Name { host: "seed.example".into(), port: 8333 };
    let through = |answer| {
        let net = start_with(Proxies { clearnet: Some(proxy(answer)), onion: None }, None);
        net.sockets.send([NetCommand::Connect { peer: PEER, target: target(), v2: true }]);
        net
    };
    let net = through(0);
    let connected = net.event();
    assert!(
        matches!(connected, NetEvent::Connected { peer: PEER, address: None }),
        "{connected:?}"
    );
    let ping = NetCommand::Send { peer: PEER, command: Command::PING, payload: payload(&[1; 8]) };
    net.sockets.send([ping]);
    let NetEvent::Frame { frame, .. } = net.event_but_sent() else { panic!("the echo") };
    assert_eq!((frame.command, frame.payload.as_slice()), (Command::PING, &[1; 8][..]));
    // Host unreachable; general failure, as Tor calls it when a service is gone; and the proxy's own
    // line is down.
    for (answer, expected) in
        [(4, ConnectFailure::Refused), (1, ConnectFailure::Refused), (3, ConnectFailure::Local)]
    {
        match through(answer).event() {
            NetEvent::ConnectFailed { why, .. } => assert_eq!(why, expected, "{answer}"),
            other => panic!("{other:?}"),
        }
    }
    // Nobody there.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let absent = listener.local_addr().expect("it is bound");
    drop(listener);
    let net = start_with(Proxies { clearnet: Some(absent), onion: None }, None);
    net.sockets.send([NetCommand::Connect { peer: PEER, target: target(), v2: true }]);
    assert!(matches!(net.event(), NetEvent::ConnectFailed { why: ConnectFailure::Local, .. }));
}

/// Sends blocks until the other side goes; how many bytes it got rid of.
fn flood(mut stream: TcpStream, blocks: usize) -> Arc<AtomicU64> {
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    thread::spawn(move || {
        let bytes = frame("block", &vec![1; 1_000_000]);
        for _ in 0..blocks {
            for part in bytes.chunks(64 << 10) {
                if stream.write_all(part).is_err() {
                    return;
                }
                counter.fetch_add(part.len() as u64, Ordering::Relaxed);
            }
        }
    });
    sent
}

fn wait_until_still(sent: &AtomicU64) -> u64 {
    let mut last = 0;
    loop {
        thread::sleep(Duration::from_millis(300));
        let now = sent.load(Ordering::Relaxed);
        if now == last && now > 0 {
            return now;
        }
        last = now;
    }
}

#[test]
fn a_node_that_takes_nothing_makes_peers_wait_and_loses_nothing() {
    const BLOCKS: usize = 60;
    let net = start();
    let mut stream = net.adopted();
    net.expect_blocks(&mut stream);
    let sent = flood(stream, BLOCKS);
    let held_back = wait_until_still(&sent);
    // What lies in the system's socket buffers is up to it.
    const SYSTEM: u64 = 16 << 20;
    assert!(held_back < INBOX_BYTES + SYSTEM, "{held_back} bytes were taken");
    let mut blocks = 0;
    while blocks < BLOCKS {
        match net.event() {
            NetEvent::Frame { .. } => blocks += 1,
            NetEvent::Arriving { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(net.event(), NetEvent::Closed { .. }));
}

#[test]
fn who_owes_no_block_is_heard_while_the_chain_takes_none() {
    const BLOCKS: usize = 30;
    const OTHER: PeerId = PeerId(8);
    let net = start();
    let mut stream = net.adopted();
    net.expect_blocks(&mut stream);
    let sent = flood(stream, BLOCKS);
    // As a node whose chain takes no block.
    let look = || {
        loop {
            match net.inbox.take_but_blocks() {
                Some(
                    NetEvent::Arriving { .. }
                    | NetEvent::Receiving { .. }
                    | NetEvent::Protocol { .. },
                ) => {}
                other => return other,
            }
        }
    };
    let heard = || {
        let mut heard = None;
        wait_until("there is an event", || {
            heard = look();
            heard.is_some()
        });
        heard.expect("just seen")
    };
    wait_until("a block has come", || {
        let event = look();
        assert!(event.is_none(), "{event:?}");
        net.inbox.holds_back()
    });
    wait_until_still(&sent);
    let mut other = TcpStream::connect(net.address).expect("it listens");
    let NetEvent::Inbound { socket, .. } = heard() else { panic!("an inbound peer") };
    assert!(net.inbox.holds_back(), "blocks came before");
    net.sockets.send([NetCommand::Adopt { socket, peer: OTHER }]);
    other.write_all(&frame("ping", &[5; 8])).expect("it is read");
    let NetEvent::Frame { peer, frame: ping } = heard() else { panic!("a message") };
    assert_eq!((peer, ping.command), (OTHER, Command::PING));
    let pong = payload(&[5; 8]);
    net.sockets.send([NetCommand::Send { peer: OTHER, command: Command::PONG, payload: pong }]);
    let expected = frame("pong", &[5; 8]);
    let mut received = vec![0; expected.len()];
    other.read_exact(&mut received).expect("it is sent");
    assert!(received == expected);
    // Then the chain takes them again.
    let mut blocks = 0;
    while blocks < BLOCKS {
        match net.event() {
            NetEvent::Frame { peer: PEER, .. } => blocks += 1,
            NetEvent::Arriving { .. } | NetEvent::Sent { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(net.event_but_sent(), NetEvent::Closed { peer: PEER }));
}

#[test]
fn who_does_not_take_answers_gets_to_ask_no_more() {
    let net = start();
    let mut stream = net.adopted();
    let answer = vec![1; 40_000_000];
    let send = NetCommand::Send { peer: PEER, command: Command::BLOCK, payload: payload(&answer) };
    net.sockets.send([send]);
    let NetEvent::Sent { .. } = net.event() else { panic!("some is written") };
    stream.write_all(&frame("ping", &[5; 8])).expect("the buffer takes it");
    thread::sleep(Duration::from_millis(100));
    while let Some(event) = net.inbox.take() {
        assert!(matches!(event, NetEvent::Sent { .. }), "{event:?}");
    }
    stream.read_exact(&mut vec![0; 24 + answer.len()]).expect("all of it");
    assert!(matches!(net.event_but_sent(), NetEvent::Frame { .. }), "now it is heard");
}

/// Two nodes that send blocks to each other would otherwise both wait for the other to read.
#[test]
fn who_waits_for_a_block_reads_on() {
    let net = start();
    let mut stream = net.adopted();
    let payload = payload(&vec![1; 40_000_000]);
    let send = NetCommand::Send { peer: PEER, command: Command::BLOCK, payload };
    net.sockets.send([send]);
    let NetEvent::Sent { .. } = net.event() else { panic!("some is written") };
    stream.write_all(&frame("ping", &[5; 8])).expect("the buffer takes it");
    net.sockets.send([NetCommand::ExpectBlock { peer: PEER, expected: true }]);
    assert!(matches!(net.event_but_sent(), NetEvent::Frame { .. }));
}

#[test]
fn a_limited_rate_is_kept_over_all_connections() {
    const RATE: u64 = 400_000;
    let net = start_with(Proxies::default(), Some(RATE));
    let started = Instant::now();
    let mut streams = [net.adopted(), net.adopted()];
    for stream in &mut streams {
        stream.set_nonblocking(true).expect("a socket");
    }
    let ping = frame("ping", &[0; 8]);
    let messages: Vec<u8> = std::iter::repeat_n(&ping[..], 10_000).flatten().copied().collect();
    let mut left = [&messages[..], &messages];
    let mut received = 0;
    while started.elapsed() < Duration::from_secs(3) {
        for (stream, left) in streams.iter_mut().zip(&mut left) {
            match stream.write(left) {
                Ok(count) => *left = &left[count..],
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        while let Some(event) = net.inbox.take() {
            received += match event {
                NetEvent::Frame { frame, .. } => 24 + frame.payload.len() as u64,
                NetEvent::Protocol { .. } | NetEvent::Receiving { .. } => 0,
                other => panic!("{other:?}"),
            };
        }
        // A burst of a second, then the rate.
        let allowed = RATE + RATE * started.elapsed().as_millis() as u64 / 1000 + 1;
        assert!(received <= allowed, "{received} of {allowed} allowed");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(received > RATE, "it goes on after the burst");
}
