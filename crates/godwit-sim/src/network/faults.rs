//! What goes wrong between the node and its peers, and is the fault of neither.

use std::time::Duration;

use crate::rng::Rng;

/// How long the system of an end goes on with a connection of which nothing arrives, when it watches.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(60);

/// Something happens to the links of one peer, or to all of them: the node's own line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: Duration,
    /// How long no connection can be opened, and what a [stall](FaultKind::Stall) holds back.
    pub lasts: Duration,
    /// The peer's place in the company; `None`: the line.
    pub whom: Option<usize>,
    pub kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Connections end on both sides, with all that is under way.
    Reset,
    /// Nothing arrives; at the end, all that was sent.
    Stall,
    /// What is sent over connections that stand vanishes from then on; the other way it may go on.
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
    /// A minute after something arrived last.
    Soon,
    Never,
}

impl Fault {
    /// Whether it keeps connections to the peer from being opened.
    pub(super) fn bars(&self, peer: usize, now: Duration) -> bool {
        self.concerns(peer) && self.at <= now && now < self.at + self.lasts
    }

    pub(super) fn concerns(&self, peer: usize) -> bool {
        self.whom.is_none_or(|whom| whom == peer)
    }

    /// When something that would arrive then does.
    pub(super) fn delays_to(&self, peer: usize, arrival: Duration) -> Option<Duration> {
        (self.kind == FaultKind::Stall && self.bars(peer, arrival)).then(|| self.at + self.lasts)
    }
}

/// Faults of a run with so many peers, of which the node's line has one at least.
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
