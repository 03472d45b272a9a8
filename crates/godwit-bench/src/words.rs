//! What follows from the figures of the stream benchmarks, in words.
//!
//! Bitcoin Core's streams differ from `std::vector<std::byte>` in three things: the block is
//! overwritten before it is freed, the compiler has to believe that it is read, and the allocator is
//! not `std::allocator`. The control has a line with one of these more than the next, so that each
//! one's price is a difference of two lines.

use std::fmt::{self, Write};

use crate::bench::{Bench, Group, Line, OURS};
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
    let times = ROWS.map(|(allocator, _)| nanoseconds(group, &control(allocator, level)));
    let [Some(zero), Some(barrier), Some(custom), Some(standard)] = times else { return Ok(()) };
    let whole = zero - standard;
    write!(
        out,
        "- C++ {level}: overwriting costs {} ns/byte, the barrier {}, not being `std::allocator` {}",
        number(zero - barrier),
        number(barrier - custom),
        number(custom - standard)
    )?;
    match whole > 0.0 {
        true => writeln!(
            out,
            ": {:.0} %, {:.0} % and {:.0} % of the difference between the pull request's two columns.",
            (zero - barrier) / whole * 100.0,
            (barrier - custom) / whole * 100.0,
            (custom - standard) / whole * 100.0
        ),
        false => writeln!(out, "."),
    }
}

/// What they cost in godwit, and over a chain.
fn write_godwit(out: &mut impl Write, group: &Group) -> fmt::Result {
    let time = |name| nanoseconds(group, name);
    let (zero, barrier) = (time("godwit, zero-after-free"), time("godwit, barrier-only"));
    let (Some(zero), Some(barrier), Some(plain)) = (zero, barrier, time(OURS)) else {
        return Ok(());
    };
    writeln!(
        out,
        "- godwit: overwriting costs {} ns/byte, the barrier {}. For every byte that a whole sync of the \
         main chain receives ({:.0} GB), overwriting it once at that price, in the processor's cache, \
         would take {:.0} seconds.\n",
        number(zero - barrier),
        number(barrier - plain),
        CHAIN_BYTES / 1e9,
        ((zero - barrier) * CHAIN_BYTES / 1e9).max(0.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Kind;
    use crate::bench::tests::{bench, line};

    #[test]
    fn each_difference_has_its_price() {
        let mut lines = vec![
            line("godwit, zero-after-free", Kind::Godwit, &[30]),
            line("godwit, barrier-only", Kind::Godwit, &[21]),
            line(OURS, Kind::Godwit, &[20]),
        ];
        let times = [90, 70, 60, 50];
        for ((allocator, _), n) in ROWS.iter().zip(times) {
            lines.push(line(&control(allocator, "-O2"), Kind::Control, &[n]));
        }
        let group = Group { name: "DataStreamAlloc".to_owned(), lines };
        let mut out = String::new();
        write(&mut out, &bench(vec![group])).unwrap();
        assert!(
            out.contains(
                "- C++ -O2: overwriting costs 20.00 ns/byte, the barrier 10.00, not being \
                 `std::allocator` 10.00: 50 %, 25 % and 25 % of the difference"
            ),
            "{out}"
        );
        assert!(out.contains("overwriting costs 9.00 ns/byte, the barrier 1.00."), "{out}");
        assert!(out.contains("in the processor's cache, would take 6840 seconds."), "{out}");
        assert!(out.contains("| std::allocator | 50.00 | 20.00 |"), "{out}");
        assert!(!out.contains("C++ -O3:"), "{out}");
    }
}
