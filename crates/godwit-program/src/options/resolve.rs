//! From the options that were given, and where, to the values that hold.

use std::path::{Path, PathBuf};

use godwit_primitives::Network;

use super::command_line::{CommandLine, Given};
use super::config_file::ConfigFile;
use super::error::{OptionsError, Problem};
use super::general::General;
use super::spec::{Draft, Program};
use super::{CONFIG_FILE, DEFAULT_DATADIR, Invoked};

/// Where `godwit.conf` is looked for: `-datadir`, else the default.
pub(super) fn first_datadir(line: &General, home: Option<&Path>) -> Result<PathBuf, OptionsError> {
    match (&line.datadir, home) {
        (Some(datadir), _) => Ok(datadir.clone()),
        (None, Some(home)) => Ok(home.join(DEFAULT_DATADIR)),
        (None, None) => Err(Problem::NoDatadir.on_command_line()),
    }
}

/// Applies file, network section and command line in this order, so that the last one counts.
pub(super) fn resolve<P: Program>(
    line: CommandLine<P>,
    command: P::Command,
    operands: Vec<PathBuf>,
    file: Option<ConfigFile<P>>,
    home: Option<&Path>,
) -> Result<Invoked<P>, OptionsError> {
    let on_line = line.draft()?.general;
    let mut given: Vec<Given<P>> = file.iter().flat_map(ConfigFile::top).cloned().collect();
    let top = draft_of(&given)?.general;
    let network = choose_network(&on_line, &top)?;

    given.extend(file.iter().flat_map(|file| file.section(network)).cloned());
    given.extend(line.given);
    let draft = draft_of(&given)?;
    check_networks(network, &given)?;

    let datadir = match (&on_line.datadir, top.datadir) {
        (None, Some(datadir)) => datadir,
        _ => first_datadir(&on_line, home)?,
    };
    if let Some(file) = &file
        && on_line.conf.is_none()
    {
        check_config_is_read(&datadir, &file.path, &given)?;
    }
    let (config_file, passed_over) = match file {
        Some(file) => (Some(file.path), file.passed_over),
        None => (None, Vec::new()),
    };
    let draft = draft.own;
    Ok(Invoked { command, operands, network, datadir, config_file, passed_over, draft, given })
}

fn draft_of<P: Program>(given: &[Given<P>]) -> Result<Draft<P>, OptionsError> {
    let mut draft = Draft::default();
    given.iter().try_for_each(|given| given.apply(&mut draft))?;
    Ok(draft)
}

/// A network chosen on the command line wins over the file's. `-notestnet` and the like cancel the
/// file's choice.
fn choose_network(line: &General, top: &General) -> Result<Network, OptionsError> {
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

fn chosen_networks(draft: &General, veto: &General) -> Vec<Network> {
    let mut chosen: Vec<Network> = draft.chain.into_iter().collect();
    for ((network, on), (_, allowed)) in draft.network_flags().into_iter().zip(veto.network_flags())
    {
        if on == Some(true) && allowed != Some(false) && !chosen.contains(&network) {
            chosen.push(network);
        }
    }
    chosen
}

fn check_networks<P: Program>(network: Network, given: &[Given<P>]) -> Result<(), OptionsError> {
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

/// Refuses a data directory, moved by the file, that has a configuration file too: a user with a
/// file in both places would not notice that one of them is ignored (Core refuses this, too).
fn check_config_is_read<P: Program>(
    datadir: &Path,
    read: &Path,
    given: &[Given<P>],
) -> Result<(), OptionsError> {
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
