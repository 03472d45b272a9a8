//! `bench.md`: the run's page, to be read beside the pull request.

use std::fmt::{self, Write};

use crate::bench::{Bench, Group, Kind, OURS, SECRETS, slug};
use crate::duration::duration;
use crate::interval::Interval;
use crate::targets::{self, times_as};
use crate::workloads::Workload;
use crate::{references, table, words};

/// How long a run with its default options may take.
const MINUTES: f64 = 15.0;

/// Name of a benchmark's plot beside the page.
pub fn plot_name(slug: &str) -> String {
    format!("bench-{slug}.svg")
}

pub fn write(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "# The benchmarks of bitcoin/bitcoin#30987 on godwit\n\n{}\n\nBlock: {}.\n\n{}\n",
        bench.system,
        bench.fixture,
        duration(bench.seconds, MINUTES)
    )?;
    write_warnings(out, bench)?;
    writeln!(out, "## Targets\n")?;
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
    writeln!(out, "\n## What secrecy costs\n")?;
    write_secrets(out, bench)?;
    writeln!(out, "\n## Beside references\n")?;
    references::write(out, bench)?;
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
    let plot = plot_name(&slug(&group.name));
    writeln!(out, "\n![{}: nanoseconds of each line]({plot})", group.name)?;
    out.write_char('\n')
}

/// What the other two policies cost, round by round.
fn write_policies(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "Time more than plain memory's, with the 95 % interval over the rounds; *within noise* where that \
         contains zero. *Unstable*: the epochs of one of the lines differ by more than 5 %.\n"
    )?;
    writeln!(out, "| benchmark | barrier-only | zero-after-free |\n|---|---:|---:|")?;
    for group in bench.groups.iter().filter(|group| group.line(OURS).is_some()) {
        let more = |name| {
            let mark = if group.is_unstable([name, OURS]) { " unstable" } else { "" };
            percent(group.excess(name, OURS)) + mark
        };
        let (barrier, zero) = (more("godwit, barrier-only"), more("godwit, zero-after-free"));
        writeln!(out, "| {} | {barrier} | {zero} |", group.name)?;
    }
    Ok(())
}

fn percent(excess: Option<Interval>) -> String {
    let Some(interval) = excess else { return "-".to_owned() };
    let Interval { estimate, low, high, .. } = interval;
    match interval.is_real() {
        true => format!("{estimate:+.1} % ({low:+.1} to {high:+.1})"),
        false => format!("within noise ({low:+.1} to {high:+.1} %)"),
    }
}

fn write_rivals(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "Time as a multiple of godwit's with plain memory: estimate and 95 % interval over the rounds.\n"
    )?;
    writeln!(out, "| benchmark | other | times |\n|---|---|---:|")?;
    for group in bench.groups.iter().filter(|group| group.line(OURS).is_some()) {
        for line in group.of_kind(Kind::Rival).chain(group.of_kind(Kind::Control)) {
            let times = cell(group, &line.name, OURS);
            writeln!(out, "| {} | {} | {times} |", group.name, line.name)?;
        }
    }
    Ok(())
}

/// Locked memory, its keys and encrypted connections beside the plain ones, round by round.
fn write_secrets(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "Time as a multiple of the plain line's: estimate and 95 % interval. A signature by a locked key \
         is made on a stack that is wiped afterwards, and verified before it is given out; the plain one \
         is neither.\n"
    )?;
    writeln!(out, "| benchmark | line | beside | times |\n|---|---|---|---:|")?;
    for group in bench.groups.iter().filter(|group| group.name.starts_with(SECRETS)) {
        for pair in group.lines.chunks_exact(2) {
            let [plain, locked] = [&pair[0].name, &pair[1].name];
            let times = cell(group, locked, plain);
            writeln!(out, "| {} | {locked} | {plain} | {times} |", group.name)?;
        }
    }
    Ok(())
}

fn cell(group: &Group, one: &str, other: &str) -> String {
    let ratio = group.ratio(one, other);
    ratio.map_or_else(|| "-".to_owned(), |ratio| times_as(group, [one, other], ratio))
}

fn write_method(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    let counters = match bench.system.has_counters {
        true => "Counters are the processor's, of the measuring thread, in user mode.",
        false => "This system gives no hardware counters.",
    };
    writeln!(
        out,
        "Lines of one benchmark run in rounds, one epoch each, in orders in which each has each place and comes \
         directly behind each other one equally often (Williams's squares); {} ms for \
         each line, all its epochs together, but one iteration an epoch for the flushes, after one that \
         is not timed. Each policy is a program of its own, the same source built with another allocator behind the product's \
         streams, asked for the allocator's type and searched for the function that wipes before \
         it ran. Each of its epochs has a new process, behind one that is not timed, so that where one process happens to \
         lie in memory is not taken for its policy. Intervals are those of Wilcoxon's signed-rank test on the \
         rounds' ratios, estimates those of Hodges and Lehmann. {counters} C++ subjects have the flags of Bitcoin Core's build and differ in the \
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
    use crate::bench::tests::{bench, line};

    #[test]
    fn every_section_has_its_lines() {
        let lines = vec![
            line(OURS, Kind::Godwit, &[10, 10, 10, 11, 10, 10]),
            line("godwit, barrier-only", Kind::Godwit, &[10, 11, 10, 10, 10, 10]),
            line("godwit, zero-after-free", Kind::Godwit, &[15, 15, 15, 16, 15, 15]),
            line("C++ custom", Kind::Control, &[30, 30, 30, 33, 30, 30]),
        ];
        let group = Group { name: "DataStreamAlloc".to_owned(), lines };
        let mut out = String::new();
        write(&mut out, &bench(vec![group])).unwrap();
        for part in [
            "- noise",
            "The run took 1.5 minutes (90 s), what was built before it aside; it has 15.",
            "![DataStreamAlloc: nanoseconds of each line](bench-datastreamalloc.svg)",
            "| DataStreamAlloc | within noise (-9.1 to +10.0 %) | +50.0 % (+45.5 to +50.0) |",
            "| DataStreamAlloc | C++ custom | 3.00 (3.00–3.00) |",
            "not measured",
            "| DataStreamAlloc: barrier only | 5.08 | 5.07 | 0.12 |",
        ] {
            assert!(out.contains(part), "{part}\n{out}");
        }
    }
}
