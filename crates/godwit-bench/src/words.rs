//! The conclusions from the stream benchmarks, in words.
//!
//! Bitcoin Core's streams differ from `std::vector<std::byte>` in three things: the block is
//! overwritten before it is freed, the compiler has to believe that it is read, and the allocator is
//! not `std::allocator`. The control has a line with one of these more than the next, so that each
//! one's price is a difference of two lines.

use std::fmt::{self, Write};

use crate::bench::{Bench, Group, Line, OURS};
use crate::interval::Interval;
use crate::table::number;
use crate::workloads::Workload;

/// Bytes of all messages that a whole sync of the main chain receives, about.
const CHAIN_BYTES: f64 = 760e9;

/// The two benchmarks that have a control.
const STREAMS: [Workload; 2] = [Workload::DataStreamAlloc, Workload::DataStreamSerializeScript];

/// Two counts of instructions are the same when they differ by no more than this share.
const SAME_WORK: f64 = 0.02;

const NO_COUNTERPART: &str = "";

/// The control's allocators beside godwit's policies.
const ROWS: [(&str, &str); 4] = [
    ("zero-after-free", "godwit, zero-after-free"),
    ("barrier only", "godwit, barrier-only"),
    ("custom, nothing", NO_COUNTERPART),
    ("std::allocator", OURS),
];

/// The pull request's own instructions per byte: zero-after-free, barrier only, `std::allocator`.
const OF_THE_PULL_REQUEST: &str = "\
| instructions per byte, from the pull request | Raspberry Pi 5 | Ryzen 7900X | Ryzen 7640U |
|---|---:|---:|---:|
| DataStreamAlloc: zero-after-free | 5.14 | 5.10 | 0.16 |
| DataStreamAlloc: barrier only | 5.08 | 5.07 | 0.12 |
| DataStreamAlloc: std::allocator | 0.20 | 0.12 | 0.12 |
| DataStreamSerializeScript: zero-after-free | 1.26 | 5.70 | 1.25 |
| DataStreamSerializeScript: barrier only | 1.13 | 5.62 | 1.16 |
| DataStreamSerializeScript: std::allocator | 1.09 | 0.89 | 0.91 |
";

/// Both benchmarks: the four allocators beside the three policies, and a sentence for each difference.
pub fn write(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "Differences are taken round by round, with the 95 % interval of their estimate in parentheses \
         (Hodges and Lehmann, Wilcoxon's signed ranks); *within noise*: the interval contains \
         zero; *unstable*: the epochs of a line differ by more than 5 %.\n"
    )?;
    for workload in STREAMS {
        let Some(group) = bench.group(workload.name()) else { continue };
        writeln!(out, "### {}\n", group.name)?;
        write_matrix(out, group)?;
        out.write_char('\n')?;
        for level in levels(group) {
            write_control(out, group, level)?;
        }
        write_godwit(out, group)?;
    }
    writeln!(out, "{OF_THE_PULL_REQUEST}")?;
    writeln!(
        out,
        "A barrier that runs once for each freed block cannot cost instructions for each *byte*. \
         Where the pull request counts five of them with both of its own allocators, and a fraction \
         of one with `std::allocator`, they are libstdc++'s loop that constructs the elements of a \
         vector one by one when its allocator is not `std::allocator`, and the compiler has not turned \
         that loop into a `memcpy`. The control's loops are aligned there: one that lies across two cache \
         lines can take twice the time for the same instructions. In source godwit's plain memory and its \
         barrier differ in the barrier alone, and both grow a block by `realloc`; its wiping policy has \
         to allocate, copy, wipe and free, since `realloc` leaves the old block behind unwiped, so that \
         where a stream grows (DataStreamSerializeScript) the price of godwit's overwriting holds the \
         difference between these two ways of growing too, whichever sign that has. A C++ vector copies \
         whatever its allocator is, and grows three times there where godwit's stream grows twice."
    )
}

fn nanoseconds(group: &Group, name: &str) -> Option<f64> {
    Some(group.line(name)?.figures()?.nanoseconds.median)
}

fn control(allocator: &str, level: &str) -> String {
    format!("C++ {allocator} {level}")
}

/// Nanoseconds per byte, and instructions where they were counted.
fn write_matrix(out: &mut impl Write, group: &Group) -> fmt::Result {
    let levels = levels(group);
    out.write_str("| ns/byte (instructions/byte) |")?;
    levels.iter().try_for_each(|level| write!(out, " C++ {level} |"))?;
    writeln!(out, " godwit |\n|---|{}---:|", "---:|".repeat(levels.len()))?;
    for (allocator, ours) in ROWS {
        write!(out, "| {allocator} |")?;
        let names = levels.iter().map(|level| control(allocator, level));
        for name in names.chain([ours.to_owned()]) {
            write!(out, " {} |", cell(group, &name))?;
        }
        out.write_char('\n')?;
    }
    Ok(())
}

fn cell(group: &Group, name: &str) -> String {
    let Some(time) = nanoseconds(group, name) else { return "-".to_owned() };
    let unstable = if group.is_unstable([name, name]) { " unstable" } else { "" };
    match group.line(name).and_then(Line::instructions) {
        Some((count, by_callgrind)) => {
            let mark = if by_callgrind { " †" } else { "" };
            format!("{} ({}{mark}){unstable}", number(time), number(count))
        }
        None => number(time) + unstable,
    }
}

/// How the control was compiled: what comes behind its last allocator's name.
fn levels(group: &Group) -> Vec<&str> {
    let standard = control(ROWS[3].0, "");
    group.lines.iter().filter_map(|line| line.name.strip_prefix(&standard)).collect()
}

/// What each of the three differences costs in C++.
fn write_control(out: &mut impl Write, group: &Group, level: &str) -> fmt::Result {
    let between = |more: usize, less: usize| {
        group.difference(&control(ROWS[more].0, level), &control(ROWS[less].0, level))
    };
    let prices = [between(0, 1), between(1, 2), between(2, 3), between(0, 3)];
    let [Some(zeros), Some(barrier), Some(custom), Some(whole)] = prices else { return Ok(()) };
    write!(
        out,
        "- C++ {level}, ns/byte: overwriting {}, the barrier {}, not being `std::allocator` {}; all three, \
         which is the difference between the pull request's two columns, {}.",
        price(zeros),
        price(barrier),
        price(custom),
        price(whole)
    )?;
    // Parts below zero would make shares of more than everything.
    if zeros.low > 0.0 && whole.low > 0.0 {
        let share = (zeros.estimate / whole.estimate * 100.0).min(100.0);
        write!(out, " Overwriting is {share:.0} % of it.")?;
    }
    let name = |row: usize| control(ROWS[row].0, level);
    for (row, (what, difference)) in
        [("overwriting", zeros), ("the barrier", barrier), ("another allocator", custom)]
            .into_iter()
            .enumerate()
    {
        let lines = [&*name(row), &*name(row + 1)];
        out.write_str(&doubt(group, what, difference, lines).unwrap_or_default())?;
    }
    out.write_char('\n')
}

/// Where a difference is one: what the counts of instructions say against taking it for the price of
/// `what`, which the first of two lines has and the second has not.
fn doubt(group: &Group, what: &str, difference: Interval, lines: [&str; 2]) -> Option<String> {
    let counts = lines.map(|name| group.line(name).and_then(Line::instructions));
    let [Some((with, _)), Some((without, _))] = counts else { return None };
    if !difference.is_real() {
        return None;
    }
    let counts = format!("({} against {} instructions/byte)", number(with), number(without));
    let slower = difference.estimate > 0.0;
    if (with - without).abs() <= SAME_WORK * without {
        Some(format!(
            " With and without {what} as many instructions are executed {counts}: how fast they run \
             differs, which counts do not explain."
        ))
    } else if slower != (with > without) {
        Some(format!(
            " With {what} it is {} instructions that take {} time {counts}, which counts do not explain.",
            if slower { "fewer" } else { "more" },
            if slower { "more" } else { "less" },
        ))
    } else if !slower {
        Some(format!(
            " With {what} fewer instructions are executed than without {counts}: the rest is done by \
             other code, and the difference is no price of {what}."
        ))
    } else {
        None
    }
}

/// A difference, if it is one.
fn price(interval: Interval) -> String {
    let Interval { estimate, low, high, .. } = interval;
    match interval.is_real() {
        true => format!("{} ({} to {})", number(estimate), number(low), number(high)),
        false => format!("within noise ({} to {})", number(low), number(high)),
    }
}

/// What they cost in godwit, and over a chain.
fn write_godwit(out: &mut impl Write, group: &Group) -> fmt::Result {
    let zeros = group.difference("godwit, zero-after-free", "godwit, barrier-only");
    let barrier = group.difference("godwit, barrier-only", OURS);
    let (Some(zeros), Some(barrier)) = (zeros, barrier) else { return Ok(()) };
    write!(
        out,
        "- godwit, ns/byte: overwriting {}, the barrier {}.",
        price(zeros),
        price(barrier)
    )?;
    let [wiped, barred] = ["godwit, zero-after-free", "godwit, barrier-only"];
    let of_zeros = doubt(group, "overwriting", zeros, [wiped, barred]);
    let of_barrier = doubt(group, "the barrier", barrier, [barred, OURS]);
    let is_price = zeros.low > 0.0 && of_zeros.is_none();
    write!(out, "{}{}", of_zeros.unwrap_or_default(), of_barrier.unwrap_or_default())?;
    match is_price {
        true => writeln!(
            out,
            " For every byte that a whole sync of the main chain receives ({:.0} GB), overwriting it \
             once at that price, in the processor's cache, would take {:.0} seconds.\n",
            CHAIN_BYTES / 1e9,
            zeros.estimate * CHAIN_BYTES / 1e9
        ),
        false => writeln!(out, "\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Kind;
    use crate::bench::tests::{bench, line};

    #[test]
    fn each_difference_has_its_price() {
        let mut lines = vec![
            line("godwit, zero-after-free", Kind::Godwit, &[30; 6]),
            line("godwit, barrier-only", Kind::Godwit, &[21, 21, 21, 21, 19, 21]),
            line(OURS, Kind::Godwit, &[20; 6]),
        ];
        let times = [90, 70, 60, 50];
        for ((allocator, _), n) in ROWS.iter().zip(times) {
            lines.push(line(&control(allocator, "-O2"), Kind::Control, &[n; 6]));
        }
        let group = Group { name: "DataStreamAlloc".to_owned(), lines };
        let mut out = String::new();
        write(&mut out, &bench(vec![group])).unwrap();
        assert!(
            out.contains(
                "- C++ -O2, ns/byte: overwriting 20.00 (20.00 to 20.00), the barrier 10.00 (10.00 to 10.00), \
                 not being `std::allocator` 10.00 (10.00 to 10.00); all three, which is the difference \
                 between the pull request's two columns, 40.00 (40.00 to 40.00). Overwriting is 50 % of it."
            ),
            "{out}"
        );
        assert!(out.contains(
            "overwriting 9.00 (9.00 to 11.00), the barrier within noise (-1.00 to 1.00)."
        ));
        assert!(out.contains("in the processor's cache, would take 6840 seconds."), "{out}");
        assert!(out.contains("| std::allocator | 50.00 | 20.00 |"), "{out}");
        assert!(!out.contains("C++ -O3:"), "{out}");
        assert!(!out.contains("instructions/byte):"), "{out}");
    }

    /// godwit's lines with these times and instructions per byte of barrier-only and plain.
    fn godwit_group(times: [u64; 2], instructions: [f64; 2]) -> Group {
        let names = ["godwit, zero-after-free", "godwit, barrier-only", OURS];
        let times = [times[0] + 10, times[0], times[1]];
        let counts = [instructions[0] + 1.0, instructions[0], instructions[1]];
        let lines = names.iter().zip(times).zip(counts).map(|((name, n), count)| {
            let mut line = line(name, Kind::Godwit, &[n; 6]);
            line.callgrind = Some(count * line.units_per_iteration);
            line
        });
        Group { name: "DataStreamAlloc".to_owned(), lines: lines.collect() }
    }

    fn barrier_and_plain(times: [u64; 2], instructions: [f64; 2]) -> String {
        let mut out = String::new();
        write_godwit(&mut out, &godwit_group(times, instructions)).unwrap();
        out
    }

    #[test]
    fn a_difference_that_is_no_price_is_doubted() {
        for (times, instructions, said) in [
            (
                [30, 20],
                [5.0, 5.0],
                "the barrier as many instructions are executed (5.00 against 5.00",
            ),
            ([10, 20], [5.0, 4.0], "With the barrier it is more instructions that take less time"),
            ([30, 20], [4.0, 5.0], "With the barrier it is fewer instructions that take more time"),
            (
                [10, 20],
                [4.0, 5.0],
                "fewer instructions are executed than without (4.00 against 5.00",
            ),
        ] {
            let out = barrier_and_plain(times, instructions);
            assert!(out.contains(said), "{times:?} {instructions:?}: {out}");
            assert!(out.contains("For every byte that a whole sync"), "{out}");
        }
        // More time for more instructions, and no difference.
        for (times, instructions) in [([30, 20], [5.0, 4.0]), ([20, 20], [4.0, 5.0])] {
            let out = barrier_and_plain(times, instructions);
            assert!(!out.contains("instructions/byte"), "{out}");
        }
    }

    #[test]
    fn what_is_no_price_is_not_taken_for_one_over_a_chain() {
        let mut group = godwit_group([30, 20], [5.0, 4.0]);
        group.lines[0].callgrind = group.lines[1].callgrind;
        let mut out = String::new();
        write_godwit(&mut out, &group).unwrap();
        assert!(out.contains(" With and without overwriting as many instructions"), "{out}");
        assert!(!out.contains("For every byte that a whole sync"), "{out}");
    }
}
