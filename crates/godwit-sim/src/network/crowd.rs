//! The peers of a run, and the events by which they reach the node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use godwit_p2p::NetAddress;

use super::conduct::Conduct;
use super::faults::Fault;
use super::link::LinkSpec;
use super::net::{ConnectionId, End, Happening, Network, Socket};
use super::session::Session;
use crate::rng::Rng;

/// A peer, and how it is reached.
#[derive(Clone, Debug)]
pub struct PeerPlan {
    pub address: NetAddress,
    pub conduct: Arc<Conduct>,
    /// How it is connected.
    pub link: LinkSpec,
    /// Whether it accepts connections.
    pub listens: bool,
    /// The peer opens a connection to the node after the first time, and a new one after the second time
    /// whenever a connection ends.
    pub dials: Option<(Duration, Duration)>,
}

/// An event that the node's driver has to handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// A peer has opened a connection.
    Incoming(ConnectionId, NetAddress),
    /// A connection that the node opened is established.
    Connected(ConnectionId),
    /// Bytes have arrived.
    Readable(ConnectionId),
    /// There is room again.
    Writable(ConnectionId),
    /// The peer has closed.
    Ended(ConnectionId),
    /// A timer of the driver's own ([`Crowd::wake`]).
    Timer(u64),
}

struct Open {
    peer: usize,
    node_opened: bool,
    session: Option<Session>,
    /// The earliest timer that is set for the session.
    wake: Option<Duration>,
}

/// Bits of timer tokens that tell what a timer is for.
const SESSION: u64 = 1 << 63;
const DIAL: u64 = 1 << 62;

/// All peers and their connections.
pub struct Crowd {
    network: Network,
    plans: Vec<PeerPlan>,
    open: BTreeMap<ConnectionId, Open>,
    magic: [u8; 4],
    unix_start: i64,
    rng: Rng,
}

impl Crowd {
    /// Peers before their first connection. `line`: as in [`Network::new`]; `unix_start`: the peers'
    /// clock at the start, in seconds since 1970.
    pub fn new(
        seed: u64,
        line: Option<u64>,
        magic: [u8; 4],
        unix_start: i64,
        plans: Vec<PeerPlan>,
    ) -> Self {
        let mut network = Network::new(seed, line);
        for (token, plan) in (DIAL..).zip(&plans) {
            if let Some((first, _)) = plan.dials {
                network.wake(first, token);
            }
        }
        let rng = Rng::new(seed ^ 0x7065_6572);
        Self { network, plans, open: BTreeMap::new(), magic, unix_start, rng }
    }

    /// As [`Network::plan_faults`].
    pub fn plan_faults(&mut self, faults: Vec<Fault>) {
        self.network.plan_faults(faults);
    }

    /// Whether a connection to the address can be opened now, or is refused at least.
    pub fn is_reachable(&self, address: &NetAddress) -> bool {
        let peer = self.plans.iter().position(|plan| plan.address == *address);
        peer.is_none_or(|peer| self.network.is_reachable(peer))
    }

    /// Whether the connection may fail without a fault of the node: nothing more can be expected of it, or
    /// the links of its peer alone have failed.
    pub fn is_excused(&self, id: ConnectionId) -> bool {
        let failed = |open: &Open| self.network.has_failed(open.peer);
        self.network.is_dead(id) || self.open.get(&id).is_some_and(failed)
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.network.now()
    }

    pub fn plans(&self) -> &[PeerPlan] {
        &self.plans
    }

    /// The peer at the other end of a connection that is not closed on both sides.
    pub fn peer(&self, id: ConnectionId) -> Option<&PeerPlan> {
        self.open.get(&id).map(|open| &self.plans[open.peer])
    }

    /// Opens a connection from the node; `None` if nobody listens there.
    pub fn connect(&mut self, address: &NetAddress) -> Option<ConnectionId> {
        let listens = |plan: &PeerPlan| plan.listens && plan.address == *address;
        let peer = self.plans.iter().position(listens)?;
        Some(self.start(peer, true))
    }

    /// The node's end of a connection.
    pub fn socket(&mut self, id: ConnectionId) -> Socket<'_> {
        self.network.socket(id, End::Node)
    }

    /// Closes the node's end.
    pub fn close(&mut self, id: ConnectionId) {
        self.network.close(id, End::Node);
    }

    /// A [`NodeEvent::Timer`] at that time. The token's two highest bits must be zero.
    pub fn wake(&mut self, at: Duration, token: u64) {
        assert_eq!(token & (SESSION | DIAL), 0, "a token of the driver's");
        self.network.wake(at, token);
    }

    /// Moves time to the next event that concerns the node; `None` if there is none until `until`.
    pub fn next(&mut self, until: Duration) -> Option<NodeEvent> {
        while let Some(happening) = self.network.next(until) {
            if let Some(event) = self.happen(happening) {
                return Some(event);
            }
        }
        None
    }

    fn start(&mut self, peer: usize, node_opened: bool) -> ConnectionId {
        let opener = if node_opened { End::Node } else { End::Peer };
        let id = self.network.connect(peer, self.plans[peer].link, opener);
        self.open.insert(id, Open { peer, node_opened, session: None, wake: None });
        id
    }

    fn happen(&mut self, happening: Happening) -> Option<NodeEvent> {
        match happening {
            Happening::Opened(id, End::Node) => {
                let open = &self.open[&id];
                Some(match open.node_opened {
                    true => NodeEvent::Connected(id),
                    false => NodeEvent::Incoming(id, self.plans[open.peer].address),
                })
            }
            Happening::Readable(id, End::Node) => Some(NodeEvent::Readable(id)),
            Happening::Writable(id, End::Node) => Some(NodeEvent::Writable(id)),
            Happening::Ended(id, End::Node) => Some(NodeEvent::Ended(id)),
            Happening::Opened(id, End::Peer) => {
                self.begin(id);
                None
            }
            Happening::Readable(id, End::Peer) | Happening::Writable(id, End::Peer) => {
                self.serve(id);
                None
            }
            Happening::Ended(id, End::Peer) => {
                self.finish(id);
                None
            }
            Happening::Timer(token) => self.timer(token),
        }
    }

    fn timer(&mut self, token: u64) -> Option<NodeEvent> {
        if token & SESSION != 0 {
            let id = ConnectionId(token & !SESSION);
            let now = self.network.now();
            // If an earlier timer has been set since, this one no longer counts.
            if let Some(open) = self.open.get_mut(&id).filter(|open| open.wake == Some(now)) {
                open.wake = None;
                self.serve(id);
            }
            None
        } else if token & DIAL != 0 {
            let peer = (token & !DIAL) as usize;
            if self.network.is_reachable(peer) {
                self.start(peer, false);
            } else if let Some((_, again)) = self.plans[peer].dials {
                self.network.wake(self.network.now() + again, token);
            }
            None
        } else {
            Some(NodeEvent::Timer(token))
        }
    }

    fn begin(&mut self, id: ConnectionId) {
        let now = self.network.now();
        let open = self.open.get_mut(&id).expect("it was just opened");
        open.session = Some(Session::new(
            Arc::clone(&self.plans[open.peer].conduct),
            self.magic,
            !open.node_opened,
            now,
            self.unix_start,
            self.rng.next_u64(),
        ));
        self.serve(id);
    }

    fn serve(&mut self, id: ConnectionId) {
        let now = self.network.now();
        let Some(open) = self.open.get_mut(&id) else { return };
        let Some(session) = &mut open.session else { return };
        let socket = &mut self.network.socket(id, End::Peer);
        let alive = session.writable(now, socket)
            && session.readable(now, socket)
            && session.writable(now, socket);
        if !alive {
            self.finish(id);
            return;
        }
        if let Some(at) = session.wakeup(now)
            && open.wake.is_none_or(|set| at < set || set < now)
        {
            let at = at.max(now);
            open.wake = Some(at);
            self.network.wake(at, SESSION | id.0);
        }
    }

    /// The peer leaves, or the node has left.
    fn finish(&mut self, id: ConnectionId) {
        let now = self.network.now();
        self.network.close(id, End::Peer);
        let Some(open) = self.open.get_mut(&id) else { return };
        if open.session.take().is_none() {
            return;
        }
        if !open.node_opened
            && let Some((_, again)) = self.plans[open.peer].dials
        {
            self.network.wake(now + again, DIAL | open.peer as u64);
        }
    }
}
