//! `docs/limits.md`, `docs/faults.md` and `docs/signer.md` against the tree: a table whose last column is
//! called `test` names at least one test in each row, or says why there is `none:`, and each test that is
//! named exists.

use std::collections::HashSet;

use super::{Finding, TextFile};

const PAGES: [&str; 3] = ["docs/limits.md", "docs/faults.md", "docs/signer.md"];

/// How a cell begins that says why there is no test.
const NONE: &str = "none: ";

/// Heading of the last column of the tables that are checked.
const COLUMN: &str = "test";

pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    let tests: HashSet<&str> = rust.flat_map(|file| tests(&file.text)).collect();
    PAGES.iter().flat_map(|page| check_page(page, files, &tests)).collect()
}

fn check_page(path: &str, files: &[TextFile], tests: &HashSet<&str>) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == path) else {
        let rule = "is missing".to_owned();
        return vec![Finding { path: path.to_owned(), line: 0, rule }];
    };
    let mut findings = Vec::new();
    for (line, cell) in cells(&page.text, COLUMN) {
        let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        if names.is_empty() && !cell.trim_start().starts_with(NONE) {
            findings.push(Finding::new(page, line, "a row without a test"));
        }
        for name in names.iter().filter(|name| !tests.contains(**name)) {
            findings.push(Finding::new(page, line, format!("no test is called {name}")));
        }
    }
    findings
}

/// Line number, from 1, and last cell of the rows of the tables whose last column is called `column`.
pub(super) fn cells<'a>(page: &'a str, column: &str) -> Vec<(usize, &'a str)> {
    let mut cells = Vec::new();
    // Rows of the table so far, and whether it has the column.
    let (mut rows, mut has_column) = (0, false);
    for (index, line) in page.lines().enumerate() {
        let inner = line.strip_prefix('|').and_then(|line| line.trim_end().strip_suffix('|'));
        let Some(cell) = inner.and_then(|inner| inner.rsplit('|').next()) else {
            rows = 0;
            continue;
        };
        rows += 1;
        match rows {
            1 => has_column = cell.trim() == column,
            // The line between heading and rows.
            2 => {}
            _ if has_column => cells.push((index + 1, cell)),
            _ => {}
        }
    }
    cells
}

/// Names of the functions that a `#[test]` stands above, other attributes aside.
fn tests(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]");
        } else if let Some(rest) = line.strip_prefix("fn ").filter(|_| is_test) {
            names.extend(rest.split(['(', '<']).next());
            is_test = false;
        } else if !line.starts_with("//") {
            is_test = false;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = "#[test]\nfn one() {}\n#[test]\n// why\n    #[ignore = \"soak\"]\n    fn two() {}\n\
                         fn three() {}\n#[test]\nconst X: u8 = 1;\nfn four() {}\n";

    fn check_rows(rows: &str) -> Vec<String> {
        let page = format!(
            "# x\n\n| part | constant |\n| --- | --- |\n| a | `NOBODY` |\n\n\
             | what | test |\n| --- | --- |\n{rows}\nText with a `name`.\n"
        );
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let others = PAGES[1..].iter().map(|path| file(path, ""));
        let code = file("crates/a/src/a.rs", TESTS);
        let files: Vec<_> = [file(PAGES[0], &page), code].into_iter().chain(others).collect();
        check(&files).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn tests_that_exist_may_be_named() {
        let none: [String; 0] = [];
        assert_eq!(check_rows("| x | `one` |\n| y | `two`, `one` |\n"), none);
    }

    #[test]
    fn what_is_no_test_may_not() {
        assert_eq!(
            check_rows("| `one` | `two`, `gone` |\n| y | `three` |\n| z | `four` |\n"),
            [
                "docs/limits.md:9: no test is called gone",
                "docs/limits.md:10: no test is called three",
                "docs/limits.md:11: no test is called four",
            ]
        );
    }

    #[test]
    fn a_row_without_a_test_is_found() {
        assert_eq!(check_rows("| `one` | |\n"), ["docs/limits.md:9: a row without a test"]);
        let none: [String; 0] = [];
        assert_eq!(check_rows("| `one` | none: nobody can |\n"), none);
    }

    #[test]
    fn no_page_is_forgotten() {
        assert_eq!(check(&[]).len(), PAGES.len());
    }
}
