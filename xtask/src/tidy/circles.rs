//! Circles among the files of a crate: files that know each other, directly or through others, so that none
//! of them can be read or changed without all.
//!
//! A file knows those whose names its `use` lines begin with. A module and those below it may know each
//! other, and the crate's root, which only passes names on, is known to all. Tests know whatever they test.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Finding, TextFile};

/// Which files each file knows, by their places below the crate's root.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// One circle of each group of files that know each other.
pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for root in roots(files) {
        for circle in circles(&graph(files, &root)) {
            let path = format!("{root}{}.rs", circle[0]);
            let rule = format!("a circle of files: {}", circle.join(" -> "));
            findings.push(Finding { path, line: 0, rule });
        }
    }
    findings
}

/// Where the files of each crate lie.
fn roots(files: &[TextFile]) -> BTreeSet<String> {
    let root = |file: &TextFile| {
        let (name, _) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
        Some(format!("crates/{name}/src/"))
    };
    files.iter().filter_map(root).collect()
}

fn graph(files: &[TextFile], root: &str) -> Graph {
    let sources: BTreeMap<String, &TextFile> = files
        .iter()
        .filter_map(|file| Some((file.path.strip_prefix(root)?.strip_suffix(".rs")?, file)))
        .filter(|(place, _)| place.split('/').all(|part| part != "tests" && part != "bin"))
        .filter(|(place, _)| !matches!(*place, "lib" | "main"))
        .map(|(place, file)| (place.strip_suffix("/mod").unwrap_or(place).to_owned(), file))
        .collect();
    let known = |place: &String, file: &TextFile| -> BTreeSet<String> {
        let paths = used_paths(&file.text).into_iter();
        let places = paths.filter_map(|path| resolve(place, &path, &sources));
        places.filter(|known| known != place).collect()
    };
    sources.iter().map(|(place, file)| (place.clone(), known(place, file))).collect()
}

/// What the `use` lines of a file name, but for its tests.
fn used_paths(text: &str) -> Vec<String> {
    let (mut paths, mut statement, mut only_in_tests) = (Vec::new(), String::new(), false);
    for line in text.lines().take_while(|line| *line != "mod tests {") {
        let trimmed = line.trim();
        if statement.is_empty() {
            let Some(begun) = after_use(trimmed) else {
                only_in_tests = trimmed == "#[cfg(test)]";
                continue;
            };
            statement = begun.to_owned();
        } else {
            statement.push_str(trimmed);
        }
        if let Some(whole) = statement.strip_suffix(';') {
            if !std::mem::take(&mut only_in_tests) {
                expand("", whole, &mut paths);
            }
            statement.clear();
        }
    }
    paths
}

/// What follows `use`, with its visibility or without.
fn after_use(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix("pub") {
        Some(public) => match public.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1.trim_start(),
            None => public.trim_start(),
        },
        None => line,
    };
    rest.strip_prefix("use ")
}

/// The single paths of `a::{b, c::{d, e}}`.
fn expand(before: &str, tree: &str, paths: &mut Vec<String>) {
    let Some((head, group)) = tree.trim().split_once('{') else {
        let path = tree.trim().split(" as ").next().unwrap_or_default();
        if !path.is_empty() {
            paths.push(format!("{before}{path}"));
        }
        return;
    };
    let (before, group) = (format!("{before}{head}"), group.strip_suffix('}').unwrap_or(group));
    let (mut depth, mut start) = (0, 0);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&before, &group[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    expand(&before, &group[start..], paths);
}

/// The file that a path in the file at `place` leads to; `None`: another crate, or this one's root.
fn resolve<T>(place: &str, path: &str, sources: &BTreeMap<String, T>) -> Option<String> {
    let mut parts: VecDeque<&str> = path.split("::").collect();
    let mut found: Vec<&str> = place.split('/').collect();
    match *parts.front()? {
        "crate" => {
            parts.pop_front();
            found.clear();
        }
        "self" => drop(parts.pop_front()),
        "super" => {
            while parts.front() == Some(&"super") {
                parts.pop_front();
                found.pop();
            }
        }
        child if sources.contains_key(&format!("{place}/{child}")) => {}
        _ => return None,
    }
    for part in parts {
        found.push(part);
        if !sources.contains_key(&found.join("/")) {
            found.pop();
            break;
        }
    }
    Some(found.join("/")).filter(|found| !found.is_empty())
}

/// Whether one of the modules lies below the other.
fn are_related(one: &str, other: &str) -> bool {
    let below = |module: &str, place: &str| {
        place.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    below(one, other) || below(other, one)
}

/// The shortest circle of each group of files, of those that hold at least one step between two files that
/// are not related; the steps back may lead through a module and those below it where it leaves them.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let strangers = |from: &String, to: &String| !are_related(from, to);
    let apart: Graph = graph
        .iter()
        .map(|(from, known)| {
            (from.clone(), known.iter().filter(|to| strangers(from, to)).cloned().collect())
        })
        .collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    for (from, known) in &apart {
        for to in known {
            let within = way(&apart, to, from);
            let through = way(graph, to, from).filter(|way| !is_family(from, way));
            let Some(back) = within.or(through) else { continue };
            let mut circle = vec![from.clone()];
            circle.extend(back);
            found.push(circle);
        }
    }
    found.sort_by_key(Vec::len);
    let mut reported: BTreeSet<String> = BTreeSet::new();
    found.retain(|circle| {
        let is_new = circle.iter().all(|file| !reported.contains(file));
        reported.extend(circle.iter().cloned());
        is_new
    });
    found
}

/// Whether all of these are one module and some below it.
fn is_family(from: &String, way: &[String]) -> bool {
    let all = || way.iter().chain([from]);
    let Some(top) = all().min_by_key(|place| place.len()) else { return false };
    all().all(|place| are_related(top, place))
}

/// The shortest way, both ends included.
fn way(graph: &Graph, from: &String, to: &String) -> Option<Vec<String>> {
    let mut came_from: BTreeMap<&String, Option<&String>> = BTreeMap::from([(from, None)]);
    let mut next = VecDeque::from([from]);
    while let Some(place) = next.pop_front() {
        if place == to {
            let steps = std::iter::successors(Some(place), |place| came_from[place]);
            let mut way: Vec<String> = steps.cloned().collect();
            way.reverse();
            return Some(way);
        }
        for known in graph.get(place).into_iter().flatten() {
            if !came_from.contains_key(known) {
                came_from.insert(known, Some(place));
                next.push_back(known);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<TextFile> = files
            .iter()
            .map(|(place, text)| TextFile {
                path: format!("crates/godwit-chain/src/{place}.rs"),
                text: (*text).to_owned(),
            })
            .collect();
        check(&files).into_iter().map(|finding| finding.rule).collect()
    }

    const A_B: &str = "a circle of files: a -> b -> a";

    #[test]
    fn two_files_that_know_each_other_are_a_circle() {
        for (one, other) in [
            ("use crate::b::B;\n", "use crate::a::A;\n"),
            ("use super::b;\n", "pub(crate) use crate::a::{A, C as D};\n"),
            (
                "use crate::{\n    b::{self, B},\n    c,\n};\n",
                "use std::fmt;\nuse crate::{a, c};\n",
            ),
        ] {
            assert_eq!(found(&[("a", one), ("b", other), ("c", "")]), [A_B], "{one}");
            assert_eq!(found(&[("a", one), ("b", ""), ("c", "")]), [""; 0]);
        }
    }

    #[test]
    fn a_circle_leads_through_other_files_and_the_shortest_is_reported() {
        let files = [
            ("a", "use crate::b::B;\nuse crate::c::C;\n"),
            ("b", "use crate::c::C;\n"),
            ("c", "use crate::d::e::E;\n"),
            ("d", "mod e;\n"),
            ("d/e", "use crate::a::A;\n"),
        ];
        assert_eq!(found(&files), ["a circle of files: a -> c -> d/e -> a"]);
    }

    #[test]
    fn a_module_and_those_below_it_may_know_each_other() {
        let family = [
            ("a", "use one::One;\nuse crate::a::two::Two;\n"),
            ("a/one", "use super::{A, two::Two};\n"),
            ("a/two", "use crate::a::A;\n"),
        ];
        assert_eq!(found(&family), [""; 0]);
        // Not two below it, nor one below it and a stranger that knows it.
        let brothers =
            [("a", "mod b;\n"), ("a/b", "use super::c::C;\n"), ("a/c", "use super::b::B;\n")];
        assert_eq!(found(&brothers), ["a circle of files: a/b -> a/c -> a/b"]);
        let stranger = [
            ("a", "pub(crate) use one::One;\n"),
            ("a/one", "use crate::b::B;\n"),
            ("b", "use crate::a::One;\n"),
        ];
        assert_eq!(found(&stranger), ["a circle of files: a/one -> b -> a -> a/one"]);
    }

    #[test]
    fn tests_and_the_root_know_everything() {
        let files = [
            ("lib", "pub use a::A;\nuse crate::b::B;\n"),
            (
                "a",
                "use crate::A;\n#[cfg(test)]\nuse crate::b::B;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
            ),
            ("a/tests/one", "use crate::b::B;\n"),
            ("b", "use crate::a::A;\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
