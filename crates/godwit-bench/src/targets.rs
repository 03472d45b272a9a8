//! What the issue asks to reach, held against what was measured.

use std::fmt::{self, Write};

use crate::bench::{Bench, Kind, OURS};
use crate::spread::Spread;
use crate::workloads::Workload;

/// Least number of times that another line must take as long as ours.
struct Target {
    workload: Workload,
    theirs: &'static str,
    times: f64,
}

const CORE: &str = "Core";
const PLAIN_CPP: &str = "C++ std::allocator -O2";

const TARGETS: [Target; 7] = [
    Target { workload: Workload::DeserializeBlock, theirs: CORE, times: 3.0 },
    Target { workload: Workload::DeserializeBlock, theirs: "bitcoin_slices, txids", times: 1.6 },
    Target { workload: Workload::DeserializeBlockUnhashed, theirs: "bitcoin_slices", times: 0.8 },
    Target { workload: Workload::DeserializeAndCheckBlock, theirs: CORE, times: 3.0 },
    Target { workload: Workload::DataStreamAlloc, theirs: PLAIN_CPP, times: 1.0 },
    Target { workload: Workload::DataStreamSerializeScript, theirs: PLAIN_CPP, times: 1.0 },
    Target { workload: Workload::Flush, theirs: "LevelDB", times: 3.0 },
];

/// A table: target, measured, met or not.
pub fn write(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "How many times as long as godwit with plain memory the other one takes for the same work; \
         the middle turn (least..most of all turns). *Met* is judged by the middle one. What a whole sync \
         has to reach stands in the report of `make bench-ibd`.\n"
    )?;
    writeln!(out, "| benchmark | against | to reach | measured | |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    for Target { workload, theirs, times } in &TARGETS {
        let name = workload.name();
        let line = bench.group(name).and_then(|group| {
            group.of_kind(Kind::Rival).chain(group.of_kind(Kind::Control)).find(|line| {
                line.name == *theirs || *theirs == "LevelDB" && line.name.starts_with("LevelDB")
            })
        });
        let measured = line.and_then(|line| bench.group(name)?.ratio(&line.name, OURS));
        write_row(out, name, theirs, &format!("{times} times"), *times, measured)?;
    }
    let flush = Workload::Flush.name();
    let rivals = bench.group(flush).into_iter().flat_map(|group| group.of_kind(Kind::Rival));
    for rival in rivals.filter(|line| !line.name.starts_with("LevelDB")) {
        let measured = bench.group(flush).and_then(|group| group.ratio(&rival.name, OURS));
        write_row(out, flush, &rival.name, "faster than", 1.0, measured)?;
    }
    Ok(())
}

fn write_row(
    out: &mut impl Write,
    benchmark: &str,
    theirs: &str,
    target: &str,
    times: f64,
    measured: Option<Spread>,
) -> fmt::Result {
    let (spread, verdict) = match measured {
        None => ("not measured".to_owned(), ""),
        Some(spread) if spread.median >= times => (times_as(spread), "met"),
        Some(spread) => (times_as(spread), "**not met**"),
    };
    writeln!(out, "| {benchmark} | {theirs} | {target} | {spread} | {verdict} |")
}

/// As in `3.10 (3.02..3.20)`.
pub fn times_as(spread: Spread) -> String {
    let Spread { median, min, max } = spread;
    format!("{median:.2} ({min:.2}..{max:.2})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Group;
    use crate::bench::tests::{bench, line};

    #[test]
    fn met_missed_and_not_measured() {
        let lines = vec![
            line(OURS, Kind::Godwit, &[10, 10, 10]),
            line(CORE, Kind::Rival, &[29, 30, 31]),
            line("bitcoin_slices, txids", Kind::Rival, &[15, 15, 16]),
        ];
        let group = Group { name: Workload::DeserializeBlock.name().to_owned(), lines };
        let flush = Group {
            name: Workload::Flush.name().to_owned(),
            lines: vec![
                line(OURS, Kind::Godwit, &[10]),
                line("LevelDB, Core's settings", Kind::Rival, &[30]),
                line("redb", Kind::Rival, &[9]),
            ],
        };
        let mut out = String::new();
        write(&mut out, &bench(vec![group, flush])).unwrap();
        assert!(out.contains("| Core | 3 times | 3.00 (2.90..3.10) | met |"), "{out}");
        assert!(out.contains("| 1.6 times | 1.50 (1.50..1.60) | **not met** |"), "{out}");
        assert!(out.contains("| LevelDB | 3 times | 3.00 (3.00..3.00) | met |"), "{out}");
        assert!(out.contains("| redb | faster than | 0.90 (0.90..0.90) | **not met** |"), "{out}");
        assert_eq!(out.matches("not measured").count(), 4, "{out}");
    }
}
