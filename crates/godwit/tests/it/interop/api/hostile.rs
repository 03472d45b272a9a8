//! Requests that mean no good, and some that only look like it, beside bitcoind.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::{bitcoind, free_port, wait_until};
use super::Answering;
use super::http::{Answer, CREDENTIALS, exchange, post, read};
use crate::node::Node;

/// Requests in odd forms.
fn odd_forms() -> Vec<Vec<u8>> {
    let with = |head: &str, body: &str| format!("{head}\r\n\r\n{body}").into_bytes();
    let auth = format!("Authorization: Basic {CREDENTIALS}\r\nConnection: close");
    vec![
        with(&format!("GET / HTTP/1.1\r\nHost: a\r\n{auth}"), ""),
        with(&format!("HEAD /x HTTP/1.1\r\nHost: a\r\n{auth}"), ""),
        with(&format!("DELETE / HTTP/1.1\r\nHost: a\r\n{auth}"), ""),
        with(&format!("POST /x HTTP/1.1\r\nHost: a\r\n{auth}\r\nContent-Length: 0"), ""),
        with(&format!("POST /?a HTTP/1.1\r\nHost: a\r\n{auth}\r\nContent-Length: 0"), ""),
        with(&format!("POST /? HTTP/1.1\r\nHost: a\r\n{auth}\r\nContent-Length: 0"), ""),
        with(
            &format!("POST / HTTP/1.1\r\nHost: evil.example\r\n{auth}\r\nContent-Length: 2"),
            "{}",
        ),
        with("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0", ""),
        with(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\nAuthorization: Basic eDp5",
            "",
        ),
        with(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\nAuthorization: Bearer x",
            "",
        ),
        // Smuggled.
        with(
            &format!(
                "POST / HTTP/1.1\r\nHost: a\r\n{auth}\r\nContent-Length: 2\r\nContent-Length: 3"
            ),
            "{}",
        ),
        with(&format!("POST / HTTP/1.1\r\nHost: a\r\n{auth}\r\nContent-Length: x"), "{}"),
        with(&format!("POST / HTTP/1.1\r\nHost: a\r\n{auth}\r\nContent-Length: -1"), "{}"),
        with(
            &format!("POST / HTTP/1.1\r\nHost: a\r\n{auth}\r\nTransfer-Encoding: chunked"),
            "zz\r\n{}\r\n0\r\n\r\n",
        ),
        with(
            &format!("POST / HTTP/1.1\r\nHost: a\r\n{auth}\r\nTransfer-Encoding: chunked"),
            "2;x=y\r\n{}\r\n0\r\n\r\n",
        ),
        with(&format!("POST / HTTP/1.1\r\nHost : a\r\n{auth}\r\nContent-Length: 2"), "{}"),
        with(&format!("POST / HTTP/1.1\r\nHost: a\r\n{auth}\r\nContent-Length: 99999999999"), "{}"),
        with(&format!("POST / HTTP/1.1\r\nHost: a\r\n{auth}\r\nContent-Length: 33554433"), "{}"),
        with("NONSENSE", ""),
    ]
}

/// Bodies that are no requests, or odd ones.
fn odd_bodies() -> Vec<Vec<u8>> {
    let deep = format!("{}1{}", "[".repeat(600), "]".repeat(600));
    let call = |text: &str| post(text);
    let batch = |count: usize| {
        let one = json!({ "jsonrpc": "2.0", "id": 1, "method": "getblockcount" }).to_string();
        post(&format!("[{}]", vec![one; count].join(",")))
    };
    vec![
        call(""),
        call("{"),
        call("1"),
        call("\"x\""),
        call("null"),
        call(&deep),
        call("\u{0}"),
        call(&"[".repeat(1_000_000)),
        call("[]"),
        call("[1]"),
        call("[{},null,[]]"),
        call("{}"),
        call(r#"{"method":1}"#),
        call(r#"{"method":"x"}"#),
        call(r#"{"method":"getblockcount","params":1}"#),
        call(r#"{"method":"getblockcount","params":null,"id":{"a":[1.50]}}"#),
        call(r#"{"method":"getblockcount","method":"getblockhash","id":1}"#),
        call(r#"{"jsonrpc":"3.0","method":"getblockcount"}"#),
        call(r#"{"jsonrpc":1,"method":"getblockcount"}"#),
        call(r#"{"jsonrpc":"1.0","method":"getblockcount"}"#),
        call(r#"{"jsonrpc":"2.0","method":"getblockcount"}"#),
        call(r#"{"jsonrpc":"2.0","method":"getblockcount","id":null}"#),
        call(r#"{"jsonrpc":"2.0","method":"x","id":1}"#),
        call(r#"{"jsonrpc":"2.0","id":7}"#),
        call(r#"{"jsonrpc":"2.0","method":"getblockhash","params":{"height":0},"id":1}"#),
        call(r#"{"jsonrpc":"2.0","method":"getblockhash","params":{"height":0,"x":1},"id":1}"#),
        call(
            r#"{"jsonrpc":"2.0","method":"getblockhash","params":{"height":0,"height":1},"id":1}"#,
        ),
        call(
            r#"{"jsonrpc":"2.0","method":"getblockhash","params":{"args":[0],"height":1},"id":1}"#,
        ),
        call(r#"{"jsonrpc":"2.0","method":"getblockhash","params":["a"],"id":1}"#),
        call(r#"{"method":"getblockhash","params":["a"],"id":1}"#),
        call(r#"[{"jsonrpc":"2.0","method":"getblockcount"}]"#),
        call(
            r#"[{"jsonrpc":"2.0","method":"getblockcount"},{"method":"x","id":2},{"jsonrpc":"2.0","method":"getblockcount","id":3}]"#,
        ),
        batch(1000),
    ]
}

/// What is compared of an answer.
fn seen(answer: Option<Answer>) -> (u16, Value) {
    answer.map_or((0, Value::Null), |answer| (answer.status, answer.json()))
}

#[test]
fn odd_requests_are_answered_as_by_bitcoind() {
    let Some(bitcoind) = bitcoind::start(&bitcoind::Start::default()) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let mut found = Vec::new();
    for request in [odd_forms(), odd_bodies()].concat() {
        let ours = seen(exchange(godwit.port, &request));
        let theirs = seen(exchange(bitcoind.rpc.port(), &request));
        if ours != theirs {
            let shown = String::from_utf8_lossy(&request).chars().take(300).collect::<String>();
            found.push(format!("{shown:?}: {ours:?} instead of {theirs:?}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Sends a head, later its body, and then another request on the same connection: the status of the first
/// answer, and whether the second one is there.
fn send_late(port: u16, head: &str) -> (u16, bool) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    stream.write_all(format!("{head}\r\nContent-Length: 10\r\n\r\n").as_bytes()).expect("read");
    std::thread::sleep(Duration::from_millis(100));
    let next = post(r#"{"method":"getblockcount"}"#);
    let (Ok(()) | Err(_)) = stream.write_all(&[b"0123456789", &next[..]].concat());
    let answer = read(&mut stream);
    let has_next = |answer: &Answer| String::from_utf8_lossy(&answer.body).contains("HTTP/1.1 200");
    answer.map_or((0, false), |answer| (answer.status, has_next(&answer)))
}

#[test]
fn bodies_that_come_late_are_read_as_by_bitcoind() {
    let Some(bitcoind) = bitcoind::start(&bitcoind::Start::default()) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    for (head, status) in [
        ("POST / HTTP/1.1\r\nHost: a", 401),
        ("POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic eDp5", 401),
        ("POST /x HTTP/1.1\r\nHost: a", 404),
        ("PUT / HTTP/1.1\r\nHost: a", 405),
        ("DELETE / HTTP/1.1\r\nHost: a", 405),
    ] {
        let answers = [godwit.port, bitcoind.rpc.port()].map(|port| send_late(port, head));
        assert_eq!(answers, [(status, true); 2], "{head}");
    }
}

#[test]
fn a_header_block_that_is_too_long_is_refused() {
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let long = format!("POST / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(9000));
    // Bitcoin Core says 400; hyper has a status of its own for this.
    assert_eq!(exchange(godwit.port, long.as_bytes()).map(|answer| answer.status), Some(431));
    // Lines are not counted.
    let request = String::from_utf8(post(r#"{"method":"getblockcount"}"#)).expect("text");
    let many = request.replacen("\r\n", &format!("\r\n{}", "X:\r\n".repeat(1900)), 1);
    assert_eq!(exchange(godwit.port, many.as_bytes()).map(|answer| answer.status), Some(200));
}

#[test]
fn many_sockets_and_slow_ones_keep_nobody_else_waiting_for_ever() {
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &["-rpcservertimeout=2".to_owned()]);
    let mut idle = Vec::new();
    for n in 0..200 {
        let mut stream = TcpStream::connect(("127.0.0.1", godwit.port)).expect("somebody listens");
        if n % 2 == 0 {
            stream.write_all(b"POST / HTTP/1.1\r\nHo").expect("it is read");
        }
        idle.push(stream);
    }
    // More than there are places for: they are given up after two seconds of silence.
    assert_eq!(godwit.call("getblockcount", &json!([])), 0);
    let length = 100;
    let mut slow = TcpStream::connect(("127.0.0.1", godwit.port)).expect("somebody listens");
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {CREDENTIALS}\r\nContent-Length: {length}\r\n\r\n"
    );
    slow.write_all(head.as_bytes()).expect("it is read");
    let started = Instant::now();
    assert!(read(&mut slow).is_none(), "closed without an answer");
    assert!(started.elapsed() < Duration::from_secs(60));
    drop(idle);
}

#[test]
fn a_queue_that_is_full_says_so() {
    let node = Node::new("regtest");
    let options = ["-rpcthreads=1", "-rpcworkqueue=1"].map(str::to_owned);
    let godwit = Answering::start(&node, &options);
    let port = godwit.port;
    let wait = json!({ "id": 1, "method": "waitforblockheight", "params": [1, 3000] }).to_string();
    let waits: Vec<_> = (0..8)
        .map(|_| {
            let wait = wait.clone();
            std::thread::spawn(move || exchange(port, &post(&wait)).expect("an answer"))
        })
        .collect();
    let answers: Vec<Answer> =
        waits.into_iter().map(|waits| waits.join().expect("it answers")).collect();
    let refused: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 503).collect();
    assert!(!refused.is_empty() && refused.len() < 8, "{answers:?}");
    assert!(refused.iter().all(|answer| answer.body == b"Work queue depth exceeded"));
}

#[test]
fn who_may_ask_and_what() {
    let node = Node::new("regtest");
    // User `rt` of Bitcoin Core's tests, beside that of all tests.
    let options = [
        "-rpcauth=rt:93648e835a54c573682c2eb19f882535$7681e9c5b74bdd85e78166031d2058e1069b3ed7ed967c93fc63abba06f31144",
        "-rpcwhitelist=godwit:getblockcount,getbestblockhash",
        "-rpcwhitelist=godwit:getblockcount,stop",
    ]
    .map(str::to_owned);
    let godwit = Answering::start(&node, &options);
    let status = |login: &str, body: &Value| {
        let (auth, body) = (base64(login), body.to_string());
        let length = body.len();
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {auth}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        exchange(godwit.port, request.as_bytes()).expect("an answer").status
    };
    let one = |method: &str| json!({ "id": 1, "method": method });
    let rt = "rt:cA773lm788buwYe4g4WT+05pKyNruVKjQ25x3n0DQcM=";
    let known = "godwit:godwit";
    assert_eq!(status(known, &one("getblockcount")), 200);
    assert_eq!(status(known, &one("getbestblockhash")), 403, "in one list of two");
    assert_eq!(status(known, &json!([one("getblockcount"), one("stop")])), 403);
    assert_eq!(status(rt, &one("getblockcount")), 403, "in no list");
    assert_eq!(status("rt:x", &one("getblockcount")), 401);
    assert_eq!(status("godwit:", &one("getblockcount")), 401);
    let started = Instant::now();
    assert_eq!(status("nobody:godwit", &one("getblockcount")), 401);
    assert!(started.elapsed() >= Duration::from_millis(250), "who guesses has to wait");
}

#[test]
fn the_cookie_lets_in_and_goes_with_the_node() {
    let node = Node::new("regtest");
    std::fs::create_dir_all(node.network_dir()).expect("a directory");
    let (cookie, victim) = (node.network_dir().join(".cookie"), node.beside("victim"));
    std::fs::write(&victim, "precious").expect("a file");
    symlink(&victim, node.network_dir().join(".cookie.tmp")).expect("a link");
    let port = free_port();
    let mut godwit = Answering::start_at(&node, port, &[]);
    wait_until("there is a cookie", || cookie.is_file());
    let text = std::fs::read_to_string(&cookie).expect("it is readable");
    let auth = base64(&text);
    let ask = || {
        let body = json!({ "id": 1, "method": "getblockcount" }).to_string();
        let length = body.len();
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {auth}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        exchange(port, request.as_bytes()).expect("an answer")
    };
    // The cookie is there before.
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    wait_until("it answers", || ask().status == 200);
    assert_eq!(std::fs::read_to_string(&victim).expect("it is there"), "precious");
    assert!(godwit.running.terminate().1.success());
    assert!(!cookie.exists());
}

/// Base64.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bytes = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        for n in 0..4 {
            match n <= chunk.len() {
                true => out.push(char::from(DIGITS[(bits >> (18 - 6 * n) & 63) as usize])),
                false => out.push('='),
            }
        }
    }
    out
}
