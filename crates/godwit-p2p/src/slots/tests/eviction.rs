use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{ipv4, onion};
use crate::net_address::{Host, NetAddress};
use crate::slots::eviction::keep_by_ratio;
use crate::slots::*;
use crate::{ConnectionKind, PeerId};

pub(super) const KEY: [u8; 16] = [9; 16];

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Somebody with nothing in his favour, `n` seconds connected after the first.
pub(super) fn nobody(n: u64) -> EvictionCandidate {
    EvictionCandidate {
        peer: PeerId(n),
        kind: ConnectionKind::Inbound,
        address: ipv4(60, n as u8, (n / 256) as u8, 1),
        through_onion: false,
        connected: seconds(n),
        min_ping: Duration::MAX,
        last_block: Duration::ZERO,
        relevant_services: false,
        relays_transactions: true,
        prefer_evict: false,
        protected: false,
    }
}

fn evicted(candidates: &[EvictionCandidate]) -> Option<u64> {
    select_to_evict(candidates, KEY, &NetGroups::default()).map(|peer| peer.0)
}

/// Who goes when one after another is given up until nobody can be.
fn victims(mut candidates: Vec<EvictionCandidate>) -> BTreeSet<u64> {
    let mut gone = BTreeSet::new();
    while let Some(victim) = evicted(&candidates) {
        gone.insert(victim);
        candidates.retain(|one| one.peer.0 != victim);
    }
    gone
}

fn crowd(count: u64, change: impl Fn(&mut EvictionCandidate)) -> Vec<EvictionCandidate> {
    let mut crowd: Vec<_> = (0..count).map(nobody).collect();
    crowd.iter_mut().for_each(change);
    crowd
}

#[test]
fn few_peers_are_all_kept() {
    assert_eq!(evicted(&[]), None);
    // 4 by group, 8 by ping, 4 by transactions, 4 by block, half of one: nobody is left of 20, one of
    // 21.
    assert_eq!(evicted(&crowd(20, |_| {})), None);
    assert!(evicted(&crowd(21, |_| {})).is_some());
}

#[test]
fn trusted_and_outbound_peers_are_never_given_up() {
    let gone = victims(crowd(200, |one| match one.peer.0 % 4 {
        0 => one.protected = true,
        1 => one.kind = ConnectionKind::OutboundFull,
        2 => one.kind = ConnectionKind::Manual,
        _ => {}
    }));
    assert!(!gone.is_empty());
    assert!(gone.iter().all(|peer| peer % 4 == 3));
}

#[test]
fn nearest_peers_and_latest_senders_of_blocks_are_kept() {
    let near = |one: &mut EvictionCandidate| {
        one.min_ping = Duration::from_millis(1000 - one.peer.0);
    };
    let gone = victims(crowd(200, near));
    assert!((192..200).all(|peer| !gone.contains(&peer)), "{gone:?}");
    let senders = |one: &mut EvictionCandidate| {
        if one.peer.0 >= 150 {
            one.last_block = seconds(one.peer.0);
        }
    };
    let gone = victims(crowd(200, senders));
    assert!((196..200).all(|peer| !gone.contains(&peer)), "{gone:?}");
    let relays = |one: &mut EvictionCandidate| {
        senders(one);
        if one.peer.0 < 170 {
            one.relays_transactions = false;
            one.relevant_services = true;
        }
    };
    let gone = victims(crowd(200, relays));
    let kept = |range: std::ops::Range<u64>| range.clone().all(|peer| !gone.contains(&peer));
    assert!(kept(162..170) && kept(196..200), "{gone:?}");
}

/// Core `CompareNodeTXTime` where nobody has sent a transaction: first who wants them, then who has been
/// connected longest.
#[test]
fn four_that_want_transactions_are_kept_the_longest_connected_of_them() {
    // So that neither age, nor a round trip, nor a block speaks for these.
    let of_few = |relays: std::ops::Range<u64>| {
        victims(crowd(200, |one| {
            one.relays_transactions = relays.contains(&one.peer.0);
            one.min_ping = seconds(1_000 - one.peer.0 % 100);
            if one.peer.0 < 100 {
                one.last_block = seconds(1);
            }
        }))
    };
    let kept = |gone: &BTreeSet<u64>, range: std::ops::Range<u64>| {
        range.filter(|peer| !gone.contains(peer)).count()
    };
    let gone = of_few(180..184);
    assert_eq!(kept(&gone, 180..184), 4, "{gone:?}");
    let gone = of_few(176..188);
    assert_eq!(kept(&gone, 176..180), 4, "{gone:?}");
    assert!(kept(&gone, 180..188) <= 4, "by the keyed hash of their group only: {gone:?}");
}

#[test]
fn longest_connected_half_is_kept() {
    let candidates = crowd(200, |_| {});
    let first = evicted(&candidates).expect("there are many");
    assert!(first >= 100, "a young one: {first}");
}

#[test]
fn discouraged_peers_go_first() {
    for n in 0..20 {
        let marked = 150 + n;
        let candidates = crowd(200, |one| one.prefer_evict = one.peer.0 == marked);
        // Unless something else speaks for it, as the keyed hash of its group may.
        let victim = evicted(&candidates);
        assert!(victim == Some(marked) || !victims(candidates).contains(&marked));
    }
}

#[test]
fn b18_largest_group_loses_its_youngest() {
    let attacker = |one: &mut EvictionCandidate| {
        if one.peer.0 >= 100 {
            one.address = ipv4(66, 66, one.peer.0 as u8, 1);
        }
    };
    let mut candidates = crowd(120, attacker);
    for _ in 0..10 {
        let victim = evicted(&candidates).expect("the group is large");
        assert!(victim >= 100, "{victim}");
        candidates.retain(|one| one.peer.0 != victim);
    }
}

#[test]
fn b18_an_attacker_never_gets_all_places() {
    let mut peers: Vec<_> = (0..100).map(nobody).collect();
    peers.iter_mut().for_each(|one| one.min_ping = Duration::from_millis(100 + one.peer.0));
    // Ever more peers of many groups come, each with a short round trip.
    for n in 100..5000 {
        let mut newcomer = nobody(n);
        newcomer.address = NetAddress::new(Host::Ipv4([70, n as u8, (n >> 8) as u8, 1]), 1);
        newcomer.min_ping = Duration::from_millis(1);
        if let Some(victim) = evicted(&peers) {
            peers.retain(|one| one.peer.0 != victim);
        }
        peers.push(newcomer);
        peers.truncate(120);
    }
    let honest = peers.iter().filter(|one| one.peer.0 < 100).count();
    assert!(honest >= 40, "{honest}");
}

#[test]
fn peers_of_private_networks_are_kept_though_young() {
    let candidates = crowd(100, |one| {
        if one.peer.0 >= 96 {
            one.address = onion(one.peer.0 as u8);
        }
        if one.peer.0 == 95 {
            one.address = ipv4(127, 0, 0, 1);
        }
    });
    let mut left = candidates;
    for _ in 0..40 {
        let victim = evicted(&left).expect("there are many");
        assert!(victim < 95, "{victim}");
        left.retain(|one| one.peer.0 != victim);
    }
}

/// Core's cases (`net_peer_eviction_tests.cpp`, `peer_protection_test`): peers from the one connected
/// longest on; v IPv4, o onion, l localhost, i I2P, c CJDNS; those in capitals are kept.
const CORE_CASES: [&str; 23] = [
    "VVVVVVvvvvvv",
    "VVVOvvvvOOoo",
    "VVVvvvvLLLll",
    "VVVvIvvvvIIi",
    "VVVvCvvvvCCc",
    "VVvvvoL",
    "VVvvvOLv",
    "VVVvvvLOoLol",
    "VVVvvLLllvOv",
    "VVVVvvLvOLOllvvv",
    "VVVVvvvvvvOLLLll",
    "VVVVvvvOOOovvvvL",
    "VVVvvvIvOiOi",
    "VolI",
    "VVvvloI",
    "VVvvoILv",
    "VVVVvvLIvOoIllll",
    "VVVVVVvvvvvvLvvIIIIiiiiO",
    "VVVVVVvvvvvvIvILvIOOoooo",
    "VVVVVVvvvvvvOLOOoIIiiiii",
    "VVVVVVvOOovCCccvLLllllll",
    "ViolC",
    "VVvoliC",
];

#[test]
fn half_is_kept_by_ratio_as_in_core() {
    for case in CORE_CASES {
        let peer = |(n, letter): (usize, char)| {
            let address = match letter.to_ascii_lowercase() {
                'v' => ipv4(60, n as u8, 1, 1),
                'o' => onion(n as u8),
                'l' => ipv4(127, 0, 0, 1),
                'i' => NetAddress::new(Host::I2p([n as u8; 32]), 0),
                'c' => NetAddress::new(Host::Cjdns([0xfc; 16]), 8333),
                _ => unreachable!("five kinds"),
            };
            EvictionCandidate { address, ..nobody(n as u64) }
        };
        let mut left: Vec<_> = case.chars().enumerate().map(peer).collect();
        left.reverse();
        keep_by_ratio(&mut left);
        let found: String = case
            .chars()
            .enumerate()
            .map(|(n, letter)| match left.iter().any(|one| one.peer.0 == n as u64) {
                true => letter.to_ascii_lowercase(),
                false => letter.to_ascii_uppercase(),
            })
            .collect();
        assert_eq!(found, case);
    }
}

fn candidate() -> impl Strategy<Value = EvictionCandidate> {
    let times = (0..500u64, 0..500u64, 0..4u64);
    let address = (0..4u8, 0..6u8);
    let flags = (any::<bool>(), any::<bool>(), 0..10u8, 0..10u8, 0..5u8);
    (times, address, flags).prop_map(|((connected, ping, block), (network, n), flags)| {
        let address = match network {
            0 => onion(n),
            1 => ipv4(127, 0, 0, n + 1),
            _ => ipv4(60, n, n, 1),
        };
        let through_onion = network == 1 && n < 3;
        let (relevant_services, relays_transactions, prefer, protected, outbound) = flags;
        EvictionCandidate {
            peer: PeerId(0),
            kind: match outbound {
                0 => ConnectionKind::OutboundFull,
                _ => ConnectionKind::Inbound,
            },
            address,
            through_onion,
            connected: seconds(connected),
            min_ping: seconds(ping),
            last_block: seconds(block),
            relevant_services,
            relays_transactions,
            prefer_evict: prefer == 0,
            protected: protected == 0,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn victim_is_an_inbound_peer_and_the_order_does_not_matter(
        mut peers in prop::collection::vec(candidate(), 0..130),
    ) {
        for (n, peer) in peers.iter_mut().enumerate() {
            peer.peer = PeerId(n as u64);
            // No ties, which sorting would decide by order.
            peer.connected += Duration::from_nanos(n as u64);
            peer.min_ping += Duration::from_nanos(n as u64);
        }
        let victim = evicted(&peers);
        let eligible = peers.iter().filter(|one| !one.protected && one.kind == ConnectionKind::Inbound);
        match victim {
            Some(victim) => {
                prop_assert!(eligible.clone().any(|one| one.peer.0 == victim));
                // Core's order: 4 by group, 8 by ping, 4 by transactions, 4 by block, half of the rest.
                prop_assert!(eligible.count() > 20);
            }
            None => prop_assert!(eligible.count() <= 28),
        }
    }
}

fn outbound(n: u64, kind: ConnectionKind) -> OutboundPeer {
    OutboundPeer {
        peer: PeerId(n),
        kind,
        address: Some(ipv4(60, n as u8, 1, 1)),
        connected: seconds(n),
        last_block: Duration::ZERO,
        last_announcement: Duration::ZERO,
        protected: false,
        in_flight: 0,
        ready: true,
    }
}

const LATER: Duration = seconds(10_000);

#[test]
fn youngest_block_relay_peer_goes_unless_it_sent_a_block_later() {
    let mut peers: Vec<_> = (0..3).map(|n| outbound(n, ConnectionKind::BlockRelay)).collect();
    let extra = |peers: &[OutboundPeer], now| extra_block_relay_peer(now, peers, 2);
    assert_eq!(extra(&peers[..2], LATER), None);
    assert_eq!(extra(&peers, LATER), Some(PeerId(2)));
    peers[1].last_block = seconds(50);
    assert_eq!(extra(&peers, LATER), Some(PeerId(2)));
    peers[2].last_block = seconds(51);
    assert_eq!(extra(&peers, LATER), Some(PeerId(1)));
    peers[1].in_flight = 1;
    assert_eq!(extra(&peers, LATER), None, "it is sending a block");
    peers[2].last_block = Duration::ZERO;
    assert_eq!(extra(&peers, seconds(31)), None, "it had no time so far");
    assert_eq!(extra(&peers, seconds(32)), Some(PeerId(2)));
}

#[test]
fn b18_full_peer_with_the_oldest_announcement_goes() {
    let mut peers: Vec<_> = (0..9).map(|n| outbound(n, ConnectionKind::OutboundFull)).collect();
    let extra = |peers: &[OutboundPeer], now| extra_full_peer(now, peers, 8);
    assert_eq!(extra(&peers[..8], LATER), None);
    assert_eq!(extra(&peers, LATER), Some(PeerId(8)), "the youngest of equals");
    peers.iter_mut().for_each(|peer| peer.last_announcement = seconds(100 + peer.peer.0));
    assert_eq!(extra(&peers, LATER), Some(PeerId(0)));
    peers[0].protected = true;
    assert_eq!(extra(&peers, LATER), Some(PeerId(1)));
    peers[1].address = Some(onion(1));
    assert_eq!(extra(&peers, LATER), Some(PeerId(2)), "the only one of its network stays");
    peers.push(OutboundPeer { address: Some(onion(2)), ..outbound(9, ConnectionKind::Manual) });
    assert_eq!(extra(&peers, LATER), Some(PeerId(1)));
    peers[1].in_flight = 1;
    assert_eq!(extra(&peers, LATER), None, "it is sending a block");
}

/// Whoever accepts a connection and says nothing could otherwise have the extra peer of a stale tip count as
/// tried, or an old peer closed for it.
#[test]
fn b18_nobody_goes_for_a_peer_that_is_being_greeted() {
    let full = ConnectionKind::OutboundFull;
    let mut peers: Vec<_> = (0..9).map(|n| outbound(n, full)).collect();
    peers[8].address = Some(onion(1));
    peers[8].ready = false;
    assert_eq!(extra_full_peer(LATER, &peers, 8), None);
    peers[8].ready = true;
    assert_eq!(extra_full_peer(LATER, &peers, 8), Some(PeerId(7)));
    let mut peers: Vec<_> = (0..3).map(|n| outbound(n, ConnectionKind::BlockRelay)).collect();
    peers[2].ready = false;
    assert_eq!(extra_block_relay_peer(LATER, &peers, 2), None);
    peers[2].ready = true;
    assert_eq!(extra_block_relay_peer(LATER, &peers, 2), Some(PeerId(2)));
}

/// Core looks for who goes among complete handshakes only (`ForEachNode`).
#[test]
fn b18_a_peer_that_is_being_greeted_goes_for_nobody() {
    let mut peers: Vec<_> = (0..10).map(|n| outbound(n, ConnectionKind::OutboundFull)).collect();
    peers[9].ready = false;
    assert_eq!(extra_full_peer(LATER, &peers, 8), Some(PeerId(8)));
    let mut peers: Vec<_> = (0..4).map(|n| outbound(n, ConnectionKind::BlockRelay)).collect();
    peers[3].ready = false;
    assert_eq!(extra_block_relay_peer(LATER, &peers, 2), Some(PeerId(2)));
}
