//! The four lines of the terminal and of `godwit status`.

use super::bottleneck::Bottleneck;
use super::estimate::Estimate;
use super::facts::UnvalidatedHistory;
use super::report::{SyncReport, SyncStage};

const MB: f64 = 1e6;
const GB: f64 = 1e9;
const MIB: u64 = 1 << 20;

/// A number with a comma before each third digit from the right.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The same with a tenth.
fn grouped_tenths(number: f64) -> String {
    // Saturates.
    let tenths = (number.max(0.0) * 10.0).round() as u64;
    format!("{}.{}", grouped(tenths / 10), tenths % 10)
}

/// Seconds in their two largest units.
fn time(seconds: f64) -> String {
    // Saturates.
    let seconds = seconds.max(0.0).round() as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {:02} s", seconds % 60),
        (0, _, _) => format!("{hours} h {:02} min", minutes % 60),
        _ => format!("{days} d {:02} h", hours % 24),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes >= GB => format!("{:.1} GB", bytes / GB),
        bytes => format!("{:.1} MB", bytes / MB),
    }
}

fn count(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {what}{s}", grouped(number))
}

fn how_far(report: &SyncReport) -> String {
    let (tip, best) = (grouped(report.tip.height.into()), grouped(report.best.height.into()));
    match report.stage {
        SyncStage::Connecting => format!("Looking for peers; at block {tip}."),
        SyncStage::Headers => format!("Fetching headers: {best} so far."),
        SyncStage::Synced => {
            let ago = report.unix - i64::from(report.tip.time);
            let ago = time(ago as f64);
            match report.bottleneck {
                Bottleneck::NoPeers => format!("At block {tip}, found {ago} ago; no peers."),
                _ => format!("In step with the network at block {tip}, found {ago} ago."),
            }
        }
        SyncStage::Blocks => {
            let from = report.verification.scripts_from;
            let scripts = match report.tip.height + 1 < from {
                true => format!("scripts run from block {}", grouped(from.into())),
                false => "every script runs".to_owned(),
            };
            let percent = report.share.unwrap_or_default() * 100.0;
            format!("Block {tip} of {best}, {percent:.2} % of the work; {scripts}.")
        }
    }
}

fn how_long(report: &SyncReport) -> String {
    if report.stage == SyncStage::Synced {
        return what_is_left(report);
    }
    let (left, band) = match &report.estimate {
        None => ("Time left: not known yet".to_owned(), String::new()),
        Some(Estimate { left, least, most }) => (
            format!("About {} left", time(*left)),
            format!("; between {} and {}", time(*least), time(*most)),
        ),
    };
    match report.bottleneck {
        // Nothing was measured yet.
        Bottleneck::Nothing => format!("{left}{band}."),
        bottleneck => format!("{left}, held up by {}{band}.", bottleneck.words()),
    }
}

/// Of a node that has caught up.
fn what_is_left(report: &SyncReport) -> String {
    if let Some(UnvalidatedHistory { base, validated }) = report.verification.unvalidated {
        let [base, validated] = [base, validated].map(|height| grouped(height.into()));
        return format!(
            "The history up to block {base} is still to be validated (now at {validated})."
        );
    }
    match report.bottleneck {
        Bottleneck::NoPeers => "Nobody tells of new blocks.".to_owned(),
        _ => "Nothing is left to do but to follow.".to_owned(),
    }
}

fn how_fast(report: &SyncReport) -> String {
    let risk = &report.risk;
    format!(
        "{} blocks/s, {:.2} MB/s, {}. A power cut costs {} and {}.",
        grouped_tenths(report.blocks_per_second),
        report.bytes_per_second / MB,
        count(report.peers.len() as u64, "peer"),
        count(risk.blocks.into(), "block"),
        time(risk.replay),
    )
}

fn how_much(report: &SyncReport) -> String {
    let all: u64 = report.memory.iter().map(|(_, bytes)| bytes).sum();
    let written = report.written.appended + report.written.flushed + report.written.merged;
    let repairs = report.repairs.coins + report.repairs.scrub + report.repairs.blocks;
    // What asks for somebody is first: a narrow terminal cuts the ends of lines off.
    let warnings = match report.warnings.len() {
        0 => String::new(),
        warnings => format!("{}. ", count(warnings as u64, "warning")),
    };
    let left = match report.repairs.left {
        0 => String::new(),
        left => format!("{} left. ", count(left, "damage")),
    };
    format!(
        "{warnings}{left}Memory {} of {} MiB, {} KiB locked. Written {}, {}.",
        grouped(all / MIB),
        grouped(report.other_memory.budget / MIB),
        grouped(report.other_memory.locked / 1024),
        bytes(written),
        count(repairs, "repair"),
    )
}

/// Stage, time, speed, price. No text of a peer's is in them. What matters is in the first 80 characters.
fn lines(report: &SyncReport) -> [String; 4] {
    [how_far(report), how_long(report), how_fast(report), how_much(report)]
}

impl SyncReport {
    pub fn lines(&self) -> [String; 4] {
        lines(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::facts::{MemoryFacts, Tip, Verification};
    use crate::sync::report::{Repairs, Risk};

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 977_000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "977,000", "1,234,567"]
        );
        assert_eq!([0.04, 999.96, 1_234.5].map(grouped_tenths), ["0.0", "1,000.0", "1,234.5"]);
        assert_eq!([count(1, "block"), count(0, "block")], ["1 block", "0 blocks"]);
    }

    #[test]
    fn times_are_in_two_units() {
        let shown = [0.0, 59.4, 59.6, 3_599.0, 3_600.0, 86_400.0, -5.0].map(time);
        assert_eq!(
            shown,
            ["0 s", "59 s", "1 min 00 s", "59 min 59 s", "1 h 00 min", "1 d 00 h", "0 s"]
        );
        assert!(time(f64::INFINITY).ends_with(" h"), "it saturates");
        assert_eq!([bytes(1_250_000), bytes(2_000_000_000)], ["1.2 MB", "2.0 GB"]);
    }

    #[test]
    fn a_node_in_step_says_when_the_last_block_was_found() {
        let tip = Tip { height: 300, time: 1_000 };
        let report =
            SyncReport { stage: SyncStage::Synced, tip, unix: 1_040, ..SyncReport::default() };
        let line = "In step with the network at block 300, found 40 s ago.";
        assert_eq!(report.lines()[0], line);
    }

    #[test]
    fn what_holds_a_sync_up_is_named_where_it_is_known() {
        let line = |bottleneck| {
            let stage = SyncStage::Blocks;
            SyncReport { stage, bottleneck, ..SyncReport::default() }.lines()[1].clone()
        };
        assert_eq!(line(Bottleneck::Nothing), "Time left: not known yet.");
        assert_eq!(line(Bottleneck::Peer(7)), "Time left: not known yet, held up by peer 7.");
        let rest = "Time left: not known yet, held up by the disk or other programs.";
        assert_eq!(line(Bottleneck::Disk), rest);
    }

    #[test]
    fn a_node_in_step_without_peers_says_so() {
        let tip = Tip { height: 300, time: 1_000 };
        let report = SyncReport {
            stage: SyncStage::Synced,
            bottleneck: Bottleneck::NoPeers,
            tip,
            unix: 1_040,
            ..SyncReport::default()
        };
        let [place, left, ..] = report.lines();
        assert_eq!(place, "At block 300, found 40 s ago; no peers.");
        assert_eq!(left, "Nobody tells of new blocks.");
    }

    #[test]
    fn history_below_a_snapshot_is_left_to_do() {
        let unvalidated = Some(UnvalidatedHistory { base: 840_000, validated: 12_345 });
        let verification = Verification { scripts_from: 0, unvalidated };
        let report = SyncReport { stage: SyncStage::Synced, verification, ..SyncReport::default() };
        let line = "The history up to block 840,000 is still to be validated (now at 12,345).";
        assert_eq!(report.lines()[1], line);
    }

    #[test]
    fn what_matters_of_a_large_sync_fits_into_eighty_columns() {
        const GIB: u64 = 1 << 30;
        let verification = Verification { scripts_from: 938_344, unvalidated: None };
        let report = SyncReport {
            stage: SyncStage::Blocks,
            tip: Tip { height: 938_342, time: 0 },
            best: Tip { height: 977_000, time: 0 },
            share: Some(0.9604),
            estimate: Some(Estimate { left: 45_240.0, least: 37_200.0, most: 66_600.0 }),
            bottleneck: Bottleneck::Disk,
            blocks_per_second: 1_234.5,
            bytes_per_second: 12.34e6,
            risk: Risk { blocks: 1_234, replay: 59.0, ..Risk::default() },
            repairs: Repairs { left: 2, ..Repairs::default() },
            memory: vec![("coins", 7 * GIB)],
            other_memory: MemoryFacts {
                locked: 1 << 20,
                budget: 8 * GIB,
                ..MemoryFacts::default()
            },
            warnings: vec![String::new()],
            verification,
            ..SyncReport::default()
        };
        let shown = report.lines().map(|line| line.chars().take(80).collect::<String>());
        assert_eq!(
            shown,
            [
                "Block 938,342 of 977,000, 96.04 % of the work; scripts run from block 938,344.",
                "About 12 h 34 min left, held up by the disk or other programs; between 10 h 20 m",
                "1,234.5 blocks/s, 12.34 MB/s, 0 peers. A power cut costs 1,234 blocks and 59 s.",
                "1 warning. 2 damages left. Memory 7,168 of 8,192 MiB, 1,024 KiB locked. Written ",
            ]
        );
    }
}
