//! Compares the measurements with the targets of the benchmarks.

use std::fmt::{self, Write};

use crate::bench::{Bench, Group, Kind, OURS};
use crate::interval::Interval;
use crate::workloads::Workload;

/// Least number of times that another line must take as long as ours.
struct Target {
    workload: Workload,
    /// How the other line's name begins.
    theirs: &'static str,
    times: f64,
    /// What the two do.
    work: &'static str,
}

const CORE: &str = "Core";
const PLAIN_CPP: &str = "C++ std::allocator -O2";

const SAME: &str = "the same";

/// Core's decoder makes objects; ours keeps the bytes and makes a table of where transactions begin.
const OTHER_FORM: &str = "another result: Core allocates and frees an object for each transaction, input and \
                          output, godwit keeps the bytes and a table of them; hashing is the same";

const TARGETS: [Target; 7] = [
    Target { workload: Workload::DeserializeBlock, theirs: CORE, times: 3.5, work: OTHER_FORM },
    Target {
        workload: Workload::DeserializeBlock,
        theirs: "bitcoin_slices, txids",
        times: 1.6,
        work: SAME,
    },
    Target {
        workload: Workload::DeserializeBlockUnhashed,
        theirs: "bitcoin_slices",
        times: 0.8,
        work: SAME,
    },
    Target {
        workload: Workload::DeserializeAndCheckBlock,
        theirs: CORE,
        times: 4.0,
        work: OTHER_FORM,
    },
    Target { workload: Workload::DataStreamAlloc, theirs: PLAIN_CPP, times: 1.0, work: SAME },
    Target {
        workload: Workload::DataStreamSerializeScript,
        theirs: PLAIN_CPP,
        times: 1.0,
        work: SAME,
    },
    Target { workload: Workload::Flush, theirs: "LevelDB", times: 3.0, work: FLUSH },
];

const FLUSH: &str = "the same coins, durable; the other is given them serialised and sorts them if it wants \
                     them sorted, godwit's memtable has them in order as it fills, which is timed too";

/// A table: target, measured, met or not.
pub fn write(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "How many times as long as godwit with plain memory the other one takes: estimate and 95 % interval \
         over the rounds. A target is *met* when the whole interval lies at or above it, *not met* when it \
         lies below, *open* when it contains it. Targets are those of the source at the commit above, and \
         were not changed after the run; the two against Core were 3 times until 2026-11-24. The target of a whole sync is in the report of `make \
         bench-ibd`.\n"
    )?;
    writeln!(out, "| benchmark | against | work | target | measured | |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for Target { workload, theirs, times, work } in &TARGETS {
        let name = workload.name();
        let line = bench.group(name).and_then(|group| {
            let rivals = group.of_kind(Kind::Rival).chain(group.of_kind(Kind::Control));
            let exact = |line: &&crate::bench::Line| match *theirs {
                "LevelDB" => line.name.starts_with("LevelDB"),
                theirs => line.name == theirs,
            };
            Some((group, rivals.into_iter().find(exact)?))
        });
        let row = Row { benchmark: name, theirs, work, target: format!("{times} times") };
        write_row(out, &row, *times, line.map(|(group, line)| (group, &*line.name)))?;
    }
    let flush = Workload::Flush.name();
    let Some(group) = bench.group(flush) else { return Ok(()) };
    for rival in group.of_kind(Kind::Rival).filter(|line| !line.name.starts_with("LevelDB")) {
        let (theirs, target) = (&*rival.name, "faster than".to_owned());
        let row = Row { benchmark: flush, theirs, work: FLUSH, target };
        write_row(out, &row, 1.0, Some((group, theirs)))?;
    }
    Ok(())
}

struct Row<'a> {
    benchmark: &'a str,
    theirs: &'a str,
    work: &'a str,
    target: String,
}

fn write_row(
    out: &mut impl Write,
    row: &Row<'_>,
    times: f64,
    line: Option<(&Group, &str)>,
) -> fmt::Result {
    let Row { benchmark, theirs, work, target } = row;
    let (measured, verdict) = match line {
        None => ("not measured".to_owned(), ""),
        Some((group, line)) => match group.ratio(line, OURS) {
            None => ("too few rounds".to_owned(), ""),
            Some(ratio) => (times_as(group, [line, OURS], ratio), verdict(ratio, times)),
        },
    };
    writeln!(out, "| {benchmark} | {theirs} | {work} | {target} | {measured} | {verdict} |")
}

/// What an interval says of a target that is a least ratio.
pub fn verdict(ratio: Interval, target: f64) -> &'static str {
    match (ratio.low >= target, ratio.high < target) {
        (true, _) => "met",
        (false, true) => "**not met**",
        (false, false) => "open",
    }
}

/// A ratio of two lines, as in `3.10 (3.02–3.20)`, marked where one of them is unstable.
pub fn times_as(group: &Group, lines: [&str; 2], ratio: Interval) -> String {
    let mark = if group.is_unstable(lines) { " unstable" } else { "" };
    format!("{}{mark}", times(ratio))
}

/// As in `3.10 (3.02–3.20)`.
pub fn times(Interval { estimate, low, high, .. }: Interval) -> String {
    format!("{estimate:.2} ({low:.2}–{high:.2})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{bench, line};

    #[test]
    fn met_missed_and_not_measured() {
        let lines = vec![
            line(OURS, Kind::Godwit, &[10; 6]),
            line(CORE, Kind::Rival, &[36, 36, 36, 37, 36, 36]),
            line("bitcoin_slices, txids", Kind::Rival, &[15, 15, 15, 15, 15, 20]),
        ];
        let group = Group { name: Workload::DeserializeBlock.name().to_owned(), lines };
        let flush = Group {
            name: Workload::Flush.name().to_owned(),
            lines: vec![
                line(OURS, Kind::Godwit, &[10; 6]),
                line("LevelDB, Core's settings", Kind::Rival, &[30; 6]),
                line("redb", Kind::Rival, &[9; 6]),
                line("LMDB", Kind::Rival, &[20; 5]),
            ],
        };
        let mut out = String::new();
        write(&mut out, &bench(vec![group, flush])).unwrap();
        assert!(out.contains("| 3.5 times | 3.60 (3.60–3.70) | met |"), "{out}");
        assert!(out.contains("| 1.6 times | 1.50 (1.50–2.00) | open |"), "{out}");
        assert!(out.contains("| 3 times | 3.00 (3.00–3.00) | met |"), "{out}");
        assert!(out.contains("| faster than | 0.90 (0.90–0.90) | **not met** |"), "{out}");
        assert!(out.contains("| faster than | too few rounds |  |"), "{out}");
        assert_eq!(out.matches("not measured").count(), 4, "{out}");
    }

    /// Both sides of each end.
    #[test]
    fn a_target_within_the_interval_is_open() {
        let ratio = Interval { estimate: 3.0, low: 2.0, high: 4.0, count: 6 };
        for (target, said) in
            [(1.9, "met"), (2.0, "met"), (2.1, "open"), (4.0, "open"), (4.1, "**not met**")]
        {
            assert_eq!(verdict(ratio, target), said, "{target}");
        }
    }

    #[test]
    fn a_ratio_of_an_unstable_line_is_marked() {
        let lines = vec![
            line(OURS, Kind::Godwit, &[10; 6]),
            line(CORE, Kind::Rival, &[20, 40, 20, 40, 20, 40]),
        ];
        let group = Group { name: "x".to_owned(), lines };
        let text = times_as(&group, [CORE, OURS], group.ratio(CORE, OURS).unwrap());
        assert!(text.ends_with(" unstable"), "{text}");
        assert!(!times_as(&group, [OURS, OURS], group.ratio(OURS, OURS).unwrap()).contains("unst"));
    }
}
