//! What follows from the figures of the stream benchmarks, in words.
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

const NO_COUNTERPART: &str = "";

/// The control's allocators beside godwit's policies.
const ROWS: [(&str, &str); 4] = [
    ("zero-after-free", "godwit, zero-after-free"),
    ("barrier only", "godwit, barrier-only"),
    ("custom, nothing", NO_COUNTERPART),
    ("std::allocator", OURS),
];

/// The pull request's own instructions per byte: zero-after-free, barrier only, `std::allocator`.
pub const OF_THE_PULL_REQUEST: &str = "\
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
        "Differences are taken turn by turn. In parentheses stands the 95 % interval of their middle \
         (Hodges and Lehmann, Wilcoxon's signed ranks); *within noise* is what an interval says that holds \
         zero.\n"
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
        "A barrier that runs once for each freed block can not cost instructions for each *byte*. \
         Where the pull request counts five of them with both of its own allocators, and a fraction \
         of one with `std::allocator`, they are libstdc++'s loop that constructs the elements of a \
         vector one by one when its allocator is not `std::allocator`, and the compiler has not turned \
         that loop into a `memcpy`. godwit's plain memory and its \
         barrier grow a block by `realloc` and differ in the barrier alone; its wiping policy has to \
         allocate, copy, wipe and free, since `realloc` leaves the old block behind unwiped, so that \
         where a stream grows (DataStreamSerializeScript) the price of godwit's overwriting holds that \
         copy too. A C++ vector copies whatever its allocator is."
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
    match group.line(name).and_then(Line::instructions) {
        Some((count, by_callgrind)) => {
            let mark = if by_callgrind { " †" } else { "" };
            format!("{} ({}{mark})", number(time), number(count))
        }
        None => number(time),
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
    match zeros.low > 0.0 && whole.low > 0.0 {
        true => writeln!(
            out,
            " Overwriting is {:.0} % of it.",
            (zeros.middle / whole.middle * 100.0).min(100.0)
        ),
        false => writeln!(out),
    }
}

/// A difference, if it is one.
fn price(interval: Interval) -> String {
    let Interval { middle, low, high, .. } = interval;
    match interval.is_real() {
        true => format!("{} ({}..{})", number(middle), number(low), number(high)),
        false => format!("within noise ({}..{})", number(low), number(high)),
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
    match zeros.low > 0.0 {
        true => writeln!(
            out,
            " For every byte that a whole sync of the main chain receives ({:.0} GB), overwriting it \
             once at that price, in the processor's cache, would take {:.0} seconds.\n",
            CHAIN_BYTES / 1e9,
            zeros.middle * CHAIN_BYTES / 1e9
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
                "- C++ -O2, ns/byte: overwriting 20.00 (20.00..20.00), the barrier 10.00 (10.00..10.00), \
                 not being `std::allocator` 10.00 (10.00..10.00); all three, which is the difference \
                 between the pull request's two columns, 40.00 (40.00..40.00). Overwriting is 50 % of it."
            ),
            "{out}"
        );
        assert!(
            out.contains("overwriting 9.00 (9.00..11.00), the barrier within noise (-1.00..1.00).")
        );
        assert!(out.contains("in the processor's cache, would take 6840 seconds."), "{out}");
        assert!(out.contains("| std::allocator | 50.00 | 20.00 |"), "{out}");
        assert!(!out.contains("C++ -O3:"), "{out}");
    }
}
