//! Source files that the pages name: each word in backquotes that ends in `.rs` is the end of a path in
//! the tree. Pages of recorded measurements may name what was there when they were made.

use super::{Finding, TextFile};

const RECORDS: &str = "docs/benchmarks/";

pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let is_page = |file: &&TextFile| file.path.ends_with(".md") && !file.path.starts_with(RECORDS);
    let mut findings = Vec::new();
    for page in files.iter().filter(is_page) {
        for (index, line) in page.text.lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2);
            for name in quoted.filter(|word| word.ends_with(".rs") && !word.contains(' ')) {
                if !files.iter().any(|file| ends_with_path(&file.path, name)) {
                    findings.push(Finding::new(page, index + 1, format!("no file is {name}")));
                }
            }
        }
    }
    findings
}

fn ends_with_path(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_exist_may_be_named() {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let text = "See `limits.rs` and `a/src/limits.rs`,\nnot `its.rs` nor `b/src/limits.rs`; `x.rs y`.\n";
        let files = [
            file("crates/a/src/limits.rs", "// `gone.rs`\n"),
            file("docs/page.md", text),
            file("docs/benchmarks/then.md", "`gone.rs`\n"),
        ];
        let findings: Vec<String> = check(&files).iter().map(Finding::to_string).collect();
        assert_eq!(
            findings,
            ["docs/page.md:2: no file is its.rs", "docs/page.md:2: no file is b/src/limits.rs"]
        );
    }
}
