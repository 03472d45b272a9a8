//! Finds the first addresses: from `-seednode`, DNS seeds and fixed seeds, in this order and only
//! as needed (Core `ThreadDNSAddressSeed`, `ThreadOpenConnections`).

use std::collections::VecDeque;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::{Opening, Situation, SlotPeer, SlotsConfig};
use crate::address_book::AddressBook;
use crate::connection_kind::ConnectionKind;
use crate::target::{Reachable, Target};

/// No seed is asked once there are this many full connections (Core
/// `SEED_OUTBOUND_CONNECTION_THRESHOLD`).
const ENOUGH_PEERS: usize = 2;
/// Time between two seed nodes (Core `ADD_NEXT_SEEDNODE`).
const SEED_NODE_INTERVAL: Duration = Duration::from_secs(10);
/// Head start of the seed nodes before DNS seeds are asked (Core `SEEDNODE_TIMEOUT`).
const SEED_NODE_TIME: Duration = Duration::from_secs(30);
/// DNS seeds asked at once while addresses are known (Core `DNSSEEDS_TO_QUERY_AT_ONCE`).
const DNS_SEEDS_AT_ONCE: usize = 3;
/// Time that known addresses get before DNS seeds are asked (Core `DNSSEEDS_DELAY_FEW_PEERS`) ...
const DNS_DELAY: Duration = Duration::from_secs(11);
/// ... and when they are many (Core `DNSSEEDS_DELAY_MANY_PEERS`).
const DNS_DELAY_MANY: Duration = Duration::from_secs(5 * 60);
/// This many addresses are many (Core `DNSSEEDS_DELAY_PEER_THRESHOLD`).
const MANY_ADDRESSES: usize = 1000;
/// Time that all other sources get before the fixed seeds are taken.
const FIXED_SEED_DELAY: Duration = Duration::from_secs(60);

/// The state of asking DNS seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dns {
    /// Seed nodes are asked first.
    SeedNodes {
        until: Duration,
    },
    /// Known addresses are tried first.
    Patience {
        until: Duration,
    },
    Done,
}

/// The sources that have not been asked.
pub(super) struct Seeding {
    seed_nodes: VecDeque<Target>,
    seed_node_asked: bool,
    next_seed_node: Duration,
    dns_seeds: Vec<String>,
    dns: Dns,
    /// When the fixed seeds may be added; `None` once they were, or if there are none.
    fixed_seeds: Option<Duration>,
}

impl Seeding {
    pub(super) fn new(config: &SlotsConfig, start: Duration, rng: &mut StdRng) -> Self {
        let head_start = if config.seed_nodes.is_empty() { Duration::ZERO } else { SEED_NODE_TIME };
        let others = !config.dns_seeds.is_empty()
            || !config.seed_nodes.is_empty()
            || !config.add_nodes.is_empty();
        let fixed_delay = if others { FIXED_SEED_DELAY } else { Duration::ZERO };
        let mut dns_seeds = config.dns_seeds.clone();
        shuffle(&mut dns_seeds, rng);
        Self {
            seed_nodes: config.seed_nodes.iter().cloned().collect(),
            seed_node_asked: false,
            next_seed_node: start.saturating_add(SEED_NODE_INTERVAL),
            dns_seeds,
            dns: Dns::SeedNodes { until: start.saturating_add(head_start) },
            fixed_seeds: config.fixed_seeds.then(|| start.saturating_add(fixed_delay)),
        }
    }

    pub(super) fn next(
        &mut self,
        now: Duration,
        situation: &Situation<'_>,
        book: &AddressBook,
    ) -> Vec<Opening> {
        let full = |peer: &&SlotPeer<'_>| peer.kind == ConnectionKind::OutboundFull && peer.ready;
        let enough = situation.peers.iter().filter(full).count() >= ENOUGH_PEERS;
        let mut openings = Vec::new();
        openings.extend(self.seed_node(now, enough, book));
        let asked = self.ask_dns(now, enough, book);
        openings.extend(asked.into_iter().map(|host| Opening::AskDnsSeed { host }));
        openings.extend(self.add_fixed_seeds(now, situation.reachable, book));
        openings
    }

    /// The next seed node to ask: at once with an empty book, otherwise when known addresses were
    /// of no use.
    fn seed_node(&mut self, now: Duration, enough: bool, book: &AddressBook) -> Option<Opening> {
        let at_once = !self.seed_node_asked && book.is_empty();
        if !at_once && (enough || now < self.next_seed_node) {
            return None;
        }
        self.seed_node_asked = true;
        let target = self.seed_nodes.pop_front()?;
        self.next_seed_node = now.saturating_add(SEED_NODE_INTERVAL);
        Some(Opening::Connect { target, kind: ConnectionKind::AddrFetch, count_failure: false })
    }

    /// The DNS seeds to ask now: all with an empty book, otherwise three at a time while known
    /// addresses are of no use. So no single seed decides which nodes we know, and few seeds learn
    /// of us.
    fn ask_dns(&mut self, now: Duration, enough: bool, book: &AddressBook) -> Vec<String> {
        let many = book.len() >= MANY_ADDRESSES;
        let until = now.saturating_add(if many { DNS_DELAY_MANY } else { DNS_DELAY });
        match self.dns {
            Dns::Done => Vec::new(),
            Dns::SeedNodes { until } if now < until && !enough => Vec::new(),
            Dns::SeedNodes { .. } if book.is_empty() => {
                self.dns = Dns::Done;
                std::mem::take(&mut self.dns_seeds)
            }
            _ if enough || self.dns_seeds.is_empty() => {
                self.dns = Dns::Done;
                Vec::new()
            }
            Dns::SeedNodes { .. } => {
                self.dns = Dns::Patience { until };
                Vec::new()
            }
            Dns::Patience { until } if now < until => Vec::new(),
            Dns::Patience { .. } => {
                self.dns = Dns::Patience { until };
                let rest = self.dns_seeds.len().saturating_sub(DNS_SEEDS_AT_ONCE);
                self.dns_seeds.split_off(rest)
            }
        }
    }

    /// Adds the fixed seeds, once, of networks of which no other source gave an address in time.
    fn add_fixed_seeds(
        &mut self,
        now: Duration,
        reachable: Reachable,
        book: &AddressBook,
    ) -> Option<Opening> {
        if self.fixed_seeds.is_none_or(|due| now < due) {
            return None;
        }
        let mut empty = reachable.networks().filter(|&network| !book.knows(network)).peekable();
        empty.peek()?;
        self.fixed_seeds = None;
        Some(Opening::AddFixedSeeds { networks: empty.collect() })
    }
}

fn shuffle(seeds: &mut [String], rng: &mut StdRng) {
    for last in (1..seeds.len()).rev() {
        seeds.swap(last, rng.random_range(0..=last));
    }
}
