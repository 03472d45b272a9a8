//! The other program, for tests of both: the test binary runs it in a process of its own, so that no test
//! depends on what was built besides.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, exit};

use godwit::exit::Exit;
use godwit_sim::programs::Ended;

/// Has the arguments in the process that is the signer, each with a separator behind it.
const ARGUMENTS: &str = "GODWIT_SIGNER_ARGUMENTS";
const SEPARATOR: u8 = 0x1f;

/// Runs a command of the signer on regtest, with this on its standard input. Its standard output is
/// libtest's: results go to files.
#[track_caller]
pub(crate) fn sign(words: &[&dyn AsRef<OsStr>], input: &str) -> Ended {
    let mut arguments = Vec::new();
    for word in words.iter().map(AsRef::<OsStr>::as_ref).chain([OsStr::new("-regtest")]) {
        arguments.extend_from_slice(word.as_bytes());
        arguments.push(SEPARATOR);
    }
    let mut command = Command::new(env::current_exe().expect("a test binary has a path"));
    command.args(["--exact", "signer::is_run", "--nocapture", "--test-threads=1"]);
    command.env(ARGUMENTS, OsString::from_vec(arguments));
    Ended::with_input(command, input).expect(Exit::Success)
}

/// Not a test but the signer, where there are arguments for it.
#[test]
fn is_run() {
    let Some(arguments) = env::var_os(ARGUMENTS) else { return };
    let words = arguments.as_bytes().split_inclusive(|byte| *byte == SEPARATOR);
    let words = words.map(|word| OsString::from_vec(word[..word.len() - 1].to_vec()));
    exit(godwit_signer::run::main(words).code().into());
}
