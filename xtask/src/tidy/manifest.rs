//! Which crate may name which: the table of `ARCHITECTURE.md`, held against the manifests.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, TextFile, source};

/// One row of the dependency table.
struct Room {
    name: &'static str,
    /// Workspace crates it may depend on.
    may_use: &'static [&'static str],
    /// Workspace crates that only its tests may use.
    tests_may_use: &'static [&'static str],
}

const STREAM: &str = "godwit-stream";
const PRIMITIVES: &str = "godwit-primitives";
const CONSENSUS: &str = "godwit-consensus";
const CORE_SOURCE: &str = "godwit-core-source";
const ENGINE: &str = "godwit-engine";
const SCRIPT: &str = "godwit-script";
const DISK: &str = "godwit-disk";
const FAULT_DISK: &str = "godwit-fault-disk";
const STORE: &str = "godwit-store";
const CHAIN: &str = "godwit-chain";
const INDEX: &str = "godwit-index";
const P2P: &str = "godwit-p2p";
const POLICY: &str = "godwit-policy";
const SIM: &str = "godwit-sim";
const TESTDATA: &str = "godwit-testdata";
const SECRET: &str = "godwit-secret";
const KEYS: &str = "godwit-keys";
const PROGRAM: &str = "godwit-program";
const RPC: &str = "godwit-rpc";
const HTTP: &str = "godwit-http";
const API: &str = "godwit-api";
const CLIENT: &str = "godwit-client";
const HANDOVER: &str = "godwit-handover";
const CLI: &str = "godwit-cli";
const NODE: &str = "godwit";
const SIGNER: &str = "godwit-signer";
const RIVALS: &str = "godwit-rivals";
const VERIFY: &str = "godwit-verify";
/// A workspace of its own.
const FUZZ: &str = "fuzz";
/// Another one: clients of others, which `tools/build-rpc-clients` builds.
const RPC_CLIENTS: &str = "rpc-clients";

const ROOMS: &[Room] = &[
    Room { name: STREAM, may_use: &[], tests_may_use: &[] },
    Room { name: PRIMITIVES, may_use: &[STREAM], tests_may_use: &[TESTDATA] },
    Room { name: CONSENSUS, may_use: &[STREAM, PRIMITIVES], tests_may_use: &[TESTDATA] },
    Room { name: CORE_SOURCE, may_use: &[], tests_may_use: &[] },
    Room { name: ENGINE, may_use: &[STREAM, PRIMITIVES, CORE_SOURCE], tests_may_use: &[TESTDATA] },
    Room {
        name: SCRIPT,
        may_use: &[STREAM, PRIMITIVES, ENGINE, VERIFY],
        tests_may_use: &[CONSENSUS, TESTDATA],
    },
    Room { name: DISK, may_use: &[STREAM], tests_may_use: &[] },
    Room { name: FAULT_DISK, may_use: &[STREAM, DISK], tests_may_use: &[] },
    Room {
        name: STORE,
        may_use: &[STREAM, PRIMITIVES, DISK],
        tests_may_use: &[FAULT_DISK, TESTDATA],
    },
    Room {
        name: CHAIN,
        may_use: &[STREAM, PRIMITIVES, CONSENSUS, SCRIPT, STORE],
        tests_may_use: &[FAULT_DISK, SIM, TESTDATA],
    },
    Room {
        name: INDEX,
        may_use: &[STREAM, PRIMITIVES, CONSENSUS, STORE, CHAIN],
        tests_may_use: &[FAULT_DISK, SIM, TESTDATA],
    },
    Room { name: POLICY, may_use: &[PRIMITIVES, CONSENSUS, ENGINE], tests_may_use: &[] },
    Room {
        name: P2P,
        may_use: &[STREAM, PRIMITIVES, CONSENSUS, SECRET],
        tests_may_use: &[TESTDATA],
    },
    Room { name: SIM, may_use: &[STREAM, PRIMITIVES, P2P, SECRET, PROGRAM], tests_may_use: &[] },
    Room { name: TESTDATA, may_use: &[], tests_may_use: &[] },
    Room { name: PROGRAM, may_use: &[PRIMITIVES], tests_may_use: &[] },
    Room {
        name: NODE,
        may_use: &[
            STREAM, PRIMITIVES, STORE, CHAIN, INDEX, P2P, SECRET, PROGRAM, RPC, CLIENT, API,
            HANDOVER,
        ],
        tests_may_use: &[FAULT_DISK, KEYS, SIGNER, SIM, TESTDATA, CLI],
    },
    Room { name: RPC, may_use: &[], tests_may_use: &[TESTDATA] },
    Room { name: HTTP, may_use: &[SECRET], tests_may_use: &[] },
    Room {
        name: API,
        may_use: &[
            STREAM, PRIMITIVES, CONSENSUS, ENGINE, STORE, CHAIN, INDEX, P2P, POLICY, SECRET, RPC,
            HTTP,
        ],
        tests_may_use: &[],
    },
    Room {
        name: HANDOVER,
        may_use: &[STREAM, PRIMITIVES, CORE_SOURCE, STORE, CHAIN],
        tests_may_use: &[SIM],
    },
    Room { name: CLIENT, may_use: &[RPC], tests_may_use: &[] },
    Room { name: CLI, may_use: &[PRIMITIVES, PROGRAM, RPC, CLIENT], tests_may_use: &[] },
    Room {
        name: SIGNER,
        may_use: &[STREAM, PRIMITIVES, ENGINE, P2P, SECRET, KEYS, PROGRAM, RPC, CLIENT],
        tests_may_use: &[SIM, TESTDATA],
    },
    Room { name: SECRET, may_use: &[STREAM], tests_may_use: &[KEYS, TESTDATA] },
    Room { name: KEYS, may_use: &[STREAM, SECRET], tests_may_use: &[PRIMITIVES, ENGINE, TESTDATA] },
    Room { name: VERIFY, may_use: &[], tests_may_use: &[TESTDATA] },
    Room { name: RIVALS, may_use: &[CORE_SOURCE], tests_may_use: &[TESTDATA] },
    Room {
        name: "godwit-bench",
        may_use: &[STREAM, PRIMITIVES, CONSENSUS, STORE, P2P, SECRET, KEYS, RIVALS, TESTDATA],
        tests_may_use: &[],
    },
    Room {
        name: FUZZ,
        may_use: &[
            STREAM, PRIMITIVES, CONSENSUS, STORE, FAULT_DISK, P2P, RPC, HTTP, SECRET, KEYS,
            TESTDATA, VERIFY,
        ],
        tests_may_use: &[],
    },
    Room { name: RPC_CLIENTS, may_use: &[], tests_may_use: &[] },
    Room { name: "xtask", may_use: &[], tests_may_use: &[] },
];

/// Outside crates that only the named rooms may ship (their tests excepted).
const WALLS: &[(&str, &[&str])] = &[
    ("bitcoinkernel", &[ENGINE, RIVALS]),
    ("libbitcoinkernel-sys", &[ENGINE, HANDOVER]),
    ("bitcoin", &[SIM, RIVALS, KEYS, SIGNER, FUZZ, RPC_CLIENTS]),
    ("hyper", &[HTTP, API]),
    ("tokio", &[HTTP, API, FUZZ]),
    ("redb", &[STORE, RIVALS, FUZZ]),
];

/// What a program does not link, however far down.
const APART: &[(&str, &[&str])] = &[
    (NODE, KEYS_AND_THEIR_PARTS),
    // Variable time is for public data.
    (SIGNER, &[VERIFY, HANDOVER]),
    (CLI, &[CHAIN, STORE, INDEX, P2P, HTTP, API, ENGINE, HANDOVER]),
];

const KEYS_AND_THEIR_PARTS: &[&str] = &[
    KEYS,
    SIGNER,
    "aes",
    "argon2",
    "bip39",
    "bitcoin",
    "cbc",
    "chacha20poly1305",
    "miniscript",
    "pbkdf2",
    "rusqlite",
    "unicode-normalization",
];

/// The feature with the search for copies of secrets, and the rooms that may ship it.
const RESIDUE: (&str, &[&str]) = ("\"residue\"", &[SIGNER]);

/// Rooms whose code opens no file or socket, starts no thread and reads no clock.
const PURE: &[&str] = &[STREAM, PRIMITIVES, CONSENSUS, P2P, DISK, VERIFY, RPC];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Shipped,
    Tests,
}

/// One line of a dependency section.
#[derive(PartialEq, Eq, Debug)]
struct Dependency {
    name: String,
    kind: Kind,
    line: usize,
}

/// Arrows, walls and pins of all manifests, and the code of the pure rooms.
pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = source::check_pure(files, PURE);
    findings.extend(check_apart(files));
    let mut seen: BTreeMap<&str, bool> = ROOMS.iter().map(|room| (room.name, false)).collect();
    for file in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        if file.path == "Cargo.toml" {
            findings.extend(check_pins(file, "[workspace.dependencies]"));
            continue;
        }
        if file.path == "fuzz/Cargo.toml" {
            findings.extend(check_pins(file, "[dependencies]"));
        }
        let name = file.path.rsplit('/').nth(1).unwrap_or_default();
        match ROOMS.iter().find(|room| room.name == name) {
            Some(room) => {
                seen.insert(room.name, true);
                findings.extend(check_room(file, room));
                findings.extend(check_drawn(file, room));
            }
            None => findings.push(Finding::new(
                file,
                0,
                format!("crate {name} has no row in xtask/src/tidy/manifest.rs"),
            )),
        }
    }
    for (name, _) in seen.into_iter().filter(|(_, found)| !found) {
        findings.push(Finding {
            path: "xtask/src/tidy/manifest.rs".to_owned(),
            line: 0,
            rule: format!("the table has a row for {name}, which does not exist"),
        });
    }
    findings
}

fn check_room(file: &TextFile, room: &Room) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Dependency { name, kind, line } in dependencies(&file.text) {
        let name = name.as_str();
        let allowed = room.may_use.contains(&name)
            || (kind == Kind::Tests && room.tests_may_use.contains(&name));
        let inside = ROOMS.iter().any(|room| room.name == name);
        if inside && !allowed {
            findings.push(Finding::new(file, line, format!("{} may not use {name}", room.name)));
        }
        let wall = WALLS.iter().find(|(outside, _)| *outside == name);
        if let Some((_, rooms)) = wall
            && kind == Kind::Shipped
            && !rooms.contains(&room.name)
        {
            findings.push(Finding::new(file, line, format!("only {rooms:?} may ship {name}")));
        }
        let (feature, rooms) = RESIDUE;
        let text = file.text.lines().nth(line - 1).unwrap_or_default();
        if kind == Kind::Shipped && text.contains(feature) && !rooms.contains(&room.name) {
            findings.push(Finding::new(file, line, format!("only {rooms:?} may ship {feature}")));
        }
    }
    findings
}

/// What each program links, by way of other crates of the workspace too.
fn check_apart(files: &[TextFile]) -> Vec<Finding> {
    let manifest = |name: &str| {
        let path = format!("crates/{name}/Cargo.toml");
        files.iter().find(|file| file.path == path)
    };
    let mut findings = Vec::new();
    for (program, apart) in APART {
        let mut reached = BTreeSet::new();
        let mut next = vec![(*program).to_owned()];
        while let Some(name) = next.pop() {
            let Some(file) = manifest(&name).filter(|_| reached.insert(name.clone())) else {
                continue;
            };
            for Dependency { name, kind, line } in dependencies(&file.text) {
                if kind == Kind::Tests {
                    continue;
                }
                if apart.contains(&name.as_str()) {
                    findings.push(Finding::new(
                        file,
                        line,
                        format!("{program} may not link {name}"),
                    ));
                } else {
                    next.push(name);
                }
            }
        }
    }
    findings
}

/// An arrow that no manifest draws is not allowed in advance.
fn check_drawn(file: &TextFile, room: &Room) -> Vec<Finding> {
    let drawn = dependencies(&file.text);
    let mut findings = Vec::new();
    for (allowed, kind) in [(room.may_use, Kind::Shipped), (room.tests_may_use, Kind::Tests)] {
        for name in allowed {
            if !drawn.iter().any(|found| found.name == *name && found.kind == kind) {
                let rule = format!("no line for {name}, which tidy/manifest.rs allows here");
                findings.push(Finding::new(file, 0, rule));
            }
        }
    }
    findings
}

/// Versions are written once in a workspace, in `section` of its root manifest, and exact.
fn check_pins(root: &TextFile, section: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut inside = false;
    for (index, line) in root.text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.trim() == section;
        } else if inside && is_entry(line) && !line.contains("\"=") && !line.contains("path = ") {
            findings.push(Finding::new(root, index + 1, "pin the exact version: \"=x.y.z\""));
        }
    }
    findings
}

/// The entries of `[dependencies]`, `[build-dependencies]` and `[dev-dependencies]`, also below
/// `[target.…]` and in the `[dependencies.NAME]` form.
fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut section = None;
    for (index, line) in manifest.lines().enumerate() {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end().trim_end_matches(']');
            section = section_kind(header);
            if let Some((table, name)) = header.rsplit_once('.')
                && let Some(kind) = section_kind(table)
            {
                found.push(Dependency { name: name.to_owned(), kind, line: index + 1 });
            }
        } else if let Some(kind) = section
            && is_entry(line)
        {
            let end = line.find(['.', '=', ' ']).unwrap_or(line.len());
            found.push(Dependency { name: line[..end].to_owned(), kind, line: index + 1 });
        }
    }
    found
}

fn section_kind(header: &str) -> Option<Kind> {
    match header.rsplit('.').next()? {
        "dependencies" | "build-dependencies" => Some(Kind::Shipped),
        "dev-dependencies" => Some(Kind::Tests),
        _ => None,
    }
}

fn is_entry(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn rules(room: &str, text: &str) -> Vec<(usize, String)> {
        let room = ROOMS.iter().find(|candidate| candidate.name == room).expect("a known room");
        let file = manifest("crates/x/Cargo.toml", text);
        check_room(&file, room).into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn entries_are_found_in_every_form() {
        let text = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\nb = \"1\"\n# c\n\n\
                    [target.'cfg(unix)'.dependencies]\nd = { version = \"1\" }\n\
                    [dev-dependencies.e]\npath = \"../e\"\n[build-dependencies]\nf=\"1\"\n";
        let names: Vec<(String, Kind)> =
            dependencies(text).into_iter().map(|found| (found.name, found.kind)).collect();
        let expected = [
            ("a", Kind::Shipped),
            ("b", Kind::Shipped),
            ("d", Kind::Shipped),
            ("e", Kind::Tests),
            ("f", Kind::Shipped),
        ];
        assert_eq!(names, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }

    #[test]
    fn arrows_point_one_way() {
        assert_eq!(rules(CONSENSUS, "[dependencies]\ngodwit-stream.workspace = true\n"), []);
        assert_eq!(
            rules(CONSENSUS, "[dependencies]\ngodwit-store.workspace = true\n"),
            [(2, "godwit-consensus may not use godwit-store".to_owned())]
        );
    }

    #[test]
    fn test_arrows_stay_in_tests() {
        assert_eq!(rules(CHAIN, "[dev-dependencies]\ngodwit-sim.workspace = true\n"), []);
        assert_eq!(
            rules(CHAIN, "[dependencies]\ngodwit-sim.workspace = true\n"),
            [(2, "godwit-chain may not use godwit-sim".to_owned())]
        );
    }

    #[test]
    fn an_arrow_is_allowed_where_it_is_drawn() {
        let room = ROOMS.iter().find(|room| room.name == STORE).expect("a known room");
        let missing = |text: &str| check_drawn(&manifest("crates/x/Cargo.toml", text), room).len();
        let text = "[dependencies]\ngodwit-primitives = { path = \"..\" }\n\
                    godwit-disk = { path = \"..\" }\ngodwit-stream.workspace = true\n[dev-dependencies]\n\
                    godwit-testdata.workspace = true\ngodwit-fault-disk.workspace = true\n";
        assert_eq!(missing(text), 0);
        assert_eq!(missing(&text.replace("stream", "other")), 1);
        assert_eq!(missing(&text.replace("dev-", "")), 2);
        assert_eq!(missing(""), 5);
    }

    #[test]
    fn only_the_engine_room_ships_the_engine() {
        let text = "[dependencies]\nbitcoinkernel.workspace = true\n";
        assert_eq!(rules(ENGINE, text), []);
        assert_eq!(rules(CHAIN, text).len(), 1);
        assert_eq!(rules(CHAIN, &text.replace("[dep", "[dev-dep")), []);
    }

    #[test]
    fn the_node_links_no_keys_however_far_down() {
        let links = |text: &str, section: &str| -> Vec<(String, usize)> {
            let files = [
                manifest(
                    "crates/godwit/Cargo.toml",
                    "[dependencies]\ngodwit-p2p.workspace = true\n",
                ),
                manifest("crates/godwit-p2p/Cargo.toml", &format!("[{section}]\n{text}\n")),
                manifest(
                    "crates/godwit-keys/Cargo.toml",
                    "[dependencies]\nargon2.workspace = true\n",
                ),
            ];
            check_apart(&files).into_iter().map(|found| (found.path, found.line)).collect()
        };
        let found = vec![("crates/godwit-p2p/Cargo.toml".to_owned(), 2)];
        assert_eq!(links("godwit-keys.workspace = true", "dependencies"), found);
        assert_eq!(links("argon2 = \"=1.0.0\"", "dependencies"), found);
        assert_eq!(links("argon2 = \"=1.0.0\"", "dev-dependencies"), []);
        assert_eq!(links("chacha20.workspace = true", "dependencies"), []);
    }

    #[test]
    fn only_the_signer_ships_the_search_for_copies() {
        let text =
            "[dependencies]\ngodwit-secret = { workspace = true, features = [\"residue\"] }\n";
        assert_eq!(rules(SIGNER, text), []);
        assert_eq!(rules(NODE, text).len(), 1);
        assert_eq!(rules(NODE, &text.replace("[dep", "[dev-dep")), []);
    }

    #[test]
    fn pins_are_exact() {
        let text = "[workspace.dependencies]\na = \"=1.2.3\"\nb = { path = \"b\" }\nc = \"1\"\n\
                    [profile.release]\ndebug = 1\n";
        let lines = |section, text: &str| -> Vec<usize> {
            let findings = check_pins(&manifest("Cargo.toml", text), section);
            findings.iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines("[workspace.dependencies]", text), [4]);
        assert!(lines("[dependencies]", text).is_empty());
        assert_eq!(lines("[dependencies]", &text.replace("workspace.", "")), [4]);
    }

    #[test]
    fn a_crate_without_a_row_is_found_and_a_row_without_a_crate() {
        let findings = check(&[manifest("crates/godwit-new/Cargo.toml", "")]);
        assert!(findings[0].rule.contains("godwit-new has no row"));
        assert_eq!(findings.len(), 1 + ROOMS.len());
    }
}
