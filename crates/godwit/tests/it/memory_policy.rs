//! The program that ships has the plain memory policy and no other.

use std::fs;

/// Whether the program's symbols have a function of that name: both of Rust's manglings put its
/// length before it.
fn has_symbol(program: &[u8], name: &str) -> bool {
    let mangled = format!("{}{name}", name.len());
    program.windows(mangled.len()).any(|window| window == mangled.as_bytes())
}

/// `godwit_wipe` is what stands behind the policy that wipes; `baseline` is the module of both
/// policies that do not ship.
#[test]
fn the_program_wipes_only_when_it_was_built_to() {
    let program = fs::read(env!("CARGO_BIN_EXE_godwit")).expect("cargo has built it");
    assert!(has_symbol(&program, "lang_start"), "stripped of symbols");
    assert_eq!(has_symbol(&program, "godwit_wipe"), cfg!(feature = "zero-after-free"));
    if !cfg!(any(feature = "zero-after-free", feature = "barrier-only")) {
        assert!(!has_symbol(&program, "ZeroAfterFree") && !has_symbol(&program, "BarrierOnly"));
    }
}
