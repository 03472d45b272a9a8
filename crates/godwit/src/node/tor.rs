//! The thread that has Tor make an onion service, for as long as the node runs.
//!
//! It calls Tor's control port until there is a service, and again when the connection is lost: Tor ends a
//! service with the connection that asked for it. [`TorSession`] speaks the protocol; [`TorNews`] is what the
//! node learns from it.

mod key_file;
mod line;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, never};
use godwit_chain::ChainError;
use godwit_p2p::{
    NetAddress, OnionRequest, TOR_COOKIE_SIZE, TorAction, TorBackoff, TorError, TorSession,
};
use godwit_secret::{LockError, ReadError, SecretBytes, SecretString};

use crate::exit::Exit;
use crate::failure::Fatal;
use crate::options::TorOptions;
use crate::process::{EntropyError, open_file, random_bytes};
use key_file::{KeyFile, KeyFileError};
use line::Line;

/// How long opening the connection may take; the node's end waits for it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long Tor may take for an answer. Core has no limit.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a command may take to be sent (Core `SOCKET_SEND_TIMEOUT`).
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that are read at once.
const READ_AT_ONCE: usize = 4_096;
/// News that wait for the node; a connection has three at most.
const MAX_NEWS: usize = 16;

/// News for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TorNews {
    /// Onion addresses are reached through this proxy.
    Proxy(SocketAddr),
    /// This node can be called there.
    Serving(NetAddress),
    /// It can be no longer.
    Lost(NetAddress),
}

/// The running thread. Dropping it ends the service and waits for the thread.
pub(super) struct TorThread {
    news: Receiver<TorNews>,
    line: Arc<Line>,
    thread: Option<JoinHandle<()>>,
}

impl TorThread {
    /// Starts `godwit-tor`. The service is called at `port`; its key is kept in `dir`.
    ///
    /// # Errors
    ///
    /// The system gives no thread, or no locked memory for the password.
    pub(super) fn start(
        options: &TorOptions,
        port: u16,
        dir: &Path,
    ) -> Result<Self, TorStartError> {
        let (sender, news) = bounded(MAX_NEWS);
        let line = Arc::new(Line::default());
        let password = options.password.as_ref().map(|password| {
            // The copy is wiped; the option itself is where the user wrote it.
            SecretString::from_plain_and_wipe(&mut password.text().to_owned())
        });
        let service = Service {
            control: options.control,
            request: OnionRequest {
                target: options.target,
                port,
                password: password.transpose().map_err(TorStartError::Memory)?,
                asks_for_proxy: options.asks_for_proxy,
            },
            key_file: KeyFile::new(dir),
            news: sender,
            line: Arc::clone(&line),
        };
        let run = move || service.run();
        let thread = std::thread::Builder::new().name("godwit-tor".into()).spawn(run);
        let thread = thread.map_err(ChainError::Spawn).map_err(TorStartError::Thread)?;
        Ok(Self { news, line, thread: Some(thread) })
    }

    /// The next news, if there are any.
    pub(super) fn take_news(&self) -> Option<TorNews> {
        self.news.try_recv().ok()
    }
}

impl Drop for TorThread {
    fn drop(&mut self) {
        // Nobody takes what the thread might wait to say.
        self.news = never();
        self.line.end();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that talks to Tor panicked");
        }
    }
}

/// Why the thread does not run.
#[derive(Debug)]
pub(super) enum TorStartError {
    /// No locked memory for the password.
    Memory(LockError),
    /// [`ChainError::Spawn`].
    Thread(ChainError),
}

impl fmt::Display for TorStartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Thread(error) => error.fmt(f),
        }
    }
}

impl Fatal for TorStartError {
    fn exit(&self) -> Exit {
        Exit::Failure
    }
}

/// Why there is no service, or none any more.
#[derive(Debug)]
enum Fault {
    /// Nobody listens on the control port, as far as this machine knows.
    Unreachable(io::Error),
    Entropy(EntropyError),
    Key(KeyFileError),
    Cookie(PathBuf, io::Error),
    Tor(TorError),
    /// Tor ended the connection.
    Closed,
    Silent,
    Io(io::Error),
    Memory(LockError),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) | Self::Io(error) => error.fmt(f),
            Self::Entropy(error) => error.fmt(f),
            Self::Key(error) => error.fmt(f),
            Self::Cookie(path, error) => {
                write!(f, "its cookie file {} cannot be read: {error}", path.display())
            }
            Self::Tor(error) => error.fmt(f),
            Self::Closed => f.write_str("it has ended the connection"),
            Self::Silent => f.write_str("it does not answer"),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl From<TorError> for Fault {
    fn from(error: TorError) -> Self {
        Self::Tor(error)
    }
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Memory(error) => Self::Memory(error),
            ReadError::Source(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent,
                _ => Self::Io(error),
            },
        }
    }
}

/// The state of the thread.
struct Service {
    control: SocketAddr,
    request: OnionRequest,
    key_file: KeyFile,
    news: Sender<TorNews>,
    line: Arc<Line>,
}

impl Service {
    fn run(&self) {
        let mut backoff = TorBackoff::default();
        let mut is_known = false;
        while !self.line.is_ending() {
            let mut served = None;
            let Err(fault) = self.talk(&mut served);
            if let Some(address) = served {
                self.tell(TorNews::Lost(address));
                backoff.reset();
                is_known = false;
            }
            if self.line.is_ending() {
                return;
            }
            self.say(&fault, is_known);
            is_known = true;
            let pause = backoff.pause();
            log::debug!("the next attempt is in {:.1} s", pause.as_secs_f64());
            self.line.pause(pause);
        }
    }

    /// One line until there is a service again; most machines have no Tor.
    fn say(&self, fault: &Fault, is_known: bool) {
        let control = self.control;
        match fault {
            _ if is_known => log::debug!("no onion service by {control}: {fault}"),
            Fault::Unreachable(_) => {
                log::info!("No onion service until Tor can be reached ({control}: {fault})");
            }
            _ => log::warn!("No onion service by Tor at {control}: {fault}"),
        }
    }

    fn tell(&self, news: TorNews) {
        // With the node's end nobody listens any more.
        let (Ok(()) | Err(_)) = self.news.send(news);
    }

    /// Talks to Tor until the connection ends; `served` is the address of the service that there was.
    fn talk(&self, served: &mut Option<NetAddress>) -> Result<Infallible, Fault> {
        let stream = TcpStream::connect_timeout(&self.control, CONNECT_TIMEOUT);
        let stream = stream.map_err(Fault::Unreachable)?;
        log::debug!("connected to {}", self.control);
        self.line.hold(&stream).map_err(Fault::Io)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT)).map_err(Fault::Io)?;
        let key = self.key_file.read().map_err(Fault::Key)?;
        let mut session =
            TorSession::new(&self.request, key, random_bytes().map_err(Fault::Entropy)?)?;
        let mut read = SecretBytes::new();
        loop {
            self.act(&mut session, &stream, served)?;
            let timeout = session.awaits_answer().then_some(ANSWER_TIMEOUT);
            stream.set_read_timeout(timeout).map_err(Fault::Io)?;
            read.clear();
            if read.read_from(&mut &stream, READ_AT_ONCE)? == 0 {
                return Err(Fault::Closed);
            }
            let outcome = session.receive(&read);
            self.act(&mut session, &stream, served)?;
            outcome?;
        }
    }

    /// Does what the session wants.
    fn act(
        &self,
        session: &mut TorSession<'_>,
        stream: &TcpStream,
        served: &mut Option<NetAddress>,
    ) -> Result<(), Fault> {
        loop {
            let actions = session.take_actions();
            if actions.is_empty() {
                return Ok(());
            }
            for action in actions {
                match action {
                    TorAction::Send(command) => send(stream, &command).map_err(Fault::Io)?,
                    TorAction::ReadCookie { path } => {
                        let path = PathBuf::from(OsStr::from_bytes(&path));
                        log::debug!("authenticating by the cookie {}", path.display());
                        session.take_cookie(cookie(&path)?)?;
                    }
                    TorAction::UseProxy(proxy) => {
                        log::debug!("onion addresses are reached through {proxy}");
                        self.tell(TorNews::Proxy(proxy));
                    }
                    TorAction::KeepKey(key) => {
                        if let Err(error) = self.key_file.keep(&key) {
                            log::warn!("The next onion service will have another address: {error}");
                        }
                    }
                    TorAction::Serve(host) => {
                        let address = NetAddress::new(host, self.request.port);
                        log::info!("Got tor service ID {host}, advertising service {address}");
                        *served = Some(address);
                        self.tell(TorNews::Serving(address));
                    }
                }
            }
        }
    }
}

fn send(stream: &TcpStream, command: &SecretBytes) -> io::Result<()> {
    let sent = command.expose_secret(|command| {
        let mut stream = stream;
        stream.write_all(command).map_err(|error| error.kind())
    });
    sent.map_err(io::Error::from)
}

/// Reads the file that Tor named, up to one byte more than a cookie has. It may be anything, so nothing is
/// waited for.
fn cookie(path: &Path) -> Result<SecretBytes, Fault> {
    let failed = |error: io::Error| Fault::Cookie(path.to_owned(), error);
    let mut file = open_file(path).map_err(failed)?;
    let mut cookie = SecretBytes::new();
    while cookie.len() <= TOR_COOKIE_SIZE {
        let room = TOR_COOKIE_SIZE + 1 - cookie.len();
        match cookie.read_from(&mut file, room) {
            Ok(0) => break,
            Ok(_) => {}
            Err(ReadError::Source(error)) => return Err(failed(error)),
            Err(ReadError::Memory(error)) => return Err(Fault::Memory(error)),
        }
    }
    Ok(cookie)
}
