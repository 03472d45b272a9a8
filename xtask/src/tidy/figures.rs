//! Figures that a page quotes, held against the report that they come from.
//!
//! `<!-- figures NAME = PATH -->` names a JSON file of the checkout. Behind each figure from it stands
//! `<!-- NAME POINTER -->`, with a JSON pointer (RFC 6901) to the number. The figure must be that number,
//! rounded to as many digits as the page gives. From the first name to the next heading of the second
//! level every number with a decimal point must have such a mark.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Finding, TextFile};

const START: &str = "<!-- ";
const END: &str = " -->";

/// A page's findings; the reports are read below `root`.
pub(crate) fn check(root: &Path, file: &TextFile) -> Vec<Finding> {
    let read = |path: &str| serde_json::from_slice(&fs::read(root.join(path)).ok()?).ok();
    check_with(file, read)
}

fn check_with(file: &TextFile, read: impl Fn(&str) -> Option<Value>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut reports = BTreeMap::new();
    let mut quoting = false;
    for (index, line) in file.text.lines().enumerate() {
        let mut finding = |rule: String| findings.push(Finding::new(file, index + 1, rule));
        if line.starts_with("## ") {
            quoting = false;
        }
        let mut rest = line;
        while let Some((before, mark, behind)) = next_mark(rest) {
            rest = behind;
            if let Some((name, path)) = named_report(mark) {
                quoting = true;
                match read(path) {
                    Some(report) => drop(reports.insert(name.to_owned(), report)),
                    None => finding(format!("{path} is not a readable JSON file")),
                }
                continue;
            }
            let Some((name, pointer)) = mark.split_once(" /") else { continue };
            let figure = trailing_number(before);
            let number = reports
                .get(name)
                .and_then(|report| report.pointer(&format!("/{pointer}"))?.as_f64());
            match number {
                None => finding(format!("no report {name:?} with a number at /{pointer}")),
                Some(number) if !is_rounded(figure, number) => {
                    finding(format!("{figure:?} is quoted, the report says {number}"));
                }
                Some(_) => {}
            }
        }
        if quoting {
            let unmarked = unmarked_decimals(line);
            unmarked
                .into_iter()
                .for_each(|n| finding(format!("{n} does not say where it is from")));
        }
    }
    findings
}

/// The page with every marked figure as its report has it now, at the digits that the page gives. A
/// figure whose report or number is missing stays.
pub(crate) fn refreshed(root: &Path, text: &str) -> String {
    refreshed_with(text, |path| serde_json::from_slice(&fs::read(root.join(path)).ok()?).ok())
}

fn refreshed_with(text: &str, read: impl Fn(&str) -> Option<Value>) -> String {
    let mut reports = BTreeMap::new();
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, mark, behind)) = next_mark(rest) {
        rest = behind;
        let mut kept = before.to_owned();
        if let Some((name, report)) =
            named_report(mark).and_then(|(n, path)| Some((n, read(path)?)))
        {
            reports.insert(name.to_owned(), report);
        } else if let Some((name, pointer)) = mark.split_once(" /") {
            let report: Option<&Value> = reports.get(name);
            let number = report.and_then(|r| r.pointer(&format!("/{pointer}"))?.as_f64());
            let figure = trailing_number(before);
            if let Some(number) = number {
                let decimals = figure.split_once('.').map_or(0, |(_, decimals)| decimals.len());
                kept.truncate(before.len() - figure.len());
                kept += &format!("{number:.decimals$}");
            }
        }
        out += &format!("{kept}{START}{mark}{END}");
    }
    out + rest
}

/// The text before the next comment, its content, and what comes behind it.
fn next_mark(line: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = line.split_once(START)?;
    let (mark, behind) = rest.split_once(END)?;
    Some((before, mark, behind))
}

fn named_report(mark: &str) -> Option<(&str, &str)> {
    mark.strip_prefix("figures ")?.split_once(" = ")
}

fn is_numeric(c: char) -> bool {
    c.is_ascii_digit() || c == '.' || c == ','
}

/// With its minus sign, which unlike that of a range follows neither letter nor digit.
fn trailing_number(text: &str) -> &str {
    let digits = text.trim_end_matches(is_numeric);
    let signed = digits.strip_suffix('-').filter(|before| !before.ends_with(char::is_alphanumeric));
    &text[signed.unwrap_or(digits).len()..]
}

fn is_rounded(figure: &str, number: f64) -> bool {
    let figure = figure.replace(',', "");
    let decimals = figure.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    !figure.is_empty() && format!("{number:.decimals$}") == figure
}

/// Numbers with a decimal point that no comment follows; what is inside comments, code and link
/// targets does not count.
fn unmarked_decimals(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut rest, mut ends_with_mark) = (line, true);
    while ends_with_mark {
        let (text, behind) = match next_mark(rest) {
            Some((before, _, behind)) => (before, behind),
            None => {
                ends_with_mark = false;
                (rest, "")
            }
        };
        rest = behind;
        let marked = if ends_with_mark { trailing_number(text).len() } else { 0 };
        let words = text[..text.len() - marked].split(|c: char| !is_numeric(c));
        let is_decimal = |word: &&str| {
            word.split_once('.').is_some_and(|(whole, part)| {
                let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
                !whole.is_empty() && !part.is_empty() && digits(part) && digits(whole)
            })
        };
        let words = words.map(|word| word.trim_matches(|c| c == '.' || c == ','));
        found.extend(words.filter(is_decimal).map(str::to_owned));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<(usize, String)> {
        let file = TextFile { path: "README.md".to_owned(), text: text.to_owned() };
        let report = serde_json::json!({"ratio": {"median": 1.2185}, "list": [4375.4]});
        let findings = check_with(&file, |path| (path == "a.json").then(|| report.clone()));
        findings.into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    const NAME: &str = "<!-- figures a = a.json -->\n";

    #[test]
    fn a_sign_belongs_to_its_number() {
        let of = |text| trailing_number(text);
        assert_eq!(
            ["(-1.5", "-2", "1-2.5", "x-3", "4", "-"].map(of),
            ["-1.5", "-2", "2.5", "3", "4", "-"]
        );
    }

    #[test]
    fn rounded_figures_pass() {
        let text = "1.22<!-- a /ratio/median --> times, 1.2185<!-- a /ratio/median -->, \
                    4,375<!-- a /list/0 --> and 1<!-- a /ratio/median --> of 761 or 1/13.\n";
        assert_eq!(rules(&format!("{NAME}{text}")), []);
    }

    #[test]
    fn a_figure_that_drifted_is_found() {
        for (text, rule) in [
            ("1.21<!-- a /ratio/median -->", "\"1.21\" is quoted, the report says 1.2185"),
            ("4376<!-- a /list/0 -->", "\"4376\" is quoted, the report says 4375.4"),
            ("much<!-- a /list/0 -->", "\"\" is quoted, the report says 4375.4"),
            ("1<!-- a /ratio/mean -->", "no report \"a\" with a number at /ratio/mean"),
            ("1<!-- b /ratio/median -->", "no report \"b\" with a number at /ratio/median"),
            ("1.22 times", "1.22 does not say where it is from"),
        ] {
            assert_eq!(rules(&format!("{NAME}{text}\n")), [(2, rule.to_owned())], "{text}");
        }
        let missing = rules("<!-- figures b = b.json -->\n");
        assert_eq!(missing, [(1, "b.json is not a readable JSON file".to_owned())]);
    }

    #[test]
    fn figures_are_refreshed_at_their_digits() {
        let read = |path: &str| (path == "a.json").then(|| serde_json::json!({"n": [1.25, 7]}));
        let page = "# x 1.0\n<!-- figures a = a.json -->\n| 9.99<!-- a /n/0 --> | 3<!-- a /n/1 --> |\n\
                    9<!-- a /n/2 --> 8<!-- b /n/0 --> <!-- a remark --> end\n";
        let expected = page.replace("9.99", "1.25").replace("| 3<", "| 7<");
        assert_eq!(refreshed_with(page, read), expected);
    }

    #[test]
    fn other_sections_and_comments_are_free() {
        assert_eq!(rules("Rust 1.90<!-- a remark -->\n"), []);
        assert_eq!(rules(&format!("{NAME}## Next\nRust 1.90 and 2.0.\n")), []);
        assert_eq!(rules(&format!("{NAME}It ends here.\n[a](docs/x.md), 5.\n")), []);
    }
}
