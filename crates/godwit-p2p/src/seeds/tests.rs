use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::net_address::{AddressNetwork, Host};

const NOW: i64 = 1_700_000_000;

#[test]
fn all_fixed_seeds_are_read() {
    // The numbers of lines of `chainparamsseeds.h`.
    let counts = [
        (Network::Main, 2059, 8333),
        (Network::Testnet3, 181, 18333),
        (Network::Testnet4, 230, 48333),
        (Network::Signet, 170, 38333),
        (Network::Regtest, 0, 18444),
    ];
    for (network, count, port) in counts {
        let seeds = fixed_seeds(network);
        assert_eq!(seeds.len(), count, "{network:?}");
        assert!(seeds.iter().all(NetAddress::is_routable), "{network:?}");
        assert_eq!(seeds.iter().collect::<BTreeSet<_>>().len(), count, "{network:?}: twice");
        let usual = seeds.iter().filter(|seed| seed.port == port || seed.port == 0).count();
        assert!(usual >= count / 2, "{network:?}: {usual} of {count} on port {port}");
    }
}

#[test]
fn fixed_seeds_are_of_all_networks() {
    let mut counts: BTreeMap<AddressNetwork, usize> = BTreeMap::new();
    for seed in fixed_seeds(Network::Main) {
        *counts.entry(seed.network()).or_default() += 1;
    }
    assert_eq!(counts.len(), 5, "{counts:?}");
    assert!(counts.values().all(|&count| count >= 10), "{counts:?}");
}

#[test]
fn names_of_seeds_are_complete() {
    for network in Network::ALL {
        let names = dns_seeds(network);
        assert_eq!(names.is_empty(), network == Network::Regtest);
        assert!(names.iter().all(|name| name.ends_with('.') && name.matches('.').count() >= 3));
    }
    assert_eq!(filtered_name("seed.example.org."), "x9.seed.example.org.");
}

#[test]
fn b18_a_seed_adds_few_addresses_of_middling_age() {
    let rng = &mut StdRng::from_seed([1; 32]);
    let addresses: Vec<_> =
        (0..100).map(|n| NetAddress::new(Host::Ipv4([1, 2, 3, n]), 99)).collect();
    let entries = dns_seed_entries(NOW, &addresses, 8333, rng);
    assert_eq!(entries.len(), MAX_SEED_ADDRESSES);
    let age = |entry: &AddressEntry| NOW - i64::from(entry.time);
    assert!(entries.iter().all(|entry| (3 * DAY..7 * DAY).contains(&age(entry))));
    assert!(entries.iter().all(|entry| entry.address.port == 8333));
    let fixed = fixed_seed_entries(NOW, &addresses, rng);
    assert_eq!(fixed.len(), 100);
    assert!(fixed.iter().all(|entry| (7 * DAY..14 * DAY).contains(&age(entry))));
    assert!(fixed.iter().all(|entry| entry.address.port == 99));
    assert!(fixed_seed_entries(0, &addresses, rng).iter().all(|entry| entry.time == 0));
}
