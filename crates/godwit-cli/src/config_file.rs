//! The lines of `godwit.conf`, or of `bitcoin.conf`, that concern a client. The others are the node's.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Options before the first section, and those of sections; the first line counts, as in Core.
#[derive(Default)]
pub(crate) struct ConfigLines {
    pub(crate) top: BTreeMap<String, String>,
    sections: BTreeMap<String, BTreeMap<String, String>>,
}

impl ConfigLines {
    /// What is in force on a network.
    pub(crate) fn of_section(mut self, name: &str) -> BTreeMap<String, String> {
        let mut all = self.top;
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
        Ok(text) => Ok(parse(&text, known)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => {
            Ok(ConfigLines::default())
        }
        Err(error) => Err(format!("Error reading configuration file: {}: {error}", path.display())),
    }
}

fn parse(text: &str, known: impl Fn(&str) -> bool) -> ConfigLines {
    let mut lines = ConfigLines::default();
    let mut section = None;
    for line in text.lines() {
        // A password may hold a `#`.
        let is_password = line.trim_start().starts_with("rpcpassword");
        let line = match line.split_once('#') {
            Some((before, _)) if !is_password => before,
            _ => line,
        };
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = Some(name.to_owned());
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        let (name, value) = (name.trim(), value.trim());
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
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_come_before_the_top() {
        let text = "rpcport=1 # one\nrpcport=9\nserver=1\nregtest.rpcuser=u\n[regtest]\n rpcport = 2\n\
                    rpcpassword=a#b\n[main]\nrpcport=3\n";
        let known = |name: &str| name.starts_with("rpc");
        let of = |name: &str| parse(text, known).of_section(name);
        assert_eq!(of("regtest")["rpcport"], "2");
        assert_eq!(of("regtest")["rpcpassword"], "a#b");
        assert_eq!(of("regtest")["rpcuser"], "u");
        assert_eq!(of("main")["rpcport"], "3");
        assert_eq!(of("signet")["rpcport"], "1");
        assert!(!of("main").contains_key("server"));
    }
}
