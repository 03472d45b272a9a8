//! A run with kills follows from its seed as well: two processes tell the same of it, byte for byte.

use std::env;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use godwit_sim::network::mix;
use godwit_sim::rng::Rng;

use super::driver::{Driver, NodePlan};
use super::run::{BLOCK_MEMORY, LIMIT, check, discovery, tip, turn};
use super::scenarios::node;
use super::seeds::in_parallel;
use super::timed::{Delays, SMALL_CACHE};
use super::worlds::Stage;

/// Tells the second process where its journals go, and the seeds.
const CHILD: &str = "GODWIT_SIM_REPLAY";
/// Lines before the first different one that are printed.
const CONTEXT: usize = 20;

/// What a run with kills has of everything: the journal would be the same in two processes if nothing were in
/// it. Messages, operations of the disk, jobs, verdicts.
const SAID: [&str; 6] = [
    "content of peer=",
    "content for peer=",
    " disk #",
    " start flush #",
    " start sync #",
    " from a peer: ",
];

/// For how long a run goes on with the best chain.
const AFTERWARDS: Duration = Duration::from_secs(10);

/// What a run with kills was.
struct Killed {
    /// Messages, timers, jobs, disk operations and verdicts up to its end.
    journal: String,
    kills: u64,
    /// Of these, those while a merge ran.
    in_merges: u64,
    /// Those while a run was synced that could be read already.
    in_syncs: u64,
    /// Those that could lose more than a minute, and did not.
    bounded: u64,
    /// Starts that died, besides.
    in_starts: u64,
    flushes: u64,
    syncs: u64,
    merges: u64,
    pushes: u64,
    took: Duration,
}

fn run_killed(seed: u64) -> Killed {
    run(seed, true)
}

fn run(seed: u64, journal: bool) -> Killed {
    let stage = Stage::of_seed(seed);
    let company = mix(seed, &stage.world);
    let rng = &mut Rng::new(seed ^ 0x6b69_6c6c);
    let discovery = discovery(rng);
    let plan = NodePlan {
        workers: rng.between(1, 4) as usize,
        max_inbound: 20,
        v2: seed % 2 == 1,
        block_memory: BLOCK_MEMORY,
        turn: turn(seed),
        delays: Some(Delays::of(rng)),
        minima: SMALL_CACHE,
        journal,
        ..node(seed, discovery)
    };
    let mut driver = Driver::new(stage, plan, company.line, company.peers);
    let kills = rng.between(1, 4);
    let kills = driver.kill_often(rng, kills);
    let best = stage.world.best.tip().hash;
    if !driver.run(LIMIT, |driver| tip(driver) == best) {
        driver.fail("the best chain was not reached");
    }
    let took = driver.crowd.now();
    driver.run(took + AFTERWARDS, |_| false);
    // It may be on its way to a branch that will turn out to be invalid.
    if !driver.run(LIMIT, |driver| tip(driver) == best) {
        driver.fail("the best chain was not reached again");
    }
    let journal = if journal { driver.executor.journal().close() } else { String::new() };
    let [flushes, syncs, merges, pushes] =
        ["flush", "sync", "merge", "push out"].map(|job| driver.executor.ended(job));
    let Driver { killed_in_merges: in_merges, killed_in_syncs: in_syncs, .. } = driver;
    let (in_starts, bounded) = (driver.killed_in_starts, driver.bounded_kills);
    check(&mut driver, stage);
    Killed {
        journal,
        kills,
        in_merges,
        in_syncs,
        bounded,
        in_starts,
        flushes,
        syncs,
        merges,
        pushes,
        took,
    }
}

/// Runs the seeds here and in another process, and compares what they tell.
fn replay(seeds: Range<u64>) {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let mut child = Command::new(env::current_exe().expect("a test binary has a path"));
    child.args(["--exact", "simulated::replay::the_other_process", "--ignored"]);
    child.env(CHILD, temp.path()).env("GODWIT_SIM_SEEDS", format!("{}-{}", seeds.start, seeds.end));
    let mut child = child.stdout(Stdio::null()).spawn().expect("a second process");
    let runs = in_parallel(seeds, run_killed);
    let status = child.wait().expect("the second process");
    say(&runs);
    assert!(status.success(), "the other process: {status}");
    for (seed, run) in &runs {
        assert!(run.kills >= 1, "seed {seed}: nobody was killed");
        assert!(run.flushes >= 5 && run.merges >= 1, "seed {seed}: {} {}", run.flushes, run.merges);
        assert!(run.syncs >= 5, "seed {seed}: {} of {} synced", run.syncs, run.flushes);
        for said in SAID {
            assert!(run.journal.contains(said), "seed {seed}: the journal has no {said:?}");
        }
        let other = fs::read_to_string(journal_path(temp.path(), *seed)).expect("its journal");
        if let Some(difference) = first_difference(&run.journal, &other) {
            panic!("seed {seed} was another run in another process\n{difference}");
        }
    }
    let sum = |of: fn(&Killed) -> u64| runs.iter().map(|(_, run)| of(run)).sum::<u64>();
    let (in_merges, in_starts) = (sum(|run| run.in_merges), sum(|run| run.in_starts));
    let in_syncs = sum(|run| run.in_syncs);
    // Where commits come often there is nothing to push out between them.
    let pushes = sum(|run| run.pushes);
    assert!(
        runs.len() < 100 || in_merges > 0 && in_syncs > 0 && in_starts > 0 && pushes > 100,
        "{in_merges} kills in merges, {in_syncs} in syncs of runs, {in_starts} in starts, bytes were pushed out \
         {pushes} times"
    );
}

fn say(runs: &[(u64, Killed)]) {
    let sum = |of: fn(&Killed) -> u64| runs.iter().map(|(_, run)| of(run)).sum::<u64>();
    let least = |of: fn(&Killed) -> u64| runs.iter().map(|(_, run)| of(run)).min().unwrap_or(0);
    eprintln!(
        "{} runs, {} s of simulated time, {} kills (at least {}), {} in merges, {} in syncs of runs, {} in lives of more than a minute, {} more in starts, {} flushes \
         (at least {}), {} merges (at least {}), {} times bytes pushed out (at least {}), {} bytes of journals",
        runs.len(),
        sum(|run| run.took.as_secs()),
        sum(|run| run.kills),
        least(|run| run.kills),
        sum(|run| run.in_merges),
        sum(|run| run.in_syncs),
        sum(|run| run.bounded),
        sum(|run| run.in_starts),
        sum(|run| run.flushes),
        least(|run| run.flushes),
        sum(|run| run.merges),
        least(|run| run.merges),
        sum(|run| run.pushes),
        least(|run| run.pushes),
        sum(|run| run.journal.len() as u64),
    );
}

fn journal_path(dir: &Path, seed: u64) -> PathBuf {
    dir.join(format!("{seed}.journal"))
}

/// The first line that differs, with those before it.
fn first_difference(one: &str, other: &str) -> Option<String> {
    if one == other {
        return None;
    }
    let (one, other): (Vec<&str>, Vec<&str>) = (one.lines().collect(), other.lines().collect());
    let same = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let before = one[same.saturating_sub(CONTEXT)..same].join("\n");
    let (here, there) = (one.get(same), other.get(same));
    Some(format!("{before}\nline {}, here:  {here:?}\nline {0}, there: {there:?}", same + 1))
}

#[test]
fn the_first_different_line_is_found() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    let found = first_difference("a\nb\nc\n", "a\nb\nd\n").expect("a difference");
    assert_eq!(found, "a\nb\nline 3, here:  Some(\"c\")\nline 3, there: Some(\"d\")");
    let found = first_difference("a\n", "a\nb\n").expect("a difference");
    assert_eq!(found, "a\nline 2, here:  None\nline 2, there: Some(\"b\")");
}

#[test]
#[ignore = "the second process of the others"]
fn the_other_process() {
    let Some(dir) = env::var_os(CHILD) else { return };
    let seeds = env::var("GODWIT_SIM_SEEDS").expect("given with the directory");
    let (start, end) = seeds.split_once('-').expect("two numbers");
    let seed = |text: &str| text.parse::<u64>().expect("a number");
    let (start, end) = (seed(start), seed(end));
    // In another order: what is in memory by then is not the same.
    in_parallel(0..end - start, |n| {
        let seed = end - 1 - n;
        let path = journal_path(Path::new(&dir), seed);
        fs::write(path, run_killed(seed).journal).expect("a temporary file");
    });
}

#[test]
fn a_hundred_runs_with_kills_are_the_same_in_two_processes() {
    match env::var("GODWIT_SIM_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("GODWIT_SIM_SEED is a number");
            replay(seed..seed + 1);
        }
        Err(_) => replay(0..100),
    }
}

#[test]
#[ignore = "soak"]
fn ten_thousand_runs_with_kills_are_the_same_in_two_processes() {
    // Two hours of processor time: one that was cut off goes on where it was.
    let from = env::var("GODWIT_SIM_FROM").map_or(100, |from| from.parse().expect("a number"));
    for start in (from..10_100).step_by(100) {
        replay(start..start + 100);
    }
}

/// The same runs without their journals, until so many cuts of power were survived.
#[test]
#[ignore = "soak"]
fn ten_thousand_power_cuts_cost_a_minute_at_most() {
    let from = env::var("GODWIT_SIM_FROM").map_or(0, |from| from.parse().expect("a number"));
    let mut cuts = 0;
    for start in (from..).step_by(200) {
        let runs = in_parallel(start..start + 200, |seed| run(seed, false));
        cuts += runs.iter().map(|(_, run)| run.kills + run.in_starts).sum::<u64>();
        eprintln!("seeds {start} to {}, {cuts} cuts by now", start + 199);
        say(&runs);
        if cuts >= 10_000 {
            break;
        }
    }
}
