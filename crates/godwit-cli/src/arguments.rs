//! The command line: options up to the first word that is none, then a method and its arguments, however
//! they begin.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use godwit_primitives::{Network, Params};
use godwit_program::options::{CONFIG_FILE, DEFAULT_DATADIR, home_directory, network_dir};

use crate::config_file::{self, ConfigLines};
use crate::table::{NETWORKS, ONLY_OF_NETWORK, Setting, Settings, Spec, help, is_on};

/// What the program is to do.
pub(crate) enum Asked {
    Print(String),
    Call(Arguments),
}

/// Options, from the command line and the file, and the words behind them.
pub(crate) struct Arguments {
    /// By name.
    settings: Settings,
    pub(crate) words: Vec<String>,
    pub(crate) network: Network,
    datadir: PathBuf,
    /// Empty for none.
    pub(crate) config_file: PathBuf,
}

impl Arguments {
    /// The value of an option; `None` where it is not given or switched off.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.settings.get(name)?.as_deref()
    }

    /// The value of an option for which its negation is the value 0 (Core `GetArg`).
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(text)
    }

    /// Whether `-noNAME` is given.
    pub(crate) fn is_off(&self, name: &str) -> bool {
        matches!(self.settings.get(name), Some(None))
    }

    /// Whether an option is on.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.value(name).is_some_and(is_on)
    }

    /// The seconds that an option allows; `None` for ever, which a number below one stands for, and an empty
    /// value.
    ///
    /// # Errors
    ///
    /// It says no number.
    pub(crate) fn limit(&self, name: &str, default: i64) -> Result<Option<Duration>, String> {
        let seconds: i64 = match self.text(name) {
            None => default,
            Some("") => 0,
            Some(value) => {
                value.parse().map_err(|_| format!("Invalid value in -{name}: {value}"))?
            }
        };
        let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
        Ok(seconds.map(Duration::from_secs))
    }

    /// The part of the data directory that belongs to the network.
    pub(crate) fn network_dir(&self) -> PathBuf {
        network_dir(&self.datadir, self.network)
    }
}

/// What a setting is as a text.
fn text(setting: &Setting) -> &str {
    setting.as_deref().unwrap_or("0")
}

/// Reads the command line and the configuration file.
///
/// # Errors
///
/// One line for the user.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Asked, String> {
    let (line, words) = split(words)?;
    if line.contains_key("help") {
        return Ok(Asked::Print(help()));
    }
    if line.get("version").and_then(Option::as_deref).is_some_and(is_on) {
        return Ok(Asked::Print(format!("godwit-cli version {}", env!("CARGO_PKG_VERSION"))));
    }
    let named =
        |name: &str| line.get(name).and_then(Option::as_deref).filter(|path| !path.is_empty());
    let datadir = match named("datadir") {
        Some(dir) if !Path::new(dir).is_dir() => {
            return Err(format!("Error: Specified data directory \"{dir}\" does not exist."));
        }
        Some(dir) => PathBuf::from(dir),
        None => home_directory().unwrap_or_default().join(DEFAULT_DATADIR),
    };
    let (config_file, file) = match line.get("conf") {
        Some(None) => (PathBuf::new(), ConfigLines::default()),
        conf => {
            let path = datadir.join(named("conf").unwrap_or(CONFIG_FILE));
            let file = config_file::read(&path, conf.is_some())?;
            (path, file)
        }
    };
    let (network, settings) = in_force(line, file)?;
    Ok(Asked::Call(Arguments { settings, words, network, datadir, config_file }))
}

/// The network that command line and file name, and what they say for it.
fn in_force(line: Settings, file: ConfigLines) -> Result<(Network, Settings), String> {
    // A flag that the command line negates is off, as for `godwit`; Core obeys the file then.
    let network = network(|name| line.get(name).or_else(|| file.top.get(name)))?;
    let mut settings = file.of_section(network.name(), ONLY_OF_NETWORK);
    settings.extend(line);
    Ok((network, settings))
}

/// Options, of which the last one of a name counts, and the words behind them.
fn split(words: impl Iterator<Item = OsString>) -> Result<(Settings, Vec<String>), String> {
    let text = |word: OsString| {
        word.into_string().map_err(|word| format!("Error: {} is no text", word.to_string_lossy()))
    };
    let mut words = words.map(text).peekable();
    let mut options = Settings::new();
    while let Some(word) =
        words.next_if(|word| word.as_ref().map_or(true, |word| word.starts_with('-')))
    {
        let word = word?;
        if word == "-" {
            // As in Core: it ends the options, and what looks like one behind it is skipped.
            let looks_like_one = |word: &Result<String, String>| {
                word.as_ref().is_ok_and(|word| word.starts_with('-'))
            };
            while words.next_if(looks_like_one).is_some() {}
            break;
        }
        let (name, setting) = option(&word)
            .map_err(|error| format!("Error parsing command line arguments: {error}"))?;
        options.insert(name, setting);
    }
    Ok((options, words.collect::<Result<Vec<_>, _>>()?))
}

/// `-name=value`, `-name`, `-noname` or `-noname=value`, with one or two dashes.
fn option(word: &str) -> Result<(&'static str, Setting), String> {
    let body = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or(word);
    let (name, value) =
        body.split_once('=').map_or((body, None), |(name, value)| (name, Some(value)));
    let name = match name {
        "h" | "?" => "help",
        name => name,
    };
    let found = Spec::find(name).ok_or_else(|| format!("Invalid parameter {word}"));
    let (spec, is_negated) = found?;
    Ok((spec.name, spec.setting(is_negated, value)?))
}

/// The network that the options name.
fn network<'a>(setting: impl Fn(&str) -> Option<&'a Setting>) -> Result<Network, String> {
    let value = |flag: &str| setting(flag).and_then(Option::as_deref);
    let is_set = |flag: &str| value(flag).is_some_and(is_on);
    // Core takes a word for "off", and would ask the main network's node. The node refuses it, too.
    let is_word = |text: &str| !text.is_empty() && text.parse::<i64>().is_err();
    for (flag, _) in NETWORKS {
        if let Some(word) = value(flag).filter(|text| is_word(text)) {
            return Err(format!("Error: -{flag}={word}: expected 0 or 1."));
        }
    }
    let flags: Vec<_> = NETWORKS.iter().filter(|(flag, _)| is_set(flag)).collect();
    match (setting("chain").map(text), &flags[..]) {
        (None, []) => Ok(Network::Main),
        (None, [(_, network)]) => Ok(*network),
        (Some(name), []) => name.parse().map_err(|_| format!("Error: Unknown chain {name}.")),
        _ => {
            Err("Error: Invalid combination of -regtest, -signet, -testnet, -testnet4 and -chain. \
                  Can use at most one."
                .to_owned())
        }
    }
}

/// The port of a network where none is named.
pub(crate) fn default_port(network: Network) -> u16 {
    match Params::new(network).network {
        Network::Main => 8332,
        Network::Testnet3 => 18332,
        Network::Testnet4 => 48332,
        Network::Signet => 38332,
        Network::Regtest => 18443,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Result<Arguments, String> {
        let dir = ["-datadir=/"];
        match parse(dir.iter().chain(words).map(OsString::from)) {
            Ok(Asked::Call(arguments)) => Ok(arguments),
            Ok(Asked::Print(text)) => Err(text),
            Err(error) => Err(error),
        }
    }

    #[test]
    fn a_limit_below_one_second_is_none() {
        let limit = |option: &str, default| {
            let arguments = arguments(&[option, "x"]).expect("it is read");
            arguments.limit("rpcwaittimeout", default)
        };
        let seconds = |seconds| Ok(Some(Duration::from_secs(seconds)));
        assert_eq!(limit("-rpcwaittimeout=1", 900), seconds(1));
        assert_eq!(limit("-rpcwait", 900), seconds(900));
        assert_eq!(limit("-rpcwait", 0), Ok(None));
        for none in ["=0", "=-1", "=-9223372036854775808"] {
            assert_eq!(limit(&format!("-rpcwaittimeout{none}"), 900), Ok(None), "{none}");
        }
        assert_eq!(limit("-rpcwaittimeout=", 900), Ok(None));
        assert_eq!(limit("-rpcwaittimeout", 900), Ok(None));
        let off = arguments(&["-norpcclienttimeout", "x"]).expect("it is read");
        assert_eq!(off.limit("rpcclienttimeout", 900), Ok(None));
        let refused = Err("Invalid value in -rpcwaittimeout: 1x".to_owned());
        assert_eq!(limit("-rpcwaittimeout=1x", 900), refused);
    }

    #[test]
    fn options_end_with_the_first_word() {
        let found =
            arguments(&["-regtest", "--rpcport=5", "-norpcwait", "getblockhash", "-1"]).unwrap();
        assert_eq!((found.network, found.value("rpcport")), (Network::Regtest, Some("5")));
        assert_eq!(found.words, ["getblockhash", "-1"]);
        assert!(!found.is_set("rpcwait") && found.is_off("rpcwait") && found.is_set("regtest"));
        let ended = arguments(&["-regtest", "-", "-rpcport=5", "-nonsense", "echo", "-"]).unwrap();
        assert_eq!((ended.network, ended.value("rpcport")), (Network::Regtest, None));
        assert_eq!(ended.words, ["echo", "-"]);
        assert_eq!(arguments(&["-rpcport=1", "-rpcport=2"]).unwrap().value("rpcport"), Some("2"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |words: &[&str]| arguments(words).err().unwrap();
        assert!(wrong(&["-nonsense"]).contains("Invalid parameter -nonsense"));
        let several = "Error: Invalid combination of -regtest, -signet, -testnet, -testnet4 and -chain. \
                       Can use at most one.";
        for networks in [
            ["-regtest", "-signet"],
            ["-chain=main", "-regtest"],
            ["-regtest", "-chain=regtest"],
            ["-noregtest=0", "-testnet4=1"],
        ] {
            assert_eq!(wrong(&networks), several);
        }
        assert_eq!(wrong(&["-nochain"]), "Error: Unknown chain 0.");
        assert_eq!(
            wrong(&["-norpcid"]),
            "Error parsing command line arguments: Negating of -rpcid is meaningless and therefore forbidden"
        );
        for forbidden in ["-nocolor", "-nodatadir", "-norpcwaittimeout", "-nodatadir=0"] {
            assert!(wrong(&[forbidden]).ends_with("is meaningless and therefore forbidden"));
        }
        assert!(wrong(&["-rpcid"]).contains("not set -rpcid with no value."));
        assert!(wrong(&["-chain=x"]).contains("Unknown chain x."));
        // A word would be "off" in Core, and the main network be asked.
        assert_eq!(wrong(&["-regtest=true"]), "Error: -regtest=true: expected 0 or 1.");
        assert_eq!(
            wrong(&["-datadir=/nonexistent"]),
            "Error: Specified data directory \"/nonexistent\" does not exist."
        );
        assert!(wrong(&["-help"]).contains("-rpcwaittimeout=SECONDS"));
        assert!(wrong(&["-version"]).starts_with("godwit-cli version"));
    }

    #[test]
    fn values_mean_what_they_mean_in_core() {
        let found = |words: &[&str]| arguments(words).expect("it is read");
        for on in ["-rpcwait", "-rpcwait=", "-rpcwait=2", "-norpcwait=0", "-norpcwait=false"] {
            assert!(found(&[on]).is_set("rpcwait"), "{on}");
        }
        for off in ["-rpcwait=0", "-rpcwait=false", "-norpcwait", "-norpcwait=1", "-norpcwait="] {
            assert!(!found(&[off]).is_set("rpcwait"), "{off}");
        }
        let network = |words: &[&str]| found(words).network;
        assert_eq!(network(&["-noregtest=0"]), Network::Regtest);
        assert_eq!(network(&["-chain=signet", "-regtest=0", "-notestnet"]), Network::Signet);
        assert_eq!(network(&["-regtest=0"]), Network::Main);
        for call in ["-version=0", "-noversion"] {
            assert_eq!(found(&[call, "getblockcount"]).words, ["getblockcount"]);
        }
        assert_eq!(found(&["-norpcport"]).text("rpcport"), Some("0"));
        assert_eq!(found(&["-rpcport"]).text("rpcport"), Some(""));
        assert_eq!(found(&["-rpcuser"]).value("rpcuser"), Some(""));
    }

    #[test]
    fn an_empty_path_is_the_usual_one() {
        let usual = home_directory().unwrap_or_default().join(DEFAULT_DATADIR);
        for none in ["-datadir", "-datadir="] {
            assert_eq!(arguments(&[none, "-noconf"]).expect("it is read").datadir, usual);
        }
        // A file that is named has to be there, even so.
        for conf in ["-conf", "-conf="] {
            let absent = arguments(&[conf]).err().expect("there is none in /");
            assert!(
                absent.starts_with("Error reading configuration file: /godwit.conf: "),
                "{absent}"
            );
        }
        assert_eq!(arguments(&["-noconf"]).expect("it is read").config_file, PathBuf::new());
    }

    #[test]
    fn the_file_says_no_as_well() {
        let with = |file: &str, words: &[&str]| {
            let (line, _) = split(words.iter().map(OsString::from))?;
            in_force(line, config_file::parse(file.as_bytes())?)
        };
        let network = |file: &str, words: &[&str]| with(file, words).expect("it is read").0;
        let cookie = |file: &str, words: &[&str]| {
            let (_, settings) = with(file, words).expect("it is read");
            settings["rpccookiefile"].clone()
        };
        assert_eq!(network("noregtest=0\n", &[]), Network::Regtest);
        assert_eq!(network("noregtest=0\n", &["-noregtest"]), Network::Main);
        assert_eq!(network("regtest=1\nnoregtest=1\n", &[]), Network::Main);
        assert_eq!(cookie("norpccookiefile=1\n", &[]), None);
        assert_eq!(cookie("rpccookiefile=a\n[main]\nnorpccookiefile=1\n", &[]), None);
        let named = cookie("norpccookiefile=1\n", &["-rpccookiefile=a"]);
        assert_eq!(named.as_deref(), Some("a"));
        let refused = "Negating of -rpcid is meaningless and therefore forbidden";
        assert_eq!(with("norpcid=1\n", &[]).err().as_deref(), Some(refused));
        let several = with("chain=regtest\n", &["-signet"]).expect_err("two networks");
        assert!(several.ends_with("Can use at most one."), "{several}");
    }
}
