//! A row for each line of a benchmark, the fastest first: bars where the lines are of one size, dots on
//! a logarithmic scale where they are not. As SVG, readable at 900 pixels.

use std::fmt::{self, Write};

use crate::bench::{Group, Kind, Line};
use crate::table::number;

const WIDTH: f64 = 900.0;
/// Where labels end, and the scale begins a little behind.
const LABELS: f64 = 350.0;
const LEFT: f64 = 362.0;
/// Where the scale ends and values have their column.
const RIGHT: f64 = 790.0;
const ROW: f64 = 24.0;
const BAR: f64 = 14.0;
const TOP: f64 = 62.0;
const FOOT: f64 = 34.0;

/// From this ratio of the slowest median to the fastest on, bars would not show the fast ones.
const LOGARITHMIC_FROM: f64 = 8.0;

/// The compiler's option that makes names long, and what it means.
const LONG: (&str, &str) = (" -fno-tree-loop-distribute-patterns", ", loops kept");

/// The lines of a group as nanoseconds per unit.
pub fn write(out: &mut impl Write, group: &Group) -> fmt::Result {
    let Some(unit) = group.lines.first().map(|line| line.unit.as_str()) else { return Ok(()) };
    let mut rows: Vec<_> = group.lines.iter().filter_map(row).collect();
    rows.sort_by(|a, b| a.median.total_cmp(&b.median));
    let (Some(fastest), Some(slowest)) = (rows.first(), rows.last()) else { return Ok(()) };
    let scale = match slowest.median / fastest.median >= LOGARITHMIC_FROM {
        true => Scale::logarithmic(&rows),
        false => Scale::linear(&rows),
    };
    let bottom = TOP + ROW * rows.len() as f64;
    let height = bottom + FOOT;
    let notes = notes(group, &scale);
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"20\" font-size=\"15\" font-weight=\"bold\">{}</text>\n\
         <text x=\"12\" y=\"40\" fill=\"#555555\">ns/{unit}, median and range of the epochs; less is \
         better{notes}</text>",
        escaped(&group.name)
    )?;
    write_legend(out, &rows)?;
    let ticks = scale.ticks();
    // Labels of eight powers of ten would run into one another.
    let labelled = if ticks.len() > 7 { 2 } else { 1 };
    for (index, tick) in ticks.into_iter().enumerate() {
        let x = scale.x(tick);
        let label = match index % labelled {
            0 => tick_label(tick),
            _ => String::new(),
        };
        writeln!(
            out,
            "<path d=\"M{x:.1} {:.1}V{bottom:.1}\" stroke=\"#e2e8f0\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555555\">{}</text>",
            TOP - 4.0,
            bottom + 18.0,
            label
        )?;
    }
    for (index, row) in rows.iter().enumerate() {
        write_row(out, row, unit, TOP + ROW * index as f64, &scale)?;
    }
    writeln!(out, "</svg>")
}

/// Which colour is what, of the kinds that are there.
fn write_legend(out: &mut impl Write, rows: &[Row<'_>]) -> fmt::Result {
    let mut x = WIDTH - 12.0;
    for kind in [Kind::Reference, Kind::Rival, Kind::Control, Kind::Godwit] {
        if rows.iter().all(|row| row.line.kind != kind) {
            continue;
        }
        let name = match kind {
            Kind::Godwit => "godwit",
            Kind::Control => "C++ control",
            Kind::Rival => "others",
            Kind::Reference => "references",
        };
        let colour = colour(kind);
        writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"20\" text-anchor=\"end\" fill=\"{colour}\">● {name}</text>"
        )?;
        x -= 30.0 + 8.0 * name.len() as f64;
    }
    Ok(())
}

fn colour(kind: Kind) -> &'static str {
    match kind {
        Kind::Godwit => "#2b6cb0",
        Kind::Control => "#b7791f",
        Kind::Rival => "#9b2c2c",
        Kind::Reference => "#718096",
    }
}

fn notes(group: &Group, scale: &Scale) -> String {
    let mut notes = String::new();
    if scale.logarithmic {
        notes += "; logarithmic";
    }
    if group.lines.iter().any(|line| line.name.contains(LONG.0)) {
        notes += "; loops kept:";
        notes += LONG.0;
    }
    notes
}

struct Row<'a> {
    line: &'a Line,
    min: f64,
    median: f64,
    max: f64,
}

fn row(line: &Line) -> Option<Row<'_>> {
    let spread = line.figures()?.nanoseconds;
    Some(Row { line, min: spread.min, median: spread.median, max: spread.max })
}

/// Nanoseconds on the picture's width.
struct Scale {
    logarithmic: bool,
    low: f64,
    high: f64,
}

impl Scale {
    /// From zero to the slowest epoch.
    fn linear(rows: &[Row<'_>]) -> Self {
        let high = rows.iter().map(|row| row.max).fold(f64::MIN_POSITIVE, f64::max);
        Self { logarithmic: false, low: 0.0, high }
    }

    /// Whole powers of ten that hold all epochs.
    fn logarithmic(rows: &[Row<'_>]) -> Self {
        let ends = |of: fn(&Row<'_>) -> f64| rows.iter().map(move |row| of(row).log10());
        let low = ends(|row| row.min).fold(f64::INFINITY, f64::min).floor();
        let high = ends(|row| row.max).fold(f64::NEG_INFINITY, f64::max).ceil();
        Self { logarithmic: true, low, high: high.max(low + 1.0) }
    }

    fn x(&self, nanoseconds: f64) -> f64 {
        let value = if self.logarithmic { nanoseconds.log10() } else { nanoseconds };
        LEFT + (value - self.low) / (self.high - self.low) * (RIGHT - LEFT)
    }

    /// Powers of ten, or up to six round numbers.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            return (self.low as i32..=self.high as i32).map(|power| 10f64.powi(power)).collect();
        }
        let power = 10f64.powf((self.high / 6.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| self.high / step <= 6.0).unwrap_or(self.high);
        (0..=(self.high / step) as u32).map(|n| f64::from(n) * step).collect()
    }
}

fn tick_label(tick: f64) -> String {
    match tick {
        n if n >= 1e6 => format!("{} ms", n / 1e6),
        n if n >= 1e3 => format!("{} µs", n / 1e3),
        n => format!("{} ns", (n * 1e6).round() / 1e6),
    }
}

fn write_row(
    out: &mut impl Write,
    row: &Row<'_>,
    unit: &str,
    top: f64,
    scale: &Scale,
) -> fmt::Result {
    let colour = colour(row.line.kind);
    let (middle, text) = (top + ROW / 2.0, top + ROW / 2.0 + 4.5);
    let mut label = row.line.name.replace(LONG.0, LONG.1);
    if row.line.unit != unit {
        label = format!("{label} (per {})", row.line.unit);
    }
    let [min, median, max] = [row.min, row.median, row.max].map(|n| scale.x(n));
    writeln!(
        out,
        "<text x=\"{LABELS}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>\n\
         <text x=\"{:.1}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>",
        escaped(&label),
        WIDTH - 12.0,
        number(row.median)
    )?;
    if !scale.logarithmic {
        writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>",
            top + (ROW - BAR) / 2.0,
            (median - LEFT).max(0.5)
        )?;
    }
    let whisker = middle - 4.0;
    writeln!(
        out,
        "<path d=\"M{min:.1} {middle:.1}H{max:.1}M{min:.1} {whisker:.1}v8M{max:.1} {whisker:.1}v8\" \
         stroke=\"#1a202c\" fill=\"none\"/>"
    )?;
    match scale.logarithmic {
        true => writeln!(
            out,
            "<circle cx=\"{median:.1}\" cy=\"{middle:.1}\" r=\"5\" fill=\"{colour}\"/>"
        ),
        false => Ok(()),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{group, line};

    fn drawn(group: &Group) -> String {
        let mut out = String::new();
        write(&mut out, group).unwrap();
        assert!(out.trim_end().ends_with("</svg>"));
        out
    }

    #[test]
    fn bars_for_lines_of_one_size() {
        let mut group = group();
        group.name = "a < b & c".to_owned();
        group.lines[1].unit = "block".to_owned();
        let out = drawn(&group);
        assert_eq!((out.matches("v8M").count(), out.matches("height=\"14\"").count()), (3, 3));
        assert!(out.contains("a &lt; b &amp; c") && !out.contains("logarithmic"));
        assert!(out.contains("zero-after-free (per block)<"), "{out}");
        // The slowest epoch, 8 ns, reaches the end of the scale.
        assert!(out.contains(&format!("H{RIGHT:.1}")), "{out}");
    }

    #[test]
    fn dots_on_powers_of_ten_for_lines_of_many_sizes_and_the_fastest_first() {
        let mut group = group();
        group.lines.push(line(
            "C++ custom -O2 -fno-tree-loop-distribute-patterns",
            Kind::Control,
            &[900],
        ));
        group.lines.swap(0, 2);
        let out = drawn(&group);
        assert_eq!(out.matches("<circle").count(), 4);
        assert!(
            out.contains(">1 ns<") && out.contains(">10 ns<") && out.contains(">1 µs<"),
            "{out}"
        );
        let at = |text: &str| out.find(text).unwrap_or_else(|| panic!("{text}"));
        assert!(at(">godwit, plain<") < at(">C++ custom, nothing -O2<"));
        assert!(at(">C++ custom, nothing -O2<") < at(">C++ custom -O2, loops kept<"));
        assert!(out.contains("loops kept: -fno-tree-loop-distribute-patterns"));
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (high, expected) in [
            (8.0, vec![0.0, 2.0, 4.0, 6.0, 8.0]),
            (0.95, vec![0.0, 0.2, 0.4, 0.6, 0.8]),
            (1.0, vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ] {
            let found = Scale { logarithmic: false, low: 0.0, high }.ticks();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
            assert!(found.iter().zip(&expected).all(near), "{found:?}");
        }
        assert_eq!(
            (tick_label(0.2), tick_label(5e4), tick_label(2e6)),
            ("0.2 ns".into(), "50 µs".into(), "2 ms".into())
        );
    }
}
