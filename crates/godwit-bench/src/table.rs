//! The table with nanobench's columns, to be laid beside the pull request's.

use std::fmt::{self, Write};

use crate::bench::{Bench, Group, Line};
use crate::harness::figures::UNSTABLE;

/// Marks instructions that valgrind counted.
const BY_CALLGRIND: &str = " †";

/// What the marks mean.
pub const LEGEND: &str = "† counted by valgrind's callgrind, whose processor has no SHA extensions \
    and no AVX-512. `-`: the system has no counters. `unstable`: the epochs differ by more than 5 %.";

/// A Markdown table of one benchmark; the heading's unit is that of its first line, and a line of
/// another unit says its own.
pub fn write_group(out: &mut impl Write, group: &Group) -> fmt::Result {
    let Some(unit) = group.lines.first().map(|line| line.unit.as_str()) else { return Ok(()) };
    writeln!(
        out,
        "| ns/{unit} | {unit}/s | err% | ins/{unit} | cyc/{unit} | IPC | bra/{unit} | miss% | total \
         s | benchmark"
    )?;
    writeln!(out, "|---:|---:|---:|---:|---:|---:|---:|---:|---:|:---")?;
    for line in &group.lines {
        let Some(cells) = Cells::of(line) else { continue };
        let per = if line.unit == unit { String::new() } else { format!(" (per {})", line.unit) };
        writeln!(out, "| {} | `{}: {}`{per}", cells.0.join(" | "), group.name, line.name)?;
    }
    Ok(())
}

/// All benchmarks, under the system line and the warnings.
pub fn write(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(out, "{}\n", bench.system)?;
    for warning in &bench.warnings {
        writeln!(out, "Warning: {warning}.")?;
    }
    writeln!(out, "Block: {}.\n", bench.fixture)?;
    for group in &bench.groups {
        write_group(out, group)?;
        out.write_char('\n')?;
    }
    writeln!(out, "{LEGEND}")
}

/// The same as comma-separated values, without digits grouped.
pub fn write_csv(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "benchmark,line,kind,unit,ns,fastest ns,slowest ns,error,instructions,counted by,cycles,\
         branches,miss rate,total s"
    )?;
    for group in &bench.groups {
        for line in &group.lines {
            let Some(figures) = line.figures() else { continue };
            let number = |n: Option<f64>| n.map_or_else(String::new, |n| n.to_string());
            let counted = figures.counted;
            let by = line.instructions().map_or("", |(_, c)| if c { "callgrind" } else { "perf" });
            writeln!(
                out,
                "\"{}\",\"{}\",{:?},{},{},{},{},{},{},{by},{},{},{},{}",
                group.name,
                line.name,
                line.kind,
                line.unit,
                figures.nanoseconds.median,
                figures.nanoseconds.min,
                figures.nanoseconds.max,
                figures.error,
                number(line.instructions().map(|(count, _)| count)),
                number(counted.map(|counted| counted.cycles)),
                number(counted.map(|counted| counted.branches)),
                number(counted.map(|counted| counted.miss_rate)),
                figures.total_seconds
            )?;
        }
    }
    Ok(())
}

impl fmt::Display for crate::bench::Fixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, transactions) = (grouped(self.bytes as f64, 0), self.transactions);
        write!(f, "{}, {bytes} bytes, {transactions} transactions", self.name)
    }
}

/// The columns of a line but for its name.
struct Cells([String; 9]);

impl Cells {
    fn of(line: &Line) -> Option<Self> {
        let figures = line.figures()?;
        let nanoseconds = figures.nanoseconds.median;
        let mark = if figures.is_unstable() { " unstable" } else { "" };
        let instructions = line.instructions().map(|(count, by_callgrind)| {
            number(count) + if by_callgrind { BY_CALLGRIND } else { "" }
        });
        let counted = |value: fn(&crate::harness::figures::Counted) -> String| {
            figures.counted.as_ref().map_or_else(|| "-".to_owned(), value)
        };
        Some(Self([
            number(nanoseconds),
            number(1e9 / nanoseconds),
            format!("{:.1} %{mark}", figures.error * 100.0),
            instructions.unwrap_or_else(|| "-".to_owned()),
            counted(|c| number(c.cycles)),
            counted(|c| format!("{:.3}", c.instructions_per_cycle())),
            counted(|c| number(c.branches)),
            counted(|c| format!("{:.1} %", c.miss_rate * 100.0)),
            format!("{:.2}", figures.total_seconds),
        ]))
    }
}

const _: () = assert!(UNSTABLE == 0.05, "the legend says 5 %");

/// Two digits behind the point, of numbers below one three that say something, of large ones none.
pub fn number(n: f64) -> String {
    match n.abs() {
        0.0 => "0".to_owned(),
        small if small < 0.1 => format!("{n:.4}"),
        small if small < 1.0 => format!("{n:.3}"),
        medium if medium < 10_000.0 => grouped(n, 2),
        _ => grouped(n, 0),
    }
}

/// With commas between groups of three digits, as nanobench prints them.
fn grouped(n: f64, decimals: usize) -> String {
    let text = format!("{n:.decimals$}");
    let (whole, rest) = match text.find('.') {
        Some(point) => text.split_at(point),
        None => (text.as_str(), ""),
    };
    let mut out = String::new();
    for (i, digit) in whole.chars().enumerate() {
        let left = whole.len() - i;
        if i > 0 && left.is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{bench, group};

    #[test]
    fn numbers() {
        for (n, text) in [
            (0.0, "0"),
            (0.00961, "0.0096"),
            (0.2641, "0.264"),
            (1.5, "1.50"),
            (1234.5, "1,234.50"),
            (-123.0, "-123.00"),
            (1_084_999.6, "1,085,000"),
            (123_456.0, "123,456"),
        ] {
            assert_eq!(number(n), text);
        }
    }

    #[test]
    fn nanobenchs_columns() {
        let mut out = String::new();
        write_group(&mut out, &group()).unwrap();
        let rows: Vec<_> = out.lines().collect();
        assert!(rows[0].starts_with("| ns/byte | byte/s | err% | ins/byte | cyc/byte | IPC |"));
        assert_eq!(
            rows[2],
            "| 2.00 | 500,000,000 | 0.0 % | - | - | - | - | - | 0.00 | `DataStreamAlloc: godwit, plain`"
        );
        assert!(rows[3].contains("| 0.500 † | - | - |"), "{}", rows[3]);
        assert!(rows[4].contains("| 5.00 | 1.00 | 5.000 | 0.500 | 1.0 % |"), "{}", rows[4]);
        let cells = |row: &str| row.matches(" | ").count();
        assert!(rows.iter().skip(2).all(|row| cells(row) == cells(rows[0])));
    }

    #[test]
    fn csv_has_a_row_for_each_line() {
        let mut out = String::new();
        write_csv(&mut out, &bench(vec![group()])).unwrap();
        let columns = |row: &str| row.replace("godwit, ", "").replace("custom, ", "");
        let columns: Vec<_> = out.lines().map(|row| columns(row).matches(',').count()).collect();
        assert_eq!(columns, [13; 4], "{out}");
    }
}
