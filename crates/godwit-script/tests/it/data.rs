//! Where test data is found.

use std::fs;
use std::path::Path;

use godwit_testdata::{package_source, shared_data};
use serde_json::Value;

/// One of Core's JSON vector files: the copy inside the source of the kernel that is linked here,
/// which every machine has that compiled this test.
pub(crate) fn kernel_vectors(name: &str) -> Value {
    let source = package_source("libbitcoinkernel-sys").expect("cargo has unpacked what it built");
    read_json(&source.join("bitcoin/src/test/data").join(name))
}

/// The same file of the shared data, which may be of another version of Core.
pub(crate) fn shared_vectors(name: &str) -> Option<Value> {
    shared_data().map(|folder| read_json(&folder.join("vectors/core").join(name)))
}

fn read_json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
