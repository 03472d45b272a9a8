//! Connections that the operator asked for: `-connect` and `-addnode`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Opening, SlotPeer, SlotsConfig};
use crate::connection_kind::ConnectionKind;
use crate::net_address::Host;
use crate::target::Target;

/// Most connections that `-addnode` opens (Core `MAX_ADDNODE_CONNECTIONS`).
pub const MAX_ADD_NODE_CONNECTIONS: usize = 8;
/// Most connections at a time that the operator has tried once. Core has no limit of their own for them; here
/// each has its part of the descriptors and of the memory that is set aside.
pub const MAX_TRIED_CONNECTIONS: usize = 8;
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
    /// Whose connection was opened for a single try; at most [`MAX_TRIED_CONNECTIONS`]. It takes no place of
    /// `added`, as in Core, where it has no permit of `semAddnode`.
    tried: Vec<Target>,
}

/// Peers of `addnode` at most; each costs a look at every connection twice a second.
const MAX_ADDED_NODES: usize = 1000;

impl Manual {
    pub(super) fn new(config: &SlotsConfig) -> Self {
        let connect = config.connect_only.as_deref().unwrap_or_default();
        let added = config.add_nodes.iter().filter(|target| !connect.contains(target));
        Self {
            connect: connect.iter().map(Wish::to).collect(),
            added: added.map(Wish::to).collect(),
            tried: Vec::new(),
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

    /// Takes a place for a single try, which the caller makes now; false if there is a connection already, or
    /// no place. Nothing is left for later (Core `OpenNetworkConnection`).
    pub(super) fn try_once(&mut self, target: &Target, peers: &[SlotPeer<'_>]) -> bool {
        let takes = !is_open(target, peers) && !self.refuses_try(target, peers);
        if takes {
            self.forget_ended_tries(peers);
            self.tried.push(target.clone());
        }
        takes
    }

    /// Whether a try is not made because there are as many as may be.
    pub(super) fn refuses_try(&self, target: &Target, peers: &[SlotPeer<'_>]) -> bool {
        !is_open(target, peers) && self.open_tried(peers) >= MAX_TRIED_CONNECTIONS
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
        // Before others are dialled: a peer that was tried may have gone and be wanted for good.
        self.forget_ended_tries(peers);
        let room = MAX_ADD_NODE_CONNECTIONS.saturating_sub(self.open_added(peers));
        let connect = self.connect.iter_mut().filter(|wish| wish.is_due(now, peers));
        let added = self.added.iter_mut().filter(|wish| wish.is_due(now, peers)).take(room);
        connect
            .map(|wish| wish.dial(now, connect_interval))
            .chain(added.map(|wish| wish.dial(now, |_| ADD_NODE_INTERVAL)))
            .collect()
    }

    /// Connections opened for `-addnode`. One of a peer that was removed meanwhile keeps its place, as its
    /// permit in Core.
    fn open_added(&self, peers: &[SlotPeer<'_>]) -> usize {
        let of_connect = |target: &Target| self.connect.iter().any(|wish| wish.target == *target);
        open_to(peers, |target| !of_connect(target) && !self.tried.contains(target))
    }

    fn open_tried(&self, peers: &[SlotPeer<'_>]) -> usize {
        open_to(peers, |target| self.tried.contains(target))
    }

    fn forget_ended_tries(&mut self, peers: &[SlotPeer<'_>]) {
        self.tried.retain(|tried| open_to(peers, |target| target == tried) > 0);
    }
}

/// Manual connections to such targets.
fn open_to(peers: &[SlotPeer<'_>], wanted: impl Fn(&Target) -> bool) -> usize {
    let is_one = |peer: &&SlotPeer<'_>| {
        peer.kind == ConnectionKind::Manual && peer.target.is_some_and(&wanted)
    };
    peers.iter().filter(is_one).count()
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
