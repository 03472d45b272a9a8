//! The register of memory classes: every use of `DataStream` and `SecretStream`, every call that reveals a
//! secret, and whatever lets something out of the closure that it is revealed to, stands, classified, in the
//! tables of `docs/memory-policy.md`, and the tables hold nothing that the source does not. It is no proof
//! of where a secret goes: it makes somebody look.
//!
//! Streams are counted by file: what a file serialises is of one kind. Calls that reveal are counted by
//! function, because each needs its own argument, and each row has a hash of the function's tokens, so that
//! another body asks for another look; so has the row of a type that is `Releasable`, of its definition.
//! Types see to what a closure returns, captures and is given to write into. They do not see a lock, an
//! atomic or a static: a function that reveals and names one has a row for that (`shared`).
//! Which functions reveal follows from what they take and return (`revealing`), whatever they are called
//! and wherever they are. Tests among the sources are left out, and files of tests and tools have one row
//! each: their secrets are invented.

mod revealing;
mod shared;
mod source;
mod table;

use std::collections::{BTreeMap, BTreeSet};
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
    /// A value that was made of a secret and is said to be none.
    Declassified,
    /// Memory outside of the arena that a closure is given to write into.
    Unprotected,
    /// A function that reveals and names what is shared between threads.
    Shared,
    /// A type that a closure may return, or write into, that was shown a secret.
    Releasable,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::DataStream,
        Self::SecretStream,
        Self::Reveal,
        Self::Declassified,
        Self::Unprotected,
        Self::Shared,
        Self::Releasable,
    ];

    /// As the table calls it.
    fn name(self) -> &'static str {
        match self {
            Self::DataStream => "DataStream",
            Self::SecretStream => "SecretStream",
            Self::Reveal => "reveals",
            Self::Declassified => "Declassified",
            Self::Unprotected => "Unprotected",
            Self::Shared => "shared",
            Self::Releasable => "Releasable",
        }
    }

    /// The kind of an identifier of the source, where these functions reveal. That `Releasable` is a bound
    /// lets nothing out: its implementations do.
    fn of(identifier: &str, revealing: &BTreeSet<String>) -> Option<Self> {
        match identifier {
            "DataStream" => Some(Self::DataStream),
            "SecretStream" => Some(Self::SecretStream),
            "Declassified" => Some(Self::Declassified),
            "Unprotected" => Some(Self::Unprotected),
            name => revealing.contains(name).then_some(Self::Reveal),
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

/// How often something is used in one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    times: usize,
    /// A hash of the function's tokens; `-` where a whole file is meant.
    tokens: String,
}

/// How often each thing is used.
pub(crate) type Uses = BTreeMap<Place, Use>;

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
                if let Some(double) = rows.insert(row.place, row.used) {
                    let times = double.times;
                    findings.push(format!("two rows for one place, one of {times} uses"));
                }
            }
        }
    }
    for (place, used) in uses {
        let Use { times, tokens } = used;
        match rows.remove(place) {
            None => findings.push(format!("not classified: | {place} | {times} |  | {tokens} |")),
            Some(row) if row.times != *times => findings.push(format!(
                "| {place} | is used {times} times and was classified at {}; tokens: {tokens}",
                row.times
            )),
            Some(row) if row.tokens != *tokens => findings.push(format!(
                "| {place} | is another function than was looked at; tokens: {tokens}"
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

    fn uses_of(files: &[(&str, &str)]) -> Uses {
        let files: Vec<_> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        source::of_files(&files).expect("the text is Rust")
    }

    fn uses(path: &str, text: &str) -> Uses {
        uses_of(&[(path, text)])
    }

    fn times(uses: &Uses) -> Vec<(String, Kind, usize)> {
        let all = uses.iter();
        all.map(|(place, used)| (place.function.clone(), place.kind, used.times)).collect()
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
        let found = times(&uses("a.rs", text));
        let row = |function: &str, kind, times| (function.to_owned(), kind, times);
        let expected = [
            row("-", Kind::DataStream, 2),
            row("A::show", Kind::Reveal, 1),
            row("free", Kind::Reveal, 4),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_leaves_a_closure_is_found() {
        let text = "
            use godwit_secret::{Declassified, Releasable, SecretArray};
            fn f(key: &Key) -> Point { key.expose_secret(|k| Declassified(point(k))).0 }
            fn g<R: Releasable>(key: &Key, f: impl FnOnce(&[u8]) -> R) -> R { key.expose_secret(f) }
            struct Pair { key: Key }
            impl godwit_secret::Releasable for Pair {}
            impl Releasable for elsewhere::Pair {}
            macro_rules! more { ($t:ty) => { impl Releasable for $t {} } }
            #[cfg(test)]
            mod tests { struct T; impl Releasable for T {} fn f() { Declassified(1); } }
        ";
        let found = times(&uses("a.rs", text));
        let row = |function: &str, kind, times| (function.to_owned(), kind, times);
        let expected = [
            row("-", Kind::Releasable, 2),
            row("Pair", Kind::Releasable, 1),
            row("f", Kind::Reveal, 1),
            row("f", Kind::Declassified, 1),
            // Its own name as well, since it reveals in its turn.
            row("g", Kind::Reveal, 2),
        ];
        assert_eq!(found, expected);
        // Under another name.
        let text =
            "use godwit_secret::{Declassified as D, Releasable as R}; type E<T> = Declassified<T>;";
        let expected = [row("-", Kind::Declassified, 2), row("-", Kind::Releasable, 1)];
        assert_eq!(times(&uses("a.rs", text)), expected);
    }

    #[test]
    fn what_is_given_to_write_into_is_found() {
        let text = "
            use godwit_secret::Unprotected;
            fn f(key: &Key, out: &mut Vec<u8>) {
                key.expose_secret_into(Unprotected(out), |k, out| out.0.extend(k));
            }
        ";
        let row = |kind| ("f".to_owned(), kind, 1);
        assert_eq!(times(&uses("a.rs", text)), [row(Kind::Reveal), row(Kind::Unprotected)]);
        // Under another name.
        let found = times(&uses("a.rs", "use godwit_secret::Unprotected as U;"));
        assert_eq!(found, [("-".to_owned(), Kind::Unprotected, 1)]);
    }

    #[test]
    fn what_is_shared_between_threads_is_found_where_a_function_reveals() {
        let statics = "
            static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
            static mut LAST: u8 = 0;
            static SEEN: UnsafeCell<u8> = UnsafeCell::new(0);
            static TABLE: [u8; 3] = [1, 2, 3];
            thread_local! { static HERE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) }; }
        ";
        let shared = |body: &str| {
            let other = format!("fn f(key: &Key, log: &T, send: u8) {{ {body} }}");
            let uses = uses_of(&[("a.rs", statics), ("b.rs", &other)]);
            let shared = uses.into_iter().filter(|(place, _)| place.kind == Kind::Shared);
            shared.map(|(place, used)| (place.function, used.times)).collect::<Vec<_>>()
        };
        for body in [
            "key.expose_secret(|k| LOG.with(|log| log.extend(k)))",
            "key.expose_secret(|k| log.lock().unwrap().extend(k))",
            "key.expose_secret(|k| log.store(k[0], Relaxed))",
            "key.expose_secret(|k| log.fetch_add(k[0], Relaxed))",
            "key.expose_secret(|k| log.r#send(k.to_vec()))",
            "key.expose_secret(|k| unsafe { LAST = k[0] })",
            "key.expose_secret(|k| SEEN.get().write(k[0]))",
            "key.expose_secret(|k| HERE.replace(k.to_vec()))",
            "let log = Mutex::new(vec![]); key.expose_secret(|k| put(&log, k))",
            "let log = AtomicU64::new(0); key.expose_secret(|k| put(&log, k))",
            "key.expose_secret(|k| { format!(\"{}\", LAST); })",
        ] {
            assert_eq!(shared(body), [("f".to_owned(), 1)], "{body}");
        }
        for body in [
            "key.expose_secret(|k| put(TABLE, send, k))",
            "LOG.lock().extend([1])",
            "key.expose_secret(|k| lock(k) == store)",
        ] {
            assert_eq!(shared(body), [], "{body}");
        }
    }

    #[test]
    fn another_field_asks_for_another_look() {
        let tokens = |fields: &str| {
            let text = format!("struct Pair {{ {fields} }} impl Releasable for Pair {{}}");
            uses("a.rs", &text).into_values().next().expect("it is one").tokens
        };
        let first = tokens("key: SecretBytes");
        assert_eq!(first.len(), 8);
        assert_eq!(first, tokens("/// What for.\n #[cfg(unix)] key: SecretBytes"));
        assert_ne!(first, tokens("key: SecretBytes, text: String"));
    }

    #[test]
    fn another_body_asks_for_another_look() {
        let row = |body: &str| {
            let text = format!("/// What for.\nfn f(key: &Key) {{ {body} }}");
            uses("a.rs", &text).into_values().next().expect("it reveals")
        };
        let first = row("key.expose_secret(|k| sign(k))");
        assert_eq!(first, row("key . expose_secret( |k| sign(k) ) /* Nothing else. */"));
        let other = row("key.expose_secret(|k| LOG.push(k.to_vec()))");
        assert_eq!(first.times, other.times);
        assert_ne!(first.tokens, other.tokens);
        assert_eq!(first.tokens.len(), 8);
    }

    #[test]
    fn a_raw_name_is_the_same_name() {
        let found = times(&uses("a.rs", "fn f(key: &Key) { key.r#expose_secret(|k| push(k)); }"));
        assert_eq!(found, [("f".to_owned(), Kind::Reveal, 1)]);
    }

    #[test]
    fn a_function_that_reveals_is_known_by_what_it_takes_and_returns() {
        let other = "
            fn caller(key: &PacketKey) { key.show_tag(|tag| send(tag)); key.machine(); key.bound(g); }
            fn second(key: &PacketKey) { key.numbered(g); key.default(g); key.by_pointer(g); }
            fn quiet(key: &PacketKey) { key.length(); }
        ";
        let of = "
            impl PacketKey {
                fn show_tag<R>(&self, f: impl FnOnce(&[u8; 32]) -> R) -> R { self.key.expose_secret(f) }
                fn bound<F: FnMut(&mut [u8])>(&self, f: F) { self.key.expose_secret(f) }
                fn machine(&self) -> ChaCha20 { self.key.expose_secret(|k| ChaCha20::new(k)) }
                fn twice<R>(&self, f: impl FnOnce(&str) -> R) -> R { self.show_tag(|t| f(text(t))) }
                fn length(&self) -> usize { self.key.expose_secret(|k| k.len()) }
                fn numbered(&self, f: impl Fn(usize, &[u8])) { self.key.expose_secret(|k| f(1, k)) }
                fn by_pointer(&self, f: fn(&[u8])) { self.key.expose_secret(f) }
            }
            trait Shows { fn default(&self, f: impl FnOnce(&[u8])) { self.key().expose_secret(f) } }
        ";
        let found = times(&uses_of(&[("a.rs", other), ("b/src/c.rs", of)]));
        let callers: Vec<_> = found.iter().filter(|(name, ..)| !name.contains("::")).collect();
        let row = |name: &str| (name.to_owned(), Kind::Reveal, 3);
        assert_eq!(callers, [&row("caller"), &row("second")]);
        // Its own name, and the call of what it got the bytes from.
        assert!(found.contains(&("PacketKey::twice".to_owned(), Kind::Reveal, 2)), "{found:?}");
    }

    #[test]
    fn what_is_compiled_without_tests_too_is_read() {
        let lib = "#[cfg(test)] mod both; #[cfg(not(test))] mod both; #[cfg(test)] mod tests;";
        let leak = "fn f() { key.expose_secret(g); }";
        let files = [("a/src/lib.rs", lib), ("a/src/both.rs", leak), ("a/src/tests.rs", leak)];
        let found: Vec<_> = uses_of(&files).into_keys().map(|place| place.path).collect();
        assert_eq!(found, ["a/src/both.rs"]);
        // A library's module of tests, which the program beside it compiles.
        let (lib, main) = ("#[cfg(test)] mod both;", "mod both; fn main() {}");
        let files = [("a/src/lib.rs", lib), ("a/src/main.rs", main), ("a/src/both.rs", leak)];
        let found: Vec<_> = uses_of(&files).into_keys().map(|place| place.path).collect();
        assert_eq!(found, ["a/src/both.rs"]);
    }

    #[test]
    fn files_of_tests_and_tools_have_a_row_each() {
        let leak = "fn f() { key.expose_secret(g); DataStream::new(); }";
        for path in ["a/tests/it/x.rs", "a/build.rs", "a/examples/x.rs", "fuzz/src/x.rs"] {
            assert_eq!(times(&uses(path, leak)), [("-".to_owned(), Kind::Reveal, 1)], "{path}");
        }
    }

    #[test]
    fn source_from_elsewhere_is_refused() {
        for text in [
            "include!(\"x.rs\");",
            "std::include!(\"x.rs\");",
            "#[path = \"x.rs\"] mod x;",
            "#[cfg_attr(unix, path = \"x.rs\")] mod x;",
            "fn f() { include!(\"x\") }",
        ] {
            let files = [("a/src/lib.rs".to_owned(), text.to_owned())];
            let error = source::of_files(&files).expect_err("it is not read").to_string();
            assert!(error.contains("a/src/lib.rs"), "{error}");
        }
    }

    #[test]
    fn page_and_source_must_agree_exactly() {
        let source = uses("a.rs", "fn f() { DataStream::new(); key.expose_secret(g); }");
        let stream = "| `a.rs` | `-` | DataStream | 1 | public | - | blocks |\n";
        let tokens = source
            .iter()
            .find_map(|(place, used)| (place.kind == Kind::Reveal).then_some(&used.tokens));
        let tokens = tokens.expect("one reveals");
        let reveal =
            format!("| `a.rs` | `f` | reveals | 1 | secret | {tokens} | to the cipher |\n");
        let page = |rows: &str| format!("{}\n{rows}\n", table::HEADING);
        assert_eq!(compare(&source, &page(&format!("{stream}{reveal}"))), Vec::<String>::new());
        for (rows, finding) in [
            (stream.to_owned(), "not classified"),
            (format!("{stream}{reveal}{reveal}"), "two rows"),
            (format!("{stream}{}", reveal.replace("| 1 |", "| 2 |")), "is used 1 times"),
            (format!("{stream}{}", reveal.replace("`f`", "`g`")), "not classified"),
            (format!("{stream}{}", reveal.replace(&**tokens, "00000000")), "another function"),
            (format!("{stream}{reveal}{}", stream.replace("a.rs", "b.rs")), "but not used"),
            (format!("{stream}{}", reveal.replace("secret", "hidden")), "no class"),
            (format!("{stream}{}", reveal.replace("secret", "public")), "must be secret"),
            (format!("{stream}{}", reveal.replace("to the cipher", " ")), "no reason"),
            (format!("{}{reveal}", stream.replace("public", "secret")), "may not be secret"),
            (reveal.replace("reveals", "Declassified"), "may not be secret"),
        ] {
            let findings = compare(&source, &page(&rows));
            assert!(findings.iter().any(|line| line.contains(finding)), "{finding}: {findings:?}");
        }
    }
}
