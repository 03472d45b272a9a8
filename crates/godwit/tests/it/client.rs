//! `godwit-cli`, for tests: the test binary runs it in a process of its own, so that no test depends on
//! what was built besides.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Stdio, exit};

/// Has the arguments in the process that is the program, each with a separator behind it.
const ARGUMENTS: &str = "GODWIT_CLI_ARGUMENTS";
const SEPARATOR: u8 = 0x1f;
/// What libtest says before.
const PREFACE: &str = "\nrunning 1 test\ntest client::is_run ... ";

/// How a client ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs `godwit-cli`, with this on its standard input.
#[track_caller]
pub(crate) fn ask(words: &[String], input: &str) -> Said {
    let mut arguments = Vec::new();
    for word in words {
        arguments.extend_from_slice(OsStr::new(word).as_bytes());
        arguments.push(SEPARATOR);
    }
    let mut command = Command::new(env::current_exe().expect("a test binary has a path"));
    command.args(["--exact", "client::is_run", "--nocapture", "--test-threads=1"]);
    command.env(ARGUMENTS, OsString::from_vec(arguments));
    let mut said = said(command, input);
    said.out = said.out.strip_prefix(PREFACE).unwrap_or(&said.out).to_owned();
    said
}

/// Runs a client to its end.
#[track_caller]
pub(crate) fn said(mut command: Command, input: &str) -> Said {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("a child can be waited for");
    let text = |bytes| String::from_utf8(bytes).expect("it says text");
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Not a test but the program, where there are arguments for it.
#[test]
fn is_run() {
    let Some(arguments) = env::var_os(ARGUMENTS) else { return };
    let words = arguments.as_bytes().split_inclusive(|byte| *byte == SEPARATOR);
    let words: Vec<OsString> =
        words.map(|word| OsString::from_vec(word[..word.len() - 1].to_vec())).collect();
    exit(godwit_cli::run(words.into_iter()).into());
}
