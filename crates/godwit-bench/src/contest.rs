//! The rounds: each program imports or downloads the same blocks into an empty data directory, one after
//! the other.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::arguments::Arguments;
use crate::case::{Case, Source};
use crate::chain_summary::ChainSummary;
use crate::datadir::{self, DiskUse, WorkDir};
use crate::failure::Failure;
use crate::intake::Intake;
use crate::machine::Machine;
use crate::measured::{Measured, measure};
use crate::node::{Node, UtxoSet};
use crate::node_log::LogFacts;
use crate::programs::{NodeSettings, Programs, last_words};
use crate::report::Report;
use crate::rounds::{CaseResult, Ratio, Round, Run, in_turn};
use crate::servers::Servers;

/// `-dbcache` in MiB for making the servers' chain, which is not measured.
const SERVER_IMPORT_MIB: u64 = 450;

/// Runs all cases and writes the report after each.
pub fn run(intake: Intake, arguments: &Arguments) -> Result<(), Failure> {
    let (file, chain) = ChainSummary::of_file(&arguments.chain)?;
    if arguments.cases.iter().any(|case| !case.scripts) && !chain.allows_assumevalid() {
        return Err(Failure::TooShort);
    }
    if intake == Intake::Sync && !chain.is_recent() {
        return Err(Failure::TooOld);
    }
    let with = |bitcoind: &PathBuf, probes| Programs {
        godwit: arguments.godwit.clone(),
        bitcoind: bitcoind.clone(),
        godwit_options: arguments.godwit_options.clone(),
        bitcoind_options: arguments.bitcoind_options.clone(),
        probes,
    };
    let (rival, probing) = (with(&arguments.rival, false), with(&arguments.bitcoind, true));
    let versions = (rival.version(Node::Godwit)?, rival.version(Node::Bitcoind)?);
    let change = rival.change()?;
    let machine = Machine::here();
    let file_bytes = datadir::read_through(&file)?;
    let work = WorkDir::beside(&file, intake.program())?;
    let contest = |programs| Contest {
        rounds: arguments.rounds,
        file: file.clone(),
        programs,
        chain: &chain,
        work: &work,
    };
    let (contest, probing) = (contest(rival), contest(probing));
    let template = match intake {
        Intake::Sync => Some(contest.make_server(Node::Bitcoind)?),
        Intake::Import => None,
    };
    let mut report = Report {
        intake,
        machine,
        versions,
        change,
        chain: chain.clone(),
        file_bytes,
        results: vec![],
    };
    for case in &arguments.cases {
        let servers = match (&template, case.source) {
            (Some(template), Source::Peers(count)) => {
                Some(Servers::start(&contest.programs, Node::Bitcoind, template, count)?)
            }
            _ => None,
        };
        let contest = if case.probes { &probing } else { &contest };
        report.results.push(contest.run_case(case, servers.as_ref())?);
        report.write(&arguments.out)?;
        servers.map_or(Ok(()), Servers::stop)?;
    }
    work.remove()
}

/// What runs take place with.
pub(crate) struct Contest<'a> {
    pub(crate) rounds: usize,
    pub(crate) file: PathBuf,
    pub(crate) programs: Programs,
    pub(crate) chain: &'a ChainSummary,
    pub(crate) work: &'a WorkDir,
}

/// What the runs of a case share.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// Whether the log has to show that scripts were run.
    pub(crate) scripts: bool,
    pub(crate) dbcache: u64,
    pub(crate) assumevalid: &'a str,
    /// `-prune` in MiB, for a sync.
    pub(crate) prune: Option<u64>,
    /// `-flushinterval` in seconds, of a godwit.
    pub(crate) flush_interval: Option<u64>,
    pub(crate) servers: Option<&'a Servers>,
    /// Where a godwit that counts its wipes writes them.
    pub(crate) wipes: Option<&'a Path>,
}

impl Contest<'_> {
    /// Makes the data directory that servers get copies of.
    pub(crate) fn make_server(&self, node: Node) -> Result<PathBuf, Failure> {
        let datadir = self.work.fresh(&format!("server-{node}"))?;
        let assumevalid = match self.chain.allows_assumevalid() {
            true => &self.chain.last_busy_block,
            false => "0",
        };
        let settings = NodeSettings { datadir: &datadir, dbcache: SERVER_IMPORT_MIB, assumevalid };
        self.finish(node, &datadir, self.programs.import(node, &settings, &self.file))?;
        Ok(datadir)
    }

    /// What the imports of a case share.
    pub(crate) fn terms(&self, case: &Case) -> Terms<'_> {
        Terms {
            scripts: case.scripts,
            dbcache: case.dbcache(self.chain.txouts),
            assumevalid: if case.scripts { "0" } else { &self.chain.last_busy_block },
            prune: None,
            flush_interval: None,
            servers: None,
            wipes: None,
        }
    }

    fn run_case(&self, case: &Case, servers: Option<&Servers>) -> Result<CaseResult, Failure> {
        let terms = Terms { servers, ..self.terms(case) };
        let mut rounds = Vec::new();
        let mut set = None;
        for n in 0..self.rounds {
            let (round, sets) = self.run_round(n, terms)?;
            println!(
                "{} {}/{}: godwit {:.2} s, bitcoind {:.2} s, {:.2}x",
                case.name,
                n + 1,
                self.rounds,
                round.godwit.measured.seconds,
                round.bitcoind.measured.seconds,
                round.ratio(|measured| measured.seconds)
            );
            rounds.push(round);
            set = set.or(sets);
        }
        let ratio = Ratio::of(&rounds, |measured| measured.seconds).expect("there is a round");
        let processor = Ratio::of(&rounds, Measured::processor_seconds).expect("there is a round");
        let set = set.expect("the first round looks");
        let (dbcache, assumevalid) = (terms.dbcache, terms.assumevalid.to_owned());
        let Programs { godwit_options, bitcoind_options, .. } = self.programs.clone();
        let case = *case;
        Ok(CaseResult {
            case,
            dbcache,
            assumevalid,
            godwit_options,
            bitcoind_options,
            ratio,
            processor,
            set,
            rounds,
        })
    }

    fn run_round(&self, n: usize, terms: Terms<'_>) -> Result<(Round, Option<UtxoSet>), Failure> {
        let (first, godwit, bitcoind) = in_turn(n, |node| self.run_one(node, terms, n == 0))?;
        let set = match (godwit.1, bitcoind.1) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                return Err(Failure::Disagree(Box::new((ours, theirs))));
            }
            (Some(set), _) if !self.chain.describes(&set) => {
                return Err(Failure::NotTheChain(Box::new(set)));
            }
            (set, _) => set,
        };
        Ok((Round { first, godwit: godwit.0, bitcoind: bitcoind.0 }, set))
    }

    /// One run; its coins too when they are to be looked at, which is not timed.
    pub(crate) fn run_one(
        &self,
        node: Node,
        terms: Terms<'_>,
        look: bool,
    ) -> Result<(Run, Option<UtxoSet>), Failure> {
        let (run, datadir) = self.run_kept(node, terms)?;
        if !self.chain.ran_scripts(terms.scripts, &run.log) {
            return Err(Failure::Scripts(node, log_of(&datadir)));
        }
        let set = if look { Some(self.programs.utxo_set(node, &datadir)?) } else { None };
        datadir::remove(&datadir)?;
        Ok((run, set))
    }

    /// One run, and the data directory that it leaves. Whether it ran scripts where it should is for the
    /// caller to look up in its log.
    pub(crate) fn run_kept(&self, node: Node, terms: Terms<'_>) -> Result<(Run, PathBuf), Failure> {
        let Terms { scripts: _, dbcache, assumevalid, prune, flush_interval, servers, wipes } =
            terms;
        let datadir = self.work.fresh(&node.to_string())?;
        let settings = NodeSettings { datadir: &datadir, dbcache, assumevalid };
        let mut command = match servers {
            None => self.programs.import(node, &settings, &self.file),
            Some(servers) => {
                self.programs.sync(node, &settings, &servers.ports(), self.chain.height)
            }
        };
        command.args(prune.map(|mib| format!("-prune={mib}")));
        command.args(flush_interval.map(|seconds| format!("-flushinterval={seconds}")));
        command.envs(wipes.map(|path| ("GODWIT_WIPES", path)));
        let before = servers.map(Servers::processor_seconds).transpose()?;
        let mut measured = self.finish(node, &datadir, command)?;
        let after = servers.map(Servers::processor_seconds).transpose()?;
        let server_seconds = after.zip(before).map(|(after, before)| after - before);
        measured.others_seconds =
            (measured.others_seconds - server_seconds.unwrap_or_default()).max(0.0);
        let sync_seconds = self.work.sync()?;
        let log = LogFacts::read(&log_of(&datadir))?;
        let disk = DiskUse::of(node, &datadir)?;
        Ok((Run { measured, sync_seconds, server_seconds, disk, log }, datadir))
    }

    /// Measures a command that has to succeed.
    pub(crate) fn finish(
        &self,
        node: Node,
        datadir: &Path,
        mut command: Command,
    ) -> Result<Measured, Failure> {
        let words = last_words(datadir);
        let stderr = File::create(&words).map_err(|error| Failure::File(words.clone(), error))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let (status, measured) = measure(&mut command)?;
        match status.success() {
            true => Ok(measured),
            false => Err(Failure::Exit(self.programs.path(node).to_owned(), status, words)),
        }
    }
}

/// The log in a data directory.
pub(crate) fn log_of(datadir: &Path) -> PathBuf {
    Node::network_dir(datadir).join("debug.log")
}
