//! Turns the options as given into a [`Config`], checking constraints between them.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use godwit_chain::{PRUNE_ON_REQUEST, ScriptEngine, ScriptOptions};
use godwit_p2p::Reachable;
use godwit_primitives::{Network, Params};
use godwit_program::options::{Invoked, OptionsError, Problem};
use godwit_store::Rebuild;

use super::draft::{ConnectionDraft, Draft, MemoryDraft};
use super::listening::{
    is_alone, listening, makes_onion_service, numeric, onion_service, useless_option,
};
use super::rpc::{self, Place};
use super::table::{
    CommandName, DEFAULT_MAX_CONNECTIONS, Godwit, MAX_SCRIPT_THREADS, MIN_DBCACHE_MIB,
    MIN_PRUNE_MIB,
};
use super::values::{HostPort, OrOff};
use super::zmq;
use super::{
    Command, Config, ImportOptions, IndexOptions, MemoryOptions, NodeOptions, Reach, Seeds,
    TrafficLimits, VerifyOptions,
};
use crate::memory::{MIN_MEMORY, MemoryPlan};

/// Tor's SOCKS port (Core `DEFAULT_TOR_SOCKS_PORT`).
const DEFAULT_PROXY_PORT: u16 = 9050;

/// Checks the options of an invocation against each other, and fills in defaults, on a machine with
/// `cores` cores.
pub(super) fn resolve(
    invoked: Invoked<Godwit>,
    cores: NonZeroUsize,
) -> Result<Config, OptionsError> {
    let prune_bytes = prune_bytes(&invoked)?;
    let rebuild = rebuild(&invoked.draft);
    // The coins come from all blocks, of which pruning would delete some meanwhile (Core `init.cpp` refuses
    // the two likewise).
    if rebuild == Rebuild::Coins && prune_bytes.is_some() {
        let origin = invoked.origin("reindex-chainstate").expect("its value was given");
        return Err(Problem::OfNoUse { option: "reindex-chainstate", with: "prune" }.at(origin));
    }
    pages_are_served(&invoked)?;
    let indexes = indexes(&invoked, prune_bytes)?;
    let memory = memory(&invoked, indexes.memory())?;
    let reachable = reachable(&invoked)?;
    what_is_to_listen_listens(&invoked)?;
    let scrub = invoked.draft.files.scrub.unwrap_or(true);
    let is_datadir_named = invoked.origin("datadir").is_some();
    let Invoked {
        command: name,
        operands,
        network,
        datadir,
        config_file,
        passed_over,
        mut draft,
        ..
    } = invoked;
    let rpc = match name {
        CommandName::Node => rpc::resolve(std::mem::take(&mut draft.rpc), network),
        _ => None,
    };
    let zmq = zmq::resolve(&draft.zmq);
    let handed_over = draft.files.handed_over;
    let params = params(network, &draft);
    let scripts = scripts(&draft);
    let flush_interval = draft.flush_interval.filter(|seconds| *seconds > 0);
    let command = command(name, operands, draft, reachable, &params, cores)?;
    Ok(Config {
        params,
        datadir,
        is_datadir_named,
        config_file,
        passed_over,
        memory,
        flush_interval,
        prune_bytes,
        indexes,
        scrub,
        rebuild,
        handed_over,
        scripts,
        rpc,
        zmq,
        command,
    })
}

/// Page and metrics are served by the thread of the RPC server.
fn pages_are_served(invoked: &Invoked<Godwit>) -> Result<(), OptionsError> {
    let draft = &invoked.draft.rpc;
    let pages = &draft.pages;
    if draft.server != Some(false) || invoked.command != CommandName::Node {
        return Ok(());
    }
    let is_on = |place: &Option<Place>| place.as_ref().is_some_and(|place| *place != Place::Off);
    for (option, place) in [("web", &pages.web), ("metrics", &pages.metrics)] {
        if is_on(place) {
            let origin = invoked.origin(option).expect("its value was given");
            return Err(Problem::OfNoUse { option, with: "server=0" }.at(origin));
        }
    }
    Ok(())
}

/// Nothing is to listen with `-listen=0`. Other commands leave what the file says of it alone.
fn what_is_to_listen_listens(invoked: &Invoked<Godwit>) -> Result<(), OptionsError> {
    let draft = &invoked.draft.connections;
    match useless_option(draft).filter(|_| invoked.command == CommandName::Node) {
        Some(option) => {
            let origin = invoked.origin(option).expect("its value was given");
            Err(Problem::OfNoUse { option, with: "listen=0" }.at(origin))
        }
        None => Ok(()),
    }
}

/// `indexes` is what these take.
fn memory(invoked: &Invoked<Godwit>, indexes: u64) -> Result<MemoryOptions, OptionsError> {
    let MemoryDraft { total, coins } = invoked.draft.memory;
    let refused = |option, value: u64, reason: &str| {
        let origin = invoked.origin(option).expect("its value was given");
        let (value, reason) = (value.to_string(), reason.to_owned());
        Err(Problem::Refused { option, value, reason }.at(origin))
    };
    if let Some(mib) = total {
        if mib << 20 < MIN_MEMORY {
            return refused("memory", mib, "expected at least 448 MiB");
        }
        if mib << 20 < MIN_MEMORY + indexes {
            return refused("memory", mib, "expected at least 448 MiB, and 16 for each index");
        }
        let most = MemoryPlan::most_for_coins((mib << 20) - indexes) >> 20;
        if let Some(coins) = coins.map(|coins| coins.max(MIN_DBCACHE_MIB))
            && coins > most
        {
            let reason = match most {
                ..MIN_DBCACHE_MIB => {
                    "-memory leaves nothing that could be set aside for coins alone".into()
                }
                _ => format!("more than the other parts leave of -memory, which is {most} MiB"),
            };
            return refused("dbcache", coins, &reason);
        }
    }
    let coins = coins.map(|mib| mib.max(MIN_DBCACHE_MIB) << 20);
    Ok(MemoryOptions { total: total.map(|mib| mib << 20), coins })
}

fn rebuild(draft: &Draft) -> Rebuild {
    match (draft.files.reindex, draft.files.reindex_chainstate) {
        (true, _) => Rebuild::Index,
        (false, true) => Rebuild::Coins,
        (false, false) => Rebuild::Nothing,
    }
}

/// The prune target in bytes; 1 means pruning on request. Except on regtest it must have room for the blocks
/// that are never pruned (Core `node/blockmanager_args.cpp`).
fn prune_bytes(invoked: &Invoked<Godwit>) -> Result<Option<u64>, OptionsError> {
    let Some(mib) = invoked.draft.files.prune_mib.filter(|mib| *mib > 0) else { return Ok(None) };
    if mib == 1 {
        return Ok(Some(PRUNE_ON_REQUEST));
    }
    if mib >= MIN_PRUNE_MIB || invoked.network == Network::Regtest {
        return Ok(Some(mib << 20));
    }
    let reason = "expected at least 550 MiB, 1 to delete on request, or 0 to keep everything";
    let origin = invoked.origin("prune").expect("its value was given");
    let (value, reason) = (mib.to_string(), reason.to_owned());
    Err(Problem::Refused { option: "prune", value, reason }.at(origin))
}

/// The index of transactions leads to blocks that pruning would delete (Core `init.cpp` refuses the two
/// likewise); that of filters keeps them until it has read them.
fn indexes(
    invoked: &Invoked<Godwit>,
    prune_bytes: Option<u64>,
) -> Result<IndexOptions, OptionsError> {
    let indexes = invoked.draft.files.indexes;
    if indexes.transactions && prune_bytes.is_some() {
        let option = "txindex";
        let origin = invoked.origin(option).expect("its value was given");
        return Err(Problem::OfNoUse { option, with: "prune" }.at(origin));
    }
    if indexes.served && !indexes.filters {
        let origin = invoked.origin("peerblockfilters").expect("its value was given");
        let problem = Problem::Lacks { option: "peerblockfilters", needed: "blockfilterindex" };
        return Err(problem.at(origin));
    }
    Ok(indexes)
}

/// The networks in which peers are chosen. As in Core (`init.cpp`), a `-onlynet` that nothing could
/// obey ends the start: the user may count on it.
fn reachable(invoked: &Invoked<Godwit>) -> Result<Reachable, OptionsError> {
    let draft = &invoked.draft.connections;
    let has = |proxy: &Option<OrOff<HostPort>>| matches!(proxy, Some(OrOff::Value(_)));
    let onion = if draft.onion.is_some() { has(&draft.onion) } else { has(&draft.proxy) };
    if draft.only_networks.is_empty() {
        return Ok(Reachable { onion, ..Reachable::CLEARNET });
    }
    let reachable: Reachable = draft.only_networks.iter().copied().collect();
    let may_come_from_tor = draft.onion.is_none() && makes_onion_service(draft);
    if reachable.onion && !onion && !may_come_from_tor {
        let expected = "a proxy to the Tor network as well, by -onion, -proxy or -listenonion";
        let problem = Problem::BadValue { option: "onlynet", value: "onion".to_owned(), expected };
        return Err(problem.at(invoked.origin("onlynet").expect("its value was given")));
    }
    if draft.seeds.dns == Some(true) && !has_clearnet(reachable) {
        let problem = Problem::OfNoUse { option: "dnsseed", with: "onlynet=onion" };
        return Err(problem.at(invoked.origin("dnsseed").expect("its value was given")));
    }
    Ok(Reachable { onion: reachable.onion && onion, ..reachable })
}

/// Whether what the DNS seeds tell can be reached.
fn has_clearnet(reachable: Reachable) -> bool {
    reachable.ipv4 || reachable.ipv6
}

fn scripts(draft: &Draft) -> ScriptOptions {
    let mut scripts = ScriptOptions::default();
    scripts.engine = match (draft.scripts.engine, draft.scripts.lanes) {
        (Some(ScriptEngine::Core), _) => ScriptEngine::Core,
        (engine, lanes) => lanes.or(engine).unwrap_or(scripts.engine),
    };
    if let Some(one_in) = draft.scripts.crosscheck {
        let crosscheck = NonZeroU32::new(one_in);
        (scripts.crosscheck_download, scripts.crosscheck_recent) = (crosscheck, crosscheck);
    }
    scripts
}

fn params(network: Network, draft: &Draft) -> Params {
    let mut params = match &draft.signet_challenge {
        Some(challenge) => Params::with_signet_challenge(challenge.clone()),
        None => Params::new(network),
    };
    for (deployment, height) in &draft.activation_heights {
        params.set_activation_height(*deployment, *height);
    }
    params.enforce_bip94 |= draft.tests.bip94;
    if draft.tests.bip34 {
        // The block that every chain of regtest has stands in for main's 227,931.
        (params.bip34_height, params.bip34_hash) = (0, Some(params.genesis_hash));
    }
    if let Some(assume_valid) = draft.assume_valid {
        params.assume_valid = assume_valid.value();
    }
    if let Some(work) = draft.minimum_chain_work {
        params.minimum_chain_work = work;
    }
    params
}

fn command(
    name: CommandName,
    operands: Vec<PathBuf>,
    draft: Draft,
    reachable: Reachable,
    params: &Params,
    cores: NonZeroUsize,
) -> Result<Command, OptionsError> {
    let script_threads = script_threads(draft.par.unwrap_or(0), cores);
    let stop_at_height = draft.stop_at_height.filter(|height| *height > 0);
    let mut files = operands.into_iter();
    let mut file = || files.next().expect("the table demands an operand");
    Ok(match name {
        CommandName::Node => {
            let draft = draft.connections;
            let options = node(draft, reachable, script_threads, stop_at_height, params);
            Command::Node(Box::new(options))
        }
        CommandName::Import => {
            let (paths, verdicts) = (files.collect(), draft.verdicts);
            Command::Import(ImportOptions { paths, script_threads, stop_at_height, verdicts })
        }
        CommandName::Status => Command::Status(rpc::resolve_asking(draft.rpc, params.network)),
        CommandName::UtxoStats => Command::UtxoStats,
        CommandName::Verify => {
            let (repair, audit) = (draft.files.repair, draft.files.audit);
            Command::Verify(VerifyOptions { repair, audit })
        }
        CommandName::HandOver => {
            let missing =
                || Problem::NoValue { option: "to", placeholder: "DIR" }.on_command_line();
            Command::HandOver { to: draft.files.hand_over_to.ok_or_else(missing)? }
        }
        CommandName::UtxoDump => Command::UtxoDump { file: file() },
        CommandName::UtxoLoad => Command::UtxoLoad { file: file(), expected: draft.utxo_hash },
    })
}

/// The node's options. One option sets defaults of others as in Core (`init.cpp`,
/// `InitParameterInteraction`).
fn node(
    draft: ConnectionDraft,
    reachable: Reachable,
    script_threads: NonZeroUsize,
    stop_at_height: Option<u32>,
    params: &Params,
) -> NodeOptions {
    let max_connections = draft.max_connections.unwrap_or(DEFAULT_MAX_CONNECTIONS);
    let alone = is_alone(&draft);
    let listening = listening(&draft, params);
    let tor = onion_service(&draft, &listening);
    let (proxy, onion) = (draft.proxy.and_then(OrOff::value), draft.onion);
    let proxy = proxy.map(|proxy| numeric(proxy, DEFAULT_PROXY_PORT));
    NodeOptions {
        script_threads,
        stop_at_height,
        network_active: draft.network_active.unwrap_or(true),
        listening,
        max_connections,
        seeds: Seeds {
            dns: draft.seeds.dns.unwrap_or(!alone && has_clearnet(reachable)),
            fixed: draft.seeds.fixed.unwrap_or(true),
        },
        connect: draft.connect,
        add_nodes: draft.add_nodes,
        seed_nodes: draft.seed_nodes,
        reach: Reach {
            proxy,
            onion: match onion {
                None => proxy,
                Some(onion) => onion.value().map(|onion| numeric(onion, DEFAULT_PROXY_PORT)),
            },
            networks: reachable,
        },
        tor,
        v2_transport: draft.v2_transport.unwrap_or(true),
        allow_unlocked_secrets: draft.allow_unlocked_secrets.unwrap_or(false),
        whitelist: draft.whitelist,
        traffic: TrafficLimits {
            upload_target: draft.traffic.upload_target.filter(|bytes| *bytes > 0),
            download_rate: draft.traffic.download_rate.filter(|bytes| *bytes > 0),
        },
        asmap: draft.asmap.and_then(OrOff::value),
    }
}

/// Script threads of a `-par`, as in Core: 0 means all cores, a negative number leaves that many
/// cores free.
fn script_threads(par: i32, cores: NonZeroUsize) -> NonZeroUsize {
    let cores = i32::try_from(cores.get()).unwrap_or(i32::MAX);
    let threads = if par > 0 { par } else { cores.saturating_add(par) };
    let threads = threads.clamp(1, MAX_SCRIPT_THREADS).unsigned_abs() as usize;
    NonZeroUsize::new(threads).expect("clamped to at least one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn par_counts_as_core_counts() {
        let threads =
            |par, cores| script_threads(par, NonZeroUsize::new(cores).expect("not zero")).get();
        assert_eq!([threads(0, 1), threads(0, 8), threads(3, 8), threads(9, 8)], [1, 8, 3, 9]);
        assert_eq!(
            [threads(-1, 8), threads(-7, 8), threads(-8, 8), threads(-256, 8)],
            [7, 1, 1, 1]
        );
        assert_eq!([threads(256, 1), threads(0, 1000), threads(0, usize::MAX)], [256, 256, 256]);
    }
}
