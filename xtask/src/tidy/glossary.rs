//! `docs/glossary.md` against the tree: each row of a table whose last column is called `lives in` names
//! files or crates that exist, and items that occur in them.

use super::{Finding, TextFile};

const PAGE: &str = "docs/glossary.md";

/// Heading of the last column of the tables that are checked.
const COLUMN: &str = "lives in";

pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        let rule = "is missing".to_owned();
        return vec![Finding { path: PAGE.to_owned(), line: 0, rule }];
    };
    let mut findings = Vec::new();
    for (line, cell) in super::named_tests::cells(&page.text, COLUMN) {
        let quoted: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        // Every crate is called so; no type is.
        let (paths, items): (Vec<&str>, Vec<&str>) =
            quoted.into_iter().partition(|word| word.starts_with("godwit"));
        if paths.is_empty() {
            findings.push(Finding::new(page, line, "a word without a place"));
        }
        let mut named = Vec::new();
        for path in paths {
            let found = files.iter().filter(|file| is_at(&file.path, path));
            let before = named.len();
            named.extend(found);
            if named.len() == before {
                findings.push(Finding::new(page, line, format!("there is no crates/{path}")));
            }
        }
        for item in items {
            let name = item.rsplit("::").next().unwrap_or(item);
            if !named.iter().any(|file| has_word(&file.text, name)) {
                findings.push(Finding::new(page, line, format!("{item} is not there")));
            }
        }
    }
    findings
}

/// Whether a file is the one named below `crates/`, or a source of the crate named.
fn is_at(file: &str, path: &str) -> bool {
    let below = file.strip_prefix("crates/").and_then(|file| file.strip_prefix(path));
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with("/src/"))
}

fn has_word(text: &str, word: &str) -> bool {
    let of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].bytes().next_back();
        let after = text[at + word.len()..].bytes().next();
        !before.is_some_and(of_word) && !after.is_some_and(of_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_row(row: &str) -> Vec<String> {
        let page = format!("| word | means | lives in |\n| --- | --- | --- |\n{row}\n");
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let files = [
            file(PAGE, &page),
            file("crates/godwit-a/src/run.rs", "pub struct Run;\nfn rotate() {}\n"),
            file("crates/godwit-ab/src/lib.rs", "struct Page;\n"),
        ];
        check(&files).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn what_is_there_may_be_named() {
        let none: [String; 0] = [];
        for row in [
            "| a | b | `Run`, `Store::rotate`, `godwit-a/src/run.rs` |",
            "| a | b | `Run`, `godwit-a` |",
            "| a | b | `Page`, `Run`, `godwit-a`, `godwit-ab` |",
            "| a | b | `godwit-ab/src/lib.rs` |",
        ] {
            assert_eq!(check_row(row), none, "{row}");
        }
    }

    #[test]
    fn what_is_gone_is_found() {
        assert_eq!(
            check_row("| a | b | `Run` |"),
            ["docs/glossary.md:3: a word without a place", "docs/glossary.md:3: Run is not there"]
        );
        assert_eq!(
            check_row("| a | b | `Page`, `godwit-a` |"),
            ["docs/glossary.md:3: Page is not there"]
        );
        assert_eq!(
            check_row("| a | b | `Ru`, `godwit-a` |"),
            ["docs/glossary.md:3: Ru is not there"]
        );
        assert_eq!(
            check_row("| a | b | `godwit-a/src/gone.rs` |"),
            ["docs/glossary.md:3: there is no crates/godwit-a/src/gone.rs"]
        );
    }

    #[test]
    fn the_page_is_not_forgotten() {
        assert_eq!(check(&[]).len(), 1);
    }
}
