//! Commands that are killed, or told to stop, at any moment and started again.
//!
//! A start finds again what had arrived completely and everything that a commit had named, needs no
//! option, and goes on to the same UTXO set as an import that nobody disturbed. Which moments were hit
//! is read off the log and the files that the dead process left, and printed as a table.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit::exit::Exit;
use godwit_sim::chain::cached_dat;
use godwit_sim::plan::ChainPlan;
use godwit_sim::rng::Rng;
use serde_json::Value;

use crate::node::Node;
use crate::progress::{Heights, Phase, RunLog};
use crate::records::{self, Records};
use crate::running::{Moment, Running};

/// The smallest cache, so that the final UTXO set is many times as large.
pub(crate) const CACHE_MIB: u64 = 4;

/// The final UTXO set is at least this many times the cache.
const SET_PER_CACHE: u64 = 10;

/// The longest that an import goes on after it is told to stop.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// The chain, and what an import that nobody disturbs makes of it.
pub(crate) struct Reference {
    pub(crate) path: PathBuf,
    pub(crate) blocks: u64,
    pub(crate) stats: Value,
    /// The node that made it.
    pub(crate) node: Node,
    /// Held by the test for which that node runs.
    serving: Mutex<()>,
    /// How long that import took.
    time: Duration,
    /// Size of its UTXO set on disk.
    set_bytes: u64,
    /// Its UTXO set as a snapshot.
    snapshot: PathBuf,
}

pub(crate) fn reference() -> &'static Reference {
    static REFERENCE: LazyLock<Reference> = LazyLock::new(Reference::make);
    &REFERENCE
}

/// Longer than what is verified waits for a commit (`durability/pace.rs`).
const COMMIT_INTERVAL: Duration = Duration::from_secs(22);

fn import<'a>(node: &'a Node, chain: &Path) -> Running<'a> {
    Running::start(node, &[&"import", &"-par=1", &format!("-dbcache={CACHE_MIB}"), &chain])
}

/// Expects success, and shows the log where there is none.
#[track_caller]
pub(crate) fn succeeds(node: &Node, mut running: Running<'_>) {
    let code = running.wait().code();
    assert_eq!(code, Some(Exit::Success.code().into()), "{}", node.log());
}

impl Reference {
    fn make() -> Self {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let chain = cached_dat(&ChainPlan::kills(1), &dir, |_| ()).expect("the plan is sound");
        let node = Node::new("regtest");
        let started = Instant::now();
        succeeds(&node, import(&node, &chain.path));
        let time = started.elapsed();
        let stats = node.stats();
        assert_eq!(stats["height"], chain.summary.height);
        assert_eq!(stats["txouts"], chain.summary.txouts);
        let runs = fs::read_dir(node.network_dir().join("utxo")).expect("the runs");
        let set_bytes = runs.map(|run| run.expect("a run").metadata().expect("a run").len()).sum();
        assert!(set_bytes >= (SET_PER_CACHE * CACHE_MIB) << 20, "{set_bytes} bytes");
        let snapshot = node.beside("snapshot.dat");
        node.run(&[&"utxo", &"dump", &snapshot]).expect(Exit::Success);
        let blocks = u64::from(chain.summary.height);
        let serving = Mutex::new(());
        Self { path: chain.path, blocks, stats, node, serving, time, set_bytes, snapshot }
    }

    /// To be held while its node runs: one process at a time has a data directory.
    pub(crate) fn serve_alone(&self) -> MutexGuard<'_, ()> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn headline(&self) -> String {
        let seconds = self.time.as_secs_f64();
        let (mib, times) = (self.set_bytes >> 20, self.set_bytes / (CACHE_MIB << 20));
        format!(
            "undisturbed import {seconds:.1} s, cache {CACHE_MIB} MiB, final UTXO set {mib} MiB on \
             disk ({times} times the cache)"
        )
    }
}

/// To the handle itself: libtest drops what a passing test printed.
pub(crate) fn print(text: &str) {
    io::stderr().write_all(text.as_bytes()).expect("stderr is open");
}

/// What must be there after a restart: each block that had arrived completely, and what commits
/// have named.
#[derive(Default)]
pub(crate) struct Kept {
    blocks: Records,
    undo: Records,
    heights: Heights,
    /// The last run was killed.
    killed: bool,
    /// Runs that applied blocks again after one that was killed, and were not counted yet.
    replays: usize,
}

impl Kept {
    /// Compares with what a run found, if it came so far, and takes in what it left.
    pub(crate) fn check(&mut self, log: RunLog<'_>, blocks: Records, undo: Records) {
        if let Some(loaded) = log.loaded() {
            assert_eq!(loaded.blocks, self.blocks.complete, "every complete block is found again");
            let (found, kept) = (loaded.heights, self.heights);
            assert!(found.verified >= kept.verified, "{found:?} is below {kept:?}");
            assert!(found.coins >= kept.coins, "{found:?} is below {kept:?}");
        }
        let heights = self.heights.max(log.committed());
        let replays = self.replays + usize::from(self.killed && log.starts(Phase::Replay) > 0);
        *self = Self { blocks, undo, heights, killed: false, replays };
    }
}

/// Kills by what they hit; one may hit several phases at once.
#[derive(Default)]
struct Report {
    kills: usize,
    /// Data directories that were brought to the end.
    rounds: usize,
    by_phase: BTreeMap<Phase, usize>,
    between: usize,
    /// Undo files that grew after they were seen to grow.
    growing_undo: u64,
    torn_undo: u64,
    torn_blocks: u64,
    /// Runs that applied blocks again which a killed one had connected.
    replays: usize,
}

impl Report {
    fn count(&mut self, phases: &[Phase]) {
        self.kills += 1;
        self.between += usize::from(phases.is_empty());
        for phase in phases {
            *self.by_phase.entry(*phase).or_default() += 1;
        }
    }

    fn is_complete(&self, wanted: usize) -> bool {
        self.kills >= wanted
            && self.replays > 0
            && Phase::ALL.iter().all(|phase| self.by_phase.contains_key(phase))
    }

    fn print(&self, reference: &Reference) {
        let mut text = format!("kill test: {}\n", reference.headline());
        let mut line = |name: &dyn fmt::Display, count: usize| {
            writeln!(text, "  {name:<12} {count:>4} kills").expect("a string grows");
        };
        for phase in Phase::ALL {
            line(&phase, self.by_phase.get(&phase).copied().unwrap_or(0));
        }
        line(&"none of these", self.between);
        line(&"together", self.kills);
        let Self { rounds, growing_undo, torn_undo, torn_blocks, replays, .. } = self;
        writeln!(
            text,
            "  {rounds} imports ended in the same UTXO set; {growing_undo} kills within the write of \
             an undo record; {torn_undo} torn undo records, {torn_blocks} torn blocks; {replays} runs \
             applied blocks of a killed one again"
        )
        .expect("a string grows");
        print(&text);
    }
}

/// Starts an import and kills it at `moment`; `false` when it ended by itself.
fn kill_once(
    node: &Node,
    reference: &Reference,
    moment: Moment,
    kept: &mut Kept,
    report: &mut Report,
) -> bool {
    let mut running = import(node, &reference.path);
    let killed = running.wait_for(moment) && running.kill();
    if !killed {
        let log = running.log();
        kept.check(log, records::blocks(node), records::undo_records(node));
        succeeds(node, running);
        return false;
    }
    let (blocks, undo) = (records::blocks(node), records::undo_records(node));
    // A tail that the run did not touch was torn by an earlier one.
    let torn = |now: Records, before: Records| if now == before { 0 } else { now.torn };
    let torn_undo = torn(undo, kept.undo);
    report.torn_undo += torn_undo;
    report.torn_blocks += torn(blocks, kept.blocks);
    // The kill followed the sight of growth at once, mostly just behind the write.
    let seen_growing = running.undo_growing;
    report.growing_undo += u64::from(seen_growing.is_some_and(|seen| undo.bytes > seen));
    let at_undo = torn_undo > 0 || seen_growing.is_some();
    let log = running.log();
    let is_in = |phase: &Phase| log.is_in(*phase) || *phase == Phase::Undo && at_undo;
    report.count(&Phase::ALL.into_iter().filter(is_in).collect::<Vec<_>>());
    kept.check(log, blocks, undo);
    kept.killed = true;
    true
}

/// Kills imports until one has left connected blocks whose coins are not on disk, unless the last run left
/// such: a clean end leaves none, and with the small cache a kill hardly ever. So with one that writes no
/// coins, which is held until a commit of the verified height is due. `false` when the import ended by
/// itself.
fn leave_something_to_replay(node: &Node, reference: &Reference, kept: &mut Kept) -> bool {
    while kept.heights.verified <= kept.heights.coins {
        let mut running = Running::start(node, &[&"import", &"-par=1", &reference.path]);
        let killed = running.wait_for(Moment::After(Duration::from_millis(1_500)))
            && commits_after_a_while(&mut running)
            // Until it is durable.
            && running.wait_for(Moment::After(Duration::from_millis(300)))
            && running.kill();
        kept.check(running.log(), records::blocks(node), records::undo_records(node));
        if !killed {
            succeeds(node, running);
            return false;
        }
        kept.killed = true;
    }
    true
}

/// Holds a living process until a commit is due, and waits for the commit's start; `false` when the command
/// ended before.
fn commits_after_a_while(running: &mut Running<'_>) -> bool {
    let commits = running.log().starts(Phase::Commit);
    running.hold(COMMIT_INTERVAL);
    running.wait_for(Moment::Start(Phase::Commit, commits + 1))
}

/// Lets an import go on to its end and compares what it made with the reference.
fn bring_to_the_end(node: &Node, reference: &Reference, kept: &mut Kept) {
    let mut running = import(node, &reference.path);
    running.wait();
    let (blocks, undo) = (records::blocks(node), records::undo_records(node));
    kept.check(running.log(), blocks, undo);
    succeeds(node, running);
    assert_eq!(node.stats(), reference.stats);
    let whole = |records: Records| (records.complete, records.torn) == (reference.blocks, 0);
    assert!(whole(blocks), "each block is stored once: {blocks:?}");
    assert!(whole(undo), "and so is its undo record: {undo:?}");
}

fn kill(wanted: usize, seed: u64) {
    let reference = reference();
    let mut rng = Rng::new(seed);
    let mut report = Report::default();
    // The rest is left to chance.
    let mut targets = Phase::ALL.into_iter().map(Some).chain([None; 3]).cycle();
    while !report.is_complete(wanted) {
        let Report { kills, by_phase, replays, .. } = &report;
        assert!(*kills < 3 * wanted, "never hit: {by_phase:?}, {replays} replays after a kill");
        let (node, mut kept) = (Node::new("regtest"), Kept::default());
        while !report.is_complete(wanted) {
            let target = targets.next().expect("a cycle");
            let moment = Moment::of(target, &mut rng);
            let replays = target == Some(Phase::Replay);
            if replays && !leave_something_to_replay(&node, reference, &mut kept) {
                break;
            }
            let killed = kill_once(&node, reference, moment, &mut kept, &mut report);
            report.replays += std::mem::take(&mut kept.replays);
            if !killed {
                break;
            }
        }
        bring_to_the_end(&node, reference, &mut kept);
        report.replays += std::mem::take(&mut kept.replays);
        report.rounds += 1;
    }
    report.print(reference);
}

#[test]
fn twenty_kills_lose_nothing() {
    kill(20, 1);
}

#[test]
#[ignore = "half an hour"]
fn five_hundred_kills_lose_nothing() {
    kill(500, 2);
}

/// Stops imports into one data directory until each phase was met or one ended by itself; says which. The
/// longest time that each phase took to end is added to `longest`.
fn stop_in_each_phase(
    node: &Node,
    reference: &Reference,
    kept: &mut Kept,
    rng: &mut Rng,
    longest: &mut BTreeMap<Phase, Duration>,
) -> String {
    // Three times each phase that no earlier import met, and three moments left to chance.
    let wanted = Phase::ALL.into_iter().map(Some).chain([None]).cycle().take(18);
    let met_before = longest.clone();
    for target in wanted.filter(|t| t.is_none_or(|phase| !met_before.contains_key(&phase))) {
        let moment = match Moment::of(target, rng) {
            // Before its signal handler stands, a process dies of the signal.
            Moment::After(delay) => Moment::After(delay + Duration::from_millis(500)),
            other => other,
        };
        let replays = target == Some(Phase::Replay);
        if replays && !leave_something_to_replay(node, reference, kept) {
            return format!("the import ended with nothing to apply again for {moment:?}");
        }
        let mut running = import(node, &reference.path);
        if !running.wait_for(moment) {
            return format!("the import ended before {moment:?}");
        }
        let at_undo = running.undo_growing.is_some();
        let log = running.log();
        let is_in = |phase: &Phase| log.is_in(*phase) || *phase == Phase::Undo && at_undo;
        let phases: Vec<Phase> = Phase::ALL.into_iter().filter(is_in).collect();
        let (time, status) = running.terminate();
        kept.check(running.log(), records::blocks(node), records::undo_records(node));
        if status.success() {
            // Its last blocks went faster than the signal came.
            return format!("the import ended as it was told to stop {moment:?}");
        }
        assert_eq!(status.code(), Some(Exit::Interrupted.code().into()), "{}", node.log());
        assert!(time < STOP_LIMIT, "{time:?} at {moment:?}");
        for phase in phases {
            let longest = longest.entry(phase).or_default();
            *longest = time.max(*longest);
        }
    }
    "all stops came".to_owned()
}

#[test]
fn an_import_that_is_told_to_stop_ends_soon_in_every_phase_and_goes_on() {
    let reference = reference();
    let mut rng = Rng::new(3);
    let mut longest: BTreeMap<Phase, Duration> = BTreeMap::new();
    // On a fast machine the first import ends before every phase was met.
    let mut reasons = Vec::new();
    while !Phase::ALL.iter().all(|phase| longest.contains_key(phase)) {
        assert!(reasons.len() < 5, "stopped in {:?} alone: {reasons:?}", longest.keys());
        let (node, mut kept) = (Node::new("regtest"), Kept::default());
        reasons.push(stop_in_each_phase(&node, reference, &mut kept, &mut rng, &mut longest));
        bring_to_the_end(&node, reference, &mut kept);
    }
    let mut text = format!("stop test: {}\n", reference.headline());
    for (phase, time) in longest {
        writeln!(text, "  {phase:<12} stopped within {:>4} ms", time.as_millis())
            .expect("a string grows");
    }
    print(&text);
}

#[test]
fn a_snapshot_that_is_killed_while_it_loads_leaves_everything_as_it_was() {
    let reference = reference();
    let node = Node::new("regtest");
    node.run(&[&"import", &"-stopatheight=300", &reference.path]).expect(Exit::Success);
    let before = node.stats();
    let hash = reference.stats["hash_serialized_3"].as_str().expect("a hash");
    let (hash, cache) = (format!("-utxohash={hash}"), format!("-dbcache={CACHE_MIB}"));
    let load = || Running::start(&node, &[&"utxo", &"load", &cache, &hash, &reference.snapshot]);
    let flush = |nth| Moment::Start(Phase::Flush, nth);
    // Between two flushes. Counted from the start, it would come behind the end on a fast machine.
    let random = Moment::After(Duration::from_millis(Rng::new(4).between(1, 40)));
    for moments in [vec![flush(2)], vec![flush(9)], vec![flush(16)], vec![flush(4), random]] {
        let mut running = load();
        for moment in &moments {
            assert!(running.wait_for(*moment), "{moment:?} does not come");
        }
        assert!(running.kill(), "it ended before {moments:?}");
        assert_eq!(node.stats(), before, "killed at {moments:?}");
    }
    // The first signal ends it: half a snapshot is of no use.
    let mut running = load();
    assert!(running.wait_for(Moment::Start(Phase::Flush, 5)));
    let (time, status) = running.terminate();
    assert_eq!(status.code(), Some(Exit::Interrupted.code().into()));
    assert!(time < STOP_LIMIT, "{time:?}");
    assert_eq!(node.stats(), before);

    succeeds(&node, load());
    let mut expected = reference.stats.clone();
    expected["assumed_below"] = reference.blocks.into();
    assert_eq!(node.stats(), expected);
}
