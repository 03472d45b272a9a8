//! Compiles the wrapper of what Core refuses to relay.

fn main() {
    let mut build = cc::Build::new();
    build.warnings_into_errors(true);
    godwit_core_source::compile_wrapper(
        &mut build,
        "cpp/policy.cpp",
        "src",
        "godwit_engine_policy",
    );
}
