//! The sources of a node's first peers: DNS names that resolve to nodes, and a fixed list of nodes (Core
//! `kernel/chainparams.cpp`, `chainparamsseeds.h`).

use godwit_primitives::Network;
use godwit_stream::SpanReader;
use rand::Rng;

use crate::net_address::{AddressEntry, NetAddress};
use crate::services::Services;

/// Services of the nodes that seeds return (Core `SeedsServiceFlags`).
pub(crate) const SEED_SERVICES: Services = Services(Services::NETWORK.0 | Services::WITNESS.0);
/// Most addresses taken from one DNS seed.
pub(crate) const MAX_SEED_ADDRESSES: usize = 32;
/// Name of the fixed seeds as a [`Source`](crate::Source).
pub(crate) const FIXED_SEEDS: &str = "fixedseeds";

const DAY: i64 = 24 * 60 * 60;

/// Names of the network's DNS seeds. They end in a dot, so that no search domain is appended;
/// those of signet are for the default challenge.
pub fn dns_seeds(network: Network) -> &'static [&'static str] {
    match network {
        Network::Main => &[
            "dnsseed.bluematt.me.",
            "seed.bitcoin.jonasschnelli.ch.",
            "seed.btc.petertodd.net.",
            "seed.bitcoin.sprovoost.nl.",
            "dnsseed.emzy.de.",
            "seed.bitcoin.wiz.biz.",
            "seed.mainnet.achownodes.xyz.",
        ],
        Network::Testnet3 => &[
            "testnet-seed.bitcoin.jonasschnelli.ch.",
            "seed.tbtc.petertodd.net.",
            "seed.testnet.bitcoin.sprovoost.nl.",
            "testnet-seed.bluematt.me.",
            "seed.testnet.achownodes.xyz.",
        ],
        Network::Testnet4 => &["seed.testnet4.bitcoin.sprovoost.nl.", "seed.testnet4.wiz.biz."],
        Network::Signet => &["seed.signet.bitcoin.sprovoost.nl.", "seed.signet.achownodes.xyz."],
        Network::Regtest => &[],
    }
}

/// The name under which a DNS seed returns only nodes with [`SEED_SERVICES`].
pub(crate) fn filtered_name(seed: &str) -> String {
    format!("x{:x}.{seed}", SEED_SERVICES.0)
}

/// The network's fixed seeds; for signet those of the default challenge.
pub fn fixed_seeds(network: Network) -> Vec<NetAddress> {
    let bytes: &[u8] = match network {
        Network::Main => include_bytes!("seeds/main.bin"),
        Network::Testnet3 => include_bytes!("seeds/testnet3.bin"),
        Network::Testnet4 => include_bytes!("seeds/testnet4.bin"),
        Network::Signet => include_bytes!("seeds/signet.bin"),
        Network::Regtest => &[],
    };
    let mut reader = SpanReader::new(bytes);
    let mut seeds = Vec::new();
    while !reader.is_empty() {
        let seed = NetAddress::decode_v2(&mut reader).expect("a test reads all of them");
        seeds.extend(seed);
    }
    seeds
}

/// A DNS seed's answer as entries for the address book: at most [`MAX_SEED_ADDRESSES`] addresses
/// with the network's port, dated three to seven days back.
pub(crate) fn dns_seed_entries(
    now: i64,
    addresses: &[NetAddress],
    default_port: u16,
    rng: &mut impl Rng,
) -> Vec<AddressEntry> {
    let taken = addresses.iter().take(MAX_SEED_ADDRESSES);
    let addresses = taken.map(|address| NetAddress::new(address.host, default_port));
    entries(now, addresses, 3 * DAY..7 * DAY, rng)
}

/// Fixed seeds as entries for the address book, dated one to two weeks back, so that addresses from
/// the first of them are tried before the others.
pub(crate) fn fixed_seed_entries(
    now: i64,
    addresses: &[NetAddress],
    rng: &mut impl Rng,
) -> Vec<AddressEntry> {
    entries(now, addresses.iter().copied(), 7 * DAY..14 * DAY, rng)
}

fn entries(
    now: i64,
    addresses: impl Iterator<Item = NetAddress>,
    ages: std::ops::Range<i64>,
    rng: &mut impl Rng,
) -> Vec<AddressEntry> {
    addresses
        .map(|address| {
            let time = now.saturating_sub(rng.random_range(ages.clone()));
            let time = time.clamp(0, u32::MAX.into()) as u32;
            AddressEntry { time, services: SEED_SERVICES, address }
        })
        .collect()
}

#[cfg(test)]
mod tests;
