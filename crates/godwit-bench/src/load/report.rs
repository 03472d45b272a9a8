//! The report of `load`: how long clients of the RPC waited during a sync, and what they cost it.

use std::fmt::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::{CLIENTS, Load, Run};
use crate::chain_summary::ChainSummary;
use crate::failure::Failure;
use crate::interval::Interval;
use crate::machine::Machine;
use crate::measured::Measured;
use crate::quiet::verdict;
use crate::report_files::{write_json, write_text};
use crate::spread::Spread;
use crate::targets::times;

/// All runs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) version: String,
    pub(super) chain: ChainSummary,
    pub(super) runs: [(Load, Vec<Run>); 3],
}

/// How long answers took, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Waits {
    median: f64,
    p99: f64,
    /// The 99th percentile of the client that waited longest by it, over all rounds.
    worst_p99: f64,
    longest: f64,
}

impl Waits {
    /// `None` of no answers.
    fn of(runs: &[Run]) -> Option<Self> {
        let all: Vec<f64> =
            runs.iter().flat_map(|run| run.waits.iter().flatten().copied()).collect();
        let count = runs.iter().map(|run| run.waits.len()).max()?;
        let of_client = |number: usize| {
            let waits = runs.iter().filter_map(|run| run.waits.get(number)).flatten();
            quantile(waits.copied().collect(), 0.99)
        };
        Some(Self {
            median: quantile(all.clone(), 0.5)?,
            p99: quantile(all.clone(), 0.99)?,
            worst_p99: (0..count).filter_map(of_client).max_by(f64::total_cmp)?,
            longest: quantile(all, 1.0)?,
        })
    }
}

/// The smallest number that this share of them does not exceed. `None` of nothing.
fn quantile(mut numbers: Vec<f64>, share: f64) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let rank = (numbers.len() as f64 * share).ceil() as usize;
    numbers.get(rank.max(1) - 1).copied()
}

impl Report {
    pub(super) fn write(&self, dir: &Path) -> Result<(), Failure> {
        write_json(&dir.join("rpc-load.json"), self)?;
        let text = self.markdown().expect("a String takes all that is written to it");
        write_text(&dir.join("rpc-load.md"), &text)
    }

    fn markdown(&self) -> Result<String, fmt::Error> {
        let mut out = String::from("# Clients of the RPC during a sync\n\n");
        writeln!(
            out,
            "{}.\n{}.\n\nA sync of the benchmark's chain, height {}, with every script, from one godwit on the same \
             machine, in balanced orders: without clients, and with {CLIENTS} that ask for `getblockchaininfo`, each on a \
             connection that it keeps, once a second or without a pause.\n",
            self.machine, self.version, self.chain.height
        )?;
        writeln!(
            out,
            "| clients | rounds | s | processor s of the node | of the clients | answers a second | refused | lost |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |"
        )?;
        for (load, runs) in &self.runs {
            let over = |value: fn(&Run) -> f64| Spread::text_of(runs.iter().map(value), 1);
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                name(*load),
                runs.len(),
                over(|run| run.measured.seconds),
                over(|run| run.measured.processor_seconds()),
                over(|run| run.client_seconds),
                over(|run| run.answers as f64 / run.measured.seconds),
                runs.iter().map(|run| run.refused).sum::<u64>(),
                runs.iter().map(|run| run.lost).sum::<u64>(),
            )?;
        }
        writeln!(
            out,
            "\nMedians (least–most). *Refused* are answers without a result: while the node starts (−28), and where too many \
             wait. *Lost* is a connection that ended before its answer: once each when the node ends, and again where a \
             client had connected once more to a node that was ending.\n\n\
             | clients | answers took, median ms | 99 of 100 | of the client that waited longest | longest | times without clients | \
             the clients' own time off |\n| --- | --- | --- | --- | --- | --- | --- |"
        )?;
        for (load, runs) in &self.runs[1..] {
            let waits = Waits::of(runs).map_or_else(
                || "– | – | – | –".to_owned(),
                |Waits { median, p99, worst_p99, longest }| {
                    format!("{median:.2} | {p99:.1} | {worst_p99:.1} | {longest:.1}")
                },
            );
            let interval = |value: fn(&Run, f64) -> f64| {
                self.beside_none(runs, value).map_or("too few rounds".to_owned(), times)
            };
            writeln!(
                out,
                "| {} | {waits} | {} | {} |",
                name(*load),
                interval(|run, _| run.measured.seconds),
                interval(net_seconds),
            )?;
        }
        writeln!(
            out,
            "\nTimes: the sync's time over that without clients in the same round, estimate and 95 % interval; then with the clients' own \
             processor time, shared among all processors, taken off.\n"
        )?;
        if let Some(shares) = self.others() {
            writeln!(out, "{}", verdict(shares, "a sync, the server and the clients aside"))?;
        }
        Ok(out)
    }

    /// A figure of these runs over the time without clients, round by round.
    fn beside_none(&self, runs: &[Run], value: fn(&Run, f64) -> f64) -> Option<Interval> {
        let cores = self.machine.cores as f64;
        let rounds = runs.iter().zip(&self.runs[0].1);
        let ratios = rounds.map(|(run, none)| value(run, cores) / none.measured.seconds);
        Interval::of_ratios(&ratios.collect::<Vec<_>>())
    }

    fn others(&self) -> Option<Spread> {
        let runs = self.runs.iter().flat_map(|(_, runs)| runs);
        let share = |measured: &Measured| measured.others_share(self.machine.cores);
        Spread::of(runs.map(|run| share(&run.measured)))
    }
}

/// Seconds that the sync would have taken had the clients run elsewhere, on a machine that is busy all the
/// time.
fn net_seconds(run: &Run, cores: f64) -> f64 {
    run.measured.seconds - run.client_seconds / cores
}

fn name(load: Load) -> &'static str {
    match load {
        Load::None => "none",
        Load::Paced => "one call a second each",
        Load::Unpaced => "without a pause",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: f64, waits: &[&[f64]]) -> Run {
        Run {
            measured: Measured {
                seconds,
                user_seconds: seconds,
                system_seconds: 1.0,
                peak_memory: 0,
                written: 0,
                others_seconds: 0.0,
            },
            server_seconds: 0.0,
            client_seconds: 0.4,
            waits: waits.iter().map(|waits| waits.to_vec()).collect(),
            answers: waits.iter().map(|waits| waits.len() as u64).sum(),
            refused: 1,
            lost: 2,
        }
    }

    #[test]
    fn quantiles_by_hand() {
        let numbers: Vec<f64> = (1..=200).map(f64::from).rev().collect();
        let at = |share| quantile(numbers.clone(), share);
        assert_eq!([at(0.5), at(0.99), at(1.0)], [Some(100.0), Some(198.0), Some(200.0)]);
        assert_eq!(quantile(vec![7.0], 0.99), Some(7.0));
        assert_eq!(quantile(vec![], 0.99), None);
    }

    #[test]
    fn the_client_that_waits_longest_is_not_lost_among_many() {
        let quick = vec![1.0; 1000];
        let runs = [run(20.0, &[&quick, &[90.0]]), run(20.0, &[&quick, &[80.0]])];
        let waits = Waits::of(&runs).unwrap();
        assert_eq!(
            (waits.median, waits.p99, waits.worst_p99, waits.longest),
            (1.0, 1.0, 90.0, 90.0)
        );
        assert_eq!(Waits::of(&[run(20.0, &[])]), None);
    }

    #[test]
    fn what_clients_take_themselves_is_taken_off() {
        let runs = |seconds| vec![run(seconds, &[&[2.0]]); 6];
        let mut machine = Machine::here();
        machine.cores = 2;
        let chain = crate::ibd::results::tests::results(&[[1.0; 3]]).chain;
        let all =
            [(Load::None, runs(20.0)), (Load::Paced, runs(20.6)), (Load::Unpaced, runs(30.2))];
        let report = Report { machine, version: "godwit v0".into(), chain, runs: all };
        let text = report.markdown().unwrap();
        for part in [
            "| none | 6 | 20.0 (20.0–20.0) | 21.0 (21.0–21.0) |",
            "| one call a second each | 2.00 | 2.0 | 2.0 | 2.0 | 1.03 (1.03–1.03) | 1.02 (1.02–1.02) |",
            "| without a pause | 2.00 | 2.0 | 2.0 | 2.0 | 1.51 (1.51–1.51) | 1.50 (1.50–1.50) |",
            "The machine was quiet.",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
