//! The texts of `-help` and `-version`, from the tables.

use crate::exit::Exit;

use super::lookup::{commands, options};
use super::spec::{Form, Group, OptionSpec};
use super::table::NODE;

/// Columns of the help (bitcoind's width).
const WIDTH: usize = 79;
/// Columns in front of an explanation.
const INDENT: usize = 7;

const CONFIG_HELP: &str = "Lines of name=value, without dashes; # starts a comment. Lines after \
    [main], [test], [testnet4], [signet] or [regtest] count on that network only. The command \
    line wins. These stand on the command line alone: -anysighash, -bip39passphrase, \
    -bip39passphrase-fd, -conf, -foreigninputs, -help, -label, -maxfee, -maxfeerate, -mnemonic-fd, \
    -newpassphrase-fd, -out, -passphrase-fd, -secret-fd, -unprovenamounts, -utxohash, -verdicts, \
    -version, -walletpassphrase-fd, -words.";

pub(super) fn version_text() -> String {
    format!(
        "godwit v{}\nScripts run in Bitcoin Core's engine (libbitcoinkernel).\n\
         Free software under the MIT or the Apache-2.0 licence, without any warranty.\n",
        env!("CARGO_PKG_VERSION")
    )
}

pub(super) fn help_text() -> String {
    let mut text = version_text();
    text.push_str("\nUsage:\n\n");
    for command in std::iter::once(&NODE).chain(commands()) {
        let words = [command.words, "[options]"].join(" ");
        text.push_str(&format!("  godwit {}{}\n", words.trim_start(), command.operands));
        push_paragraph(&mut text, command.help);
    }
    for (group, title) in [
        (Group::General, "Options"),
        (Group::Network, "Choice of network"),
        (Group::Validation, "Options of the node and of import"),
        (Group::Connections, "Options of the node"),
        (Group::Import, "Options of import"),
        (Group::Utxo, "Options of utxo load"),
        (Group::Keys, "Options of keys"),
        (Group::Psbt, "Options of psbt"),
        (Group::Testing, "Options for tests"),
    ] {
        text.push_str(&format!("{title}:\n\n"));
        for option in options().filter(|option| option.group == group) {
            text.push_str(&format!("  {}\n", heading(option)));
            push_paragraph(&mut text, option.help);
        }
    }
    text.push_str("Configuration file:\n\n  godwit.conf in the data directory\n");
    push_paragraph(&mut text, CONFIG_HELP);
    text.push_str("Exit codes:\n\n");
    for exit in Exit::ALL {
        text.push_str(&format!("  {:>3}  {}\n", exit.code(), exit.meaning()));
    }
    text
}

fn heading(option: &OptionSpec) -> String {
    let value = match option.form {
        Form::Flag => String::new(),
        Form::Value { placeholder, .. } => format!("=<{placeholder}>"),
    };
    let mut heading = format!("-{}{value}", option.name);
    for alias in option.aliases {
        heading.push_str(&format!(", -{alias}"));
    }
    heading
}

/// Words wrapped and indented, and an empty line.
fn push_paragraph(text: &mut String, words: &str) {
    let mut column = 0;
    for word in words.split_whitespace() {
        if column == 0 || column + 1 + word.len() > WIDTH {
            text.push_str(if column == 0 { "" } else { "\n" });
            text.push_str(&" ".repeat(INDENT));
            column = INDENT;
        } else {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text.push_str("\n\n");
}

#[cfg(test)]
mod tests {
    use super::super::spec::FilePlace;
    use super::*;

    #[test]
    fn help_names_everything_once() {
        let help = help_text();
        for option in options() {
            let heading = format!("\n  {}\n", heading(option));
            assert_eq!(help.matches(&heading).count(), 1, "{}", option.name);
        }
        for command in commands() {
            assert!(help.contains(&format!("\n  godwit {} [options]", command.words)));
        }
    }

    #[test]
    fn options_that_the_file_refuses_are_named() {
        let mut refused: Vec<String> = options()
            .filter(|option| option.file == FilePlace::Nowhere)
            .map(|option| format!("-{}", option.name))
            .collect();
        refused.sort();
        assert!(CONFIG_HELP.ends_with(&format!(": {}.", refused.join(", "))), "{refused:?}");
    }

    #[test]
    fn lines_fit() {
        let help = help_text();
        let too_long: Vec<&str> = help.lines().filter(|line| line.len() > WIDTH).collect();
        assert!(too_long.is_empty(), "{too_long:#?}");
        assert!(help.lines().any(|line| line.len() > WIDTH - 8), "paragraphs are filled");
    }
}
