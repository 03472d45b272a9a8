//! Where real data lies, and how a test says that it is absent.

use std::path::PathBuf;

/// The folder of the shared data, or a line on stderr and `None`.
pub(crate) fn shared_data(test: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("GODWIT_DATA").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"))
    });
    if dir.is_dir() {
        return Some(dir);
    }
    eprintln!("SKIPPED {test}: shared data not found (set GODWIT_DATA)");
    None
}

/// A zstd file's content.
pub(crate) fn decompressed(path: PathBuf) -> Vec<u8> {
    let compressed = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    zstd::decode_all(&compressed[..]).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
