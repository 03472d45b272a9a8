//! Rules about single files: names, sizes, leftovers, whitespace, unsafe blocks without a reason,
//! files that no module names, and files, sockets, threads or clocks where none may be.

use super::{Finding, TextFile};

/// Lines of a Rust file. The aim is 150 to 500; past this one it is more than one thing.
const MAX_FILE_LINES: usize = 600;
/// Lines of a function, its signature and closing brace included: about one screen.
const MAX_FUNCTION_LINES: usize = 70;
/// Columns of a comment line. rustfmt holds code to 100 but leaves comments alone; past this
/// one nobody wrapped them.
const MAX_COLUMNS: usize = 110;
/// A safety argument may be this many lines above its block.
const SAFETY_REACH: usize = 12;

/// Names that say nothing about what is inside.
const VAGUE_NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "misc", "manager", "handler", "handlers"];

/// Work left open. Split so that this file does not contain them.
const LEFTOVERS: &[&str] = &[
    concat!("to", "do!("),
    concat!("un", "implemented!("),
    concat!("db", "g!("),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// One word. Split so that this file does not contain it.
const CANNOT: &str = concat!("can", " not");
/// Records are left as they were written.
const RECORDS: &str = "docs/benchmarks/";

/// What reads a clock.
const CLOCKS: &[&str] = &["Instant::now", "SystemTime"];
/// Modules of `std` that lead to the outside world.
const OUTSIDE: &[&str] = &["fs", "net", "thread"];
/// What is mere data in these modules: addresses, and what another crate's thread is waited for with.
const DATA: [(&str, &[&str]); 2] = [
    ("net::", &["IpAddr", "Ipv4Addr", "Ipv6Addr", "SocketAddr", "SocketAddrV4", "SocketAddrV6"]),
    ("thread::", &["JoinHandle"]),
];

/// Rules for every text file: whitespace, and a word that is written as two.
pub(crate) fn check_text(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(file, index + 1, "whitespace at the end of the line"));
        }
        if !file.path.starts_with(RECORDS) && has_cannot_in_two_words(line) {
            findings.push(Finding::new(file, index + 1, "\"cannot\" in two words"));
        }
    }
    if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
        findings.push(Finding::new(file, 0, "does not end with exactly one line break"));
    }
    findings
}

fn has_cannot_in_two_words(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    line.match_indices(CANNOT).any(|(at, words)| {
        let is_letter = |c: char| c.is_alphanumeric();
        !line[..at].ends_with(is_letter) && !line[at + words.len()..].starts_with(is_letter)
    })
}

/// Rules for Rust files.
pub(crate) fn check_rust(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let parts = file.path.trim_end_matches(".rs").split('/');
    if let Some(name) = parts.into_iter().find(|part| VAGUE_NAMES.contains(part)) {
        findings.push(Finding::new(file, 0, format!("the name {name:?} says nothing")));
    }
    let lines: Vec<&str> = file.text.lines().collect();
    if lines.len() > MAX_FILE_LINES {
        let rule = format!("{} lines, more than {MAX_FILE_LINES}", lines.len());
        findings.push(Finding::new(file, 0, rule));
    }
    for (index, line) in lines.iter().enumerate() {
        findings.extend(check_line(file, index + 1, line));
        if needs_safety_argument(line)
            && !lines[index.saturating_sub(SAFETY_REACH)..index]
                .iter()
                .any(|above| above.contains("SAFETY:") || above.contains("# Safety"))
        {
            findings.push(Finding::new(file, index + 1, "unsafe without a SAFETY argument"));
        }
    }
    for (start, length) in function_lengths(&lines) {
        if length > MAX_FUNCTION_LINES {
            let rule = format!("a function of {length} lines, more than {MAX_FUNCTION_LINES}");
            findings.push(Finding::new(file, start + 1, rule));
        }
    }
    findings
}

/// A Rust file that no `mod` of its crate names is never compiled.
pub(crate) fn check_modules_declared(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let Some((crate_dir, stem)) = module_name(&file.path) else { continue };
        let declaration = format!("mod {stem};");
        let declared = files
            .iter()
            .filter(|other| other.path.starts_with(crate_dir) && other.path.ends_with(".rs"))
            .any(|other| other.text.contains(&declaration));
        if !declared {
            findings.push(Finding::new(file, 0, format!("no `{declaration}` in its crate")));
        }
    }
    findings
}

/// Crate folder (with the last `/`) and module name of a Rust file that is not a crate root.
fn module_name(path: &str) -> Option<(&str, &str)> {
    let inner = path.find("/src/").or_else(|| path.find("/tests/"))?;
    let (crate_dir, inside) = path.split_at(inner + 1);
    let stem = inside.strip_suffix(".rs")?;
    let root_of_target = matches!(stem, "src/lib" | "src/main" | "build")
        || stem.strip_prefix("src/bin/").is_some_and(|name| !name.contains('/'))
        || stem.strip_prefix("tests/").is_some_and(|name| !name.contains('/'))
        || stem.ends_with("/main");
    let (parent, name) = stem.rsplit_once('/')?;
    match (root_of_target, name) {
        (true, _) => None,
        (false, "mod") => Some((crate_dir, parent.rsplit('/').next()?)),
        (false, name) => Some((crate_dir, name)),
    }
}

/// The code of the crates named in `pure` opens no file or socket, starts no thread and reads no
/// clock.
pub(crate) fn check_pure(files: &[TextFile], pure: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let crate_name =
            file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        let named = crate_name.is_some_and(|(name, _)| pure.contains(&name));
        if !named || !file.path.ends_with(".rs") || is_test_module(files, &file.path) {
            continue;
        }
        let mut start = 0;
        for (index, line) in file.text.split_inclusive('\n').enumerate() {
            let (here, code) = (start, line.trim());
            start += line.len();
            if code == "#[cfg(test)]" && file.text[start..].trim_start().starts_with("mod tests {")
            {
                break;
            }
            if !code.starts_with("//")
                && let Some(name) = impure_name(line, &file.text[here..])
            {
                let rule = format!("{name} in a crate of pure code");
                findings.push(Finding::new(file, index + 1, rule));
            }
        }
    }
    findings
}

/// What `line`, with which `text` starts, names of the outside world.
fn impure_name(line: &str, text: &str) -> Option<String> {
    if let Some(clock) = CLOCKS.iter().find(|clock| line.contains(**clock)) {
        return Some((*clock).to_owned());
    }
    line.match_indices("std::").find_map(|(at, prefix)| {
        let after = &text[at + prefix.len()..];
        let module = names(after).into_iter().find(|name| OUTSIDE.contains(name))?;
        let is_data = DATA.iter().any(|(module, data)| {
            let items = after.strip_prefix(module).map(names).unwrap_or_default();
            !items.is_empty() && items.iter().all(|name| data.contains(name))
        });
        (!is_data).then(|| format!("std::{module}"))
    })
}

/// The name that `path` starts with; every name of its group, if it starts with one.
fn names(path: &str) -> Vec<&str> {
    let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let words = path.split(';').next().unwrap_or_default().split(is_other);
    let limit = if path.starts_with('{') { usize::MAX } else { 1 };
    words.filter(|word| !word.is_empty()).take(limit).collect()
}

/// Whether a file holds tests: by its path, or because it is declared for them alone.
fn is_test_module(files: &[TextFile], path: &str) -> bool {
    if path.contains("/tests/") || path.ends_with("/tests.rs") {
        return true;
    }
    let Some((dir, name)) = path.trim_end_matches(".rs").rsplit_once('/') else { return false };
    let parents = [format!("{dir}.rs"), format!("{dir}/mod.rs"), format!("{dir}/lib.rs")];
    let declaration = format!("#[cfg(test)]\nmod {name};");
    files.iter().any(|file| parents.contains(&file.path) && file.text.contains(&declaration))
}

fn check_line(file: &TextFile, number: usize, line: &str) -> Option<Finding> {
    if let Some(leftover) = LEFTOVERS.iter().find(|leftover| line.contains(**leftover)) {
        return Some(Finding::new(file, number, format!("leftover {leftover:?}")));
    }
    let comment = line.trim_start().starts_with("//") && !line.contains("://");
    if comment && line.chars().count() > MAX_COLUMNS {
        return Some(Finding::new(file, number, format!("comment wider than {MAX_COLUMNS}")));
    }
    None
}

fn needs_safety_argument(line: &str) -> bool {
    let code = line.trim_start();
    let opens = code.contains("unsafe {") || code.starts_with("unsafe impl");
    opens && !code.starts_with("//") && !code.contains('"')
}

/// First line (from 0) and length of every function, found by indentation, which rustfmt fixes:
/// a function ends at the first `}` that stands in the column of its first line.
fn function_lengths(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut lengths = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if !is_function_head(line.trim_start()) || line.trim_end().ends_with(['}', ';']) {
            continue;
        }
        let closing = format!("{}}}", " ".repeat(indent));
        // A declaration ends with its arguments or its result, and has no body.
        let arguments_end = format!("{})", " ".repeat(indent));
        let is_end = |line: &&str| {
            **line == closing || line.starts_with(&arguments_end) && line.ends_with(';')
        };
        let end = lines[start..].iter().position(is_end);
        if let Some(end) = end.filter(|end| lines[start + end] == closing) {
            lengths.push((start, end + 1));
        }
    }
    lengths
}

fn is_function_head(code: &str) -> bool {
    const BEFORE: &[&str] = &["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe"];
    let mut words = code.split(' ').skip_while(|word| BEFORE.contains(word));
    words.next() == Some("fn")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: impl Into<String>) -> TextFile {
        TextFile { path: path.to_owned(), text: text.into() }
    }

    fn rust(text: &str) -> Vec<Finding> {
        check_rust(&file("crates/a/src/name.rs", text))
    }

    fn function_of(lines: usize) -> String {
        format!("    pub(crate) fn f() {{\n{}    }}\n", "        g();\n".repeat(lines - 2))
    }

    #[test]
    fn whitespace() {
        assert_eq!(check_text(&file("a.md", "a\n\nb\n")), []);
        for text in ["a \n", "a\r\n", "a\t\nb\n", "a", "a\n\n"] {
            assert_eq!(check_text(&file("a.md", text)).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn cannot_is_one_word() {
        for text in [format!("It {CANNOT}.\n"), format!("// C{}\n", &CANNOT[1..])] {
            assert_eq!(check_text(&file("a.md", &*text)).len(), 1, "{text}");
            assert_eq!(check_text(&file("docs/benchmarks/a.md", &*text)), [], "{text}");
        }
        for text in ["It cannot.\n".to_owned(), format!("S{CANNOT}hing.\n")] {
            assert_eq!(check_text(&file("a.md", &*text)), [], "{text}");
        }
    }

    #[test]
    fn vague_names() {
        for path in ["crates/a/src/utils.rs", "crates/a/src/common/x.rs"] {
            assert_eq!(check_rust(&file(path, "")).len(), 1, "{path}");
        }
        assert_eq!(check_rust(&file("crates/a/src/utility_pole.rs", "")), []);
    }

    #[test]
    fn file_length() {
        assert_eq!(rust(&"//\n".repeat(MAX_FILE_LINES)), []);
        assert_eq!(rust(&"//\n".repeat(MAX_FILE_LINES + 1)).len(), 1);
    }

    #[test]
    fn function_length() {
        assert_eq!(rust(&function_of(MAX_FUNCTION_LINES)), []);
        let long = rust(&format!("\n{}", function_of(MAX_FUNCTION_LINES + 1)));
        assert_eq!(long.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
        // A declaration has no length, whatever follows it.
        let declared = format!("fn a(\n    b: u8,\n) -> u8;\n{}", function_of(MAX_FUNCTION_LINES));
        assert_eq!(rust(&declared), []);
    }

    #[test]
    fn function_heads() {
        for head in ["fn a() {", "pub const fn a() {", "pub(crate) async unsafe fn a(", "fn a<T>("]
        {
            assert!(is_function_head(head), "{head}");
        }
        for other in ["pub struct A {", "// fn a() {", "let f = fn_pointer;", "pub use fn_a;"] {
            assert!(!is_function_head(other), "{other}");
        }
    }

    #[test]
    fn leftovers() {
        for leftover in LEFTOVERS {
            assert_eq!(rust(&format!("// {leftover} x\n")).len(), 1, "{leftover}");
        }
        assert_eq!(rust("// to do: nothing\n"), []);
    }

    #[test]
    fn comment_width() {
        let exactly = format!("//{}\n", "x".repeat(MAX_COLUMNS - 2));
        assert_eq!(rust(&exactly), []);
        assert_eq!(rust(&format!("/{exactly}")).len(), 1);
        assert_eq!(rust(&format!("// https://{}\n", "x".repeat(MAX_COLUMNS))), []);
    }

    #[test]
    fn safety_arguments() {
        let block = concat!("uns", "afe { f() }\n");
        assert_eq!(rust(block).len(), 1);
        assert_eq!(rust(&format!("// SAFETY: f has no preconditions.\n{block}")), []);
        let far = "//\n".repeat(SAFETY_REACH);
        assert_eq!(rust(&format!("// SAFETY: too far away.\n{far}{block}")).len(), 1);
    }

    #[test]
    fn undeclared_modules() {
        let files = [
            file("crates/a/src/lib.rs", "mod seen;\nmod folder;\n"),
            file("crates/a/src/seen.rs", ""),
            file("crates/a/src/folder/mod.rs", ""),
            file("crates/a/src/bin/tool.rs", ""),
            file("crates/a/tests/it/main.rs", "mod topic;\n"),
            file("crates/a/tests/it/topic.rs", ""),
            file("crates/a/src/orphan.rs", ""),
            file("crates/b/src/seen.rs", ""),
        ];
        let paths: Vec<String> =
            check_modules_declared(&files).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["crates/a/src/orphan.rs", "crates/b/src/seen.rs"]);
    }

    fn impure(path: &str, text: &str) -> Vec<usize> {
        let files = [file("crates/a/src/lib.rs", "#[cfg(test)]\nmod vectors;\n"), file(path, text)];
        check_pure(&files, &["a"]).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn pure_code_names_nothing_of_the_outside_world() {
        for text in [
            "use std::fs;\n",
            "    let file = std::fs::File::open(path);\n",
            "use std::{fs::File, io};\n",
            "use std::{\n    mem,\n    thread,\n};\n",
            "use std::net::TcpStream;\n",
            "use std::net::{IpAddr, UdpSocket};\n",
            "use std::net::{\n    IpAddr,\n    UdpSocket,\n};\n",
            "use std::net;\n",
            "use std::net::*;\n",
            "    std::thread::spawn(f);\n",
            "use std::thread::{self, JoinHandle};\n",
            "use std::net::JoinHandle;\n",
            "    let start = Instant::now();\n",
            "use std::time::SystemTime;\n",
        ] {
            assert_eq!(impure("crates/a/src/x.rs", text), [1], "{text}");
            assert!(impure("crates/b/src/x.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn data_and_tests_are_pure() {
        for text in [
            "use std::net::{IpAddr, Ipv4Addr};\nuse std::thread_local;\n",
            "use std::thread::JoinHandle;\n",
            "    let ip = std::net::IpAddr::from(bytes); // Instant\n",
            "// std::fs\nuse std::{fmt, mem};\nlet fs = thread;\n",
            "use std::time::{Duration, Instant};\n",
            "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n",
        ] {
            assert!(impure("crates/a/src/x.rs", text).is_empty(), "{text}");
        }
        let text = "use std::fs;\n";
        for path in ["x/tests.rs", "tests/x.rs", "vectors.rs"] {
            assert!(impure(&format!("crates/a/src/{path}"), text).is_empty(), "{path}");
        }
        assert!(impure("crates/a/tests/it/x.rs", text).is_empty());
        assert_eq!(impure("crates/a/src/x/vectors.rs", text), [1]);
    }
}
