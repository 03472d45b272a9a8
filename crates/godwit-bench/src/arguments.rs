//! The command lines of the programs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::str::FromStr;

use crate::case::Case;

/// What a wrong command line gets to read, behind the program's name and before the names of its
/// cases.
pub const USAGE: &str = "\
-chain=FILE -godwit=BIN -bitcoind=BIN -rival=BIN -out=DIR [-rounds=N] [-cases=A,B,...]
[-godwit-options=-A=B,-C=D,...] [-bitcoind-options=-A=B,-C=D,...]

FILE is a generated chain with its summary beside it (FILE with the ending .json), as
`godwit-sim generate --plan benchmark --out FILE` writes and prints them; a bitcoin-cli lies beside
bitcoind and rival, the bitcoinds of tools/build-bitcoind and tools/build-rival, of which the first runs
in cases with probes. Options of a program count where it is measured. Data directories are made and removed
beside FILE. Rounds: 10. Cases, all by default:";

/// An even number, so that each program goes first equally often; fewer than six give no interval.
const DEFAULT_ROUNDS: usize = 10;

/// See [`USAGE`].
#[derive(Debug, PartialEq)]
pub struct Arguments {
    /// Block file in Bitcoin Core's framing.
    pub chain: PathBuf,
    /// The `godwit` program.
    pub godwit: PathBuf,
    /// The `bitcoind` program as it is.
    pub bitcoind: PathBuf,
    /// The one that does not look every output up.
    pub rival: PathBuf,
    /// What `godwit` gets where it is measured.
    pub godwit_options: Vec<String>,
    /// What either `bitcoind` gets where it is measured.
    pub bitcoind_options: Vec<String>,
    /// Directory of the report.
    pub out: PathBuf,
    /// Measured imports by each program in each case.
    pub rounds: usize,
    /// Cases in the order in which they run.
    pub cases: Vec<Case>,
}

impl Arguments {
    /// Parses `-name=value` arguments; one or two dashes. `all` are the program's cases. `None` for
    /// anything that [`USAGE`] does not say.
    pub fn parse(all: &[Case], arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut words = Words::of(arguments)?;
        let by_name = |name: &str| all.iter().find(|case| case.name == name).copied();
        let cases =
            words.read("cases", all.to_vec(), |names| names.split(',').map(by_name).collect())?;
        let arguments = Self {
            chain: words.path("chain")?,
            godwit: words.path("godwit")?,
            bitcoind: words.path("bitcoind")?,
            rival: words.path("rival")?,
            godwit_options: words.options("godwit-options")?,
            bitcoind_options: words.options("bitcoind-options")?,
            out: words.path("out")?,
            rounds: words.number("rounds", DEFAULT_ROUNDS)?,
            cases,
        };
        words.are_used().then_some(arguments)
    }
}

/// `-name=value` arguments by name; one or two dashes, and the last one of a name counts. What takes one out
/// answers `None` where it is not what it should be.
pub(crate) struct Words(BTreeMap<String, OsString>);

impl Words {
    pub(crate) fn of(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let pair = |argument: OsString| {
            split(&argument).map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        arguments.map(pair).collect::<Option<_>>().map(Self)
    }

    /// One that has to be there.
    pub(crate) fn path(&mut self, name: &str) -> Option<PathBuf> {
        self.0.remove(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// One above zero.
    pub(crate) fn number<N: FromStr + PartialOrd + Default>(
        &mut self,
        name: &str,
        default: N,
    ) -> Option<N> {
        self.read(name, default, |text| text.parse().ok().filter(|number| *number > N::default()))
    }

    /// Options of a program, as in `-bitcoind-options=-A=B,-C=D`; none unless they are given.
    pub(crate) fn options(&mut self, name: &str) -> Option<Vec<String>> {
        self.read(name, vec![], |text| {
            let is_option = |word: &&str| split(OsStr::new(word)).is_some();
            text.split(',').map(|word| Some(word).filter(is_option).map(str::to_owned)).collect()
        })
    }

    /// What `of_text` makes of one that is text, or the default where it is not given.
    pub(crate) fn read<T>(
        &mut self,
        name: &str,
        default: T,
        of_text: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        self.0.remove(name).map_or(Some(default), |value| of_text(value.to_str()?))
    }

    /// Whether none is left.
    pub(crate) fn are_used(self) -> bool {
        self.0.is_empty()
    }
}

/// The name and the value of `-name=value` or `--name=value`.
pub(crate) fn split(argument: &OsStr) -> Option<(&str, &OsStr)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = argument.as_bytes();
    let equals = bytes.iter().position(|byte| *byte == b'=')?;
    let name = std::str::from_utf8(&bytes[..equals]).ok()?;
    let name = name.strip_prefix("--").or_else(|| name.strip_prefix('-'))?;
    Some((name, OsStr::from_bytes(&bytes[equals + 1..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 5] = ["-chain=a.dat", "--godwit=/b", "-bitcoind=c", "-rival=r", "-out=d"];

    fn parse(more: &[&str]) -> Option<Arguments> {
        Arguments::parse(&Case::IMPORT, PATHS.iter().chain(more).map(OsString::from))
    }

    #[test]
    fn what_is_needed_and_what_has_a_default() {
        let arguments = parse(&[]).unwrap();
        assert_eq!(arguments.godwit, PathBuf::from("/b"));
        assert_eq!((arguments.rounds, arguments.cases.len()), (10, 6));
        assert!(arguments.godwit_options.is_empty() && arguments.bitcoind_options.is_empty());
        for missing in 0..PATHS.len() {
            let rest = PATHS.iter().enumerate().filter(|(n, _)| *n != missing);
            assert_eq!(
                Arguments::parse(&Case::IMPORT, rest.map(|(_, text)| OsString::from(text))),
                None
            );
        }
    }

    #[test]
    fn rounds_and_cases() {
        let arguments = parse(&["-rounds=2", "-cases=assumevalid,scripts"]).unwrap();
        assert_eq!(arguments.rounds, 2);
        assert_eq!(arguments.cases, [Case::IMPORT[2], Case::IMPORT[0]]);
        let arguments = parse(&["-bitcoind-options=-par=3,-prevoutfetchthreads=0"]).unwrap();
        assert_eq!(arguments.bitcoind_options, ["-par=3", "-prevoutfetchthreads=0"]);
        assert!(arguments.godwit_options.is_empty());
        assert_eq!(
            parse(&["-godwit-options=-lanes=avx2"]).unwrap().godwit_options,
            ["-lanes=avx2"]
        );
        assert_eq!(parse(&["-bitcoind-options=par"]), None);
        for wrong in
            ["-rounds=0", "-rounds=x", "-cases=scripts,", "-cases=", "-chain=", "rounds=1", "-x=1"]
        {
            assert_eq!(parse(&[wrong]), None, "{wrong}");
        }
    }
}
