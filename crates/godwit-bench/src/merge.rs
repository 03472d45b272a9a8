//! Results of several machines side by side.

use std::fmt::{self, Write};

use crate::bench::{Bench, Line};
use crate::table::{LEGEND, number};

/// A page with a table for each benchmark that any of the machines ran. A column for each machine: time
/// per unit, its error, and instructions per unit.
pub fn write(out: &mut impl Write, machines: &[Bench]) -> fmt::Result {
    writeln!(out, "# The benchmarks of bitcoin/bitcoin#30987 on {} machines\n", machines.len())?;
    for (n, machine) in machines.iter().enumerate() {
        writeln!(out, "{}. {}", n + 1, machine.system)?;
        for warning in &machine.warnings {
            writeln!(out, "   - {warning}")?;
        }
        writeln!(out, "   - block: {}", machine.fixture)?;
    }
    for name in in_order(machines.iter().flat_map(|m| &m.groups).map(|group| group.name.as_str())) {
        let groups: Vec<_> = machines.iter().map(|machine| machine.group(name)).collect();
        let all = groups.iter().flatten().flat_map(|group| &group.lines);
        let lines = in_order(all.map(|line| line.name.as_str()));
        writeln!(out, "\n## {name}\n")?;
        out.write_str("| |")?;
        (1..=machines.len()).try_for_each(|n| write!(out, " machine {n} |"))?;
        writeln!(out, "\n|---|{}", "---:|".repeat(machines.len()))?;
        for line in lines {
            write!(out, "| {line} |")?;
            for group in &groups {
                let cell = group.and_then(|group| cell(group.line(line)?));
                write!(out, " {} |", cell.unwrap_or_else(|| "-".to_owned()))?;
            }
            out.write_char('\n')?;
        }
    }
    writeln!(out, "\nTime per unit ± error; instructions per unit. {LEGEND}")
}

fn cell(line: &Line) -> Option<String> {
    let figures = line.figures()?;
    let mark = if figures.is_unstable() { " unstable" } else { "" };
    let time = number(figures.nanoseconds.median);
    let mut cell = format!("{time} ns/{} ± {:.1} %{mark}", line.unit, figures.error * 100.0);
    if let Some((count, by_callgrind)) = line.instructions() {
        write!(cell, "; {} ins{}", number(count), if by_callgrind { " †" } else { "" }).ok()?;
    }
    Some(cell)
}

/// Each name once, where it came first.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{bench, group, line};
    use crate::bench::{Group, Kind};

    #[test]
    fn machines_side_by_side() {
        let other = Group {
            name: "DataStreamAlloc".to_owned(),
            lines: vec![line("godwit, plain", Kind::Godwit, &[40, 40, 80, 80, 50])],
        };
        let alone = Group {
            name: "References".to_owned(),
            lines: vec![line("memcpy", Kind::Reference, &[1])],
        };
        let mut out = String::new();
        write(&mut out, &[bench(vec![group()]), bench(vec![other, alone])]).unwrap();
        assert!(
            out.contains(
                "| godwit, plain | 2.00 ns/byte ± 0.0 % | 50.00 ns/byte ± 20.0 % unstable |"
            ),
            "{out}"
        );
        assert!(
            out.contains("| godwit, zero-after-free | 3.00 ns/byte ± 0.0 %; 0.500 ins † | - |")
        );
        assert!(out.contains("## References\n\n| | machine 1 | machine 2 |\n|---|---:|---:|\n"));
        assert!(out.contains("| memcpy | - | 1.00 ns/byte ± 0.0 % |"));
        assert_eq!(out.matches("## DataStreamAlloc").count(), 1);
    }
}
