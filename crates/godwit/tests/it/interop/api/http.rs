//! Requests byte by byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);
/// `godwit:godwit`.
pub(super) const CREDENTIALS: &str = "Z29kd2l0OmdvZHdpdA==";

/// An answer.
#[derive(Debug)]
pub(in super::super) struct Answer {
    pub(in super::super) status: u16,
    /// What its bytes are, as it says.
    pub(in super::super) kind: String,
    pub(in super::super) body: Vec<u8>,
}

impl Answer {
    pub(in super::super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// Sends these bytes and reads until the server closes; `None` if it does so without an answer.
pub(in super::super) fn exchange(port: u16, request: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
    stream.set_write_timeout(Some(TIMEOUT)).expect("a socket");
    // A server that has seen enough may close before it has read everything.
    let (Ok(()) | Err(_)) = stream.write_all(request);
    let (Ok(()) | Err(_)) = stream.shutdown(Shutdown::Write);
    read(&mut stream)
}

/// Reads an answer and what follows it, to the end.
pub(super) fn read(stream: &mut TcpStream) -> Option<Answer> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 1 << 16]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("no end within {TIMEOUT:?}: {error}"),
        }
    }
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).expect("text");
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let kind = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let kind = kind.map_or_else(String::new, |(_, kind)| kind.to_owned());
    Some(Answer { status, kind, body: bytes.split_off(end + 4) })
}

/// A request for a resource, with nothing or something sent with it, of nobody in particular.
pub(in super::super) fn get(target: &str, body: &[u8]) -> Vec<u8> {
    let method = if body.is_empty() { "GET" } else { "POST" };
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A request with this body, of a user who may ask.
pub(super) fn post(body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {CREDENTIALS}\r\nContent-Length: \
         {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
