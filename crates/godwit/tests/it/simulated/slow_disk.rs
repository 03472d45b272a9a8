//! A disk that takes 30 seconds for a read, a write or an fsync holds up what needs it, and nothing else.
//!
//! The driver fails where a turn takes time or waits, and where a ping or a `getheaders` is not answered in
//! the turn in which it is read.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use godwit_chain::BlockMemory;
use godwit_sim::network::{Branch, Conduct, Noise, PeerPlan, View};
use godwit_sim::rng::Rng;

use super::driver::{Discovery, Driver, NodePlan};
use super::run::{BLOCK_MEMORY, check, tip};
use super::scenarios::{HOUR, SMALL_INBOX, company, honest, node, several};
use super::timed::{Between, Delays, DiskDelays, SMALL_CACHE};
use super::worlds::Stage;

const SLOW: Between = Between(Duration::from_secs(30), Duration::from_secs(30));

/// Honest peers whose chain changes in the middle, and some that only ask.
fn peers(stage: &Stage) -> Vec<PeerPlan> {
    let (best, other) = (&stage.world.best, &stage.world.stale[1]);
    let shorter = Arc::new(best.truncated(best.height() - 3));
    let view = View::constant(shorter).then(CHANGES[0], Arc::clone(other));
    let view = view.then(CHANGES[1], Arc::clone(best));
    let genesis = View::constant(Arc::new(Branch::genesis()));
    let asks = |noise, pause| {
        Conduct::hostile("asks", genesis.clone()).with_noise(noise, 1, Duration::from_secs(pause))
    };
    let reads = Conduct::hostile("reads", View::constant(Arc::clone(best)));
    let asking = [
        asks(Noise::Pings, 30),
        asks(Noise::GetHeadersUnread, 300),
        reads.with_noise(Noise::GetDataUnread, 1, Duration::from_secs(300)),
    ];
    company(several(3, &Conduct::honest(view)).into_iter().chain(asking), 100_000)
}

/// When the honest peers change to another chain, and back to a better one.
const CHANGES: [Duration; 2] = [Duration::from_secs(70 * 3_600), Duration::from_secs(80 * 3_600)];

fn delays(read: Between, write: Between, sync: Between) -> Delays {
    Delays { cpu: Between::NOTHING, disk: DiskDelays::Between { read, write, sync } }
}

/// A node on a disk of which the named operations are slow. Returns of how many blocks the coins were fetched
/// again, because memtables that were sealed meanwhile had to go.
fn synchronises_with(read: Between, write: Between, sync: Between) -> u64 {
    let stage = Stage::mixed();
    let plan = NodePlan {
        workers: 2,
        block_memory: BlockMemory { waiting: 20_000, ..BLOCK_MEMORY },
        delays: Some(delays(read, write, sync)),
        minima: SMALL_CACHE,
        ..node(1, Discovery::Connect)
    };
    let mut driver = Driver::new(stage, plan, None, peers(stage));
    let rng = &mut Rng::new(1);
    // It ends in order between two turns at any instant, whatever its disk is busy with. (That a signal
    // raises the flag which the turn looks at is what `network_stop.rs` tests, with real processes.)
    let mut stops = [0; 3].map(|_| Duration::from_millis(rng.between(1, 50 * 3_600_000)));
    stops.sort_unstable();
    for at in stops {
        driver.run(at, |_| false);
        assert_eq!(driver.crowd.now(), at);
        driver.stop();
    }
    let best = stage.world.best.tip().hash;
    if !driver.run(400 * HOUR, |driver| tip(driver) == best) {
        driver.fail("the best chain was not reached");
    }
    let took = driver.crowd.now();
    driver.run(took + HOUR, |_| false);
    let refetched = driver.refetched + driver.core().chain().status().refetched;
    let jobs = [
        "decode",
        "append",
        "load",
        "prefetch",
        "disconnect",
        "flush",
        "sync",
        "merge",
        "commit",
        "read",
        "save peers",
    ];
    let ended = jobs.map(|job| (job, driver.executor.ended(job)));
    let undo =
        driver.disk.contents(Path::new("/node/blocks/rev00000.dat")).map_or(0, |rev| rev.len());
    eprintln!(
        "{took:?}; {ended:?}, {refetched} fetched again, {undo} bytes of undo, {} answers",
        driver.answered
    );
    assert!(ended.iter().all(|(_, ended)| *ended > 0), "a path was passed by: {ended:?}");
    assert!(undo > 0, "a path was passed by");
    assert!(driver.answered > 1_000, "{}", driver.answered);
    check(&mut driver, stage);
    refetched
}

/// Only here is a memtable written sooner than what was read before it was sealed, so that it may have to go;
/// elsewhere what was read is brought up to the seal in time.
#[test]
fn reads_of_30_seconds_hold_up_no_turn() {
    let refetched = synchronises_with(SLOW, Between::NOTHING, Between::NOTHING);
    assert!(refetched > 0, "a path was passed by");
}

#[test]
fn writes_of_30_seconds_hold_up_no_turn() {
    synchronises_with(Between::NOTHING, SLOW, Between::NOTHING);
}

#[test]
fn fsyncs_of_30_seconds_hold_up_no_turn() {
    synchronises_with(Between::NOTHING, Between::NOTHING, SLOW);
}

#[test]
fn a_disk_of_30_seconds_holds_up_no_turn() {
    synchronises_with(SLOW, SLOW, SLOW);
}

/// A node whose peers are so much faster than its disk that the chain can mostly take no block, and the
/// queue of those that arrive is full too. Some of the peers owe it nothing and only ask.
fn overrun(journal: bool) -> Driver {
    let stage = Stage::heavy();
    let plan = NodePlan {
        workers: 2,
        block_memory: BLOCK_MEMORY,
        inbox: SMALL_INBOX,
        delays: Some(delays(SLOW, SLOW, SLOW)),
        journal,
        ..node(1, Discovery::Connect)
    };
    let start = Arc::new(stage.world.best.truncated(2));
    let asks = |name, branch, noise, pause| {
        let conduct = Conduct::hostile(name, View::constant(Arc::clone(branch)));
        conduct.with_noise(noise, 1, Duration::from_secs(pause))
    };
    let asking = [
        asks("pings", &Arc::new(Branch::genesis()), Noise::Pings, 1),
        asks("reads", &start, Noise::GetDataUnread, 60),
    ];
    let peers = several(8, &honest(stage)).into_iter().chain(asking);
    Driver::new(stage, plan, None, company(peers, 1_000_000))
}

#[test]
fn who_owes_no_block_is_read_and_answered_while_the_chain_can_take_none() {
    let stage = Stage::heavy();
    let mut driver = overrun(false);
    let best = stage.world.best.tip().hash;
    if !driver.run(400 * HOUR, |driver| tip(driver) == best) {
        driver.fail("the best chain was not reached");
    }
    let (answered, served) = (driver.answered_while_full, driver.served_while_full);
    eprintln!("{:?}: {answered} answers, {served} blocks sent", driver.crowd.now());
    // The driver fails where one of the turn's answers is missing at its end.
    assert!(answered > 100 && served > 1, "{answered} answers, {served} blocks sent");
    // A full share holds up those whose it is, and nobody else.
    assert_eq!(driver.held_back, BTreeSet::from(["honest"]));
    check(&mut driver, stage);
}

/// The ids of jobs that a node started after it was told to stop, of those that take blocks in or read
/// them. What waited is given up when its turn comes: it touches no disk.
fn intake_of_the_end(journal: &str, told_at: Duration) -> BTreeSet<&str> {
    const INTAKE: [&str; 6] = ["decode", "append", "load", "prefetch", "disconnect", "read"];
    let (end, _) = journal.split_once("the node has stopped").expect("it has");
    let mut lines = end.lines().map(|line| line.split_once(' ').expect("a time and what happened"));
    let said = lines.clone().find(|(_, what)| what.ends_with("Shutdown requested."));
    let (time, _) = said.expect("it says that it stops");
    assert_eq!(time, format!("{}.{:09}", told_at.as_secs(), told_at.subsec_nanos()));
    let mut begun = BTreeSet::new();
    for (_, what) in &mut lines {
        if let Some((name, job)) = what.strip_prefix("start ").and_then(|job| job.rsplit_once(" #"))
        {
            begun.extend(INTAKE.contains(&name).then_some(job));
        } else if let Some(operation) = what.strip_prefix("disk #") {
            let (job, _) = operation.split_once(' ').expect("a job and what it does");
            assert!(!begun.contains(job), "begun after the node was told to stop: {what}");
        }
    }
    begun
}

#[test]
fn a_node_that_is_told_to_stop_does_in_the_next_turn_and_takes_nothing_in_whatever_it_waits_for() {
    let mut driver = overrun(true);
    let journal = driver.executor.journal();
    let rng = &mut Rng::new(2);
    let mut given_up = 0;
    for _ in 0..5 {
        let next = driver.crowd.now() + Duration::from_millis(rng.between(1, 300_000));
        driver.run(next, |_| false);
        if !driver.run(next + HOUR, |driver| !driver.core().takes_blocks()) {
            driver.fail("the chain can take blocks");
        }
        journal.close();
        journal.open();
        let told_at = driver.crowd.now();
        driver.stop();
        given_up += intake_of_the_end(&journal.close(), told_at).len();
        journal.open();
        eprintln!("told at {told_at:?}, the next one begins at {:?}", driver.crowd.now());
    }
    assert!(given_up > 0, "no job waited");
}
