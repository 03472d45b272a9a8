//! Writes the cost of the memory policies in whole syncs as `bench-ibd.md`.

use std::fmt::{self, Write};
use std::path::Path;

use crate::duration::duration;
use crate::failure::Failure;
use crate::ibd::flame;
use crate::ibd::results::{CaseResults, Comparison, Results};
use crate::ibd::rotation::is_balanced;
use crate::ibd::sample::{Sample, Stages};
use crate::ibd::subject::Subject;
use crate::ibd::wipes::{CaseWipes, Wipes};
use crate::interval::Interval;
use crate::node::Node;
use crate::quiet;
use crate::report::write_change;
use crate::report_files::write_text;
use crate::spread::Spread;
use crate::targets::times;

/// What zero-after-free may cost at most, in percent, and the rounds that it takes to say so.
pub const TARGET_PERCENT: f64 = 2.0;
const TARGET_ROUNDS: usize = 10;

/// How long a run with its default options may take.
const MINUTES: f64 = 60.0;

const MIB: f64 = 1_048_576.0;

/// Writes `bench-ibd.md` into a directory.
pub fn write(dir: &Path, results: &Results, wipes: &[Wipes]) -> Result<(), Failure> {
    let text = markdown(results, wipes).expect("a String takes all that is written to it");
    write_text(&dir.join("bench-ibd.md"), &text)
}

fn markdown(results: &Results, wipes: &[Wipes]) -> Result<String, fmt::Error> {
    let mut out = String::new();
    writeln!(out, "# What wiping freed memory costs over a whole sync\n")?;
    write_head(&mut out, results)?;
    write_verdicts(&mut out, results)?;
    write_costs(&mut out, results)?;
    write_stages(&mut out, results)?;
    writeln!(out, "## Where the wiping goes\n")?;
    if wipes.is_empty() {
        writeln!(out, "Not counted.\n")?;
    }
    for wipes in wipes {
        write_wipes(&mut out, wipes)?;
    }
    write_method(&mut out, results)?;
    Ok(out)
}

fn write_head(out: &mut String, results: &Results) -> fmt::Result {
    let [ours, theirs] = &results.versions;
    writeln!(out, "{}.\n{ours}, in three builds; {theirs}.\n", results.machine)?;
    writeln!(out, "{}\n", duration(results.seconds, MINUTES))?;
    let samples = results.cases.iter().flat_map(|case| &case.rounds).flat_map(|round| &round.runs);
    let shares = samples.map(|(_, run)| run.others_share(results.machine.cores));
    let Some(shares) = Spread::of(shares) else { return Ok(()) };
    writeln!(out, "{}\n", quiet::verdict(shares, "a run, the server aside"))
}

fn write_verdicts(out: &mut String, results: &Results) -> fmt::Result {
    writeln!(
        out,
        "## The difference\n\nThe same program, built with its public data in plain memory (what ships), \
         with a compiler barrier before each free, and with a wipe before each free. Times are means \
         from start to exit in seconds. Differences are against plain in the same round, in percent, with \
         their 95 % intervals: Hodges and Lehmann's estimate over the rounds and the interval of Wilcoxon's \
         signed-rank test, exact, on the logarithms of the ratios. One run that something else disturbs \
         hardly moves them. Processor time is user and system time of the process, all threads.\n"
    )?;
    writeln!(
        out,
        "| case | -dbcache | -prune | rounds | plain s | barrier-only | zero-after-free | processor \
         time, barrier-only | processor time, zero-after-free | time of bitcoind over that of plain |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")?;
    for case in &results.cases {
        write_case_row(out, case)?;
    }
    let [barrier, zero] = both(|subject| {
        results.all.iter().find(|comparison| comparison.subject == subject).copied()
    });
    writeln!(
        out,
        "| all | | | {} | | {} | {} | {} | {} | |\n",
        results.cases.iter().map(|case| case.rounds.len()).sum::<usize>(),
        percent(barrier.and_then(|c| c.wall)),
        percent(zero.and_then(|c| c.wall)),
        percent(barrier.and_then(|c| c.processor)),
        percent(zero.and_then(|c| c.processor)),
    )?;
    writeln!(out, "![Differences with their intervals](bench-ibd.svg)\n")?;
    for case in &results.cases {
        for comparison in &case.comparisons {
            writeln!(out, "- {}", sentence(&case.case, comparison))?;
        }
    }
    for comparison in &results.all {
        writeln!(out, "- {}", sentence("all cases together", comparison))?;
    }
    writeln!(out, "\n{}\n\n{}\n", chance(results), target(results))
}

fn both<T>(of: impl Fn(Subject) -> T) -> [T; 2] {
    [Subject::BarrierOnly, Subject::ZeroAfterFree].map(of)
}

fn write_case_row(out: &mut String, case: &CaseResults) -> fmt::Result {
    let [barrier, zero] = both(|subject| case.comparison(subject));
    let ratio = match (case.bitcoind_interval, case.bitcoind) {
        (Some(interval), _) => times(interval),
        (None, Some(Spread { median, .. })) => format!("{median:.2}, too few rounds"),
        (None, None) => "not run".to_owned(),
    };
    writeln!(
        out,
        "| {} | {} MiB | {} | {} | {:.2} | {} | {} | {} | {} | {ratio} |",
        case.case,
        case.dbcache,
        case.prune.map_or("none".to_owned(), |mib| format!("{mib} MiB")),
        case.rounds.len(),
        mean(case.runs(Subject::Plain).map(|run| run.seconds)).unwrap_or_default(),
        percent(barrier.and_then(|c| c.wall)),
        percent(zero.and_then(|c| c.wall)),
        percent(barrier.and_then(|c| c.processor)),
        percent(zero.and_then(|c| c.processor)),
    )
}

fn percent(interval: Option<Interval>) -> String {
    interval.map_or_else(
        || "too few rounds".to_owned(),
        |Interval { estimate, low, high, .. }| format!("{estimate:+.2} ({low:+.2} to {high:+.2})"),
    )
}

/// Whether a difference of wall time is one.
fn sentence(place: &str, comparison: &Comparison) -> String {
    let subject = comparison.subject;
    let Some(interval) = comparison.wall else {
        return format!(
            "{place}, {subject}: fewer than six rounds distinguish no difference from chance."
        );
    };
    let verdict = match interval.is_real() {
        false => "no difference that could be distinguished from chance",
        true if interval.estimate > 0.0 => "**a real difference: it costs time**",
        true => "**a real difference: it saves time**",
    };
    format!(
        "{place}, {subject}: {} % in {} rounds: {verdict}.",
        percent(Some(interval)),
        interval.count
    )
}

/// How many intervals lie off zero, and how many would by chance.
fn chance(results: &Results) -> String {
    let comparisons = results.cases.iter().flat_map(|case| &case.comparisons);
    let walls: Vec<Interval> = comparisons.filter_map(|comparison| comparison.wall).collect();
    let real = walls.iter().filter(|interval| interval.is_real()).count();
    format!(
        "Of {} intervals of single cases {real} do not contain zero; of so many, chance alone would give {:.1}.",
        walls.len(),
        walls.len() as f64 * 0.05
    )
}

/// Whether the target is met: by all cases together, and by each.
fn target(results: &Results) -> String {
    let zero = |all: &[Comparison]| {
        let found = all.iter().find(|comparison| comparison.subject == Subject::ZeroAfterFree);
        found.and_then(|comparison| comparison.wall)
    };
    let rounds = |case: &CaseResults| case.rounds.len() >= TARGET_ROUNDS;
    let enough = results.cases.iter().all(rounds);
    let met = |wall: Option<Interval>, enough: bool| {
        let ends =
            wall.map_or("too few rounds".to_owned(), |i| format!("ends at {:+.2} %", i.high));
        match wall.is_some_and(|interval| enough && interval.high < TARGET_PERCENT) {
            true => format!("met ({ends})"),
            false => format!("**not met** ({ends})"),
        }
    };
    let cases = results
        .cases
        .iter()
        .map(|case| format!("{} {}", case.case, met(zero(&case.comparisons), rounds(case))));
    format!(
        "Target: the 95 % interval of what zero-after-free costs over a whole sync ends below {TARGET_PERCENT} \
         %, in {TARGET_ROUNDS} rounds or more of each case. All cases together: {}. Each case by itself, of \
         which less is known: {}.",
        met(zero(&results.all), enough),
        cases.collect::<Vec<_>>().join(", ")
    )
}

fn write_costs(out: &mut String, results: &Results) -> fmt::Result {
    writeln!(out, "## Costs\n\nMeans over the rounds.\n")?;
    writeln!(
        out,
        "| case | program | runs | wall s | user s | system s | peak memory MiB | written MiB | server's \
         processor s |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")?;
    for case in &results.cases {
        for subject in Subject::ALL {
            let mean_of = |value: fn(&Sample) -> f64| mean(case.runs(subject).map(value));
            let runs = case.runs(subject).count();
            let Some(wall) = mean_of(|run| run.seconds) else { continue };
            writeln!(
                out,
                "| {} | {subject} | {runs} | {wall:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {} |",
                case.case,
                mean_of(|run| run.user_seconds).unwrap_or_default(),
                mean_of(|run| run.system_seconds).unwrap_or_default(),
                mean_of(|run| run.peak_memory as f64 / MIB).unwrap_or_default(),
                mean_of(|run| run.written as f64 / MIB).unwrap_or_default(),
                mean(case.runs(subject).filter_map(|run| run.server_seconds))
                    .map_or("none".to_owned(), |seconds| format!("{seconds:.2}")),
            )?;
        }
    }
    out.write_char('\n')
}

fn write_stages(out: &mut String, results: &Results) -> fmt::Result {
    writeln!(
        out,
        "## Stages\n\nSeconds of godwit's connector thread, as its log has them (to a tenth), means over \
         the rounds.\n\n| case | program | {} |\n| --- | --- | --- | --- | --- | --- | --- | --- |",
        Stages::NAMES.join(" | ")
    )?;
    for case in &results.cases {
        for subject in Subject::POLICIES {
            let stages: Vec<_> = case.runs(subject).filter_map(|run| run.stages).collect();
            let cells = (0..Stages::NAMES.len()).map(|stage| {
                let seconds = mean(stages.iter().map(|stages| stages.values()[stage]));
                seconds.map_or_else(String::new, |seconds| format!("{seconds:.2}"))
            });
            let cells: Vec<String> = cells.collect();
            writeln!(out, "| {} | {subject} | {} |", case.case, cells.join(" | "))?;
        }
    }
    out.write_char('\n')
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0u32), |(sum, count), n| (sum + n, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn write_wipes(out: &mut String, wipes: &Wipes) -> fmt::Result {
    let how = match wipes.program {
        Node::Godwit => {
            "godwit, built with the wiping policy and a count at each wipe; one sync in each case, every \
             wipe counted with its call path."
        }
        Node::Bitcoind => {
            "Bitcoin Core: all calls of `memory_cleanse` in bitcoind, counted by a probe of the kernel \
             (`tools/count-core-wipes`)."
        }
    };
    writeln!(out, "### {}\n\n{how}", wipes.program)?;
    if wipes.every > 1 {
        writeln!(
            out,
            "Calls of 4096 bytes or more are all recorded; of smaller ones every {}th, which counts for \
             as many.",
            wipes.every
        )?;
    }
    out.write_char('\n')?;
    wipes.cases.iter().try_for_each(|case| write_paths(out, wipes.program, case))
}

fn write_paths(out: &mut String, program: Node, case: &CaseWipes) -> fmt::Result {
    let per = |count: u64, of: u64| count as f64 / of.max(1) as f64;
    writeln!(
        out,
        "**{}**: {} blocks of memory freed and wiped, {:.1} MiB; that is {:.2} for each block of the chain \
         and {:.3} wiped bytes for each of its bytes.\n\n| wiped in | frees | bytes | share |\n| --- | \
         --- | --- | --- |",
        case.case,
        case.frees,
        case.bytes as f64 / MIB,
        per(case.frees, case.blocks.into()),
        per(case.bytes, case.block_bytes),
    )?;
    for row in case.rows() {
        let share = per(row.bytes, case.bytes) * 100.0;
        let functions = row.functions.iter().map(|name| format!("`{name}`"));
        let functions = functions.collect::<Vec<_>>().join(" ← ");
        writeln!(out, "| {functions} | {} | {} | {share:.1} % |", row.frees, row.bytes)?;
    }
    let picture = flame::file_name(program, &case.case);
    writeln!(out, "\n![Flame graph of wiped bytes: {}]({picture})\n", case.case)
}

fn write_method(out: &mut String, results: &Results) -> fmt::Result {
    let chain = &results.chain;
    let balanced = |case: &CaseResults| {
        let with_bitcoind = case.runs(Subject::Bitcoind).count();
        is_balanced(case.rounds.len(), with_bitcoind)
    };
    let equally = match results.cases.iter().all(balanced) {
        true => "equally often",
        false => "as nearly equally often as so many rounds allow",
    };
    writeln!(
        out,
        "## How\n\n`make bench-ibd`. The chain is synthetic (`godwit-sim generate --plan {} --seed {}`): {} \
         blocks, the last {} of them empty, {:.1} MiB, {} coins at the end. No script runs \
         (`-assumevalid` names the last full block): there freeing memory has its largest part in the \
         time. The builds differ in one cargo feature, which chooses the allocator of all public data. \
         Within a round they run one after the other, each into an empty data directory, in orders in \
         which everybody has each place, and follows each other one, {equally} (Williams's squares). \
         bitcoind, which wipes, runs among them in some rounds only, because one run of it \
         takes longer than those of all three policies together. One run before each case is not counted. After the first round of a case everybody's \
         coins were the generator's.\n",
        chain.plan,
        chain.seed,
        chain.height,
        chain.height - chain.last_busy_height,
        chain.bytes as f64 / MIB,
        chain.txouts
    )?;
    writeln!(
        out,
        "The small cache is the pull request's setting scaled down: -dbcache=2048 held a part of mainnet's \
         coins, and this one holds a smaller part of this chain's, less than a twelfth. From a peer \
         it comes with the pull request's -prune=550, which an import, that keeps its blocks, does not have. \
         The other cases have room for all coins."
    )?;
    write_change(out, &results.change, &results.bitcoind_options)?;
    if let Some(server) = &results.server {
        let trials = server
            .trials
            .iter()
            .map(|trial| format!("{} took {:.2} s of it", trial.node, trial.server_seconds));
        writeln!(
            out,
            "\nThe peer is a {} on the loopback interface, which shares the processors with its client. It \
             was chosen because it takes less processor time for the same sync: {}.",
            server.chosen,
            trials.collect::<Vec<_>>().join(", ")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ibd::results::tests::results;
    use crate::ibd::wipes::CallPath;

    fn rounds(zero: [f64; 2], count: usize) -> Vec<[f64; 3]> {
        (0..count).map(|n| [100.0, 100.0 - (n % 2) as f64, zero[n % 2]]).collect()
    }

    #[test]
    fn the_sentence_follows_from_the_numbers() {
        for (zero, verdict) in [
            ([101.0, 101.5], "it costs time"),
            ([99.0, 98.5], "it saves time"),
            ([99.0, 101.0], "no difference that could be distinguished from chance"),
        ] {
            let text = markdown(&results(&rounds(zero, 10)), &[]).unwrap();
            let line = text.lines().find(|line| line.starts_with("- files, zero-after-free:"));
            assert!(line.unwrap().contains(verdict), "{line:?}");
        }
        let text = markdown(&results(&rounds([101.0, 101.5], 10)), &[]).unwrap();
        // barrier-only saves one percent in every other round.
        assert!(text.contains("The run took 1.5 minutes (90 s), "), "{text}");
        assert!(text.contains("Of 2 intervals of single cases 1 do not contain zero"), "{text}");
    }

    #[test]
    fn the_target_needs_rounds_and_room_below_it() {
        for (zero, count, is_met) in [
            ([101.0, 101.5], 10, true),
            ([101.0, 101.5], 9, false),
            ([102.0, 102.5], 10, false),
            ([101.0, 101.5], 1, false),
        ] {
            let text = target(&results(&rounds(zero, count)));
            assert_eq!(text.contains("together: met (ends at +1.50 %)"), is_met, "{text}");
            assert_eq!(text.contains("files met (ends at +1.50 %)."), is_met, "{text}");
        }
    }

    #[test]
    fn the_table_of_wipes() {
        let path = CallPath { frames: vec!["a::b::c".into()], frees: 20, bytes: 1 << 20 };
        let case = CaseWipes::of("files", 10, 1 << 21, vec![path]);
        let wipes = Wipes { program: Node::Godwit, every: 1, cases: vec![case] };
        let text = markdown(&results(&rounds([1.0, 1.0], 2)), &[wipes]).unwrap();
        assert!(text.contains("| `b::c` | 20 | 1048576 | 100.0 % |"), "{text}");
        assert!(
            text.contains("1.0 MiB; that is 2.00 for each block of the chain and 0.500"),
            "{text}"
        );
    }
}
