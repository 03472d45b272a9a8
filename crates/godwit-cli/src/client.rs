//! One request over HTTP.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use godwit_rpc::Json;

use crate::arguments::{Arguments, default_port};

/// Where the server is.
pub(crate) struct Server {
    host: String,
    port: u16,
    timeout: Duration,
}

/// How to log in.
pub(crate) struct Login {
    user: String,
    password: Option<String>,
    /// `None` for `-norpccookiefile`.
    cookie: Option<PathBuf>,
    config_file: PathBuf,
}

/// Why there is no answer.
pub(crate) enum CallError {
    /// Nobody answers; it may be worth to try again.
    Connection(String),
    Other(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Connection(text) | Self::Other(text)) = self;
        f.write_str(text)
    }
}

/// Seconds (Core `DEFAULT_HTTP_CLIENT_TIMEOUT`).
const DEFAULT_TIMEOUT: u64 = 900;
/// What stands for no limit.
const FOR_EVER: Duration = Duration::from_secs(5 * 365 * 24 * 60 * 60);

/// A host and perhaps a port; an IPv6 address with a port stands in brackets.
fn split(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        None => None,
        Some(port) => Some(port.parse().ok().filter(|port| *port > 0)?),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host.to_owned(), port))
}

impl Server {
    pub(crate) fn of(arguments: &Arguments) -> Result<Self, String> {
        let named = arguments.value("rpcconnect").unwrap_or("127.0.0.1");
        let (host, port) =
            split(named).ok_or_else(|| format!("Invalid port provided in -rpcconnect: {named}"))?;
        let port = match arguments.value("rpcport") {
            None => port.unwrap_or(default_port(arguments.network)),
            Some(text) => {
                let number = text.parse().ok().filter(|port| *port > 0);
                let number =
                    number.ok_or_else(|| format!("Invalid port provided in -rpcport: {text}"))?;
                if port.is_some() {
                    eprintln!(
                        "Warning: Port specified in both -rpcconnect and -rpcport. Using -rpcport {number}"
                    );
                }
                number
            }
        };
        let timeout = match arguments.number("rpcclienttimeout")?.unwrap_or(DEFAULT_TIMEOUT) {
            0 => FOR_EVER,
            seconds => Duration::from_secs(seconds),
        };
        Ok(Self { host, port, timeout })
    }

    /// Sends a request, perhaps for a wallet, and reads the answer.
    pub(crate) fn call(
        &self,
        login: &Login,
        wallet: Option<&str>,
        request: &str,
    ) -> Result<Json, CallError> {
        let endpoint = match wallet {
            Some(name) => format!("/wallet/{}", url_encoded(name)),
            None => "/".to_owned(),
        };
        let (credentials, from) = login.credentials();
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
        let (status, body) = self.post(&endpoint, &credentials, request).map_err(unreachable)?;
        let other = |text: String| Err(CallError::Other(text));
        match status {
            401 => return other(login.refused(from)),
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
    pub(crate) fn of(arguments: &Arguments, password: Option<String>) -> Self {
        let cookie = match arguments.is_off("rpccookiefile") {
            true => None,
            false => {
                let file = arguments.value("rpccookiefile").unwrap_or(".cookie");
                Some(arguments.network_dir().join(file))
            }
        };
        Self {
            user: arguments.value("rpcuser").unwrap_or_default().to_owned(),
            password: password.filter(|password| !password.is_empty()),
            cookie,
            config_file: arguments.config_file.clone(),
        }
    }

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
    use super::*;

    #[test]
    fn hosts_and_ports() {
        let split = |text| split(text).map(|(host, port)| format!("{host} {port:?}"));
        assert_eq!(split("a").as_deref(), Some("a None"));
        assert_eq!(split("a:1").as_deref(), Some("a Some(1)"));
        assert_eq!(split("::1").as_deref(), Some("::1 None"));
        assert_eq!(split("[::1]:2").as_deref(), Some("::1 Some(2)"));
        assert_eq!(split("a:0"), None);
        assert_eq!(split("a:b"), None);
    }

    #[test]
    fn wallets_are_encoded() {
        assert_eq!(url_encoded("a b/ü"), "a%20b%2f%c3%bc");
    }
}
