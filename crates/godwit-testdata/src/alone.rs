//! A process of its own for a test that measures its process: its memory, its mappings.

use std::env;
use std::process::Command;

/// Its value is the test that this process was started for.
const STARTED_FOR: &str = "GODWIT_TEST_ALONE";

/// Runs `body` in a process in which no other test runs. `test` is the path of the calling test within its
/// program.
///
/// # Panics
///
/// Where the body panics, with what that process printed; and where no test has that path.
pub fn alone(test: &str, body: impl FnOnce()) {
    if env::var_os(STARTED_FOR).is_some_and(|name| name == test) {
        return body();
    }
    let program = env::current_exe().expect("a test's program has a path");
    let output = Command::new(program)
        .args(["--exact", test])
        .env(STARTED_FOR, test)
        .output()
        .expect("a test's program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_test_has_a_process_of_its_own_and_fails_with_it() {
        let here = std::process::id();
        alone("alone::tests::a_test_has_a_process_of_its_own_and_fails_with_it", || ());
        let other = "alone::tests::prints_its_process_and_fails";
        let failed = catch_unwind(|| alone(other, || panic!("not in this process")));
        let said = *failed.expect_err("it fails").downcast::<String>().expect("a text");
        assert!(!said.contains("not in this process"), "{said}");
        let process: u32 = said
            .split("process ")
            .nth(1)
            .and_then(|text| text.split('.').next()?.parse().ok())
            .expect("a number");
        assert_ne!(process, here);
        assert!(catch_unwind(|| alone("alone::tests::no_such_test", || ())).is_err());
    }

    #[test]
    fn prints_its_process_and_fails() {
        if env::var_os(STARTED_FOR).is_some() {
            panic!("process {}.", std::process::id());
        }
    }
}
