//! The command line: options up to the first word that is none, then a method and its arguments, however
//! they begin.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use godwit_primitives::{Network, Params};
use godwit_program::options::{CONFIG_FILE, DEFAULT_DATADIR, home_directory, network_dir};

use crate::config_file;

/// An option and its help.
struct Spec {
    name: &'static str,
    /// What follows `=`; empty for one that is on or off.
    value: &'static str,
    help: &'static str,
    /// Whether it may stand in the configuration file.
    file: bool,
}

const fn spec(name: &'static str, value: &'static str, help: &'static str, file: bool) -> Spec {
    Spec { name, value, help, file }
}

const SPECS: &[Spec] = &[
    spec("help", "", "Print this and stop.", false),
    spec("version", "", "Print the version and stop.", false),
    spec("datadir", "DIR", "The node's data directory (default: ~/.godwit).", false),
    spec(
        "conf",
        "FILE",
        "The configuration file, from the data directory (default: godwit.conf).",
        false,
    ),
    spec("chain", "NAME", "main, test, testnet4, signet or regtest (default: main).", true),
    spec("testnet", "", "The same as -chain=test.", true),
    spec("testnet4", "", "The same as -chain=testnet4.", true),
    spec("signet", "", "The same as -chain=signet.", true),
    spec("regtest", "", "The same as -chain=regtest.", true),
    spec("rpcconnect", "HOST[:PORT]", "Where the node runs (default: 127.0.0.1).", true),
    spec(
        "rpcport",
        "PORT",
        "Its port (default: 8332, test 18332, testnet4 48332, signet 38332, regtest 18443).",
        true,
    ),
    spec("rpcuser", "NAME", "The user of -rpcpassword.", true),
    spec("rpcpassword", "PASSWORD", "The password (default: that of the cookie).", true),
    spec(
        "rpccookiefile",
        "FILE",
        "The cookie (default: .cookie in the network's directory).",
        true,
    ),
    spec(
        "rpcclienttimeout",
        "SECONDS",
        "Wait this long for an answer; 0: forever (default: 900).",
        true,
    ),
    spec("rpcwait", "", "Wait until the node answers.", true),
    spec("rpcwaittimeout", "SECONDS", "Wait no longer than this; 0: forever (default: 0).", true),
    spec("rpcwallet", "NAME", "The wallet, if the server has one.", true),
    spec("rpcid", "ID", "The id of the request (default: 1).", true),
    spec("named", "", "Arguments are NAME=VALUE.", true),
    spec("stdin", "", "Read further arguments from standard input, one a line.", false),
    spec("stdinrpcpass", "", "Read the password from standard input, its first line.", false),
    spec(
        "stdinwalletpassphrase",
        "",
        "Read a wallet's passphrase from standard input, the next line.",
        false,
    ),
    spec("getinfo", "", "Print the state of the node.", false),
    spec(
        "netinfo",
        "",
        "Print the connections; a level from 0 to 4 and outonly may follow, or help.",
        false,
    ),
    spec("addrinfo", "", "Print how many addresses of peers the node knows.", false),
    spec(
        "generate",
        "",
        "Mine to a new address of the wallet; a number of blocks and of tries may follow.",
        false,
    ),
    spec("color", "WHEN", "always, never or auto: colours in -getinfo (default: auto).", true),
    spec("ipcconnect", "ADDRESS", "auto, or off: there is no other way than HTTP.", true),
    spec("signetchallenge", "HEX", "Of no effect here; it is the node's.", true),
    spec("signetseednode", "HOST", "Of no effect here; it is the node's.", true),
    spec("vbparams", "TEXT", "Of no effect here; it is the node's.", true),
    spec("testactivationheight", "TEXT", "Of no effect here; it is the node's.", true),
];

/// What the program is to do.
pub(crate) enum Asked {
    Print(String),
    Call(Arguments),
}

/// Options, from the command line and the file, and the words behind them.
pub(crate) struct Arguments {
    /// By name; the last one counts. `None` for `-noNAME`.
    line: BTreeMap<&'static str, Option<String>>,
    file: BTreeMap<String, String>,
    pub(crate) words: Vec<String>,
    pub(crate) network: Network,
    datadir: PathBuf,
    pub(crate) config_file: PathBuf,
}

impl Arguments {
    /// The value of an option; `None` where it is not given or switched off.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        match self.line.get(name) {
            Some(value) => value.as_deref(),
            None => self.file.get(name).map(String::as_str),
        }
    }

    /// Whether `-noNAME` is given.
    pub(crate) fn is_off(&self, name: &str) -> bool {
        matches!(self.line.get(name), Some(None))
    }

    /// Whether an option is on.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value != "0")
    }

    /// The seconds that an option allows; `None` for ever, which a number below one stands for.
    ///
    /// # Errors
    ///
    /// It says no number.
    pub(crate) fn limit(&self, name: &str, default: i64) -> Result<Option<Duration>, String> {
        let seconds: i64 = match self.value(name) {
            _ if self.is_off(name) => 0,
            None => default,
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

/// Options that count on the main network only where they stand before all sections: they would be wrong
/// on the others.
const ONLY_OF_NETWORK: &[&str] = &["rpcport"];

fn help() -> String {
    let mut text = String::from(
        "godwit-cli asks a running godwit, or Bitcoin Core's node, by JSON-RPC.\n\nUsage:\n  \
         godwit-cli [options] METHOD [ARGUMENT...]\n  godwit-cli [options] -named METHOD [NAME=VALUE...]\n  \
         godwit-cli [options] help [METHOD]\n\nOptions:\n",
    );
    for Spec { name, value, help, .. } in SPECS {
        let equals = if value.is_empty() { "" } else { "=" };
        text.push_str(&format!("  -{name}{equals}{value}\n      {help}\n"));
    }
    text.push_str(
        "\nExit codes: 0 for a result, 1 where there is no answer, else the number of the error without \
         its sign.",
    );
    text
}

/// Reads the command line and the configuration file.
///
/// # Errors
///
/// One line for the user.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Asked, String> {
    let text = |word: OsString| {
        word.into_string().map_err(|word| format!("Error: {} is no text", word.to_string_lossy()))
    };
    let mut words = words.map(text).peekable();
    let mut line = BTreeMap::new();
    while let Some(word) = words
        .next_if(|word| word.as_ref().map_or(true, |word| word.starts_with('-') && word.len() > 1))
    {
        let word = word?;
        let (name, value) = option(&word).ok_or_else(|| {
            format!("Error parsing command line arguments: Invalid parameter {word}")
        })?;
        line.insert(name, value);
    }
    let words = words.collect::<Result<Vec<_>, _>>()?;
    if line.contains_key("help") {
        return Ok(Asked::Print(help()));
    }
    if line.contains_key("version") {
        return Ok(Asked::Print(format!("godwit-cli version {}", env!("CARGO_PKG_VERSION"))));
    }
    let datadir = match line.get("datadir").cloned().flatten().filter(|dir| !dir.is_empty()) {
        Some(dir) if !Path::new(&dir).is_dir() => {
            return Err(format!("Error: Specified data directory \"{dir}\" does not exist."));
        }
        Some(dir) => PathBuf::from(dir),
        None => home_directory().unwrap_or_default().join(DEFAULT_DATADIR),
    };
    let named = line.get("conf").cloned().flatten();
    let config_file = datadir.join(named.as_deref().unwrap_or(CONFIG_FILE));
    let known = |name: &str| SPECS.iter().any(|spec| spec.name == name && spec.file);
    let read = config_file::read(&config_file, named.is_some(), known)?;
    let network = network(|name| match line.get(name) {
        Some(value) => value.clone(),
        None => read.top.get(name).cloned(),
    })?;
    let file = read.of_section(network.name(), ONLY_OF_NETWORK);
    Ok(Asked::Call(Arguments { line, file, words, network, datadir, config_file }))
}

/// `-name=value`, `-name` or `-noname`, with one or two dashes.
fn option(word: &str) -> Option<(&'static str, Option<String>)> {
    let word = word.strip_prefix('-')?;
    let word = word.strip_prefix('-').unwrap_or(word);
    let (name, value) =
        word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    let find = |name: &str| SPECS.iter().find(|spec| spec.name == name).map(|spec| spec.name);
    let name = match name {
        "h" | "?" => "help",
        name => name,
    };
    if let Some(found) = find(name) {
        return Some((found, Some(value.unwrap_or("1").to_owned())));
    }
    let found = find(name.strip_prefix("no")?)?;
    Some((found, None))
}

fn network(value: impl Fn(&str) -> Option<String>) -> Result<Network, String> {
    let mut chosen = None;
    for (flag, network) in [
        ("testnet", Network::Testnet3),
        ("testnet4", Network::Testnet4),
        ("signet", Network::Signet),
        ("regtest", Network::Regtest),
    ] {
        if value(flag).is_some_and(|value| value != "0") && chosen.replace(network).is_some() {
            return Err(
                "Error: Invalid combination of -regtest, -signet, -testnet, -testnet4 and \
                        -chain. Can use at most one."
                    .to_owned(),
            );
        }
    }
    match value("chain") {
        None => Ok(chosen.unwrap_or(Network::Main)),
        Some(name) => name.parse().map_err(|_| format!("Error: Unknown chain {name}.")),
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
    use godwit_program::{Line, Manual};

    use super::*;

    fn manual() -> Manual {
        let line = |spec: &Spec| Line {
            name: spec.name,
            value: (!spec.value.is_empty()).then_some((spec.value, false)),
            help: spec.help,
            in_file: spec.file,
        };
        Manual {
            name: "godwit-cli",
            what: "asks a running node",
            about: "Asks a running godwit, or Bitcoin Core's node, by JSON-RPC, as bitcoin-cli does. The methods are \
                    listed by godwit-cli help.",
            commands: vec![
                (
                    "[options] METHOD [ARGUMENT...]".to_owned(),
                    "Call a method with arguments by position.",
                ),
                (
                    "[options] -named METHOD [NAME=VALUE...]".to_owned(),
                    "Call it with arguments by name.",
                ),
            ],
            groups: vec![("Options", SPECS.iter().map(line).collect())],
            exits: vec![
                ("0".to_owned(), "a result"),
                ("1".to_owned(), "no answer"),
                ("others".to_owned(), "the number of the error, without its sign"),
            ],
        }
    }

    /// With `GODWIT_WRITE_CONTRIB` it writes them: `cargo xtask contrib`.
    #[test]
    fn the_files_of_contrib_are_those_of_the_table() {
        for (name, text) in manual().files() {
            let path = Path::new("../../contrib").join(&name);
            if std::env::var_os("GODWIT_WRITE_CONTRIB").is_some() {
                std::fs::create_dir_all(path.parent().expect("a directory"))
                    .expect("it can be made");
                std::fs::write(&path, &text).expect("it is written");
            }
            let current = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(current == text, "{name} is old: cargo xtask contrib");
        }
    }

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
        assert_eq!(limit("-norpcwaittimeout", 900), Ok(None));
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
        assert_eq!(arguments(&["-rpcport=1", "-rpcport=2"]).unwrap().value("rpcport"), Some("2"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |words: &[&str]| arguments(words).err().unwrap();
        assert!(wrong(&["-nonsense"]).contains("Invalid parameter -nonsense"));
        assert!(wrong(&["-regtest", "-signet"]).contains("at most one"));
        assert!(wrong(&["-chain=x"]).contains("Unknown chain x."));
        assert_eq!(
            wrong(&["-datadir=/nonexistent"]),
            "Error: Specified data directory \"/nonexistent\" does not exist."
        );
        assert!(wrong(&["-help"]).contains("-rpcwaittimeout=SECONDS"));
    }
}
