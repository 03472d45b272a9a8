//! Compiles the wrapper of LevelDB.

fn main() {
    let mut build = cc::Build::new();
    build.warnings_into_errors(true);
    godwit_core_source::compile_wrapper(
        &mut build,
        "cpp/leveldb.cpp",
        "src/leveldb/include",
        "godwit_handover_leveldb",
    );
}
