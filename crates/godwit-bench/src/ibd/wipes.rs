//! Where freed memory is wiped during a sync: counts by call path.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::chain_summary::ChainSummary;
use crate::failure::Failure;
use crate::node::Node;
use crate::report_files::write_json;

/// Paths of which the table tells; the picture has all.
const ROWS: usize = 12;
/// Functions of a path in the table.
const FUNCTIONS: usize = 4;

/// What one program wipes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wipes {
    pub program: Node,
    /// One of so many wipes was looked at, or of small ones alone, and counts for as many.
    pub every: u64,
    /// Its syncs.
    pub cases: Vec<CaseWipes>,
}

/// What it wipes in one sync.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseWipes {
    /// Name of the case.
    pub case: String,
    /// Blocks of the chain.
    pub blocks: u32,
    pub block_bytes: u64,
    /// Blocks of memory wiped.
    pub frees: u64,
    /// Bytes wiped.
    pub bytes: u64,
    /// By call path.
    pub paths: Vec<CallPath>,
}

/// Wipes from one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallPath {
    /// Functions, outermost first.
    pub frames: Vec<String>,
    /// Blocks of memory wiped.
    pub frees: u64,
    /// Bytes wiped.
    pub bytes: u64,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Functions in short, innermost first.
    pub functions: Vec<String>,
    /// Blocks of memory wiped.
    pub frees: u64,
    /// Bytes wiped.
    pub bytes: u64,
}

impl Wipes {
    /// Name of a program's file, without its ending.
    pub fn name(program: Node) -> &'static str {
        match program {
            Node::Godwit => "wipes",
            Node::Bitcoind => "core-wipes",
        }
    }

    /// Reads what lies in a directory of either program.
    pub fn read_all(dir: &Path) -> Result<Vec<Self>, Failure> {
        let mut all = Vec::new();
        for program in [Node::Godwit, Node::Bitcoind] {
            let path = dir.join(Self::name(program)).with_extension("json");
            match fs::read(&path) {
                Ok(text) => all.push(
                    serde_json::from_slice(&text).map_err(|error| Failure::Json(path, error))?,
                ),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(Failure::File(path, error)),
            }
        }
        Ok(all)
    }

    /// Writes it into a directory.
    pub fn write(&self, dir: &Path) -> Result<(), Failure> {
        write_json(&dir.join(Self::name(self.program)).with_extension("json"), self)
    }
}

impl CaseWipes {
    /// Reads what godwit counted: lines of a path, its frees and its bytes.
    pub fn read(case: &str, path: &Path, chain: &ChainSummary) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|e| Failure::File(path.to_owned(), e))?;
        let paths = parse(&text).ok_or_else(|| Failure::Folded(path.to_owned()))?;
        Ok(Self::of(case, chain.height, chain.bytes, paths))
    }

    /// Adds the paths up.
    pub fn of(case: &str, blocks: u32, block_bytes: u64, paths: Vec<CallPath>) -> Self {
        let frees = paths.iter().map(|path| path.frees).sum();
        let bytes = paths.iter().map(|path| path.bytes).sum();
        Self { case: case.to_owned(), blocks, block_bytes, frees, bytes, paths }
    }

    /// The paths by what a reader tells them apart by, most bytes first, the rest in one row.
    pub fn rows(&self) -> Vec<Row> {
        let mut sums: BTreeMap<Vec<String>, (u64, u64)> = BTreeMap::new();
        for path in &self.paths {
            let sum = sums.entry(gist(&path.frames)).or_default();
            *sum = (sum.0 + path.frees, sum.1 + path.bytes);
        }
        let row = |(functions, (frees, bytes))| Row { functions, frees, bytes };
        let mut rows: Vec<Row> = sums.into_iter().map(row).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.bytes, row.frees)));
        let rest = rows.split_off(rows.len().min(ROWS));
        if !rest.is_empty() {
            rows.push(Row {
                functions: vec![format!("{} other paths", rest.len())],
                frees: rest.iter().map(|row| row.frees).sum(),
                bytes: rest.iter().map(|row| row.bytes).sum(),
            });
        }
        rows
    }
}

/// Lines `function;function frees bytes`; functions may hold spaces. What ran before the program's
/// own code and after the wipe began is left out.
fn parse(text: &str) -> Option<Vec<CallPath>> {
    let mut paths: BTreeMap<Vec<String>, (u64, u64)> = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.rsplitn(3, ' ');
        let bytes: u64 = fields.next()?.parse().ok()?;
        let frees: u64 = fields.next()?.parse().ok()?;
        let sum = paths.entry(own_frames(fields.next()?)).or_default();
        *sum = (sum.0 + frees, sum.1 + bytes);
    }
    let path = |(frames, (frees, bytes))| CallPath { frames, frees, bytes };
    Some(paths.into_iter().map(path).collect())
}

fn own_frames(path: &str) -> Vec<String> {
    let frames: Vec<&str> = path.split(';').collect();
    let first = frames.iter().position(|frame| frame.contains("godwit")).unwrap_or_default();
    let wipe = frames.iter().rposition(|frame| frame.ends_with("godwit_wipe"));
    let end = wipe.map_or(frames.len(), |wipe| wipe + 1);
    frames[first.min(end)..end].iter().map(|frame| (*frame).to_owned()).collect()
}

/// Where code of the languages' libraries begins.
const LIBRARIES: [&str; 10] = [
    "core::",
    "alloc::",
    "std::",
    "allocator_api2::",
    "hashbrown::",
    "crossbeam_channel::",
    "__",
    "void std::",
    "memory_cleanse",
    "zero_after_free_allocator",
];

/// What short names of a thread's beginning and of its library's callables are.
const PLUMBING: [&str; 6] =
    ["_M_invoke", "_M_run", "operator", "start_thread", "clone3", "util::TraceThread"];

/// The functions of a path that belong to the program, in short, outermost first; one that calls
/// itself, or that the optimiser took apart, once.
pub fn own_functions(frames: &[String]) -> Vec<String> {
    let mut own: Vec<String> = Vec::new();
    for frame in frames {
        let bare = frame.trim_start_matches('<').trim_start_matches("dyn ");
        let library = LIBRARIES.iter().any(|library| bare.starts_with(library));
        if library || bare.contains("godwit_wipe") || bare.contains("baseline::") {
            continue;
        }
        let short = short(frame);
        let named = !short.is_empty() && !PLUMBING.contains(&short.as_str());
        if named && own.last() != Some(&short) {
            own.push(short);
        }
    }
    own
}

/// The innermost ones, in short.
fn gist(frames: &[String]) -> Vec<String> {
    own_functions(frames).into_iter().rev().take(FUNCTIONS).collect()
}

/// The last two parts of a function's name, without arguments and without types in angle brackets.
fn short(frame: &str) -> String {
    // `<a::B<C> as d::E>::f`: what counts is `a::B::f`.
    let frame = match frame.strip_prefix('<').and_then(split_at_close) {
        Some((inside, behind)) => {
            format!("{}{behind}", inside.split(" as ").next().unwrap_or_default())
        }
        None => frame.to_owned(),
    };
    let mut depth = 0usize;
    let mut bare = String::new();
    for letter in frame.replace("(anonymous namespace)::", "").chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            _ if depth == 0 => bare.push(letter),
            _ => {}
        }
    }
    let bare = bare.trim().rsplit(' ').next().unwrap_or_default().to_owned();
    let parts: Vec<&str> =
        bare.split("::").filter(|part| !part.is_empty() && !part.starts_with('{')).collect();
    parts[parts.len().saturating_sub(2)..].join("::")
}

/// What stands before the angle bracket that closes an opened one, and behind it.
fn split_at_close(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    for (place, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..place], &text[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDED: &str = "\
std::rt::lang_start;godwit::run::main;core::ops::drop;godwit_stream::baseline::godwit_wipe;x 3 30
__clone;godwit::run::main;core::ops::drop;godwit_stream::baseline::godwit_wipe 2 20
<godwit_stream::A as core::B>::drop;godwit_stream::baseline::godwit_wipe 1 500
";

    #[test]
    fn paths_with_the_same_own_functions_are_added_up() {
        let wipes = CaseWipes::of("files", 10, 1000, parse(FOLDED).unwrap());
        assert_eq!((wipes.frees, wipes.bytes, wipes.paths.len()), (6, 550, 2));
        assert_eq!(wipes.paths[1].frames[0], "godwit::run::main");
        assert_eq!(wipes.paths[1].frames.len(), 3);
        let rows = wipes.rows();
        assert_eq!(rows[0], Row { functions: vec!["A::drop".into()], frees: 1, bytes: 500 });
        assert_eq!(rows[1], Row { functions: vec!["run::main".into()], frees: 5, bytes: 50 });
        for wrong in ["a;b 1", "a;b x 2", "a;b 1 -2", "\n"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_in_short() {
        for (long, expected) in [
            (
                "<godwit_stream::pool::PooledStream<A> as core::ops::Drop>::drop",
                "PooledStream::drop",
            ),
            ("godwit_chain::connect::apply::{{closure}}", "connect::apply"),
            ("core::ptr::drop_in_place<godwit_primitives::block::Block>", "ptr::drop_in_place"),
            ("CDBWrapper::WriteBatch(CDBBatch&, bool)", "CDBWrapper::WriteBatch"),
            ("std::unique_ptr<int> node::BlockManager::Read(int)", "BlockManager::Read"),
            ("(anonymous namespace)::PeerManagerImpl::Send(CNode&)", "PeerManagerImpl::Send"),
            ("main", "main"),
        ] {
            assert_eq!(short(long), expected, "{long}");
        }
    }

    #[test]
    fn what_is_behind_the_last_row_is_added_up() {
        let path = |n: u64| CallPath { frames: vec![format!("f{n}")], frees: 1, bytes: n };
        let wipes = CaseWipes::of("files", 1, 1, (1..=15).map(path).collect());
        let rows = wipes.rows();
        assert_eq!(rows.len(), ROWS + 1);
        assert_eq!(rows[0].bytes, 15);
        let rest = Row { functions: vec!["3 other paths".into()], frees: 3, bytes: 6 };
        assert_eq!(rows.last(), Some(&rest));
    }

    #[test]
    fn json_round_trip() {
        let dir = std::env::temp_dir().join(format!("godwit-ibd-wipes-{}", std::process::id()));
        let cases = vec![CaseWipes::of("files", 10, 1000, parse(FOLDED).unwrap())];
        let wipes = Wipes { program: Node::Bitcoind, every: 7, cases };
        wipes.write(&dir).unwrap();
        assert_eq!(Wipes::read_all(&dir).unwrap(), [wipes]);
        fs::remove_dir_all(&dir).unwrap();
    }
}
