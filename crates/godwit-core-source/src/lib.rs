//! Bitcoin Core's source, for build scripts that compile wrappers of its functions. The functions themselves
//! are in the archive that `libbitcoinkernel-sys` builds.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Core's source inside `libbitcoinkernel-sys`, which tells its dependents no path. The headers must be those
/// of the library that is linked, so the script runs again when `Cargo.lock` changes.
fn source() -> PathBuf {
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    let target = env::var("TARGET").expect("cargo sets it");
    let output = Command::new(env::var_os("CARGO").expect("cargo sets it"))
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", &target])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let kernel = packages.iter().find(|package| package["name"] == "libbitcoinkernel-sys");
    let manifest = kernel.and_then(|package| package["manifest_path"].as_str());
    Path::new(manifest.expect("the package depends on it")).with_file_name("bitcoin")
}

/// Compiles the wrapper `file` into the library `name`; `include` is the folder of Core's headers that it
/// needs, in Core's source.
///
/// # Panics
///
/// The folder is not there, or the compiler fails: that ends the build.
pub fn compile_wrapper(build: &mut cc::Build, file: &str, include: &str, name: &str) {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=cpp");
    let include = source().join(include);
    assert!(include.is_dir(), "no headers in {}", include.display());
    build
        .cpp(true)
        .std("c++20")
        .warnings(true)
        .extra_warnings(true)
        .debug(false)
        .opt_level(2)
        .file(file)
        .flag(format!("-isystem{}", include.display()))
        .compile(name);
}
