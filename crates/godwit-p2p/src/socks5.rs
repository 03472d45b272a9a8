//! The client's side of SOCKS5, up to the point where the proxy has connected (RFC 1928, RFC 1929,
//! Core `netbase.cpp`).
//!
//! Destinations go to the proxy as text, always: Tor resolves names itself, and onion names mean
//! nothing elsewhere.

use std::fmt;

/// The version of SOCKS.
const VERSION: u8 = 5;
/// Version of the subprotocol of username and password.
const AUTH_VERSION: u8 = 1;
/// Most bytes of a host, a username or a password: their lengths have one byte.
const MAX_FIELD: usize = 255;
/// Most bytes of one piece of a reply: a name and a port.
const MAX_REPLY: usize = MAX_FIELD + PORT_SIZE;
const PORT_SIZE: usize = 2;

const NO_AUTHENTICATION: u8 = 0;
const USERNAME_PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const RESERVED: u8 = 0;
const SUCCEEDED: u8 = 0;
const ADDRESS_IPV4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_IPV6: u8 = 4;

/// Why a handshake ended without a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socks5Error {
    /// The host is empty or longer than 255 bytes.
    HostLength(usize),
    /// Username or password is empty or longer than 255 bytes.
    CredentialLength(usize),
    /// The answer does not begin as one of SOCKS5 does.
    Version(u8),
    /// The proxy chose a way to authenticate that it was not offered, or none (255).
    Method(u8),
    /// The proxy does not know the username and password.
    AuthenticationFailed,
    /// A reserved byte is set, or the kind of an address is unknown.
    MalformedReply,
    /// More bytes than the handshake has.
    TooManyBytes,
    /// The proxy could not connect; the code of RFC 1928, or of Tor (240 and up).
    Refused(u8),
}

impl Socks5Error {
    /// Whether the destination, rather than the proxy or the way to it, is at fault.
    pub fn is_destination(self) -> bool {
        match self {
            Self::HostLength(_) => true,
            // 3 network unreachable: the proxy's line, 7 and 8 not supported. Tor says 1, general
            // failure, of services that are gone, and 2, not allowed, of exits that do not lead there.
            Self::Refused(code) => !matches!(code, 3 | 7 | 8),
            _ => false,
        }
    }
}

impl fmt::Display for Socks5Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostLength(length) => write!(f, "host name of {length} bytes, not 1 to 255"),
            Self::CredentialLength(length) => {
                write!(f, "username or password of {length} bytes, not 1 to 255")
            }
            Self::Version(version) => write!(f, "no SOCKS5 proxy (version byte {version})"),
            Self::Method(method) => write!(f, "proxy wants authentication method {method}"),
            Self::AuthenticationFailed => f.write_str("proxy refuses username and password"),
            Self::MalformedReply => f.write_str("malformed reply of the proxy"),
            Self::TooManyBytes => f.write_str("more bytes than the proxy's reply has"),
            Self::Refused(code) => write!(f, "proxy could not connect: {}", reply_text(*code)),
        }
    }
}

impl std::error::Error for Socks5Error {}

/// As Core's `Socks5ErrorString`, which has the verb of 0xf0 in two words.
fn reply_text(code: u8) -> &'static str {
    match code {
        0x01 => "general failure",
        0x02 => "connection not allowed",
        0x03 => "network unreachable",
        0x04 => "host unreachable",
        0x05 => "connection refused",
        0x06 => "TTL expired",
        0x07 => "protocol error",
        0x08 => "address type not supported",
        0xf0 => "onion service descriptor cannot be found",
        0xf1 => "onion service descriptor is invalid",
        0xf2 => "onion service introduction failed",
        0xf3 => "onion service rendezvous failed",
        0xf4 => "onion service missing client authorization",
        0xf5 => "onion service wrong client authorization",
        0xf6 => "onion service invalid address",
        0xf7 => "onion service introduction timed out",
        _ => "unknown error",
    }
}

/// A username and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    username: Vec<u8>,
    password: Vec<u8>,
}

impl Credentials {
    /// A username and a password of 1 to 255 bytes each.
    ///
    /// # Errors
    ///
    /// When one of them has another length.
    pub fn new(username: &[u8], password: &[u8]) -> Result<Self, Socks5Error> {
        for field in [username, password] {
            if !(1..=MAX_FIELD).contains(&field.len()) {
                return Err(Socks5Error::CredentialLength(field.len()));
            }
        }
        Ok(Self { username: username.to_vec(), password: password.to_vec() })
    }

    /// Credentials that no other connection has: Tor keeps the circuits of different ones apart. The
    /// session is random and the same during a run, the counter goes up with each connection.
    pub fn isolated(session: [u8; 8], counter: u64) -> Self {
        let name = format!("{:016x}-{counter}", u64::from_be_bytes(session)).into_bytes();
        Self { username: name.clone(), password: name }
    }
}

/// Without the secrets.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// What is awaited from the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Method,
    Authentication,
    /// Version, result, reserved, kind of the address.
    Reply,
    /// Length of the name that is the address.
    NameLength,
    /// So many bytes of address and port.
    Address(usize),
    Connected,
    Failed,
}

/// A handshake with a proxy: bytes in, bytes out.
///
/// The driver writes [`outgoing`](Self::outgoing), reads at most [`wanted`](Self::wanted) bytes into
/// [`receive`](Self::receive), and so on until [`is_connected`](Self::is_connected). It never keeps
/// more than 257 bytes of a reply (CVE-2017-18350 was a length that overflowed its buffer).
#[derive(Clone, Debug)]
pub struct Socks5 {
    host: String,
    port: u16,
    credentials: Option<Credentials>,
    state: State,
    outgoing: Vec<u8>,
    reply: [u8; MAX_REPLY],
    received: usize,
}

impl Socks5 {
    /// A handshake that asks for a connection to `host`, which is a name, an IP address or an onion
    /// name, as text.
    ///
    /// # Errors
    ///
    /// When the host has not 1 to 255 bytes.
    pub fn new(
        host: &str,
        port: u16,
        credentials: Option<Credentials>,
    ) -> Result<Self, Socks5Error> {
        if !(1..=MAX_FIELD).contains(&host.len()) {
            return Err(Socks5Error::HostLength(host.len()));
        }
        let outgoing = match credentials {
            Some(_) => vec![VERSION, 2, NO_AUTHENTICATION, USERNAME_PASSWORD],
            None => vec![VERSION, 1, NO_AUTHENTICATION],
        };
        Ok(Self {
            host: host.to_owned(),
            port,
            credentials,
            state: State::Method,
            outgoing,
            reply: [0; MAX_REPLY],
            received: 0,
        })
    }

    /// Bytes to be written to the proxy.
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// So many of [`outgoing`](Self::outgoing) were written.
    ///
    /// # Panics
    ///
    /// When there are not so many.
    pub fn sent(&mut self, count: usize) {
        self.outgoing.drain(..count);
    }

    /// How many bytes may be read now; what follows them is the peer's. Zero when connected.
    pub fn wanted(&self) -> usize {
        self.piece() - self.received
    }

    /// Whether the proxy knows the destination and has not answered yet: what takes long now is the
    /// way from it to there.
    pub fn awaits_destination(&self) -> bool {
        self.state == State::Reply && self.outgoing.is_empty()
    }

    /// Whether the proxy has connected: from now on the peer speaks.
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// Takes bytes that the proxy sent.
    ///
    /// # Errors
    ///
    /// When the proxy refuses or breaks the protocol; the handshake is over then.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Socks5Error> {
        let result = self.take(bytes);
        if result.is_err() {
            self.state = State::Failed;
            self.received = 0;
        }
        result
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Socks5Error> {
        while !bytes.is_empty() {
            let wanted = self.wanted();
            if wanted == 0 {
                return Err(Socks5Error::TooManyBytes);
            }
            let (now, rest) = bytes.split_at(wanted.min(bytes.len()));
            self.reply[self.received..][..now.len()].copy_from_slice(now);
            self.received += now.len();
            bytes = rest;
            if self.wanted() == 0 {
                self.state = self.advance()?;
                self.received = 0;
            }
        }
        Ok(())
    }

    /// Bytes of the piece of a reply that is awaited.
    fn piece(&self) -> usize {
        match self.state {
            State::Method | State::Authentication => 2,
            State::Reply => 4,
            State::NameLength => 1,
            State::Address(size) => size,
            State::Connected | State::Failed => 0,
        }
    }

    /// The piece is complete.
    fn advance(&mut self) -> Result<State, Socks5Error> {
        let [first, second, third, fourth, ..] = self.reply;
        match self.state {
            State::Method if first != VERSION => Err(Socks5Error::Version(first)),
            State::Method => match (second, &self.credentials) {
                (NO_AUTHENTICATION, _) => Ok(self.request()),
                (USERNAME_PASSWORD, Some(credentials)) => {
                    let Credentials { username, password } = credentials;
                    self.outgoing.push(AUTH_VERSION);
                    push_field(&mut self.outgoing, username);
                    push_field(&mut self.outgoing, password);
                    Ok(State::Authentication)
                }
                _ => Err(Socks5Error::Method(second)),
            },
            State::Authentication if [first, second] == [AUTH_VERSION, 0] => Ok(self.request()),
            State::Authentication => Err(Socks5Error::AuthenticationFailed),
            State::Reply if first != VERSION => Err(Socks5Error::Version(first)),
            State::Reply if second != SUCCEEDED => Err(Socks5Error::Refused(second)),
            State::Reply if third != RESERVED => Err(Socks5Error::MalformedReply),
            State::Reply => match fourth {
                ADDRESS_IPV4 => Ok(State::Address(4 + PORT_SIZE)),
                ADDRESS_IPV6 => Ok(State::Address(16 + PORT_SIZE)),
                ADDRESS_NAME => Ok(State::NameLength),
                _ => Err(Socks5Error::MalformedReply),
            },
            State::NameLength => Ok(State::Address(usize::from(first) + PORT_SIZE)),
            State::Address(_) => Ok(State::Connected),
            State::Connected | State::Failed => Err(Socks5Error::TooManyBytes),
        }
    }

    fn request(&mut self) -> State {
        self.outgoing.extend([VERSION, CONNECT, RESERVED, ADDRESS_NAME]);
        push_field(&mut self.outgoing, self.host.as_bytes());
        self.outgoing.extend(self.port.to_be_bytes());
        State::Reply
    }
}

/// A length of one byte and the field, which has at most 255.
fn push_field(out: &mut Vec<u8>, field: &[u8]) {
    out.push(field.len() as u8);
    out.extend_from_slice(field);
}

#[cfg(test)]
mod tests;
