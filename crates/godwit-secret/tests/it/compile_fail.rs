//! Programs that leak secrets and do not compile. The compiler's words change with its version, so they
//! are compared with one version's; `never.rs` says the same to all. After a change of the streams or of
//! the compiler: `TRYBUILD=overwrite cargo test --release -p godwit-secret compile`.

use std::process::Command;

/// Whose words the `.stderr` files have.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn leaking_programs_do_not_compile() {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().expect("a compiler");
    if !version.stdout.starts_with(COMPILER.as_bytes()) {
        let reason = format!("the messages of compile-fail tests are those of {COMPILER}x");
        godwit_testdata::skip(&reason);
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("compile-fail/*.rs");
    // The public surface of godwit-keys.
    cases.compile_fail("compile-fail/keys/*.rs");
}
