//! The command line of the measurement of memory policies in Bitcoin Core.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use crate::arguments::split;
use crate::ibd::scenario::Scenario;
use crate::rotation::balanced_rounds;

use super::policy::{LINK_ORDERS, Policy};
use super::schedule::MOST_ROUNDS;

/// What a wrong command line gets to read.
pub const USAGE: &str = "\
-sync=CORE -programs=DIR -journals=DIR -chain=FILE -godwit=BIN [-rounds=N] [-minutes=N] [-cases=A,B,...]
   [-policies=A,B,...]
or -streams=CORE -programs=DIR -journals=DIR -datadir=DIR [-rounds=N] [-minutes=N] [-block=FILE] [-policies=A,B,...]
or -draw=DIR -journals=DIR

CORE names a Bitcoin Core in the report, as 28.99; DIR of -programs is what tools/build-core-policies prints for it.
-sync and -streams add runs to a journal of that name until what is asked for is there or the minutes are over, and go on
where an earlier one was interrupted; -draw writes the report of all journals. FILE of -chain is a generated chain
with its summary beside it; FILE of -block a raw block of the main chain, by default number 413,567 of the shared data. Cases, all by
default: files, files-small-cache, peer, peer-small-cache-pruned. Policies, all by default: as-is, which has to be among them, barrier,
plain, custom, again.";

/// Rounds of the pull request's benchmarks, at least: so many that each program comes behind each other one
/// equally often.
const STREAM_ROUNDS: usize = 12;

/// One of the three jobs.
#[derive(Debug, PartialEq)]
pub enum Arguments {
    /// Whole syncs.
    Sync(Sync),
    /// The pull request's benchmarks.
    Streams(Streams),
    /// The report.
    Draw { journals: PathBuf, out: PathBuf },
}

/// What both measurements need.
#[derive(Debug, PartialEq)]
pub struct Subjects {
    /// Name of this Bitcoin Core in reports.
    pub core: String,
    /// Directory of its programs.
    pub programs: PathBuf,
    /// What is compared, in the order of [`Policy::ALL`].
    pub policies: Vec<Policy>,
    /// Directory of journals.
    pub journals: PathBuf,
    /// Rounds at most.
    pub rounds: usize,
    /// No round begins that would end after so long.
    pub limit: Option<Duration>,
}

/// Which syncs to measure.
#[derive(Debug, PartialEq)]
pub struct Sync {
    pub subjects: Subjects,
    /// Block file in Bitcoin Core's framing.
    pub chain: PathBuf,
    /// The `godwit` program, which serves the blocks.
    pub godwit: PathBuf,
    /// Cases in the order in which they run.
    pub cases: Vec<Scenario>,
}

/// What to measure of the benchmarks.
#[derive(Debug, PartialEq)]
pub struct Streams {
    pub subjects: Subjects,
    /// A directory that may be made.
    pub datadir: PathBuf,
    /// A raw block.
    pub block: Option<PathBuf>,
}

#[derive(Default)]
struct Given {
    sync: Option<String>,
    streams: Option<String>,
    draw: Option<PathBuf>,
    programs: Option<PathBuf>,
    journals: Option<PathBuf>,
    chain: Option<PathBuf>,
    godwit: Option<PathBuf>,
    datadir: Option<PathBuf>,
    block: Option<PathBuf>,
    rounds: Option<usize>,
    minutes: Option<u64>,
    cases: Option<Vec<Scenario>>,
    policies: Option<Vec<Policy>>,
}

impl Arguments {
    /// Parses `-name=value` arguments; one or two dashes. `None` for anything that [`USAGE`] does not say.
    pub fn parse(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut given = Given::default();
        for argument in arguments {
            let (name, value) = split(&argument)?;
            given.take(name, value)?;
        }
        given.complete()
    }
}

impl Given {
    fn take(&mut self, name: &str, value: &OsStr) -> Option<()> {
        let path = || (!value.is_empty()).then(|| Some(PathBuf::from(value)));
        // A name of a journal, not a way out of its directory.
        let core = || value.to_str().filter(|name| !name.is_empty() && !name.contains('/'));
        let number = || value.to_str()?.parse().ok().filter(|number: &usize| *number > 0);
        match name {
            "sync" => self.sync = Some(core()?.to_owned()),
            "streams" => self.streams = Some(core()?.to_owned()),
            "draw" => self.draw = path()?,
            "programs" => self.programs = path()?,
            "journals" => self.journals = path()?,
            "chain" => self.chain = path()?,
            "godwit" => self.godwit = path()?,
            "datadir" => self.datadir = path()?,
            "block" => self.block = path()?,
            "rounds" => self.rounds = Some(number()?),
            "minutes" => self.minutes = Some(number()? as u64),
            "cases" => {
                let names = value.to_str()?.split(',');
                self.cases = Some(names.map(Scenario::named).collect::<Option<_>>()?);
            }
            "policies" => {
                let names = value.to_str()?.split(',');
                let mut policies: Vec<_> = names.map(Policy::named).collect::<Option<_>>()?;
                policies.sort();
                policies.dedup();
                // What all others are held against.
                self.policies =
                    Some(policies).filter(|all| all[0] == Policy::AsIs && all.len() > 1);
                self.policies.as_ref()?;
            }
            _ => return None,
        }
        Some(())
    }

    fn complete(self) -> Option<Arguments> {
        let Self { sync, streams, draw, journals, .. } = self;
        let journals = journals?;
        if [sync.is_some(), streams.is_some(), draw.is_some()]
            .into_iter()
            .filter(|job| *job)
            .count()
            != 1
        {
            return None;
        }
        if let Some(out) = draw {
            return Some(Arguments::Draw { journals, out });
        }
        let policies = self.policies.unwrap_or_else(|| Policy::ALL.to_vec());
        let default = match sync {
            Some(_) => MOST_ROUNDS,
            None => balanced_rounds(policies.len() * LINK_ORDERS, STREAM_ROUNDS),
        };
        let subjects = Subjects {
            programs: self.programs?,
            policies,
            journals,
            rounds: self.rounds.unwrap_or(default),
            limit: self.minutes.map(|minutes| Duration::from_secs(60 * minutes)),
            core: sync.clone().or(streams)?,
        };
        Some(match sync {
            Some(_) => Arguments::Sync(Sync {
                subjects,
                chain: self.chain?,
                godwit: self.godwit?,
                cases: self.cases.unwrap_or_else(|| Scenario::ALL.to_vec()),
            }),
            None => {
                Arguments::Streams(Streams { subjects, datadir: self.datadir?, block: self.block })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: [&str; 5] =
        ["-sync=28.99", "-programs=p", "--journals=j", "-chain=c.dat", "-godwit=g"];
    const STREAMS: [&str; 4] = ["-streams=28.99", "-programs=p", "-journals=j", "-datadir=d"];

    fn parse(words: &[&str]) -> Option<Arguments> {
        Arguments::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn what_is_needed_and_what_has_a_default() {
        let Some(Arguments::Sync(sync)) = parse(&SYNC) else { panic!("not understood") };
        assert_eq!((sync.subjects.rounds, sync.subjects.limit), (MOST_ROUNDS, None));
        assert_eq!(
            (sync.cases, sync.subjects.policies),
            (Scenario::ALL.into(), Policy::ALL.into())
        );
        let Some(Arguments::Streams(streams)) = parse(&STREAMS) else { panic!("not understood") };
        // Fifteen programs have a square of thirty orders, twelve one of twelve.
        assert_eq!((streams.subjects.rounds, streams.block), (30, None));
        let Some(Arguments::Streams(streams)) =
            parse(&[&STREAMS[..], &["-policies=as-is,barrier,plain,again"]].concat())
        else {
            panic!("not understood")
        };
        assert_eq!(streams.subjects.rounds, STREAM_ROUNDS);
        for words in [&SYNC[..], &STREAMS] {
            for missing in 0..words.len() {
                let rest = words.iter().enumerate().filter(|(n, _)| *n != missing);
                assert_eq!(parse(&rest.map(|(_, word)| *word).collect::<Vec<_>>()), None);
            }
        }
        let draw = Arguments::Draw { journals: "j".into(), out: "o".into() };
        assert_eq!(parse(&["-draw=o", "-journals=j"]), Some(draw));
    }

    #[test]
    fn limits_and_cases() {
        let with = |more: &[&str]| parse(&[&SYNC[..], more].concat());
        let Some(Arguments::Sync(sync)) = with(&["-rounds=2", "-minutes=3", "-cases=peer"]) else {
            panic!("not understood")
        };
        assert_eq!(sync.subjects.limit, Some(Duration::from_secs(180)));
        assert_eq!((sync.subjects.rounds, sync.cases.len()), (2, 1));
        let Some(Arguments::Sync(sync)) = with(&["-policies=plain,as-is,plain"]) else {
            panic!("not understood")
        };
        assert_eq!(sync.subjects.policies, [Policy::AsIs, Policy::Plain]);
        for wrong in [
            "-policies=plain,again",
            "-policies=as-is",
            "-policies=as-is,x",
            "-rounds=0",
            "-minutes=",
            "-cases=x",
            "-streams=28.99",
            "-sync=../x",
            "x",
            "-x=1",
        ] {
            assert_eq!(with(&[wrong]), None, "{wrong}");
        }
    }
}
