//! Compiles the C++ side: the stream control at each optimisation level, the LevelDB and RocksDB
//! wrappers.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use godwit_core_source::compile_wrapper;

/// What Core's build gives g++ beside the level (its CMake summary, GCC 12, x86-64; for AArch64
/// `-mbranch-protection` in place of `-fcf-protection`), less what only chooses warnings. Each compiler takes
/// the flags that it knows.
const CORE_FLAGS: &[&str] = &[
    "-fno-extended-identifiers",
    "-fstack-reuse=none",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=3",
    "-fstack-protector-all",
    "-fcf-protection=full",
    "-mbranch-protection=standard",
    "-fstack-clash-protection",
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    build_control(&out);
    let leveldb = "src/leveldb/include";
    compile_wrapper(&mut cpp(), "cpp/leveldb.cpp", leveldb, "godwit_rivals_leveldb");
    if env::var_os("CARGO_FEATURE_RIVALS").is_some() {
        build_rocksdb();
    }
}

fn cpp() -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").warnings(true).extra_warnings(true).debug(false);
    for flag in CORE_FLAGS {
        build.flag_if_supported(flag);
    }
    build
}

/// One compilation of cpp/control.cpp.
struct Unit {
    /// Names its exported functions.
    name: &'static str,
    level: u32,
    flags: &'static [&'static str],
    /// With allocators that look at their blocks.
    inspects: bool,
}

/// Core's level, the same without memcpy for loops that copy, one above, and the one for tests.
const CONTROL: [Unit; 4] = [
    Unit { name: "O2", level: 2, flags: &[], inspects: false },
    Unit {
        name: "O2_loops",
        level: 2,
        // Each allocator has the same loop of 17 bytes. Where it lies across two cache lines it takes
        // twice the time for the same instructions, and which one does would be the linker's choice.
        flags: &["-fno-tree-loop-distribute-patterns", "-falign-loops=32"],
        inspects: false,
    },
    Unit { name: "O3", level: 3, flags: &[], inspects: false },
    Unit { name: "inspect", level: 2, flags: &[], inspects: true },
];

fn build_control(out: &Path) {
    let mut library = cc::Build::new();
    library.cpp(true);
    for unit in CONTROL {
        let mut build = cpp();
        build.file("cpp/control.cpp").opt_level(unit.level).define("LEVEL", unit.name);
        build.flag("-Warray-bounds").warnings_into_errors(true).out_dir(out.join(unit.name));
        for flag in unit.flags {
            build.flag(flag);
        }
        if unit.inspects {
            build.define("CONTROL_INSPECT", None);
        }
        for object in build.compile_intermediates() {
            library.object(isolated(&object, unit.name));
        }
    }
    library.compile("godwit_rivals_control");
}

/// The object with all but its exported functions made local.
///
/// The units instantiate the same templates of the standard library; merged by the linker, -O3
/// would silently run the code of -O2, or the other way round.
fn isolated(object: &Path, name: &str) -> PathBuf {
    let alone = object.with_file_name(format!("control_{name}.o"));
    let force = OsStr::new("--force-group-allocation");
    run("ld", &["-r".as_ref(), force, object.as_ref(), "-o".as_ref(), alone.as_ref()]);
    let pattern = format!("--keep-global-symbol=control_{name}_*");
    run("objcopy", &["--wildcard".as_ref(), pattern.as_ref(), alone.as_ref()]);
    alone
}

/// Runs a tool of binutils: the compiler's own, since those in the path know the machine that builds and not
/// always the one that the program is for.
fn run(tool: &str, arguments: &[&OsStr]) {
    let mut ask = cpp().get_compiler().to_command();
    let said = ask.arg(format!("-print-prog-name={tool}")).output().expect("the compiler runs");
    let path = String::from_utf8(said.stdout).expect("a path in UTF-8");
    let status = Command::new(path.trim()).args(arguments).status();
    assert!(status.is_ok_and(|status| status.success()), "{path} (package binutils) failed");
}

fn build_rocksdb() {
    let found = cpp().file("cpp/rocksdb.cpp").opt_level(2).try_compile("godwit_rivals_rocksdb");
    if let Err(error) = found {
        panic!("RocksDB wrapper: {error}\nThe feature `rivals` needs the package librocksdb-dev");
    }
    println!("cargo:rustc-link-lib=dylib=rocksdb");
}
