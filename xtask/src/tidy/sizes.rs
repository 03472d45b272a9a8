//! How large a type may be before it is more than one thing: methods over all its `impl` blocks, and
//! fields.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, TextFile};

/// Methods of a type, those of traits aside.
const MAX_METHODS: usize = 40;
/// Fields of a struct.
const MAX_FIELDS: usize = 16;

/// A type that may be larger: its crate, its name, how many methods and fields it has at most, and why.
struct Exception {
    crate_name: &'static str,
    name: &'static str,
    methods: usize,
    fields: usize,
    why: &'static str,
}

/// A type that has shrunk has its numbers lowered, which the check demands. Whoever raises one says in the
/// commit why the type should be larger.
const EXCEPTIONS: &[Exception] = &[
    Exception {
        crate_name: "godwit-api",
        name: "SyncReport",
        methods: 1,
        fields: 23,
        why: "all that is told of a sync: each field is one value that page, status and figures show",
    },
    Exception {
        crate_name: "godwit-chain",
        name: "Chain",
        methods: 76,
        fields: 17,
        why: "its step carries what leaves one station to the next; a third are the crate's interface, one line each",
    },
    Exception {
        crate_name: "godwit-p2p",
        name: "Downloads",
        methods: 42,
        fields: 12,
        why: "each of its rules needs the peers' queues, the blocks in flight and the windows alike",
    },
    Exception {
        crate_name: "godwit-p2p",
        name: "PeersConfig",
        methods: 0,
        fields: 21,
        why: "options, of which each is one value of the command line",
    },
    Exception {
        crate_name: "godwit-primitives",
        name: "Params",
        methods: 7,
        fields: 26,
        why: "the constants of a network, as Bitcoin Core's chainparams.cpp lists them",
    },
    Exception {
        crate_name: "godwit-sim",
        name: "Session",
        methods: 29,
        fields: 18,
        why: "one simulated peer: its plan, what it was asked and what it has said decide together",
    },
    Exception {
        crate_name: "godwit-store",
        name: "UtxoStore",
        methods: 46,
        fields: 10,
        why: "one database: three quarters are the crate's interface, a third of those a line or two to memtables or runs",
    },
];

/// What was counted of a type.
#[derive(Default)]
struct Size {
    methods: usize,
    fields: usize,
    path: String,
}

/// Types that are too large, and exceptions that are larger than what they are for.
pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for crate_name in crate_names(files) {
        for ((_, name), size) in sizes(files, crate_name) {
            let exception = EXCEPTIONS
                .iter()
                .find(|exception| exception.crate_name == crate_name && exception.name == name);
            let methods = exception.map_or(MAX_METHODS, |exception| exception.methods);
            let fields = exception.map_or(MAX_FIELDS, |exception| exception.fields);
            for (what, found, most) in
                [("methods", size.methods, methods), ("fields", size.fields, fields)]
            {
                if found > most {
                    let rule = format!("{name} has {found} {what}, more than {most}");
                    findings.push(Finding { path: size.path.clone(), line: 0, rule });
                }
            }
            if let Some(exception) = exception
                && (size.methods < methods || size.fields < fields)
            {
                let (methods, fields, why) = (size.methods, size.fields, exception.why);
                let rule = format!(
                    "{name} has {methods} methods and {fields} fields by now: lower its exception ({why})"
                );
                findings.push(Finding { path: size.path, line: 0, rule });
            }
        }
    }
    findings
}

fn crate_names(files: &[TextFile]) -> BTreeSet<&str> {
    files
        .iter()
        .filter_map(|file| Some(file.path.strip_prefix("crates/")?.split_once("/src/")?.0))
        .collect()
}

/// By name, and by module below the crate's root where two modules call a type the same.
fn sizes(files: &[TextFile], crate_name: &str) -> BTreeMap<(String, String), Size> {
    let root = format!("crates/{crate_name}/src/");
    let sources: Vec<(&str, &TextFile)> = files
        .iter()
        .filter_map(|file| Some((file.path.strip_prefix(&root)?.strip_suffix(".rs")?, file)))
        .filter(|(inside, _)| inside.split('/').all(|part| part != "tests"))
        .map(|(inside, file)| (inside.split('/').next().unwrap_or(inside), file))
        .collect();
    let mut modules: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (module, file) in &sources {
        for name in file.text.lines().filter_map(defined) {
            modules.entry(name).or_default().insert(module);
        }
    }
    let mut sizes: BTreeMap<(String, String), Size> = BTreeMap::new();
    for (module, file) in sources {
        let mut current: Option<((String, String), bool)> = None;
        for line in file.text.lines().take_while(|line| *line != "mod tests {") {
            if let Some(name) = opened(line) {
                let is_struct = defined(line).is_some();
                let unique = modules.get(&name).is_none_or(|modules| modules.len() == 1);
                let key = (if unique { String::new() } else { module.to_owned() }, name);
                let size = sizes.entry(key.clone()).or_default();
                if is_struct || size.path.is_empty() {
                    size.path.clone_from(&file.path);
                }
                current = Some((key, is_struct));
            } else if line == "}" {
                current = None;
            } else if let Some((key, is_struct)) = &current
                && let Some(size) = sizes.get_mut(key)
            {
                match is_struct {
                    true => size.fields += usize::from(is_field(line)),
                    false => size.methods += usize::from(is_method(line)),
                }
            }
        }
    }
    sizes
}

/// The struct or enum that this line defines.
fn defined(line: &str) -> Option<String> {
    let public =
        line.starts_with("pub") || line.starts_with("struct ") || line.starts_with("enum ");
    let rest = line.split_once("struct ").or_else(|| line.split_once("enum "))?.1;
    public.then(|| first_name(rest))
}

fn first_name(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The type whose fields or methods follow this line.
fn opened(line: &str) -> Option<String> {
    let line = line.strip_suffix('{')?;
    let text = if let Some(rest) = line.strip_prefix("impl") {
        if rest.contains(" for ") {
            return None;
        }
        // Behind the parameters of the block.
        match rest.strip_prefix('<') {
            Some(_) => rest.split_once("> ")?.1,
            None => rest,
        }
    } else if defined(line).is_some() && line.contains("struct ") {
        return defined(line);
    } else {
        return None;
    };
    Some(first_name(text)).filter(|name| !name.is_empty())
}

/// rustfmt writes the members of an item four columns in.
fn member(line: &str) -> Option<&str> {
    let inner = line.strip_prefix("    ").filter(|inner| !inner.starts_with(' '))?;
    let Some(public) = inner.strip_prefix("pub") else { return Some(inner) };
    match public.strip_prefix('(') {
        Some(scope) => Some(scope.split_once(") ")?.1),
        None => public.strip_prefix(' '),
    }
}

fn is_method(line: &str) -> bool {
    let Some(mut inner) = member(line) else { return false };
    for word in ["const ", "unsafe "] {
        inner = inner.strip_prefix(word).unwrap_or(inner);
    }
    inner.starts_with("fn ")
}

fn is_field(line: &str) -> bool {
    let Some((name, _)) = member(line).and_then(|inner| inner.split_once(": ")) else {
        return false;
    };
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn many(count: usize, line: &str) -> String {
        (0..count).map(|n| line.replace('#', &n.to_string())).collect()
    }

    #[test]
    fn methods_are_counted_over_all_files_and_fields_in_one() {
        let fields = many(16, "    pub(super) field_#: u8,\n");
        let methods =
            many(20, "    pub(super) const fn f#(&self) {\n        fn inner() {}\n    }\n");
        let tree = |fields: &str, methods: &str| {
            let struct_text = format!("pub(crate) struct Big<'a> {{\n{fields}}}\n");
            let impl_text = format!(
                "impl<'a> Big<'a> {{\n{methods}}}\nimpl Drop for Big<'_> {{\n    fn drop(&mut self) {{}}\n}}\n"
            );
            vec![
                file("crates/godwit-p2p/src/peers.rs", &struct_text),
                file("crates/godwit-p2p/src/peers/one.rs", &impl_text),
                file("crates/godwit-p2p/src/peers/two.rs", &impl_text),
                file("crates/godwit-p2p/src/peers/tests/three.rs", &impl_text),
                // Another type of that name.
                file("crates/godwit-p2p/src/slots.rs", &format!("struct Big {{\n}}\n{impl_text}")),
                // Another crate.
                file("crates/godwit-store/src/peers/one.rs", &impl_text),
            ]
        };
        assert_eq!(check(&tree(&fields, &methods)), []);
        let more = format!("{methods}    fn more(&self) {{}}\n");
        let findings = check(&tree(&format!("{fields}    last: u8,\n"), &more));
        let rules: Vec<&str> = findings.iter().map(|finding| finding.rule.as_str()).collect();
        assert_eq!(rules, ["Big has 42 methods, more than 40", "Big has 17 fields, more than 16"]);
    }
}
