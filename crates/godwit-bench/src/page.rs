//! `bench.md`: the run's page, to be read beside the pull request.

use std::fmt::{self, Write};

use crate::bench::{Bench, Group, Kind, OURS, slug};
use crate::contenders::LIMITS;
use crate::spread::Spread;
use crate::targets::{self, times_as};
use crate::workloads::Workload;
use crate::{table, words};

/// Name of a benchmark's plot beside the page.
pub fn plot_name(slug: &str) -> String {
    format!("bench-{slug}.svg")
}

/// The page.
pub fn write(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "# The benchmarks of bitcoin/bitcoin#30987 on godwit\n\n{}\n\nBlock: {}.\n",
        bench.system, bench.fixture
    )?;
    write_warnings(out, bench)?;
    writeln!(out, "## To reach\n")?;
    targets::write(out, bench)?;
    writeln!(
        out,
        "\n## The table\n\nnanobench's columns, medians over the epochs. {}\n",
        table::LEGEND
    )?;
    for group in &bench.groups {
        write_group(out, group)?;
    }
    writeln!(out, "## Where the pull request's difference comes from\n")?;
    words::write(out, bench)?;
    writeln!(out, "\n## godwit's three policies\n")?;
    write_policies(out, bench)?;
    writeln!(out, "\n## Beside others\n")?;
    write_rivals(out, bench)?;
    writeln!(out, "\n## How far from what the machine can do\n")?;
    write_limits(out, bench)?;
    writeln!(out, "\n## How\n")?;
    write_method(out, bench)
}

fn write_warnings(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    if bench.warnings.is_empty() {
        return Ok(());
    }
    writeln!(out, "What makes the figures noisy here:\n")?;
    for warning in &bench.warnings {
        writeln!(out, "- {warning}")?;
    }
    out.write_char('\n')
}

fn write_group(out: &mut impl Write, group: &Group) -> fmt::Result {
    writeln!(out, "### {}\n", group.name)?;
    table::write_group(out, group)?;
    if group.name != LIMITS {
        let plot = plot_name(&slug(&group.name));
        writeln!(out, "\n![{}: nanoseconds of each line]({plot})", group.name)?;
    }
    out.write_char('\n')
}

/// What the other two policies cost, turn by turn.
fn write_policies(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(out, "Time as a multiple of plain memory's, middle turn (least..most).\n")?;
    writeln!(out, "| benchmark | barrier-only | zero-after-free |\n|---|---:|---:|")?;
    for group in bench.groups.iter().filter(|group| group.line(OURS).is_some()) {
        let times = |name| cell(group.ratio(name, OURS));
        let (barrier, zero) = (times("godwit, barrier-only"), times("godwit, zero-after-free"));
        writeln!(out, "| {} | {barrier} | {zero} |", group.name)?;
    }
    Ok(())
}

fn write_rivals(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "Time as a multiple of godwit's with plain memory, middle turn (least..most).\n"
    )?;
    writeln!(out, "| benchmark | other | times |\n|---|---|---:|")?;
    for group in &bench.groups {
        for line in group.of_kind(Kind::Rival).chain(group.of_kind(Kind::Control)) {
            let times = cell(group.ratio(&line.name, OURS));
            writeln!(out, "| {} | {} | {times} |", group.name, line.name)?;
        }
    }
    Ok(())
}

/// Shares of a machine's limit, where the limit is given per the same unit.
fn write_limits(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "100 % would be as fast as the limit alone, in the middle turn. A limit of one message is passed \
         by those who hash many at once, and that of whole transactions by those who leave witnesses \
         out of what they hash.\n"
    )?;
    writeln!(out, "| benchmark | limit | line | share |\n|---|---|---|---:|")?;
    for group in bench.groups.iter().filter(|group| group.name != LIMITS) {
        for limit in group.of_kind(Kind::Limit) {
            for line in group.lines.iter().filter(|line| line.kind != Kind::Limit) {
                let Some(share) = group.ratio(&limit.name, &line.name) else { continue };
                writeln!(
                    out,
                    "| {} | {} | {} | {:.1} % |",
                    group.name,
                    limit.name,
                    line.name,
                    share.median * 100.0
                )?;
            }
        }
    }
    Ok(())
}

fn cell(spread: Option<Spread>) -> String {
    spread.map_or_else(|| "-".to_owned(), times_as)
}

fn write_method(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    let counters = match bench.system.has_counters {
        true => "Counters are the processor's, of the measuring thread, in user mode.",
        false => "This system gives no hardware counters.",
    };
    writeln!(
        out,
        "Lines of one benchmark take turns, one epoch each, another one first in each turn; {} ms for \
         each line, all its epochs together, but one iteration an epoch for the flushes, after one that \
         is not timed. Each policy is a process of its own, the same source built with another allocator behind the product's \
         streams, and was asked for the allocator's type and searched for the function that wipes before \
         it ran. {counters} C++ subjects have the flags of Bitcoin Core's build and differ in the \
         allocator alone. Every flush ends with its files and directories synced; `{}` adds the same \
         prepared coins in each line; the other stores keep them in Core's serialised form, which is made \
         in the timed body, as is the order of those that want their coins sorted, and need no coins \
         cache, since they are given all of them at once. LevelDB has the pull request's cache of 1.6 \
         MiB, and batches and files of 32 MiB as Core has them now. `{}` encodes by copying the bytes \
         that godwit keeps of a block, and ends with CheckBlock: nothing looks for the block before \
         it. Of a transaction with a witness Core's decoder computes the wtxid too, godwit's does not.",
        bench.min_time,
        Workload::Flush.name(),
        Workload::ProcessMessageBlock.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{bench, group, line};

    #[test]
    fn every_section_has_its_lines() {
        let mut group = group();
        group.lines.push(line("memcpy", Kind::Limit, &[1, 1, 1]));
        let mut out = String::new();
        write(&mut out, &bench(vec![group])).unwrap();
        for part in [
            "- noise",
            "![DataStreamAlloc: nanoseconds of each line](bench-datastreamalloc.svg)",
            "| DataStreamAlloc | - | 1.50 (1.00..1.50) |",
            "| DataStreamAlloc | C++ custom, nothing -O2 | 3.00 (2.00..4.00) |",
            "| DataStreamAlloc | memcpy | godwit, plain | 50.0 % |",
            "not measured",
            "| DataStreamAlloc: barrier only | 5.08 | 5.07 | 0.12 |",
        ] {
            assert!(out.contains(part), "{part}\n{out}");
        }
    }
}
