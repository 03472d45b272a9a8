//! Clients that ask a node one thing again and again, each on a connection of its own.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What the node is given as user and password.
pub(super) const LOGIN: [&str; 2] = ["-rpcuser=godwit", "-rpcpassword=godwit"];
/// The same as HTTP's basic authentication sends it.
const CREDENTIALS: &str = "Z29kd2l0OmdvZHdpdA==";
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getblockchaininfo"}"#;

const RESULT: &[u8] = b"\"result\":";

/// Longest that an answer may take; none of a node that works does.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts to connect, while the node starts and after it has ended.
const RETRY: Duration = Duration::from_millis(20);
/// Longest body of an answer that is taken: it has some hundred bytes.
const LONGEST: usize = 1 << 20;

/// What one client heard.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// Seconds from a call to the end of its answer, of those with a result.
    pub(super) seconds: Vec<f64>,
    /// Answers without one: the node starts, or has too much to do.
    pub(super) refused: u64,
    /// Connections that ended before their answer: those to a node that ends among them, sometimes two.
    pub(super) lost: u64,
}

/// Threads that ask until they are told to stop.
pub(super) struct Clients {
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Heard>>,
}

impl Clients {
    /// Each asks once in `pause`, at times spread over it, or without a pause.
    pub(super) fn start(port: u16, count: u32, pause: Option<Duration>) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let threads = (0..count).map(|number| {
            let stopped = Arc::clone(&stopped);
            let pace = pause.map(|pause| (pause * number / count, pause));
            thread::spawn(move || ask_until_stopped(port, pace, &stopped))
        });
        let threads = threads.collect();
        Self { stopped, threads }
    }

    /// What each of them heard.
    pub(super) fn stop(self) -> Vec<Heard> {
        self.stopped.store(true, Ordering::Relaxed);
        let threads = self.threads.into_iter();
        threads.map(|thread| thread.join().expect("no client panics")).collect()
    }
}

fn ask_until_stopped(port: u16, pace: Option<(Duration, Duration)>, stopped: &AtomicBool) -> Heard {
    let mut heard = Heard::default();
    let mut due = Instant::now() + pace.map_or(Duration::ZERO, |(first, _)| first);
    let mut connection = None;
    while !stopped.load(Ordering::Relaxed) {
        let Some(stream) = connection.as_mut() else {
            connection = connect(port).ok();
            if connection.is_none() {
                thread::sleep(RETRY);
            }
            continue;
        };
        if let Some((_, pause)) = pace {
            // A call that is late is not made up for.
            thread::sleep(due.saturating_duration_since(Instant::now()));
            due = (due + pause).max(Instant::now());
        }
        let started = Instant::now();
        match ask(stream) {
            Ok(true) => heard.seconds.push(started.elapsed().as_secs_f64()),
            Ok(false) => heard.refused += 1,
            Err(_) => {
                heard.lost += 1;
                connection = None;
            }
        }
    }
    heard
}

fn connect(port: u16) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(stream))
}

/// One call; whether its answer has a result.
fn ask(stream: &mut BufReader<TcpStream>) -> io::Result<bool> {
    let length = CALL.len();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {CREDENTIALS}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{CALL}"
    );
    stream.get_mut().write_all(request.as_bytes())?;
    let body = read_body(stream)?;
    // An error has none in JSON-RPC 2.0.
    Ok(body.windows(RESULT.len()).any(|part| part == RESULT))
}

/// The body of an answer whose head says how long it is.
fn read_body(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let broken = || io::Error::from(ErrorKind::InvalidData);
    let mut length = None;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = Some(value.trim().parse::<usize>().map_err(|_| broken())?);
        }
    }
    let mut body = vec![0; length.filter(|length| *length <= LONGEST).ok_or_else(broken)?];
    stream.read_exact(&mut body)?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_body_is_as_long_as_its_head_says() {
        let mut text =
            &b"HTTP/1.1 200 OK\r\nContent-length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n\r\n"[..];
        assert_eq!(read_body(&mut text).unwrap(), b"abc");
        assert_eq!(read_body(&mut text).unwrap_err().kind(), ErrorKind::InvalidData, "no length");
        assert_eq!(read_body(&mut text).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let long = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", LONGEST + 1);
        assert_eq!(read_body(&mut long.as_bytes()).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    /// Answers with a result, an error and the end of the connection, in turns.
    #[test]
    fn results_refusals_and_lost_answers_are_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            for _ in 0..2 {
                let (stream, _) = listener.accept().unwrap();
                let mut stream = BufReader::new(stream);
                for body in [r#"{"jsonrpc":"2.0","result":{},"id":1}"#, r#"{"error":{"code":-28}}"#]
                {
                    assert_eq!(read_body(&mut stream).unwrap(), CALL.as_bytes());
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                    stream.get_mut().write_all((head + body).as_bytes()).unwrap();
                }
                read_body(&mut stream).unwrap();
            }
        });
        let clients = Clients::start(port, 1, None);
        server.join().unwrap();
        let heard = clients.stop();
        assert_eq!((heard.len(), heard[0].seconds.len(), heard[0].refused), (1, 2, 2));
        // The system may have taken one more connection for the server before its end.
        assert!((2..=3).contains(&heard[0].lost), "{}", heard[0].lost);
    }
}
