//! Counts by call path where freed memory is wiped, for a build that measures.
//!
//! Each wipe walks up the stack, so the times of such a build mean nothing.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use godwit_program::complain;
use godwit_stream::baseline::observe_wipes;

use crate::exit::Exit;

/// The environment variable that names the file of the counts.
const FILE: &str = "GODWIT_WIPES";

/// Return addresses of a call path, innermost first.
type Addresses = Vec<usize>;

/// Wipes of one call path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Wipes {
    frees: u64,
    bytes: u64,
}

static SEEN: Mutex<Option<HashMap<Addresses, Wipes>>> = Mutex::new(None);

/// Runs the program and writes, when `GODWIT_WIPES` names a file, a line for each call path of a
/// wipe: its functions from the outermost inwards, separated by semicolons, then the number of
/// frees, then that of wiped bytes.
pub fn count(program: fn() -> Exit) -> Exit {
    let Some(file) = std::env::var_os(FILE) else { return program() };
    observe_wipes(note);
    let exit = program();
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
    match std::fs::write(Path::new(&file), folded(&seen)) {
        Ok(()) => exit,
        Err(error) => {
            complain(&format!("godwit: {}: {error}", Path::new(&file).display()));
            Exit::Failure
        }
    }
}

fn note(bytes: usize) {
    let mut addresses = Addresses::with_capacity(32);
    backtrace::trace(|frame| {
        addresses.push(frame.ip() as usize);
        true
    });
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let wipes = seen.get_or_insert_default().entry(addresses).or_default();
    wipes.frees += 1;
    wipes.bytes += bytes as u64;
}

/// Call paths that differ in addresses alone become one.
fn folded(seen: &HashMap<Addresses, Wipes>) -> String {
    let mut by_name: HashMap<String, Wipes> = HashMap::new();
    let mut names = HashMap::new();
    for (addresses, wipes) in seen {
        let mut path: Vec<String> = Vec::new();
        for address in addresses {
            path.extend_from_slice(names.entry(*address).or_insert_with(|| functions_at(*address)));
        }
        path.reverse();
        let sum = by_name.entry(path.join(";")).or_default();
        sum.frees += wipes.frees;
        sum.bytes += wipes.bytes;
    }
    let mut lines: Vec<_> = by_name.into_iter().collect();
    lines.sort_by(|a, b| a.0.cmp(&b.0));
    lines.iter().fold(String::new(), |mut text, (path, Wipes { frees, bytes })| {
        writeln!(text, "{path} {frees} {bytes}").expect("a String takes all that is written to it");
        text
    })
}

/// The functions whose code contains an address, inlined ones first.
fn functions_at(address: usize) -> Vec<String> {
    let mut functions = Vec::new();
    // A return address is that of the instruction after the call.
    backtrace::resolve(address.saturating_sub(1) as *mut _, |symbol| {
        let name = symbol.name().map(|name| format!("{name:#}").replace(';', ","));
        functions.extend(name.map(|name| match symbol.filename().and_then(module) {
            // Line tables give inlined functions their bare names.
            Some(module) if is_bare(&name) => format!("{module}::{name}"),
            _ => name,
        }));
    });
    if functions.is_empty() {
        functions.push("unknown".to_owned());
    }
    functions
}

/// Whether a name has no path before its types in angle brackets.
fn is_bare(name: &str) -> bool {
    let before = name.split('<').next().unwrap_or_default();
    !before.is_empty() && !before.contains("::")
}

/// The module of a source file: `.../allocator-api2-0.2.21/src/stable/vec/mod.rs` has
/// `allocator_api2::stable::vec`.
fn module(file: &Path) -> Option<String> {
    let (before, inside) = file.to_str()?.rsplit_once("/src/")?;
    let directory = before.rsplit('/').next()?;
    let version = directory
        .rfind('-')
        .filter(|dash| directory[dash + 1..].starts_with(|c: char| c.is_ascii_digit()));
    let name = directory[..version.unwrap_or(directory.len())].replace('-', "_");
    let parts = inside.trim_end_matches(".rs").split('/');
    let parts = parts.filter(|part| !["mod", "lib", "main"].contains(part));
    Some(parts.fold(name, |path, part| format!("{path}::{part}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_paths_with_the_same_functions_are_added_up() {
        let here = folded as *const () as usize + 1;
        let seen = HashMap::from([
            (vec![here], Wipes { frees: 1, bytes: 10 }),
            (vec![here + 1], Wipes { frees: 2, bytes: 30 }),
            (vec![here, here], Wipes { frees: 4, bytes: 50 }),
        ]);
        let text = folded(&seen);
        let ends: Vec<_> = text.lines().map(|line| line.rsplitn(3, ' ').collect()).collect();
        let sums: Vec<_> = ends.iter().map(|ends: &Vec<_>| (ends[1], ends[0])).collect();
        assert_eq!(sums, [("3", "40"), ("4", "50")], "{text}");
        assert!(ends.iter().all(|ends| ends[2].contains("wipes::folded")), "{text}");
    }

    #[test]
    fn modules_of_source_files() {
        for (file, expected) in [
            (
                "/c/registry/allocator-api2-0.2.21/src/stable/vec/mod.rs",
                "allocator_api2::stable::vec",
            ),
            ("/work/crates/godwit-chain/src/connect/apply.rs", "godwit_chain::connect::apply"),
            ("/rustc/59/library/core/src/lib.rs", "core"),
        ] {
            assert_eq!(module(Path::new(file)).as_deref(), Some(expected));
        }
        assert_eq!(module(Path::new("build.rs")), None);
        assert!(is_bare("drop") && is_bare("encode<godwit_stream::DataStream>"));
        assert!(!is_bare("<a::B as c::D>::drop") && !is_bare("a::b<c>"));
    }
}
