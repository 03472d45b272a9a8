//! Reports the node's state to systemd: readiness, liveness, and a line of status. The protocol is that of
//! `sd_notify(3)`: datagrams to the socket that the environment names.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};

/// Where to tell it.
struct Socket {
    socket: UnixDatagram,
    to: SocketAddr,
}

impl Socket {
    /// Whether it arrived.
    fn tell(&self, message: &str) -> bool {
        let sent = self.socket.send_to_addr(message.as_bytes(), &self.to);
        sent.inspect_err(|error| log::debug!("systemd was not told: {error}")).is_ok()
    }
}

/// The stage of a start, while the node does not answer yet. systemd expects no sign of life before it does.
#[derive(Clone)]
pub(crate) struct StartStatus {
    socket: Option<Arc<Socket>>,
    said: Arc<Mutex<String>>,
}

impl StartStatus {
    /// The start is at this.
    pub(crate) fn say(&self, what: &str) {
        let Some(socket) = &self.socket else { return };
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said == what {
            return;
        }
        said.clear();
        // What did not arrive is said again.
        if socket.tell(&format!("STATUS={what}\n")) {
            said.push_str(what);
        }
    }
}

/// See the module's documentation.
pub(crate) struct Service {
    /// `None` where nobody wants to know.
    socket: Option<Arc<Socket>>,
    /// How often the service has to say that it is alive, for it not to be started anew.
    watchdog: Option<Duration>,
    is_ready: bool,
    next_sign: Duration,
    said: String,
}

/// The environment variables that systemd sets.
#[derive(Default)]
pub(crate) struct Surroundings {
    /// `NOTIFY_SOCKET`.
    pub(crate) socket: Option<OsString>,
    /// `WATCHDOG_USEC`.
    pub(crate) watchdog: Option<OsString>,
    /// `WATCHDOG_PID`.
    pub(crate) watched: Option<OsString>,
}

impl Surroundings {
    pub(crate) fn of_process() -> Self {
        let [socket, watchdog, watched] =
            ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"].map(std::env::var_os);
        Self { socket, watchdog, watched }
    }
}

/// A path, or behind `@` a name that is no file.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] if !name.is_empty() => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn open(name: &OsStr) -> io::Result<Socket> {
    let (to, socket) = (address(name)?, UnixDatagram::unbound()?);
    // Whoever does not read must not hold up the node.
    socket.set_nonblocking(true)?;
    Ok(Socket { socket, to })
}

/// Half of the time that the watchdog waits, if it watches this process.
fn sign_interval(of: &Surroundings, process: u32) -> Option<Duration> {
    let number = |text: &Option<OsString>| text.as_ref()?.to_str()?.parse::<u64>().ok();
    let is_watched = of.watched.is_none() || number(&of.watched) == Some(process.into());
    let micros = number(&of.watchdog).filter(|micros| *micros > 0 && is_watched)?;
    Some(Duration::from_micros(micros) / 2)
}

impl Service {
    pub(crate) fn new(of: &Surroundings) -> Self {
        let socket = of.socket.as_deref().and_then(|name| {
            open(name).inspect_err(|error| log::warn!("Cannot notify systemd: {error}")).ok()
        });
        Self {
            socket: socket.map(Arc::new),
            watchdog: sign_interval(of, std::process::id()),
            is_ready: false,
            next_sign: Duration::ZERO,
            said: String::new(),
        }
    }

    /// For whoever starts the node.
    pub(crate) fn start_status(&self) -> StartStatus {
        StartStatus { socket: self.socket.clone(), said: Arc::default() }
    }

    /// The node answers, and is at this.
    pub(crate) fn look(&mut self, now: Duration, status: impl FnOnce() -> String) {
        if self.socket.is_none() {
            return;
        }
        let mut message = String::new();
        if !self.is_ready {
            message.push_str("READY=1\n");
        }
        if let Some(interval) = self.watchdog
            && now >= self.next_sign
        {
            self.next_sign = now + interval;
            message.push_str("WATCHDOG=1\n");
        }
        let status = status();
        let says_status = status != self.said;
        if says_status {
            message.push_str(&format!("STATUS={status}\n"));
        }
        // What did not arrive is said again, and nothing else: whoever starts the node may have said more
        // since.
        if self.tell(&message) {
            self.is_ready = true;
            if says_status {
                self.said = status;
            }
        }
    }

    /// Does what takes long on this thread, and says meanwhile on another that the service is alive and at
    /// this. The clock of [`look`](Self::look) may begin anew behind it.
    pub(crate) fn alive_during<T>(&mut self, status: &str, work: impl FnOnce() -> T) -> T {
        self.next_sign = Duration::ZERO;
        self.look(Duration::ZERO, || status.to_owned());
        let result = match self.interval() {
            None => work(),
            Some(interval) => self.signs_during(interval, status, work),
        };
        self.next_sign = Duration::ZERO;
        result
    }

    fn signs_during<T>(&mut self, interval: Duration, status: &str, work: impl FnOnce() -> T) -> T {
        let (is_working, end) = bounded::<Infallible>(0);
        let started = Instant::now();
        let signs = || {
            while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                self.look(started.elapsed(), || status.to_owned());
            }
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("godwit-alive".to_owned());
            if let Err(error) = thread.spawn_scoped(scope, signs) {
                log::warn!("Cannot notify systemd: {error}");
            }
            let result = work();
            drop(is_working);
            result
        })
    }

    /// How long the next sign of life may wait.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.socket.as_ref().and(self.watchdog)
    }

    /// The node ends.
    pub(crate) fn end(&self) {
        // There is no other time to say it.
        let _arrived = self.tell("STOPPING=1\nSTATUS=Ending.\n");
    }

    /// Whether it arrived.
    fn tell(&self, message: &str) -> bool {
        let Some(socket) = &self.socket else { return false };
        message.is_empty() || socket.tell(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<OsString> {
        Some(text.into())
    }

    fn told(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 4096];
        let count = socket.recv(&mut bytes).expect("a datagram");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    fn talk(socket: &UnixDatagram, name: OsString) {
        let of = Surroundings { socket: Some(name), watchdog: text("2000000"), watched: None };
        let mut service = Service::new(&of);
        let second = Duration::from_secs(1);
        service.look(Duration::ZERO, || "one".to_owned());
        assert_eq!(told(socket), "READY=1\nWATCHDOG=1\nSTATUS=one\n");
        service.look(second / 2, || "one".to_owned());
        service.look(second, || "two".to_owned());
        assert_eq!(told(socket), "WATCHDOG=1\nSTATUS=two\n", "nothing was said for nothing");
        service.end();
        assert_eq!(told(socket), "STOPPING=1\nSTATUS=Ending.\n");
    }

    #[test]
    fn systemd_is_told_at_a_path_and_at_a_name_that_is_no_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        talk(&UnixDatagram::bind(&path).expect("a socket"), path.into());
        let name = format!("godwit-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        talk(&UnixDatagram::bind_addr(&address).expect("a socket"), format!("@{name}").into());
    }

    #[test]
    fn what_did_not_arrive_is_said_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let of = Surroundings { socket: Some(path.clone().into()), ..Surroundings::default() };
        let mut service = Service::new(&of);
        service.look(Duration::ZERO, || "one".to_owned());
        let socket = UnixDatagram::bind(&path).expect("a socket");
        service.look(Duration::from_secs(1), || "one".to_owned());
        assert_eq!(told(&socket), "READY=1\nSTATUS=one\n");
    }

    #[test]
    fn systemd_is_told_what_the_start_is_at_before_the_node_is_ready() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let watchdog = text("2000000");
        let of = Surroundings { socket: Some(path.clone().into()), watchdog, watched: None };
        let mut service = Service::new(&of);
        let status = service.start_status();
        status.say("Indexing (1%)");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        status.say("Indexing (1%)");
        assert_eq!(told(&socket), "STATUS=Indexing (1%)\n", "it had not arrived");
        let of_another_thread = status.clone();
        for what in ["Indexing (1%)", "Indexing (2%)", "Indexing (2%)"] {
            of_another_thread.say(what);
        }
        status.say("Loading");
        service.look(Duration::ZERO, || "one".to_owned());
        let said = [told(&socket), told(&socket), told(&socket)];
        let ready = "READY=1\nWATCHDOG=1\nSTATUS=one\n";
        assert_eq!(said, ["STATUS=Indexing (2%)\n", "STATUS=Loading\n", ready]);
    }

    #[test]
    fn nobody_who_listens_holds_nothing_up() {
        for name in ["", "relative", "@", "/nowhere/at/all"] {
            let of = Surroundings { socket: text(name), ..Surroundings::default() };
            let mut service = Service::new(&of);
            service.start_status().say("starts");
            service.look(Duration::ZERO, || "status".to_owned());
            service.end();
        }
        let mut alone = Service::new(&Surroundings::default());
        alone.look(Duration::ZERO, || panic!("nobody wants to know"));
        assert_eq!(alone.interval(), None);
    }

    #[test]
    fn signs_of_life_go_on_during_what_takes_long() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let watchdog = text("2000");
        let of = Surroundings { socket: Some(path.into()), watchdog, watched: None };
        let mut service = Service::new(&of);
        service.look(Duration::from_secs(9), || "runs".to_owned());
        assert_eq!(told(&socket), "READY=1\nWATCHDOG=1\nSTATUS=runs\n");
        let said = service.alive_during("loads", || [told(&socket), told(&socket), told(&socket)]);
        assert_eq!(said, ["WATCHDOG=1\nSTATUS=loads\n", "WATCHDOG=1\n", "WATCHDOG=1\n"]);
        // The clock of the next run begins anew.
        let behind = text_behind(&socket);
        service.look(Duration::ZERO, || "runs".to_owned());
        assert_eq!(told(&socket), "WATCHDOG=1\nSTATUS=runs\n", "{behind} signs before it");
    }

    #[test]
    fn a_sign_of_life_that_is_lost_brings_no_status_of_before_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let watchdog = text("2000000");
        let of = Surroundings { socket: Some(path.clone().into()), watchdog, watched: None };
        let mut service = Service::new(&of);
        let (status, second) = (service.start_status(), Duration::from_secs(1));
        service.look(Duration::ZERO, || "loads".to_owned());
        status.say("Loading (1%)");
        let said = [told(&socket), told(&socket)];
        assert_eq!(said, ["READY=1\nWATCHDOG=1\nSTATUS=loads\n", "STATUS=Loading (1%)\n"]);
        drop(socket);
        std::fs::remove_file(&path).expect("its name");
        service.look(second, || "loads".to_owned());
        let socket = UnixDatagram::bind(&path).expect("a socket");
        service.look(second * 2, || "loads".to_owned());
        assert_eq!(told(&socket), "WATCHDOG=1\n");
    }

    /// Reads what is there; how many.
    fn text_behind(socket: &UnixDatagram) -> usize {
        socket.set_nonblocking(true).expect("a socket");
        let count = std::iter::from_fn(|| socket.recv(&mut [0; 64]).ok()).count();
        socket.set_nonblocking(false).expect("a socket");
        count
    }

    #[test]
    fn the_watchdog_of_another_process_is_none_of_ours() {
        let of = |watchdog, watched| Surroundings { socket: None, watchdog, watched };
        let interval = |watchdog, watched| sign_interval(&of(watchdog, watched), 7);
        assert_eq!(interval(text("3000000"), None), Some(Duration::from_millis(1500)));
        assert_eq!(interval(text("3000000"), text("7")), Some(Duration::from_millis(1500)));
        assert_eq!(interval(text("3000000"), text("8")), None);
        for nothing in [None, text("0"), text("x"), text("")] {
            assert_eq!(interval(nothing, None), None);
        }
    }
}
