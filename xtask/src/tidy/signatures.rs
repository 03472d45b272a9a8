//! Rules about what a signature says: predicates that act, flags that a call does not name, options of
//! options.

use super::{Finding, TextFile};

/// How the name of a predicate begins.
const PREDICATES: &[&str] =
    &["is_", "has_", "wants_", "needs_", "should_", "can_", "may_", "must_", "next_is_"];

/// Types that are enums: two layers of absence, and an answer beside the reason for none. Split so that this
/// file does not contain them.
const NAMELESS: &[&str] = &[concat!("Option<", "Option<"), concat!("Result<bool, ", "Option<")];

/// Rules for the code that is no test, of which only the names count.
pub(crate) fn check(file: &TextFile) -> Vec<Finding> {
    let is_source = file.path.contains("/src/") || file.path.starts_with("src/");
    if !is_source || file.path.contains("/tests/") || file.path.ends_with("/tests.rs") {
        return Vec::new();
    }
    let code = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut findings = Vec::new();
    for (index, line) in code.lines().enumerate() {
        if let Some(nameless) = NAMELESS.iter().find(|nameless| line.contains(**nameless)) {
            findings.push(Finding::new(file, index + 1, format!("{nameless}…: an enum says it")));
        }
    }
    for (at, _) in code.match_indices("fn ") {
        let Some(rule) = signature(&code[at + "fn ".len()..]).and_then(broken) else {
            continue;
        };
        let line = code[..at].matches('\n').count() + 1;
        findings.push(Finding::new(file, line, rule));
    }
    findings
}

/// A function's name and its arguments.
fn signature(text: &str) -> Option<(&str, &str)> {
    let name = text.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let head = &text[name.len()..text.find(['{', ';'])?];
    let is_function = !name.is_empty() && head.starts_with(['(', '<']);
    is_function.then(|| (name, head.rsplit_once("->").map_or(head, |(arguments, _)| arguments)))
}

fn broken((name, arguments): (&str, &str)) -> Option<String> {
    let flags = arguments.matches(": bool").count();
    if flags > 1 || arguments.contains("(bool, bool)") {
        return Some(format!("{name}: a call does not say which of the flags is which"));
    }
    let acts = arguments.contains("&mut self")
        && PREDICATES.iter().any(|predicate| name.starts_with(predicate));
    acts.then(|| format!("{name} is named as a question, and changes something"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<String> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        check(&file)
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.rule))
            .collect()
    }

    #[test]
    fn signatures_say_what_they_do() {
        let good = "fn is_idle(&self) -> bool {}\nfn issue(&mut self) {}\nfn f(a: bool, b: &dyn Fn() -> bool) {}\n";
        assert_eq!(rules("crates/a/src/a.rs", good), [""; 0]);
        let bad = format!(
            "fn is_due(&mut self) -> bool {{}}\nfn f<'a>(\n    a: bool,\n    b: bool,\n) {{}}\n\
             fn g((a, b): (bool, bool));\nlet a: {}u8>>;\n",
            NAMELESS[0]
        );
        let found = rules("crates/a/src/a.rs", &bad);
        let lines: Vec<&str> = found.iter().map(|rule| &rule[..1]).collect();
        assert_eq!(lines, ["7", "1", "2", "6"], "{found:?}");
        assert_eq!(rules("crates/a/src/a/tests.rs", &bad), [""; 0]);
    }
}
