//! Which peers are disconnected because they hold up the download.

use std::time::Duration;

use super::Downloads;
use super::peer::{Flight, Peer};
use crate::peer_id::PeerId;
use crate::time::Now;

/// Least time that a peer gets to deliver what another one has delivered. (Core: 2 to 64 seconds
/// when the window cannot move, without asking another peer.)
const STALL: Duration = Duration::from_secs(30);

/// Least silence, while others deliver, after which a peer is disconnected.
const SILENCE: Duration = Duration::from_secs(60);

/// Silence after which a peer is disconnected even if no other peer delivers (Core: ten minutes,
/// and five more for each other peer).
const LONG_SILENCE: Duration = Duration::from_secs(600);

/// [`STALL`] and [`SILENCE`] are at least this many times what the other peers need for a block on
/// average.
const BLOCKS_PER_DEADLINE: f64 = 8.0;

/// They are at least this many times what the quickest of the other peers takes to begin an answer, too.
/// Where somebody floods a slow line of ours, all answers wait in its queue: seed 5989 of the simulated runs
/// with kills has 17 seconds for everybody, and let an honest peer go whose blocks were 60 seconds under way.
/// The quickest one, because a peer can make its own answers late, but not those of others.
const ANSWERS_PER_DEADLINE: f64 = 8.0;

/// A peer that withholds a block this many times as long as [`STALL`] is stalling, whatever else it sends;
/// headers that it was asked for before the block excuse it for as long at most. Seed 98059 of the simulated
/// runs has a full message of them on its way for 50 seconds before the first block, on a flooded line.
/// The time in which it delivers those that it was asked for before does not count: seed 15475 of the
/// simulated runs asks an honest peer for 76 blocks of 174 bytes, as it believes; they have 17 kB, and on a
/// flooded line they take eight minutes.
const STALLS: f64 = 4.0;

/// A peer is dribbling if it is this many times slower than the others' average.
const DRIBBLE: f64 = 16.0;

/// A peer to be disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overdue {
    pub peer: PeerId,
    pub why: OverdueReason,
}

/// Why a peer is to be disconnected. Neither is a reason to discourage its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverdueReason {
    /// It withholds a block that another peer has delivered meanwhile, or sends blocks that it was
    /// not asked for instead.
    Stalled,
    /// Nothing arrived from it for a long time.
    Silent,
}

/// What the other peers do.
#[derive(Clone, Copy)]
struct Others {
    /// Average rate of one of them, in bytes per second.
    rate: Option<f64>,
    /// Seconds from a request to the first byte of its answer, of the quickest of them.
    latency: Option<f64>,
    /// When any of them last [delivered](Peer::delivered).
    last_bytes: Option<Duration>,
}

/// When the peer was asked for the headers that it has not sent. By any clock: another time is another
/// request.
pub(crate) fn set_headers_asked(downloads: &mut Downloads, peer: PeerId, asked: Option<Duration>) {
    if let Some(peer) = downloads.peers.get_mut(&peer) {
        peer.set_headers_asked(asked);
    }
}

/// Bytes of headers arrived from the peer. They prove no rate, but may come before blocks. The clock does not
/// advance for them: it counts little of a time in which it is not looked at, and more would count against
/// everybody.
pub(crate) fn headers_received(downloads: &mut Downloads, peer: PeerId) {
    let now = downloads.clock.time();
    if let Some(peer) = downloads.peers.get_mut(&peer) {
        peer.headers_arrive(now);
    }
}

impl Downloads {
    /// Peers to be disconnected now. Each is reported once and asked for nothing more.
    pub(crate) fn overdue(&mut self, now: Now) -> Vec<Overdue> {
        let now = self.clock.advance(now);
        for peer in self.peers.values_mut() {
            peer.advance(now);
        }
        let mut overdue = Vec::new();
        for (id, peer) in &self.peers {
            let waited_for = peer.queue.iter().any(Flight::is_owed);
            if waited_for && !peer.reported {
                let why = self.judge(peer, self.others(*id), now);
                overdue.extend(why.map(|why| Overdue { peer: *id, why }));
            }
        }
        for one in &overdue {
            self.peers.get_mut(&one.peer).expect("just seen").reported = true;
        }
        overdue
    }

    fn others(&self, id: PeerId) -> Others {
        let others = || self.peers.iter().filter(|(other, _)| **other != id).map(|(_, peer)| peer);
        let rates = others().filter_map(|peer| peer.rate.get());
        let (sum, count) = rates.fold((0.0, 0), |(sum, count), rate| (sum + rate, count + 1));
        let rate = (count > 0).then(|| sum / f64::from(count));
        let latency = others().filter_map(|peer| peer.latency).reduce(f64::min);
        Others { rate, latency, last_bytes: others().filter_map(Peer::delivered).max() }
    }

    fn judge(&self, peer: &Peer, others: Others, now: Duration) -> Option<OverdueReason> {
        let block = others.rate.map_or(0.0, |rate| self.size / rate.max(0.001));
        let deadline =
            (BLOCKS_PER_DEADLINE * block).max(ANSWERS_PER_DEADLINE * others.latency.unwrap_or(0.0));
        let patience = |least: Duration| least.as_secs_f64().max(deadline);
        let seconds_since = |then: Duration| now.saturating_sub(then).as_secs_f64();
        let most = STALLS * patience(STALL);
        let next = peer.queue.iter().find(|flight| flight.is_owed());
        let excused_until = next.map_or(Duration::ZERO, |next| next.excused_until(most));
        let silence = seconds_since(excused_until.max(peer.last_bytes));
        let dribbles = match (peer.rate.get(), others.rate) {
            (Some(rate), Some(usual)) => rate * DRIBBLE < usual,
            _ => false,
        };
        let stalled = peer.queue.iter().filter(|flight| flight.is_owed()).any(|flight| {
            let since =
                flight.overtaken.map(|then| seconds_since(then.max(flight.excused_until(most))));
            let silent = silence >= patience(STALL);
            since.is_some_and(|since| {
                since.min(peer.withheld(flight, now)) >= most
                    || since >= patience(STALL) && (flight.skipped || dribbles || silent)
            })
        });
        if stalled || peer.floods() {
            return Some(OverdueReason::Stalled);
        }
        let others_deliver = others
            .last_bytes
            .is_some_and(|last| last > peer.last_bytes && seconds_since(last) < patience(STALL));
        let silent = (others_deliver && silence >= patience(SILENCE))
            || silence >= LONG_SILENCE.as_secs_f64();
        silent.then_some(OverdueReason::Silent)
    }
}
