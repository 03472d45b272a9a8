//! Makes one JSON-RPC request over HTTP, for the programs that ask a node.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use godwit_rpc::Json;

/// HTTP's status of a wrong login.
const UNAUTHORIZED: u16 = 401;

/// Where the server is.
pub struct Server {
    pub host: String,
    pub port: u16,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// How to log in.
pub struct Login {
    pub user: String,
    /// Where there is none, the cookie counts.
    pub password: Option<String>,
    /// `None` for `-norpccookiefile`.
    pub cookie: Option<PathBuf>,
    /// For messages.
    pub config_file: PathBuf,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum CallError {
    /// Nobody answers; it may be worth trying again.
    Connection(String),
    Other(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Connection(text) | Self::Other(text)) = self;
        f.write_str(text)
    }
}

impl Server {
    /// Sends a request, perhaps for a wallet, and reads the answer.
    ///
    /// # Errors
    ///
    /// There is no answer in JSON.
    pub fn call(
        &self,
        login: &Login,
        wallet: Option<&str>,
        request: &str,
    ) -> Result<Json, CallError> {
        let endpoint = match wallet {
            Some(name) => format!("/wallet/{}", url_encoded(name)),
            None => "/".to_owned(),
        };
        let unreachable = |error: io::Error| {
            let why = match error.kind() {
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "timeout".to_owned(),
                io::ErrorKind::ConnectionRefused => "Could not connect to the server".to_owned(),
                _ => error.to_string(),
            };
            CallError::Connection(format!(
                "Error while attempting to communicate with server {}:{} ({why})\n\nMake sure the godwit \
                 server is running and that you are connecting to the correct RPC port.\nUse \"godwit-cli \
                 -help\" for more info.",
                self.host, self.port
            ))
        };
        let (status, body, from) =
            self.post_logged_in(&endpoint, login, request).map_err(unreachable)?;
        let other = |text: String| Err(CallError::Other(text));
        match status {
            UNAUTHORIZED => return other(login.refused(from)),
            503 => return other(format!("Server response: {}", String::from_utf8_lossy(&body))),
            400 | 404 | 500 => {}
            status if status >= 400 => {
                return other(format!("server returned HTTP error {status}"));
            }
            _ => {}
        }
        if body.is_empty() {
            return other("no response from server".to_owned());
        }
        match Json::parse(&body) {
            Some(json) => Ok(json),
            None => other("couldn't parse reply from server".to_owned()),
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "Could not resolve host");
        let addresses = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|_| io::Error::other(format!("Could not resolve host: {}", self.host)))?;
        for address in addresses {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Posts once more where the cookie has become another one meanwhile: the server may have been started in
    /// between, and a bitcoind listens before it writes its cookie.
    fn post_logged_in(
        &self,
        endpoint: &str,
        login: &Login,
        body: &str,
    ) -> io::Result<(u16, Vec<u8>, From)> {
        let (credentials, from) = login.credentials();
        let (status, answer) = self.post(endpoint, &credentials, body)?;
        if status == UNAUTHORIZED && from != From::Password {
            let (now, from) = login.credentials();
            if from == From::Cookie && now != credentials {
                let (status, answer) = self.post(endpoint, &now, body)?;
                return Ok((status, answer, from));
            }
        }
        Ok((status, answer, from))
    }

    fn post(&self, endpoint: &str, credentials: &str, body: &str) -> io::Result<(u16, Vec<u8>)> {
        let started = Instant::now();
        let mut stream = self.connect()?;
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\nContent-Type: \
             application/json\r\nAuthorization: Basic {}\r\n\r\n",
            endpoint,
            self.host,
            body.len() + 1,
            BASE64.encode(credentials.as_bytes()),
        );
        stream.set_write_timeout(Some(self.timeout))?;
        // A server that refuses has answered already, and reads no more.
        let sent = stream
            .write_all(request.as_bytes())
            .and_then(|()| stream.write_all(body.as_bytes()))
            .and_then(|()| stream.write_all(b"\n"));
        let mut answer = Answer { stream, buffer: Vec::new(), started, timeout: self.timeout };
        match (answer.read(), sent) {
            (Ok(answer), _) => Ok(answer),
            (Err(_), Err(error)) | (Err(error), Ok(())) => Err(error),
        }
    }
}

/// An answer as it arrives.
struct Answer {
    stream: TcpStream,
    /// What arrived and was not taken.
    buffer: Vec<u8>,
    started: Instant,
    timeout: Duration,
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("HTTP error: {what}"))
}

impl Answer {
    /// Reads more; `false` at the end.
    fn more(&mut self) -> io::Result<bool> {
        let left = self.timeout.saturating_sub(self.started.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut chunk = [0; 1 << 16];
        let count = self.stream.read(&mut chunk)?;
        self.buffer.extend_from_slice(&chunk[..count]);
        Ok(count > 0)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut seen = 0;
        loop {
            if let Some(end) = self.buffer[seen..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=seen + end).collect();
                let text = String::from_utf8_lossy(&line);
                return Ok(text.trim_end_matches(['\r', '\n']).to_owned());
            }
            seen = self.buffer.len();
            if !self.more()? {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "EOF"));
            }
        }
    }

    fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            if !self.more()? {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "EOF"));
            }
        }
        let rest = self.buffer.split_off(count);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// The status and the body.
    fn read(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let first = self.line()?;
        let status = first.strip_prefix("HTTP/").and_then(|rest| rest.split(' ').nth(1));
        let status = status.and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| malformed("Invalid status line"))?;
        let (mut length, mut chunked) = (None, false);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) =
                line.split_once(':').ok_or_else(|| malformed("Header missing colon (:)"))?;
            match name.trim().to_ascii_lowercase().as_str() {
                "content-length" => {
                    let number = value.trim().parse::<usize>();
                    length = Some(number.map_err(|_| malformed("Invalid Content-Length"))?);
                }
                "transfer-encoding" => chunked = value.to_ascii_lowercase().contains("chunked"),
                _ => {}
            }
        }
        let body = match length {
            _ if chunked => self.chunks()?,
            Some(length) => self.take(length)?,
            None => {
                while self.more()? {}
                std::mem::take(&mut self.buffer)
            }
        };
        Ok((status, body))
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size =
                usize::from_str_radix(size, 16).map_err(|_| malformed("Invalid chunk size"))?;
            if size == 0 {
                return Ok(body);
            }
            body.extend(self.take(size)?);
            self.line()?;
        }
    }
}

/// Where the credentials came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Password,
    Cookie,
    UnreadableCookie,
    Nowhere,
}

impl Login {
    fn credentials(&self) -> (String, From) {
        if let Some(password) = &self.password {
            return (format!("{}:{password}", self.user), From::Password);
        }
        let Some(path) = &self.cookie else { return (String::new(), From::Nowhere) };
        match fs::read_to_string(path) {
            Ok(text) => (text.lines().next().unwrap_or_default().to_owned(), From::Cookie),
            Err(_) => (String::new(), From::UnreadableCookie),
        }
    }

    fn refused(&self, from: From) -> String {
        let why = match from {
            From::UnreadableCookie => {
                "Failed to read cookie file and no rpcpassword was specified."
            }
            From::Nowhere => {
                "Cookie file was disabled via -norpccookiefile and no rpcpassword was specified."
            }
            From::Cookie => {
                "Cookie file credentials were invalid and no rpcpassword was specified."
            }
            From::Password => "Incorrect rpcuser or rpcpassword were specified.",
        };
        format!("Authorization failed: {why} Configuration file: ({})", self.config_file.display())
    }
}

fn url_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02x}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Reads a request, whose body is `{}` and a line's end; how it logs in.
    fn login_of(stream: &TcpStream) -> String {
        let mut request = BufReader::new(stream);
        let head: Vec<String> = request
            .by_ref()
            .lines()
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
            .collect();
        request.read_exact(&mut [0; 3]).expect("a body");
        let login = head.iter().find_map(|line| line.strip_prefix("Authorization: Basic "));
        let login = BASE64.decode(login.expect("a login").as_bytes()).expect("base64");
        String::from_utf8(login).expect("text")
    }

    /// A server that answers so often, writes a cookie between reading a request and answering it, and takes
    /// that cookie alone; what it was shown.
    fn ask(before: Option<&str>, written: Option<&str>, answers: usize) -> (String, Vec<String>) {
        let dir = tempfile::tempdir().expect("a directory");
        let cookie = dir.path().join(".cookie");
        before.inspect(|text| fs::write(&cookie, text).expect("a file"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let login = Login {
            user: String::new(),
            password: None,
            cookie: Some(cookie.clone()),
            config_file: PathBuf::from("godwit.conf"),
        };
        let server = Server { host: "127.0.0.1".into(), port, timeout: Duration::from_secs(60) };
        thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let mut shown = Vec::new();
                for _ in 0..answers {
                    let (mut stream, _) = listener.accept().expect("a client");
                    shown.push(login_of(&stream));
                    written.inspect(|text| fs::write(&cookie, text).expect("a file"));
                    let is_right = shown.last().map(String::as_str) == written;
                    let answer = match is_right {
                        true => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull",
                        false => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
                    };
                    stream.write_all(answer.as_bytes()).expect("it reads");
                }
                shown
            });
            let said = match server.call(&login, None, "{}") {
                Ok(json) => json.write(),
                Err(error) => error.to_string(),
            };
            (said, serving.join().expect("no panic"))
        })
    }

    #[test]
    fn a_cookie_that_was_written_meanwhile_is_taken() {
        assert_eq!(ask(None, Some("a:1"), 2), ("null".into(), vec![String::new(), "a:1".into()]));
        let both = vec!["old:0".to_owned(), "a:1".to_owned()];
        assert_eq!(ask(Some("old:0"), Some("a:1"), 2), ("null".into(), both));
        assert_eq!(ask(Some("a:1"), Some("a:1"), 1), ("null".into(), vec!["a:1".into()]));
    }

    #[test]
    fn a_login_that_is_wrong_is_refused_at_once() {
        let (said, shown) = ask(None, None, 1);
        assert!(said.contains("Failed to read cookie file"), "{said}");
        assert_eq!(shown, [""]);
        let (said, shown) = ask(Some("old:0"), None, 1);
        assert!(said.contains("Cookie file credentials were invalid"), "{said}");
        assert_eq!(shown, ["old:0"]);
    }

    #[test]
    fn wallets_are_encoded() {
        assert_eq!(url_encoded("a b/ü"), "a%20b%2f%c3%bc");
    }
}
