//! Results of the syncs: each policy compared with the one that Core ships, in the same round.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;
use crate::ibd::sample::Sample;
use crate::ibd::scenario::Scenario;
use crate::interval::Interval;
use crate::report_files::write_json;
use crate::spread::Spread;

use super::journal::Journal;
use super::policy::{LINK_ORDERS, Policy};
use super::record::{SyncHead, SyncRun, sync_journal};
use super::schedule::link_order;
use super::stream_results::StreamReport;

/// The Cores that a report looks for, the one that the pull request is judged on first.
const CORES: [&str; 2] = ["28.99", "31.99"];

/// Standard deviations of a mean by which a difference has to lie off zero so that, of two-sided tests
/// at 5 %, four in five find it: 1.96 and 0.84.
const DETECTABLE: f64 = 2.80;

/// Everything that was measured on Core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub cores: Vec<CoreReport>,
}

/// One version of Core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoreReport {
    pub core: String,
    /// Whole syncs, if there were any.
    pub sync: Option<SyncReport>,
    /// The pull request's benchmarks.
    pub streams: Option<StreamReport>,
}

/// The syncs of one version of Core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SyncReport {
    pub head: SyncHead,
    /// What the policies take more than each other, over the rounds of all cases.
    pub all: Vec<Difference>,
    /// The same of each link order alone.
    pub by_order: Vec<Vec<Difference>>,
    /// Processor seconds of what ships in each link order, in percent more than in all of them.
    pub orders_as_is: Vec<f64>,
    /// Share of the processors' time that everything else took during a run, the server aside.
    pub others: Option<Spread>,
    pub cases: Vec<CaseReport>,
}

/// All rounds of one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseReport {
    pub case: String,
    /// `-dbcache` in MiB.
    pub dbcache: u64,
    /// `-prune` in MiB.
    pub prune: Option<u64>,
    pub rounds: usize,
    /// Processor seconds of what ships.
    pub processor: Option<Spread>,
    /// Its seconds from start to exit.
    pub wall: Option<Spread>,
    pub differences: Vec<Difference>,
    /// The rounds: processor seconds and seconds of each policy, in their order.
    pub runs: Vec<Vec<(Policy, f64, f64)>>,
}

/// What a policy takes more than another in the same round, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    pub policy: Policy,
    /// Mostly what ships.
    pub against: Policy,
    pub rounds: usize,
    /// Processor time; fewer than six rounds say too little.
    pub processor: Option<Interval>,
    /// Time from start to exit.
    pub wall: Option<Interval>,
    /// The smallest difference in processor time that so many rounds with this scatter would have found
    /// four times in five.
    pub detectable: Option<f64>,
}

/// A run by each policy, linked in the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    pub link_order: usize,
    runs: Vec<(Policy, Sample)>,
}

impl Round {
    fn by(&self, policy: Policy) -> Option<&Sample> {
        self.runs.iter().find(|(who, _)| *who == policy).map(|(_, sample)| sample)
    }

    fn ratio(&self, policy: Policy, against: Policy, value: fn(&Sample) -> f64) -> Option<f64> {
        Some(value(self.by(policy)?) / value(self.by(against)?))
    }

    /// How long it lasted.
    pub fn seconds(&self) -> f64 {
        self.runs.iter().map(|(_, sample)| sample.seconds).sum()
    }
}

/// The rounds of a case that are whole. Of one that was interrupted and run again the later runs count.
pub fn rounds_of(lines: &[SyncRun], case: &str, policies: &[Policy]) -> Vec<Round> {
    let mut rounds: BTreeMap<usize, Round> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.case == case) {
        let new = || Round { link_order: link_order(line.round), runs: vec![] };
        let runs = &mut rounds.entry(line.round).or_insert_with(new).runs;
        runs.retain(|(policy, _)| *policy != line.policy);
        runs.push((line.policy, line.sample));
    }
    rounds.into_values().filter(|round| round.runs.len() == policies.len()).collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.against {
            Policy::AsIs => self.policy.fmt(f),
            against => write!(f, "{} against {against}", self.policy),
        }
    }
}

/// Each policy against what ships over these rounds, and behind them the standard allocator against the
/// barrier: neither makes zeros, so what tells them apart is not the wiping.
pub fn differences(cases: &[&[Round]], policies: &[Policy]) -> Vec<Difference> {
    let of = |(policy, against)| {
        let ratios = |value| -> Vec<f64> {
            let rounds = cases.iter().copied().flatten();
            rounds.filter_map(|round| round.ratio(policy, against, value)).collect()
        };
        let processor = ratios(Sample::processor_seconds);
        Difference {
            policy,
            against,
            rounds: processor.len(),
            processor: Interval::of_excess(&processor),
            wall: Interval::of_excess(&ratios(|sample| sample.seconds)),
            detectable: detectable(&processor),
        }
    };
    let without_zeros = [Policy::Plain, Policy::Barrier];
    let pair = without_zeros.iter().all(|policy| policies.contains(policy));
    let pair = pair.then_some((Policy::Plain, Policy::Barrier));
    Policy::others(policies).map(|policy| (policy, Policy::AsIs)).chain(pair).map(of).collect()
}

/// See [`Difference::detectable`].
fn detectable(ratios: &[f64]) -> Option<f64> {
    let count = ratios.len() as f64;
    if count < 6.0 {
        return None;
    }
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let mean = logarithms.iter().sum::<f64>() / count;
    let squares = logarithms.iter().map(|logarithm| (logarithm - mean).powi(2)).sum::<f64>();
    let of_mean = (squares / (count - 1.0) / count).sqrt();
    Some((DETECTABLE * of_mean).exp_m1() * 100.0)
}

/// Processor seconds of what ships in each link order, in percent more than in all of them: the
/// geometric mean over the cases that had all orders.
fn orders_as_is(cases: &[Vec<Round>]) -> Vec<f64> {
    let mean = |rounds: &[Round], order: Option<usize>| -> Option<f64> {
        let wanted =
            rounds.iter().filter(|round| order.is_none_or(|order| round.link_order == order));
        let seconds: Vec<f64> =
            wanted.filter_map(|round| Some(round.by(Policy::AsIs)?.processor_seconds())).collect();
        (!seconds.is_empty()).then(|| seconds.iter().sum::<f64>() / seconds.len() as f64)
    };
    let more = |order| {
        let ratios: Vec<f64> = cases
            .iter()
            .filter_map(|rounds| Some((mean(rounds, Some(order))? / mean(rounds, None)?).ln()))
            .collect();
        (ratios.iter().sum::<f64>() / ratios.len().max(1) as f64).exp_m1() * 100.0
    };
    (0..LINK_ORDERS).map(more).collect()
}

impl Report {
    /// Of all journals in a directory.
    pub fn of(journals: &Path) -> Result<Self, Failure> {
        let mut cores = Vec::new();
        for core in CORES {
            let sync = Journal::read(&journals.join(sync_journal(core)))?;
            let sync = sync.map(|journal| SyncReport::of(journal.head, &journal.lines));
            let streams = StreamReport::read(journals, core)?;
            if sync.is_some() || streams.is_some() {
                cores.push(CoreReport { core: core.to_owned(), sync, streams });
            }
        }
        Ok(Self { cores })
    }

    /// Writes `core-policies.json` into a directory.
    pub fn write(&self, out: &Path) -> Result<(), Failure> {
        write_json(&out.join("core-policies.json"), self)
    }
}

impl SyncReport {
    pub(crate) fn of(head: SyncHead, lines: &[SyncRun]) -> Self {
        let policies = head.build.policies();
        let cases: Vec<(Scenario, Vec<Round>)> = Scenario::ALL
            .into_iter()
            .map(|case| (case, rounds_of(lines, case.name, &policies)))
            .filter(|(_, rounds)| !rounds.is_empty())
            .collect();
        let rounds: Vec<Vec<Round>> = cases.iter().map(|(_, rounds)| rounds.clone()).collect();
        let all: Vec<&[Round]> = rounds.iter().map(Vec::as_slice).collect();
        let of_order = |order| {
            let rounds = rounds.iter().flatten().filter(|round| round.link_order == order);
            differences(&[&rounds.cloned().collect::<Vec<_>>()], &policies)
        };
        let cores = head.machine.cores;
        Self {
            all: differences(&all, &policies),
            by_order: (0..LINK_ORDERS).map(of_order).collect(),
            orders_as_is: orders_as_is(&rounds),
            others: Spread::of(lines.iter().map(|line| line.sample.others_share(cores))),
            cases: cases.iter().map(|(case, rounds)| CaseReport::of(&head, case, rounds)).collect(),
            head,
        }
    }
}

impl CaseReport {
    fn of(head: &SyncHead, case: &Scenario, rounds: &[Round]) -> Self {
        let as_is = |value: fn(&Sample) -> f64| {
            Spread::of(rounds.iter().filter_map(|round| round.by(Policy::AsIs)).map(value))
        };
        let runs = |round: &Round| {
            let run = |(policy, sample): &(Policy, Sample)| {
                (*policy, sample.processor_seconds(), sample.seconds)
            };
            round.runs.iter().map(run).collect()
        };
        Self {
            case: case.name.to_owned(),
            dbcache: head.dbcache.get(case.name).copied().unwrap_or_default(),
            prune: case.prune,
            rounds: rounds.len(),
            processor: as_is(Sample::processor_seconds),
            wall: as_is(|sample| sample.seconds),
            differences: differences(&[rounds], &head.build.policies()),
            runs: rounds.iter().map(runs).collect(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::core_policies::record::tests::head;

    /// A run of so many processor seconds, and twice as many seconds.
    pub(crate) fn run(round: usize, policy: Policy, processor: f64) -> SyncRun {
        let sample =
            Sample { user_seconds: processor, seconds: 2.0 * processor, ..Sample::default() };
        SyncRun { case: "files".into(), round, policy, sample, coins: "c".into() }
    }

    /// Rounds in which every policy takes 10 s but one, which takes so many times that.
    pub(crate) fn runs(who: Policy, times: &[f64]) -> Vec<SyncRun> {
        let round = |(round, times): (usize, &f64)| {
            let times = *times;
            Policy::ALL
                .map(|policy| run(round, policy, if policy == who { 10.0 * times } else { 10.0 }))
        };
        times.iter().enumerate().flat_map(round).collect()
    }

    #[test]
    fn differences_are_paired_by_round() {
        let lines = runs(Policy::Plain, &[0.99, 0.98, 0.97, 0.96, 0.95, 0.94]);
        let rounds = rounds_of(&lines, "files", &Policy::ALL);
        let differences = differences(&[&rounds], &Policy::ALL);
        let against = |policy, other| {
            let found = |found: &&Difference| (found.policy, found.against) == (policy, other);
            *differences.iter().find(found).unwrap()
        };
        let of = |policy| against(policy, Policy::AsIs);
        let plain = of(Policy::Plain).processor.unwrap();
        assert!((plain.low + 6.0).abs() < 1e-9 && (plain.high + 1.0).abs() < 1e-9, "{plain:?}");
        let again = of(Policy::Again);
        assert_eq!(again.processor.unwrap().estimate, 0.0);
        assert_eq!((again.rounds, again.detectable), (6, Some(0.0)));
        assert_eq!(of(Policy::Plain).wall.unwrap(), plain);
    }

    #[test]
    fn the_two_policies_without_zeros_are_held_against_each_other() {
        let lines = runs(Policy::Barrier, &[1.25; 6]);
        let of = |policies: &[Policy]| {
            let rounds = rounds_of(&lines, "files", &Policy::ALL);
            let pair = *differences(&[&rounds], policies).last().unwrap();
            (pair.to_string(), pair.processor.unwrap().estimate.round())
        };
        assert_eq!(of(&Policy::ALL), ("plain against barrier".to_owned(), -20.0));
        for less in [&[Policy::AsIs, Policy::Barrier][..], &[Policy::AsIs, Policy::Plain]] {
            assert_eq!(of(less).0, less[1].to_string());
        }
    }

    #[test]
    fn the_pair_that_was_computed_afterwards_follows_from_its_report() {
        let dir = Path::new("../../docs/benchmarks/2026-11-25-amd-epyc-2-cores");
        let read = |name: &str| -> serde_json::Value {
            serde_json::from_slice(&std::fs::read(dir.join(name)).unwrap()).unwrap()
        };
        let (report, computed) = (read("core-policies.json"), read("plain-against-barrier.json"));
        let runs = report.pointer("/cores/0/sync/cases/1/runs").unwrap().clone();
        let runs: Vec<Vec<(Policy, f64, f64)>> = serde_json::from_value(runs).unwrap();
        let processor: fn(&(Policy, f64, f64)) -> f64 = |run| run.1;
        let wall: fn(&(Policy, f64, f64)) -> f64 = |run| run.2;
        for (name, value) in [("processor", processor), ("wall", wall)] {
            let of = |round: &[(Policy, f64, f64)], policy| {
                value(round.iter().find(|run| run.0 == policy).unwrap())
            };
            let ratio = |round: &Vec<_>| of(round, Policy::Plain) / of(round, Policy::Barrier);
            let here = Interval::of_excess(&runs.iter().map(ratio).collect::<Vec<_>>()).unwrap();
            let there: Interval = serde_json::from_value(computed[name].clone()).unwrap();
            assert_eq!(here.count, there.count);
            let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
            assert!(near(here.estimate, there.estimate), "{here:?} {there:?}");
            assert!(near(here.low, there.low) && near(here.high, there.high), "{here:?} {there:?}");
        }
    }

    #[test]
    fn a_round_that_is_not_whole_does_not_count_and_a_later_run_replaces_one() {
        let mut lines = runs(Policy::Plain, &[1.0, 1.0]);
        lines.pop();
        let rounds_of = |lines: &[SyncRun], case| rounds_of(lines, case, &Policy::ALL);
        assert_eq!(rounds_of(&lines, "files").len(), 1);
        lines.push(run(1, Policy::AsIs, 30.0));
        assert_eq!(rounds_of(&lines, "files").len(), 1, "one still lacks");
        lines.push(run(1, Policy::Again, 10.0));
        let rounds = rounds_of(&lines, "files");
        assert_eq!(rounds[1].by(Policy::AsIs).unwrap().user_seconds, 30.0);
        assert_eq!((rounds[0].link_order, rounds[1].link_order), (0, 1));
        assert!(rounds_of(&lines, "peer").is_empty());
    }

    #[test]
    fn what_would_have_been_found() {
        // Logarithms of standard deviation 0.01 over 16 rounds: 2.8 times 0.25 %.
        let swing = 0.01 * (15.0_f64 / 16.0).sqrt();
        let ratios: Vec<f64> =
            (0..16).map(|n| if n % 2 == 0 { swing.exp() } else { (-swing).exp() }).collect();
        let found = detectable(&ratios).unwrap();
        assert!((found - 0.7).abs() < 0.01, "{found}");
        assert_eq!(detectable(&ratios[..5]), None);
    }

    #[test]
    fn link_orders_are_told_apart() {
        // Rounds of order 0 take 1 % more of what ships than the mean of all three.
        let lines: Vec<SyncRun> = (0..6)
            .flat_map(|round| {
                let seconds = if round % 3 == 0 { 10.2 } else { 10.05 };
                Policy::ALL.map(|policy| run(round, policy, seconds))
            })
            .collect();
        let report = SyncReport::of(head(), &lines);
        let [first, second, third] = report.orders_as_is[..] else { panic!("three orders") };
        assert!((first - 0.99).abs() < 0.02 && (second - third).abs() < 1e-9, "{first} {second}");
        assert_eq!(report.by_order.len(), 3);
        assert_eq!(report.by_order[0][0].rounds, 2);
        assert_eq!(report.cases[0].runs[0].len(), 5);
        assert_eq!(report.cases[0].dbcache, 450);
    }
}
