//! The options, and what their values mean (Core `common/args.cpp`, `bitcoin-cli.cpp`).

use std::collections::BTreeMap;

use godwit_primitives::Network;

/// An option and its help.
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    /// What follows `=`; empty for one that is on or off.
    value: &'static str,
    help: &'static str,
    /// Whether it may stand in the configuration file.
    pub(crate) file: bool,
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

/// Options of which a negation would mean nothing (Core `DISALLOW_NEGATION`).
const NOT_NEGATED: &[&str] =
    &["color", "datadir", "rpcid", "rpcwaittimeout", "signetchallenge", "signetseednode"];

/// Options that need a value (Core `DISALLOW_ELISION`).
const WITH_VALUE: &[&str] = &["rpcid"];

/// Options that name a network.
pub(crate) const NETWORKS: &[(&str, Network)] = &[
    ("testnet", Network::Testnet3),
    ("testnet4", Network::Testnet4),
    ("signet", Network::Signet),
    ("regtest", Network::Regtest),
];

/// Options that count on the main network only where they stand before all sections: they would be wrong
/// on the others.
pub(crate) const ONLY_OF_NETWORK: &[&str] = &["rpcport"];

pub(crate) fn help() -> String {
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

/// What one source says of an option: its value, which is empty for a bare `-NAME`, or `None` for `-noNAME`.
pub(crate) type Setting = Option<String>;

/// What it says of options, by name.
pub(crate) type Settings = BTreeMap<&'static str, Setting>;

impl Spec {
    /// The option of this name, or of this name without its `no`, and whether it is negated.
    pub(crate) fn find(name: &str) -> Option<(&'static Self, bool)> {
        let find = |name: &str| SPECS.iter().find(|spec| spec.name == name);
        match find(name) {
            Some(spec) => Some((spec, false)),
            None => find(name.strip_prefix("no")?).map(|spec| (spec, true)),
        }
    }

    /// What is meant where the option, or its negation, has this value (Core `InterpretValue`).
    ///
    /// # Errors
    ///
    /// The option is not given so.
    pub(crate) fn setting(&self, is_negated: bool, value: Option<&str>) -> Result<Setting, String> {
        let name = self.name;
        if is_negated && NOT_NEGATED.contains(&name) {
            return Err(format!("Negating of -{name} is meaningless and therefore forbidden"));
        }
        if !is_negated && value.is_none() && WITH_VALUE.contains(&name) {
            return Err(format!(
                "Can\x20not set -{name} with no value. Please specify value with -{name}=value."
            ));
        }
        Ok(match (is_negated, value.unwrap_or_default()) {
            // Twice negated.
            (true, value) if !is_on(value) => Some("1".to_owned()),
            (true, _) => None,
            (false, value) => Some(value.to_owned()),
        })
    }
}

/// Whether this value switches an option on: a number other than 0 does, as C reads numbers, and so does none
/// at all; a word does not (Core `InterpretBool`).
pub(crate) fn is_on(value: &str) -> bool {
    let number = value.trim();
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
    let mut digits = digits.bytes().take_while(u8::is_ascii_digit);
    value.is_empty() || digits.any(|digit| digit != b'0')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use godwit_program::{Line, Manual};

    use super::*;

    #[test]
    fn a_value_is_read_as_c_reads_numbers() {
        for on in ["", "1", "-1", "+1", " 2 ", "01", "1x", "99999999999999999999"] {
            assert!(is_on(on), "{on:?}");
        }
        for off in ["0", "-0", "00", "+-1", "--1", " ", "false", "no", "true", "yes", "x1"] {
            assert!(!is_on(off), "{off:?}");
        }
    }

    #[test]
    fn a_second_negation_switches_on() {
        let setting = |name, value| {
            let (spec, is_negated) = Spec::find(name).expect("it is in the table");
            spec.setting(is_negated, value)
        };
        let on = |value: &str| Ok(Some(value.to_owned()));
        assert_eq!(setting("rpcwait", None), on(""));
        assert_eq!(setting("rpcwait", Some("false")), on("false"));
        assert_eq!(setting("norpcwait", None), Ok(None));
        for off in ["", "1", "2"] {
            assert_eq!(setting("norpcwait", Some(off)), Ok(None));
        }
        assert_eq!(setting("norpcwait", Some("0")), on("1"));
        assert_eq!(setting("norpcwait", Some("no")), on("1"));
        let forbidden = "Negating of -datadir is meaningless and therefore forbidden".to_owned();
        assert_eq!(setting("nodatadir", Some("0")), Err(forbidden));
        let bare = "Can\x20not set -rpcid with no value. Please specify value with -rpcid=value.";
        assert_eq!(setting("rpcid", None), Err(bare.to_owned()));
        assert_eq!(setting("rpcid", Some("")), on(""));
    }

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
}
