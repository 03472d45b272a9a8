//! Results of the pull request's benchmarks.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;
use crate::interval::Interval;
use crate::spread::Spread;

use super::journal::Journal;
use super::policy::{LINK_ORDERS, Policy};
use super::streams::{BENCHMARKS, Figure, StreamHead, StreamLine, journal_name};

/// The benchmarks on one version of Core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamReport {
    pub head: StreamHead,
    /// By the benchmark's name.
    pub benchmarks: BTreeMap<String, BTreeMap<Policy, PolicyLine>>,
}

/// One benchmark in one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyLine {
    /// Nanoseconds for one unit, over all rounds and link orders.
    pub ns: Option<Spread>,
    /// The medians of each link order.
    pub by_order: Vec<Option<f64>>,
    /// More than what ships, linked in the same order, in the same round, in percent. The interval is for
    /// these three layouts: rounds of one resemble each other, so it says nothing of others.
    pub more: Option<Interval>,
    /// Instructions for one unit, by valgrind.
    pub instructions: Option<f64>,
}

impl StreamReport {
    /// From a directory of journals; `None` where nothing of this Core was measured.
    pub fn read(journals: &Path, core: &str) -> Result<Option<Self>, Failure> {
        let journal: Option<Journal<StreamHead, StreamLine>> =
            Journal::read(&journals.join(journal_name(core)))?;
        Ok(journal.map(|journal| Self::of(journal.head, &journal.lines)))
    }

    fn of(head: StreamHead, lines: &[StreamLine]) -> Self {
        let policies = head.build.policies();
        let report = |name: &str| {
            let lines: Vec<&StreamLine> =
                lines.iter().filter(|line| line.benchmark == name).collect();
            policies.iter().map(|policy| (*policy, PolicyLine::of(&lines, *policy))).collect()
        };
        let benchmarks = BENCHMARKS.iter().map(|b| (b.name.to_owned(), report(b.name)));
        Self { head, benchmarks: benchmarks.collect() }
    }
}

/// Nanoseconds by round and link order.
fn times(lines: &[&StreamLine], policy: Policy) -> BTreeMap<(usize, usize), f64> {
    let of = |line: &&StreamLine| match line.figure {
        Figure::Time { round, ns } if line.policy == policy => Some(((round, line.link_order), ns)),
        _ => None,
    };
    lines.iter().filter_map(of).collect()
}

impl PolicyLine {
    fn of(lines: &[&StreamLine], policy: Policy) -> Self {
        let (own, as_is) = (times(lines, policy), times(lines, Policy::AsIs));
        let ratios: Vec<f64> =
            own.iter().filter_map(|(when, ns)| Some(ns / as_is.get(when)?)).collect();
        let median = |order| {
            let of_order = own.iter().filter(|((_, other), _)| *other == order);
            Spread::of(of_order.map(|(_, ns)| *ns)).map(|spread| spread.median)
        };
        let counts =
            lines.iter().filter(|line| line.policy == policy).filter_map(|line| {
                match line.figure {
                    Figure::Count { instructions } => Some(instructions),
                    Figure::Time { .. } => None,
                }
            });
        Self {
            ns: Spread::of(own.values().copied()),
            by_order: (0..LINK_ORDERS).map(median).collect(),
            more: (policy != Policy::AsIs).then(|| Interval::of_excess(&ratios)).flatten(),
            instructions: Spread::of(counts).map(|spread| spread.median),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::core_policies::record::tests::head;

    /// Three rounds of one benchmark in which plain takes half the time.
    pub(crate) fn report() -> StreamReport {
        let line = |round, policy, link_order, ns| StreamLine {
            benchmark: "DataStreamAlloc".into(),
            policy,
            link_order,
            figure: Figure::Time { round, ns },
        };
        let mut lines = vec![];
        for (round, order) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
            let ns = 0.02 + order as f64 / 100.0;
            lines.push(line(round, Policy::AsIs, order, ns));
            lines.push(line(round, Policy::Plain, order, ns / 2.0));
        }
        let figure = Figure::Count { instructions: 1.14 };
        lines.push(StreamLine { figure, ..line(0, Policy::AsIs, 0, 0.0) });
        let head = head();
        StreamReport::of(StreamHead { machine: head.machine, build: head.build, block: 7 }, &lines)
    }

    #[test]
    fn times_are_paired_by_round_and_link_order() {
        let report = report();
        let lines = &report.benchmarks["DataStreamAlloc"];
        let plain = &lines[&Policy::Plain];
        assert!((plain.more.unwrap().estimate + 50.0).abs() < 1e-9, "{plain:?}");
        assert_eq!(plain.by_order, [Some(0.01), Some(0.015), Some(0.02)]);
        assert_eq!((plain.ns.unwrap().median, plain.instructions), (0.015, None));
        assert_eq!(lines[&Policy::AsIs].instructions, Some(1.14));
        assert_eq!(lines[&Policy::AsIs].more, None);
        assert_eq!(lines[&Policy::Custom].ns, None);
    }
}
