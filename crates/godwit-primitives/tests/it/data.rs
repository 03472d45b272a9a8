//! Real data in the forms that the tests here use.

use godwit_testdata::shared_file;
use serde_json::Value;

/// A JSON file of the shared data.
pub(crate) fn shared_json(name: &str) -> Option<Value> {
    let bytes = shared_file(name)?;
    Some(serde_json::from_slice(&bytes).expect("a file of the shared data is JSON"))
}

/// A block of the shared data.
pub(crate) fn block(name: &str) -> Option<Vec<u8>> {
    shared_file(&format!("blocks/{name}.blk.zst"))
}
