//! Where and when the measuring was done.

use std::fmt;
use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// What a reader needs to place the numbers. What it does not say is empty or `unknown`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// Processors that the system gives to programs.
    pub cores: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// Version of the kernel.
    pub kernel: String,
    /// Load averages at the start: what else was running.
    pub load: String,
    /// Start, UTC.
    pub date: String,
    /// Commit of the working directory.
    pub commit: String,
}

impl Machine {
    /// This machine, now.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            processor: value_of(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: kib(&value_of(&read("/proc/meminfo"), "MemTotal")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
            date: output_of(Command::new("date").args(["-u", "+%FT%TZ"])),
            commit: output_of(Command::new("git").args(["describe", "--always", "--dirty"])),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, memory, kernel, load, date, commit } = self;
        let gib = *memory as f64 / (1u64 << 30) as f64;
        write!(
            f,
            "{date}, commit {commit}; {processor}, {cores} cores, {gib:.1} GiB, Linux {kernel}, load \
             before the start {load}"
        )
    }
}

/// The value of the first line `name : value`.
fn value_of(text: &str, name: &str) -> String {
    let values = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = values.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
    values.next().unwrap_or_default().to_owned()
}

fn kib(text: &str) -> u64 {
    text.strip_suffix(" kB").and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() * 1024
}

fn output_of(command: &mut Command) -> String {
    let output = command.output().ok().filter(|output| output.status.success());
    let unknown = || "unknown".to_owned();
    output.map_or_else(unknown, |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_name() {
        let text = "processor\t: 0\nmodel name\t: A B\nmodel name\t: C\n";
        assert_eq!(value_of(text, "model name"), "A B");
        assert_eq!(value_of(text, "model"), "");
        assert_eq!(kib("12 kB"), 12 * 1024);
    }
}
