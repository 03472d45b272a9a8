//! Where test data is found.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A file of the shared data (`$GODWIT_DATA`, else `shared/data` beside the checkout), decompressed.
pub(crate) fn shared(name: &str) -> Option<Vec<u8>> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let root = std::env::var_os("GODWIT_DATA").map_or_else(beside, PathBuf::from);
    let path = root.join(name);
    let Ok(bytes) = std::fs::read(&path) else {
        eprintln!("SKIPPED: shared data not found: {}", path.display());
        return None;
    };
    match name.ends_with(".zst") {
        true => Some(zstd::decode_all(&bytes[..]).expect("a file of the shared data is zstd")),
        false => Some(bytes),
    }
}

/// A JSON file of the shared data.
pub(crate) fn shared_json(name: &str) -> Option<Value> {
    let bytes = shared(name)?;
    Some(serde_json::from_slice(&bytes).expect("a file of the shared data is JSON"))
}

/// A block of the shared data.
pub(crate) fn block(name: &str) -> Option<Vec<u8>> {
    shared(&format!("blocks/{name}.blk.zst"))
}
