//! Failures between the node and its peers for which neither is to blame.

use std::time::Duration;

use crate::rng::Rng;

/// How long an end's system keeps a connection on which nothing arrives, if it watches for that.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(60);

/// A failure of the links of one peer, or of all links: that is the node's own line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: Duration,
    /// How long no connection can be opened, and how long a [stall](FaultKind::Stall) holds bytes back.
    pub lasts: Duration,
    /// Number of the peer; `None`: the node's line.
    pub whom: Option<usize>,
    pub kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Connections end on both sides, with all that is under way.
    Reset,
    /// Nothing arrives until the end of the fault; then everything sent meanwhile arrives.
    Stall,
    /// From then on, bytes sent over existing connections vanish, in one direction or both.
    BlackHole { lost: Lost, noticed: Noticed },
}

/// In which direction bytes vanish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    ToNode,
    ToPeer,
    Both,
}

/// Whether the systems of the ends find that a connection is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// A minute after the last bytes arrived.
    Soon,
    Never,
}

impl Fault {
    /// Whether the fault prevents connections to the peer.
    pub(super) fn bars(&self, peer: usize, now: Duration) -> bool {
        self.concerns(peer) && self.at <= now && now < self.at + self.lasts
    }

    pub(super) fn concerns(&self, peer: usize) -> bool {
        self.whom.is_none_or(|whom| whom == peer)
    }

    /// The time to which this fault delays an arrival, if it does.
    pub(super) fn delays_to(&self, peer: usize, arrival: Duration) -> Option<Duration> {
        (self.kind == FaultKind::Stall && self.bars(peer, arrival)).then(|| self.at + self.lasts)
    }
}

/// Random faults for a run with this many peers; at least one concerns the node's line.
pub(super) fn random(rng: &mut Rng, peers: usize) -> Vec<Fault> {
    let mut faults = Vec::new();
    for _ in 0..rng.between(1, 3) {
        faults.push(one(rng, None));
    }
    for peer in 0..peers {
        if rng.chance(250) {
            faults.push(one(rng, Some(peer)));
        }
    }
    faults
}

fn one(rng: &mut Rng, whom: Option<usize>) -> Fault {
    let lost = [Lost::ToNode, Lost::ToPeer, Lost::Both][rng.below(3) as usize];
    let noticed = if rng.chance(500) { Noticed::Soon } else { Noticed::Never };
    let kind = match rng.below(4) {
        0 => FaultKind::Reset,
        1 | 2 => FaultKind::Stall,
        _ => FaultKind::BlackHole { lost, noticed },
    };
    Fault {
        at: Duration::from_millis(rng.log_between(1_000, 900_000)),
        lasts: Duration::from_millis(rng.log_between(500, 1_000_000)),
        whom,
        kind,
    }
}
