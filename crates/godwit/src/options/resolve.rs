//! From what was given where to what holds.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use godwit_primitives::{Network, Params};

use super::command_line::{CommandLine, Given, Operands};
use super::config_file::ConfigFile;
use super::error::{OptionsError, Problem};
use super::keys::{KeyFileOptions, KeysAction, KeysOptions};
use super::psbt::{PsbtAction, PsbtOptions};
use super::spec::{ConnectionDraft, Draft};
use super::table::{
    DEFAULT_DBCACHE_MIB, DEFAULT_MAX_CONNECTIONS, MAX_SCRIPT_THREADS, MIN_DBCACHE_MIB,
    MIN_PRUNE_MIB,
};
use super::values::HostPort;
use super::{
    CONFIG_FILE, Command, Config, DEFAULT_DATADIR, Environment, ImportOptions, NodeOptions,
};

/// Tor's (Core `DEFAULT_TOR_SOCKS_PORT`).
const DEFAULT_PROXY_PORT: u16 = 9050;
/// Of a new mnemonic.
const DEFAULT_WORDS: NonZeroUsize = NonZeroUsize::new(24).expect("not zero");

/// Where `godwit.conf` is looked for: `-datadir`, else the default.
pub(super) fn first_datadir(
    line: &Draft,
    environment: &Environment,
) -> Result<PathBuf, OptionsError> {
    match (&line.datadir, &environment.home) {
        (Some(datadir), _) => Ok(datadir.clone()),
        (None, Some(home)) => Ok(home.join(DEFAULT_DATADIR)),
        (None, None) => Err(Problem::NoDatadir.on_command_line()),
    }
}

/// Applies file, network section and command line in this order, so that the last one counts.
pub(super) fn resolve(
    line: &CommandLine,
    operands: Operands,
    file: Option<ConfigFile>,
    environment: &Environment,
) -> Result<Config, OptionsError> {
    let line_draft = line.draft()?;
    let mut given: Vec<&Given> = file.iter().flat_map(ConfigFile::top).collect();
    let top = draft_of(&given)?;
    let network = choose_network(&line_draft, &top)?;

    given.extend(file.iter().flat_map(|file| file.section(network)));
    given.extend(&line.given);
    let draft = draft_of(&given)?;
    check_networks(network, &given)?;

    let datadir = match (&line_draft.datadir, top.datadir) {
        (None, Some(datadir)) => datadir,
        _ => first_datadir(&line_draft, environment)?,
    };
    if let Some(file) = &file
        && line_draft.conf.is_none()
    {
        check_config_is_read(&datadir, &file.path, &given)?;
    }
    let dbcache_mib = draft.dbcache_mib.unwrap_or(DEFAULT_DBCACHE_MIB).max(MIN_DBCACHE_MIB);
    let prune_bytes = prune_bytes(network, draft.prune_mib, &given)?;
    let params = params(network, &draft);
    let command = command(operands, draft, &params, environment.cores)?;
    Ok(Config {
        params,
        datadir,
        config_file: file.map(|file| file.path),
        dbcache_bytes: dbcache_mib << 20,
        prune_bytes,
        command,
    })
}

fn draft_of(given: &[&Given]) -> Result<Draft, OptionsError> {
    let mut draft = Draft::default();
    given.iter().try_for_each(|given| given.apply(&mut draft))?;
    Ok(draft)
}

/// A network chosen on the command line wins over the file's; `-notestnet` and its like take back
/// what the file says.
fn choose_network(line: &Draft, top: &Draft) -> Result<Network, OptionsError> {
    let mut chosen = chosen_networks(line, line);
    if chosen.is_empty() {
        chosen = chosen_networks(top, line);
    }
    match chosen[..] {
        [] => Ok(Network::Main),
        [network] => Ok(network),
        _ => Err(Problem::SeveralNetworks.on_command_line()),
    }
}

fn chosen_networks(draft: &Draft, veto: &Draft) -> Vec<Network> {
    let mut chosen: Vec<Network> = draft.chain.into_iter().collect();
    for ((network, on), (_, allowed)) in draft.network_flags().into_iter().zip(veto.network_flags())
    {
        if on == Some(true) && allowed != Some(false) && !chosen.contains(&network) {
            chosen.push(network);
        }
    }
    chosen
}

fn check_networks(network: Network, given: &[&Given]) -> Result<(), OptionsError> {
    match given.iter().find(|given| !given.spec.networks.contains(&network)) {
        Some(Given { spec, origin, .. }) => {
            let names: Vec<&str> = spec.networks.iter().map(|network| network.name()).collect();
            let networks = names.join(", ");
            let chosen = network.name();
            Err(Problem::WrongNetwork { option: spec.name, networks, chosen }.at(origin))
        }
        None => Ok(()),
    }
}

/// Someone who moved the data directory and keeps a file in both places should know (Core refuses
/// this too).
fn check_config_is_read(datadir: &Path, read: &Path, given: &[&Given]) -> Result<(), OptionsError> {
    let ignored = datadir.join(CONFIG_FILE);
    let same = || read.canonicalize().ok() == ignored.canonicalize().ok();
    let redirect = given.iter().find(|given| given.spec.name == "datadir");
    match redirect {
        Some(redirect) if ignored.exists() && !same() => {
            Err(Problem::ConfigIgnored { ignored }.at(&redirect.origin))
        }
        _ => Ok(()),
    }
}

/// Real networks need room for the blocks that are kept in any case (Core
/// `node/blockmanager_args.cpp`, where 1 means pruning on request).
fn prune_bytes(
    network: Network,
    mib: Option<u64>,
    given: &[&Given],
) -> Result<Option<u64>, OptionsError> {
    let least = if network == Network::Regtest { 1 } else { MIN_PRUNE_MIB };
    match mib {
        None | Some(0) => Ok(None),
        Some(mib) if mib >= least => Ok(Some(mib << 20)),
        Some(mib) => {
            let last = given.iter().rfind(|given| given.spec.name == "prune");
            let origin = &last.expect("its value was given").origin;
            Err(Problem::PruneTooSmall { mib, least }.at(origin))
        }
    }
}

fn params(network: Network, draft: &Draft) -> Params {
    let mut params = match &draft.signet_challenge {
        Some(challenge) => Params::with_signet_challenge(challenge.clone()),
        None => Params::new(network),
    };
    for (deployment, height) in &draft.activation_heights {
        params.set_activation_height(*deployment, *height);
    }
    params.enforce_bip94 |= draft.bip94;
    if let Some(assume_valid) = draft.assume_valid {
        params.assume_valid = assume_valid;
    }
    if let Some(work) = draft.minimum_chain_work {
        params.minimum_chain_work = work;
    }
    params
}

fn command(
    operands: Operands,
    draft: Draft,
    params: &Params,
    cores: NonZeroUsize,
) -> Result<Command, OptionsError> {
    Ok(match operands {
        Operands::Node => {
            let script_threads = script_threads(draft.par.unwrap_or(0), cores);
            let stop_at_height = draft.stop_at_height.filter(|height| *height > 0);
            let connections = draft.connections;
            Command::Node(node(connections, script_threads, stop_at_height, params)?)
        }
        Operands::Import { paths } => Command::Import(ImportOptions {
            paths,
            script_threads: script_threads(draft.par.unwrap_or(0), cores),
            stop_at_height: draft.stop_at_height.filter(|height| *height > 0),
            verdicts: draft.verdicts,
        }),
        Operands::KeysCreate => keys(
            &draft,
            KeysAction::Create {
                label: draft.keys.label.clone(),
                words: draft.keys.words.unwrap_or(DEFAULT_WORDS),
                show: draft.keys.show,
            },
        ),
        Operands::KeysImport => keys(
            &draft,
            KeysAction::Import {
                label: draft.keys.label.clone(),
                secret: draft.keys.secret,
                bip39_passphrase: draft.keys.bip39_passphrase,
            },
        ),
        Operands::KeysImportCoreWallet { wallet } => keys(
            &draft,
            KeysAction::ImportCoreWallet {
                label: draft.keys.label.clone(),
                wallet,
                passphrase: draft.keys.wallet_passphrase,
            },
        ),
        Operands::KeysList => keys(&draft, KeysAction::List),
        Operands::KeysExport { id } => keys(&draft, KeysAction::Export(id)),
        Operands::KeysChangePassphrase => {
            keys(&draft, KeysAction::ChangePassphrase { new: draft.keys.new_passphrase })
        }
        Operands::KeysRemove { id } => keys(&draft, KeysAction::Remove(id)),
        Operands::KeysResidueCheck { wallet } => keys(
            &draft,
            KeysAction::ResidueCheck {
                own_file: draft.keys.file.is_some(),
                wallet,
                wallet_passphrase: draft.keys.wallet_passphrase,
            },
        ),
        Operands::Psbt { action, files } => Command::Psbt(psbt(draft, action, files)),
        Operands::UtxoStats => Command::UtxoStats,
        Operands::UtxoDump { file } => Command::UtxoDump { file },
        Operands::UtxoLoad { file } => Command::UtxoLoad { file, expected: draft.utxo_hash },
    })
}

fn psbt(draft: Draft, action: PsbtAction, files: Vec<PathBuf>) -> PsbtOptions {
    PsbtOptions {
        action,
        files,
        key_file: key_file(&draft),
        out: draft.psbt.out,
        max_fee: draft.psbt.max_fee,
        max_fee_rate: draft.psbt.max_fee_rate,
        any_sighash: draft.psbt.any_sighash.unwrap_or(false),
        foreign_inputs: draft.psbt.foreign_inputs.unwrap_or(false),
        unproven_amounts: draft.psbt.unproven_amounts.unwrap_or(false),
    }
}

fn key_file(draft: &Draft) -> KeyFileOptions {
    KeyFileOptions {
        file: draft.keys.file.clone(),
        passphrase: draft.keys.passphrase,
        allow_unlocked_secrets: draft.connections.allow_unlocked_secrets.unwrap_or(false),
    }
}

fn keys(draft: &Draft, action: KeysAction) -> Command {
    Command::Keys(KeysOptions { file: key_file(draft), action })
}

/// Options that imply others do so as in Core (`init.cpp`, `InitParameterInteraction`).
fn node(
    draft: ConnectionDraft,
    script_threads: NonZeroUsize,
    stop_at_height: Option<u32>,
    params: &Params,
) -> Result<NodeOptions, OptionsError> {
    let max_connections = draft.max_connections.unwrap_or(DEFAULT_MAX_CONNECTIONS);
    let (proxy, onion) = (draft.proxy.flatten(), draft.onion);
    let alone = draft.connect.is_some() || max_connections == 0;
    let listen = draft.listen.unwrap_or(!draft.bind.is_empty() || !(alone || proxy.is_some()));
    if !listen && !draft.bind.is_empty() {
        return Err(Problem::BindWithoutListen.on_command_line());
    }
    let port = draft.port.unwrap_or(params.default_port);
    let numeric = |host_port: HostPort, port| {
        host_port.socket_address(port).expect("the table takes nothing else here")
    };
    let proxy = proxy.map(|proxy| numeric(proxy, DEFAULT_PROXY_PORT));
    Ok(NodeOptions {
        script_threads,
        stop_at_height,
        network_active: draft.network_active.unwrap_or(true),
        listen,
        bind: draft.bind.into_iter().map(|address| numeric(address, port)).collect(),
        port,
        max_connections,
        dns_seed: draft.dns_seed.unwrap_or(!alone),
        connect: draft.connect,
        add_nodes: draft.add_nodes,
        seed_nodes: draft.seed_nodes,
        proxy,
        onion: match onion {
            None => proxy,
            Some(onion) => onion.map(|onion| numeric(onion, DEFAULT_PROXY_PORT)),
        },
        v2_transport: draft.v2_transport.unwrap_or(true),
        allow_unlocked_secrets: draft.allow_unlocked_secrets.unwrap_or(false),
        max_upload_target: draft.max_upload_target.filter(|bytes| *bytes > 0),
        max_download_rate: draft.max_download_rate.filter(|bytes| *bytes > 0),
    })
}

/// Core's `-par`: 0 is all cores, a negative number leaves that many free.
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
