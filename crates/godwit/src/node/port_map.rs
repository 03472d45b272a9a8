//! The thread that has the router forward the port on which this node listens, for as long as the node runs
//! (Core `mapport.cpp`, `common/pcp.cpp`).
//!
//! Over IPv4 the default gateway forwards a port of its own address; over IPv6 it lets callers of each
//! address of this machine through. A mapping is renewed at half of its lifetime, and asked for again
//! after [`RETRY`] where there was none. It is not deleted at the end, but left to expire, as in Core.

mod routes;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, never};
use godwit_p2p::{
    MAPPING_NONCE_SIZE, MAX_MAPPING_PACKET, Mapping, MappingRefusal, MappingRequest,
    NATPMP_ADDRESS_REQUEST, NetAddress, natpmp_address,
};

use crate::options::{Listening, NodeOptions};
use crate::process::random_bytes;
use routes::{Route, default_routes};

/// Seconds for which a mapping is asked for (Core: twice `PORT_MAPPING_REANNOUNCE_PERIOD`).
const LIFETIME: u32 = 40 * 60;
/// A shorter one is no use (as in Core), in seconds.
const LEAST_LIFETIME: u32 = 30;
/// Until the router is asked again that has forwarded nothing (Core `PORT_MAPPING_RETRY_PERIOD`).
const RETRY: Duration = Duration::from_secs(5 * 60);
/// Longest time without a look whether the node ends.
const LOOK: Duration = Duration::from_millis(100);
/// Addresses that wait for the node; one for each route of a round.
const MAX_NEWS: usize = 16;

/// How often a router is asked, and how long an answer may take (Core `num_tries`, `timeout_per_try`).
#[derive(Clone, Copy)]
struct Patience {
    tries: u32,
    timeout: Duration,
}

const PATIENCE: Patience = Patience { tries: 3, timeout: Duration::from_secs(1) };

/// The running thread. Dropping it waits for its end.
pub(super) struct PortMapThread {
    news: Receiver<NetAddress>,
    /// Nothing is sent: the thread ends when this is gone.
    ending: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PortMapThread {
    /// Starts `godwit-portmap` if the options want it and connections are accepted.
    ///
    /// # Errors
    ///
    /// The system gives no thread.
    pub(super) fn wanted(options: &NodeOptions) -> io::Result<Option<Self>> {
        let Listening { natpmp, told_port, .. } = options.listening;
        let start = || Self::start(told_port, PATIENCE, Box::new(default_routes));
        natpmp.then(start).transpose()
    }

    /// Starts it for this TCP port and the routers that `routes` finds each time.
    fn start(
        port: u16,
        patience: Patience,
        routes: Box<dyn Fn() -> Vec<Route> + Send>,
    ) -> io::Result<Self> {
        let (sender, news) = bounded(MAX_NEWS);
        let (ending, ends) = bounded(0);
        let mapper = Mapper { port, patience, routes, news: sender, ends };
        let run = move || mapper.run();
        let thread = std::thread::Builder::new().name("godwit-portmap".into()).spawn(run)?;
        Ok(Self { news, ending: Some(ending), thread: Some(thread) })
    }

    /// The next address at which the router forwards callers, if there is one.
    pub(super) fn take_news(&self) -> Option<NetAddress> {
        self.news.try_recv().ok()
    }
}

impl Drop for PortMapThread {
    fn drop(&mut self) {
        // Nobody takes what the thread might wait to say.
        self.news = never();
        self.ending = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that asks the router panicked");
        }
    }
}

/// Why there is no mapping.
#[derive(Debug)]
enum Fault {
    Io(io::Error),
    Silent,
    Refused(MappingRefusal),
    /// The node ends.
    Ending,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Silent => f.write_str("it does not answer"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Ending => f.write_str("the node ends"),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The state of the thread.
struct Mapper {
    port: u16,
    patience: Patience,
    routes: Box<dyn Fn() -> Vec<Route> + Send>,
    news: Sender<NetAddress>,
    ends: Receiver<()>,
}

/// The result of asking all routers.
#[derive(Debug, Default)]
struct Round {
    /// The shortest lifetime of a mapping, in seconds; `None`: there is none.
    lifetime: Option<u32>,
    faults: Vec<(SocketAddr, Fault)>,
}

impl Mapper {
    /// Asks again and again, until the node ends.
    fn run(&self) {
        // The same number renews a mapping; another one asks for a new one.
        let (mut kept, mut is_known) = (None, false);
        loop {
            let nonce = kept.map_or_else(random_bytes, Ok);
            let round = match &nonce {
                Ok(nonce) => self.round(nonce),
                Err(error) => {
                    log::warn!("No port is mapped: {error}");
                    Round::default()
                }
            };
            if self.is_ending() {
                return;
            }
            say(&round, is_known);
            let renews = round.lifetime.filter(|lifetime| *lifetime >= LEAST_LIFETIME);
            is_known = renews.is_none() || !round.faults.is_empty();
            kept = nonce.ok().filter(|_| renews.is_some());
            let pause = pause_of(renews, random_bytes().map_or(0, |[byte]| byte));
            log::debug!("portmap: the next request is in {} s", pause.as_secs());
            if self.ends.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    fn is_ending(&self) -> bool {
        self.ends.try_recv() == Err(TryRecvError::Disconnected)
    }

    fn round(&self, nonce: &[u8; MAPPING_NONCE_SIZE]) -> Round {
        let mut round = Round::default();
        for route in (self.routes)().iter().take(MAX_NEWS) {
            match self.map(route, nonce) {
                Ok(mapping) => {
                    let lifetime = round.lifetime.unwrap_or(LIFETIME).min(mapping.lifetime);
                    round.lifetime = Some(lifetime);
                    // With the node's end nobody listens any more.
                    let (Ok(()) | Err(_)) = self.news.send(mapping.external);
                }
                Err(fault) => {
                    log::debug!("portmap: nothing by {}: {fault}", route.gateway);
                    round.faults.push((route.gateway, fault));
                }
            }
        }
        round
    }

    /// Asks one router; by NAT-PMP where it knows no PCP.
    fn map(&self, route: &Route, nonce: &[u8; MAPPING_NONCE_SIZE]) -> Result<Mapping, Fault> {
        // It refuses to map an address from which it is not asked.
        let socket = UdpSocket::bind((route.own, 0))?;
        socket.connect(route.gateway)?;
        let client = socket.local_addr()?.ip();
        let (port, lifetime) = (self.port, LIFETIME);
        let request = MappingRequest { nonce: *nonce, client, wanted: route.own, port, lifetime };
        log::debug!("portmap: asking {} to map {client} port {port}", route.gateway);
        let pcp = self.exchange(&socket, &request.pcp(), |packet| request.pcp_answer(packet));
        let mapping = match (pcp, client) {
            (Err(Fault::Refused(MappingRefusal::OnlyNatPmp)), IpAddr::V4(_)) => {
                log::debug!("portmap: falling back to NAT-PMP");
                let router = self.exchange(&socket, &NATPMP_ADDRESS_REQUEST, natpmp_address)?;
                let read = |packet: &[u8]| request.natpmp_answer(router, packet);
                self.exchange(&socket, &request.natpmp(), read)
            }
            (pcp, _) => pcp,
        }?;
        log::info!(
            "portmap: Added mapping {}:{} -> {} (for {}s)",
            mapping.protocol,
            mapping.external,
            SocketAddr::new(client, port),
            mapping.lifetime
        );
        Ok(mapping)
    }

    /// Sends a request until there is an answer to it.
    fn exchange<T>(
        &self,
        socket: &UdpSocket,
        request: &[u8],
        read: impl Fn(&[u8]) -> Option<Result<T, MappingRefusal>>,
    ) -> Result<T, Fault> {
        let mut packet = [0; MAX_MAPPING_PACKET];
        for _ in 0..self.patience.tries {
            socket.send(request)?;
            let sent = Instant::now();
            while let Some(left) = self.patience.timeout.checked_sub(sent.elapsed()) {
                if self.is_ending() {
                    return Err(Fault::Ending);
                }
                // Zero would be without a limit.
                let longest = left.clamp(Duration::from_millis(1), LOOK);
                socket.set_read_timeout(Some(longest))?;
                let len = match socket.recv(&mut packet) {
                    Ok(len) => len,
                    Err(error) if is_timeout(&error) => continue,
                    Err(error) => return Err(error.into()),
                };
                match read(&packet[..len]) {
                    Some(answer) => return answer.map_err(Fault::Refused),
                    None => log::debug!("portmap: {len} bytes are no answer to the request"),
                }
            }
        }
        Err(Fault::Silent)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Until the next request: between half and five eighths of the lifetime (RFC 6887, section 11.2.1), by a
/// random byte.
fn pause_of(lifetime: Option<u32>, random: u8) -> Duration {
    let Some(lifetime) = lifetime else { return RETRY };
    let half = Duration::from_secs(lifetime.into()) / 2;
    half + half / 4 * random.into() / 256
}

/// A line for each router where nothing is forwarded, once until everything is again.
fn say(round: &Round, is_known: bool) {
    let level = if is_known { log::Level::Debug } else { log::Level::Warn };
    match round.lifetime {
        Some(lifetime) if lifetime < LEAST_LIFETIME => {
            log::log!(
                level,
                "portmap: Got impossibly short mapping lifetime of {lifetime} seconds"
            );
        }
        Some(_) => {}
        None if round.faults.is_empty() => {
            log::log!(level, "No port is mapped (-natpmp): there is no default gateway");
        }
        None => {
            for (gateway, fault) in &round.faults {
                log::log!(level, "No port is mapped (-natpmp) by {gateway}: {fault}");
            }
        }
    }
    let lacks = |(_, fault): &(SocketAddr, Fault)| matches!(fault, Fault::Refused(refusal) if refusal.is_lack_of_resources());
    if round.faults.iter().any(lacks) {
        log::log!(
            level,
            "The port may be that of another machine of this network: another -port may help."
        );
    }
}
