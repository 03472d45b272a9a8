//! The result of one run of `godwit-bench`: the content of `bench.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::harness::Epoch;
use crate::harness::figures::Figures;
use crate::interval::Interval;
use crate::system::System;

/// Name of the line that is what ships.
pub const OURS: &str = "godwit, plain";

/// How the names of the groups of secrets begin.
pub const SECRETS: &str = "Secrets: ";

/// Everything that was measured. Every number on the pages that are made of it is computed from here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    pub system: System,
    /// What made the figures noisy.
    pub warnings: Vec<String>,
    /// On which block.
    pub fixture: Fixture,
    /// Least milliseconds of each line.
    pub min_time: u64,
    /// Seconds from the start of the run to its end. Reports before it was measured have none.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// The benchmarks in the order in which they ran.
    pub groups: Vec<Group>,
    /// Medians by name, for pages elsewhere that quote them; made by [`Bench::with_figures`].
    pub figures: BTreeMap<String, f64>,
}

/// The block that the workloads decode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fixture {
    pub name: String,
    pub bytes: usize,
    pub transactions: usize,
    /// Their inputs, the coinbase's aside. Reports before it was counted have none.
    #[serde(default)]
    pub inputs: usize,
}

/// Lines that ran in the same rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    /// Who ran it.
    pub lines: Vec<Line>,
}

/// What a line is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Godwit,
    /// C++ with one allocator or another.
    Control,
    /// Another program for the same work.
    Rival,
    /// A part of the work without the rest, or what the machine can do of it.
    #[serde(alias = "limit")]
    Reference,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Who; unique in its group.
    pub name: String,
    pub kind: Kind,
    /// What a figure is given per.
    pub unit: String,
    /// How many of them an iteration works through.
    pub units_per_iteration: f64,
    pub epochs: Vec<Epoch>,
    /// Instructions of one iteration as valgrind counts them.
    pub callgrind: Option<f64>,
}

impl Line {
    /// The row's numbers; `None` of a line without epochs.
    pub fn figures(&self) -> Option<Figures> {
        Figures::of(&self.epochs, self.units_per_iteration)
    }

    /// Instructions per unit: the processor's count, else valgrind's, which is then marked with
    /// `true`.
    pub fn instructions(&self) -> Option<(f64, bool)> {
        let counted = self.figures().and_then(|figures| figures.counted);
        let by_callgrind = self.callgrind.map(|count| (count / self.units_per_iteration, true));
        counted.map(|counted| (counted.instructions, false)).or(by_callgrind)
    }
}

impl Group {
    /// The line of that name.
    pub fn line(&self, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.name == name)
    }

    /// How many times as long as `ours` `theirs` took for each unit, round by round. `None` when one of
    /// them did not run, when they are given per different units, and of fewer than six rounds.
    pub fn ratio(&self, theirs: &str, ours: &str) -> Option<Interval> {
        let rounds = self.rounds(theirs, ours)?;
        Interval::of_ratios(&rounds.map(|(theirs, ours)| theirs / ours).collect::<Vec<_>>())
    }

    /// What `more` takes more than `less`, in percent; `None` where [`Self::ratio`] is.
    pub fn excess(&self, more: &str, less: &str) -> Option<Interval> {
        let rounds = self.rounds(more, less)?;
        Interval::of_excess(&rounds.map(|(more, less)| more / less).collect::<Vec<_>>())
    }

    /// The same in nanoseconds per unit.
    pub fn difference(&self, more: &str, less: &str) -> Option<Interval> {
        let rounds = self.rounds(more, less)?;
        Interval::of(&rounds.map(|(more, less)| more - less).collect::<Vec<_>>())
    }

    /// Whether the epochs of one of these lines differ too much for a figure to be relied on.
    pub fn is_unstable(&self, lines: [&str; 2]) -> bool {
        let mut figures = lines.into_iter().filter_map(|name| self.line(name)?.figures());
        figures.any(|figures| figures.is_unstable())
    }

    /// Nanoseconds per unit of both, round by round.
    fn rounds(&self, one: &str, other: &str) -> Option<impl Iterator<Item = (f64, f64)>> {
        let (one, other) = (self.line(one)?, self.line(other)?);
        let per_unit =
            |line: &Line, epoch: &Epoch| epoch.per_iteration() / line.units_per_iteration;
        let pairs = one.epochs.iter().zip(&other.epochs);
        let rounds = pairs.map(move |(a, b)| (per_unit(one, a), per_unit(other, b)));
        (one.unit == other.unit).then_some(rounds)
    }

    /// The line that line `i` is measured by: the one that ships, or in a group of secrets, where plain
    /// and locked stand in pairs, the plain one of its pair.
    pub fn beside(&self, i: usize) -> Option<&Line> {
        match self.name.starts_with(SECRETS) {
            true => self.lines.get(i - i % 2),
            false => self.line(OURS),
        }
    }

    /// Lines of one kind.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.kind == kind)
    }
}

impl Bench {
    /// The benchmark of that name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// With [`Bench::figures`] computed: `BENCHMARK.LINE.ns` per unit; `BENCHMARK.LINE.times`, how many
    /// times as long as the line it is measured by ([`Group::beside`]) it took, and the ends of its interval,
    /// `.times-low` and `.times-high`; for the other policies also `BENCHMARK.LINE.more`, `.more-low` and
    /// `.more-high`, percent more with its interval.
    pub fn with_figures(mut self) -> Self {
        let mut figures = BTreeMap::new();
        for group in &self.groups {
            for (i, line) in group.lines.iter().enumerate() {
                let name = format!("{}.{}", slug(&group.name), slug(&line.name));
                if let Some(figure) = line.figures() {
                    figures.insert(format!("{name}.ns"), figure.nanoseconds.median);
                }
                if let Some((instructions, _)) = line.instructions() {
                    figures.insert(format!("{name}.instructions"), instructions);
                }
                let beside = group.beside(i).map(|beside| &*beside.name);
                if let Some(times) = beside.and_then(|beside| group.ratio(&line.name, beside)) {
                    figures.insert(format!("{name}.times"), times.estimate);
                    figures.insert(format!("{name}.times-low"), times.low);
                    figures.insert(format!("{name}.times-high"), times.high);
                }
                if let Some(more) = group.excess(&line.name, OURS)
                    && line.kind == Kind::Godwit
                {
                    figures.insert(format!("{name}.more"), more.estimate);
                    figures.insert(format!("{name}.more-low"), more.low);
                    figures.insert(format!("{name}.more-high"), more.high);
                }
            }
        }
        self.figures = figures;
        self
    }
}

/// A name as a part of a figure's or file's name: `cpp-std-allocator-o2`.
pub fn slug(name: &str) -> String {
    let spelled = name.to_lowercase().replace("c++", "cpp");
    let words = spelled.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::harness::Counts;

    /// A line with epochs of so many nanoseconds for each unit.
    pub(crate) fn line(name: &str, kind: Kind, nanoseconds: &[u64]) -> Line {
        let epoch = |n: &u64| Epoch { iterations: 10, nanoseconds: n * 1_000, counts: None };
        Line {
            name: name.to_owned(),
            kind,
            unit: "byte".to_owned(),
            units_per_iteration: 100.0,
            epochs: nanoseconds.iter().map(epoch).collect(),
            callgrind: None,
        }
    }

    pub(crate) fn bench(groups: Vec<Group>) -> Bench {
        Bench {
            system: System::here(false),
            warnings: vec!["noise".to_owned()],
            fixture: Fixture { name: "block".to_owned(), bytes: 1_000, transactions: 2, inputs: 3 },
            min_time: 5,
            seconds: Some(90.0),
            groups,
            figures: BTreeMap::new(),
        }
        .with_figures()
    }

    pub(crate) fn group() -> Group {
        let mut counted = line("C++ custom, nothing -O2", Kind::Control, &[6, 6, 8, 6, 6, 6]);
        for epoch in &mut counted.epochs {
            epoch.counts = Some(Counts {
                instructions: 5_000,
                cycles: 1_000,
                branches: 500,
                branch_misses: 5,
            });
        }
        let mut by_valgrind = line("godwit, zero-after-free", Kind::Godwit, &[3, 3, 3, 3, 3, 3]);
        by_valgrind.callgrind = Some(50.0);
        Group {
            name: "DataStreamAlloc".to_owned(),
            lines: vec![line(OURS, Kind::Godwit, &[2, 2, 2, 2, 2, 3]), by_valgrind, counted],
        }
    }

    #[test]
    fn json_round_trip() {
        let before = bench(vec![group()]);
        let text = serde_json::to_string(&before).unwrap();
        let after: Bench = serde_json::from_str(&text).unwrap();
        assert_eq!(after, before);
    }

    #[test]
    fn figures_by_name() {
        let bench = bench(vec![group()]);
        let figure = |name: &str| bench.figures.get(name).copied();
        assert_eq!(figure("datastreamalloc.godwit-plain.ns"), Some(2.0));
        assert_eq!(figure("datastreamalloc.godwit-plain.times"), Some(1.0));
        let times = figure("datastreamalloc.cpp-custom-nothing-o2.times").unwrap();
        assert!((times - 3.0).abs() < 1e-9, "{times}");
        let low = figure("datastreamalloc.cpp-custom-nothing-o2.times-low").unwrap();
        assert!((low - 2.0).abs() < 1e-9, "{low}");
        assert_eq!(figure("datastreamalloc.cpp-custom-nothing-o2.instructions"), Some(5.0));
        assert_eq!(figure("datastreamalloc.godwit-zero-after-free.instructions"), Some(0.5));
        assert_eq!(figure("datastreamalloc.godwit-plain.instructions"), None);
    }

    #[test]
    fn what_a_policy_takes_more_round_by_round() {
        let times = |factor: u64| [10, 20, 30, 20, 10, 20].map(|n| n * factor);
        let lines = vec![
            line(OURS, Kind::Godwit, &times(10)),
            line("godwit, zero-after-free", Kind::Godwit, &times(11)),
        ];
        let group = Group { name: "DataStreamAlloc".to_owned(), lines };
        let excess = group.excess("godwit, zero-after-free", OURS).unwrap();
        assert!((excess.low - 10.0).abs() < 1e-9 && (excess.high - 10.0).abs() < 1e-9);
        let difference = group.difference("godwit, zero-after-free", OURS).unwrap();
        assert_eq!((difference.low, difference.estimate, difference.high), (10.0, 20.0, 30.0));
        assert_eq!(group.excess("nobody", OURS), None);
        let figures = bench(vec![group]).figures;
        let more = figures["datastreamalloc.godwit-zero-after-free.more"];
        assert!((more - 10.0).abs() < 1e-9, "{more}");
    }

    #[test]
    fn no_ratio_between_different_units() {
        let mut group = group();
        group.lines[1].unit = "block".to_owned();
        assert_eq!(group.ratio("godwit, zero-after-free", OURS), None);
        assert_eq!(group.ratio("nobody", OURS), None);
        group.lines[2].epochs.truncate(5);
        assert_eq!(group.ratio("C++ custom, nothing -O2", OURS), None, "five rounds");
    }
}
