//! The command line of `godwit-bench`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use regex_lite::Regex;

use crate::arguments::split;

/// What `-help` prints behind the program's name.
pub const HELP: &str = "\
[run] [OPTION...]      runs the benchmarks and prints a table
       merge FILE.json... [-out=FILE]   lays the results of several machines side by side
       draw DIR        makes page, plots and quoted figures again from DIR/bench.json

-filter=REGEX    only the benchmarks whose whole name matches
-min-time=MS     time of each line, all its epochs together (1000); a flush takes as long as it takes
-output=FORMAT   table, json or csv (table)
-block=FILE      a serialised mainnet block; else block 413,567 of the shared data, else block 702,861
-workers=DIR     where plain/policy-worker, barrier-only/... and zero-after-free/... lie; without it
                 only the plain policy runs, in this process
-out=DIR         also writes bench.json, bench.md and plots there
-datadir=DIR     a directory on a real disk that does not exist yet (./godwit-bench-data)
-callgrind       also counts instructions by valgrind where the processor has no counters";

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A Markdown table.
    Table,
    Json,
    /// The table's columns.
    Csv,
}

/// See [`HELP`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Whole names of benchmarks.
    pub filter: Option<Regex>,
    /// Time of each line.
    pub min_time: Duration,
    /// Format of what goes to stdout.
    pub output: Output,
    /// The block's file.
    pub block: Option<PathBuf>,
    /// Directory of the three workers.
    pub workers: Option<PathBuf>,
    /// Directory of the report.
    pub out: Option<PathBuf>,
    /// Where stores are flushed to.
    pub datadir: PathBuf,
    /// Whether valgrind counts.
    pub callgrind: bool,
}

/// What the program is asked to do.
#[derive(Debug)]
pub enum Job {
    /// To print [`HELP`].
    Help,
    /// To run the benchmarks.
    Run(Box<Options>),
    /// To merge results.
    Merge {
        /// Results of one machine each.
        files: Vec<PathBuf>,
        /// Where the page goes; stdout when there is none.
        out: Option<PathBuf>,
    },
    /// To make the report in this directory again.
    Draw(PathBuf),
    /// To run one line so many times and say nothing: what valgrind watches.
    Count {
        /// Name of the benchmark.
        benchmark: String,
        /// Name of the line in it.
        line: String,
        iterations: u64,
        /// What it works on.
        options: Box<Options>,
    },
}

/// What is wrong with a command line.
#[derive(Debug, PartialEq, Eq)]
pub enum OptionError {
    /// No option has that name.
    Unknown(OsString),
    /// The option does not take that value.
    Value(OsString),
    /// `merge` without a file, `draw` without a directory, `count` without its three words.
    Incomplete,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(word) => write!(f, "unknown argument {}", word.display()),
            Self::Value(word) => write!(f, "wrong value in {}", word.display()),
            Self::Incomplete => f.write_str("too few words"),
        }
    }
}

impl std::error::Error for OptionError {}

impl Default for Options {
    fn default() -> Self {
        Self {
            filter: None,
            min_time: Duration::from_secs(1),
            output: Output::Table,
            block: None,
            workers: None,
            out: None,
            datadir: "godwit-bench-data".into(),
            callgrind: false,
        }
    }
}

impl Options {
    /// Whether the benchmark of that name is wanted. The whole name has to match, as for bench_bitcoin.
    pub fn wants(&self, benchmark: &str) -> bool {
        let whole =
            |filter: &Regex| filter.find(benchmark).is_some_and(|m| m.len() == benchmark.len());
        self.filter.as_ref().is_none_or(whole)
    }

    /// Takes one `-name=value` argument, with one or two dashes.
    fn take(&mut self, argument: &OsStr) -> Result<(), OptionError> {
        if argument == "-callgrind" || argument == "--callgrind" {
            self.callgrind = true;
            return Ok(());
        }
        let (name, value) = split(argument).ok_or_else(|| OptionError::Unknown(argument.into()))?;
        let wrong = || OptionError::Value(argument.to_owned());
        let text = || value.to_str().filter(|text| !text.is_empty()).ok_or_else(wrong);
        let path = || text().map(PathBuf::from);
        match name {
            "filter" => {
                // The alternatives of the pull request's expression have to be anchored as one.
                let anchored = format!("^(?:{})$", text()?);
                self.filter = Some(Regex::new(&anchored).map_err(|_| wrong())?);
            }
            "min-time" => {
                let milliseconds = text()?.parse().map_err(|_| wrong())?;
                self.min_time = Duration::from_millis(milliseconds);
            }
            "output" => {
                self.output = match text()? {
                    "table" => Output::Table,
                    "json" => Output::Json,
                    "csv" => Output::Csv,
                    _ => return Err(wrong()),
                }
            }
            "block" => self.block = Some(path()?),
            "workers" => self.workers = Some(path()?),
            "out" => self.out = Some(path()?),
            "datadir" => self.datadir = path()?,
            _ => return Err(OptionError::Unknown(argument.to_owned())),
        }
        Ok(())
    }

    /// Takes all of them.
    ///
    /// # Errors
    ///
    /// The first one that is wrong.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, OptionError> {
        let mut options = Self::default();
        for argument in arguments {
            options.take(&argument)?;
        }
        Ok(options)
    }
}

impl Job {
    /// Parses a command line without the program's name.
    ///
    /// # Errors
    ///
    /// See [`OptionError`].
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, OptionError> {
        let mut arguments = arguments.into_iter().peekable();
        let is_word = |word: &OsString| !word.as_encoded_bytes().starts_with(b"-");
        let command = arguments.next_if(is_word);
        match command.as_deref().and_then(OsStr::to_str) {
            None | Some("run") => {}
            Some("merge") => return merge(arguments),
            Some("draw") => {
                let dir = arguments.next().ok_or(OptionError::Incomplete)?;
                return match arguments.next() {
                    None => Ok(Self::Draw(dir.into())),
                    Some(more) => Err(OptionError::Unknown(more)),
                };
            }
            Some("count") => {
                let mut word = || arguments.next().ok_or(OptionError::Incomplete);
                let (benchmark, line, iterations) = (word()?, word()?, word()?);
                let number = iterations.to_str().and_then(|text| text.parse().ok());
                let iterations = number.ok_or(OptionError::Value(iterations))?;
                let text = |word: OsString| word.into_string().map_err(OptionError::Value);
                let (benchmark, line) = (text(benchmark)?, text(line)?);
                let options = Box::new(Options::parse(arguments)?);
                return Ok(Self::Count { benchmark, line, iterations, options });
            }
            Some(other) => return Err(OptionError::Unknown(other.into())),
        }
        if arguments.peek().is_some_and(|word| word == "-help" || word == "--help") {
            return Ok(Self::Help);
        }
        Ok(Self::Run(Box::new(Options::parse(arguments)?)))
    }
}

fn merge(arguments: impl Iterator<Item = OsString>) -> Result<Job, OptionError> {
    let (mut files, mut out) = (Vec::new(), None);
    for argument in arguments {
        match split(&argument) {
            Some(("out", path)) => out = Some(path.into()),
            _ if !argument.as_encoded_bytes().starts_with(b"-") => files.push(argument.into()),
            _ => return Err(OptionError::Unknown(argument)),
        }
    }
    match files.is_empty() {
        true => Err(OptionError::Incomplete),
        false => Ok(Job::Merge { files, out }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Job, OptionError> {
        Job::parse(words.iter().map(OsString::from))
    }

    fn options(words: &[&str]) -> Options {
        match parse(words) {
            Ok(Job::Run(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_pull_requests_command_line() {
        let seed = "-filter=(DataStream.*|CCoinsViewDB.*|ProcessMessage.*|Deserial.*)";
        let options = options(&[seed, "-min-time=60000"]);
        assert_eq!(options.min_time, Duration::from_secs(60));
        for name in ["DataStreamAlloc", "CCoinsViewDBFlush", "DeserializeBlockTest, no hashing"] {
            assert!(options.wants(name), "{name}");
        }
        assert!(!options.wants("memcpy") && !options.wants("a DataStreamAlloc"));
    }

    #[test]
    fn wrong_words_are_named() {
        let unknown = |word: &str| OptionError::Unknown(word.into());
        let value = |word: &str| OptionError::Value(word.into());
        for (words, error) in [
            (&["-fliter=a"][..], unknown("-fliter=a")),
            (&["-verbose"], unknown("-verbose")),
            (&["runn"], unknown("runn")),
            (&["-filter=("], value("-filter=(")),
            (&["-min-time=soon"], value("-min-time=soon")),
            (&["-output=xml"], value("-output=xml")),
            (&["-out="], value("-out=")),
            (&["merge"], OptionError::Incomplete),
            (&["merge", "-x=1"], unknown("-x=1")),
            (&["count", "a", "b", "many"], value("many")),
        ] {
            assert_eq!(parse(words).unwrap_err(), error, "{words:?}");
        }
    }

    #[test]
    fn the_other_jobs() {
        assert!(matches!(parse(&["-help"]), Ok(Job::Help)));
        let merge = parse(&["merge", "a.json", "b.json", "-out=c.md"]);
        assert!(
            matches!(&merge, Ok(Job::Merge { files, out: Some(_) }) if files.len() == 2),
            "{merge:?}"
        );
        let count = parse(&["count", "DataStreamAlloc", "plain", "7", "-callgrind"]);
        assert!(matches!(count, Ok(Job::Count { iterations: 7, .. })), "{count:?}");
        assert!(options(&["run", "-output=csv", "--callgrind"]).callgrind);
    }
}
