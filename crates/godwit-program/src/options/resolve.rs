//! From the options that were given, and where, to the values that hold.

use std::path::{Path, PathBuf};

use godwit_primitives::Network;

use super::command_line::{CommandLine, Given};
use super::config_file::ConfigFile;
use super::error::{OptionsError, Origin, Problem};
use super::general::General;
use super::spec::{Draft, FilePlace, Program};
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
    let network = choose_network(&on_line, &top, &given)?;

    let section = file.iter().flat_map(|file| file.section(network)).cloned().collect();
    let nearer = join(section, line.given);
    if network != Network::Main {
        given = without_those_of_main(given, &nearer, command, network)?;
    }
    let mut given = join(given, nearer);
    given.retain(|given| given.value.is_some());
    let draft = draft_of(&given)?;
    check_networks(network, &given)?;

    let datadir = match (&on_line.datadir, top.datadir) {
        (None, Some(datadir)) => datadir,
        _ => first_datadir(&on_line, home)?,
    };
    let (config_file, mut passed_over) = match file {
        Some(file) => (Some(file.path), file.passed_over),
        None => (None, Vec::new()),
    };
    if let Some(read) = &config_file
        && let Some(ignored) = ignored_config(&datadir, read)
    {
        if !draft.general.allow_ignored_conf {
            let problem = Problem::ConfigIgnored { ignored, read: read.clone() };
            return Err(problem.at(chooser_of_config(&given)));
        }
        let (ignored, read) = (ignored.display(), read.display());
        passed_over.push(format!("{ignored} is ignored, because {read} is read instead"));
    }
    let draft = draft.own;
    Ok(Invoked { command, operands, network, datadir, config_file, passed_over, draft, given })
}

fn draft_of<P: Program>(given: &[Given<P>]) -> Result<Draft<P>, OptionsError> {
    let mut draft = Draft::default();
    given.iter().try_for_each(|given| given.apply(&mut draft))?;
    Ok(draft)
}

/// What two sources say together. Where the nearer one's last word on an option is its negation, what the
/// farther one says of it is void; a value after the negation brings that back, as in Core
/// (`common/settings.cpp`, `GetSettingsList`).
fn join<P: Program>(mut farther: Vec<Given<P>>, nearer: Vec<Given<P>>) -> Vec<Given<P>> {
    let is_void = |name: &str| {
        let mut of_name = nearer.iter().filter(|given| given.spec.name == name).peekable();
        of_name.peek().is_some() && of_name.all(|given| given.value.is_none())
    };
    farther.retain(|given| !is_void(given.spec.name));
    farther.extend(nearer);
    farther
}

/// A network chosen on the command line wins over the file's. `-notestnet` and the like cancel the
/// file's choice. `file` is what `top` comes from.
fn choose_network<P: Program>(
    line: &General,
    top: &General,
    file: &[Given<P>],
) -> Result<Network, OptionsError> {
    let mut chosen = chosen_networks(line, line);
    let mut origin = &Origin::CommandLine;
    if chosen.is_empty() {
        chosen = chosen_networks(top, line);
        let chooses =
            |given: &&Given<P>| chosen.iter().any(|(option, _)| *option == given.spec.name);
        origin = file.iter().rfind(chooses).map_or(origin, |given| &given.origin);
    }
    match chosen[..] {
        [] => Ok(Network::Main),
        [(_, network)] => Ok(network),
        _ => Err(Problem::SeveralNetworks.at(origin)),
    }
}

/// Each with the option that chooses it.
fn chosen_networks(draft: &General, veto: &General) -> Vec<(&'static str, Network)> {
    let mut chosen: Vec<_> = draft.chain.map(|network| ("chain", network)).into_iter().collect();
    let flags = draft.network_flags().into_iter().zip(veto.network_flags());
    for ((option, network, on), (_, _, allowed)) in flags {
        let is_new = chosen.iter().all(|(_, other)| *other != network);
        if on == Some(true) && allowed != Some(false) && is_new {
            chosen.push((option, network));
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

/// Of the lines before all sections those that count on a network other than main; one that is for main
/// alone is refused unless something nearer has its option. As in Core (`init.cpp`,
/// `GetUnsuitableSectionOnlyArgs`): the node would listen on main's port, or call main's peers. One file
/// serves all commands, so only an option that the command takes is refused.
fn without_those_of_main<P: Program>(
    mut top: Vec<Given<P>>,
    nearer: &[Given<P>],
    command: P::Command,
    network: Network,
) -> Result<Vec<Given<P>>, OptionsError> {
    let is_of_main = |given: &Given<P>| given.spec.file == FilePlace::PerNetwork;
    let is_unsaid =
        |given: &&Given<P>| nearer.iter().all(|other| other.spec.name != given.spec.name);
    let of_command = |given: &&Given<P>| given.spec.commands.contain(command);
    let says_something = |given: &&Given<P>| given.value.is_some();
    let of_main = top.iter().filter(|given| is_of_main(given)).filter(says_something);
    if let Some(Given { spec, origin, .. }) = of_main.filter(of_command).find(is_unsaid) {
        let problem = Problem::OnlyInSection { option: spec.name, network: network.name() };
        return Err(problem.at(origin));
    }
    top.retain(|given| !is_of_main(given));
    Ok(top)
}

/// The configuration file of the data directory, where another one is read: `-conf` says so, or that one has
/// moved the directory. A user with two files would not notice that one of them is ignored (Core
/// `common/init.cpp`).
fn ignored_config(datadir: &Path, read: &Path) -> Option<PathBuf> {
    let ignored = datadir.join(CONFIG_FILE);
    let is_another = || read.canonicalize().ok() != ignored.canonicalize().ok();
    (ignored.exists() && is_another()).then_some(ignored)
}

/// Where it was said which configuration file is read instead of the data directory's.
fn chooser_of_config<P: Program>(given: &[Given<P>]) -> &Origin {
    let of = |name| given.iter().find(|given| given.spec.name == name);
    of("conf").or_else(|| of("datadir")).map_or(&Origin::CommandLine, |given| &given.origin)
}
