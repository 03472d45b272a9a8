//! The cost of RPC clients to a sync with every script, and how long the clients wait.
//!
//! A godwit downloads the chain from another one, in turns without clients, with clients that ask once a
//! second, and with as many that ask without a pause. They run on the same processors: what a sync loses to
//! the clients' own work is taken off where the report says so.

mod clients;
mod report;

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use serde::Serialize;

use crate::arguments::Words;
use crate::chain_summary::ChainSummary;
use crate::contest::Contest;
use crate::datadir::{self, WorkDir};
use crate::exit_code;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::measured::{Measured, measure, processor_seconds};
use crate::node::Node;
use crate::programs::{NodeSettings, Programs, free_port, last_words};
use crate::rotation::{balanced_rounds, williams};
use crate::servers::Servers;
use clients::{Clients, Heard, LOGIN};
use report::Report;

const USAGE: &str = "\
usage: rpc-load -chain=FILE -godwit=BIN -out=DIR [-rounds=N]

FILE is a generated chain with its summary beside it, as tools/bench-chain makes it. Data directories are
made and removed beside FILE. Rounds: 12.";

/// Orders of three are balanced in six rounds.
const DEFAULT_ROUNDS: usize = 12;
/// Clients at once.
const CLIENTS: u32 = 64;
/// `-dbcache` in MiB: every coin fits.
const DBCACHE: u64 = 450;

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Load {
    /// There are none.
    None,
    /// One call a second each.
    Paced,
    /// The next call follows the answer.
    Unpaced,
}

impl Load {
    const ALL: [Self; 3] = [Self::None, Self::Paced, Self::Unpaced];

    fn start(self, port: u16) -> Option<Clients> {
        match self {
            Self::None => None,
            Self::Paced => Some(Clients::start(port, CLIENTS, Some(Duration::from_secs(1)))),
            Self::Unpaced => Some(Clients::start(port, CLIENTS, None)),
        }
    }
}

/// One sync.
#[derive(Clone, Debug, Serialize)]
struct Run {
    /// The node.
    #[serde(flatten)]
    measured: Measured,
    /// Processor seconds of the node that it downloads from.
    server_seconds: f64,
    /// Processor seconds of the clients.
    client_seconds: f64,
    /// Milliseconds of each client's answers with a result.
    #[serde(skip)]
    waits: Vec<Vec<f64>>,
    answers: u64,
    refused: u64,
    lost: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Arguments {
    chain: PathBuf,
    godwit: PathBuf,
    out: PathBuf,
    rounds: usize,
}

impl Arguments {
    /// `None` for anything that [`USAGE`] does not say.
    fn parse(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut words = Words::of(arguments)?;
        let arguments = Self {
            chain: words.path("chain")?,
            godwit: words.path("godwit")?,
            out: words.path("out")?,
            rounds: words.number("rounds", DEFAULT_ROUNDS)?,
        };
        words.are_used().then_some(arguments)
    }
}

/// What the program does.
pub fn main() -> ExitCode {
    let Some(arguments) = Arguments::parse(std::env::args_os().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    exit_code("rpc-load", run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (file, chain) = ChainSummary::of_file(&arguments.chain)?;
    let programs = Programs {
        godwit: arguments.godwit.clone(),
        // None runs.
        bitcoind: PathBuf::new(),
        godwit_options: vec![],
        bitcoind_options: vec![],
        probes: false,
    };
    let mut report = Report {
        machine: Machine::here(),
        version: programs.version(Node::Godwit)?,
        chain: chain.clone(),
        runs: Load::ALL.map(|load| (load, vec![])),
    };
    let work = WorkDir::beside(&file, "rpc-load")?;
    let contest = Contest { rounds: arguments.rounds, file, programs, chain: &chain, work: &work };
    let template = contest.make_server(Node::Godwit)?;
    let servers = Servers::start(&contest.programs, Node::Godwit, &template, 1)?;
    let rounds = balanced_rounds(Load::ALL.len(), arguments.rounds);
    for (round, order) in williams(Load::ALL.len()).iter().cycle().take(rounds).enumerate() {
        for &number in order {
            let run = sync(&contest, &servers, Load::ALL[number])?;
            println!(
                "{:?} {}/{rounds}: {:.2} s",
                Load::ALL[number],
                round + 1,
                run.measured.seconds
            );
            report.runs[number].1.push(run);
        }
        report.write(&arguments.out)?;
    }
    servers.stop()?;
    work.remove()
}

/// One sync with these clients.
fn sync(contest: &Contest<'_>, servers: &Servers, load: Load) -> Result<Run, Failure> {
    let datadir = contest.work.fresh("godwit")?;
    let settings = NodeSettings { datadir: &datadir, dbcache: DBCACHE, assumevalid: "0" };
    let programs = &contest.programs;
    let failed = |error| Failure::Start(programs.godwit.clone(), error);
    let port = free_port().map_err(failed)?;
    let mut command =
        programs.sync(Node::Godwit, &settings, &servers.ports(), contest.chain.height);
    command.args(["-server=1".to_owned(), format!("-rpcport={port}")]).args(LOGIN);
    let words = last_words(&datadir);
    let stderr = File::create(&words).map_err(|error| Failure::File(words.clone(), error))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);

    let own_seconds = || processor_seconds(std::process::id()).map_err(failed);
    let before = (servers.processor_seconds()?, own_seconds()?);
    let clients = load.start(port);
    let measured = measure(&mut command);
    let heard = clients.map_or_else(Vec::new, Clients::stop);
    let (status, mut measured) = measured?;
    if !status.success() {
        return Err(Failure::Exit(programs.godwit.clone(), status, words));
    }
    let server_seconds = servers.processor_seconds()? - before.0;
    let client_seconds = own_seconds()? - before.1;
    measured.others_seconds = (measured.others_seconds - server_seconds - client_seconds).max(0.0);
    datadir::remove(&datadir)?;
    contest.work.sync()?;
    let sum = |of: fn(&Heard) -> u64| heard.iter().map(of).sum();
    Ok(Run {
        measured,
        server_seconds,
        client_seconds,
        answers: sum(|heard| heard.seconds.len() as u64),
        refused: sum(|heard| heard.refused),
        lost: sum(|heard| heard.lost),
        waits: heard.into_iter().map(|heard| milliseconds(heard.seconds)).collect(),
    })
}

fn milliseconds(seconds: Vec<f64>) -> Vec<f64> {
    seconds.into_iter().map(|seconds| seconds * 1000.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_paths_and_perhaps_rounds() {
        let parse = |words: &[&str]| Arguments::parse(words.iter().map(OsString::from));
        let all = ["-chain=a.dat", "--godwit=/g", "-out=d"];
        let arguments = parse(&all).unwrap();
        assert_eq!((arguments.rounds, arguments.godwit), (12, PathBuf::from("/g")));
        assert_eq!(parse(&[&all[..], &["-rounds=3"]].concat()).unwrap().rounds, 3);
        for wrong in
            [&all[1..], &[&all[..], &["-rounds=0"]].concat(), &[&all[..], &["-x=1"]].concat()]
        {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
