//! Random sets of peers: honest and hostile ones in every combination.

use std::sync::Arc;
use std::time::Duration;

use godwit_p2p::{AddressEntry, Host, NetAddress, Services};

use super::branch::{Branch, View};
use super::conduct::{Announce, BlockConduct, Conduct, HeaderConduct, Noise};
use super::crowd::PeerPlan;
use super::faults::{self, Fault};
use super::link::LinkSpec;
use super::world::World;
use crate::rng::Rng;

/// Most hostile peers: fewer than a node has outbound connections, so that an honest peer always
/// finds a place.
const MOST_HOSTILE: u64 = 7;

/// Port of the peers.
const PORT: u16 = 18_444;

/// The circumstances of a run.
#[derive(Clone, Debug)]
pub struct Mix {
    /// The peers; the first one is honest, has the best chain in the end, and can always be reached.
    pub peers: Vec<PeerPlan>,
    /// Bytes a second of the node's own line.
    pub line: Option<u64>,
    /// Times at which the node is killed.
    pub kills: Vec<Duration>,
    /// From then on, every honest peer that will ever have the best chain has it.
    pub settled: Duration,
    /// What goes wrong on the links.
    pub faults: Vec<Fault>,
}

/// The peers that follow from a seed.
pub fn mix(seed: u64, world: &World) -> Mix {
    let rng = &mut Rng::new(seed ^ 0x6d69_7865);
    let settled = Duration::from_secs(rng.log_between(1, 600));
    let honest = rng.between(1, 4);
    let hostile = rng.below(MOST_HOSTILE + 1);
    let peers = company(rng, world, settled, honest, hostile);
    let line = rng.chance(150).then(|| rng.log_between(30_000, 300_000));
    let killed = if rng.chance(300) { rng.between(1, 3) } else { 0 };
    let mut kills: Vec<Duration> =
        (0..killed).map(|_| Duration::from_millis(rng.log_between(300, 120_000))).collect();
    kills.sort_unstable();
    Mix { peers, line, kills, settled, faults: Vec::new() }
}

/// Peers whose links fail: of ten such sets, one has a hundred peers, the others have a few.
pub fn faulty_mix(seed: u64, world: &World) -> Mix {
    let rng = &mut Rng::new(seed ^ 0x6661_756c);
    let settled = Duration::from_secs(rng.log_between(1, 600));
    let hostile = rng.below(MOST_HOSTILE + 1);
    let honest = if seed % 10 == 9 { 100 - hostile } else { rng.between(2, 12) };
    let peers = company(rng, world, settled, honest, hostile);
    let faults = faults::random(rng, peers.len());
    let line = rng.chance(150).then(|| rng.log_between(30_000, 300_000));
    Mix { peers, line, kills: Vec::new(), settled, faults }
}

fn company(
    rng: &mut Rng,
    world: &World,
    settled: Duration,
    honest: u64,
    hostile: u64,
) -> Vec<PeerPlan> {
    let mut conducts: Vec<Conduct> = (0..honest).map(|n| good(rng, world, settled, n)).collect();
    conducts.extend((0..hostile).map(|_| bad(rng, world)));
    let addresses: Vec<NetAddress> = (0..conducts.len()).map(|n| address(n, rng)).collect();
    let gossip = Arc::new(gossip(&addresses, world));
    let peers = conducts.into_iter().zip(addresses).enumerate();
    let peers = peers.map(|(n, (mut conduct, address))| {
        conduct.gossip = Arc::clone(&gossip);
        plan(rng, conduct, address, n == 0)
    });
    peers.collect()
}

fn plan(rng: &mut Rng, conduct: Conduct, address: NetAddress, first: bool) -> PeerPlan {
    let dials = rng.chance(400);
    let wait = |rng: &mut Rng| Duration::from_millis(rng.log_between(1, 20_000));
    PeerPlan {
        address,
        link: LinkSpec::random(rng),
        listens: first || !dials || rng.chance(500),
        dials: dials.then(|| (wait(rng), Duration::from_secs(1) + wait(rng))),
        conduct: Arc::new(conduct),
    }
}

/// An address for each peer in a network of its own, so that no peer is refused for being near another.
pub(super) fn address(number: usize, rng: &mut Rng) -> NetAddress {
    let (low, high) = (rng.next_u64() as u8, rng.between(1, 254) as u8);
    NetAddress::new(Host::Ipv4([20 + number as u8, 7, low, high]), PORT)
}

fn gossip(addresses: &[NetAddress], world: &World) -> Vec<AddressEntry> {
    let time = world.best.tip().header.time;
    let services = Services::NETWORK | Services::WITNESS;
    addresses.iter().map(|address| AddressEntry { time, services, address: *address }).collect()
}

fn good(rng: &mut Rng, world: &World, settled: Duration, number: u64) -> Conduct {
    let best = &world.best;
    let before = match rng.below(3) {
        0 => Arc::clone(best),
        1 => Arc::new(best.truncated(rng.below(u64::from(best.height())) as u32)),
        _ => any(rng, &world.stale),
    };
    let view = View::constant(before);
    let below = |down| Arc::new(best.truncated(best.height() - down));
    let view = match number > 0 && rng.chance(250) {
        true => view,
        // The last blocks come one by one.
        false => view
            .then(settled * 6 / 10, below(2))
            .then(settled * 8 / 10, below(1))
            .then(settled, Arc::clone(best)),
    };
    let announce = [Announce::Headers, Announce::Compact, Announce::Inventory];
    let announce = *pick(rng, &announce);
    let leaves = (number > 0 && rng.chance(300))
        .then(|| (Duration::from_secs(1), Duration::from_secs(rng.log_between(2, 300))));
    let think = Duration::from_micros(rng.log_between(10, 200_000));
    Conduct { announce, leaves, think, ..Conduct::honest(view) }
}

fn any(rng: &mut Rng, branches: &[Arc<Branch>]) -> Arc<Branch> {
    Arc::clone(&branches[rng.below(branches.len() as u64) as usize])
}

fn bad(rng: &mut Rng, world: &World) -> Conduct {
    let best = || View::constant(Arc::clone(&world.best));
    let conduct = match rng.below(4) {
        0 => {
            let (name, headers) = *pick(rng, &HEADERS);
            Conduct::hostile(name, best()).with_headers(headers)
        }
        1 => {
            let (name, blocks) = *pick(rng, &BLOCKS);
            Conduct::hostile(name, best()).with_blocks(blocks)
        }
        2 => {
            let (name, noise) = *pick(rng, &NOISES);
            let pause = Duration::from_millis(rng.log_between(200, 20_000));
            Conduct::hostile(name, best()).with_noise(noise, rng.between(1, 4) as u32, pause)
        }
        _ => match rng.below(4) {
            0 => Conduct { mute: true, ..Conduct::hostile("mute", best()) },
            _ => Conduct::hostile("invalid chain", View::constant(any(rng, &world.invalid))),
        },
    };
    let leaves = rng
        .chance(200)
        .then(|| (Duration::from_millis(1), Duration::from_secs(rng.log_between(1, 100))));
    Conduct { leaves, think: Duration::from_micros(rng.log_between(10, 20_000)), ..conduct }
}

fn pick<'a, T>(rng: &mut Rng, items: &'a [T]) -> &'a T {
    &items[rng.below(items.len() as u64) as usize]
}

const HEADERS: [(&str, HeaderConduct); 7] = [
    ("headers: silent", HeaderConduct::Silent),
    ("headers: without work", HeaderConduct::WithoutWork),
    ("headers: with a gap", HeaderConduct::Gap),
    ("headers: too many", HeaderConduct::TooMany),
    ("headers: unconnected", HeaderConduct::Unconnected),
    ("headers: short forks", HeaderConduct::LowWork),
    ("headers: endless", HeaderConduct::Endless),
];

const BLOCKS: [(&str, BlockConduct); 11] = [
    ("blocks: silent", BlockConduct::Silent),
    ("blocks: a byte a second", BlockConduct::Dribble(1)),
    ("blocks: 300 bytes a second", BlockConduct::Dribble(300)),
    ("blocks: withholds the first", BlockConduct::WithholdFirst),
    ("blocks: withholds the last", BlockConduct::WithholdLast),
    ("blocks: not found", BlockConduct::NotFound),
    ("blocks: others", BlockConduct::Other),
    ("blocks: unrequested", BlockConduct::Unrequested),
    ("blocks: mutated", BlockConduct::Mutated),
    ("blocks: a bit flipped", BlockConduct::BitFlipped),
    ("blocks: truncated", BlockConduct::Truncated),
];

const NOISES: [(&str, Noise); 16] = [
    ("noise: inv", Noise::Inventory),
    ("noise: transactions", Noise::Transactions),
    ("noise: addr", Noise::Addresses),
    ("noise: getdata", Noise::GetData),
    ("noise: getdata, unread", Noise::GetDataUnread),
    ("noise: getheaders, unread", Noise::GetHeadersUnread),
    ("noise: headers", Noise::Headers),
    ("noise: 4 MB announced", Noise::Announced),
    ("noise: oversized", Noise::Oversized),
    ("noise: wrong magic", Noise::WrongMagic),
    ("noise: garbage", Noise::Garbage),
    ("noise: truncated", Noise::Truncated),
    ("noise: wrong checksum", Noise::WrongChecksum),
    ("noise: too many entries", Noise::TooManyEntries),
    ("noise: pings", Noise::Pings),
    ("noise: unknown", Noise::Unknown),
];
