//! A disk that takes 30 seconds for a read, a write or an fsync holds up what needs it, and nothing else.
//!
//! The driver fails where a turn takes time or waits, and where a ping or a `getheaders` is not answered in
//! the turn in which it is read.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use godwit_chain::BlockMemory;
use godwit_sim::network::{Branch, Conduct, Noise, PeerPlan, View};
use godwit_sim::rng::Rng;

use super::driver::{Discovery, Driver, NodePlan};
use super::run::{BLOCK_MEMORY, check, tip};
use super::scenarios::{HOUR, company, node, several};
use super::timed::{Between, Delays, SMALL_CACHE};
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
const CHANGES: [Duration; 2] = [Duration::from_secs(40 * 3_600), Duration::from_secs(50 * 3_600)];

/// A node on a disk of which the named operations are slow.
fn synchronises_with(read: Between, write: Between, sync: Between) {
    let stage = Stage::mixed();
    let plan = NodePlan {
        workers: 2,
        block_memory: BlockMemory { waiting: 20_000, ..BLOCK_MEMORY },
        delays: Some(Delays { cpu: Between::NOTHING, read, write, sync }),
        minima: SMALL_CACHE,
        ..node(1, Discovery::Connect)
    };
    let mut driver = Driver::new(stage, plan, None, peers(stage));
    let rng = &mut Rng::new(1);
    // It ends in order between two turns at any instant, whatever its disk is busy with. (That a signal is
    // seen there is what `network_stop.rs` tests, with real processes.)
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
    assert!(refetched > 0 && undo > 0, "a path was passed by");
    assert!(driver.answered > 1_000, "{}", driver.answered);
    check(&mut driver, stage);
}

#[test]
fn reads_of_30_seconds_hold_up_no_turn() {
    synchronises_with(SLOW, Between::NOTHING, Between::NOTHING);
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
