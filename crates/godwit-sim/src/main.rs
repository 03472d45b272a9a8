//! `godwit-sim`: writes a generated regtest chain to a block file.
//!
//! `godwit-sim generate --plan small|demo|kill|benchmark [--seed N] [--end-time now|N] --out FILE`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use godwit_sim::chain::write_dat;
use godwit_sim::plan::ChainPlan;

const USAGE: &str = "\
usage: godwit-sim generate --plan small|demo|kill|benchmark [--seed N] [--end-time now|N] --out FILE

The end time is the last block's timestamp in seconds since 1970; without it, timestamps depend on
the plan alone.";
/// Blocks between two lines of progress.
const PROGRESS_STEP: u32 = 50;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((plan, out)) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let started = Instant::now();
    let total = plan.height();
    let result = write_dat(&plan, &out, |height| {
        if height % PROGRESS_STEP == 0 || height == total {
            eprint!("\rblock {height} of {total}, {:.1} s ", started.elapsed().as_secs_f64());
        }
    });
    eprintln!();
    let printed = result.map_err(|error| error.to_string()).and_then(|summary| {
        let json = serde_json::to_string_pretty(&summary).map_err(|error| error.to_string())?;
        writeln!(std::io::stdout(), "{json}").map_err(|error| error.to_string())
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("godwit-sim: {}: {error}", out.display());
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Option<(ChainPlan, PathBuf)> {
    let (command, options) = arguments.split_first()?;
    let (mut plan, mut seed, mut end_time, mut out) = (None, 1, None, None);
    for pair in options.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--plan" => plan = Some(value.as_str()),
            "--seed" => seed = value.parse().ok()?,
            "--end-time" => end_time = Some(parse_time(value)?),
            "--out" => out = Some(PathBuf::from(value)),
            _ => return None,
        }
    }
    let plan = ChainPlan::by_name(plan?, seed)?;
    let plan = match end_time {
        Some(time) => plan.ending_at(time)?,
        None => plan,
    };
    (command == "generate").then_some((plan, out?))
}

fn parse_time(text: &str) -> Option<u32> {
    if text != "now" {
        return text.parse().ok();
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    now.as_secs().try_into().ok()
}
