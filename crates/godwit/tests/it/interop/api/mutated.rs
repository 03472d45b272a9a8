//! Requests of HTTP that were good before they were mutated: each is answered with a status that the
//! documentation has, or the connection is closed. Nothing hangs or panics, and the next good request is
//! answered.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use godwit_rpc::code;
use godwit_sim::rng::Rng;
use serde_json::{Value, json};

use super::super::say;
use super::Answering;
use super::http::{CREDENTIALS, exchange, post};
use crate::node::Node;

/// Clients at once. Whoever shows a wrong password waits for a quarter of a second.
const THREADS: usize = 16;

/// Longer than the server is patient: with a client that is silent, that has not logged in, that reads
/// nothing.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Of so many requests one leaves the connection open behind it, and says nothing more.
const SILENT: u64 = 100;

/// Every status that JSON-RPC, REST and what is around them answer with (`docs/rpc.md`, `docs/rest.md`), and
/// that which asks for a body to be sent.
const STATUSES: &[u16] = &[100, 200, 204, 400, 401, 404, 405, 413, 431, 500, 503];

/// Every number that an error may have.
const CODES: &[i32] = &[
    code::INVALID_REQUEST,
    code::METHOD_NOT_FOUND,
    code::PARSE_ERROR,
    code::MISC_ERROR,
    code::TYPE_ERROR,
    code::INVALID_ADDRESS_OR_KEY,
    code::INVALID_PARAMETER,
    code::DATABASE_ERROR,
    code::DESERIALIZATION_ERROR,
    code::VERIFY_ERROR,
    code::VERIFY_REJECTED,
    code::LIMIT_EXCEEDED,
];

/// First block of regtest.
const GENESIS: &str = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206";

/// Calls that a changed byte does not make into one that ends the node, writes files, connects to somebody or
/// waits.
fn calls() -> Vec<Value> {
    let transaction =
        format!("0100000001{}ffffffff0100ffffffff0100000000000000000000000000", "00".repeat(32));
    let positional = [
        ("getblockcount", json!([])),
        ("getblockhash", json!([0])),
        ("getblock", json!([GENESIS, 2])),
        ("getblockheader", json!([GENESIS, false])),
        ("gettxout", json!([GENESIS, 0, true])),
        ("getblockstats", json!([0, ["txs", "height"]])),
        ("decodescript", json!(["76a914000000000000000000000000000000000000000088ac"])),
        ("decoderawtransaction", json!([transaction])),
        ("testmempoolaccept", json!([[transaction], 0.1])),
        ("sendrawtransaction", json!([transaction])),
        ("submitheader", json!(["00".repeat(80)])),
        ("validateaddress", json!(["bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"])),
        ("echo", json!([1.50, "é", null, { "a": [true] }])),
        ("help", json!(["getblock"])),
    ];
    let named = [
        ("getblock", json!({ "blockhash": GENESIS, "verbosity": 1 })),
        ("getblockhash", json!({ "args": [0] })),
        ("echo", json!({ "arg1": "b" })),
    ];
    let call = |version: &str, (method, params): (&str, Value)| {
        let mut call = json!({ "jsonrpc": version, "id": "x", "method": method });
        call["params"] = params;
        call
    };
    let mut calls: Vec<Value> =
        positional.into_iter().map(|positional| call("1.0", positional)).collect();
    calls.extend(named.into_iter().map(|named| call("2.0", named)));
    calls.push(json!({ "jsonrpc": "2.0", "method": "uptime" }));
    calls.push(Value::Array(calls.clone()));
    calls
}

/// Its only transaction.
const COINBASE: &str = "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b";

fn targets() -> [String; 8] {
    [
        "/rest/chaininfo.json".to_owned(),
        "/rest/blockhashbyheight/0.hex".to_owned(),
        format!("/rest/headers/{GENESIS}.bin?count=1"),
        format!("/rest/block/notxdetails/{GENESIS}.json"),
        format!("/rest/blockpart/{GENESIS}.hex?offset=80&size=9"),
        format!("/rest/getutxos/checkmempool/{COINBASE}-0.json"),
        format!("/rest/tx/{COINBASE}.json"),
        "/rest/mempool/contents.json?verbose=false".to_owned(),
    ]
}

/// The body in chunks of so many bytes, with an extension and a trailer.
fn in_chunks(body: &str, size: usize) -> String {
    let mut text = String::new();
    let mut rest = body;
    while !rest.is_empty() {
        let end = (size..=rest.len()).find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len());
        let (chunk, more) = rest.split_at(end);
        write!(text, "{:x};a=b\r\n{chunk}\r\n", chunk.len()).expect("a string takes all");
        rest = more;
    }
    text + "0\r\nX-Trailer: a\r\n\r\n"
}

/// Good requests, of all forms; some of them are refused for what they ask.
fn seeds() -> Vec<Vec<u8>> {
    let login = format!("Authorization: Basic {CREDENTIALS}\r\n");
    let with = |line: &str, lines: &str, body: &str| {
        let length = body.len();
        format!("{line}\r\nHost: 127.0.0.1\r\n{lines}Content-Length: {length}\r\n\r\n{body}")
    };
    let mut seeds = Vec::new();
    for call in calls() {
        let body = call.to_string();
        let chunked = format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{login}Transfer-Encoding: chunked\r\n\r\n{}",
            in_chunks(&body, 7)
        );
        seeds.extend([with("POST / HTTP/1.1", &login, &body), chunked]);
    }
    let body = json!({ "id": 1, "method": "getblockcount" }).to_string();
    let logged_in = |more: &str| format!("{login}{more}");
    let small = login.replace("Authorization: Basic", "authorization:basic");
    for (line, lines) in [
        ("POST /wallet/a%20b?c HTTP/1.1", logged_in("")),
        ("POST / HTTP/1.0", logged_in("")),
        ("POST / HTTP/1.0", logged_in("Connection: keep-alive\r\n")),
        ("POST / HTTP/1.1", logged_in("Connection: close\r\n")),
        ("POST / HTTP/1.1", logged_in("Expect: 100-continue\r\n")),
        ("POST / HTTP/1.1", logged_in("Upgrade: h2c\r\nConnection: Upgrade\r\n")),
        ("POST / HTTP/1.1", small),
        ("POST / HTTP/1.1", String::new()),
        ("POST http://127.0.0.1/ HTTP/1.1", logged_in("")),
        ("POST /x HTTP/1.1", logged_in("")),
        ("PUT / HTTP/1.1", logged_in("")),
        ("DELETE / HTTP/1.1", logged_in("")),
        ("OPTIONS * HTTP/1.1", logged_in("")),
        ("CONNECT a:1 HTTP/1.1", String::new()),
    ] {
        seeds.push(with(line, &lines, &body));
    }
    for target in targets() {
        seeds.push(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        seeds.push(with(&format!("POST {target} HTTP/1.1"), "", "{}"));
    }
    seeds.push("HEAD /rest/chaininfo.json HTTP/1.1\r\nHost: a\r\n\r\n".to_owned());
    seeds.into_iter().map(String::into_bytes).collect()
}

/// Signs of which HTTP and JSON consist, and some that are none.
const SIGNS: &[u8] = b"\0\t\n\r \"%*+,-./0:;=?@[\\]{}\x7f\x80\xff";

/// Lengths, for the body and for chunks.
const LENGTHS: [&str; 12] = [
    "",
    "0",
    "-1",
    "+2",
    "1",
    "00000002",
    "0x2",
    "65537",
    "33554433",
    "ffffffffffffffff",
    "18446744073709551616",
    "2, 2",
];

/// A request with one to four mutations.
fn mutated(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = one_of(seeds, rng).clone();
    for _ in 0..rng.log_between(1, 4) {
        mutate(&mut bytes, seeds, rng);
    }
    bytes
}

fn one_of<'a, T>(choices: &'a [T], rng: &mut Rng) -> &'a T {
    &choices[rng.below(choices.len() as u64) as usize]
}

fn mutate(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    let at = rng.below(bytes.len() as u64 + 1) as usize;
    let end = (at + rng.log_between(1, 64) as usize).min(bytes.len());
    match rng.below(11) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let twice = bytes[at..end].repeat(rng.log_between(1, 200) as usize);
            bytes.splice(at..at, twice);
        }
        3 => bytes.insert(at, *one_of(SIGNS, rng)),
        4 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
        5 if at < bytes.len() => bytes[at] = *one_of(SIGNS, rng),
        6 => replace_length(bytes, rng),
        // Another request behind it, or in its middle.
        7 => bytes.extend(one_of(seeds, rng)),
        8 => drop(bytes.splice(at..end, one_of(seeds, rng).iter().copied())),
        _ => shift_lines(bytes, seeds, rng),
    }
}

/// Gives the body or a chunk another length than it has.
fn replace_length(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let mut lines = lines_of(bytes);
    let is_length = |line: &&mut Vec<u8>| {
        line.starts_with(b"Content-Length:") || line.ends_with(b";a=b") || **line == b"0"
    };
    let mut lengths: Vec<&mut Vec<u8>> = lines.iter_mut().filter(is_length).collect();
    if lengths.is_empty() {
        return;
    }
    let at = rng.below(lengths.len() as u64) as usize;
    let name = if lengths[at].starts_with(b"Content") { "Content-Length: " } else { "" };
    let length: &&str = one_of(&LENGTHS, rng);
    *lengths[at] = format!("{name}{length}").into_bytes();
    *bytes = lines.join(&b"\r\n"[..]);
}

/// Doubles a line, moves it, ends it otherwise, or adds one of another request.
fn shift_lines(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    let mut lines = lines_of(bytes);
    let at = rng.below(lines.len() as u64) as usize;
    let to = rng.below(lines.len() as u64) as usize;
    match rng.below(5) {
        0 => lines.insert(to, lines[at].clone()),
        1 => lines.swap(at, to),
        2 => lines[at]
            .extend(one_of(&[&b"\n"[..], b"\r", b"\r\n ", b"\r\n\t", b"\r\n\r\n"], rng).iter()),
        3 => lines.insert(to, one_of(&lines_of(one_of::<Vec<u8>>(seeds, rng)), rng).clone()),
        _ => {
            let count = rng.log_between(1, 3000) as usize;
            let more = vec![lines[at].clone(); count.min(100_000 / (lines[at].len() + 1))];
            lines.splice(at..at, more);
        }
    }
    *bytes = lines.join(&b"\r\n"[..]);
}

fn lines_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = vec![Vec::new()];
    for (n, byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' if bytes.get(n + 1) == Some(&b'\n') => {}
            b'\n' if n > 0 && bytes[n - 1] == b'\r' => lines.push(Vec::new()),
            other => lines.last_mut().expect("there is one").push(*other),
        }
    }
    lines
}

/// What came back to the end, and whether the connection was reset, which loses what was not read yet.
struct Received {
    bytes: Vec<u8>,
    is_reset: bool,
}

fn send(port: u16, request: &[u8], is_silent: bool) -> Result<Received, String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
    stream.set_write_timeout(Some(TIMEOUT)).expect("a socket");
    // A server that has seen enough may close before it has read everything.
    let (Ok(()) | Err(_)) = stream.write_all(request);
    if !is_silent {
        let (Ok(()) | Err(_)) = stream.shutdown(Shutdown::Write);
    }
    let (mut bytes, mut chunk) = (Vec::new(), [0; 1 << 14]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(Received { bytes, is_reset: false }),
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                return Ok(Received { bytes, is_reset: true });
            }
            Err(error) => return Err(format!("no end within {TIMEOUT:?}: {error}")),
        }
    }
}

/// The statuses of all answers, or what is wrong with one.
fn look(received: &Received, has_heads: bool) -> Result<Vec<u16>, String> {
    let (mut statuses, mut rest) = (Vec::new(), &received.bytes[..]);
    while !rest.is_empty() {
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            let cut = received.is_reset.then_some(statuses);
            return cut.ok_or_else(|| format!("no answer: {}", shown(rest)));
        };
        let head = std::str::from_utf8(&rest[..end]).map_err(|error| error.to_string())?;
        let status: Option<u16> = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.filter(|status| STATUSES.contains(status));
        statuses.push(status.ok_or_else(|| format!("another answer: {}", shown(rest)))?);
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let length = header("content-length").map_or(Ok(0), str::parse::<usize>);
        let length = length.map_err(|_| format!("no length: {head}"))?;
        rest = &rest[end + 4..];
        // An answer to HEAD has the length of what it leaves out.
        if has_heads {
            return Ok(statuses);
        }
        match rest.split_at_checked(length) {
            Some((body, next)) => {
                if header("content-type") == Some("application/json") {
                    look_at_json(body)?;
                }
                rest = next;
            }
            None if received.is_reset => return Ok(statuses),
            None => return Err(format!("cut off: {head}")),
        }
    }
    Ok(statuses)
}

fn look_at_json(body: &[u8]) -> Result<(), String> {
    let json: Value =
        serde_json::from_slice(body).map_err(|_| format!("no JSON: {}", shown(body)))?;
    let one = std::slice::from_ref(&json);
    for reply in json.as_array().map_or(one, Vec::as_slice) {
        let Some(code) = reply.get("error").and_then(|error| error.get("code")) else { continue };
        let known =
            code.as_i64().is_some_and(|code| CODES.iter().any(|known| i64::from(*known) == code));
        if !known {
            return Err(format!("another error: {reply}"));
        }
    }
    Ok(())
}

fn shown(bytes: &[u8]) -> String {
    let text = bytes[..bytes.len().min(4_000)].escape_ascii().to_string();
    format!("\"{text}\" ({} bytes)", bytes.len())
}

/// The request of this number, and a good one behind it.
fn check(port: u16, seeds: &[Vec<u8>], number: u64) -> Result<Vec<u16>, String> {
    let mut rng = Rng::new(number);
    let request = mutated(seeds, &mut rng);
    let has_heads = request.windows(4).any(|four| four == b"HEAD");
    let statuses = send(port, &request, rng.below(SILENT) == 0)
        .and_then(|received| look(&received, has_heads))
        .map_err(|why| format!("request {number}, {}: {why}", shown(&request)))?;
    let good = exchange(port, &post(r#"{"id":1,"method":"getblockcount"}"#));
    let is_answered = good.as_ref().is_some_and(|answer| answer.json()["result"] == json!(0));
    if is_answered {
        return Ok(statuses);
    }
    Err(format!("behind request {number}, {}: {good:?}", shown(&request)))
}

fn so_many(count: u64) {
    let node = Node::new("regtest");
    let mut godwit =
        Answering::start(&node, &["-rest=1", "-rpcservertimeout=2"].map(str::to_owned));
    let (port, seeds, next) = (godwit.port, seeds(), AtomicU64::new(0));
    for seed in &seeds {
        let has_heads = seed.starts_with(b"HEAD");
        let statuses = send(port, seed, false).and_then(|received| look(&received, has_heads));
        assert!(
            statuses.as_ref().is_ok_and(|found| !found.is_empty()),
            "{statuses:?}: {}",
            shown(seed)
        );
    }
    let (failures, counts) = (Mutex::new(Vec::new()), Mutex::new([0_u64; 600]));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count || failures.lock().expect("nobody panicked").len() >= 10 {
                        return;
                    }
                    match check(port, &seeds, number) {
                        Ok(statuses) => {
                            let mut counts = counts.lock().expect("nobody panicked");
                            // Closed without an answer counts at 0.
                            counts[usize::from(statuses.first().copied().unwrap_or(0))] += 1;
                        }
                        Err(failure) => failures.lock().expect("nobody panicked").push(failure),
                    }
                }
            });
        }
    });
    let counts = counts.into_inner().expect("nobody panicked");
    let counts: Vec<_> = (0..).zip(counts).filter(|(_, count)| *count > 0).collect();
    say(&format!("{count} mutated requests, first answers by status: {counts:?}"));
    let failures = failures.into_inner().expect("nobody panicked");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    // The mutations leave many requests good enough for the methods, and break many for good.
    for status in [200, 400, 401, 404, 500] {
        assert!(counts.iter().any(|(found, _)| *found == status), "no {status} in {counts:?}");
    }
    assert!(godwit.running.terminate().1.success());
    assert!(!godwit.running.log().0.contains("panicked"));
}

#[test]
fn two_thousand_mutated_requests_are_answered_or_refused() {
    so_many(2_000);
}

#[test]
#[ignore = "soak"]
fn three_hundred_thousand_mutated_requests_are_answered_or_refused() {
    so_many(300_000);
}
