//! What lies in the files of a data directory whose process was killed.

use std::fs;
use std::path::{Path, PathBuf};

use godwit_primitives::BlockHash;

use crate::blocks::header;
use crate::node::Node;

/// Magic and length in front of each record.
const FRAME: usize = 8;

/// Bytes behind an undo record: its checksum.
const CHECKSUM: usize = 32;

/// The records of one kind of file, in all files of that kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Records {
    /// Whole ones.
    pub(crate) complete: u64,
    /// Files that end within a record.
    pub(crate) torn: u64,
    /// Bytes of all files.
    pub(crate) bytes: u64,
}

/// The blocks of a data directory.
pub(crate) fn blocks(node: &Node) -> Records {
    records(node, "blk", 0)
}

/// The undo records of a data directory.
pub(crate) fn undo_records(node: &Node) -> Records {
    records(node, "rev", CHECKSUM)
}

/// Bytes of all undo files: cheap enough to ask thousands of times a second.
pub(crate) fn undo_bytes(node: &Node) -> u64 {
    let dir = node.network_dir().join("blocks");
    let files = (0..).map(|number| dir.join(format!("rev{number:05}.dat")));
    files.map_while(|path| Some(fs::metadata(path).ok()?.len())).sum()
}

/// The hash of each whole block, in no order.
pub(crate) fn block_hashes(node: &Node) -> Vec<BlockHash> {
    let mut hashes = Vec::new();
    for path in files(node, "blk") {
        let bytes = fs::read(path).expect("a block file");
        let mut rest = &bytes[..];
        while let Some(after) = behind_record(rest, 0) {
            hashes.push(header(&rest[FRAME..]).block_hash());
            rest = after;
        }
    }
    hashes
}

fn records(node: &Node, prefix: &str, behind: usize) -> Records {
    let mut all = Records::default();
    for path in files(node, prefix) {
        add_file(&path, behind, &mut all);
    }
    all
}

/// The files of one kind; none before the first start.
fn files(node: &Node, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(node.network_dir().join("blocks")) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry of the directory").path());
    let is_kind = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(prefix) && name.ends_with(".dat")
    };
    paths.filter(is_kind).collect()
}

fn add_file(path: &Path, behind: usize, all: &mut Records) {
    let bytes = fs::read(path).expect("a block or undo file");
    all.bytes += bytes.len() as u64;
    let mut rest = &bytes[..];
    while let Some(after) = behind_record(rest, behind) {
        all.complete += 1;
        rest = after;
    }
    all.torn += u64::from(!rest.is_empty());
}

fn behind_record(bytes: &[u8], behind: usize) -> Option<&[u8]> {
    let length = bytes.get(4..FRAME)?.try_into().expect("four bytes");
    bytes.get(FRAME + u32::from_le_bytes(length) as usize + behind..)
}
