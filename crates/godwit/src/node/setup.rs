//! Turns options into the configuration of the engine and the sockets.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

use godwit_api::Zmq;
use godwit_p2p::{
    MAX_ADD_NODE_CONNECTIONS, MAX_OUTBOUND_BLOCK_RELAY, MAX_OUTBOUND_FULL, MAX_TRIED_CONNECTIONS,
    NetAddress, PeersConfig, Services, Target, dns_seeds, fixed_seeds,
};
use godwit_primitives::{Network, Params};
use godwit_secret::{Hardened, allow_unlocked_secrets, harden_process};
use godwit_store::disk::RealDisk;
use godwit_stream::BufferPool;

use super::indexes::Opened;
use super::outbox_file::check_outbox;
use super::sockets::{
    BindError, Bound, Proxies, bind, bind_everywhere, bind_for_onion, check_locked_memory,
};
use crate::descriptors;
use crate::failure::Failure;
use crate::options::{Config, HostPort, Listening, NodeOptions, Seeds};

/// Connections that are attempted however few descriptors there are. A node without any would wait
/// for ever, and files rarely use all descriptors that are reserved for them.
const LEAST_CONNECTIONS: u64 = (MAX_OUTBOUND_FULL + MAX_OUTBOUND_BLOCK_RELAY) as u64;

/// Descriptors that the connections of `-maxconnections` must leave free.
pub(super) const RESERVED_DESCRIPTORS: u64 =
    descriptors::BESIDE_CONNECTIONS + (MAX_ADD_NODE_CONNECTIONS + MAX_TRIED_CONNECTIONS) as u64;

/// Services of a pruned node, which offers only the last 288 blocks (BIP159).
const SERVICES_WHEN_PRUNED: Services = Services(Services::WITNESS.0 | Services::NETWORK_LIMITED.0);

/// The user agent that peers are told (BIP14).
pub(crate) fn user_agent() -> String {
    format!("/godwit:{}/", env!("CARGO_PKG_VERSION"))
}

pub(crate) fn peers_config(
    options: &NodeOptions,
    params: &Arc<Params>,
    max_connections: usize,
    pool: BufferPool,
    seed: [u8; 32],
) -> PeersConfig {
    let targets = |hosts: &[HostPort]| hosts.iter().map(|host| target(host, params)).collect();
    let full = MAX_OUTBOUND_FULL.min(max_connections);
    let block_relay = MAX_OUTBOUND_BLOCK_RELAY.min(max_connections - full);
    // One more for a feeler.
    let outbound = full + block_relay + 1;
    let public = is_public(params);
    let Seeds { dns, fixed } = options.seeds;
    let dns_seeds = if public && dns { dns_seeds(params.network) } else { &[] };
    let fixed = public && fixed && options.connect.is_none() && max_connections > 0;
    PeersConfig {
        params: Arc::clone(params),
        services: Services(Services::NETWORK.0 | Services::WITNESS.0 | Services::NETWORK_LIMITED.0),
        user_agent: user_agent(),
        minimum_chain_work: params.minimum_chain_work,
        max_inbound: if options.listening.on {
            max_connections.saturating_sub(outbound)
        } else {
            0
        },
        max_outbound_full: full,
        max_outbound_block_relay: block_relay,
        max_automatic: max_connections,
        listen_port: options.listening.on.then_some(options.listening.told_port),
        discover: options.listening.discover,
        connect_only: options.connect.as_deref().map(targets),
        add_nodes: targets(&options.add_nodes),
        seed_nodes: targets(&options.seed_nodes),
        dns_seeds: dns_seeds.iter().map(|seed| (*seed).to_owned()).collect(),
        fixed_seeds: if fixed { fixed_seeds(params.network) } else { Vec::new() },
        name_proxy: options.reach.proxy.is_some(),
        reachable: options.reach.networks,
        whitelist: options.whitelist.clone(),
        max_upload_target: options.traffic.upload_target,
        pool,
        seed,
    }
}

/// What is offered to peers, of what there is.
pub(super) fn offered(config: &Config, indexes: &Opened, all: Services) -> Services {
    // What is not stored although it should be is left out as long as that is so.
    let is_pruned = config.prune_bytes.is_some();
    let filters = match config.indexes.served && indexes.readers().filters.is_some() {
        true => Services::COMPACT_FILTERS,
        false => Services::NONE,
    };
    services(all, is_pruned) | filters
}

fn services(all: Services, is_pruned: bool) -> Services {
    if is_pruned { SERVICES_WHEN_PRUNED } else { all }
}

pub(super) fn transport(encrypted: bool) -> Services {
    if encrypted { Services::P2P_V2 } else { Services::NONE }
}

/// Whether the network is public. A custom signet has no seeds.
fn is_public(params: &Params) -> bool {
    params.network != Network::Signet
        || params.signet_challenge == Params::new(Network::Signet).signet_challenge
}

fn target(host_port: &HostPort, params: &Params) -> Target {
    let HostPort { host, port } = host_port;
    let port = port.unwrap_or(params.default_port);
    if let Ok(address) = host.parse::<IpAddr>() {
        return Target::Address(NetAddress::new(address.into(), port));
    }
    // An onion address is no `IpAddr`.
    match format!("{host}:{port}").parse::<NetAddress>() {
        Ok(address) => Target::Address(address),
        Err(_) => Target::Name { host: host.clone(), port },
    }
}

/// The listening sockets that the options want. With `-networkactive=0` too: who connects while the network
/// is inactive is let go, and `setnetworkactive` changes nothing of them (as in Core).
pub(crate) fn listeners(options: &NodeOptions) -> Result<Vec<Bound>, BindError> {
    let Listening { on, everywhere, bind: bindings, onion, port, .. } = &options.listening;
    if !*on {
        return Ok(Vec::new());
    }
    let mut all = if *everywhere { bind_everywhere(*port)? } else { bind(bindings)? };
    all.extend(bind_for_onion(onion)?);
    Ok(all)
}

/// Fails where a start would behind the chain, when a rebuild has given the coins up.
pub(super) fn check_before_rebuild(config: &Config, options: &NodeOptions) -> Result<(), Failure> {
    check_outbox(&RealDisk, &config.network_dir())?;
    // Closed again: nobody who connects during a rebuild would be answered.
    let _peers = listeners(options)?;
    Ok(Zmq::check(&config.zmq)?)
}

/// Decides whether there are keys of connections or of an onion service, and if so hardens the process: it
/// leaves no core dump, and other processes of its user cannot trace it. Where hardening fails or no memory
/// can be locked, the node runs all the same, without encryption and without a service: only an eavesdropper
/// could make use of the keys of connections.
///
/// Must run before the first key exists.
pub(crate) fn harden_for_keys(options: &NodeOptions) -> bool {
    if !options.v2_transport && options.tor.is_none() {
        return false;
    }
    if options.allow_unlocked_secrets {
        log::warn!(
            "-allowunlockedsecrets: keys of connections may reach a swap file or a core dump"
        );
        allow_unlocked_secrets();
    }
    if let Err(error) = check_locked_memory() {
        return without_keys(options, &error);
    }
    match harden_process() {
        Ok(Hardened::Fully) => {}
        Ok(partly) => log::warn!("{partly}"),
        Err(error) => return without_keys(options, &error),
    }
    true
}

fn without_keys(options: &NodeOptions, why: &dyn Error) -> bool {
    if options.v2_transport {
        log::warn!("Connections are not encrypted (v1 transport only): {why}");
    }
    if options.tor.is_some() {
        log::warn!("No onion service is made: {why}");
    }
    false
}

pub(crate) fn proxies(options: &NodeOptions) -> Proxies {
    Proxies { clearnet: options.reach.proxy, onion: options.reach.onion }
}

/// Raises the limit of descriptors as far as `wanted` connections need it, and those of programs, which have
/// `least` of them in any case; returns how many connections it allows. Must run before the data directory is
/// opened.
pub(crate) fn raise_descriptors(wanted: u32, of_programs: OfPrograms) -> usize {
    let OfPrograms { least, most } = of_programs;
    let descriptors = descriptors::raise(u64::from(wanted) + most + RESERVED_DESCRIPTORS);
    let possible = connections_within(descriptors.saturating_sub(least), wanted);
    if possible < wanted {
        log::warn!(
            "Reducing -maxconnections from {wanted} to {possible}, because of system limitations."
        );
    }
    possible as usize
}

/// Connections of programs that ask the node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfPrograms {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

fn connections_within(descriptors: u64, wanted: u32) -> u32 {
    let possible = descriptors.saturating_sub(RESERVED_DESCRIPTORS).max(LEAST_CONNECTIONS);
    u32::try_from(possible).unwrap_or(u32::MAX).min(wanted)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::num::NonZeroUsize;

    use godwit_stream::PoolLimits;

    use super::*;
    use crate::options::{Command, Environment, Invocation, parse};

    #[test]
    fn targets_are_addresses_where_they_can_be() {
        let params = Params::new(Network::Regtest);
        let shown =
            |host: &str, port| match target(&HostPort { host: host.to_owned(), port }, &params) {
                Target::Address(address) => format!("address {address}"),
                Target::Name { host, port } => format!("name {host} {port}"),
            };
        assert_eq!(shown("1.2.3.4", None), "address 1.2.3.4:18444");
        assert_eq!(shown("::1", Some(5)), "address [::1]:5");
        assert_eq!(shown("a.example", Some(5)), "name a.example 5");
        let onion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
        assert_eq!(shown(onion, None), format!("address {onion}:18444"));
    }

    #[test]
    fn who_wants_no_connections_or_no_fixed_seeds_has_none() {
        let config = |max_connections: usize, argument: &str| {
            let arguments = [argument].map(OsString::from);
            let (home, cores) = (Some("/nowhere".into()), NonZeroUsize::MIN);
            let parsed = parse(arguments, &Environment { home, cores });
            let Ok(Invocation::Run(config)) = parsed else { panic!("{parsed:?}") };
            let Command::Node(options) = &config.command else { panic!("{config:?}") };
            let limits = PoolLimits { buffers: 0, buffer_bytes: 0, total_bytes: 0 };
            let (params, pool) = (Arc::new(config.params.clone()), BufferPool::new(limits));
            peers_config(options, &params, max_connections, pool, [0; 32])
        };
        let usual = config(125, "-server=1");
        assert!(!usual.fixed_seeds.is_empty() && usual.max_automatic == 125);
        assert_eq!((usual.max_outbound_full, usual.max_outbound_block_relay), (8, 2));
        assert_eq!(config(125, "-fixedseeds=1").fixed_seeds, usual.fixed_seeds);
        assert_eq!(config(1, "-server=1").fixed_seeds, usual.fixed_seeds);
        assert_eq!(config(125, "-fixedseeds=0").fixed_seeds, []);
        assert_eq!(config(125, "-connect=0").fixed_seeds, []);
        let none = config(0, "-fixedseeds=1");
        assert_eq!((none.fixed_seeds.len(), none.max_automatic), (0, 0));
    }

    #[test]
    fn connections_leave_descriptors_for_files() {
        let none = OfPrograms::default();
        assert_eq!(raise_descriptors(0, none), 0);
        let possible = raise_descriptors(u32::MAX, none);
        assert!(possible < u32::MAX as usize);
        let programs = OfPrograms { least: 8, most: 128 };
        assert_eq!(raise_descriptors(u32::MAX, programs), possible - 8);
        assert_eq!(connections_within(294 + 125, 125), 125);
        assert_eq!(connections_within(294 + 124, 125), 124);
        assert_eq!(connections_within(u64::MAX, u32::MAX), u32::MAX);
    }

    #[test]
    fn few_descriptors_leave_the_outbound_connections() {
        for descriptors in [0, 63, 294, 304] {
            assert_eq!(connections_within(descriptors, 125), 10, "{descriptors}");
        }
        assert_eq!(connections_within(305, 125), 11);
        assert_eq!(connections_within(0, 3), 3, "no more than asked for");
    }
}
