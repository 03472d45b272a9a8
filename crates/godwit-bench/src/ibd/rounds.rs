//! The rounds: each policy imports or downloads the same blocks into an empty data directory, in
//! balanced orders, with `bitcoind` among them in some rounds.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::chain_summary::ChainSummary;
use crate::contest::{Contest, Terms};
use crate::datadir::{self, WorkDir};
use crate::failure::Failure;
use crate::ibd::arguments::Measure;
use crate::ibd::results::{CaseResults, Results, Round, ServerChoice, ServerTrial};
use crate::ibd::rotation::orders;
use crate::ibd::sample::Sample;
use crate::ibd::scenario::Scenario;
use crate::ibd::subject::Subject;
use crate::ibd::wipes::{CaseWipes, Wipes};
use crate::machine::Machine;
use crate::node::Node;
use crate::programs::Programs;
use crate::servers::Servers;

/// Directory of the build that counts.
const COUNTING: &str = "count-wipes";

/// Runs all cases and writes the report after each.
pub fn run(measure: &Measure) -> Result<(), Failure> {
    let started = Instant::now();
    let (file, chain) = open_chain(&measure.chain, &measure.cases)?;
    let build = |name: &str| Programs {
        godwit: measure.programs.join(name).join("godwit"),
        bitcoind: measure.bitcoind.clone(),
        godwit_options: vec![],
        bitcoind_options: measure.bitcoind_options.clone(),
        probes: false,
    };
    let plain = build(Subject::Plain.name());
    let versions = [plain.version(Node::Godwit)?, plain.version(Node::Bitcoind)?];
    let machine = Machine::here();
    datadir::read_through(&file)?;
    let work = WorkDir::beside(&file, "bench-ibd")?;
    let contest = |programs| Contest {
        rounds: measure.rounds,
        file: file.clone(),
        programs,
        chain: &chain,
        work: &work,
    };
    let setup = Setup {
        measure,
        chain: &chain,
        by_subject: Subject::ALL.map(|subject| match subject {
            Subject::Bitcoind => contest(plain.clone()),
            policy => contest(build(policy.name())),
        }),
        counting: contest(build(COUNTING)),
    };
    let served =
        measure.cases.iter().any(Scenario::has_peer).then(|| setup.choose_server()).transpose()?;
    let (servers, server) = served.unzip();
    let mut results = Results {
        machine,
        versions,
        change: plain.change()?,
        bitcoind_options: measure.bitcoind_options.clone(),
        chain: chain.clone(),
        server,
        seconds: None,
        cases: vec![],
        all: vec![],
    };
    for case in &measure.cases {
        results.add(setup.run_case(case, servers.as_ref())?);
        results.write(&measure.out)?;
    }
    setup.count_wipes(servers.as_ref())?.write(&measure.out)?;
    servers.map_or(Ok(()), Servers::stop)?;
    results.seconds = Some(started.elapsed().as_secs_f64());
    results.write(&measure.out)?;
    crate::ibd::draw(&measure.out)?;
    work.remove()
}

/// The chain's file and what is known of it, when these cases can use it.
pub(crate) fn open_chain(
    chain: &Path,
    cases: &[Scenario],
) -> Result<(PathBuf, ChainSummary), Failure> {
    let (file, summary) = ChainSummary::of_file(chain)?;
    if !summary.allows_assumevalid() {
        return Err(Failure::TooShort);
    }
    if cases.iter().any(Scenario::has_peer) && !summary.is_recent() {
        return Err(Failure::TooOld);
    }
    Ok((file, summary))
}

/// What the runs of a case share.
pub(crate) fn terms<'a>(
    case: &Scenario,
    chain: &'a ChainSummary,
    servers: Option<&'a Servers>,
) -> Terms<'a> {
    Terms {
        scripts: false,
        dbcache: case.cache.mib(chain.txouts),
        assumevalid: &chain.last_busy_block,
        prune: case.prune,
        flush_interval: None,
        servers: servers.filter(|_| case.has_peer()),
        wipes: None,
    }
}

/// What all runs take place with.
struct Setup<'a> {
    measure: &'a Measure,
    chain: &'a ChainSummary,
    /// In the order of [`Subject::ALL`].
    by_subject: [Contest<'a>; 4],
    counting: Contest<'a>,
}

impl Setup<'_> {
    fn contest(&self, subject: Subject) -> &Contest<'_> {
        let place = Subject::ALL.iter().position(|other| *other == subject);
        &self.by_subject[place.expect("all subjects are there")]
    }

    /// Lets the plain build sync from each node once and goes on with the one that took less of the
    /// processors, which client and server share.
    fn choose_server(&self) -> Result<(Servers, ServerChoice), Failure> {
        let contest = self.contest(Subject::Plain);
        let mut trials = Vec::new();
        let mut best: Option<(Servers, ServerTrial)> = None;
        for node in [Node::Godwit, Node::Bitcoind] {
            let template = contest.make_server(node)?;
            let servers = Servers::start(&contest.programs, node, &template, 1)?;
            datadir::remove(&template)?;
            let terms = terms(&Scenario::ALL[2], self.chain, Some(&servers));
            let (run, _) = contest.run_one(Node::Godwit, terms, false)?;
            let client_seconds = run.measured.seconds;
            let server_seconds = run.server_seconds.unwrap_or_default();
            println!(
                "server {node}: {server_seconds:.2} s of processor time for a sync of \
                 {client_seconds:.2} s"
            );
            let trial = ServerTrial { node, client_seconds, server_seconds };
            trials.push(trial);
            let worse = match best.take() {
                Some((other, before)) if before.server_seconds <= server_seconds => {
                    best = Some((other, before));
                    Some(servers)
                }
                before => {
                    best = Some((servers, trial));
                    before.map(|(other, _)| other)
                }
            };
            worse.map_or(Ok(()), Servers::stop)?;
        }
        let (servers, trial) = best.expect("there were two");
        Ok((servers, ServerChoice { chosen: trial.node, trials }))
    }

    fn run_case(&self, case: &Scenario, servers: Option<&Servers>) -> Result<CaseResults, Failure> {
        let terms = terms(case, self.chain, servers);
        // What the first run of a case meets, in memory or on the disk, nobody else does.
        self.contest(Subject::Plain).run_one(Node::Godwit, terms, false)?;
        let mut rounds = Vec::new();
        let Measure { rounds: count, bitcoind_rounds, .. } = *self.measure;
        for (n, order) in orders(count, bitcoind_rounds).into_iter().enumerate() {
            let mut runs = Vec::new();
            for subject in order {
                runs.push((subject, self.run_one(subject, terms, n == 0)?));
            }
            let round = Round { runs };
            println!("{} {}/{}: {}", case.name, n + 1, count, line(&round));
            rounds.push(round);
        }
        Ok(CaseResults {
            case: case.name.to_owned(),
            dbcache: terms.dbcache,
            prune: terms.prune,
            rounds,
            comparisons: vec![],
            bitcoind: None,
            bitcoind_interval: None,
        })
    }

    /// One run; in the first round the coins that it ends with are held against the generator's.
    fn run_one(&self, subject: Subject, terms: Terms<'_>, look: bool) -> Result<Sample, Failure> {
        let (run, set) = self.contest(subject).run_one(subject.node(), terms, look)?;
        match set {
            Some(set) if !self.chain.describes(&set) => Err(Failure::NotTheChain(Box::new(set))),
            _ => Ok(Sample::from(&run)),
        }
    }

    /// One run of the counting build in each case.
    fn count_wipes(&self, servers: Option<&Servers>) -> Result<Wipes, Failure> {
        let mut cases = Vec::new();
        for case in &self.measure.cases {
            let path = self.counting.work.file(&format!("wipes-{}.folded", case.name));
            let terms = Terms { wipes: Some(&path), ..terms(case, self.chain, servers) };
            self.counting.run_one(Node::Godwit, terms, false)?;
            let wipes = CaseWipes::read(case.name, &path, self.chain)?;
            println!("{}: {} frees of {} bytes wiped", case.name, wipes.frees, wipes.bytes);
            cases.push(wipes);
        }
        Ok(Wipes { program: Node::Godwit, every: 1, cases })
    }
}

/// A round in a line.
fn line(round: &Round) -> String {
    let parts = Subject::ALL.iter().filter_map(|subject| {
        let seconds = round.by(*subject)?.seconds;
        let excess = round.excess(*subject, |sample| sample.seconds)?;
        Some(match subject {
            Subject::Plain => format!("{subject} {seconds:.2} s"),
            _ => format!("{subject} {seconds:.2} s ({excess:+.1} %)"),
        })
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ibd::results::tests::case;

    #[test]
    fn a_round_in_a_line() {
        let case = case(&[[10.0, 9.9, 10.2]]);
        assert_eq!(
            line(&case.rounds[0]),
            "plain 10.00 s, barrier-only 9.90 s (-1.0 %), zero-after-free 10.20 s (+2.0 %), \
             bitcoind 50.00 s (+400.0 %)"
        );
    }
}
