//! The texts of `-help` and `-version`, from the tables.

use super::lookup::{commands, options};
use super::spec::{FilePlace, Form, OptionSpec, OtherLines, Program};

/// Columns of the help (bitcoind's width).
const WIDTH: usize = 79;
/// Columns in front of an explanation.
const INDENT: usize = 7;

const CONFIG_HELP: &str = "Lines of name=value, without dashes; # starts a comment. Lines after \
    [main], [test], [testnet4], [signet] or [regtest] count on that network only. The command \
    line wins.";

pub(super) fn version_text<P: Program>() -> String {
    format!(
        "{} v{}\n{}\n\
         Free software under the MIT or the Apache-2.0 licence, without any warranty.\n",
        P::NAME,
        env!("CARGO_PKG_VERSION"),
        P::ABOUT
    )
}

pub(super) fn help_text<P: Program>() -> String {
    let mut text = version_text::<P>();
    text.push_str("\nUsage:\n\n");
    let unnamed = P::WITHOUT_COMMAND.map(|(_, spec)| spec);
    for command in unnamed.into_iter().chain(commands()) {
        let words = [command.words, "[options]"].join(" ");
        text.push_str(&format!("  {} {}{}\n", P::NAME, words.trim_start(), command.operands));
        push_paragraph(&mut text, command.help);
    }
    for title in P::GROUPS {
        text.push_str(&format!("{title}:\n\n"));
        for option in options::<P>().filter(|option| option.group == *title) {
            text.push_str(&format!("  {}\n", heading(option)));
            push_paragraph(&mut text, option.help);
        }
    }
    text.push_str("Configuration file:\n\n  godwit.conf in the data directory\n");
    push_paragraph(&mut text, &config_help::<P>());
    text.push_str("Exit codes:\n\n");
    for exit in P::EXITS {
        text.push_str(&format!("  {:>3}  {}\n", exit.code(), exit.meaning()));
    }
    text
}

fn config_help<P: Program>() -> String {
    let mut line_only: Vec<String> = options::<P>()
        .filter(|option| matches!(option.file, FilePlace::Nowhere | FilePlace::OtherProgram))
        .map(|option| format!("-{}", option.name))
        .collect();
    line_only.sort();
    let others = match P::OTHER_LINES {
        OtherLines::Known { .. } => {
            " Options that only Bitcoin Core has are passed over, with a warning."
        }
        OtherLines::All => " Lines for other programs are skipped.",
    };
    let line_only = line_only.join(", ");
    format!("{CONFIG_HELP}{others} These stand on the command line alone: {line_only}.")
}

fn heading<P: Program>(option: &OptionSpec<P>) -> String {
    let value = match option.form {
        Form::Flag => String::new(),
        Form::Switch { placeholder, .. } => format!("[=<{placeholder}>]"),
        Form::Value { placeholder, .. } => format!("=<{placeholder}>"),
    };
    let mut heading = format!("-{}{value}", option.name);
    for alias in option.aliases {
        heading.push_str(&format!(", -{alias}"));
    }
    heading
}

/// Appends a paragraph, wrapped and indented, and an empty line.
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
