//! The memory budget of the process (`-memory`), and how it is divided.
//!
//! | part | at most |
//! | --- | --- |
//! | program: code, stacks, buffers of no account, what the allocator cannot use | 32 MiB and 1/16 |
//! | what Core's engine makes of transactions | 16 MiB |
//! | database cache | 16 MiB |
//! | peers: what they make the node hold; what it asks of them | 64 MiB; 6.5 MiB for each it connects to |
//! | transactions that were sent, and the bytes of their file | 8 MiB |
//! | blocks that arrive; that wait, with coins; in the window, with coins | 1/32 each, at most 64 MiB |
//! | programs that ask the node: three quarters for answers, one for requests | 1/32, at most 64 MiB |
//! | optional indexes | 16 MiB for each |
//! | buffers of blocks that are idle | 3/64, at most 96 MiB |
//! | headers and coins | the rest |
//!
//! Headers are needed, so the coins have what they leave, and give way as the chain of headers grows. All
//! parts but the coins are bounded by what they are for: more memory than these limits makes nothing faster.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use godwit_api::{ANSWER_BYTES, BODY_BYTES};
use godwit_chain::{BlockMemory, CoinsMemory, ENGINE_MEMORY_BYTES};
use godwit_p2p::{MAX_OUTBOUND_BLOCK_RELAY, MAX_OUTBOUND_FULL, MAX_OUTBOX_BYTES};
use godwit_store::DATABASE_CACHE_BYTES;

use crate::options::{Command, Config, MemoryOptions, NodeOptions};

const MIB: u64 = 1 << 20;

/// Smallest `-memory`. Main's headers take 133 MiB, and a tenth of that has to be left for coins.
pub(crate) const MIN_MEMORY: u64 = 448 * MIB;

/// Main's headers, with room for three years more.
const HEADERS: u64 = 150 * MIB;

/// Largest budget that nobody has asked for: a node is not alone on its machine.
const MAX_DEFAULT: u64 = 4096 * MIB;

const PROGRAM: u64 = 32 * MIB;
/// Core's engine, with all threads that ask it.
const ENGINE: u64 = ENGINE_MEMORY_BYTES as u64;
/// [`godwit_p2p`]'s budget for what peers make the node hold.
const PEERS: u64 = 64 * MIB;
/// The outbox, and the content of its file while that is written.
const OUTBOX: u64 = 2 * MAX_OUTBOX_BYTES as u64;
/// For each connection that the node makes: a message that arrives, a pre-sync of headers.
const OUTBOUND_PEER: u64 = 6 * MIB + MIB / 2;
/// Times its limit that a pool of buffers keeps while it is busy (`godwit_stream::BufferPool`).
const BUSY: u64 = 3;
/// Connections at once that only try an address.
const FEELERS: usize = 1;

/// The limit of each part of the process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    pub(crate) total: u64,
    pub(crate) coins: CoinsMemory,
    pub(crate) blocks: BlockMemory,
    /// Answers to programs that ask, and their requests.
    pub(crate) answers: usize,
    pub(crate) requests: usize,
}

impl MemoryPlan {
    /// Deals out `total` bytes to a program with so many connections of its own making. `coins` is
    /// `-dbcache`, which the coins have for themselves.
    pub(crate) fn new(total: u64, outbound: Option<usize>, coins: Option<u64>) -> Self {
        let share = (total / 32).min(64 * MIB);
        let rest = Self::rest(total, outbound);
        Self {
            total,
            coins: coins.map_or(CoinsMemory::BesideHeaders(rest), CoinsMemory::Fixed),
            blocks: BlockMemory {
                receiving: share,
                waiting: share as usize,
                window: share as usize,
                importing: share + share / 2,
                idle_buffers: (idle_buffers(total) / BUSY) as usize,
            },
            answers: (share as usize / 4 * 3).min(ANSWER_BYTES),
            requests: (share as usize / 4).min(BODY_BYTES),
        }
    }

    /// The memory that the other parts leave for headers and coins.
    fn rest(total: u64, outbound: Option<usize>) -> u64 {
        let share = (total / 32).min(64 * MIB);
        // What a node alone has: peers, and programs that ask.
        let peers =
            outbound.map_or(0, |count| PEERS + OUTBOX + count as u64 * OUTBOUND_PEER + share);
        let database = DATABASE_CACHE_BYTES as u64;
        let fixed = PROGRAM + total / 16 + ENGINE + database;
        let others = fixed + peers + 3 * share + idle_buffers(total);
        total.saturating_sub(others)
    }

    /// The largest `-dbcache` within `total` bytes: it does not give way to headers.
    pub(crate) fn most_for_coins(total: u64) -> u64 {
        let automatic = MAX_OUTBOUND_FULL + MAX_OUTBOUND_BLOCK_RELAY + FEELERS;
        Self::rest(total, Some(automatic)).saturating_sub(HEADERS)
    }

    /// The plan of a run, on a machine with `available` bytes for it, if it can tell.
    pub(crate) fn of(config: &Config, available: Option<u64>) -> Self {
        let outbound = match &config.command {
            Command::Node(options) => Some(outbound(options)),
            _ => None,
        };
        let indexes = match &config.command {
            Command::Node(_) => config.indexes.memory(),
            _ => 0,
        };
        let least = MIN_MEMORY + indexes;
        let total = config.memory.total.unwrap_or_else(|| default_total(available).max(least));
        let rest = total.saturating_sub(indexes);
        Self { total, ..Self::new(rest, outbound, config.memory.coins) }
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { total, coins, .. } = self;
        match coins {
            CoinsMemory::BesideHeaders(bytes) => {
                write!(
                    f,
                    "Memory: {} MiB, of it {} for headers and coins.",
                    total / MIB,
                    bytes / MIB
                )
            }
            CoinsMemory::Fixed(bytes) => {
                let others = total - Self::rest(*total, None);
                write!(
                    f,
                    "Memory: {} MiB for coins (-dbcache), besides the headers and at most some {}.",
                    bytes / MIB,
                    others / MIB
                )
            }
        }
    }
}

/// Warns of what the operator asked for and the machine, with `available` bytes, can hardly give; the system
/// would end the node. So it would where a machine has less than the smallest budget.
pub(crate) fn warn_of_too_much(config: &Config, available: Option<u64>) {
    let used = MemoryPlan::of(config, available).total;
    let text = too_much(config.memory, available).or_else(|| too_small(used, available));
    text.iter().for_each(|text| log::warn!("{text}"));
}

/// What there is to warn of: above three quarters of what is available, as Core's `LogOversizedDbCache`
/// (`node/caches.h`, which first leaves 2 GiB to the system), in its words.
fn too_much(asked: MemoryOptions, available: Option<u64>) -> Option<String> {
    let available = available?;
    let named = [("dbcache", asked.coins), ("memory", asked.total)];
    let (name, bytes) = named.into_iter().find_map(|(name, bytes)| {
        let too_much = bytes.filter(|bytes| *bytes > available / 4 * 3)?;
        Some((name, too_much))
    })?;
    let (bytes, available) = (bytes / MIB, available / MIB);
    Some(format!(
        "A {bytes} MiB {name} may be too large for a system memory of only {available} MiB."
    ))
}

/// The same of a budget that nobody has asked for.
fn too_small(used: u64, available: Option<u64>) -> Option<String> {
    let available = available.filter(|available| used > *available)?;
    let (used, available) = (used / MIB, available / MIB);
    Some(format!(
        "The smallest budget, {used} MiB of memory, is more than the {available} MiB that this system has for it: \
         it may end the program."
    ))
}

/// Bytes of idle buffers at most, while the pool is busy.
fn idle_buffers(total: u64) -> u64 {
    (total * 3 / 64).min(96 * MIB)
}

/// Connections that a node makes itself.
fn outbound(options: &NodeOptions) -> usize {
    let automatic = MAX_OUTBOUND_FULL + MAX_OUTBOUND_BLOCK_RELAY + FEELERS;
    let chosen = options.connect.as_ref().map_or(automatic, Vec::len);
    chosen + options.add_nodes.len()
}

/// Half of what there is, within limits.
fn default_total(available: Option<u64>) -> u64 {
    available.map_or(MAX_DEFAULT, |bytes| bytes / 2).clamp(MIN_MEMORY, MAX_DEFAULT)
}

/// Bytes of memory that this process can count on: the machine's, or the limit of its control group and
/// of those above it. `None` where the system does not tell.
pub(crate) fn available() -> Option<u64> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| total_of_meminfo(&text));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    limit_files(&groups)
        .iter()
        .filter_map(|path| read(path)?.trim().parse().ok())
        .chain(machine)
        .min()
}

fn total_of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Files that may hold a limit in bytes, or `max` for none, from a process's `/proc/PID/cgroup`: those of its
/// control group and of all above it, under version 1 and 2. In a container the paths are those of the
/// host and are not there, and its own group is mounted at the root.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        for group in Path::new(path).ancestors() {
            let below = group.strip_prefix("/").unwrap_or(group);
            files.push(Path::new(root).join(below).join(file));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a plan promises, with as many headers as main has.
    fn sum(plan: &MemoryPlan, outbound: Option<usize>, headers: u64) -> u64 {
        let BlockMemory { receiving, waiting, window, importing, idle_buffers } = plan.blocks;
        let (blocks, peers) = match outbound {
            Some(count) => {
                let asking = (plan.answers + plan.requests) as u64;
                (receiving, PEERS + OUTBOX + count as u64 * OUTBOUND_PEER + asking)
            }
            None => (importing.saturating_sub(waiting as u64), 0),
        };
        let coins = match plan.coins {
            CoinsMemory::Fixed(bytes) => bytes + headers,
            CoinsMemory::BesideHeaders(bytes) => bytes.max(headers),
        };
        let fixed = PROGRAM + plan.total / 16 + ENGINE + DATABASE_CACHE_BYTES as u64;
        let buffers = BUSY * idle_buffers as u64;
        fixed + peers + blocks + waiting as u64 + window as u64 + buffers + coins
    }

    #[test]
    fn the_parts_are_within_the_whole() {
        const HEADERS: u64 = 140 * 1_000_000;
        const { assert!(HEADERS < super::HEADERS) };
        for total in
            [MIN_MEMORY, 512 * MIB, 700 * MIB, 1024 * MIB, 3000 * MIB, MAX_DEFAULT, 1 << 36]
        {
            for outbound in [None, Some(0), Some(10)] {
                let plan = MemoryPlan::new(total, outbound, None);
                assert!(sum(&plan, outbound, HEADERS) <= total, "{plan:?}");
            }
        }
    }

    #[test]
    fn dbcache_leaves_room_for_the_headers() {
        for total in [MIN_MEMORY, 512 * MIB, 1024 * MIB, MAX_DEFAULT] {
            let coins = MemoryPlan::most_for_coins(total);
            let plan = MemoryPlan::new(total, Some(11), Some(coins));
            // Where nothing is left, -dbcache is refused.
            assert!(coins == 0 || sum(&plan, Some(11), HEADERS) <= total, "{plan:?}");
            assert_eq!(coins == 0, total == MIN_MEMORY);
        }
    }

    #[test]
    fn coins_take_what_the_limits_of_the_others_leave() {
        let coins = |total| match MemoryPlan::new(total, Some(10), None).coins {
            CoinsMemory::BesideHeaders(bytes) => bytes / MIB,
            CoinsMemory::Fixed(_) => panic!("nobody has asked for it"),
        };
        assert_eq!(
            [MIN_MEMORY / MIB, 512, 1024, 4096].map(|mib| coins(mib * MIB)),
            [142, 191, 583, 3287]
        );
        let plan = MemoryPlan::new(1024 * MIB, Some(10), Some(100 * MIB));
        assert_eq!(plan.coins, CoinsMemory::Fixed(100 * MIB));
        assert_eq!(plan.blocks, MemoryPlan::new(1024 * MIB, Some(10), None).blocks);
    }

    #[test]
    fn more_than_three_quarters_of_the_machine_is_too_much() {
        let said = |total: Option<u64>, coins: Option<u64>, available: Option<u64>| {
            let of = |mib: u64| mib * MIB;
            too_much(
                MemoryOptions { total: total.map(of), coins: coins.map(of) },
                available.map(of),
            )
        };
        let words = |name| {
            Some(format!(
                "A 3073 MiB {name} may be too large for a system memory of only 4096 MiB."
            ))
        };
        let machine = Some(4096);
        assert_eq!(said(None, Some(3073), machine), words("dbcache"));
        assert_eq!(said(Some(3073), None, machine), words("memory"));
        assert_eq!(said(Some(3073), Some(100), machine), words("memory"));
        assert_eq!(said(Some(9000), Some(3073), machine), words("dbcache"), "one line");
        assert_eq!(said(Some(3072), Some(3072), machine), None);
        assert_eq!(said(Some(9000), Some(9000), None), None, "the system does not tell");
        assert_eq!(said(None, None, Some(100)), None, "nobody asked for it");
    }

    #[test]
    fn a_system_with_less_than_the_smallest_budget_is_too_small() {
        let said = |used: u64, available: Option<u64>| {
            too_small(used * MIB, available.map(|mib| mib * MIB))
        };
        let line = said(448, Some(256)).expect("a warning");
        assert!(line.starts_with("The smallest budget, 448 MiB of memory, is more than the 256"));
        assert_eq!([said(448, Some(448)), said(448, None)], [None, None]);
    }

    #[test]
    fn the_default_is_half_of_what_there_is() {
        let default = |available: Option<u64>| default_total(available.map(|mib| mib * MIB)) / MIB;
        assert_eq!(
            [None, Some(100), Some(512), Some(896), Some(898), Some(8_192), Some(24_000)]
                .map(default),
            [4096, 448, 448, 448, 449, 4096, 4096]
        );
    }

    #[test]
    fn the_machine_s_memory_is_found() {
        let text = "MemTotal:       24605108 kB\nMemFree:        19605108 kB\n";
        assert_eq!(total_of_meminfo(text), Some(24_605_108 * 1024));
        assert_eq!(total_of_meminfo("MemFree: 1 kB\n"), None);
        assert!(available().is_some_and(|bytes| bytes > 64 * MIB));
    }

    #[test]
    fn limits_are_looked_for_in_all_groups_above() {
        let paths = |groups| -> Vec<String> {
            limit_files(groups).iter().map(|path| path.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(
            paths("0::/system.slice/godwit.service\n"),
            [
                "/sys/fs/cgroup/system.slice/godwit.service/memory.max",
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(
            paths("12:cpu,cpuacct:/a\n3:memory:/docker/1\n1:name=systemd:/b\n"),
            [
                "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes"
            ]
        );
        assert!(paths("").is_empty() && paths("nonsense\n").is_empty());
    }
}
