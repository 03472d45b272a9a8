//! A disk that does one operation wrong without a word, or takes 30 seconds for it, in the life of a small
//! node: a sync with flushes and merges, a branch that is left and one that comes back, a clean end, two
//! power cuts. It ends with the coins of a clean sync; on the way it may give up once for a reason that names
//! the file, and go on as that says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use godwit_chain::ChainError;
use godwit_fault_disk::{Anomaly, Counted, PlannedAnomaly, Seen, Survival};
use godwit_sim::network::{Conduct, PeerPlan, View};
use godwit_sim::rng::Rng;
use godwit_store::StoreError;

use super::driver::Driver;
use super::run::{LIMIT, check, survival, tip};
use super::scenarios::{company, several};
use super::seeds::in_parallel;
use super::timed::{Delays, small_node};
use super::worlds::Stage;

/// When the peers' chain changes: to one that forks off below, and back to a longer one.
const CHANGES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];
/// When the node is told to stop: between the branches.
const STOP: Duration = Duration::from_secs(90);
/// When the power goes for the first time.
const CUT: Duration = Duration::from_secs(105);
/// What is written behind the last block.
const REST: Duration = Duration::from_secs(30);
const STALL: Duration = Duration::from_secs(30);

/// A stride in the tests of every build that meets every sort of file.
const SOME: usize = 60;

fn peers(stage: &Stage) -> Vec<PeerPlan> {
    let (best, other) = (&stage.world.best, &stage.world.stale[1]);
    let shorter = Arc::new(best.truncated(best.height() - 3));
    let view = View::constant(shorter).then(CHANGES[0], Arc::clone(other));
    let view = view.then(CHANGES[1], Arc::clone(best));
    company(several(3, &Conduct::honest(view)), 1_000_000)
}

fn finish(driver: &mut Driver) {
    let best = driver.stage.world.best.tip().hash;
    let limit = driver.crowd.now() + LIMIT;
    if !driver.run(limit, |driver| tip(driver) == best) {
        driver.fail("the best chain was not reached");
    }
    driver.run(driver.crowd.now() + REST, |_| false);
}

/// The life of a node.
fn live(planned: Option<PlannedAnomaly>, rng: &mut Rng) -> Driver {
    let stage = Stage::mixed();
    let plan = small_node(0, Delays::short());
    let mut driver = Driver::not_started(stage, plan, None, peers(stage));
    if let Some(planned) = planned {
        driver.disk.plan_anomaly(planned);
        driver.mended_by = Some(survival(rng));
    }
    let mut driver = driver.begin();
    driver.run(STOP, |_| false);
    driver.stop();
    driver.run(CUT, |_| false);
    driver.kill(survival(rng));
    driver.run(CHANGES[1], |_| false);
    finish(&mut driver);
    check(&mut driver, stage);
    // What only the page cache had right is wrong from now on.
    driver.kill(Survival::Nothing);
    finish(&mut driver);
    check(&mut driver, stage);
    let [flushes, syncs, merges] = ["flush", "sync", "merge"].map(|job| driver.executor.ended(job));
    assert!(flushes >= 5 && syncs >= 5, "{flushes} flushes, {syncs} of them synced");
    assert!(merges >= 1, "nothing was merged");
    assert!(driver.executor.ended("disconnect") >= 9, "the branches were not left");
    driver
}

/// Whether the error names the file that is damaged. The disk told of no failure.
fn names_the_file(error: &ChainError) -> bool {
    matches!(error, ChainError::DamagedBlock { .. } | ChainError::Store(StoreError::Damaged { .. }))
}

/// What became of a life: how the node gave up, if it did.
fn outcome(planned: PlannedAnomaly) -> Option<String> {
    let rng = &mut Rng::new(planned.nth ^ planned.seed << 32);
    let mut driver = live(Some(planned), rng);
    let PlannedAnomaly { counted, nth, anomaly, seen, .. } = planned;
    assert!(!driver.disk.awaits_anomaly(), "{counted:?} {nth} does not happen");
    let error = driver.gave_up.take()?;
    if !names_the_file(&error) || matches!(anomaly, Anomaly::Stall(_)) {
        driver.fail(&format!("{counted:?} {nth}: {anomaly:?} {seen:?}: {error}"));
    }
    Some(error.to_string())
}

/// Lets one operation of so many go wrong in each of some ways in turn.
fn go_wrong(counted: Counted, ways: &[(Anomaly, Seen)], every: usize) {
    let clean = live(None, &mut Rng::new(0));
    let count = clean.disk.count(counted);
    drop(clean);
    // Lives with other ends have fewer operations.
    let last = count * 9 / 10;
    let places: Vec<u64> = (1..=last).step_by(every).collect();
    let outcomes = in_parallel(0..places.len() as u64, |n| {
        let (anomaly, seen) = ways[n as usize % ways.len()];
        // Each way at other places of the stride.
        let nth = (places[n as usize] + n % every as u64).min(last);
        let planned = PlannedAnomaly { counted, nth, anomaly, seen, seed: n };
        (format!("{anomaly:?} {seen:?}"), outcome(planned))
    });
    let mut told: BTreeMap<String, [u32; 2]> = BTreeMap::new();
    for (_, (kind, gave_up)) in outcomes {
        told.entry(kind).or_default()[usize::from(gave_up.is_some())] += 1;
        if let Some(error) = gave_up {
            eprintln!("{error}");
        }
    }
    eprintln!("{counted:?}, {count} operations; went on, gave up: {told:#?}");
    // Nearly all of it is repaired while the node runs.
    for (kind, [went_on, gave_up]) in told {
        assert!(gave_up * 10 <= went_on, "{kind}: {gave_up} gave up, {went_on} went on");
    }
}

const LIES: [(Anomaly, Seen); 6] = [
    (Anomaly::FlippedBit, Seen::AtOnce),
    (Anomaly::LostWrite, Seen::AtOnce),
    (Anomaly::MisdirectedWrite, Seen::AtOnce),
    (Anomaly::FlippedBit, Seen::AfterCrash),
    (Anomaly::LostWrite, Seen::AfterCrash),
    (Anomaly::MisdirectedWrite, Seen::AfterCrash),
];

#[test]
fn c5_a_bit_that_flips_in_one_of_sixty_reads_changes_no_coin() {
    go_wrong(Counted::Reads, &[(Anomaly::FlippedBit, Seen::AtOnce)], SOME);
}

#[test]
fn c6_one_of_sixty_writes_that_is_flipped_lost_or_misdirected_changes_no_coin() {
    go_wrong(Counted::Writes, &LIES, SOME);
}

fn stall_one_of(every: usize) {
    for counted in Counted::KINDS {
        go_wrong(counted, &[(Anomaly::Stall(STALL), Seen::AtOnce)], every);
    }
}

#[test]
fn c7_one_of_two_hundred_operations_that_takes_30_seconds_holds_up_no_turn_and_costs_no_peer() {
    stall_one_of(200);
}

#[test]
#[ignore = "every operation"]
fn c5_a_bit_that_flips_in_any_read_changes_no_coin() {
    go_wrong(Counted::Reads, &[(Anomaly::FlippedBit, Seen::AtOnce)], 1);
}

#[test]
#[ignore = "every write in every way"]
fn c6_any_write_that_is_flipped_lost_or_misdirected_changes_no_coin() {
    for way in LIES {
        go_wrong(Counted::Writes, &[way], 1);
    }
}

#[test]
#[ignore = "every operation"]
fn c7_any_operation_that_takes_30_seconds_holds_up_no_turn_and_costs_no_peer() {
    stall_one_of(1);
}
