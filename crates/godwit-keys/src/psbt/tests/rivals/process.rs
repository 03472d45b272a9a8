//! A library behind a process that answers lines: see `tools/psbt-rivals/serve.js`.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A library that was started.
pub(super) struct Rival {
    name: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Rival {
    /// `None`, and a line on stderr that starts with `SKIPPED: `, where the libraries are not in the cache.
    /// The first word of `program` is looked for there, else on the path.
    pub(super) fn start(name: &'static str, program: &[&str]) -> Option<Self> {
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let folder = home.join(".cache/godwit/psbt-rivals");
        if !folder.join("ready").is_file() {
            godwit_testdata::skip("no libraries for PSBTs (tools/build-psbt-rivals gets them)");
            return None;
        }
        let (words, first) = (&program[1..], folder.join(program[0]));
        let first = if first.is_file() { first } else { program[0].into() };
        let mut command = Command::new(first);
        command.args(words).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it was there when they were installed");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Some(Self { name, child, input, output })
    }

    /// What it says, or why it refuses.
    pub(super) fn ask(&mut self, question: &[&str]) -> Result<Vec<String>, String> {
        let input = self.input.as_mut().expect("it is open until the end");
        writeln!(input, "{}", question.join("\t")).expect("it reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it writes text");
        let mut fields = line.trim_end().split('\t').map(str::to_owned);
        match fields.next().as_deref() {
            Some("ok") => Ok(fields.collect()),
            Some("no") => Err(fields.collect()),
            _ => panic!("{} answers with nothing", self.name),
        }
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        drop(self.input.take());
        self.child.wait().expect("a child can be waited for");
    }
}
