//! The tables.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use godwit_fault_disk::{PoolTimes, Schedule};

use crate::{Case, Run};

/// The pool of the threads that `-par` counts.
const WORKERS: &str = "godwit-worker";

/// Waits shorter than this part of the whole are not named.
const NAMED: f64 = 0.005;

/// A case, in Markdown.
pub(crate) fn of(case: &Case, bytes: u64, runs: &[Run]) -> String {
    let mut text = format!(
        "\n## {}\n\n\
         | workers | s | s a GB | times one worker | connector works | waits | workers run | of it while the connector \
         waits | closing, s |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        case.name
    );
    let first = runs.first().map_or(0.0, |run| seconds(run.schedule.total));
    for Run { workers, schedule, closing } in runs {
        let total = seconds(schedule.total);
        let waits = seconds(schedule.waits.values().sum());
        let pool = schedule.pools.get(WORKERS).cloned().unwrap_or_default();
        let (ran, capacity) = (seconds(ran(&pool)), total * *workers as f64);
        writeln!(
            text,
            "| {workers} | {total:.2} | {:.2} | {:.2} | {:.2} s, {} | {waits:.2} s, {} | {ran:.1} s, {} | {:.1} s | {:.2} |",
            total * 1e9 / bytes as f64,
            first / total,
            total - waits,
            percent(total - waits, total),
            percent(waits, total),
            percent(ran, capacity),
            seconds(pool.ran_in_waits),
            seconds(*closing),
        )
        .expect("a string grows");
    }
    text.push_str("\nWhat the connector waited for:\n\n");
    for Run { workers, schedule, .. } in runs {
        writeln!(text, "- {workers} workers: {}", waits(schedule)).expect("a string grows");
    }
    if let Some(Run { workers, schedule, .. }) = runs.iter().find(|run| run.workers == 16) {
        text.push_str(&jobs(*workers, schedule));
    }
    text
}

fn waits(schedule: &Schedule) -> String {
    let total = seconds(schedule.total);
    let mut waits: Vec<(&str, f64)> =
        schedule.waits.iter().map(|(name, wait)| (*name, seconds(*wait))).collect();
    waits.retain(|(_, wait)| *wait >= NAMED * total);
    waits.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let waits: Vec<String> =
        waits.iter().map(|(name, wait)| format!("{name} {wait:.2} s")).collect();
    if waits.is_empty() { "nothing to speak of".to_owned() } else { waits.join(", ") }
}

/// What each kind of job took.
fn jobs(workers: usize, schedule: &Schedule) -> String {
    let mut text = format!(
        "\nJobs with {workers} workers:\n\n\
         | threads | job | jobs | ran, s | a job, ms | longest, ms | waited for a thread, ms a job |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
    );
    for (pool, PoolTimes { jobs, .. }) in &schedule.pools {
        for (name, times) in jobs {
            let each = |time: Duration| 1e3 * seconds(time) / times.jobs as f64;
            writeln!(
                text,
                "| {pool} | {name} | {} | {:.2} | {:.3} | {:.1} | {:.3} |",
                times.jobs,
                seconds(times.ran),
                each(times.ran),
                1e3 * seconds(times.longest),
                each(times.queued),
            )
            .expect("a string grows");
        }
    }
    text
}

fn ran(pool: &PoolTimes) -> Duration {
    let PoolTimes { jobs, .. } = pool;
    let jobs: &BTreeMap<_, _> = jobs;
    jobs.values().map(|times| times.ran).sum()
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn percent(part: f64, whole: f64) -> String {
    format!("{:.0} %", 100.0 * part / whole)
}
