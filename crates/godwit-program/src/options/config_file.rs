//! `godwit.conf`: bitcoin.conf's syntax (Core `common/config.cpp`).
//!
//! Lines are `name=value`; a `#` starts a comment; `[network]` starts a section whose options count
//! on that network only, and `network.name=value` says the same for one line. A repeated name is an
//! error, where Core takes the first one. A byte-order mark, which editors of Windows write, is no part of
//! the first line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use godwit_primitives::Network;

use super::command_line::{Given, find_option};
use super::error::{OptionsError, Origin, Problem};
use super::lookup;
use super::spec::{Draft, FilePlace, OtherLines, Program};

/// What some editors put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The parsed file: options that exist, with values in range, for all networks.
pub(super) struct ConfigFile<P: Program> {
    pub(super) path: PathBuf,
    entries: Vec<Entry<P>>,
    /// A sentence for each line with an option of Bitcoin Core that the program does not have.
    pub(super) passed_over: Vec<String>,
}

/// What a line is.
enum Line<P: Program> {
    Entry(Entry<P>),
    /// An option of another program.
    Other,
    /// An option of Bitcoin Core that the program does not have.
    Absent,
}

struct Entry<P: Program> {
    /// `None` before the first section.
    section: Option<Network>,
    given: Given<P>,
}

impl<P: Program> ConfigFile<P> {
    pub(super) fn parse(path: PathBuf, text: &[u8]) -> Result<Self, OptionsError> {
        let shared = Arc::new(path.clone());
        let mut file = ConfigFile { path, entries: Vec::new(), passed_over: Vec::new() };
        let mut section = None;
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let origin = Origin::File { path: Arc::clone(&shared), line: index + 1 };
            let line = str::from_utf8(line).map_err(|_| Problem::NotUtf8.at(&origin))?;
            let (line, comment) = match line.split_once('#') {
                Some((line, _)) => (line.trim(), true),
                None => (line.trim(), false),
            };
            // Whoever wrote it may have meant the `#` as a part of it.
            if comment && line.split('=').next().is_some_and(|name| name.contains("rpcpassword")) {
                return Err(Problem::HashInPassword.at(&origin));
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = Some(network(name, &origin)?);
            } else if !line.is_empty() {
                match Entry::parse(line, section, &origin)? {
                    Line::Entry(entry) => file.add(entry)?,
                    Line::Other => {}
                    Line::Absent => file.pass_over(line, index + 1),
                }
            }
        }
        Ok(file)
    }

    /// The options that stand before all sections.
    pub(super) fn top(&self) -> impl Iterator<Item = &Given<P>> {
        self.entries.iter().filter(|entry| entry.section.is_none()).map(|entry| &entry.given)
    }

    /// The options of the network's own section.
    pub(super) fn section(&self, network: Network) -> impl Iterator<Item = &Given<P>> {
        self.entries
            .iter()
            .filter(move |entry| entry.section == Some(network))
            .map(|entry| &entry.given)
    }

    fn pass_over(&mut self, line: &str, number: usize) {
        let name = line.split('=').next().unwrap_or(line).trim_end();
        let (path, program) = (self.path.display(), P::NAME);
        self.passed_over.push(format!("{path}:{number}: {program} has no {name}: passed over"));
    }

    fn add(&mut self, entry: Entry<P>) -> Result<(), OptionsError> {
        let spec = entry.given.spec;
        let earlier = self.entries.iter().find(|earlier| {
            earlier.section == entry.section && earlier.given.spec.name == spec.name
        });
        if let Some(Entry { given: Given { origin: Origin::File { line, .. }, .. }, .. }) = earlier
            && !spec.repeats
        {
            let repeated = Problem::Repeated { option: spec.name, first_line: *line };
            return Err(repeated.at(&entry.given.origin));
        }
        self.entries.push(entry);
        Ok(())
    }
}

impl<P: Program> Entry<P> {
    /// Applies the value to a draft that is thrown away, so that a mistake in another network's
    /// section is reported as well.
    fn parse(
        line: &str,
        section: Option<Network>,
        origin: &Origin,
    ) -> Result<Line<P>, OptionsError> {
        if line.starts_with('-') {
            return Err(Problem::LeadingDash.at(origin));
        }
        let (name, value) = line.split_once('=').ok_or_else(|| Problem::NoEqualsSign.at(origin))?;
        let (section, name) = match (section, name.trim_end().split_once('.')) {
            (None, Some((prefix, name))) => (Some(network(prefix, origin)?), name),
            _ => (section, name.trim_end()),
        };
        let (spec, negated) = match find_option(name, origin) {
            Ok(found) => found,
            Err(error) if is_for_another::<P>(name, &error) => return Ok(Line::Other),
            Err(_) if is_absent::<P>(name) => return Ok(Line::Absent),
            Err(error) => return Err(error),
        };
        match spec.file {
            FilePlace::Nowhere => {
                return Err(Problem::NotInFile { option: spec.name }.at(origin));
            }
            FilePlace::OtherProgram => return Ok(Line::Other),
            FilePlace::Top if section.is_some() => {
                return Err(Problem::NotInSection { option: spec.name }.at(origin));
            }
            FilePlace::Top | FilePlace::PerNetwork | FilePlace::Anywhere => {}
        }
        let value = OsString::from(value.trim_start());
        let given = Given::new(spec, negated, Some(value), origin.clone())?;
        given.apply(&mut Draft::default())?;
        Ok(Line::Entry(Entry { section, given }))
    }
}

/// Whether an unknown name belongs to another program.
fn is_for_another<P: Program>(name: &str, error: &OptionsError) -> bool {
    match (P::OTHER_LINES, &error.problem) {
        (OtherLines::Known { others, .. }, _) => others.contains(&name),
        (OtherLines::All, Problem::UnknownOption { suggestion, .. }) => suggestion.is_none(),
        (OtherLines::All, _) => false,
    }
}

/// Whether a name is an option of Bitcoin Core, or its negation, that the program does not have.
fn is_absent<P: Program>(name: &str) -> bool {
    let OtherLines::Known { absent, .. } = P::OTHER_LINES else { return false };
    let positive = name.strip_prefix("no");
    absent.contains(&name) || positive.is_some_and(|name| absent.contains(&name))
}

fn network(name: &str, origin: &Origin) -> Result<Network, OptionsError> {
    name.parse().map_err(|_| {
        let suggestion = lookup::suggest(name, Network::ALL.iter().map(|network| network.name()));
        Problem::UnknownSection { name: name.to_owned(), suggestion }.at(origin)
    })
}
