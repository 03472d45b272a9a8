//! The lines of `godwit.conf`, or of `bitcoin.conf`, that concern a client. The others are the node's.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// The network for which what stands before all sections is meant.
const MAIN: &str = "main";

/// Options before the first section, and those of sections; the first line counts, as in Core.
#[derive(Default)]
pub(crate) struct ConfigLines {
    pub(crate) top: BTreeMap<String, String>,
    sections: BTreeMap<String, BTreeMap<String, String>>,
}

impl ConfigLines {
    /// What is in force on a network; of the options in `own`, only what is said for that network.
    pub(crate) fn of_section(mut self, name: &str, own: &[&str]) -> BTreeMap<String, String> {
        let mut all = self.top;
        if name != MAIN {
            all.retain(|option, _| !own.contains(&option.as_str()));
        }
        all.extend(self.sections.remove(name).unwrap_or_default());
        all
    }
}

/// Reads the file; one that is not there is an error only where the user names it.
pub(crate) fn read(
    path: &Path,
    is_named: bool,
    known: impl Fn(&str) -> bool,
) -> Result<ConfigLines, String> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text, known)
            .map_err(|error| format!("Error reading configuration file: parse error on {error}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => {
            Ok(ConfigLines::default())
        }
        Err(error) => Err(format!("Error reading configuration file: {}: {error}", path.display())),
    }
}

fn parse(text: &str, known: impl Fn(&str) -> bool) -> Result<ConfigLines, String> {
    // A byte-order mark is no part of the first line.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = ConfigLines::default();
    let mut section = None;
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let (line, comment) = match line.split_once('#') {
            Some((before, _)) => (before.trim(), true),
            None => (line.trim(), false),
        };
        if line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = Some(name.to_owned());
            continue;
        }
        if line.starts_with('-') {
            return Err(format!(
                "line {number}: {line}, options in configuration file must be specified without leading -"
            ));
        }
        let Some((name, value)) = line.split_once('=') else {
            let meant = match line.starts_with("no") {
                true => {
                    format!(", if you intended to specify a negated option, use {line}=1 instead")
                }
                false => String::new(),
            };
            return Err(format!("line {number}: {line}{meant}"));
        };
        let (name, value) = (name.trim(), value.trim());
        if comment && name.contains("rpcpassword") {
            return Err(format!(
                "line {number}, using # in rpcpassword can be ambiguous and should be avoided"
            ));
        }
        // `main.rpcport=1` is another way to write a section.
        let (into, name) = match name.split_once('.') {
            Some((section, name)) => (Some(section.to_owned()), name),
            None => (section.clone(), name),
        };
        if !known(name) {
            continue;
        }
        let options = match into {
            None => &mut lines.top,
            Some(section) => lines.sections.entry(section).or_default(),
        };
        options.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_come_before_the_top() {
        let text = "\u{feff}rpcport=1 # one\nrpcport=9\nrpcwait=1\nserver=1\nregtest.rpcuser=u\n[regtest]\n \
                    rpcport = 2\nrpcpassword=ab\n[main]\nrpcport=3\n";
        let known = |name: &str| name.starts_with("rpc");
        let of =
            |name: &str| parse(text, known).expect("it is read").of_section(name, &["rpcport"]);
        assert_eq!(of("regtest")["rpcport"], "2");
        assert_eq!(of("regtest")["rpcpassword"], "ab");
        assert_eq!(of("regtest")["rpcuser"], "u");
        assert_eq!(of("main")["rpcport"], "3");
        assert_eq!(parse(text, known).expect("it is read").top["rpcport"], "1");
        // A port stands for the main network alone.
        assert!(!of("signet").contains_key("rpcport"));
        assert_eq!(of("signet")["rpcwait"], "1");
        assert!(!of("main").contains_key("server"));
    }

    #[test]
    fn lines_that_say_nothing_certain_are_refused() {
        let wrong = |text: &str| parse(text, |_| true).err().unwrap();
        assert_eq!(
            wrong("\n[main]\nrpcpassword=a#b"),
            "line 3, using # in rpcpassword can be ambiguous and should be avoided"
        );
        assert!(wrong("-rpcport=1").starts_with("line 1: -rpcport=1, options in"));
        assert!(wrong("noserver").ends_with("use noserver=1 instead"));
    }
}
