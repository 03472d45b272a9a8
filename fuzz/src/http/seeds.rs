//! Requests as clients send them, and as nobody should; each in several forms.

use super::twin::LOGINS;
use super::{CUT, FILL, PAUSE, Terms};

/// A call with a login.
fn call(user: usize, headers: &str, body: &str) -> String {
    let login = String::from_utf8_lossy(LOGINS[user].1);
    format!("POST / HTTP/1.1\r\nAuthorization: Basic {login}\r\n{headers}\r\n{body}")
}

fn call_with_length(user: usize, body: &str) -> String {
    call(user, &format!("Content-Length: {}\r\n", body.len()), body)
}

const STRANGER: &str = "POST / HTTP/1.1\r\nHost: a\r\n";

const RESOURCE: &str = "GET /rest/block/00.json?a=b HTTP/1.1\r\nHost: a\r\n\r\n";

/// Several requests, and forms that are seldom seen.
fn odd() -> Vec<String> {
    let plain = call_with_length(0, "{}");
    let chunked = |body: &str| call(1, "Transfer-Encoding: chunked\r\n", body);
    let hidden = call_with_length(1, "[1]");
    vec![
        format!("{plain}{hidden}{plain}"),
        format!("{}{}{plain}", call_with_length(0, "n"), call_with_length(1, "d")),
        format!("{}{plain}", chunked("2\r\n{}\r\n1;a=\"b\"\r\n \r\n0\r\n\r\n")),
        format!("{}{plain}", chunked("1 \r\na\r\n000\r\nA: b\r\n\r\n")),
        chunked("2\r\n{}\r\nffffffffffffffff\r\n"),
        chunked("zz\r\n"),
        call(0, "Content-Length: 30000000\r\n", ""),
        call(0, "Content-Length: 40000000\r\n", ""),
        call(0, "Content-Length: 2\r\nContent-Length: 2\r\n", "{}"),
        call(0, "Content-Length: 2\r\nContent-Length: 3\r\n", "{}{}"),
        call(0, "Content-Length: +2\r\n", "{}"),
        call(0, "Content-Length: 3\r\nExpect: 100-continue\r\n", "[1]"),
        call(0, "Connection: close\r\nContent-Length: 2\r\n", &format!("{{}}{hidden}")),
        format!("\r\n\n{}", plain.replace("\r\n", "\n")),
        plain.replace("HTTP/1.1", "HTTP/1.0"),
        plain.replace("1.1\r\n", "1.0\r\nConnection: keep-alive\r\n").repeat(2),
        plain.replace("POST / ", "POST /wallet/a%20b "),
        plain.replace("POST / ", "POST http://a/ "),
        plain.replace("POST / ", "POST /#a "),
        plain.replace("Authorization: ", "Authorization: Basic eDp5\r\nAuthorization: "),
        plain.replace("Authorization:", "Authorization:\r\n "),
        plain.replace("Authorization:", "Authorization :"),
        format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{plain}"),
        format!("{STRANGER}Upgrade: h2c\r\nConnection: upgrade\r\n\r\n{plain}"),
        format!("CONNECT a:1 HTTP/1.1\r\n\r\n{plain}"),
    ]
}

/// A request in the body of another one, for one reader or another.
fn hidden() -> Vec<String> {
    let hidden = call_with_length(1, "[1]");
    let framings = [
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: x\r\n",
        "Content-Length: x\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        " Transfer-Encoding: chunked\r\n",
        "A: b\nTransfer-Encoding: chunked\r\n",
        "A: b\rTransfer-Encoding: chunked\r\n",
        "Content-Length: 0\r\n",
    ];
    let length = format!("Content-Length: {}\r\n", hidden.len() + 5);
    let body = format!("0\r\n\r\n{hidden}");
    let framings = framings.into_iter().chain([&*length]);
    let texts = framings
        .flat_map(|framing| [format!("{STRANGER}{framing}\r\n{body}"), call(0, framing, &body)]);
    texts.collect()
}

/// What is refused by its head, and a call behind it.
fn refused() -> Vec<String> {
    let heads = [
        "POST /x HTTP/1.1\r\n\r\n",
        "PUT / HTTP/1.1\r\n\r\n",
        "HEAD / HTTP/1.1\r\n\r\n",
        "DELETE / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab",
        "POST / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n",
        "POST / HTTP/1.1\r\nAuthorization: Basic eDp5\r\n\r\n",
    ];
    heads.map(|head| head.to_owned() + &call_with_length(0, "{}")).to_vec()
}

/// Texts with the terms that they need.
fn texts() -> Vec<(u8, String)> {
    let plain = call_with_length(0, "{}");
    let mut texts: Vec<(u8, String)> =
        [odd(), hidden(), refused()].concat().into_iter().map(|text| (0, text)).collect();
    texts.extend([
        (Terms::SERVES_RESOURCES, RESOURCE.repeat(2)),
        (Terms::SERVES_RESOURCES, RESOURCE.replace("GET", "HEAD").repeat(2)),
        (Terms::READS_LITTLE | Terms::SERVES_RESOURCES, RESOURCE.repeat(40)),
        (Terms::OTHERS_WAIT, plain.repeat(2)),
        (Terms::FULL, plain.repeat(2)),
        (Terms::STOPS, plain.clone()),
        (Terms::GONE, plain.clone()),
        (Terms::STAYS, plain[..40].to_owned()),
        (Terms::STAYS, call(0, "Content-Length: 3\r\n", "{}")),
    ]);
    texts
}

fn input(terms: u8, parts: &[&[u8]]) -> Vec<u8> {
    [vec![terms], parts.concat()].concat()
}

/// Each text at once, in two pieces, byte by byte, and with a pause in it.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (terms, text) in texts() {
        let (first, second) = text.as_bytes().split_at(text.len() / 2);
        seeds.push(input(terms, &[text.as_bytes()]));
        seeds.push(input(terms, &[first, &[CUT], second]));
        seeds.push(input(terms | Terms::SINGLE, &[text.as_bytes()]));
        seeds.push(input(terms, &[first, &[PAUSE, 3], second]));
    }
    // Silence for longer than the server waits, in a head and in a body.
    let call = call(0, "Content-Length: 4\r\n", "[1, ");
    for place in [20, call.len() - 2] {
        let (first, second) = call.as_bytes().split_at(place);
        seeds.push(input(0, &[first, &[PAUSE, 110], second]));
    }
    seeds.extend(large_heads());
    seeds.extend(large_bodies());
    seeds
}

/// Around the limit of heads.
fn large_heads() -> Vec<Vec<u8>> {
    let small = call_with_length(0, "{}");
    let (small, start) = (small.as_bytes(), b"POST / HTTP/1.1\r\nA:");
    let login = b"Authorization: Basic YTo=\r\n\r\n";
    let mut seeds = Vec::new();
    for blocks in [30, 31, 32, 48, 64] {
        let fill = [FILL, blocks, b' '];
        let rest = [&fill[..], b"a\r\n", login, small].concat();
        seeds.push(input(0, &[start, &rest]));
        seeds.push(input(0, &[small, start, &rest]));
        // A part of the head is there together with the request before.
        seeds.push(input(0, &[small, start, &[b'a'; 500], &[CUT], &rest]));
    }
    seeds
}

/// Around the limits of bodies that are read and not kept, and of those of resources.
fn large_bodies() -> Vec<Vec<u8>> {
    let small = call_with_length(0, "{}");
    let fill = [FILL, 255, b' '];
    let mut seeds = Vec::new();
    for (target, length) in [("/", 65_536), ("/", 65_280), ("/rest/a", 65_536), ("/rest/a", 65_537)]
    {
        let head = format!("POST {target} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
        let rest = "x".repeat(length - 65_280) + &small;
        seeds.push(input(Terms::SERVES_RESOURCES, &[head.as_bytes(), &fill, rest.as_bytes()]));
    }
    for (target, login) in [("/", ""), ("/", "Authorization: Basic Yjo=\r\n"), ("/rest/a", "")] {
        let head = format!("POST {target} HTTP/1.1\r\n{login}Transfer-Encoding: chunked\r\n\r\n");
        for more in [256, 257] {
            let rest = format!("\r\n{more:x}\r\n{}\r\n0\r\n\r\n{small}", "y".repeat(more));
            let parts = [head.as_bytes(), b"ff00\r\n", &fill, rest.as_bytes()];
            seeds.push(input(Terms::SERVES_RESOURCES, &parts));
        }
    }
    seeds
}
