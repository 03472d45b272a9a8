//! A control group that limits memory, page cache included.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;

/// A group of its own, of version 1 or 2.
pub(super) struct Group {
    path: PathBuf,
    peak: &'static str,
}

impl Group {
    /// One whose processes may use `limit` bytes together.
    pub(super) fn new(limit: u64) -> Result<Self, Failure> {
        // Version 1 has a tree for each controller.
        let (root, limit_file, peak) = match Path::new("/sys/fs/cgroup/memory").is_dir() {
            true => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
            false => ("/sys/fs/cgroup", "memory.max", "memory.peak"),
        };
        let path = Path::new(root).join(format!("cold-vs-core-{}", std::process::id()));
        let failed = |error| Failure::File(path.clone(), error);
        fs::create_dir(&path).map_err(failed)?;
        let group = Self { path: path.clone(), peak };
        fs::write(group.path.join(limit_file), limit.to_string()).map_err(failed)?;
        forbid_swap(&group.path, limit).map_err(failed)?;
        Ok(group)
    }

    /// The same command inside: a shell enters the group and becomes the program.
    pub(super) fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]);
        inside.arg(self.path.join("cgroup.procs")).arg(command.get_program());
        inside.args(command.get_args());
        inside
    }

    /// Removes it; the most bytes that it had.
    pub(super) fn remove(self) -> Result<u64, Failure> {
        let path = self.path.join(self.peak);
        let peak = fs::read_to_string(&path).map_err(|error| Failure::File(path, error))?;
        Ok(peak.trim().parse().unwrap_or_default())
    }
}

/// Without swap, which would make room of another kind. A kernel may keep no account of it; then neither file
/// is there.
fn forbid_swap(group: &Path, limit: u64) -> io::Result<()> {
    // Version 1 has memory and swap in one limit.
    for (file, most) in [("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", limit)] {
        let path = group.join(file);
        if path.exists() {
            fs::write(path, most.to_string())?;
        }
    }
    Ok(())
}

impl Drop for Group {
    fn drop(&mut self) {
        // One that is left behind does no harm, and an error on the way out says more.
        let _is_removed = fs::remove_dir(&self.path).is_ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_is_forbidden_in_either_version_and_where_it_is_not_counted_nothing_is_written() {
        let group = tempfile::tempdir().unwrap();
        let text = |file| fs::read_to_string(group.path().join(file)).unwrap();
        forbid_swap(group.path(), 7).unwrap();
        assert_eq!(fs::read_dir(group.path()).unwrap().count(), 0);
        for file in ["memory.swap.max", "memory.memsw.limit_in_bytes"] {
            fs::write(group.path().join(file), "max").unwrap();
        }
        forbid_swap(group.path(), 7).unwrap();
        assert_eq!([text("memory.swap.max"), text("memory.memsw.limit_in_bytes")], ["0", "7"]);
    }

    #[test]
    fn a_command_becomes_itself_inside() {
        let group = Group { path: "/sys/fs/cgroup/x".into(), peak: "memory.peak" };
        let mut command = Command::new("/bin/echo");
        command.args(["a b", "$HOME"]);
        let inside = group.command(&command);
        let words: Vec<_> = inside.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words[2..], ["/sys/fs/cgroup/x/cgroup.procs", "/bin/echo", "a b", "$HOME"]);
        // As the shell takes the words.
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut shell = Command::new("sh");
        shell.args(&words[..2]).arg(file.path()).args(&words[3..]);
        let output = shell.output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "a b $HOME\n");
        let pid = fs::read_to_string(file.path()).unwrap();
        assert!(pid.trim().parse::<u32>().is_ok(), "{pid}");
    }
}
