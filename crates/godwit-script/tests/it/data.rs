//! Where test data is found.

use std::path::{Path, PathBuf};
use std::{env, fs};

use godwit_testdata::shared_data;
use serde_json::Value;

/// One of Core's JSON vector files: the copy inside the source of the kernel that is linked here,
/// which every machine has that compiled this test.
pub(crate) fn kernel_vectors(name: &str) -> Value {
    read_json(&kernel_source().join("bitcoin/src/test/data").join(name))
}

/// The same file of the shared data, which may be of another version of Core.
pub(crate) fn shared_vectors(name: &str) -> Option<Value> {
    shared_data().map(|folder| read_json(&folder.join("vectors/core").join(name)))
}

fn read_json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The unpacked `libbitcoinkernel-sys` of the version in Cargo.lock.
fn kernel_source() -> PathBuf {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = fs::read_to_string(lock).expect("the workspace has a Cargo.lock");
    let version = lock
        .split_once("name = \"libbitcoinkernel-sys\"\nversion = \"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .expect("Cargo.lock names libbitcoinkernel-sys")
        .0;
    let cargo_home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cargo")))
        .expect("CARGO_HOME or a home directory is set");
    let registries = cargo_home.join("registry/src");
    fs::read_dir(&registries)
        .unwrap_or_else(|error| panic!("{}: {error}", registries.display()))
        .map(|entry| entry.expect("registry directory is readable").path())
        .map(|registry| registry.join(format!("libbitcoinkernel-sys-{version}")))
        .find(|source| source.exists())
        .unwrap_or_else(|| panic!("no libbitcoinkernel-sys-{version} in {}", registries.display()))
}
