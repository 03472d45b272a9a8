//! Bar charts with a whisker from the fastest to the slowest epoch, as SVG.

use std::fmt::{self, Write};

use crate::bench::{Group, Kind, Line};
use crate::table::number;

const WIDTH: f64 = 1000.0;
const LABELS: f64 = 460.0;
const VALUES: f64 = 110.0;
const ROW: f64 = 24.0;
const BAR: f64 = 14.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 14.0;

/// The lines of a group that share the first one's unit, as bars of nanoseconds per unit.
pub fn write(out: &mut impl Write, group: &Group) -> fmt::Result {
    let Some(unit) = group.lines.first().map(|line| line.unit.clone()) else { return Ok(()) };
    let bars: Vec<_> =
        group.lines.iter().filter(|line| line.unit == unit).filter_map(bar).collect();
    let longest = bars.iter().map(|bar| bar.max).fold(f64::MIN_POSITIVE, f64::max);
    let scale = (WIDTH - LABELS - VALUES) / longest;
    let height = TOP + BOTTOM + ROW * bars.len() as f64;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"20\" font-size=\"15\" font-weight=\"bold\">{}</text>\n\
         <text x=\"12\" y=\"37\" fill=\"#555555\">ns/{unit}, median and range of the epochs; less is \
         better</text>",
        escaped(&group.name)
    )?;
    for (row, bar) in bars.iter().enumerate() {
        write_bar(out, bar, TOP + ROW * row as f64, scale)?;
    }
    writeln!(out, "</svg>")
}

struct Bar<'a> {
    line: &'a Line,
    min: f64,
    median: f64,
    max: f64,
}

fn bar(line: &Line) -> Option<Bar<'_>> {
    let spread = line.figures()?.nanoseconds;
    Some(Bar { line, min: spread.min, median: spread.median, max: spread.max })
}

fn write_bar(out: &mut impl Write, bar: &Bar<'_>, top: f64, scale: f64) -> fmt::Result {
    let colour = match bar.line.kind {
        Kind::Godwit => "#2b6cb0",
        Kind::Control => "#b7791f",
        Kind::Rival => "#9b2c2c",
        Kind::Limit => "#a0aec0",
    };
    let at = |value: f64| LABELS + value * scale;
    let (middle, text) = (top + ROW / 2.0, top + ROW / 2.0 + 4.5);
    writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>\n\
         <rect x=\"{LABELS}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\n\
         <path d=\"M{:.1} {middle:.1}H{:.1}M{:.1} {:.1}v8M{:.1} {:.1}v8\" stroke=\"#1a202c\" \
         fill=\"none\"/>\n\
         <text x=\"{:.1}\" y=\"{text:.1}\">{}</text>",
        LABELS - 8.0,
        escaped(&bar.line.name),
        top + (ROW - BAR) / 2.0,
        (bar.median * scale).max(0.5),
        at(bar.min),
        at(bar.max),
        at(bar.min),
        middle - 4.0,
        at(bar.max),
        middle - 4.0,
        at(bar.max) + 8.0,
        number(bar.median)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::group;

    #[test]
    fn a_bar_for_each_line_of_the_unit() {
        let mut group = group();
        group.name = "a < b & c".to_owned();
        let mut out = String::new();
        write(&mut out, &group).unwrap();
        assert_eq!(out.matches("<path").count(), 3);
        assert!(out.contains("a &lt; b &amp; c") && out.trim_end().ends_with("</svg>"));
        // The slowest epoch, 8 ns, reaches the end of the scale.
        assert!(out.contains(&format!("H{:.1}", WIDTH - VALUES)), "{out}");
        group.lines[1].unit = "block".to_owned();
        out.clear();
        write(&mut out, &group).unwrap();
        assert_eq!(out.matches("<path").count(), 2);
    }
}
