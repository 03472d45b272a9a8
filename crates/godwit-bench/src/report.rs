//! Writes the report: all results as JSON, and a page to read.

use std::fmt::{self, Write};
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::case::{COIN_BYTES, Cache, MIN_FLUSHES, MIN_MERGES, SMALL_PART};
use crate::chain_summary::ChainSummary;
use crate::failure::Failure;
use crate::intake::Intake;
use crate::machine::Machine;
use crate::node::Node;
use crate::programs::{NodeSettings, Programs};
use crate::quiet;
use crate::real_blocks;
use crate::report_files::{write_json, write_text};
use crate::rounds::{CaseResult, Ratio, Run};
use crate::spread::Spread;
use crate::targets::{times, verdict};

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    #[serde(rename = "kind")]
    pub intake: Intake,
    /// Where and when.
    pub machine: Machine,
    /// godwit's version and `bitcoind`'s.
    pub versions: (String, String),
    /// What was changed in the source of `bitcoind` before it was built, where it does not probe.
    pub change: String,
    pub chain: ChainSummary,
    pub file_bytes: u64,
    /// Cases that are done.
    pub results: Vec<CaseResult>,
}

impl Report {
    /// Writes the benchmark's `.json` and `.md` into `dir`.
    pub fn write(&self, dir: &Path) -> Result<(), Failure> {
        let path = dir.join(self.intake.program());
        write_json(&path.with_extension("json"), self)?;
        let text = self.markdown().expect("a String takes all that is written to it");
        write_text(&path.with_extension("md"), &text)
    }

    fn markdown(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        writeln!(out, "# {}\n", self.intake.title())?;
        self.write_times(&mut out)?;
        self.write_costs(&mut out)?;
        self.write_store(&mut out)?;
        self.write_chain(&mut out)?;
        self.write_method(&mut out)?;
        Ok(out)
    }

    fn write_times(&self, out: &mut String) -> fmt::Result {
        let (ours, theirs) = &self.versions;
        writeln!(out, "{}.\n{ours} against {theirs}.\n", self.machine)?;
        writeln!(
            out,
            "Time from start to exit, after which the coins are in files; processor time of all threads. Medians \
             over the rounds, godwit's and then bitcoind's. A ratio is bitcoind's time over godwit's in the same \
             round: estimate and 95 % interval (Hodges and Lehmann, Wilcoxon's signed ranks). A target is *met* \
             when the whole interval lies at or above it, *not met* when it lies below, *open* when it contains \
             it.\n"
        )?;
        writeln!(
            out,
            "| case | -dbcache | rounds | s | processor s | peak memory MiB | written MiB | ratio of times | ratio \
             of processor times | target | |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")?;
        for result in &self.results {
            let both = |value: fn(&Run) -> f64| {
                let of = |node| median(result, node, |run| Some(value(run)));
                format!("{} / {}", of(Node::Godwit), of(Node::Bitcoind))
            };
            writeln!(
                out,
                "| {} | {} MiB | {} | {} | {} | {} | {} | **{}** | {} | {} | {} |",
                result.case.name,
                result.dbcache,
                result.rounds.len(),
                both(|run| run.measured.seconds),
                both(|run| run.measured.processor_seconds()),
                both(|run| mib(run.measured.peak_memory)),
                both(|run| mib(run.measured.written)),
                ratio(&result.ratio),
                ratio(&result.processor),
                result.case.target.map_or("none".to_owned(), |target| format!("{target}")),
                match (result.case.target, result.ratio.interval) {
                    (Some(target), Some(interval)) => verdict(interval, target),
                    _ => "",
                }
            )?;
        }
        out.write_char('\n')?;
        if self.results.iter().any(|result| result.case.probes) {
            writeln!(out, "{PROBES}\n")?;
        }
        let rounds = self.results.iter().flat_map(|result| &result.rounds);
        let runs = rounds.flat_map(|round| [&round.godwit, &round.bitcoind]);
        let shares = runs.map(|run| run.measured.others_share(self.machine.cores));
        let Some(shares) = Spread::of(shares) else { return Ok(()) };
        writeln!(out, "{}\n", quiet::verdict(shares, self.intake.one()))
    }

    fn write_costs(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "## Costs\n\nMedians over the rounds, with their range.\n")?;
        writeln!(
            out,
            "| case | program | processor s | of it kernel s | peak memory MiB | written MiB | data \
             directory MiB | UTXO set on disk MiB | sync afterwards s |{}",
            if self.intake == Intake::Sync { " servers' processor s |" } else { "" }
        )?;
        let column = if self.intake == Intake::Sync { " --- |" } else { "" };
        writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |{column}")?;
        for (result, node) in self.rows() {
            let row = |value: fn(&Run) -> f64| over(result, node, value);
            let processor = row(|i| i.measured.processor_seconds());
            let kernel = row(|i| i.measured.system_seconds);
            let memory = row(|i| mib(i.measured.peak_memory));
            let written = row(|i| mib(i.measured.written));
            let (total, utxo) = (row(|i| mib(i.disk.total)), row(|i| mib(i.disk.utxo)));
            let sync = row(|i| i.sync_seconds);
            writeln!(
                out,
                "| {} | {node} | {processor} | {kernel} | {memory} | {written} | {total} | {utxo} | \
                 {sync} |{}",
                result.case.name,
                match self.intake {
                    Intake::Import => String::new(),
                    Intake::Sync => format!(" {} |", row(|i| i.server_seconds.unwrap_or_default())),
                }
            )?;
        }
        writeln!(
            out,
            "\nPeak memory is the resident set with mapped files, which bitcoind's LevelDB uses and \
             godwit does not. *Sync afterwards* is what the file system still had to write after the \
             exit.\n"
        )
    }

    fn rows(&self) -> impl Iterator<Item = (&CaseResult, Node)> {
        let nodes = [Node::Godwit, Node::Bitcoind];
        self.results.iter().flat_map(move |result| nodes.map(|node| (result, node)))
    }

    fn write_store(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "## Coins\n")?;
        for result in self.results.iter().filter(|r| r.case.cache == Cache::Comfortable) {
            let bytes = |node| median(result, node, |run| run.log.bytes_per_coin());
            writeln!(
                out,
                "- {}: bytes of cache per live coin, everything counted, at the most coins: godwit \
                 {}, bitcoind {}.",
                result.case.name,
                bytes(Node::Godwit),
                bytes(Node::Bitcoind)
            )?;
        }
        for result in self.results.iter().filter(|r| r.case.cache == Cache::Small) {
            write_small_cache(out, result)?;
        }
        for result in &self.results {
            let seconds = median(result, Node::Godwit, |run| run.log.bip30_seconds);
            let name = result.case.name;
            writeln!(
                out,
                "- {name}: seconds of BIP30 probes of every output (godwit): {seconds}."
            )?;
        }
        for result in &self.results {
            let stages = result.rounds.last().and_then(|r| r.godwit.log.connector.clone());
            let (name, stages) = (result.case.name, stages.unwrap_or_default());
            writeln!(out, "- {name}: godwit's connector in the last round: {stages}")?;
        }
        out.write_char('\n')
    }

    fn write_chain(&self, out: &mut String) -> fmt::Result {
        let ChainSummary { plan, seed, height, last_busy_height, counts, txouts, .. } = &self.chain;
        writeln!(
            out,
            "## The chain\n\nSynthetic: `godwit-sim generate --plan {plan} --seed {seed}`, {height} \
             blocks, the last {} of them empty; {:.1} MiB, {} transactions, {} inputs, {} outputs ({} \
             of them data), {} ECDSA and {} Schnorr signatures, {txouts} coins at the end.",
            height - last_busy_height,
            mib(self.file_bytes),
            counts.txs,
            counts.inputs,
            counts.outputs,
            counts.op_returns,
            counts.ecdsa_signatures,
            counts.schnorr_signatures
        )?;
        let ages = self.chain.spend_age_percent.iter();
        let ages: Vec<_> = ages.map(|(age, percent)| format!("{percent} % ≤ {age}")).collect();
        writeln!(out, "Age of spent coins in blocks: {}.", ages.join(", "))?;
        let mut types: Vec<_> = counts.input_types.iter().collect();
        types.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let share = |count: u64| count as f64 * 100.0 / counts.inputs.max(1) as f64;
        let types = types.iter().map(|(name, count)| format!("{name} {:.1} %", share(**count)));
        writeln!(out, "Inputs: {}.", types.collect::<Vec<_>>().join(", "))?;
        out.write_char('\n')?;
        real_blocks::write(out, &self.chain)?;
        if let Some(result) = self.results.first() {
            writeln!(
                out,
                "After the first round of each case both programs' UTXO sets were compared with \
                 each other and with the generator's own count: {}.",
                result.set
            )?;
        }
        out.write_char('\n')
    }

    fn write_method(&self, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "## How\n\nOne after the other, alternating in going first, each into an empty data directory on the file system of the chain's file, with a sync \
             before. {} `-assumevalid` is 0 where every script is checked, and else names the chain's last full block. bitcoind is built from the source that godwit's script \
             engine comes from, with the same compiler and optimisation. Its mempool limit is the \
             lowest it takes (5 MB), because unused mempool memory is added to its coins cache: \
             300 MB by default, which would make every cache comfortable. bitcoind leaves the last \
             writes of its UTXO set to the operating system; godwit ends with all of it on the disk \
             (fsync).\n\n```",
            self.intake.method()
        )?;
        let options =
            |result: &CaseResult| (result.godwit_options.clone(), result.bitcoind_options.clone());
        let (godwit_options, bitcoind_options) =
            self.results.first().map(options).unwrap_or_default();
        let programs = Programs {
            godwit: "godwit".into(),
            bitcoind: "bitcoind".into(),
            godwit_options,
            bitcoind_options,
            probes: false,
        };
        let settings = NodeSettings { datadir: Path::new("DIR"), dbcache: 0, assumevalid: "HASH" };
        for node in [Node::Godwit, Node::Bitcoind] {
            let command = match self.intake {
                Intake::Import => programs.import(node, &settings, Path::new("FILE")),
                Intake::Sync => programs.sync(node, &settings, &[0], self.chain.height),
            };
            write_command(out, &format!("{node}"), &command)?;
        }
        if self.intake == Intake::Sync {
            let command = programs.serve(Node::Bitcoind, Path::new("DIR"), 0);
            write_command(out, "Each server: bitcoind", &command)?;
        }
        writeln!(out, "```")?;
        match &*programs.godwit_options {
            [] => {}
            options => writeln!(out, "\nOptions chosen for godwit: `{}`.", options.join(" "))?,
        }
        write_change(out, &self.change, &programs.bitcoind_options)
    }
}

/// What tells cases with probes from the others.
const PROBES: &str = "In cases with *probes* bitcoind is built from unchanged source. For each block on regtest, \
                      signet and testnet4 it looks every output up in its database (BIP30), and on the main \
                      chain for none between heights 227,931 and 1,983,702: these ratios say what godwit gains \
                      there, the others what to expect on the main chain. In these cases godwit looks every output \
                      up as well; the seconds are below.";

/// What bitcoind was changed in before it was built, and which of its options were chosen.
pub(crate) fn write_change(out: &mut String, change: &str, options: &[String]) -> fmt::Result {
    match options {
        [] => {}
        options => writeln!(out, "\nOptions chosen for bitcoind: `{}`.", options.join(" "))?,
    }
    match change {
        "" => Ok(()),
        change => writeln!(
            out,
            "\nbitcoind is built from source with this change (`tools/build-rival`), which ends the look-ups for \
             BIP30 above the genesis block, as the main chain's parameters end them above block 227,931; `-test=bip34` is \
             the same in godwit.\n\n\
             ```diff\n{change}```"
        ),
    }
}

/// As in `3.10 (3.02–3.20)`.
fn ratio(ratio: &Ratio) -> String {
    let Ratio { spread: Spread { median, .. }, interval } = ratio;
    interval.map_or_else(|| format!("{median:.2}, too few rounds"), times)
}

fn write_command(out: &mut String, name: &str, command: &Command) -> fmt::Result {
    let words = command.get_args().map(|word| word.to_string_lossy());
    let named = words.map(|word| match word.split_once("127.0.0.1:0") {
        Some((option, _)) => format!("{option}127.0.0.1:PORT"),
        None => word.replace("dbcache=0", "dbcache=MiB"),
    });
    writeln!(out, "{name} {}", named.collect::<Vec<_>>().join(" "))
}

fn write_small_cache(out: &mut String, result: &CaseResult) -> fmt::Result {
    let set = result.set.txouts * COIN_BYTES;
    let least = |value: fn(&Run) -> u64| {
        result.rounds.iter().map(|round| value(&round.godwit)).min().unwrap_or_default()
    };
    let (flushes, merges) = (least(|i| i.log.flushes), least(|i| i.log.merges));
    let part = set as f64 / (result.dbcache << 20) as f64;
    let met = part >= SMALL_PART as f64 && flushes >= MIN_FLUSHES && merges >= MIN_MERGES;
    let written = |value: fn(&Run) -> Option<f64>| median(result, Node::Godwit, value);
    writeln!(
        out,
        "- {}: the final set ({:.1} MiB at {COIN_BYTES} bytes a coin) is {part:.1} times -dbcache; \
         godwit flushed {flushes} times ({} MiB) and merged {merges} times ({} MiB) or more. Asked \
         for: {SMALL_PART} times, {MIN_FLUSHES} flushes, {MIN_MERGES} merges: {}.",
        result.case.name,
        mib(set),
        written(|i| Some(mib(i.log.flushed_bytes))),
        written(|i| Some(mib(i.log.merged_bytes))),
        if met { "met" } else { "**not met**" }
    )
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 20) as f64
}

/// Two digits behind the point for small numbers, fewer for larger ones.
fn rounded(number: f64) -> String {
    match number {
        n if n < 10.0 => format!("{n:.2}"),
        n if n < 1000.0 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

/// Median and range over the rounds.
fn over(result: &CaseResult, node: Node, value: impl Fn(&Run) -> f64) -> String {
    let spread = Spread::of(result.rounds.iter().map(|round| value(round.by(node))));
    spread.map_or_else(String::new, |Spread { median, min, max }| {
        format!("{} ({}–{})", rounded(median), rounded(min), rounded(max))
    })
}

/// Median over the rounds of what a log may lack.
fn median(result: &CaseResult, node: Node, value: impl Fn(&Run) -> Option<f64>) -> String {
    let spread = Spread::of(result.rounds.iter().filter_map(|round| value(round.by(node))));
    spread.map_or_else(|| "not logged".to_owned(), |spread| rounded(spread.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::datadir::DiskUse;
    use crate::measured::Measured;
    use crate::node::UtxoSet;
    use crate::node_log::LogFacts;
    use crate::rounds::Round;

    fn run(seconds: f64, flushes: u64) -> Run {
        let measured = Measured {
            seconds,
            user_seconds: seconds,
            system_seconds: 0.5,
            peak_memory: 100 << 20,
            written: 2000 << 20,
            others_seconds: 0.1 * seconds,
        };
        let log = LogFacts { flushes, merges: 3, ..LogFacts::default() };
        Run {
            measured,
            sync_seconds: 0.1,
            server_seconds: None,
            disk: DiskUse { total: 0, utxo: 0 },
            log,
        }
    }

    fn result(flushes: u64) -> CaseResult {
        let round = |ours, theirs| Round {
            first: Node::Godwit,
            godwit: run(ours, flushes),
            bitcoind: run(theirs, 0),
        };
        let rounds = vec![round(2.0, 5.0), round(1.0, 4.0), round(2.0, 4.0)];
        CaseResult {
            case: Case::IMPORT[3],
            dbcache: 7,
            assumevalid: "aa".into(),
            godwit_options: vec!["-lanes=avx2".into()],
            bitcoind_options: vec![],
            ratio: Ratio::of(&rounds, |measured| measured.seconds).unwrap(),
            processor: Ratio::of(&rounds, Measured::processor_seconds).unwrap(),
            set: UtxoSet {
                height: 9,
                bestblock: "aa".into(),
                txouts: 1_244_744,
                bogosize: 1,
                muhash: "bb".into(),
                total_amount: 1.into(),
            },
            rounds,
        }
    }

    #[test]
    fn rounds_are_paired_and_spread() {
        let result = result(10);
        assert_eq!(result.ratio.spread, Spread { median: 2.5, min: 2.0, max: 4.0 });
        assert_eq!(ratio(&result.ratio), "2.50, too few rounds");
        assert_eq!(over(&result, Node::Godwit, |i| i.measured.seconds), "2.00 (1.00–2.00)");
        assert_eq!(median(&result, Node::Godwit, |i| i.log.bip30_seconds), "not logged");
        assert_eq!(median(&result, Node::Bitcoind, |i| Some(mib(i.measured.written))), "2000");
    }

    /// A report of one case, whose rounds are as many times those of [`result`].
    fn report(case: Case, times: usize) -> Report {
        let mut result = result(10);
        result.case = case;
        result.rounds = result.rounds.iter().cloned().cycle().take(3 * times).collect();
        result.ratio = Ratio::of(&result.rounds, |measured| measured.seconds).unwrap();
        let results = crate::ibd::results::tests::results(&[[1.0; 3]]);
        Report {
            intake: Intake::Import,
            machine: Machine::here(),
            versions: ("godwit v0".into(), "Core v0".into()),
            change: "-old\n+new\n".into(),
            chain: results.chain,
            file_bytes: 1 << 20,
            results: vec![result],
        }
    }

    #[test]
    fn a_target_is_judged_by_the_interval() {
        for (target, times, cells) in [
            (2.0, 2, "| **2.83 (2.00–4.00)** | "),
            (2.1, 2, "| **2.83 (2.00–4.00)** | "),
            (4.1, 2, "| **2.83 (2.00–4.00)** | "),
            (2.0, 1, "| **2.50, too few rounds** | "),
        ] {
            let case = Case { target: Some(target), ..Case::IMPORT[3] };
            let text = report(case, times).markdown().unwrap();
            let row = text.lines().find(|line| line.contains(cells)).expect(&text);
            let said = match (times, target) {
                (1, _) => "| 2 |  |",
                (_, 2.0) => "| 2 | met |",
                (_, 2.1) => "| 2.1 | open |",
                _ => "| 4.1 | **not met** |",
            };
            assert!(row.ends_with(said), "{row}");
        }
    }

    #[test]
    fn the_change_is_printed_and_probes_are_explained_where_they_are() {
        let text = report(Case::IMPORT[0], 1).markdown().unwrap();
        assert!(text.contains("```diff\n-old\n+new\n```"), "{text}");
        let chosen = "Options chosen for godwit: `-lanes=avx2`.";
        assert!(text.contains("-lanes=avx2 FILE\n") && text.contains(chosen), "{text}");
        assert!(!text.contains("In cases with *probes*"), "{text}");
        let text = report(Case::IMPORT[4], 1).markdown().unwrap();
        assert!(text.contains("In cases with *probes*") && text.contains("| none |  |"), "{text}");
        let mut out = String::new();
        write_change(&mut out, "", &["-par=1".to_owned(), "-a=b".to_owned()]).unwrap();
        assert_eq!(out.trim(), "Options chosen for bitcoind: `-par=1 -a=b`.");
    }

    #[test]
    fn a_cache_that_is_not_small_is_named() {
        for (flushes, verdict) in [(10, ": met."), (9, ": **not met**.")] {
            let mut out = String::new();
            write_small_cache(&mut out, &result(flushes)).unwrap();
            assert!(out.trim_end().ends_with(verdict), "{out}");
        }
    }
}
