//! The server on sockets, before a node that nobody drives.

use std::io::{Read, Write};
use std::sync::atomic::AtomicU16;

use godwit_http::{MAX_HEADER_BYTES, RpcAuth};
use godwit_index::Indexes;
use godwit_primitives::{Network, Params, Work};

use super::*;
use crate::CookiePermissions;
use crate::ban_file::BanFile;
use crate::interfaces::PageOptions;
use crate::seam::{Proxies, Publisher, Questions, Snapshot, TipFacts, seam};

static CATEGORIES: LogCategories = LogCategories::none();

pub(crate) const USER: &str = "rt";
/// Of Core's `share/rpcauth`, with its password.
const RT: &str = "rt:93648e835a54c573682c2eb19f882535$7681e9c5b74bdd85e78166031d2058e1069b3ed7ed967c93fc63abba06f31144";
const LOGIN: &str = "rt:cA773lm788buwYe4g4WT+05pKyNruVKjQ25x3n0DQcM=";

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// The ends that a node would have.
pub(crate) struct Node {
    _questions: Questions,
    _publisher: Publisher,
}

impl Node {
    /// The node is to start again.
    pub(crate) fn pause(self) {
        self._publisher.pause();
    }
}

fn node() -> (Seam, Node) {
    let params = Params::new(Network::Regtest);
    let header = params.genesis;
    let first = Snapshot {
        tip: TipFacts {
            hash: header.block_hash(),
            height: 0,
            header,
            median_time: header.time,
            chain_work: Work::ZERO,
        },
        left: 0,
        headers: 0,
        progress: 1.0,
        initial_download: false,
        bytes_on_disk: 0,
        prune_height: 0,
        pruning: None,
        history: None,
        network_active: true,
        warnings: Vec::new(),
        unvalidated: None,
        sync: Arc::default(),
    };
    let proxies = Proxies { clearnet: None, onion: None };
    let (seam, questions, publisher) = seam(Arc::new(params), proxies, Indexes::default(), first);
    (seam, Node { _questions: questions, _publisher: publisher })
}

/// The stage of a node that answers.
pub(crate) fn ready() -> (Stage, Node) {
    let (seam, node) = node();
    let stage = Stage::new("");
    stage.ready(seam);
    (stage, node)
}

#[test]
fn one_warning_is_the_last_of_cores() {
    let (seam, _node) = node();
    let mut snapshot = (*seam.snapshot()).clone();
    let mut last = |warnings: &[&str], unvalidated: Option<&str>| {
        snapshot.warnings = warnings.iter().map(ToString::to_string).collect();
        snapshot.unvalidated = unvalidated.map(str::to_owned);
        snapshot.last_warning().map(str::to_owned)
    };
    assert_eq!(last(&[], None), None);
    assert_eq!(last(&[], Some("c")).as_deref(), Some("c"));
    assert_eq!(last(&["a", "b"], Some("c")).as_deref(), Some("b"));
}

/// A port that nobody listens on and that this process gave to no other test. They lie below those that the
/// system gives to whoever wants any, and those of the tests of whole programs.
fn free_port() -> SocketAddr {
    const FIRST: u16 = 10_000;
    const RANGE: u16 = 10_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % u32::from(RANGE)) as u16;
    let mut ports = (0..RANGE)
        .map(|_| FIRST + start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % RANGE);
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ([127, 0, 0, 1], ports.find(is_free).expect("a free port")).into()
}

pub(crate) fn options() -> ServerOptions {
    ServerOptions {
        addresses: vec![free_port()],
        allowed: Vec::new(),
        credentials: Credentials(vec![RpcAuth::parse(RT).expect("a user")]),
        cookie: None,
        whitelist: Whitelist::default(),
        threads: 4,
        queue: 16,
        timeout: Some(LONG),
        connections: 16,
        memory: ServerMemory { answers: 1 << 20, requests: 1 << 20 },
        interfaces: Interfaces::default(),
        version: "0.1.0",
        log_path: PathBuf::new(),
        bans: Arc::new(BanFile::new(&PathBuf::new())),
        log_categories: &CATEGORIES,
        stop: Arc::default(),
    }
}

/// A server that answers. In this order dropped.
struct Running {
    _node: Node,
    _server: Server,
    address: SocketAddr,
}

fn start(options: ServerOptions) -> Running {
    let address = options.addresses[0];
    let server = Server::start(options).expect("it starts");
    let (seam, node) = node();
    server.ready(seam);
    Running { _node: node, _server: server, address }
}

impl Running {
    fn connect(&self) -> std::net::TcpStream {
        let stream = std::net::TcpStream::connect(self.address).expect("somebody listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        stream
    }

    /// Sends a whole request on a connection of its own.
    fn ask(&self, body: &str) -> String {
        let mut stream = self.connect();
        send(&mut stream, body);
        read_answer(&mut stream)
    }
}

fn head(rest: &str) -> String {
    let login = data_encoding::BASE64.encode(LOGIN.as_bytes());
    format!("POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {login}\r\n{rest}\r\n\r\n")
}

fn send(stream: &mut std::net::TcpStream, body: &str) {
    send_with(stream, body, "");
}

/// Sends a request, and what is to be there together with it.
fn send_with(stream: &mut std::net::TcpStream, body: &str, behind: &str) {
    let head = head(&format!("Content-Length: {}", body.len()));
    stream.write_all(format!("{head}{body}{behind}").as_bytes()).expect("it is read");
}

fn send_in_chunks(stream: &mut std::net::TcpStream, body: &str) {
    let head = head("Transfer-Encoding: chunked");
    let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    stream.write_all(format!("{head}{chunk}").as_bytes()).expect("it is read");
}

/// One answer; what there is of it where the server closes before.
fn read_answer(stream: &mut std::net::TcpStream) -> String {
    let (mut text, mut chunk) = (String::new(), [0; 4096]);
    loop {
        let count = match stream.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("no answer: {error}"),
        };
        text.push_str(std::str::from_utf8(&chunk[..count]).expect("text"));
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let head = head.to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).expect("a length");
            let digits = length.split("\r\n").next().expect("a line");
            body.len() == digits.parse::<usize>().expect("a number")
        });
        if whole || count == 0 {
            return text;
        }
    }
}

const ECHO: &str = r#"{"method":"echo","id":1}"#;
const WAIT: &str = r#"{"method":"waitfornewblock","id":1}"#;

#[test]
fn silent_connections_give_their_places_to_others() {
    let server = start(ServerOptions { connections: 2, ..options() });
    let _silent = [server.connect(), server.connect()];
    assert!(server.ask(ECHO).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_connection_that_stays_open_is_given_up_when_another_waits() {
    let server = start(ServerOptions { connections: 1, ..options() });
    let mut first = server.connect();
    send(&mut first, ECHO);
    assert!(!read_answer(&mut first).contains("Connection: close"));
    let mut second = server.connect();
    send(&mut second, ECHO);
    // The second one waits; the first one is told as soon as that was seen.
    loop {
        send(&mut first, ECHO);
        if read_answer(&mut first).contains("Connection: close") {
            break;
        }
    }
    assert!(read_answer(&mut second).starts_with("HTTP/1.1 200"));
}

#[test]
fn waiting_calls_whose_length_was_not_told_leave_room_for_the_bodies_of_others() {
    let server = start(ServerOptions {
        memory: ServerMemory { answers: 1 << 20, requests: 100 << 10 },
        ..options()
    });
    let _waiting: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = server.connect();
            // Larger than what each has for its own, and smaller than all that there is.
            send_in_chunks(&mut stream, &format!("{WAIT}{}", " ".repeat(70 << 10)));
            stream
        })
        .collect();
    assert!(server.ask(&format!("{ECHO}{}", " ".repeat(90 << 10))).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_body_that_comes_too_slowly_is_given_up() {
    let server = start(ServerOptions { timeout: Some(Duration::from_secs(1)), ..options() });
    let mut slow = server.connect();
    slow.write_all(head("Content-Length: 1000").as_bytes()).expect("it is read");
    // Never silent for a second.
    let trickle = (0..1000).all(|_| {
        std::thread::sleep(Duration::from_millis(100));
        slow.write_all(b" ").is_ok()
    });
    assert!(!trickle, "it is closed before the body is there");
}

#[test]
fn a_wait_of_a_client_that_is_gone_ends() {
    let timeout = Some(Duration::from_millis(200));
    let server = start(ServerOptions { threads: 2, timeout, ..options() });
    // The second one has asked for something else meanwhile.
    for next in [None, Some(ECHO)] {
        let mut gone = server.connect();
        send(&mut gone, WAIT);
        if let Some(next) = next {
            std::thread::sleep(Duration::from_millis(100));
            send(&mut gone, next);
        }
        drop(gone);
        // One wait at a time: it is refused until the other one has ended.
        let brief = r#"{"method":"waitfornewblock","id":1,"params":[1]}"#;
        while !server.ask(brief).starts_with("HTTP/1.1 200") {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// They are gathered by asking the node, which does not answer here.
#[test]
fn figures_are_gathered_once_at_a_time_however_many_ask_and_go() {
    let metrics = free_port();
    let pages = PageOptions { metrics: Some(metrics), ..PageOptions::default() };
    let interfaces = Interfaces { pages, ..Interfaces::default() };
    let server = start(ServerOptions { interfaces, ..options() });
    let gathered = || server._server.api.active.other_count();
    let ask = || {
        let mut stream = std::net::TcpStream::connect(metrics).expect("somebody listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
        stream
    };
    let first = ask();
    while gathered() == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(first);
    for _ in 0..10 {
        let gone = ask();
        std::thread::sleep(Duration::from_millis(50));
        drop(gone);
        assert_eq!(gathered(), 1);
    }
}

/// Without a limit no clock of the server may end.
#[test]
fn silence_may_have_no_limit() {
    let server = start(ServerOptions { timeout: None, ..options() });
    let mut stream = server.connect();
    for _ in 0..2 {
        send(&mut stream, ECHO);
        assert!(read_answer(&mut stream).starts_with("HTTP/1.1 200"));
    }
    stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket");
    let silent = stream.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(silent, Err(io::ErrorKind::WouldBlock), "it stays open");
}

/// Also where a part of it comes together with the request before, and the rest at once.
#[test]
fn a_head_is_no_longer_than_it_may_be() {
    let server = start(options());
    for (length, status) in [(MAX_HEADER_BYTES, "200"), (MAX_HEADER_BYTES + 1, "431")] {
        let empty = head(&format!("Content-Length: {}\r\nA: ", ECHO.len()));
        let filled = "a".repeat(length - empty.len());
        let head = head(&format!("Content-Length: {}\r\nA: {filled}", ECHO.len()));
        assert_eq!(head.len(), length);
        let (first, rest) = head.split_at(1000);
        let mut stream = server.connect();
        send_with(&mut stream, ECHO, first);
        assert!(read_answer(&mut stream).starts_with("HTTP/1.1 200"));
        stream.write_all(format!("{rest}{ECHO}").as_bytes()).expect("it is read");
        let answer = read_answer(&mut stream);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{length}: {answer}");
    }
}

#[test]
fn small_pieces_of_an_answer_do_not_wait_for_the_client() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let sent_at_once = runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (_client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (stream, peer) = accepted.expect("a connection");
        assert!(!stream.nodelay().expect("a socket"), "the system's default");
        send_at_once(&stream, peer);
        stream.nodelay()
    });
    assert!(sent_at_once.expect("a socket"));
}

#[test]
fn a_client_that_has_said_all_gets_its_answer() {
    let server = start(options());
    let mut stream = server.connect();
    send(&mut stream, ECHO);
    stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    assert!(read_answer(&mut stream).starts_with("HTTP/1.1 200"));
}

/// Of connections that stay open: electrs 0.12 ends when a request of its is lost.
#[test]
fn requests_that_are_there_when_the_server_ends_are_answered() {
    for _ in 0..20 {
        let server = start(options());
        let mut clients: Vec<_> = (0..16).map(|_| server.connect()).collect();
        for client in &mut clients {
            send(client, ECHO);
            assert!(read_answer(client).starts_with("HTTP/1.1 200"));
        }
        clients.iter_mut().for_each(|client| send(client, ECHO));
        drop(server);
        for client in &mut clients {
            let answer = read_answer(client);
            let is_answered =
                answer.starts_with("HTTP/1.1 200") || answer.contains("Shutting down");
            assert!(is_answered, "{answer:?}");
            assert_eq!(client.read(&mut [0]).expect("a socket"), 0, "and the connection ends");
        }
    }
}

fn get(server: &Running, target: &str, body: &str) -> String {
    let mut stream = server.connect();
    let length = body.len();
    let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    let (Ok(()) | Err(_)) = stream.write_all(format!("{head}{body}").as_bytes());
    read_answer(&mut stream)
}

#[test]
fn resources_need_no_login_and_what_is_sent_for_them_is_small() {
    let interfaces = Interfaces { rest: true, ..Interfaces::default() };
    let server = start(ServerOptions { interfaces, ..options() });
    let answer = get(&server, "/rest/chaininfo.json", "");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("application/json"), "{answer}");
    assert!(get(&server, "/rest/x", "").starts_with("HTTP/1.1 404"));
    assert!(get(&server, "http://a/rest/chaininfo.json", "").starts_with("HTTP/1.1 404"));
    assert!(get(&server, "/", "{}").starts_with("HTTP/1.1 401"), "methods need one");
    let sent = |bytes: usize| get(&server, "/rest/chaininfo.json", &" ".repeat(bytes));
    assert!(sent(64 << 10).starts_with("HTTP/1.1 200"));
    assert!(sent((64 << 10) + 1).starts_with("HTTP/1.1 413"));
    let without = start(options());
    assert!(get(&without, "/rest/chaininfo.json", "").starts_with("HTTP/1.1 404"));
}

/// A request with nothing in it but what is given.
fn raw(server: &Running, request: &str) -> String {
    let mut stream = server.connect();
    stream.write_all(request.as_bytes()).expect("it is read");
    read_answer(&mut stream)
}

#[test]
fn calls_are_answered_at_the_paths_of_wallets_too() {
    let server = start(options());
    let at = |target: &str, body: &str| {
        let head = head(&format!("Content-Length: {}", body.len()));
        raw(&server, &format!("{}{body}", head.replacen("POST /", &format!("POST {target}"), 1)))
    };
    for target in ["/wallet/", "/wallet/savings", "/wallet/a%20b", "/wallet/a/b", "/wallet/a?b"] {
        assert!(at(target, ECHO).starts_with("HTTP/1.1 200"), "{target}");
    }
    // There are no wallets.
    let answer = at("/wallet/savings", r#"{"method":"getbalance","id":1}"#);
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("-32601"), "{answer}");
    for target in [
        "/wallet",
        "/wallets/a",
        "//wallet/a",
        "/Wallet/a",
        "/?",
        "/?a",
        "http://a/",
        "http://a/wallet/a",
    ] {
        let answer = at(target, ECHO);
        assert!(answer.starts_with("HTTP/1.1 404") && answer.ends_with("\r\n\r\n"), "{target}");
    }
    assert!(get(&server, "/wallet/savings", ECHO).starts_with("HTTP/1.1 401"));
    let answer = raw(&server, "PUT /wallet/savings HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
}

#[test]
fn headers_are_written_as_core_writes_them() {
    let server = start(options());
    let answer = server.ask(ECHO);
    for header in ["Content-Type: application/json", "Content-Length: ", "Date: "] {
        assert!(answer.contains(&format!("\r\n{header}")), "{answer}");
    }
    let answer = get(&server, "/", "");
    assert!(answer.contains("\r\nContent-Type: text/html; charset=ISO-8859-1\r\n"), "{answer}");
}

/// Heads without their bodies, and the status with which they are refused.
fn refused_by_their_heads() -> Vec<(String, u16)> {
    let of = |line: &str, login: &str| format!("{line} HTTP/1.1\r\nHost: a\r\n{login}");
    vec![
        (of("POST /", ""), 401),
        (of("POST /", "Authorization: Basic eDp5\r\n"), 401),
        (of("POST /x", ""), 404),
        (of("PUT /", ""), 405),
        (of("DELETE /", ""), 405),
    ]
}

#[test]
fn what_is_refused_is_read_first_and_the_connection_stays() {
    let server = start(options());
    let most = 64 << 10;
    for (head, status) in refused_by_their_heads() {
        for (length, stays) in [(0, true), (10, true), (most, true), (most + 1, false)] {
            let mut stream = server.connect();
            let head = format!("{head}Content-Length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).expect("it is read");
            std::thread::sleep(Duration::from_millis(100));
            let (Ok(()) | Err(_)) = stream.write_all(" ".repeat(length).as_bytes());
            let answer = read_answer(&mut stream);
            let what = format!("{head:?}: {answer}");
            if stays {
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}");
                assert!(!answer.contains("onnection: close"), "{what}");
                send(&mut stream, ECHO);
                assert!(read_answer(&mut stream).starts_with("HTTP/1.1 200"), "{what}");
            } else {
                assert!(answer.is_empty() || answer.contains("Connection: close"), "{what}");
                assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "it is closed: {what}");
            }
        }
    }
}

#[test]
fn what_is_refused_may_come_in_chunks_and_must_not_be_broken() {
    let server = start(options());
    for (head, status) in refused_by_their_heads() {
        let with = |body: &str| format!("{head}Transfer-Encoding: chunked\r\n\r\n{body}");
        let answer = raw(&server, &with("2\r\n{}\r\n0\r\n\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        let answer = raw(&server, &with("zz\r\n{}\r\n0\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer}");
        assert!(answer.contains("Connection: close"), "{answer}");
    }
}

#[test]
fn resources_are_not_there_yet_while_the_node_starts() {
    let interfaces = Interfaces { rest: true, ..Interfaces::default() };
    let options = ServerOptions { interfaces, ..options() };
    let address = options.addresses[0];
    let server = Server::start(options).expect("it starts");
    server.starting().say("Loading block index…");
    let (_, node) = node();
    let running = Running { _node: node, _server: server, address };
    let answer = get(&running, "/rest/headers/x.bin", "");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(
        answer.ends_with("Service temporarily unavailable: Loading block index…\r\n"),
        "{answer}"
    );
    // What is wrong with a part is said before.
    let answer = get(&running, "/rest/blockpart/x.bin?size=1", "");
    assert!(answer.ends_with("Block part offset missing or invalid\r\n"), "{answer}");
}

#[test]
fn the_end_does_not_wait_for_a_stop_that_was_to_come_later() {
    let server = start(options());
    let stage = server._server.stage.clone();
    let sleeping = std::thread::spawn(move || stage.sleep(LONG));
    drop(server);
    sleeping.join().expect("it is woken");
}

#[test]
fn addresses_that_are_taken_are_named_in_one_line() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = taken.local_addr().expect("an address");
    let both = ServerOptions { addresses: vec![address, address], ..options() };
    let error = Server::start(both).err().expect("it is taken").to_string();
    assert_eq!(error.lines().count(), 1);
    assert_eq!(error.matches(&address.to_string()).count(), 2, "{error}");
    // One that is free is enough.
    let one = ServerOptions { addresses: vec![address, free_port()], ..options() };
    assert!(Server::start(one).is_ok());
    // So it is where addresses overlap, or are named twice.
    let port = free_port().port();
    let addresses = [[0, 0, 0, 0], [127, 0, 0, 1], [127, 0, 0, 1]].map(|ip| (ip, port).into());
    for addresses in [addresses.to_vec(), addresses[1..].to_vec()] {
        assert!(Server::start(ServerOptions { addresses, ..options() }).is_ok());
    }
}

/// `bitcoin-cli -rpcwait` reads the cookie once before each attempt, and gives up where a server refuses it.
#[test]
fn who_finds_the_server_finds_its_cookie() {
    for _ in 0..30 {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(".cookie");
        let cookie = CookieFile {
            path: path.clone(),
            permissions: CookiePermissions::Owner,
            of: dir.path().to_owned(),
        };
        let options = ServerOptions { cookie: Some(cookie), ..options() };
        let address = options.addresses[0];
        let client = std::thread::spawn(move || {
            while std::net::TcpStream::connect(address).is_err() {}
            path.exists()
        });
        let server = Server::start(options).expect("it starts");
        assert!(client.join().expect("no panic"));
        drop(server);
    }
}
