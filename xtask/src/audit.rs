//! The audit of memory classes: every use of `DataStream` and `SecretStream` and every call that
//! reveals a secret stands, classified, in the tables of `docs/memory-policy.md`, and the tables hold
//! nothing that the source does not.
//!
//! Streams are counted by file: what a file serialises is of one kind. Calls that reveal are counted by
//! function, because each needs its own argument. Tests are left out: their secrets are invented.

mod source;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// The page with the tables, from the root of the checkout.
const PAGE: &str = "docs/memory-policy.md";

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The plain stream.
    DataStream,
    /// The stream in locked memory.
    SecretStream,
    /// A call that shows a secret to its caller.
    Reveal,
}

impl Kind {
    const ALL: [Self; 3] = [Self::DataStream, Self::SecretStream, Self::Reveal];

    /// As the table calls it.
    fn name(self) -> &'static str {
        match self {
            Self::DataStream => "DataStream",
            Self::SecretStream => "SecretStream",
            Self::Reveal => "reveals",
        }
    }

    /// The kind of an identifier of the source.
    fn of(identifier: &str) -> Option<Self> {
        match identifier {
            "DataStream" => Some(Self::DataStream),
            "SecretStream" => Some(Self::SecretStream),
            "expose_secret" | "expose_secret_mut" | "use_key" => Some(Self::Reveal),
            "write_secret_to" | "write_secrets_to" => Some(Self::Reveal),
            _ => None,
        }
    }
}

/// Where something is used: file, function (`-` where the whole file is meant), kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    path: String,
    function: String,
    kind: Kind,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, function, kind } = self;
        write!(f, "`{path}` | `{function}` | {}", kind.name())
    }
}

/// How often each thing is used.
pub(crate) type Uses = BTreeMap<Place, usize>;

/// What is wrong, a line each; empty when source and page agree.
pub(crate) fn findings(root: &Path) -> io::Result<Vec<String>> {
    let uses = source::uses(root)?;
    Ok(compare(&uses, &fs::read_to_string(root.join(PAGE))?))
}

fn compare(uses: &Uses, page: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut rows = BTreeMap::new();
    for row in table::rows(page) {
        match row {
            Err(finding) => findings.push(finding),
            Ok(row) => {
                if let Some(double) = rows.insert(row.place, row.times) {
                    findings.push(format!("two rows for one place, one of {double} uses"));
                }
            }
        }
    }
    for (place, times) in uses {
        match rows.remove(place) {
            None => findings.push(format!("not classified: | {place} | {times} | ")),
            Some(classified) if classified != *times => findings.push(format!(
                "| {place} | is used {times} times and was classified at {classified}"
            )),
            Some(_) => {}
        }
    }
    findings.extend(rows.keys().map(|place| format!("classified, but not used: | {place} |")));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(path: &str, text: &str) -> Uses {
        let mut uses = Uses::new();
        source::add(path, text, &mut uses).expect("the text is Rust");
        uses
    }

    #[test]
    fn every_use_in_the_tree_is_classified() {
        let findings = findings(&crate::workspace_root()).expect("the checkout is readable");
        assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
    }

    #[test]
    fn a_new_use_is_found_wherever_it_stands() {
        let text = "
            use godwit_stream::DataStream;
            struct A<T>(T);
            impl A<u8> {
                /// Not `DataStream`.
                fn show(&self) -> DataStream { vec![self.0.expose_secret(|x| x[0])]; todo() }
            }
            fn free(key: &Key) {
                let inner = || { println!(\"{}\", key.expose_secret_mut(f)) };
                key.write_secret_to(&mut out);
                store.write_secrets_to(id, &mut out);
                key.use_key(|key| sign(key));
            }
            #[cfg(test)]
            mod tests { fn f() { DataStream::new(); key.expose_secret(g); } }
        ";
        let place = |function: &str, kind| Place {
            path: "a.rs".to_owned(),
            function: function.to_owned(),
            kind,
        };
        let expected = Uses::from([
            (place("-", Kind::DataStream), 2),
            (place("A::show", Kind::Reveal), 1),
            (place("free", Kind::Reveal), 4),
        ]);
        assert_eq!(uses("a.rs", text), expected);
    }

    #[test]
    fn page_and_source_must_agree_exactly() {
        let source = uses("a.rs", "fn f() { DataStream::new(); key.expose_secret(g); }");
        let stream = "| `a.rs` | `-` | DataStream | 1 | public | blocks |\n";
        let reveal = "| `a.rs` | `f` | reveals | 1 | secret | to the cipher |\n";
        let page = |rows: &str| format!("{}\n{rows}\n", table::HEADING);
        assert_eq!(compare(&source, &page(&format!("{stream}{reveal}"))), Vec::<String>::new());
        for (rows, finding) in [
            (stream.to_owned(), "not classified"),
            (format!("{stream}{reveal}{reveal}"), "two rows"),
            (format!("{stream}{}", reveal.replace("| 1 |", "| 2 |")), "is used 1 times"),
            (format!("{stream}{}", reveal.replace("`f`", "`g`")), "not classified"),
            (format!("{stream}{reveal}{}", stream.replace("a.rs", "b.rs")), "but not used"),
            (format!("{stream}{}", reveal.replace("secret", "hidden")), "no class"),
            (format!("{stream}{}", reveal.replace("secret", "public")), "must be secret"),
            (format!("{stream}{}", reveal.replace("to the cipher", " ")), "no reason"),
            (format!("{}{reveal}", stream.replace("public", "secret")), "may not be secret"),
        ] {
            let findings = compare(&source, &page(&rows));
            assert!(findings.iter().any(|line| line.contains(finding)), "{finding}: {findings:?}");
        }
    }
}
