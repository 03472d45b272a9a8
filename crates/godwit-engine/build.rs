//! Compiles the wrapper of what Core refuses to relay. The functions themselves are in the archive that
//! `libbitcoinkernel-sys` builds.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=cpp");
    // The headers must be those of the library that is linked.
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    let include = kernel_source().join("src");
    assert!(include.join("policy").is_dir(), "no headers in {}", include.display());
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .debug(false)
        .opt_level(2)
        .file("cpp/policy.cpp")
        .flag(format!("-isystem{}", include.display()))
        .compile("godwit_engine_policy");
}

/// Core's source inside `libbitcoinkernel-sys`, which tells its dependents no path.
fn kernel_source() -> PathBuf {
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
    Path::new(manifest.expect("this crate depends on it")).with_file_name("bitcoin")
}
