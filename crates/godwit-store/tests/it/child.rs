//! A test body in a process of its own, with few descriptors: the test binary calls itself for the one
//! test, and an environment variable tells it which side it is.

use std::env;
use std::process::{self, Command};

const CHILD: &str = "GODWIT_STORE_CHILD";

/// Runs `body` in a process that may open so many files and cannot raise that, and expects it to end
/// well. `test` is the path of the calling test.
pub(crate) fn with_descriptors(limit: u32, test: &str, body: impl FnOnce()) {
    if env::var_os(CHILD).is_some_and(|name| name == test) {
        body();
        process::exit(0);
    }
    let binary = env::current_exe().expect("a test binary has a path");
    let script = format!("ulimit -n {limit}; exec \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh"]).arg(binary).env(CHILD, test);
    shell.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    let output = shell.output().expect("the test binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}
