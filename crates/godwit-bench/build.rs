//! Tells the reports which compilers made the program.

use std::env;
use std::ffi::OsString;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CXX");
    let program = |variable, default: &str| env::var_os(variable).unwrap_or_else(|| default.into());
    println!("cargo:rustc-env=RUSTC_VERSION={}", version(program("RUSTC", "rustc")));
    println!("cargo:rustc-env=CXX_VERSION={}", version(program("CXX", "c++")));
}

/// The first line of what `program --version` says.
fn version(program: OsString) -> String {
    let output = Command::new(&program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let line = text.ok().and_then(|text| Some(text.lines().next()?.trim().to_owned()));
    line.unwrap_or_else(|| format!("{} of unknown version", program.display()))
}
