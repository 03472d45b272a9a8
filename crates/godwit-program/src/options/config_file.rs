//! `godwit.conf`: bitcoin.conf's syntax (Core `common/config.cpp`).
//!
//! Lines are `name=value`; a `#` starts a comment; `[network]` starts a section whose options count
//! on that network only, and `network.name=value` says the same for one line. Sections that name no network
//! are passed over, and the user hears of it. A repeated name is an error, where Core takes the first one. A
//! byte-order mark, which editors of Windows write, is no part of the first line, and a comment may be in
//! any encoding.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_primitives::Network;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstatfs};

use super::command_line::{Given, find_option};
use super::error::{OptionsError, Origin, Problem};
use super::lookup;
use super::spec::{Draft, FilePlace, OtherLines, Program};
use crate::escape::Repeated;

/// What some editors put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Larger files are refused: a device may have no end.
const MAX_BYTES: u64 = 16 << 20;
/// Type of the file system of pipes without a name (`PIPEFS_MAGIC` of Linux, `linux/magic.h`).
const PIPES_WITHOUT_NAME: i64 = 0x5049_5045;

/// Reads the file. A pipe that a program writes into, as `<(…)` is one, is read to its end; a named one
/// without a writer, which may never come, and a terminal are not waited for.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let at_once = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let mut file = File::options().read(true).custom_flags(at_once).open(path)?;
    let mut bytes = Vec::new();
    if file.metadata()?.file_type().is_fifo() {
        let mut first = [0; 1];
        match file.read(&mut first) {
            // The program has written nothing, and is gone.
            Ok(0) if fstatfs(&file)?.f_type == PIPES_WITHOUT_NAME => return Ok(bytes),
            Ok(0) => return Err(io::Error::other("it is a pipe that nothing writes into")),
            Ok(count) => bytes.extend_from_slice(&first[..count]),
            // There is a writer.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    }
    match file.take(MAX_BYTES).read_to_end(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::Error::other("it is a device that would have to be waited for"))
        }
        Ok(_) if bytes.len() as u64 >= MAX_BYTES => Err(io::ErrorKind::FileTooLarge.into()),
        read => read.map(|_| bytes),
    }
}

/// The parsed file: options that exist, with values in range, for all networks.
pub(super) struct ConfigFile<P: Program> {
    pub(super) path: PathBuf,
    entries: Vec<Entry<P>>,
    /// A sentence for each line with an option of Bitcoin Core that the program does not have, and for each
    /// section that names no network.
    pub(super) passed_over: Vec<String>,
}

/// What a line is.
enum Line<P: Program> {
    Entry(Entry<P>),
    /// An option of another program.
    Other,
    /// An option of Bitcoin Core that the program does not have.
    Absent,
    /// In a section that names no network, whose heading the user hears of.
    Nowhere,
    /// With this name of no network before its own.
    OfNoNetwork(String),
}

/// What lines count for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    /// Before the first heading: for all networks.
    Top,
    Of(Network),
    /// The heading names no network.
    Unknown,
}

impl Section {
    fn named(name: &str) -> Self {
        name.parse().map_or(Self::Unknown, Self::Of)
    }
}

struct Entry<P: Program> {
    section: Section,
    given: Given<P>,
}

impl<P: Program> ConfigFile<P> {
    pub(super) fn parse(path: PathBuf, text: &[u8]) -> Result<Self, OptionsError> {
        let shared = Arc::new(path.clone());
        let mut file = ConfigFile { path, entries: Vec::new(), passed_over: Vec::new() };
        let mut section = Section::Top;
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let origin = Origin::File { path: Arc::clone(&shared), line: index + 1 };
            let line = without_comment(line).map_err(|problem| problem.at(&origin))?;
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = Section::named(name);
                if section == Section::Unknown {
                    file.pass_over_section(name, index + 1);
                }
            } else if !line.is_empty() {
                match Entry::parse(line, section, &origin)? {
                    Line::Entry(entry) => file.add(entry)?,
                    Line::Other | Line::Nowhere => {}
                    Line::Absent => file.pass_over(line, index + 1),
                    Line::OfNoNetwork(name) => file.pass_over_section(&name, index + 1),
                }
            }
        }
        Ok(file)
    }

    /// The options that stand before all sections.
    pub(super) fn top(&self) -> impl Iterator<Item = &Given<P>> {
        self.of(Section::Top)
    }

    /// The options of the network's own section.
    pub(super) fn section(&self, network: Network) -> impl Iterator<Item = &Given<P>> {
        self.of(Section::Of(network))
    }

    fn of(&self, section: Section) -> impl Iterator<Item = &Given<P>> {
        self.entries.iter().filter(move |entry| entry.section == section).map(|entry| &entry.given)
    }

    fn pass_over(&mut self, line: &str, number: usize) {
        let name = line.split('=').next().unwrap_or(line).trim_end();
        let (path, program, name) = (self.path.display(), P::NAME, Repeated(name));
        self.passed_over.push(format!("{path}:{number}: {program} has no {name}: passed over"));
    }

    /// As in Core, which says it of `[Regtest]` and of `[testnet3]`.
    fn pass_over_section(&mut self, name: &str, number: usize) {
        let path = self.path.display();
        // As it is called by those who use it, and was by Core's directory.
        let is_testnet3 = ["testnet", "testnet3"].contains(&name);
        let names = Network::ALL.iter().map(|network| network.name());
        let meant = match is_testnet3 {
            true => Some("test".to_owned()),
            false => lookup::suggest(name, names),
        };
        let meant = meant.map(|network| format!(" (did you mean {network}?)")).unwrap_or_default();
        let name = Repeated(name);
        self.passed_over
            .push(format!("{path}:{number}: [{name}] is no network{meant}: passed over"));
    }

    fn add(&mut self, entry: Entry<P>) -> Result<(), OptionsError> {
        let spec = entry.given.spec;
        let is_same = |earlier: &&Entry<P>| {
            earlier.section == entry.section && earlier.given.spec.name == spec.name
        };
        let earlier = self.entries.iter().find(is_same);
        if let Some(Entry { given: Given { origin: Origin::File { line, .. }, .. }, .. }) = earlier
            && !spec.repeats
        {
            let repeated = Problem::Repeated { option: spec.name, first_line: *line };
            return Err(repeated.at(&entry.given.origin));
        }
        if entry.given.value.is_none() {
            self.entries.retain(|earlier| !is_same(&earlier));
        }
        self.entries.push(entry);
        Ok(())
    }
}

impl<P: Program> Entry<P> {
    /// Applies the value to a draft that is thrown away, so that a mistake in another network's
    /// section is reported as well.
    fn parse(line: &str, section: Section, origin: &Origin) -> Result<Line<P>, OptionsError> {
        if line.starts_with('-') {
            return Err(Problem::LeadingDash.at(origin));
        }
        let (name, value) = line.split_once('=').ok_or_else(|| Problem::NoEqualsSign.at(origin))?;
        let (section, name) = match (section, name.trim_end().split_once('.')) {
            (Section::Unknown, _) => return Self::nowhere(name.trim_end(), Line::Nowhere, origin),
            (Section::Top, Some((prefix, name))) => match Section::named(prefix) {
                Section::Unknown => {
                    return Self::nowhere(name, Line::OfNoNetwork(prefix.to_owned()), origin);
                }
                section => (section, name),
            },
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
            FilePlace::Top if section != Section::Top => {
                return Err(Problem::NotInSection { option: spec.name }.at(origin));
            }
            FilePlace::Top | FilePlace::PerNetwork | FilePlace::Anywhere => {}
        }
        let value = OsString::from(value.trim_start());
        let given = Given::new(spec, negated, Some(value), origin.clone())?;
        given.apply(&mut Draft::default())?;
        Ok(Line::Entry(Entry { section, given }))
    }

    /// A line for no network is passed over, as in Core; but not one of a program that shares the node's
    /// file: who mistypes the section of `keys` would have keys made at another place.
    fn nowhere(name: &str, line: Line<P>, origin: &Origin) -> Result<Line<P>, OptionsError> {
        match (P::OTHER_LINES, find_option::<P>(name, origin)) {
            (OtherLines::All, Ok((spec, _))) if spec.file != FilePlace::OtherProgram => {
                Err(Problem::OfNoNetwork { option: spec.name }.at(origin))
            }
            _ => Ok(line),
        }
    }
}

/// What stands before the comment.
fn without_comment(line: &[u8]) -> Result<&str, Problem> {
    let comment = line.iter().position(|byte| *byte == b'#');
    let line = &line[..comment.unwrap_or(line.len())];
    let line = str::from_utf8(line).map_err(|_| Problem::NotUtf8)?.trim();
    let is_password = || line.split('=').next().is_some_and(|name| name.contains("rpcpassword"));
    // Whoever wrote it may have meant the `#` as a part of it.
    if comment.is_some() && is_password() {
        return Err(Problem::HashInPassword);
    }
    Ok(line)
}

/// Whether an unknown name, or its negation, belongs to another program.
fn is_for_another<P: Program>(name: &str, error: &OptionsError) -> bool {
    match (P::OTHER_LINES, &error.problem) {
        (OtherLines::Known { others, .. }, _) => is_among(others, name),
        (OtherLines::All, Problem::UnknownOption { suggestion, .. }) => suggestion.is_none(),
        (OtherLines::All, _) => false,
    }
}

/// Whether a name is an option of Bitcoin Core, or its negation, that the program does not have.
fn is_absent<P: Program>(name: &str) -> bool {
    let OtherLines::Known { absent, .. } = P::OTHER_LINES else { return false };
    is_among(absent, name)
}

fn is_among(names: &[&str], name: &str) -> bool {
    let positive = name.strip_prefix("no");
    names.contains(&name) || positive.is_some_and(|name| names.contains(&name))
}
