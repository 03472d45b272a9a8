//! The lines of `godwit.conf`, or of `bitcoin.conf`, that concern a client (Core `common/config.cpp`). The
//! others are the node's.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use godwit_program::options::read_config;

use crate::table::{NETWORKS, Setting, Settings, Spec};

/// The network for which what stands before all sections is meant.
const MAIN: &str = "main";

/// Options before the first section, and those of sections. As in Core, the first line counts, or the first
/// one after the last negation; of the flags that name a network it is the last one.
#[derive(Default)]
pub(crate) struct ConfigLines {
    pub(crate) top: Settings,
    sections: BTreeMap<String, Settings>,
}

impl ConfigLines {
    /// What is in force on a network; of the options in `own`, only what is said for that network, and
    /// negations.
    pub(crate) fn of_section(mut self, name: &str, own: &[&str]) -> Settings {
        let mut all = self.top;
        if name != MAIN {
            all.retain(|option, setting| setting.is_none() || !own.contains(option));
        }
        all.extend(self.sections.remove(name).unwrap_or_default());
        all
    }
}

/// Reads the file; one that is not there is an error only where the user names it.
pub(crate) fn read(path: &Path, is_named: bool) -> Result<ConfigLines, String> {
    match read_config(path) {
        Ok(text) => {
            parse(&text).map_err(|error| format!("Error reading configuration file: {error}"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => {
            Ok(ConfigLines::default())
        }
        Err(error) => Err(format!("Error reading configuration file: {}: {error}", path.display())),
    }
}

pub(crate) fn parse(text: &[u8]) -> Result<ConfigLines, String> {
    // A byte-order mark is no part of the first line.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut lines = ConfigLines::default();
    let mut section = None;
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let wrong = |what: &str| format!("parse error on line {}{what}", index + 1);
        let comment = line.iter().position(|byte| *byte == b'#');
        // A comment may be in any encoding.
        let line = str::from_utf8(&line[..comment.unwrap_or(line.len())]);
        let line = line.map_err(|_| wrong(": not UTF-8"))?.trim();
        if line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = Some(name.to_owned());
            continue;
        }
        let (name, value) = name_and_value(line).map_err(|error| wrong(&error))?;
        if comment.is_some() && name.contains("rpcpassword") {
            return Err(wrong(", using # in rpcpassword can be ambiguous and should be avoided"));
        }
        // `main.rpcport=1` is another way to write a section.
        let (section, name) = match (&section, name.split_once('.')) {
            (None, Some((section, name))) => (Some(section.to_owned()), name),
            _ => (section.clone(), name),
        };
        let Some((spec, is_negated)) = Spec::find(name).filter(|(spec, _)| spec.file) else {
            continue;
        };
        let setting = spec.setting(is_negated, Some(value))?;
        let settings = match section {
            None => &mut lines.top,
            Some(section) => lines.sections.entry(section).or_default(),
        };
        add(settings, spec.name, setting);
    }
    Ok(lines)
}

/// The two halves of a line.
fn name_and_value(line: &str) -> Result<(&str, &str), String> {
    if line.starts_with('-') {
        return Err(format!(
            ": {line}, options in configuration file must be specified without leading -"
        ));
    }
    let Some((name, value)) = line.split_once('=') else {
        let meant = match line.starts_with("no") {
            true => format!(", if you intended to specify a negated option, use {line}=1 instead"),
            false => String::new(),
        };
        return Err(format!(": {line}{meant}"));
    };
    Ok((name.trim(), value.trim()))
}

/// Adds what a line says to what those before it say (Core `common/settings.cpp`).
fn add(settings: &mut Settings, name: &'static str, setting: Setting) {
    let has_value = settings.get(name).is_some_and(Option::is_some);
    let last_counts = NETWORKS.iter().any(|(flag, _)| *flag == name);
    if setting.is_none() || last_counts || !has_value {
        settings.insert(name, setting);
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn a_pipe_that_nothing_writes_into_is_not_waited_for() {
        let name = format!("godwit-cli-pipe-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        mkfifoat(CWD, &path, Mode::RUSR).expect("a pipe");
        let error = read(&path, true).err();
        std::fs::remove_file(&path).expect("it is there");
        let why = format!("{}: it is a pipe that nothing writes into", path.display());
        assert_eq!(error, Some(format!("Error reading configuration file: {why}")));
    }

    #[test]
    fn sections_come_before_the_top() {
        let text = "\u{feff}rpcport=1 # one\nrpcport=9\nrpcwait=1\nserver=1\nregtest.rpcuser=u\n[regtest]\n \
                    rpcport = 2\nrpcpassword=ab\nmain.rpcid=7\n[main]\nrpcport=3\n";
        let read = || parse(text.as_bytes()).expect("it is read");
        let of = |name: &str| read().of_section(name, &["rpcport"]);
        let value = |text: &str| Some(text.to_owned());
        assert_eq!(of("regtest")["rpcport"], value("2"));
        assert_eq!(of("regtest")["rpcpassword"], value("ab"));
        assert_eq!(of("regtest")["rpcuser"], value("u"));
        assert_eq!(of("main")["rpcport"], value("3"));
        assert_eq!(read().top["rpcport"], value("1"));
        // A port stands for the main network alone.
        assert!(!of("signet").contains_key("rpcport"));
        assert_eq!(of("signet")["rpcwait"], value("1"));
        assert!(!of("main").contains_key("server") && !of("main").contains_key("rpcid"));
    }

    #[test]
    fn a_negation_voids_the_lines_before_it() {
        let top = |text: &str| parse(text.as_bytes()).expect("it is read").top;
        let value = |text: &str| Some(text.to_owned());
        assert_eq!(top("rpcuser=a\nnorpcuser=1\n")["rpcuser"], None);
        assert_eq!(top("rpcuser=a\nnorpcuser=1\nrpcuser=b\nrpcuser=c\n")["rpcuser"], value("b"));
        assert_eq!(top("norpcuser=0\n")["rpcuser"], value("1"));
        assert_eq!(top("regtest=1\nregtest=0\n")["regtest"], value("0"), "the last one");
        // One of an option for main alone counts everywhere, as in Core.
        let signet =
            parse(b"norpcport=1\n").expect("it is read").of_section("signet", &["rpcport"]);
        assert_eq!(signet["rpcport"], None);
    }

    #[test]
    fn a_comment_may_be_in_any_encoding() {
        let top = parse(b"# H\xf6he\nrpcport=1 # \xfc\n").expect("it is read").top;
        assert_eq!(top["rpcport"], Some("1".to_owned()));
        let outside = parse(b"\nrpcuser=\xfc\n").err().expect("no comment");
        assert_eq!(outside, "parse error on line 2: not UTF-8");
    }

    #[test]
    fn lines_that_say_nothing_certain_are_refused() {
        let wrong = |text: &str| parse(text.as_bytes()).err().unwrap();
        assert_eq!(
            wrong("\n[main]\nrpcpassword=a#b"),
            "parse error on line 3, using # in rpcpassword can be ambiguous and should be avoided"
        );
        assert!(wrong("-rpcport=1").starts_with("parse error on line 1: -rpcport=1, options"));
        assert!(wrong("noserver").ends_with("use noserver=1 instead"));
    }
}
