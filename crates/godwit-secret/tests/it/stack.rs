//! What stands around a secret stack.

#![allow(unsafe_code)]

use std::env;
use std::panic::catch_unwind;

use godwit_secret::run_on_secret_stack;

use crate::child;

#[inline(never)]
fn the_caller_outside() -> bool {
    catch_unwind(|| run_on_secret_stack(|| -> bool { panic!("inside") })).is_err()
}

#[test]
fn a_panic_inside_prints_a_backtrace_that_reaches_the_callers() {
    const TEST: &str = "stack::a_panic_inside_prints_a_backtrace_that_reaches_the_callers";
    let text = child::run(TEST, || {
        // SAFETY: no other thread of the child reads or writes the environment meanwhile.
        unsafe { env::set_var("RUST_BACKTRACE", "full") };
        assert!(the_caller_outside());
    });
    assert!(text.contains("inside") && text.contains("the_caller_outside"), "{text}");
}
