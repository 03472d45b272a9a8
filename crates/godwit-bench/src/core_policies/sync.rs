//! Whole syncs by Core in each policy.

use std::time::Instant;

use crate::chain_summary::ChainSummary;
use crate::contest::{Contest, Terms, log_of};
use crate::datadir::{self, WorkDir};
use crate::failure::Failure;
use crate::ibd::rounds::{open_chain, terms};
use crate::ibd::sample::Sample;
use crate::ibd::scenario::Scenario;
use crate::machine::Machine;
use crate::node::Node;
use crate::servers::Servers;

use super::arguments::{Subjects, Sync};
use super::journal::Journal;
use super::policy::Policy;
use super::record::{Build, SyncHead, SyncRun, bitcoind, sync_journal};
use super::results::{differences, rounds_of};
use super::schedule::{is_done, link_order, sequence};

/// Adds rounds to the journal until each case is done or the time is over.
pub fn run(sync: &Sync) -> Result<(), Failure> {
    let started = Instant::now();
    let (file, chain) = open_chain(&sync.chain, &sync.cases)?;
    let Subjects { core, programs, policies, journals, .. } = &sync.subjects;
    let head = SyncHead {
        machine: Machine::here(),
        build: Build::of(programs, "bitcoind", policies)?,
        chain: chain.clone(),
        dbcache: Scenario::ALL
            .iter()
            .map(|case| (case.name.to_owned(), case.cache.mib(chain.txouts)))
            .collect(),
    };
    let journal = Journal::open(&journals.join(sync_journal(core)), head, SyncHead::continues)?;
    datadir::read_through(&file)?;
    let work = WorkDir::beside(&file, "core-policies")?;
    let contest = |policy, order| Contest {
        rounds: sync.subjects.rounds,
        file: file.clone(),
        programs: bitcoind(&sync.godwit, programs, policy, order),
        chain: &chain,
        work: &work,
    };
    let serve = || {
        let contest = contest(Policy::AsIs, 0);
        let template = contest.make_server(Node::Godwit)?;
        let servers = Servers::start(&contest.programs, Node::Godwit, &template, 1)?;
        datadir::remove(&template)?;
        Ok(servers)
    };
    let servers = sync.cases.iter().any(Scenario::has_peer).then(serve).transpose()?;
    let mut setup =
        Setup { sync, chain: &chain, contest: &contest, servers: servers.as_ref(), journal };
    // The first run meets what nobody else does.
    setup.run_one(&sync.cases[0], Policy::AsIs, 0)?;
    setup.run_rounds(started)?;
    servers.map_or(Ok(()), Servers::stop)?;
    work.remove()
}

/// What the rounds take place with.
struct Setup<'a> {
    sync: &'a Sync,
    chain: &'a ChainSummary,
    contest: &'a dyn Fn(Policy, usize) -> Contest<'a>,
    servers: Option<&'a Servers>,
    journal: Journal<SyncHead, SyncRun>,
}

impl Setup<'_> {
    /// All cases go on together, so that an early end leaves as many rounds of each.
    fn run_rounds(&mut self, started: Instant) -> Result<(), Failure> {
        let Subjects { policies, rounds: most, limit, .. } = &self.sync.subjects;
        let most = *most;
        for round in 0..most {
            for case in &self.sync.cases {
                let done = rounds_of(&self.journal.lines, case.name, policies);
                let known = differences(&[&done], policies)
                    .iter()
                    .map(|found| found.processor)
                    .collect::<Vec<_>>();
                if done.len() > round || is_done(done.len(), most, &known) {
                    continue;
                }
                let lasted: f64 = done.last().map_or(0.0, |round| round.seconds());
                let would_end = started.elapsed().as_secs_f64() + lasted;
                if limit.is_some_and(|limit| would_end > limit.as_secs_f64()) {
                    println!("The time is over.");
                    return Ok(());
                }
                self.run_round(case, done.len())?;
            }
        }
        Ok(())
    }

    fn run_round(&mut self, case: &Scenario, round: usize) -> Result<(), Failure> {
        for policy in sequence(&self.sync.subjects.policies, round) {
            let (sample, coins) = self.run_one(case, policy, link_order(round))?;
            println!(
                "{} {} round {} {policy}-{}: {:.2} s of processor time in {:.2} s",
                self.sync.subjects.core,
                case.name,
                round + 1,
                link_order(round) + 1,
                sample.processor_seconds(),
                sample.seconds,
            );
            self.journal.add(SyncRun {
                case: case.name.to_owned(),
                round,
                policy,
                sample,
                coins,
            })?;
        }
        Ok(())
    }

    /// One sync and the hash of its coins, which is the same in all of them.
    fn run_one(
        &self,
        case: &Scenario,
        policy: Policy,
        order: usize,
    ) -> Result<(Sample, String), Failure> {
        let contest = (self.contest)(policy, order);
        let terms: Terms<'_> = terms(case, self.chain, self.servers);
        let (run, datadir) = contest.run_kept(Node::Bitcoind, terms)?;
        // Core before version 30 does not say; there, the time does.
        if !run.log.script_switches.is_empty() && !self.chain.ran_scripts(false, &run.log) {
            return Err(Failure::Scripts(Node::Bitcoind, log_of(&datadir)));
        }
        let set = contest.programs.serialized_set(&datadir)?;
        datadir::remove(&datadir)?;
        let other = self.journal.lines.iter().find(|run| run.coins != set.muhash);
        if !self.chain.describes(&set) || other.is_some() {
            return Err(Failure::NotTheChain(Box::new(set)));
        }
        Ok((Sample::from(&run), set.muhash))
    }
}
