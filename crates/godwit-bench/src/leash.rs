//! Ends a program when this one is gone, however it ended.

use std::io;
use std::process::{Child, Command, Stdio};

/// Kills the process that it is told of when its standard input ends.
const WATCH: &str = "read -r end; kill -KILL \"$0\" 2>/dev/null";

/// Keeps a child from outliving this process. One that is killed cannot kill its children, and to have the
/// kernel do it (`PR_SET_PDEATHSIG`) takes unsafe code: instead a shell waits for the end of a pipe, of which
/// this process has the only other end.
#[derive(Debug)]
pub(crate) struct Leash(Child);

impl Leash {
    /// Holds `child` until it is dropped; the child has to be collected by then.
    pub(crate) fn of(child: &Child) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", WATCH, &child.id().to_string()]).stdin(Stdio::piped());
        shell.spawn().map(Self)
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        // The shell must not act any more: the number of the child may be another one's by now.
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            eprintln!("the watch over a program could not be ended: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn sleeping() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
    }

    #[test]
    fn a_child_ends_with_its_parent() {
        let mut child = sleeping();
        let mut leash = Leash::of(&child).unwrap();
        // The kernel closes it when the process ends.
        drop(leash.0.stdin.take());
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_leash_that_is_dropped_lets_the_child_live() {
        let mut child = sleeping();
        drop(Leash::of(&child).unwrap());
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
