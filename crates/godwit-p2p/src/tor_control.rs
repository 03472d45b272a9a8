//! The controller's side of Tor's control protocol, as far as an onion service needs it (`control-spec` of
//! the Tor project; Core `torcontrol.cpp`).
//!
//! Bytes from Tor go in; commands, and the results of earlier commands, come out. Lines are read in place, in
//! locked memory, because one of them holds the private key of a new service.

mod backoff;
mod error;
mod onion_key;
mod pairs;
mod reply;
mod safe_cookie;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::mem;
use std::net::SocketAddr;

use data_encoding::HEXLOWER;
use godwit_secret::{Declassified, LockError, SecretBytes, SecretSlice, SecretString};

use crate::net_address::Host;
use reply::{Answer, MAX_TOR_LINE, Reply};

pub use backoff::TorBackoff;
pub use error::TorError;
pub use onion_key::{BadOnionKey, MAX_ONION_KEY, OnionKey};
pub use safe_cookie::TOR_COOKIE_SIZE;

/// Tor's answers to a command (Core `TOR_REPLY_OK`, `TOR_REPLY_SYNTAX_ERROR`).
const OK: u16 = 250;
const SYNTAX_ERROR: u16 = 512;

/// Where Tor listens for SOCKS if it does not say (Core `DEFAULT_TOR_SOCKS_PORT`).
const USUAL_PROXY: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9050);

/// What is wanted of Tor.
#[derive(Debug)]
pub struct OnionRequest {
    /// Where it hands over who calls the service.
    pub target: SocketAddr,
    /// The port at which the service is called: the network's usual one, so that the address tells nothing of
    /// how this node is set up.
    pub port: u16,
    /// `-torpassword`.
    pub password: Option<SecretString>,
    /// It is asked for its proxy too: no other one to onion addresses was named.
    pub asks_for_proxy: bool,
}

/// What is to be done, in this order.
#[derive(Debug)]
pub enum TorAction {
    /// Send these bytes to Tor.
    Send(SecretBytes),
    /// Read this file, of [`TOR_COOKIE_SIZE`] bytes, and hand it in by [`TorSession::take_cookie`].
    ReadCookie { path: Vec<u8> },
    /// Onion addresses are reached through this proxy.
    UseProxy(SocketAddr),
    /// Keep the key of the service that follows, which is a new one.
    KeepKey(OnionKey),
    /// There is a service at this address for as long as the connection stands.
    Serve(Host),
}

/// A connection to Tor's control port, from its beginning to an onion service and as long as that is wanted.
pub struct TorSession<'a> {
    request: &'a OnionRequest,
    /// Of a service that there was before; gone once Tor was asked for it.
    key: Option<OnionKey>,
    nonce: [u8; 32],
    /// The beginning of the line that is arriving.
    line: SecretBytes,
    reply: Reply,
    /// Answers to commands that were sent, behind the one that is arriving.
    awaited: VecDeque<Answer>,
    actions: VecDeque<TorAction>,
}

impl<'a> TorSession<'a> {
    /// The connection stands. `key` is that of the service of earlier runs, `nonce` is random and used once.
    ///
    /// # Errors
    ///
    /// There is no locked memory.
    pub fn new(
        request: &'a OnionRequest,
        key: Option<OnionKey>,
        nonce: [u8; 32],
    ) -> Result<Self, TorError> {
        let mut new = Self {
            request,
            key,
            nonce,
            line: SecretBytes::new(),
            reply: Reply::default(),
            awaited: VecDeque::new(),
            actions: VecDeque::new(),
        };
        new.ask(text("PROTOCOLINFO 1")?, Answer::protocol_info())?;
        Ok(new)
    }

    /// What is to be done now.
    pub fn take_actions(&mut self) -> VecDeque<TorAction> {
        mem::take(&mut self.actions)
    }

    /// Whether Tor owes an answer.
    pub fn awaits_answer(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Takes bytes that Tor sent.
    ///
    /// # Errors
    ///
    /// Tor refuses, or it is not Tor: the connection is of no use any more. What [`take_actions`] gives is
    /// to be done nevertheless.
    ///
    /// [`take_actions`]: Self::take_actions
    pub fn receive(&mut self, bytes: &SecretBytes) -> Result<(), TorError> {
        let bytes = SecretSlice::from(bytes);
        let mut start = 0;
        while start < bytes.len() {
            let rest = bytes.get(start..bytes.len()).expect("it begins before their end");
            let line_feed = |rest: &[u8]| Declassified(rest.iter().position(|b| *b == b'\n'));
            let end = rest.expose_secret(line_feed).0;
            let length = end.unwrap_or(rest.len());
            if length > MAX_TOR_LINE.saturating_sub(self.line.len()) {
                return Err(TorError::LongLine);
            }
            self.line.extend_from_secret(rest.get(0..length).expect("a part of it"))?;
            if end.is_some() {
                self.end_line()?;
            }
            start += length + 1;
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), TorError> {
        let line = mem::take(&mut self.line);
        let nobody_asked = &mut Answer::Unasked;
        let answer = self.awaited.front_mut().unwrap_or(nobody_asked);
        line.expose_secret_into((&mut self.reply, answer), |line, (reply, answer)| {
            reply.take_line(line.strip_suffix(b"\r").unwrap_or(line), answer)
        })?;
        let Some(code) = self.reply.take_code() else { return Ok(()) };
        match self.awaited.pop_front() {
            Some(answer) => self.answered(code, answer),
            None => Ok(()),
        }
    }

    fn answered(&mut self, code: u16, answer: Answer) -> Result<(), TorError> {
        match answer {
            Answer::Socks(proxy) => {
                // Tor is there, whatever it says to that.
                let proxy = proxy.filter(|_| code == OK).unwrap_or(USUAL_PROXY);
                self.actions.push_back(TorAction::UseProxy(proxy));
                Ok(())
            }
            Answer::Onion { with_defences: true, .. } if code == SYNTAX_ERROR => {
                self.add_onion(false)
            }
            Answer::ProtocolInfo { .. } if code != OK => Err(TorError::NoProtocolInfo(code)),
            Answer::Challenge { .. } if code != OK => Err(TorError::NoChallenge(code)),
            Answer::Authentication if code != OK => Err(TorError::NotAuthenticated(code)),
            Answer::Onion { .. } if code != OK => Err(TorError::NoService(code)),
            Answer::ProtocolInfo { methods, cookie_file } => {
                if self.request.password.is_some() && !methods.password {
                    return Err(TorError::PasswordNotTaken);
                }
                if let Some(password) = &self.request.password {
                    let command = authenticate_by_password(password)?;
                    return self.ask(command, Answer::Authentication);
                }
                if methods.none {
                    return self.ask(text("AUTHENTICATE")?, Answer::Authentication);
                }
                match (methods.safe_cookie, methods.password) {
                    (true, _) => {
                        self.actions.push_back(TorAction::ReadCookie { path: cookie_file });
                        Ok(())
                    }
                    (false, true) => Err(TorError::PasswordWanted),
                    (false, false) => Err(TorError::NoMethod),
                }
            }
            Answer::Challenge { cookie, challenge } => {
                let challenge = challenge.ok_or(TorError::Malformed)?;
                let command = safe_cookie::authenticate(&cookie, &self.nonce, &challenge)?;
                self.ask(command, Answer::Authentication)
            }
            Answer::Authentication => {
                if self.request.asks_for_proxy {
                    self.ask(text("GETINFO net/listeners/socks")?, Answer::Socks(None))?;
                }
                self.add_onion(true)
            }
            Answer::Onion { service, key, .. } => {
                let service = service.ok_or(TorError::Malformed)?;
                if self.key.take().is_none() {
                    let key = OnionKey::parse(key).map_err(|_| TorError::Malformed)?;
                    self.actions.push_back(TorAction::KeepKey(key));
                }
                self.actions.push_back(TorAction::Serve(service));
                Ok(())
            }
            Answer::Unasked => Ok(()),
        }
    }

    /// Takes the content of the file that [`TorAction::ReadCookie`] named.
    ///
    /// # Errors
    ///
    /// It has not the length of a cookie.
    pub fn take_cookie(&mut self, cookie: SecretBytes) -> Result<(), TorError> {
        if cookie.len() != TOR_COOKIE_SIZE {
            return Err(TorError::CookieLength);
        }
        let command = format!("AUTHCHALLENGE SAFECOOKIE {}", HEXLOWER.encode(&self.nonce));
        self.ask(text(&command)?, Answer::Challenge { cookie, challenge: None })
    }

    /// Asks for the service, with a proof of work demanded of callers while there are too many, which older
    /// versions of Tor do not know.
    fn add_onion(&mut self, with_defences: bool) -> Result<(), TorError> {
        let mut command = text("ADD_ONION ")?;
        match &self.key {
            Some(key) => command.extend_from_secret(key.secret())?,
            None => command.extend_from_slice(b"NEW:ED25519-V3")?,
        }
        let defences = if with_defences { " PoWDefensesEnabled=1" } else { "" };
        let OnionRequest { port, target, .. } = self.request;
        command.extend_from_slice(format!("{defences} Port={port},{target}").as_bytes())?;
        self.ask(command, Answer::Onion { with_defences, service: None, key: SecretBytes::new() })
    }

    fn ask(&mut self, mut command: SecretBytes, answer: Answer) -> Result<(), TorError> {
        command.extend_from_slice(b"\r\n")?;
        self.actions.push_back(TorAction::Send(command));
        self.awaited.push_back(answer);
        Ok(())
    }
}

/// Text of a command that is no secret.
fn text(public: &str) -> Result<SecretBytes, LockError> {
    let mut command = SecretBytes::with_capacity(public.len())?;
    command.extend_from_slice(public.as_bytes())?;
    Ok(command)
}

/// The password as a string in quotes, with a backslash before what means something there.
fn authenticate_by_password(password: &SecretString) -> Result<SecretBytes, LockError> {
    let mut command = text("AUTHENTICATE \"")?;
    password.expose_secret_into(&mut command, |password, command| -> Result<(), LockError> {
        for byte in password.bytes() {
            match byte {
                b'"' | b'\\' => command.extend_from_slice(&[b'\\', byte])?,
                b'\n' => command.extend_from_slice(b"\\n")?,
                b'\r' => command.extend_from_slice(b"\\r")?,
                byte => command.push(byte)?,
            }
        }
        Ok(())
    })?;
    command.push(b'"')?;
    Ok(command)
}
