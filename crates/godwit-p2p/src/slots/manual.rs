//! Connections that the operator asked for: `-connect` and `-addnode`.

use std::time::Duration;

use super::{Opening, SlotPeer, SlotsConfig};
use crate::connection_kind::ConnectionKind;
use crate::target::Target;

/// Most connections that `-addnode` opens (Core `MAX_ADDNODE_CONNECTIONS`).
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

/// The peers that the operator asked for.
pub(super) struct Manual {
    wishes: Vec<Wish>,
    /// `-connect` rather than `-addnode`.
    only: bool,
}

impl Manual {
    pub(super) fn new(config: &SlotsConfig) -> Self {
        let targets = config.connect_only.as_ref().unwrap_or(&config.add_nodes);
        let wish =
            |target: &Target| Wish { target: target.clone(), due: Duration::ZERO, attempts: 0 };
        Self { wishes: targets.iter().map(wish).collect(), only: config.connect_only.is_some() }
    }

    pub(super) fn next(&mut self, now: Duration, peers: &[SlotPeer<'_>]) -> Vec<Opening> {
        let open = peers.iter().filter(|peer| peer.kind == ConnectionKind::Manual).count();
        let room =
            if self.only { usize::MAX } else { MAX_ADD_NODE_CONNECTIONS.saturating_sub(open) };
        let only = self.only;
        self.wishes
            .iter_mut()
            .filter(|wish| wish.due <= now && !is_open(&wish.target, peers))
            .take(room)
            .map(|wish| {
                let wait = if only { connect_interval(wish.attempts) } else { ADD_NODE_INTERVAL };
                wish.attempts = wish.attempts.saturating_add(1);
                wish.due = now.saturating_add(wait);
                let (target, kind) = (wish.target.clone(), ConnectionKind::Manual);
                Opening::Connect { target, kind, count_failure: false }
            })
            .collect()
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
