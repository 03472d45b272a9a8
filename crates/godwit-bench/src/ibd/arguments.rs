//! The command line.
//!
//! DIR of `-programs` holds `plain/godwit`, `barrier-only/godwit`, `zero-after-free/godwit` and
//! `count-wipes/godwit`; FILE is a generated chain with its summary beside it. `-draw` draws again from
//! the JSON in DIR. BIN of `-core-wipes` runs bitcoind under a probe of every N-th call of
//! `memory_cleanse`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use crate::arguments::split;
use crate::ibd::scenario::Scenario;

/// The options of the three jobs, in one line.
const USAGE: &str = "-chain=FILE -programs=DIR -bitcoind=BIN -out=DIR [-rounds=N] [-bitcoind-rounds=N] \
                     [-cases=A,B,...] [-bitcoind-options=-A=B,...], or -draw=DIR, or -core-wipes=BIN -every=N -chain=FILE \
                     -programs=DIR -out=DIR [-cases=A,B,...]";

/// Twice all orders of the policies and twice those of everybody, since fewer than six rounds with bitcoind
/// would give no interval of its ratio: three quarters of an hour on two cores of 2.6 GHz.
pub(super) const DEFAULT_ROUNDS: usize = 20;
pub(super) const DEFAULT_BITCOIND_ROUNDS: usize = 8;

/// One of the three jobs.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// Run and draw.
    Measure(Measure),
    /// Draw again.
    Draw(PathBuf),
    /// Count what bitcoind wipes.
    CoreWipes(CoreWipes),
}

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Block file in Bitcoin Core's framing.
    pub chain: PathBuf,
    /// Directory with a directory for each build of `godwit`.
    pub programs: PathBuf,
    /// The `bitcoind` program; `bitcoin-cli` lies beside it.
    pub bitcoind: PathBuf,
    /// Directory of the report.
    pub out: PathBuf,
    /// Runs by each policy in each case.
    pub rounds: usize,
    /// In how many of them bitcoind takes part.
    pub bitcoind_rounds: usize,
    /// What bitcoind gets besides.
    pub bitcoind_options: Vec<String>,
    /// Cases in the order in which they run.
    pub cases: Vec<Scenario>,
}

/// What to count in bitcoind.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreWipes {
    /// Runs bitcoind with the arguments that it gets, and writes what it wiped to the file that
    /// `GODWIT_WIPES` names.
    pub probe: PathBuf,
    /// One of so many calls is looked at.
    pub every: u64,
    /// Block file in Bitcoin Core's framing.
    pub chain: PathBuf,
    /// Directory with a directory for each build of `godwit`, of which the plain one serves.
    pub programs: PathBuf,
    /// Directory of the report.
    pub out: PathBuf,
    /// Cases in the order in which they run.
    pub cases: Vec<Scenario>,
}

/// What is wrong with a command line.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgumentError {
    /// Not of the form `-name=value`.
    Form(OsString),
    /// No such option.
    Unknown(OsString),
    /// A value that the option does not take, and what it takes.
    Value(OsString, &'static str),
    /// An option that has to be there.
    Missing(&'static str),
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(text) => write!(f, "{}: expected -name=value", text.display()),
            Self::Unknown(text) => write!(f, "{}: no such option", text.display()),
            Self::Value(text, expected) => write!(f, "{}: expected {expected}", text.display()),
            Self::Missing(name) => write!(f, "-{name}=... is missing"),
        }
    }
}

/// The line for a command line that is wrong.
pub fn refusal(error: &ArgumentError) -> String {
    format!("ibd-policies: {error}; usage: ibd-policies {USAGE}")
}

/// Everything that may be given.
#[derive(Default)]
struct Given {
    chain: Option<PathBuf>,
    programs: Option<PathBuf>,
    bitcoind: Option<PathBuf>,
    out: Option<PathBuf>,
    draw: Option<PathBuf>,
    core_wipes: Option<PathBuf>,
    rounds: Option<u64>,
    bitcoind_rounds: Option<u64>,
    every: Option<u64>,
    cases: Option<Vec<Scenario>>,
    bitcoind_options: Vec<String>,
}

impl Arguments {
    /// Parses `-name=value` arguments; one or two dashes.
    pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, ArgumentError> {
        let mut given = Given::default();
        for argument in arguments {
            let (name, value) =
                split(&argument).ok_or_else(|| ArgumentError::Form(argument.clone()))?;
            given.take(name, value).map_err(|refused| match refused {
                Some(expected) => ArgumentError::Value(argument.clone(), expected),
                None => ArgumentError::Unknown(argument.clone()),
            })?;
        }
        given.complete()
    }
}

const PATH: &str = "a path";
const NUMBER: &str = "a whole number above 0";
const OPTIONS: &str = "options of bitcoind with commas between: -par=1,-prevoutfetchthreads=0";
const CASES: &str = "names with commas between: files, files-small-cache, peer, \
                     peer-small-cache-pruned";

impl Given {
    /// Takes one option in. What it expects instead, or `None` for an unknown name.
    fn take(&mut self, name: &str, value: &OsStr) -> Result<(), Option<&'static str>> {
        let path = || (!value.is_empty()).then(|| PathBuf::from(value)).ok_or(Some(PATH));
        let text = value.to_str().unwrap_or_default();
        let number = || text.parse().ok().filter(|n: &u64| *n > 0).ok_or(Some(NUMBER));
        match name {
            "chain" => self.chain = Some(path()?),
            "programs" => self.programs = Some(path()?),
            "bitcoind" => self.bitcoind = Some(path()?),
            "out" => self.out = Some(path()?),
            "draw" => self.draw = Some(path()?),
            "core-wipes" => self.core_wipes = Some(path()?),
            "rounds" => self.rounds = Some(number()?),
            "bitcoind-rounds" => self.bitcoind_rounds = Some(number()?),
            "every" => self.every = Some(number()?),
            "cases" => {
                let cases = text.split(',').map(Scenario::named).collect::<Option<_>>();
                self.cases = Some(cases.ok_or(Some(CASES))?);
            }
            "bitcoind-options" => {
                self.bitcoind_options = text.split(',').map(str::to_owned).collect();
                if !self.bitcoind_options.iter().all(|word| split(OsStr::new(word)).is_some()) {
                    return Err(Some(OPTIONS));
                }
            }
            _ => return Err(None),
        }
        Ok(())
    }

    fn complete(self) -> Result<Arguments, ArgumentError> {
        use ArgumentError::Missing;
        if let Some(dir) = self.draw {
            return Ok(Arguments::Draw(dir));
        }
        let chain = self.chain.ok_or(Missing("chain"))?;
        let programs = self.programs.ok_or(Missing("programs"))?;
        let out = self.out.ok_or(Missing("out"))?;
        let cases = self.cases.unwrap_or_else(|| Scenario::ALL.to_vec());
        if let Some(probe) = self.core_wipes {
            let every = self.every.ok_or(Missing("every"))?;
            let count = CoreWipes { probe, every, chain, programs, out, cases };
            return Ok(Arguments::CoreWipes(count));
        }
        let count = |number: Option<u64>, default| {
            number.map_or(default, |number| usize::try_from(number).unwrap_or(usize::MAX))
        };
        let rounds = count(self.rounds, DEFAULT_ROUNDS);
        Ok(Arguments::Measure(Measure {
            chain,
            programs,
            bitcoind: self.bitcoind.ok_or(Missing("bitcoind"))?,
            out,
            rounds,
            bitcoind_options: self.bitcoind_options,
            bitcoind_rounds: count(self.bitcoind_rounds, DEFAULT_BITCOIND_ROUNDS).min(rounds),
            cases,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 4] = ["-chain=a.dat", "--programs=/b", "-bitcoind=c", "-out=d"];

    fn parse(arguments: &[&str]) -> Result<Arguments, ArgumentError> {
        Arguments::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn what_has_a_default() {
        let Ok(Arguments::Measure(measure)) = parse(&PATHS) else { panic!("not understood") };
        assert_eq!((measure.rounds, measure.bitcoind_rounds), (20, 8));
        assert_eq!(measure.cases, Scenario::ALL);
        let more = [&PATHS[..], &["-rounds=2", "-cases=peer,files"]].concat();
        let Ok(Arguments::Measure(measure)) = parse(&more) else { panic!("not understood") };
        assert_eq!((measure.rounds, measure.bitcoind_rounds), (2, 2));
        assert_eq!(measure.cases, [Scenario::ALL[2], Scenario::ALL[0]]);
        assert_eq!(parse(&["-draw=x"]), Ok(Arguments::Draw("x".into())));
    }

    #[test]
    fn errors_are_one_line_that_names_the_argument() {
        let lines = [
            ("-rounds=0", "-rounds=0: expected a whole number above 0"),
            ("-rounds=x", "-rounds=x: expected a whole number above 0"),
            ("-out=", "-out=: expected a path"),
            ("rounds", "rounds: expected -name=value"),
            ("-round=1", "-round=1: no such option"),
            (
                "-bitcoind-options=par",
                "-bitcoind-options=par: expected options of bitcoind with commas between: \
                 -par=1,-prevoutfetchthreads=0",
            ),
            (
                "-cases=peer,x",
                "-cases=peer,x: expected names with commas between: files, files-small-cache, peer, \
                 peer-small-cache-pruned",
            ),
        ];
        for (wrong, line) in lines {
            assert_eq!(parse(&[wrong]).unwrap_err().to_string(), line);
        }
        assert_eq!(parse(&PATHS[..3]).unwrap_err().to_string(), "-out=... is missing");
        let line = refusal(&parse(&[]).unwrap_err());
        assert!(
            line.starts_with("ibd-policies: -chain=... is missing; usage: ibd-policies -chain=")
        );
        assert_eq!((line.lines().count(), line.contains("  ")), (1, false), "{line}");
        let counted = ["-core-wipes=x", "-chain=a", "-out=d", "-programs=p"];
        assert_eq!(parse(&counted).unwrap_err().to_string(), "-every=... is missing");
    }
}
