//! The report of `cold`: blocks that spend old coins, by godwit and by bitcoind, and what the disk can do.

use std::fmt::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::{ColdChain, Round, Run};
use crate::failure::Failure;
use crate::interval::Interval;
use crate::machine::Machine;
use crate::node::{Node, UtxoSet};
use crate::quiet;
use crate::report_files::{write_json, write_text};
use crate::spread::Spread;
use crate::targets::{times, verdict};

const MIB: f64 = (1 << 20) as f64;

/// Least share of the reads that the disk gives 64 threads.
const DISK_TARGET: f64 = 0.8;
/// Least ratio of bitcoind's time to godwit's.
const CORE_TARGET: f64 = 1.0;

/// All rounds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) versions: [String; 2],
    /// What bitcoind got besides.
    pub(super) options: Vec<String>,
    /// MiB of a control group.
    pub(super) memory: u64,
    /// MiB.
    pub(super) dbcache: u64,
    /// Bytes of the coins on disk, godwit's and bitcoind's.
    pub(super) set_bytes: [u64; 2],
    pub(super) chain: ColdChain,
    /// The coins at the end.
    pub(super) set: Option<UtxoSet>,
    pub(super) rounds: Vec<Round>,
}

impl Round {
    fn by(&self, node: Node) -> &Run {
        match node {
            Node::Godwit => &self.godwit,
            Node::Bitcoind => &self.bitcoind,
        }
    }
}

impl Report {
    pub(super) fn write(&self, dir: &Path) -> Result<(), Failure> {
        write_json(&dir.join("cold-vs-core.json"), self)?;
        let text = self.markdown().expect("a String takes all that is written to it");
        write_text(&dir.join("cold-vs-core.md"), &text)
    }

    fn markdown(&self) -> Result<String, fmt::Error> {
        let mut out =
            String::from("# Coins that are not in memory: godwit beside Bitcoin Core\n\n");
        let Self { machine, versions, memory, dbcache, chain, .. } = self;
        let [ours, theirs] = self.set_bytes.map(|bytes| bytes as f64 / MIB);
        writeln!(
            out,
            "{machine}.\n{} against {}.\n\n{} coins, {ours:.0} MiB of godwit's files and {theirs:.0} MiB of bitcoind's; each program \
             with its page cache in a control group of {memory} MiB, `-dbcache={dbcache}`. Blocks {} to {} ({:.0} MiB) spend {} of these coins, \
             each drawn at random from all, every script checked (all are `OP_TRUE` in P2WSH). The page cache is \
             empty at the start.\n",
            versions[0],
            versions[1],
            chain.coins,
            chain.height + 1,
            chain.end_height,
            chain.spend_bytes as f64 / MIB,
            chain.spends
        )?;
        self.write_disk(&mut out)?;
        self.write_programs(&mut out)?;
        self.write_targets(&mut out)?;
        self.write_end(&mut out)?;
        Ok(out)
    }

    fn write_disk(&self, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "| the disk alone, reads of 4 KiB at random places | a second |\n| --- | --- |"
        )?;
        for (number, threads) in [(0, "one after the other"), (1, "64 threads")] {
            let rates = self.rounds.iter().map(|round| round.disk[number].reads_per_second);
            writeln!(out, "| {threads} | {} |", Spread::text_of(rates, 0))?;
        }
        out.write_char('\n')
    }

    fn write_programs(&self, out: &mut String) -> fmt::Result {
        let row = |out: &mut String, name: &str, digits: usize, value: &dyn Fn(&Run) -> f64| {
            let [ours, theirs] = [Node::Godwit, Node::Bitcoind].map(|node| {
                Spread::text_of(self.rounds.iter().map(|round| value(round.by(node))), digits)
            });
            writeln!(out, "| {name} | {ours} | {theirs} |")
        };
        writeln!(out, "| | godwit | bitcoind |\n| --- | --- | --- |")?;
        let spends = self.chain.spends as f64;
        row(out, "s for the blocks", 1, &Run::seconds)?;
        row(out, "coins a second", 0, &|run| spends / run.seconds())?;
        row(out, "s without blocks, start to exit", 1, &|run| run.idle_seconds)?;
        row(out, "processor s", 1, &|run| run.import.measured.processor_seconds())?;
        row(out, "reads of the disk", 0, &|run| run.import.queue.reads as f64)?;
        row(out, "reads for a coin", 2, &|run| run.import.queue.reads as f64 / spends)?;
        row(out, "MiB read", 0, &|run| run.import.queue.read_bytes as f64 / MIB)?;
        row(out, "reads a second, median tenth of a second", 0, &|run| {
            run.import.queue.median_rate
        })?;
        row(out, "reads a second, nine tenths are above", 0, &|run| run.import.queue.low_rate)?;
        row(out, "reads in flight while there are any", 1, &|run| run.import.queue.in_flight)?;
        row(out, "ms for a read", 2, &|run| run.import.queue.read_milliseconds)?;
        row(out, "MiB written", 0, &|run| run.import.measured.written as f64 / MIB)?;
        row(out, "most MiB of the process", 0, &|run| {
            run.import.measured.peak_memory as f64 / MIB
        })?;
        row(out, "most MiB of the group", 0, &|run| run.import.group_peak as f64 / MIB)?;
        writeln!(
            out,
            "\nMedians over {} rounds (least–most). *For the blocks* is the time from start to exit less that of the same start with a file \
             that has no blocks, in the same round.\n",
            self.rounds.len()
        )
    }

    fn write_targets(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "| target | | measured | |\n| --- | --- | --- | --- |")?;
        let spends = self.chain.spends as f64;
        let of_disk =
            |round: &Round| spends / round.godwit.seconds() / round.disk[1].reads_per_second;
        let of_core = |round: &Round| round.bitcoind.seconds() / round.godwit.seconds();
        let mut row = |name: &str, target: f64, value: &dyn Fn(&Round) -> f64| {
            let ratios: Vec<f64> = self.rounds.iter().map(value).collect();
            let (measured, met) = match Interval::of_ratios(&ratios) {
                Some(ratio) => (times(ratio), verdict(ratio, target)),
                None => (Spread::text_of(ratios, 2) + ", too few rounds", ""),
            };
            writeln!(out, "| {name} | {target} | {measured} | {met} |")
        };
        row(
            "godwit's coins a second over the disk's reads a second with 64 threads",
            DISK_TARGET,
            &of_disk,
        )?;
        row("bitcoind's time over godwit's", CORE_TARGET, &of_core)?;
        writeln!(
            out,
            "\nEstimate and 95 % interval (Hodges and Lehmann, Wilcoxon's signed ranks). A target is *met* when the whole interval lies at or \
             above it, *not met* when it lies below, *open* when it contains it.\n"
        )
    }

    fn write_end(&self, out: &mut String) -> fmt::Result {
        let cores = self.machine.cores;
        let runs = self.rounds.iter().flat_map(|round| [&round.godwit, &round.bitcoind]);
        if let Some(shares) = Spread::of(runs.map(|run| run.import.measured.others_share(cores))) {
            writeln!(out, "{}\n", quiet::verdict(shares, "a run"))?;
        }
        if let Some(set) = &self.set {
            writeln!(out, "After the first round both had the same coins: {set}.\n")?;
        }
        writeln!(
            out,
            "godwit made the set, and bitcoind's directory is what `godwit hand-over` makes of it, compacted (`-forcecompactdb`). bitcoind is that of \
             `tools/build-rival`, which does not look outputs up for BIP30, as godwit does not with `-test=bip34`; options \
             besides those of `make bench-import`: `{}`. The disk is measured by `O_DIRECT` reads of godwit's runs, for three seconds each, \
             at the start of a round; its read-ahead is Linux's own, 128 KiB. Behind it may be a host that has the files in its memory.",
            self.options.join(" ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Import;
    use super::super::disk::{Queue, Rate};
    use super::*;
    use crate::measured::Measured;

    fn run(seconds: f64) -> Run {
        let measured = Measured {
            seconds: seconds + 2.0,
            user_seconds: 3.0,
            system_seconds: 1.0,
            peak_memory: 300 << 20,
            written: 7 << 20,
            others_seconds: 0.0,
        };
        let queue = Queue { reads: 800_000, in_flight: 8.0, ..Queue::default() };
        let import = Import { measured, group_peak: 512 << 20, queue };
        Run { import, idle_seconds: 2.0 }
    }

    #[test]
    fn figures_and_targets() {
        let round = |ours| Round {
            first: Node::Godwit,
            disk: [1, 64].map(|depth| Rate { depth, reads_per_second: 1e3 * depth as f64 }),
            godwit: run(ours),
            bitcoind: run(40.0),
        };
        let mut report = Report {
            machine: Machine::here(),
            versions: ["godwit v0".into(), "Core v0".into()],
            options: vec!["-a=b".into()],
            memory: 512,
            dbcache: 100,
            set_bytes: [5 << 30, 4 << 30],
            chain: ColdChain {
                coins: 60_000_000,
                height: 4_000,
                spends: 700_000,
                end_height: 4_100,
                end: "aa".into(),
                spend_bytes: 50 << 20,
            },
            set: None,
            rounds: vec![round(10.0); 6],
        };
        let text = report.markdown().unwrap();
        for part in [
            "| 64 threads | 64000 (64000–64000) |",
            "| s for the blocks | 10.0 (10.0–10.0) | 40.0 (40.0–40.0) |",
            "| coins a second | 70000 (70000–70000) | 17500 (17500–17500) |",
            "| reads for a coin | 1.14 (1.14–1.14) |",
            "with 64 threads | 0.8 | 1.09 (1.09–1.09) | met |",
            "| bitcoind's time over godwit's | 1 | 4.00 (4.00–4.00) | met |",
            "Blocks 4001 to 4100 (50 MiB) spend 700000 of these coins",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        report.rounds.truncate(2);
        let text = report.markdown().unwrap();
        assert!(text.contains("| 4.00 (4.00–4.00), too few rounds |"), "{text}");
    }
}
