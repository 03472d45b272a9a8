//! The rounds: each program imports the same file into an empty data directory, in turns.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;

use serde::Serialize;

use crate::arguments::Arguments;
use crate::case::Case;
use crate::chain_summary::ChainSummary;
use crate::datadir::{self, DiskUse, WorkDir};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::measured::{Measured, measure};
use crate::node::{ImportJob, Node, Programs, UtxoSet, last_words};
use crate::node_log::LogFacts;
use crate::report::Report;
use crate::spread::Spread;

/// One import by one program.
#[derive(Clone, Debug, Serialize)]
pub struct Import {
    /// What the process took.
    #[serde(flatten)]
    pub measured: Measured,
    /// Seconds that the file system needed afterwards to have everything on disk.
    pub sync_seconds: f64,
    /// What it left on disk.
    pub disk: DiskUse,
    /// What its log says.
    pub log: LogFacts,
}

/// One import by each program, one right after the other.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// Who went first.
    pub first: Node,
    /// godwit's.
    pub godwit: Import,
    /// `bitcoind`'s.
    pub bitcoind: Import,
}

impl Round {
    /// `bitcoind`'s time over godwit's.
    pub fn ratio(&self) -> f64 {
        self.bitcoind.measured.seconds / self.godwit.measured.seconds
    }

    /// The import by one of the programs.
    pub fn by(&self, node: Node) -> &Import {
        match node {
            Node::Godwit => &self.godwit,
            Node::Bitcoind => &self.bitcoind,
        }
    }
}

/// All rounds of one case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseResult {
    /// The case.
    pub case: Case,
    /// `-dbcache` in MiB.
    pub dbcache: u64,
    /// `-assumevalid`.
    pub assumevalid: String,
    /// `bitcoind`'s time over godwit's, over the rounds.
    pub ratio: Spread,
    /// The coins that both ended with after the first round.
    pub set: UtxoSet,
    /// The rounds.
    pub rounds: Vec<Round>,
}

/// Runs all cases and writes the report after each.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let file = arguments.chain.canonicalize();
    let file = file.map_err(|error| Failure::File(arguments.chain.clone(), error))?;
    let chain = ChainSummary::beside(&file)?;
    if arguments.cases.iter().any(|case| !case.scripts) && !chain.allows_assumevalid() {
        return Err(Failure::TooShort);
    }
    let programs =
        Programs { godwit: arguments.godwit.clone(), bitcoind: arguments.bitcoind.clone() };
    let versions = (programs.version(Node::Godwit)?, programs.version(Node::Bitcoind)?);
    let machine = Machine::here();
    let file_bytes = datadir::read_through(&file)?;
    let work = WorkDir::beside(&file)?;
    let contest = Contest { rounds: arguments.rounds, file, programs, chain: &chain, work: &work };
    let mut report =
        Report { machine, versions, chain: chain.clone(), file_bytes, results: vec![] };
    for case in &arguments.cases {
        report.results.push(contest.run_case(case)?);
        report.write(&arguments.out)?;
    }
    work.remove()
}

struct Contest<'a> {
    rounds: usize,
    file: PathBuf,
    programs: Programs,
    chain: &'a ChainSummary,
    work: &'a WorkDir,
}

impl Contest<'_> {
    fn run_case(&self, case: &Case) -> Result<CaseResult, Failure> {
        let dbcache = case.dbcache(self.chain.txouts);
        let assumevalid = if case.scripts { "0" } else { &self.chain.last_busy_block };
        let mut rounds = Vec::new();
        let mut set = None;
        for n in 0..self.rounds {
            let (round, sets) = self.run_round(n, case, dbcache, assumevalid)?;
            println!(
                "{} {}/{}: godwit {:.2} s, bitcoind {:.2} s, {:.2}x",
                case.name,
                n + 1,
                self.rounds,
                round.godwit.measured.seconds,
                round.bitcoind.measured.seconds,
                round.ratio()
            );
            rounds.push(round);
            set = set.or(sets);
        }
        let ratio = Spread::of(rounds.iter().map(Round::ratio)).expect("there is a round");
        let set = set.expect("the first round looks");
        let assumevalid = assumevalid.to_owned();
        Ok(CaseResult { case: *case, dbcache, assumevalid, ratio, set, rounds })
    }

    /// The programs take turns in going first: what the first leaves behind for the second, in the
    /// processor or on the disk, then cancels out.
    fn run_round(
        &self,
        n: usize,
        case: &Case,
        dbcache: u64,
        assumevalid: &str,
    ) -> Result<(Round, Option<UtxoSet>), Failure> {
        let look = n == 0;
        let run = |node| self.import(node, case, dbcache, assumevalid, look);
        let first = if n.is_multiple_of(2) { Node::Godwit } else { Node::Bitcoind };
        let (godwit, bitcoind) = match first {
            Node::Godwit => {
                let godwit = run(Node::Godwit)?;
                (godwit, run(Node::Bitcoind)?)
            }
            Node::Bitcoind => {
                let bitcoind = run(Node::Bitcoind)?;
                (run(Node::Godwit)?, bitcoind)
            }
        };
        let set = match (godwit.1, bitcoind.1) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                return Err(Failure::Disagree(Box::new((ours, theirs))));
            }
            (Some(set), _) if !self.is_the_chains(&set) => {
                return Err(Failure::NotTheChain(Box::new(set)));
            }
            (set, _) => set,
        };
        Ok((Round { first, godwit: godwit.0, bitcoind: bitcoind.0 }, set))
    }

    fn is_the_chains(&self, set: &UtxoSet) -> bool {
        let ChainSummary { height, tip, txouts, bogosize, total_amount, .. } = self.chain;
        let amount = format!("{}.{:08}", total_amount / 100_000_000, total_amount % 100_000_000);
        (set.height, &set.bestblock, set.txouts, set.bogosize) == (*height, tip, *txouts, *bogosize)
            && set.total_amount.to_string() == amount
    }

    fn import(
        &self,
        node: Node,
        case: &Case,
        dbcache: u64,
        assumevalid: &str,
        look: bool,
    ) -> Result<(Import, Option<UtxoSet>), Failure> {
        let datadir = self.work.fresh(node)?;
        let words = last_words(&datadir);
        let stderr = File::create(&words).map_err(|error| Failure::File(words.clone(), error))?;
        let chain = &self.file;
        let job = ImportJob { chain, datadir: &datadir, dbcache, assumevalid };
        let mut command = self.programs.import(node, &job);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let (status, measured) = measure(&mut command)?;
        if !status.success() {
            return Err(Failure::Exit(self.programs.path(node).to_owned(), status, words));
        }
        let sync_seconds = self.work.sync()?;
        let path = Node::network_dir(&datadir).join("debug.log");
        let log = LogFacts::read(&path)?;
        if !self.ran_scripts_as(case, &log) {
            return Err(Failure::Scripts(node, path));
        }
        let disk = DiskUse::of(node, &datadir)?;
        let set = if look { Some(self.programs.utxo_set(node, &datadir)?) } else { None };
        datadir::remove(&datadir)?;
        Ok((Import { measured, sync_seconds, disk, log }, set))
    }

    fn ran_scripts_as(&self, case: &Case, log: &LogFacts) -> bool {
        let expected = match case.scripts {
            true => (None, Some(1)),
            false => (Some(1), Some(self.chain.last_busy_height + 1)),
        };
        (log.scripts_off, log.scripts_on) == expected
    }
}
