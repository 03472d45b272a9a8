//! Connections that the operator asked for: `-connect` and `-addnode`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Opening, SlotPeer, SlotsConfig};
use crate::connection_kind::ConnectionKind;
use crate::net_address::Host;
use crate::target::Target;

/// Most connections that `-addnode` opens (Core `MAX_ADDNODE_CONNECTIONS`), those that the operator has tried
/// once included.
pub const MAX_ADD_NODE_CONNECTIONS: usize = 8;
/// Time between two attempts to reach a peer of `-addnode`.
const ADD_NODE_INTERVAL: Duration = Duration::from_secs(60);
/// A peer of `-connect` is tried again after this time, which grows by as much with each attempt
/// ...
const CONNECT_INTERVAL: Duration = Duration::from_millis(500);
/// ... up to this many intervals.
const CONNECT_INTERVALS: u32 = 10;

/// A peer to stay connected to.
struct Wish {
    target: Target,
    /// When to try it next.
    due: Duration,
    attempts: u32,
}

impl Wish {
    fn to(target: &Target) -> Self {
        Self { target: target.clone(), due: Duration::ZERO, attempts: 0 }
    }

    fn is_due(&self, now: Duration, peers: &[SlotPeer<'_>]) -> bool {
        self.due <= now && !is_open(&self.target, peers)
    }

    /// Opens the connection; the next attempt is due after `wait` of the number of earlier
    /// attempts.
    fn dial(&mut self, now: Duration, wait: impl Fn(u32) -> Duration) -> Opening {
        self.due = now.saturating_add(wait(self.attempts));
        self.attempts = self.attempts.saturating_add(1);
        let (target, kind) = (self.target.clone(), ConnectionKind::Manual);
        Opening::Connect { target, kind, count_failure: false }
    }
}

/// The peers that the operator asked for, by `-connect` and by `-addnode`; `-connect` does not
/// switch `-addnode` off (Core `CConnman::Start` runs `ThreadOpenAddedConnections` in any case).
pub(super) struct Manual {
    connect: Vec<Wish>,
    /// Those of `-addnode` that are not in `connect` as well.
    added: Vec<Wish>,
    /// To be tried once, when there is a place; at most [`MAX_TRIES`].
    once: Vec<Target>,
}

/// Peers that wait for their only attempt. A request for more is refused.
const MAX_TRIES: usize = 64;

/// Peers of `addnode` at most; each costs a look at every connection twice a second.
const MAX_ADDED_NODES: usize = 1000;

impl Manual {
    pub(super) fn new(config: &SlotsConfig) -> Self {
        let connect = config.connect_only.as_deref().unwrap_or_default();
        let added = config.add_nodes.iter().filter(|target| !connect.contains(target));
        Self {
            connect: connect.iter().map(Wish::to).collect(),
            added: added.map(Wish::to).collect(),
            once: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, target: &Target) {
        if self.added.len() < MAX_ADDED_NODES && !self.added().contains(target) {
            self.added.push(Wish::to(target));
        }
    }

    pub(super) fn remove(&mut self, target: &Target) {
        self.added.retain(|wish| wish.target != *target);
    }

    pub(super) fn try_once(&mut self, target: Target) {
        if self.once.len() < MAX_TRIES {
            self.once.push(target);
        }
    }

    pub(super) fn added(&self) -> Vec<Target> {
        self.added.iter().map(|wish| wish.target.clone()).collect()
    }

    /// Hosts of those that are named by their address.
    pub(super) fn added_hosts(&self) -> BTreeSet<Host> {
        let host = |wish: &Wish| match &wish.target {
            Target::Address(address) => Some(address.host),
            Target::Name { .. } => None,
        };
        self.added.iter().filter_map(host).collect()
    }

    pub(super) fn next(&mut self, now: Duration, peers: &[SlotPeer<'_>]) -> Vec<Opening> {
        let room = MAX_ADD_NODE_CONNECTIONS.saturating_sub(self.open_added(peers));
        self.once.retain(|target| !is_open(target, peers));
        let tries = self.once.len().min(room);
        let room = room - tries;
        let connect = self.connect.iter_mut().filter(|wish| wish.is_due(now, peers));
        let added = self.added.iter_mut().filter(|wish| wish.is_due(now, peers)).take(room);
        let once = self.once.drain(..tries).map(|target| Opening::Connect {
            target,
            kind: ConnectionKind::Manual,
            count_failure: false,
        });
        once.chain(
            connect
                .map(|wish| wish.dial(now, connect_interval))
                .chain(added.map(|wish| wish.dial(now, |_| ADD_NODE_INTERVAL))),
        )
        .collect()
    }

    /// Connections opened for `-addnode`, or for a single try.
    fn open_added(&self, peers: &[SlotPeer<'_>]) -> usize {
        let is_added = |peer: &&SlotPeer<'_>| {
            peer.kind == ConnectionKind::Manual
                && !self.connect.iter().any(|wish| peer.target == Some(&wish.target))
        };
        peers.iter().filter(is_added).count()
    }
}

fn connect_interval(attempts: u32) -> Duration {
    CONNECT_INTERVAL * (attempts.min(CONNECT_INTERVALS) + 1)
}

/// Whether there is a connection to it, in either direction.
fn is_open(target: &Target, peers: &[SlotPeer<'_>]) -> bool {
    peers.iter().any(|peer| {
        let same_address = match target {
            Target::Address(address) => peer.address == Some(*address),
            Target::Name { .. } => false,
        };
        same_address || peer.target == Some(target)
    })
}
