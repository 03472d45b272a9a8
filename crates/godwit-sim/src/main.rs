//! `godwit-sim`: writes a generated regtest chain to a block file, and its summary to standard
//! output.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use godwit_sim::chain::{GenerateError, write_dat};
use godwit_sim::cold::write_cold;
use godwit_sim::empty::write_empty;
use godwit_sim::miner::Tip;
use godwit_sim::plan::ChainPlan;
use godwit_sim::restamp::restamp;
use godwit_sim::summary::Summary;
use serde::Serialize;

const USAGE: &str = "\
usage: godwit-sim generate --plan small|demo|kills|benchmark|aged|third|long [--seed N]
         [--end-time now|N] --out FILE
       godwit-sim restamp --chain FILE --end-time now|N --out FILE
       godwit-sim extend --chain FILE --empty N --out FILE
       godwit-sim cold --coins N --blocks N [--seed N] --out DIR

The end time is the last block's timestamp in seconds since 1970; without it, timestamps depend on
the plan alone. restamp moves a generated chain in time, extend writes N blocks without transactions
that follow it; its summary lies beside it (FILE with the ending .json). cold makes N coins in DIR/coins.dat, and
N blocks in DIR/spends.dat that follow and spend some of them at random.";
/// Blocks between two lines of progress.
const PROGRESS_STEP: u32 = 50;

/// What the command line asks for.
enum Job {
    Generate(ChainPlan),
    Restamp { chain: PathBuf, end_time: u32 },
    Extend { chain: PathBuf, empty: u32 },
    Cold { coins: u64, blocks: u32, seed: u64 },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((job, out)) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let result = match &job {
        Job::Extend { chain, empty } => {
            return finish(&out, extend(chain, *empty, &out).map_err(|error| error.to_string()));
        }
        Job::Cold { coins, blocks, seed } => {
            let files = ["coins.dat", "spends.dat"].map(|name| out.join(name));
            let summary =
                write_cold(*coins, *blocks, *seed, files.each_ref().map(PathBuf::as_path));
            return finish(
                &out,
                summary.map_err(|error| error.to_string()).and_then(|it| print(&it)),
            );
        }
        Job::Generate(plan) => {
            let started = Instant::now();
            let total = plan.height();
            let result = write_dat(plan, &out, |height| {
                if height % PROGRESS_STEP == 0 || height == total {
                    let seconds = started.elapsed().as_secs_f64();
                    eprint!("\rblock {height} of {total}, {seconds:.1} s ");
                }
            });
            eprintln!();
            result
        }
        Job::Restamp { chain, end_time } => {
            summary_beside(chain).and_then(|summary| restamp(chain, &out, &summary, *end_time))
        }
    };
    finish(&out, result.map_err(|error| error.to_string()).and_then(|summary| print(&summary)))
}

fn print(summary: &impl Serialize) -> Result<(), String> {
    let json = serde_json::to_string_pretty(summary).map_err(|error| error.to_string())?;
    writeln!(io::stdout(), "{json}").map_err(|error| error.to_string())
}

fn finish(out: &Path, result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("godwit-sim: {}: {error}", out.display());
            ExitCode::FAILURE
        }
    }
}

fn extend(chain: &Path, empty: u32, out: &Path) -> Result<(), GenerateError> {
    let Summary { tip, height, tip_time: time, .. } = summary_beside(chain)?;
    let hash = tip.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    write_empty(Tip { hash, height, time }, empty, out)?;
    Ok(())
}

fn summary_beside(chain: &Path) -> Result<Summary, GenerateError> {
    let json = BufReader::new(File::open(chain.with_extension("json"))?);
    serde_json::from_reader(json).map_err(GenerateError::Summary)
}

fn parse(arguments: &[String]) -> Option<(Job, PathBuf)> {
    let (command, options) = arguments.split_first()?;
    let (mut plan, mut seed, mut end_time, mut chain, mut out) = (None, None, None, None, None);
    let (mut empty, mut coins, mut blocks) = (None, None, None);
    for pair in options.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--plan" => plan = Some(value.as_str()),
            "--seed" => seed = Some(value.parse().ok()?),
            "--end-time" => end_time = Some(parse_time(value)?),
            "--empty" => empty = Some(value.parse().ok()?),
            "--coins" => coins = Some(value.parse().ok().filter(|coins| *coins > 0)?),
            "--blocks" => blocks = Some(value.parse().ok()?),
            "--chain" => chain = Some(PathBuf::from(value)),
            "--out" => out = Some(PathBuf::from(value)),
            _ => return None,
        }
    }
    let job = match (command.as_str(), plan, chain, end_time) {
        ("extend", None, Some(chain), None) if seed.is_none() => {
            Job::Extend { chain, empty: empty.take()? }
        }
        ("cold", None, None, None) => {
            Job::Cold { coins: coins.take()?, blocks: blocks.take()?, seed: seed.unwrap_or(1) }
        }
        ("generate", Some(plan), None, end_time) => {
            let plan = ChainPlan::by_name(plan, seed.unwrap_or(1))?;
            Job::Generate(match end_time {
                Some(time) => plan.ending_at(time)?,
                None => plan,
            })
        }
        ("restamp", None, Some(chain), Some(end_time)) if seed.is_none() => {
            Job::Restamp { chain, end_time }
        }
        _ => return None,
    };
    let unused = empty.is_none() && coins.is_none() && blocks.is_none();
    unused.then_some((job, out?))
}

fn parse_time(text: &str) -> Option<u32> {
    if text != "now" {
        return text.parse().ok();
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    now.as_secs().try_into().ok()
}
