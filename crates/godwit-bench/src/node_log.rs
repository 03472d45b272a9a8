//! Reads facts about an import from the programs' logs. Both write `debug.log`, and their lines about scripts
//! and new tips have the same form.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

/// A block from which on scripts were run, or were not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ScriptSwitch {
    pub height: u32,
    pub on: bool,
}

/// Facts from one log.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LogFacts {
    /// Blocks from which scripts were run, or not run any more.
    pub script_switches: Vec<ScriptSwitch>,
    /// Cache use in bytes and coins in it, where most coins were in it.
    pub cache: Option<(u64, u64)>,
    /// godwit only: memtables written.
    pub flushes: u64,
    /// godwit only: bytes of those runs.
    pub flushed_bytes: u64,
    /// godwit only: merges.
    pub merges: u64,
    /// godwit only: bytes that they wrote.
    pub merged_bytes: u64,
    /// godwit only: seconds of looking whether outputs exist already, on all threads.
    pub bip30_seconds: Option<f64>,
    /// godwit only: where the connector's time went.
    pub connector: Option<String>,
}

impl LogFacts {
    /// Reads a `debug.log`.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::File(path.to_owned(), error);
        let mut facts = Self::default();
        for line in BufReader::new(File::open(path).map_err(failed)?).lines() {
            facts.note(&line.map_err(failed)?);
        }
        Ok(facts)
    }

    fn note(&mut self, line: &str) {
        let after = |mark: &str| line.split_once(mark).map(|(_, rest)| rest);
        if let Some(rest) = after(" cache=") {
            let most = self.cache.map_or(0, |(_, coins)| coins);
            self.cache = cache_use(rest).filter(|(_, coins)| *coins > most).or(self.cache);
        } else if let Some(rest) = after("Disabling script verification at block #") {
            self.note_switch(leading_number(rest), false);
        } else if let Some(rest) = after("Enabling script verification at block #") {
            self.note_switch(leading_number(rest), true);
        } else if let Some(bytes) = done_bytes(after("Flush to run ")) {
            self.flushes += 1;
            self.flushed_bytes += bytes;
        } else if let Some(bytes) = done_bytes(after("Merge into run ")) {
            self.merges += 1;
            self.merged_bytes += bytes;
        } else if let Some(rest) = after("BIP30 probes: ") {
            self.bip30_seconds = rest.split(' ').next().and_then(|seconds| seconds.parse().ok());
        } else if let Some(rest) = after("Connector: ") {
            self.connector = Some(rest.trim_end().to_owned());
        }
    }

    fn note_switch(&mut self, height: Option<u32>, on: bool) {
        self.script_switches.extend(height.map(|height| ScriptSwitch { height, on }));
    }

    /// Whether the scripts of a block were run: the last switch at its height or below decides.
    pub fn ran_scripts_of(&self, height: u32) -> bool {
        let mut before = self.script_switches.iter().filter(|switch| switch.height <= height);
        before.next_back().is_some_and(|switch| switch.on)
    }

    /// Bytes of cache for each coin in it, where most coins were in it.
    pub fn bytes_per_coin(&self) -> Option<f64> {
        self.cache.filter(|(_, coins)| *coins > 0).map(|(bytes, coins)| bytes as f64 / coins as f64)
    }
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// `98.0MiB(1244744txo)` as bytes and coins.
fn cache_use(text: &str) -> Option<(u64, u64)> {
    let (mib, rest) = text.split_once("MiB(")?;
    let coins = rest.split_once("txo")?.0.parse().ok()?;
    let mib: f64 = mib.parse().ok()?;
    Some(((mib * 1_048_576.0) as u64, coins))
}

/// `17 done: 84131840 bytes in 567 ms.`
fn done_bytes(rest: Option<&str>) -> Option<u64> {
    rest?.split_once(" done: ")?.1.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_programs() {
        let mut facts = LogFacts::default();
        for line in [
            "2026 Disabling script verification at block #1 (0727).",
            "2026 UpdateTip: new best=aa height=1 date='2023' progress=0.1 cache=1.5MiB(10txo)",
            "2026 UpdateTip: new best=ab height=2 date='2023' progress=0.1 cache=2.0MiB(20txo)",
            "2026 UpdateTip: new best=ac height=3 date='2023' progress=0.1 cache=9.0MiB(5txo)",
            "2026 Enabling script verification at block #852 (4be5): block height above.",
            "2026 Flush to run 0 started: 10 coins, 3 spent ones.",
            "2026 Flush to run 0 done: 4096 bytes in 6 ms.",
            "2026 Merge into run 7 started: 3 segments, 9000 bytes.",
            "2026 Merge into run 7 done: 8192 bytes in 2 ms.",
            "2026 Merge into run 9 done: 1 bytes in 0 ms.",
            "2026 Connector: accept 0.0 s, waiting 1.0 s.",
            "2026 BIP30 probes: 1.25 s.",
        ] {
            facts.note(line);
        }
        let ran = [0, 1, 851, 852, 900].map(|height| facts.ran_scripts_of(height));
        assert_eq!(ran, [false, false, false, true, true]);
        assert_eq!(facts.cache, Some((2 << 20, 20)));
        assert_eq!((facts.flushes, facts.flushed_bytes), (1, 4096));
        assert_eq!((facts.merges, facts.merged_bytes), (2, 8193));
        assert_eq!(facts.bip30_seconds, Some(1.25));
        assert_eq!(facts.connector.as_deref(), Some("accept 0.0 s, waiting 1.0 s."));
    }
}
