//! The house rules that a machine can check, over the files of the checkout.
//!
//! Each rule is a pure function from text to findings. There are no exception lists: a rule that
//! is wrong for a file is wrong, and changes here. One is a ratchet: types that are too large are listed
//! with a reason, and what one has shrunk by is not taken back without another.

mod architecture;
mod circles;
mod figures;
mod glossary;
mod manifest;
mod named_tests;
mod paths;
mod signatures;
mod sizes;
mod source;

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// A file of the checkout: path relative to the root, with `/`, and its text.
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// One broken rule. `line` counts from 1; 0 means the whole file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) rule: String,
}

impl Finding {
    pub(crate) fn new(file: &TextFile, line: usize, rule: impl Into<String>) -> Self {
        Finding { path: file.path.clone(), line, rule: rule.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.rule),
            line => write!(f, "{}:{line}: {}", self.path, self.rule),
        }
    }
}

/// Every finding in the tree below `root`, in path order.
pub(crate) fn check_tree(root: &Path) -> io::Result<Vec<Finding>> {
    let mut files = Vec::new();
    collect(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));

    let mut findings = manifest::check(&files);
    findings.extend(architecture::check(&files));
    findings.extend(circles::check(&files));
    findings.extend(named_tests::check(&files));
    findings.extend(glossary::check(&files));
    findings.extend(paths::check(&files));
    findings.extend(sizes::check(&files));
    findings.extend(source::check_modules_declared(&files));
    for file in &files {
        findings.extend(source::check_text(file));
        if file.path.ends_with(".rs") {
            findings.extend(source::check_rust(file));
            findings.extend(signatures::check(file));
        }
        if file.path.ends_with(".md") {
            findings.extend(figures::check(root, file));
        }
    }
    Ok(findings)
}

/// Writes the figures of the reports into the pages that quote them.
pub(crate) fn refresh_figures(root: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    collect(root, "", &mut files)?;
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let text = figures::refreshed(root, &file.text);
        if text != file.text {
            fs::write(root.join(&file.path), text)?;
        }
    }
    Ok(())
}

/// Text files by extension, or by name where they have none. Symbolic links are not followed.
fn collect(root: &Path, below: &str, files: &mut Vec<TextFile>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && name != ".git" && name != "target" {
            collect(root, &path, files)?;
        } else if kind.is_file() && is_text(&path) {
            files.push(TextFile { text: fs::read_to_string(entry.path())?, path });
        }
    }
    Ok(())
}

fn is_text(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((_, extension)) => matches!(extension, "rs" | "toml" | "md" | "sh"),
        None => name == "Makefile" || path.starts_with("tools/") || path.starts_with(".ci/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let findings = check_tree(&crate::workspace_root()).expect("the checkout is readable");
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }

    #[test]
    fn text_files_are_told_by_name() {
        for path in ["a/b.rs", "Cargo.toml", "Makefile", "tools/setup", ".ci/run"] {
            assert!(is_text(path), "{path}");
        }
        for path in ["Cargo.lock", "a/block.bin", "LICENSE-MIT", ".gitignore", "src/tools"] {
            assert!(!is_text(path), "{path}");
        }
    }
}
