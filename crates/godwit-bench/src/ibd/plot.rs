//! The picture of the differences: a dot with its interval for each policy in each case, and the
//! single rounds behind it.

use std::fmt::{self, Write};
use std::path::Path;

use crate::failure::Failure;
use crate::ibd::page::TARGET_PERCENT;
use crate::ibd::results::{Results, Round};
use crate::ibd::subject::Subject;
use crate::interval::Interval;
use crate::report_files::write_text;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 320.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 60.0;
const ROW: f64 = 26.0;
const FOOT: f64 = 58.0;

/// What has a line of its own.
struct Line<'a> {
    label: String,
    subject: Subject,
    interval: Option<Interval>,
    rounds: Vec<&'a Round>,
}

/// Writes `bench-ibd.svg` into a directory.
pub fn write(dir: &Path, results: &Results) -> Result<(), Failure> {
    let text = svg(results).expect("a String takes all that is written to it");
    write_text(&dir.join("bench-ibd.svg"), &text)
}

fn lines(results: &Results) -> Vec<Line<'_>> {
    let of_case = results.cases.iter().flat_map(|case| {
        case.comparisons.iter().map(|comparison| Line {
            label: format!("{}, {}", case.case, comparison.subject),
            subject: comparison.subject,
            interval: comparison.wall,
            rounds: case.rounds.iter().collect(),
        })
    });
    let of_all = results.all.iter().map(|comparison| Line {
        label: format!("all cases, {}", comparison.subject),
        subject: comparison.subject,
        interval: comparison.wall,
        rounds: vec![],
    });
    of_case.chain(of_all).collect()
}

/// Percent on the picture's width.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Holds zero, the bar and all points, on whole percents.
    fn of(lines: &[Line<'_>]) -> Self {
        let ends = lines.iter().filter_map(|line| line.interval).flat_map(|i| [i.low, i.high]);
        let points = lines.iter().flat_map(points);
        let all = ends.chain(points).chain([-1.0, TARGET_PERCENT + 1.0]);
        let (low, high) = all.fold((0.0f64, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
        Self { low: low.floor(), high: high.ceil() }
    }

    fn x(&self, percent: f64) -> f64 {
        LEFT + (percent - self.low) / (self.high - self.low) * (WIDTH - LEFT - RIGHT)
    }

    /// About ten whole percents.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        let least = (self.high - self.low) / 10.0;
        let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
        let step = steps.into_iter().find(|step| *step >= least).unwrap_or(least.ceil());
        let first = (self.low / step).ceil() as i64;
        (first..=(self.high / step).floor() as i64).map(move |n| n as f64 * step)
    }
}

fn points<'a>(line: &'a Line<'_>) -> impl Iterator<Item = f64> + use<'a> {
    line.rounds.iter().filter_map(|round| round.excess(line.subject, |sample| sample.seconds))
}

fn svg(results: &Results) -> Result<String, fmt::Error> {
    let lines = lines(results);
    let scale = Scale::of(&lines);
    let bottom = TOP + ROW * lines.len() as f64;
    let height = bottom + FOOT;
    let mut out = String::new();
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" \
         height=\"100%\" fill=\"white\"/>"
    )?;
    writeln!(
        out,
        "<text x=\"16\" y=\"26\" font-size=\"16\">Whole sync: time against plain memory, percent</text>"
    )?;
    writeln!(
        out,
        "<text x=\"16\" y=\"45\" fill=\"#555\">Dot and bar: estimate and 95 % interval. Small dots: single \
         rounds.</text>"
    )?;
    for tick in scale.ticks() {
        let (x, below) = (scale.x(tick), bottom + 18.0);
        writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{x:.1}\" y=\"{below}\" text-anchor=\"middle\" fill=\"#555\">{tick:+}</text>"
        )?;
    }
    mark(&mut out, scale.x(0.0), bottom, "#222", "plain")?;
    mark(&mut out, scale.x(TARGET_PERCENT), bottom, "#c0392b", "target: below")?;
    for (index, line) in lines.iter().enumerate() {
        write_line(&mut out, line, &scale, TOP + ROW * (index as f64 + 0.5))?;
    }
    writeln!(out, "</svg>")?;
    Ok(out)
}

/// A line from top to bottom, named below the axis.
fn mark(out: &mut String, x: f64, bottom: f64, colour: &str, name: &str) -> fmt::Result {
    // The names keep apart however close the lines are.
    let (dash, anchor) = match name {
        "plain" => ("", "end"),
        _ => (" stroke-dasharray=\"5 4\"", "start"),
    };
    writeln!(
        out,
        "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"{colour}\"{dash}/>\
         <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{name}</text>",
        bottom + 38.0
    )
}

fn write_line(out: &mut String, line: &Line<'_>, scale: &Scale, y: f64) -> fmt::Result {
    let colour = match line.subject {
        Subject::ZeroAfterFree => "#b9540b",
        _ => "#1f6fb2",
    };
    writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
        LEFT - 14.0,
        y + 4.5,
        line.label
    )?;
    for percent in points(line) {
        let x = scale.x(percent);
        writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"2.5\" fill=\"{colour}\" fill-opacity=\"0.3\"/>"
        )?;
    }
    let Some(Interval { estimate, low, high, .. }) = line.interval else { return Ok(()) };
    let (estimate, low, high) = (scale.x(estimate), scale.x(low), scale.x(high));
    writeln!(
        out,
        "<line x1=\"{low:.1}\" y1=\"{y}\" x2=\"{high:.1}\" y2=\"{y}\" stroke=\"{colour}\" \
         stroke-width=\"3\"/><circle cx=\"{estimate:.1}\" cy=\"{y}\" r=\"5\" fill=\"{colour}\"/>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ibd::results::tests::results;

    const ROUNDS: [[f64; 3]; 6] = [
        [100.0, 97.0, 104.5],
        [100.0, 99.0, 101.0],
        [100.0, 101.0, 100.0],
        [100.0, 99.5, 101.5],
        [100.0, 100.5, 99.0],
        [100.0, 98.0, 102.0],
    ];

    #[test]
    fn the_scale_holds_everything_and_steps_in_whole_percents() {
        let results = results(&ROUNDS);
        let lines = lines(&results);
        let scale = Scale::of(&lines);
        let holds = |x: f64| scale.low <= x && x <= scale.high;
        assert!(lines.iter().flat_map(points).all(holds));
        assert!(lines.iter().filter_map(|l| l.interval).all(|i| holds(i.low) && holds(i.high)));
        assert!(scale.ticks().all(|tick| holds(tick) && tick.fract() == 0.0));
        assert!(scale.ticks().any(|tick| tick == 0.0));
        assert!((3..=12).contains(&scale.ticks().count()));
    }

    #[test]
    fn each_policy_has_a_line_in_each_case_and_in_all() {
        let text = svg(&results(&ROUNDS)).unwrap();
        for label in ["files, barrier-only", "files, zero-after-free", "all cases, zero-after-free"]
        {
            assert_eq!(text.matches(&format!(">{label}<")).count(), 1, "{label}");
        }
        assert_eq!(text.matches("r=\"5\"").count(), 4);
        assert_eq!(text.matches("r=\"2.5\"").count(), 12);
    }
}
