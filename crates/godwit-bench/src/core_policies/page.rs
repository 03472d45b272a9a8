//! Writes the cost of the memory policies in Bitcoin Core as `core-policies.md`.

use std::fmt::{self, Write};
use std::path::Path;

use crate::failure::Failure;
use crate::interval::Interval;
use crate::quiet;
use crate::report_files::write_text;
use crate::spread::Spread;

use super::policy::Policy;
use super::record::Build;
use super::results::{CaseReport, CoreReport, Difference, Report, SyncReport};
use super::schedule::{HALF_WIDTH, MOST_ROUNDS, is_known, widest};
use super::stream_results::{PolicyLine, StreamReport};
use super::streams::BENCHMARKS;

/// Writes `core-policies.md` into a directory.
pub fn write(out: &Path, report: &Report) -> Result<(), Failure> {
    let text = markdown(report).expect("a String takes all that is written to it");
    write_text(&out.join("core-policies.md"), &text)
}

fn markdown(report: &Report) -> Result<String, fmt::Error> {
    let mut out = String::from("# What wiping freed memory costs Bitcoin Core\n\n");
    writeln!(
        out,
        "Bitcoin Core built from its own source in the memory policies of bitcoin/bitcoin#30987, by \
         `tools/build-core-policies`: **as-is**, what it ships; **barrier**, the call and the compiler barrier without the \
         zeros; **plain**, `SerializeData` as `std::vector<std::byte>`; **custom**, if it was built, an allocator of its own type that \
         does what `std::allocator` does; **again**, the programs of as-is once more, whose difference is known to be none. \
         Each is linked with its objects in three orders. Differences are against as-is unless a column names \
         another, linked in the same order, in the same round, in percent, with their 95 % intervals (Hodges and Lehmann's \
         estimate, Wilcoxon's signed-rank test). \
         28.99 is of the pull request's time; which commit it is, and so whether it is the pull request's, is not known.\n"
    )?;
    for core in &report.cores {
        write_core(&mut out, core)?;
    }
    Ok(out.trim_end().to_owned() + "\n")
}

fn write_core(out: &mut String, core: &CoreReport) -> fmt::Result {
    writeln!(out, "## Bitcoin Core {}\n", core.core)?;
    if let Some(sync) = &core.sync {
        write_sync(out, sync)?;
    }
    if let Some(streams) = &core.streams {
        write_streams(out, streams)?;
    }
    let build = core.sync.as_ref().map(|sync| &sync.head.build);
    let build = build.or(core.streams.as_ref().map(|streams| &streams.head.build));
    build.map_or(Ok(()), |build| write_build(out, build))
}

fn write_sync(out: &mut String, sync: &SyncReport) -> fmt::Result {
    let SyncReport { head, all, others, cases, .. } = sync;
    writeln!(
        out,
        "### Whole syncs\n\n{}.\n{}.\n\nThe chain: plan {} of {} MB, {} blocks, {} coins at its end. Scripts are assumed \
         valid; a peer is a godwit on the same machine, over an encrypted connection. After each run the hash of its coins \
         was compared: all are equal. A case is to have rounds until half the width of each of its intervals of processor \
         time is at most {HALF_WIDTH} %, but at most {MOST_ROUNDS} if the measurement was not told otherwise. {}.\n",
        head.machine,
        head.build.version,
        head.chain.plan,
        head.chain.bytes / 1_000_000,
        head.chain.height,
        head.chain.txouts,
        cases.iter().map(ending).collect::<Vec<_>>().join("; "),
    )?;
    if let Some(others) = others {
        writeln!(out, "{}\n", quiet::verdict(*others, "a run, the server aside"))?;
    }
    writeln!(out, "Processor time more than as-is, in percent:\n")?;
    write_differences(out, all, cases, |difference| difference.processor)?;
    writeln!(out, "\nTime from start to exit more than as-is, in percent:\n")?;
    write_differences(out, all, cases, |difference| difference.wall)?;
    writeln!(out, "\nSeconds of as-is, medians with their range:\n")?;
    writeln!(
        out,
        "| case | -dbcache MiB | -prune MiB | processor s | s |\n|---|---:|---:|---:|---:|"
    )?;
    for CaseReport { case, dbcache, prune, processor, wall, .. } in cases {
        let prune = prune.map_or("none".to_owned(), |mib| mib.to_string());
        writeln!(
            out,
            "| {case} | {dbcache} | {prune} | {} | {} |",
            range(*processor, 2),
            range(*wall, 2)
        )?;
    }
    write_orders(out, sync)?;
    write_power(out, all)
}

/// How a case ended, which may be by its rounds, by the time that it had or by an interruption.
fn ending(case: &CaseReport) -> String {
    let CaseReport { case: name, rounds, differences, .. } = case;
    let known: Vec<_> = differences.iter().map(|difference| difference.processor).collect();
    match widest(&known) {
        Some(_) if is_known(*rounds, &known) => format!("{name}: met after {rounds} rounds"),
        Some(half) => format!("{name}: ended after {rounds} rounds, half widths up to {half:.2} %"),
        None => format!("{name}: ended after {rounds} rounds, too few for intervals"),
    }
}

fn write_differences(
    out: &mut String,
    all: &[Difference],
    cases: &[CaseReport],
    value: fn(&Difference) -> Option<Interval>,
) -> fmt::Result {
    write!(out, "| case | rounds |")?;
    write_columns(out, "|---|---:|", all)?;
    let mut row = |name: &str, differences: &[Difference]| {
        let rounds = differences.first().map_or(0, |difference| difference.rounds);
        write!(out, "| {name} | {rounds} |")?;
        differences
            .iter()
            .try_for_each(|difference| write!(out, " {} |", percent(value(difference))))?;
        writeln!(out)
    };
    cases.iter().try_for_each(|case| row(&case.case, &case.differences))?;
    row("all", all)
}

/// The rest of a table's head, of which `columns` stand already.
fn write_columns(out: &mut String, columns: &str, all: &[Difference]) -> fmt::Result {
    all.iter().try_for_each(|difference| write!(out, " {difference} |"))?;
    writeln!(out, "\n{columns}{}", "---:|".repeat(all.len()))
}

fn write_orders(out: &mut String, sync: &SyncReport) -> fmt::Result {
    writeln!(
        out,
        "\nThe same over all cases by link order, and what as-is itself takes in each order more than in all of them, in \
         processor time: what lies between the rows is where code lies in memory, and chance.\n"
    )?;
    write!(out, "| link order | rounds | as-is |")?;
    write_columns(out, "|---:|---:|---:|", &sync.all)?;
    for (order, (differences, as_is)) in sync.by_order.iter().zip(&sync.orders_as_is).enumerate() {
        let rounds = differences.first().map_or(0, |difference| difference.rounds);
        write!(out, "| {} | {rounds} | {as_is:+.2} |", order + 1)?;
        let cells = differences.iter().map(|difference| percent(difference.processor));
        cells.into_iter().try_for_each(|cell| write!(out, " {cell} |"))?;
        writeln!(out)?;
    }
    Ok(())
}

fn write_power(out: &mut String, all: &[Difference]) -> fmt::Result {
    let parts = all
        .iter()
        .filter_map(|difference| Some(format!("{difference} {:.2} %", difference.detectable?)));
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() {
        return writeln!(out);
    }
    writeln!(
        out,
        "\nThe smallest difference in processor time that so many rounds, with the scatter that they have, find four times in \
         five (2.8 standard errors of the mean of the logarithms), over all cases: {}.\n",
        parts.join(", ")
    )
}

fn write_streams(out: &mut String, streams: &StreamReport) -> fmt::Result {
    writeln!(
        out,
        "### The pull request's six benchmarks\n\n{}.\nThe block has {} bytes. Each figure is of a process of its own; \
         nanoseconds are medians with their range over rounds and link orders, instructions are counted by valgrind in the \
         first link order. *More than as-is* is over rounds and link orders; its interval is for these three \
         link orders, and another layout may lie outside.\n",
        streams.head.machine, streams.head.block,
    )?;
    for benchmark in BENCHMARKS {
        let Some(lines) = streams.benchmarks.get(benchmark.name) else { continue };
        writeln!(
            out,
            "{}, for one {}:\n\n| policy | ns | medians of the link orders | more than as-is % | instructions |\n\
             |---|---:|---:|---:|---:|",
            benchmark.name, benchmark.unit,
        )?;
        for (policy, PolicyLine { ns, by_order, more, instructions }) in lines {
            let digits = if benchmark.unit == "byte" { 4 } else { 0 };
            let orders =
                by_order.iter().map(|ns| ns.map_or("-".to_owned(), |ns| format!("{ns:.digits$}")));
            writeln!(
                out,
                "| {policy} | {} | {} | {} | {} |",
                range(*ns, digits),
                orders.collect::<Vec<_>>().join(", "),
                more.map_or_else(String::new, |more| percent(Some(more))),
                instructions.map_or("-".to_owned(), |count| match benchmark.unit {
                    "byte" => format!("{count:.3}"),
                    _ => format!("{count:.0}"),
                }),
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_build(out: &mut String, build: &Build) -> fmt::Result {
    writeln!(
        out,
        "### How it was built\n\nas-is and barrier are the same objects: the header's call goes to a name of its own, which \
         the linker binds to `memory_cleanse` or to the barrier. Disassembled and held against objects of the header as it \
         is:\n\n```\n{}\n```\n\nAgainst the source, for each policy (the first hunk, in all of them, ends the look-ups for BIP30 above \
         the genesis block, as the main chain's parameters end them above block 227,931):\n",
        build.callers.trim_end()
    )?;
    for (policy, change) in build.changes.iter().filter(|(policy, _)| **policy != Policy::Again) {
        writeln!(out, "{policy}:\n\n```diff\n{}\n```\n", change.trim_end())?;
    }
    Ok(())
}

fn percent(interval: Option<Interval>) -> String {
    interval.map_or_else(
        || "too few rounds".to_owned(),
        |Interval { estimate, low, high, .. }| format!("{estimate:+.2} ({low:+.2} to {high:+.2})"),
    )
}

fn range(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or("-".to_owned(), |spread| spread.with_range(digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core_policies::record::tests::head;
    use crate::core_policies::results::tests::runs;
    use crate::core_policies::stream_results::tests::report;

    #[test]
    fn a_report_says_what_was_found_and_what_would_have_been() {
        let lines = runs(Policy::Barrier, &[0.99, 0.98, 0.97, 0.96, 0.95, 0.94]);
        let core = CoreReport {
            core: "28.99".into(),
            sync: Some(SyncReport::of(head(), &lines)),
            streams: Some(report()),
        };
        let text = markdown(&Report { cores: vec![core] }).unwrap();
        for part in [
            "## Bitcoin Core 28.99\n",
            "| case | rounds | barrier | plain | custom | again | plain against barrier |\n|---|---:|---:|---:|---:|---:|---:|\n",
            "| files | 6 | -3.51 (-6.00 to -1.00) | +0.00 (+0.00 to +0.00) |",
            "| all | 6 | -3.51 (-6.00 to -1.00) |",
            "| files | 450 | none | 10.00 (10.00–10.00) | 20.00 (20.00–20.00) |",
            "| 1 | 2 | +0.00 | too few rounds |",
            "over all cases: barrier 2.2",
            "| as-is | 0.0300 (0.0200–0.0400) | 0.0200, 0.0300, 0.0400 |  | 1.140 |",
            "| plain | 0.0150 (0.0100–0.0200) | 0.0100, 0.0150, 0.0200 | -50.00 (-50.00 to -50.00) | - |",
            "plain:\n\n```diff\n-a\n+b\n```",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"));
    }

    #[test]
    fn a_case_says_whether_it_had_the_rounds_that_it_was_to_have() {
        let of = |times: &[f64]| {
            let lines = runs(Policy::Barrier, times);
            let cases = SyncReport::of(head(), &lines).cases;
            ending(&cases[0])
        };
        assert_eq!(of(&[0.99, 1.0, 0.99, 1.0, 0.99, 1.0]), "files: met after 6 rounds");
        let noisy = [0.9, 1.0, 1.1, 1.0, 0.9, 1.0, 1.1, 1.0];
        let ended = of(&noisy);
        assert!(ended.starts_with("files: ended after 8 rounds, half widths up to "), "{ended}");
        // Two rounds of one link order and three of each other one.
        let quiet = of(&[1.0; 8]);
        assert_eq!(quiet, "files: ended after 8 rounds, half widths up to 0.00 %");
        let few = of(&[1.0; 5]);
        assert_eq!(few, "files: ended after 5 rounds, too few for intervals");
    }
}
