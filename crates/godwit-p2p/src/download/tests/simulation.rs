//! A line, peers with rates and answer times, and a chain; time goes in steps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::super::overdue::Overdue;
use super::super::{Downloads, PeerTraits, Receipt};
use super::tree::{Tree, hash_of};
use crate::{HeaderId, HeaderIndex, Now, PeerId};

/// What a peer does with requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Conduct {
    Honest,
    /// Answers nothing.
    Stalls,
    /// One byte a second.
    Dribbles,
    /// Delivers all but every n-th block.
    Withholds(u32),
    /// Bytes that are not those of the block.
    Junk,
    /// Has nothing of what it announced.
    NotFound,
    /// Honest for so many blocks.
    DiesAfter(u32),
    /// Sends so many bytes of the first block, and nothing more.
    BreaksOff(u64),
    /// Honest for so many blocks, then only blocks of `message` bytes that nobody asked for.
    Floods {
        after: u32,
        message: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) struct SimPeer {
    pub(super) conduct: Conduct,
    pub(super) rate: f64,
    latency: f64,
    queue: VecDeque<(HeaderId, f64)>,
    sent: f64,
    answered: u32,
    pub(super) delivered: u64,
}

#[derive(Debug)]
pub(super) struct Simulation {
    pub(super) tree: Tree,
    pub(super) downloads: Downloads,
    pub(super) peers: BTreeMap<PeerId, SimPeer>,
    pub(super) time: f64,
    /// Bytes a second of the whole line.
    pub(super) link: f64,
    /// Bytes that the chain holds while it judges, and how fast it judges.
    pub(super) capacity: u64,
    pub(super) judging_rate: f64,
    /// Blocks with the chain: when it began to judge, sender, good.
    judging: VecDeque<(HeaderId, PeerId, bool)>,
    judged_bytes: f64,
    pub(super) overdue: Vec<Overdue>,
    pub(super) duplicates: u64,
    pub(super) asked: BTreeSet<(PeerId, HeaderId)>,
    /// Copies that were dropped because another one was with the chain.
    dropped: BTreeSet<(PeerId, HeaderId)>,
    /// What was dropped for bytes that proved bad.
    needed_again: BTreeSet<(PeerId, HeaderId)>,
    /// Until when a peer that failed to deliver a block is not asked for it, and for how long.
    excluded: BTreeMap<(PeerId, HeaderId), (f64, f64)>,
    pub(super) requests: u64,
    pub(super) most_in_flight: u64,
    pub(super) reconnect: bool,
}

/// Seconds of a step.
const STEP: f64 = 0.01;

/// A block that no tree here has.
const UNKNOWN: HeaderId = HeaderId(u32::MAX);

pub(super) const HONEST: PeerTraits = PeerTraits { preferred: true, witness: true, limited: false };

impl Simulation {
    pub(super) fn new(tree: Tree) -> Self {
        let params =
            godwit_primitives::network::Params::new(godwit_primitives::network::Network::Regtest);
        Self {
            tree,
            downloads: Downloads::new(&params, godwit_primitives::Work::ZERO),
            peers: BTreeMap::new(),
            time: 0.0,
            link: f64::INFINITY,
            capacity: 64_000_000,
            judging_rate: 1e9,
            judging: VecDeque::new(),
            judged_bytes: 0.0,
            overdue: Vec::new(),
            duplicates: 0,
            asked: BTreeSet::new(),
            dropped: BTreeSet::new(),
            needed_again: BTreeSet::new(),
            excluded: BTreeMap::new(),
            requests: 0,
            most_in_flight: 0,
            reconnect: false,
        }
    }

    pub(super) fn now(&self) -> Now {
        Now { monotonic: Duration::from_secs_f64(self.time), unix: self.time as i64 }
    }

    pub(super) fn add(&mut self, conduct: Conduct, rate: f64, latency: f64) -> PeerId {
        self.add_with(conduct, rate, latency, HONEST, self.tree.best_header())
    }

    pub(super) fn add_with(
        &mut self,
        conduct: Conduct,
        rate: f64,
        latency: f64,
        traits: PeerTraits,
        best: HeaderId,
    ) -> PeerId {
        let id = PeerId(self.peers.keys().next_back().map_or(1, |last| last.0 + 1));
        let queue = VecDeque::new();
        let peer = SimPeer { conduct, rate, latency, queue, sent: 0.0, answered: 0, delivered: 0 };
        self.peers.insert(id, peer);
        self.downloads.add_peer(id, traits, self.now());
        self.downloads.set_best_known(id, best);
        id
    }

    /// Runs until the tip is the best header, at most `limit` seconds; how long it took.
    pub(super) fn run(&mut self, limit: f64) -> f64 {
        let end = self.time + limit;
        while self.tree.tip() != self.tree.best_header() {
            assert!(
                self.time < end,
                "stuck at height {}: {:#?}",
                self.tree.get(self.tree.tip()).height,
                self.downloads
            );
            self.step();
        }
        self.time - (end - limit)
    }

    pub(super) fn run_for(&mut self, seconds: f64) {
        let end = self.time + seconds;
        while self.time < end {
            self.step();
        }
    }

    pub(super) fn step(&mut self) {
        self.time += STEP;
        self.transfer();
        self.judge();
        self.act();
    }

    /// The line is shared max-min fairly among those who have something to send.
    fn transfer(&mut self) {
        let time = self.time;
        let mut senders: Vec<(PeerId, f64)> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.queue.front().is_some_and(|(_, from)| *from <= time))
            .map(|(id, peer)| (*id, peer.sending_rate()))
            .filter(|(_, rate)| *rate > 0.0)
            .collect();
        senders.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut left = self.link;
        let mut count = senders.len();
        for (id, rate) in senders {
            let share = rate.min(left / count as f64);
            left -= share;
            count -= 1;
            self.send(id, share * STEP);
        }
        let silent: Vec<PeerId> = self.peers.keys().copied().collect();
        for id in silent {
            self.answer_without_bytes(id);
        }
    }

    fn send(&mut self, id: PeerId, bytes: f64) {
        let now = self.now();
        let peer = self.peers.get_mut(&id).unwrap();
        if let Some(message) = peer.flood() {
            return self.flood(id, message, bytes);
        }
        let before = peer.sent as u64;
        peer.sent += bytes;
        let mut told = peer.sent as u64 - before;
        let mut done = Vec::new();
        while let Some((block, from)) = peer.queue.front().copied() {
            let size = self.tree.node(block).size;
            if from > self.time || peer.sent < size as f64 {
                break;
            }
            peer.queue.pop_front();
            peer.sent -= size as f64;
            if peer.queue.is_empty() {
                told -= (peer.sent as u64).min(told);
                peer.sent = 0.0;
            }
            peer.answered += 1;
            done.push(block);
        }
        self.downloads.bytes_received(id, now, told);
        for block in done {
            self.arrived(id, block);
        }
    }

    fn flood(&mut self, id: PeerId, message: u64, bytes: f64) {
        let now = self.now();
        let peer = self.peers.get_mut(&id).unwrap();
        let before = peer.sent as u64;
        peer.sent += bytes;
        self.downloads.bytes_received(id, now, peer.sent as u64 - before);
        if peer.sent >= message as f64 {
            peer.sent = 0.0;
            let receipt = self.downloads.received(id, hash_of(UNKNOWN), message, now);
            assert_eq!(receipt, Receipt::Unrequested);
        }
    }

    fn arrived(&mut self, id: PeerId, block: HeaderId) {
        let size = self.tree.node(block).size;
        match self.downloads.received(id, hash_of(block), size, self.now()) {
            Receipt::Requested => {
                let peer = self.peers.get_mut(&id).unwrap();
                peer.delivered += size;
                self.judging.push_back((block, id, peer.conduct != Conduct::Junk));
            }
            Receipt::Duplicate => {
                self.duplicates += size;
                if !self.tree.node(block).stored {
                    self.dropped.insert((id, block));
                }
            }
            Receipt::Unrequested => panic!("{block:?} of {id:?} was requested"),
        }
    }

    /// Requests that a peer answers with `notfound`, or passes over.
    fn answer_without_bytes(&mut self, id: PeerId) {
        let (time, now) = (self.time, self.now());
        while let Some(peer) = self.peers.get_mut(&id)
            && let Some((block, from)) = peer.queue.front().copied()
        {
            if from > time {
                return;
            }
            let withheld = match peer.conduct {
                Conduct::Withholds(every) => block.0 % every == 0,
                Conduct::NotFound => true,
                _ => false,
            };
            if !withheld {
                return;
            }
            peer.queue.pop_front();
            if peer.conduct == Conduct::NotFound {
                self.downloads.not_found(id, hash_of(block), now);
                self.exclude(id, block);
            }
        }
    }

    fn exclude(&mut self, peer: PeerId, block: HeaderId) {
        let rest = self.excluded.get(&(peer, block)).map_or(60.0, |(_, rest)| rest * 2.0);
        self.excluded.insert((peer, block), (self.time + rest, rest));
    }

    /// Whether a request that was made before may be made once more: the peer's copy was dropped for
    /// one that proved bad, or its exclusion is over, or nobody is left who is not excluded.
    fn may_be_repeated(&mut self, peer: PeerId, block: HeaderId) -> bool {
        let excluded = |peer: PeerId| {
            self.excluded.get(&(peer, block)).is_some_and(|(until, _)| self.time < until - STEP)
        };
        let failed = self.excluded.contains_key(&(peer, block));
        let rested = failed && (!excluded(peer) || self.peers.keys().all(|peer| excluded(*peer)));
        self.needed_again.remove(&(peer, block)) || rested
    }

    fn judge(&mut self) {
        self.judged_bytes += self.judging_rate * STEP;
        while let Some((block, sender, good)) = self.judging.front().copied() {
            let size = self.tree.node(block).size as f64;
            if self.judged_bytes < size {
                return;
            }
            self.judged_bytes -= size;
            self.judging.pop_front();
            self.tree.nodes[block.0 as usize].stored |= good;
            self.downloads.judged(hash_of(block), good);
            let dropped: Vec<_> =
                self.dropped.extract_if(.., |(_, dropped)| *dropped == block).collect();
            if !good {
                self.exclude(sender, block);
                self.needed_again.extend(dropped);
            }
            self.tree.connect();
        }
        self.judged_bytes = 0.0;
    }

    fn act(&mut self) {
        let now = self.now();
        for overdue in self.downloads.overdue(now) {
            assert!(self.peers.contains_key(&overdue.peer), "told once");
            self.overdue.push(overdue);
            self.remove(overdue.peer);
        }
        let held: u64 = self.judging.iter().map(|(id, _, _)| self.tree.node(*id).size).sum();
        let room = self.capacity.saturating_sub(held);
        for (peer, id, hash) in self.downloads.schedule(now, &self.tree, room) {
            assert_eq!(hash, hash_of(id));
            assert!(!self.tree.node(id).stored, "{id:?} is stored");
            let new = self.asked.insert((peer, id));
            assert!(new || self.may_be_repeated(peer, id), "{id:?} is asked twice of {peer:?}");
            self.requests += 1;
            let peer = self.peers.get_mut(&peer).expect("a present peer is asked");
            peer.queue.push_back((id, self.time + peer.latency));
        }
        let in_flight = self.peers.keys().map(|id| self.downloads.in_flight(*id) as u64).sum();
        self.most_in_flight = self.most_in_flight.max(in_flight);
    }

    pub(super) fn remove(&mut self, id: PeerId) {
        let peer = self.peers.remove(&id).unwrap();
        self.downloads.remove_peer(id, self.now());
        if self.reconnect {
            self.add(peer.conduct, peer.rate, peer.latency);
        }
    }
}

impl SimPeer {
    /// Never answers these.
    pub(super) fn forget(&mut self, blocks: &[HeaderId]) {
        self.queue.retain(|(block, _)| !blocks.contains(block));
    }

    /// Size of the blocks that it sends instead of what was asked for.
    fn flood(&self) -> Option<u64> {
        match self.conduct {
            Conduct::Floods { after, message } if self.answered >= after => Some(message),
            _ => None,
        }
    }

    fn sending_rate(&self) -> f64 {
        match self.conduct {
            Conduct::Stalls | Conduct::NotFound => 0.0,
            Conduct::Dribbles => 1.0,
            Conduct::DiesAfter(blocks) if self.answered >= blocks => 0.0,
            Conduct::BreaksOff(bytes) if self.sent >= bytes as f64 => 0.0,
            _ => self.rate,
        }
    }
}
