//! The machine in one line, and what makes figures on it noisy. Nothing here changes the machine.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Load average above which something else is running.
const QUIET_LOAD: f64 = 0.5;

/// What a reader needs to place the figures. What the system does not say is empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// Processor, memory, kernel, load, date, commit.
    pub machine: Machine,
    /// Clock of the first processor at the start, in MHz.
    pub clock: f64,
    /// The caches of the first processor.
    pub caches: String,
    /// What chooses the clock.
    pub governor: String,
    pub compiler: String,
    /// Whether the processor's counters can be read.
    pub has_counters: bool,
}

impl System {
    /// This machine, now.
    pub fn here(has_counters: bool) -> Self {
        Self {
            machine: Machine::here(),
            clock: clock(&read("/proc/cpuinfo")),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            compiler: concat!(env!("RUSTC_VERSION"), "; ", env!("CXX_VERSION")).to_owned(),
            has_counters,
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processor, cores, memory, kernel, load, date, commit, .. } = &self.machine;
        let or_unknown = |text: &str| if text.is_empty() { "unknown" } else { text }.to_owned();
        write!(
            f,
            "{processor}, {cores} processors, {:.0} MHz, caches {}, {:.1} GiB of memory, Linux \
             {kernel}, {}, governor {}, load {load}, {date}, commit {commit}",
            self.clock,
            or_unknown(&self.caches),
            *memory as f64 / (1u64 << 30) as f64,
            self.compiler,
            or_unknown(&self.governor),
        )
    }
}

/// What makes figures noisy here, each with what could be done about it. `datadir` is where stores
/// are flushed.
pub fn warnings(datadir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut warn = |wrong: bool, text: &str| {
        if wrong {
            found.push(text.to_owned());
        }
    };
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    warn(
        !governor.is_empty() && governor != "performance",
        "the governor is not `performance`: the clock follows the load",
    );
    let turbo = read("/sys/devices/system/cpu/intel_pstate/no_turbo") == "0"
        || read("/sys/devices/system/cpu/cpufreq/boost") == "1";
    warn(turbo, "turbo is on: the clock depends on temperature and on what else runs");
    warn(
        read("/sys/devices/system/cpu/smt/active") == "1",
        "hardware threads share cores: a neighbour takes part of the core away",
    );
    warn(
        load(&read("/proc/loadavg")) > QUIET_LOAD,
        "something else is running: see the load in the system line",
    );
    warn(on_battery(), "the machine runs on its battery");
    warn(
        read("/proc/cpuinfo").contains(" hypervisor"),
        "this is a virtual machine: its host may take the processor away, and knows the true clock",
    );
    warn(cfg!(debug_assertions), "debug assertions are on: build with --release");
    warn(
        in_memory(&read("/proc/self/mounts"), datadir),
        "the data directory lies in memory: a flush to it is not durable",
    );
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn clock(cpuinfo: &str) -> f64 {
    let line = cpuinfo.lines().find(|line| line.starts_with("cpu MHz"));
    let value = line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim());
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

fn load(loadavg: &str) -> f64 {
    loadavg.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default()
}

/// As in `L1d 32K, L1i 32K, L2 1024K, L3 32768K`.
fn caches(folder: &Path) -> String {
    let cache = |index: usize| {
        let value = |name: &str| {
            let text = fs::read_to_string(folder.join(format!("index{index}/{name}"))).ok()?;
            Some(text.trim().to_owned())
        };
        let kind = match value("type")?.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        Some(format!("L{}{kind} {}", value("level")?, value("size")?))
    };
    (0..).map_while(cache).collect::<Vec<_>>().join(", ")
}

fn on_battery() -> bool {
    let supplies = fs::read_dir("/sys/class/power_supply").into_iter().flatten().flatten();
    let mut states = supplies.map(|supply| fs::read_to_string(supply.path().join("status")));
    states.any(|state| state.is_ok_and(|state| state.trim() == "Discharging"))
}

/// Whether the deepest mount point above `path` is one whose files are kept in memory.
fn in_memory(mounts: &str, path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((Path::new(words.next()?), words.next()?))
    });
    let above = mounts.filter(|(point, _)| path.starts_with(point));
    let deepest = above.max_by_key(|(point, _)| point.components().count());
    deepest.is_some_and(|(_, kind)| matches!(kind, "tmpfs" | "ramfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_point_counts() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /nowhere tmpfs rw 0 0\n\
                      /dev/vdb /nowhere/disk ext4 rw 0 0\n";
        assert!(in_memory(mounts, Path::new("/nowhere/a")));
        assert!(!in_memory(mounts, Path::new("/nowhere/disk/a")));
        assert!(!in_memory(mounts, Path::new("/nowhereelse")));
    }

    #[test]
    fn numbers_in_the_kernels_texts() {
        assert_eq!(clock("processor : 0\ncpu MHz\t\t: 2596.146\n"), 2596.146);
        assert_eq!((clock(""), load("0.52 0.1 0 1/2 3"), load("")), (0.0, 0.52, 0.0));
    }

    #[test]
    fn this_machine_says_something() {
        let line = System::here(false).to_string();
        assert!(line.contains(" processors, ") && line.contains("rustc 1."), "{line}");
    }
}
