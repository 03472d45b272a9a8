//! `ARCHITECTURE.md` against the tree: every module that allows `unsafe` is listed there by path,
//! and every path listed there does. Test code is free of the list: it is never shipped.

use super::{Finding, TextFile};

/// The list is the table rows between this heading and the next one, path in backquotes first.
const HEADING: &str = "## Unsafe modules";

pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == "ARCHITECTURE.md") else {
        return vec![Finding {
            path: "ARCHITECTURE.md".to_owned(),
            line: 0,
            rule: "is missing".to_owned(),
        }];
    };
    let listed = listed_modules(&page.text);
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_shipped_rust(&file.path)) {
        for (index, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            if !line.starts_with('#') || !line.contains("allow(unsafe_code)") {
                continue;
            }
            if !line.starts_with("#![") {
                findings.push(Finding::new(
                    file,
                    index + 1,
                    "allow unsafe for a module, not an item",
                ));
            }
            if !listed.iter().any(|(_, path)| path == &file.path) {
                findings.push(Finding::new(
                    file,
                    index + 1,
                    format!("allows unsafe but is not listed in ARCHITECTURE.md, {HEADING:?}"),
                ));
            }
        }
    }
    for (line, path) in listed {
        let allows = |file: &&TextFile| file.text.contains("#![allow(unsafe_code)]");
        if files.iter().filter(|file| file.path == path).find(allows).is_none() {
            findings.push(Finding::new(page, line, format!("{path} does not allow unsafe")));
        }
    }
    findings
}

fn is_shipped_rust(path: &str) -> bool {
    path.ends_with(".rs") && !path.contains("/tests/") && !path.ends_with("/tests.rs")
}

fn listed_modules(page: &str) -> Vec<(usize, String)> {
    let mut listed = Vec::new();
    let mut inside = false;
    for (index, line) in page.lines().enumerate() {
        if line.starts_with("## ") {
            inside = line == HEADING;
        }
        let path = line.strip_prefix("| `").and_then(|rest| rest.split('`').next());
        if let Some(path) = path.filter(|_| inside) {
            listed.push((index + 1, path.to_owned()));
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# x\n## Unsafe modules\n| module | why |\n| --- | --- |\n\
                        | `crates/a/src/raw.rs` | memory |\n## Next\n| `crates/b/src/b.rs` | - |\n";

    fn check_with(path: &str, text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let files = [file("ARCHITECTURE.md", PAGE), file(path, text)];
        check(&files).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_listed_module_may() {
        let none: [String; 0] = [];
        assert_eq!(check_with("crates/a/src/raw.rs", "//! x\n#![allow(unsafe_code)]\n"), none);
    }

    #[test]
    fn an_unlisted_module_may_not() {
        let findings = check_with("crates/b/src/b.rs", "#![allow(unsafe_code)]\n");
        assert!(findings[0].starts_with("crates/b/src/b.rs:1: allows unsafe but is not listed"));
        assert_eq!(findings[1], "ARCHITECTURE.md:5: crates/a/src/raw.rs does not allow unsafe");
    }

    #[test]
    fn an_item_may_not() {
        let text = "#![allow(unsafe_code)]\n    #[allow(unsafe_code)]\nfn f() {}\n";
        assert_eq!(
            check_with("crates/a/src/raw.rs", text),
            ["crates/a/src/raw.rs:2: allow unsafe for a module, not an item"]
        );
    }

    #[test]
    fn test_code_is_not_shipped() {
        for path in ["crates/a/tests/it/main.rs", "crates/a/src/stream/tests.rs", "crates/a/x.md"] {
            assert!(!is_shipped_rust(path), "{path}");
        }
        assert!(is_shipped_rust("crates/a/src/latests.rs"));
    }
}
